/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The applications of test_chaos.c: they call, answer and send, and check each byte that they get.
 * A failed check ends the test.
 */
#ifndef RIPC_TESTS_CORE_CALL_CHAOS_H
#define RIPC_TESTS_CORE_CALL_CHAOS_H

#include "core/rig.h"
#include "scale/call_history.h"

#define HOSTS    3
#define SERVICES 2 /* ids 1 .. SERVICES, held by any host */

struct host {
	struct ripc_service *services[SERVICES]; /* NULL: it does not hold this one */
	uint64_t lives[SERVICES];
	uint64_t resume_ns; /* it is suspended until then; 0: it runs */
};

extern struct rig rig; /* context i and its service: host i, as a caller */
extern struct host hosts[HOSTS];
extern struct history history;
extern uint64_t rng, numbers; /* numbers: of messages so far */
extern unsigned results[5];   /* answered, refused, not executed, unknown, other messages */

static inline uint64_t draw(uint64_t below)
{
	return test_random(&rng) % below;
}

static inline bool one_in(uint64_t n)
{
	return !draw(n);
}

/* Whether it has a context, and is not suspended. */
static inline bool runs(unsigned i)
{
	return rig.ctx[i] && !hosts[i].resume_ns;
}

void start_call(void);
/* Looks for results; cancel: gives some calls up. */
void check_calls(bool cancel);
bool calls_left(void);
void receive_some(void);
void answer_some(void);
void send_message(void);
void check_sends(void);
/* The buffers that calls of a host gave back are as it left them. all: else some of them. */
void check_kept(unsigned host, bool all);
/* It is suspended: its calls may end late. */
void host_paused(unsigned host);
/* Its context is gone, and what it had under way. */
void host_ended(unsigned host);

#endif
