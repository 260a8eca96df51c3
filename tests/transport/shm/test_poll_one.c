/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* shm: poll_one(), for the endpoint that received last and those beside it. */
#define _GNU_SOURCE
#include "shm_pair.h"

#include "core/memory/message.h"
#include "transport/transfer.h"

#include <poll.h>

enum { PEERS = 3 };

static struct two w;
static struct ripc__ep *from[PEERS], *to[PEERS];

/* A message that progress() reports: from now on endpoint i received last. */
static void posts_and_brings(unsigned i)
{
	struct iovec item = {"hello", 5};
	struct ripc__event ev;

	ck_assert_int_eq(OPS->post(from[i], NULL, 0, &item, 1, false), 0);
	ev = await(w.b, RIPC__EV_RECV);
	ck_assert_ptr_eq(ev.ep, to[i]);
	OPS->release(tr_of(w.b), ev.token);
}

/* Connects PEERS endpoints to w.b; the last of them received last. */
static void join_all(void)
{
	join(&w);
	for (unsigned i = 0; i < PEERS; i++) {
		if (i)
			connect_two(&w);
		from[i] = w.ea;
		to[i] = w.eb;
	}
	posts_and_brings(PEERS - 1);
}

/* poll_one() reports a message of one byte from peer i. */
static void poll_one_brings(unsigned i, uint8_t what)
{
	uint8_t room[RIPC__MESSAGE_BUF_LEN] __attribute__((aligned(16)));
	struct ripc__event ev = {.kind = RIPC__EV_NONE};

	ck_assert(OPS->poll_one(tr_of(w.b), room, sizeof(room), &ev));
	ck_assert_int_eq(ev.kind, RIPC__EV_RECV);
	ck_assert_ptr_eq(ev.ep, to[i]);
	ck_assert_uint_eq(ev.len, RIPC__POST_HEADER_LEN + 1);
	ck_assert_uint_eq(((const uint8_t *)ev.data)[RIPC__POST_HEADER_LEN], what);
	if (ev.token)
		OPS->release(tr_of(w.b), ev.token);
}

static void poll_one_empty(void)
{
	uint8_t room[RIPC__MESSAGE_BUF_LEN] __attribute__((aligned(16)));
	struct ripc__event ev;

	ck_assert(!OPS->poll_one(tr_of(w.b), room, sizeof(room), &ev));
}

static void post(unsigned i, uint8_t what)
{
	uint8_t head[RIPC__POST_HEADER_LEN] = {0};
	struct iovec item = {&what, 1};

	ck_assert_int_eq(OPS->post(from[i], head, sizeof(head), &item, 1, false), 0);
}

/*
 * A read of the peer that poll_one() finds in front of a message: it is served by the next pass,
 * so the owner of the memory must not sleep before.
 */
START_TEST(poll_one__read_before_message)
{
	uint8_t bytes[100] = "content", got[100] = {0};
	struct ripc__mr remote, local;
	struct ripc__event ev;

	join_all();
	/* Not directly, as for a process whose memory the peer may not read. */
	from[2]->ring.be.ops = &ripc__shm_unreadable_ops;
	ck_assert_int_eq(OPS->reg(tr_of(w.b), to[2], bytes, sizeof(bytes), RIPC__ACCESS_REMOTE_READ,
				  &remote),
			 0);
	ck_assert_int_eq(
		OPS->reg(tr_of(w.a), NULL, got, sizeof(got), RIPC__ACCESS_LOCAL_WRITE, &local), 0);
	ck_assert_int_eq(test_read(OPS, from[2], &local, got, 100, remote.addr, remote.key, 1), 0);
	post(2, 7);
	poll_one_brings(2, 7);
	ck_assert_int_eq(OPS->arm(tr_of(w.b)), 1);
	progress(w.b);
	ev = await(w.a, RIPC__EV_READ_DONE);
	ck_assert_int_eq(ev.status, 0);
	ck_assert_mem_eq(got, bytes, sizeof(got));
	OPS->dereg(tr_of(w.b), &remote);
	OPS->dereg(tr_of(w.a), &local);
	part(&w);
}
END_TEST

/* Each peer's messages keep their order. */
START_TEST(poll_one__alternating_peers)
{
	join_all();
	poll_one_empty();
	for (unsigned k = 0; k < 100; k++) {
		unsigned i = k * 7 / 4 % PEERS;

		post(i, (uint8_t)k);
		poll_one_brings(i, (uint8_t)k);
		poll_one_empty();
	}
	/* The endpoint that received last is polled first. */
	post(0, 1);
	poll_one_brings(0, 1);
	post(1, 2);
	post(0, 3);
	post(0, 4);
	poll_one_brings(0, 3);
	poll_one_brings(0, 4);
	poll_one_brings(1, 2);
	poll_one_empty();
	part(&w);
}
END_TEST

static bool is_awake(void)
{
	struct pollfd p = {.fd = test_fd(OPS, tr_of(w.b)), .events = POLLIN};

	return poll(&p, 1, 0) == 1;
}

/*
 * A message that wakes the context: poll_one() brings it, and the next pass reads the kick. An
 * endpoint that has become idle is left to the passes.
 */
START_TEST(poll_one__after_sleep)
{
	join_all();
	for (unsigned i = 0; i < 2; i++) {
		while (OPS->arm(tr_of(w.b)))
			progress(w.b);
		ck_assert(!is_awake());
		post(2, 1);
		ck_assert(is_awake());
		poll_one_brings(2, 1);
		ck_assert_int_eq(progress(w.b).kind, RIPC__EV_NONE);
		ck_assert(!is_awake());
	}
	for (unsigned i = 0; i < 100 && !to[2]->idle; i++) {
		progress(w.b);
		OPS->arm(tr_of(w.b));
	}
	ck_assert(to[2]->idle);
	post(2, 1);
	poll_one_empty();
	OPS->release(tr_of(w.b), await(w.b, RIPC__EV_RECV).token);
	part(&w);
}
END_TEST

static unsigned messages_of_pass(void)
{
	struct ripc__event ev[8];
	uint64_t deadline = RIPC__NEVER;
	unsigned n = OPS->progress(tr_of(w.b), ev, 8, 1, &deadline);

	for (unsigned i = 0; i < n; i++) {
		ck_assert_int_eq(ev[i].kind, RIPC__EV_RECV);
		OPS->release(tr_of(w.b), ev[i].token);
	}
	/* A pass that leaves messages where they are asks for the next one. */
	ck_assert(n || deadline <= 1);
	return n;
}

/* A pass leaves messages to a receiver that takes them by poll_one(), but not twice in a row. */
START_TEST(poll_one__pass_between_polls)
{
	struct iovec item = {"echo", 4};

	join_all();
	for (uint8_t k = 0; k < 9; k++)
		post(2, k);
	poll_one_brings(2, 0);
	ck_assert_uint_eq(messages_of_pass(), 0);
	poll_one_brings(2, 1);
	ck_assert_uint_eq(messages_of_pass(), 0);
	ck_assert_int_eq(OPS->arm(tr_of(w.b)), 1);
	ck_assert_uint_eq(messages_of_pass(), 7);
	/* The same for a receiver that sends, too. */
	for (uint8_t k = 0; k < 9; k++)
		post(2, k);
	poll_one_brings(2, 0);
	ck_assert_int_eq(OPS->post(to[2], NULL, 0, &item, 1, false), 0);
	ck_assert_uint_eq(messages_of_pass(), 0);
	ck_assert_uint_eq(messages_of_pass(), 8);
	part(&w);
}
END_TEST

/* An endpoint whose end was reported is skipped, before and after it is closed. */
START_TEST(poll_one__closed_neighbour)
{
	struct ripc__event ev;

	join_all();
	OPS->ep_close(from[1]);
	ev = await(w.b, RIPC__EV_CLOSED);
	ck_assert_ptr_eq(ev.ep, to[1]);
	posts_and_brings(0);
	for (uint8_t k = 0; k < 10; k++) {
		post(k % 2 ? 0 : 2, k);
		poll_one_brings(k % 2 ? 0 : 2, k);
	}
	OPS->ep_close(to[1]);
	for (uint8_t k = 0; k < 10; k++) {
		post(k % 2 ? 0 : 2, k);
		poll_one_brings(k % 2 ? 0 : 2, k);
	}
	part(&w);
}
END_TEST

/* The end of the endpoint that received last: poll_one() finds nothing until progress() does. */
START_TEST(poll_one__last_peer_closed)
{
	struct ripc__event ev;

	join_all();
	OPS->ep_close(from[PEERS - 1]);
	ev = await(w.b, RIPC__EV_CLOSED);
	ck_assert_ptr_eq(ev.ep, to[PEERS - 1]);
	OPS->ep_close(to[PEERS - 1]);
	poll_one_empty();
	posts_and_brings(0);
	post(1, 2);
	poll_one_brings(1, 2);
	part(&w);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("transport/shm/poll_one");
	TCase *c = tcase_create("take");

	tcase_set_timeout(c, 120);
	tcase_add_test(c, poll_one__read_before_message);
	tcase_add_test(c, poll_one__alternating_peers);
	tcase_add_test(c, poll_one__after_sleep);
	tcase_add_test(c, poll_one__pass_between_polls);
	tcase_add_test(c, poll_one__closed_neighbour);
	tcase_add_test(c, poll_one__last_peer_closed);
	suite_add_tcase(s, c);
	return test_main("transport/shm/poll_one", s);
}
