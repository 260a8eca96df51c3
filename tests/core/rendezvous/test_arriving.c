/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Bounds on the memory that one peer uses at a receiver, and on the delay that it causes to others.
 * A peer stalls by never serving a read, while it answers PING.
 */
#include "transfers.h"

#define STALLED_MAX 6u

static struct ripc__transport_ops ops;
/* by context: so many of the next reads of context 1 from it are dropped */
static unsigned reads_to_drop[RIG_CONTEXTS];

static int transfer(struct ripc__ep *ep, const struct ripc__transfer *x)
{
	for (unsigned i = 0; i < rig.n; i++) {
		const struct ripc__lane *lane = i == 1 ? NULL : rig_lane(&rig, 1, i);

		if (lane && lane->ep == ep && x->kind == RIPC__READ && reads_to_drop[i]) {
			reads_to_drop[i]--;
			return 0;
		}
	}
	return ripc__transport_sim.transfer(ep, x);
}

/* Context 1 receives; the reads from these are dropped. */
static void start(unsigned n)
{
	rig_restart(&rig, n, NULL);
	memset(reads_to_drop, 0, sizeof(reads_to_drop));
	for (unsigned i = 0; i < n; i++)
		if (i != 1)
			rig_connect(&rig, i, 1);
	ops = *rig.ctx[1]->tp[rig_lane(&rig, 1, 0)->tp].ops;
	ops.transfer = transfer;
	rig.ctx[1]->tp[rig_lane(&rig, 1, 0)->tp].ops = &ops;
}

/* Bytes of long messages that context 1 has memory for, and that are not in a queue. */
static uint64_t held(void)
{
	const struct ripc__rndv *r;
	uint64_t bytes = 0;

	ripc__list_for_each_entry (r, &rig.s[1]->rndvs_in, link)
		if (r->state == RIPC__RNDV_TRANSFER || r->state == RIPC__RNDV_READY)
			bytes += r->bytes;
	return bytes;
}

/* One message does not end, and the complete ones behind it cannot be delivered. */
START_TEST(ready__bounded_behind_unfinished)
{
	enum { N = 24 };
	const size_t len = 4 * MIB;
	struct ripc_request *r[N];

	start(2);
	reads_to_drop[0] = 1;
	for (unsigned i = 0; i < N; i++)
		r[i] = rig_begin(&rig, 0, 1, data, len - i);
	rig_run(&rig, 500);
	ck_assert_uint_eq(rig.s[1]->queued, 0);
	ck_assert_uint_ge(held(), 16 * MIB);
	ck_assert_uint_le(held(), 16 * MIB + len);
	/* The next lane brings the first one. */
	ripc__sim_break(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1));
	for (unsigned i = 0; i < N; i++) {
		rig_expect(&rig, 1, len - i, 1);
		OK(ripc_request_wait(&r[i], 5000));
	}
	ck_assert_uint_eq(rig_peer(&rig, 1, 0)->lists->arriving_bytes, 0);
	ck_assert_uint_eq(rig_peer(&rig, 1, 0)->lists->ready_bytes, 0);
}
END_TEST

/* The same over lanes that are lost one after the other: what they left counts. */
START_TEST(ready__bounded_over_lanes)
{
	enum { N = 40 };
	const size_t len = 4 * MIB;
	struct ripc_request *r[N];

	start(2);
	for (unsigned i = 0; i < N; i++)
		r[i] = rig_begin(&rig, 0, 1, data, len - i);
	for (unsigned i = 0; i < 8; i++) {
		reads_to_drop[0] = 1;
		ripc__sim_break(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1));
		rig_run(&rig, 300);
		ck_assert_uint_le(held(), 16 * MIB + 2 * len);
	}
	reads_to_drop[0] = 0;
	ripc__sim_break(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1));
	for (unsigned i = 0; i < N; i++) {
		rig_expect(&rig, 1, len - i, 1);
		OK(ripc_request_wait(&r[i], 5000));
	}
}
END_TEST

/* Peers whose transfers stall, small ones or a large one, and one that goes on. */
START_TEST(stalled_peers__stall_no_other)
{
	static const struct {
		unsigned peers, messages;
		size_t len;
		unsigned ms; /* time that the first message of another peer may take */
	} cases[] = {
		{1, 20, 4 * MIB, 10},
		{1, 1, 80 * MIB, 10},
		{3, 20, 4 * MIB, 10},
		{STALLED_MAX, 20, 4 * MIB, 1500},
		{STALLED_MAX, 1, 80 * MIB, 1500},
	};
	unsigned n = cases[_i].peers, messages = cases[_i].messages;
	unsigned other = n + 1;
	struct ripc_request *r[STALLED_MAX][20];
	uint8_t *big = calloc(1, cases[_i].len);
	uint64_t begin;

	start(other + 1);
	for (unsigned i = 0, p = 0; p < n; i++, p++) {
		if (i == 1)
			i++;
		reads_to_drop[i] = UINT32_MAX;
		for (unsigned k = 0; k < messages; k++)
			r[p][k] = rig_begin(&rig, i, 1, big, cases[_i].len);
	}
	rig_run(&rig, 200);
	begin = ripc__sim_now(rig.net);
	OK(rig_long(&rig, other, 1, 4 * MIB, 1, 5000));
	ck_assert_uint_le(ripc__sim_now(rig.net) - begin, cases[_i].ms * RIPC__MS);
	rig_expect(&rig, 1, 4 * MIB, 1);
	begin = ripc__sim_now(rig.net);
	for (unsigned i = 0; i < 20; i++) {
		OK(rig_long(&rig, other, 1, 4 * MIB, i, 5000));
		rig_expect(&rig, 1, 4 * MIB, i);
	}
	ck_assert_uint_le(ripc__sim_now(rig.net) - begin, 200 * RIPC__MS);
	rig_expect_none(&rig, 1);
	/* They were alive all the time. */
	ck_assert_uint_eq(rig_stats(&rig, 1).lanes_lost, 0);
	for (unsigned p = 0; p < n; p++)
		for (unsigned k = 0; k < messages; k++)
			RC(-EINPROGRESS, ripc_request_test(&r[p][k]));
	ck_assert_uint_le(rig.ctx[1]->rndvs_slow_bytes, rig.ctx[1]->host_bytes / 8);
	for (unsigned i = 0; i < other; i++)
		if (i != 1)
			rig_close(&rig, i);
	rig_run(&rig, 3000);
	ck_assert_uint_eq(held(), 0);
	ck_assert_uint_eq(rig.s[1]->arriving_bytes, 0);
	ck_assert_uint_eq(rig.ctx[1]->rndvs_slow_bytes, 0);
	free(big);
}
END_TEST

/* A peer that is full at one service, which is not read, sends to another one. */
START_TEST(wait__other_service_goes_on)
{
	enum { N = 30 };
	const size_t len = 4 * MIB;
	struct ripc_request *r[N];
	struct ripc_service *other;

	start(2);
	OK(ripc_service_register(rig.ctx[1], 77, 0, &other));
	for (unsigned i = 0; i < N; i++)
		r[i] = rig_begin(&rig, 0, 1, data, len);
	rig_run(&rig, 300);
	ck_assert_uint_eq(rig_waiting(rig.s[1], RIPC__RNDV_WAITING), N - 16);
	for (unsigned i = 0; i < 10; i++) {
		struct ripc_message *m;

		OK(ripc_send_long(rig.s[0], 77, &(struct iovec){data, len}, 1, NULL, 5000));
		OK(ripc_receive(other, &m, 1000));
		ripc_message_free(m);
	}
	for (unsigned i = 0; i < N; i++) {
		rig_expect(&rig, 1, len, 1);
		OK(ripc_request_wait(&r[i], 5000));
	}
}
END_TEST

/* A peer with many messages that wait gets one turn, as another one with few. */
START_TEST(resume__peers_take_turns)
{
	enum { N = 40 };
	const size_t len = 4 * MIB;
	struct ripc_request *r[N], *few[3];
	unsigned taken = 0;

	start(3);
	for (unsigned i = 0; i < N; i++)
		r[i] = rig_begin(&rig, 0, 1, data, len);
	rig_run(&rig, 300);
	for (unsigned i = 0; i < 3; i++)
		few[i] = rig_begin(&rig, 2, 1, data, len - 1);
	rig_run(&rig, 10);
	for (unsigned left = 3; left; taken++) {
		struct ripc_message *m = rig_take(&rig, 1);

		left -= m->items[0].iov_len == len - 1;
		ripc_message_free(m);
	}
	/* Sixteen were in the queue before. */
	ck_assert_uint_le(taken, 16 + 6);
	for (unsigned i = 0; i < 3; i++)
		OK(ripc_request_wait(&few[i], 5000));
	for (; taken < N + 3; taken++)
		ripc_message_free(rig_take(&rig, 1));
	for (unsigned i = 0; i < N; i++)
		OK(ripc_request_wait(&r[i], 5000));
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("core/rendezvous/arriving");
	TCase *tc = tcase_create("arriving");

	test_seed();
	tcase_add_checked_fixture(tc, transfers_setup, transfers_teardown);
	tcase_set_timeout(tc, 120);
	tcase_add_test(tc, ready__bounded_behind_unfinished);
	tcase_add_test(tc, ready__bounded_over_lanes);
	tcase_add_loop_test(tc, stalled_peers__stall_no_other, 0, 5);
	tcase_add_test(tc, wait__other_service_goes_on);
	tcase_add_test(tc, resume__peers_take_turns);
	suite_add_tcase(suite, tc);
	return test_main("core/rendezvous/arriving", suite);
}
