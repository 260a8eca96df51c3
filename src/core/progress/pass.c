/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/progress/pass.h"
#include "core/progress/context.h"

#define EVENTS_MAX       64           /* reaped at once */
#define BATCHES_MAX      4            /* of these from one transport in a pass */
#define RESOLVER_POLL_NS (200 * 1000) /* a spinning leader polls the resolver so often */

static void resolver_pass(struct ripc *ctx)
{
	bool readable = ctx->resolver_poll != RIPC__RESOLVER_QUIET || ctx->hooks.now ||
			ctx->now_ns - ctx->resolver_polled_ns >= RESOLVER_POLL_NS;
	struct ripc__resolver_event ev[4];
	unsigned n;

	if (!readable && ctx->now_ns < ctx->resolver_timer_ns)
		return;
	ctx->resolver_polled_ns = ctx->now_ns;
	if (ctx->resolver_poll == RIPC__RESOLVER_READABLE)
		ctx->resolver_poll = RIPC__RESOLVER_QUIET;
	do {
		ctx->resolver_timer_ns = RIPC__NEVER;
		n = ripc__resolver_progress(ctx->resolver, readable, ev, 4, ctx->now_ns,
					    &ctx->resolver_timer_ns);
		for (unsigned i = 0; i < n; i++)
			ctx->ops->resolver_event(ctx, &ev[i]);
	} while (n == 4);
	if (ctx->resolver_poll == RIPC__RESOLVER_AWAITED && !ctx->ops->resolver_awaited(ctx))
		ctx->resolver_poll = RIPC__RESOLVER_QUIET;
}

/* Return: number of events; EVENTS_MAX: there may be more. */
static inline unsigned poll_transport(struct ripc *ctx, unsigned i, struct ripc__event *ev,
				      uint64_t *deadline)
{
	struct ripc__tp *tp = &ctx->tp[i];
	unsigned n = tp->ops->progress(tp->t, ev, EVENTS_MAX, ctx->now_ns, deadline);

	for (unsigned k = 0; k < n; k++)
		ctx->ops->transport_event(ctx, i, &ev[k]);
	return n;
}

static uint64_t transports_pass(struct ripc *ctx)
{
	struct ripc__event ev[EVENTS_MAX];
	uint64_t deadline = RIPC__NEVER;

	for (unsigned i = 0; i < ctx->ntp; i++) {
		unsigned batches = 0, n;

		if (!ctx->tp[i].t)
			continue;
		do
			n = poll_transport(ctx, i, ev, &deadline);
		while (n == EVENTS_MAX && ++batches < BATCHES_MAX);
		if (n == EVENTS_MAX)
			deadline = 0;
	}
	return deadline;
}

void ripc__partial_pass(struct ripc *ctx)
{
	struct ripc__event ev[EVENTS_MAX];
	uint64_t deadline = ctx->next_timer_ns;

	if (ctx->pass != RIPC__PASS_NONE)
		return;
	ctx->pass = RIPC__PASS_RUNNING;
	for (unsigned active_tps = ctx->active_tps; active_tps; active_tps &= active_tps - 1)
		if (poll_transport(ctx, (unsigned)__builtin_ctz(active_tps), ev, &deadline) ==
		    EVENTS_MAX)
			deadline = 0;
	if (!ripc__list_empty(&ctx->dead_lanes))
		ctx->ops->free_dead_lanes(ctx);
	/* Events may have lowered it. */
	if (deadline < ctx->next_timer_ns)
		ctx->next_timer_ns = deadline;
	ctx->pass = RIPC__PASS_NONE;
}

void ripc__dispatch_event(struct ripc *ctx, unsigned tp, const struct ripc__event *ev)
{
	ripc__event_begin(ctx);
	ctx->ops->transport_event(ctx, tp, ev);
	ripc__event_end(ctx);
}

bool ripc__full_pass(struct ripc *ctx)
{
	uint64_t deadline;
	bool requested;

	if (ctx->pass != RIPC__PASS_NONE)
		return false;
	ctx->pass = RIPC__PASS_RUNNING;
	deadline = transports_pass(ctx);
	if (ctx->evict_cause)
		ctx->ops->evict(ctx);
	resolver_pass(ctx);
	if (ctx->now_ns >= ctx->timers_ns) {
		/* Other threads stored times since now_ns was read: none may lie in the future. */
		ctx->now_ns = ripc__now(ctx);
		ctx->timers_ns = RIPC__NEVER;
		ctx->ops->timers(ctx);
	}
	if (!ripc__list_empty(&ctx->dead_lanes))
		ctx->ops->free_dead_lanes(ctx);
	if (ctx->timers_ns < deadline)
		deadline = ctx->timers_ns;
	if (ctx->resolver_timer_ns < deadline)
		deadline = ctx->resolver_timer_ns;
	ctx->next_timer_ns = ctx->ops->pass_end(ctx, deadline);
	requested = ctx->pass == RIPC__PASS_REQUESTED;
	ctx->pass = RIPC__PASS_NONE;
	return requested;
}

bool ripc__transports_arm(struct ripc *ctx, bool all)
{
	bool pending = false;

	for (unsigned i = 0; i < ctx->ntp && (all || !pending); i++)
		if (ctx->tp[i].t && ctx->tp[i].ops->arm(ctx->tp[i].t))
			pending = true;
	return pending;
}

void ripc__progress(struct ripc *ctx)
{
	uint64_t before = ctx->next_timer_ns;
	bool requested;

	ctx->now_ns = ripc__now(ctx);
	requested = ripc__full_pass(ctx);
	/* The leader sleeps on: its descriptors have to be armed again. */
	if (ripc__progress_leader_asleep(ripc__progress_state(&ctx->progress)) &&
	    ripc__transports_arm(ctx, true))
		requested = true;
	if (requested || ctx->next_timer_ns < before)
		ripc__progress_request(ctx);
}

uint64_t ripc__poll(struct ripc *ctx)
{
	uint64_t next;

	ripc__lock(ctx);
	ripc__progress(ctx);
	next = ctx->next_timer_ns;
	/* Messages that the pass posted to this context have arrived already. */
	if (ripc__transports_arm(ctx, true))
		next = 0;
	ripc__unlock(ctx);
	return next;
}
