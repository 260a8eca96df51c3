/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Virtual time for tests of mapped zero copy: contexts of one process over shm, run by the test's
 * thread. Context 0 sends; each of the others has a service that receives.
 */
#ifndef RIPC_TESTS_TRANSPORT_SHM_VIRTUAL_TIME_H
#define RIPC_TESTS_TRANSPORT_SHM_VIRTUAL_TIME_H

#include "base/clock.h"
#include "core/memory/buffer.h"
#include "core/peer/lane.h"
#include "core/peer/lane_progress.h"
#include "core/progress/context.h"
#include "core/progress/hooks.h"
#include "harness.h"

#include <stdio.h>
#include <string.h>

#define STEP     (10 * RIPC__MS / 1000) /* 10 us of virtual time in a pass */
#define CONTEXTS 3

static struct ripc *ctx[CONTEXTS];
static struct ripc_service *service[CONTEXTS];
static uint64_t now_ns, drawn;

static inline uint64_t world_now(void *arg)
{
	return now_ns;
}

static inline uint64_t world_random(void *arg)
{
	/* Instances of this host differ from those of another run, also with the same seed. */
	return test_random(&drawn) ^ test_ids();
}

static inline void poll_all(void)
{
	for (unsigned i = 0; i < CONTEXTS; i++)
		if (ctx[i])
			ripc__poll(ctx[i]);
	now_ns += STEP;
}

static inline void world_idle(void *arg, uint64_t deadline_ns)
{
	poll_all();
}

/* Opens the first n contexts, with more options. */
static inline void world_open(unsigned n, const char *more)
{
	const struct ripc__hooks hooks = {
		.now = world_now,
		.idle = world_idle,
		.random = world_random,
	};

	char options[160];

	snprintf(options, sizeof(options), "transports=shm resolver=local peer_timeout_ms=60000 %s",
		 more);
	now_ns = ripc__clock_ns();
	drawn = test_seed();
	for (unsigned i = 0; i < n; i++) {
		ck_assert_int_eq(ripc__open_hooked(&ctx[i], options, &hooks), 0);
		ck_assert_int_eq(ripc_service_register(ctx[i], test_ids() + i, 0, &service[i]), 0);
	}
}

static inline void world_close(void)
{
	for (unsigned i = 0; i < CONTEXTS && ctx[i]; i++) {
		ck_assert_int_eq(ripc_close(ctx[i]), 0);
		ctx[i] = NULL;
	}
}

/* Starts a message of one item to the service of context `to`. */
static inline struct ripc_request *start_to(unsigned to, void *p, size_t len)
{
	struct iovec item = {p, len};
	struct ripc_request *r = NULL;

	ck_assert_msg(!ripc_send_async(service[0], test_ids() + to, &item, 1, NULL, &r), "%s",
		      ripc_error_detail());
	return r;
}

static inline struct ripc_message *take_at(unsigned at)
{
	struct ripc_message *m = NULL;

	ck_assert_msg(!ripc_receive(service[at], &m, 10000), "%s", ripc_error_detail());
	return m;
}

static inline void finish(struct ripc_request *r)
{
	ck_assert_msg(!ripc_request_wait(&r, 10000), "%s", ripc_error_detail());
}

static inline void pass(uint64_t ns)
{
	for (uint64_t end = now_ns + ns; now_ns < end;)
		poll_all();
}

/* Lane n of a context, from 0 on, if it is up; or NULL. */
static inline struct ripc__lane *lane_nth(unsigned i, unsigned n)
{
	struct ripc__lane *lane;

	ripc__list_for_each_entry (lane, &ctx[i]->lanes, link)
		if (lane->state == RIPC__LANE_UP && !n--)
			return lane;
	return NULL;
}

/* No message leaves over this lane for a while. */
static inline void lane_block(unsigned i, unsigned n)
{
	struct ripc__lane *lane = lane_nth(i, n);

	if (lane && lane->sending == RIPC__SENDING_FREE)
		ripc__lane_set_sending(lane, RIPC__SENDING_BLOCKED);
}

static inline void lanes_unblock(void)
{
	struct ripc__lane *lane, *tmp;

	for (unsigned i = 0; i < CONTEXTS; i++)
		ripc__list_for_each_entry_safe (lane, tmp, &ctx[i]->lanes, link) {
			if (lane->state != RIPC__LANE_UP || lane->sending != RIPC__SENDING_BLOCKED)
				continue;
			ripc__lane_set_sending(lane, RIPC__SENDING_FREE);
			ripc__lane_flush(lane);
		}
}

/* A buffer of len bytes, each 7, that context 1 has mapped. */
static inline uint8_t *exported(size_t len)
{
	uint8_t *p = ripc_buf_alloc(ctx[0], len);
	bool in_place = false;

	ck_assert_ptr_nonnull(p);
	memset(p, 7, len);
	for (unsigned i = 0; i < 100 && !in_place; i++) {
		struct ripc_request *r = start_to(1, p, len);
		struct ripc_message *m = take_at(1);

		in_place = m->placement[0] == RIPC_IN_SENDER_MEMORY;
		ripc_message_free(m);
		finish(r);
	}
	ck_assert(in_place);
	return p;
}

#endif
