/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* For tests of the window engine: two ends in one process, over mapped memory or a simulated link. */
#ifndef RIPC_TESTS_TRANSPORT_RING_RIG_H
#define RIPC_TESTS_TRANSPORT_RING_RIG_H

#include "harness.h"
#include "transport/transport.h"
#include "transport/ring/fast_path.h"
#include "transport/ring/sim_link.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#define RIG_ALL (RIPC__ACCESS_LOCAL_WRITE | RIPC__ACCESS_REMOTE_READ | RIPC__ACCESS_REMOTE_WRITE)

static const struct ripc__win_shape rig_small = {6, 16}, rig_large = {9, 18};

/* One end: its segment, its way to the other, and what it reported. */
struct rig_end {
	struct ripc__win w;
	struct ripc__link link;
	uint8_t *inbox;
	size_t size;
	unsigned kicks;     /* received */
	unsigned sendables; /* events */
	unsigned nrecv, nread, nwrite;
	int read_status;
	uint64_t last_wr_id;
	uint8_t buf[RIPC__WIN_BUF];
	uint32_t len; /* of the send in buf */
};

struct rig {
	struct rig_end a, b;
	struct ripc__win_shape shape;
	uint64_t rng;
	bool linked; /* over the simulated link */
};

static void rig_kick(void *arg)
{
	struct rig_end *to = arg;

	to->kicks++;
	ripc__win_kicked(&to->w);
}

/* Both ends share a process: the address is enough. */
static int rig_read(void *arg, void *to, uint64_t addr, size_t len)
{
	memcpy(to, (const void *)(uintptr_t)addr, len);
	return 0;
}

static const struct ripc__win_ops rig_map_ops = {.kick = rig_kick, .read = rig_read};

static inline void rig_end_open(struct rig *r, struct rig_end *e, struct rig_end *peer,
				unsigned caps, uint8_t epoch)
{
	struct ripc__win_backend be = {.inbox = e->inbox, .caps = caps};

	if (r->linked) {
		be.ops = &ripc__link_ops;
		be.arg = &e->link;
		e->link.kick = rig_kick;
		e->link.kick_arg = peer;
	} else {
		be.ops = &rig_map_ops;
		be.arg = peer;
		be.map = peer->inbox;
	}
	ripc__win_init(&e->w, &be, &r->shape, epoch);
}

static inline void rig_open(struct rig *r, const struct ripc__win_shape *shape, bool linked,
			    unsigned caps, uint64_t seed)
{
	memset(r, 0, sizeof(*r));
	r->shape = *shape;
	r->linked = linked;
	r->rng = seed;
	for (int i = 0; i < 2; i++) {
		struct rig_end *e = i ? &r->b : &r->a;

		e->size = (ripc__win_size(shape) + 63) & ~(size_t)63;
		e->inbox = aligned_alloc(64, e->size);
		ck_assert_ptr_nonnull(e->inbox);
		memset(e->inbox, 0, e->size);
	}
	ripc__link_init(&r->a.link, r->b.inbox, r->b.size, seed ^ 1);
	ripc__link_init(&r->b.link, r->a.inbox, r->a.size, seed ^ 2);
	rig_end_open(r, &r->a, &r->b, caps, 1);
	rig_end_open(r, &r->b, &r->a, caps, 1);
}

static inline void rig_close(struct rig *r)
{
	ripc__win_fini(&r->a.w);
	ripc__win_fini(&r->b.w);
	ripc__link_fini(&r->a.link);
	ripc__link_fini(&r->b.link);
	free(r->a.inbox);
	free(r->b.inbox);
}

/* Some of what is under way arrives. */
static inline void rig_move(struct rig *r)
{
	if (!r->linked)
		return;
	ripc__link_step(&r->a.link, test_random(&r->rng) % 40);
	ripc__link_step(&r->b.link, test_random(&r->rng) % 40);
}

/* One look at an end. Return: whether a send stands in its buffer. */
static inline bool rig_next(struct rig_end *e)
{
	struct ripc__win_event ev;

	if (ripc__win_busy(&e->w))
		ripc__win_pump(&e->w);
	if (!ripc__win_next(&e->w, e->buf, &ev))
		return false;
	switch (ev.kind) {
	case RIPC__WIN_RECV:
		e->nrecv++;
		e->len = ev.len;
		return true;
	case RIPC__WIN_READ_DONE:
		e->nread++;
		e->read_status = ev.status;
		e->last_wr_id = ev.wr_id;
		break;
	case RIPC__WIN_WRITE_DONE:
		e->nwrite++;
		e->last_wr_id = ev.wr_id;
		break;
	case RIPC__WIN_SENDABLE:
		e->sendables++;
		break;
	}
	return false;
}

static inline int rig_send(struct rig_end *e, const void *p, size_t len)
{
	struct iovec iov = {(void *)(uintptr_t)p, len};

	return ripc__win_send(&e->w, &iov, 1, len, false);
}

static inline void rig_fill(uint8_t *p, size_t len, uint64_t tag)
{
	uint64_t state = tag;

	for (size_t i = 0; i < len; i += 8) {
		uint64_t v = test_random(&state);

		memcpy(p + i, &v, len - i < 8 ? len - i : 8);
	}
}

static inline bool rig_same(const uint8_t *p, size_t len, uint64_t tag)
{
	uint64_t state = tag;

	for (size_t i = 0; i < len; i += 8) {
		uint64_t v = test_random(&state);

		if (memcmp(p + i, &v, len - i < 8 ? len - i : 8))
			return false;
	}
	return true;
}

/* Until both sides have nothing left to do. */
static inline void rig_settle(struct rig *r)
{
	for (unsigned idle = 0; idle < 50; idle++) {
		bool a, b;

		rig_move(r);
		a = rig_next(&r->a);
		b = rig_next(&r->b);
		if (a || b || (r->linked && (r->a.link.count || r->b.link.count)))
			idle = 0;
	}
}

/* A round of both ends, with what it must not find. */
static inline bool rig_step(struct rig *r, struct rig_end *e)
{
	rig_move(r);
	ck_assert_msg(!r->a.w.status, "%s", r->a.w.why);
	ck_assert_msg(!r->b.w.status, "%s", r->b.w.why);
	return rig_next(e);
}

static inline void rig_push(struct rig *r, struct rig_end *from, const void *p, size_t len)
{
	struct rig_end *to = from == &r->a ? &r->b : &r->a;
	int rc;

	while ((rc = rig_send(from, p, len)) == -EAGAIN) {
		rig_step(r, from);
		ck_assert(!rig_step(r, to));
	}
	ck_assert_int_eq(rc, 0);
}

#endif
