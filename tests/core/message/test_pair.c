/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Pairs of services between which reliable messages were sent: their number, errors and end. */
#include "core/message/pair.h"
#include "core/reliable/reliables.h"

static void no_credits(struct ripc__sim_config *config)
{
	config->recv_depth = 0;
}

static void setup_pairs(void)
{
	rig_start(&rig, 2, no_credits);
}

static int send_from(struct ripc_service *s, uint64_t dest, int timeout_ms)
{
	struct iovec item = {(void *)"x", 1};

	return ripc_send_short(s, dest, &item, 1, &reliable, timeout_ms);
}

/* Nobody holds these services: no message is accepted, so none ends. */
START_TEST(pairs__send_fails)
{
	for (uint64_t id = 1; id <= RIPC__IDLE_PAIRS_MAX + 100; id++)
		RC(-EAGAIN, send_from(rig.s[0], 5000 + id, 0));
	ck_assert_uint_eq(HASH_COUNT(rig.ctx[0]->pairs), RIPC__IDLE_PAIRS_MAX);
	/* A call for each of them: those that have nothing to report are freed. */
	OK(ripc_flush(rig.s[0], 5001, 0));
	ck_assert_uint_eq(HASH_COUNT(rig.ctx[0]->pairs), RIPC__IDLE_PAIRS_MAX);
}
END_TEST

/*
 * A server whose clients die sends to none of them again, and no call reports the errors: the
 * oldest ones are forgotten.
 */
START_TEST(pairs__error_never_reported)
{
	enum { EACH = 300, ROUNDS = 4 };
	uint64_t id[EACH], first = 0;

	for (unsigned round = 0; round < ROUNDS; round++) {
		unsigned i = round ? rig_open(&rig, NULL) : 1;
		struct ripc_service *client;

		for (unsigned k = 0; k < EACH; k++) {
			OK(ripc_service_register(rig.ctx[i], RIPC_ANY_ID, 0, &client));
			id[k] = ripc_service_id(client);
			OK(send_from(rig.s[0], id[k], 1000));
			OK(ripc_flush(rig.s[0], id[k], 1000));
		}
		first = round ? first : id[0];
		ripc__sim_hold(rig.net, rig_instance(&rig, i), true);
		for (unsigned k = 0; k < EACH; k++)
			OK(send_from(rig.s[0], id[k], 1000));
		ripc__sim_kill_context(rig.net, rig.ctx[i], false);
		rig.ctx[i] = NULL;
		rig.s[i] = NULL;
		rig_run(&rig, 10000);
	}
	ck_assert_uint_eq(rig_stats(&rig, 0).reliable_unknown, EACH * ROUNDS);
	ck_assert_uint_eq(HASH_COUNT(rig.ctx[0]->pairs), RIPC__IDLE_PAIRS_MAX);
	OK(ripc_flush(rig.s[0], first, 0));
	RC(-EPIPE, ripc_flush(rig.s[0], id[EACH - 1], 0));
}
END_TEST

/* A pair that waits in ripc_flush(), or has messages under way, stays. */
START_TEST(pairs__in_use)
{
	OK(send_from(rig.s[0], RIG_ID(1), 1000));
	OK(ripc_flush(rig.s[0], RIG_ID(1), 1000));
	ripc__sim_hold(rig.net, rig_instance(&rig, 1), true);
	OK(send_from(rig.s[0], RIG_ID(1), 1000));
	for (uint64_t id = 1; id <= RIPC__IDLE_PAIRS_MAX + 100; id++)
		RC(-EAGAIN, send_from(rig.s[0], 5000 + id, 0));
	RC(-EAGAIN, ripc_flush(rig.s[0], RIG_ID(1), 0));
	ripc__sim_hold(rig.net, rig_instance(&rig, 1), false);
	OK(ripc_flush(rig.s[0], RIG_ID(1), 5000));
	ck_assert_uint_eq(HASH_COUNT(rig.ctx[0]->pairs), RIPC__IDLE_PAIRS_MAX);
}
END_TEST

/* ---- a service that was registered again ---- */

static struct ripc_service *register_again(struct ripc_service *s, uint64_t id)
{
	if (s)
		OK(ripc_service_unregister(s));
	OK(ripc_service_register(rig.ctx[0], id, 0, &s));
	return s;
}

static void kill_receiver(void)
{
	ripc__sim_kill_context(rig.net, rig.ctx[1], false);
	rig.ctx[1] = NULL;
	rig.s[1] = NULL;
}

/* The error of a message is that of the service which has sent it, not of the next with its id. */
START_TEST(registered_again__error_of_former)
{
	struct ripc_service *s = register_again(NULL, 7);

	OK(send_from(s, RIG_ID(1), 1000));
	OK(ripc_flush(s, RIG_ID(1), 1000));
	ripc__sim_hold(rig.net, rig_instance(&rig, 1), true);
	OK(send_from(s, RIG_ID(1), 1000));
	kill_receiver();
	rig_run(&rig, 20000);
	ck_assert_uint_eq(rig_stats(&rig, 0).reliable_unknown, 1);
	s = register_again(s, 7);
	OK(ripc_flush(s, RIG_ID(1), 0));
	ck_assert_uint_eq(HASH_COUNT(rig.ctx[0]->pairs), 0);
	OK(ripc_service_unregister(s));
}
END_TEST

/* The message is still under way when its service ends: the next one with its id does not wait. */
START_TEST(registered_again__message_of_former)
{
	struct ripc_service *s = register_again(NULL, 7);

	OK(send_from(s, RIG_ID(1), 1000));
	OK(ripc_flush(s, RIG_ID(1), 1000));
	ripc__sim_hold(rig.net, rig_instance(&rig, 1), true);
	OK(send_from(s, RIG_ID(1), 1000));
	s = register_again(s, 7);
	OK(ripc_flush(s, RIG_ID(1), 0));
	OK(send_from(s, RIG_ID(1), 1000));
	RC(-EAGAIN, ripc_flush(s, RIG_ID(1), 0));
	kill_receiver();
	RC(-EPIPE, ripc_flush(s, RIG_ID(1), 20000));
	OK(ripc_flush(s, RIG_ID(1), 0));
	ck_assert_uint_eq(rig_stats(&rig, 0).reliable_unknown, 2);
	/* That of the former service was freed with its message. */
	ck_assert_uint_eq(HASH_COUNT(rig.ctx[0]->pairs), 1);
	OK(ripc_service_unregister(s));
	ck_assert_uint_eq(HASH_COUNT(rig.ctx[0]->pairs), 0);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("core/message/pair");
	TCase *tc = tcase_create("pairs");

	test_seed();
	tcase_set_timeout(tc, 60);
	tcase_add_checked_fixture(tc, setup_pairs, reliable_teardown);
	tcase_add_test(tc, pairs__send_fails);
	tcase_add_test(tc, pairs__error_never_reported);
	tcase_add_test(tc, pairs__in_use);
	tcase_add_test(tc, registered_again__error_of_former);
	tcase_add_test(tc, registered_again__message_of_former);
	suite_add_tcase(suite, tc);
	return test_main("core/message/pair", suite);
}
