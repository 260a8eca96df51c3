/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Watches: a service receives an event when the holder of another service died, or holds it no
 * more.
 *
 *   LOCATING, in dest->watches -- lane to the holder up: WATCH --> WATCHING, of the peer
 *      LOCATING -- nobody holds the service --> RIPC_EVENT_NOT_FOUND
 *      LOCATING -- the holder found cannot be reached, for peer_timeout_ms --> RIPC_EVENT_DIED
 *      WATCHING -- lane lost, and up again: WATCH
 *      WATCHING -- WATCH_END --> RIPC_EVENT_MOVED
 *      WATCHING -- no address of the peer answers --> RIPC_EVENT_DIED
 *      WATCHING -- next lane, new epoch: the peer has given this context up --> RIPC_EVENT_DIED
 *
 * A watch ends with its event. The event follows the messages of the peer. The holder sends
 * WATCH_END after them on the same lane, and a peer counts as lost only when all its messages are
 * in the queues. A report of the resolver may overtake messages, so it ends no watch.
 *
 * The message of the event is allocated with the watch: an event is never lost. Lock held.
 */
#ifndef RIPC_CORE_WATCH_WATCH_H
#define RIPC_CORE_WATCH_WATCH_H

#include "core/peer/lane.h"
#include "core/peer/peer.h"
#include "core/service/service.h"

/* ripc_watch(). Return: 0, or -ENOMEM, explained. */
int ripc__watch_begin(struct ripc_service *s, uint64_t dest);
void ripc__watch_stop(struct ripc_service *s, uint64_t dest);

/* The destination may be reachable now, and has watches. */
void ripc__watch_flush(struct ripc *ctx, struct ripc__dest *d);
void ripc__watch_not_found(struct ripc *ctx, struct ripc__dest *d, const char *why);
void ripc__watch_lane_up(struct ripc__lane *lane);
/* WATCH arrived: notifies the peer when the service ends. */
void ripc__watch_received(struct ripc__lane *lane, uint64_t id);
/*
 * A local service was closed, or taken over: sends WATCH_END to the peers that watch it. Its
 * messages were sent before.
 */
void ripc__watchers_notify(struct ripc *ctx, uint64_t id);
void ripc__watch_ended(struct ripc__lane *lane, uint64_t id);
/* The peer has a new epoch: it has given this context up, and perhaps reported its end. */
void ripc__watch_peer_gave_up(struct ripc__peer *p, const char *why);
void ripc__watch_peer_lost(struct ripc *ctx, struct ripc__peer *p, const char *why);
/* Searches for addresses of the peer: resolves its services that are watched. */
void ripc__watches_resolve(struct ripc *ctx, struct ripc__peer *p);
/* The service is being closed, or was taken over. */
void ripc__watches_service_ended(struct ripc_service *s);

#endif
