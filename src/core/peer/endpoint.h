/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The endpoint of a lane: connects, accepts and rejects. With keys each does its step of the
 * handshake (auth/handshake.h); connections of a context to itself need none.
 */
#ifndef RIPC_CORE_PEER_ENDPOINT_H
#define RIPC_CORE_PEER_ENDPOINT_H

#include "core/peer/lane.h"
#include "core/peer/peer.h"

/* Time limit of one attempt to connect: on the last path, and on one before it. */
#define RIPC__CONNECT_NS       (3000 * UINT64_C(1000000))
#define RIPC__CONNECT_FIRST_NS (1000 * UINT64_C(1000000))

/*
 * Connects to p over transport tp at an address, within limit_ns. Return: 0 (p->out is set) or a
 * negative errno, explained.
 */
int ripc__lane_connect(struct ripc *ctx, struct ripc__peer *p, unsigned tp, const uint8_t *addr,
		       size_t len, uint64_t limit_ns);

/* Whether a connection was not made because this process is short of descriptors or memory. */
static inline bool ripc__is_shortage(int rc)
{
	return rc == -EMFILE || rc == -ENFILE || rc == -ENOMEM || rc == -ENOBUFS;
}

/* Accepts a request of p. Return: 0 or a negative errno: there is no lane. */
int ripc__lane_accept(struct ripc *ctx, struct ripc__peer *p, struct ripc__conn_request *r);

/* Rejects a request, without a reason if the reason could not be authenticated. */
void ripc__lane_reject(struct ripc *ctx, struct ripc__conn_request *r, unsigned refusal);

/* Whether connections over a transport are authenticated. */
bool ripc__lane_needs_auth(const struct ripc *ctx, unsigned tp);

/* Sets the lane's limits to the minimum of both sides. */
void ripc__lane_set_limits(struct ripc__lane *lane, const struct ripc__hello *h);

/* Encodes this context's hello to a peer over a transport. */
void ripc__lane_hello(struct ripc *ctx, unsigned tp, const uint8_t target[16], unsigned refusal,
		      uint8_t buf[RIPC__HELLO_LEN]);

#endif
