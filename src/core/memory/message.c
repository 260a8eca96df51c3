/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/memory/message.h"
#include "base/copy.h"
#include "core/memory/buffer.h"
#include "core/memory/mapped.h"
#include "core/memory/ops.h"
#include "core/peer/lane.h"
#include "core/service/service.h"

#include <stdlib.h>

#define TO(role) (1u << RIPC__CALL_##role)

const unsigned ripc__call_next_roles[RIPC__CALL_ROLES] = {
	[RIPC__CALL_NONE] = TO(NONE) | TO(REPLY) | TO(REQUEST_ARRIVING),
	[RIPC__CALL_REPLY] = TO(NONE),
	[RIPC__CALL_REQUEST_ARRIVING] = TO(NONE) | TO(REQUEST_QUEUED) | TO(REQUEST_TAKEN),
	[RIPC__CALL_REQUEST_QUEUED] = TO(NONE) | TO(REQUEST_TAKEN),
	[RIPC__CALL_REQUEST_TAKEN] = TO(NONE) | TO(REQUEST_ANSWERED),
	[RIPC__CALL_REQUEST_ANSWERED] = TO(NONE) | TO(REQUEST_TAKEN),
};

/* Room for more items than the struct has. Return: 0 or -ENOMEM. */
static int __attribute__((noinline)) message_arrays(struct ripc__message *m, unsigned nitems)
{
	uint8_t *p = malloc(nitems * (sizeof(struct iovec) + sizeof(void *) + 1));

	if (!p)
		return -ENOMEM;
	m->arrays = p;
	m->pub.items = (struct iovec *)p;
	m->pool = (struct ripc__region **)(p + nitems * sizeof(struct iovec));
	m->pub.placement = p + nitems * (sizeof(struct iovec) + sizeof(void *));
	return 0;
}

struct ripc__message *__attribute__((noinline)) ripc__message_cache_fill(struct ripc *ctx)
{
	struct ripc__message *m = malloc(sizeof(*m));

	if (!m)
		return NULL;
	/* Not the room: it is written before it is read. */
	memset(m, 0, offsetof(struct ripc__message, buf));
	m->ctx = ctx;
	m->lane = NULL;
	m->long_bytes = 0;
	m->pub.items = m->iov;
	m->pub.placement = m->placement;
	m->pool = m->regions;
	m->call_role = RIPC__CALL_NONE;
	ripc__list_init(&m->held);
	ripc__message_cache_put(ctx, m);
	return m;
}

struct ripc__message *ripc__message_new(struct ripc *ctx, unsigned nitems)
{
	struct ripc__message *m = ripc__message_cache_peek(ctx);

	if (!m)
		return NULL;
	if (RIPC__UNLIKELY(nitems > RIPC__MESSAGE_INLINE) && message_arrays(m, nitems))
		return NULL;
	m = ripc__message_cache_pop(ctx);
	m->next = NULL;
	m->units = 0;
	m->bytes = 0;
	m->pub.nitems = nitems;
	m->pub.nreturn_buffers = 0;
	for (unsigned i = 0; i < nitems; i++)
		m->pool[i] = NULL;
	return m;
}

void ripc__message_return_credit(struct ripc__message *m)
{
	struct ripc__flow *flow = m->flow;

	if (!flow)
		return;
	m->flow = NULL;
	ripc__flow_consume(flow, m->units);
}

void ripc__message_return_memory(struct ripc__message *m)
{
	ripc__list_del(&m->held);
	ripc__list_add(&m->ctx->messages, &m->held);
	for (unsigned i = 0; i < m->pub.nitems; i++)
		if (m->pool[i] && ripc__message_in_app_memory(m, i))
			ripc__message_release_item(m, i);
}

void ripc__message_hand_out_large(struct ripc *ctx, struct ripc__message *m)
{
	if (m->pub.is_long)
		ripc__message_return_memory(m);
	else
		ripc__list_add(&ctx->messages, &m->held);
}

void ripc__message_release_item(struct ripc__message *m, unsigned item)
{
	struct ripc__region *r = m->pool[item];

	if (!r)
		return;
	if (ripc__message_in_app_memory(m, item)) {
		r->unread--;
	} else if (r->state == RIPC__REGION_IMPORTED) {
		ripc__import_ref_release_item(r, m, item);
	} else {
		/* Not before a send that passes it on has ended. */
		ripc__region_set_state(r, RIPC__REGION_FREED);
		ripc__region_release(m->ctx, r);
	}
	m->pool[item] = NULL;
}

static void __attribute__((noinline)) release_heap(struct ripc__message *m)
{
	free(m->heap);
	m->heap = NULL;
	free(m->arrays);
	m->arrays = NULL;
	m->pub.items = m->iov;
	m->pub.placement = m->placement;
	m->pool = m->regions;
}

static void release_items(struct ripc__message *m)
{
	for (unsigned i = 0; i < m->pub.nitems; i++)
		ripc__message_release_item(m, i);
	m->pub.is_long = 0;
	m->long_bytes = 0;
}

/* Releases the resources that a small message does not have. */
static void __attribute__((noinline)) release_resources(struct ripc__message *m)
{
	struct ripc *ctx = m->ctx;

	if (ripc__message_is_unanswered(m))
		ctx->memory_ops->request_dropped(m);
	ripc__message_set_role(m, RIPC__CALL_NONE);
	m->pub.call = 0;
	ripc__message_return_credit(m);
	if (m->token) {
		ctx->tp[m->tp].ops->release(ctx->tp[m->tp].t, m->token);
		m->token = NULL;
		if (m->lane) {
			m->lane->rx_held--;
			ripc__lane_repost(m->lane);
		}
	}
	m->lane = NULL;
	if (m->pub.is_long)
		release_items(m);
	if (m->heap || m->arrays)
		release_heap(m);
	m->pub.group = 0;
	m->pub.event = RIPC_EVENT_NONE;
}

void ripc__message_release(struct ripc__message *m)
{
	if (!m->small) {
		if (!ripc__message_is_small(m) || m->call_role != RIPC__CALL_NONE)
			release_resources(m);
		ripc__list_del(&m->held);
		ripc__message_cache_put(m->ctx, m);
		return;
	}
	if (ripc__message_is_unanswered(m))
		m->ctx->memory_ops->request_dropped(m);
	atomic_store_explicit(&m->freed, true, memory_order_relaxed);
}

void ripc__messages_lane_closed(struct ripc__lane *lane)
{
	struct ripc *ctx = lane->ctx;
	struct ripc__message *m;

	for (struct ripc_service *s = ctx->services; s; s = s->hh.next)
		for (m = s->first; m; m = m->next) {
			if (m->flow && m->flow->lane == lane)
				m->flow = NULL;
			if (m->lane == lane)
				m->lane = NULL;
		}
	ripc__list_for_each_entry (m, &ctx->messages, held)
		if (m->lane == lane)
			m->lane = NULL;
}

/* Frees a message that needs the lock: it holds more than its struct, or has to be answered. */
static void __attribute__((noinline)) message_free(struct ripc__message *m)
{
	struct ripc *ctx = m->ctx;

	if (ripc__check_owner(ctx))
		return;
	ripc__lock(ctx);
	ripc__message_release(m);
	ripc__unlock(ctx);
}

void ripc_message_free(struct ripc_message *message)
{
	struct ripc__message *m = (struct ripc__message *)message;

	if (!m)
		return;
	if (RIPC__LIKELY(m->small && m->call_role != RIPC__CALL_REQUEST_TAKEN))
		atomic_store_explicit(&m->freed, true, memory_order_release);
	else
		message_free(m);
}

/*
 * Copies an item that lies in the sender's memory. The lock is released meanwhile: the message,
 * which the caller owns, holds the memory. Return: NULL: out of memory.
 */
static struct ripc__region *copy_item(struct ripc__message *m, unsigned item)
{
	struct ripc__region *from = m->pool[item];
	struct iovec *iov = (struct iovec *)m->pub.items + item;
	struct ripc__region *copy =
		ripc__pool_get_untouched(m->ctx, iov->iov_len, RIPC__REGION_APP, NULL);

	if (!copy)
		return NULL;
	ripc__lock_suspend(m->ctx);
	ripc__region_prefault(copy, iov->iov_len);
	ripc__copy(copy->base, iov->iov_base, iov->iov_len);
	ripc__lock_resume(m->ctx);
	/* Another thread took it, which is wrong, but does no harm. */
	if (m->pool[item] != from) {
		ripc__pool_put(m->ctx, copy);
		return NULL;
	}
	iov->iov_base = copy->base;
	ripc__import_ref_release_item(m->pool[item], m, item);
	return copy;
}

void *ripc_message_detach(struct ripc_message *message, unsigned item)
{
	struct ripc__message *m = (struct ripc__message *)message;
	int rc = m ? ripc__check_owner(m->ctx) : ripc__fail(-EINVAL, "no message");
	struct ripc__region *r;
	void *out = NULL;

	if (rc) {
		errno = -rc;
		return NULL;
	}
	ripc__lock(m->ctx);
	r = item < m->pub.nitems && m->pub.is_long ? m->pool[item] : NULL;
	if (!r && item < m->pub.nitems)
		rc = ripc__fail(-EINVAL, "item %u of the message is not in a buffer of the pool",
				item);
	else if (!r)
		rc = ripc__fail(-EINVAL, "item %u of a message that has %u", item, m->pub.nitems);
	else if (r->state != RIPC__REGION_IMPORTED)
		ripc__region_set_state(r, RIPC__REGION_APP);
	else if (!(r = copy_item(m, item)))
		rc = ripc__fail(-ENOMEM, "no memory to copy item %u of %zu bytes", item,
				m->pub.items[item].iov_len);
	if (!rc) {
		m->pool[item] = NULL;
		/* From now on it is like any buffer of the application. */
		((uint8_t *)m->pub.placement)[item] = RIPC_IN_WINDOW;
		out = r->base;
	}
	ripc__unlock(m->ctx);
	if (rc)
		errno = -rc;
	return out;
}
