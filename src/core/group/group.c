/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/group/group.h"
#include "core/group/coordinator.h"
#include "core/peer/lane.h"
#include "core/group/membership.h"
#include "core/peer/peer.h"
#include "core/service/service.h"
#include "wire/record.h"

#include <assert.h>
#include <stdlib.h>

#define POLL_NS    (5 * RIPC__MS)    /* interval of polls during the search for a coordinator */
#define RETRY_NS   (20 * RIPC__MS)   /* interval of claims of the name; doubled up to 64 times */
#define REFRESH_NS (5000 * RIPC__MS) /* interval of JOINs to a coordinator that has answered */

#define TO(state) (1u << RIPC__GROUP_##state)

/* The states that may follow each state. SEARCHING: anew; JOINED: the list again. */
__attribute__((unused)) static const unsigned next_states[RIPC__GROUP_STATES] = {
	[RIPC__GROUP_SEARCHING] = TO(SEARCHING) | TO(CLAIMING) | TO(JOINING),
	[RIPC__GROUP_CLAIMING] = TO(JOINING) | TO(COORDINATING),
	[RIPC__GROUP_JOINING] = TO(SEARCHING) | TO(JOINED),
	[RIPC__GROUP_JOINED] = TO(SEARCHING) | TO(JOINING) | TO(JOINED),
	[RIPC__GROUP_COORDINATING] = TO(SEARCHING) | TO(JOINING),
};

void ripc__group_set_state(struct ripc__group *g, enum ripc__group_state to)
{
	assert(next_states[g->state] & 1u << to);
	g->state = to;
	if (to == RIPC__GROUP_JOINING)
		g->join_sent_ns = 0;
}

struct ripc__group *ripc__group_find(struct ripc *ctx, uint64_t id)
{
	struct ripc__group *g;

	HASH_FIND(hh, ctx->groups, &id, sizeof(id), g);
	return g;
}

struct ripc__group *ripc__group_get(struct ripc *ctx, uint64_t id)
{
	struct ripc__group *g = ripc__group_find(ctx, id);

	if (g)
		return g;
	g = calloc(1, sizeof(*g));
	if (!g)
		return NULL;
	g->id = id;
	g->ctx = ctx;
	/*
	 * Above all numbers used before, in case this context was in the group and lost its state.
	 */
	g->number = ripc__seq_begin(ctx);
	g->used_ns = ripc__now(ctx);
	ripc__list_init(&g->local_members);
	ripc__list_init(&g->lru);
	ripc__waitq_init(&g->waitq);
	HASH_ADD(hh, ctx->groups, id, sizeof(g->id), g);
	if (!g->hh.tbl) {
		free(g);
		return NULL;
	}
	ripc__group_kick(g);
	return g;
}

void ripc__group_kick(struct ripc__group *g)
{
	g->next_ns = 0;
	ripc__timer_at(g->ctx, 0);
	ripc__progress_request(g->ctx);
}

/* ---- members that do not coordinate ---- */

static void unpin_coordinator(struct ripc__group *g)
{
	if (g->pinned)
		g->pinned->users--;
	g->pinned = NULL;
}

/*
 * While the destination is pinned, the coordinator's silence is detected and it is resolved again.
 */
static struct ripc__dest *pin_coordinator(struct ripc__group *g)
{
	if (g->pinned)
		return g->pinned;
	g->pinned = ripc__dest_get(g->ctx, ripc__group_name(g->id));
	if (g->pinned)
		g->pinned->users++;
	return g->pinned;
}

static void restart_search(struct ripc__group *g)
{
	uint64_t wait = RETRY_NS << (g->failures < 6 ? g->failures : 6);

	unpin_coordinator(g);
	ripc__group_set_state(g, RIPC__GROUP_SEARCHING);
	/* Spreads the claims of members that lost the same coordinator. */
	wait = wait / 2 + (g->ctx->instance[0] * wait >> 9);
	g->failures++;
	g->next_ns = ripc__now(g->ctx) + wait;
	ripc__timer_at(g->ctx, g->next_ns);
}

/* Whether the peer coordinates the group, as far as this context knows. */
static bool is_coordinator(const struct ripc__group *g, const struct ripc__peer *p)
{
	return (g->state == RIPC__GROUP_JOINING || g->state == RIPC__GROUP_JOINED) &&
	       !memcmp(g->coordinator, p->instance, 16);
}

static void receive_member(struct ripc__lane *lane, const struct ripc__header *h,
			   const struct ripc__record *record)
{
	struct ripc__group *g = ripc__group_find(lane->ctx, h->dest);
	struct ripc__member *m;

	if (!g || !is_coordinator(g, lane->peer) || !memcmp(record->instance, g->ctx->instance, 16))
		return;
	g->version = h->u[1];
	if (h->u[0]) {
		if (!ripc__member_put(g, record, RIPC__ROLE_MEMBER))
			ripc__log(RIPC_LOG_WARN, "group %" PRIu64 ": no memory for member %s",
				  g->id, ripc__instance_text(record->instance));
		return;
	}
	m = ripc__member_find(g, record->instance);
	if (m)
		ripc__member_free(g, m);
}

static void receive_coordinator(struct ripc__lane *lane, const struct ripc__header *h)
{
	struct ripc__group *g = ripc__group_find(lane->ctx, h->dest);

	if (!g || !is_coordinator(g, lane->peer))
		return;
	if (!h->u[0]) {
		struct ripc__dest *d = ripc__dest_at(g->ctx, ripc__group_name(g->id), lane->peer);

		if (d)
			ripc__dest_invalidate(g->ctx, d,
					      "it does not coordinate the group any more");
		restart_search(g);
		return;
	}
	/*
	 * Members of the previous list get time to appear in the new one. The current list is not
	 * repeated.
	 */
	if (h->u[1] != g->join_version)
		ripc__members_expire(g, true);
	g->version = h->u[1];
	/* The answer to a JOIN in another role: try_join() has sent the next one, or will. */
	if (g->state == RIPC__GROUP_JOINING && g->joined_role != ripc__group_role(g))
		return;
	unpin_coordinator(g);
	ripc__group_set_state(g, RIPC__GROUP_JOINED);
	g->failures = 0;
	ripc__group_kick(g);
	ripc__wake(g->ctx, &g->waitq);
}

static void send_join(struct ripc__group *g, struct ripc__lane *lane, enum ripc__group_role as)
{
	uint8_t record[RIPC__RECORD_BYTES_MAX];
	size_t len = ripc__group_own_record(g, record);
	struct ripc__member *m, *tmp;

	if (!len)
		return;
	if (memcmp(g->coordinator, lane->peer->instance, 16))
		g->version = 0;
	memcpy(g->coordinator, lane->peer->instance, 16);
	/*
	 * A departure may have been announced while this context had no lane to the coordinator:
	 * the list then has another version and is sent completely.
	 */
	HASH_ITER (hh, g->members, m, tmp)
		m->listed = false;
	g->join_version = g->version;
	g->join_sent_ns = ripc__now(g->ctx);
	g->joined_role = as;
	ripc__group_notify(lane, RIPC__JOIN, g->id, as, g->version, record, len);
}

/* Resolves the coordinator and sends it JOIN, once per lane and role. */
static void try_join(struct ripc__group *g)
{
	struct ripc__dest *d = pin_coordinator(g);

	g->next_ns = ripc__now(g->ctx) + POLL_NS;
	if (!d)
		return;
	if (!ripc__dest_reach(g->ctx, d)) {
		struct ripc__lane *lane = d->peer->lane;

		/* A member joined or left since the last JOIN: the coordinator has another role. */
		if (!g->join_sent_ns || g->joined_role != ripc__group_role(g) ||
		    memcmp(g->coordinator, lane->peer->instance, 16))
			send_join(g, lane, ripc__group_role(g));
		else if (g->next_ns - g->join_sent_ns > REFRESH_NS)
			g->join_sent_ns = 0;
		return;
	}
	/* No context holds the name: a member may claim it, other contexts wait. */
	if (d->state == RIPC__DEST_FAILED) {
		if (ripc__group_role(g) == RIPC__ROLE_MEMBER) {
			restart_search(g);
			return;
		}
		g->next_ns = d->retry_ns;
		/* The last member may have left while no lane could report it. */
		g->version = 0;
		ripc__members_expire(g, false);
	}
}

static void start_joining(struct ripc__group *g)
{
	g->claim_error = 0;
	ripc__group_set_state(g, RIPC__GROUP_JOINING);
	try_join(g);
}

static void claim_name(struct ripc__group *g)
{
	struct ripc *ctx = g->ctx;
	int rc = ripc__resolver_register(ctx->resolver, ripc__group_name(g->id), NULL,
					 RIPC__REGISTER, ripc__now(ctx));

	g->claim_error = rc;
	if (rc == -EADDRINUSE) {
		start_joining(g);
		return;
	}
	if (rc) {
		restart_search(g);
		return;
	}
	ripc__group_set_state(g, RIPC__GROUP_CLAIMING);
	g->next_ns = RIPC__NEVER;
	ripc__resolver_await(ctx);
	ripc__timer_at(ctx, 0);
	ripc__progress_request(ctx);
}

/* ---- events ---- */

static struct ripc__group *group_by_name(struct ripc *ctx, uint64_t name)
{
	return ripc__group_find(ctx, name & ~RIPC__GROUP_BASE);
}

void ripc__group_claimed(struct ripc *ctx, uint64_t name)
{
	struct ripc__group *g = group_by_name(ctx, name);

	if (g && g->state == RIPC__GROUP_CLAIMING) {
		ripc__coordinator_start(g);
		/* The last local member may have left during the search. */
		ripc__group_kick(g);
	}
}

void ripc__group_conflict(struct ripc *ctx, uint64_t name)
{
	struct ripc__group *g = group_by_name(ctx, name);

	if (!g)
		return;
	if (g->state == RIPC__GROUP_COORDINATING) {
		ripc__log(RIPC_LOG_INFO,
			  "group %" PRIu64 " has an older coordinator: its members move there",
			  g->id);
		ripc__coordinator_resign(g);
		g->version = 0;
	}
	if (g->state == RIPC__GROUP_COORDINATING || g->state == RIPC__GROUP_CLAIMING) {
		ripc__group_set_state(g, RIPC__GROUP_JOINING);
		ripc__group_kick(g);
	}
}

bool ripc__groups_claiming(const struct ripc *ctx)
{
	for (struct ripc__group *g = ctx->groups; g; g = g->hh.next)
		if (g->state == RIPC__GROUP_CLAIMING)
			return true;
	return false;
}

int ripc__group_control(struct ripc__lane *lane, const struct ripc__header *h, const char **why)
{
	struct ripc__record record;

	if (!ripc__group_is_id(h->dest)) {
		*why = "of no possible group";
		return -EPROTO;
	}
	if (h->kind == RIPC__COORDINATOR) {
		receive_coordinator(lane, h);
		return 0;
	}
	if (ripc__record_decode(&record, h->payload, h->payload_len, why))
		return -EPROTO;
	if (h->kind == RIPC__JOIN)
		return ripc__coordinator_join(lane, h, &record, why);
	receive_member(lane, h, &record);
	return 0;
}

bool ripc__groups_include(struct ripc *ctx, const struct ripc__peer *p)
{
	for (struct ripc__group *g = ctx->groups; g; g = g->hh.next)
		if (!memcmp(g->coordinator, p->instance, 16) || ripc__member_find(g, p->instance))
			return true;
	return false;
}

void ripc__groups_lane_gone(struct ripc *ctx, const struct ripc__peer *p)
{
	/* A dead peer has been silent for that time already. */
	uint64_t grace_ns =
		p->contact == RIPC__CONTACT_DEAD ? 0 : ctx->opt.peer_timeout_ms * RIPC__MS;

	for (struct ripc__group *g = ctx->groups; g; g = g->hh.next) {
		struct ripc__member *m = ripc__member_find(g, p->instance);

		if (g->state == RIPC__GROUP_COORDINATING && m)
			ripc__member_expire(g, m, grace_ns);
		if (is_coordinator(g, p)) {
			/*
			 * The coordinator may be alive: a claim of the name then fails and JOIN is
			 * sent to it again.
			 */
			g->version = 0;
			restart_search(g);
		}
	}
}

void ripc__groups_lane_replaced(struct ripc__lane *lane)
{
	const struct ripc__peer *p = lane->peer;

	for (struct ripc__group *g = lane->ctx->groups; g; g = g->hh.next) {
		if (is_coordinator(g, p)) {
			g->version = 0;
			g->join_sent_ns = 0;
			ripc__group_kick(g);
		} else if (g->state == RIPC__GROUP_COORDINATING &&
			   ripc__member_find(g, p->instance)) {
			ripc__coordinator_send_list(g, lane);
		}
	}
}

/* ---- timers ---- */

static void expire_members(struct ripc__group *g, uint64_t now)
{
	bool coordinating = g->state == RIPC__GROUP_COORDINATING;
	struct ripc__member *m, *tmp;

	HASH_ITER (hh, g->members, m, tmp) {
		if (now < m->expires_ns) {
			if (m->expires_ns < g->next_ns)
				g->next_ns = m->expires_ns;
			continue;
		}
		ripc__log(RIPC_LOG_INFO, "group %" PRIu64 ": %s was silent and is removed", g->id,
			  ripc__instance_text(m->instance));
		if (coordinating && m->role == RIPC__ROLE_MEMBER)
			ripc__coordinator_announce(g, m->instance, m->record, m->record_len, false);
		ripc__member_free(g, m);
		if (coordinating)
			g->lost_ns = now;
	}
}

/*
 * Members that fell silent may be a part of the group with a coordinator of its own, which answers
 * the claim as soon as the network is whole. The longer ago that is, the rarer are the claims.
 */
static void find_split(struct ripc__group *g, uint64_t now)
{
	uint64_t wait_ns = (now - g->lost_ns) / 8;

	if (!g->lost_ns || g->state != RIPC__GROUP_COORDINATING)
		return;
	if (now >= g->claim_ns) {
		ripc__resolver_claim(g->ctx->resolver, ripc__group_name(g->id), now);
		g->claim_ns = now + (wait_ns > REFRESH_NS ? wait_ns : REFRESH_NS);
	}
	if (g->claim_ns < g->next_ns)
		g->next_ns = g->claim_ns;
}

static void group_free(struct ripc__group *g)
{
	struct ripc__member *m, *tmp;
	struct ripc__mcast_sender *s, *stmp;

	ripc__seq_end(g->ctx, g->number + 1);
	unpin_coordinator(g);
	HASH_ITER (hh, g->members, m, tmp)
		ripc__member_free(g, m);
	HASH_ITER (hh, g->senders, s, stmp) {
		HASH_DEL(g->senders, s);
		g->ctx->unverified_senders -= s->unverified;
		free(s);
	}
	HASH_DEL(g->ctx->groups, g);
	free(g);
}

/* Reports the departure to the coordinator; a coordinator announces it to all. */
static void group_leave(struct ripc__group *g)
{
	struct ripc__lane *lane;

	if (g->state == RIPC__GROUP_COORDINATING || g->state == RIPC__GROUP_CLAIMING)
		ripc__resolver_unregister(g->ctx->resolver, ripc__group_name(g->id),
					  ripc__now(g->ctx));
	if (g->state == RIPC__GROUP_COORDINATING) {
		ripc__coordinator_announce_self(g, false);
		ripc__coordinator_resign(g);
		return;
	}
	/* In any state: a JOIN may be on its way, or be answered while this context searches. */
	lane = ripc__group_lane(g, g->coordinator);
	if (lane)
		send_join(g, lane, RIPC__ROLE_NONE);
}

/* Return: whether the group is still in use. */
static bool group_step(struct ripc__group *g, uint64_t now)
{
	bool member = ripc__group_role(g) == RIPC__ROLE_MEMBER;

	if (!member && !g->users && (!g->used_ns || now - g->used_ns >= RIPC__IDLE_MS * RIPC__MS)) {
		group_leave(g);
		group_free(g);
		return false;
	}
	g->next_ns = member ? RIPC__NEVER : g->used_ns + RIPC__IDLE_MS * RIPC__MS;
	switch (g->state) {
	case RIPC__GROUP_SEARCHING:
		if (member)
			claim_name(g);
		else
			start_joining(g);
		break;
	case RIPC__GROUP_JOINING:
		try_join(g);
		break;
	case RIPC__GROUP_JOINED:
		if (now - g->join_sent_ns >= REFRESH_NS || g->joined_role != ripc__group_role(g)) {
			/*
			 * The list stays valid until the coordinator answers; its silence is
			 * detected.
			 */
			struct ripc__dest *d = pin_coordinator(g);

			if (d && !ripc__dest_reach(g->ctx, d) &&
			    !memcmp(g->coordinator, d->peer->instance, 16))
				send_join(g, d->peer->lane, ripc__group_role(g));
			else
				restart_search(g);
		}
		if (g->state == RIPC__GROUP_JOINED && g->join_sent_ns + REFRESH_NS < g->next_ns)
			g->next_ns = g->join_sent_ns + REFRESH_NS;
		break;
	case RIPC__GROUP_COORDINATING:
		if (!member) {
			group_leave(g);
			g->version = 0;
			restart_search(g);
		}
		break;
	default:
		/* CLAIMING: the resolver's event is the next step. */
		break;
	}
	expire_members(g, now);
	find_split(g, now);
	return true;
}

void ripc__groups_timers(struct ripc *ctx)
{
	struct ripc__group *g, *tmp;

	/* A context that is being closed has left and does not return. */
	if (ctx->closing)
		return;
	HASH_ITER (hh, ctx->groups, g, tmp)
		if (ctx->now_ns < g->next_ns || group_step(g, ctx->now_ns))
			ripc__timer_at(ctx, g->next_ns);
}

/* ---- leaving ---- */

void ripc__groups_leave(struct ripc *ctx)
{
	for (struct ripc__group *g = ctx->groups; g; g = g->hh.next)
		group_leave(g);
}

void ripc__groups_free(struct ripc *ctx)
{
	struct ripc__group *g, *tmp;

	HASH_ITER (hh, ctx->groups, g, tmp) {
		ripc__list_free(&g->local_members, struct ripc__local_member, link);
		group_free(g);
	}
}
