/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "resolver/host_list.h"

#include "base/file.h"
#include "base/log.h"
#include "base/name.h"
#include "base/text.h"
#include "ripc.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BYTES_MAX    (8u << 20) /* the file is smaller */
#define ENTRIES_MAX  65536      /* limit of (service, host) pairs */
#define HOSTS_MAX    64         /* hosts asked for one service */
#define BLANKS       " \t\r"
#define LINES_LOGGED 16 /* invalid lines logged one by one; the others are counted */

static int by_service(const void *a, const void *b)
{
	const struct ripc__host_entry *x = a, *y = b;

	if (x->service != y->service)
		return x->service < y->service ? -1 : 1;
	return x->order < y->order ? -1 : x->order > y->order;
}

/* The number after a colon, or the default. */
static bool parse_port(const char *text, uint16_t fallback, uint16_t *port)
{
	unsigned long v;
	char *end;

	*port = fallback;
	if (!*text)
		return true;
	if (*text != ':' || text[1] < '0' || text[1] > '9')
		return false;
	v = strtoul(text + 1, &end, 10);
	*port = (uint16_t)v;
	return !*end && v >= 1 && v <= 65535;
}

/*
 * 192.0.2.1, 192.0.2.1:7475, 2001:db8::1, [2001:db8::1]:7475, fe80::1%eth0. Host names are not
 * accepted, because resolving them may block.
 */
static bool parse_host(const struct ripc__host_list *list, char *text, struct ripc__host_entry *e)
{
	char *colon = strchr(text, ':'), *close = strchr(text, ']'), *percent;
	uint16_t port;

	memset(&e->host, 0, sizeof(e->host));
	memset(e->interface, 0, sizeof(e->interface));
	if (*text == '[') {
		if (!close || !parse_port(close + 1, list->port, &port))
			return false;
		*close = 0;
		text++;
	} else if (colon && colon == strrchr(text, ':')) {
		if (!parse_port(colon, list->port, &port))
			return false;
		*colon = 0;
	} else {
		port = list->port;
	}
	if (inet_pton(AF_INET, text, &e->host.in.sin_addr) == 1) {
		e->host.in.sin_family = AF_INET;
		e->host.in.sin_port = htons(port);
		return e->host.in.sin_addr.s_addr != INADDR_ANY &&
		       !IN_MULTICAST(ntohl(e->host.in.sin_addr.s_addr));
	}
	percent = strchr(text, '%');
	if (percent) {
		*percent++ = 0;
		if (!*percent || strlen(percent) >= sizeof(e->interface))
			return false;
		strcpy(e->interface, percent);
	}
	e->host.in6.sin6_family = AF_INET6;
	e->host.in6.sin6_port = htons(port);
	return inet_pton(AF_INET6, text, &e->host.in6.sin6_addr) == 1 &&
	       !IN6_IS_ADDR_UNSPECIFIED(&e->host.in6.sin6_addr) &&
	       !IN6_IS_ADDR_MULTICAST(&e->host.in6.sin6_addr) &&
	       IN6_IS_ADDR_LINKLOCAL(&e->host.in6.sin6_addr) == (percent != NULL);
}

static bool parse_service(const char *text, uint64_t *service)
{
	size_t len = strlen(text);
	char *end;

	*service = 0;
	if (!strcmp(text, "*"))
		return true;
	/* A name in quotation marks. */
	if (len > 2 && *text == '"' && text[len - 1] == '"') {
		if (ripc__name_fault(text + 1, len - 2))
			return false;
		*service = ripc__name_id(text + 1, len - 2);
		return true;
	}
	errno = 0;
	*service = strtoull(text, &end, strncmp(text, "0x", 2) ? 10 : 16);
	return *text >= '0' && *text <= '9' && !*end && !errno && *service &&
	       *service != RIPC_ANY_ID;
}

static void bad_line(struct ripc__host_list *list, unsigned line, const char *what,
		     const char *word)
{
	char text[sizeof(list->first_bad)];

	snprintf(text, sizeof(text), "%u: %s%s%.64s", line, what, *word ? " " : "", word);
	if (!list->bad_lines)
		memcpy(list->first_bad, text, sizeof(text));
	if (list->bad_lines++ < LINES_LOGGED)
		ripc__log(RIPC_LOG_ERROR, "resolver: %s:%s; the line is ignored", list->path, text);
}

static int add_entry(struct ripc__host_list *list, const struct ripc__host_entry *e)
{
	if (list->nentries == list->room) {
		size_t room = list->room ? 2 * list->room : 16;
		struct ripc__host_entry *more = realloc(list->entries, room * sizeof(*more));

		if (!more)
			return -ENOMEM;
		list->entries = more;
		list->room = room;
	}
	list->entries[list->nentries] = *e;
	list->entries[list->nentries].order = (unsigned)list->nentries;
	list->nentries++;
	return 0;
}

/*
 * Cuts off the first word of a line, and the comment. Within quotation marks blanks and # are part
 * of the name.
 */
static char *first_word(char *text, char **rest)
{
	char *word = text + strspn(text, BLANKS), *end = word;

	if (*word == '"')
		do
			end = strchr(end + 1, '"');
		while (end && end[1] && !strchr(BLANKS "#", end[1]));
	if (!end)
		end = word;
	end += strcspn(end, BLANKS "#");
	end[strcspn(end, "#")] = 0;
	if (*end)
		*end++ = 0;
	*rest = end;
	return word;
}

static int parse_line(struct ripc__host_list *list, unsigned line, char *text)
{
	struct ripc__host_entry e = {0};
	size_t first = list->nentries;
	char *save, *rest, *word = first_word(text, &rest);

	if (!*word)
		return 0;
	if (!parse_service(word, &e.service)) {
		bad_line(list, line, "no service id:", word);
		return 0;
	}
	for (; (word = strtok_r(rest, BLANKS, &save)); rest = NULL) {
		char shown[80];

		snprintf(shown, sizeof(shown), "%s", word);
		if (!parse_host(list, word, &e)) {
			bad_line(list, line, "not the address of a host:", shown);
			list->nentries = first;
			return 0;
		}
		if (list->nentries - first == HOSTS_MAX || list->nentries == ENTRIES_MAX) {
			bad_line(list, line, "too many hosts", "");
			list->nentries = first;
			return 0;
		}
		if (add_entry(list, &e))
			return -ENOMEM;
	}
	if (list->nentries == first)
		bad_line(list, line, "a service without a host", "");
	return 0;
}

int ripc__host_list_load(struct ripc__host_list *list)
{
	struct ripc__host_list new = {.port = list->port};
	char *text = malloc(BYTES_MAX), *at = text, why[1];
	int rc = text ? ripc__file_read(list->path, false, text, BYTES_MAX, &new.seen, why,
					sizeof(why))
		      : -ENOMEM;

	strcpy(new.path, list->path);
	/* A 0 byte would hide the lines after it. */
	for (int i = 0; i < rc; i++)
		if (!text[i])
			text[i] = '?';
	rc = rc > 0 ? 0 : rc;
	for (unsigned line = 1; !rc && at; line++) {
		char *end = strchr(at, '\n');

		if (end)
			*end++ = 0;
		rc = parse_line(&new, line, at);
		at = end;
	}
	free(text);
	if (rc) {
		free(new.entries);
		return rc;
	}
	if (new.bad_lines > LINES_LOGGED)
		ripc__log(RIPC_LOG_ERROR, "resolver: %s: %u bad lines in all", list->path,
			  new.bad_lines);
	if (new.nentries)
		qsort(new.entries, new.nentries, sizeof(*new.entries), by_service);
	free(list->entries);
	*list = new;
	return 0;
}

const char *ripc__host_list_error(int rc)
{
	return rc == -EINVAL    ? "it is not a regular file"
	       : rc == -ENODATA ? "it is empty"
				: strerror(-rc);
}

void ripc__host_list_refresh(struct ripc__host_list *list)
{
	bool was_well = !list->last_error[0];
	struct stat st;
	int rc;

	rc = stat(list->path, &st) ? -errno : 0;
	if (!rc && was_well && !ripc__file_differs(&st, &list->seen))
		return;
	/* It is being written, or its disk is full. */
	if (!rc && !st.st_size)
		rc = -ENODATA;
	if (!rc)
		rc = ripc__host_list_load(list);
	if (!rc)
		return;
	snprintf(list->last_error, sizeof(list->last_error), "cannot be read: %s",
		 ripc__host_list_error(rc));
	if (was_well)
		ripc__log(RIPC_LOG_WARN, "resolver: %s %s; the previous list stays in use",
			  list->path, list->last_error);
}

unsigned ripc__host_list_find(const struct ripc__host_list *list, uint64_t service,
			      const struct ripc__host_entry **first)
{
	size_t low = 0, high = list->nentries, n;

	while (low < high) {
		size_t mid = (low + high) / 2;

		if (list->entries[mid].service < service)
			low = mid + 1;
		else
			high = mid;
	}
	for (n = 0; n < HOSTS_MAX && low + n < list->nentries; n++)
		if (list->entries[low + n].service != service)
			break;
	*first = n ? list->entries + low : NULL;
	return (unsigned)n;
}

void ripc__host_list_free(struct ripc__host_list *list)
{
	free(list->entries);
}

static int by_host(const void *a, const void *b)
{
	const struct ripc__host_entry *const *x = a, *const *y = b;

	/* Hosts are zeroed before they are filled in. */
	/* NOLINTNEXTLINE(bugprone-suspicious-memory-comparison) */
	int order = memcmp(&(*x)->host, &(*y)->host, sizeof((*x)->host));

	return order ? order : strcmp((*x)->interface, (*y)->interface);
}

size_t ripc__host_list_hosts(const struct ripc__host_list *list,
			     const struct ripc__host_entry ***hosts)
{
	const struct ripc__host_entry **sorted = calloc(list->nentries + 1, sizeof(*sorted));
	size_t n = 0;

	*hosts = sorted;
	if (!sorted)
		return 0;
	for (size_t i = 0; i < list->nentries; i++)
		sorted[i] = &list->entries[i];
	qsort(sorted, list->nentries, sizeof(*sorted), by_host);
	for (size_t i = 0; i < list->nentries; i++)
		if (!i || by_host(&sorted[n - 1], &sorted[i]))
			sorted[n++] = sorted[i];
	return n;
}

bool ripc__host_list_describe(const struct ripc__host_list *list, char *text, size_t len)
{
	size_t at = ripc__append(text, len, 0, "%s: %zu %s of services", list->path, list->nentries,
				 list->nentries == 1 ? "host" : "hosts");

	if (list->bad_lines)
		at = ripc__append(text, len, at, ", %u bad %s, the first is %s", list->bad_lines,
				  list->bad_lines == 1 ? "line" : "lines", list->first_bad);
	if (list->last_error[0])
		ripc__append(text, len, at, ", %s", list->last_error);
	return list->nentries;
}
