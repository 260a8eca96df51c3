/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Set-up of lanes: requests, crossed connections, the handshake of keys. endpoint.h has the steps.
 */
#ifndef RIPC_CORE_PEER_CONNECT_H
#define RIPC_CORE_PEER_CONNECT_H

#include "core/peer/lane.h"

/* A connection request arrived / an endpoint is up / it is closed, or was rejected. */
void ripc__lane_on_request(struct ripc *ctx, unsigned tp, const struct ripc__event *ev);
void ripc__lane_on_established(struct ripc__lane *lane, const struct ripc__event *ev);
void ripc__lane_on_closed(struct ripc__lane *lane, const struct ripc__event *ev);
/*
 * The first message on a lane whose peer must still prove that it has the key. Releases its token.
 */
void ripc__lane_on_confirm(struct ripc__lane *lane, const struct ripc__event *ev);
/*
 * Decides a pending connection request after the PING of the present lane. Return: whether it was
 * accepted: its lane is set up, or fails later.
 */
bool ripc__pending_conn_resolve(struct ripc *ctx, struct ripc__peer *p, bool accept);
/*
 * The present lane gets half of peer_timeout_ms; the peer gives this context up after all of it.
 * The lane is new, or something arrived on it, so the peer is alive.
 */
void ripc__pending_conn_wait(struct ripc *ctx, struct ripc__peer *p);

#endif
