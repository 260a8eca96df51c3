/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Eviction of peers: see eviction.h. */
#include "base/admission.h"
#include "core/peer/eviction.h"
#include "core/peer/peer.h"

#include <stdlib.h>

/* Peers that are evicted at once, because sorting them is expensive. */
#define PEERS_BATCH (RIPC__PEERS_MAX / 16)

static uint32_t peer_rank(const struct ripc__peer *p)
{
	if (ripc__peer_in_use(p))
		return RIPC__RANK_NEVER;
	return p->dedup_bitmap ? 2 : p->datagrams.run[0].count > 0;
}

bool ripc__evict_peers(struct ripc *ctx)
{
	size_t n = HASH_COUNT(ctx->peers), victims;
	struct ripc__entry *entries = malloc((n ? n : 1) * sizeof(*entries));
	struct ripc__peer *p, *tmp;

	if (!entries)
		return false;
	n = 0;
	HASH_ITER (hh, ctx->peers, p, tmp)
		entries[n++] = (struct ripc__entry){
			.source = p->addrs_len ? ripc__source_unique(p) : p->source,
			.since_ns = ripc__peer_used_ns(p),
			.rank = peer_rank(p),
			.object = p,
		};
	victims = ripc__admission_pick(entries, n, PEERS_BATCH);
	for (size_t i = 0; i < victims; i++)
		ripc__peer_forget(ctx, entries[i].object);
	free(entries);
	return victims > 0;
}
