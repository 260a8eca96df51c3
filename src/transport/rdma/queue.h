/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Send queues and completion queues that cannot overflow, and the owners of completions.
 * A work request id is a pointer: to the slot of a send queue, with bit 0 set, or to the buffer of
 * a receive. It must stay valid until the completion queue was found empty after the queue pair was
 * destroyed: some drivers leave completions of a destroyed queue pair in the queue.
 */
#ifndef RIPC_RDMA_QUEUE_H
#define RIPC_RDMA_QUEUE_H

#include "base/list.h"
#include "transport/rdma/pool.h"

#include <assert.h>

/* ---- send queues ---- */

/* One work request that has not been retired. */
struct ripc__verbs_slot {
	struct ripc__verbs_sendq *queue;
	struct ripc__verbs_buf *bounce; /* bounce buffer; NULL: none */
	uint64_t wr_id;                 /* of the core, for reads and writes */
	uint8_t kind;                   /* the owner's */
	bool signaled;
};

struct ripc__verbs_sendq {
	void *owner; /* the endpoint */
	struct ripc__verbs_slot *slots;
	uint32_t depth;      /* power of two */
	uint32_t head, tail; /* counters: retired, allocated */
	uint32_t unsignaled; /* allocated since the last signaled one */
	uint32_t interval;   /* one of so many is signaled at least; 1 .. half of depth */
	bool sigpipe;        /* posting may raise SIGPIPE, see ripc__verbs_post_shielded() */
};

/*
 * @depth: rounded down to a power of two; at most that of the queue pair. Signals at least one of
 * @every slots; 0 or too large: one per half queue. Return: 0 or -ENOMEM.
 */
int ripc__verbs_sendq_init(struct ripc__verbs_sendq *q, uint32_t depth, uint32_t every,
			   void *owner);
void ripc__verbs_sendq_fini(struct ripc__verbs_sendq *q); /* frees bounce buffers */

static inline uint32_t ripc__verbs_sendq_space(const struct ripc__verbs_sendq *q)
{
	return q->depth - (q->tail - q->head);
}

/*
 * Allocates the next slot; there is space. Its kind is 0, and it has no bounce buffer. signaled:
 * @signal, or the interval is over.
 */
struct ripc__verbs_slot *ripc__verbs_sendq_alloc(struct ripc__verbs_sendq *q, bool signal);
/* The same with a bounce buffer. NULL: none is free, and no slot was allocated. */
struct ripc__verbs_slot *ripc__verbs_sendq_alloc_bounce(struct ripc__verbs_sendq *q, bool signal,
							struct ripc__verbs_pool *pool);
/* Frees the last @n slots, whose work requests were refused, and their bounce buffers. */
void ripc__verbs_sendq_unalloc(struct ripc__verbs_sendq *q, uint32_t n);

/*
 * Retires the oldest slot up to @upto, which has completed: call until NULL. Its bounce buffer is
 * freed; the slot stays valid until the next allocation.
 */
struct ripc__verbs_slot *ripc__verbs_sendq_retire(struct ripc__verbs_sendq *q,
						  const struct ripc__verbs_slot *upto);

/*
 * ibv_post_send() without SIGPIPE: SoftiWARP writes to its TCP socket in the thread that posts, and
 * without MSG_NOSIGNAL, so that a connection that ended would end the process.
 */
int ripc__verbs_post_shielded(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);

/*
 * Posts a chain of work requests, which have slots. Return: 0, or a negative errno: the slots of
 * the refused ones are freed.
 */
static inline int ripc__verbs_post(struct ibv_qp *qp, struct ripc__verbs_sendq *q,
				   struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad = wr;
	int rc = q->sigpipe ? ripc__verbs_post_shielded(qp, wr, &bad) : ibv_post_send(qp, wr, &bad);
	uint32_t n = 0;

	if (!rc)
		return 0;
	for (; bad; bad = bad->next)
		n++;
	ripc__verbs_sendq_unalloc(q, n);
	return rc > 0 ? -rc : rc;
}

/* Posts a request without data, which needs a slot. Return: as ripc__verbs_post(). */
int ripc__verbs_post_empty(struct ibv_qp *qp, struct ripc__verbs_sendq *q,
			   enum ibv_wr_opcode opcode, bool signal);

#define RIPC__VERBS_HELD_MAX       16u
#define RIPC__VERBS_HELD_WRITE_MAX (64u << 10) /* bytes of a write that waits for its message */

/* Sends and writes of a queue pair that are held back, to be posted by one call. */
struct ripc__verbs_held {
	struct ripc__list link; /* in a list of the transport while there are some */
	struct ibv_send_wr wr[RIPC__VERBS_HELD_MAX];
	struct ibv_sge sge[RIPC__VERBS_HELD_MAX];
	uint32_t n;
};

/*
 * Appends a copy of a work request with one element. @list: of the transport. Return: whether it is
 * full now.
 */
static inline bool ripc__verbs_hold(struct ripc__list *list, struct ripc__verbs_held *h,
				    const struct ibv_send_wr *wr)
{
	ripc__list_queue(list, &h->link);
	h->sge[h->n] = *wr->sg_list;
	h->wr[h->n] = *wr;
	h->wr[h->n].sg_list = &h->sge[h->n];
	h->wr[h->n].next = NULL;
	if (h->n)
		h->wr[h->n - 1].next = &h->wr[h->n];
	return ++h->n == RIPC__VERBS_HELD_MAX;
}

/* Return: the chain to post, valid until the next hold, or NULL: none is held back. */
static inline struct ibv_send_wr *ripc__verbs_unhold(struct ripc__verbs_held *h)
{
	bool any = h->n;

	h->n = 0;
	ripc__list_del(&h->link);
	return any ? h->wr : NULL;
}

static inline uint64_t ripc__verbs_send_id(const struct ripc__verbs_slot *slot)
{
	return (uint64_t)(uintptr_t)slot | 1;
}

static inline uint64_t ripc__verbs_recv_id(const struct ripc__verbs_buf *buf)
{
	return (uint64_t)(uintptr_t)buf;
}

/*
 * Fills the request of a send: @len bytes of the slot's bounce buffer, or without one of @bytes,
 * inline. Members that a send does not use stay as they are, because setting all takes longer.
 */
static inline void ripc__verbs_fill_send(struct ibv_send_wr *wr, struct ibv_sge *sge,
					 const struct ripc__verbs_slot *slot,
					 enum ibv_wr_opcode opcode, const void *bytes, size_t len)
{
	const struct ripc__verbs_buf *bounce = slot->bounce;

	sge->addr = (uintptr_t)(bounce ? bounce->data : bytes);
	sge->length = (uint32_t)len;
	sge->lkey = bounce ? bounce->lkey : 0;
	wr->wr_id = ripc__verbs_send_id(slot);
	wr->next = NULL;
	wr->sg_list = sge;
	wr->num_sge = 1;
	wr->opcode = opcode;
	wr->send_flags =
		(slot->signaled ? IBV_SEND_SIGNALED : 0u) | (bounce ? 0u : IBV_SEND_INLINE);
}

/* The slot of a send completion; NULL: a receive completion. */
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

#define RIPC__VERBS_STASH      16u /* completions found by arm, kept for the next poll */
#define RIPC__VERBS_POLL_COUNT 8u  /* polls of an empty queue by one poll_one() */

/*
 *   DISARMED --event requested--> ARMED --completions polled--> SIGNALLED
 *   SIGNALLED --event read--> DISARMED
 *   any state --a poll failed--> BROKEN
 *
 * ripc__verbs_cq_set_state() asserts that a transition is in the table of queue.c.
 */
enum ripc__verbs_cq_state {
	RIPC__CQ_DISARMED,
	RIPC__CQ_ARMED,
	RIPC__CQ_SIGNALLED, /* the event may be in the channel */
	RIPC__CQ_BROKEN,    /* completions may be lost */
	RIPC__CQ_STATES,
};

/* A completion queue and its channel. */
struct ripc__verbs_cq {
	struct ripc__verbs_device *device;
	struct ibv_cq *cq;
	struct ibv_comp_channel *channel; /* fd is readable after a completion, if armed */
	uint32_t entries;                 /* capacity */
	uint32_t reserved;                /* reserved for work requests */
	struct ibv_wc stash[RIPC__VERBS_STASH];
	struct ibv_wc *kept; /* by ripc__verbs_cq_keep(), in place of stash; NULL: none */
	uint32_t stash_at, stash_end;
	enum ripc__verbs_cq_state state; /* ripc__verbs_cq_set_state() */
};

/* The states that may follow each state (queue.c). */
extern const unsigned ripc__verbs_cq_next_states[RIPC__CQ_STATES];

static inline void ripc__verbs_cq_set_state(struct ripc__verbs_cq *cq, enum ripc__verbs_cq_state to)
{
	assert(ripc__verbs_cq_next_states[cq->state] & 1u << to);
	cq->state = to;
}

/* @entries: initial capacity. Return: 0 or a negative errno, explained. */
int ripc__verbs_cq_init(struct ripc__verbs_cq *cq, struct ripc__verbs_device *device, uint32_t n);
void ripc__verbs_cq_fini(struct ripc__verbs_cq *cq); /* the queue pairs are destroyed */

/*
 * Reserves capacity for n more work requests (the depth of a send queue: flushed requests complete
 * too); resizes the queue if need be. Return: 0, or a negative errno, explained.
 */
int ripc__verbs_cq_reserve(struct ripc__verbs_cq *cq, uint32_t n);
void ripc__verbs_cq_unreserve(struct ripc__verbs_cq *cq, uint32_t n);

/*
 * Polls up to max completions. Return: how many, fewer than max: the queue was empty; or a negative
 * errno: the queue is lost.
 */
int ripc__verbs_cq_poll(struct ripc__verbs_cq *cq, struct ibv_wc *wc, int max);

/*
 * Polls one completion. An empty queue is polled RIPC__VERBS_POLL_COUNT times, since a message
 * found here reaches the application sooner than by progress(). Return: whether there is one;
 * errors are left to the next poll. push_back returns it to the queue: the next poll finds it
 * first.
 */
bool ripc__verbs_cq_poll_one(struct ripc__verbs_cq *cq, struct ibv_wc *wc);
void ripc__verbs_cq_push_back(struct ripc__verbs_cq *cq, const struct ibv_wc *wc);

/*
 * Call before a queue pair is destroyed: some drivers discard its completions then, and with them
 * the only trace of its receives from a shared queue. Polls all completions and keeps them for the
 * next poll.
 */
void ripc__verbs_cq_keep(struct ripc__verbs_cq *cq);

/* As arm() of the vtable; loses no completion. Return: 0, 1, or a negative errno. */
int ripc__verbs_cq_arm(struct ripc__verbs_cq *cq);

/* In the child of fork(): closes descriptors, nothing else. */
void ripc__verbs_cq_forked(struct ripc__verbs_cq *cq);

#endif
