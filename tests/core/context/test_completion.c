/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* ripc_completion_next() and its descriptor: requests, calls, answers, room for messages. */
#include "core/rig.h"

#include "core/call/call.h"

#include <sys/resource.h>
#include <poll.h>

static struct rig rig;
static struct ripc *ctx;
static int fd;

static void setup(void)
{
	rig_start(&rig, 2, NULL);
	ctx = rig.ctx[0];
	fd = ripc_completion_fd(ctx);
	ck_assert_int_ge(fd, 0);
}

static void setup_datagrams(void)
{
	rig_start_with(&rig, 2, rig_datagrams, "short=udp");
	ctx = rig.ctx[0];
	fd = ripc_completion_fd(ctx);
	ck_assert_int_ge(fd, 0);
}

static void teardown(void)
{
	rig_end(&rig);
}

static bool readable(void)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return poll(&p, 1, 0) == 1;
}

static struct ripc_completion next(void)
{
	struct ripc_completion c = {.size = sizeof(c)};

	ck_assert(readable());
	OK(ripc_completion_next(ctx, &c, 0));
	ck_assert_uint_eq(c.size, sizeof(c));
	return c;
}

static void expect_nothing(void)
{
	struct ripc_completion c = {.size = sizeof(c)};

	ck_assert(!readable());
	RC(-EAGAIN, ripc_completion_next(ctx, &c, 0));
}

static uint8_t bytes[100000];

/* A long message with this datum; len 0: a call. */
static struct ripc_request *start(size_t len, void *data)
{
	struct ripc_send_options o = {.size = sizeof(o), .data = data};
	struct ripc_call_options call = {.size = sizeof(call), .data = data};
	struct iovec item = {bytes, len ? len : 8};
	struct ripc_request *r;

	if (len)
		OK(ripc_send_async(rig.s[0], RIG_ID(1), &item, 1, &o, &r));
	else
		OK(ripc_call_start(rig.s[0], RIG_ID(1), &item, 1, &call, 1000, &r));
	return r;
}

START_TEST(next__requests)
{
	struct ripc_request *r[3];
	int data[3];

	expect_nothing();
	for (unsigned i = 0; i < 3; i++)
		r[i] = start(sizeof(bytes), &data[i]);
	for (unsigned i = 0; i < 3; i++)
		ripc_message_free(rig_take(&rig, 1));
	rig_run(&rig, 100);
	for (unsigned i = 0; i < 3; i++) {
		struct ripc_completion c = next();

		ck_assert_uint_eq(c.kind, RIPC_COMPLETION_REQUEST);
		ck_assert_ptr_eq(c.request, r[i]);
		ck_assert_ptr_eq(c.data, &data[i]);
		ck_assert_uint_eq(c.dest, RIG_ID(1));
		OK(ripc_request_wait(&c.request, 0));
	}
	expect_nothing();
}
END_TEST

START_TEST(next__call)
{
	struct ripc_request *r = start(0, &rig);
	struct ripc_message *m = rig_take(&rig, 1), *reply;
	struct ripc_completion c;

	expect_nothing();
	OK(ripc_reply(m, m->items, 1, 0));
	ripc_message_free(m);
	rig_run(&rig, 100);
	c = next();
	ck_assert_ptr_eq(c.request, r);
	ck_assert_ptr_eq(c.data, &rig);
	OK(ripc_call_wait(&c.request, &reply, 0));
	ripc_message_free(reply);
	/* One that fails, in virtual time. */
	start(0, NULL);
	rig_run(&rig, 2000);
	c = next();
	ck_assert_ptr_null(c.data);
	RC(-ETIMEDOUT, ripc_call_wait(&c.request, &reply, 0));
	expect_nothing();
}
END_TEST

START_TEST(next__answer)
{
	struct ripc_send_options o = {.size = sizeof(o), .data = bytes};
	struct iovec item = {bytes, sizeof(bytes)};
	struct ripc_request *call, *r;
	struct ripc_message *m;
	struct ripc_completion c;

	OK(ripc_call_start(rig.s[1], RIG_ID(0), &item, 1, NULL, 1000, &call));
	m = rig_take(&rig, 0);
	o.flags = RIPC_MORE;
	RC(-EOPNOTSUPP, ripc_reply_start(m, &item, 1, &o, &r));
	o.flags = 0;
	OK(ripc_reply_start(m, &item, 1, &o, &r));
	ripc_message_free(m);
	rig_run(&rig, 100);
	OK(ripc_call_wait(&call, &m, 0));
	ripc_message_free(m);
	rig_run(&rig, 100);
	c = next();
	ck_assert_ptr_eq(c.request, r);
	ck_assert_ptr_eq(c.data, bytes);
	OK(ripc_request_wait(&c.request, 0));
	expect_nothing();
}
END_TEST

/* A request whose result was fetched is not reported; one that was reported is reported once. */
START_TEST(next__once)
{
	struct ripc_request *r = start(1000, NULL), *kept = start(1000, NULL);

	ripc_message_free(rig_take(&rig, 1));
	ripc_message_free(rig_take(&rig, 1));
	rig_run(&rig, 100);
	ck_assert(readable());
	OK(ripc_request_wait(&r, 0));
	ck_assert(readable());
	ck_assert_ptr_eq(next().request, kept);
	expect_nothing();
	OK(ripc_request_wait(&kept, 0));
	expect_nothing();
	/* Calls that wait for their own end are nobody else's. */
	OK(rig_long(&rig, 0, 0, 1000, 1, 1000));
	ck_assert_int_eq(rig_expect(&rig, 0, 1000, 1), RIPC_IN_POOL);
	expect_nothing();
}
END_TEST

START_TEST(next__cancelled)
{
	struct ripc_request *r = start(1000, NULL);

	RC(-ECANCELED, ripc_request_cancel(&r, 0));
	expect_nothing();
	/* Ended with its service. */
	start(1000, NULL);
	OK(ripc_service_unregister(rig.s[0]));
	rig.s[0] = NULL;
	r = next().request;
	RC(-ECANCELED, ripc_request_wait(&r, 0));
	/* Left to ripc_close(). */
}
END_TEST

START_TEST(next__waits)
{
	struct ripc_completion c = {.size = sizeof(c)};
	uint64_t begin = ripc__now(ctx);

	RC(-ETIMEDOUT, ripc_completion_next(ctx, &c, 50));
	ck_assert_uint_ge(ripc__now(ctx) - begin, 50 * RIPC__MS);
	start(1000, NULL);
	OK(ripc_completion_next(ctx, &c, 1000));
	OK(ripc_request_wait(&c.request, 0));
	c.size = 4;
	RC(-EINVAL, ripc_completion_next(ctx, &c, 0));
	RC(-EINVAL, ripc_completion_next(ctx, NULL, 0));
}
END_TEST

/* Uses up the credit of service 1. Return: messages sent. */
static unsigned use_credit(void)
{
	struct iovec item = {bytes, 400};
	unsigned sent = 0;

	rig_connect(&rig, 0, 1);
	while (!rig_dest(&rig, 0, 1)->wanted_limit_units) {
		int rc = ripc_send_short(rig.s[0], RIG_ID(1), &item, 1, NULL, 0);

		sent += !rc;
		ck_assert(!rc || rc == -EAGAIN);
		if (rc)
			rig_run(&rig, 1);
		if (readable())
			ck_assert_uint_eq(next().kind, RIPC_COMPLETION_SENDABLE);
	}
	return sent;
}

/* The credit of a service is used up: it is reported when its receiver has taken messages. */
START_TEST(next__credit)
{
	struct iovec item = {bytes, 400};
	struct ripc_completion c;
	unsigned sent = use_credit();

	RC(-EAGAIN, ripc_send_short(rig.s[0], RIG_ID(1), &item, 1, NULL, 0));
	rig_run(&rig, 1000);
	expect_nothing();
	for (unsigned i = 0; i < sent; i++)
		ripc_message_free(rig_take(&rig, 1));
	rig_run(&rig, 100);
	c = next();
	ck_assert_uint_eq(c.kind, RIPC_COMPLETION_SENDABLE);
	ck_assert_uint_eq(c.dest, RIG_ID(1));
	ck_assert_ptr_null(c.request);
	expect_nothing();
	OK(ripc_send_short(rig.s[0], RIG_ID(1), &item, 1, NULL, 0));
	ripc_message_free(rig_take(&rig, 1));
	expect_nothing();
}
END_TEST

/* Not connected yet, and nobody there. */
START_TEST(next__connection)
{
	struct iovec item = {bytes, 8};
	struct ripc_completion c;

	RC(-EAGAIN, ripc_send_short(rig.s[0], RIG_ID(1), &item, 1, NULL, 0));
	rig_run(&rig, 1000);
	c = next();
	ck_assert_uint_eq(c.kind, RIPC_COMPLETION_SENDABLE);
	OK(ripc_send_short(rig.s[0], RIG_ID(1), &item, 1, NULL, 0));
	ripc_message_free(rig_take(&rig, 1));
	RC(-EAGAIN, ripc_route_lookup(ctx, 77, NULL, 0));
	rig_run(&rig, 5000);
	ck_assert_uint_eq(next().dest, 77);
	RC(-EHOSTUNREACH, ripc_send_short(rig.s[0], 77, &item, 1, NULL, 0));
	RC(-EAGAIN, ripc_send_short(rig.s[0], 78, &item, 1, NULL, 0));
	/* Left to ripc_close(). */
}
END_TEST

/* The lane is lost while credit is waited for. */
START_TEST(next__lane_lost)
{
	struct iovec item = {bytes, 400};

	use_credit();
	rig_fail_lane(&rig, 0, 1);
	rig_run(&rig, 1000);
	ck_assert_uint_eq(next().kind, RIPC_COMPLETION_SENDABLE);
	OK(ripc_send_short(rig.s[0], RIG_ID(1), &item, 1, NULL, 0));
}
END_TEST

/* Sends to an id without waiting as long as virtual time goes on. Return: reports in 5 s. */
static unsigned reports_of(uint64_t id, unsigned flags)
{
	struct ripc_send_options o = {.size = sizeof(o), .flags = flags};
	struct iovec item = {bytes, 400};
	unsigned reports = 0;
	int rc = 0;

	for (unsigned ms = 0; ms < 5000; ms++) {
		while (!rc)
			rc = ripc_send_short(rig.s[0], id, &item, 1, &o, 0);
		ck_assert_int_eq(rc, -EAGAIN);
		rig_run(&rig, 1);
		if (!readable() || next().dest != id)
			continue;
		reports++;
		rc = 0;
	}
	return reports;
}

/* Where short messages are datagrams, a destination is not reported before it takes one, either. */
START_TEST(next__datagrams)
{
	struct iovec item = {bytes, 8};
	struct ripc__sim_config config = rig.config;

	/* The report is a look-up that failed. */
	RC(-EAGAIN, ripc_send_short(rig.s[0], 77, &item, 1, NULL, 0));
	rig_run(&rig, 5000);
	ck_assert_uint_eq(next().dest, 77);
	RC(-EHOSTUNREACH, ripc_send_short(rig.s[0], 77, &item, 1, NULL, 0));
	/* No room for a datagram: it is tried again after a millisecond. */
	OK(rig_short(&rig, 0, 1, 10, 1, 5000));
	rig_expect(&rig, 1, 10, 1);
	config.queue_full = 1;
	ripc__sim_configure(rig.net, &config);
	ck_assert_uint_ge(reports_of(RIG_ID(1), 0), 1000);
	RC(-EAGAIN, rig_short(&rig, 0, 1, 10, 2, 0));
	ripc__sim_configure(rig.net, &rig.config);
	rig_run(&rig, 10);
	ck_assert_uint_eq(next().dest, RIG_ID(1));
	OK(rig_short(&rig, 0, 1, 10, 2, 0));
	rig_expect(&rig, 1, 10, 2);
	/* Reliable ones go over the lane, which has no credit until the receiver takes some. */
	ck_assert_uint_le(reports_of(RIG_ID(1), RIPC_RELIABLE), 500);
}
END_TEST

START_TEST(fd__no_descriptors)
{
	struct rlimit before, none;

	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
	none = before;
	none.rlim_cur = 0;
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
	RC(-EMFILE, ripc_completion_fd(rig.ctx[1]));
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
	ck_assert_int_ge(ripc_completion_fd(rig.ctx[1]), 0);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("completion");
	TCase *tc = tcase_create("completion");

	test_seed();
	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, next__requests);
	tcase_add_test(tc, next__call);
	tcase_add_test(tc, next__answer);
	tcase_add_test(tc, next__once);
	tcase_add_test(tc, next__cancelled);
	tcase_add_test(tc, next__waits);
	tcase_add_test(tc, next__credit);
	tcase_add_test(tc, next__connection);
	tcase_add_test(tc, next__lane_lost);
	tcase_add_test(tc, fd__no_descriptors);
	suite_add_tcase(s, tc);
	tc = tcase_create("datagrams");
	tcase_add_checked_fixture(tc, setup_datagrams, teardown);
	tcase_add_test(tc, next__datagrams);
	suite_add_tcase(s, tc);
	return test_main("core/context/completion", s);
}
