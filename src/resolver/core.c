/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "resolver/core.h"

#include "core/clock.h"
#include "core/log.h"
#include "resolver/cache.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { TIMER_HELD, TIMER_LOOKUP, TIMER_CACHED, TIMER_CLAIM };

/* Gaps between the requests of one look-up, in ms; the last one repeats. */
static const uint32_t retry_ms[] = {5, 15, 40, 100, 250};

#define DUPLICATE_NS (1000 * RIPC__MS) /* how long after an answer a different one is noticed */
#define ASSERT_GAP_NS (10 * RIPC__MS)  /* between answers to all: forged claims must not make us a loudspeaker */

enum held_state {
	PROBING,  /* asking whether anybody objects */
	HELD,     /* ours */
	LOST,     /* another's; here until CONFLICT is told */
	DROPPED,  /* given up, no longer in the table; here until what is pending is told */
};

/* A service of ours. */
struct held {
	struct ripc__node node;
	struct ripc__timer timer;      /* PROBING: the next probe */
	struct ripc__pending pending;
	TAILQ_ENTRY(held) link;        /* in core->helds, not when DROPPED */
	enum held_state state;
	unsigned probes;               /* sent */
	uint64_t nonce;                /* of the probes */
	uint64_t since_ns;             /* when it became ours */
	uint8_t *rival;                /* LOST: record of the other holder, encoded; NULL if unknown */
	uint16_t rival_len;
};

/* A look-up under way, the refresh of a record in use, or a negative answer. */
struct lookup {
	struct ripc__node node;
	struct ripc__timer timer;
	struct ripc__pending pending;
	TAILQ_ENTRY(lookup) link;      /* in core->negatives, if negative */
	uint64_t nonce;
	uint64_t end_ns;               /* when it gives up */
	unsigned requests;             /* sent */
	bool refresh;                  /* nobody waits: its failure is not told */
	bool negative;                 /* failed; kept so that the network is not asked again at once */
};

struct ripc__rcore {
	struct ripc__rcore_env env;
	struct ripc__record_addr *addrs; /* what env.addrs points to */
	struct ripc__timers timers;
	struct ripc__pendings pendings;
	struct ripc__table held;
	TAILQ_HEAD(, held) helds;        /* the first one speaks for us in the next request */
	struct ripc__table lookups;
	TAILQ_HEAD(, lookup) negatives;  /* oldest first */
	size_t nnegatives;
	struct ripc__cache cache;
	struct ripc__timer claim;        /* the next claim to all */
	uint64_t assert_ns;              /* not before this is a rival answered to all */
	uint64_t random;                 /* state of the generator */
	uint64_t bad, ignored;
};

static uint64_t draw(struct ripc__rcore *core)
{
	uint64_t z = core->random += 0x9e3779b97f4a7c15u;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

static uint64_t draw_nonce(struct ripc__rcore *core)
{
	uint64_t nonce;

	do
		nonce = draw(core);
	while (!nonce);
	return nonce;
}

/* About that long, so that many that started together do not go on together. */
static uint64_t jitter_ns(struct ripc__rcore *core, uint32_t ms)
{
	uint64_t ns = ms * RIPC__MS;

	return ns / 4 * 3 + draw(core) % (ns / 2);
}

/* --- messages out --- */

static void own_record(struct ripc__rcore *core, uint64_t service, uint64_t since_ns, uint64_t now_ns,
		       struct ripc__record *record)
{
	uint64_t age_ms = now_ns > since_ns ? (now_ns - since_ns) / RIPC__MS : 0;

	memset(record, 0, sizeof(*record));
	record->service = service;
	memcpy(record->instance, core->env.instance, 16);
	memcpy(record->host, core->env.host, 16);
	record->generation = 1;
	record->ttl_ms = RIPC__TTL_MS;
	record->since_ms = age_ms < UINT32_MAX ? (uint32_t)age_ms : UINT32_MAX;
	if (!service)
		return;
	record->naddrs = core->env.naddrs;
	for (unsigned i = 0; i < core->env.naddrs; i++)
		record->addrs[i] = core->addrs[i];
}

static void send_msg(struct ripc__rcore *core, const struct ripc__sender *to,
		     const struct ripc__resolver_msg *msg)
{
	uint8_t buf[RIPC__RESOLVER_MSG_MAX];
	int len = ripc__resolver_msg_encode(msg, buf, sizeof(buf));

	if (len > 0)
		core->env.send(core->env.arg, to, msg->service, buf, (size_t)len);
}

static void send_held(struct ripc__rcore *core, const struct ripc__sender *to, const struct held *h,
		      enum ripc__resolver_kind kind, uint8_t flags, uint64_t nonce, uint64_t now_ns)
{
	struct ripc__resolver_msg msg = {.kind = kind, .flags = flags, .service = h->node.id, .nonce = nonce};

	own_record(core, h->node.id, h->state == HELD ? h->since_ns : now_ns, now_ns, &msg.record);
	send_msg(core, to, &msg);
}

/* The services take turns in speaking for the context, so that others learn them all. */
static struct held *next_speaker(struct ripc__rcore *core)
{
	struct held *h;

	TAILQ_FOREACH(h, &core->helds, link)
		if (h->state == HELD)
			break;
	if (h) {
		TAILQ_REMOVE(&core->helds, h, link);
		TAILQ_INSERT_TAIL(&core->helds, h, link);
	}
	return h;
}

static void send_request(struct ripc__rcore *core, struct lookup *l, uint64_t now_ns)
{
	struct ripc__resolver_msg msg = {
		.kind = RIPC__RESOLVE_REQUEST, .service = l->node.id, .nonce = l->nonce};
	struct held *speaker = next_speaker(core);
	const size_t last = sizeof(retry_ms) / sizeof(retry_ms[0]) - 1;
	uint64_t next_ns;

	own_record(core, speaker ? speaker->node.id : 0, speaker ? speaker->since_ns : now_ns, now_ns,
		   &msg.record);
	next_ns = now_ns + jitter_ns(core, retry_ms[l->requests < last ? l->requests : last]);
	l->requests++;
	ripc__timers_set(&core->timers, &l->timer, next_ns < l->end_ns ? next_ns : l->end_ns);
	send_msg(core, NULL, &msg);
}

/* Says that the service is ours: everybody learns it, and another holder will object. */
static void send_claim(struct ripc__rcore *core, const struct held *h, uint64_t now_ns)
{
	send_held(core, NULL, h, RIPC__RESOLVE_REQUEST, 0, draw_nonce(core), now_ns);
}

/* --- look-ups --- */

static struct lookup *find_lookup(struct ripc__rcore *core, uint64_t service)
{
	return (struct lookup *)ripc__table_find(&core->lookups, service);
}

static void lookup_remove(struct ripc__rcore *core, struct lookup *l)
{
	if (l->negative) {
		TAILQ_REMOVE(&core->negatives, l, link);
		core->nnegatives--;
	}
	ripc__pending_drop(&core->pendings, &l->pending);
	ripc__timers_remove(&core->timers, &l->timer);
	ripc__table_remove(&core->lookups, &l->node);
	free(l);
}

static void lookup_begin(struct ripc__rcore *core, struct lookup *l, bool refresh, uint64_t now_ns)
{
	l->nonce = draw_nonce(core);
	l->requests = 0;
	l->refresh = refresh;
	l->end_ns = now_ns + core->env.resolve_timeout_ms * RIPC__MS;
	send_request(core, l, now_ns);
}

static int lookup_start(struct ripc__rcore *core, uint64_t service, bool refresh, uint64_t now_ns)
{
	struct lookup *l;

	if (core->lookups.count >= RIPC__LOOKUPS_MAX) {
		TAILQ_FOREACH(l, &core->negatives, link)
			if (!l->pending.tell)
				break;
		if (!l)
			return ripc__fail(-EAGAIN, "service %" PRIu64 ": %d look-ups are under way already",
					  service, RIPC__LOOKUPS_MAX);
		lookup_remove(core, l);
	}
	l = calloc(1, sizeof(*l));
	if (!l)
		return ripc__fail(-ENOMEM, "service %" PRIu64 ": no memory for a look-up", service);
	l->node.id = service;
	l->timer.kind = TIMER_LOOKUP;
	l->pending.owner = RIPC__OWNER_LOOKUP;
	if (ripc__timers_add(&core->timers, &l->timer, RIPC__NEVER)) {
		free(l);
		return ripc__fail(-ENOMEM, "service %" PRIu64 ": no memory for a look-up", service);
	}
	ripc__table_add(&core->lookups, &l->node);
	lookup_begin(core, l, refresh, now_ns);
	return 0;
}

static struct held *find_held(struct ripc__rcore *core, uint64_t service)
{
	return (struct held *)ripc__table_find(&core->held, service);
}

bool ripc__rcore_holds(struct ripc__rcore *core, uint64_t service)
{
	return find_held(core, service);
}

int ripc__rcore_lookup(struct ripc__rcore *core, uint64_t service, uint64_t now_ns)
{
	struct held *h = find_held(core, service);
	struct ripc__cached *c;
	struct lookup *l;

	if (h && h->state == HELD) {
		ripc__pending_tell(&core->pendings, &h->pending, RIPC__RESOLVED);
		return 0;
	}
	c = ripc__cache_find(&core->cache, service);
	if (c) {
		ripc__cache_want(&core->cache, c);
		ripc__pending_tell(&core->pendings, &c->pending, RIPC__RESOLVED);
		return 0;
	}
	l = find_lookup(core, service);
	if (!l)
		return lookup_start(core, service, false, now_ns);
	if (l->negative)
		ripc__pending_tell(&core->pendings, &l->pending, RIPC__UNRESOLVED);
	else if (l->refresh)
		lookup_begin(core, l, false, now_ns);
	return 0;
}

void ripc__rcore_forget(struct ripc__rcore *core, uint64_t service)
{
	struct ripc__cached *c = ripc__cache_find(&core->cache, service);
	struct lookup *l = find_lookup(core, service);
	struct held *h = find_held(core, service);

	if (l && l->negative)
		ripc__pending_untell(&core->pendings, &l->pending, RIPC__UNRESOLVED);
	else if (l && !l->refresh)
		lookup_remove(core, l);
	if (c)
		ripc__pending_untell(&core->pendings, &c->pending, RIPC__RESOLVED);
	if (h)
		ripc__pending_untell(&core->pendings, &h->pending, RIPC__RESOLVED);
}

/* The record of a service is in the cache: whoever waits for it is served. */
static void complete(struct ripc__rcore *core, struct ripc__cached *c)
{
	struct lookup *l = find_lookup(core, c->node.id);

	if (!l)
		return;
	if (!l->refresh && (!l->negative || l->pending.tell)) {
		ripc__cache_want(&core->cache, c);
		ripc__pending_tell(&core->pendings, &c->pending, RIPC__RESOLVED);
	}
	lookup_remove(core, l);
}

static void lookup_due(struct ripc__rcore *core, struct lookup *l, uint64_t now_ns)
{
	if (!l->negative && now_ns < l->end_ns) {
		send_request(core, l, now_ns);
	} else if (l->refresh || (l->negative && !l->pending.tell)) {
		lookup_remove(core, l);
	} else if (l->negative) {
		ripc__timers_set(&core->timers, &l->timer, RIPC__NEVER); /* goes once it is told */
	} else {
		l->negative = true;
		TAILQ_INSERT_TAIL(&core->negatives, l, link);
		core->nnegatives++;
		ripc__timers_set(&core->timers, &l->timer, now_ns + core->env.negative_ms * RIPC__MS);
		ripc__pending_tell(&core->pendings, &l->pending, RIPC__UNRESOLVED);
	}
}

static void cached_due(struct ripc__rcore *core, struct ripc__cached *c, uint64_t now_ns)
{
	if (now_ns < c->expires_ns) {
		bool due = c->used && !find_lookup(core, c->node.id);
		/* Refreshing may not take the places of those who wait. */
		bool later = due && core->lookups.count >= RIPC__LOOKUPS_MAX / 2;
		uint64_t next_ns = later ? now_ns + jitter_ns(core, 1000) : RIPC__NEVER;

		ripc__timers_set(&core->timers, &c->timer, next_ns < c->expires_ns ? next_ns : c->expires_ns);
		if (due && !later)
			(void)lookup_start(core, c->node.id, true, now_ns);
	} else if (c->pending.tell) {
		ripc__timers_set(&core->timers, &c->timer, RIPC__NEVER);
	} else {
		ripc__cache_remove(&core->cache, c);
	}
}

void ripc__rcore_invalidate(struct ripc__rcore *core, uint64_t service, const uint8_t instance[16],
			    uint64_t now_ns)
{
	struct ripc__cached *c = ripc__cache_find(&core->cache, service);
	struct lookup *l = find_lookup(core, service);

	if (!c || memcmp(ripc__cache_instance(c), instance, 16))
		return;
	/* Somebody still waits to be told this record: a better one has to be found for him. */
	if (c->pending.tell && l)
		l->refresh = false;
	else if (c->pending.tell && lookup_start(core, service, false, now_ns))
		return;
	ripc__cache_remove(&core->cache, c);
}

bool ripc__rcore_find(struct ripc__rcore *core, uint64_t service, struct ripc__record *record, uint64_t now_ns)
{
	struct held *h = find_held(core, service);
	struct ripc__cached *c;

	if (h && h->state == HELD) {
		own_record(core, service, h->since_ns, now_ns, record);
		return true;
	}
	c = ripc__cache_find(&core->cache, service);
	if (!c || c->expires_ns <= now_ns)
		return false;
	ripc__cache_want(&core->cache, c);
	ripc__cache_record(c, record, now_ns);
	return true;
}

/* --- services of ours --- */

static void held_free(struct ripc__rcore *core, struct held *h)
{
	if (h->state != DROPPED) {
		ripc__timers_remove(&core->timers, &h->timer);
		ripc__table_remove(&core->held, &h->node);
		TAILQ_REMOVE(&core->helds, h, link);
	}
	ripc__pending_drop(&core->pendings, &h->pending);
	free(h->rival);
	free(h);
}

static void held_won(struct ripc__rcore *core, struct held *h, uint64_t now_ns)
{
	struct ripc__cached *c = ripc__cache_find(&core->cache, h->node.id);
	struct lookup *l = find_lookup(core, h->node.id);

	h->state = HELD;
	h->since_ns = now_ns;
	ripc__timers_set(&core->timers, &h->timer, RIPC__NEVER);
	ripc__pending_tell(&core->pendings, &h->pending, RIPC__REGISTERED);
	if ((l && !l->refresh && (!l->negative || l->pending.tell)) ||
	    (c && c->pending.tell & 1u << RIPC__RESOLVED))
		ripc__pending_tell(&core->pendings, &h->pending, RIPC__RESOLVED);
	if (l)
		lookup_remove(core, l);
	if (c)
		ripc__cache_remove(&core->cache, c);
	if (core->claim.at_ns == RIPC__NEVER)
		ripc__timers_set(&core->timers, &core->claim,
				 now_ns + jitter_ns(core, RIPC__CLAIM_GAP_MS));
	send_claim(core, h, now_ns);
}

static void held_lost(struct ripc__rcore *core, struct held *h, const struct ripc__record *rival, uint64_t now_ns)
{
	uint8_t bytes[RIPC__RECORD_BYTES_MAX];
	int len = ripc__record_encode(rival, bytes, sizeof(bytes));

	/* Whoever knows us as the holder has to ask again. */
	if (h->state == HELD)
		send_held(core, NULL, h, RIPC__RESOLVE_GONE, 0, 0, now_ns);
	h->state = LOST;
	h->rival = len > 0 ? malloc((size_t)len) : NULL;
	if (h->rival) {
		memcpy(h->rival, bytes, (size_t)len);
		h->rival_len = (uint16_t)len;
	}
	ripc__timers_set(&core->timers, &h->timer, RIPC__NEVER);
	ripc__pending_untell(&core->pendings, &h->pending, RIPC__REGISTERED);
	ripc__pending_tell(&core->pendings, &h->pending, RIPC__CONFLICT);
}

static void held_due(struct ripc__rcore *core, struct held *h, uint64_t now_ns)
{
	if (h->probes < RIPC__PROBES) {
		h->probes++;
		ripc__timers_set(&core->timers, &h->timer, now_ns + RIPC__PROBE_GAP_MS * RIPC__MS);
		send_held(core, NULL, h, RIPC__RESOLVE_PROBE, 0, h->nonce, now_ns);
	} else {
		held_won(core, h, now_ns);
	}
}

int ripc__rcore_register(struct ripc__rcore *core, uint64_t service, bool probe, uint64_t now_ns)
{
	struct held *h = find_held(core, service);

	if (h)
		return ripc__fail(-EADDRINUSE, "service %" PRIu64 " is held by this context already", service);
	h = calloc(1, sizeof(*h));
	if (!h || ripc__timers_add(&core->timers, &h->timer, RIPC__NEVER)) {
		free(h);
		return ripc__fail(-ENOMEM, "service %" PRIu64 ": no memory to register it", service);
	}
	h->node.id = service;
	h->timer.kind = TIMER_HELD;
	h->pending.owner = RIPC__OWNER_HELD;
	h->state = PROBING;
	h->nonce = draw_nonce(core);
	h->probes = probe ? 0 : RIPC__PROBES;
	ripc__table_add(&core->held, &h->node);
	TAILQ_INSERT_TAIL(&core->helds, h, link);
	held_due(core, h, now_ns);
	return 0;
}

void ripc__rcore_unregister(struct ripc__rcore *core, uint64_t service, uint64_t now_ns)
{
	struct held *h = find_held(core, service);

	if (!h)
		return;
	if (h->state == HELD)
		send_held(core, NULL, h, RIPC__RESOLVE_GONE, 0, 0, now_ns);
	ripc__pending_untell(&core->pendings, &h->pending, RIPC__REGISTERED);
	ripc__pending_untell(&core->pendings, &h->pending, RIPC__CONFLICT);
	if (!h->pending.tell) {
		held_free(core, h);
		return;
	}
	/* A look-up of our own service was answered and not yet told. */
	ripc__timers_remove(&core->timers, &h->timer);
	ripc__table_remove(&core->held, &h->node);
	TAILQ_REMOVE(&core->helds, h, link);
	h->state = DROPPED;
}

static void claim_due(struct ripc__rcore *core, uint64_t now_ns)
{
	struct held *h = next_speaker(core);

	ripc__timers_set(&core->timers, &core->claim,
			 h ? now_ns + jitter_ns(core, RIPC__CLAIM_GAP_MS) : RIPC__NEVER);
	if (h)
		send_claim(core, h, now_ns);
}

/* --- messages in --- */

enum verdict { WE_KEEP, WE_LOSE, NOT_OURS_TO_SAY };

/* Another instance says it holds a service of ours. */
static enum verdict judge(struct ripc__rcore *core, const struct held *h, const struct ripc__record *rival,
			  uint8_t flags, uint64_t now_ns)
{
	uint64_t age_ms = now_ns > h->since_ns ? (now_ns - h->since_ns) / RIPC__MS : 0;

	if (h->state == PROBING || rival->generation > 1)
		return WE_LOSE;
	if (rival->generation < 1)
		return WE_KEEP;
	if (flags & RIPC__RESOLVE_VERDICT)
		return WE_LOSE;
	/* Ages are seen differently by the two, because messages take time: only one may compare them. */
	if (memcmp(core->env.instance, rival->instance, 16) < 0)
		return NOT_OURS_TO_SAY;
	return rival->since_ms > age_ms ? WE_LOSE : WE_KEEP;
}

static void input_request(struct ripc__rcore *core, const struct ripc__sender *from,
			  const struct ripc__resolver_msg *msg, uint64_t now_ns)
{
	struct held *h = msg->record.service ? find_held(core, msg->record.service) : NULL;
	enum verdict verdict = NOT_OURS_TO_SAY;
	struct ripc__cached *c;

	if (h && h->state <= HELD) {
		verdict = judge(core, h, &msg->record, 0, now_ns);
		if (verdict == WE_LOSE)
			held_lost(core, h, &msg->record, now_ns);
		else
			send_held(core, from, h, RIPC__RESOLVE_REPLY,
				  verdict == WE_KEEP ? RIPC__RESOLVE_VERDICT : 0, 0, now_ns);
	}
	if (msg->record.service && (!h || h->state > HELD)) {
		c = ripc__cache_store(&core->cache, &msg->record, true, now_ns);
		if (c)
			complete(core, c);
	}
	h = msg->record.service == msg->service ? NULL : find_held(core, msg->service);
	if (h && h->state == HELD)
		send_held(core, from, h, RIPC__RESOLVE_REPLY, 0, msg->nonce, now_ns);
}

static void input_probe(struct ripc__rcore *core, const struct ripc__sender *from,
			const struct ripc__resolver_msg *msg, uint64_t now_ns)
{
	struct held *h = find_held(core, msg->service);

	if (!h || h->state > HELD)
		return;
	if (h->state == HELD)
		send_held(core, from, h, RIPC__RESOLVE_REPLY, 0, msg->nonce, now_ns);
	else if (memcmp(msg->record.instance, core->env.instance, 16) < 0)
		held_lost(core, h, &msg->record, now_ns);
	else
		send_held(core, from, h, RIPC__RESOLVE_PROBE, 0, h->nonce, now_ns);
}

/* Says to all what settles a dispute, if that was not just done. */
static void assert_to_all(struct ripc__rcore *core, const struct ripc__resolver_msg *msg, uint64_t now_ns)
{
	if (now_ns < core->assert_ns)
		return;
	core->assert_ns = now_ns + ASSERT_GAP_NS;
	send_msg(core, NULL, msg);
}

/* A second answer to one request, from another holder: the two do not know of each other. Tell them of the older one. */
static void duplicate(struct ripc__rcore *core, struct ripc__cached *c, const struct ripc__record *other,
		      uint64_t now_ns)
{
	struct ripc__resolver_msg msg = {.kind = RIPC__RESOLVE_REPLY, .service = other->service};
	int order;

	ripc__cache_record(c, &msg.record, now_ns);
	if (msg.record.generation != other->generation)
		order = msg.record.generation > other->generation ? 1 : -1;
	else if (msg.record.since_ms != other->since_ms)
		order = msg.record.since_ms > other->since_ms ? 1 : -1;
	else
		order = -memcmp(msg.record.instance, other->instance, 16);
	if (order < 0) {
		msg.record = *other;
		(void)ripc__cache_store(&core->cache, other, false, now_ns);
	}
	msg.record.ttl_ms = RIPC__TTL_MS;
	assert_to_all(core, &msg, now_ns);
}

static void input_reply(struct ripc__rcore *core, const struct ripc__resolver_msg *msg, uint64_t now_ns)
{
	struct lookup *l = find_lookup(core, msg->service);
	struct held *h = find_held(core, msg->service);
	struct ripc__cached *c = ripc__cache_find(&core->cache, msg->service);
	bool answer = l && !l->negative && l->nonce == msg->nonce;

	if (h && h->state == HELD) {
		switch (judge(core, h, &msg->record, msg->flags, now_ns)) {
		case WE_LOSE:
			held_lost(core, h, &msg->record, now_ns);
			break;
		case WE_KEEP: {
			struct ripc__resolver_msg mine = {.kind = RIPC__RESOLVE_REPLY,
							  .flags = RIPC__RESOLVE_VERDICT,
							  .service = msg->service};

			own_record(core, msg->service, h->since_ns, now_ns, &mine.record);
			assert_to_all(core, &mine, now_ns);
			return;
		}
		case NOT_OURS_TO_SAY:
			if (now_ns >= core->assert_ns) {
				core->assert_ns = now_ns + ASSERT_GAP_NS;
				send_claim(core, h, now_ns);
			}
			return;
		}
	} else if (h && h->state == PROBING && msg->nonce == h->nonce) {
		held_lost(core, h, &msg->record, now_ns);
	} else if (answer) {
		uint64_t nonce = l->nonce;

		c = ripc__cache_store(&core->cache, &msg->record, false, now_ns);
		if (!c)
			return;
		c->nonce = nonce;
		complete(core, c);
		return;
	} else if (c && c->nonce && c->nonce == msg->nonce && now_ns - c->stored_ns < DUPLICATE_NS) {
		if (memcmp(ripc__cache_instance(c), msg->record.instance, 16))
			duplicate(core, c, &msg->record, now_ns);
		return;
	} else {
		core->ignored++;
		return;
	}
	/* We lost, and know to whom. */
	c = ripc__cache_store(&core->cache, &msg->record, true, now_ns);
	if (c)
		complete(core, c);
}

int ripc__rcore_input(struct ripc__rcore *core, const struct ripc__sender *from, const uint8_t *data,
		      size_t len, uint64_t now_ns, const char **why)
{
	struct ripc__resolver_msg msg;
	struct ripc__cached *c;
	int rc = ripc__resolver_msg_decode(&msg, data, len, why);

	if (rc) {
		core->bad++;
		return rc;
	}
	/* Our own voice, come back from a broadcast. */
	if (!memcmp(msg.record.instance, core->env.instance, 16))
		return 0;
	switch (msg.kind) {
	case RIPC__RESOLVE_REQUEST:
		input_request(core, from, &msg, now_ns);
		break;
	case RIPC__RESOLVE_PROBE:
		input_probe(core, from, &msg, now_ns);
		break;
	case RIPC__RESOLVE_REPLY:
		input_reply(core, &msg, now_ns);
		break;
	case RIPC__RESOLVE_GONE:
		c = ripc__cache_find(&core->cache, msg.service);
		if (c && !memcmp(ripc__cache_instance(c), msg.record.instance, 16))
			ripc__cache_gone(&core->cache, c);
		break;
	}
	return 0;
}

/* --- time, events, life --- */

void ripc__rcore_advance(struct ripc__rcore *core, uint64_t now_ns)
{
	struct ripc__timer *t;

	while ((t = ripc__timers_first(&core->timers)) && t->at_ns <= now_ns) {
		switch (t->kind) {
		case TIMER_HELD:
			held_due(core, (struct held *)((char *)t - offsetof(struct held, timer)), now_ns);
			break;
		case TIMER_LOOKUP:
			lookup_due(core, (struct lookup *)((char *)t - offsetof(struct lookup, timer)),
				   now_ns);
			break;
		case TIMER_CACHED:
			cached_due(core,
				   (struct ripc__cached *)((char *)t - offsetof(struct ripc__cached, timer)),
				   now_ns);
			break;
		default:
			claim_due(core, now_ns);
			break;
		}
	}
}

/* Takes the lowest bit of what is to be told. */
static enum ripc__resolver_ev_kind take_kind(struct ripc__rcore *core, struct ripc__pending *p)
{
	int kind = __builtin_ctz(p->tell);

	ripc__pending_untell(&core->pendings, p, kind);
	return (enum ripc__resolver_ev_kind)kind;
}

static void held_event(struct ripc__rcore *core, struct held *h, struct ripc__resolver_event *ev, uint64_t now_ns)
{
	const char *why;

	ev->kind = take_kind(core, &h->pending);
	ev->service = h->node.id;
	if (ev->kind == RIPC__CONFLICT) {
		if (!h->rival || ripc__record_decode(&ev->record, h->rival, h->rival_len, &why))
			memset(&ev->record, 0, sizeof(ev->record));
	} else {
		own_record(core, h->node.id, h->since_ns, now_ns, &ev->record);
	}
	if (h->state >= LOST && !h->pending.tell)
		held_free(core, h);
}

static void lookup_event(struct ripc__rcore *core, struct lookup *l, struct ripc__resolver_event *ev,
			 unsigned *requests)
{
	ev->kind = take_kind(core, &l->pending);
	ev->service = l->node.id;
	memset(&ev->record, 0, sizeof(ev->record));
	*requests = l->requests;
	if (l->timer.at_ns == RIPC__NEVER || !core->env.negative_ms)
		lookup_remove(core, l);
}

static void cached_event(struct ripc__rcore *core, struct ripc__cached *c, struct ripc__resolver_event *ev,
			 uint64_t now_ns)
{
	ev->kind = take_kind(core, &c->pending);
	ev->service = c->node.id;
	ripc__cache_record(c, &ev->record, now_ns);
	if (!c->pending.tell && (c->gone || c->expires_ns <= now_ns))
		ripc__cache_remove(&core->cache, c);
}

bool ripc__rcore_event(struct ripc__rcore *core, struct ripc__resolver_event *event, unsigned *requests,
		       uint64_t now_ns)
{
	struct ripc__pending *p = TAILQ_FIRST(&core->pendings);

	*requests = 0;
	if (!p)
		return false;
	event->text[0] = 0;
	switch (p->owner) {
	case RIPC__OWNER_HELD:
		held_event(core, (struct held *)((char *)p - offsetof(struct held, pending)), event, now_ns);
		break;
	case RIPC__OWNER_LOOKUP:
		lookup_event(core, (struct lookup *)((char *)p - offsetof(struct lookup, pending)), event,
			     requests);
		break;
	case RIPC__OWNER_CACHED:
		cached_event(core,
			     (struct ripc__cached *)((char *)p - offsetof(struct ripc__cached, pending)),
			     event, now_ns);
		break;
	}
	return true;
}

uint64_t ripc__rcore_deadline(const struct ripc__rcore *core)
{
	struct ripc__timer *t = ripc__timers_first(&core->timers);

	return TAILQ_EMPTY(&core->pendings) ? t->at_ns : 0;
}

bool ripc__rcore_busy(const struct ripc__rcore *core)
{
	return core->lookups.count > core->nnegatives;
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
	core->addrs = calloc(env->naddrs + 1, sizeof(*core->addrs));
	if (!core->addrs) {
		free(core);
		return -ENOMEM;
	}
	for (unsigned i = 0; i < env->naddrs; i++)
		core->addrs[i] = env->addrs[i];
	core->env.addrs = core->addrs;
	memcpy(&half, env->instance + 8, sizeof(half));
	core->random = env->secret ^ half;
	memcpy(&half, env->instance, sizeof(half));
	core->random += half;
	ripc__timers_init(&core->timers);
	TAILQ_INIT(&core->pendings);
	TAILQ_INIT(&core->helds);
	TAILQ_INIT(&core->negatives);
	core->claim.kind = TIMER_CLAIM;
	if (ripc__timers_add(&core->timers, &core->claim, RIPC__NEVER)) {
		free(core->addrs);
		free(core);
		return -ENOMEM;
	}
	ripc__table_init(&core->held, draw(core));
	ripc__table_init(&core->lookups, draw(core));
	ripc__cache_init(&core->cache, &core->timers, TIMER_CACHED, &core->pendings, draw(core));
	*out = core;
	return 0;
}

void ripc__rcore_farewell(struct ripc__rcore *core, uint64_t now_ns)
{
	struct held *h;

	TAILQ_FOREACH(h, &core->helds, link)
		if (h->state == HELD)
			send_held(core, NULL, h, RIPC__RESOLVE_GONE, 0, 0, now_ns);
}

static void free_dropped(struct ripc__rcore *core)
{
	struct ripc__pending *p, *next;

	for (p = TAILQ_FIRST(&core->pendings); p; p = next) {
		struct held *h = (struct held *)((char *)p - offsetof(struct held, pending));

		next = TAILQ_NEXT(p, link);
		if (p->owner == RIPC__OWNER_HELD && h->state == DROPPED)
			held_free(core, h);
	}
}

static void free_lookup(struct ripc__node *node, void *arg)
{
	free(node);
}

void ripc__rcore_free(struct ripc__rcore *core)
{
	struct held *h;

	if (!core)
		return;
	free_dropped(core);
	while ((h = TAILQ_FIRST(&core->helds)))
		held_free(core, h);
	ripc__table_each(&core->lookups, free_lookup, NULL);
	ripc__cache_fini(&core->cache);
	ripc__table_fini(&core->held);
	ripc__table_fini(&core->lookups);
	ripc__timers_fini(&core->timers);
	free(core->addrs);
	free(core);
}
