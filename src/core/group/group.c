/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/group/group.h"
#include "core/group/coordinator.h"
#include "core/peer/lane.h"
#include "core/group/membership.h"
#include "core/peer/peer.h"
#include "core/message/send.h"
#include "core/message/service.h"
#include "wire/record.h"

#include <stdlib.h>

#define POLL_NS    (5 * RIPC__MS)    /* between two looks while a keeper is sought */
#define RETRY_NS   (20 * RIPC__MS)   /* before the name is claimed again; doubled up to 64 times */
#define REFRESH_NS (5000 * RIPC__MS) /* between two JOINs to a keeper that has answered */

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
	/* Above all that were used before, if we were in this group and have forgotten it. */
	g->number = ripc__number_first(ctx);
	g->used_ns = ripc__now(ctx);
	ripc__list_init(&g->seats);
	ripc__list_init(&g->recent);
	ripc__waitq_init(&g->waitq);
	HASH_ADD(hh, ctx->groups, id, sizeof(g->id), g);
	if (!g->hh.tbl) {
		free(g);
		return NULL;
	}
	ripc__group_poke(g);
	return g;
}

void ripc__group_poke(struct ripc__group *g)
{
	g->next_ns = 0;
	ripc__timer_at(g->ctx, 0);
	ripc__progress_request(g->ctx);
}

/* ---- the part of all but the keeper ---- */

static void unpin(struct ripc__group *g)
{
	struct ripc__dest *d = ripc__dest_find(g->ctx, ripc__group_name(g->id));

	if (g->pinned && d)
		d->users--;
	g->pinned = false;
}

/* While it is, silence of the keeper is noticed, and it is looked for again and again. */
static struct ripc__dest *pin(struct ripc__group *g)
{
	struct ripc__dest *d = ripc__dest_get(g->ctx, ripc__group_name(g->id));

	if (d && !g->pinned) {
		d->users++;
		g->pinned = true;
	}
	return d;
}

static void look_again(struct ripc__group *g)
{
	uint64_t wait = RETRY_NS << (g->failures < 6 ? g->failures : 6);

	unpin(g);
	g->state = RIPC__GROUP_LOOKING;
	/* Those that lost the same keeper do not claim all at once. */
	wait = wait / 2 + (g->ctx->instance[0] * wait >> 9);
	g->failures++;
	g->next_ns = ripc__now(g->ctx) + wait;
	ripc__timer_at(g->ctx, g->next_ns);
}

/* The keeper this context listens to, over its lane. */
static bool from_keeper(const struct ripc__group *g, const struct ripc__lane *lane)
{
	return (g->state == RIPC__GROUP_ASKING || g->state == RIPC__GROUP_JOINED) &&
	       !memcmp(g->keeper, lane->peer->instance, 16);
}

static void member_arrived(struct ripc__lane *lane, const struct ripc__header *h,
			   const struct ripc__record *record)
{
	struct ripc__group *g = ripc__group_find(lane->ctx, h->dest);
	struct ripc__member *m;

	if (!g || !from_keeper(g, lane) || !memcmp(record->instance, g->ctx->instance, 16))
		return;
	g->version = h->u[1];
	if (h->u[0]) {
		if (!ripc__member_put(g, record, RIPC__ROLE_MEMBER))
			ripc__log(RIPC_LOG_WARN, "group %llu: no memory for member %s",
				  (unsigned long long)g->id, ripc__instance_text(record->instance));
		return;
	}
	m = ripc__member_find(g, record->instance);
	if (m)
		ripc__member_free(g, m);
}

static void keeper_arrived(struct ripc__lane *lane, const struct ripc__header *h)
{
	struct ripc__group *g = ripc__group_find(lane->ctx, h->dest);
	struct ripc__member *m, *tmp;

	if (!g || !from_keeper(g, lane))
		return;
	if (!h->u[0]) {
		struct ripc__dest *d = ripc__dest_find(g->ctx, ripc__group_name(g->id));

		if (d && d->peer == lane->peer)
			ripc__dest_stale(g->ctx, d, "it does not keep the group any more");
		look_again(g);
		return;
	}
	/* Members of a former list have some time to come to the new one. Of the list that we have nothing is said again. */
	if (h->u[1] != g->asked_version)
		HASH_ITER (hh, g->members, m, tmp)
			if (!m->listed)
				ripc__member_expire(g, m, RIPC__GROUP_GRACE_NS);
	unpin(g);
	g->version = h->u[1];
	g->state = RIPC__GROUP_JOINED;
	g->failures = 0;
	g->next_ns = ripc__now(g->ctx) + REFRESH_NS;
	HASH_ITER (hh, g->members, m, tmp)
		if (m->expires_ns < g->next_ns)
			g->next_ns = m->expires_ns;
	ripc__timer_at(g->ctx, g->next_ns);
	ripc__wake(g->ctx, &g->waitq);
}

static void send_join(struct ripc__group *g, struct ripc__lane *lane, enum ripc__group_role as)
{
	uint8_t record[RIPC__RECORD_BYTES_MAX];
	size_t len = ripc__group_own_record(g, record);
	struct ripc__member *m, *tmp;

	if (!len)
		return;
	if (memcmp(g->keeper, lane->peer->instance, 16))
		g->version = 0;
	memcpy(g->keeper, lane->peer->instance, 16);
	/* That somebody left may have been said while we did not listen: then it has another version, and tells all. */
	HASH_ITER (hh, g->members, m, tmp)
		m->listed = false;
	g->asked_version = g->version;
	g->asked_ns = ripc__now(g->ctx);
	g->told = as;
	ripc__group_say(lane, RIPC__JOIN, g->id, as, g->version, record, len);
}

/* Finds the keeper and asks it, once for each lane. */
static void ask(struct ripc__group *g)
{
	struct ripc__dest *d = pin(g);
	struct ripc__member *m, *tmp;

	g->next_ns = ripc__now(g->ctx) + POLL_NS;
	if (!d)
		return;
	if (!ripc__dest_reach(g->ctx, d)) {
		struct ripc__lane *lane = d->peer->lane;

		if (!g->asked_ns || memcmp(g->keeper, lane->peer->instance, 16))
			send_join(g, lane, ripc__group_role(g));
		else if (g->next_ns - g->asked_ns > REFRESH_NS)
			g->asked_ns = 0;
		return;
	}
	/* Nobody answers to that name: a member may claim it, all others have to wait for one. */
	if (d->state == RIPC__DEST_FAILED) {
		if (ripc__group_role(g) == RIPC__ROLE_MEMBER) {
			look_again(g);
			return;
		}
		g->next_ns = d->retry_ns;
		/* The last of them may have left while there was no lane to say so. */
		g->version = 0;
		HASH_ITER (hh, g->members, m, tmp)
			ripc__member_expire(g, m, RIPC__GROUP_GRACE_NS);
	}
}

static void start_asking(struct ripc__group *g)
{
	g->state = RIPC__GROUP_ASKING;
	g->asked_ns = 0;
	ask(g);
}

static void claim(struct ripc__group *g)
{
	struct ripc *ctx = g->ctx;
	int rc = ripc__resolver_register(ctx->resolver, ripc__group_name(g->id), ripc__now(ctx));

	if (rc == -EADDRINUSE) {
		start_asking(g);
		return;
	}
	if (rc) {
		look_again(g);
		return;
	}
	g->state = RIPC__GROUP_CLAIMING;
	g->next_ns = RIPC__NEVER;
	ctx->resolver_pending = true;
	ctx->resolver_timer_ns = 0;
	ripc__timer_at(ctx, 0);
	ripc__progress_request(ctx);
}

/* ---- events ---- */

static struct ripc__group *by_name(struct ripc *ctx, uint64_t name)
{
	return ripc__group_find(ctx, name & ~RIPC__GROUP_BASE);
}

void ripc__group_claimed(struct ripc *ctx, uint64_t name)
{
	struct ripc__group *g = by_name(ctx, name);

	if (g && g->state == RIPC__GROUP_CLAIMING) {
		ripc__keeper_begin(g);
		/* The last member may have left meanwhile. */
		ripc__group_poke(g);
	}
}

void ripc__group_conflict(struct ripc *ctx, uint64_t name)
{
	struct ripc__group *g = by_name(ctx, name);

	if (!g)
		return;
	if (g->state == RIPC__GROUP_KEEPING) {
		ripc__log(RIPC_LOG_INFO, "group %llu has an older keeper: its members go there",
			  (unsigned long long)g->id);
		ripc__keeper_resign(g);
		g->version = 0;
	}
	if (g->state == RIPC__GROUP_KEEPING || g->state == RIPC__GROUP_CLAIMING) {
		g->state = RIPC__GROUP_ASKING;
		g->asked_ns = 0;
		ripc__group_poke(g);
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

	if (!h->dest || h->dest >= RIPC_GROUP_LIMIT) {
		*why = "of no possible group";
		return -EPROTO;
	}
	if (h->kind == RIPC__COORDINATOR) {
		keeper_arrived(lane, h);
		return 0;
	}
	if (ripc__record_decode(&record, h->payload, h->payload_len, why))
		return -EPROTO;
	if (h->kind == RIPC__JOIN)
		return ripc__keeper_join(lane, h, &record, why);
	member_arrived(lane, h, &record);
	return 0;
}

void ripc__groups_lane_gone(struct ripc *ctx, const struct ripc__peer *p)
{
	for (struct ripc__group *g = ctx->groups; g; g = g->hh.next) {
		struct ripc__member *m = ripc__member_find(g, p->instance);

		if (g->state == RIPC__GROUP_KEEPING && m)
			ripc__member_expire(g, m, ctx->opt.peer_timeout_ms * RIPC__MS);
		if ((g->state == RIPC__GROUP_JOINED || g->state == RIPC__GROUP_ASKING) &&
		    !memcmp(g->keeper, p->instance, 16)) {
			/* It may live on: whoever claims learns that, and asks it again. */
			unpin(g);
			g->state = RIPC__GROUP_LOOKING;
			g->version = 0;
			look_again(g);
		}
	}
}

/* ---- time ---- */

static void expire_members(struct ripc__group *g, uint64_t now)
{
	bool keeping = g->state == RIPC__GROUP_KEEPING;
	struct ripc__member *m, *tmp;

	HASH_ITER (hh, g->members, m, tmp) {
		bool silent = keeping && m->joined_ns && now >= m->joined_ns + RIPC__GROUP_SILENT_NS;

		if (!silent && now < m->expires_ns) {
			uint64_t when = m->expires_ns;

			if (keeping && m->joined_ns && m->joined_ns + RIPC__GROUP_SILENT_NS < when)
				when = m->joined_ns + RIPC__GROUP_SILENT_NS;
			if (when < g->next_ns)
				g->next_ns = when;
			continue;
		}
		ripc__log(RIPC_LOG_INFO, "group %llu: %s is not there any more",
			  (unsigned long long)g->id, ripc__instance_text(m->instance));
		if (keeping && m->role == RIPC__ROLE_MEMBER)
			ripc__keeper_announce(g, m->instance, m->record, m->record_len, false);
		ripc__member_free(g, m);
	}
}

static void group_free(struct ripc__group *g)
{
	struct ripc__member *m, *tmp;
	struct ripc__sender *s, *stmp;

	ripc__number_end(g->ctx, g->number + 1);
	unpin(g);
	HASH_ITER (hh, g->members, m, tmp)
		ripc__member_free(g, m);
	HASH_ITER (hh, g->senders, s, stmp) {
		HASH_DEL(g->senders, s);
		free(s);
	}
	HASH_DEL(g->ctx->groups, g);
	free(g);
}

/* Tells the keeper, or, if we are it, all others. */
static void part(struct ripc__group *g)
{
	struct ripc__lane *lane;

	if (g->state == RIPC__GROUP_KEEPING || g->state == RIPC__GROUP_CLAIMING) {
		ripc__resolver_unregister(g->ctx->resolver, ripc__group_name(g->id),
					  ripc__now(g->ctx));
		if (g->state == RIPC__GROUP_KEEPING) {
			ripc__keeper_announce_self(g, false);
			ripc__keeper_resign(g);
		}
	} else if (g->state == RIPC__GROUP_JOINED && (lane = ripc__group_lane(g, g->keeper))) {
		send_join(g, lane, RIPC__ROLE_NONE);
	}
}

/* Return: whether the group lives on. */
static bool group_step(struct ripc__group *g, uint64_t now)
{
	bool member = ripc__group_role(g) == RIPC__ROLE_MEMBER;

	if (!member && !g->calls && (!g->used_ns || now - g->used_ns >= RIPC__IDLE_MS * RIPC__MS)) {
		part(g);
		group_free(g);
		return false;
	}
	g->next_ns = member ? RIPC__NEVER : g->used_ns + RIPC__IDLE_MS * RIPC__MS;
	switch (g->state) {
	case RIPC__GROUP_LOOKING:
		if (member)
			claim(g);
		else
			start_asking(g);
		break;
	case RIPC__GROUP_CLAIMING:
		break;
	case RIPC__GROUP_ASKING:
		ask(g);
		break;
	case RIPC__GROUP_JOINED:
		if (now - g->asked_ns >= REFRESH_NS || g->told != ripc__group_role(g)) {
			/* Until it answers the list stands, but its silence will be noticed. */
			struct ripc__dest *d = pin(g);

			if (d && !ripc__dest_reach(g->ctx, d) &&
			    !memcmp(g->keeper, d->peer->instance, 16))
				send_join(g, d->peer->lane, ripc__group_role(g));
			else
				look_again(g);
		}
		if (g->state == RIPC__GROUP_JOINED && g->asked_ns + REFRESH_NS < g->next_ns)
			g->next_ns = g->asked_ns + REFRESH_NS;
		break;
	case RIPC__GROUP_KEEPING:
		if (!member) {
			part(g);
			g->version = 0;
			g->state = RIPC__GROUP_LOOKING;
			look_again(g);
		}
		break;
	}
	expire_members(g, now);
	return true;
}

void ripc__groups_timers(struct ripc *ctx)
{
	struct ripc__group *g, *tmp;

	/* A context that is being closed has left them: it does not come back. */
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
		part(g);
}

void ripc__groups_free(struct ripc *ctx)
{
	struct ripc__group *g, *tmp;

	HASH_ITER (hh, ctx->groups, g, tmp) {
		struct ripc__list *n;

		while ((n = ripc__list_first(&g->seats))) {
			ripc__list_del(n);
			free(ripc__list_entry(n, struct ripc__seat, link));
		}
		group_free(g);
	}
}
