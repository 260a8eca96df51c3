/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Send queues that cannot overflow, completion queues that cannot either, and whom a completion is for.
 *
 * A work request id is a pointer: to the slot of a send queue, with bit 0 set, or to the buffer of a receive. It must stay
 * valid until the completion queue was found empty after the queue pair was destroyed: some drivers leave the
 * completions of a destroyed one in there.
 */
#ifndef RIPC_RDMA_QUEUE_H
#define RIPC_RDMA_QUEUE_H

#include "transport/rdma/pool.h"

/* ---- send queues ---- */

/* One work request that has not been retired. */
struct ripc__verbs_slot {
	struct ripc__verbs_sendq *queue;
	struct ripc__verbs_buf *bounce; /* copy that is being sent; NULL: none */
	uint64_t wr_id;                 /* the core's, for reads and writes */
	uint32_t len;                   /* bytes, for statistics and checks of the owner */
	uint8_t kind;                   /* the owner's */
	bool signaled;
};

struct ripc__verbs_sendq {
	void *owner; /* the endpoint */
	struct ripc__verbs_slot *slots;
	uint32_t depth;      /* power of two */
	uint32_t head, tail; /* counters: retired, taken */
	uint32_t unsignaled; /* taken since the last signaled one */
	uint32_t interval;   /* at least one of so many is signaled; 1 .. half of depth */
};

/* @depth: rounded down to a power of two; the queue pair must have been made with at least so many. -ENOMEM. */
int ripc__verbs_sendq_init(struct ripc__verbs_sendq *q, uint32_t depth, void *owner);
/* At least one of @every is signaled from now on; 0, or more than half a queue: one in each half of it, as it is by itself. */
void ripc__verbs_sendq_signal(struct ripc__verbs_sendq *q, uint32_t every);
void ripc__verbs_sendq_fini(struct ripc__verbs_sendq *q); /* gives bounce buffers back */

/* Bytes of a send that go inline: what the queue pair takes, or what the setting "inline" says, if that is less. */
static inline uint32_t ripc__verbs_inline(uint32_t can, uint32_t setting)
{
	return can < setting ? can : setting;
}

static inline uint32_t ripc__verbs_sendq_space(const struct ripc__verbs_sendq *q)
{
	return q->depth - (q->tail - q->head);
}

/*
 * The next slot; there must be room. It is to be signaled if @signal says so, or because those of a whole interval were
 * not: see slot->signaled.
 */
struct ripc__verbs_slot *ripc__verbs_sendq_alloc(struct ripc__verbs_sendq *q, bool signal);
/* Takes the last @n slots back: their work requests were refused. Bounce buffers go back. */
void ripc__verbs_sendq_unalloc(struct ripc__verbs_sendq *q, uint32_t n);

/*
 * The oldest slot not after @upto, whose completion has come: call until NULL. Its bounce buffer is given back; the rest of it
 * stays valid until the next slot is taken.
 */
struct ripc__verbs_slot *ripc__verbs_sendq_retire(struct ripc__verbs_sendq *q,
						  const struct ripc__verbs_slot *upto);

static inline uint64_t ripc__verbs_send_id(const struct ripc__verbs_slot *slot)
{
	return (uint64_t)(uintptr_t)slot | 1;
}

static inline uint64_t ripc__verbs_recv_id(const struct ripc__verbs_buf *buf)
{
	return (uint64_t)(uintptr_t)buf;
}

/* The slot of a send's completion, NULL if it is a receive's. */
static inline struct ripc__verbs_slot *ripc__verbs_wc_slot(const struct ibv_wc *wc)
{
	return wc->wr_id & 1 ? (struct ripc__verbs_slot *)(uintptr_t)(wc->wr_id & ~UINT64_C(1))
			     : NULL;
}

static inline struct ripc__verbs_buf *ripc__verbs_wc_buf(const struct ibv_wc *wc)
{
	return (struct ripc__verbs_buf *)(uintptr_t)wc->wr_id;
}

/* ---- completion queues ---- */

#define RIPC__VERBS_STASH      16u /* completions found while arming, kept for the next poll */
#define RIPC__VERBS_POLL_COUNT 8u  /* at an empty queue, for each take() */

/* A completion queue and its channel. */
struct ripc__verbs_cq {
	struct ripc__verbs_device *device;
	struct ibv_cq *cq;
	struct ibv_comp_channel *channel; /* its fd is readable when armed and a completion came */
	uint32_t entries;                 /* it can hold */
	uint32_t reserved;                /* work requests that may be outstanding */
	struct ibv_wc stash[RIPC__VERBS_STASH];
	uint32_t stash_at, stash_end;
	bool armed;  /* asked for an event that was not taken yet */
	bool seen;   /* completions came since: that event may be there */
	bool broken; /* could not be read once: what it held is lost */
};

/* @entries: to begin with. Return: 0 or a negative errno, explained. */
int ripc__verbs_cq_init(struct ripc__verbs_cq *cq, struct ripc__verbs_device *device,
			uint32_t entries);
void ripc__verbs_cq_fini(struct ripc__verbs_cq *cq); /* the queue pairs are gone */

/*
 * Before n more work requests can be outstanding on queues that complete here (the depth of a send queue: those flushed
 * complete, too). Makes the queue larger if need be. Return: 0, or a negative errno, explained. And the reverse.
 */
int ripc__verbs_cq_reserve(struct ripc__verbs_cq *cq, uint32_t n);
void ripc__verbs_cq_unreserve(struct ripc__verbs_cq *cq, uint32_t n);

/* Completions, at most max. Fewer than max: the queue was empty. Return: how many, or a negative errno: the queue is lost. */
int ripc__verbs_cq_poll(struct ripc__verbs_cq *cq, struct ibv_wc *wc, int max);

/*
 * One completion, between two polls; of a queue that is empty some looks are worth one way here, and the more of them, the fewer messages
 * are found by a round, whose way to the application is longer. Return: whether there is one; errors are for the next poll. And gives it
 * back: the next poll finds it first, and until then no other is taken.
 */
bool ripc__verbs_cq_poll_one(struct ripc__verbs_cq *cq, struct ibv_wc *wc);
void ripc__verbs_cq_push_back(struct ripc__verbs_cq *cq, const struct ibv_wc *wc);

/* As arm() of the vtable, without losing a completion that comes meanwhile. Return: 0, 1, or a negative errno. */
int ripc__verbs_cq_arm(struct ripc__verbs_cq *cq);

/* In the child of fork(): closes descriptors, nothing else. */
void ripc__verbs_cq_forked(struct ripc__verbs_cq *cq);

#endif
