/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Completions, for ripc_completion_next(): requests and calls that are done, and destinations that
 * take messages again. Each is in ctx->completions from the moment it becomes true until it is
 * reported or freed. The descriptor of ripc_completion_fd() is readable while the list is not
 * empty. Lock held.
 */
#ifndef RIPC_CORE_PROGRESS_COMPLETION_H
#define RIPC_CORE_PROGRESS_COMPLETION_H

#include "base/list.h"
#include "ripc.h"

struct ripc__completion {
	struct ripc__list link; /* in ctx->completions, or in no list */
	uint8_t kind;           /* enum ripc_completion_kind */
};

static inline void ripc__completion_init(struct ripc__completion *c, enum ripc_completion_kind kind)
{
	ripc__list_init(&c->link);
	c->kind = (uint8_t)kind;
}

/* Reports the completion; a second call before it was reported does nothing. */
void ripc__completion_add(struct ripc *ctx, struct ripc__completion *c);
/* The completion was reported, or is freed. */
void ripc__completion_unlink(struct ripc *ctx, struct ripc__completion *c);
static inline void ripc__completion_remove(struct ripc *ctx, struct ripc__completion *c)
{
	if (!ripc__list_empty(&c->link))
		ripc__completion_unlink(ctx, c);
}

#endif
