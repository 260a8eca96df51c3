/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Header contexts of datagrams: when headers are short, and what happens when one side forgets. */
#include "core/peer/datagram_context.h"
#include "core/message/dispatch.h"
#include "core/peer/endpoint.h"
#include "core/peer/path.h"
#include "core/rig.h"

#define AFTER RIPC__DATAGRAM_CONTEXT_AFTER

static struct rig rig;

/* Short messages that were sent as datagrams, since the last reset. */
static struct {
	unsigned full, elided, unknown;
	uint64_t word; /* of the last short header */
} seen;

static void watch(void *u, const uint8_t from[16], const uint8_t to[16], uint8_t *m, size_t *len)
{
	struct ripc__header h;
	const char *why;

	(void)u, (void)from, (void)to;
	if (*len >= RIPC__ELIDED_DATAGRAM_LEN && m[0] == RIPC__ELIDED_DATAGRAM) {
		seen.elided++;
		seen.word = ripc__get_le64(m);
	} else if (*len == RIPC__ELIDED_DATAGRAM_LEN && m[0] == RIPC__UNKNOWN_CONTEXT) {
		seen.unknown++;
	} else if (!ripc__header_decode(&h, m, *len, &why) && h.kind == RIPC__SHORT && h.instance) {
		seen.full++;
	}
}

static void bad_network(struct ripc__sim_config *config)
{
	config->datagram = true;
	config->datagram_loss = 0.1;
	config->datagram_duplication = 0.1;
	config->datagram_reordering = 0.2;
}

static void start(void (*change)(struct ripc__sim_config *config))
{
	rig_start_with(&rig, 2, change, "short=udp");
	rig_connect(&rig, 0, 1);
	rig_connect(&rig, 1, 0);
	memset(&seen, 0, sizeof(seen));
	ripc__sim_tamper(rig.net, watch, NULL);
}

static void setup(void)
{
	start(rig_datagrams);
}

static void teardown(void)
{
	ripc__sim_tamper(rig.net, NULL, NULL);
	rig_end(&rig);
}

static void deliver(unsigned i, unsigned j, uint64_t tag)
{
	OK(rig_short(&rig, i, j, 20, tag, 5000));
	rig_expect(&rig, j, 20, tag);
}

/* So many that headers from i to j are short. */
static void begin(unsigned i, unsigned j)
{
	for (unsigned n = 0; n < AFTER; n++)
		deliver(i, j, n);
	rig_run(&rig, 10);
	ck_assert(rig_dest(&rig, i, j)->datagram_context);
	ck_assert(rig_dest(&rig, i, j)->datagram_context->confirmed);
	memset(&seen, 0, sizeof(seen));
}

static unsigned contexts_of(unsigned i, unsigned j)
{
	return rig_peer(&rig, i, j)->lists->datagrams->ncontexts;
}

/* ---- short headers ---- */

START_TEST(send__both_directions)
{
	begin(0, 1);
	begin(1, 0);
	for (unsigned i = 0; i < 100; i++) {
		deliver(0, 1, i);
		deliver(1, 0, i + 1);
	}
	ck_assert_uint_eq(seen.elided, 200);
	ck_assert_uint_eq(seen.full, 0);
	for (unsigned i = 0; i < 2; i++) {
		ck_assert_uint_eq(rig_stats(&rig, i).datagrams_lost, 0);
		ck_assert_uint_eq(rig_stats(&rig, i).duplicates, 0);
		ck_assert_uint_eq(rig_stats(&rig, i).dropped_no_context, 0);
		ck_assert_uint_eq(contexts_of(i, !i), 1);
	}
}
END_TEST

/* The application sees no difference between the headers, on the fast and on the slow path. */
START_TEST(send__message_unchanged)
{
	struct iovec item = {"abc", 3};
	struct ripc_message *m;

	begin(0, 1);
	OK(ripc_send_short(rig.s[0], RIG_ID(1), &item, 1, NULL, 5000));
	if (_i)
		rig_run(&rig, 10);
	m = rig_take(&rig, 1);
	ck_assert_uint_eq(m->source, RIG_ID(0));
	ck_assert_uint_eq(m->dest, RIG_ID(1));
	ck_assert_mem_eq(m->instance, rig_instance(&rig, 0), 16);
	ck_assert_uint_eq(m->nitems, 1);
	ck_assert_uint_eq(m->items[0].iov_len, 3);
	ck_assert_mem_eq(m->items[0].iov_base, "abc", 3);
	ck_assert_uint_eq(m->nreturn_buffers, 0);
	ripc_message_free(m);
	item.iov_len = 0;
	OK(ripc_send_short(rig.s[0], RIG_ID(1), &item, 1, NULL, 5000));
	rig_expect(&rig, 1, 0, 0);
	ck_assert_uint_eq(seen.elided, 2);
}
END_TEST

START_TEST(send__several_items_in_full)
{
	struct iovec items[2] = {{"abc", 3}, {"de", 2}};
	struct ripc_message *m;

	begin(0, 1);
	OK(ripc_send_short(rig.s[0], RIG_ID(1), items, 2, NULL, 5000));
	m = rig_take(&rig, 1);
	ck_assert_uint_eq(m->nitems, 2);
	ripc_message_free(m);
	ck_assert_uint_eq(seen.full, 1);
	ck_assert_uint_eq(seen.elided, 0);
}
END_TEST

/* A second source keeps the full header while the first one sends, and gets a context after it. */
START_TEST(send__second_source)
{
	struct ripc_service *other;
	struct iovec item = {"abc", 3};
	struct ripc_message *m;

	OK(ripc_service_register(rig.ctx[0], 77, 0, &other));
	begin(0, 1);
	for (unsigned i = 0; i < 10 * AFTER; i++) {
		if (i < 5 * AFTER)
			deliver(0, 1, i);
		OK(ripc_send_short(other, RIG_ID(1), &item, 1, NULL, 5000));
		m = rig_take(&rig, 1);
		ck_assert_uint_eq(m->source, 77);
		ripc_message_free(m);
		if (i == 5 * AFTER - 1)
			ck_assert_uint_eq(seen.elided, 5 * AFTER);
	}
	ck_assert_uint_ge(seen.elided, 7 * AFTER);
	ck_assert_uint_eq(rig_stats(&rig, 1).dropped_no_context, 0);
}
END_TEST

/* A peer of an earlier version. */
START_TEST(send__peer_without_contexts)
{
	rig_lane(&rig, 0, 1)->caps &= ~(unsigned)RIPC__CAP_DATAGRAM_CONTEXT;
	for (unsigned i = 0; i < 10 * AFTER; i++)
		deliver(0, 1, i);
	ck_assert_uint_eq(seen.full, 10 * AFTER);
	ck_assert_ptr_null(rig_dest(&rig, 0, 1)->datagram_context);
}
END_TEST

/* The lower half of a number suffices for 2^32 numbers, across its wrap. */
START_TEST(send__number_out_of_range)
{
	struct ripc__peer_datagrams *out, *in;
	struct ripc__datagram_context *c;
	uint64_t word;

	begin(0, 1);
	out = rig_peer(&rig, 0, 1)->lists->datagrams;
	in = rig_peer(&rig, 1, 0)->lists->datagrams;
	c = rig_dest(&rig, 0, 1)->datagram_context;
	word = c->word;
	out->next_seq = (c->first | UINT32_MAX) - 2;
	for (unsigned i = 0; i < 6; i++)
		deliver(0, 1, i);
	ck_assert_uint_eq(in->received.run[0].last, out->next_seq - 1);
	out->next_seq = c->first + UINT32_MAX - 2;
	for (unsigned i = 0; i < 6; i++)
		deliver(0, 1, i);
	ck_assert_uint_eq(seen.elided, 6 + 3);
	ck_assert_uint_eq(seen.full, 3);
	/* A new context begins. */
	for (unsigned i = 0; i < 3 * AFTER; i++)
		deliver(0, 1, i);
	ck_assert_uint_ge(seen.elided, 9 + AFTER);
	ck_assert_uint_ne(seen.word, word);
	ck_assert_uint_eq(rig_stats(&rig, 1).duplicates, 0);
}
END_TEST

/* Loss, copies and reordering: no message twice, and only as many missing as the network lost. */
START_TEST(send__bad_network)
{
	enum { MESSAGES = 3000 };
	static uint8_t count[MESSAGES];
	struct ripc_message *m;
	struct ripc__sim_counters net;
	unsigned delivered = 0;

	teardown();
	start(bad_network);
	memset(count, 0, sizeof(count));
	for (uint32_t i = 0; i < MESSAGES; i++) {
		struct iovec item = {&i, sizeof(i)};

		OK(ripc_send_short(rig.s[0], RIG_ID(1), &item, 1, NULL, 5000));
		rig_run(&rig, i % 8 == 0);
		while (!ripc_receive(rig.s[1], &m, i + 1 == MESSAGES ? 100 : 0)) {
			uint32_t tag;

			ck_assert_uint_eq(m->items[0].iov_len, sizeof(tag));
			memcpy(&tag, m->items[0].iov_base, sizeof(tag));
			ck_assert_uint_le(tag, i);
			ck_assert_uint_eq(count[tag]++, 0);
			delivered++;
			ripc_message_free(m);
		}
	}
	ripc__sim_counters(rig.net, &net);
	ck_assert_uint_ge(seen.elided, MESSAGES / 2);
	/* Some come so late that the window of numbers has passed them. */
	ck_assert_uint_ge(delivered + net.datagrams_lost + MESSAGES / 50, MESSAGES);
	ck_assert_uint_eq(rig_stats(&rig, 1).dropped_no_context, 0);
}
END_TEST

/* ---- one side forgets ---- */

/* The receiver drops what it cannot decode, counts it, and the sender returns to full headers. */
START_TEST(unknown__sender_recovers)
{
	begin(0, 1);
	ripc__lock(rig.ctx[1]);
	ripc__datagram_contexts_free(rig_peer(&rig, 1, 0));
	ripc__unlock(rig.ctx[1]);
	ck_assert_uint_eq(contexts_of(1, 0), 0);
	OK(rig_short(&rig, 0, 1, 20, 1, 5000));
	rig_run(&rig, 10);
	rig_expect_none(&rig, 1);
	ck_assert_uint_eq(rig_stats(&rig, 1).dropped_no_context, 1);
	ck_assert_uint_eq(seen.unknown, 1);
	ck_assert_ptr_null(rig_dest(&rig, 0, 1)->datagram_context);
	for (unsigned i = 0; i < 3 * AFTER; i++)
		deliver(0, 1, i);
	ck_assert_uint_gt(seen.elided, AFTER);
	ck_assert_uint_eq(rig_stats(&rig, 1).dropped_no_context, 1);
	/* The message that was dropped. */
	ck_assert_uint_eq(rig_stats(&rig, 1).datagrams_lost, 1);
}
END_TEST

/* Contexts end with the lane, on both sides, and begin again on the next. */
START_TEST(lane__lost)
{
	unsigned dropped = 0;

	begin(0, 1);
	begin(1, 0);
	ripc__lock(rig.ctx[0]);
	ripc__lane_fail(rig_lane(&rig, 0, 1), -ECONNRESET, "test");
	ck_assert_ptr_null(rig_dest(&rig, 0, 1)->datagram_context);
	ripc__unlock(rig.ctx[0]);
	for (unsigned i = 0; i < 10 * AFTER; i++) {
		struct ripc_message *m;

		OK(rig_short(&rig, 0, 1, 20, i, 5000));
		rig_run(&rig, 10);
		if (ripc_receive(rig.s[1], &m, 0))
			dropped++;
		else
			ripc_message_free(m);
	}
	ck_assert_uint_eq(dropped, 0);
	ck_assert_uint_ge(seen.elided, 5 * AFTER);
	/* The next lane may have been up before the former one had ended here. */
	ck_assert_uint_le(contexts_of(1, 0), 2);
	ck_assert_uint_eq(rig_stats(&rig, 1).dropped_no_context, 0);
}
END_TEST

/* Two connections cross: a context that was not confirmed over the one that ends begins again. */
START_TEST(lane__crossed)
{
	unsigned small = memcmp(rig_instance(&rig, 0), rig_instance(&rig, 1), 16) > 0;
	struct ripc__lane *old = rig_lane(&rig, small, !small);
	const uint8_t *addr;
	unsigned tp;
	size_t len;

	begin(small, !small);
	rig_dest(&rig, small, !small)->datagram_context->confirmed = false;
	addr = ripc__peer_path(rig.ctx[small], old->peer, 0, &tp, &len);
	ripc__lock(rig.ctx[small]);
	OK(ripc__lane_connect(rig.ctx[small], old->peer, tp, addr, len, 1000 * RIPC__MS));
	ripc__unlock(rig.ctx[small]);
	/* The other side had none when it accepted. */
	rig_peer(&rig, !small, small)->lane = NULL;
	rig_run(&rig, 10);
	ck_assert_ptr_ne(rig_lane(&rig, small, !small), old);
	for (unsigned i = 0; i < 3 * AFTER; i++)
		deliver(small, !small, i);
	ck_assert_uint_gt(seen.elided, 0);
}
END_TEST

/* The service moves to another context: nothing goes to it with a context of the former one. */
START_TEST(lane__service_moves)
{
	struct ripc_service *s;
	struct ripc_message *m;
	unsigned i = rig_open(&rig, "short=udp"), delivered = 0;

	begin(0, 1);
	OK(ripc_service_register(rig.ctx[i], RIG_ID(1), RIPC_TAKEOVER, &s));
	for (unsigned k = 0; k < 10 * AFTER; k++) {
		OK(rig_short(&rig, 0, 1, 20, k, 5000));
		rig_run(&rig, 10);
		while (!ripc_receive(s, &m, 0)) {
			delivered++;
			ripc_message_free(m);
		}
	}
	ck_assert_uint_ge(delivered, 9 * AFTER);
	ck_assert_uint_ge(seen.elided, 5 * AFTER);
	ck_assert_uint_eq(rig_stats(&rig, i).dropped_no_context, 0);
}
END_TEST

/* ---- lies ---- */

static void inject(unsigned kind, uint64_t dest, uint64_t source, uint64_t a, uint64_t b)
{
	uint8_t buf[RIPC__CONTROL_MAX];

	rig_inject(&rig, 0, 1, buf, ripc__control_put(buf, kind, dest, source, a, b), 0);
}

/* Return: whether it was delivered at 1. */
static bool dispatch(uint8_t *data, size_t len)
{
	struct ripc__event ev = {.kind = RIPC__EV_DATAGRAM, .data = data, .len = (uint32_t)len};
	struct ripc_message *m;

	ripc__lock(rig.ctx[1]);
	ripc__dispatch_datagram(rig.ctx[1], rig_lane(&rig, 1, 0)->tp, &ev);
	ripc__unlock(rig.ctx[1]);
	if (ripc_receive(rig.s[1], &m, 0))
		return false;
	ripc_message_free(m);
	return true;
}

START_TEST(context__table_bounded)
{
	uint8_t buf[RIPC__ELIDED_DATAGRAM_LEN];

	for (uint64_t id = 1; id <= RIPC__DATAGRAM_CONTEXTS_MAX + 10; id++) {
		inject(RIPC__DATAGRAM_CONTEXT, RIG_ID(1), RIG_ID(0), id, 1000);
		rig_run(&rig, 5);
	}
	ck_assert_uint_eq(contexts_of(1, 0), RIPC__DATAGRAM_CONTEXTS_MAX);
	ck_assert_uint_eq(rig.ctx[1]->datagram_contexts.count, RIPC__DATAGRAM_CONTEXTS_MAX);
	/* The oldest gave way. */
	ripc__elided_datagram_put(buf, ripc__datagram_word(10), 5000000);
	ck_assert(!dispatch(buf, sizeof(buf)));
	ck_assert_uint_eq(rig_stats(&rig, 1).dropped_no_context, 1);
	ripc__elided_datagram_put(buf, ripc__datagram_word(11), 5000000);
	ck_assert(dispatch(buf, sizeof(buf)));
	ck_assert(!dispatch(buf, sizeof(buf)));
	ck_assert_uint_eq(rig_stats(&rig, 1).duplicates, 1);
}
END_TEST

static const struct {
	uint64_t dest, source, id;
} malformed[] = {
	{0, RIG_ID(0), 5},
	{RIG_ID(1), 0, 5},
	{RIG_ID(1), RIG_ID(0), 0},
	{RIG_ID(1), RIG_ID(0), UINT64_C(1) << 56},
};

START_TEST(context__malformed)
{
	inject(RIPC__DATAGRAM_CONTEXT, malformed[_i].dest, malformed[_i].source, malformed[_i].id,
	       0);
	rig_run(&rig, 5);
	ck_assert_uint_eq(rig_stats(&rig, 1).bad_messages, 1);
	ck_assert_uint_eq(rig.ctx[1]->datagram_contexts.count, 0);
}
END_TEST

/* The id of a context that exists: the first one stays as it is. */
START_TEST(context__id_in_use)
{
	struct ripc__datagram_context *c;

	begin(1, 0);
	c = rig_dest(&rig, 1, 0)->datagram_context;
	inject(RIPC__DATAGRAM_CONTEXT, RIG_ID(1), RIG_ID(0), c->word >> 8, 0);
	inject(RIPC__DATAGRAM_CONTEXT, RIG_ID(1), RIG_ID(0), 9, 1000);
	inject(RIPC__DATAGRAM_CONTEXT, RIG_ID(1) + 50, RIG_ID(0), 9, 1000);
	rig_run(&rig, 5);
	ck_assert_uint_eq(rig.ctx[1]->datagram_contexts.count, 2);
	ck_assert_ptr_eq(rig_dest(&rig, 1, 0)->datagram_context, c);
	ck_assert_uint_eq(c->services.dest, RIG_ID(0));
	deliver(1, 0, 1);
	ck_assert_uint_eq(seen.elided, 1);
}
END_TEST

/* Nobody but the peer itself confirms a context. UNKNOWN_CONTEXT needs its id. */
START_TEST(context__foreign_answers)
{
	struct ripc__datagram_context *c;
	uint8_t buf[RIPC__ELIDED_DATAGRAM_LEN];

	rig_open(&rig, "short=udp");
	rig_connect(&rig, 1, 2);
	begin(1, 2);
	c = rig_dest(&rig, 1, 2)->datagram_context;
	c->confirmed = false;
	inject(RIPC__DATAGRAM_CONTEXT_ACK, 0, 0, c->word >> 8, 0);
	rig_run(&rig, 5);
	ck_assert(!c->confirmed);
	c->confirmed = true;
	ripc__elided_datagram_put(buf, c->word + (1 << 8), 7);
	buf[0] = RIPC__UNKNOWN_CONTEXT;
	ck_assert(!dispatch(buf, sizeof(buf)));
	ck_assert_ptr_eq(rig_dest(&rig, 1, 2)->datagram_context, c);
	ripc__elided_datagram_put(buf, c->word, 7);
	/* A datagram of our own that comes back. */
	ck_assert(!dispatch(buf, sizeof(buf)));
	ck_assert_uint_eq(rig_stats(&rig, 1).dropped_no_context, 1);
	buf[0] = RIPC__UNKNOWN_CONTEXT;
	ck_assert(!dispatch(buf, sizeof(buf)));
	ck_assert_ptr_null(rig_dest(&rig, 1, 2)->datagram_context);
	/* Nor does it end one of the other direction. */
	inject(RIPC__DATAGRAM_CONTEXT, RIG_ID(1), RIG_ID(0), 9, 1000);
	rig_run(&rig, 5);
	ck_assert_uint_eq(contexts_of(1, 0), 1);
	ripc__elided_datagram_put(buf, ripc__datagram_word(9), 7);
	buf[0] = RIPC__UNKNOWN_CONTEXT;
	ck_assert(!dispatch(buf, sizeof(buf)));
	ck_assert_uint_eq(contexts_of(1, 0), 1);
	/* Too short for any of it. */
	for (uint32_t len = 0; len < sizeof(buf); len++) {
		ck_assert(!dispatch(buf, len));
		ck_assert_uint_eq(rig_stats(&rig, 1).bad_messages, len + 1);
	}
}
END_TEST

/*
 * Forged numbers with full headers do not cost a message that has a short header more than the one
 * with the same number: its context proves its sender.
 */
START_TEST(context__survives_forged_numbers)
{
	uint8_t buf[RIPC__SHORT_HEADER_MAX], *p;
	unsigned dropped = 0;

	begin(0, 1);
	for (unsigned i = 0; i < 200; i++) {
		struct ripc_message *m;

		/* As many in a row as make a run of numbers the main one. */
		for (unsigned k = 0; i % 50 == 0 && k < 2 * RIPC__RUN_TRUSTED; k++) {
			p = ripc__header_put(buf, RIPC__SHORT, RIPC__F_INSTANCE, 1, 0, RIG_ID(1),
					     RIG_ID(0));
			memcpy(p, rig_instance(&rig, 0), 16);
			ripc__put_le32(p + 16, 0);
			ripc__number_stamp(buf, (UINT64_C(1) << 60) + i * 1000000 + k);
			dispatch(buf, RIPC__HEADER_LEN + 20);
		}
		OK(rig_short(&rig, 0, 1, 20, i, 5000));
		if (ripc_receive(rig.s[1], &m, 5))
			dropped++;
		else
			ripc_message_free(m);
	}
	ck_assert_uint_eq(seen.elided, 200);
	ck_assert_uint_le(dropped, 4);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("core/peer/datagram_context");
	TCase *tc = tcase_create("send");

	test_seed();
	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_set_timeout(tc, 120);
	tcase_add_test(tc, send__both_directions);
	tcase_add_loop_test(tc, send__message_unchanged, 0, 2);
	tcase_add_test(tc, send__several_items_in_full);
	tcase_add_test(tc, send__second_source);
	tcase_add_test(tc, send__peer_without_contexts);
	tcase_add_test(tc, send__number_out_of_range);
	tcase_add_test(tc, send__bad_network);
	suite_add_tcase(suite, tc);
	tc = tcase_create("end");
	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_set_timeout(tc, 120);
	tcase_add_test(tc, unknown__sender_recovers);
	tcase_add_test(tc, lane__lost);
	tcase_add_test(tc, lane__crossed);
	tcase_add_test(tc, lane__service_moves);
	suite_add_tcase(suite, tc);
	tc = tcase_create("lies");
	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_set_timeout(tc, 120);
	tcase_add_test(tc, context__table_bounded);
	tcase_add_loop_test(tc, context__malformed, 0, sizeof(malformed) / sizeof(malformed[0]));
	tcase_add_test(tc, context__id_in_use);
	tcase_add_test(tc, context__foreign_answers);
	tcase_add_test(tc, context__survives_forged_numbers);
	suite_add_tcase(suite, tc);
	return test_main("core/peer/datagram_context", suite);
}
