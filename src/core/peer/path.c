/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/peer/path.h"
#include "wire/bytes.h"

const uint8_t *ripc__peer_path(const struct ripc *ctx, const struct ripc__peer *p, unsigned index,
			       unsigned *tp, size_t *len)
{
	bool self = !memcmp(p->instance, ctx->instance, 16);

	for (unsigned i = 0; i < ctx->ntp; i++) {
		const struct ripc__tp *t = &ctx->tp[i];

		*tp = i;
		if (!t->t || !(t->limits.caps & RIPC__CAP_CONNECTED) ||
		    !!(t->limits.caps & RIPC__CAP_SELF) != self)
			continue;
		if (self) {
			*len = 16;
			return index ? NULL : ctx->instance;
		}
		for (const uint8_t *at = p->addrs, *end = at ? at + p->addrs_len : at; at < end;
		     at += 3 + *len) {
			*len = ripc__get_le16(at + 1);
			if ((at[0] == t->ops->id || (at[0] && at[0] == t->ops->compat_id)) &&
			    !index--)
				return at + 3;
		}
	}
	return NULL;
}

const uint8_t *ripc__peer_datagram(struct ripc *ctx, struct ripc__peer *p, unsigned *tp,
				   size_t *len)
{
	struct ripc__peer_datagrams *datagrams;
	const uint8_t *addr;

	if (!ctx->datagrams || p->no_dgram_path)
		return NULL;
	addr = ripc__peer_datagram_cached(p, tp, len);
	if (addr)
		return addr;
	/* The lane shows which path works; without a lane the first is tried. */
	for (unsigned i = 0; (addr = ripc__peer_path(ctx, p, i, tp, len)); i++)
		if (!p->lane || p->lane->tp == *tp)
			break;
	if (!addr || !ctx->tp[*tp].limits.eager_datagram)
		return NULL;
	datagrams = ripc__peer_datagrams(ctx, p);
	if (!datagrams)
		return NULL;
	datagrams->path = p->lane ? addr : NULL;
	datagrams->path_tp = *tp;
	datagrams->path_len = *len;
	return addr;
}
