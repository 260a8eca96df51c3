/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The states of connections and endpoints of iwarp/verbs: every transition, and the loss. */
#include "transport/iwarp/verbs/verbs.h"
#include "transitions.h"

#include <errno.h>

#define CONN(state) (1u << IWV_##state)
#define EP(state)   (1u << IWV_EP_##state)

static struct ripc__transport t;
static struct ripc__ep ep;

static void in_state(unsigned state)
{
	memset(&t, 0, sizeof(t));
	memset(&ep, 0, sizeof(ep));
	ep.t = &t;
	ep.state = (enum iwv_ep_state)state;
	t.nbroken = state == IWV_EP_BROKEN;
}

static unsigned set_conn(unsigned from, unsigned to)
{
	struct iwv_conn conn = {.state = (enum iwv_conn_state)from};

	ripc__iwv_conn_set_state(&conn, (enum iwv_conn_state)to);
	return conn.state;
}

static unsigned set_ep(unsigned from, unsigned to)
{
	in_state(from);
	ripc__iwv_ep_set_state(&ep, (enum iwv_ep_state)to);
	ck_assert_uint_eq(t.nbroken, to == IWV_EP_BROKEN);
	return ep.state;
}

static unsigned lost(unsigned from, unsigned arg)
{
	(void)arg;
	in_state(from);
	ripc__iwv_ep_break(&ep, -ECONNRESET, "lost");
	return ep.state;
}

START_TEST(conn_set_state__transitions)
{
	static const unsigned allowed[IWV_CONN_STATES] = {
		[IWV_RESOLVING] = CONN(CONNECTING) | CONN(DROPPED) | CONN(DESTROYED),
		[IWV_CONNECTING] = CONN(REQUEST_SENT) | CONN(UP) | CONN(DROPPED) | CONN(DESTROYED),
		[IWV_REQUEST_SENT] = CONN(UP) | CONN(DROPPED) | CONN(DESTROYED),
		[IWV_REQUESTED] = CONN(ACCEPTED) | CONN(DROPPED) | CONN(DESTROYED),
		[IWV_ACCEPTED] = CONN(UP) | CONN(DROPPED) | CONN(DESTROYED),
		[IWV_UP] = CONN(LINGERING) | CONN(DROPPED) | CONN(DESTROYED),
		[IWV_LINGERING] = CONN(DESTROYED),
		[IWV_DROPPED] = CONN(DESTROYED),
	};

	check_transitions(set_conn, allowed);
}
END_TEST

START_TEST(ep_set_state__transitions)
{
	static const unsigned allowed[IWV_EP_STATES] = {
		[IWV_EP_CONNECTING] = EP(UP) | EP(BROKEN) | EP(FREED),
		[IWV_EP_REQUESTED] = EP(ACCEPTED) | EP(WITHDRAWN) | EP(FREED),
		[IWV_EP_ACCEPTED] = EP(UP) | EP(BROKEN) | EP(FREED),
		[IWV_EP_UP] = EP(BROKEN) | EP(FREED),
		[IWV_EP_WITHDRAWN] = EP(FREED),
		[IWV_EP_BROKEN] = EP(CLOSED) | EP(FREED),
		[IWV_EP_CLOSED] = EP(FREED),
	};

	check_transitions(set_ep, allowed);
}
END_TEST

START_TEST(break__states)
{
	static const int after[IWV_EP_STATES] = {
		[IWV_EP_CONNECTING] = IWV_EP_BROKEN,   [IWV_EP_REQUESTED] = IWV_EP_WITHDRAWN,
		[IWV_EP_ACCEPTED] = IWV_EP_BROKEN,     [IWV_EP_UP] = IWV_EP_BROKEN,
		[IWV_EP_WITHDRAWN] = IWV_EP_WITHDRAWN, [IWV_EP_BROKEN] = IWV_EP_BROKEN,
		[IWV_EP_CLOSED] = IWV_EP_CLOSED,       [IWV_EP_FREED] = IWV_EP_FREED,
	};

	check_event(lost, 0, IWV_EP_STATES, after);
}
END_TEST

START_TEST(break__first_call_counts)
{
	in_state(IWV_EP_UP);
	iwv_set_deadline(&t, &ep.deadline_ns, 7);
	ripc__iwv_ep_break(&ep, -ECONNRESET, "first");
	ripc__iwv_ep_break(&ep, -EIO, "second");
	ck_assert_int_eq(ep.error, -ECONNRESET);
	ck_assert_str_eq(ep.why, "first");
	ck_assert_uint_eq(t.nbroken, 1);
	ck_assert_uint_eq(ep.deadline_ns, 0);
	ripc__iwv_ep_set_state(&ep, IWV_EP_CLOSED);
	ck_assert_uint_eq(t.nbroken, 0);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("transport/iwarp/verbs/state");
	TCase *tc = tcase_create("state");

	tcase_add_test(tc, conn_set_state__transitions);
	tcase_add_test(tc, ep_set_state__transitions);
	tcase_add_test(tc, break__states);
	tcase_add_test(tc, break__first_call_counts);
	suite_add_tcase(suite, tc);
	return test_main("transport/iwarp/verbs/state", suite);
}
