/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Peers and destinations: what is remembered of a peer's messages, when all is forgotten, and how often one is asked for. */
#include "rig.h"

static struct rig rig;
static struct ripc *ctx;

/* ---- which messages are over ---- */

START_TEST(finish__against_a_simple_model)
{
	enum { N = 20000 };
	static bool over[N + RIPC__REQUESTS_MAX + 1];
	uint8_t instance[16] = {1};
	struct ripc__peer *p = ripc__peer_get(ctx, instance);
	uint64_t rng = test_seed(), below = p->finished_below;
	const uint64_t first = below;

	while (below < N) {
		if (test_random(&rng) % 4 == 0) {
			below += test_random(&rng) % (test_random(&rng) % 50 ? 20 : 3000);
			ripc__peer_finish_below(p, below);
			/* Backwards means nothing. */
			ripc__peer_finish_below(p, below - test_random(&rng) % below);
		} else {
			uint64_t id = below + test_random(&rng) % RIPC__REQUESTS_MAX;

			OK(ripc__peer_finish(p, id));
			over[id < N + RIPC__REQUESTS_MAX ? id : 0] = true;
		}
		for (uint64_t id = first; id < below && id < below + 3; id += 1 + below / 3)
			ck_assert(ripc__peer_finished(p, id));
		for (uint64_t id = below; id < below + RIPC__REQUESTS_MAX && id < N; id++)
			ck_assert_int_eq(ripc__peer_finished(p, id), over[id]);
	}
}
END_TEST

START_TEST(finish__large_numbers)
{
	uint8_t instance[16] = {1};
	struct ripc__peer *p = ripc__peer_get(ctx, instance);

	OK(ripc__peer_finish(p, p->finished_below + 3));
	ripc__peer_finish_below(p, UINT64_MAX - 10);
	ck_assert(ripc__peer_finished(p, UINT64_MAX - 11));
	for (uint64_t id = UINT64_MAX - 10; id != 0; id++)
		ck_assert(!ripc__peer_finished(p, id));
	OK(ripc__peer_finish(p, UINT64_MAX));
	ck_assert(ripc__peer_finished(p, UINT64_MAX));
	ck_assert(!ripc__peer_finished(p, UINT64_MAX - 1));
}
END_TEST

/* ---- tables ---- */

START_TEST(get__one_of_each)
{
	uint8_t instance[16] = {1};

	ck_assert_ptr_null(ripc__dest_find(ctx, 5));
	ck_assert_ptr_eq(ripc__dest_get(ctx, 5), ripc__dest_get(ctx, 5));
	ck_assert_ptr_eq(ripc__dest_find(ctx, 5), ripc__dest_get(ctx, 5));
	ck_assert_ptr_null(ripc__peer_find(ctx, instance));
	ck_assert_ptr_eq(ripc__peer_get(ctx, instance), ripc__peer_get(ctx, instance));
	ck_assert_uint_eq(ctx->stats.peers, 1);
}
END_TEST

START_TEST(sweep__tables_shrink)
{
	for (unsigned i = 0; i < 5000; i++) {
		uint8_t instance[16] = {(uint8_t)i, (uint8_t)(i >> 8), 1};

		ck_assert_ptr_nonnull(ripc__dest_get(ctx, 10000 + i));
		ck_assert_ptr_nonnull(ripc__peer_get(ctx, instance));
	}
	ck_assert_uint_eq(ctx->stats.peers, 5000);
	rig_run(&rig, RIPC__IDLE_MS - 1000);
	ck_assert_uint_eq(ctx->stats.peers, 5000);
	rig_run(&rig, 2 * RIPC__IDLE_MS);
	ck_assert_uint_eq(ctx->stats.peers, 0);
	ck_assert_uint_eq(HASH_COUNT(ctx->dests), 0);
	/* The table itself, too, and nobody looks after an empty one. */
	ck_assert_ptr_null(ctx->peers);
	ck_assert_ptr_null(ctx->dests);
	ck_assert_uint_eq(ctx->next_sweep_ns, RIPC__NEVER);
}
END_TEST

START_TEST(sweep__not_what_has_a_lane)
{
	rig_exchange(&rig, 0, 1);
	rig_run(&rig, 3 * RIPC__IDLE_MS);
	ck_assert_ptr_nonnull(rig_lane(&rig, 0, 1));
	ck_assert_ptr_nonnull(rig_dest(&rig, 0, 1));
	ck_assert_uint_eq(rig_stats(&rig, 0).lanes_opened, 1);
	rig_exchange(&rig, 0, 1);
	/* When that goes, so do they. */
	rig_close(&rig, 1);
	rig_run(&rig, 3 * RIPC__IDLE_MS);
	ck_assert_ptr_null(ctx->peers);
	ck_assert_ptr_null(ctx->dests);
}
END_TEST

START_TEST(sweep__not_what_is_waited_for)
{
	struct iovec item = {"x", 1};
	struct ripc_request *r;

	OK(ripc_start(rig.s[0], 4711, &item, 1, NULL, &r));
	rig_run(&rig, 3 * RIPC__IDLE_MS);
	ck_assert_ptr_nonnull(ripc__dest_find(ctx, 4711));
	RC(-ECANCELED, ripc_request_cancel(&r, 0));
	rig_run(&rig, 3 * RIPC__IDLE_MS);
	ck_assert_ptr_null(ripc__dest_find(ctx, 4711));
}
END_TEST

START_TEST(sweep__those_who_died)
{
	for (int i = 0; i < 5; i++) {
		unsigned k = rig_open(&rig, NULL);

		rig_exchange(&rig, 0, k);
		ripc__sim_kill_context(rig.net, rig.ctx[k], i & 1);
		rig.ctx[k] = NULL;
	}
	rig_run(&rig, 3 * RIPC__IDLE_MS);
	/* Those that died without a word are still thought to be there: nothing hangs on them. */
	ck_assert_uint_le(ctx->stats.peers, 2);
	ck_assert_uint_eq(ctx->stats.lanes, ctx->stats.peers);
}
END_TEST

/* ---- destinations that cannot be reached ---- */

START_TEST(reach__asked_for_more_and_more_rarely)
{
	struct iovec item = {"x", 1};
	struct ripc_request *r;
	struct ripc__dest *d;
	unsigned failures;

	OK(ripc_start(rig.s[0], 4711, &item, 1, NULL, &r));
	rig_run(&rig, 20000);
	d = ripc__dest_find(ctx, 4711);
	failures = d->failures;
	/* A look-up of a second, and a pause of up to a second. */
	ck_assert_uint_ge(failures, 5);
	ck_assert_uint_le(failures, 25);
	rig_run(&rig, 20000);
	ck_assert_uint_ge(d->failures - failures, 5);
	ck_assert_uint_le(d->failures - failures, 22);
	/* It is found soon after it has come. */
	{
		struct ripc_service *late;

		OK(ripc_register(rig.ctx[1], 4711, 0, &late));
		OK(ripc_request_wait(&r, 3000));
		ck_assert_uint_eq(d->failures, 0);
	}
}
END_TEST

START_TEST(reach__says_what_was_tried)
{
	RC(-EHOSTUNREACH, ripc_lookup(ctx, 4711, NULL, 3000));
	ck_assert(strstr(ripc_detail(), "4711") != NULL);
	RC(-EAGAIN, ripc_lookup(ctx, 4712, NULL, 0));
	RC(-EINVAL, ripc_lookup(ctx, 0, NULL, 0));
	RC(-EINVAL, ripc_lookup(ctx, RIPC_ANY_ID, NULL, 0));
}
END_TEST

START_TEST(reach__own_services)
{
	struct ripc_service *own;
	struct iovec item = {"x", 1};
	struct ripc_message *m;
	struct ripc_route route;

	OK(ripc_register(ctx, 77, 0, &own));
	OK(ripc_send_short(rig.s[0], 77, &item, 1, NULL, 1000));
	OK(ripc_receive(own, &m, 1000));
	ripc_message_free(m);
	OK(ripc_query(ctx, 77, &route));
	ck_assert_str_eq(route.transport, "self");
	OK(ripc_send_short(own, 77, &item, 1, NULL, 1000));
	OK(ripc_receive(own, &m, 1000));
	ck_assert_uint_eq(m->source, 77);
	ripc_message_free(m);
	OK(ripc_unregister(own));
	/* The next one may be lost like any short message; then it is known. */
	ripc_send_short(rig.s[0], 77, &item, 1, NULL, 100);
	rig_run(&rig, 5);
	RC(-EHOSTUNREACH, ripc_send_short(rig.s[0], 77, &item, 1, NULL, 3000));
}
END_TEST

START_TEST(gone__found_elsewhere)
{
	rig_exchange(&rig, 0, 1);
	OK(ripc_unregister(rig.s[1]));
	rig.n++;
	{
		struct ripc__hooks hooks;

		ripc__sim_hooks(rig.net, &hooks);
		OK(ripc__open_hooked(&rig.ctx[2], NULL, &hooks));
		OK(ripc__sim_attach(rig.net, rig.ctx[2]));
	}
	OK(ripc_register(rig.ctx[2], RIG_ID(1), 0, &rig.s[2]));
	OK(rig_short(&rig, 0, 1, 10, 1, 5000));
	rig_expect(&rig, 2, 10, 1);
	ck_assert_mem_eq(rig_dest(&rig, 0, 1)->peer->instance, rig.ctx[2]->instance, 16);
}
END_TEST

START_TEST(unreachable__only_its_own_requests_fail)
{
	static uint8_t data[MIB];
	struct ripc_request *r[2];

	rig_open(&rig, NULL);
	rig_exchange(&rig, 0, 1);
	rig_exchange(&rig, 0, 2);
	ripc__sim_partition(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1), true);
	r[0] = rig_begin(&rig, 0, 1, data, MIB);
	r[1] = rig_begin(&rig, 0, 2, data, MIB);
	OK(ripc_request_wait(&r[1], 5000));
	RC(-EPIPE, ripc_request_wait(&r[0], 20000));
	ripc_message_free(rig_take(&rig, 2));
	ck_assert_uint_ge(rig_stats(&rig, 0).peers_lost, 1);
	ripc__sim_partition(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1), false);
	rig_run(&rig, 5000);
	rig_exchange(&rig, 0, 1);
	rig_exchange(&rig, 0, 2);
}
END_TEST

START_TEST(offers__bounded_per_destination)
{
	uint8_t *buf = ripc_buf_alloc(ctx, 10 * 400);
	struct iovec item = {"x", 1}, back;
	struct ripc_send_options options = {.nreturns = 1, .returns = &back};

	for (unsigned i = 0; i < 400; i++) {
		back = (struct iovec){buf + 10 * i, 10};
		OK(ripc_send_short(rig.s[0], RIG_ID(1), &item, 1, &options, 5000));
		ripc_message_free(rig_take(&rig, 1));
	}
	ck_assert_uint_eq(rig_dest(&rig, 1, 0)->noffers, RIPC__OFFERS_MAX);
	ck_assert_uint_eq(ctx->memory.nreturns, 400);
	OK(ripc_buf_free(ctx, buf));
	rig_run(&rig, 50);
	ck_assert_uint_eq(ctx->memory.nreturns, 0);
	ck_assert_uint_eq(rig_dest(&rig, 1, 0)->noffers, 0);
}
END_TEST

/* ---- short messages as datagrams ---- */

static int no_connection(struct ripc__transport *t, const uint8_t *addr, size_t addrlen,
			 const void *priv, size_t privlen, void *user, struct ripc__ep **ep)
{
	return ripc__fail(-ENOMEM, "no memory for a connection");
}

/* The lane is gone, and the attempt at another fails at once: the peer is given up in the midst of a send. */
START_TEST(shoot__the_peer_goes_with_the_attempt)
{
	struct ripc__transport_ops ops;
	const struct ripc__transport_ops *real;
	struct ripc__lane *lane;

	OK(rig_short(&rig, 0, 1, 100, 1, 5000));
	rig_expect(&rig, 1, 100, 1);
	/* The lane comes up in its own time. */
	for (int i = 0; i < 1000 && !rig_lane(&rig, 0, 1); i++)
		rig_run(&rig, 1);
	lane = rig_lane(&rig, 0, 1);
	ck_assert_ptr_nonnull(lane);
	real = ctx->tp[lane->tp].ops;
	ops = *real;
	ops.connect = no_connection;
	ctx->tp[lane->tp].ops = &ops;
	ripc__lane_close(lane);
	RC(-EAGAIN, rig_short(&rig, 0, 1, 100, 2, 0));
	ck_assert_ptr_null(rig_dest(&rig, 0, 1)->peer);
	for (unsigned i = 0; i < RIPC__TP_MAX; i++)
		if (ctx->tp[i].ops == &ops)
			ctx->tp[i].ops = real;
	rig_run(&rig, 5000);
	OK(rig_short(&rig, 0, 1, 100, 3, 5000));
	rig_expect(&rig, 1, 100, 3);
}
END_TEST

/* A long message that nobody has taken yet is bounded by itself, and leaves datagrams their room. */
START_TEST(datagram__behind_a_long_message)
{
	OK(rig_long(&rig, 0, 1, MIB, 1, 5000));
	OK(rig_short(&rig, 0, 1, 100, 2, 5000));
	rig_run(&rig, 50);
	ck_assert_uint_eq(rig_stats(&rig, 1).dropped_queue_full, 0);
	rig_expect(&rig, 1, MIB, 1);
	rig_expect(&rig, 1, 100, 2);
}
END_TEST

static void datagrams(struct ripc__sim_config *config)
{
	config->datagram = true;
}

static void setup_datagrams(void)
{
	rig_init(&rig, datagrams);
	rig_open(&rig, "short=udp");
	rig_open(&rig, "short=udp");
	ctx = rig.ctx[0];
}

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
	Suite *suite = suite_create("core/peer");
	TCase *tc = tcase_create("peer");

	test_seed();
	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_set_timeout(tc, 120);
	tcase_add_test(tc, finish__against_a_simple_model);
	tcase_add_test(tc, finish__large_numbers);
	tcase_add_test(tc, get__one_of_each);
	tcase_add_test(tc, sweep__tables_shrink);
	tcase_add_test(tc, sweep__not_what_has_a_lane);
	tcase_add_test(tc, sweep__not_what_is_waited_for);
	tcase_add_test(tc, sweep__those_who_died);
	tcase_add_test(tc, reach__asked_for_more_and_more_rarely);
	tcase_add_test(tc, reach__says_what_was_tried);
	tcase_add_test(tc, reach__own_services);
	tcase_add_test(tc, gone__found_elsewhere);
	tcase_add_test(tc, unreachable__only_its_own_requests_fail);
	tcase_add_test(tc, offers__bounded_per_destination);
	suite_add_tcase(suite, tc);
	tc = tcase_create("datagrams");
	tcase_add_checked_fixture(tc, setup_datagrams, teardown);
	tcase_set_timeout(tc, 120);
	tcase_add_test(tc, shoot__the_peer_goes_with_the_attempt);
	tcase_add_test(tc, datagram__behind_a_long_message);
	suite_add_tcase(suite, tc);
	return test_main("core/peer", suite);
}
