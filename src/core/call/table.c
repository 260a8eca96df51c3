/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/call/caller.h"

#include <stdlib.h>

/* Makes the table larger. Return: 0 or -ENOMEM. */
static int table_grow(struct ripc *ctx)
{
	uint32_t n = ctx->call_slots ? 2 * ctx->call_slots : 64;
	struct ripc__call **table;
	uint32_t *free_slots;

	if (n > 1u << RIPC__CALL_SLOT_BITS)
		return -ENOMEM;
	table = realloc(ctx->call_table, n * sizeof(struct ripc__call *));
	if (!table)
		return -ENOMEM;
	ctx->call_table = table;
	free_slots = realloc(ctx->call_free_slots, n * sizeof(*free_slots));
	if (!free_slots)
		return -ENOMEM;
	ctx->call_free_slots = free_slots;
	for (uint32_t i = ctx->call_slots; i < n; i++) {
		table[i] = NULL;
		free_slots[ctx->call_nfree++] = n - 1 - (i - ctx->call_slots);
	}
	ctx->call_slots = n;
	return 0;
}

static uint32_t slot_of(uint64_t id)
{
	return (uint32_t)id & ((1u << RIPC__CALL_SLOT_BITS) - 1);
}

uint64_t ripc__call_id_get(struct ripc *ctx)
{
	if (!ctx->call_nfree && table_grow(ctx))
		return 0;
	if (!ctx->call_next)
		ctx->call_next = ripc__seq_begin(ctx);
	return ctx->call_next++ << RIPC__CALL_SLOT_BITS | ctx->call_free_slots[--ctx->call_nfree];
}

void ripc__call_id_put(struct ripc *ctx, uint64_t id)
{
	ctx->call_free_slots[ctx->call_nfree++] = slot_of(id);
}

void ripc__call_add(struct ripc *ctx, struct ripc__call *call)
{
	ctx->call_table[slot_of(call->id)] = call;
	ripc__list_add(&ctx->calls, &call->link);
}

void ripc__call_loop_begin(struct ripc *ctx, struct ripc__call_loop *loop)
{
	loop->next = ctx->calls.next;
	loop->outer = ctx->call_loops;
	ctx->call_loops = loop;
}

struct ripc__call *ripc__call_loop_next(struct ripc *ctx, struct ripc__call_loop *loop)
{
	struct ripc__list *n = loop->next;

	if (n == &ctx->calls) {
		ctx->call_loops = loop->outer;
		return NULL;
	}
	loop->next = n->next;
	return ripc__list_entry(n, struct ripc__call, link);
}

void ripc__call_remove(struct ripc *ctx, struct ripc__call *call)
{
	for (struct ripc__call_loop *loop = ctx->call_loops; loop; loop = loop->outer)
		if (loop->next == &call->link)
			loop->next = call->link.next;
	ctx->call_table[slot_of(call->id)] = NULL;
	ripc__call_id_put(ctx, call->id);
	ripc__list_del(&call->link);
}
