/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "transport/rdma/queue.h"
#include "base/log.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ---- send queues ---- */

int ripc__verbs_sendq_init(struct ripc__verbs_sendq *q, uint32_t depth, uint32_t every, void *owner)
{
	uint32_t n = 1, half;

	while (n * 2 <= depth)
		n *= 2;
	/* Slots are freed by completions only: signaling late would stall a full queue. */
	half = (n + 1) / 2;
	*q = (struct ripc__verbs_sendq){
		.owner = owner, .depth = n, .interval = every ? MIN(every, half) : half};
	q->slots = calloc(n, sizeof(*q->slots));
	if (!q->slots)
		return ripc__fail(-ENOMEM, "verbs: out of memory");
	for (uint32_t i = 0; i < n; i++)
		q->slots[i].queue = q;
	return 0;
}

static void slot_free(struct ripc__verbs_slot *slot)
{
	if (slot->bounce)
		ripc__verbs_pool_put(slot->bounce);
	slot->bounce = NULL;
}

void ripc__verbs_sendq_fini(struct ripc__verbs_sendq *q)
{
	for (uint32_t i = 0; q->slots && i < q->depth; i++)
		slot_free(&q->slots[i]);
	free(q->slots);
	*q = (struct ripc__verbs_sendq){0};
}

struct ripc__verbs_slot *ripc__verbs_sendq_alloc(struct ripc__verbs_sendq *q, bool signal)
{
	struct ripc__verbs_slot *slot = &q->slots[q->tail++ & (q->depth - 1)];

	slot->kind = 0;
	slot->signaled = signal || q->unsignaled + 1 >= q->interval;
	q->unsignaled = slot->signaled ? 0 : q->unsignaled + 1;
	return slot;
}

struct ripc__verbs_slot *ripc__verbs_sendq_alloc_bounce(struct ripc__verbs_sendq *q, bool signal,
							struct ripc__verbs_pool *pool)
{
	struct ripc__verbs_buf *buf = ripc__verbs_pool_get(pool);
	struct ripc__verbs_slot *slot = buf ? ripc__verbs_sendq_alloc(q, signal) : NULL;

	if (slot)
		slot->bounce = buf;
	return slot;
}

void ripc__verbs_sendq_unalloc(struct ripc__verbs_sendq *q, uint32_t n)
{
	while (n--)
		slot_free(&q->slots[--q->tail & (q->depth - 1)]);
	q->unsignaled = 0;
	for (uint32_t i = q->tail; i != q->head; i--, q->unsignaled++)
		if (q->slots[(i - 1) & (q->depth - 1)].signaled)
			break;
}

struct ripc__verbs_slot *ripc__verbs_sendq_retire(struct ripc__verbs_sendq *q,
						  const struct ripc__verbs_slot *upto)
{
	uint32_t next = q->head & (q->depth - 1);
	uint32_t ahead = ((uint32_t)(upto - q->slots) - next) & (q->depth - 1);

	/* Once upto is retired its index is a full queue ahead. */
	if (ahead >= q->tail - q->head)
		return NULL;
	q->head++;
	slot_free(&q->slots[next]);
	return &q->slots[next];
}

int ripc__verbs_post_shielded(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	const struct timespec now = {0, 0};
	sigset_t pipe, before, pending;
	bool stays;
	int rc;

	sigemptyset(&pipe);
	sigaddset(&pipe, SIGPIPE);
	pthread_sigmask(SIG_BLOCK, &pipe, &before);
	/* A signal that the application has blocked stays pending. */
	stays = sigismember(&before, SIGPIPE) && !sigpending(&pending) &&
		sigismember(&pending, SIGPIPE);
	rc = ibv_post_send(qp, wr, bad);
	if (!stays)
		sigtimedwait(&pipe, NULL, &now);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return rc;
}

int ripc__verbs_post_empty(struct ibv_qp *qp, struct ripc__verbs_sendq *q,
			   enum ibv_wr_opcode opcode, bool signal)
{
	struct ripc__verbs_slot *slot = ripc__verbs_sendq_alloc(q, signal);
	struct ibv_send_wr wr = {
		.wr_id = ripc__verbs_send_id(slot),
		.opcode = opcode,
		.send_flags = slot->signaled ? IBV_SEND_SIGNALED : 0,
	};

	return ripc__verbs_post(qp, q, &wr);
}

/* ---- completion queues ---- */

#define TO(state) (1u << RIPC__CQ_##state)

const unsigned ripc__verbs_cq_next_states[RIPC__CQ_STATES] = {
	[RIPC__CQ_DISARMED] = TO(ARMED) | TO(BROKEN),
	[RIPC__CQ_ARMED] = TO(SIGNALLED) | TO(BROKEN),
	[RIPC__CQ_SIGNALLED] = TO(DISARMED) | TO(BROKEN),
	[RIPC__CQ_BROKEN] = 0,
};

int ripc__verbs_cq_init(struct ripc__verbs_cq *cq, struct ripc__verbs_device *device, uint32_t n)
{
	int rc;

	*cq = (struct ripc__verbs_cq){.device = device};
	n = MIN(n, (uint32_t)device->attr.max_cqe);
	cq->channel = ibv_create_comp_channel(device->ctx);
	if (!cq->channel)
		return ripc__fail(errno ? -errno : -EMFILE,
				  "%s: cannot create a completion channel: %s", device->name,
				  strerror(errno));
	rc = ripc__verbs_nonblocking(cq->channel->fd, device->name, "the completion channel");
	if (rc) {
		ripc__verbs_cq_fini(cq);
		return rc;
	}
	cq->cq = ibv_create_cq(device->ctx, (int)n, NULL, cq->channel, 0);
	if (!cq->cq) {
		int err = errno ? errno : ENOMEM;

		ripc__verbs_cq_fini(cq);
		return ripc__fail(-err, "%s: cannot create a completion queue of %u entries: %s",
				  device->name, n, strerror(err));
	}
	cq->entries = (uint32_t)cq->cq->cqe;
	return 0;
}

static bool take_event(struct ripc__verbs_cq *cq)
{
	struct ibv_cq *which;
	void *arg;

	if (ibv_get_cq_event(cq->channel, &which, &arg))
		return false;
	ibv_ack_cq_events(which, 1);
	return true;
}

static const struct ibv_wc *stashed(const struct ripc__verbs_cq *cq)
{
	return cq->kept ? cq->kept : cq->stash;
}

/* Makes the stash, which is empty, the array in the struct again. */
static void stash_reset(struct ripc__verbs_cq *cq)
{
	free(cq->kept);
	cq->kept = NULL;
	cq->stash_at = cq->stash_end = 0;
}

void ripc__verbs_cq_fini(struct ripc__verbs_cq *cq)
{
	if (cq->cq) {
		while (take_event(cq))
			;
		if (ibv_destroy_cq(cq->cq))
			ripc__log(RIPC_LOG_ERROR, "%s: cannot destroy a completion queue: %s",
				  cq->device->name, strerror(errno));
	}
	if (cq->channel)
		ibv_destroy_comp_channel(cq->channel);
	stash_reset(cq);
	cq->cq = NULL;
	cq->channel = NULL;
}

int ripc__verbs_cq_reserve(struct ripc__verbs_cq *cq, uint32_t n)
{
	uint32_t want = cq->entries;
	int rc;

	while (want < cq->reserved + n)
		want *= 2;
	if (want > cq->entries && want > (uint32_t)cq->device->attr.max_cqe)
		want = (uint32_t)cq->device->attr.max_cqe;
	if (want < cq->reserved + n)
		return ripc__fail(-ENOBUFS, "%s: completion queue full: at most %d entries",
				  cq->device->name, cq->device->attr.max_cqe);
	if (want > cq->entries) {
		rc = ibv_resize_cq(cq->cq, (int)want);
		if (rc)
			return ripc__fail(
				rc < 0 ? rc : -rc,
				"%s: cannot resize the completion queue from %u to %u entries: %s",
				cq->device->name, cq->entries, want, strerror(rc < 0 ? -rc : rc));
		cq->entries = (uint32_t)cq->cq->cqe;
	}
	cq->reserved += n;
	return 0;
}

void ripc__verbs_cq_unreserve(struct ripc__verbs_cq *cq, uint32_t n)
{
	cq->reserved -= n;
}

static int unreadable(const struct ripc__verbs_cq *cq)
{
	return ripc__fail(-EIO, "%s: cannot poll the completion queue", cq->device->name);
}

/* A poll has returned n. */
static inline void polled(struct ripc__verbs_cq *cq, int n)
{
	if (n < 0)
		ripc__verbs_cq_set_state(cq, RIPC__CQ_BROKEN);
	else if (n && cq->state == RIPC__CQ_ARMED)
		ripc__verbs_cq_set_state(cq, RIPC__CQ_SIGNALLED);
}

int ripc__verbs_cq_poll(struct ripc__verbs_cq *cq, struct ibv_wc *wc, int max)
{
	int n = 0, more;

	while (n < max && cq->stash_at < cq->stash_end)
		wc[n++] = stashed(cq)[cq->stash_at++];
	if (n == max)
		return n;
	/* A failed queue may have lost completions and is not polled again. */
	if (cq->state != RIPC__CQ_BROKEN) {
		more = ibv_poll_cq(cq->cq, max - n, wc + n);
		polled(cq, more);
		if (more >= 0)
			return n + more;
	}
	return n ? n : unreadable(cq);
}

bool ripc__verbs_cq_poll_one(struct ripc__verbs_cq *cq, struct ibv_wc *wc)
{
	int n = 0;

	if (cq->stash_at < cq->stash_end || cq->state == RIPC__CQ_BROKEN)
		return false;
	for (unsigned i = 0; i < RIPC__VERBS_POLL_COUNT && !n; i++)
		n = ibv_poll_cq(cq->cq, 1, wc);
	polled(cq, n);
	return n > 0;
}

void ripc__verbs_cq_push_back(struct ripc__verbs_cq *cq, const struct ibv_wc *wc)
{
	stash_reset(cq);
	cq->stash[0] = *wc;
	cq->stash_end = 1;
}

void ripc__verbs_cq_keep(struct ripc__verbs_cq *cq)
{
	uint32_t have = cq->stash_end - cq->stash_at;
	int n = RIPC__VERBS_STASH;
	struct ibv_wc *all = NULL;

	if (cq->state == RIPC__CQ_BROKEN)
		return;
	while (n == RIPC__VERBS_STASH) {
		struct ibv_wc *larger = realloc(all, (have + RIPC__VERBS_STASH) * sizeof(*larger));

		if (!larger)
			break;
		if (!all && have)
			memcpy(larger, stashed(cq) + cq->stash_at, have * sizeof(*larger));
		all = larger;
		n = ibv_poll_cq(cq->cq, RIPC__VERBS_STASH, all + have);
		polled(cq, n);
		have += n > 0 ? (uint32_t)n : 0;
	}
	/* The driver may discard a completion after it has raised the event. */
	if (cq->state == RIPC__CQ_ARMED)
		ripc__verbs_cq_set_state(cq, RIPC__CQ_SIGNALLED);
	if (!all)
		return;
	stash_reset(cq);
	cq->kept = all;
	cq->stash_end = have;
}

/*
 * Requests the event before polling: completions in between raise it. Those found by polling are
 * kept for the next poll.
 */
int ripc__verbs_cq_arm(struct ripc__verbs_cq *cq)
{
	int n;

	if (cq->stash_at < cq->stash_end)
		return 1;
	if (cq->state == RIPC__CQ_BROKEN)
		return unreadable(cq);
	if (cq->state == RIPC__CQ_SIGNALLED && take_event(cq))
		ripc__verbs_cq_set_state(cq, RIPC__CQ_DISARMED);
	if (cq->state == RIPC__CQ_DISARMED) {
		n = ibv_req_notify_cq(cq->cq, 0);
		if (n)
			return ripc__fail(n < 0 ? n : -n, "%s: cannot arm the completion queue: %s",
					  cq->device->name, strerror(n < 0 ? -n : n));
		ripc__verbs_cq_set_state(cq, RIPC__CQ_ARMED);
	}
	stash_reset(cq);
	n = ibv_poll_cq(cq->cq, RIPC__VERBS_STASH, cq->stash);
	polled(cq, n);
	if (n < 0)
		return unreadable(cq);
	cq->stash_end = (uint32_t)n;
	return n > 0;
}

void ripc__verbs_cq_forked(struct ripc__verbs_cq *cq)
{
	if (cq->channel)
		close(cq->channel->fd);
}
