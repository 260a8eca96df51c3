/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Two transports on one simulated network, without contexts: what the tests of the simulation share. */
#ifndef RIPC_TESTS_TRANSPORT_SIM_RIG_H
#define RIPC_TESTS_TRANSPORT_SIM_RIG_H

#include "base/clock.h"
#include "harness.h"
#include "transport/sim/sim.h"
#include "transport/transport.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RIG_EVENTS_MAX 512

/* One transport with everything it has reported. */
struct rig_side {
	struct ripc__transport *t;
	struct ripc__ep *ep;
	uint8_t instance[16];
	uint8_t addr[RIPC__ADDRESS_MAX];
	size_t addrlen;
	bool accept; /* answers requests with acceptance, else it leaves them in request */
	bool keep;   /* does not release what it receives */
	void *request;
	struct rig_event {
		enum ripc__ev_kind kind;
		int status;
		bool reject;
		uint64_t wr_id;
		void *token;
		size_t len;
		uint8_t data[64]; /* the first bytes */
		uint64_t at_ns;
	} events[RIG_EVENTS_MAX];
	unsigned nevents;
};

struct rig {
	struct ripc__sim *net;
	struct rig_side side[2];
};

#define OPS (&ripc__transport_sim)

static inline void rig_fail(void *arg, const char *text)
{
	ck_abort_msg("%s", text);
}

static inline void rig_open_side(struct rig *rig, struct rig_side *side, uint8_t name)
{
	struct ripc__transport_env env = {.instance = side->instance, .arg = rig->net};
	int n;

	memset(side->instance, name, 16);
	ck_assert_int_eq(OPS->open(&side->t, &env), 0);
	n = OPS->address(side->t, side->addr, sizeof(side->addr));
	ck_assert_int_gt(n, 0);
	side->addrlen = (size_t)n;
	side->accept = true;
}

static inline struct rig *rig_open(uint64_t seed, const struct ripc__sim_config *config)
{
	struct rig *rig = calloc(1, sizeof(*rig));

	ck_assert_ptr_nonnull(rig);
	rig->net = ripc__sim_create(seed, config, rig_fail, NULL);
	ck_assert_ptr_nonnull(rig->net);
	rig_open_side(rig, &rig->side[0], 'a');
	rig_open_side(rig, &rig->side[1], 'b');
	return rig;
}

/* Takes what one side has to report. */
static inline void rig_progress(struct rig *rig, struct rig_side *side)
{
	struct ripc__event ev[8];
	uint64_t deadline = RIPC__NEVER;
	unsigned n;

	do {
		n = OPS->progress(side->t, ev, 8, ripc__sim_now(rig->net), &deadline);
		for (unsigned i = 0; i < n; i++) {
			struct rig_event *to = &side->events[side->nevents++];

			ck_assert_uint_lt(side->nevents, RIG_EVENTS_MAX);
			to->kind = ev[i].kind;
			to->status = ev[i].status;
			to->reject = ev[i].reject;
			to->wr_id = ev[i].wr_id;
			to->len = ev[i].len;
			to->at_ns = ripc__sim_now(rig->net);
			to->token = ev[i].token;
			memcpy(to->data, ev[i].data,
			       ev[i].len < sizeof(to->data) ? ev[i].len : sizeof(to->data));
			if (ev[i].kind == RIPC__EV_REQUEST) {
				side->request = ev[i].request;
				if (side->accept)
					ck_assert_int_eq(OPS->accept(side->t, ev[i].request,
								     "welcome", 7, side, &side->ep),
							 0);
			}
			if (ev[i].token && !side->keep)
				OPS->release(side->t, ev[i].token);
		}
	} while (n == 8);
}

/* Lets everything happen that can, at most for so long. */
static inline void rig_run(struct rig *rig, uint64_t duration_ns)
{
	uint64_t until = ripc__sim_now(rig->net) + duration_ns;
	bool more;

	do {
		for (int i = 0; i < 2; i++)
			if (rig->side[i].t)
				rig_progress(rig, &rig->side[i]);
		more = ripc__sim_step(rig->net, until);
		for (int i = 0; i < 2; i++)
			if (rig->side[i].t)
				rig_progress(rig, &rig->side[i]);
	} while (more || ripc__sim_now(rig->net) < until);
}

/* Side 0 connects to side 1. */
static inline void rig_connect(struct rig *rig)
{
	ck_assert_int_eq(OPS->connect(rig->side[0].t, rig->side[1].addr, rig->side[1].addrlen,
				      "hello", 5, &rig->side[0], &rig->side[0].ep),
			 0);
}

static inline struct rig *rig_connected(uint64_t seed, const struct ripc__sim_config *config)
{
	struct rig *rig = rig_open(seed, config);

	rig_connect(rig);
	rig_run(rig, 100 * RIPC__MS);
	ck_assert_ptr_nonnull(rig->side[1].ep);
	rig->side[0].nevents = rig->side[1].nevents = 0;
	return rig;
}

static inline unsigned rig_count(const struct rig_side *side, enum ripc__ev_kind kind)
{
	unsigned n = 0;

	for (unsigned i = 0; i < side->nevents; i++)
		n += side->events[i].kind == kind;
	return n;
}

/* The first event of a kind. */
static inline struct rig_event *rig_find(struct rig_side *side, enum ripc__ev_kind kind)
{
	for (unsigned i = 0; i < side->nevents; i++)
		if (side->events[i].kind == kind)
			return &side->events[i];
	ck_abort_msg("no event of kind %d among %u", kind, side->nevents);
	return NULL;
}

static inline int rig_send(struct rig_side *side, const void *data, size_t len, bool more)
{
	struct iovec iov = {(void *)(uintptr_t)data, len};

	return OPS->post_send(side->ep, &iov, 1, more);
}

/* Closes everything and checks that nothing is left and, unless they were wanted, that nobody broke the contract. */
static inline void rig_close(struct rig *rig, uint64_t violations)
{
	struct ripc__sim_counters counters;
	const char *text;

	for (int i = 0; i < 2; i++)
		if (rig->side[i].t)
			OPS->close(rig->side[i].t);
	while (ripc__sim_step(rig->net, RIPC__NEVER))
		;
	ripc__sim_counters(rig->net, &counters);
	ck_assert_uint_eq(counters.endpoints, 0);
	ck_assert_uint_eq(counters.packets, 0);
	ck_assert_uint_eq(counters.regions, 0);
	ck_assert_msg(ripc__sim_violations(rig->net, &text) == violations,
		      "%llu violations, first: %s",
		      (unsigned long long)ripc__sim_violations(rig->net, NULL), text);
	ripc__sim_destroy(rig->net);
	free(rig);
}

#endif
