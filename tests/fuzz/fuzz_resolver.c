/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The resolver core: calls, datagrams and time in any order. The input is a list of steps: a byte
 * that selects the step, a byte for the service, a byte of argument, and for datagrams their
 * fields.
 */
#include "base/clock.h"
#include "fuzz.h"
#include "resolver/cache.h"
#include "resolver/core.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { SERVICES = 8 };

enum step {
	REGISTER,
	UNREGISTER,
	LOOKUP,
	FORGET,
	FIND,
	INVALIDATE,
	ADVANCE,
	RAW,
	MESSAGE,
	EVENTS,
	FAREWELL,
	NAME,
	LIST,
	STEPS
};

struct run {
	const uint8_t *data;
	size_t size, at;
	struct ripc__rcore *core;
	uint8_t instance[16];
	uint64_t now_ns;
	uint64_t nonce; /* of the last datagram sent to all */
};

static uint8_t take(struct run *r)
{
	return r->at < r->size ? r->data[r->at++] : 0;
}

static void check(bool ok)
{
	if (!ok)
		abort();
}

static void sent(void *arg, const struct ripc__backend_addr *to, uint64_t service,
		 const uint8_t *data, size_t len)
{
	struct run *r = arg;
	struct ripc__resolver_msg msg;
	const char *why;

	check(!ripc__resolver_msg_decode(&msg, data, len, &why));
	check(msg.service == service);
	/*
	 * Only what settles a dispute of others, and the answer where a service of ours has moved
	 * to, is not about ourselves.
	 */
	check(!memcmp(msg.record.instance, r->instance, 16) ||
	      (msg.kind == RIPC__RESOLVE_REPLY && !msg.flags && (to || !msg.nonce)));
	if (!to)
		r->nonce = msg.nonce;
}

static void listed(void *arg, const struct ripc__record *record)
{
	check(record->service && strlen(record->name) == record->name_len);
}

static void input(struct run *r, const uint8_t *data, size_t len)
{
	struct ripc__backend_addr from = {.len = 1, .reusable = true};
	const char *why = NULL;

	check(!ripc__rcore_input(r->core, &from, data, len, r->now_ns, &why) || why);
}

/* A LIST, or a LISTED with up to seven services. */
static void list_message(struct run *r, uint64_t service, uint8_t arg, uint8_t who, uint8_t more)
{
	struct ripc__resolver_msg msg = {
		.kind = arg & 0x10 ? RIPC__RESOLVE_LIST : RIPC__RESOLVE_LISTED, .service = service};
	uint8_t buf[RIPC__RESOLVER_MSG_MAX], entries[7 * RIPC__LISTED_BYTES_MAX];
	int len;

	msg.nonce = arg & 8 && r->nonce ? r->nonce : more + 1u;
	memcpy(msg.record.instance, r->instance, 16);
	msg.record.instance[0] = who & 7;
	msg.listed = entries;
	for (unsigned i = 0; i < (more & 7u); i++) {
		struct ripc__record listed = {.service = service + i, .generation = who};

		if (who & 8) {
			strcpy(listed.name, "camera/left");
			listed.name_len = (uint8_t)strlen(listed.name);
		}
		msg.listed_len += (size_t)ripc__listed_encode(&listed, entries + msg.listed_len,
							      RIPC__LISTED_BYTES_MAX);
	}
	if (msg.kind == RIPC__RESOLVE_LISTED && msg.listed_len && arg & 0x20)
		msg.flags = RIPC__RESOLVE_MORE;
	len = ripc__resolver_msg_encode(&msg, buf, sizeof(buf));
	check(len > 0);
	input(r, buf, (size_t)len);
}

/* A datagram that is well formed, from one of a few contexts, the core itself among them. */
static void message(struct run *r, uint64_t service, uint8_t arg)
{
	struct ripc__resolver_msg msg = {.kind = RIPC__RESOLVE_REQUEST + (arg & 3),
					 .service = service};
	uint8_t buf[RIPC__RESOLVER_MSG_MAX], who = take(r), what = take(r), more = take(r);
	int len;

	if (msg.kind == RIPC__RESOLVE_REPLY)
		msg.flags = arg >> 2 & RIPC__RESOLVE_VERDICT;
	msg.nonce = arg & 8 ? r->nonce : more;
	/* Half of the farewells are lists instead. */
	if (msg.kind == RIPC__RESOLVE_GONE && arg & 4) {
		list_message(r, service, arg, who, more);
		return;
	}
	msg.record.service = msg.kind == RIPC__RESOLVE_REQUEST ? what % (SERVICES + 1) : service;
	memcpy(msg.record.instance, r->instance, 16);
	msg.record.instance[0] = who & 7;
	msg.record.generation = arg >> 4 & 3;
	msg.record.ttl_ms = (uint32_t)more << (what & 15);
	msg.record.since_ms = (uint32_t)what << (more & 15);
	msg.record.naddrs = who >> 3 & 3;
	for (unsigned i = 0; i < msg.record.naddrs; i++) {
		msg.record.addrs[i].transport = (uint8_t)i;
		msg.record.addrs[i].len = more;
	}
	if (what & 0x80 && msg.record.service) {
		strcpy(msg.record.name, what & 0x40 ? "camera/left" : "camera/right");
		msg.record.name_len = (uint8_t)strlen(msg.record.name);
	}
	len = ripc__resolver_msg_encode(&msg, buf, sizeof(buf));
	check(len > 0);
	input(r, buf, (size_t)len);
}

static void raw(struct run *r, size_t len)
{
	if (len > r->size - r->at)
		len = r->size - r->at;
	input(r, r->data + r->at, len);
	r->at += len;
}

static void find(struct run *r, uint64_t service, bool invalidate)
{
	struct ripc__record record;

	if (!ripc__rcore_peek(r->core, service, &record, r->now_ns))
		return;
	check(record.service == service && record.naddrs <= RIPC__RECORD_ADDRS_MAX);
	if (!memcmp(record.instance, r->instance, 16))
		check(ripc__rcore_holds(r->core, service));
	if (invalidate)
		ripc__rcore_invalidate(r->core, service, record.instance, r->now_ns);
}

static void events(struct run *r, unsigned max)
{
	struct ripc__resolver_event ev;

	while (max-- && ripc__rcore_event(r->core, &ev, r->now_ns)) {
		check(ev.kind >= RIPC__RESOLVED && ev.kind <= RIPC__GONE && ev.service);
		if (ev.kind == RIPC__RESOLVED || ev.kind == RIPC__GONE)
			check(ev.record.service == ev.service);
	}
}

static void step(struct run *r)
{
	enum step step = take(r) % STEPS;
	uint64_t service = 1 + take(r) % SERVICES;
	uint8_t arg = take(r);
	bool held = ripc__rcore_holds(r->core, service);
	int rc;

	switch (step) {
	case REGISTER:
		rc = ripc__rcore_register(r->core, service, NULL,
					  arg & 1 ? RIPC__REGISTER : RIPC__REGISTER_LOCAL,
					  r->now_ns);
		check(rc == (held ? -EADDRINUSE : 0));
		break;
	case NAME:
		rc = ripc__rcore_register(r->core, service,
					  arg & 4 ? "camera/left" : "camera/right",
					  arg & 1   ? RIPC__REGISTER_TAKE
					  : arg & 2 ? RIPC__REGISTER
						    : RIPC__REGISTER_LOCAL,
					  r->now_ns);
		check(rc == (held ? -EADDRINUSE : 0));
		check(ripc__rcore_holds(r->core, service));
		break;
	case LIST:
		if (arg & 1)
			ripc__rcore_list_begin(r->core, r->now_ns);
		else
			ripc__rcore_list_end(r->core);
		break;
	case UNREGISTER:
		ripc__rcore_unregister(r->core, service, r->now_ns);
		check(!ripc__rcore_holds(r->core, service));
		break;
	case LOOKUP:
		check(!ripc__rcore_lookup(r->core, service, r->now_ns));
		break;
	case FORGET:
		ripc__rcore_lookup_cancel(r->core, service);
		break;
	case FIND:
	case INVALIDATE:
		find(r, service, step == INVALIDATE);
		break;
	case ADVANCE:
		r->now_ns += (uint64_t)arg * arg * RIPC__MS;
		ripc__rcore_advance(r->core, r->now_ns);
		check(!ripc__rcore_deadline(r->core) || ripc__rcore_deadline(r->core) > r->now_ns);
		break;
	case RAW:
		raw(r, arg);
		break;
	case MESSAGE:
		message(r, service, arg);
		break;
	case EVENTS:
		events(r, arg);
		break;
	default:
		ripc__rcore_send_gone(r->core, r->now_ns);
		break;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct run r = {.data = data,
			.size = size,
			.instance = {3, 1, 4, 1, 5, 9, 2, 6, 5},
			.now_ns = RIPC__MS};
	struct ripc__record_addr addr = {.transport = 1, .len = 4, .addr = {127, 0, 0, 1}};
	struct ripc__rcore_env env = {.addrs = &addr,
				      .naddrs = 1,
				      .resolve_timeout_ms = 1000,
				      .negative_ms = size & 1 ? 100 : 0,
				      .send = sent,
				      .listed = listed,
				      .arg = &r};
	struct ripc__rcore_counts counts;

	memcpy(env.instance, r.instance, 16);
	check(!ripc__rcore_new(&r.core, &env));
	while (r.at < r.size) {
		step(&r);
		ripc__rcore_counts(r.core, &counts);
		check(counts.held <= SERVICES && counts.lookups <= SERVICES + 256);
		check(counts.cached <= SERVICES + 512);
		check(counts.cached_bytes <= RIPC__CACHE_BYTES_MAX);
	}
	/* In the end every pending operation and every look-up has its event. */
	events(&r, 10000);
	for (unsigned i = 0; i < 3; i++) {
		r.now_ns += 2000 * RIPC__MS;
		ripc__rcore_advance(r.core, r.now_ns);
		events(&r, 10000);
	}
	check(ripc__rcore_deadline(r.core) > r.now_ns);
	ripc__rcore_free(r.core);
	return 0;
}
