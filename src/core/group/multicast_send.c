/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Messages to groups, numbered by their sender. A sender uses multicast to members that
 * acknowledged it recently, and lanes to all others. A network without multicast costs some lost
 * datagrams, but no message.
 */
#include "core/group/group.h"
#include "core/group/membership.h"
#include "core/peer/lane.h"
#include "core/peer/peer.h"
#include "core/service/items.h"
#include "core/service/service.h"
#include "wire/bytes.h"

/* interval of passes over members without a lane or credit */
#define POLL_NS            (1 * RIPC__MS)
#define MEMBER_BACKOFF_NS  (500 * RIPC__MS) /* before another attempt at an unreachable member */
#define MCAST_PROBES       64 /* multicasts without a valid MCAST_ACK before they become rare */
#define MCAST_ACK_VALID_NS (4000 * RIPC__MS) /* validity of a MCAST_ACK */
#define HEADER_MAX         (RIPC__HEADER_LEN + 16 + 8 + RIPC_ITEMS_MAX * 4)

/* ---- multicast ---- */

void ripc__mcast_acked(struct ripc__lane *lane, const struct ripc__header *h)
{
	struct ripc__group *g = ripc__group_find(lane->ctx, h->dest);
	struct ripc__member *m = g ? ripc__member_find(g, lane->peer->instance) : NULL;

	/*
	 * A number that this context never sent by multicast was forged or belongs to another
	 * sender.
	 */
	if (m && g->number - h->u[0] < RIPC__MCAST_DEDUP_WINDOW) {
		m->mcast_until_ns = lane->ctx->now_ns + MCAST_ACK_VALID_NS;
		g->unacked = 0;
	}
}

static bool can_multicast(const struct ripc__tp *tp)
{
	return tp->t && tp->limits.caps & RIPC__CAP_MULTICAST;
}

void ripc__mcast_listen(struct ripc__group *g, bool on)
{
	struct ripc *ctx = g->ctx;

	for (unsigned i = 0; i < ctx->ntp; i++) {
		if (!can_multicast(&ctx->tp[i]))
			continue;
		if (!on)
			ctx->tp[i].ops->group_leave(ctx->tp[i].t, g->id);
		else if (ctx->tp[i].ops->group_join(ctx->tp[i].t, g->id))
			ripc__log(RIPC_LOG_INFO,
				  "group %" PRIu64 ": no multicast over %s: %s; lanes carry it",
				  g->id, ctx->tp[i].ops->name, ripc_error_detail());
	}
}

/* ---- sending ---- */

struct mcast_send {
	struct ripc__group *g;
	const struct iovec *items;
	unsigned nitems;
	uint64_t bytes;
	uint64_t source;
	bool more;
	uint64_t number;
	uint64_t started_ns;
	unsigned sent;   /* members that have been sent to */
	unsigned missed; /* members without the message after the time-out */
	bool unreadable; /* an item cannot be read */
};

static size_t put_header(const struct mcast_send *c, uint8_t buf[HEADER_MAX], bool datagram)
{
	uint8_t *p = ripc__header_put(buf, RIPC__GROUP, datagram ? RIPC__F_INSTANCE : 0,
				      (uint16_t)c->nitems, 0, c->g->id, c->source);

	if (datagram) {
		memcpy(p, c->g->ctx->instance, 16);
		p += 16;
	}
	ripc__put_le64(p, c->number);
	p += 8;
	for (unsigned i = 0; i < c->nitems; i++, p += 4)
		ripc__put_le32(p, (uint32_t)c->items[i].iov_len);
	return (size_t)(p - buf);
}

/* The transport on which multicast reaches a member: the number of its bit; < 0: use the lane. */
static int member_tp(const struct mcast_send *c, const struct ripc__member *m)
{
	const struct ripc__peer *p = ripc__peer_find(c->g->ctx, m->instance);

	if (m->role != RIPC__ROLE_MEMBER || !p || !p->lane ||
	    !can_multicast(&c->g->ctx->tp[p->lane->tp]))
		return -1;
	return (int)p->lane->tp;
}

/* Transports with enough members for a datagram to all. Return: a bit for each. */
static unsigned mcast_tps(const struct mcast_send *c, bool *acked)
{
	unsigned count[RIPC__TP_MAX] = {0}, mask = 0;
	struct ripc__member *m, *tmp;
	int tp;

	HASH_ITER (hh, c->g->members, m, tmp)
		if ((tp = member_tp(c, m)) >= 0) {
			mask |= ++count[tp] >= 2 ? 1u << tp : 0;
			*acked |= c->started_ns < m->mcast_until_ns;
		}
	return mask;
}

/*
 * Sends one datagram on each transport with several members. Members that acknowledged multicast
 * are done. Without any acknowledgement the network lacks multicast: it is then probed rarely.
 */
static void multicast(struct mcast_send *c)
{
	struct ripc__group *g = c->g;
	struct iovec iov[1 + RIPC_ITEMS_MAX];
	uint8_t buf[HEADER_MAX];
	struct ripc__member *m, *tmp;
	bool acked = false;
	unsigned mask = mcast_tps(c, &acked), left = 0;
	int tp;

	if (!mask || (!acked && g->unacked >= MCAST_PROBES && c->number % MCAST_PROBES))
		return;
	iov[0] = (struct iovec){buf, put_header(c, buf, true)};
	memcpy(iov + 1, c->items, c->nitems * sizeof(*iov));
	for (unsigned i = 0; i < g->ctx->ntp; i++) {
		struct ripc__tp *t = &g->ctx->tp[i];

		if (mask & 1u << i && !t->ops->post_group(t->t, g->id, iov, 1 + c->nitems))
			left |= 1u << i;
	}
	g->stats.multicasts += !!left;
	g->unacked += left && !acked;
	HASH_ITER (hh, g->members, m, tmp)
		if ((tp = member_tp(c, m)) >= 0 && left & 1u << tp &&
		    c->started_ns < m->mcast_until_ns) {
			m->sent = c->number;
			c->sent++;
		}
}

/* Return: true: it is done. */
static bool skip_member(struct mcast_send *c, struct ripc__member *m)
{
	m->sent = c->number;
	c->missed++;
	c->g->stats.unreached++;
	ripc__member_want(m, NULL);
	return true;
}

/* Return: whether this member is done. */
static bool send_to_member(struct mcast_send *c, struct ripc__member *m)
{
	struct ripc *ctx = c->g->ctx;
	struct ripc__peer *p;
	uint8_t buf[HEADER_MAX];
	int rc;

	p = ripc__peer_find(ctx, m->instance);
	if (!p || !p->lane) {
		uint64_t now = ripc__now(ctx);

		/* The connection attempt ended without a lane. */
		if (m->wanted && (!p || !ripc__peer_connecting(ctx, p))) {
			m->backoff_until_ns = now + MEMBER_BACKOFF_NS;
			return skip_member(c, m);
		}
		if (now < m->backoff_until_ns)
			return skip_member(c, m);
		p = ripc__member_peer(ctx, m);
		if (!p)
			return false;
		ripc__member_want(m, p);
		ripc__peer_connect(ctx, p);
		ripc__progress_request(ctx);
		if (!p->lane)
			return false;
	}
	rc = ripc__lane_send(p->lane, buf, put_header(c, buf, false), c->items, c->nitems, c->more);
	if (rc == -EAGAIN) {
		/* While the sender waits, the peer's silence is detected. */
		ripc__member_want(m, p);
		return false;
	}
	c->unreadable |= rc == -EFAULT;
	if (rc)
		return skip_member(c, m);
	ripc__member_want(m, NULL);
	m->sent = c->number;
	c->sent++;
	return true;
}

/* One pass over the members that are not done. last: skips them. Return: how many remain. */
static unsigned send_pass(struct mcast_send *c, bool last)
{
	struct ripc__member *m, *tmp;
	unsigned left = 0;

	HASH_ITER (hh, c->g->members, m, tmp)
		if (m->role == RIPC__ROLE_MEMBER && m->sent < c->number)
			left += !(last ? skip_member(c, m) : send_to_member(c, m));
	return left;
}

/* Waits until the members are known and no other thread is sending to the group. */
static int wait_send_turn(struct ripc_service *s, struct ripc__group *g, int timeout_ms,
			  uint64_t deadline)
{
	struct ripc__dest *d;
	bool polled = false;
	int rc;

	while (!(rc = ripc__service_closing(s)) && (!ripc__group_members_known(g) || g->sending)) {
		if (!timeout_ms && !polled) {
			polled = true;
			ripc__progress(g->ctx);
			continue;
		}
		if (timeout_ms && (!ripc__wait(g->ctx, &g->waitq, deadline) ||
				   (ripc__group_members_known(g) && !g->sending)))
			continue;
		if (g->sending)
			return ripc__fail(timeout_ms ? -ETIMEDOUT : -EAGAIN,
					  "group %" PRIu64 ": another thread is sending to it",
					  g->id);
		d = ripc__dest_find(g->ctx, ripc__group_name(g->id));
		return ripc__fail(timeout_ms ? -EHOSTUNREACH : -EAGAIN,
				  "group %" PRIu64 ": no member was found%s%s", g->id,
				  d && d->why ? ": " : "", d && d->why ? d->why : "");
	}
	return rc;
}

/* Lock held, service entered, group pinned. */
static int mcast_send(struct ripc_service *s, struct mcast_send *c, int timeout_ms)
{
	struct ripc__group *g = c->g;
	struct ripc *ctx = g->ctx;
	uint64_t deadline = ripc__deadline(ctx, timeout_ms), now;
	bool polled = false;
	int rc = wait_send_turn(s, g, timeout_ms, deadline);

	if (rc)
		return rc;
	if (!g->stats.members)
		return ripc__fail(-EHOSTUNREACH, "group %" PRIu64 " has no members", g->id);
	g->sending = true;
	c->started_ns = g->used_ns = ripc__now(ctx);
	c->number = ++g->number;
	multicast(c);
	if (!ripc__list_empty(&g->local_members)) {
		ripc__group_deliver(g, ctx->instance, c->source, c->items, c->nitems, c->bytes);
		c->sent++;
	}
	while (send_pass(c, false) && !(rc = ripc__service_closing(s))) {
		if (!timeout_ms && polled)
			break;
		polled = true;
		if (!timeout_ms) {
			ripc__progress(ctx);
			continue;
		}
		now = ripc__now(ctx);
		if (now >= deadline)
			break;
		ripc__wait(ctx, &g->waitq, deadline - now < POLL_NS ? deadline : now + POLL_NS);
	}
	send_pass(c, true);
	g->sending = false;
	ripc__wake(ctx, &g->waitq);
	if (rc)
		return rc;
	if (!c->sent && c->unreadable)
		return ripc__fail(-EFAULT, "group %" PRIu64 ": an item cannot be read", g->id);
	if (!c->sent)
		return ripc__fail(timeout_ms ? -EHOSTUNREACH : -EAGAIN,
				  "group %" PRIu64 ": none of its %u members could be reached%s",
				  g->id, c->missed, timeout_ms ? "" : " without waiting");
	g->stats.sent++;
	s->stats.short_sent++;
	s->stats.bytes_sent += c->bytes;
	return 0;
}

static int check_send(struct ripc_service *s, struct mcast_send *c, uint64_t group,
		      const struct ripc_send_options *o, struct ripc **ctx)
{
	int rc = ripc__check_group(s, group, ctx);

	if (!rc)
		rc = ripc__check_items(c->items, c->nitems, o, &c->bytes);
	if (rc)
		return rc;
	if (o && (o->nreturn_buffers || o->flags & RIPC_RELIABLE))
		return ripc__fail(-EOPNOTSUPP,
				  "messages to groups have no return buffers and are not reliable");
	if (c->bytes > RIPC_GROUP_MESSAGE_MAX)
		return ripc__fail(-EMSGSIZE,
				  "message of %" PRIu64 " bytes to group %" PRIu64
				  ": has at most %d",
				  c->bytes, group, RIPC_GROUP_MESSAGE_MAX);
	return 0;
}

int RIPC__NO_ANALYSIS ripc_group_send(struct ripc_service *s, uint64_t group,
				      const struct iovec *items, unsigned nitems,
				      const struct ripc_send_options *options, int timeout_ms)
{
	struct mcast_send c = {
		.items = items, .nitems = nitems, .more = options && options->flags & RIPC_MORE};
	struct ripc *ctx;
	int rc = check_send(s, &c, group, options, &ctx);

	if (!rc)
		rc = ripc__service_lock(s, ctx);
	if (rc)
		return rc;
	c.source = s->id;
	c.g = ripc__group_get(ctx, group);
	if (c.g) {
		c.g->users++;
		rc = mcast_send(s, &c, timeout_ms);
		c.g->users--;
	} else {
		rc = ripc__fail(-ENOMEM, "no memory for group %" PRIu64, group);
	}
	ripc__service_unlock(s, ctx);
	return rc;
}

/* ---- statistics ---- */

int ripc__group_stats(struct ripc *ctx, uint64_t group, const uint8_t *sender,
		      struct ripc_group_stats *stats)
{
	struct ripc__group *g = ripc__group_find(ctx, group);
	struct ripc__mcast_sender *s;

	if (!g)
		return ripc__fail(-ENOENT, "group %" PRIu64 " is not used by this context", group);
	if (!sender) {
		*stats = g->stats;
		return 0;
	}
	HASH_FIND(hh, g->senders, sender, 16, s);
	if (!s)
		return ripc__fail(-ENOENT, "group %" PRIu64 ": nothing has come from %s", group,
				  ripc__instance_text(sender));
	stats->received = s->received;
	stats->lost = s->lost;
	stats->duplicates = s->duplicates;
	return 0;
}
