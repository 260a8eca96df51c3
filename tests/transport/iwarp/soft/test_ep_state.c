/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The states of an endpoint of iwarp/soft: every transition, and the loss. */
#include "transport/iwarp/soft/soft.h"
#include "transitions.h"

#include <errno.h>

#define TO(state) (1u << SOFT_##state)

static struct ripc__transport t;
static struct ripc__ep ep;

static void in_state(unsigned state)
{
	memset(&t, 0, sizeof(t));
	memset(&ep, 0, sizeof(ep));
	ripc__list_init(&t.ready);
	ripc__list_init(&ep.timed);
	ripc__list_init(&ep.ready);
	ripc__list_init(&ep.held);
	ripc__list_init(&ep.blocked);
	ep.t = &t;
	ep.fd = -1;
	ep.state = (enum soft_ep_state)state;
	t.nhalf_open = state == SOFT_MPA_REQ_WAIT;
}

static unsigned set(unsigned from, unsigned to)
{
	in_state(from);
	ripc__soft_ep_set_state(&ep, (enum soft_ep_state)to);
	ck_assert_uint_eq(t.nhalf_open, 0);
	return ep.state;
}

static unsigned lost(unsigned from, unsigned arg)
{
	(void)arg;
	in_state(from);
	ripc__soft_ep_break(&ep, -ECONNRESET, "lost");
	return ep.state;
}

START_TEST(set_state__transitions)
{
	static const unsigned allowed[SOFT_EP_STATES] = {
		[SOFT_CONNECTING] = TO(CONNECTING) | TO(MPA_REQ_SENT) | TO(BROKEN) | TO(FREED),
		[SOFT_MPA_REQ_SENT] = TO(CONNECTING) | TO(ESTABLISHED) | TO(BROKEN) | TO(FREED),
		[SOFT_MPA_REQ_WAIT] = TO(REQUESTED) | TO(FREED),
		[SOFT_REQUESTED] = TO(ESTABLISHED) | TO(FREED),
		[SOFT_ESTABLISHED] = TO(OPEN) | TO(BROKEN) | TO(FREED),
		[SOFT_OPEN] = TO(BROKEN) | TO(FREED),
		[SOFT_BROKEN] = TO(CLOSED) | TO(FREED),
		[SOFT_CLOSED] = TO(FREED),
	};

	check_transitions(set, allowed);
}
END_TEST

/* An endpoint that the core does not know, or has not accepted, is freed at once instead. */
START_TEST(break__states)
{
	static const int after[SOFT_EP_STATES] = {
		[SOFT_CONNECTING] = SOFT_BROKEN,  [SOFT_MPA_REQ_SENT] = SOFT_BROKEN,
		[SOFT_MPA_REQ_WAIT] = REFUSED,    [SOFT_REQUESTED] = REFUSED,
		[SOFT_ESTABLISHED] = SOFT_BROKEN, [SOFT_OPEN] = SOFT_BROKEN,
		[SOFT_BROKEN] = SOFT_BROKEN,      [SOFT_CLOSED] = SOFT_CLOSED,
		[SOFT_FREED] = SOFT_FREED,
	};

	check_event(lost, 0, SOFT_EP_STATES, after);
}
END_TEST

START_TEST(break__first_call_counts)
{
	in_state(SOFT_OPEN);
	ripc__soft_ep_break(&ep, -ECONNRESET, "first");
	ripc__soft_ep_break(&ep, -EIO, "second");
	ck_assert_int_eq(ep.error, -ECONNRESET);
	ck_assert_str_eq(ep.why, "first");
	ck_assert(!ripc__list_empty(&t.ready));
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("transport/iwarp/soft/ep_state");
	TCase *tc = tcase_create("ep_state");

	tcase_add_test(tc, set_state__transitions);
	tcase_add_test(tc, break__states);
	tcase_add_test(tc, break__first_call_counts);
	suite_add_tcase(suite, tc);
	return test_main("transport/iwarp/soft/ep_state", suite);
}
