/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Reliable short messages of the application: their items, ripc_flush(), and their errors. */
#include "core/message/pair.h"
#include "core/reliable/reliables.h"

START_TEST(flush__all_delivered)
{
	for (uint64_t n = 1; n <= 40; n++)
		OK(send_number(RIG_ID(1), n, 1000));
	ck_assert_uint_gt(unacked(), 0);
	OK(ripc_flush(rig.s[0], RIG_ID(1), 1000));
	ck_assert_uint_eq(unacked(), 0);
	expect_numbers(1, 1, 40);
	/* Nothing was sent: nothing to wait for. */
	OK(ripc_flush(rig.s[0], RIG_ID(1), 0));
	RC(-EINVAL, ripc_flush(NULL, RIG_ID(1), 0));
}
END_TEST

START_TEST(flush__timeout)
{
	OK(send_number(RIG_ID(1), 1, 1000));
	OK(ripc_flush(rig.s[0], RIG_ID(1), 1000));
	ripc__sim_hold(rig.net, rig_instance(&rig, 1), true);
	OK(send_number(RIG_ID(1), 2, 0));
	RC(-EAGAIN, ripc_flush(rig.s[0], RIG_ID(1), 0));
	RC(-ETIMEDOUT, ripc_flush(rig.s[0], RIG_ID(1), 50));
	ripc__sim_hold(rig.net, rig_instance(&rig, 1), false);
	OK(ripc_flush(rig.s[0], RIG_ID(1), 1000));
	expect_numbers(1, 1, 2);
}
END_TEST

/* ---- items ---- */

/* Items keep their number and lengths. */
START_TEST(items__many)
{
	char text[300];
	struct iovec items[3] = {{text, 0}, {text, 7}, {text, sizeof(text)}};
	struct ripc_message *m;

	memset(text, 'x', sizeof(text));
	OK(ripc_send(rig.s[0], RIG_ID(1), items, 3, &reliable, 1000));
	OK(ripc_flush(rig.s[0], RIG_ID(1), 1000));
	m = rig_take(&rig, 1);
	ck_assert_uint_eq(m->nitems, 3);
	ck_assert_uint_eq(m->is_long, 0);
	for (unsigned i = 0; i < 3; i++) {
		ck_assert_uint_eq(m->items[i].iov_len, items[i].iov_len);
		ck_assert_int_eq(memcmp(text, m->items[i].iov_base, items[i].iov_len), 0);
	}
	ripc_message_free(m);
}
END_TEST

START_TEST(items__too_long)
{
	static char text[RIPC__RELIABLE_WINDOW_BYTES];
	struct iovec item = {text, sizeof(text)};

	RC(-EMSGSIZE, ripc_send_short(rig.s[0], RIG_ID(1), &item, 1, &reliable, 1000));
	ck_assert_ptr_nonnull(strstr(ripc_error_detail(), "ripc_send_long"));
	/* ripc_send() makes a long message of it, which is delivered when the call returns. */
	OK(ripc_send(rig.s[0], RIG_ID(1), &item, 1, &reliable, 1000));
	ripc_message_free(rig_take(&rig, 1));
}
END_TEST

/* To a service of the same context. */
START_TEST(self__delivered)
{
	struct ripc_service *s;

	OK(ripc_service_register(rig.ctx[0], 77, 0, &s));
	for (uint64_t n = 1; n <= 10; n++)
		OK(send_number(77, n, 1000));
	OK(ripc_flush(rig.s[0], 77, 1000));
	for (uint64_t n = 1; n <= 10; n++)
		ck_assert_uint_eq(take_number(s), n);
	OK(ripc_service_unregister(s));
}
END_TEST

/* ---- errors ---- */

START_TEST(peer_died__unknown)
{
	OK(send_number(RIG_ID(1), 1, 1000));
	OK(ripc_flush(rig.s[0], RIG_ID(1), 1000));
	ripc__sim_hold(rig.net, rig_instance(&rig, 1), true);
	OK(send_number(RIG_ID(1), 2, 1000));
	ripc__sim_kill_context(rig.net, rig.ctx[1], false);
	rig.ctx[1] = NULL;
	rig.s[1] = NULL;
	RC(-EPIPE, ripc_flush(rig.s[0], RIG_ID(1), 20000));
	ck_assert_ptr_nonnull(strstr(ripc_error_detail(), "1001"));
	/* Reported once. */
	OK(ripc_flush(rig.s[0], RIG_ID(1), 0));
	ck_assert_uint_eq(rig_stats(&rig, 0).reliable_unknown, 1);
}
END_TEST

/* The next send reports it, and sends nothing; the one after it is sent. */
START_TEST(peer_died__reported_by_next_send)
{
	unsigned i;
	uint64_t n = 3;

	OK(send_number(RIG_ID(1), 1, 1000));
	OK(ripc_flush(rig.s[0], RIG_ID(1), 1000));
	ripc__sim_hold(rig.net, rig_instance(&rig, 1), true);
	OK(send_number(RIG_ID(1), 2, 1000));
	ripc__sim_kill_context(rig.net, rig.ctx[1], false);
	rig.ctx[1] = NULL;
	rig.s[1] = NULL;
	i = rig_open(&rig, NULL);
	OK(ripc_service_unregister(rig.s[i]));
	OK(ripc_service_register(rig.ctx[i], RIG_ID(1), 0, &rig.s[i]));
	RC(-EPIPE, send_number(RIG_ID(1), n, 20000));
	OK(send_number(RIG_ID(1), n, 5000));
	OK(ripc_flush(rig.s[0], RIG_ID(1), 5000));
	expect_numbers(i, n, n);
}
END_TEST

/* Nobody holds the service any more. */
START_TEST(service__gone)
{
	uint64_t n;

	OK(send_number(RIG_ID(1), 1, 1000));
	OK(ripc_flush(rig.s[0], RIG_ID(1), 1000));
	for (n = 2; n <= 5; n++)
		OK(send_number(RIG_ID(1), n, 1000));
	OK(ripc_service_unregister(rig.s[1]));
	rig.s[1] = NULL;
	RC(-EHOSTUNREACH, ripc_flush(rig.s[0], RIG_ID(1), 60000));
	ck_assert_uint_eq(rig_stats(&rig, 0).reliable_unknown, 0);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("core/message/reliable_send");
	TCase *tc = tcase_create("reliable_send");

	test_seed();
	tcase_set_timeout(tc, 120);
	tcase_add_checked_fixture(tc, reliable_setup, reliable_teardown);
	tcase_add_test(tc, flush__all_delivered);
	tcase_add_test(tc, flush__timeout);
	tcase_add_test(tc, items__many);
	tcase_add_test(tc, items__too_long);
	tcase_add_test(tc, self__delivered);
	tcase_add_test(tc, peer_died__unknown);
	tcase_add_test(tc, peer_died__reported_by_next_send);
	tcase_add_test(tc, service__gone);
	suite_add_tcase(suite, tc);
	return test_main("core/message/reliable_send", suite);
}
