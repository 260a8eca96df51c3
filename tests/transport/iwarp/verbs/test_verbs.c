/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * iwarp/verbs over a device, with itself and with iwarp/soft: two transports in one thread, in the
 * lab or on a host with an adapter. The interface is named as for conformance_iwarp.
 */
#include "base/log.h"
#include "transport/iwarp/endpoint_pair.h"
#include "transport/iwarp/verbs/verbs.h"
#include "transport/transfer.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define BYTES 300000u

/*
 * Events of the connection manager and completions come in any order. The linker puts this in place
 * of librdmacm: while events are held back, completions come first.
 */
static const struct rdma_event_channel *held;

int __real_rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event);
int __wrap_rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event);
int __wrap_rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
	if (channel == held) {
		errno = EAGAIN;
		return -1;
	}
	return __real_rdma_get_cm_event(channel, event);
}

/* Both sides are iwarp/verbs: internals. */
static void hold(const struct side *s)
{
	held = ((const struct ripc__transport *)s->t)->channel;
}

START_TEST(first_message_from_either_side)
{
	for (int side = 0; side < 2; side++) {
		struct side *from = side ? &b : &a, *to = side ? &a : &b;

		open_pair(_i);
		connect_pair();
		ck_assert_int_ge(send_one(from, 0, 64), 0);
		UNTIL(to->nrecv == 1);
		ck_assert_int_ge(send_one(to, 0,
					  from->limits.send_max < to->limits.send_max
						  ? from->limits.send_max
						  : to->limits.send_max),
				 0);
		UNTIL(from->nrecv == 1);
		close_pair();
	}
}
END_TEST

/* As many sends as the credit allows, then the end: all arrive before it. */
START_TEST(ep_close__what_was_sent_arrives)
{
	for (int side = 0; side < 2; side++) {
		struct side *from = side ? &b : &a, *to = side ? &a : &b;
		unsigned depth, n;

		open_pair(_i);
		depth = to->limits.recv_depth ? to->limits.recv_depth : 32;
		connect_pair();
		for (n = 0; n < depth; n++)
			ck_assert_int_ge(send_one(from, n, n % 3 ? 100 : 8000), 0);
		from->ops->ep_close(from->ep);
		UNTIL(to->nclosed);
		ck_assert_uint_eq(to->nrecv, depth);
		ck_assert(!to->closed_before_data);
		to->ops->ep_close(to->ep);
		close_pair();
	}
}
END_TEST

/* Calls of post_send of the device and their requests; request fail_at is refused, 0: none. */
static int (*real_post_send)(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
static unsigned calls, works, fail_at;

static int count_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct ibv_send_wr *last = NULL, *next = wr;
	int rc;

	calls++;
	for (; next && works + 1 != fail_at; next = next->next) {
		works++;
		last = next;
	}
	if (!next)
		return real_post_send(qp, wr, bad);
	if (last) {
		last->next = NULL;
		rc = real_post_send(qp, wr, bad);
		ck_assert_int_eq(rc, 0);
		last->next = next;
	}
	*bad = next;
	return ENOMEM;
}

/* Shared by all users of the device: restored. */
static void count_posts(bool on)
{
	struct ibv_context_ops *ops = &a.ep->conn->qp->context->ops;

	if (on)
		real_post_send = ops->post_send;
	ops->post_send = on ? count_post_send : real_post_send;
	calls = works = fail_at = 0;
}

static int send_more(uint32_t number, size_t len)
{
	static uint8_t bytes[4096];

	memcpy(bytes, &number, 4);
	return a.ops->post(a.ep, NULL, 0, &(struct iovec){bytes, len}, 1, true);
}

/* Sends held back are posted by one call, in order, by whatever comes first. */
START_TEST(post_send__held_back)
{
	static uint8_t target[100], source[100] = "written before";
	struct ripc__mr local, remote;
	uint32_t n = 0;
	int rc;

	open_pair(0);
	connect_pair();
	count_posts(true);
	/* A send without more. */
	for (; n < 5; n++)
		ck_assert_int_eq(send_more(n, n % 2 ? 40 : 2000), 1);
	ck_assert_uint_eq(calls, 0);
	ck_assert_int_eq(send_one(&a, n++, 40), 0);
	ck_assert_uint_eq(calls, 1);
	ck_assert_uint_eq(works, 6);
	UNTIL(b.nrecv == n);
	/* The limit of held back sends. */
	for (unsigned i = 1; i < RIPC__VERBS_HELD_MAX; i++)
		ck_assert_int_eq(send_more(n++, 40), 1);
	ck_assert_int_eq(send_more(n++, 40), 0);
	ck_assert_uint_eq(calls, 2);
	UNTIL(b.nrecv == n);
	/* arm() and progress(). */
	ck_assert_int_eq(send_more(n++, 40), 1);
	ck_assert_int_eq(send_more(n++, 40), 1);
	(void)a.ops->arm(a.t);
	ck_assert_uint_eq(calls, 3);
	ck_assert_int_eq(send_more(n++, 40), 1);
	step(&a);
	ck_assert_uint_eq(calls, 4);
	UNTIL(b.nrecv == n);
	/* A write, which must not overtake them: posted with them, by the same call. */
	rc = b.ops->reg(b.t, b.ep, target, sizeof(target), RIPC__ACCESS_REMOTE_WRITE, &remote);
	ck_assert_int_eq(rc, 0);
	ck_assert_int_eq(
		a.ops->reg(a.t, NULL, source, sizeof(source), RIPC__ACCESS_LOCAL_WRITE, &local), 0);
	ck_assert_int_eq(send_more(n++, 40), 1);
	rc = test_write(a.ops, a.ep, &local, source, 100, remote.addr, remote.key, 1);
	ck_assert_int_eq(rc, 0);
	ck_assert_uint_eq(calls, 4);
	works = 0;
	(void)a.ops->arm(a.t);
	ck_assert_uint_eq(calls, 5);
	ck_assert_uint_eq(works, 2);
	UNTIL(b.nrecv == n && a.nwrite == 1);
	ck_assert_mem_eq(target, source, 100);
	a.ops->dereg(a.t, &local);
	b.ops->dereg(b.t, &remote);
	/* ep_close(). */
	ck_assert_int_eq(send_more(n++, 40), 1);
	count_posts(false);
	a.ops->ep_close(a.ep);
	UNTIL(b.nclosed);
	ck_assert_uint_eq(b.nrecv, n);
	ck_assert(!b.closed_before_data);
	b.ops->ep_close(b.ep);
	close_pair();
}
END_TEST

/* The device refuses part of a chain: the rest arrives, and the connection ends. */
START_TEST(post_send__refused_in_the_middle)
{
	open_pair(0);
	connect_pair();
	count_posts(true);
	fail_at = 4;
	for (uint32_t n = 0; n < 6; n++)
		ck_assert_int_eq(send_more(n, 40), 1);
	(void)a.ops->arm(a.t);
	ck_assert_uint_eq(calls, 1);
	ck_assert_int_eq(send_more(6, 40), -ENOTCONN);
	ck_assert_uint_eq(a.ep->conn->tx.tail - a.ep->conn->tx.head, 1 + 3);
	count_posts(false);
	UNTIL(a.nclosed);
	ck_assert_int_eq(a.status, -ENOMEM);
	a.ops->ep_close(a.ep);
	UNTIL(b.nclosed);
	ck_assert_uint_le(b.nrecv, 3);
	b.ops->ep_close(b.ep);
	close_pair();
}
END_TEST

/* It is discarded when the connection is lost. */
START_TEST(post_send__held_back_when_it_ends)
{
	open_pair(0);
	connect_pair();
	ck_assert_int_eq(send_more(0, 40), 1);
	ripc__iwv_ep_break(a.ep, -ECONNRESET, "for the test");
	ck_assert_int_eq(send_more(1, 40), -ENOTCONN);
	UNTIL(a.nclosed);
	(void)a.ops->arm(a.t);
	a.ops->ep_close(a.ep);
	UNTIL(b.nclosed);
	b.ops->ep_close(b.ep);
	close_pair();
}
END_TEST

START_TEST(reject__private_data)
{
	open_pair(_i);
	b.refuse = true;
	start_connect();
	UNTIL(a.nclosed);
	ck_assert_msg(a.rejected, "%s", a.text);
	ck_assert_int_eq(a.status, -ECONNREFUSED);
	ck_assert_uint_eq(a.privlen, 7);
	ck_assert_mem_eq(a.priv, "no room", 7);
	a.ops->ep_close(a.ep);
	close_pair();
}
END_TEST

static void some_rounds(void)
{
	for (int i = 0; i < 200; i++) {
		step(&a);
		step(&b);
	}
}

/* Connects, and holds back the events of the active side. */
static void connect_and_hold(void)
{
	open_pair(0);
	start_connect();
	UNTIL(a.ep->conn && a.ep->conn->state == IWV_CONNECTING);
	hold(&a);
	a.ep->deadline_ns = 0;
}

START_TEST(reject__flush_before_event)
{
	connect_and_hold();
	b.refuse = true;
	UNTIL(a.nclosed || (a.ep->conn && a.ep->conn->flushed));
	some_rounds();
	ck_assert_msg(!a.nclosed, "%s", a.text);
	held = NULL;
	UNTIL(a.nclosed);
	ck_assert_msg(a.rejected, "%s", a.text);
	ck_assert_int_eq(a.status, -ECONNREFUSED);
	ck_assert_uint_eq(a.privlen, 7);
	ck_assert_mem_eq(a.priv, "no room", 7);
	a.ops->ep_close(a.ep);
	close_pair();
}
END_TEST

/* The thread may sleep long: sends held back in the last round are posted before. */
START_TEST(arm__sends_what_was_held_back)
{
	/* They belong to the iWARP device. */
	if (_i)
		*options = 0;
	open_pair(_i ? PAIR_IB : 0);
	connect_pair();
	ck_assert_int_eq(send_more(0, 40), 1);
	(void)a.ops->arm(a.t);
	for (uint64_t end = ripc__clock_ns() + TIMEOUT_NS; !b.nrecv;) {
		ck_assert_msg(ripc__clock_ns() < end, "it is still held back");
		step(&b);
	}
	disconnect(&a, &b);
	close_pair();
}
END_TEST

/*
 * A failed completion queue is reported, and then keeps no thread awake, though its device waits
 * for an event of the connection manager.
 */
START_TEST(arm__lost_queue)
{
	connect_and_hold();
	UNTIL(b.ep && a.ep->conn->state == IWV_REQUEST_SENT);
	ripc__verbs_cq_set_state(a.ep->conn->cq, RIPC__CQ_BROKEN);
	UNTIL(a.nclosed);
	some_rounds();
	/* The device is lost, and with it its addresses. */
	ck_assert_uint_eq(a.naddress, 1);
	ck_assert_uint_gt(((struct ripc__transport *)a.t)->nic[0]->nconns, 0);
	ck_assert_int_eq(a.ops->arm(a.t), 0);
	held = NULL;
	a.ops->ep_close(a.ep);
	UNTIL(b.nclosed);
	b.ops->ep_close(b.ep);
	close_pair();
}
END_TEST

/* Accepted and closed at once: EV_ESTABLISHED, then EV_CLOSED. */
START_TEST(established__after_close)
{
	connect_and_hold();
	UNTIL(b.ep);
	b.ops->ep_close(b.ep);
	UNTIL(a.nclosed || (a.ep->conn && a.ep->conn->flushed));
	some_rounds();
	ck_assert_uint_eq(a.nestablished + a.nclosed, 0);
	held = NULL;
	UNTIL(a.nclosed);
	ck_assert_uint_eq(a.nestablished, 1);
	some_rounds();
	ck_assert_uint_eq(a.nclosed, 1);
	a.ops->ep_close(a.ep);
	close_pair();
}
END_TEST

/* Passive side: the first message establishes it, flushed receives report the end. */
START_TEST(established__reported_after_first_message)
{
	open_pair(0);
	start_connect();
	UNTIL(b.ep);
	hold(&b);
	UNTIL(a.nestablished);
	ck_assert_int_ge(send_one(&a, 0, 64), 0);
	UNTIL(b.nrecv == 1);
	ck_assert_uint_eq(b.nestablished, 1);
	ck_assert_int_ge(send_one(&b, 0, 64), 0);
	UNTIL(a.nrecv == 1);
	ck_assert_int_ge(send_one(&a, 1, 64), 0);
	a.ops->ep_close(a.ep);
	UNTIL(b.nclosed);
	ck_assert_uint_eq(b.nrecv, 2);
	ck_assert(!b.closed_before_data);
	held = NULL;
	some_rounds();
	ck_assert_uint_eq(b.nestablished, 1);
	ck_assert_uint_eq(b.nclosed, 1);
	b.ops->ep_close(b.ep);
	close_pair();
}
END_TEST

START_TEST(transfers_both_directions)
{
	uint8_t *mine = malloc(BYTES), *theirs = malloc(BYTES);
	struct ripc__mr local, remote;
	int rc;

	open_pair(_i);
	connect_pair();
	for (unsigned i = 0; i < BYTES; i++) {
		mine[i] = (uint8_t)(i * 7);
		theirs[i] = (uint8_t)(i * 13);
	}
	for (int side = 0; side < 2; side++) {
		struct side *at = side ? &b : &a, *to = side ? &a : &b;

		ck_assert_int_eq(to->ops->reg(to->t, to->ep, theirs, BYTES,
					      RIPC__ACCESS_REMOTE_READ | RIPC__ACCESS_REMOTE_WRITE,
					      &remote),
				 0);
		rc = at->ops->reg(at->t, NULL, mine, BYTES, RIPC__ACCESS_LOCAL_WRITE, &local);
		ck_assert_int_eq(rc, 0);
		memset(theirs, side, BYTES);
		ck_assert_int_eq(test_write(at->ops, at->ep, &local, mine, BYTES, remote.addr,
					    remote.key, 1),
				 0);
		ck_assert_int_ge(send_one(at, to->number, 100), 0);
		UNTIL(to->nrecv == 1 && at->nwrite == 1);
		ck_assert_mem_eq(mine, theirs, BYTES);
		memset(mine, 0xee, BYTES);
		for (unsigned i = 0; i < 4; i++)
			ck_assert_int_eq(test_read(at->ops, at->ep, &local, mine + i * BYTES / 4,
						   BYTES / 4, remote.addr + i * BYTES / 4,
						   remote.key, i),
					 0);
		UNTIL(at->nread == 4);
		ck_assert_mem_eq(mine, theirs, BYTES);
		to->ops->dereg(to->t, &remote);
		at->ops->dereg(at->t, &local);
	}
	disconnect(&a, &b);
	close_pair();
	free(mine);
	free(theirs);
}
END_TEST

/* The target is deregistered: the connection ends, and nothing is written. */
START_TEST(dereg__ends_remote_access)
{
	static uint8_t target[10000], source[10000];
	struct ripc__mr local, remote;
	uint32_t key;
	int rc;

	memset(source, 1, sizeof(source));
	open_pair(_i);
	connect_pair();
	rc = b.ops->reg(b.t, b.ep, target, sizeof(target), RIPC__ACCESS_REMOTE_WRITE, &remote);
	ck_assert_int_eq(rc, 0);
	ck_assert_int_eq(a.ops->reg(a.t, NULL, source, sizeof(source), 0, &local), 0);
	key = remote.key;
	b.ops->dereg(b.t, &remote);
	ck_assert_int_eq(
		test_write(a.ops, a.ep, &local, source, sizeof(source), remote.addr, key, 1), 0);
	UNTIL(a.nclosed && b.nclosed);
	ck_assert_str_ne(a.text, "");
	ck_assert_str_ne(b.text, "");
	for (unsigned i = 0; i < sizeof(target); i++)
		ck_assert_uint_eq(target[i], 0);
	a.ops->dereg(a.t, &local);
	a.ops->ep_close(a.ep);
	b.ops->ep_close(b.ep);
	close_pair();
}
END_TEST

/* A port that accepts TCP and never answers: the attempt times out, or the core closes it. */
START_TEST(connect__timeout)
{
	struct sockaddr_in in = {.sin_family = AF_INET};
	struct ripc__iwarp_address address;
	socklen_t size = sizeof(in);
	uint8_t addr[RIPC__ADDRESS_MAX];
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	size_t len;

	open_pair(0);
	ck_assert_int_gt((int)(len = (size_t)b.ops->address(b.t, addr, sizeof(addr))), 0);
	ck_assert_int_eq(ripc__iwarp_address_decode(&address, addr, len), 0);
	in.sin_addr = address.addrs[0].ip.in.sin_addr;
	ck_assert_int_eq(bind(fd, (struct sockaddr *)&in, sizeof(in)), 0);
	ck_assert_int_eq(listen(fd, 4), 0);
	ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&in, &size), 0);
	address.naddrs = 1;
	address.addrs[0].tcp = ntohs(in.sin_port);
	len = ripc__iwarp_address_encode(&address, addr);
	ck_assert_int_eq(a.ops->connect(a.t, addr, len, "hello", 5, &a, &a.ep), 0);
	UNTIL(a.nclosed);
	ck_assert_msg(strstr(a.text, "no answer"), "%s", a.text);
	ck_assert_int_eq(a.status, -EHOSTUNREACH);
	a.ops->ep_close(a.ep);
	/* Closed during the attempt. */
	ck_assert_int_eq(a.ops->connect(a.t, addr, len, "hello", 5, &a, &a.ep), 0);
	for (int i = 0; i < 1000; i++)
		step(&a);
	a.ops->ep_close(a.ep);
	/* Without a listener the refusal comes at once, and the peer is known to be dead. */
	close(fd);
	a.nclosed = 0;
	ck_assert_int_eq(a.ops->connect(a.t, addr, len, "hello", 5, &a, &a.ep), 0);
	UNTIL(a.nclosed);
	ck_assert_msg(a.status == -ECONNREFUSED, "%d: %s", a.status, a.text);
	ck_assert(!a.rejected);
	a.ops->ep_close(a.ep);
	close_pair();
}
END_TEST

START_TEST(connect_and_close__many_times)
{
	const char *cycles = getenv("RIPC_TEST_CYCLES");

	open_pair(_i);
	for (int n = cycles ? atoi(cycles) : 100; n > 0; n--) {
		connect_pair();
		if (n % 4 == 0)
			ck_assert_int_ge(send_one(&a, b.number, 100), 0);
		if (n % 2)
			disconnect(&a, &b);
		else
			disconnect(&b, &a);
	}
	close_pair();
}
END_TEST

static void add(Suite *suite, const char *name, const TTest *test, int pairs_used)
{
	TCase *tc = tcase_create(name);

	tcase_set_timeout(tc, 300);
	tcase_add_loop_test(tc, test, 0, pairs_used);
	suite_add_tcase(suite, tc);
}

int main(void)
{
	const char *name = test_iwarp_interfaces();
	Suite *suite = suite_create("iwarp/verbs");

	unsetenv("RIPC_INTERFACES");
	if (!name) {
		printf("test_verbs: no iWARP device is named: see tests/lab\n"
		       "iwarp/test_verbs: 0 passed, 0 failed, 1 skipped\n");
		return 77;
	}
	snprintf(options, sizeof(options), "interfaces=%s", name);
	add(suite, "first_message", first_message_from_either_side, PAIRS);
	add(suite, "ep_close", ep_close__what_was_sent_arrives, PAIRS);
	add(suite, "poll_requested", post_send__held_back, 1);
	add(suite, "refused", post_send__refused_in_the_middle, 1);
	add(suite, "held_back_end", post_send__held_back_when_it_ends, 1);
	add(suite, "lost_queue", arm__lost_queue, 1);
	add(suite, "arm_held_back", arm__sends_what_was_held_back, 2);
	add(suite, "reject", reject__private_data, PAIRS);
	add(suite, "reject_flushed", reject__flush_before_event, 1);
	add(suite, "established_ended", established__after_close, 1);
	add(suite, "established_late", established__reported_after_first_message, 1);
	add(suite, "transfers", transfers_both_directions, PAIRS);
	add(suite, "dereg", dereg__ends_remote_access, PAIRS);
	add(suite, "silent", connect__timeout, 1);
	add(suite, "cycles", connect_and_close__many_times, PAIRS);
	return test_main("transport/iwarp/verbs/verbs", suite);
}
