/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Calls: a request, and the answer that belongs to it. Both are reliable short messages or long
 * messages, which are repeated and filtered below this layer. This layer matches answers, ends calls
 * whose time is up, and finds out whether a request was executed. doc/protocol.md, section 1.9.
 *
 * Caller:
 *
 *   WAITING -- posted --> SENT -- answer --> DONE
 *      WAITING -- time up: -ETIMEDOUT; nobody holds the service: -EHOSTUNREACH --> DONE
 *      SENT -- refused, CALL_STATE moved, BYE --> WAITING, for the next holder
 *      SENT -- the peer is lost: -EPIPE, or WAITING with RIPC_IDEMPOTENT
 *      SENT -- time up, cancelled: CALL_CANCEL --> CANCELLING
 *   CANCELLING -- answer --> DONE
 *      CANCELLING -- CALL_STATE not taken: -ETIMEDOUT, -ECANCELED --> DONE
 *      CANCELLING -- CALL_STATE taken or unknown, CANCEL_NS passed: -ETIME --> DONE
 *
 * Callee: a request is QUEUED until the application receives it, then TAKEN until it is answered.
 * Its message holds this state (core/service/message.h) and is in peer->served until it is answered.
 *
 * Lock held in every function.
 */
#ifndef RIPC_CORE_MESSAGE_CALL_H
#define RIPC_CORE_MESSAGE_CALL_H

#include "core/reliable/reliable.h"
#include "core/rendezvous/sender.h"
#include "core/service/service.h"

/* ---- caller (call_client.c) ---- */

/* The application gives a call up: it ends at once, or when the peer has answered CALL_CANCEL. */
void ripc__call_abort(struct ripc__call *call);
/* The call ended, and the application has its result: frees it. */
void ripc__call_free(struct ripc__call *call);
/* The answer of a call that is done, which becomes the caller's; NULL: none. */
struct ripc__message *ripc__call_take_reply(struct ripc__call *call);
/* Ends a call without waiting for the peer. */
void ripc__call_end(struct ripc__call *call, int status, const char *why);

/* An answer arrived. Takes m over. */
void ripc__call_reply(struct ripc *ctx, struct ripc__message *m);
/* CALL_STATE arrived. */
void ripc__call_state_received(struct ripc__lane *lane, uint64_t id, uint64_t state);
/* The peer is lost, or has lost its memory of this context. */
void ripc__calls_peer_lost(struct ripc *ctx, struct ripc__peer *p, const char *why);
/* The service is being closed, or was taken over: its calls end. */
void ripc__calls_service_ended(struct ripc_service *s);
void ripc__calls_timers(struct ripc *ctx);
/* ripc_close(): the callees are notified. */
void ripc__calls_close(struct ripc *ctx);
/* ripc_close(), without lanes: ends them, and frees those that the application has. */
void ripc__calls_end_all(struct ripc *ctx);
void ripc__calls_free(struct ripc *ctx);
/* Frees long requests that have ended. Not from an event of one. */
void ripc__calls_free_ended(struct ripc *ctx);

/* ---- callee (call_server.c) ---- */

/* A request arrived for s. Return: whether it is delivered; if not, m was released. */
bool ripc__request_arrived(struct ripc_service *s, struct ripc__message *m);
/* The application receives m. Return: whether it may have it; if not, m was released. */
bool ripc__request_taken(struct ripc__message *m);
/* A request is released without an answer: its caller is notified. */
void ripc__request_dropped(struct ripc__message *m);
/* CALL_CANCEL arrived. */
void ripc__request_cancelled(struct ripc__lane *lane, uint64_t id);
/* The callers of this peer are gone. */
void ripc__served_peer_lost(struct ripc__peer *p);
/* ripc_close(): answers the requests that are not answered. */
void ripc__served_close(struct ripc *ctx);

/* What ripc__service_deliver() does with the messages of calls. Return: whether m goes into the queue. */
bool ripc__call_arrived(struct ripc_service *s, struct ripc__message *m);

#endif
