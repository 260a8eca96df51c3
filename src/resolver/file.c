/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The back end for networks without broadcast: a list of hosts, in a file, that are asked one by
 * one.
 *
 *	# service  hosts
 *	42         192.0.2.7
 *	43         192.0.2.8 [2001:db8::8]:7475
 *	*          192.0.2.1
 *	"camera/left" 192.0.2.9
 *
 * A service (or, with *, every service) is asked for at the hosts of its lines. Whichever context
 * of a host reads a request passes it on to the one that is meant (local.c). The file is looked at
 * again when services are looked up and it has changed.
 */
#define _GNU_SOURCE
#include "resolver/udp.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/name.h"
#include "base/options.h"
#include "base/resolver_chain.h"
#include "ripc.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define BYTES_MAX      (8u << 20) /* limit of the file's size */
#define ENTRIES_MAX    65536      /* limit of (service, host) pairs */
#define HOSTS_MAX      64         /* hosts asked for one service */
#define LIST_HOSTS_MAX 4096       /* hosts asked for all their services */
#define LINES_LOGGED   16         /* invalid lines logged one by one; the others are counted */
#define RELOAD_NS      (1000 * RIPC__MS) /* between two checks of the file */
#define INDICES_MAX    64                /* most interface indices, if interfaces are named */

enum { RECV4, SEND4, RECV6, SEND6, NSOCKS };

/* One host to ask for one service. */
struct entry {
	uint64_t service; /* 0: every service */
	unsigned order;   /* line order */
	union {
		struct sockaddr any;
		struct sockaddr_in in;
		struct sockaddr_in6 in6;
	} host;
};

struct file {
	struct ripc__backend base;
	char path[RIPC__CHAIN_ARG];
	uint16_t port;
	int socks[NSOCKS]; /* < 0: not open */
	/* names allowed; empty: all */
	char interfaces[sizeof(((struct ripc__options *)0)->interfaces)];
	struct entry *entries; /* by service */
	size_t nentries, cap;
	unsigned bad_lines;
	char first_bad[112];  /* line number and fault of the first invalid line */
	struct stat seen;     /* status of the file that was read */
	uint64_t reload_ns;   /* time of the next check */
	char last_error[160]; /* reason why the file cannot be read; the old list stays in use */
	unsigned last_asked;  /* hosts asked for the last service */
};

/* --- the list --- */

static int by_service(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;

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
 * 192.0.2.1, 192.0.2.1:7475, 2001:db8::1, [2001:db8::1]:7475. Host names are not accepted, because
 * resolving them may block.
 */
static bool parse_host(const struct file *f, char *text, struct entry *e)
{
	char *colon = strchr(text, ':'), *close = strchr(text, ']');
	uint16_t port;

	memset(&e->host, 0, sizeof(e->host));
	if (*text == '[') {
		if (!close || !parse_port(close + 1, f->port, &port))
			return false;
		*close = 0;
		text++;
	} else if (colon && colon == strrchr(text, ':')) {
		if (!parse_port(colon, f->port, &port))
			return false;
		*colon = 0;
	} else {
		port = f->port;
	}
	if (inet_pton(AF_INET, text, &e->host.in.sin_addr) == 1) {
		e->host.in.sin_family = AF_INET;
		e->host.in.sin_port = htons(port);
		return e->host.in.sin_addr.s_addr != INADDR_ANY &&
		       !IN_MULTICAST(ntohl(e->host.in.sin_addr.s_addr));
	}
	e->host.in6.sin6_family = AF_INET6;
	e->host.in6.sin6_port = htons(port);
	return inet_pton(AF_INET6, text, &e->host.in6.sin6_addr) == 1 &&
	       !IN6_IS_ADDR_UNSPECIFIED(&e->host.in6.sin6_addr) &&
	       !IN6_IS_ADDR_MULTICAST(&e->host.in6.sin6_addr) &&
	       !IN6_IS_ADDR_LINKLOCAL(&e->host.in6.sin6_addr);
}

static bool parse_service(const char *text, uint64_t *service)
{
	char *end;

	size_t len = strlen(text);

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
	*service = strtoull(text, &end, 0);
	return *text >= '0' && *text <= '9' && !*end && !errno && *service &&
	       *service != RIPC_ANY_ID;
}

/* State of the parser. */
struct reading {
	struct entry *entries;
	size_t n, cap;
	unsigned bad;
	char first_bad[sizeof(((struct file *)0)->first_bad)];
};

static void bad_line(const struct file *f, struct reading *r, unsigned line, const char *what,
		     const char *word)
{
	if (!r->bad)
		snprintf(r->first_bad, sizeof(r->first_bad), "%u: %s%s%.64s", line, what,
			 *word ? " " : "", word);
	if (r->bad++ < LINES_LOGGED)
		ripc__log(RIPC_LOG_ERROR, "resolver: %s:%u: %s%s%.64s; the line is ignored",
			  f->path, line, what, *word ? " " : "", word);
}

static int add_entry(struct reading *r, const struct entry *e)
{
	struct entry *more;

	if (r->n == r->cap) {
		more = realloc(r->entries, (r->cap ? 2 * r->cap : 16) * sizeof(*more));
		if (!more)
			return -ENOMEM;
		r->entries = more;
		r->cap = r->cap ? 2 * r->cap : 16;
	}
	r->entries[r->n] = *e;
	r->entries[r->n].order = (unsigned)r->n;
	r->n++;
	return 0;
}

static int parse_line(const struct file *f, struct reading *r, unsigned line, char *text)
{
	struct entry e = {0};
	size_t first = r->n;
	char *save, *word;

	text[strcspn(text, "#")] = 0;
	word = strtok_r(text, " \t\r", &save);
	if (!word)
		return 0;
	if (!parse_service(word, &e.service)) {
		bad_line(f, r, line, "no service id:", word);
		return 0;
	}
	while ((word = strtok_r(NULL, " \t\r", &save))) {
		char shown[80];

		snprintf(shown, sizeof(shown), "%s", word);
		if (!parse_host(f, word, &e)) {
			bad_line(f, r, line, "not the address of a host:", shown);
			r->n = first;
			return 0;
		}
		if (r->n - first == HOSTS_MAX || r->n == ENTRIES_MAX) {
			bad_line(f, r, line, "too many hosts", "");
			r->n = first;
			return 0;
		}
		if (add_entry(r, &e))
			return -ENOMEM;
	}
	if (r->n == first)
		bad_line(f, r, line, "a service without a host", "");
	return 0;
}

/* Reads the whole file. Return: its bytes with a 0 appended, or NULL with errno. */
static char *read_file(const char *path, struct stat *st)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), err = 0;
	char *text = NULL;
	size_t len = 0;
	ssize_t n;

	if (fd < 0)
		return NULL;
	if (fstat(fd, st))
		err = errno;
	else if (!S_ISREG(st->st_mode))
		err = EINVAL;
	else if (st->st_size > (off_t)BYTES_MAX)
		err = EFBIG;
	else if (!(text = malloc((size_t)st->st_size + 1)))
		err = ENOMEM;
	while (!err && len < (size_t)st->st_size &&
	       (n = read(fd, text + len, (size_t)st->st_size - len)) > 0)
		len += (size_t)n;
	close(fd);
	if (err || !text) {
		free(text);
		errno = err;
		return NULL;
	}
	text[len] = 0;
	/* A 0 byte would hide the lines after it. */
	for (size_t i = 0; i < len; i++)
		if (!text[i])
			text[i] = '?';
	return text;
}

/* Return: 0, or a negative errno: the old list stays in use. */
static int load(struct file *f)
{
	struct reading r = {0};
	struct stat st;
	char *text = read_file(f->path, &st), *at = text;
	int rc = text ? 0 : -errno;

	for (unsigned line = 1; !rc && at; line++) {
		char *end = strchr(at, '\n');

		if (end)
			*end++ = 0;
		rc = parse_line(f, &r, line, at);
		at = end;
	}
	free(text);
	if (rc) {
		free(r.entries);
		return rc;
	}
	if (r.bad > LINES_LOGGED)
		ripc__log(RIPC_LOG_ERROR, "resolver: %s: %u bad lines in all", f->path, r.bad);
	if (r.n)
		qsort(r.entries, r.n, sizeof(*r.entries), by_service);
	free(f->entries);
	f->entries = r.entries;
	f->nentries = r.n;
	f->bad_lines = r.bad;
	memcpy(f->first_bad, r.first_bad, sizeof(f->first_bad));
	f->seen = st;
	f->last_error[0] = 0;
	return 0;
}

static void file_refresh(struct ripc__backend *b, uint64_t now_ns)
{
	struct file *f = (struct file *)b;
	struct stat st;
	bool was_well = !f->last_error[0];
	int rc;

	if (now_ns < f->reload_ns)
		return;
	f->reload_ns = now_ns + RELOAD_NS;
	rc = stat(f->path, &st) ? -errno : 0;
	if (!rc && was_well && st.st_ino == f->seen.st_ino && st.st_size == f->seen.st_size &&
	    st.st_dev == f->seen.st_dev && st.st_mtim.tv_sec == f->seen.st_mtim.tv_sec &&
	    st.st_mtim.tv_nsec == f->seen.st_mtim.tv_nsec)
		return;
	if (!rc)
		rc = load(f);
	if (!rc)
		return;
	snprintf(f->last_error, sizeof(f->last_error), "cannot be read: %s", strerror(-rc));
	if (was_well)
		ripc__log(RIPC_LOG_WARN, "resolver: %s %s; the previous list stays in use", f->path,
			  f->last_error);
}

/* The index of the first entry of a service, or its insertion point. */
static size_t find(const struct file *f, uint64_t service)
{
	size_t low = 0, high = f->nentries;

	while (low < high) {
		size_t mid = (low + high) / 2;

		if (f->entries[mid].service < service)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

/* --- opening and closing --- */

static void file_close(struct ripc__backend *b)
{
	struct file *f = (struct file *)b;

	for (unsigned i = 0; i < NSOCKS; i++)
		if (f->socks[i] >= 0)
			close(f->socks[i]);
	free(f->entries);
	free(f);
}

static int open_sockets(struct file *f, const struct ripc__backend_env *env, char *why, size_t len)
{
	static const int families[] = {AF_INET, AF_INET6};
	int rc = 0, err = 0;

	for (unsigned i = 0; i < 2; i++) {
		int *receiver = &f->socks[i ? RECV6 : RECV4],
		    *sender = &f->socks[i ? SEND6 : SEND4];

		*sender = ripc__udp_socket(env, families[i], 0);
		*receiver = *sender >= 0 && env->only_udp
				    ? ripc__udp_socket(env, families[i], f->port)
				    : -1;
		rc = *sender < 0 ? *sender : env->only_udp && *receiver < 0 ? *receiver : 0;
		if (rc == -EMFILE || rc == -ENFILE || rc == -ENOMEM || rc == -ENOBUFS) {
			snprintf(why, len, "no UDP socket: %s", strerror(-rc));
			return rc;
		}
		err = rc ? rc : err;
	}
	if (f->socks[SEND4] >= 0 || f->socks[SEND6] >= 0)
		return 0;
	snprintf(why, len, "no UDP socket on port %u: %s", f->port, strerror(-err));
	/* -EACCES is reserved for the list itself. */
	return err == -EACCES ? -EPERM : err;
}

static int file_open(struct ripc__backend **b, const struct ripc__backend_env *env, char *why,
		     size_t whylen)
{
	struct file *f = calloc(1, sizeof(*f));
	int rc;

	if (!f) {
		snprintf(why, whylen, "out of memory");
		return -ENOMEM;
	}
	f->base.ops = &ripc__backend_file;
	f->port = env->opt->port;
	memcpy(f->interfaces, env->opt->interfaces, sizeof(f->interfaces));
	snprintf(f->path, sizeof(f->path), "%s", env->arg);
	for (unsigned i = 0; i < NSOCKS; i++)
		f->socks[i] = -1;
	rc = load(f);
	if (rc) {
		snprintf(why, whylen, "%.150s cannot be read: %s", f->path, strerror(-rc));
		/* A file that exists but has the wrong format is an invalid value. */
		switch (rc) {
		case -ENOENT:
		case -EACCES:
		case -EMFILE:
		case -ENFILE:
		case -ENOMEM:
			break;
		case -ENOTDIR:
			rc = -ENOENT;
			break;
		default:
			rc = -EINVAL;
		}
	} else {
		rc = open_sockets(f, env, why, whylen);
	}
	if (rc) {
		file_close(&f->base);
		return rc;
	}
	f->reload_ns = env->now_ns + RELOAD_NS;
	*b = &f->base;
	return 0;
}

/* --- datagrams --- */

/* Sends to one host, through the first allowed interface with a route if interfaces are named. */
static void send_datagram(struct file *f, const struct sockaddr *to, const uint8_t *data,
			  size_t len)
{
	union {
		char bytes[CMSG_SPACE(sizeof(struct in6_pktinfo))];
		struct cmsghdr align;
	} control;
	bool v4 = to->sa_family == AF_INET;
	struct iovec iov = {(void *)data, len};
	struct msghdr hdr = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_name = (void *)to,
			     .msg_namelen =
				     v4 ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6)};
	int fd = f->socks[v4 ? SEND4 : SEND6];
	const char *name = f->interfaces;

	if (fd < 0)
		return;
	if (!*name)
		(void)!sendmsg(fd, &hdr, MSG_NOSIGNAL);
	while (*name) {
		size_t n = strcspn(name, ",");
		char one[IF_NAMESIZE];
		struct cmsghdr *c;
		unsigned index;

		snprintf(one, sizeof(one), "%.*s", (int)n, name);
		name += n + (name[n] == ',');
		index = if_nametoindex(one);
		if (!index)
			continue;
		memset(&control, 0, sizeof(control));
		hdr.msg_control = control.bytes;
		hdr.msg_controllen = v4 ? CMSG_SPACE(sizeof(struct in_pktinfo))
					: CMSG_SPACE(sizeof(struct in6_pktinfo));
		c = CMSG_FIRSTHDR(&hdr);
		if (v4) {
			struct in_pktinfo info = {.ipi_ifindex = (int)index};

			c->cmsg_level = IPPROTO_IP;
			c->cmsg_type = IP_PKTINFO;
			c->cmsg_len = CMSG_LEN(sizeof(info));
			memcpy(CMSG_DATA(c), &info, sizeof(info));
		} else {
			struct in6_pktinfo info = {.ipi6_ifindex = index};

			c->cmsg_level = IPPROTO_IPV6;
			c->cmsg_type = IPV6_PKTINFO;
			c->cmsg_len = CMSG_LEN(sizeof(info));
			memcpy(CMSG_DATA(c), &info, sizeof(info));
		}
		if (sendmsg(fd, &hdr, MSG_NOSIGNAL) >= 0)
			return;
	}
}

static void send_to_host(struct file *f, uint64_t service, const uint8_t *data, size_t len)
{
	size_t at = find(f, service);

	for (unsigned n = 0; n < HOSTS_MAX && at < f->nentries; n++, at++) {
		if (f->entries[at].service != service)
			break;
		send_datagram(f, &f->entries[at].host.any, data, len);
		f->last_asked++;
	}
}

static void file_send(struct ripc__backend *b, const struct ripc__mcast_sender *to,
		      uint64_t service, const uint8_t *data, size_t len)
{
	struct file *f = (struct file *)b;
	struct sockaddr_storage ss = {0};

	if (to) {
		memcpy(&ss, to->bytes, to->len);
		send_datagram(f, (struct sockaddr *)&ss, data, len);
		return;
	}
	f->last_asked = 0;
	send_to_host(f, service, data, len);
	send_to_host(f, 0, data, len);
}

static int by_host(const void *a, const void *b)
{
	const struct entry *const *x = a, *const *y = b;

	/* Hosts are zeroed before they are filled in. */
	/* NOLINTNEXTLINE(bugprone-suspicious-memory-comparison) */
	return memcmp(&(*x)->host, &(*y)->host, sizeof((*x)->host));
}

/* Asks every host of the file once. */
static void file_list(struct ripc__backend *b, const uint8_t *data, size_t len)
{
	struct file *f = (struct file *)b;
	const struct entry **sorted = calloc(f->nentries + 1, sizeof(*sorted));
	unsigned asked = 0;

	if (!sorted)
		return;
	for (size_t i = 0; i < f->nentries; i++)
		sorted[i] = &f->entries[i];
	qsort(sorted, f->nentries, sizeof(*sorted), by_host);
	for (size_t i = 0; i < f->nentries && asked < LIST_HOSTS_MAX; i++) {
		if (i && !by_host(&sorted[i - 1], &sorted[i]))
			continue;
		send_datagram(f, &sorted[i]->host.any, data, len);
		asked++;
	}
	free(sorted);
}

static bool index_allowed(const struct file *f, unsigned index)
{
	char name[IF_NAMESIZE];

	/* A datagram from this host to any of its addresses arrives on the loopback. */
	return !*f->interfaces ||
	       (if_indextoname(index, name) &&
		(!strcmp(name, "lo") || ripc__list_index(f->interfaces, name) >= 0));
}

static int file_recv(struct ripc__backend *b, int fd, struct ripc__mcast_sender *from, uint8_t *buf,
		     size_t cap)
{
	struct file *f = (struct file *)b;
	unsigned ifindex = 0;
	int n = ripc__udp_recv(fd, from, buf, cap, &ifindex);

	if (n == -EAGAIN)
		return n;
	if (!index_allowed(f, ifindex))
		return -ENOMSG;
	from->direct = from->direct && (fd == f->socks[RECV4] || fd == f->socks[RECV6]);
	from->reusable = true;
	return n < 0 || (size_t)n > cap ? -EBADMSG : n;
}

static bool file_remote(const struct ripc__backend *b)
{
	return true;
}

static bool file_describe_attempt(struct ripc__backend *b, uint64_t service, unsigned requests,
				  char *text, size_t len)
{
	const struct file *f = (const struct file *)b;

	snprintf(text, len, "file (%u %s of %.100s)", f->last_asked,
		 f->last_asked == 1 ? "host" : "hosts", f->path);
	return false;
}

static bool file_describe(const struct ripc__backend *b, char *text, size_t len)
{
	const struct file *f = (const struct file *)b;
	int n = snprintf(text, len, "%s: %zu %s of services", f->path, f->nentries,
			 f->nentries == 1 ? "host" : "hosts");

	if (f->bad_lines && n > 0 && (size_t)n < len)
		n += snprintf(text + n, len - (size_t)n, ", %u bad %s, the first is %s",
			      f->bad_lines, f->bad_lines == 1 ? "line" : "lines", f->first_bad);
	if (f->last_error[0] && n > 0 && (size_t)n < len)
		snprintf(text + n, len - (size_t)n, ", %s", f->last_error);
	return f->nentries;
}

static void file_forked(struct ripc__backend *b)
{
	struct file *f = (struct file *)b;

	for (unsigned i = 0; i < NSOCKS; i++)
		if (f->socks[i] >= 0)
			close(f->socks[i]);
}

const struct ripc__backend_ops ripc__backend_file = {
	.name = "file",
	.inet = true,
	.open = file_open,
	.close = file_close,
	.send = file_send,
	.list = file_list,
	.recv = file_recv,
	.refresh = file_refresh,
	.remote = file_remote,
	.describe_attempt = file_describe_attempt,
	.describe = file_describe,
	.forked = file_forked,
};
