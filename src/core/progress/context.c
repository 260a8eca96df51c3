/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/progress/context.h"

#include <stdio.h>
#include <sys/random.h>

unsigned ripc__fork_generation = 1;

uint64_t ripc__now(struct ripc *ctx)
{
	return ctx->hooks.now ? ctx->hooks.now(ctx->hooks.arg) : ripc__clock_ns();
}

uint64_t ripc__now_read(struct ripc *ctx)
{
	if (ctx->now_age != RIPC__NOW_FRESH)
		ctx->now_ns = ripc__now(ctx);
	ctx->now_age = RIPC__NOW_FRESH;
	return ctx->now_ns;
}

int ripc__random(struct ripc *ctx, uint8_t *bytes, size_t len)
{
	if (!ctx->hooks.now)
		return getrandom(bytes, len, 0) == (ssize_t)len ? 0 : -EIO;
	for (size_t i = 0; i < len; i += 8) {
		uint64_t v = ctx->hooks.random(ctx->hooks.arg);

		memcpy(bytes + i, &v, 8);
	}
	return 0;
}

void ripc__timer_at(struct ripc *ctx, uint64_t when_ns)
{
	if (when_ns < ctx->timers_ns)
		ctx->timers_ns = when_ns;
	if (when_ns < ctx->next_timer_ns) {
		uint64_t now;

		ctx->next_timer_ns = when_ns;
		/* A sleeping leader has the later deadline. */
		now = ripc__now(ctx);
		if (when_ns < now || !ripc__progress_ticks_within(
					     ripc__progress_state(&ctx->progress), when_ns - now))
			ripc__progress_request(ctx);
	}
}

const char *ripc__instance_text(const uint8_t instance[16])
{
	static _Thread_local char texts[2][9];
	static _Thread_local unsigned turn;
	char *text = texts[turn++ & 1];

	snprintf(text, sizeof(texts[0]), "%02x%02x%02x%02x", instance[0], instance[1], instance[2],
		 instance[3]);
	return text;
}

const char *ripc__service_text(const struct ripc *ctx, uint64_t id)
{
	return ripc__resolver_id_text(ctx->resolver, id);
}

int ripc__shut_down(void)
{
	return ripc__fail(-ESHUTDOWN, "the context is closed, or being closed");
}

int ripc__not_owner(const struct ripc *ctx)
{
	if (!__atomic_load_n(&ctx->owner, __ATOMIC_RELAXED))
		return ripc__shut_down();
	return ripc__fail(
		-EOWNERDEAD,
		"this context was opened by the parent process: a forked child must open its own");
}

void RIPC__NO_ANALYSIS ripc__lock_suspend(struct ripc *ctx)
{
	ctx->waiting++;
	ripc__unlock(ctx);
}

void RIPC__NO_ANALYSIS ripc__lock_resume(struct ripc *ctx)
{
	ripc__lock(ctx);
	ctx->waiting--;
}
