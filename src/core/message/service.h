/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A service: an id with a queue of received messages. */
#ifndef RIPC_CORE_MESSAGE_SERVICE_H
#define RIPC_CORE_MESSAGE_SERVICE_H

#include "core/context/context.h"

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

enum ripc__service_state {
	RIPC__SERVICE_ENDED,    /* zeros: its memory is all that is left, see handle.h */
	RIPC__SERVICE_CLAIMING, /* the resolver asks whether anybody objects */
	RIPC__SERVICE_ACTIVE,
	RIPC__SERVICE_CONFLICT, /* somebody did; the text is in conflict */
	RIPC__SERVICE_CLOSING,  /* being unregistered: nothing new is accepted */
};

struct ripc_service {
	UT_hash_handle hh;
	uint64_t id;
	struct ripc *ctx;
	enum ripc__service_state state;
	bool taken_over; /* another context took it over: what had begun to arrive comes, nothing new does */
	char *conflict;                     /* who holds the id, or NULL */
	struct ripc__message *first, *last; /* queue, singly linked */
	uint64_t queued;                    /* messages in it */
	uint64_t queued_shorts;             /* short messages in it, */
	uint64_t queued_bytes;              /* and their payload */
	uint64_t queued_long_bytes;         /* payload of the long messages in it */
	bool resuming;                      /* ripc__rndv_resume() is at work */
	uint64_t arriving_bytes;            /* payload of long messages that are being fetched */
	struct ripc__list rndvs_in; /* struct ripc__rndv: long messages on their way in, oldest first per peer */
	unsigned nrequests; /* requests of it that are not done */
	unsigned calls;     /* threads inside a call on it: it is not freed before they left */
	int fd;             /* eventfd of ripc_service_fd(), or -1 */
	struct ripc__waitq receivers; /* wait for a message */
	struct ripc__waitq drained;   /* unregister waits for calls, requests and arrivals to end */
	struct ripc_stats stats;
};

/* The active service of that id, or NULL; also if it has moved. */
struct ripc_service *ripc__service_find(struct ripc *ctx, uint64_t id);

/*
 * Whether it has so much unread that what stops no sender is dropped. Small messages cost more memory than they have bytes;
 * long ones wait for room of their own.
 */
static inline bool ripc__service_full(const struct ripc_service *s)
{
	return s->queued_bytes + s->queued_shorts * RIPC__CREDIT_UNIT > s->ctx->opt.service_window;
}

/* Adds what the service has sent and received: it is counted per service, ctx->stats has that of ended ones. */
void ripc__service_add_stats(const struct ripc_service *s, struct ripc_stats *sum);

/* Gives a message to its receivers. */
void ripc__service_deliver(struct ripc_service *s, struct ripc__message *m);

/* Waits for the next message and takes it out of the queue, into ctx->messages. *m: it, or NULL. Return: as ripc_receive(). Lock held. */
int ripc__receive(struct ripc_service *s, struct ripc__message **m, int timeout_ms);

/*
 * The context with whose lock a call on a service begins. Return: 0; -EINVAL, -ESHUTDOWN,
 * -EOWNERDEAD, explained. No lock.
 */
int ripc__service_context(const struct ripc_service *s, struct ripc **ctx);

/* Likewise, unexplained: NULL if it has ended. */
static inline struct ripc *ripc__service_owner(const struct ripc_service *s)
{
	return __atomic_load_n(&s->ctx, __ATOMIC_RELAXED);
}

/* What ripc__service_enter() says of a service that is being closed. */
int ripc__service_closed_error(const struct ripc_service *s);

/* Starts and ends a public call: refuses a closing service, pins it. Lock held. */
static inline int ripc__service_enter(struct ripc_service *s)
{
	if (RIPC__UNLIKELY(s->state != RIPC__SERVICE_ACTIVE || s->ctx->closing))
		return ripc__service_closed_error(s);
	s->calls++;
	return 0;
}

static inline void ripc__service_leave(struct ripc_service *s)
{
	if (!--s->calls && RIPC__UNLIKELY(s->state != RIPC__SERVICE_ACTIVE))
		ripc__wake(s->ctx, &s->drained);
}

/* Resolver events. */
void ripc__service_registered(struct ripc *ctx, uint64_t id);
/* Another context holds, or held, a service of ours as well: a network that was split. */
void ripc__service_split(struct ripc *ctx, uint64_t id, const char *text);
void ripc__service_conflict(struct ripc *ctx, uint64_t id, bool taken_over, const char *text);

/* ripc_close(): ends a service without waiting for anybody but threads inside. Lock held. */
void ripc__service_stop(struct ripc_service *s);
void ripc__service_free(struct ripc_service *s);

#endif
