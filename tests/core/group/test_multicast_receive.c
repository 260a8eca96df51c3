/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Messages of a group that arrive: delivery, numbers, multicast in the name of another. */
#include "core/groups.h"
#include "wire/bytes.h"

struct rig rig;

/* ---- delivery ---- */

START_TEST(deliver__items)
{
	char text[] = "one two";
	struct iovec items[] = {{text, 3}, {NULL, 0}, {text + 3, 4}};
	struct ripc_message *m;

	rig_start(&rig, 2, NULL);
	join(2);
	OK(ripc_group_send(rig.s[0], GROUP, items, 3, NULL, 5000));
	m = rig_take(&rig, 1);
	ck_assert_uint_eq(m->nitems, 3);
	for (unsigned i = 0; i < 3; i++)
		ck_assert_mem_eq(m->items[i].iov_base, items[i].iov_base ? items[i].iov_base : "",
				 items[i].iov_len);
	ck_assert_uint_eq(m->items[0].iov_len, 3);
	ck_assert_uint_eq(m->items[1].iov_len, 0);
	ck_assert_uint_eq(m->items[2].iov_len, 4);
	ripc_message_free(m);
}
END_TEST

/* A long message that nobody has taken yet is bounded by itself, and leaves the group its room. */
START_TEST(deliver__after_long_message)
{
	uint8_t data[40];

	rig_start(&rig, 2, NULL);
	join(2);
	rig_fill(data, sizeof(data), 3);
	OK(rig_long(&rig, 0, 1, MIB, 2, 5000));
	OK(ripc_group_send(rig.s[0], GROUP, &(struct iovec){data, sizeof(data)}, 1, NULL, 5000));
	rig_run(&rig, 50);
	ck_assert_uint_eq(stats(1).dropped, 0);
	rig_expect(&rig, 1, MIB, 2);
	rig_expect(&rig, 1, sizeof(data), 3);
}
END_TEST

/* Small ones travel with the bytes at once, and cost more memory than they have bytes. */
START_TEST(deliver__after_many_small_long)
{
	enum { SENDERS = 3, EACH = 450 };
	uint8_t data[40];
	unsigned n = 0;

	rig_start(&rig, SENDERS + 1, NULL);
	for (unsigned i = 0; i <= SENDERS; i++)
		rig.ctx[i]->opt.service_window = 65536;
	join(1);
	for (unsigned i = 1; i <= SENDERS; i++)
		for (unsigned k = 0; k < EACH; k++)
			OK(rig_long(&rig, i, 0, 8, k, 5000));
	rig_run(&rig, 50);
	ck_assert_uint_eq(rig.s[0]->queued, SENDERS * EACH);
	ck_assert_uint_gt(rig.s[0]->queued * RIPC__CREDIT_UNIT, 65536);
	rig_fill(data, sizeof(data), 3);
	OK(ripc_group_send(rig.s[1], GROUP, &(struct iovec){data, sizeof(data)}, 1, NULL, 5000));
	rig_run(&rig, 50);
	ck_assert_uint_eq(stats(0).dropped, 0);
	while (n < SENDERS * EACH) {
		struct ripc_message *m;

		OK(ripc_receive(rig.s[0], &m, 5000));
		ck_assert(m->is_long);
		ripc_message_free(m);
		n++;
	}
	rig_expect(&rig, 0, sizeof(data), 3);
}
END_TEST

/* ---- numbers ---- */

static void number(uint64_t n)
{
	inject(0, 1, RIPC__GROUP, n, 0, (const uint8_t *)"x", 1);
}

static void expect_stats(uint64_t received, uint64_t lost, uint64_t duplicates)
{
	ck_assert_uint_eq(stats(1).received, received);
	ck_assert_uint_eq(stats(1).lost, lost);
	ck_assert_uint_eq(stats(1).duplicates, duplicates);
	ck_assert_uint_eq(rig_stats(&rig, 1).queued, received);
}

START_TEST(receive__sequence_numbers)
{
	const uint64_t n = UINT64_C(1) << 40;

	rig_start(&rig, 2, NULL);
	OK(ripc_group_join(rig.s[1], GROUP, 10000));
	rig_connect(&rig, 0, 1);
	number(n);
	expect_stats(1, 0, 0);
	number(n);
	expect_stats(1, 0, 1);
	/* Messages before the first received one are not waited for. */
	number(n - 1);
	expect_stats(1, 0, 2);
	number(n + 1);
	number(n + 5);
	expect_stats(3, 3, 2);
	number(n + 3);
	expect_stats(4, 2, 2);
	number(n + 3);
	expect_stats(4, 2, 3);
	number(n + 5 + RIPC__MCAST_DEDUP_WINDOW - 1);
	expect_stats(5, RIPC__MCAST_DEDUP_WINDOW, 3);
	/* Too old for the window: it may have been received before. */
	number(n + 4);
	expect_stats(5, RIPC__MCAST_DEDUP_WINDOW, 4);
	number(n + 6);
	expect_stats(6, RIPC__MCAST_DEDUP_WINDOW - 1, 4);
	number(n + 6 + 3 * RIPC__MCAST_DEDUP_WINDOW);
	expect_stats(7, 3 * RIPC__MCAST_DEDUP_WINDOW, 4);
	/* It has forgotten the group meanwhile, and begins anew. */
	number(n + (UINT64_C(1) << 30));
	expect_stats(8, 3 * RIPC__MCAST_DEDUP_WINDOW, 4);
	number(n + (UINT64_C(1) << 30) + 1);
	expect_stats(9, 3 * RIPC__MCAST_DEDUP_WINDOW, 4);
}
END_TEST

/* ---- forgeries: multicast in the name of another ---- */

/* A datagram from a sender that somebody made up. */
static void forge_to(uint64_t group, uint64_t sender, uint64_t number)
{
	uint8_t instance[16] = {1}, lens[4] = {0};
	struct ripc__header h = {.dest = group,
				 .source = 7,
				 .nitems = 1,
				 .u = {number},
				 .instance = instance,
				 .lens = lens,
				 .payload = lens};

	ripc__put_le64(instance + 8, sender);
	ripc__group_receive(rig.ctx[0], 0, NULL, &h);
}

/* Return: whether it was taken. */
static bool forge_multicast(uint64_t sender, uint64_t number)
{
	uint64_t before = stats(0).received;

	forge_to(GROUP, sender, number);
	return stats(0).received > before;
}

/*
 * Messages that were sent while this context was no member are not missing, although it went on
 * sending to the group. Later ones are.
 */
START_TEST(receive__absence_is_no_loss)
{
	struct ripc_group_stats st = {.size = sizeof(st)};

	rig_start(&rig, 3, NULL);
	join(3);
	send_all(2, 0, 3);
	send_all(0, 0, 3);
	OK(ripc_group_leave(rig.s[2], GROUP));
	rig_run(&rig, 100);
	for (unsigned i = 0; i < 10; i++)
		send_all(0, 0, 2);
	OK(ripc_group_join(rig.s[2], GROUP, 5000));
	rig_run(&rig, 100);
	send_all(0, 0, 3);
	OK(ripc_group_stats(rig.ctx[2], GROUP, rig_instance(&rig, 0), &st));
	ck_assert_uint_eq(st.received, 2);
	ck_assert_uint_eq(st.lost, 0);
	group(0)->number += 3;
	send_all(0, 0, 3);
	OK(ripc_group_stats(rig.ctx[2], GROUP, rig_instance(&rig, 0), &st));
	ck_assert_uint_eq(st.lost, 3);
}
END_TEST

/* Forged senders in several groups take no more memory than in one. Lanes bring further ones. */
START_TEST(senders__forged_in_many_groups)
{
	struct iovec item = {"x", 1};
	uint64_t senders = 0;

	rig_start(&rig, 2, NULL);
	for (uint64_t g = 1; g <= 3; g++)
		OK(ripc_group_join(rig.s[0], GROUP + g, 10000));
	for (uint64_t g = 1; g <= 3; g++)
		for (uint64_t i = 0; i < RIPC__UNVERIFIED_SENDERS_MAX / 2; i++)
			forge_to(GROUP + g, i, 1);
	for (uint64_t g = 1; g <= 3; g++)
		senders += HASH_COUNT(ripc__group_find(rig.ctx[0], GROUP + g)->senders);
	ck_assert_uint_eq(senders, RIPC__UNVERIFIED_SENDERS_MAX);
	ck_assert_uint_eq(rig.ctx[0]->unverified_senders, RIPC__UNVERIFIED_SENDERS_MAX);
	for (struct ripc_message *m; !ripc_receive(rig.s[0], &m, 0);)
		ripc_message_free(m);
	OK(ripc_group_send(rig.s[1], GROUP + 3, &item, 1, NULL, 5000));
	ripc_message_free(rig_take(&rig, 0));
	ck_assert_uint_eq(rig.ctx[0]->unverified_senders, RIPC__UNVERIFIED_SENDERS_MAX);
	OK(ripc_group_leave(rig.s[0], GROUP + 1));
	rig_run(&rig, 100);
	ck_assert_ptr_null(ripc__group_find(rig.ctx[0], GROUP + 1));
	ck_assert_uint_eq(rig.ctx[0]->unverified_senders, RIPC__UNVERIFIED_SENDERS_MAX / 2);
}
END_TEST

/* A sender that a datagram named first is verified by its first message over a lane. */
START_TEST(senders__verified_by_lane)
{
	struct iovec item = {"x", 1};
	uint8_t lens[4] = {0};
	struct ripc__header h = {
		.dest = GROUP, .source = 7, .nitems = 1, .u = {1}, .lens = lens, .payload = lens};

	rig_start(&rig, 2, NULL);
	join(1);
	h.instance = rig_instance(&rig, 1);
	ripc__group_receive(rig.ctx[0], 0, NULL, &h);
	ripc_message_free(rig_take(&rig, 0));
	ck_assert_uint_eq(rig.ctx[0]->unverified_senders, 1);
	for (unsigned i = 0; i < 2; i++) {
		OK(ripc_group_send(rig.s[1], GROUP, &item, 1, NULL, 5000));
		ripc_message_free(rig_take(&rig, 0));
		ck_assert_uint_eq(rig.ctx[0]->unverified_senders, 0);
	}
}
END_TEST

static bool has_sender(uint64_t sender)
{
	uint8_t instance[16] = {1};
	struct ripc_group_stats s = {.size = sizeof(s)};

	ripc__put_le64(instance + 8, sender);
	return !ripc_group_stats(rig.ctx[0], GROUP, instance, &s);
}

/* Forged senders take half of the table; the senders received last stay. */
START_TEST(senders__forged_flood)
{
	enum { HALF = RIPC__MCAST_SENDERS_MAX / 2 };

	rig_start(&rig, 1, NULL);
	join(1);
	for (uint64_t i = 0; i < HALF; i++)
		ck_assert(forge_multicast(i, 1));
	for (uint64_t i = HALF; i < 2 * HALF; i++)
		ck_assert(!forge_multicast(i, 1));
	ck_assert_uint_eq(stats(0).senders, HALF);
	rig_run(&rig, RIPC__IDLE_MS / 2);
	ck_assert(forge_multicast(3, 2));
	ck_assert(!forge_multicast(HALF, 1));
	rig_run(&rig, RIPC__IDLE_MS / 2 + 1);
	for (uint64_t i = HALF; i < 2 * HALF - 1; i++)
		ck_assert(forge_multicast(i, 1));
	/* All but one were silent for long. */
	ck_assert(!forge_multicast(2 * HALF - 1, 1));
	ck_assert_uint_eq(stats(0).senders, HALF);
	for (uint64_t i = 0; i < 2 * HALF; i++)
		ck_assert_int_eq(has_sender(i), i == 3 || (i >= HALF && i < 2 * HALF - 1));
	ck_assert(forge_multicast(3, 3));
	ck_assert(!forge_multicast(3, 3));
}
END_TEST

/* A multicast that seems to be of 1, or is. Return: whether it was taken. */
static bool multicast(uint64_t n)
{
	uint8_t lens[4] = {0};
	uint64_t before = stats(0).received;
	struct ripc__header h = {.dest = GROUP,
				 .source = RIG_ID(1),
				 .nitems = 1,
				 .u = {n},
				 .instance = rig.ctx[1]->instance,
				 .lens = lens,
				 .payload = lens};
	struct ripc_message *m;

	ripc__lock(rig.ctx[0]);
	ripc__group_receive(rig.ctx[0], 0, NULL, &h);
	ripc__unlock(rig.ctx[0]);
	while (!ripc_receive(rig.s[0], &m, 0))
		ripc_message_free(m);
	return stats(0).received > before;
}

/* The number of the sender's next message, over whatever it goes. */
static uint64_t next_number(void)
{
	return group(1)->number + 1;
}

static bool sent_over_lane(void)
{
	uint64_t before = stats(0).received;
	struct ripc_message *m;

	OK(ripc_group_send(rig.s[1], GROUP, &(struct iovec){"x", 1}, 1, NULL, 5000));
	rig_run(&rig, 1);
	while (!ripc_receive(rig.s[0], &m, 0))
		ripc_message_free(m);
	return stats(0).received > before;
}

static const struct {
	uint64_t ahead, more; /* of the first lie, and for each further one */
	unsigned each;        /* one after so many messages; 0: one only */
	bool first;           /* before the first message */
} forgeries[] = {
	{1 << 23, 0, 0, false},
	{1 << 23, 0, 0, true},
	{1 << 23, 1, 3, false},
	{1 << 23, 1 << 23, 3, true},
	{UINT64_C(1) << 40, 1 << 20, 1, false},
	{RIPC__MCAST_DEDUP_WINDOW - 1, 0, 0, false},
	{RIPC__MCAST_DEDUP_WINDOW - 1, 0, 5, false},
	{RIPC__MCAST_DEDUP_WINDOW - 1, 0, 0, true},
	{RIPC__MCAST_DEDUP_WINDOW + 1, 0, 5, false},
	{1, 0, 5, false},
};

#define NFORGERIES (sizeof(forgeries) / sizeof(forgeries[0]))

#define MESSAGES 5000

/* Even by multicast alone, with all members reachable by it. */
START_TEST(forgery__victim_still_received)
{
	unsigned dropped = 0, n = 0;
	unsigned most;
	bool lane = _i & 1;

	rig_start(&rig, 2, NULL);
	OK(ripc_group_join(rig.s[0], GROUP, 10000));
	OK(ripc_group_send(rig.s[1], GROUP, &(struct iovec){"x", 1}, 1, NULL, 5000));
	ripc_message_free(rig_take(&rig, 0));
	if (forgeries[_i / 2].first) {
		struct ripc__mcast_sender *s;

		/* As if nothing had come of it yet. */
		HASH_FIND(hh, group(0)->senders, rig.ctx[1]->instance, 16, s);
		ck_assert_ptr_nonnull(s);
		s->replay = (struct ripc__replay){0};
		n += multicast(next_number() + forgeries[_i / 2].ahead);
	}
	for (unsigned i = 1; i <= MESSAGES; i++) {
		uint64_t ahead = forgeries[_i / 2].ahead + n * forgeries[_i / 2].more;

		dropped += !(lane ? sent_over_lane() : multicast(++group(1)->number));
		if (forgeries[_i / 2].each ? i % forgeries[_i / 2].each == 0 : i == 100 && !n)
			n += multicast(group(1)->number + ahead);
	}
	most = n + (forgeries[_i / 2].first ? RIPC__MCAST_DEDUP_WINDOW : 0) + n / 4;
	ck_assert_msg(dropped <= most, "%u forgeries, %u messages dropped", n, dropped);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("core/group/multicast_receive");
	TCase *tc = tcase_create("receive");

	test_seed();
	tcase_add_checked_fixture(tc, NULL, groups_teardown);
	tcase_set_timeout(tc, 120);
	tcase_add_test(tc, deliver__items);
	tcase_add_test(tc, deliver__after_long_message);
	tcase_add_test(tc, deliver__after_many_small_long);
	tcase_add_test(tc, receive__sequence_numbers);
	tcase_add_test(tc, receive__absence_is_no_loss);
	tcase_add_test(tc, senders__forged_flood);
	tcase_add_test(tc, senders__forged_in_many_groups);
	tcase_add_test(tc, senders__verified_by_lane);
	tcase_add_loop_test(tc, forgery__victim_still_received, 0, 2 * NFORGERIES);
	suite_add_tcase(suite, tc);
	return test_main("core/group/multicast_receive", suite);
}
