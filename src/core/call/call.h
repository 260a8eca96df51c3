/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Calls: a request and its answer. Both are reliable short messages or long messages; the layers
 * below repeat them and drop duplicates. This layer matches answers to requests, ends calls at
 * their deadline, and finds out whether a request was executed. doc/protocol.md, section 1.9.
 *
 * Caller:
 *
 *   CALL_WAITING -- posted --> CALL_SENT -- answer --> CALL_DONE
 *      CALL_WAITING -- deadline: -ETIMEDOUT; nobody holds the service: -EHOSTUNREACH --> CALL_DONE
 *      CALL_SENT -- refused, CALL_STATE moved, BYE --> CALL_WAITING, for the next holder
 *      CALL_SENT -- the peer is lost: -EPIPE, or CALL_WAITING with RIPC_IDEMPOTENT
 *      CALL_SENT -- deadline, cancelled: CALL_CANCEL --> CALL_CANCELLING
 *   CALL_CANCELLING -- answer --> CALL_DONE
 *      CALL_CANCELLING -- CALL_STATE not taken: -ETIMEDOUT, -ECANCELED --> CALL_DONE
 *      CALL_CANCELLING -- CALL_STATE taken or unknown, CANCEL_NS passed: -ETIME --> CALL_DONE
 *   any of these -- ended, a peer may still write reply buffers --> CALL_WITHDRAWING
 *      CALL_WITHDRAWING -- the buffers are the caller's again, CANCEL_NS passed --> CALL_DONE
 *   CALL_DONE -- the application has its result --> CALL_FREE, for the next call
 *
 * ripc__call_set_state() asserts that a transition is in the table of table.c.
 *
 * Callee: core/service/message.h has the states of a request. It is in peer->lists->served from its
 * complete arrival to its answer.
 *
 * Lock held in every function.
 */
#ifndef RIPC_CORE_CALL_CALL_H
#define RIPC_CORE_CALL_CALL_H

#include "core/reliable/reliable.h"
#include "core/rendezvous/sender.h"
#include "core/service/service.h"

/* Whether a request or an answer fits a short message over the lane; NULL: there is none. */
static inline bool ripc__call_fits(const struct ripc__lane *lane, uint64_t bytes)
{
	return lane && bytes <= RIPC__RELIABLE_WINDOW_BYTES / 4 &&
	       bytes + RIPC__CALL_EXT <= lane->send_max - RIPC__SHORT_FIXED;
}

/* ---- caller (caller.c) ---- */

/* Starts a call. The service is entered; items and options are checked. Return: 0, or -ENOMEM. */
int ripc__call_start(struct ripc_service *s, uint64_t dest, const struct iovec *items,
		     unsigned nitems, uint64_t bytes, const struct ripc_call_options *o,
		     int timeout_ms, struct ripc_request **out);
/* The application cancels a call: it ends at once, or when the peer has answered CALL_CANCEL. */
void ripc__call_abort(struct ripc__call *call);
/*
 * ripc__call_abort() and the wait for it are over: ends the call if it has not ended. Its result is
 * -ECANCELED only if the request was not executed, and not if the service freed it unanswered.
 */
void ripc__call_withdrawn(struct ripc__call *call);
/*
 * The call ended, and the application has its result: frees it. Return: its answer, which the
 * caller owns; NULL: there is none.
 */
struct ripc__message *ripc__call_collect(struct ripc__call *call);
/* Ends a call without waiting for the peer. */
void ripc__call_end(struct ripc__call *call, int status, const char *why);

/* Whether call id waits for an answer, and service dest of p may give it. */
bool ripc__call_answer_awaited(struct ripc *ctx, const struct ripc__peer *p, uint64_t dest,
			       uint64_t id);
/* The answer of call id arrived from p, with this status. The callee owns m. */
void ripc__call_reply(struct ripc__message *m, uint64_t id, uint32_t status, struct ripc__peer *p);
void ripc__call_state_received(struct ripc__lane *lane, uint64_t id, uint64_t state);
/* Ends the calls at a peer that is lost, or has lost its record of this context. */
void ripc__calls_peer_lost(struct ripc *ctx, struct ripc__peer *p, const char *why);
/* Ends the calls of a service that is being closed, or was taken over. */
void ripc__calls_service_ended(struct ripc_service *s);
void ripc__calls_timers(struct ripc *ctx);
/* A reply buffer of the call was returned: the next timers end the call if it waits for that. */
void ripc__calls_check(struct ripc *ctx, uint64_t id);
/* ripc_close(): notifies the callees. */
void ripc__calls_close(struct ripc *ctx);
/* ripc_close(), after the lanes are closed: ends all calls and frees those of the application. */
void ripc__calls_end_all(struct ripc *ctx);
void ripc__calls_free(struct ripc *ctx);
/* Frees long requests that have ended. Do not call it from the event of a request. */
void ripc__calls_free_ended(struct ripc *ctx);

/* ---- callee (callee.c) ---- */

/* A request arrived. role: TAKEN: it has time left, and the application receives it; or QUEUED. */
static inline void ripc__request_add(struct ripc__message *m, enum ripc__call_role role)
{
	ripc__message_set_role(m, role);
	m->pub.call = m->call;
	m->call_deadline_ns =
		m->call_word == UINT32_MAX ? RIPC__NEVER : m->ctx->now_ns + m->call_word * RIPC__MS;
	ripc__list_add(&m->call_peer->lists->served, &m->served);
}

/* The application receives m. Return: whether it may have it; if not, m was released. */
bool ripc__request_taken(struct ripc__message *m);
/* A request is released without an answer: its caller is notified. */
void ripc__request_dropped(struct ripc__message *m);
void ripc__request_cancelled(struct ripc__lane *lane, uint64_t id);
/* The peer is lost: its requests need no answer. */
void ripc__served_peer_lost(struct ripc__peer *p);
/* ripc_close(): answers the requests that are not answered. */
void ripc__served_close(struct ripc *ctx);

/* The error of ripc__request_check(). Return: -EINVAL, -EALREADY, -ECANCELED, explained. */
int ripc__request_unanswerable(const struct ripc__message *m);
/* Whether a request can be answered. Return: 0, or an error, explained. */
static inline int ripc__request_check(const struct ripc__message *m)
{
	return RIPC__LIKELY(m->call_role == RIPC__CALL_REQUEST_TAKEN && !m->call_cancelled &&
			    m->call_peer)
		       ? 0
		       : ripc__request_unanswerable(m);
}
bool ripc__request_expired(struct ripc__message *m);
/* Whether an answer goes as a short message. */
static inline bool ripc__reply_is_short(const struct ripc__message *m, uint64_t bytes)
{
	/* A long answer may be written into the caller's return buffers. */
	return bytes <= RIPC_SHORT_GUARANTEED ||
	       (!m->pub.nreturn_buffers && ripc__call_fits(m->call_peer->lane, bytes));
}
/* Answers with a short message, now or when there is a lane. Return: 0, or an error, explained. */
int ripc__reply_short(struct ripc__message *m, int status, const struct iovec *items,
		      unsigned nitems);
/*
 * Begins a long answer. Return: 0: it is under way; -ECANCELED: its caller or service is gone; else
 * an error, and the request can still be answered. Explained.
 */
int ripc__reply_start(struct ripc__message *m, const struct iovec *items, unsigned nitems,
		      uint64_t bytes, struct ripc_request **out);

/*
 * A message of a call arrived. Return: whether m goes into the queue of its service; if not, it was
 * released, or is the answer of a call.
 */
bool ripc__call_arrived(struct ripc__message *m);

#endif
