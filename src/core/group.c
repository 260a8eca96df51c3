/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/group.h"
#include "core/lane.h"
#include "core/peer.h"
#include "core/send.h"
#include "core/service.h"
#include "wire/bytes.h"
#include "wire/record.h"

#include <stdlib.h>

#define POLL_NS    (5 * RIPC__MS)     /* between two looks while a keeper is sought */
#define RETRY_NS   (20 * RIPC__MS)    /* before the name is claimed again; doubled up to 64 times */
#define REFRESH_NS (5000 * RIPC__MS)  /* between two JOINs to a keeper that has answered */
#define SILENT_NS  (16000 * RIPC__MS) /* a member that does not repeat its JOIN is gone */
#define GRACE_NS   (3000 * RIPC__MS)  /* a new keeper waits for members it has heard of */

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
	g->number = g->used_ns = ripc__now(ctx);
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
	ripc__agent_need(g->ctx);
}

static enum ripc__group_role role(const struct ripc__group *g)
{
	return ripc__list_empty((struct ripc__list *)&g->seats) ? RIPC__ROLE_SENDER
								: RIPC__ROLE_MEMBER;
}

/* ---- members ---- */

static struct ripc__member *member_find(struct ripc__group *g, const uint8_t instance[16])
{
	struct ripc__member *m;

	HASH_FIND(hh, g->members, instance, 16, m);
	return m;
}

static void member_free(struct ripc__group *g, struct ripc__member *m)
{
	if (m->wanted)
		m->wanted->wanted--;
	if (m->role == RIPC__ROLE_MEMBER)
		g->stats.members--;
	HASH_DEL(g->members, m);
	free(m);
}

/* Remembers a context and where it is. NULL: out of memory, or too many. */
static struct ripc__member *member_put(struct ripc__group *g, const struct ripc__record *record,
				       enum ripc__group_role as)
{
	struct ripc__member *m = member_find(g, record->instance), *old = m;
	uint8_t bytes[RIPC__RECORD_BYTES_MAX];
	int len = ripc__record_encode(record, bytes, sizeof(bytes));

	if (len < 0 || (!old && HASH_COUNT(g->members) >= RIPC__MEMBERS_MAX))
		return NULL;
	if (!old || old->record_len < len) {
		m = malloc(sizeof(*m) + (size_t)len);
		if (!m)
			return NULL;
		if (old) {
			*m = *old;
			HASH_DEL(g->members, old);
			free(old);
		} else {
			memset(m, 0, sizeof(*m));
			memcpy(m->instance, record->instance, 16);
			/* What is being sent to the others is not for it. */
			m->sent = g->number;
		}
		HASH_ADD(hh, g->members, instance, 16, m);
		if (!m->hh.tbl) {
			if (m->wanted)
				m->wanted->wanted--;
			g->stats.members -= m->role == RIPC__ROLE_MEMBER;
			free(m);
			return NULL;
		}
	}
	g->stats.members += as == RIPC__ROLE_MEMBER;
	g->stats.members -= m->role == RIPC__ROLE_MEMBER;
	m->role = as;
	m->expires_ns = RIPC__NEVER;
	m->listed = true;
	m->record_len = (uint16_t)len;
	memcpy(m->record, bytes, (size_t)len);
	return m;
}

static void expire(struct ripc__group *g, struct ripc__member *m, uint64_t after_ns)
{
	uint64_t when = ripc__now(g->ctx) + after_ns;

	if (when < m->expires_ns)
		m->expires_ns = when;
	if (m->expires_ns < g->next_ns)
		g->next_ns = m->expires_ns;
	ripc__timer_at(g->ctx, g->next_ns);
}

struct ripc__peer *ripc__member_peer(struct ripc *ctx, const struct ripc__member *m)
{
	struct ripc__peer *p = ripc__peer_get(ctx, m->instance);
	struct ripc__record record;
	const char *why;

	if (p && !p->addrs && !ripc__record_decode(&record, m->record, m->record_len, &why) &&
	    record.naddrs && ripc__peer_set_addrs(p, &record))
		return NULL;
	return p;
}

/* ---- what is said ---- */

static void say(struct ripc__lane *lane, unsigned kind, uint64_t group, uint64_t a, uint64_t b,
		const uint8_t *record, size_t len)
{
	uint8_t buf[RIPC__HEADER_LEN + 16 + RIPC__RECORD_BYTES_MAX], *p;

	p = ripc__header_put(buf, (uint8_t)kind, 0, 0, 0, group, 0);
	ripc__put_le64(p, a);
	ripc__put_le64(p + 8, b);
	if (len)
		memcpy(p + 16, record, len);
	ripc__lane_control(lane, buf, (size_t)(p + 16 - buf) + len);
}

/* Ourselves, as others are to know us. Return: bytes. */
static size_t own_record(struct ripc__group *g, uint8_t *buf)
{
	struct ripc__record r = {.service = ripc__group_name(g->id), .generation = 1};
	int n = ripc__own_addrs(g->ctx, r.addrs), len;

	memcpy(r.instance, g->ctx->instance, 16);
	memcpy(r.host, g->ctx->host, 16);
	r.naddrs = n < 0 ? 0 : (unsigned)n;
	len = ripc__record_encode(&r, buf, RIPC__RECORD_BYTES_MAX);
	return len < 0 ? 0 : (size_t)len;
}

static struct ripc__lane *lane_to(struct ripc__group *g, const uint8_t instance[16])
{
	struct ripc__peer *p = ripc__peer_find(g->ctx, instance);

	return p ? p->lane : NULL;
}

/* The keeper tells all others that one came or went. */
static void announce(struct ripc__group *g, const uint8_t *about, const uint8_t *record, size_t len,
		     bool present)
{
	struct ripc__member *m, *tmp;

	g->version++;
	HASH_ITER (hh, g->members, m, tmp) {
		struct ripc__lane *lane = lane_to(g, m->instance);

		if (lane && memcmp(m->instance, about, 16))
			say(lane, RIPC__MEMBER, g->id, present, g->version, record, len);
	}
}

static void announce_self(struct ripc__group *g, bool present)
{
	uint8_t record[RIPC__RECORD_BYTES_MAX];
	size_t len = own_record(g, record);

	if (len)
		announce(g, g->ctx->instance, record, len, present);
}

/* All members, for one that has an older list, or none. */
static void tell_all(struct ripc__group *g, struct ripc__lane *lane)
{
	uint8_t record[RIPC__RECORD_BYTES_MAX];
	struct ripc__member *m, *tmp;
	size_t len = role(g) == RIPC__ROLE_MEMBER ? own_record(g, record) : 0;

	if (len)
		say(lane, RIPC__MEMBER, g->id, 1, g->version, record, len);
	HASH_ITER (hh, g->members, m, tmp)
		if (m->role == RIPC__ROLE_MEMBER && memcmp(m->instance, lane->peer->instance, 16))
			say(lane, RIPC__MEMBER, g->id, 1, g->version, m->record, m->record_len);
}

/* ---- the keeper's part ---- */

/* It is not, or not any more: they have to look for another. */
static void resign(struct ripc__group *g)
{
	struct ripc__member *m, *tmp;

	HASH_ITER (hh, g->members, m, tmp) {
		struct ripc__lane *lane = lane_to(g, m->instance);

		if (lane)
			say(lane, RIPC__KEEPER, g->id, 0, 0, NULL, 0);
	}
}

static void keep(struct ripc__group *g)
{
	struct ripc__member *m, *tmp;

	g->state = RIPC__GROUP_KEEPING;
	g->failures = 0;
	/* Above what any keeper before has counted, so that no list is taken for ours. */
	g->version = ripc__now(g->ctx);
	HASH_ITER (hh, g->members, m, tmp) {
		m->joined_ns = 0;
		expire(g, m, GRACE_NS);
	}
	ripc__log(RIPC_LOG_DEBUG, "group %llu: kept by this context", (unsigned long long)g->id);
	ripc__wake(g->ctx, &g->waitq);
}

static int join_arrived(struct ripc__lane *lane, const struct ripc__header *h,
			const struct ripc__record *record, const char **why)
{
	struct ripc__group *g = ripc__group_find(lane->ctx, h->dest);
	struct ripc__member *m;
	bool was;

	if (memcmp(record->instance, lane->peer->instance, 16) || h->u[0] > RIPC__ROLE_MEMBER) {
		*why = "wants to make another context a member";
		return -EPROTO;
	}
	if (!g || g->state != RIPC__GROUP_KEEPING) {
		if (h->u[0])
			say(lane, RIPC__KEEPER, h->dest, 0, 0, NULL, 0);
		return 0;
	}
	m = member_find(g, record->instance);
	was = m && m->role == RIPC__ROLE_MEMBER;
	if (was && h->u[0] != RIPC__ROLE_MEMBER)
		announce(g, m->instance, m->record, m->record_len, false);
	if (!h->u[0]) {
		if (m)
			member_free(g, m);
		return 0;
	}
	m = member_put(g, record, (enum ripc__group_role)h->u[0]);
	if (!m) {
		ripc__log(RIPC_LOG_WARN, "group %llu: no room for peer %s among %u others",
			  (unsigned long long)g->id, ripc__instance_text(record->instance),
			  HASH_COUNT(g->members));
		return 0;
	}
	m->joined_ns = ripc__now(g->ctx);
	if (g->next_ns > m->joined_ns + SILENT_NS) {
		g->next_ns = m->joined_ns + SILENT_NS;
		ripc__timer_at(g->ctx, g->next_ns);
	}
	/* Those that were told of it by our predecessor have its list: ours is another one. */
	if (!was && h->u[0] == RIPC__ROLE_MEMBER)
		announce(g, m->instance, m->record, m->record_len, true);
	if (h->u[1] != g->version)
		tell_all(g, lane);
	say(lane, RIPC__KEEPER, g->id, 1, g->version, NULL, 0);
	return 0;
}

/* ---- the part of all others ---- */

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
		if (!member_put(g, record, RIPC__ROLE_MEMBER))
			ripc__log(RIPC_LOG_WARN, "group %llu: no memory for member %s",
				  (unsigned long long)g->id, ripc__instance_text(record->instance));
		return;
	}
	m = member_find(g, record->instance);
	if (m)
		member_free(g, m);
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
				expire(g, m, GRACE_NS);
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
	size_t len = own_record(g, record);
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
	say(lane, RIPC__JOIN, g->id, as, g->version, record, len);
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
			send_join(g, lane, role(g));
		else if (g->next_ns - g->asked_ns > REFRESH_NS)
			g->asked_ns = 0;
		return;
	}
	/* Nobody answers to that name: a member may claim it, all others have to wait for one. */
	if (d->state == RIPC__DEST_FAILED) {
		if (role(g) == RIPC__ROLE_MEMBER) {
			look_again(g);
			return;
		}
		g->next_ns = d->retry_ns;
		/* The last of them may have left while there was no lane to say so. */
		g->version = 0;
		HASH_ITER (hh, g->members, m, tmp)
			expire(g, m, GRACE_NS);
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
	ripc__agent_need(ctx);
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
		keep(g);
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
		resign(g);
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
	if (h->kind == RIPC__KEEPER) {
		keeper_arrived(lane, h);
		return 0;
	}
	if (ripc__record_decode(&record, h->payload, h->payload_len, why))
		return -EPROTO;
	if (h->kind == RIPC__JOIN)
		return join_arrived(lane, h, &record, why);
	member_arrived(lane, h, &record);
	return 0;
}

void ripc__groups_lane_gone(struct ripc *ctx, const struct ripc__peer *p)
{
	for (struct ripc__group *g = ctx->groups; g; g = g->hh.next) {
		struct ripc__member *m = member_find(g, p->instance);

		if (g->state == RIPC__GROUP_KEEPING && m)
			expire(g, m, ctx->opt.peer_timeout_ms * RIPC__MS);
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
		bool silent = keeping && m->joined_ns && now >= m->joined_ns + SILENT_NS;

		if (!silent && now < m->expires_ns) {
			uint64_t when = m->expires_ns;

			if (keeping && m->joined_ns && m->joined_ns + SILENT_NS < when)
				when = m->joined_ns + SILENT_NS;
			if (when < g->next_ns)
				g->next_ns = when;
			continue;
		}
		ripc__log(RIPC_LOG_INFO, "group %llu: %s is not there any more",
			  (unsigned long long)g->id, ripc__instance_text(m->instance));
		if (keeping && m->role == RIPC__ROLE_MEMBER)
			announce(g, m->instance, m->record, m->record_len, false);
		member_free(g, m);
	}
}

static void group_free(struct ripc__group *g)
{
	struct ripc__member *m, *tmp;
	struct ripc__sender *s, *stmp;

	unpin(g);
	HASH_ITER (hh, g->members, m, tmp)
		member_free(g, m);
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
			announce_self(g, false);
			resign(g);
		}
	} else if (g->state == RIPC__GROUP_JOINED && (lane = lane_to(g, g->keeper))) {
		send_join(g, lane, RIPC__ROLE_NONE);
	}
}

/* Return: whether the group lives on. */
static bool group_step(struct ripc__group *g, uint64_t now)
{
	bool member = role(g) == RIPC__ROLE_MEMBER;

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
		if (now - g->asked_ns >= REFRESH_NS || g->told != role(g)) {
			/* Until it answers the list stands, but its silence will be noticed. */
			struct ripc__dest *d = pin(g);

			if (d && !ripc__dest_reach(g->ctx, d) &&
			    !memcmp(g->keeper, d->peer->instance, 16))
				send_join(g, d->peer->lane, role(g));
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

static void seat_free(struct ripc__group *g, struct ripc__seat *seat)
{
	ripc__list_del(&seat->link);
	free(seat);
	if (role(g) == RIPC__ROLE_MEMBER)
		return;
	g->stats.members--;
	ripc__groupcast_listen(g);
	/* Who sends goes on with its list, else nothing of the group is of use any more. */
	if (!g->stats.sent)
		g->used_ns = 0;
	ripc__group_poke(g);
}

void ripc__groups_service_gone(struct ripc_service *s)
{
	for (struct ripc__group *g = s->ctx->groups; g; g = g->hh.next) {
		struct ripc__list *n, *tmp;

		ripc__list_for_each_safe (n, tmp, &g->seats) {
			struct ripc__seat *seat = ripc__list_entry(n, struct ripc__seat, link);

			if (seat->service == s)
				seat_free(g, seat);
		}
		ripc__wake(s->ctx, &g->waitq);
	}
}

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

/* ---- the calls ---- */

int ripc__check_group(struct ripc_service *s, uint64_t group)
{
	if (!s)
		return ripc__fail(-EINVAL, "no service");
	if (!group || group >= RIPC_GROUP_LIMIT)
		return ripc__fail(-EINVAL, "group %llu: must be from 1 to 2^62 - 1",
				  (unsigned long long)group);
	return ripc__check_owner(s->ctx);
}

static struct ripc__seat *seat_find(struct ripc__group *g, const struct ripc_service *s)
{
	struct ripc__list *n;

	ripc__list_for_each (n, &g->seats) {
		struct ripc__seat *seat = ripc__list_entry(n, struct ripc__seat, link);

		if (seat->service == s)
			return seat;
	}
	return NULL;
}

static int not_joined(struct ripc__group *g, int timeout_ms)
{
	struct ripc__dest *d = ripc__dest_find(g->ctx, ripc__group_name(g->id));

	return ripc__fail(timeout_ms ? -ETIMEDOUT : -EAGAIN,
			  "group %llu: its keeper has not answered in %d ms%s%s",
			  (unsigned long long)g->id, timeout_ms, d && d->why ? ": " : "",
			  d && d->why ? d->why : "");
}

/* Lock held, service entered. */
static int join(struct ripc_service *s, uint64_t id, int timeout_ms)
{
	struct ripc *ctx = s->ctx;
	uint64_t deadline = ripc__deadline(ctx, timeout_ms);
	struct ripc__group *g = ripc__group_get(ctx, id);
	struct ripc__seat *seat = g && !seat_find(g, s) ? calloc(1, sizeof(*seat)) : NULL;
	int rc = 0;

	if (g && !seat && seat_find(g, s))
		return ripc__fail(-EALREADY, "service %llu is a member of group %llu",
				  (unsigned long long)s->id, (unsigned long long)id);
	if (!seat)
		return ripc__fail(-ENOMEM, "no memory for group %llu", (unsigned long long)id);
	seat->service = s;
	if (role(g) != RIPC__ROLE_MEMBER) {
		g->stats.members++;
		/* A sender becomes a member: not before the keeper knows. */
		if (g->state == RIPC__GROUP_JOINED) {
			g->state = RIPC__GROUP_ASKING;
			g->asked_ns = 0;
		}
		ripc__group_poke(g);
	}
	ripc__list_add(&g->seats, &seat->link);
	ripc__groupcast_listen(g);
	g->calls++;
	while (!ripc__group_known(g)) {
		if (s->state != RIPC__SERVICE_ACTIVE || ctx->closing) {
			rc = ripc__fail(-ESHUTDOWN, "service %llu is being closed",
					(unsigned long long)s->id);
			break;
		}
		if (timeout_ms ? ripc__wait(ctx, &g->waitq, deadline) && !ripc__group_known(g)
			       : (ripc__progress(ctx), !ripc__group_known(g))) {
			rc = not_joined(g, timeout_ms);
			break;
		}
	}
	g->calls--;
	/* It may have been closed, and so left, meanwhile. */
	if (rc && (seat = seat_find(g, s)))
		seat_free(g, seat);
	return rc;
}

int ripc_group_join(struct ripc_service *s, uint64_t group, int timeout_ms)
{
	int rc = ripc__check_group(s, group);

	if (rc)
		return rc;
	ripc__lock(s->ctx);
	rc = ripc__service_enter(s);
	if (!rc) {
		rc = join(s, group, timeout_ms);
		ripc__service_leave(s);
	}
	ripc__unlock(s->ctx);
	return rc;
}

int ripc_group_leave(struct ripc_service *s, uint64_t group)
{
	int rc = ripc__check_group(s, group);
	struct ripc__group *g;
	struct ripc__seat *seat;

	if (rc)
		return rc;
	ripc__lock(s->ctx);
	rc = ripc__service_enter(s);
	if (!rc) {
		g = ripc__group_find(s->ctx, group);
		seat = g ? seat_find(g, s) : NULL;
		if (seat)
			seat_free(g, seat);
		else
			rc = ripc__fail(-ENOENT, "service %llu is no member of group %llu",
					(unsigned long long)s->id, (unsigned long long)group);
		ripc__service_leave(s);
	}
	ripc__unlock(s->ctx);
	return rc;
}
