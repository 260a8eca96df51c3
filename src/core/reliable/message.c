/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/reliable/message.h"
#include "wire/bytes.h"

struct ripc__reliable_msg *ripc__reliable_new(struct ripc *ctx, unsigned flags, uint64_t dest,
					      uint64_t source, const struct ripc__call_words *call,
					      const struct iovec *items, unsigned nitems)
{
	size_t len = RIPC__HEADER_LEN + ripc__call_len(flags) + nitems * 4u;
	struct ripc__reliable_msg *m;
	uint8_t *p;

	for (unsigned i = 0; i < nitems; i++)
		len += items[i].iov_len;
	m = ripc__reliable_alloc(ctx, len);
	if (!m)
		return NULL;
	m->dest = NULL;
	m->number = 0;
	p = ripc__header_put(m->bytes, RIPC__SHORT, (uint16_t)(RIPC__F_RELIABLE | flags),
			     (uint16_t)nitems, 0, dest, source);
	for (unsigned i = 0; i < nitems; i++, p += 4)
		ripc__put_le32(p, (uint32_t)items[i].iov_len);
	p = ripc__call_put(p, flags, call);
	for (unsigned i = 0; i < nitems; i++) {
		if (items[i].iov_len)
			memcpy(p, items[i].iov_base, items[i].iov_len);
		p += items[i].iov_len;
	}
	return m;
}

void ripc__reliable_free(struct ripc *ctx, struct ripc__reliable_msg *m)
{
	unsigned class = ripc__reliable_class(m->len);
	struct ripc__reliable_free *list = &ctx->reliable_free[class];

	if (class == RIPC__RELIABLE_FREE_LISTS ||
	    list->count >= ripc__reliable_classes[class].max) {
		free(m);
		return;
	}
	m->owner = (struct ripc__reliable_owner *)(void *)list->first;
	list->first = m;
	list->count++;
}

void ripc__reliable_memory_free(struct ripc *ctx)
{
	for (unsigned i = 0; i < RIPC__RELIABLE_FREE_LISTS; i++) {
		struct ripc__reliable_msg *m;

		while ((m = ctx->reliable_free[i].first)) {
			ctx->reliable_free[i].first = (struct ripc__reliable_msg *)(void *)m->owner;
			free(m);
		}
	}
}
