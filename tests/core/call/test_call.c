/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Calls: the right answer to each request, at most one execution, and an honest result. */
#include "core/rig.h"

#include "core/call/caller.h"
#include "core/memory/buffer.h"
#include "core/peer/dest.h"
#include "transitions.h"
#include "wire/bytes.h"

static struct rig rig;

#define EXECUTED_MAX 4096

/* A server: answers each request, which begins with a number, with the same bytes. */
static struct server {
	struct ripc_service *s;
	unsigned executed[EXECUTED_MAX]; /* times that it received the request with this number */
	bool keep;                       /* it keeps requests in kept instead of answering them */
	struct ripc_message *kept[64];
	unsigned nkept;
	size_t reply_len; /* 0: that of the request */
	uint8_t *reply;
	struct ripc_request *answer[8];   /* long answers under way, */
	struct ripc_message *answered[8]; /* and their requests */
} servers[3];

static unsigned nservers;

static uint64_t number_of(const struct ripc_message *m)
{
	uint64_t n;

	ck_assert_uint_ge(m->items[0].iov_len, sizeof(n));
	memcpy(&n, m->items[0].iov_base, sizeof(n));
	return n;
}

static void serve(struct server *sv)
{
	struct ripc_message *m;

	for (unsigned i = 0; i < 8; i++) {
		if (!sv->answer[i] || ripc_request_test(&sv->answer[i]) == -EINPROGRESS)
			continue;
		ripc_message_free(sv->answered[i]);
	}
	while (sv->s && !ripc_receive(sv->s, &m, 0)) {
		struct iovec item = {m->items[0].iov_base, m->items[0].iov_len};
		uint64_t n = number_of(m);
		int rc;

		ck_assert_uint_ne(m->call, 0);
		ck_assert_uint_lt(n, EXECUTED_MAX);
		sv->executed[n]++;
		if (sv->keep && sv->nkept < 64) {
			sv->kept[sv->nkept++] = m;
			continue;
		}
		if (sv->reply) {
			memcpy(sv->reply, &n, sizeof(n));
			item = (struct iovec){sv->reply, sv->reply_len};
		}
		rc = ripc_reply(m, &item, 1, 0);
		for (unsigned i = 0; i < 8 && rc == -EAGAIN; i++) {
			if (sv->answer[i])
				continue;
			rc = ripc_reply_start(m, &item, 1, NULL, &sv->answer[i]);
			sv->answered[i] = rc ? NULL : m;
			m = rc ? m : NULL;
		}
		ck_assert_msg(!rc || rc == -ECANCELED, "%d: %s", rc, ripc_error_detail());
		ripc_message_free(m);
	}
}

static void serve_all(void *arg)
{
	(void)arg;
	for (unsigned i = 0; i < nservers; i++)
		serve(&servers[i]);
}

static void setup_with(void (*change)(struct ripc__sim_config *config))
{
	memset(servers, 0, sizeof(servers));
	rig_start(&rig, 2, change);
	servers[0].s = rig.s[1];
	nservers = 1;
	OK(ripc__sim_actor(rig.net, serve_all, NULL));
}

static void setup(void)
{
	setup_with(NULL);
}

static void large_sends(struct ripc__sim_config *config)
{
	config->send_max = 128 * KIB;
}

static void setup_large_sends(void)
{
	setup_with(large_sends);
}

static void teardown(void)
{
	ripc__sim_actor_remove(rig.net, serve_all, NULL);
	for (unsigned i = 0; i < nservers; i++)
		for (unsigned k = 0; k < servers[i].nkept; k++)
			ripc_message_free(servers[i].kept[k]);
	rig_end(&rig);
}

static uint8_t request[300000];

/* A call with this number and length. */
static int start(uint64_t dest, uint64_t n, size_t len, const struct ripc_call_options *o,
		 int timeout_ms, struct ripc_request **r)
{
	static uint8_t bytes[64][8];
	uint8_t *p = len <= 8 ? bytes[n % 64] : len <= 20000 ? request + n % 10 * 20000 : request;
	struct iovec item = {p, len};

	memcpy(p, &n, sizeof(n));
	return ripc_call_start(rig.s[0], dest, &item, 1, o, timeout_ms, r);
}

/* The result of a call; 0: its answer has this number. */
static int result(struct ripc_request **r, uint64_t n)
{
	struct ripc_message *m;
	int rc = ripc_call_wait(r, &m, 60000);

	ck_assert_int_ne(rc, -EINPROGRESS);
	ck_assert_ptr_null(*r);
	if (!rc) {
		ck_assert_ptr_nonnull(m);
		ck_assert_uint_eq(number_of(m), n);
		ck_assert_uint_eq(m->call, 0);
	}
	ripc_message_free(m);
	return rc;
}

static int call(uint64_t n, size_t len, int timeout_ms)
{
	struct ripc_request *r;

	OK(start(RIG_ID(1), n, len, NULL, timeout_ms, &r));
	return result(&r, n);
}

#define TO(state) (1u << RIPC__CALL_IS_##state)

DEFINE_SET_STATE(struct ripc__call, ripc__call_set_state)

START_TEST(set_state__transitions)
{
	static const unsigned allowed[RIPC__CALL_STEPS] = {
		[RIPC__CALL_IS_WAITING] =
			TO(SENT) | TO(CANCELLING) | TO(WITHDRAWING) | TO(DONE) | TO(FREE),
		[RIPC__CALL_IS_SENT] = TO(WAITING) | TO(CANCELLING) | TO(WITHDRAWING) | TO(DONE),
		[RIPC__CALL_IS_CANCELLING] = TO(CANCELLING) | TO(WITHDRAWING) | TO(DONE),
		[RIPC__CALL_IS_WITHDRAWING] = TO(DONE),
		[RIPC__CALL_IS_DONE] = TO(FREE),
		[RIPC__CALL_IS_FREE] = TO(WAITING) | TO(SENT),
	};

	check_transitions(set_state, allowed);
}
END_TEST

/* ---- answers ---- */

START_TEST(answer__sizes)
{
	static const size_t lens[] = {8, 9, 500, 2000, 7000, 20000, 70000, 300000};
	static uint8_t reply[300000];

	for (unsigned i = 0; i < 8; i++)
		OK(call(i, lens[i], 5000));
	servers[0].reply = reply;
	for (unsigned i = 0; i < 8; i++) {
		servers[0].reply_len = lens[i];
		OK(call(10 + i, 8, 5000));
	}
	for (unsigned i = 0; i < 8; i++)
		ck_assert_uint_eq(servers[0].executed[i], 1);
	rig_expect_none(&rig, 0);
	ck_assert_uint_eq(rig_peer(&rig, 0, 1)->calls, 0);
	ck_assert(ripc__list_empty(&rig_peer(&rig, 1, 0)->lists->served));
}
END_TEST

START_TEST(answer__any_order)
{
	enum { N = 40 };
	struct ripc_request *r[N];
	struct iovec item;

	servers[0].keep = true;
	for (unsigned i = 0; i < N; i++)
		OK(start(RIG_ID(1), i, 8, NULL, 5000, &r[i]));
	for (int k = 0; k < 100 && servers[0].nkept < N; k++)
		rig_run(&rig, 1);
	ck_assert_uint_eq(servers[0].nkept, N);
	RC(-EINPROGRESS, ripc_call_wait(&r[0], NULL, 0));
	for (unsigned i = N; i; i--) {
		item = servers[0].kept[i - 1]->items[0];
		OK(ripc_reply(servers[0].kept[i - 1], &item, 1, 0));
	}
	for (unsigned i = 0; i < N; i++)
		OK(result(&r[i], i));
}
END_TEST

START_TEST(answer__errors)
{
	struct iovec item = {"x", 1};
	struct ripc_message *m;
	struct ripc_request *r;

	servers[0].keep = true;
	for (unsigned i = 0; i < 3; i++) {
		OK(start(RIG_ID(1), i, 8, NULL, 5000, &r));
		while (servers[0].nkept < i + 1)
			rig_run(&rig, 1);
		m = servers[0].kept[i];
		switch (i) {
		case 0:
			RC(-EINVAL, ripc_reply_error(m, 0));
			OK(ripc_reply_error(m, EACCES));
			RC(-EALREADY, ripc_reply(m, &item, 1, 0));
			RC(-EACCES, result(&r, 0));
			break;
		case 1:
			servers[0].nkept--;
			ripc_message_free(m);
			servers[0].kept[servers[0].nkept++] = NULL;
			RC(-ECANCELED, result(&r, 0));
			break;
		default:
			RC(-EINVAL, ripc_reply(m, &item, 0, 0));
			OK(ripc_reply(m, &item, 1, 0));
			OK(ripc_call_wait(&r, &m, 5000));
			ck_assert_uint_eq(m->items[0].iov_len, 1);
			ripc_message_free(m);
			break;
		}
	}
	servers[0].s = NULL;
	OK(rig_short(&rig, 0, 1, 10, 1, 1000));
	m = rig_take(&rig, 1);
	ck_assert_uint_eq(m->call, 0);
	RC(-EINVAL, ripc_reply(m, &item, 1, 0));
	ck_assert_int_eq(ripc_message_cancelled(m), 0);
	ck_assert_int_eq(ripc_message_deadline(m), -1);
	ripc_message_free(m);
}
END_TEST

/* Replies with len bytes to a new request with these reply buffers. Return: ripc_reply(). */
static int reply_at_once(struct iovec *buffers, unsigned nbuffers, size_t len)
{
	const struct ripc_call_options options = {
		.size = sizeof(options), .nreply_buffers = nbuffers, .reply_buffers = buffers};
	static uint64_t bytes[128 * KIB / sizeof(uint64_t)];
	struct iovec item = {bytes, len};
	struct ripc_request *r;
	struct ripc_message *m;
	static uint64_t n;
	int rc;

	servers[0].keep = true;
	OK(start(RIG_ID(1), ++n, 8, &options, 5000, &r));
	while (!servers[0].nkept)
		rig_run(&rig, 1);
	m = servers[0].kept[--servers[0].nkept];
	bytes[0] = n;
	rc = ripc_reply(m, &item, 1, 0);
	if (rc)
		OK(ripc_reply_error(m, EFBIG));
	ripc_message_free(m);
	RC(rc ? -EFBIG : 0, result(&r, n));
	return rc;
}

/* An answer is short if one message of the lane has room for it, and no buffer waits for it. */
START_TEST(answer__short_or_long)
{
	struct iovec buffer = {ripc_buf_alloc(rig.ctx[0], 1000), 1000};
	size_t room;

	rig_connect(&rig, 0, 1);
	room = rig_lane(&rig, 1, 0)->send_max - RIPC__SHORT_FIXED - RIPC__CALL_EXT;
	ck_assert_uint_gt(room, buffer.iov_len);
	OK(reply_at_once(NULL, 0, RIPC_SHORT_GUARANTEED));
	OK(reply_at_once(NULL, 0, RIPC_SHORT_GUARANTEED + 1));
	OK(reply_at_once(NULL, 0, room));
	RC(-EAGAIN, reply_at_once(NULL, 0, room + 1));
	OK(reply_at_once(&buffer, 1, RIPC_SHORT_GUARANTEED));
	RC(-EAGAIN, reply_at_once(&buffer, 1, RIPC_SHORT_GUARANTEED + 1));
	OK(ripc_buf_free(rig.ctx[0], buffer.iov_base));
}
END_TEST

/* An answer above a quarter of the retransmission window is long, whatever a lane can send. */
START_TEST(answer__quarter_of_the_window)
{
	OK(reply_at_once(NULL, 0, RIPC__RELIABLE_WINDOW_BYTES / 4));
	RC(-EAGAIN, reply_at_once(NULL, 0, RIPC__RELIABLE_WINDOW_BYTES / 4 + 1));
}
END_TEST

/* Without a lane only an answer that every lane can send is short. */
START_TEST(answer__without_a_lane)
{
	static uint64_t bytes[(RIPC_SHORT_GUARANTEED + 8) / 8] = {1};
	struct iovec item = {bytes, RIPC_SHORT_GUARANTEED + 1};
	struct ripc_request *r;

	servers[0].keep = true;
	OK(start(RIG_ID(1), 1, 8, NULL, 60000, &r));
	while (!servers[0].nkept)
		rig_run(&rig, 1);
	rig_run(&rig, 5);
	ripc__sim_partition(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1), true);
	ripc__sim_break(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1));
	rig_run(&rig, 10);
	ck_assert_ptr_null(rig_lane(&rig, 1, 0));
	RC(-EAGAIN, ripc_reply(servers[0].kept[0], &item, 1, 0));
	item.iov_len--;
	OK(ripc_reply(servers[0].kept[0], &item, 1, 0));
	ripc__sim_partition(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1), false);
	OK(result(&r, 1));
}
END_TEST

/* Within one context. */
START_TEST(answer__self)
{
	struct ripc_request *r;

	OK(ripc_service_register(rig.ctx[0], 77, 0, &servers[1].s));
	nservers = 2;
	for (unsigned i = 0; i < 5; i++) {
		OK(start(77, i, i & 1 ? 100000 : 8, NULL, 5000, &r));
		OK(result(&r, i));
	}
}
END_TEST

/*
 * An answer that arrives changes nothing for other peers whose answers wait for a lane: only the
 * loss of one makes their calls unknown.
 */
START_TEST(answer__acknowledged)
{
	struct ripc__peer *other;
	uint64_t epoch;

	rig_open(&rig, NULL);
	rig_connect(&rig, 2, 1);
	other = rig_peer(&rig, 1, 2);
	epoch = other->epoch;
	other->reply_waits = true;
	OK(call(1, 8, 5000));
	rig_run(&rig, 50);
	ck_assert_uint_eq(rig_peer(&rig, 1, 0)->reliable_unacked, 0);
	ck_assert(other->reply_waits);
	ck_assert_uint_eq(other->epoch, epoch);
	other->reply_waits = false;
}
END_TEST

/* ---- time ---- */

/* The answer comes after the caller's time: the next call gets its own answer. */
START_TEST(time__late_answer)
{
	struct ripc_request *r;
	struct iovec item;

	servers[0].keep = true;
	RC(-ETIME, call(1, 8, 50));
	ck_assert_uint_eq(servers[0].nkept, 1);
	ck_assert_int_eq(ripc_message_cancelled(servers[0].kept[0]), 1);
	servers[0].keep = false;
	OK(start(RIG_ID(1), 2, 8, NULL, 5000, &r));
	item = servers[0].kept[0]->items[0];
	RC(-ECANCELED, ripc_reply(servers[0].kept[0], &item, 1, 0));
	OK(result(&r, 2));
}
END_TEST

/* The request is in the queue when its time is up: the server never receives it. */
START_TEST(time__not_executed)
{
	struct iovec item = {request, 8};
	struct ripc_message *m;

	rig_connect(&rig, 0, 1);
	servers[0].s = NULL;
	RC(-ETIMEDOUT, call(1, 8, 50));
	RC(-EAGAIN, ripc_receive(rig.s[1], &m, 0));
	/* The next message has the memory of the dropped request, and nothing of its call. */
	OK(ripc_send_short(rig.s[0], RIG_ID(1), &item, 1, NULL, 1000));
	OK(ripc_receive(rig.s[1], &m, 1000));
	ck_assert_uint_eq(m->call, 0);
	RC(-EINVAL, ripc_reply(m, &item, 1, 0));
	ripc_message_free(m);
	RC(-ETIMEDOUT, call(1, 100000, 50));
	RC(-EAGAIN, ripc_receive(rig.s[1], &m, 0));
	ck_assert_uint_eq(rig_stats(&rig, 1).calls_expired, 2);
	ck_assert_uint_eq(rig_stats(&rig, 1).queued, 0);
}
END_TEST

START_TEST(time__deadline_travels)
{
	struct ripc_request *r;
	int left;

	servers[0].keep = true;
	OK(start(RIG_ID(1), 1, 8, NULL, 1000, &r));
	while (!servers[0].nkept)
		rig_run(&rig, 1);
	left = ripc_message_deadline(servers[0].kept[0]);
	ck_assert_int_gt(left, 900);
	ck_assert_int_le(left, 1000);
	rig_run(&rig, 500);
	ck_assert_int_eq(ripc_message_cancelled(servers[0].kept[0]), 0);
	ck_assert_int_le(ripc_message_deadline(servers[0].kept[0]), left - 500);
	RC(-ETIME, result(&r, 1));
	ck_assert_int_le(ripc_message_deadline(servers[0].kept[0]), 1);
	/* Without a limit. */
	OK(start(RIG_ID(1), 2, 8, NULL, -1, &r));
	while (servers[0].nkept < 2)
		rig_run(&rig, 1);
	ck_assert_int_eq(ripc_message_deadline(servers[0].kept[1]), -1);
	OK(ripc_reply(servers[0].kept[1], &servers[0].kept[1]->items[0], 1, 0));
	OK(result(&r, 2));
}
END_TEST

/* The callee's time ends before the caller's, by the resolution of the deadline. */
START_TEST(time__cancelled_takes_no_answer)
{
	struct ripc__message *m;
	struct ripc_request *r;

	servers[0].keep = true;
	OK(start(RIG_ID(1), 1, 8, NULL, 1000, &r));
	while (!servers[0].nkept)
		rig_run(&rig, 1);
	m = (struct ripc__message *)servers[0].kept[0];
	m->call_deadline_ns = ripc__now(rig.ctx[1]);
	ck_assert_int_eq(ripc_message_cancelled(&m->pub), 1);
	RC(-ECANCELED, ripc_reply(&m->pub, &m->pub.items[0], 1, 0));
	RC(-ETIME, result(&r, 1));
}
END_TEST

START_TEST(time__nobody_there)
{
	struct ripc_request *r;

	OK(start(4711, 1, 8, NULL, 500, &r));
	RC(-EHOSTUNREACH, result(&r, 1));
	OK(start(4711, 1, 100000, NULL, 500, &r));
	RC(-EHOSTUNREACH, result(&r, 1));
	/* It is registered while the call waits. */
	OK(start(4711, 2, 8, NULL, 5000, &r));
	rig_run(&rig, 300);
	OK(ripc_service_register(rig.ctx[1], 4711, 0, &servers[1].s));
	nservers = 2;
	OK(result(&r, 2));
}
END_TEST

/* The peer does not let go of the first request: its lane is closed, which ends the other calls. */
START_TEST(time__many_long_requests_stuck)
{
	enum { N = 5 };
	struct ripc_request *r[N];

	rig_connect(&rig, 0, 1);
	ripc__sim_hold(rig.net, rig_instance(&rig, 1), true);
	for (unsigned i = 0; i < N; i++)
		OK(start(RIG_ID(1), i, 20000, NULL, 50, &r[i]));
	for (unsigned i = 0; i < N; i++) {
		int rc = result(&r[i], i);

		ck_assert_msg(rc == -ETIME || rc == -ETIMEDOUT || rc == -EPIPE, "%d", rc);
	}
	ripc__sim_hold(rig.net, rig_instance(&rig, 1), false);
	OK(call(20, 8, 5000));
}
END_TEST

/* ---- giving up ---- */

START_TEST(cancel__in_every_state)
{
	struct ripc_request *r;

	/* Not sent yet. */
	OK(start(4711, 1, 8, NULL, 5000, &r));
	RC(-ECANCELED, ripc_request_cancel(&r, 100));
	/* In the queue. */
	servers[0].s = NULL;
	OK(start(RIG_ID(1), 2, 8, NULL, 5000, &r));
	rig_run(&rig, 5);
	RC(-ECANCELED, ripc_request_cancel(&r, 100));
	rig_expect_none(&rig, 1);
	/* Received. */
	servers[0] = (struct server){.s = rig.s[1], .keep = true};
	OK(start(RIG_ID(1), 3, 8, NULL, 5000, &r));
	while (!servers[0].nkept)
		rig_run(&rig, 1);
	ck_assert_int_eq(ripc_message_cancelled(servers[0].kept[0]), 0);
	RC(-ETIME, ripc_request_cancel(&r, 100));
	ck_assert_int_eq(ripc_message_cancelled(servers[0].kept[0]), 1);
	/* Received, and freed without an answer, before or after it is given up. */
	for (unsigned i = 0; i < 2; i++) {
		OK(start(RIG_ID(1), 4 + i, 8, NULL, 5000, &r));
		while (servers[0].nkept < 2)
			rig_run(&rig, 1);
		ripc_message_free(servers[0].kept[--servers[0].nkept]);
		rig_run(&rig, i ? 0 : 5);
		RC(-ETIME, ripc_request_cancel(&r, 100));
	}
	/* Long, at any time. */
	servers[0].keep = false;
	for (unsigned i = 0; i < 40; i++) {
		int rc;

		OK(start(RIG_ID(1), 10 + i, 100000, NULL, 5000, &r));
		ripc__sim_run(rig.net, 1 + i * 5000);
		rc = ripc_request_cancel(&r, 100);
		ck_assert_msg(!rc || rc == -ECANCELED || rc == -ETIME, "%d", rc);
		if (rc == -ECANCELED)
			ck_assert_uint_eq(servers[0].executed[10 + i], 0);
		if (!rc)
			ck_assert_uint_eq(servers[0].executed[10 + i], 1);
	}
	OK(call(60, 8, 5000));
}
END_TEST

/* ---- reply buffers ---- */

/* The answer lands in the caller's buffer, whatever is lost on the way. */
START_TEST(reply_buffer__lane_lost_at_every_operation)
{
	struct iovec buffer = {ripc_buf_alloc(rig.ctx[0], 200000), 200000};
	const struct ripc_call_options options = {
		.size = sizeof(options), .nreply_buffers = 1, .reply_buffers = &buffer};

	OK(call(0, 8, 5000));
	for (uint64_t nth = 1; nth <= 40; nth++) {
		struct ripc_request *r;
		struct ripc_message *m;

		memset(servers[0].executed, 0, sizeof(servers[0].executed));
		memset(buffer.iov_base, 0xee, buffer.iov_len);
		ripc__sim_break_at(rig.net, rig_instance(&rig, nth & 1),
				   rig_instance(&rig, !(nth & 1)), (nth + 1) / 2);
		OK(start(RIG_ID(1), nth, nth % 3 ? 150000 : 8, &options, 10000, &r));
		OK(ripc_call_wait(&r, &m, 60000));
		ck_assert_ptr_eq(m->items[0].iov_base, buffer.iov_base);
		ck_assert_uint_eq(m->placement[0], RIPC_IN_RETURN_BUFFER);
		ck_assert_uint_eq(number_of(m), nth);
		ck_assert_uint_eq(servers[0].executed[nth], 1);
		ripc_message_free(m);
		ck_assert_ptr_null(ripc__list_first(&rig.ctx[0]->memory->returns));
	}
	OK(ripc_buf_free(rig.ctx[0], buffer.iov_base));
}
END_TEST

/* The peer does not let go of the buffer: the call ends nevertheless, and its lane with it. */
START_TEST(reply_buffer__silent_peer)
{
	struct iovec buffer = {ripc_buf_alloc(rig.ctx[0], 200000), 200000};
	const struct ripc_call_options options = {
		.size = sizeof(options), .nreply_buffers = 1, .reply_buffers = &buffer};
	struct ripc_request *r;
	uint64_t begin;

	servers[0].keep = true;
	for (uint64_t i = 0; i < 2; i++) {
		rig_connect(&rig, 0, 1);
		OK(start(RIG_ID(1), i, 8, &options, 200, &r));
		while (!servers[0].nkept)
			rig_run(&rig, 1);
		ripc__sim_partition(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1), true);
		begin = ripc__now(rig.ctx[0]);
		if (i)
			RC(-ETIME, ripc_request_cancel(&r, 50));
		else
			RC(-ETIME, result(&r, i));
		ck_assert_uint_lt(ripc__now(rig.ctx[0]) - begin, 600 * RIPC__MS);
		/* Nothing can write it any more. */
		ck_assert_ptr_null(ripc__list_first(&rig.ctx[0]->memory->returns));
		ck_assert_ptr_eq(ripc_buf_realloc(rig.ctx[0], buffer.iov_base, 200000),
				 buffer.iov_base);
		ripc_message_free(servers[0].kept[--servers[0].nkept]);
		ripc__sim_partition(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1), false);
		rig_run(&rig, 5000);
	}
	OK(ripc_buf_free(rig.ctx[0], buffer.iov_base));
}
END_TEST

/* Reply buffers that the server may write. */
static unsigned remote_reply_buffers(void)
{
	const struct ripc__list *head = &ripc__dest_find(rig.ctx[1], RIG_ID(0))->remote_returns;
	struct ripc__list *n;
	unsigned count = 0;

	ripc__list_for_each (n, head)
		count += !ripc__list_entry(n, struct ripc__remote_return, link)->pooled;
	return count;
}

/* A destination remembers the buffers of unanswered calls only. */
START_TEST(reply_buffer__forgotten)
{
	struct iovec buffer = {ripc_buf_alloc(rig.ctx[0], 1000), 1000};
	const struct ripc_call_options options = {
		.size = sizeof(options), .nreply_buffers = 1, .reply_buffers = &buffer};

	for (uint64_t i = 0; i < 300; i++) {
		struct ripc_request *r;

		servers[0].keep = i % 3 == 2;
		OK(start(RIG_ID(1), i, i % 2 ? 900 : 8, &options, 1000, &r));
		if (servers[0].keep) {
			while (!servers[0].nkept)
				rig_run(&rig, 1);
			ripc_message_free(servers[0].kept[--servers[0].nkept]);
			RC(-ECANCELED, result(&r, i));
		} else {
			OK(result(&r, i));
		}
		/* A long answer uses its buffer until it is acknowledged. */
		rig_run(&rig, 5);
		ck_assert_uint_eq(remote_reply_buffers(), 0);
	}
	OK(ripc_buf_free(rig.ctx[0], buffer.iov_base));
}
END_TEST

/* ---- lanes that are lost ---- */

START_TEST(lane_lost__at_every_operation)
{
	OK(call(0, 8, 5000));
	for (uint64_t nth = 1; nth <= 30; nth++) {
		struct ripc_request *r[10];

		memset(servers[0].executed, 0, sizeof(servers[0].executed));
		ripc__sim_break_at(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1), nth);
		for (unsigned i = 0; i < 10; i++)
			OK(start(RIG_ID(1), i, 8, NULL, 10000, &r[i]));
		for (unsigned i = 0; i < 10; i++) {
			OK(result(&r[i], i));
			ck_assert_uint_eq(servers[0].executed[i], 1);
		}
		OK(call(20, 100000, 10000));
		ck_assert_uint_eq(servers[0].executed[20], 1);
	}
	ck_assert_uint_gt(rig_stats(&rig, 0).lanes_lost, 10);
}
END_TEST

static void partition_after_break(void *arg)
{
	struct ripc__sim_counters counters;

	ripc__sim_counters(rig.net, &counters);
	if (counters.breaks > *(const uint64_t *)arg)
		ripc__sim_partition(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1), true);
}

/* The lane is lost before the acknowledgement of a long request, and there is no other in time. */
START_TEST(lane_lost__time_up)
{
	struct ripc__sim_counters counters = {.breaks = UINT64_MAX};
	unsigned executed = 0;

	servers[0].keep = true;
	OK(ripc__sim_actor(rig.net, partition_after_break, &counters.breaks));
	for (uint64_t nth = 1; nth <= 8; nth++) {
		int rc;

		rig_connect(&rig, 0, 1);
		ripc__sim_counters(rig.net, &counters);
		ripc__sim_break_at(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1), nth);
		rc = call(nth, 100000, 50);
		executed += servers[0].executed[nth];
		ck_assert_msg(!servers[0].executed[nth] || rc == -ETIME,
			      "executed, and the result is %d", rc);
		ripc__sim_break_at(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1), 0);
		counters.breaks = UINT64_MAX;
		ripc__sim_partition(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1), false);
		rig_run(&rig, 3000);
	}
	ripc__sim_actor_remove(rig.net, partition_after_break, &counters.breaks);
	ck_assert_uint_gt(executed, 0);
}
END_TEST

/*
 * The callee gives the caller up, the caller the callee not. The answer is lost: it waited for a
 * lane, it was posted before the lane was lost, or it comes too late.
 */
START_TEST(lane_lost__callee_gives_up)
{
	struct ripc_request *r;
	uint64_t epoch;

	rig_end(&rig);
	rig_init(&rig, NULL);
	rig_open(&rig, "peer_timeout_ms=300000");
	rig_open(&rig, "peer_timeout_ms=2000");
	rig_open(&rig, NULL);
	rig_connect(&rig, 2, 1);
	epoch = rig_peer(&rig, 1, 2)->epoch;
	servers[0] = (struct server){.s = rig.s[1], .keep = true};
	OK(ripc__sim_actor(rig.net, serve_all, NULL));
	OK(start(RIG_ID(1), 1, 8, NULL, -1, &r));
	while (!servers[0].nkept)
		rig_run(&rig, 1);
	rig_run(&rig, 5);
	ripc__sim_partition(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1), true);
	if (_i == 1)
		OK(ripc_reply(servers[0].kept[0], &servers[0].kept[0]->items[0], 1, 0));
	ripc__sim_break(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1));
	rig_run(&rig, 100);
	if (!_i)
		OK(ripc_reply(servers[0].kept[0], &servers[0].kept[0]->items[0], 1, 0));
	rig_run(&rig, 20000);
	ripc__sim_partition(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1), false);
	rig_run(&rig, 20000);
	RC(-EPIPE, result(&r, 1));
	/* Nothing for another peer was lost. */
	ck_assert_uint_eq(rig_peer(&rig, 1, 2)->epoch, epoch);
}
END_TEST

/* An answer waits for a lane and then arrives: nothing was lost, and no later call fails. */
START_TEST(lane_lost__answer_waits)
{
	struct ripc_request *r[2];
	uint64_t epoch;

	servers[0].keep = true;
	OK(start(RIG_ID(1), 1, 8, NULL, 60000, &r[0]));
	OK(start(RIG_ID(1), 2, 8, NULL, 60000, &r[1]));
	while (servers[0].nkept < 2)
		rig_run(&rig, 1);
	rig_run(&rig, 5);
	epoch = rig_peer(&rig, 1, 0)->epoch;
	ripc__sim_partition(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1), true);
	ripc__sim_break(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1));
	rig_run(&rig, 10);
	ck_assert_ptr_null(rig_lane(&rig, 1, 0));
	OK(ripc_reply(servers[0].kept[0], &servers[0].kept[0]->items[0], 1, 0));
	ck_assert(rig_peer(&rig, 1, 0)->reply_waits);
	ripc__sim_partition(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1), false);
	OK(result(&r[0], 1));
	rig_run(&rig, 50);
	ck_assert_uint_eq(rig_peer(&rig, 1, 0)->epoch, epoch);
	/* The other one survives the next loss of the lane as well. */
	ripc__sim_break(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1));
	rig_run(&rig, 50);
	OK(ripc_reply(servers[0].kept[1], &servers[0].kept[1]->items[0], 1, 0));
	OK(result(&r[1], 2));
	ck_assert_uint_eq(rig_peer(&rig, 1, 0)->epoch, epoch);
}
END_TEST

/* ---- the callee dies or moves ---- */

static void open_second_holder(void)
{
	unsigned i = rig_open(&rig, NULL);

	OK(ripc_service_unregister(rig.s[i]));
	OK(ripc_service_register(rig.ctx[i], RIG_ID(1), RIPC_TAKEOVER, &rig.s[i]));
	servers[1].s = rig.s[i];
	nservers = 2;
}

static void kill_first_holder(void)
{
	servers[0].s = NULL;
	/* They go with the context. */
	servers[0].nkept = 0;
	ripc__sim_kill_context(rig.net, rig.ctx[1], false);
	rig.ctx[1] = NULL;
	rig.s[1] = NULL;
}

START_TEST(callee_died__unknown)
{
	struct ripc_request *r;

	servers[0].keep = true;
	OK(start(RIG_ID(1), 1, 8, NULL, 20000, &r));
	while (!servers[0].nkept)
		rig_run(&rig, 1);
	rig_run(&rig, 5);
	kill_first_holder();
	RC(-EPIPE, result(&r, 1));
}
END_TEST

START_TEST(callee_died__idempotent_repeated)
{
	struct ripc_call_options o = {.size = sizeof(o), .flags = RIPC_IDEMPOTENT};
	struct ripc_request *r[2];

	servers[0].keep = true;
	OK(start(RIG_ID(1), 1, 8, &o, 60000, &r[0]));
	OK(start(RIG_ID(1), 2, 100000, &o, 60000, &r[1]));
	while (servers[0].nkept < 2)
		rig_run(&rig, 1);
	rig_run(&rig, 5);
	kill_first_holder();
	open_second_holder();
	OK(result(&r[0], 1));
	OK(result(&r[1], 2));
	ck_assert_uint_eq(servers[1].executed[1], 1);
	ck_assert_uint_eq(servers[1].executed[2], 1);
}
END_TEST

/*
 * The state of a request arrives before its acknowledgement, which was lost with a lane: the
 * request is taken out of the messages to that peer before it is sent again.
 */
START_TEST(state__before_acknowledgement)
{
	struct ripc_call_options o = {.size = sizeof(o), .flags = RIPC_IDEMPOTENT};
	struct ripc *ctx = rig.ctx[0];
	struct ripc_request *r;
	uint64_t id;

	rig_connect(&rig, 0, 1);
	ripc__sim_hold(rig.net, rig_instance(&rig, 1), true);
	OK(start(RIG_ID(1), 1, 8, &o, 5000, &r));
	rig_run(&rig, 5);
	ck_assert_uint_eq(rig_peer(&rig, 0, 1)->reliable_unacked, 1);
	id = r->call->id;
	ripc__lock(ctx);
	ripc__call_state_received(rig_lane(&rig, 0, 1), id,
				  _i ? RIPC__CALL_MOVED : RIPC__CALL_UNKNOWN);
	ripc__unlock(ctx);
	ck_assert_uint_le(rig_peer(&rig, 0, 1)->reliable_unacked, 1);
	ripc__sim_hold(rig.net, rig_instance(&rig, 1), false);
	OK(result(&r, 1));
	/* The first answer may come before the second request is sent. */
	ck_assert_uint_ge(servers[0].executed[1], 1);
	ck_assert_uint_eq(rig_peer(&rig, 0, 1)->reliable_unacked, 0);
	ck_assert_uint_eq(rig_peer(&rig, 0, 1)->calls, 0);
}
END_TEST

/* There is no next holder: the first one has executed it, so the result does not deny that. */
START_TEST(callee_died__idempotent_not_repeated)
{
	struct ripc_call_options o = {.size = sizeof(o), .flags = RIPC_IDEMPOTENT};
	struct ripc_request *r[3];

	servers[0].keep = true;
	OK(start(RIG_ID(1), 1, 8, &o, 10000, &r[0]));
	OK(start(RIG_ID(1), 2, 100000, &o, 10000, &r[1]));
	OK(start(RIG_ID(1), 3, 8, &o, 10000, &r[2]));
	while (servers[0].nkept < 3)
		rig_run(&rig, 1);
	rig_run(&rig, 5);
	kill_first_holder();
	rig_run(&rig, 5000);
	RC(-ETIME, ripc_request_cancel(&r[2], 100));
	RC(-ETIME, result(&r[0], 1));
	RC(-ETIME, result(&r[1], 2));
}
END_TEST

/* Requests in the queue of a service that is closed go to its next holder. */
START_TEST(callee_closed__next_holder)
{
	struct ripc_request *r[10];

	servers[0].s = NULL;
	for (unsigned i = 0; i < 10; i++)
		OK(start(RIG_ID(1), i, i & 1 ? 20000 : 8, NULL, 20000, &r[i]));
	rig_run(&rig, 5);
	if (_i) {
		rig_close(&rig, 1);
	} else {
		OK(ripc_service_unregister(rig.s[1]));
		rig.s[1] = NULL;
	}
	open_second_holder();
	for (unsigned i = 0; i < 10; i++) {
		OK(result(&r[i], i));
		ck_assert_uint_eq(servers[1].executed[i], 1);
	}
}
END_TEST

/* A context that closes answers the requests that it has received. */
START_TEST(callee_closed__answered)
{
	struct ripc_request *r;

	servers[0].keep = true;
	OK(start(RIG_ID(1), 1, 8, NULL, 20000, &r));
	while (!servers[0].nkept)
		rig_run(&rig, 1);
	servers[0].s = NULL;
	servers[0].nkept = 0;
	rig_close(&rig, 1);
	RC(-ECANCELED, result(&r, 1));
}
END_TEST

/* A service that is taken over answers what it has received; later calls go to the new holder. */
START_TEST(callee_moved)
{
	struct ripc_request *r[6];

	servers[0].keep = true;
	for (unsigned i = 0; i < 3; i++)
		OK(start(RIG_ID(1), i, 8, NULL, 20000, &r[i]));
	while (servers[0].nkept < 3)
		rig_run(&rig, 1);
	open_second_holder();
	rig_run(&rig, 50);
	for (unsigned i = 3; i < 6; i++)
		OK(start(RIG_ID(1), i, 8, NULL, 20000, &r[i]));
	rig_run(&rig, 50);
	/* A request that the former holder received is answered there. */
	for (unsigned i = 0; i < servers[0].nkept; i++)
		OK(ripc_reply(servers[0].kept[i], &servers[0].kept[i]->items[0], 1, 0));
	for (unsigned i = 0; i < 6; i++) {
		OK(result(&r[i], i));
		ck_assert_uint_eq(servers[0].executed[i] + servers[1].executed[i], 1);
	}
	ck_assert_uint_gt(servers[1].executed[3] + servers[1].executed[4] + servers[1].executed[5],
			  0);
}
END_TEST

/* ---- the caller dies ---- */

START_TEST(caller_died__cancelled)
{
	struct ripc_request *r;
	struct ripc_message *m;

	servers[0].keep = true;
	OK(start(RIG_ID(1), 1, 8, NULL, 20000, &r));
	while (!servers[0].nkept)
		rig_run(&rig, 1);
	ripc__sim_kill_context(rig.net, rig.ctx[0], false);
	rig.ctx[0] = NULL;
	rig.s[0] = NULL;
	m = servers[0].kept[0];
	for (unsigned i = 0; i < 100 && !ripc_message_cancelled(m); i++)
		rig_run(&rig, 100);
	ck_assert_int_eq(ripc_message_cancelled(m), 1);
	RC(-ECANCELED, ripc_reply(m, &m->items[0], 1, 0));
}
END_TEST

/* Its service is closed: the calls end, and the callee sees it. */
START_TEST(caller_closed__cancelled)
{
	struct ripc_request *r;

	servers[0].keep = true;
	OK(start(RIG_ID(1), 1, 8, NULL, 20000, &r));
	while (!servers[0].nkept)
		rig_run(&rig, 1);
	OK(ripc_service_unregister(rig.s[0]));
	RC(-ESHUTDOWN, result(&r, 1));
	rig_run(&rig, 5);
	ck_assert_int_eq(ripc_message_cancelled(servers[0].kept[0]), 1);
	OK(ripc_service_register(rig.ctx[0], RIG_ID(0), 0, &rig.s[0]));
}
END_TEST

/*
 * Its context is closed while a long request, or one with reply buffers, is in flight: nothing is
 * left of it, at no moment.
 */
START_TEST(caller_closed__long_request_in_flight)
{
	struct iovec buffer;
	const struct ripc_call_options options = {
		.size = sizeof(options), .nreply_buffers = 1, .reply_buffers = &buffer};

	for (unsigned i = 0; i < 20; i++) {
		unsigned k = rig_open(&rig, NULL);
		struct ripc_service *first = rig.s[0];
		struct ripc_request *r;

		buffer = (struct iovec){ripc_buf_alloc(rig.ctx[k], 1000), 1000};
		rig_connect(&rig, k, 1);
		rig.s[0] = rig.s[k];
		OK(start(RIG_ID(1), i, i & 2 ? 100000 : 8, i & 1 ? &options : NULL, 5000, &r));
		rig.s[0] = first;
		ripc__sim_run(rig.net, i * 10000);
		rig_close(&rig, k);
		rig.n--;
		rig_run(&rig, 50);
	}
	/* The peers that are gone are given up. */
	rig_run(&rig, 5000);
	ck_assert(ripc__list_empty(&rig.s[1]->rndvs_in));
	OK(call(21, 8, 5000));
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("core/call/call");
	TCase *tc = tcase_create("call");

	test_seed();
	tcase_set_timeout(tc, 120);
	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, set_state__transitions);
	tcase_add_test(tc, answer__sizes);
	tcase_add_test(tc, answer__any_order);
	tcase_add_test(tc, answer__errors);
	tcase_add_test(tc, answer__short_or_long);
	tcase_add_test(tc, answer__without_a_lane);
	tcase_add_test(tc, answer__self);
	tcase_add_test(tc, answer__acknowledged);
	tcase_add_test(tc, time__late_answer);
	tcase_add_test(tc, time__not_executed);
	tcase_add_test(tc, time__deadline_travels);
	tcase_add_test(tc, time__cancelled_takes_no_answer);
	tcase_add_test(tc, time__nobody_there);
	tcase_add_test(tc, time__many_long_requests_stuck);
	tcase_add_test(tc, cancel__in_every_state);
	tcase_add_test(tc, reply_buffer__lane_lost_at_every_operation);
	tcase_add_test(tc, reply_buffer__silent_peer);
	tcase_add_test(tc, reply_buffer__forgotten);
	tcase_add_test(tc, lane_lost__at_every_operation);
	tcase_add_test(tc, lane_lost__time_up);
	tcase_add_loop_test(tc, lane_lost__callee_gives_up, 0, 3);
	tcase_add_test(tc, lane_lost__answer_waits);
	tcase_add_test(tc, callee_died__unknown);
	tcase_add_test(tc, callee_died__idempotent_repeated);
	tcase_add_test(tc, callee_died__idempotent_not_repeated);
	tcase_add_loop_test(tc, state__before_acknowledgement, 0, 2);
	tcase_add_loop_test(tc, callee_closed__next_holder, 0, 2);
	tcase_add_test(tc, callee_closed__answered);
	tcase_add_test(tc, callee_moved);
	tcase_add_test(tc, caller_died__cancelled);
	tcase_add_test(tc, caller_closed__cancelled);
	tcase_add_test(tc, caller_closed__long_request_in_flight);
	suite_add_tcase(suite, tc);
	tc = tcase_create("large_sends");
	tcase_set_timeout(tc, 120);
	tcase_add_checked_fixture(tc, setup_large_sends, teardown);
	tcase_add_test(tc, answer__quarter_of_the_window);
	suite_add_tcase(suite, tc);
	return test_main("core/call/call", suite);
}
