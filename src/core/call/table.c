/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/call/caller.h"

#include <stdlib.h>
#include <string.h>

#define TO(state) (1u << RIPC__CALL_IS_##state)

const unsigned ripc__call_next_states[RIPC__CALL_STEPS] = {
	[RIPC__CALL_IS_WAITING] = TO(SENT) | TO(CANCELLING) | TO(WITHDRAWING) | TO(DONE) | TO(FREE),
	[RIPC__CALL_IS_SENT] = TO(WAITING) | TO(CANCELLING) | TO(WITHDRAWING) | TO(DONE),
	[RIPC__CALL_IS_CANCELLING] = TO(CANCELLING) | TO(WITHDRAWING) | TO(DONE),
	[RIPC__CALL_IS_WITHDRAWING] = TO(DONE),
	[RIPC__CALL_IS_DONE] = TO(FREE),
	[RIPC__CALL_IS_FREE] = TO(WAITING) | TO(SENT),
};

/* The table is full: it doubles, in whole groups. Return: false: out of memory. */
static bool table_grow(struct ripc *ctx)
{
	uint32_t groups = ctx->call_slots / RIPC__CALL_GROUP, more = groups ? groups : 1;
	struct ripc__call **table = realloc(
		ctx->call_table, (size_t)(groups + more) * RIPC__CALL_GROUP * sizeof(*table));
	uint64_t *groups_ns;

	if (!table)
		return false;
	ctx->call_table = table;
	groups_ns = realloc(ctx->call_groups_ns, (groups + more) * sizeof(*groups_ns));
	if (!groups_ns)
		return false;
	ctx->call_groups_ns = groups_ns;
	for (uint32_t i = groups; i < groups + more; i++)
		groups_ns[i] = RIPC__NEVER;
	return true;
}

struct ripc__call *ripc__call_new(struct ripc *ctx)
{
	uint32_t slots = ctx->call_slots;
	struct ripc_request *handle;
	struct ripc__call *call;

	if (slots > RIPC__CALL_SLOT_MASK)
		return NULL;
	if (!(slots % RIPC__CALL_GROUP) && !(slots & (slots - 1)) && !table_grow(ctx))
		return NULL;
	handle = ripc__handle_block_alloc(&ctx->request_blocks, sizeof(*handle) + sizeof(*call));
	if (!handle)
		return NULL;
	call = (struct ripc__call *)(handle + 1);
	*handle = (struct ripc_request){.call = call};
	ripc__waitq_init(&handle->waitq);
	ripc__completion_init(&handle->completion, RIPC_COMPLETION_REQUEST);
	*call = (struct ripc__call){
		.owner = ripc__call_owner,
		.ctx = ctx,
		.handle = handle,
		.id = slots,
		.state = RIPC__CALL_IS_FREE,
	};
	ctx->call_table[ctx->call_slots++] = call;
	if (!ctx->call_number) {
		memcpy(&ctx->call_number, ctx->instance, sizeof(ctx->call_number));
		ctx->call_number |= 1;
	}
	return call;
}

void ripc__call_free_memory(struct ripc__call *call)
{
	if (call->long_req) {
		free(call->long_req->why);
		free(call->long_req);
		call->long_req = NULL;
	}
	free(call->handle->detail);
	call->handle->detail = NULL;
}

void ripc__calls_free(struct ripc *ctx)
{
	free(ctx->call_table);
	free(ctx->call_groups_ns);
}
