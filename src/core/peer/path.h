/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The addresses of a peer on the transports of this context. */
#ifndef RIPC_CORE_PEER_PATH_H
#define RIPC_CORE_PEER_PATH_H

#include "core/peer/lane.h"
#include "core/peer/peer.h"

/*
 * Paths to a peer, best first: each local transport in order, with each address of the peer that it
 * understands. Return: the address, with its transport; NULL: no such path.
 */
const uint8_t *ripc__peer_path(const struct ripc *ctx, const struct ripc__peer *p, unsigned index,
			       unsigned *tp, size_t *len);

/*
 * The address that ripc__peer_datagram() has found for the present lane; NULL: none yet. The caller
 * knows that this context sends datagrams.
 */
static inline const uint8_t *ripc__peer_datagram_cached(const struct ripc__peer *p, unsigned *tp,
							size_t *len)
{
	const struct ripc__peer_datagrams *datagrams = p->lists->datagrams;

	if (p->no_dgram_path || !p->lane || !datagrams || !datagrams->path ||
	    datagrams->path_tp != p->lane->tp)
		return NULL;
	*tp = datagrams->path_tp;
	*len = datagrams->path_len;
	return datagrams->path;
}

/* Address for short messages by datagram. Return: NULL: they use the lane, or none is known. */
const uint8_t *ripc__peer_datagram(struct ripc *ctx, struct ripc__peer *p, unsigned *tp,
				   size_t *len);

#endif
