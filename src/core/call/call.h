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
#ifndef RIPC_CORE_CALL_CALL_H
#define RIPC_CORE_CALL_CALL_H

#include "core/reliable/reliable.h"
#include "core/rendezvous/sender.h"
#include "core/service/service.h"

/* ---- caller (caller.c) ---- */

/*
 * Starts a call. Return: 0, or -ENOMEM, explained. The service is entered; items and options are
 * checked.
 */
int ripc__call_start(struct ripc_service *s, uint64_t dest, const struct iovec *items,
		     unsigned nitems, uint64_t bytes, const struct ripc_call_options *o,
		     int timeout_ms, struct ripc_request **out);
/* The application gives a call up: it ends at once, or when the peer has answered CALL_CANCEL. */
void ripc__call_abort(struct ripc__call *call);
/*
 * ripc__call_abort() and the wait for it are over: ends the call if it has not ended. Its result is
 * -ECANCELED only if the request was not executed, and not if the service freed it unanswered.
 */
void ripc__call_withdrawn(struct ripc__call *call);
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

/* ---- callee (callee.c) ---- */

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

/* Whether a request can be answered. Return: 0; -EINVAL, -EALREADY, -ECANCELED, explained. */
int ripc__request_check(const struct ripc__message *m);
/* Whether the time of its caller is up. */
bool ripc__request_expired(struct ripc__message *m);
/* Whether an answer goes as a short message. */
bool ripc__reply_is_short(const struct ripc__message *m, uint64_t bytes);
/* Answers with a short message, which is sent at once or when there is credit. Return: 0, or an error, explained. */
int ripc__reply_short(struct ripc__message *m, int status, const struct iovec *items,
		      unsigned nitems);
/* Begins a long answer. Return: 0: it is under way; else the caller was notified. */
int ripc__reply_start(struct ripc__message *m, const struct iovec *items, unsigned nitems,
		      uint64_t bytes, struct ripc_request **out);

/* What ripc__service_deliver() does with the messages of calls. Return: whether m goes into the queue. */
bool ripc__call_arrived(struct ripc_service *s, struct ripc__message *m);

#endif
