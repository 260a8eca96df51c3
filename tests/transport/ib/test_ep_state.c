/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The states of an endpoint of ib: every transition, the loss, the close. */
#include "transport/ib/ib.h"
#include "transitions.h"

#include <errno.h>

#define TO(state) (1u << IB_EP_##state)

static struct ripc__transport t;
static struct ripc__ep ep;

static void in_state(unsigned state)
{
	memset(&t, 0, sizeof(t));
	memset(&ep, 0, sizeof(ep));
	ripc__list_init(&t.event_eps);
	ripc__list_init(&t.dying);
	ripc__list_init(&ep.events);
	ripc__list_init(&ep.dying);
	ep.t = &t;
	ep.state = (enum ib_ep_state)state;
	t.nhalf_open = state == IB_EP_REQUESTED || state == IB_EP_PENDING;
}

static unsigned set(unsigned from, unsigned to)
{
	in_state(from);
	ripc__ib_ep_set_state(&ep, (enum ib_ep_state)to);
	return ep.state;
}

static unsigned lost(unsigned from, unsigned arg)
{
	(void)arg;
	in_state(from);
	ripc__ib_ep_break(&ep, -ECONNRESET, "lost");
	return ep.state;
}

static unsigned leave(unsigned from, unsigned to)
{
	in_state(from);
	ripc__ib_ep_leave(&ep, (enum ib_ep_state)to);
	return ep.state;
}

START_TEST(set_state__transitions)
{
	static const unsigned allowed[IB_EP_STATES] = {
		[IB_EP_CONNECTING] = TO(ESTABLISHED) | TO(BROKEN) | TO(CLOSING),
		[IB_EP_REQUESTED] = TO(PENDING) | TO(CLOSING),
		[IB_EP_PENDING] = TO(CONNECTING) | TO(CLOSING),
		[IB_EP_ESTABLISHED] = TO(OPEN) | TO(BROKEN) | TO(LINGERING) | TO(CLOSING),
		[IB_EP_OPEN] = TO(BROKEN) | TO(LINGERING) | TO(CLOSING),
		[IB_EP_BROKEN] = TO(DRAINED) | TO(CLOSING),
		[IB_EP_DRAINED] = TO(REPORTED) | TO(CLOSING),
		[IB_EP_REPORTED] = TO(CLOSING),
		[IB_EP_LINGERING] = TO(CLOSING),
	};

	check_transitions(set, allowed);
}
END_TEST

START_TEST(break__states)
{
	static const int after[IB_EP_STATES] = {
		[IB_EP_CONNECTING] = IB_EP_BROKEN,
		[IB_EP_REQUESTED] = IB_EP_CLOSING,
		/* Accepting it fails. */
		[IB_EP_PENDING] = IB_EP_PENDING,
		[IB_EP_OPEN] = IB_EP_BROKEN,
		/* Once it is reported: below. */
		[IB_EP_ESTABLISHED] = IB_EP_ESTABLISHED,
		[IB_EP_BROKEN] = IB_EP_BROKEN,
		[IB_EP_DRAINED] = IB_EP_DRAINED,
		[IB_EP_REPORTED] = IB_EP_REPORTED,
		[IB_EP_LINGERING] = IB_EP_CLOSING,
		[IB_EP_CLOSING] = IB_EP_CLOSING,
	};

	check_event(lost, 0, IB_EP_STATES, after);
}
END_TEST

/* A loss is reported with its first cause, if the core knows the endpoint. */
START_TEST(break__first_call_counts)
{
	in_state(IB_EP_OPEN);
	ep.sendable = IB_SENDABLE_WANTED;
	ripc__ib_ep_break(&ep, -ECONNRESET, "first");
	ripc__ib_ep_break(&ep, -EIO, "second");
	ck_assert_int_eq(ep.status, -ECONNRESET);
	ck_assert_str_eq(ep.why, "first");
	ck_assert_uint_eq(ep.sendable, IB_SENDABLE_NONE);
	ck_assert(!ripc__list_empty(&t.event_eps));
	in_state(IB_EP_PENDING);
	ripc__ib_ep_break(&ep, -ECONNRESET, "first");
	ck_assert(ripc__list_empty(&t.event_eps));
	ck_assert_uint_eq(t.nhalf_open, 1);
}
END_TEST

static unsigned established(unsigned from, unsigned is_lost)
{
	in_state(from);
	ep.status = is_lost ? -ECONNRESET : 0;
	ripc__ib_ep_established(&ep);
	return ep.state;
}

/* Messages that came before a loss are delivered, so it must be reported that the lane was up. */
START_TEST(established__before_the_loss)
{
	in_state(IB_EP_ESTABLISHED);
	ck_assert(ib_ep_can_post(&ep));
	ripc__ib_ep_break(&ep, -ECONNRESET, "lost");
	ck_assert(!ib_ep_can_post(&ep));
	ck_assert(!ripc__list_empty(&t.event_eps));
	ripc__ib_ep_established(&ep);
	ck_assert_uint_eq(ep.state, IB_EP_BROKEN);
	ck_assert(!ripc__list_empty(&t.event_eps));
	in_state(IB_EP_ESTABLISHED);
	ripc__ib_ep_established(&ep);
	ck_assert_uint_eq(ep.state, IB_EP_OPEN);
	if (!has_assertions())
		return;
	for (unsigned from = 0; from < IB_EP_STATES; from++)
		if (from != IB_EP_ESTABLISHED)
			ck_assert_int_eq(state_after(established, from, 0), REFUSED);
}
END_TEST

START_TEST(leave__closing)
{
	static const int closing[IB_EP_STATES] = {
		[IB_EP_CONNECTING] = IB_EP_CLOSING,
		[IB_EP_REQUESTED] = IB_EP_CLOSING,
		[IB_EP_PENDING] = IB_EP_CLOSING,
		[IB_EP_ESTABLISHED] = IB_EP_CLOSING,
		[IB_EP_OPEN] = IB_EP_CLOSING,
		[IB_EP_BROKEN] = IB_EP_CLOSING,
		[IB_EP_DRAINED] = IB_EP_CLOSING,
		[IB_EP_REPORTED] = IB_EP_CLOSING,
		/* It has left before. */
		[IB_EP_LINGERING] = IB_EP_LINGERING,
		[IB_EP_CLOSING] = IB_EP_CLOSING,
	};

	check_event(leave, IB_EP_CLOSING, IB_EP_STATES, closing);
}
END_TEST

/* Only the last sends of an open endpoint are waited for. */
START_TEST(leave__lingering)
{
	static const int lingering[IB_EP_STATES] = {
		[IB_EP_CONNECTING] = REFUSED,
		[IB_EP_REQUESTED] = REFUSED,
		[IB_EP_ESTABLISHED] = IB_EP_LINGERING,
		[IB_EP_PENDING] = REFUSED,
		[IB_EP_OPEN] = IB_EP_LINGERING,
		[IB_EP_BROKEN] = REFUSED,
		[IB_EP_DRAINED] = REFUSED,
		[IB_EP_REPORTED] = REFUSED,
		[IB_EP_LINGERING] = IB_EP_LINGERING,
		[IB_EP_CLOSING] = IB_EP_CLOSING,
	};

	check_event(leave, IB_EP_LINGERING, IB_EP_STATES, lingering);
}
END_TEST

START_TEST(leave__half_open)
{
	for (unsigned from = 0; from < IB_EP_LINGERING; from++) {
		leave(from, IB_EP_CLOSING);
		ck_assert_uint_eq(t.nhalf_open, 0);
		ck_assert(!ripc__list_empty(&t.dying));
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("transport/ib/ep_state");
	TCase *tc = tcase_create("ep_state");

	tcase_add_test(tc, set_state__transitions);
	tcase_add_test(tc, break__states);
	tcase_add_test(tc, break__first_call_counts);
	tcase_add_test(tc, established__before_the_loss);
	tcase_add_test(tc, leave__closing);
	tcase_add_test(tc, leave__lingering);
	tcase_add_test(tc, leave__half_open);
	suite_add_tcase(suite, tc);
	return test_main("transport/ib/ep_state", suite);
}
