/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "invariants.h"

#include "core/call/caller.h"
#include "core/group/group.h"
#include "core/memory/bounce.h"
#include "core/memory/buffer.h"
#include "core/peer/dest.h"
#include "core/peer/lane.h"
#include "core/peer/lane_memory.h"
#include "core/peer/peer.h"
#include "core/reliable/reliable.h"
#include "core/rendezvous/arriving.h"
#include "core/service/message.h"
#include "core/rig.h"

/* ck_assert() allocates memory also if the condition holds, which would disturb test_oom.c. */
#define CHECK(condition)                                    \
	do {                                                \
		if (!(condition))                           \
			ck_abort_msg("not %s", #condition); \
	} while (0)
#define SAME(counter, found)                                                                      \
	do {                                                                                      \
		if ((counter) != (found))                                                         \
			ck_abort_msg("%s is %llu, not %llu", #counter,                            \
				     (unsigned long long)(counter), (unsigned long long)(found)); \
	} while (0)

/* Contents of the lists of one context. */
struct found {
	uint64_t peers, lanes_up, endpoints, lanes;
	uint64_t requests; /* long messages to send that are not done, */
	uint64_t linked;   /* those that have a number at a peer, */
	uint64_t unacked;  /* and those without ACK, no answers */
	uint64_t arriving, arriving_bytes, ready_bytes, slow_bytes, reads;
	uint64_t calls, calls_at_peers;
	uint64_t reliable_unacked, reliable_bytes, reliable_pending;
	uint64_t pins; /* of destinations */
	uint64_t queued, bounce_bytes, standing_bytes, standing, unread, sends, wanted, watched;
};

/* The same as the counters of these structs have it. */
struct counted {
	uint64_t lanes, linked, calls, arriving_bytes, ready_bytes, reads, unacked;
	uint64_t reliable_unacked, reliable_by_dest, reliable_bytes;
	uint64_t requests, pins, standing, unread, sends, wanted, watched;
};

static uint64_t length(const struct ripc__list *head)
{
	const struct ripc__list *n;
	uint64_t count = 0;

	ripc__list_for_each (n, head)
		count++;
	return count;
}

static void count_request(struct found *f, const struct ripc_request *r)
{
	f->requests++;
	for (unsigned i = 0; i < r->nitems; i++)
		f->sends += r->items[i].region != NULL;
}

static void check_arriving(struct found *f, const struct ripc__peer_lists *lists)
{
	const struct ripc__rndv *r;

	ripc__list_for_each_entry (r, &lists->rndvs, peer_link) {
		f->arriving++;
		f->reads += r->reads;
		if (r->counted != RIPC__RNDV_UNCOUNTED)
			f->arriving_bytes += r->memory_bytes;
		if (r->counted == RIPC__RNDV_COUNTED_READY)
			f->ready_bytes += r->memory_bytes;
		if (r->counted == RIPC__RNDV_COUNTED_SLOW)
			f->slow_bytes += r->memory_bytes;
	}
}

static void check_peers(struct ripc *ctx, struct found *f, struct counted *c)
{
	const struct ripc__peer *p;

	ripc__list_for_each_entry (p, &ctx->peers, link) {
		const struct ripc_request *r;
		const struct ripc__reliable_msg *m;

		f->peers++;
		c->lanes += p->nlanes;
		c->linked += p->nrequests;
		c->calls += p->calls;
		c->wanted += p->wanted;
		c->arriving_bytes += p->lists->arriving_bytes;
		c->ready_bytes += p->lists->ready_bytes;
		c->reliable_unacked += p->reliable_unacked;
		CHECK(!p->lane || p->lane->state == RIPC__LANE_UP);
		ripc__list_for_each_entry (r, &p->lists->requests, peer_link) {
			f->linked++;
			f->unacked += r->unacked;
			/* The others are in the queue of their destination. */
			if (r->state > RIPC__REQUEST_WRITING)
				count_request(f, r);
		}
		check_arriving(f, p->lists);
		if (p->lists->datagrams)
			SAME(p->lists->datagrams->ncontexts,
			     length(&p->lists->datagrams->contexts));
		if (!p->reliable)
			continue;
		c->reliable_bytes += p->reliable->bytes;
		ripc__list_for_each_entry (m, &p->reliable->unacked, link) {
			f->reliable_unacked++;
			f->reliable_bytes += m->len;
		}
	}
}

static void check_dests(struct ripc *ctx, struct found *f, struct counted *c)
{
	for (const struct ripc__dest *d = ctx->dests; d; d = d->hh.next) {
		uint64_t pending = length(&d->reliable_pending);
		const struct ripc_request *r;

		CHECK((d->state == RIPC__DEST_KNOWN) == (d->peer != NULL));
		SAME(d->nremote_returns, length(&d->remote_returns));
		CHECK(!d->credit || d->credit->sent_units <= d->credit->limit_units);
		c->reliable_by_dest += d->reliable_unacked;
		c->unacked += d->long_unacked;
		c->pins += d->users;
		f->reliable_pending += pending;
		f->pins += pending + !!d->reliable_unacked;
		ripc__list_for_each_entry (r, &d->pending, link)
			count_request(f, r);
	}
}

static void check_flow(struct ripc__node *node, void *arg)
{
	const struct ripc__flow *flow = (struct ripc__flow *)(void *)node;
	struct counted *c = arg;

	c->watched += flow->watched;
	CHECK(flow->arrived_units <= flow->advertised_units);
	c->standing += flow->nstanding;
}

static void check_lanes(struct ripc *ctx, struct found *f, struct counted *c)
{
	uint64_t endpoints[RIPC__TP_MAX] = {0};
	struct ripc__lane *lane;

	f->lanes = length(&ctx->dead_lanes);
	ripc__list_for_each_entry (lane, &ctx->lanes, link) {
		const struct ripc__local_return *r;
		const struct ripc__bounce *bounce;
		uint64_t bounces = 0, standing = 0;

		f->lanes++;
		f->lanes_up += lane->state == RIPC__LANE_UP;
		endpoints[lane->tp] += lane->ep != NULL;
		c->reads += lane->reads;
		f->watched += lane->nwatched;
		SAME(lane->ncontrol, length(&lane->control));
		if (lane->rx_depth)
			CHECK(lane->rx_credits_due + lane->rx_held <= lane->rx_depth);
		if (!lane->flow_parked)
			ripc__table_each(&lane->flows, check_flow, c);
		ripc__list_for_each_entry (bounce, &lane->memory->bounces, link)
			bounces += bounce->region->cap;
		ripc__list_for_each_entry (r, &lane->memory->standing, link) {
			standing += r->len;
			f->standing++;
		}
		SAME(lane->memory->bounce_bytes[0] + lane->memory->bounce_bytes[1], bounces);
		SAME(lane->memory->standing_bytes, standing);
		f->bounce_bytes += bounces;
		f->standing_bytes += standing;
	}
	for (unsigned i = 0; i < ctx->ntp; i++) {
		SAME(ctx->tp[i].nlanes, endpoints[i]);
		CHECK(!endpoints[i] || ctx->active_tps & 1u << i);
		CHECK(endpoints[i] || !(ctx->active_tps & 1u << i) || ctx->datagrams);
	}
}

static void check_services(struct ripc *ctx, struct found *f, struct counted *c)
{
	for (const struct ripc_service *s = ctx->services; s; s = s->hh.next) {
		uint64_t queued = 0, shorts = 0, bytes = 0, long_bytes = 0, arriving = 0;
		const struct ripc__message *last = NULL;
		const struct ripc__rndv *r;

		for (const struct ripc__message *m = s->first; m; last = m, m = m->next) {
			queued++;
			shorts += !m->pub.is_long;
			bytes += m->bytes;
			long_bytes += m->long_bytes;
		}
		CHECK(s->last == last);
		SAME(s->queued, queued);
		SAME(s->queued_shorts, shorts);
		SAME(s->queued_bytes, bytes);
		SAME(s->queued_long_bytes, long_bytes);
		ripc__list_for_each_entry (r, &s->rndvs_in, link)
			if (r->counted == RIPC__RNDV_COUNTED_AT_SERVICE)
				arriving += r->bytes < RIPC__PEER_ARRIVING_MAX
						    ? r->bytes
						    : RIPC__PEER_ARRIVING_MAX;
		SAME(s->arriving_bytes, arriving);
		f->queued += queued;
		c->requests += s->nrequests;
	}
}

static void check_groups(struct ripc *ctx, struct found *f)
{
	uint64_t unverified = 0;

	for (const struct ripc__group *g = ctx->groups; g; g = g->hh.next) {
		uint64_t members = !ripc__list_empty((struct ripc__list *)&g->local_members);

		for (const struct ripc__member *m = g->members; m; m = m->hh.next)
			members += m->role == RIPC__ROLE_MEMBER, f->wanted += m->wanted != NULL;
		for (const struct ripc__mcast_sender *s = g->senders; s; s = s->hh.next)
			unverified += s->unverified;
		SAME(g->stats.members, members);
		SAME(g->stats.senders, HASH_COUNT(g->senders));
		SAME(length(&g->lru), HASH_COUNT(g->senders));
		f->pins += g->pinned != NULL;
	}
	SAME(ctx->unverified_senders, unverified);
}

void rig_check_memory(const struct ripc *ctx)
{
	const struct ripc__memory *m = ctx->memory;
	uint64_t cached = 0, pool = 0, registered = 0;
	size_t nfree = 0, in_lru = 0, windows = 0, returns = 0, call_returns = 0, pins = 0;
	const struct ripc__local_return *back;
	const struct ripc__list *n;

	for (size_t i = 0; i < m->nregions; i++) {
		struct ripc__region *r = m->regions[i];

		if (i) {
			struct ripc__region *below = m->regions[i - 1];

			CHECK(below->base + below->cap <= r->base);
		}
		ripc__list_for_each_entry (back, &r->returns, region_link) {
			windows += back->window;
			returns += !back->window;
		}
		pins += (r->origin != NULL) - (size_t)r->pins;
		if (r->state == RIPC__REGION_USER) {
			registered += r->len;
			continue;
		}
		pool += r->cap;
		SAME(r->cap, (size_t)1 << r->class);
		if (r->state == RIPC__REGION_FREE) {
			cached += r->cap;
			nfree++;
		}
	}
	SAME(windows, m->nrecv_windows);
	SAME(pins + windows + returns, 0u);
	ripc__list_for_each_entry (back, &m->returns, link) {
		returns--;
		call_returns += back->call != 0;
	}
	SAME(returns, 0);
	SAME(call_returns, m->call_returns.count);
	ripc__list_for_each (n, &m->lru)
		in_lru++;
	for (unsigned i = 0; i <= RIPC__CLASS_MAX; i++) {
		ripc__list_for_each (n, &m->classes[i])
			nfree--;
		ripc__list_for_each (n, &m->shared[i])
			nfree--;
	}
	SAME(nfree, 0);
	SAME(cached, m->cached_bytes);
	SAME(pool, ctx->stats.pool_bytes);
	SAME(registered, ctx->stats.registered_bytes);
	CHECK(m->cached_bytes <= ctx->opt.pool_bytes);
	CHECK(in_lru == 0 || cached > 0);
}

static void check_memory(const struct ripc *ctx, struct found *f, struct counted *c)
{
	const struct ripc__memory *memory = ctx->memory;
	const struct ripc__message *m;
	uint64_t cached = 0;

	rig_check_memory(ctx);
	for (size_t i = 0; i < memory->nregions; i++)
		c->unread += memory->regions[i]->unread, c->sends += memory->regions[i]->sends;
	ripc__list_for_each_entry (m, &memory->unread, held)
		for (unsigned i = 0; i < m->pub.nitems; i++)
			f->unread += m->pool[i] && ripc__message_in_app_memory(m, i);
	for (m = ctx->message_cache; m; m = m->next)
		cached++;
	SAME(ctx->message_cached, cached);
	SAME(memory->bounce_bytes, f->bounce_bytes);
	SAME(memory->standing_bytes, f->standing_bytes);
	SAME(c->unread, f->unread);
	SAME(c->sends, f->sends);
}

/* The timers run when there is something to do. */
static void check_timers(const struct ripc *ctx)
{
	const struct ripc__peer *p;
	const struct ripc__lane *lane;

	CHECK(ctx->next_timer_ns <= ctx->timers_ns);
	CHECK(ctx->timers_ns <= ctx->next_sweep_ns);
	CHECK(ctx->timers_ns <= ctx->next_trim_ns);
	CHECK(ctx->timers_ns <= ctx->calls_next_ns);
	ripc__list_for_each_entry (p, &ctx->peers, link) {
		CHECK(!p->retry_ns || ctx->timers_ns <= p->retry_ns);
		CHECK(!p->pending_conn || ctx->timers_ns <= p->pending_conn->until_ns);
		if (p->reliable && !ripc__list_empty(&p->reliable->ack_link))
			CHECK(ctx->timers_ns <= p->reliable->ack_due_ns);
	}
	ripc__list_for_each_entry (lane, &ctx->lanes, link) {
		if (lane->state < RIPC__LANE_UP && lane->connect_ns)
			CHECK(ctx->timers_ns <= lane->last_rx_ns + lane->connect_ns);
		else if (lane->state == RIPC__LANE_UP && lane->silence != RIPC__SILENCE_IDLE)
			CHECK(ctx->timers_ns <=
			      lane->last_rx_ns + ctx->opt.peer_timeout_ms * RIPC__MS);
	}
	for (const struct ripc__dest *d = ctx->dests; d; d = d->hh.next)
		CHECK(d->state != RIPC__DEST_FAILED || !ripc__dest_has_waiters(d) ||
		      ctx->timers_ns <= d->retry_ns);
	for (const struct ripc__group *g = ctx->groups; g; g = g->hh.next)
		CHECK(ctx->timers_ns <= g->next_ns);
}

void check_counters(struct ripc *ctx)
{
	struct found f = {0};
	struct counted c = {0};

	check_peers(ctx, &f, &c);
	check_dests(ctx, &f, &c);
	check_lanes(ctx, &f, &c);
	check_services(ctx, &f, &c);
	check_groups(ctx, &f);
	check_memory(ctx, &f, &c);
	for (uint32_t slot = 0; slot < ctx->call_slots; slot++) {
		f.calls += ctx->call_table[slot]->state < RIPC__CALL_IS_DONE;
		f.calls_at_peers += ctx->call_table[slot]->peer != NULL;
	}
	SAME(ctx->stats.peers, f.peers);
	SAME(ctx->stats.lanes, f.lanes_up);
	SAME(ctx->stats.queued, f.queued);
	SAME(c.lanes, f.lanes);
	SAME(c.linked, f.linked);
	SAME(c.unacked, f.unacked);
	SAME(c.calls, f.calls_at_peers);
	SAME(c.requests, f.requests + f.calls);
	SAME(c.pins, f.pins + f.requests);
	SAME(c.arriving_bytes, f.arriving_bytes);
	SAME(c.ready_bytes, f.ready_bytes);
	SAME(ctx->rndvs_slow_bytes, f.slow_bytes);
	SAME(c.reads, f.reads);
	SAME(ctx->long_inflight, f.requests + f.arriving);
	SAME(c.reliable_unacked, f.reliable_unacked);
	SAME(c.reliable_by_dest, f.reliable_unacked);
	SAME(c.reliable_bytes, f.reliable_bytes);
	SAME(ctx->reliable_npending, f.reliable_pending);
	SAME(c.standing, f.standing);
	SAME(c.wanted, f.wanted);
	SAME(c.watched, f.watched);
	check_timers(ctx);
}

/* The kinds whose header names a destination, and those that name a source. */
#define KIND(kind) (UINT64_C(1) << RIPC__##kind)
static const uint64_t with_dest = KIND(SHORT) | KIND(LONG) | KIND(NOSERVICE) |
				  KIND(RELIABLE_BEGIN) | KIND(GROUP) | KIND(JOIN) | KIND(MEMBER) |
				  KIND(COORDINATOR) | KIND(MCAST_ACK) | KIND(WATCH) |
				  KIND(DATAGRAM_CONTEXT);
static const uint64_t with_source = KIND(SHORT) | KIND(LONG) | KIND(CREDIT) | KIND(REVOKE) |
				    KIND(NOSERVICE) | KIND(GROUP) | KIND(WATCH_END) |
				    KIND(STANDING_GRANT) | KIND(DATAGRAM_CONTEXT) | KIND(FLOW_END);

void check_sent(const uint8_t *data, size_t len)
{
	struct ripc__header h;
	const char *why = "";

	if (len < RIPC__HEADER_LEN || ripc__get_le16(data) != RIPC__MSG_MAGIC)
		return;
	if (ripc__header_decode(&h, data, len, &why))
		ck_abort_msg("a message of kind %u is malformed: %s", data[3], why);
	if ((h.dest && !(with_dest >> h.kind & 1)) || (h.source && !(with_source >> h.kind & 1)))
		ck_abort_msg("a message of kind %u names a service that it is not about", h.kind);
}
