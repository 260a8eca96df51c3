/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Messages that arrive for groups. Each carries its sender's number: a message that arrives by
 * multicast and over a lane is delivered once.
 */
#include "core/group/group.h"
#include "core/peer/lane.h"
#include "core/memory/message.h"
#include "core/peer/peer.h"
#include "core/service/service.h"
#include "wire/bytes.h"

#include <stdlib.h>
#include <string.h>

#define MCAST_ACK_INTERVAL_NS (1000 * RIPC__MS) /* between two MCAST_ACKs to one sender */

/*
 * Makes room for a sender: replaces the one without messages for longest, if that is long enough.
 * Return: NULL: it is not. The choice takes constant time, because unauthenticated peers can invent
 * a sender per datagram.
 */
static struct ripc__mcast_sender *sender_reuse(struct ripc__group *g)
{
	struct ripc__mcast_sender *s =
		ripc__list_first_entry(&g->lru, struct ripc__mcast_sender, lru);

	if (!s || g->ctx->now_ns - s->replay.last_new_ns < RIPC__IDLE_MS * RIPC__MS)
		return NULL;
	HASH_DEL(g->senders, s);
	ripc__list_del(&s->lru);
	g->stats.senders--;
	g->ctx->unverified_senders -= s->unverified;
	memset(s, 0, sizeof(*s));
	return s;
}

/* Whether another sender needs the place of one. Unverified ones get half of the table. */
static bool senders_full(const struct ripc__group *g, bool unverified)
{
	unsigned n = HASH_COUNT(g->senders);

	if (!unverified)
		return n >= RIPC__MCAST_SENDERS_MAX;
	return n >= RIPC__MCAST_SENDERS_MAX / 2 ||
	       g->ctx->unverified_senders >= RIPC__UNVERIFIED_SENDERS_MAX;
}

/* unverified: a datagram names it. Return: NULL: no room, or out of memory. */
static struct ripc__mcast_sender *sender_get(struct ripc__group *g, const uint8_t instance[16],
					     bool unverified)
{
	struct ripc__mcast_sender *s;

	HASH_FIND(hh, g->senders, instance, 16, s);
	if (s) {
		if (s->unverified && !unverified) {
			s->unverified = false;
			g->ctx->unverified_senders--;
		}
		return s;
	}
	if (senders_full(g, unverified))
		s = sender_reuse(g);
	else
		s = calloc(1, sizeof(*s));
	if (!s)
		return NULL;
	memcpy(s->instance, instance, 16);
	HASH_ADD(hh, g->senders, instance, 16, s);
	if (!s->hh.tbl) {
		free(s);
		return NULL;
	}
	ripc__list_add(&g->lru, &s->lru);
	g->stats.senders++;
	s->unverified = unverified;
	g->ctx->unverified_senders += unverified;
	return s;
}

static bool number_check(struct ripc__group *g, struct ripc__mcast_sender *s, uint64_t n,
			 bool confirmed)
{
	int64_t lost;
	bool fresh = ripc__replay_check(&s->replay, s->seen, RIPC__MCAST_DEDUP_WINDOW / 64, n,
					confirmed, g->ctx->now_ns, &lost);

	/* It begins anew, but for copies of the messages before. */
	if (fresh && s->was_absent) {
		s->was_absent = false;
		memset(&s->replay, 0, sizeof(s->replay));
		ripc__replay_check(&s->replay, s->seen, RIPC__MCAST_DEDUP_WINDOW / 64, n, confirmed,
				   g->ctx->now_ns, &lost);
	}
	s->lost += (uint64_t)lost;
	g->stats.lost += (uint64_t)lost;
	if (!fresh) {
		s->duplicates++;
		g->stats.duplicates++;
	}
	return fresh;
}

static struct ripc__message *message_new(struct ripc *ctx, const struct iovec *items,
					 unsigned nitems, uint64_t bytes)
{
	struct ripc__message *m = ripc__message_new(ctx, nitems);
	struct iovec *iov;
	uint8_t *p;

	if (!m)
		return NULL;
	p = m->heap = malloc(bytes ? bytes : 1);
	if (!p) {
		ripc__message_release(m);
		return NULL;
	}
	iov = (struct iovec *)m->pub.items;
	for (unsigned i = 0; i < nitems; i++) {
		iov[i] = (struct iovec){p, items[i].iov_len};
		if (items[i].iov_len)
			memcpy(p, items[i].iov_base, items[i].iov_len);
		p += items[i].iov_len;
		((uint8_t *)m->pub.placement)[i] = RIPC_IN_RECEIVE_BUFFER;
	}
	m->bytes = (uint32_t)bytes;
	return m;
}

void ripc__group_deliver(struct ripc__group *g, const uint8_t instance[16], uint64_t source,
			 const struct iovec *items, unsigned nitems, uint64_t bytes)
{
	struct ripc *ctx = g->ctx;
	const struct ripc__local_member *local_member;

	ripc__list_for_each_entry (local_member, &g->local_members, link) {
		struct ripc_service *s = local_member->service;
		struct ripc__message *m;

		if (s->state == RIPC__SERVICE_TAKEN_OVER || ripc__service_full(s)) {
			ctx->stats.dropped_queue_full++;
			s->stats.dropped_queue_full++;
			g->stats.dropped++;
			continue;
		}
		m = message_new(ctx, items, nitems, bytes);
		if (!m) {
			ctx->stats.dropped_no_memory++;
			g->stats.dropped++;
			continue;
		}
		m->pub.source = source;
		m->pub.dest = s->id;
		m->pub.group = g->id;
		memcpy(m->pub.instance, instance, 16);
		ripc__service_deliver(s, m);
	}
}

/* Acknowledges multicast to a sender that could use it in place of the lane. */
static void send_mcast_ack(struct ripc__group *g, unsigned tp, struct ripc__mcast_sender *s,
			   uint64_t number)
{
	struct ripc__peer *p = ripc__peer_find(g->ctx, s->instance);

	if (!p || !p->lane || p->lane->tp != tp ||
	    (s->last_ack_ns && g->ctx->now_ns - s->last_ack_ns < MCAST_ACK_INTERVAL_NS))
		return;
	s->last_ack_ns = g->ctx->now_ns;
	ripc__lane_notify(p->lane, RIPC__MCAST_ACK, g->id, 0, number, 0);
}

void ripc__group_receive(struct ripc *ctx, unsigned tp, struct ripc__lane *lane,
			 const struct ripc__header *h)
{
	const uint8_t *instance = lane ? lane->peer->instance : h->instance;
	struct ripc__group *g = ripc__group_find(ctx, h->dest);
	const uint8_t *payload = h->payload;
	struct iovec items[RIPC_ITEMS_MAX];
	struct ripc__mcast_sender *s;

	/* Our own multicast loops back; local members have the message already. */
	if (!memcmp(instance, ctx->instance, 16))
		return;
	if (!g || ripc__list_empty(&g->local_members)) {
		/*
		 * The sender has not learned yet that the last local member left; a multicast
		 * sender need not.
		 */
		ctx->stats.dropped_no_service += lane ? 1 : 0;
		return;
	}
	s = sender_get(g, instance, !lane);
	if (!s) {
		ctx->stats.dropped_no_memory++;
		g->stats.dropped++;
		return;
	}
	if (!lane)
		send_mcast_ack(g, tp, s, h->u[0]);
	if (!number_check(g, s, h->u[0], lane))
		return;
	ripc__list_del(&s->lru);
	ripc__list_add(&g->lru, &s->lru);
	s->received++;
	g->stats.received++;
	for (unsigned i = 0; i < h->nitems; i++) {
		items[i] = (struct iovec){(void *)payload, ripc__get_le32(h->lens + 4 * i)};
		payload += items[i].iov_len;
	}
	ripc__group_deliver(g, instance, h->source, items, h->nitems, h->payload_len);
}
