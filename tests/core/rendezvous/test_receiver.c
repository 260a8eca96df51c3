/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Long messages, the receiver's side: memory, the three ways to get the bytes, and messages that
 * wait at their sender.
 */
#include "transfers.h"
#include "core/memory/bounce.h"
#include "transitions.h"

/* A message of 1 MiB takes one read and 5 ms. */
static void read_slow_in_one(struct ripc__sim_config *config)
{
	config->bandwidth = 200 * 1000 * 1000;
}

/* ---- states ---- */

#define TO(state) (1u << RIPC__RNDV_##state)

DEFINE_SET_STATE(struct ripc__rndv, ripc__rndv_set_state)

START_TEST(set_state__transitions)
{
	static const unsigned allowed[RIPC__RNDV_STATES] = {
		[RIPC__RNDV_WAITING] = TO(TRANSFER) | TO(SUSPENDED) | TO(DRAINING),
		[RIPC__RNDV_TRANSFER] = TO(READY) | TO(SUSPENDED) | TO(DRAINING),
	};

	check_transitions(set_state, allowed);
}
END_TEST

/* ---- the three ways ---- */

START_TEST(receive__every_length)
{
	static const size_t lens[] = {0,       1,    2,       1023,        1024,  1025,
				      8100,    8192, 8193,    65535,       65536, 65537,
				      MIB - 1, MIB,  MIB + 1, 3 * MIB + 17};

	rig_restart(&rig, 2, configs[_i]);
	for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
		OK(rig_long(&rig, 0, 1, lens[i], i, 5000));
		rig_expect(&rig, 1, lens[i], i);
	}
}
END_TEST

START_TEST(receive__many_items)
{
	struct iovec items[RIPC_ITEMS_MAX];
	struct ripc_message *m;

	rig_restart(&rig, 2, configs[_i]);
	for (unsigned i = 0; i < RIPC_ITEMS_MAX; i++)
		items[i] = (struct iovec){data, (i * 977) % 9000};
	OK(ripc_send_long(rig.s[0], RIG_ID(1), items, RIPC_ITEMS_MAX, NULL, 5000));
	m = rig_take(&rig, 1);
	ck_assert_uint_eq(m->nitems, RIPC_ITEMS_MAX);
	for (unsigned i = 0; i < RIPC_ITEMS_MAX; i++) {
		ck_assert_uint_eq(m->items[i].iov_len, items[i].iov_len);
		rig_verify(m->items[i].iov_base, items[i].iov_len, 1);
	}
	ripc_message_free(m);
}
END_TEST

START_TEST(receive__into_every_memory_kind)
{
	uint8_t *window;

	rig_restart(&rig, 2, configs[_i]);
	window = ripc_buf_alloc(rig.ctx[1], 200000);
	OK(ripc_window_add(rig.ctx[1], NULL, window, 200000));
	OK(rig_long(&rig, 0, 1, 150000, 1, 5000));
	ck_assert_int_eq(rig_expect(&rig, 1, 150000, 1), RIPC_IN_WINDOW);
	OK(rig_long(&rig, 0, 1, 150000, 2, 5000));
	ck_assert_int_eq(rig_expect(&rig, 1, 150000, 2), RIPC_IN_POOL);
	/* The rest of the window is as it was. */
	rig_verify(window, 150000, 1);
}
END_TEST

/* Nobody but the peer, and it only as long as needed, may touch the memory. */
START_TEST(receive__no_registration_leak)
{
	struct ripc__sim_counters counters;

	rig_restart(&rig, 2, configs[_i]);
	OK(rig_long(&rig, 0, 1, 300000, 1, 5000));
	ripc__sim_counters(rig.net, &counters);
	ck_assert_uint_eq(counters.regions, 0);
	rig_expect(&rig, 1, 300000, 1);
}
END_TEST

START_TEST(start__registration_fails)
{
	rig_restart(&rig, 2, configs[_i]);
	rig_connect(&rig, 0, 1);
	/* The sender's is the first, the receiver's the second. */
	ripc__sim_fail_reg_at(rig.net, 2);
	RC(-ENOBUFS, rig_long(&rig, 0, 1, 300000, 1, 5000));
	ck_assert(strstr(ripc_error_detail(), "no memory") != NULL);
	OK(rig_long(&rig, 0, 1, 300000, 2, 5000));
	rig_expect(&rig, 1, 300000, 2);
}
END_TEST

/*
 * The first read, and the third, when others are out. All memory that lay idle goes, and it is
 * tried once more.
 */
START_TEST(post__read_fails_once)
{
	struct ripc__region *other;
	struct ripc__memory *m;

	rig_restart(&rig, 2, read_slow_expensive);
	rig_connect(&rig, 0, 1);
	m = rig.ctx[1]->memory;
	OK(rig_long(&rig, 0, 1, 300000, 1, 5000));
	rig_expect(&rig, 1, 300000, 1);
	/*
	 * Not only the buffer for the next message: also one of another size, and a bounce buffer.
	 */
	other = ripc__pool_get(rig.ctx[1], 1000000, RIPC__REGION_APP);
	ck_assert_ptr_nonnull(other);
	ripc__pool_put(rig.ctx[1], other);
	ripc__bounce_put(ripc__bounce_get(rig_lane(&rig, 1, 0), 5000, 0));
	ck_assert_uint_gt(m->cached_bytes, 1000000);
	ck_assert_uint_gt(m->bounce_bytes, 0);
	ripc__sim_fail_reads(rig.net, _i ? 3 : 1, 1);
	OK(rig_long(&rig, 0, 1, 300000, 2, 5000));
	ck_assert_uint_eq(m->cached_bytes, 0);
	ck_assert_uint_eq(m->bounce_bytes, 0);
	rig_expect(&rig, 1, 300000, 2);
}
END_TEST

/* The read never succeeds: the sender is notified soon, and no other message waits for it. */
START_TEST(post__read_fails)
{
	struct ripc_request *r[2];
	uint64_t start;

	rig_restart(&rig, 2, read_slow);
	rig_connect(&rig, 0, 1);
	ripc__sim_fail_reads(rig.net, _i ? 3 : 1, 2);
	start = ripc__sim_now(rig.net);
	r[0] = rig_begin(&rig, 0, 1, data, 300000);
	r[1] = rig_begin(&rig, 0, 1, data, 200000);
	RC(-ENOBUFS, ripc_request_wait(&r[0], 5000));
	ck_assert(strstr(ripc_error_detail(), "no memory") != NULL);
	OK(ripc_request_wait(&r[1], 5000));
	ck_assert_uint_lt(ripc__sim_now(rig.net) - start, 1000 * RIPC__MS);
	rig_expect(&rig, 1, 200000, 1);
	rig_expect_none(&rig, 1);
	ck_assert_uint_eq(rig_stats(&rig, 0).lanes_opened, 1);
}
END_TEST

static struct ripc__transport_ops ops;
static int read_status; /* of each read that is posted; 0: it is posted */

static int transfer(struct ripc__ep *ep, const struct ripc__transfer *x)
{
	return read_status && x->kind == RIPC__READ ? read_status
						    : ripc__transport_sim.transfer(ep, x);
}

/* A read finds the lane lost, before its end is reported: the message is read over the next one. */
START_TEST(post__lane_lost)
{
	static const int statuses[] = {-ENOTCONN, -ENODEV};
	struct ripc_request *r;
	uint64_t cached;

	rig_restart(&rig, 2, read_slow_expensive);
	rig_connect(&rig, 0, 1);
	OK(rig_long(&rig, 0, 1, 300000, 1, 5000));
	rig_expect(&rig, 1, 300000, 1);
	OK(ripc_buf_free(rig.ctx[1], ripc_buf_alloc(rig.ctx[1], 5000)));
	ops = *rig.ctx[1]->tp[rig_lane(&rig, 1, 0)->tp].ops;
	ops.transfer = transfer;
	rig.ctx[1]->tp[rig_lane(&rig, 1, 0)->tp].ops = &ops;
	read_status = statuses[_i];
	r = rig_begin(&rig, 0, 1, data, 300000);
	cached = rig.ctx[1]->memory->cached_bytes;
	rig_run(&rig, 5);
	ck_assert_uint_eq(rig_waiting(rig.s[1], RIPC__RNDV_TRANSFER), 1);
	/* Idle memory stays: it is not what is missing. */
	ck_assert_uint_ge(rig.ctx[1]->memory->cached_bytes + 524288, cached);
	ck_assert_uint_gt(rig.ctx[1]->memory->cached_bytes, 0);
	RC(-EINPROGRESS, ripc_request_test(&r));
	read_status = 0;
	ripc__sim_break(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1));
	OK(ripc_request_wait(&r, 5000));
	rig_expect(&rig, 1, 300000, 1);
	ck_assert_uint_eq(rig_stats(&rig, 1).lanes_opened, 2);
}
END_TEST

/* ---- limits and cancellation ---- */

/* While RIPC__UNREAD_MAX is unread, the rest stays with its sender. */
START_TEST(resume__unread_is_bounded)
{
	enum { N = 6 };
	const size_t len = 20 * MIB;
	uint8_t *big = calloc(1, len);
	struct ripc_request *r[N];
	unsigned done = 0;

	rig_restart(&rig, 2, _i == 2 ? grant_slow : NULL);
	for (unsigned i = 0; i < N; i++)
		r[i] = rig_begin(&rig, 0, 1, big, len);
	rig_run(&rig, 2000);
	ck_assert_uint_eq(rig.s[1]->queued, 3);
	ck_assert_uint_le(rig.s[1]->queued_long_bytes + rig.s[1]->arriving_bytes, RIPC__UNREAD_MAX);
	ck_assert_uint_eq(rig_waiting(rig.s[1], RIPC__RNDV_WAITING), 3);
	for (unsigned i = 0; i < N; i++)
		done += r[i]->state == RIPC__REQUEST_DONE;
	ck_assert_uint_eq(done, 3);
	/* Each that is taken lets one more in. */
	for (unsigned i = 0; i < N; i++) {
		ripc_message_free(rig_take(&rig, 1));
		rig_run(&rig, 1000);
		ck_assert_uint_le(rig.s[1]->queued_long_bytes + rig.s[1]->arriving_bytes,
				  RIPC__UNREAD_MAX);
	}
	for (unsigned i = 0; i < N; i++)
		OK(ripc_request_wait(&r[i], 5000));
	ck_assert_uint_eq(rig.s[1]->arriving_bytes, 0);
	free(big);
}
END_TEST

/* Messages that are taken at once lie in the memory of at most four, which is used again. */
START_TEST(post__allocates_late)
{
	enum { N = 8 };
	const size_t len = (size_t)(_i ? 16 : 1) * MIB;
	uint8_t *big = calloc(1, len);
	struct ripc_request *r[N];
	uint64_t most = 0;

	for (unsigned i = 0; i < N; i++)
		r[i] = rig_begin(&rig, 0, 1, big, len);
	for (unsigned i = 0; i < N; i++) {
		struct ripc_message *m = rig_take(&rig, 1);
		struct ripc_stats stats = rig_stats(&rig, 1);

		ck_assert_uint_eq(m->items[0].iov_len, len);
		most = stats.pool_bytes > most ? stats.pool_bytes : most;
		ripc_message_free(m);
	}
	for (unsigned i = 0; i < N; i++)
		OK(ripc_request_wait(&r[i], 5000));
	ck_assert_uint_ge(most, len);
	ck_assert_uint_le(most, 4 * len);
	free(big);
}
END_TEST

/* The network is never idle: the next read is posted before the last one has ended. */
START_TEST(post__two_reads_ahead)
{
	enum { N = 4 };
	struct ripc_request *r[N];
	unsigned most = 0;

	rig_restart(&rig, 2, read_slow_in_one);
	rig_connect(&rig, 0, 1);
	for (unsigned i = 0; i < N; i++)
		r[i] = rig_begin(&rig, 0, 1, data, MIB);
	for (unsigned i = 0; i < 10; i++) {
		unsigned reads = rig_lane(&rig, 1, 0)->reads;

		most = reads > most ? reads : most;
		rig_run(&rig, 1);
	}
	ck_assert_uint_eq(most, 2);
	for (unsigned i = 0; i < N; i++) {
		ripc_message_free(rig_take(&rig, 1));
		OK(ripc_request_wait(&r[i], 5000));
	}
}
END_TEST

START_TEST(resume__larger_than_limit)
{
	const size_t len = RIPC__UNREAD_MAX + MIB;
	uint8_t *big = calloc(1, len);
	struct ripc_request *r[2];

	for (unsigned i = 0; i < 2; i++)
		r[i] = rig_begin(&rig, 0, 1, big, len);
	rig_run(&rig, 500);
	ck_assert_uint_eq(rig.s[1]->queued, 1);
	ck_assert_uint_eq(rig_waiting(rig.s[1], RIPC__RNDV_WAITING), 1);
	for (unsigned i = 0; i < 2; i++)
		ripc_message_free(rig_take(&rig, 1));
	for (unsigned i = 0; i < 2; i++)
		OK(ripc_request_wait(&r[i], 5000));
	free(big);
}
END_TEST

START_TEST(cancel__waiting)
{
	const size_t len = 40 * MIB;
	uint8_t *big = calloc(1, len);
	struct ripc_request *r[3];

	for (unsigned i = 0; i < 3; i++)
		r[i] = rig_begin(&rig, 0, 1, big, len - i);
	rig_run(&rig, 500);
	ck_assert_uint_eq(rig_waiting(rig.s[1], RIPC__RNDV_WAITING), 2);
	RC(-ECANCELED, ripc_request_cancel(&r[1], 1000));
	ck_assert_uint_eq(rig_waiting(rig.s[1], RIPC__RNDV_WAITING), 1);
	for (unsigned i = 0; i < 3; i += 2) {
		struct ripc_message *m = rig_take(&rig, 1);

		ck_assert_uint_eq(m->items[0].iov_len, len - i);
		ripc_message_free(m);
		OK(ripc_request_wait(&r[i], 5000));
	}
	free(big);
}
END_TEST

/* Reads that were posted before the cancellation still complete, and no more are posted. */
START_TEST(cancel__ends_reads)
{
	struct ripc__sim_counters before, after;
	struct ripc_request *r[2];

	rig_restart(&rig, 2, read_slow);
	rig_connect(&rig, 0, 1);
	r[0] = rig_begin(&rig, 0, 1, data, LARGE);
	r[1] = rig_begin(&rig, 0, 1, data, 200000);
	rig_run(&rig, 5);
	ripc__sim_counters(rig.net, &before);
	ck_assert_uint_lt(before.reads, LARGE / (64 * KIB) / 2);
	RC(-ECANCELED, ripc_request_cancel(&r[0], 5000));
	OK(ripc_request_wait(&r[1], 5000));
	ripc__sim_counters(rig.net, &after);
	/* Up to four of the one, while CANCEL travels, and four of the other. */
	ck_assert_uint_le(after.reads - before.reads, 8);
	rig_expect(&rig, 1, 200000, 1);
	rig_expect_none(&rig, 1);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("core/rendezvous/receiver");
	TCase *tc = tcase_create("rendezvous");

	test_seed();
	tcase_add_checked_fixture(tc, transfers_setup, transfers_teardown);
	tcase_set_timeout(tc, 120);
	tcase_add_test(tc, set_state__transitions);
	tcase_add_loop_test(tc, receive__every_length, 0, 3);
	tcase_add_loop_test(tc, receive__many_items, 0, 3);
	tcase_add_loop_test(tc, receive__into_every_memory_kind, 0, 3);
	tcase_add_loop_test(tc, receive__no_registration_leak, 0, 3);
	tcase_add_loop_test(tc, start__registration_fails, 0, 3);
	tcase_add_loop_test(tc, post__read_fails_once, 0, 2);
	tcase_add_loop_test(tc, post__read_fails, 0, 2);
	tcase_add_loop_test(tc, post__lane_lost, 0, 2);
	tcase_add_loop_test(tc, resume__unread_is_bounded, 1, 3);
	tcase_add_loop_test(tc, post__allocates_late, 0, 2);
	tcase_add_test(tc, post__two_reads_ahead);
	tcase_add_test(tc, resume__larger_than_limit);
	tcase_add_test(tc, cancel__waiting);
	tcase_add_test(tc, cancel__ends_reads);
	suite_add_tcase(suite, tc);
	return test_main("core/rendezvous/receiver", suite);
}
