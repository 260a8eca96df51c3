/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* shm: idle endpoints, which are not polled until their peers kick. */
#define _GNU_SOURCE
#include "shm_pair.h"
#include "transport/transfer.h"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

/* Waits until the endpoint of b is idle. */
static void make_idle(struct two *w)
{
	for (int i = 0; i < 100 && !w->eb->idle; i++) {
		ck_assert_int_eq(progress(w->b).kind, RIPC__EV_NONE);
		OPS->arm(tr_of(w->b));
	}
	ck_assert(w->eb->idle);
}

/* The peer kicks, and its message arrives. */
START_TEST(idle__kicks_on_send)
{
	struct iovec item = {"hello", 5};
	struct two w;

	join(&w);
	for (int i = 0; i < 3; i++) {
		struct ripc__event ev;
		struct pollfd p;

		make_idle(&w);
		/* Asleep: nothing is readable before the peer kicks. */
		p = (struct pollfd){.fd = test_fd(OPS, tr_of(w.b)), .events = POLLIN};
		ck_assert_int_eq(poll(&p, 1, 0), 0);
		ck_assert_int_eq(OPS->post(w.ea, NULL, 0, &item, 1, false), 0);
		ck_assert_int_eq(poll(&p, 1, 10000), 1);
		ev = await(w.b, RIPC__EV_RECV);
		ck_assert_uint_eq(ev.len, 5);
		ck_assert_ptr_eq(ev.ep, w.eb);
		OPS->release(tr_of(w.b), ev.token);
		ck_assert(!w.eb->idle);
	}
	part(&w);
}
END_TEST

/*
 * A pass that does not poll the sockets finds the message, too; the kick that comes later does no
 * harm.
 */
START_TEST(idle__found_by_poll)
{
	struct iovec item = {"hello", 5};
	uint64_t deadline = UINT64_MAX;
	struct ripc__event ev = {.kind = RIPC__EV_NONE};
	struct two w;

	join(&w);
	make_idle(&w);
	/* Polls the sockets, as it has slept. */
	OPS->progress(tr_of(w.b), &ev, 1, UINT64_C(1) << 40, &deadline);
	ck_assert(w.eb->idle);
	ck_assert_int_eq(OPS->post(w.ea, NULL, 0, &item, 1, false), 0);
	for (int i = 0; i < 10 && ev.kind == RIPC__EV_NONE; i++)
		OPS->progress(tr_of(w.b), &ev, 1, UINT64_C(1) << 40, &deadline);
	ck_assert_int_eq(ev.kind, RIPC__EV_RECV);
	OPS->release(tr_of(w.b), ev.token);
	ck_assert(!w.eb->idle);
	for (int i = 0; i < 10; i++)
		ck_assert_int_eq(progress(w.b).kind, RIPC__EV_NONE);
	part(&w);
}
END_TEST

/* A transport that never sleeps makes endpoints idle later. */
START_TEST(idle__without_sleep)
{
	struct iovec item = {"hello", 5};
	struct ripc__event ev;
	struct two w;

	join(&w);
	for (int i = 0; i < 100000 && !w.eb->idle; i++)
		ck_assert_int_eq(progress(w.b).kind, RIPC__EV_NONE);
	ck_assert(w.eb->idle);
	ck_assert_int_eq(OPS->post(w.ea, NULL, 0, &item, 1, false), 0);
	ev = await(w.b, RIPC__EV_RECV);
	OPS->release(tr_of(w.b), ev.token);
	ck_assert(!w.eb->idle);
	part(&w);
}
END_TEST

/* A post makes an endpoint active, and its end is noticed. */
START_TEST(idle__posts_and_closes)
{
	struct iovec item = {"hello", 5};
	uint8_t head[RIPC__POST_HEADER_LEN] = {0};
	struct ripc__event ev;
	struct two w;

	join(&w);
	make_idle(&w);
	ck_assert_int_eq(OPS->post(w.eb, NULL, 0, &item, 1, true), 2);
	ck_assert(!w.eb->idle);
	/* Posts that were held back are sent before the next sleep. */
	make_idle(&w);
	ck_assert(!w.eb->ring.work);
	ck_assert_int_eq(OPS->post(w.eb, head, sizeof(head), &(struct iovec){"x", 1}, 1, false), 0);
	ck_assert(!w.eb->idle);
	make_idle(&w);
	OPS->ep_close(w.ea);
	ev = await(w.b, RIPC__EV_CLOSED);
	ck_assert_ptr_eq(ev.ep, w.eb);
	OPS->ep_close(w.eb);
	part(&w);
}
END_TEST

/* An idle endpoint can be closed. */
START_TEST(idle__closed)
{
	struct two w;

	join(&w);
	make_idle(&w);
	OPS->ep_close(w.eb);
	ck_assert(ripc__list_empty(&w.b->r.idle));
	await(w.a, RIPC__EV_CLOSED);
	part(&w);
	join(&w);
	make_idle(&w);
	part(&w);
}
END_TEST

/*
 * A forked child reads the list of idle endpoints, at any moment, to close their descriptors:
 * polling them does not change it.
 */
START_TEST(idle__list_unchanged_by_poll)
{
	enum { PEERS = 3 };
	struct iovec item = {"hello", 5};
	struct ripc__ep *from[PEERS] = {NULL};
	struct ripc__list *order[PEERS], *ep;
	uint64_t deadline = UINT64_MAX;
	struct ripc__event ev;
	unsigned n, found = 0;
	struct two w;

	join(&w);
	from[0] = w.ea;
	make_idle(&w);
	for (n = 1; n < PEERS; n++) {
		connect_two(&w);
		from[n] = w.ea;
		make_idle(&w);
	}
	for (n = 0, ep = w.b->r.idle.next; ep != &w.b->r.idle && n < PEERS; ep = ep->next)
		order[n++] = ep;
	ck_assert_uint_eq(n, PEERS);
	ck_assert_ptr_eq(ep, &w.b->r.idle);
	for (unsigned round = 0; round < 2 * PEERS + 1; round++) {
		ck_assert_uint_eq(OPS->progress(tr_of(w.b), &ev, 1, 1, &deadline), 0);
		for (n = 0, ep = w.b->r.idle.next; n < PEERS; n++, ep = ep->next)
			ck_assert_ptr_eq(ep, order[n]);
		ck_assert_ptr_eq(ep, &w.b->r.idle);
	}
	/* All of them have their turn. */
	for (n = 0; n < PEERS; n++)
		ck_assert_int_eq(OPS->post(from[n], NULL, 0, &item, 1, false), 0);
	for (n = 0; n < 100 && found < PEERS; n++) {
		if (!OPS->progress(tr_of(w.b), &ev, 1, w.b->scanned_ns, &deadline))
			continue;
		ck_assert_int_eq(ev.kind, RIPC__EV_RECV);
		OPS->release(tr_of(w.b), ev.token);
		found++;
	}
	ck_assert_uint_eq(found, PEERS);
	part(&w);
}
END_TEST

/* A child closes all descriptors, of active and idle endpoints. */
START_TEST(idle__forked)
{
	struct two w;
	int status;
	pid_t pid;

	join(&w);
	make_idle(&w);
	connect_two(&w);
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (!pid) {
		unsigned before = test_descriptors();

		/* Two connections, up to two listeners, and the epoll descriptor. */
		OPS->forked(tr_of(w.b));
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
	Suite *s = suite_create("transport/shm/idle");
	TCase *c = tcase_create("cold");

	tcase_set_timeout(c, 120);
	tcase_add_test(c, idle__kicks_on_send);
	tcase_add_test(c, idle__found_by_poll);
	tcase_add_test(c, idle__without_sleep);
	tcase_add_test(c, idle__posts_and_closes);
	tcase_add_test(c, idle__closed);
	tcase_add_test(c, idle__list_unchanged_by_poll);
	tcase_add_test(c, idle__forked);
	suite_add_tcase(s, c);
	return test_main("transport/shm/idle", s);
}
