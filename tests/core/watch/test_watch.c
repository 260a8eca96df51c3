/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Watches: one event for each, after the messages of the holder, with the right cause. */
#include "core/rig.h"

#include "core/watch/watch.h"

static struct rig rig;

static void setup(void)
{
	rig_start(&rig, 3, NULL);
}

static void teardown(void)
{
	rig_end(&rig);
}

/* The next message of service i is this event of service j, from the context `instance`. */
static void expect_event(unsigned i, enum ripc_event event, uint64_t dest, const uint8_t *instance)
{
	static const uint8_t none[16];
	struct ripc_message *m = rig_take(&rig, i);

	ck_assert_uint_eq(m->event, event);
	ck_assert_uint_eq(m->source, dest);
	ck_assert_uint_eq(m->dest, RIG_ID(i));
	ck_assert_mem_eq(m->instance, instance ? instance : none, 16);
	ck_assert_uint_eq(m->nitems, 1);
	ck_assert_uint_gt(m->items[0].iov_len, 0);
	ck_assert_uint_eq(m->call, 0);
	ripc_message_free(m);
}

START_TEST(watch__died)
{
	uint8_t instance[16];

	memcpy(instance, rig_instance(&rig, 1), 16);
	OK(ripc_watch(rig.s[0], RIG_ID(1)));
	rig_run(&rig, 3000);
	rig_expect_none(&rig, 0);
	ck_assert(!ripc__list_empty(&rig_peer(&rig, 0, 1)->lists->watches));
	ripc__sim_kill_context(rig.net, rig.ctx[1], true);
	rig.ctx[1] = NULL;
	rig_run(&rig, 10000);
	expect_event(0, RIPC_EVENT_DIED, RIG_ID(1), instance);
	rig_run(&rig, 10000);
	rig_expect_none(&rig, 0);
}
END_TEST

START_TEST(watch__closed_context)
{
	uint8_t instance[16];

	memcpy(instance, rig_instance(&rig, 1), 16);
	OK(ripc_watch(rig.s[0], RIG_ID(1)));
	rig_run(&rig, 1000);
	rig_close(&rig, 1);
	rig_run(&rig, 10000);
	expect_event(0, RIPC_EVENT_DIED, RIG_ID(1), instance);
}
END_TEST

/* The event comes behind what the holder has sent, although the resolver knows it at once. */
START_TEST(watch__moved_after_messages)
{
	OK(ripc_watch(rig.s[0], RIG_ID(1)));
	rig_run(&rig, 1000);
	OK(rig_short(&rig, 1, 0, 100, 1, 1000));
	OK(rig_short(&rig, 1, 0, 100, 2, 1000));
	OK(ripc_service_unregister(rig.s[1]));
	rig.s[1] = NULL;
	rig_run(&rig, 1000);
	rig_expect(&rig, 0, 100, 1);
	rig_expect(&rig, 0, 100, 2);
	expect_event(0, RIPC_EVENT_MOVED, RIG_ID(1), rig_instance(&rig, 1));
	rig_expect_none(&rig, 0);
}
END_TEST

START_TEST(watch__taken_over)
{
	struct ripc_service *next;

	OK(ripc_watch(rig.s[0], RIG_ID(1)));
	OK(ripc_watch(rig.s[2], RIG_ID(1)));
	rig_run(&rig, 1000);
	OK(ripc_service_register(rig.ctx[2], RIG_ID(1), RIPC_TAKEOVER, &next));
	rig_run(&rig, 3000);
	expect_event(0, RIPC_EVENT_MOVED, RIG_ID(1), rig_instance(&rig, 1));
	expect_event(2, RIPC_EVENT_MOVED, RIG_ID(1), rig_instance(&rig, 1));
	/* The next watch is of the new holder. */
	OK(ripc_watch(rig.s[0], RIG_ID(1)));
	rig_run(&rig, 1000);
	rig_expect_none(&rig, 0);
	OK(ripc_service_unregister(next));
	rig_run(&rig, 1000);
	expect_event(0, RIPC_EVENT_MOVED, RIG_ID(1), rig_instance(&rig, 2));
}
END_TEST

START_TEST(watch__not_found)
{
	OK(ripc_watch(rig.s[0], 77));
	rig_run(&rig, 10000);
	expect_event(0, RIPC_EVENT_NOT_FOUND, 77, NULL);
	rig_expect_none(&rig, 0);
}
END_TEST

/* The holder is known, and refuses the first connection: it is resolved again, and found. */
START_TEST(watch__holder_refuses_once)
{
	rig_connect(&rig, 0, 1);
	ripc__lane_close(rig_lane(&rig, 0, 1));
	rig_run(&rig, 10);
	ck_assert_ptr_null(rig_lane(&rig, 0, 1));
	ck_assert_int_eq(rig_dest(&rig, 0, 1)->state, RIPC__DEST_KNOWN);
	ripc__sim_fail_connect_at(rig.net, 1);
	OK(ripc_watch(rig.s[0], RIG_ID(1)));
	rig_run(&rig, 3000);
	rig_expect_none(&rig, 0);
	ck_assert(!ripc__list_empty(&rig_peer(&rig, 0, 1)->lists->watches));
}
END_TEST

START_TEST(watch__own_context)
{
	struct ripc_service *other;

	OK(ripc_service_register(rig.ctx[0], 78, 0, &other));
	OK(ripc_watch(rig.s[0], 78));
	rig_run(&rig, 1000);
	rig_expect_none(&rig, 0);
	OK(ripc_service_unregister(other));
	rig_run(&rig, 1000);
	expect_event(0, RIPC_EVENT_MOVED, 78, rig_instance(&rig, 0));
}
END_TEST

/* A lost lane is no lost peer; the watch goes over to the next lane. */
START_TEST(watch__survives_lane)
{
	OK(ripc_watch(rig.s[0], RIG_ID(1)));
	rig_run(&rig, 1000);
	rig_fail_lane(&rig, 0, 1);
	rig_run(&rig, 3000);
	rig_expect_none(&rig, 0);
	ck_assert_uint_eq(rig_lane(&rig, 1, 0)->nwatched, 1);
	OK(ripc_service_unregister(rig.s[1]));
	rig.s[1] = NULL;
	rig_run(&rig, 1000);
	expect_event(0, RIPC_EVENT_MOVED, RIG_ID(1), rig_instance(&rig, 1));
}
END_TEST

/* A watch keeps the lane of its holder, so there is none that nobody asked for. */
START_TEST(watch__not_by_messages)
{
	rig_exchange(&rig, 0, 1);
	ck_assert_uint_eq(rig_lane(&rig, 1, 0)->nwatched, 0);
	OK(ripc_watch(rig.s[0], RIG_ID(1)));
	rig_run(&rig, 100);
	ck_assert_uint_eq(rig_lane(&rig, 1, 0)->nwatched, 1);
}
END_TEST

/* The service ended while there was no lane: the WATCH on the next one is answered at once. */
START_TEST(watch__ended_between_lanes)
{
	OK(ripc_watch(rig.s[0], RIG_ID(1)));
	rig_run(&rig, 1000);
	rig_fail_lane(&rig, 0, 1);
	OK(ripc_service_unregister(rig.s[1]));
	rig.s[1] = NULL;
	rig_run(&rig, 3000);
	expect_event(0, RIPC_EVENT_MOVED, RIG_ID(1), rig_instance(&rig, 1));
}
END_TEST

START_TEST(watch__ends)
{
	struct ripc_service *watcher;

	/* One that ends before its holder is found, and two after. */
	OK(ripc_watch(rig.s[0], RIG_ID(1)));
	OK(ripc_unwatch(rig.s[0], RIG_ID(1)));
	OK(ripc_watch(rig.s[0], RIG_ID(1)));
	OK(ripc_watch(rig.s[0], RIG_ID(1)));
	OK(ripc_service_register(rig.ctx[0], 79, 0, &watcher));
	OK(ripc_watch(watcher, RIG_ID(1)));
	rig_run(&rig, 1000);
	OK(ripc_unwatch(rig.s[0], RIG_ID(1)));
	OK(ripc_unwatch(rig.s[0], RIG_ID(2)));
	OK(ripc_service_unregister(watcher));
	ck_assert(ripc__list_empty(&rig_peer(&rig, 0, 1)->lists->watches));
	OK(ripc_service_unregister(rig.s[1]));
	rig.s[1] = NULL;
	rig_run(&rig, 1000);
	rig_expect_none(&rig, 0);
	/* Left to ripc_close(). */
	OK(ripc_watch(rig.s[0], RIG_ID(2)));
	OK(ripc_watch(rig.s[0], 77));
}
END_TEST

START_TEST(watch__each_call_one_event)
{
	OK(ripc_watch(rig.s[0], RIG_ID(1)));
	OK(ripc_watch(rig.s[0], RIG_ID(1)));
	rig_run(&rig, 1000);
	OK(ripc_service_unregister(rig.s[1]));
	rig.s[1] = NULL;
	rig_run(&rig, 1000);
	expect_event(0, RIPC_EVENT_MOVED, RIG_ID(1), rig_instance(&rig, 1));
	expect_event(0, RIPC_EVENT_MOVED, RIG_ID(1), rig_instance(&rig, 1));
	rig_expect_none(&rig, 0);
	ck_assert_uint_eq(rig_stats(&rig, 0).short_received, 0);
}
END_TEST

/*
 * The resolver's report that the service moved is lost. The next watch asks again: it is one of the
 * present holder.
 */
START_TEST(watch__moved_report_lost)
{
	struct ripc__sim_config config;
	struct ripc_service *next;

	OK(ripc_watch(rig.s[0], RIG_ID(1)));
	rig_run(&rig, 1000);
	config = *ripc__sim_config(rig.net);
	config.datagram_loss = 1;
	ripc__sim_configure(rig.net, &config);
	OK(ripc_service_unregister(rig.s[1]));
	rig.s[1] = NULL;
	rig_run(&rig, 100);
	config.datagram_loss = 0;
	ripc__sim_configure(rig.net, &config);
	expect_event(0, RIPC_EVENT_MOVED, RIG_ID(1), rig_instance(&rig, 1));
	OK(ripc_service_register(rig.ctx[2], RIG_ID(1), 0, &next));
	OK(ripc_watch(rig.s[0], RIG_ID(1)));
	rig_run(&rig, 1000);
	rig_expect_none(&rig, 0);
	OK(ripc_service_unregister(next));
	rig_run(&rig, 1000);
	expect_event(0, RIPC_EVENT_MOVED, RIG_ID(1), rig_instance(&rig, 2));
}
END_TEST

/* The resolver knows the holder, but no connection to it comes up. */
START_TEST(watch__holder_unreachable)
{
	struct ripc__sim_config config = *ripc__sim_config(rig.net);
	uint8_t instance[16];
	uint64_t start = ripc__sim_now(rig.net);

	memcpy(instance, rig_instance(&rig, 1), 16);
	config.connect_failure = 1;
	ripc__sim_configure(rig.net, &config);
	OK(ripc_watch(rig.s[0], RIG_ID(1)));
	OK(ripc_watch(rig.s[0], RIG_ID(1)));
	expect_event(0, RIPC_EVENT_DIED, RIG_ID(1), instance);
	ck_assert_uint_gt(ripc__sim_now(rig.net) - start, 1500 * RIPC__MS);
	ck_assert_uint_lt(ripc__sim_now(rig.net) - start, 4000 * RIPC__MS);
	expect_event(0, RIPC_EVENT_DIED, RIG_ID(1), instance);
	rig_run(&rig, 10000);
	rig_expect_none(&rig, 0);
}
END_TEST

/*
 * The holder connected by itself, so its addresses are not known. When the lane is lost, they are
 * looked for: the holder is not lost.
 */
START_TEST(watch__holder_connected_itself)
{
	OK(rig_short(&rig, 1, 0, 10, 1, 1000));
	rig_expect(&rig, 0, 10, 1);
	OK(rig_short(&rig, 0, 1, 10, 2, 1000));
	rig_expect(&rig, 1, 10, 2);
	OK(ripc_watch(rig.s[0], RIG_ID(1)));
	rig_run(&rig, 1000);
	ck_assert_uint_eq(rig_lane(&rig, 1, 0)->nwatched, 1);
	rig_fail_lane(&rig, 0, 1);
	rig_run(&rig, 10000);
	rig_expect_none(&rig, 0);
	ck_assert_uint_eq(rig_lane(&rig, 1, 0)->nwatched, 1);
}
END_TEST

/*
 * Both watch each other. One has a shorter limit, and gives the other one up before the network
 * heals: that one learns it, although it could wait longer.
 */
START_TEST(watch__holder_gave_up)
{
	unsigned hasty = rig_open(&rig, "peer_timeout_ms=500");

	OK(ripc_watch(rig.s[0], RIG_ID(hasty)));
	OK(ripc_watch(rig.s[hasty], RIG_ID(0)));
	rig_run(&rig, 1000);
	ripc__sim_partition(rig.net, rig_instance(&rig, 0), rig_instance(&rig, hasty), true);
	rig_run(&rig, 1200);
	expect_event(hasty, RIPC_EVENT_DIED, RIG_ID(0), rig_instance(&rig, 0));
	rig_expect_none(&rig, 0);
	ripc__sim_partition(rig.net, rig_instance(&rig, 0), rig_instance(&rig, hasty), false);
	rig_run(&rig, 10000);
	expect_event(0, RIPC_EVENT_DIED, RIG_ID(hasty), rig_instance(&rig, hasty));
	/* The next watches find it alive. */
	OK(ripc_watch(rig.s[0], RIG_ID(hasty)));
	OK(ripc_watch(rig.s[hasty], RIG_ID(0)));
	rig_run(&rig, 10000);
	rig_expect_none(&rig, 0);
	rig_expect_none(&rig, hasty);
}
END_TEST

void *__real_malloc(size_t len);
void *__real_calloc(size_t n, size_t len);
void *__wrap_malloc(size_t len);
void *__wrap_calloc(size_t n, size_t len);

static unsigned fail_at; /* the allocation that fails, from 1; 0: none */

static bool fails(void)
{
	return fail_at && !--fail_at;
}

void *__wrap_malloc(size_t len)
{
	return fails() ? NULL : __real_malloc(len);
}

void *__wrap_calloc(size_t n, size_t len)
{
	return fails() ? NULL : __real_calloc(n, len);
}

/* No memory for each part of a watch: there is none then, and the next call begins one. */
START_TEST(watch__without_memory)
{
	unsigned failed = 0;
	int rc;

	for (unsigned n = 1;; n++) {
		fail_at = n;
		rc = ripc_watch(rig.s[0], RIG_ID(1));
		if (fail_at)
			break;
		/* Some parts are not needed at once. */
		if (!rc)
			OK(ripc_unwatch(rig.s[0], RIG_ID(1)));
		else
			ck_assert_int_eq(rc, -ENOMEM);
		failed += rc != 0;
	}
	fail_at = 0;
	OK(rc);
	/* The watch, its message, and the room for the text. */
	ck_assert_uint_ge(failed, 3);
	rig_run(&rig, 1000);
	rig_close(&rig, 1);
	rig_run(&rig, 1000);
	ripc_message_free(rig_take(&rig, 0));
	rig_expect_none(&rig, 0);
}
END_TEST

START_TEST(watch__bad_arguments)
{
	RC(-EINVAL, ripc_watch(NULL, 1));
	RC(-EINVAL, ripc_watch(rig.s[0], 0));
	RC(-EINVAL, ripc_unwatch(rig.s[0], RIPC_ANY_ID));
}
END_TEST

int main(void)
{
	Suite *s = suite_create("watch");
	TCase *tc = tcase_create("watch");

	test_seed();
	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, watch__died);
	tcase_add_test(tc, watch__closed_context);
	tcase_add_test(tc, watch__moved_after_messages);
	tcase_add_test(tc, watch__taken_over);
	tcase_add_test(tc, watch__not_found);
	tcase_add_test(tc, watch__holder_refuses_once);
	tcase_add_test(tc, watch__own_context);
	tcase_add_test(tc, watch__survives_lane);
	tcase_add_test(tc, watch__not_by_messages);
	tcase_add_test(tc, watch__ended_between_lanes);
	tcase_add_test(tc, watch__ends);
	tcase_add_test(tc, watch__each_call_one_event);
	tcase_add_test(tc, watch__moved_report_lost);
	tcase_add_test(tc, watch__holder_unreachable);
	tcase_add_test(tc, watch__holder_connected_itself);
	tcase_add_test(tc, watch__holder_gave_up);
	tcase_add_test(tc, watch__without_memory);
	tcase_add_test(tc, watch__bad_arguments);
	suite_add_tcase(s, tc);
	return test_main("core/watch/watch", s);
}
