/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/peer/peer.h"
#include "core/peer/ops.h"
#include "core/peer/attempt.h"
#include "core/peer/endpoint.h"
#include "core/peer/eviction.h"
#include "core/peer/lane.h"
#include "core/peer/path.h"
#include "core/service/service.h"
#include "wire/bytes.h"

#include <stdio.h>
#include <stdlib.h>

#define RETRY_MIN_NS (20 * RIPC__MS)
#define RETRY_MAX_NS (1000 * RIPC__MS)
#define CROSSED_TIMEOUT_NS \
	(1000 * RIPC__MS) /* time for the peer's own connection after it refused ours */

static void set_text(char **at, const char *text)
{
	char *copy = text ? strdup(text) : NULL;

	free(*at);
	*at = copy;
}

/* ---- destinations ---- */

struct ripc__dest *ripc__dest_lookup(struct ripc *ctx, uint64_t id)
{
	struct ripc__dest *d;

	HASH_FIND(hh, ctx->dests, &id, sizeof(id), d);
	if (d)
		ctx->last_dest = d;
	return d;
}

static void schedule_sweep(struct ripc *ctx)
{
	if (ctx->next_sweep_ns != RIPC__NEVER)
		return;
	ctx->next_sweep_ns = ripc__now(ctx) + RIPC__IDLE_MS * RIPC__MS;
	ripc__timer_at(ctx, ctx->next_sweep_ns);
}

struct ripc__dest *ripc__dest_get(struct ripc *ctx, uint64_t id)
{
	struct ripc__dest *d = ripc__dest_find(ctx, id);

	if (d)
		return d;
	d = calloc(1, sizeof(*d));
	if (!d)
		return NULL;
	d->id = id;
	ripc__list_init(&d->link);
	ripc__list_init(&d->pending);
	ripc__list_init(&d->remote_returns);
	ripc__list_init(&d->reliable_pending);
	ripc__list_init(&d->watches);
	ripc__waitq_init(&d->waitq);
	ripc__completion_init(&d->sendable, RIPC_COMPLETION_SENDABLE);
	HASH_ADD(hh, ctx->dests, id, sizeof(d->id), d);
	if (!d->hh.tbl) {
		free(d);
		return NULL;
	}
	d->used_ns = ripc__now(ctx);
	schedule_sweep(ctx);
	return d;
}

static bool dest_has_waiters(const struct ripc__dest *d)
{
	return d->users || d->wanted || !ripc__list_empty(&d->pending) ||
	       !ripc__list_empty(&d->watches);
}

void ripc__remote_returns_drop(struct ripc__dest *d)
{
	struct ripc__list *n, *tmp;

	ripc__list_for_each_safe (n, tmp, &d->remote_returns) {
		struct ripc__remote_return *o =
			ripc__list_entry(n, struct ripc__remote_return, link);

		/* An offer in use belongs to its request. */
		ripc__list_del(&o->link);
		if (o->lane)
			o->orphan = true;
		else
			free(o);
	}
	d->nremote_returns = 0;
}

static void dest_unlink(struct ripc__dest *d)
{
	ripc__remote_returns_drop(d);
	ripc__list_del(&d->link);
	d->peer = NULL;
	d->credit = NULL;
}

static void dest_link(struct ripc__dest *d, struct ripc__peer *p)
{
	if (d->peer == p)
		return;
	if (d->peer)
		dest_unlink(d);
	d->peer = p;
	ripc__list_add(&p->dests, &d->link);
}

void ripc__dest_want(struct ripc *ctx, struct ripc__dest *d)
{
	if (!ctx->completions_used)
		return;
	d->wanted = true;
	ripc__completion_remove(ctx, &d->sendable);
	/* No event announces room for a datagram. */
	if (ctx->datagrams)
		ripc__timer_at(ctx, ripc__now(ctx) + RIPC__MS);
	ripc__progress_request(ctx);
}

/* Whether a call that returned -EAGAIN would only return it again. */
static bool dest_still_waits(const struct ripc *ctx, const struct ripc__dest *d)
{
	bool connected = d->state == RIPC__DEST_KNOWN && d->peer->lane;

	if (!connected)
		return d->state != RIPC__DEST_FAILED && !ctx->datagrams;
	return d->wanted_limit_units && d->credit &&
	       d->credit->limit_units == d->wanted_limit_units;
}

void ripc__dest_wake(struct ripc *ctx, struct ripc__dest *d)
{
	ripc__wake(ctx, &d->waitq);
	if (!d->wanted || dest_still_waits(ctx, d))
		return;
	d->wanted = false;
	ripc__completion_add(ctx, &d->sendable);
}

/* Plans another look-up, later each time. */
static void dest_fail(struct ripc *ctx, struct ripc__dest *d, const char *why)
{
	uint64_t wait = RETRY_MIN_NS << (d->failures < 6 ? d->failures : 6);

	/* In other states it had a holder, and is looked up again. */
	bool not_found = d->state == RIPC__DEST_RESOLVING || d->state == RIPC__DEST_UNKNOWN;

	if (why)
		set_text(&d->why, why);
	d->failures++;
	d->state = RIPC__DEST_FAILED;
	d->retry_ns = ripc__now(ctx) + (wait < RETRY_MAX_NS ? wait : RETRY_MAX_NS);
	ripc__timer_at(ctx, d->retry_ns);
	ripc__dest_wake(ctx, d);
	if (not_found && !ripc__list_empty(&d->watches))
		ctx->peer_ops->not_found(ctx, d, d->why ? d->why : "");
}

void ripc__dest_learn(struct ripc *ctx, struct ripc__dest *d, struct ripc__peer *p)
{
	if (d->peer || (d->state != RIPC__DEST_UNKNOWN && d->state != RIPC__DEST_FAILED))
		return;
	d->peer = p;
	d->state = RIPC__DEST_KNOWN;
	d->failures = 0;
	ripc__list_add(&p->dests, &d->link);
	ripc__dest_flush(ctx, d);
	ripc__dest_wake(ctx, d);
}

/*
 * A look-up that begins in the timers comes after the resolver's turn in this pass: run another
 * pass before sleeping.
 */
static void kick_resolver(struct ripc *ctx)
{
	ctx->resolver_pending = true;
	ctx->resolver_timer_ns = 0;
	ctx->next_timer_ns = 0;
}

/* The peer that holds it. Other peers may be evicted for it, with their destinations. */
static struct ripc__peer *dest_holder(struct ripc *ctx, struct ripc__dest *d,
				      const uint8_t instance[16])
{
	struct ripc__peer *p;

	d->users++;
	p = ripc__peer_get(ctx, instance);
	d->users--;
	return p;
}

static void dest_resolve(struct ripc *ctx, struct ripc__dest *d)
{
	struct ripc_service *local = ripc__service_find(ctx, d->id);
	int rc;

	if (local) {
		struct ripc__peer *p = dest_holder(ctx, d, ctx->instance);

		if (!p) {
			dest_fail(ctx, d, "out of memory");
			return;
		}
		dest_link(d, p);
		d->state = RIPC__DEST_KNOWN;
		return;
	}
	rc = ripc__resolver_lookup(ctx->resolver, d->id, ripc__now(ctx));
	if (rc) {
		dest_fail(ctx, d, ripc_error_detail());
		return;
	}
	d->state = RIPC__DEST_RESOLVING;
	kick_resolver(ctx);
	ripc__progress_request(ctx);
}

int ripc__dest_locate(struct ripc *ctx, struct ripc__dest *d)
{
	if (d->state == RIPC__DEST_KNOWN)
		return 0;
	d->used_ns = ripc__now(ctx);
	if (d->state == RIPC__DEST_FAILED && d->used_ns >= d->retry_ns)
		d->state = RIPC__DEST_UNKNOWN;
	/* The retry time may have passed while no sender waited. */
	if (d->state == RIPC__DEST_FAILED) {
		ripc__timer_at(ctx, d->retry_ns);
		ripc__progress_request(ctx);
	}
	if (d->state == RIPC__DEST_UNKNOWN)
		dest_resolve(ctx, d);
	return d->state == RIPC__DEST_KNOWN ? 0 : -EAGAIN;
}

int ripc__dest_reach(struct ripc *ctx, struct ripc__dest *d)
{
	if (d->state == RIPC__DEST_KNOWN && d->peer->lane)
		return 0;
	if (!ripc__dest_locate(ctx, d)) {
		ripc__peer_connect(ctx, d->peer);
		ripc__progress_request(ctx);
		/* The attempt may have ended already. */
		if (d->state == RIPC__DEST_KNOWN && d->peer->lane)
			return 0;
	}
	return -EAGAIN;
}

void ripc__dest_invalidate(struct ripc *ctx, struct ripc__dest *d, const char *why)
{
	if (d->state != RIPC__DEST_KNOWN)
		return;
	ripc__resolver_invalidate(ctx->resolver, d->id, d->peer->instance);
	if (d->peer->lane)
		ripc__flows_relearn(d->peer->lane, d->id);
	dest_unlink(d);
	dest_fail(ctx, d, why);
}

void ripc__dest_flush(struct ripc *ctx, struct ripc__dest *d)
{
	if (!ripc__list_empty(&d->reliable_pending))
		ctx->peer_ops->flush_reliable(ctx, d);
	if (!ripc__list_empty(&d->watches))
		ctx->peer_ops->flush_watches(ctx, d);
	while (!ripc__list_empty(&d->pending)) {
		if (ripc__dest_reach(ctx, d))
			return;
		if (ctx->peer_ops->send_pending(d))
			return;
	}
}

int ripc__dest_unreachable(struct ripc *ctx, struct ripc__dest *d)
{
	static const uint8_t zero_instance[16];
	unsigned long long id = (unsigned long long)d->id;
	char text[RIPC__DETAIL_MAX];

	if (d->state == RIPC__DEST_KNOWN) {
		ripc__attempts_text(ctx, d->peer, text, sizeof(text) - 100);
		return ripc__fail(-EHOSTUNREACH,
				  "service %llu: its holder %s cannot be reached: %s", id,
				  ripc__instance_text(d->peer->instance), text);
	}
	if (d->why && memcmp(d->holder, zero_instance, 16))
		return ripc__fail(-EHOSTUNREACH, "service %llu: %s", id, d->why);
	if (d->why)
		snprintf(text, sizeof(text), "%s", d->why);
	else
		snprintf(text, sizeof(text), "asked %s on %s, and nobody has answered yet",
			 ctx->opt.resolver,
			 *ctx->opt.interfaces ? ctx->opt.interfaces : "all interfaces");
	return ripc__fail(-EHOSTUNREACH,
			  "service %llu: %s; is its server running? \"ripc-info --doctor -s %llu\" "
			  "looks for the cause",
			  id, text, id);
}

/* ---- resolver events ---- */

int ripc__peer_set_addrs(struct ripc__peer *p, const struct ripc__record *record)
{
	size_t len = 0;
	uint8_t *addrs, *at;

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
	if (len != p->addrs_len || !p->addrs || memcmp(addrs, p->addrs, len))
		ripc__attempts_clear(p);
	free(p->addrs);
	p->dgram_path = NULL;
	p->no_dgram_path = false;
	p->addrs = addrs;
	p->addrs_len = (uint16_t)len;
	return 0;
}

void ripc__peers_addrs_changed(struct ripc *ctx)
{
	struct ripc__peer *p, *ptmp;

	HASH_ITER (hh, ctx->peers, p, ptmp)
		p->no_dgram_path = false;
}

void ripc__dest_resolved(struct ripc *ctx, const struct ripc__record *record)
{
	struct ripc__dest *d = ripc__dest_find(ctx, record->service);
	struct ripc__peer *p;

	if (!d)
		return;
	if (!memcmp(record->instance, ctx->instance, 16)) {
		/* A local service: reached without the network, if it is still registered. */
		d->state = RIPC__DEST_UNKNOWN;
		if (dest_has_waiters(d))
			ripc__dest_reach(ctx, d);
		return;
	}
	p = dest_holder(ctx, d, record->instance);
	if (!p || ripc__peer_set_addrs(p, record)) {
		dest_fail(ctx, d, "out of memory");
		return;
	}
	dest_link(d, p);
	memcpy(d->holder, p->instance, 16);
	d->state = RIPC__DEST_KNOWN;
	d->failures = 0;
	if (dest_has_waiters(d)) {
		ripc__peer_connect(ctx, p);
		ripc__dest_flush(ctx, d);
	}
	ripc__dest_wake(ctx, d);
}

void ripc__dest_unresolved(struct ripc *ctx, uint64_t id, const char *text)
{
	struct ripc__dest *d = ripc__dest_find(ctx, id);

	if (!d || d->state != RIPC__DEST_RESOLVING)
		return;
	memset(d->holder, 0, 16);
	dest_fail(ctx, d, text);
}

void ripc__dest_withdrawn(struct ripc *ctx, uint64_t id, const uint8_t instance[16])
{
	struct ripc__dest *d = ripc__dest_find(ctx, id);

	if (!d || !d->peer || memcmp(d->peer->instance, instance, 16))
		return;
	memset(d->holder, 0, 16);
	ripc__dest_invalidate(ctx, d, "its holder gave it up");
}

/* ---- peers ---- */

uint64_t ripc__seq_begin(struct ripc *ctx)
{
	uint64_t now = ripc__now(ctx), first = now > ctx->next_number ? now : ctx->next_number;

	ctx->next_number = first + 1;
	return first;
}

void ripc__seq_end(struct ripc *ctx, uint64_t next)
{
	if (next > ctx->next_number)
		ctx->next_number = next;
}

struct ripc__peer *ripc__peer_find(struct ripc *ctx, const uint8_t instance[16])
{
	struct ripc__peer *p = ctx->last_peer;

	if (p && !memcmp(p->instance, instance, 16))
		return p;
	HASH_FIND(hh, ctx->peers, instance, 16, p);
	ctx->last_peer = p;
	return p;
}

static struct ripc__peer *peer_add(struct ripc *ctx, const uint8_t instance[16], unsigned max_peers)
{
	struct ripc__peer *p = ripc__peer_find(ctx, instance);

	if (p)
		return p;
	/* This context itself is a peer too and always has room. */
	if (HASH_COUNT(ctx->peers) >= max_peers && memcmp(instance, ctx->instance, 16) &&
	    !ripc__evict_peers(ctx))
		return NULL;
	p = calloc(1, sizeof(*p));
	if (!p)
		return NULL;
	memcpy(p->instance, instance, 16);
	/* A peer that was evicted here but is alive still knows the numbers used before. */
	p->memory = p->next_request_id = p->next_dgram_seq = ripc__seq_begin(ctx);
	p->dedup_base = 1;
	ripc__list_init(&p->used_returns);
	ripc__list_init(&p->dests);
	ripc__list_init(&p->requests);
	ripc__list_init(&p->rndvs);
	ripc__list_init(&p->served);
	ripc__list_init(&p->watches);
	ripc__list_init(&p->attempts);
	HASH_ADD(hh, ctx->peers, instance, sizeof(p->instance), p);
	if (!p->hh.tbl) {
		free(p);
		return NULL;
	}
	p->used_ns = ripc__now(ctx);
	ctx->stats.peers++;
	schedule_sweep(ctx);
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
	return !ripc__list_empty(&p->rndvs) || !ripc__list_empty(&p->served) ||
	       ripc__peer_has_tx_work(p);
}

bool ripc__peer_has_tx_work(const struct ripc__peer *p)
{
	struct ripc__list *n;

	if (p->nrequests || p->wanted || p->reliable_unacked || p->calls ||
	    !ripc__list_empty(&p->watches))
		return true;
	ripc__list_for_each (n, (struct ripc__list *)&p->dests)
		if (dest_has_waiters(ripc__list_entry(n, struct ripc__dest, link)))
			return true;
	return false;
}

/* Resolves the peer again, through the services that are to be reached. */
static void peer_resolve(struct ripc *ctx, struct ripc__peer *p)
{
	struct ripc__list *n;

	ripc__list_for_each (n, &p->dests) {
		struct ripc__dest *d = ripc__list_entry(n, struct ripc__dest, link);

		/* Without an answer the peer still times out. */
		if (dest_has_waiters(d) &&
		    !ripc__resolver_lookup(ctx->resolver, d->id, ripc__now(ctx)))
			kick_resolver(ctx);
	}
}

/*
 * Whether a lane exists whose end calls ripc__peer_connect() again: a retiring one, whose messages
 * come first, or one that the peer just made, which a new one would cross. A lane whose peer has
 * not proved its key does not count.
 */
static bool lane_pending(struct ripc *ctx, const struct ripc__peer *p)
{
	struct ripc__list *n;

	if (!p->nlanes)
		return false;
	ripc__list_for_each (n, &ctx->lanes) {
		const struct ripc__lane *lane = ripc__list_entry(n, struct ripc__lane, link);

		if (lane->peer == p && (lane->state == RIPC__LANE_RETIRING ||
					(lane->state == RIPC__LANE_ACCEPTING && !lane->shake &&
					 !(ctx->tp[lane->tp].limits.caps & RIPC__CAP_SELF))))
			return true;
	}
	return false;
}

void ripc__peer_connect(struct ripc *ctx, struct ripc__peer *p)
{
	uint64_t now = ripc__now(ctx);
	const uint8_t *addr;
	unsigned tp;
	size_t len;

	if (p->lane || p->out || ctx->closing || now < p->retry_ns || lane_pending(ctx, p))
		return;
	p->crossed = false;
	if (!p->unreachable_ns)
		p->unreachable_ns = now + ctx->opt.peer_timeout_ms * RIPC__MS;
	if (!p->next_path) {
		/*
		 * A peer that connected by itself does so again if it is alive: its address is
		 * unknown here.
		 */
		p->all_refused = p->addrs_len || !p->lost;
		if (!p->all_refused)
			peer_resolve(ctx, p);
	}
	while ((addr = ripc__peer_path(ctx, p, p->next_path, &tp, &len))) {
		unsigned other;
		size_t other_len;
		bool last;
		int rc;

		p->out_path = p->next_path++;
		last = !ripc__peer_path(ctx, p, p->next_path, &other, &other_len);
		rc = ripc__lane_connect(ctx, p, tp, addr, len, last);
		if (!rc)
			return;
		/* A transport of one host reports if the peer is elsewhere or not there. */
		ripc__attempt_add(p, p->out_path, tp,
				  rc != -EHOSTUNREACH &&
					  !(ctx->tp[tp].limits.caps & RIPC__CAP_SAME_HOST),
				  ripc_error_detail());
	}
	/* All paths were tried. */
	p->next_path = 0;
	if (p->all_refused || now >= p->unreachable_ns) {
		ripc__peer_unreachable(ctx, p);
		return;
	}
	p->retry_ns = now + RETRY_MIN_NS;
	ripc__timer_at(ctx, p->retry_ns);
}

void ripc__peer_attempt_failed(struct ripc *ctx, struct ripc__peer *p, unsigned tp, int status,
			       unsigned refusal, const char *text)
{
	p->out = NULL;
	if (refusal == RIPC__REFUSE_CROSSED) {
		/*
		 * The peer's connection is on its way; if it does not arrive in time, connect
		 * again.
		 */
		p->crossed = true;
		p->next_path = 0;
		p->retry_ns = ripc__now(ctx) + CROSSED_TIMEOUT_NS;
		ripc__timer_at(ctx, p->retry_ns);
		return;
	}
	ripc__attempt_add(p, p->out_path, tp, true, text);
	if (status != -ECONNREFUSED && refusal != RIPC__REFUSE_STALE &&
	    refusal != RIPC__REFUSE_CLOSING && refusal != RIPC__REFUSE_VERSION)
		p->all_refused = false;
	if (!p->lane)
		ripc__peer_connect(ctx, p);
}

void ripc__peer_unreachable(struct ripc *ctx, struct ripc__peer *p)
{
	char text[RIPC__DETAIL_MAX], causes[RIPC__DETAIL_MAX - 100];
	bool has_waiters = false;
	struct ripc__list *n, *tmp;

	ripc__attempts_text(ctx, p, causes, sizeof(causes));
	snprintf(text, sizeof(text), "peer %s cannot be reached: %s",
		 ripc__instance_text(p->instance), causes);
	ripc__log(p->lost ? RIPC_LOG_WARN : RIPC_LOG_INFO, "%s", text);
	if (p->lost && ripc__peer_has_work(p))
		ctx->stats.peers_lost++;
	p->lost = false;
	p->unreachable_ns = 0;
	p->retry_ns = 0;
	p->next_path = 0;
	ctx->peer_ops->peer_unreachable(ctx, p, text);
	ripc__list_for_each_safe (n, tmp, &p->dests) {
		has_waiters |= dest_has_waiters(ripc__list_entry(n, struct ripc__dest, link));
		ripc__dest_invalidate(ctx, ripc__list_entry(n, struct ripc__dest, link), text);
	}
	/*
	 * A restarted peer has another instance id and uses none of this. But if only the path
	 * failed, the peer repeats requests without an ACK, so the dedup window is kept for a
	 * while, as are the causes while a sender waits for one of its services.
	 */
	p->used_ns = p->dedup_bitmap || p->reliable || has_waiters ? ripc__now(ctx) : 0;
	ctx->next_sweep_ns = ripc__now(ctx);
	ripc__timer_at(ctx, ctx->next_sweep_ns);
}

/* ---- timers ---- */

void ripc__peer_timers(struct ripc *ctx)
{
	uint64_t now = ctx->now_ns;
	struct ripc__peer *p, *ptmp;
	struct ripc__dest *d, *dtmp;

	HASH_ITER (hh, ctx->peers, p, ptmp) {
		if (!p->retry_ns || p->lane || p->out)
			continue;
		if (p->retry_ns > now) {
			ripc__timer_at(ctx, p->retry_ns);
			continue;
		}
		p->retry_ns = 0;
		if (ripc__peer_has_work(p))
			ripc__peer_connect(ctx, p);
	}
	HASH_ITER (hh, ctx->dests, d, dtmp) {
		if (d->wanted && ctx->datagrams)
			ripc__dest_wake(ctx, d);
		if (d->state != RIPC__DEST_FAILED || !dest_has_waiters(d))
			continue;
		if (d->retry_ns > now) {
			ripc__timer_at(ctx, d->retry_ns);
			continue;
		}
		ripc__dest_reach(ctx, d);
	}
	if (now >= ctx->next_sweep_ns)
		ripc__sweep(ctx, false);
	if (ctx->next_sweep_ns != RIPC__NEVER)
		ripc__timer_at(ctx, ctx->next_sweep_ns);
}

static void dest_free(struct ripc *ctx, struct ripc__dest *d)
{
	if (d->state == RIPC__DEST_RESOLVING)
		ripc__resolver_lookup_cancel(ctx->resolver, d->id);
	dest_unlink(d);
	if (ctx->last_dest == d)
		ctx->last_dest = NULL;
	HASH_DEL(ctx->dests, d);
	ripc__completion_remove(ctx, &d->sendable);
	free(d->why);
	free(d);
}

bool ripc__peer_in_use(const struct ripc__peer *p)
{
	return p->lane || p->out || p->pending_conn || p->nlanes || ripc__peer_has_work(p);
}

void ripc__peer_forget(struct ripc *ctx, struct ripc__peer *p)
{
	struct ripc__list *n;

	while ((n = ripc__list_first(&p->dests)))
		dest_free(ctx, ripc__list_entry(n, struct ripc__dest, link));
	ripc__seq_end(ctx, p->next_request_id);
	ripc__seq_end(ctx, p->next_dgram_seq);
	ctx->peer_ops->peer_forgotten(ctx, p);
	if (ctx->last_peer == p)
		ctx->last_peer = NULL;
	HASH_DEL(ctx->peers, p);
	ctx->stats.peers--;
	ripc__attempts_clear(p);
	free(p->addrs);
	free(p->dedup_bitmap);
	free(p);
}

void ripc__sweep(struct ripc *ctx, bool all)
{
	uint64_t idle_ns = RIPC__IDLE_MS * RIPC__MS;
	struct ripc__peer *p, *ptmp;
	struct ripc__dest *d, *dtmp;

	HASH_ITER (hh, ctx->dests, d, dtmp) {
		bool idle = all || ctx->now_ns - d->used_ns >= idle_ns;

		if (idle && !dest_has_waiters(d) && !(d->peer && (d->peer->lane || d->peer->out)))
			dest_free(ctx, d);
	}
	HASH_ITER (hh, ctx->peers, p, ptmp) {
		uint64_t used_ns = ripc__peer_used_ns(p);
		bool idle = all || !used_ns || ctx->now_ns - used_ns >= idle_ns;

		if (idle && !ripc__peer_in_use(p) && ripc__list_empty(&p->dests))
			ripc__peer_forget(ctx, p);
	}
	ctx->next_sweep_ns = ctx->dests || ctx->peers ? ctx->now_ns + idle_ns : RIPC__NEVER;
}

void ripc__peers_free(struct ripc *ctx)
{
	struct ripc__peer *p, *ptmp;
	struct ripc__dest *d, *dtmp;

	HASH_ITER (hh, ctx->dests, d, dtmp) {
		d->state = RIPC__DEST_UNKNOWN;
		dest_free(ctx, d);
	}
	HASH_ITER (hh, ctx->peers, p, ptmp) {
		free(p->pending_conn);
		ripc__peer_forget(ctx, p);
	}
}
