/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Two transports on one simulated network, without contexts: what the tests of the simulation
 * share.
 */
#ifndef RIPC_TESTS_TRANSPORT_SIM_SIM_PAIR_H
#define RIPC_TESTS_TRANSPORT_SIM_SIM_PAIR_H

#include "base/clock.h"
#include "harness.h"
#include "transport/sim/sim.h"
#include "transport/transport.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAIR_EVENTS_MAX 512

/* One transport with everything it has reported. */
struct pair_side {
	struct ripc__transport *t;
	struct ripc__ep *ep;
	uint8_t instance[16];
	uint8_t addr[RIPC__ADDRESS_MAX];
	size_t addrlen;
	bool accept; /* answers requests with acceptance, else it leaves them in request */
	bool keep;   /* does not release what it receives */
	void *request;
	struct pair_event {
		enum ripc__ev_kind kind;
		int status;
		bool reject;
		uint64_t wr_id;
		void *token;
		size_t len;
		uint8_t data[64]; /* the first bytes */
		uint32_t imm;
		uint64_t at_ns;
	} events[PAIR_EVENTS_MAX];
	unsigned nevents;
};

struct sim_pair_test {
	struct ripc__sim *net;
	struct pair_side side[2];
};

#define OPS (&ripc__transport_sim)

static inline void pair_fail(void *arg, const char *text)
{
	ck_abort_msg("%s", text);
}

static inline void pair_open_side(struct sim_pair_test *sim_pair_test, struct pair_side *side,
				  uint8_t name)
{
	struct ripc__transport_env env = {.instance = side->instance, .arg = sim_pair_test->net};
	int n;

	memset(side->instance, name, 16);
	ck_assert_int_eq(OPS->open(&side->t, &env), 0);
	n = OPS->address(side->t, side->addr, sizeof(side->addr));
	ck_assert_int_gt(n, 0);
	side->addrlen = (size_t)n;
	side->accept = true;
}

static inline struct sim_pair_test *pair_open(uint64_t seed, const struct ripc__sim_config *config)
{
	struct sim_pair_test *sim_pair_test = calloc(1, sizeof(*sim_pair_test));

	ck_assert_ptr_nonnull(sim_pair_test);
	sim_pair_test->net = ripc__sim_create(seed, config, pair_fail, NULL);
	ck_assert_ptr_nonnull(sim_pair_test->net);
	pair_open_side(sim_pair_test, &sim_pair_test->side[0], 'a');
	pair_open_side(sim_pair_test, &sim_pair_test->side[1], 'b');
	return sim_pair_test;
}

/* Takes what one side has to report. */
static inline void pair_progress(struct sim_pair_test *sim_pair_test, struct pair_side *side)
{
	struct ripc__event ev[8];
	uint64_t deadline = RIPC__NEVER;
	unsigned n;

	do {
		n = OPS->progress(side->t, ev, 8, ripc__sim_now(sim_pair_test->net), &deadline);
		for (unsigned i = 0; i < n; i++) {
			struct pair_event *to = &side->events[side->nevents++];

			ck_assert_uint_lt(side->nevents, PAIR_EVENTS_MAX);
			to->kind = ev[i].kind;
			to->status = ev[i].status;
			to->reject = ev[i].reject;
			to->wr_id = ev[i].wr_id;
			to->len = ev[i].len;
			to->at_ns = ripc__sim_now(sim_pair_test->net);
			to->token = ev[i].token;
			to->imm = ev[i].imm;
			if (ev[i].kind != RIPC__EV_WRITTEN)
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
static inline void pair_run(struct sim_pair_test *sim_pair_test, uint64_t duration_ns)
{
	uint64_t until = ripc__sim_now(sim_pair_test->net) + duration_ns;
	bool more;

	do {
		for (int i = 0; i < 2; i++)
			if (sim_pair_test->side[i].t)
				pair_progress(sim_pair_test, &sim_pair_test->side[i]);
		more = ripc__sim_step(sim_pair_test->net, until);
		for (int i = 0; i < 2; i++)
			if (sim_pair_test->side[i].t)
				pair_progress(sim_pair_test, &sim_pair_test->side[i]);
	} while (more || ripc__sim_now(sim_pair_test->net) < until);
}

/* Side 0 connects to side 1. */
static inline void pair_connect(struct sim_pair_test *sim_pair_test)
{
	ck_assert_int_eq(OPS->connect(sim_pair_test->side[0].t, sim_pair_test->side[1].addr,
				      sim_pair_test->side[1].addrlen, "hello", 5,
				      &sim_pair_test->side[0], &sim_pair_test->side[0].ep),
			 0);
}

static inline struct sim_pair_test *pair_connected(uint64_t seed, const struct ripc__sim_config *cf)
{
	struct sim_pair_test *sim_pair_test = pair_open(seed, cf);

	pair_connect(sim_pair_test);
	pair_run(sim_pair_test, 100 * RIPC__MS);
	ck_assert_ptr_nonnull(sim_pair_test->side[1].ep);
	sim_pair_test->side[0].nevents = sim_pair_test->side[1].nevents = 0;
	return sim_pair_test;
}

static inline unsigned pair_count(const struct pair_side *side, enum ripc__ev_kind kind)
{
	unsigned n = 0;

	for (unsigned i = 0; i < side->nevents; i++)
		n += side->events[i].kind == kind;
	return n;
}

/* The first event of a kind. */
static inline struct pair_event *pair_find(struct pair_side *side, enum ripc__ev_kind kind)
{
	for (unsigned i = 0; i < side->nevents; i++)
		if (side->events[i].kind == kind)
			return &side->events[i];
	ck_abort_msg("no event of kind %d among %u", kind, side->nevents);
	return NULL;
}

static inline int pair_send(struct pair_side *side, const void *data, size_t len, bool more)
{
	struct iovec iov = {(void *)(uintptr_t)data, len};

	return OPS->post(side->ep, NULL, 0, &iov, 1, more);
}

/*
 * Closes everything and checks that nothing is left and, unless they were wanted, that nobody broke
 * the contract.
 */
static inline void pair_close(struct sim_pair_test *sim_pair_test, uint64_t violations)
{
	struct ripc__sim_counters counters;
	const char *text;

	for (int i = 0; i < 2; i++)
		if (sim_pair_test->side[i].t)
			OPS->close(sim_pair_test->side[i].t);
	while (ripc__sim_step(sim_pair_test->net, RIPC__NEVER))
		;
	ripc__sim_counters(sim_pair_test->net, &counters);
	ck_assert_uint_eq(counters.endpoints, 0);
	ck_assert_uint_eq(counters.packets, 0);
	ck_assert_uint_eq(counters.regions, 0);
	ck_assert_msg(ripc__sim_violations(sim_pair_test->net, &text) == violations,
		      "%llu violations, first: %s",
		      (unsigned long long)ripc__sim_violations(sim_pair_test->net, NULL), text);
	ripc__sim_destroy(sim_pair_test->net);
	free(sim_pair_test);
}

#endif
