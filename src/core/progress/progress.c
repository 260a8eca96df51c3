/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/progress/progress.h"
#include "core/progress/context.h"
#include "core/progress/descriptors.h"

#include <sys/eventfd.h>

static struct ripc__progress_step change(_Atomic uint32_t *word, enum ripc__progress_event event,
					 const struct ripc__progress_input *in)
{
	union ripc__progress_word next,
		now = {.bits = atomic_load_explicit(word, memory_order_relaxed)};
	struct ripc__progress_step step;

	do {
		step = ripc__progress_next(now.state, event, in);
		next.state = step.next;
		/* Most calls of some events change nothing: those cost no locked instruction. */
		if (next.bits == now.bits)
			break;
	} while (!atomic_compare_exchange_weak(word, &now.bits, next.bits));
	return step;
}

struct ripc__progress_step ripc__progress_step(struct ripc *ctx, enum ripc__progress_event event,
					       const struct ripc__progress_input *in)
{
	struct ripc__progress_step step = change(&ctx->progress.word, event, in);
	int posted;

	if (RIPC__LIKELY(!step.actions))
		return step;
	/* One post ends the tick; more would end later ones. */
	if (step.actions & RIPC__DO_POST && !sem_getvalue(&ctx->progress.sem, &posted) && !posted)
		sem_post(&ctx->progress.sem);
	if (step.actions & RIPC__DO_ARM)
		ripc__descriptors_mask(ctx, false);
	if (step.actions & RIPC__DO_KICK && ctx->progress.wakefd >= 0)
		eventfd_write(ctx->progress.wakefd, 1);
	if (step.actions & RIPC__DO_DISARM && !ripc__descriptors_mask(ctx, true))
		return ripc__progress_step(ctx, RIPC__PROGRESS_DISARM_FAILED, NULL);
	return step;
}

/*
 * The leader passes again before it sleeps; for others ripc__progress() requests it. Return:
 * whether a pass runs.
 */
static bool request_in_pass(struct ripc *ctx)
{
	if (ctx->pass == RIPC__PASS_NONE)
		return false;
	ctx->pass = RIPC__PASS_REQUESTED;
	return true;
}

void ripc__progress_request(struct ripc *ctx)
{
	struct ripc__progress_input in = {.in_pass = request_in_pass(ctx)};

	if (!ripc__progress_is_requested(ripc__progress_state(&ctx->progress)))
		ripc__progress_step(ctx, RIPC__PROGRESS_REQUEST, &in);
}

void ripc__progress_request_lazy(struct ripc *ctx)
{
	struct ripc__progress_state s = ripc__progress_state(&ctx->progress);
	struct ripc__progress_input in = {.in_pass = request_in_pass(ctx)};

	if (!s.app_active || !ripc__progress_is_requested(s))
		ripc__progress_step(ctx, RIPC__PROGRESS_REQUEST_LAZY, &in);
}
