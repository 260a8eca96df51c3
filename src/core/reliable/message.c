/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/reliable/message.h"
#include "base/iov.h"
#include "wire/bytes.h"

#include <stdlib.h>

static struct ripc__reliable_msg *msg_malloc(size_t len)
{
	struct ripc__reliable_msg *m = malloc(sizeof(*m) + len);

	if (m)
		ripc__list_init(&m->link);
	return m;
}

bool ripc__reliable_refill(struct ripc *ctx, size_t len)
{
	unsigned class = ripc__reliable_class(len);
	struct ripc__reliable_msg *m = class < RIPC__RELIABLE_FREE_LISTS
					       ? msg_malloc(ripc__reliable_classes[class].room)
					       : NULL;

	if (m)
		ripc__reliable_keep(&ctx->reliable_free[class], m);
	return m;
}

/* An empty one for a message of len bytes. Return: NULL: out of memory. */
static struct ripc__reliable_msg *msg_alloc(struct ripc *ctx, size_t len)
{
	struct ripc__reliable_msg *m;

	if (RIPC__LIKELY(ripc__reliable_class(len) < RIPC__RELIABLE_FREE_LISTS))
		return ripc__reliable_reserve(ctx, len) ? ripc__reliable_take(ctx, len) : NULL;
	m = msg_malloc(len);
	if (m) {
		m->order = ctx->requests_started++;
		m->len = (uint32_t)len;
	}
	return m;
}

struct ripc__reliable_msg *ripc__reliable_new(struct ripc *ctx, unsigned flags, uint64_t source,
					      const struct ripc__call_words *call,
					      const struct iovec *items, unsigned nitems)
{
	size_t len = RIPC__HEADER_LEN + ripc__call_len(flags) + nitems * 4u +
		     ripc__iov_len(items, nitems);
	struct ripc__reliable_msg *m = msg_alloc(ctx, len);
	uint8_t *p;

	if (!m)
		return NULL;
	m->dest = NULL;
	m->number = 0;
	m->source = source;
	m->flags = (uint16_t)(RIPC__F_RELIABLE | flags);
	m->nitems = (uint16_t)nitems;
	if (call)
		m->call = *call;
	p = m->bytes;
	for (unsigned i = 0; nitems != 1 && i < nitems; i++, p += 4)
		ripc__put_le32(p, (uint32_t)items[i].iov_len);
	ripc__iov_gather(p, items, nitems);
	return m;
}

void ripc__reliable_memory_free(struct ripc *ctx)
{
	for (unsigned i = 0; i < RIPC__RELIABLE_FREE_LISTS; i++) {
		struct ripc__reliable_free *list = &ctx->reliable_free[i];
		struct ripc__reliable_msg *m;

		while ((m = list->first)) {
			list->first = (struct ripc__reliable_msg *)(void *)m->owner;
			free(m);
		}
		list->count = 0;
	}
}
