/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "resolver/state.h"

#include "base/clock.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* time after an answer in which a second, different answer is a conflict */
#define DUPLICATE_NS (1000 * RIPC__MS)
#define REFRESH_MS   4000 /* between two refreshes of a record, while its holder does not answer */
#define RX_RATE_NS   (10000 * RIPC__MS) /* period over which received messages are counted */
/* between broadcast answers, so that forged claims cause few messages */
#define ASSERT_INTERVAL_NS (10 * RIPC__MS)

/* --- look-ups --- */

static void cached_due(struct ripc__rcore *core, struct ripc__timer *timer, uint64_t now_ns)
{
	struct ripc__cached *c = ripc__list_entry(timer, struct ripc__cached, timer);

	if (now_ns < c->expires_ns) {
		uint64_t next_ns =
			c->watched ? now_ns + ripc__rcore_jitter_ns(core, REFRESH_MS) : RIPC__NEVER;

		ripc__timers_set(&core->timers, &c->timer, MIN(next_ns, c->expires_ns));
		/* A refresh must not evict waiting look-ups. */
		if (c->watched && !ripc__lookup_find(core, c->node.id) &&
		    core->lookups.count < RIPC__LOOKUPS_MAX / 2)
			(void)ripc__lookup_start(core, c->node.id, true, now_ns);
	} else if (c->pending.events) {
		/* Freed when its event is taken. */
		ripc__timers_set(&core->timers, &c->timer, now_ns + 100 * RIPC__MS);
	} else {
		ripc__cache_remove(&core->cache, c);
	}
}

void ripc__rcore_invalidate(struct ripc__rcore *core, uint64_t service, const uint8_t instance[16],
			    uint64_t now_ns)
{
	struct ripc__cached *c = ripc__cache_find(&core->cache, service);
	struct ripc__lookup *l = ripc__lookup_find(core, service);

	if (!c || memcmp(ripc__cache_instance(c), instance, 16))
		return;
	/* RESOLVED with this record is still pending: find a better record first. */
	if (c->pending.events && l)
		l->refresh = false;
	else if (c->pending.events && ripc__lookup_start(core, service, false, now_ns))
		return;
	ripc__cache_remove(&core->cache, c);
}

void ripc__rcore_forget(struct ripc__rcore *core, uint64_t service)
{
	struct ripc__cached *c = ripc__cache_find(&core->cache, service);

	if (c && !c->watched && !c->moved && !c->pending.events)
		ripc__cache_remove(&core->cache, c);
}

bool ripc__rcore_peek(struct ripc__rcore *core, uint64_t service, struct ripc__record *record,
		      uint64_t now_ns)
{
	struct ripc__claim *h = ripc__claim_find(core, service);
	struct ripc__cached *c = ripc__cache_find(&core->cache, service);

	if (h && h->state == HELD)
		ripc__rcore_own_record(core, h, now_ns, record);
	else if (c)
		ripc__cache_record(c, record, now_ns);
	else
		return false;
	return true;
}

/* --- receiving --- */

/* Answers a request for a service that this context held before with the new location. */
static void redirect(struct ripc__rcore *core, const struct ripc__backend_addr *from,
		     const struct ripc__resolver_msg *msg, uint64_t now_ns)
{
	struct ripc__resolver_msg answer = {
		.kind = RIPC__RESOLVE_REPLY, .service = msg->service, .nonce = msg->nonce};
	struct ripc__cached *c = ripc__cache_find(&core->cache, msg->service);

	if (!c || !c->moved || c->expires_ns <= now_ns ||
	    !memcmp(ripc__cache_instance(c), msg->record.instance, 16))
		return;
	ripc__cache_record(c, &answer.record, now_ns);
	ripc__rcore_send(core, from, &answer);
}

/*
 * Another context registers the service or has it: the one known to this context may be dead. If it
 * is not, it answers for itself.
 */
static void end_redirect(struct ripc__rcore *core, uint64_t service)
{
	struct ripc__cached *c = ripc__cache_find(&core->cache, service);

	if (c)
		c->moved = false;
}

static void input_request(struct ripc__rcore *core, const struct ripc__backend_addr *from,
			  const struct ripc__resolver_msg *msg, uint64_t now_ns)
{
	struct ripc__claim *h =
		msg->record.service ? ripc__claim_find(core, msg->record.service) : NULL;
	enum ripc__verdict verdict = RIPC__VERDICT_DEFER;
	struct ripc__cached *c;
	bool was_ours = false;

	if (h && h->state <= HELD) {
		was_ours = h->state == HELD;
		verdict = ripc__claim_resolve_conflict(core, h, &msg->record, false, false, now_ns);
		if (verdict == RIPC__VERDICT_LOSE)
			ripc__claim_lost(core, h, &msg->record, now_ns);
		else
			ripc__claim_send(core, from, h, RIPC__RESOLVE_REPLY,
					 verdict == RIPC__VERDICT_KEEP ? RIPC__RESOLVE_VERDICT : 0,
					 ripc__dispute_nonce(msg->record.instance), now_ns);
	}
	if (msg->record.service && (!h || h->state > HELD)) {
		c = ripc__cache_store(&core->cache, &msg->record, true, now_ns);
		if (c && was_ours)
			c->moved = true;
		if (c)
			ripc__lookup_complete(core, c);
		else
			end_redirect(core, msg->record.service);
	}
	if (msg->record.service != msg->service)
		redirect(core, from, msg, now_ns);
	h = msg->record.service == msg->service ? NULL : ripc__claim_find(core, msg->service);
	if (h && h->state == HELD) {
		ripc__claim_send(core, from, h, RIPC__RESOLVE_REPLY, 0, msg->nonce, now_ns);
		ripc__claim_requested(core, h, now_ns);
	}
}

static void input_probe(struct ripc__rcore *core, const struct ripc__backend_addr *from,
			const struct ripc__resolver_msg *msg, uint64_t now_ns)
{
	struct ripc__claim *h = ripc__claim_find(core, msg->service);

	if (!h || h->state > HELD) {
		end_redirect(core, msg->service);
		return;
	}
	if (h->state == HELD)
		ripc__claim_send(core, from, h, RIPC__RESOLVE_REPLY, 0, msg->nonce, now_ns);
	else if (memcmp(msg->record.instance, core->env.instance, 16) < 0)
		ripc__claim_lost(core, h, &msg->record, now_ns);
	else
		ripc__claim_send(core, from, h, RIPC__RESOLVE_PROBE, 0, h->nonce, now_ns);
}

/* Broadcasts the record that decides a conflict, with a rate limit. */
static void assert_to_all(struct ripc__rcore *core, const struct ripc__resolver_msg *msg,
			  uint64_t now_ns)
{
	if (now_ns < core->assert_ns)
		return;
	core->assert_ns = now_ns + ASSERT_INTERVAL_NS;
	ripc__rcore_send(core, NULL, msg);
}

/*
 * A second answer to one request names another holder; neither knows of the other. Keeps the record
 * that its holder has confirmed later, as the other one may be from redirect(), and sends the other
 * to all, so that its rival learns of it.
 */
static void duplicate(struct ripc__rcore *core, struct ripc__cached *c,
		      const struct ripc__record *other, uint64_t now_ns)
{
	struct ripc__resolver_msg msg = {.kind = RIPC__RESOLVE_REPLY, .service = other->service};
	int order;

	ripc__cache_record(c, &msg.record, now_ns);
	if (ripc__cache_fresher(c, other, now_ns))
		order = -1;
	else if (msg.record.ttl_ms > other->ttl_ms + RIPC__CACHE_FRESHER_MS)
		order = 1;
	else if (msg.record.generation != other->generation)
		order = msg.record.generation > other->generation ? 1 : -1;
	else if (msg.record.since_ms != other->since_ms)
		order = msg.record.since_ms > other->since_ms ? 1 : -1;
	else
		order = -memcmp(msg.record.instance, other->instance, 16);
	if (order < 0)
		(void)ripc__cache_store(&core->cache, other, false, now_ns);
	else
		msg.record = *other;
	msg.record.ttl_ms = RIPC__TTL_MS;
	assert_to_all(core, &msg, now_ns);
}

static void input_reply(struct ripc__rcore *core, const struct ripc__backend_addr *from,
			const struct ripc__resolver_msg *msg, uint64_t now_ns)
{
	struct ripc__lookup *l = ripc__lookup_find(core, msg->service);
	struct ripc__claim *h = ripc__claim_find(core, msg->service);
	struct ripc__cached *c = ripc__cache_find(&core->cache, msg->service);
	bool answer = l && !l->negative && l->nonce == msg->nonce;
	bool to_us = msg->nonce == ripc__dispute_nonce(core->env.instance);
	bool decided = to_us && msg->flags & RIPC__RESOLVE_VERDICT;

	if (h && h->state == HELD) {
		enum ripc__verdict verdict = ripc__claim_resolve_conflict(
			core, h, &msg->record, decided, from->final, now_ns);
		/*
		 * Not a REQUEST: a context without services has nothing to learn from a conflict.
		 */
		struct ripc__resolver_msg mine = {
			.kind = RIPC__RESOLVE_REPLY,
			.flags = verdict == RIPC__VERDICT_KEEP ? RIPC__RESOLVE_VERDICT : 0,
			.service = msg->service,
			.nonce = ripc__dispute_nonce(msg->record.instance),
		};

		/*
		 * From redirect() or duplicate(), or of a dispute with a third holder: a dead
		 * holder must not win.
		 */
		if (verdict == RIPC__VERDICT_LOSE && !to_us && !from->final &&
		    msg->nonce != h->nonce)
			verdict = RIPC__VERDICT_DEFER;
		if (verdict != RIPC__VERDICT_LOSE) {
			ripc__rcore_own_record(core, h, now_ns, &mine.record);
			assert_to_all(core, &mine, now_ns);
			return;
		}
		ripc__claim_lost(core, h, &msg->record, now_ns);
	} else if (h && h->state == PROBING && (msg->nonce == h->nonce || decided)) {
		/* Decided: the back end that keeps records has another one now. */
		ripc__claim_lost(core, h, &msg->record, now_ns);
	} else if (answer) {
		uint64_t nonce = l->nonce;

		c = ripc__cache_store(&core->cache, &msg->record, false, now_ns);
		if (!c)
			return;
		c->nonce = nonce;
		if (from->reusable)
			c->location = *from;
		ripc__lookup_complete(core, c);
		return;
	} else if (c && c->nonce && c->nonce == msg->nonce &&
		   now_ns - c->stored_ns < DUPLICATE_NS) {
		if (memcmp(ripc__cache_instance(c), msg->record.instance, 16))
			duplicate(core, c, &msg->record, now_ns);
		return;
	} else {
		core->ignored++;
		return;
	}
	/* This context lost the service to a known holder. */
	c = ripc__cache_store(&core->cache, &msg->record, true, now_ns);
	if (c)
		ripc__lookup_complete(core, c);
}

static void count_rx(struct ripc__rcore *core, uint64_t now_ns)
{
	uint64_t since_ns = now_ns - core->rx_count_since_ns;

	if (!core->rx_count_since_ns) {
		core->rx_count_since_ns = now_ns;
		return;
	}
	core->rx_count++;
	if (since_ns < RX_RATE_NS)
		return;
	core->rx_per_s = (unsigned)(core->rx_count * (1000 * RIPC__MS) / since_ns);
	core->rx_count_since_ns = now_ns;
	core->rx_count = 0;
}

unsigned ripc__rcore_rx_per_s(const struct ripc__rcore *core)
{
	return core->rx_per_s;
}

int ripc__rcore_input(struct ripc__rcore *core, const struct ripc__backend_addr *from,
		      const uint8_t *data, size_t len, uint64_t now_ns, const char **why)
{
	struct ripc__resolver_msg msg;
	struct ripc__cached *c;
	struct ripc__claim *h;
	int rc = ripc__resolver_msg_decode(&msg, data, len, why);

	if (rc) {
		core->bad++;
		return rc;
	}
	/* An own broadcast. */
	if (!memcmp(msg.record.instance, core->env.instance, 16))
		return 0;
	if (msg.kind != RIPC__RESOLVE_REPLY && msg.kind != RIPC__RESOLVE_LISTED)
		count_rx(core, now_ns);
	switch (msg.kind) {
	case RIPC__RESOLVE_REQUEST:
		input_request(core, from, &msg, now_ns);
		break;
	case RIPC__RESOLVE_PROBE:
		input_probe(core, from, &msg, now_ns);
		break;
	case RIPC__RESOLVE_REPLY:
		input_reply(core, from, &msg, now_ns);
		break;
	case RIPC__RESOLVE_GONE:
		c = ripc__cache_find(&core->cache, msg.service);
		if (c && !memcmp(ripc__cache_instance(c), msg.record.instance, 16))
			ripc__cache_gone(&core->cache, c);
		/*
		 * The other side found the older claim of this context and released the service
		 * before its own claim arrived here.
		 */
		h = ripc__claim_find(core, msg.service);
		if (h)
			ripc__claim_conflict(core, h, &msg.record, from->final, now_ns);
		break;
	case RIPC__RESOLVE_LIST:
	case RIPC__RESOLVE_LISTED:
		ripc__list_input(core, from, &msg, now_ns);
		break;
	}
	return 0;
}

/* --- time, events, life cycle --- */

void ripc__rcore_advance(struct ripc__rcore *core, uint64_t now_ns)
{
	struct ripc__timer *t;

	while ((t = ripc__timers_first(&core->timers)) && t->at_ns <= now_ns)
		t->due(core, t, now_ns);
}

static void cached_event(struct ripc__rcore *core, struct ripc__pending *p,
			 struct ripc__resolver_event *ev, uint64_t now_ns)
{
	struct ripc__cached *c = ripc__list_entry(p, struct ripc__cached, pending);

	ev->service = c->node.id;
	ripc__cache_record(c, &ev->record, now_ns);
	if (!c->pending.events && (c->gone || c->expires_ns <= now_ns))
		ripc__cache_remove(&core->cache, c);
}

bool ripc__rcore_event(struct ripc__rcore *core, struct ripc__resolver_event *event,
		       uint64_t now_ns)
{
	struct ripc__pending *p =
		ripc__list_first_entry(&core->pendings, struct ripc__pending, link);

	if (!p)
		return false;
	event->text[0] = event->name[0] = 0;
	event->requests = 0;
	event->kind = (enum ripc__resolver_ev_kind)__builtin_ctz(p->events);
	ripc__pending_remove(p, event->kind);
	p->taken(core, p, event, now_ns);
	return true;
}

uint64_t ripc__rcore_deadline(const struct ripc__rcore *core)
{
	struct ripc__timer *t = ripc__timers_first(&core->timers);

	return ripc__list_empty(&core->pendings) ? t->at_ns : 0;
}

void ripc__rcore_counts(const struct ripc__rcore *core, struct ripc__rcore_counts *counts)
{
	*counts = (struct ripc__rcore_counts){
		.held = core->held.count,
		.lookups = core->lookups.count,
		.cached = core->cache.table.count,
		.cached_bytes = core->cache.bytes,
		.bad = core->bad,
		.ignored = core->ignored,
	};
}

void ripc__rcore_readdress(struct ripc__rcore *core, const struct ripc__record_addr *addrs,
			   unsigned naddrs)
{
	core->own.naddrs = naddrs;
	for (unsigned i = 0; i < naddrs; i++)
		core->own.addrs[i] = addrs[i];
}

int ripc__rcore_new(struct ripc__rcore **out, const struct ripc__rcore_env *env)
{
	struct ripc__rcore *core;
	uint64_t half;

	if (env->naddrs > RIPC__RECORD_ADDRS_MAX)
		return -EMSGSIZE;
	for (unsigned i = 0; i < env->naddrs; i++)
		if (env->addrs[i].len > RIPC__ADDRESS_MAX)
			return -EMSGSIZE;
	core = calloc(1, sizeof(*core));
	if (!core)
		return -ENOMEM;
	core->env = *env;
	core->env.addrs = NULL;
	core->own = (struct ripc__record){.generation = 1, .ttl_ms = RIPC__TTL_MS};
	memcpy(core->own.instance, env->instance, 16);
	memcpy(core->own.host, env->host, 16);
	ripc__rcore_readdress(core, env->addrs, env->naddrs);
	memcpy(&half, env->instance + 8, sizeof(half));
	core->random = env->secret ^ half;
	memcpy(&half, env->instance, sizeof(half));
	core->random += half;
	ripc__timers_init(&core->timers);
	ripc__list_init(&core->pendings);
	ripc__list_init(&core->claims);
	ripc__list_init(&core->negatives);
	core->repeat.due = ripc__claim_repeat;
	if (ripc__timers_add(&core->timers, &core->repeat, RIPC__NEVER) ||
	    ripc__list_answers_init(core)) {
		ripc__timers_fini(&core->timers);
		free(core);
		return -ENOMEM;
	}
	ripc__table_init(&core->held, ripc__rcore_random(core));
	ripc__table_init(&core->lookups, ripc__rcore_random(core));
	ripc__cache_init(&core->cache, &core->timers, cached_due, &core->pendings, cached_event,
			 ripc__rcore_random(core));
	*out = core;
	return 0;
}

static void free_lookup(struct ripc__node *node, void *arg)
{
	free(node);
}

void ripc__rcore_free(struct ripc__rcore *core)
{
	struct ripc__claim *h;

	if (!core)
		return;
	while ((h = ripc__list_first_entry(&core->claims, struct ripc__claim, link)))
		ripc__claim_free(core, h);
	/* Free records first: they leave the timers and the event queue, which look-ups use too. */
	ripc__cache_fini(&core->cache);
	ripc__table_each(&core->lookups, free_lookup, NULL);
	ripc__table_fini(&core->held);
	ripc__table_fini(&core->lookups);
	ripc__timers_fini(&core->timers);
	free(core->list_asks);
	free(core);
}
