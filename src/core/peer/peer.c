/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/peer/peer.h"
#include "base/admission.h"
#include "base/hash.h"
#include "core/peer/attempt.h"
#include "core/peer/datagram_context.h"
#include "core/peer/endpoint.h"
#include "core/peer/lane.h"
#include "core/peer/ops.h"
#include "core/peer/path.h"
#include "core/service/service.h"
#include "wire/bytes.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#define RETRY_MIN_NS (20 * RIPC__MS)
/* time for the peer's own connection after it refused ours; at most half of peer_timeout_ms */
#define CROSSED_TIMEOUT_NS (1000 * RIPC__MS)

/* Peers that are evicted at once, because sorting them is expensive. */
#define PEERS_BATCH (RIPC__PEERS_MAX / 16)

/* ---- addresses ---- */

int ripc__peer_set_addrs(struct ripc__peer *p, const struct ripc__record *record)
{
	size_t len = 0;
	uint8_t *addrs, *at;
	bool changed;

	for (unsigned i = 0; i < record->naddrs; i++)
		len += 3u + record->addrs[i].len;
	addrs = malloc(len ? len : 1);
	if (!addrs)
		return -ENOMEM;
	at = addrs;
	for (unsigned i = 0; i < record->naddrs; i++) {
		at[0] = record->addrs[i].transport;
		ripc__put_le16(at + 1, record->addrs[i].len);
		memcpy(at + 3, record->addrs[i].addr, record->addrs[i].len);
		at += 3 + record->addrs[i].len;
	}
	changed = len != p->addrs_len || !p->addrs || memcmp(addrs, p->addrs, len);
	if (changed)
		ripc__attempts_clear(p);
	free(p->addrs);
	if (p->lists->datagrams)
		p->lists->datagrams->path = NULL;
	p->no_dgram_path = false;
	p->addrs = addrs;
	p->addrs_len = (uint16_t)len;
	/* The address that is being tried may be gone: try the others at once. */
	if (changed && p->out && p->contact != RIPC__CONTACT_NORMAL) {
		p->next_path = 0;
		/* The caller may go through the list of lanes. */
		p->out->connect_ns = 0;
		ripc__timer_at(p->out->ctx, 0);
	}
	return 0;
}

void ripc__peers_addrs_changed(struct ripc *ctx)
{
	struct ripc__peer *p;

	ripc__list_for_each_entry (p, &ctx->peers, link)
		p->no_dgram_path = false;
}

/* ---- peers ---- */

void ripc__sweep_plan(struct ripc *ctx)
{
	if (ctx->next_sweep_ns != RIPC__NEVER)
		return;
	ctx->next_sweep_ns = ripc__now(ctx) + RIPC__IDLE_MS * RIPC__MS;
	ripc__timer_at(ctx, ctx->next_sweep_ns);
}

/* The peer has no work, and had no traffic since the last trim(). */
static void peer_trim(struct ripc *ctx, struct ripc__peer *p)
{
	const struct ripc__transport_ops *ops = ctx->tp[p->lane->tp].ops;
	struct ripc__peer_lists *l;

	ripc__dests_fold(ctx, p);
	ripc__flow_park(p->lane);
	ripc__lane_memory_trim(p->lane);
	if (ops->trim)
		ops->trim(p->lane->ep);
	ctx->peer_ops->peer_idle(p);
	l = p->lists;
	/* Without work the other lists are empty. */
	if (!p->reliable && !l->datagrams && !p->answers && ripc__list_empty(&l->dests) &&
	    ripc__list_empty(&l->attempts) && ripc__list_empty(&l->orphan_returns))
		ripc__peer_lists_free(p);
}

/* Frees what peers do not need that had no traffic since the last call. */
static void trim(struct ripc *ctx)
{
	struct ripc__lane *lane;
	bool again = false;

	ctx->next_trim_ns = RIPC__NEVER;
	ripc__list_for_each_entry (lane, &ctx->lanes, link) {
		uint32_t seq = lane->tx_seq + lane->rx_seq;

		if (lane->state == RIPC__LANE_UP)
			again |= !ripc__flows_trim(lane);
		if (lane->peer->lane != lane)
			continue;
		if (lane->trim_seq == seq && !ripc__peer_has_work(lane->peer)) {
			peer_trim(ctx, lane->peer);
			continue;
		}
		lane->trim_seq = seq;
		again = true;
	}
	if (again)
		ripc__trim_plan(ctx);
	else
		ctx->peer_ops->all_idle(ctx);
}

void ripc__peer_new_epoch(struct ripc *ctx, struct ripc__peer *p)
{
	struct ripc__lane *lane;

	p->epoch = ripc__seq_begin(ctx);
	/* Two connections may cross. */
	ripc__list_for_each_entry (lane, &ctx->lanes, link)
		lane->epoch_is_old |= lane->peer == p && (lane->state == RIPC__LANE_CONNECTING ||
							  lane->state == RIPC__LANE_ACCEPTING);
}

void ripc__seq_end(struct ripc *ctx, uint64_t next)
{
	if (next > ctx->next_number)
		ctx->next_number = next;
}

/* The id of an instance in ctx->peer_table. Peers choose their instances, so it is a secret. */
static uint64_t peer_id(const struct ripc *ctx, const uint8_t instance[16])
{
	const uint64_t key[2] = {ctx->secret, 0};

	return ripc__siphash_bytes(key, instance, 16);
}

struct ripc__peer *ripc__peer_find(struct ripc *ctx, const uint8_t instance[16])
{
	struct ripc__peer *p = ctx->last_peer;
	struct ripc__node *n;

	if (p && !memcmp(p->instance, instance, 16))
		return p;
	n = ripc__table_find(&ctx->peer_table, peer_id(ctx, instance));
	while (n && memcmp(((struct ripc__peer *)n)->instance, instance, 16))
		n = ripc__table_next(n);
	ctx->last_peer = (struct ripc__peer *)n;
	return ctx->last_peer;
}

/* Whether it must not be evicted: it has a lane or outstanding work. */
static bool peer_in_use(const struct ripc__peer *p)
{
	const struct ripc__dest *d;

	if (p->lane || p->out || p->pending_conn || p->nlanes || p->answers ||
	    ripc__peer_has_work(p))
		return true;
	ripc__list_for_each_entry (d, &p->lists->dests, link)
		if (ripc__dest_in_use(d))
			return true;
	return false;
}

/* Removes it with its destinations, which no sender waits for. */
static void peer_forget(struct ripc *ctx, struct ripc__peer *p)
{
	struct ripc__dest *d;

	while ((d = ripc__list_first_entry(&p->lists->dests, struct ripc__dest, link)))
		ripc__dest_free(ctx, d);
	ripc__seq_end(ctx, p->next_request_id);
	ripc__datagram_contexts_free(p);
	if (p->lists->datagrams)
		ripc__seq_end(ctx, p->lists->datagrams->next_seq);
	ctx->peer_ops->peer_forgotten(ctx, p);
	if (ctx->last_peer == p)
		ctx->last_peer = NULL;
	ripc__table_remove(&ctx->peer_table, &p->node);
	ripc__list_del(&p->link);
	ctx->stats.peers--;
	ripc__attempts_clear(p);
	free(p->pending_conn);
	free(p->addrs);
	free(p->dedup_bitmap);
	free(p->lists->datagrams);
	ripc__peer_lists_free(p);
	free(p);
}

/*
 * Eviction: first peers that nothing was received from, then those with a datagram window, then
 * those with a dedup window. The policy is base/admission.h.
 */
static uint32_t peer_rank(const struct ripc__peer *p)
{
	if (peer_in_use(p))
		return RIPC__RANK_NEVER;
	if (p->dedup_bitmap)
		return 2;
	return p->lists->datagrams && p->lists->datagrams->received.run[0].count > 0;
}

/* Return: whether there is room now. */
static bool evict_peers(struct ripc *ctx)
{
	size_t n = ctx->peer_table.count, victims;
	struct ripc__entry *entries = malloc((n ? n : 1) * sizeof(*entries));
	struct ripc__peer *p;

	if (!entries)
		return false;
	n = 0;
	ripc__list_for_each_entry (p, &ctx->peers, link) {
		entries[n++] = (struct ripc__entry){
			.source = p->addrs_len ? ripc__source_unique(p) : p->source,
			.since_ns = ripc__peer_used_ns(p),
			.rank = peer_rank(p),
			.object = p,
		};
	}
	victims = ripc__admission_pick(entries, n, PEERS_BATCH);
	for (size_t i = 0; i < victims; i++)
		peer_forget(ctx, entries[i].object);
	free(entries);
	return victims > 0;
}

static struct ripc__peer *peer_add(struct ripc *ctx, const uint8_t instance[16], unsigned max_peers)
{
	struct ripc__peer *p = ripc__peer_find(ctx, instance);

	if (p)
		return p;
	/* This context itself is a peer too and always has room. */
	if (ctx->peer_table.count >= max_peers && memcmp(instance, ctx->instance, 16) &&
	    !evict_peers(ctx))
		return NULL;
	p = calloc(1, sizeof(*p));
	if (!p)
		return NULL;
	ripc__peer_lists_init(p);
	memcpy(p->instance, instance, 16);
	/* A peer that was evicted here but is alive still knows the numbers used before. */
	p->epoch = p->next_request_id = ripc__seq_begin(ctx);
	p->dedup_base = 1;
	p->node.id = peer_id(ctx, instance);
	ripc__table_add(&ctx->peer_table, &p->node);
	ripc__list_add(&ctx->peers, &p->link);
	p->used_ns = ripc__now(ctx);
	ctx->stats.peers++;
	ripc__sweep_plan(ctx);
	return p;
}

struct ripc__peer *ripc__peer_get(struct ripc *ctx, const uint8_t instance[16])
{
	return peer_add(ctx, instance, RIPC__PEERS_MAX);
}

struct ripc__peer *ripc__peer_admit(struct ripc *ctx, const uint8_t instance[16], uint64_t source)
{
	struct ripc__peer *p = peer_add(ctx, instance, RIPC__UNSOLICITED_PEERS_MAX);

	if (p)
		p->source = source;
	return p;
}

bool ripc__peer_has_work(const struct ripc__peer *p)
{
	return !ripc__list_empty(&p->lists->rndvs) || !ripc__list_empty(&p->lists->served) ||
	       ripc__peer_has_tx_work(p);
}

bool ripc__peer_has_tx_work(const struct ripc__peer *p)
{
	const struct ripc__dest *d;

	if (p->nrequests || p->wanted || p->reliable_unacked || p->calls ||
	    !ripc__list_empty(&p->lists->watches))
		return true;
	ripc__list_for_each_entry (d, &p->lists->dests, link)
		if (ripc__dest_has_waiters(d))
			return true;
	return false;
}

/* Resolves the peer again, through the services that are to be reached. */
static void peer_resolve(struct ripc *ctx, struct ripc__peer *p)
{
	struct ripc__dest *d;

	ripc__list_for_each_entry (d, &p->lists->dests, link)
		if (ripc__dest_has_waiters(d))
			ripc__dest_refresh(ctx, d);
	if (!ripc__list_empty(&p->lists->watches))
		ctx->peer_ops->resolve_watched(ctx, p);
}

/*
 * Whether a lane exists whose end calls ripc__peer_connect() again: a retiring one, whose messages
 * come first, or one that the peer just made, which a new one would cross. A lane whose peer has
 * not proved its key does not count.
 */
static bool lane_pending(struct ripc *ctx, const struct ripc__peer *p)
{
	const struct ripc__lane *lane;

	if (!p->nlanes)
		return false;
	ripc__list_for_each_entry (lane, &ctx->lanes, link)
		if (lane->peer == p && (lane->state == RIPC__LANE_RETIRING ||
					(lane->state == RIPC__LANE_ACCEPTING && !lane->shake &&
					 !(ctx->tp[lane->tp].limits.caps & RIPC__CAP_SELF))))
			return true;
	return false;
}

bool ripc__peer_connecting(struct ripc *ctx, const struct ripc__peer *p)
{
	return p->out || p->retry_ns || lane_pending(ctx, p);
}

/*
 * Time limit of an attempt to connect; last: no other path follows. A peer whose lane failed or is
 * silent has peer_timeout_ms in all: each path before the last gets half of what is left of it.
 */
static uint64_t connect_limit_ns(const struct ripc__peer *p, uint64_t now, bool last)
{
	uint64_t limit = last ? RIPC__CONNECT_NS : RIPC__CONNECT_FIRST_NS, left;

	if (p->contact == RIPC__CONTACT_NORMAL)
		return limit;
	left = now < p->unreachable_ns ? p->unreachable_ns - now : 0;
	if (!last)
		left /= 2;
	if (left < RETRY_MIN_NS)
		left = RETRY_MIN_NS;
	return left < limit ? left : limit;
}

void ripc__peer_connect(struct ripc *ctx, struct ripc__peer *p)
{
	uint64_t now = ripc__now(ctx);
	const uint8_t *addr;
	unsigned tp;
	size_t len;

	if ((p->lane && p->contact != RIPC__CONTACT_PROBING) || p->out || ctx->closing ||
	    p->contact >= RIPC__CONTACT_ABSENT || now < p->retry_ns || lane_pending(ctx, p))
		return;
	p->retry_ns = 0;
	if (!p->unreachable_ns)
		p->unreachable_ns = now + ctx->opt.peer_timeout_ms * RIPC__MS;
	if (!p->next_path) {
		/*
		 * A peer that connected by itself does so again if it is alive: its address is
		 * unknown here.
		 */
		p->round = p->addrs_len || p->contact == RIPC__CONTACT_NORMAL ? RIPC__ROUND_REFUSED
									      : RIPC__ROUND_FAILED;
		if (p->round == RIPC__ROUND_FAILED)
			peer_resolve(ctx, p);
	}
	while ((addr = ripc__peer_path(ctx, p, p->next_path, &tp, &len))) {
		unsigned other;
		size_t other_len;
		bool last;
		int rc;

		p->out_path = p->next_path++;
		last = !ripc__peer_path(ctx, p, p->next_path, &other, &other_len);
		rc = ripc__lane_connect(ctx, p, tp, addr, len, connect_limit_ns(p, now, last));
		if (!rc) {
			p->out->replaces = p->lane != NULL;
			return;
		}
		/* A shortage here shows nothing about the peer. */
		if (ripc__is_shortage(rc))
			p->round = RIPC__ROUND_FAILED;
		/* A transport of one host reports if the peer is elsewhere or not there. */
		ripc__attempt_add(p, p->out_path, tp,
				  rc != -EHOSTUNREACH &&
					  !(ctx->tp[tp].limits.caps & RIPC__CAP_SAME_HOST),
				  ripc_error_detail());
	}
	p->next_path = 0;
	if (p->lane)
		return;
	if (p->round == RIPC__ROUND_REFUSED || now >= p->unreachable_ns) {
		p->contact = p->contact == RIPC__CONTACT_NORMAL ? RIPC__CONTACT_ABSENT
								: RIPC__CONTACT_DEAD;
		ripc__timer_at(ctx, 0);
		return;
	}
	p->retry_ns = now + RETRY_MIN_NS;
	ripc__timer_at(ctx, p->retry_ns);
}

void ripc__peer_probe(struct ripc__lane *lane, uint64_t until_ns)
{
	struct ripc__peer *p = lane->peer;

	if (p->lane != lane || p->pending_conn ||
	    lane->ctx->tp[lane->tp].limits.caps & RIPC__CAP_SELF)
		return;
	/* Its addresses may have changed. */
	peer_resolve(lane->ctx, p);
	if (p->out)
		return;
	p->contact = RIPC__CONTACT_PROBING;
	p->unreachable_ns = until_ns;
	ripc__peer_connect(lane->ctx, p);
}

void ripc__peer_probe_end(struct ripc__lane *lane)
{
	struct ripc__peer *p = lane->peer;

	if (p->lane != lane || p->contact != RIPC__CONTACT_PROBING)
		return;
	p->contact = RIPC__CONTACT_NORMAL;
	p->unreachable_ns = 0;
	p->next_path = 0;
	ripc__attempts_clear_tp(p, lane->tp);
}

void ripc__peer_attempt_failed(struct ripc *ctx, struct ripc__peer *p, unsigned tp, int status,
			       unsigned refusal, const char *text)
{
	/* The attempt that crossed was the last of its round. */
	assert(p->round != RIPC__ROUND_CROSSED);
	p->out = NULL;
	if (refusal == RIPC__REFUSE_CROSSED) {
		uint64_t wait_ns = ctx->opt.peer_timeout_ms * RIPC__MS / 2;

		p->next_path = 0;
		/* The peer is alive: it will send on the lane that it has. */
		if (p->lane) {
			ripc__peer_probe_end(p->lane);
			return;
		}
		/*
		 * The peer's connection is on its way; if it does not arrive in time, connect
		 * again.
		 */
		p->round = RIPC__ROUND_CROSSED;
		p->retry_ns = ripc__now(ctx) +
			      (wait_ns < CROSSED_TIMEOUT_NS ? wait_ns : CROSSED_TIMEOUT_NS);
		ripc__timer_at(ctx, p->retry_ns);
		return;
	}
	ripc__attempt_add(p, p->out_path, tp, true, text);
	if (status != -ECONNREFUSED && refusal != RIPC__REFUSE_STALE &&
	    refusal != RIPC__REFUSE_CLOSING && refusal != RIPC__REFUSE_VERSION)
		p->round = RIPC__ROUND_FAILED;
	if (!p->lane || p->contact == RIPC__CONTACT_PROBING)
		ripc__peer_connect(ctx, p);
}

/* Ends the lanes of a peer that are not up yet: our hello stated what is dropped now. */
static void end_accepting(struct ripc *ctx, const struct ripc__peer *p)
{
	struct ripc__lane *lane;

	if (!p->nlanes)
		return;
	ripc__list_for_each_entry (lane, &ctx->lanes, link) {
		if (lane->peer != p || lane->state != RIPC__LANE_ACCEPTING)
			continue;
		/* The caller may go through the list. */
		lane->connect_ns = 0;
		ripc__timer_at(ctx, 0);
	}
}

/*
 * No answer at any address: fails outstanding work and resolves its destinations again. Only in the
 * timers: other callers of ripc__peer_connect() go through requests, which end here.
 */
static void peer_unreachable(struct ripc *ctx, struct ripc__peer *p)
{
	char text[RIPC__DETAIL_MAX], causes[RIPC__DETAIL_MAX - 100];
	bool was_lost = p->contact != RIPC__CONTACT_ABSENT, has_waiters = false;
	struct ripc__dest *d, *tmp;

	ripc__attempts_text(ctx, p, causes, sizeof(causes));
	snprintf(text, sizeof(text), "peer %s cannot be reached: %s",
		 ripc__instance_text(p->instance), causes);
	ripc__log(was_lost ? RIPC_LOG_WARN : RIPC_LOG_INFO, "%s", text);
	if (was_lost && ripc__peer_has_work(p))
		ctx->stats.peers_lost++;
	if (p->out)
		ripc__lane_close(p->out);
	end_accepting(ctx, p);
	p->contact = RIPC__CONTACT_NORMAL;
	p->unreachable_ns = 0;
	p->retry_ns = 0;
	p->next_path = 0;
	ctx->peer_ops->peer_unreachable(ctx, p, text);
	ripc__list_for_each_entry_safe (d, tmp, &p->lists->dests, link) {
		has_waiters |= ripc__dest_has_waiters(d);
		d->failures++;
		ripc__dest_invalidate(ctx, d, text);
	}
	/*
	 * A restarted peer has another instance id and uses none of this. But if only the path
	 * failed, the peer repeats requests without an ACK: perhaps this context alone has given
	 * the other one up. So the dedup window and the CANCELs that are due are kept for a while,
	 * and the causes while a sender waits for one of its services.
	 */
	p->used_ns = p->dedup_bitmap || p->reliable || p->reliable_rx_next || has_waiters ||
				     !ripc__list_empty(&p->lists->withdrawn)
			     ? ripc__now(ctx)
			     : 0;
	ctx->next_sweep_ns = ripc__now(ctx);
	ripc__timer_at(ctx, ctx->next_sweep_ns);
}

/* ---- timers ---- */

void ripc__peer_timers(struct ripc *ctx)
{
	uint64_t now = ctx->now_ns;
	struct ripc__peer *p, *tmp;

	ripc__list_for_each_entry_safe (p, tmp, &ctx->peers, link) {
		if (p->contact >= RIPC__CONTACT_ABSENT) {
			peer_unreachable(ctx, p);
			continue;
		}
		if (!p->retry_ns || p->lane || p->out)
			continue;
		if (p->retry_ns > now) {
			ripc__timer_at(ctx, p->retry_ns);
			continue;
		}
		p->retry_ns = 0;
		if (ripc__peer_has_work(p))
			ripc__peer_connect(ctx, p);
		else
			p->unreachable_ns = 0;
	}
	ripc__dest_timers(ctx);
	if (now >= ctx->next_trim_ns)
		trim(ctx);
	if (now >= ctx->next_sweep_ns)
		ripc__sweep(ctx, false);
	ripc__timer_at(ctx, ctx->next_trim_ns);
	ripc__timer_at(ctx, ctx->next_sweep_ns);
}

void ripc__sweep(struct ripc *ctx, bool all)
{
	uint64_t idle_ns = RIPC__IDLE_MS * RIPC__MS;
	struct ripc__peer *p, *tmp;

	ripc__dest_sweep(ctx, all ? 0 : idle_ns);
	ripc__list_for_each_entry_safe (p, tmp, &ctx->peers, link) {
		uint64_t used_ns = ripc__peer_used_ns(p);
		bool idle = all || !used_ns || ctx->now_ns - used_ns >= idle_ns;

		if (idle && !peer_in_use(p) && ripc__list_empty(&p->lists->dests))
			peer_forget(ctx, p);
	}
	ctx->next_sweep_ns =
		ctx->dests || !ripc__list_empty(&ctx->peers) ? ctx->now_ns + idle_ns : RIPC__NEVER;
}

void ripc__peers_free(struct ripc *ctx)
{
	struct ripc__peer *p;

	ripc__dests_free(ctx);
	while ((p = ripc__list_first_entry(&ctx->peers, struct ripc__peer, link)))
		peer_forget(ctx, p);
	ripc__table_fini(&ctx->peer_table);
	ripc__table_fini(&ctx->credits);
	ripc__table_fini(&ctx->datagram_contexts);
}
