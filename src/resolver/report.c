/* SPDX-License-Identifier: LGPL-2.1-or-later */
#define _GNU_SOURCE
#include "config.h"

#include "resolver/report.h"

#include "auth/key.h"
#include "base/text.h"
#include "resolver/backend.h"
#include "resolver/core.h"
#include "resolver/holder.h"
#include "resolver/internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

const char *ripc__resolver_id_text(const struct ripc__resolver *r, uint64_t service)
{
	const char *name = ripc__rcore_name(r->core, service);
	struct ripc__record record;

	if (!name && service & RIPC__NAME_BIT &&
	    ripc__rcore_peek(r->core, service, &record, r->now_ns) && record.name_len)
		name = record.name;
	return ripc__id_text(service, name);
}

void ripc__report_holder(const struct ripc__resolver *r, uint64_t service, const char *name,
			 const struct ripc__record *record, const struct ripc__holder *who,
			 char *text, size_t len)
{
	static const uint8_t nobody[16];
	bool known_instance = memcmp(record->instance, nobody, 16);
	const uint8_t *id = record->instance;
	char shown[RIPC__NAME_MAX + 1];
	size_t at = ripc__append(text, len, 0, "%s is held ", ripc__id_text(service, name));

	if (record->name_len && (!name || strcmp(name, record->name))) {
		ripc__name_text(record->name, shown);
		at = ripc__append(text, len, at, "%s \"%s\" ",
				  name ? "under another name with the same id," : "under the name",
				  shown);
	}
	at = ripc__append(text, len, at, "by ");
	if (known_instance)
		at = ripc__append(text, len, at, "instance %02x%02x%02x%02x", id[0], id[1], id[2],
				  id[3]);
	else
		at = ripc__append(text, len, at, "another process of this host");
	for (unsigned i = 0; r->describe && i < record->naddrs; i++) {
		const struct ripc__record_addr *a = &record->addrs[i];
		char addr[96] = "";

		r->describe(r->describe_arg, a->transport, a->addr, a->len, addr, sizeof(addr));
		if (*addr)
			at = ripc__append(text, len, at, "%s%s", i ? ", " : " on ", addr);
	}
	if (who && who->pid)
		at = ripc__append(text, len, at, ", pid %d", (int)who->pid);
	if (who && who->uid_known)
		ripc__append(text, len, at, ", uid %u", (unsigned)who->uid);
}

/*
 * A context with keys answers only requests made with one of them, and sends nothing otherwise.
 * Without a key, mention keys only if there are signs of them: messages made with one, or a holder
 * on this host that does not answer (@unanswered).
 */
static void append_keys(const struct ripc__resolver *r, bool unanswered, char *text, size_t len,
			size_t at)
{
	struct ripc__auth_counts counts;
	const uint8_t *id;

	if (!r->auth) {
		if (unanswered || r->sealed)
			ripc__append(text, len, at,
				     "; the holder may %srequire its key: set RIPC_KEY_FILE to "
				     "a copy of its key file",
				     unanswered ? "be stopped, or " : "");
		return;
	}
	id = ripc__auth_key_id(r->auth);
	at = ripc__append(text, len, at, "; only peers with key %02x%02x%02x%02x answer", id[0],
			  id[1], id[2], id[3]);
	ripc__auth_counts(r->auth, &counts);
	if (counts.unauthenticated)
		at = ripc__append(text, len, at,
				  ", %" PRIu64 " unauthenticated messages were refused",
				  counts.unauthenticated);
	if (counts.late)
		ripc__append(text, len, at, ", %" PRIu64 " of clocks that differ", counts.late);
}

void ripc__report_failure(struct ripc__resolver *r, struct ripc__resolver_event *ev)
{
	const size_t len = sizeof(ev->text);
	size_t at = ripc__append(ev->text, len, 0, "asked ");
	const char *before = "";
	bool unanswered = false;

	for (unsigned i = 0; i < r->nbackends; i++) {
		char one[200];

		unanswered |= r->backends[i]->ops->describe_attempt(r->backends[i], ev->service,
								    ev->requests, one, sizeof(one));
		if (r->local_only && r->backends[i] == r->local)
			continue;
		at = ripc__append(ev->text, len, at, "%s%s", before, one);
		before = " and ";
	}
	at = ripc__append(ev->text, len, at, ": no answer in %" PRIu32 " ms", r->timeout_ms);
	append_keys(r, unanswered, ev->text, len, at);
}

int ripc__resolver_entry(struct ripc__resolver *r, unsigned index, const char **name, char *text,
			 size_t len)
{
	struct ripc__rcore_counts counts;

	if (index < r->nbackends) {
		struct ripc__backend *b = r->backends[index];

		*name = b->ops->name;
		return b->ops->describe(b, text, len);
	}
	index -= r->nbackends;
	if (index < r->ndisabled) {
		*name = r->disabled[index].name;
		snprintf(text, len, "%s", r->disabled[index].why);
		return 0;
	}
	index -= r->ndisabled;
	if (!index) {
		ripc__rcore_counts(r->core, &counts);
		*name = "cache";
		snprintf(text, len,
			 "%zu records in %zu bytes, %zu look-ups pending or failed recently, %zu "
			 "local services; %" PRIu64 " malformed messages",
			 counts.cached, counts.cached_bytes, counts.lookups, counts.held,
			 r->bad + counts.bad);
		return 1;
	}
	if (index > 1 || !r->auth)
		return -ENOENT;
	*name = "keys";
	ripc__auth_describe(r->auth, text, len);
	return 1;
}
