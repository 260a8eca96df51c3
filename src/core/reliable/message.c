/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/reliable/message.h"
#include "wire/bytes.h"

#define FREE_MAX 2048 /* small copies whose memory is kept for reuse */

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
	if (m->len > RIPC__RELIABLE_SMALL_LEN || ctx->reliable_nfree >= FREE_MAX) {
		free(m);
		return;
	}
	m->owner = (struct ripc__reliable_owner *)(void *)ctx->reliable_free;
	ctx->reliable_free = m;
	ctx->reliable_nfree++;
}

void ripc__reliable_memory_free(struct ripc *ctx)
{
	while (ctx->reliable_free) {
		struct ripc__reliable_msg *m = ctx->reliable_free;

		ctx->reliable_free = (struct ripc__reliable_msg *)(void *)m->owner;
		free(m);
	}
}
