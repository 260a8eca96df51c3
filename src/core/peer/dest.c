/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/peer/dest.h"
#include "core/peer/attempt.h"
#include "core/peer/datagram_context.h"
#include "core/peer/lane.h"
#include "core/peer/ops.h"
#include "core/peer/peer.h"
#include "core/service/service.h"
#include "wire/bytes.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#define RETRY_MIN_NS (20 * RIPC__MS)
#define RETRY_MAX_NS (1000 * RIPC__MS)

#define TO(state) (1u << RIPC__DEST_##state)

__attribute__((unused)) static const unsigned next_states[RIPC__DEST_STATES] = {
	[RIPC__DEST_UNKNOWN] = TO(RESOLVING) | TO(KNOWN) | TO(FAILED),
	[RIPC__DEST_RESOLVING] = TO(UNKNOWN) | TO(KNOWN) | TO(FAILED),
	[RIPC__DEST_KNOWN] = TO(UNKNOWN) | TO(KNOWN) | TO(FAILED),
	[RIPC__DEST_FAILED] = TO(UNKNOWN) | TO(KNOWN) | TO(FAILED),
};

void ripc__dest_set_state(struct ripc__dest *d, enum ripc__dest_state to)
{
	assert(next_states[d->state] & 1u << to);
	assert((to == RIPC__DEST_KNOWN) == (d->peer != NULL));
	d->state = to;
}

static void set_state(struct ripc *ctx, struct ripc__dest *d, enum ripc__dest_state to)
{
	ctx->nawaited += to == RIPC__DEST_RESOLVING;
	ctx->nawaited -= d->state == RIPC__DEST_RESOLVING;
	ripc__dest_set_state(d, to);
}

static struct ripc__dest *dest_new(struct ripc *ctx, uint64_t id)
{
	struct ripc__dest *d = calloc(1, sizeof(*d));

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
	ripc__sweep_plan(ctx);
	ripc__trim_plan(ctx);
	return d;
}

static void dest_unlink(struct ripc__dest *d)
{
	ripc__remote_returns_drop(d);
	ripc__datagram_context_end(d);
	ripc__list_del(&d->link);
	d->peer = NULL;
	d->credit = NULL;
}

/* p holds it. learned: from a message. */
static void dest_known(struct ripc *ctx, struct ripc__dest *d, struct ripc__peer *p, bool learned)
{
	if (d->peer && d->peer != p)
		dest_unlink(d);
	if (!d->peer)
		ripc__list_add(&p->lists->dests, &d->link);
	d->peer = p;
	set_state(ctx, d, RIPC__DEST_KNOWN);
	d->learned = learned;
	d->given_up_by = 0;
	/* The same holder again: it has to be reached first. */
	if (learned || p->lane || memcmp(d->holder, p->instance, 16))
		d->failures = 0;
}

static struct ripc__dest *dest_unfold(struct ripc *ctx, uint64_t id)
{
	struct ripc__credit *c = ripc__credit_holder(ctx, id);
	struct ripc__dest *d = c && ripc__peer_lists(c->lane->peer) ? dest_new(ctx, id) : NULL;

	if (!d)
		return NULL;
	c->holds = false;
	dest_known(ctx, d, c->lane->peer, true);
	if (d->peer->lane == c->lane)
		d->credit = c;
	return d;
}

/* Folds a destination whose lane is up, if nothing is known of it but where it is. */
static void dest_fold(struct ripc *ctx, struct ripc__dest *d)
{
	if (!d->learned || ripc__dest_in_use(d) || d->nremote_returns || d->reliable_refused)
		return;
	if (!d->credit && ctx->credits.count < RIPC__FOLDED_MAX)
		d->credit = ripc__lane_credit(d->peer->lane, d->id);
	if (!d->credit)
		return;
	d->credit->holds = true;
	/* A record that no look-up asked for has nothing that the lane does not have. */
	ripc__resolver_forget(ctx->resolver, d->id);
	ripc__dest_free(ctx, d);
}

void ripc__dests_fold(struct ripc *ctx, struct ripc__peer *p)
{
	struct ripc__dest *d, *tmp;

	ripc__list_for_each_entry_safe (d, tmp, &p->lists->dests, link)
		dest_fold(ctx, d);
}

struct ripc__dest *ripc__dest_lookup(struct ripc *ctx, uint64_t id)
{
	struct ripc__dest *d;

	HASH_FIND(hh, ctx->dests, &id, sizeof(id), d);
	if (!d)
		d = dest_unfold(ctx, id);
	if (d)
		ctx->last_dest = d;
	return d;
}

struct ripc__dest *ripc__dest_get(struct ripc *ctx, uint64_t id)
{
	struct ripc__dest *d = ripc__dest_find(ctx, id);

	return d ? d : dest_new(ctx, id);
}

bool ripc__dest_has_waiters(const struct ripc__dest *d)
{
	return d->users || d->wanted || !ripc__list_empty(&d->pending) ||
	       !ripc__list_empty(&d->watches);
}

bool ripc__dest_in_use(const struct ripc__dest *d)
{
	return ripc__dest_has_waiters(d) ||
	       !ripc__list_empty((struct ripc__list *)&d->sendable.link);
}

void ripc__dest_want(struct ripc *ctx, struct ripc__dest *d)
{
	if (!ctx->completions_used)
		return;
	d->wanted = true;
	ripc__completion_remove(ctx, &d->sendable);
	if (d->no_room)
		ripc__timer_at(ctx, ripc__now(ctx) + RIPC__MS);
	ripc__progress_request(ctx);
}

/* Whether a call that returned -EAGAIN would only return it again. */
static bool dest_still_waits(const struct ripc *ctx, const struct ripc__dest *d)
{
	bool connected = d->state == RIPC__DEST_KNOWN && d->peer->lane;

	if (!connected)
		return d->state != RIPC__DEST_FAILED &&
		       !(ctx->datagrams && d->state == RIPC__DEST_KNOWN);
	return d->wanted_limit_units && d->credit &&
	       d->credit->limit_units == d->wanted_limit_units;
}

void ripc__dest_wake_waiters(struct ripc *ctx, struct ripc__dest *d)
{
	ripc__wake(ctx, &d->waitq);
	if (!d->wanted || dest_still_waits(ctx, d))
		return;
	d->wanted = d->no_room = false;
	ripc__completion_add(ctx, &d->sendable);
}

/* Plans another look-up, later each time. */
static void dest_fail(struct ripc *ctx, struct ripc__dest *d, const char *why)
{
	uint64_t wait = RETRY_MIN_NS << (d->failures < 6 ? d->failures : 6);

	/* In other states it had a holder, and is looked up again. */
	bool not_found = d->state == RIPC__DEST_RESOLVING || d->state == RIPC__DEST_UNKNOWN;

	if (why) {
		char *copy = strdup(why);

		ripc__log(RIPC_LOG_DEBUG, "%s has no known holder: %s",
			  ripc__service_text(ctx, d->id), why);
		free(d->why);
		d->why = copy;
	}
	d->failures += not_found;
	if (d->peer)
		dest_unlink(d);
	set_state(ctx, d, RIPC__DEST_FAILED);
	d->retry_ns = ripc__now(ctx) + (wait < RETRY_MAX_NS ? wait : RETRY_MAX_NS);
	ripc__timer_at(ctx, d->retry_ns);
	ripc__dest_wake(ctx, d);
	if (not_found && !ripc__list_empty(&d->watches))
		ctx->peer_ops->not_found(ctx, d, d->why ? d->why : "");
}

bool ripc__dest_given_up(const struct ripc *ctx, const struct ripc__dest *d,
			 const struct ripc__peer *p)
{
	return d->given_up_by == ripc__get_le64(p->instance) && ctx->now_ns < d->given_up_until_ns;
}

void ripc__dest_learn(struct ripc *ctx, struct ripc__dest *d, struct ripc__peer *p)
{
	if ((d->state != RIPC__DEST_UNKNOWN && d->state != RIPC__DEST_FAILED) ||
	    !ripc__peer_lists(p))
		return;
	dest_known(ctx, d, p, true);
	ripc__dest_flush(ctx, d);
	ripc__dest_wake(ctx, d);
}

/*
 * A look-up that begins in the timers comes after the resolver's turn in this pass: run another
 * pass before sleeping.
 */
static void kick_resolver(struct ripc *ctx)
{
	ripc__resolver_await(ctx);
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
	return p && ripc__peer_lists(p) ? p : NULL;
}

static void dest_resolve(struct ripc *ctx, struct ripc__dest *d)
{
	if (ripc__service_find(ctx, d->id)) {
		struct ripc__peer *p = dest_holder(ctx, d, ctx->instance);

		if (p)
			dest_known(ctx, d, p, false);
		else
			dest_fail(ctx, d, "out of memory");
		return;
	}
	if (ripc__resolver_lookup(ctx->resolver, d->id, ripc__now(ctx))) {
		dest_fail(ctx, d, ripc_error_detail());
		return;
	}
	set_state(ctx, d, RIPC__DEST_RESOLVING);
	kick_resolver(ctx);
	ripc__progress_request(ctx);
}

void ripc__dest_refresh(struct ripc *ctx, struct ripc__dest *d)
{
	d->learned = false;
	if (d->peer)
		ripc__resolver_invalidate(ctx->resolver, d->id, d->peer->instance);
	/* Without an answer the peer still times out. */
	if (!ripc__resolver_lookup(ctx->resolver, d->id, ripc__now(ctx)))
		kick_resolver(ctx);
}

int ripc__dest_locate(struct ripc *ctx, struct ripc__dest *d)
{
	if (d->state == RIPC__DEST_KNOWN)
		return 0;
	d->used_ns = ripc__now(ctx);
	if (d->state == RIPC__DEST_FAILED && d->used_ns >= d->retry_ns)
		set_state(ctx, d, RIPC__DEST_UNKNOWN);
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
		/* The context itself may have a lane, for another of its services. */
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
	dest_fail(ctx, d, why);
}

/* Messages that its peer still sends from the service do not make it the holder again. */
static void dest_given_up(struct ripc *ctx, struct ripc__dest *d, const char *why)
{
	d->given_up_by = ripc__get_le64(d->peer->instance);
	d->given_up_until_ns = ctx->now_ns + ctx->opt.peer_timeout_ms * RIPC__MS;
	ripc__dest_invalidate(ctx, d, why);
}

struct ripc__dest *ripc__dest_at(struct ripc *ctx, uint64_t id, const struct ripc__peer *p)
{
	struct ripc__dest *d = ripc__dest_find(ctx, id);

	return d && d->peer == p ? d : NULL;
}

void ripc__dest_refused(struct ripc *ctx, uint64_t id, const struct ripc__peer *p)
{
	struct ripc__dest *d = ripc__dest_at(ctx, id, p);

	if (d)
		dest_given_up(ctx, d, "its former holder does not hold it any more");
}

void ripc__dest_flush(struct ripc *ctx, struct ripc__dest *d)
{
	if (!ripc__list_empty(&d->reliable_pending))
		ctx->peer_ops->flush_reliable(ctx, d);
	if (!ripc__list_empty(&d->watches))
		ctx->peer_ops->flush_watches(ctx, d);
	while (!ripc__list_empty(&d->pending)) {
		if (!ripc__dest_ready(d) && ripc__dest_reach(ctx, d))
			return;
		if (ctx->peer_ops->send_pending(d))
			return;
	}
}

void ripc__dest_why(const struct ripc *ctx, const struct ripc__dest *d, char *text, size_t len)
{
	if (d->why)
		snprintf(text, len, "%s", d->why);
	else
		snprintf(text, len, "asked %s on %s: no answer yet", ctx->opt.resolver,
			 *ctx->opt.interfaces ? ctx->opt.interfaces : "all interfaces");
}

int ripc__dest_unreachable(struct ripc *ctx, struct ripc__dest *d)
{
	static const uint8_t zero_instance[16];
	char text[RIPC__DETAIL_MAX];

	if (d->state == RIPC__DEST_KNOWN) {
		ripc__attempts_text(ctx, d->peer, text, sizeof(text) - 100);
		return ripc__fail(-EHOSTUNREACH, "%s: its holder %s cannot be reached: %s",
				  ripc__service_text(ctx, d->id),
				  ripc__instance_text(d->peer->instance), text);
	}
	if (d->why && memcmp(d->holder, zero_instance, 16))
		return ripc__fail(-EHOSTUNREACH, "%s: %s", ripc__service_text(ctx, d->id), d->why);
	ripc__dest_why(ctx, d, text, sizeof(text));
	return ripc__fail(-EHOSTUNREACH,
			  "%s: %s; is its server running? \"ripc-info --doctor -s %" PRIu64 "\" "
			  "looks for the cause",
			  ripc__service_text(ctx, d->id), text, d->id);
}

int ripc__dest_not_reached(struct ripc *ctx, struct ripc__dest *d, int timeout_ms)
{
	if (timeout_ms || d->failures)
		return ripc__dest_unreachable(ctx, d);
	ripc__dest_want(ctx, d);
	return ripc__fail(-EAGAIN, "%s is not yet connected: %s", ripc__service_text(ctx, d->id),
			  d->why ? d->why : "the look-up has not ended");
}

static void log_holder(const struct ripc *ctx, const struct ripc__dest *d,
		       const struct ripc__peer *p)
{
	static const uint8_t none[16];
	char addrs[400] = "";

	ripc__peer_addrs_text(ctx, p, addrs, sizeof(addrs), 0);
	ripc__log(RIPC_LOG_DEBUG, "%s is at peer %s: %s%s%s", ripc__service_text(ctx, d->id),
		  ripc__instance_text(p->instance), addrs,
		  memcmp(d->holder, none, 16) ? "; before at peer " : "",
		  memcmp(d->holder, none, 16) ? ripc__instance_text(d->holder) : "");
}

void ripc__dest_resolved(struct ripc *ctx, const struct ripc__record *record)
{
	struct ripc__dest *d = ripc__dest_find(ctx, record->service);
	struct ripc__peer *p;

	if (!d)
		return;
	if (!memcmp(record->instance, ctx->instance, 16)) {
		/* A local service: reached without the network, if it is still registered. */
		if (d->peer && !memcmp(d->peer->instance, ctx->instance, 16))
			return;
		if (d->peer)
			dest_unlink(d);
		if (d->state != RIPC__DEST_UNKNOWN)
			set_state(ctx, d, RIPC__DEST_UNKNOWN);
		if (ripc__dest_has_waiters(d))
			ripc__dest_reach(ctx, d);
		return;
	}
	p = dest_holder(ctx, d, record->instance);
	if (!p || ripc__peer_set_addrs(p, record)) {
		dest_fail(ctx, d, "out of memory");
		return;
	}
	if (d->peer != p && ripc__log_enabled(RIPC_LOG_DEBUG))
		log_holder(ctx, d, p);
	dest_known(ctx, d, p, false);
	memcpy(d->holder, p->instance, 16);
	if (ripc__dest_has_waiters(d)) {
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
	dest_given_up(ctx, d, "its holder gave it up");
}

void ripc__dest_timers(struct ripc *ctx)
{
	struct ripc__dest *d, *tmp;

	HASH_ITER (hh, ctx->dests, d, tmp) {
		if (d->wanted && d->no_room)
			ripc__dest_wake(ctx, d);
		if (d->state != RIPC__DEST_FAILED || !ripc__dest_has_waiters(d))
			continue;
		if (d->retry_ns > ctx->now_ns) {
			ripc__timer_at(ctx, d->retry_ns);
			continue;
		}
		ripc__dest_reach(ctx, d);
	}
}

void ripc__dest_free(struct ripc *ctx, struct ripc__dest *d)
{
	ripc__resolver_lookup_cancel(ctx->resolver, d->id);
	dest_unlink(d);
	ctx->nawaited -= d->state == RIPC__DEST_RESOLVING;
	if (ctx->last_dest == d)
		ctx->last_dest = NULL;
	HASH_DEL(ctx->dests, d);
	ripc__completion_remove(ctx, &d->sendable);
	free(d->why);
	free(d);
}

void ripc__dest_sweep(struct ripc *ctx, uint64_t idle_ns)
{
	struct ripc__dest *d, *tmp;

	HASH_ITER (hh, ctx->dests, d, tmp) {
		const struct ripc__peer *p = d->peer;

		if (ctx->now_ns - d->used_ns < idle_ns || ripc__dest_in_use(d))
			continue;
		if (!p || (!p->lane && !p->out))
			ripc__dest_free(ctx, d);
		/* Services of a busy peer that come and go, and that only send. */
		else if (p->lane && !d->datagram_context && (!d->credit || !d->credit->sent_units))
			dest_fold(ctx, d);
	}
}

void ripc__dests_free(struct ripc *ctx)
{
	struct ripc__dest *d, *tmp;

	HASH_ITER (hh, ctx->dests, d, tmp)
		ripc__dest_free(ctx, d);
}
