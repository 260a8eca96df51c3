/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Services: ids, conflicts, the queue, and how one ends. test_service_fd.c has the descriptor. */
#include "core/rig.h"
#include "transitions.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

static struct rig rig;
static struct ripc *ctx;

static bool readable(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return poll(&p, 1, 0) == 1;
}

#define TO(state) (1u << RIPC__SERVICE_##state)

DEFINE_SET_STATE(struct ripc_service, ripc__service_set_state)

START_TEST(set_state__transitions)
{
	static const unsigned allowed[RIPC__SERVICE_STATES] = {
		[RIPC__SERVICE_ENDED] = TO(CLAIMING),
		[RIPC__SERVICE_CLAIMING] = TO(ACTIVE) | TO(CONFLICT),
		[RIPC__SERVICE_ACTIVE] = TO(TAKEN_OVER) | TO(CLOSING),
		[RIPC__SERVICE_TAKEN_OVER] = TO(CLOSING),
	};

	check_transitions(set_state, allowed);
}
END_TEST

START_TEST(register__ids)
{
	struct ripc_service *s = NULL;

	RC(-EINVAL, ripc_service_register(ctx, 0, 0, &s));
	RC(-EINVAL, ripc_service_register(ctx, RIPC_ID_LIMIT, 0, &s));
	RC(-EINVAL, ripc_service_register(ctx, RIPC_ANY_ID - 1, 0, &s));
	RC(-EINVAL, ripc_service_register(ctx, 5, 0, NULL));
	RC(-EOPNOTSUPP, ripc_service_register(ctx, 5, 1 << 7, &s));
	RC(-EOPNOTSUPP, ripc_service_register(ctx, 5, 1u << 31, &s));
	ck_assert_ptr_null(s);
	OK(ripc_service_register(ctx, 1, 0, &s));
	ck_assert_uint_eq(ripc_service_id(s), 1);
	OK(ripc_service_register(ctx, RIPC_ID_LIMIT - 1, 0, &s));
	ck_assert_uint_eq(ripc_service_id(s), RIPC_ID_LIMIT - 1);
	ck_assert_uint_eq(ripc_service_id(NULL), 0);
}
END_TEST

START_TEST(register__any_id)
{
	struct ripc_service *s[20];

	for (unsigned i = 0; i < 20; i++) {
		OK(ripc_service_register(ctx, RIPC_ANY_ID, 0, &s[i]));
		ck_assert_uint_ge(ripc_service_id(s[i]), RIPC_ID_LIMIT);
		ck_assert_uint_ne(ripc_service_id(s[i]), RIPC_ANY_ID);
		for (unsigned k = 0; k < i; k++)
			ck_assert_uint_ne(ripc_service_id(s[i]), ripc_service_id(s[k]));
	}
}
END_TEST

static uint64_t drawn[16];
static unsigned ndrawn, next_drawn;

static uint64_t draw(void *arg)
{
	(void)arg;
	return drawn[next_drawn++ % ndrawn];
}

/* An id that is held is drawn again, a limited number of times. One service is registered. */
START_TEST(register__any_id_drawn_again)
{
	struct ripc_service *s[3] = {NULL};
	uint64_t (*real)(void *arg) = ctx->hooks.random;
	unsigned before = HASH_COUNT(ctx->services);

	ctx->hooks.random = draw;
	drawn[0] = 1;
	ndrawn = 1;
	OK(ripc_service_register(ctx, RIPC_ANY_ID, 0, &s[0]));
	ck_assert_uint_eq(next_drawn, 1);
	ck_assert_uint_eq(HASH_COUNT(ctx->services), before + 1);
	/* Held, held, free. */
	drawn[1] = 1;
	drawn[2] = 2;
	ndrawn = 3;
	next_drawn = 0;
	OK(ripc_service_register(ctx, RIPC_ANY_ID, 0, &s[1]));
	ck_assert_uint_eq(next_drawn, 3);
	ck_assert_uint_eq(ripc_service_id(s[1]), ripc_service_id(s[0]) + 1);
	ck_assert_uint_eq(HASH_COUNT(ctx->services), before + 2);
	ndrawn = 1;
	next_drawn = 0;
	RC(-EADDRINUSE, ripc_service_register(ctx, RIPC_ANY_ID, 0, &s[2]));
	ck_assert_uint_gt(next_drawn, 3);
	ck_assert_uint_lt(next_drawn, 100);
	/* An id that was asked for is not tried again. */
	next_drawn = 0;
	RC(-EADDRINUSE, ripc_service_register(ctx, RIG_ID(0), 0, &s[2]));
	ck_assert_uint_eq(next_drawn, 0);
	ck_assert_ptr_null(s[2]);
	ctx->hooks.random = real;
}
END_TEST

START_TEST(register__any_id_does_not_wait)
{
	uint64_t before = ripc__sim_now(rig.net);
	struct ripc_service *s;

	OK(ripc_service_register(ctx, RIPC_ANY_ID, 0, &s));
	OK(ripc_service_register(ctx, RIPC_ANY_ID, RIPC_TAKEOVER, &s));
	ck_assert_uint_eq(ripc__sim_now(rig.net), before);
	/* Others find it all the same. */
	OK(ripc_route_lookup(rig.ctx[1], ripc_service_id(s), NULL, 1000));
}
END_TEST

START_TEST(register__conflict_in_the_same_context)
{
	struct ripc_service *s = NULL;

	RC(-EADDRINUSE, ripc_service_register(ctx, RIG_ID(0), 0, &s));
	ck_assert(strstr(ripc_error_detail(), "1000") != NULL);
	ck_assert_ptr_null(s);
	/* The first one is as it was. */
	rig_exchange(&rig, 0, 1);
}
END_TEST

START_TEST(register__conflict_with_another_context)
{
	struct ripc_service *s = NULL;

	/* The holder's claim must not be in flight when it leaves: that would be a conflict too. */
	rig_run(&rig, 100);
	RC(-EADDRINUSE, ripc_service_register(ctx, RIG_ID(1), 0, &s));
	ck_assert(ripc_error_detail()[0]);
	ck_assert_ptr_null(ripc__service_find(ctx, RIG_ID(1)));
	OK(ripc_service_unregister(rig.s[1]));
	rig_run(&rig, 100);
	OK(ripc_service_register(ctx, RIG_ID(1), 0, &s));
}
END_TEST

START_TEST(find__only_active_ones)
{
	ck_assert_ptr_eq(ripc__service_find(ctx, RIG_ID(0)), rig.s[0]);
	ck_assert_ptr_null(ripc__service_find(ctx, RIG_ID(1)));
	rig.s[0]->state = RIPC__SERVICE_CLOSING;
	ck_assert_ptr_null(ripc__service_find(ctx, RIG_ID(0)));
	/* The resolver has announced it. */
	rig.s[0]->state = RIPC__SERVICE_CLAIMING;
	ck_assert_ptr_eq(ripc__service_find(ctx, RIG_ID(0)), rig.s[0]);
	ck_assert_int_eq(rig.s[0]->state, RIPC__SERVICE_ACTIVE);
}
END_TEST

/*
 * Messages already here are received, then the conflict is reported; senders switch to the other
 * holder.
 */
START_TEST(conflict__detected_late)
{
	struct ripc_stats stats = {.size = sizeof(stats)};
	struct ripc_message *m;

	OK(rig_short(&rig, 1, 0, 100, 7, 1000));
	rig_run(&rig, 10);
	ripc__service_conflict(ctx, RIG_ID(0), false, "somebody else");
	ripc__service_conflict(ctx, RIG_ID(0), false, "somebody else");
	ripc__service_conflict(ctx, 4711, false, "nobody's");
	ripc__service_split(ctx, 4711, "nobody's");
	ripc__service_registered(ctx, 4711);
	ck_assert_int_eq(rig.s[0]->state, RIPC__SERVICE_TAKEN_OVER);
	ck_assert_ptr_null(ripc__service_find(ctx, RIG_ID(0)));
	rig_expect(&rig, 0, 100, 7);
	RC(-ESHUTDOWN, ripc_receive(rig.s[0], &m, 1000));
	ck_assert_ptr_nonnull(strstr(ripc_error_detail(), "held it for longer"));
	ck_assert_ptr_nonnull(strstr(ripc_error_detail(), "somebody else"));
	OK(ripc_service_stats(rig.s[0], &stats));
	ck_assert_uint_eq(stats.services_lost, 1);
	ck_assert_uint_eq(rig_stats(&rig, 0).services_lost, 1);
	ck_assert_uint_eq(stats.service_conflicts, 0);
}
END_TEST

/*
 * On both sides of a split network: the older registration (of the one, of the other) stays, and
 * both contexts get an event.
 */
START_TEST(split__the_older_one_stays)
{
	struct ripc *older = rig.ctx[_i], *younger = rig.ctx[!_i];
	struct ripc_service *first, *second;
	struct ripc_stats stats = {.size = sizeof(stats)};
	struct ripc_message *m;

	ripc__sim_partition(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1), true);
	OK(ripc_service_register(older, 42, 0, &first));
	rig_run(&rig, 2000);
	OK(ripc_service_register(younger, 42, 0, &second));
	rig_run(&rig, 2000);
	ck_assert_int_ge(ripc_service_fd(second), 0);
	ck_assert(!readable(ripc_service_fd(second)));
	ripc__sim_partition(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1), false);
	rig_run(&rig, 100000);
	ck_assert(readable(ripc_service_fd(second)));
	RC(-ESHUTDOWN, ripc_receive(second, &m, 1000));
	ck_assert_ptr_nonnull(strstr(ripc_error_detail(), "held it for longer"));
	ck_assert_ptr_nonnull(strstr(ripc_error_detail(), "service 42 is held by instance"));
	OK(ripc_service_stats(second, &stats));
	ck_assert_uint_eq(stats.service_conflicts, 1);
	ck_assert_uint_eq(stats.services_lost, 1);
	ck_assert_uint_eq(rig_stats(&rig, !_i).service_conflicts, 1);
	ck_assert_uint_eq(rig_stats(&rig, !_i).services_lost, 1);
	RC(-EAGAIN, ripc_receive(first, &m, 0));
	OK(ripc_service_stats(first, &stats));
	ck_assert_uint_eq(stats.service_conflicts, 1);
	ck_assert_uint_eq(stats.services_lost, 0);
	ck_assert_uint_eq(rig_stats(&rig, _i).service_conflicts, 1);
	/* The context that lost the service finds the other one. */
	OK(ripc_send_long(rig.s[!_i], 42, &(struct iovec){(void *)"there", 6}, 1, NULL, 10000));
	OK(ripc_receive(first, &m, 1000));
	ripc_message_free(m);
	OK(ripc_service_unregister(second));
}
END_TEST

START_TEST(receive__timeouts)
{
	uint64_t before = ripc__sim_now(rig.net);
	struct ripc_message *m = NULL;

	RC(-EAGAIN, ripc_receive(rig.s[0], &m, 0));
	ck_assert_uint_eq(ripc__sim_now(rig.net), before);
	RC(-ETIMEDOUT, ripc_receive(rig.s[0], &m, 100));
	ck_assert_uint_eq(ripc__sim_now(rig.net), before + 100 * RIPC__MS);
	RC(-EINVAL, ripc_receive(NULL, &m, 0));
	RC(-EINVAL, ripc_receive(rig.s[0], NULL, 0));
	ck_assert_ptr_null(m);
}
END_TEST

/* A call that does not wait looks at the network once. */
START_TEST(receive__no_wait_polls)
{
	struct ripc_message *m;

	rig_connect(&rig, 1, 0);
	OK(rig_short(&rig, 1, 0, 10, 1, 1000));
	/* The message arrives, and nobody polls for it. */
	for (unsigned i = 0; i < 100; i++)
		ripc__sim_step(rig.net, ripc__sim_now(rig.net) + RIPC__MS);
	ck_assert_uint_eq(rig.s[0]->queued, 0);
	OK(ripc_receive(rig.s[0], &m, 0));
	ripc_message_free(m);
}
END_TEST

/* A call that comes while the context is being closed takes nothing, and does not count. */
START_TEST(receive__while_closing)
{
	struct ripc_message *m = NULL;

	OK(rig_short(&rig, 1, 0, 10, 1, 1000));
	rig_run(&rig, 10);
	ck_assert_uint_eq(rig.s[0]->queued, 1);
	ctx->closing = true;
	RC(-ESHUTDOWN, ripc_receive(rig.s[0], &m, 0));
	ck_assert_ptr_null(m);
	ck_assert_uint_eq(rig.s[0]->queued, 1);
	ck_assert_uint_eq(rig.s[0]->calls, 0);
	ctx->closing = false;
	rig_expect(&rig, 0, 10, 1);
}
END_TEST

START_TEST(receive__no_wait)
{
	struct ripc_message *m;

	OK(rig_short(&rig, 1, 0, 10, 1, 5000));
	rig_run(&rig, 1);
	OK(ripc_receive(rig.s[0], &m, 0));
	ripc_message_free(m);
}
END_TEST

START_TEST(deliver__counted)
{
	struct ripc_stats stats = {.size = sizeof(stats)};

	OK(rig_short(&rig, 1, 0, 10, 1, 5000));
	OK(rig_long(&rig, 1, 0, 20000, 2, 5000));
	rig_run(&rig, 5);
	OK(ripc_service_stats(rig.s[0], &stats));
	ck_assert_uint_eq(stats.short_received, 1);
	ck_assert_uint_eq(stats.long_received, 1);
	ck_assert_uint_eq(stats.bytes_received, 20010);
	ck_assert_uint_eq(stats.queued, 2);
	ck_assert_uint_eq(rig_stats(&rig, 0).queued, 2);
	rig_expect(&rig, 0, 10, 1);
	rig_expect(&rig, 0, 20000, 2);
	ck_assert_uint_eq(rig_stats(&rig, 0).queued, 0);
	ck_assert_uint_eq(rig.s[0]->queued_bytes, 0);
	ck_assert_uint_eq(rig.s[0]->queued_long_bytes, 0);
}
END_TEST

/* Datagrams have no credit: those above the window are dropped and counted. */
START_TEST(deliver__datagrams_above_the_window)
{
	enum { N = 1000, LEN = 1000 };
	struct ripc_stats stats;

	rig_end(&rig);
	rig_start_with(&rig, 2, rig_datagrams, "short=udp");
	ctx = rig.ctx[0];
	rig_connect(&rig, 1, 0);
	for (unsigned i = 0; i < N; i++) {
		OK(rig_short(&rig, 1, 0, LEN, i, 1000));
		rig_run(&rig, 1);
	}
	stats = rig_stats(&rig, 0);
	ck_assert_uint_gt(stats.dropped_queue_full, N / 2);
	ck_assert_uint_eq(stats.dropped_queue_full + rig.s[0]->queued, N);
	ck_assert_uint_le(rig.s[0]->queued_bytes, ctx->opt.service_window + 2 * LEN);
}
END_TEST

START_TEST(unregister__unread_messages_are_counted)
{
	OK(rig_short(&rig, 1, 0, 10, 1, 5000));
	OK(rig_long(&rig, 1, 0, 20000, 2, 5000));
	rig_run(&rig, 5);
	OK(ripc_service_unregister(rig.s[0]));
	ck_assert_uint_eq(rig_stats(&rig, 0).dropped_unread, 2);
	ck_assert_uint_eq(rig_stats(&rig, 0).queued, 0);
	RC(-EINVAL, ripc_service_unregister(NULL));
}
END_TEST

/* Their credit goes back: the same sender can fill the next service with this id. */
START_TEST(unregister__credit_goes_back)
{
	for (int round = 0; round < 5; round++) {
		for (uint64_t i = 0; i < 30; i++)
			OK(rig_short(&rig, 1, 0, 7000, i, 5000));
		rig_run(&rig, 5);
		ck_assert_uint_eq(rig.s[0]->queued, 30);
		OK(ripc_service_unregister(rig.s[0]));
		OK(ripc_service_register(ctx, RIG_ID(0), 0, &rig.s[0]));
	}
	ck_assert_uint_eq(rig_stats(&rig, 0).lanes_lost, 0);
}
END_TEST

START_TEST(unregister__messages_for_it_are_refused)
{
	rig_exchange(&rig, 1, 0);
	OK(ripc_service_unregister(rig.s[0]));
	rig_run(&rig, 5);
	RC(-EHOSTUNREACH, rig_short(&rig, 1, 0, 10, 1, 3000));
	OK(ripc_service_register(ctx, RIG_ID(0), 0, &rig.s[0]));
	rig_exchange(&rig, 1, 0);
}
END_TEST

/*
 * As one of a thread that was about to take the lock: it finds the service closed, not its memory
 * gone.
 */
START_TEST(unregister__late_call)
{
	struct ripc_service *s = rig.s[0];
	struct iovec item = {"late", 4};
	struct ripc_message *m;

	OK(ripc_service_unregister(s));
	RC(-ESHUTDOWN, ripc_receive(s, &m, 1000));
	RC(-ESHUTDOWN, ripc_send_short(s, RIG_ID(1), &item, 1, NULL, 1000));
	RC(-ESHUTDOWN, ripc_send_long(s, RIG_ID(1), &item, 1, NULL, 1000));
	RC(-ESHUTDOWN, ripc_service_unregister(s));
	OK(ripc_service_register(ctx, RIG_ID(0), 0, &rig.s[0]));
	rig_exchange(&rig, 1, 0);
}
END_TEST

/* A service may be given up inside the world's turn, while its messages are on their way. */
static void without_reads(struct ripc__sim_config *config)
{
	config->caps_off = RIPC__CAP_READ;
}

/* The memory of a service that a silent peer can still reach, and a lane without any. */
enum { REQUEST, RETURN_BUFFER, ARRIVAL, NOTHING, REACHES };

/*
 * A service is closed while a peer is silent: only the lane over which that peer can reach memory
 * of the service is closed, after a while.
 */
START_TEST(unregister__silent_peer)
{
	static uint8_t data[MIB];
	struct ripc_request *r = NULL;
	struct iovec item = {"x", 1}, back;
	struct ripc_send_options options = {
		.size = sizeof(options), .nreturn_buffers = 1, .return_buffers = &back};
	uint64_t before;
	uint8_t *buf;

	if (_i == ARRIVAL) {
		rig_end(&rig);
		rig_start(&rig, 2, without_reads);
		ctx = rig.ctx[0];
	}
	rig_open(&rig, NULL);
	rig_connect(&rig, 0, 1);
	rig_connect(&rig, 0, 2);
	rig_run(&rig, 50);
	buf = ripc_buf_alloc(ctx, 1000);
	if (_i == RETURN_BUFFER) {
		back = (struct iovec){buf, 1000};
		OK(ripc_send_short(rig.s[0], RIG_ID(1), &item, 1, &options, 1000));
		ripc_message_free(rig_take(&rig, 1));
	}
	if (_i == ARRIVAL) {
		/* Memory is granted, and nothing written yet. */
		r = rig_begin(&rig, 1, 0, data, sizeof(data));
		while (ripc__list_empty(&rig.s[0]->rndvs_in))
			ripc__sim_run(rig.net, 1000);
	}
	ripc__sim_hold(rig.net, rig_instance(&rig, 1), true);
	if (_i == REQUEST)
		r = rig_begin(&rig, 0, 1, data, sizeof(data));
	/* The other lane has work, too: of another service. */
	ripc__sim_hold(rig.net, rig_instance(&rig, 2), true);
	before = ripc__sim_now(rig.net);
	OK(ripc_service_unregister(rig.s[0]));
	rig.s[0] = NULL;
	if (_i == NOTHING) {
		ck_assert_uint_eq(ripc__sim_now(rig.net), before);
	} else {
		ck_assert_uint_ge(ripc__sim_now(rig.net) - before, 100 * RIPC__MS);
		ck_assert_uint_lt(ripc__sim_now(rig.net) - before, 150 * RIPC__MS);
	}
	ck_assert_int_eq(rig_lane(&rig, 0, 1) != NULL, _i == NOTHING);
	ck_assert_ptr_nonnull(rig_lane(&rig, 0, 2));
	ck_assert_uint_eq(rig_stats(&rig, 0).lanes_lost, _i != NOTHING);
	OK(ripc_buf_free(ctx, buf));
	ripc__sim_hold(rig.net, rig_instance(&rig, 1), false);
	ripc__sim_hold(rig.net, rig_instance(&rig, 2), false);
	if (r)
		ripc_request_cancel(&r, 1000);
	OK(ripc_service_register(ctx, RIG_ID(0), 0, &rig.s[0]));
	rig_exchange(&rig, 0, 1);
	rig_exchange(&rig, 0, 2);
	ck_assert_uint_eq(rig_stats(&rig, 0).lanes_lost, _i != NOTHING);
}
END_TEST

START_TEST(unregister__again_and_again)
{
	uint64_t rng = test_seed();

	for (int i = 0; i < 200; i++) {
		rig_short(&rig, 1, 0, test_random(&rng) % 2000, 1, 50);
		if (test_random(&rng) & 1)
			rig_long(&rig, 1, 0, test_random(&rng) % 60000, 1, 3);
		ripc__sim_run(rig.net, test_random(&rng) % 100000);
		OK(ripc_service_unregister(rig.s[0]));
		ripc__sim_run(rig.net, test_random(&rng) % 100000);
		OK(ripc_service_register(ctx, RIG_ID(0), 0, &rig.s[0]));
	}
	rig_run(&rig, 3000);
	rig_exchange(&rig, 1, 0);
}
END_TEST

static void expect_name(int want, int rc, const char *name)
{
	RC(want, rc);
	ck_assert_msg(strstr(ripc_error_detail(), name) != NULL, "%s is not in: %s", name,
		      ripc_error_detail());
}

/* Texts have the name of an own service, one in the cache, and one that ripc_id() was asked for. */
START_TEST(text__has_the_name)
{
	struct iovec item = {(void *)"x", 1};
	struct ripc_service *s;
	struct ripc_message *m;
	uint64_t id = ripc_id("test/left");
	struct ripc_route route = {.size = sizeof(route)};
	char other[32];

	OK(ripc_register_name(ctx, "test/left", 0, &s));
	ck_assert_uint_eq(ripc_id("test/right"), ripc__name_id("test/right", 10));
	expect_name(-EHOSTUNREACH,
		    ripc_send_short(rig.s[1], ripc_id("test/right"), &item, 1, NULL, 100),
		    " (\"test/right\"): ");
	expect_name(-ENOENT, ripc_route_get(rig.ctx[1], id, &route), " (\"test/left\")");
	/* Other names take the places of the last ones. */
	for (unsigned i = 0; i < 20 * RIPC__NAMES_RECENT; i++) {
		snprintf(other, sizeof(other), "test/%u", i);
		ck_assert_uint_ne(ripc_id(other), 0);
	}
	ck_assert(!ripc__name_recall(id, (char[RIPC__NAME_MAX + 1]){0}));
	expect_name(-ETIMEDOUT, ripc_receive(s, &m, 1), " (\"test/left\") ");
	OK(ripc_route_lookup(rig.ctx[1], id, NULL, 1000));
	item.iov_len = RIPC_GROUP_MESSAGE_MAX * KIB;
	expect_name(-EMSGSIZE, ripc_send_short(rig.s[1], id, &item, 1, NULL, 100),
		    " (\"test/left\"): ");
	expect_name(-ETIMEDOUT, ripc_receive(rig.s[0], &m, 1), "service 1000 in");
}
END_TEST

static void setup(void)
{
	rig_start(&rig, 2, NULL);
	ctx = rig.ctx[0];
}

static void teardown(void)
{
	rig_end(&rig);
}

int main(void)
{
	Suite *suite = suite_create("core/service/service");
	TCase *tc = tcase_create("service");

	test_seed();
	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, set_state__transitions);
	tcase_add_test(tc, register__ids);
	tcase_add_test(tc, register__any_id);
	tcase_add_test(tc, register__any_id_drawn_again);
	tcase_add_test(tc, register__any_id_does_not_wait);
	tcase_add_test(tc, register__conflict_in_the_same_context);
	tcase_add_test(tc, register__conflict_with_another_context);
	tcase_add_test(tc, find__only_active_ones);
	tcase_add_test(tc, conflict__detected_late);
	tcase_add_loop_test(tc, split__the_older_one_stays, 0, 2);
	tcase_add_test(tc, text__has_the_name);
	tcase_add_test(tc, receive__timeouts);
	tcase_add_test(tc, receive__no_wait_polls);
	tcase_add_test(tc, receive__while_closing);
	tcase_add_test(tc, receive__no_wait);
	tcase_add_test(tc, deliver__counted);
	tcase_add_test(tc, deliver__datagrams_above_the_window);
	tcase_add_test(tc, unregister__unread_messages_are_counted);
	tcase_add_test(tc, unregister__credit_goes_back);
	tcase_add_test(tc, unregister__messages_for_it_are_refused);
	tcase_add_test(tc, unregister__late_call);
	tcase_add_loop_test(tc, unregister__silent_peer, 0, REACHES);
	tcase_add_test(tc, unregister__again_and_again);
	suite_add_tcase(suite, tc);
	return test_main("core/service/service", suite);
}
