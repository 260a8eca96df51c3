/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A service: an id with a queue of received messages. */
#ifndef RIPC_CORE_SERVICE_SERVICE_H
#define RIPC_CORE_SERVICE_SERVICE_H

#include "core/service/message.h"

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

/*
 *   ENDED --registered--> CLAIMING --nobody objects--> ACTIVE --unregistered--> CLOSING
 *                            |                           |                        ^
 *                            '--held elsewhere--> CONFLICT                        |
 *                                                        '--moved--> TAKEN_OVER --'
 *
 * CONFLICT and CLOSING end when the memory is freed, and so does CLAIMING if ripc_close() is
 * called. ripc__service_set_state() asserts that a transition is in the table of service.c. The
 * states from ACTIVE on are those of an open service.
 */
enum ripc__service_state {
	RIPC__SERVICE_ENDED,    /* zeros: its memory is all that is left, see handle.h */
	RIPC__SERVICE_CLAIMING, /* the resolver asks whether another context objects */
	RIPC__SERVICE_CONFLICT, /* another context does; the text is in conflict */
	RIPC__SERVICE_CLOSING,  /* being unregistered: nothing new is accepted */
	RIPC__SERVICE_ACTIVE,
	/* another context has the id: messages that had begun to arrive are delivered */
	RIPC__SERVICE_TAKEN_OVER,
	RIPC__SERVICE_STATES,
};

struct ripc_service {
	UT_hash_handle hh;
	uint64_t id;
	struct ripc *ctx;
	enum ripc__service_state state;     /* ripc__service_set_state() */
	bool registering;                   /* its registration waits for the resolver */
	char *conflict;                     /* who holds the id, or NULL */
	struct ripc__message *first, *last; /* queue, singly linked */
	uint64_t queued;                    /* messages in it */
	uint64_t queued_shorts;             /* short messages in it, */
	uint64_t queued_bytes;              /* and their payload */
	uint64_t queued_long_bytes;         /* payload of the long messages in it */
	bool resuming;                      /* ripc__rndv_resume() is at work */
	uint64_t arriving_bytes;   /* of long messages that are being fetched: arriving.h */
	struct ripc__list waiting; /* struct ripc__flow: peers with long messages that wait */
	/* struct ripc__rndv: long messages that are arriving, oldest first per peer */
	struct ripc__list rndvs_in;
	struct ripc__list watches; /* core/watch/watch.c: its own */
	struct ripc__list windows; /* struct ripc__local_return: its own receive windows */
	unsigned nrequests;        /* requests of it that are not done */
	unsigned calls; /* threads inside a call on it: it is not freed before they left */
	struct ripc__ready_fd ready;  /* of ripc_service_fd() */
	struct ripc__waitq receivers; /* wait for a message */
	struct ripc__waitq drained;   /* unregister waits for calls, requests and arrivals to end */
	struct ripc_stats stats;
};

void ripc__service_set_state(struct ripc_service *s, enum ripc__service_state to);

/* Whether the application may use it: it is ACTIVE or TAKEN_OVER. */
static inline bool ripc__service_open(const struct ripc_service *s)
{
	return s->state >= RIPC__SERVICE_ACTIVE;
}

/* Whether it was taken over and all that had begun to arrive has arrived: nothing more comes. */
static inline bool ripc__service_over(const struct ripc_service *s)
{
	return s->state == RIPC__SERVICE_TAKEN_OVER && ripc__list_empty(&s->rndvs_in);
}

/* The service of that id in any state, or NULL. */
struct ripc_service *ripc__service_any(const struct ripc *ctx, uint64_t id);
/*
 * The active service of that id, or NULL; also if it has moved. One that the resolver has announced
 * becomes active: a sender may know of it before REGISTERED.
 */
struct ripc_service *ripc__service_find(struct ripc *ctx, uint64_t id);

/*
 * Whether its queue is full: then messages without flow control are dropped. Each short message
 * counts for one unit more than its payload, for the memory of its struct.
 */
static inline bool ripc__service_full(const struct ripc_service *s)
{
	return s->queued_bytes + s->queued_shorts * RIPC__CREDIT_UNIT > s->ctx->opt.service_window;
}

/* Gives a message to its receivers. */
void ripc__service_deliver(struct ripc_service *s, struct ripc__message *m);
/* Takes the first message out of the queue. Return: NULL: the queue is empty. */
struct ripc__message *ripc__service_pop(struct ripc_service *s);
/* Takes a message out of the queue. Return: whether it was there. */
bool ripc__service_remove(struct ripc_service *s, struct ripc__message *m);
/* Wakes the receivers if the service is over: it was taken over, or an arriving message ended. */
void ripc__service_check_over(struct ripc_service *s);

/*
 * The context with whose lock a call on a service begins. Return: 0; -EINVAL, -ESHUTDOWN,
 * -EOWNERDEAD, explained. No lock.
 */
int ripc__service_context(const struct ripc_service *s, struct ripc **ctx);

/* The context of a service, or NULL: the service has ended. No lock. */
static inline struct ripc *ripc__service_owner(const struct ripc_service *s)
{
	return __atomic_load_n(&s->ctx, __ATOMIC_RELAXED);
}

/* The error of ripc__service_enter() for a closing service. Return: -ESHUTDOWN, explained. */
int ripc__service_closed_error(const struct ripc_service *s);

/* Whether the service or its context is closing. Return: 0: neither; -ESHUTDOWN, explained. */
static inline int ripc__service_closing(const struct ripc_service *s)
{
	if (RIPC__UNLIKELY(!ripc__service_open(s) || s->ctx->closing))
		return ripc__service_closed_error(s);
	return 0;
}

/* Starts and ends a public call: refuses a closing service, pins it. Lock held. */
static inline int ripc__service_enter(struct ripc_service *s)
{
	int rc = ripc__service_closing(s);

	if (!rc)
		s->calls++;
	return rc;
}

static inline void ripc__service_leave(struct ripc_service *s)
{
	if (!--s->calls && RIPC__UNLIKELY(!ripc__service_open(s)))
		ripc__wake(s->ctx, &s->drained);
}

/* Takes the lock and starts a public call. Return: 0: lock held; -ESHUTDOWN: it is not held. */
static inline int RIPC__NO_ANALYSIS ripc__service_lock(struct ripc_service *s, struct ripc *ctx)
{
	int rc;

	ripc__lock(ctx);
	rc = ripc__service_enter(s);
	if (rc)
		ripc__unlock(ctx);
	return rc;
}

static inline void RIPC__NO_ANALYSIS ripc__service_unlock(struct ripc_service *s, struct ripc *ctx)
{
	ripc__service_leave(s);
	ripc__unlock(ctx);
}

/* Adds the counters of a service. ctx->stats has those of services that ended. */
void ripc__service_add_stats(const struct ripc_service *s, struct ripc_stats *sum);
/* Frees a service that has ended and that no call uses. */
void ripc__service_free(struct ripc_service *s);

#endif
