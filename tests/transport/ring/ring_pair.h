/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* For tests of the ring engine: two ends in one process, over mapped memory or a simulated link. */
#ifndef RIPC_TESTS_TRANSPORT_RING_RING_PAIR_H
#define RIPC_TESTS_TRANSPORT_RING_RING_PAIR_H

#include "harness.h"
#include "transport/transport.h"
#include "transport/ring/fast_path.h"
#include "sim_ntb.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#define RING_STEP_ALL \
	(RIPC__ACCESS_LOCAL_WRITE | RIPC__ACCESS_REMOTE_READ | RIPC__ACCESS_REMOTE_WRITE)

static const struct ripc__ring_layout layout_small = {6, 16}, layout_large = {9, 18};

/* One end: its segment, its link to the other, and its events. */
struct ring_end {
	struct ripc__ring w;
	struct ripc__sim_ntb link;
	uint8_t *inbox;
	size_t size;
	unsigned kicks;     /* received */
	unsigned sendables; /* events */
	unsigned nrecv, nread, nwrite;
	int read_status;
	uint64_t last_wr_id;
	uint8_t buf[RIPC__RING_RECV_BUF_LEN];
	uint32_t len; /* of the send in buf */
};

struct ring_pair {
	struct ring_end a, b;
	struct ripc__ring_layout layout;
	uint64_t rng;
	bool linked; /* over the simulated link */
};

static void ring_end_kick(void *arg)
{
	struct ring_end *to = arg;

	to->kicks++;
	ripc__ring_disarm(&to->w);
}

/* Both ends share a process: the address is enough. */
static int ring_end_read(void *arg, void *to, uint64_t addr, size_t len)
{
	memcpy(to, (const void *)(uintptr_t)addr, len);
	return 0;
}

static const struct ripc__ring_backend_ops readable_ops = {.kick = ring_end_kick,
							   .read = ring_end_read},
					   unreadable_ops = {.kick = ring_end_kick};

static inline void ring_end_open(struct ring_pair *r, struct ring_end *e, struct ring_end *peer,
				 bool can_read, uint8_t epoch)
{
	struct ripc__ring_backend be = {.inbox = e->inbox};

	if (r->linked) {
		be.ops = &ripc__sim_ntb_ops;
		be.arg = &e->link;
		e->link.kick = ring_end_kick;
		e->link.kick_arg = peer;
	} else {
		be.ops = can_read ? &readable_ops : &unreadable_ops;
		be.arg = peer;
		be.map = peer->inbox;
	}
	ripc__ring_init(&e->w, &be, &r->layout, epoch);
}

static inline void ring_pair_open(struct ring_pair *r, const struct ripc__ring_layout *layout,
				  bool linked, bool can_read, uint64_t seed)
{
	memset(r, 0, sizeof(*r));
	r->layout = *layout;
	r->linked = linked;
	r->rng = seed;
	for (int i = 0; i < 2; i++) {
		struct ring_end *e = i ? &r->b : &r->a;

		e->size = (ripc__ring_segment_len(layout) + 63) & ~(size_t)63;
		e->inbox = aligned_alloc(64, e->size);
		ck_assert_ptr_nonnull(e->inbox);
		memset(e->inbox, 0, e->size);
	}
	ripc__sim_ntb_init(&r->a.link, r->b.inbox, r->b.size, seed ^ 1);
	ripc__sim_ntb_init(&r->b.link, r->a.inbox, r->a.size, seed ^ 2);
	ring_end_open(r, &r->a, &r->b, can_read, 1);
	ring_end_open(r, &r->b, &r->a, can_read, 1);
}

static inline void ring_pair_close(struct ring_pair *r)
{
	ripc__ring_fini(&r->a.w);
	ripc__ring_fini(&r->b.w);
	ripc__sim_ntb_fini(&r->a.link);
	ripc__sim_ntb_fini(&r->b.link);
	free(r->a.inbox);
	free(r->b.inbox);
}

/* Some of the writes in flight arrive. */
static inline void ring_pair_step_links(struct ring_pair *r)
{
	if (!r->linked)
		return;
	ripc__sim_ntb_step(&r->a.link, test_random(&r->rng) % 40);
	ripc__sim_ntb_step(&r->b.link, test_random(&r->rng) % 40);
}

/* Polls one end once. Return: whether a send is in its buffer. */
static inline bool ring_end_poll(struct ring_end *e)
{
	struct ripc__event ev;

	if (e->w.work)
		ripc__ring_progress(&e->w);
	if (!ripc__ring_poll(&e->w, e->buf, &ev))
		return false;
	switch (ev.kind) {
	case RIPC__EV_RECV:
		e->nrecv++;
		e->len = ev.len;
		memmove(e->buf, ev.data, ev.len);
		return true;
	case RIPC__EV_READ_DONE:
		e->nread++;
		e->read_status = ev.status;
		e->last_wr_id = ev.wr_id;
		break;
	case RIPC__EV_WRITE_DONE:
		e->nwrite++;
		e->last_wr_id = ev.wr_id;
		break;
	case RIPC__EV_SENDABLE:
		e->sendables++;
		break;
	default:
		ck_abort_msg("event %d of an engine", ev.kind);
	}
	return false;
}

static inline int ring_end_send(struct ring_end *e, const void *p, size_t len)
{
	struct iovec iov = {(void *)(uintptr_t)p, len};

	return ripc__ring_send(&e->w, &iov, 1, len, false);
}

static inline void ring_pair_fill(uint8_t *p, size_t len, uint64_t tag)
{
	uint64_t state = tag;

	for (size_t i = 0; i < len; i += 8) {
		uint64_t v = test_random(&state);

		memcpy(p + i, &v, len - i < 8 ? len - i : 8);
	}
}

static inline bool ring_pair_check(const uint8_t *p, size_t len, uint64_t tag)
{
	uint64_t state = tag;

	for (size_t i = 0; i < len; i += 8) {
		uint64_t v = test_random(&state);

		if (memcmp(p + i, &v, len - i < 8 ? len - i : 8))
			return false;
	}
	return true;
}

/* Polls until both sides have nothing left to do. */
static inline void ring_pair_drain(struct ring_pair *r)
{
	for (unsigned idle = 0; idle < 50; idle++) {
		bool a, b;

		ring_pair_step_links(r);
		a = ring_end_poll(&r->a);
		b = ring_end_poll(&r->b);
		if (a || b || (r->linked && (r->a.link.count || r->b.link.count)))
			idle = 0;
	}
}

/* Polls one end after some of the writes in flight have arrived. No end may have failed. */
static inline bool ring_pair_step(struct ring_pair *r, struct ring_end *e)
{
	ring_pair_step_links(r);
	ck_assert_msg(!r->a.w.status, "%s", r->a.w.why);
	ck_assert_msg(!r->b.w.status, "%s", r->b.w.why);
	return ring_end_poll(e);
}

static inline void ring_end_progress(struct ring_pair *r, struct ring_end *from, const void *p,
				     size_t len)
{
	struct ring_end *to = from == &r->a ? &r->b : &r->a;
	int rc;

	while ((rc = ring_end_send(from, p, len)) == -EAGAIN) {
		ring_pair_step(r, from);
		ck_assert(!ring_pair_step(r, to));
	}
	ck_assert_int_eq(rc, 0);
}

#endif
