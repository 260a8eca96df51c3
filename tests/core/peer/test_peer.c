/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Peers: the table, when one is forgotten, and what is remembered of its messages until then. */
#include "core/message/dispatch.h"
#include "core/rig.h"
#include "wire/bytes.h"

static struct rig rig;
static struct ripc *ctx;

/* ---- tables ---- */

START_TEST(get__same_object)
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
	ck_assert(ripc__list_empty(&ctx->peers));
	ck_assert_ptr_null(ctx->dests);
	ck_assert_uint_eq(ctx->next_sweep_ns, RIPC__NEVER);
}
END_TEST

START_TEST(sweep__keeps_peer_with_lane)
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
	ck_assert(ripc__list_empty(&ctx->peers));
	ck_assert_ptr_null(ctx->dests);
}
END_TEST

START_TEST(sweep__dead_peers)
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

/* Sets or ends the work that keeps peers from eviction. */
static void keep_all(bool on, const struct ripc__peer *but)
{
	struct ripc__list *n;

	ripc__list_for_each (n, &ctx->peers) {
		struct ripc__peer *p = ripc__list_entry(n, struct ripc__peer, link);

		if (p != but)
			p->wanted = on;
	}
}

/* The table is full, and only one of its peers is not in use: that one gives way. */
START_TEST(admit__only_one_evictable)
{
	uint8_t first[16] = {0xff, 99}, next[2][16] = {{4, 5, 6}, {4, 5, 7}}, known[16] = {7};

	for (unsigned i = 0; i < RIPC__UNSOLICITED_PEERS_MAX; i++) {
		uint8_t instance[16] = {0xff, 99, (uint8_t)i, (uint8_t)(i >> 8)};

		ck_assert_ptr_nonnull(ripc__peer_admit(ctx, instance, 99));
	}
	ck_assert_uint_eq(ctx->peer_table.count, RIPC__UNSOLICITED_PEERS_MAX);
	keep_all(true, ripc__peer_find(ctx, first));
	ck_assert_ptr_nonnull(ripc__peer_admit(ctx, next[0], 78));
	ck_assert_ptr_null(ripc__peer_find(ctx, first));
	ck_assert_uint_eq(ctx->peer_table.count, RIPC__UNSOLICITED_PEERS_MAX);
	/* None can give way: there is room only for peers that this context looks for. */
	keep_all(true, NULL);
	ck_assert_ptr_null(ripc__peer_admit(ctx, next[1], 78));
	ck_assert_ptr_nonnull(ripc__peer_admit(ctx, next[0], 78));
	ck_assert_ptr_nonnull(ripc__peer_get(ctx, known));
	ck_assert_ptr_nonnull(ripc__peer_admit(ctx, rig_instance(&rig, 0), 0));
	keep_all(false, NULL);
}
END_TEST

/* A pass with timers. */
static void run_timers(void)
{
	ripc__lock(ctx);
	ripc__timer_at(ctx, 0);
	ripc__unlock(ctx);
	rig_run(&rig, 1);
}

/* Idle peers and idle entries are looked for at the planned times, not with each timer. */
START_TEST(timers__planned_times)
{
	uint64_t trim_ns, sweep_ns;

	rig_connect(&rig, 0, 1);
	trim_ns = ctx->next_trim_ns;
	sweep_ns = ctx->next_sweep_ns;
	ck_assert_uint_ne(trim_ns, RIPC__NEVER);
	ck_assert_uint_ne(sweep_ns, RIPC__NEVER);
	for (unsigned i = 0; i < 10; i++) {
		run_timers();
		ck_assert_uint_eq(ctx->next_trim_ns, trim_ns);
		ck_assert_uint_eq(ctx->next_sweep_ns, sweep_ns);
		ck_assert_uint_le(ctx->timers_ns, trim_ns);
	}
	rig_run(&rig, RIPC__TRIM_MS);
	ck_assert_uint_gt(ctx->next_trim_ns, trim_ns);
	ck_assert_uint_eq(ctx->next_sweep_ns, sweep_ns);
	/* When all peers are idle, only the time of the sweep is left. */
	rig_run(&rig, 3 * RIPC__TRIM_MS);
	ck_assert_uint_eq(ctx->next_trim_ns, RIPC__NEVER);
	run_timers();
	ck_assert_uint_eq(ctx->next_trim_ns, RIPC__NEVER);
	ck_assert_uint_eq(ctx->timers_ns, sweep_ns);
	rig_run(&rig, RIPC__IDLE_MS);
	ck_assert_uint_gt(ctx->next_sweep_ns, sweep_ns);
}
END_TEST

START_TEST(unreachable__fails_own_requests)
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

/*
 * A peer is silent, as a stopped process is. Work outstanding to it ends after peer_timeout_ms of
 * silence, in which attempts to connect were made, not at the time limit of the call.
 */
START_TEST(unreachable__stopped_peer)
{
	static uint8_t data[MIB];
	unsigned i = rig_open(&rig, "peer_timeout_ms=400");
	struct iovec item = {data, 10};
	struct ripc_message *reply;
	struct ripc_request *r;
	uint64_t before;

	rig_exchange(&rig, i, 1);
	ripc__sim_hold(rig.net, rig_instance(&rig, 1), true);
	before = ripc__sim_now(rig.net);
	if (_i) {
		r = rig_begin(&rig, i, 1, data, MIB);
		RC(-EPIPE, ripc_request_wait(&r, 20000));
	} else {
		RC(-EPIPE, ripc_call(rig.s[i], RIG_ID(1), &item, 1, NULL, &reply, 20000));
		ck_assert_ptr_null(reply);
	}
	/* A message at an unknown time counts from the tick before: a sixteenth. */
	ck_assert_uint_ge(ripc__sim_now(rig.net) - before, 370 * RIPC__MS);
	ck_assert_uint_le(ripc__sim_now(rig.net) - before, 405 * RIPC__MS);
	ripc__sim_hold(rig.net, rig_instance(&rig, 1), false);
	rig_run(&rig, 5000);
	rig_exchange(&rig, i, 1);
}
END_TEST

/* ---- short messages as datagrams ---- */

static int no_connection(struct ripc__transport *t, const uint8_t *addr, size_t addrlen,
			 const void *priv, size_t privlen, void *user, struct ripc__ep **ep)
{
	return ripc__fail(-ECONNREFUSED, "the peer is not there");
}

/*
 * The lane is gone, and the attempt at another fails at once: the peer is given up behind the send,
 * not in the midst of it.
 */
START_TEST(send__peer_lost_with_attempt)
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
	OK(rig_short(&rig, 0, 1, 100, 2, 0));
	ck_assert_ptr_nonnull(rig_dest(&rig, 0, 1)->peer);
	rig_run(&rig, 1);
	ck_assert_ptr_null(rig_dest(&rig, 0, 1)->peer);
	rig_expect(&rig, 1, 100, 2);
	for (unsigned i = 0; i < RIPC__TP_MAX; i++)
		if (ctx->tp[i].ops == &ops)
			ctx->tp[i].ops = real;
	rig_run(&rig, 5000);
	OK(rig_short(&rig, 0, 1, 100, 3, 5000));
	rig_expect(&rig, 1, 100, 3);
}
END_TEST

/* A long message that is not received yet is limited separately, and leaves room for datagrams. */
START_TEST(datagram__after_long_message)
{
	OK(rig_long(&rig, 0, 1, MIB, 1, 5000));
	OK(rig_short(&rig, 0, 1, 100, 2, 5000));
	rig_run(&rig, 50);
	ck_assert_uint_eq(rig_stats(&rig, 1).dropped_queue_full, 0);
	rig_expect(&rig, 1, MIB, 1);
	rig_expect(&rig, 1, 100, 2);
}
END_TEST

static void setup_datagrams(void)
{
	rig_start_with(&rig, 2, rig_datagrams, "short=udp");
	ctx = rig.ctx[0];
}

static void setup(void)
{
	rig_start(&rig, 2, NULL);
	ctx = rig.ctx[0];
}

/* ---- one forgets the other ---- */

static void set_partition(bool on)
{
	OK(ripc__sim_partition(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1), on));
}

/* Whether a short message from 0 is taken at 1. It is sent, whatever becomes of it. */
static bool is_delivered(uint64_t tag)
{
	struct ripc_message *m;

	if (rig_short(&rig, 0, 1, 20, tag, 5000))
		return false;
	if (ripc_receive(rig.s[1], &m, 50))
		return false;
	rig_verify(m->items[0].iov_base, 20, tag);
	ripc_message_free(m);
	return true;
}

/* The sender gives its peer up and forgets it, while that stands still and forgets nothing. */
START_TEST(forget__by_sender)
{
	struct ripc_request *r;
	struct ripc_message *m;
	struct ripc__peer *p;
	unsigned taken = 0;
	uint64_t epoch;

	for (unsigned i = 0; i < 3000; i++)
		ck_assert(is_delivered(i));
	epoch = rig_peer(&rig, 0, 1)->epoch;
	ripc__sim_hold(rig.net, rig_instance(&rig, 1), true);
	r = rig_begin(&rig, 0, 1, (uint8_t[8]){0}, 8);
	RC(-EPIPE, ripc_request_wait(&r, 60000));
	rig_run(&rig, RIPC__IDLE_MS);
	ripc__lock(ctx);
	ripc__sweep(ctx, false);
	ripc__unlock(ctx);
	p = rig_peer(&rig, 0, 1);
	ck_assert(!p || p->epoch > epoch);
	ripc__sim_hold(rig.net, rig_instance(&rig, 1), false);
	ck_assert_ptr_nonnull(rig_peer(&rig, 1, 0));
	while (!ripc_receive(rig.s[1], &m, 100))
		ripc_message_free(m);
	for (unsigned i = 0; i < 100; i++)
		taken += is_delivered(i);
	ck_assert_uint_ge(taken, 98);
	ck_assert_uint_eq(rig_stats(&rig, 1).duplicates, 0);
	ck_assert_uint_eq(rig_stats(&rig, 1).datagrams_lost, 0);
}
END_TEST

/* Duplicates do not keep their sender from being forgotten. */
START_TEST(forget__duplicates_do_not_delay)
{
	uint8_t copy[200];
	struct ripc__event ev = {.kind = RIPC__EV_DATAGRAM, .data = copy};
	uint8_t instance[16] = {1, 2, 3}, *p;

	p = ripc__header_put(copy, RIPC__SHORT, RIPC__F_INSTANCE, 1, 0, RIG_ID(1), 7);
	ripc__number_stamp(copy, 1000);
	memcpy(p, instance, 16);
	ripc__put_le32(p + 16, 0);
	rig_connect(&rig, 0, 1);
	ev.len = (uint32_t)(p + 20 - copy);
	ripc__lock(rig.ctx[1]);
	for (unsigned i = 0; i < 100; i++) {
		ripc__dispatch_datagram(rig.ctx[1], rig_lane(&rig, 1, 0)->tp, &ev);
		ripc__unlock(rig.ctx[1]);
		rig_run(&rig, 1000);
		ripc__lock(rig.ctx[1]);
		if (!ripc__peer_find(rig.ctx[1], instance))
			break;
	}
	ck_assert_ptr_null(ripc__peer_find(rig.ctx[1], instance));
	ripc__unlock(rig.ctx[1]);
	ripc_message_free(rig_take(&rig, 1));
}
END_TEST

/* Numbers that are given out at one moment of the clock differ, too. */
START_TEST(forget__sequence_continues)
{
	uint64_t next = 0;

	for (unsigned i = 0; i < 10; i++) {
		uint8_t instance[16] = {9};
		struct ripc__peer *p = ripc__peer_get(ctx, instance);

		ck_assert_ptr_nonnull(ripc__peer_datagrams(ctx, p));
		ck_assert_uint_ge(p->lists->datagrams->next_seq, next);
		ck_assert_uint_ge(p->next_request_id, next);
		ck_assert_uint_ge(p->epoch, next);
		p->lists->datagrams->next_seq += 10000;
		p->next_request_id += 20000;
		next = p->next_request_id;
		ripc__sweep(ctx, true);
		ck_assert_ptr_null(ripc__peer_find(ctx, instance));
	}
}
END_TEST

/*
 * A long message is delivered, its answer is lost with the lane, and the lane is away for so long.
 * Return: what its sender learns; *copies: how often it was delivered.
 */
static int deliver_then_partition(unsigned ms, unsigned *copies)
{
	static uint8_t data[3000];
	struct ripc_request *r;
	struct ripc_message *m;
	int rc;

	rig_connect(&rig, 0, 1);
	r = rig_begin(&rig, 0, 1, data, sizeof(data));
	while (!rig_stats(&rig, 1).queued)
		rig_run(&rig, 0), ripc__sim_run(rig.net, 1000);
	set_partition(true);
	ck_assert_int_ge(ripc__sim_break(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1)), 1);
	rig_run(&rig, ms);
	set_partition(false);
	rc = ripc_request_wait(&r, 100000);
	rig_run(&rig, 1000);
	for (*copies = 0; !ripc_receive(rig.s[1], &m, 0); ++*copies)
		ripc_message_free(m);
	return rc;
}

START_TEST(forget__by_long_receiver)
{
	unsigned copies;

	RC(-EPIPE, deliver_then_partition(RIPC__IDLE_MS * 5 / 2, &copies));
	ck_assert_uint_eq(copies, 1);
	/* The next one is as any other. */
	rig_exchange(&rig, 0, 1);
}
END_TEST

START_TEST(forget__not_before_timeout)
{
	unsigned copies;

	OK(deliver_then_partition(RIPC__IDLE_MS / 2, &copies));
	ck_assert_uint_eq(copies, 1);
	ck_assert_uint_eq(rig_stats(&rig, 1).duplicates, 1);
}
END_TEST

/* A message that was never sent is not lost with the receiver's memory. */
START_TEST(forget__unsent_is_sent)
{
	static uint8_t data[3000];
	struct ripc_request *r;

	rig_connect(&rig, 0, 1);
	set_partition(true);
	ck_assert_int_ge(ripc__sim_break(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1)), 1);
	rig_run(&rig, 100);
	r = rig_begin(&rig, 0, 1, data, sizeof(data));
	rig_run(&rig, RIPC__IDLE_MS * 5 / 2);
	ck_assert_ptr_null(rig_peer(&rig, 1, 0));
	set_partition(false);
	OK(ripc_request_wait(&r, 100000));
	ripc_message_free(rig_take(&rig, 1));
}
END_TEST

/* ---- lies: datagrams in the name of another ---- */

/* The last datagram that 0 has sent. */
static struct {
	uint8_t bytes[200];
	size_t len;
} captured;

static void capture(void *u, const uint8_t from[16], const uint8_t to[16], uint8_t *m, size_t *len)
{
	struct ripc__header h;
	const char *why;

	if (*len > sizeof(captured.bytes) || memcmp(from, rig_instance(&rig, 0), 16) ||
	    ripc__header_decode(&h, m, *len, &why) || h.kind != RIPC__SHORT || !h.instance)
		return;
	memcpy(captured.bytes, m, *len);
	captured.len = *len;
}

/* A copy of it with another number, and other contents. */
static void forge_datagram(uint64_t ahead)
{
	uint8_t bytes[sizeof(captured.bytes)];
	struct ripc__event ev = {.kind = RIPC__EV_DATAGRAM, .data = bytes};
	struct ripc_message *m;

	ev.len = (uint32_t)captured.len;
	memcpy(bytes, captured.bytes, captured.len);
	/* The number of a datagram, wherever it ends. */
	ripc__put_le64(bytes + 24, ripc__get_le64(bytes + 24) + ahead);
	ripc__lock(rig.ctx[1]);
	ripc__dispatch_datagram(rig.ctx[1], rig_lane(&rig, 1, 0)->tp, &ev);
	ripc__unlock(rig.ctx[1]);
	while (!ripc_receive(rig.s[1], &m, 0))
		ripc_message_free(m);
}

static const struct {
	uint64_t ahead, more; /* of the first lie, and for each further one */
	unsigned each;        /* one after so many messages; 0: one only */
} forgeries[] = {
	{1 << 23, 0, 0},
	{1 << 23, 1000, 7},
	{1 << 30, UINT64_C(1) << 32, 3},
	{63, 0, 0},
	{63, 0, 5},
	{64, 1, 5},
	{65, 0, 5},
	{1, 0, 5},
	{UINT64_C(1) << 31, 0, 0},
	{UINT64_C(1) << 62, 0, 0},
};

#define NFORGERIES (sizeof(forgeries) / sizeof(forgeries[0]))

/* A lie with any number costs its victim no more than one message. */
START_TEST(forgery__victim_still_received)
{
	unsigned dropped = 0, n = 0;

	rig_connect(&rig, 0, 1);
	ripc__sim_tamper(rig.net, capture, NULL);
	for (unsigned i = 0; i < 400; i++) {
		dropped += !is_delivered(i);
		if (i < 100 || (forgeries[_i].each ? i % forgeries[_i].each : n))
			continue;
		forge_datagram(forgeries[_i].ahead + forgeries[_i].more * n++);
	}
	ripc__sim_tamper(rig.net, NULL, NULL);
	ck_assert_msg(dropped <= n, "%u lies, %u messages dropped", n, dropped);
}
END_TEST

/*
 * The attacker sends first: its victim is soon received again, however large the difference of the
 * numbers.
 */
START_TEST(forgery__first_message)
{
	unsigned dropped = 0;

	rig_connect(&rig, 0, 1);
	ripc__sim_tamper(rig.net, capture, NULL);
	ck_assert(is_delivered(0));
	/* Its receiver forgets what it knew. */
	rig_run(&rig, 100);
	rig_peer(&rig, 1, 0)->lists->datagrams->received = (struct ripc__replay){0};
	forge_datagram(forgeries[_i].ahead);
	for (unsigned i = 0; i < 400; i++)
		dropped += !is_delivered(i);
	ripc__sim_tamper(rig.net, NULL, NULL);
	ck_assert_uint_le(dropped, RIPC__DATAGRAM_WINDOW);
}
END_TEST

/* The sender waits for its peer for longer than the peer remembers. */
static void setup_patient(void)
{
	rig_init(&rig, NULL);
	rig_open(&rig, "peer_timeout_ms=200000");
	rig_open(&rig, NULL);
	ctx = rig.ctx[0];
}

static void teardown(void)
{
	rig_end(&rig);
}

int main(void)
{
	Suite *suite = suite_create("core/peer/peer");
	TCase *tc = tcase_create("peer");

	test_seed();
	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_set_timeout(tc, 120);
	tcase_add_test(tc, get__same_object);
	tcase_add_test(tc, sweep__tables_shrink);
	tcase_add_test(tc, sweep__keeps_peer_with_lane);
	tcase_add_test(tc, sweep__dead_peers);
	tcase_add_test(tc, admit__only_one_evictable);
	tcase_add_test(tc, timers__planned_times);
	tcase_add_test(tc, unreachable__fails_own_requests);
	tcase_add_loop_test(tc, unreachable__stopped_peer, 0, 2);
	suite_add_tcase(suite, tc);
	tc = tcase_create("datagrams");
	tcase_add_checked_fixture(tc, setup_datagrams, teardown);
	tcase_set_timeout(tc, 120);
	tcase_add_test(tc, send__peer_lost_with_attempt);
	tcase_add_test(tc, datagram__after_long_message);
	tcase_add_test(tc, forget__by_sender);
	tcase_add_test(tc, forget__duplicates_do_not_delay);
	tcase_add_loop_test(tc, forgery__victim_still_received, 0, NFORGERIES);
	tcase_add_loop_test(tc, forgery__first_message, 0, NFORGERIES);
	suite_add_tcase(suite, tc);
	tc = tcase_create("patient");
	tcase_add_checked_fixture(tc, setup_patient, teardown);
	tcase_set_timeout(tc, 120);
	tcase_add_test(tc, forget__sequence_continues);
	tcase_add_test(tc, forget__by_long_receiver);
	tcase_add_test(tc, forget__not_before_timeout);
	tcase_add_test(tc, forget__unsent_is_sent);
	suite_add_tcase(suite, tc);
	return test_main("core/peer/peer", suite);
}
