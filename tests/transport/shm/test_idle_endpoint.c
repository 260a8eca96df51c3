/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* shm: endpoints that nobody looks at until they ring. */
#define _GNU_SOURCE
#include "rig.h"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

/* Until the endpoint of b is not looked at any more. */
static void turn_cold(struct two *w)
{
	for (int i = 0; i < 100 && !w->eb->cold; i++) {
		ck_assert_int_eq(progress(w->b).kind, RIPC__EV_NONE);
		OPS->arm((struct ripc__transport *)w->b);
	}
	ck_assert(w->eb->cold);
}

/* Its peer rings, and it is heard. */
START_TEST(cold__rings)
{
	struct iovec item = {"hello", 5};
	struct two w;

	join(&w);
	for (int i = 0; i < 3; i++) {
		struct ripc__event ev;
		struct pollfd p;

		turn_cold(&w);
		/* Asleep: nothing is readable before the peer rings. */
		p = (struct pollfd){.fd = OPS->fd((struct ripc__transport *)w.b), .events = POLLIN};
		ck_assert_int_eq(poll(&p, 1, 0), 0);
		ck_assert_int_eq(OPS->post_send(w.ea, &item, 1, false), 0);
		ck_assert_int_eq(poll(&p, 1, 10000), 1);
		ev = await(w.b, RIPC__EV_RECV);
		ck_assert_uint_eq(ev.len, 5);
		ck_assert_ptr_eq(ev.ep, w.eb);
		OPS->release((struct ripc__transport *)w.b, ev.token);
		ck_assert(!w.eb->cold);
	}
	part(&w);
}
END_TEST

/* Also by who never looks at the sockets, as it does not sleep; the ring that comes later does no harm. */
START_TEST(cold__is_found)
{
	struct iovec item = {"hello", 5};
	uint64_t deadline = UINT64_MAX;
	struct ripc__event ev = {.kind = RIPC__EV_NONE};
	struct two w;

	join(&w);
	turn_cold(&w);
	/* Looks at the sockets, for it was about to sleep. */
	OPS->progress((struct ripc__transport *)w.b, &ev, 1, UINT64_C(1) << 40, &deadline);
	ck_assert(w.eb->cold);
	ck_assert_int_eq(OPS->post_send(w.ea, &item, 1, false), 0);
	for (int i = 0; i < 10 && ev.kind == RIPC__EV_NONE; i++)
		OPS->progress((struct ripc__transport *)w.b, &ev, 1, UINT64_C(1) << 40, &deadline);
	ck_assert_int_eq(ev.kind, RIPC__EV_RECV);
	OPS->release((struct ripc__transport *)w.b, ev.token);
	ck_assert(!w.eb->cold);
	for (int i = 0; i < 10; i++)
		ck_assert_int_eq(progress(w.b).kind, RIPC__EV_NONE);
	part(&w);
}
END_TEST

/* Where nobody sleeps as well, if it takes longer. */
START_TEST(cold__without_sleep)
{
	struct iovec item = {"hello", 5};
	struct ripc__event ev;
	struct two w;

	join(&w);
	for (int i = 0; i < 100000 && !w.eb->cold; i++)
		ck_assert_int_eq(progress(w.b).kind, RIPC__EV_NONE);
	ck_assert(w.eb->cold);
	ck_assert_int_eq(OPS->post_send(w.ea, &item, 1, false), 0);
	ev = await(w.b, RIPC__EV_RECV);
	OPS->release((struct ripc__transport *)w.b, ev.token);
	ck_assert(!w.eb->cold);
	part(&w);
}
END_TEST

/* What is posted is looked after, and the end is noticed. */
START_TEST(cold__posts_and_ends)
{
	struct iovec item = {"hello", 5};
	uint8_t head[RIPC__HEAD_LEN] = {0};
	struct ripc__event ev;
	struct two w;

	join(&w);
	turn_cold(&w);
	ck_assert_int_eq(OPS->post_send(w.eb, &item, 1, true), 2);
	ck_assert(!w.eb->cold);
	/* What was held back goes out before the next sleep. */
	turn_cold(&w);
	ck_assert(!ripc__win_busy(&w.eb->win));
	ck_assert_int_eq(OPS->post_plain(w.eb, head, "x", 1, false), 0);
	ck_assert(!w.eb->cold);
	turn_cold(&w);
	OPS->ep_close(w.ea);
	ev = await(w.b, RIPC__EV_CLOSED);
	ck_assert_ptr_eq(ev.ep, w.eb);
	OPS->ep_close(w.eb);
	part(&w);
}
END_TEST

/* One that is dropped while it is not looked at is gone. */
START_TEST(cold__closed)
{
	struct two w;

	join(&w);
	turn_cold(&w);
	OPS->ep_close(w.eb);
	ck_assert_ptr_eq(w.b->cold.next, &w.b->cold);
	await(w.a, RIPC__EV_CLOSED);
	part(&w);
	join(&w);
	turn_cold(&w);
	part(&w);
}
END_TEST

/*
 * Whoever is forked reads the ring of those that are not looked at, at any moment, to close what belongs to its parent: looking at one after
 * the other changes nothing in it.
 */
START_TEST(cold__ring_stays_as_it_is)
{
	enum { PEERS = 3 };
	struct iovec item = {"hello", 5};
	struct ripc__ep *order[PEERS], *ep, *from[PEERS] = {NULL};
	uint64_t deadline = UINT64_MAX;
	struct ripc__event ev;
	unsigned n, found = 0;
	struct two w;

	join(&w);
	from[0] = w.ea;
	turn_cold(&w);
	for (n = 1; n < PEERS; n++) {
		connect_two(&w);
		from[n] = w.ea;
		turn_cold(&w);
	}
	for (n = 0, ep = w.b->cold.next; ep != &w.b->cold && n < PEERS; ep = ep->next)
		order[n++] = ep;
	ck_assert_uint_eq(n, PEERS);
	ck_assert_ptr_eq(ep, &w.b->cold);
	for (unsigned round = 0; round < 2 * PEERS + 1; round++) {
		ck_assert_uint_eq(OPS->progress((struct ripc__transport *)w.b, &ev, 1, 1, &deadline),
				  0);
		for (n = 0, ep = w.b->cold.next; n < PEERS; n++, ep = ep->next)
			ck_assert_ptr_eq(ep, order[n]);
		ck_assert_ptr_eq(ep, &w.b->cold);
	}
	/* And all have their turn. */
	for (n = 0; n < PEERS; n++)
		ck_assert_int_eq(OPS->post_send(from[n], &item, 1, false), 0);
	for (n = 0; n < 100 && found < PEERS; n++) {
		if (!OPS->progress((struct ripc__transport *)w.b, &ev, 1, w.b->scanned_ns, &deadline))
			continue;
		ck_assert_int_eq(ev.kind, RIPC__EV_RECV);
		OPS->release((struct ripc__transport *)w.b, ev.token);
		found++;
	}
	ck_assert_uint_eq(found, PEERS);
	part(&w);
}
END_TEST

/* A child has none of them, looked at or not. */
START_TEST(cold__in_a_child)
{
	struct two w;
	int status;
	pid_t pid;

	join(&w);
	turn_cold(&w);
	connect_two(&w);
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (!pid) {
		unsigned before = test_descriptors();

		/* Two connections, up to two listeners, and what it sleeps on. */
		OPS->forked((struct ripc__transport *)w.b);
		_exit(before - test_descriptors() ==
				      3u + (w.b->listeners[0] >= 0) + (w.b->listeners[1] >= 0)
			      ? 0
			      : 1);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	part(&w);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("transport/shm/idle_endpoint");
	TCase *c = tcase_create("cold");

	tcase_set_timeout(c, 120);
	tcase_add_test(c, cold__rings);
	tcase_add_test(c, cold__is_found);
	tcase_add_test(c, cold__without_sleep);
	tcase_add_test(c, cold__posts_and_ends);
	tcase_add_test(c, cold__closed);
	tcase_add_test(c, cold__ring_stays_as_it_is);
	tcase_add_test(c, cold__in_a_child);
	suite_add_tcase(s, c);
	return test_main("transport/shm/idle_endpoint", s);
}
