/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The arguments of calls and answers: bounds, refusals with their reason, errors, time left. */
#include "core/call/calls.h"

#include <limits.h>

static uint8_t byte;
static struct iovec item = {&byte, 1};

static void expect(int want, int rc, const char *text)
{
	ck_assert_int_eq(rc, want);
	ck_assert_msg(strstr(ripc_error_detail(), text) != NULL, "%s: no %s", ripc_error_detail(),
		      text);
}

/* A request that waits for its answer at the server. */
static struct ripc_message *request(int timeout_ms, struct ripc_request **r)
{
	unsigned n = servers[0].nkept;

	servers[0].keep = true;
	OK(start(RIG_ID(1), n + 1, 8, NULL, timeout_ms, r));
	await_kept(n + 1);
	return servers[0].kept[n];
}

static void expect_options(int want, const struct ripc_call_options *o, const char *text)
{
	struct ripc_message *reply = (struct ripc_message *)&byte;
	struct ripc_request *r = NULL;

	expect(want, ripc_call_start(rig.s[0], RIG_ID(1), &item, 1, o, 5000, &r), text);
	ck_assert_ptr_null(r);
	expect(want, ripc_call(rig.s[0], RIG_ID(1), &item, 1, o, &reply, 5000), text);
	ck_assert_ptr_null(reply);
}

START_TEST(call__options)
{
	struct iovec buffers[RIPC_RETURN_BUFFERS_MAX + 1] = {{&byte, 1}};
	struct ripc_call_options o = {.size = sizeof(o) - 1};

	expect_options(-EINVAL, &o, "struct ripc_call_options is");
	o.size = sizeof(o);
	o.flags = RIPC_IDEMPOTENT << 1;
	expect_options(-EOPNOTSUPP, &o, "a call takes no other than RIPC_IDEMPOTENT");
	o.flags = RIPC_IDEMPOTENT;
	o.nreply_buffers = RIPC_RETURN_BUFFERS_MAX + 1;
	o.reply_buffers = buffers;
	expect_options(-EINVAL, &o, "17 reply buffers: at most 16");
	o.nreply_buffers = 1;
	o.reply_buffers = NULL;
	expect_options(-EINVAL, &o, "1 reply buffers: there is no array of them");
	ck_assert_uint_eq(rig_stats(&rig, 0).calls, 0);
}
END_TEST

START_TEST(call__outputs)
{
	expect(-EINVAL, ripc_call_start(rig.s[0], RIG_ID(1), &item, 1, NULL, 5000, NULL),
	       "nowhere to store the request");
	expect(-EINVAL, ripc_call(rig.s[0], RIG_ID(1), &item, 1, NULL, NULL, 5000),
	       "nowhere to store the reply");
	expect(-EINVAL, ripc_reply_start((struct ripc_message *)&byte, &item, 1, NULL, NULL),
	       "nowhere to store the request");
	expect(-EINVAL, ripc_reply(NULL, &item, 1, 0), "no request");
	expect(-EINVAL, ripc_message_cancelled(NULL), "no request");
	ck_assert_int_eq(ripc_message_deadline(NULL), -1);
}
END_TEST

/* The caller gets the error as a negative number. The largest is 4095. */
START_TEST(reply_error__bounds)
{
	static const int wrong[] = {0, 4096, -4096, INT_MAX, INT_MIN},
			 errors[] = {1, -1, 4095, -4095};

	for (unsigned i = 0; i < 4; i++) {
		struct ripc_request *r;
		struct ripc_message *m = request(5000, &r);

		for (unsigned k = 0; k < 5; k++)
			expect(-EINVAL, ripc_reply_error(m, wrong[k]), "is no error number");
		OK(ripc_reply_error(m, errors[i]));
		RC(errors[i] < 0 ? errors[i] : -errors[i], result(&r, 1));
	}
}
END_TEST

START_TEST(reply_start__options)
{
	struct ripc_send_options o = {.size = sizeof(o), .data = &byte};
	struct ripc_request *r, *answer = NULL;
	struct ripc_message *m = request(5000, &r);

	o.flags = RIPC_RELIABLE;
	expect(-EOPNOTSUPP, ripc_reply_start(m, &item, 1, &o, &answer), "neither flags nor");
	o.flags = 0;
	o.nreturn_buffers = 1;
	o.return_buffers = &item;
	expect(-EOPNOTSUPP, ripc_reply_start(m, &item, 1, &o, &answer), "neither flags nor");
	o.nreturn_buffers = 0;
	o.size--;
	expect(-EINVAL, ripc_reply_start(m, &item, 1, &o, &answer), "ripc_send_options");
	o.size++;
	item.iov_len = 8;
	item.iov_base = m->items[0].iov_base;
	OK(ripc_reply_start(m, &item, 1, &o, &answer));
	OK(result(&r, 1));
	OK(ripc_request_wait(&answer, 5000));
}
END_TEST

/* The time left is rounded up, 0 after the deadline, and -1 without one. */
START_TEST(deadline__left)
{
	struct ripc_request *r[3];
	struct ripc_message *m = request(1000, &r[0]), *longest = request(INT_MAX, &r[1]),
			    *endless = request(-1, &r[2]);
	int left = ripc_message_deadline(m);

	ck_assert_int_le(left, 1000);
	ck_assert_int_gt(left, 990);
	ripc__sim_run(rig.net, 1);
	ck_assert_int_eq(ripc_message_deadline(m), left);
	rig_run(&rig, (unsigned)left / 2);
	ck_assert_int_le(ripc_message_deadline(m), left - left / 2 + 1);
	ck_assert_int_gt(ripc_message_deadline(longest), INT_MAX - 10000);
	ck_assert_int_eq(ripc_message_deadline(endless), -1);
	ck_assert_int_eq(ripc_message_cancelled(m), 0);
	rig_run(&rig, 2000);
	ck_assert_int_eq(ripc_message_deadline(m), 0);
	ck_assert_int_eq(ripc_message_cancelled(m), 1);
	RC(-ETIME, result(&r[0], 1));
	for (unsigned i = 1; i < 3; i++) {
		OK(reply_kept(i));
		OK(result(&r[i], i + 1));
	}
}
END_TEST

/* Other messages have no caller. */
START_TEST(message__no_request)
{
	struct ripc_message *m;

	OK(ripc_service_register(rig.ctx[1], 77, 0, &servers[0].s));
	OK(rig_short(&rig, 0, 1, 8, 1, 5000));
	m = rig_take(&rig, 1);
	ck_assert_int_eq(ripc_message_deadline(m), -1);
	ck_assert_int_eq(ripc_message_cancelled(m), 0);
	RC(-EINVAL, ripc_reply(m, &item, 1, 0));
	ripc_message_free(m);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("core/message/call");
	TCase *tc = tcase_create("call");

	test_seed();
	tcase_add_checked_fixture(tc, calls_setup, calls_teardown);
	tcase_add_test(tc, call__options);
	tcase_add_test(tc, call__outputs);
	tcase_add_test(tc, reply_error__bounds);
	tcase_add_test(tc, reply_start__options);
	tcase_add_test(tc, deadline__left);
	tcase_add_test(tc, message__no_request);
	suite_add_tcase(suite, tc);
	return test_main("core/message/call", suite);
}
