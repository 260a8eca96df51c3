/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Groups: who keeps them when contexts part, die and meet again; numbers; messages that have no
 * business there.
 */
#include "core/group/group.h"
#include "core/rig.h"
#include "wire/bytes.h"
#include "wire/record.h"

#define GROUP 77

static struct rig rig;

static void join(unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		OK(ripc_group_join(rig.s[i], GROUP, 10000));
	rig_run(&rig, 100);
}

static struct ripc__group *group(unsigned i)
{
	return ripc__group_find(rig.ctx[i], GROUP);
}

static struct ripc_group_stats stats(unsigned i)
{
	struct ripc_group_stats s = {.size = sizeof(s)};

	OK(ripc_group_stats(rig.ctx[i], GROUP, NULL, &s));
	return s;
}

static void expect_member_count(unsigned from, unsigned to, unsigned want)
{
	for (unsigned i = from; i < to; i++)
		ck_assert_uint_eq(stats(i).members, want);
}

static unsigned coordinators(unsigned from, unsigned to)
{
	unsigned n = 0;

	for (unsigned i = from; i < to; i++)
		n += group(i)->state == RIPC__GROUP_COORDINATING;
	return n;
}

static void send_all(unsigned from, unsigned first, unsigned last)
{
	uint8_t data[40];

	rig_fill(data, sizeof(data), 9);
	OK(ripc_group_send(rig.s[from], GROUP, &(struct iovec){data, sizeof(data)}, 1, NULL, 5000));
	for (unsigned i = first; i < last; i++)
		rig_expect(&rig, i, sizeof(data), 9);
}

static void set_partition(bool on)
{
	for (unsigned i = 0; i < 2; i++)
		for (unsigned k = 2; k < 4; k++)
			OK(ripc__sim_partition(rig.net, rig_instance(&rig, i),
					       rig_instance(&rig, k), on));
}

/* ---- who keeps it ---- */

START_TEST(join__one_coordinator)
{
	rig_start(&rig, 4, NULL);
	join(4);
	expect_member_count(0, 4, 4);
	ck_assert_uint_eq(coordinators(0, 4), 1);
	send_all(2, 0, 4);
}
END_TEST

/* Members repeat their JOIN: the list stays the same, and is not sent again. */
START_TEST(join__repeated)
{
	uint64_t version;

	rig_start(&rig, 3, NULL);
	join(3);
	rig_run(&rig, 1000);
	version = group(0)->version;
	rig_run(&rig, 60000);
	for (unsigned i = 0; i < 3; i++)
		ck_assert_uint_eq(group(i)->version, version);
}
END_TEST

START_TEST(coordinator__partition_merge)
{
	rig_start(&rig, 4, NULL);
	join(4);
	set_partition(true);
	send_all(0, 0, 2);
	rig_run(&rig, 30000);
	expect_member_count(0, 4, 2);
	ck_assert_uint_eq(coordinators(0, 2), 1);
	ck_assert_uint_eq(coordinators(2, 4), 1);
	send_all(0, 0, 2);
	send_all(3, 2, 4);
	set_partition(false);
	for (unsigned ms = 0; ms < 100000 && coordinators(0, 4) == 2; ms++)
		rig_run(&rig, 1);
	/* The coordinator that resigns notifies its members: they move at once. */
	rig_run(&rig, 150);
	expect_member_count(0, 4, 4);
	ck_assert_uint_eq(coordinators(0, 4), 1);
	send_all(1, 0, 4);
}
END_TEST

/* The lane to the coordinator breaks: no member is lost, and no later message. */
START_TEST(coordinator__found_again)
{
	rig_start(&rig, 4, NULL);
	join(4);
	for (unsigned i = 1; i < 4; i++) {
		if (rig_lane(&rig, 0, i))
			ck_assert_int_ge(ripc__sim_break(rig.net, rig_instance(&rig, 0),
							 rig_instance(&rig, i)),
					 1);
		rig_run(&rig, 100);
		send_all(0, 0, 4);
		rig_run(&rig, 5000);
		expect_member_count(0, 4, 4);
		send_all(i, 0, 4);
	}
	ck_assert_uint_eq(coordinators(0, 4), 1);
}
END_TEST

/* The member is silent, although its lanes look intact. */
START_TEST(member__silent_expires)
{
	rig_start(&rig, 4, NULL);
	join(4);
	ripc__sim_kill_context(rig.net, rig.ctx[3], true);
	rig.ctx[3] = NULL;
	rig_run(&rig, 30000);
	expect_member_count(0, 3, 3);
	ripc__sim_kill_context(rig.net, rig.ctx[0], true);
	rig.ctx[0] = NULL;
	rig_run(&rig, 30000);
	expect_member_count(1, 3, 2);
	ck_assert_uint_eq(coordinators(1, 3), 1);
	send_all(2, 1, 3);
}
END_TEST

/* A datagram from a sender that somebody made up. Return: whether it was taken. */
static bool forge_multicast(uint64_t sender, uint64_t number)
{
	uint8_t instance[16] = {1}, lens[4] = {0};
	uint64_t before = stats(0).received;
	struct ripc__header h = {.dest = GROUP,
				 .source = 7,
				 .nitems = 1,
				 .u = {number},
				 .instance = instance,
				 .lens = lens,
				 .payload = lens};

	ripc__put_le64(instance + 8, sender);
	ripc__group_receive(rig.ctx[0], 0, NULL, &h);
	return stats(0).received > before;
}

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

/* Unused state is freed: of a sender that sends no more, and of a member that has left. */
START_TEST(group__idle_freed)
{
	rig_start(&rig, 3, NULL);
	join(2);
	send_all(2, 0, 2);
	rig_run(&rig, 50000);
	ck_assert_ptr_null(group(2));
	ck_assert_uint_eq(HASH_COUNT(group(0)->members), 1);
	OK(ripc_group_leave(rig.s[0], GROUP));
	OK(ripc_group_leave(rig.s[1], GROUP));
	rig_run(&rig, 10000);
	ck_assert_ptr_null(group(0));
	ck_assert_ptr_null(group(1));
}
END_TEST

/*
 * The last members leave while no lane exists to notify the sender: it removes them before their
 * records expire.
 */
START_TEST(members__leave_unnoticed)
{
	rig_start(&rig, 4, NULL);
	join(2);
	send_all(3, 0, 2);
	expect_member_count(3, 4, 2);
	set_partition(true);
	rig_run(&rig, 5000);
	for (unsigned i = 0; i < 2; i++)
		OK(ripc_group_leave(rig.s[i], GROUP));
	rig_run(&rig, 15000);
	expect_member_count(3, 4, 0);
	set_partition(false);
	OK(ripc_group_join(rig.s[1], GROUP, 10000));
	rig_run(&rig, 5000);
	expect_member_count(3, 4, 1);
	send_all(3, 1, 2);
}
END_TEST

/*
 * A member leaves between two searches of a sender for the coordinator: the next list of members
 * lacks it.
 */
START_TEST(members__leave_between_polls)
{
	struct ripc__group *g;
	unsigned coordinator;

	rig_start(&rig, 3, NULL);
	join(2);
	coordinator = group(0)->state == RIPC__GROUP_COORDINATING ? 0 : 1;
	send_all(2, 0, 2);
	expect_member_count(2, 3, 2);
	g = group(2);
	g->state = RIPC__GROUP_SEARCHING;
	g->next_ns = RIPC__NEVER;
	OK(ripc_group_leave(rig.s[!coordinator], GROUP));
	rig_run(&rig, 100);
	ck_assert_int_eq(g->state, RIPC__GROUP_SEARCHING);
	expect_member_count(2, 3, 2);
	ripc__group_kick(g);
	rig_run(&rig, 5000);
	expect_member_count(2, 3, 1);
	send_all(2, coordinator, coordinator + 1);
	expect_member_count(coordinator, coordinator + 1, 1);
}
END_TEST

/* ---- numbers ---- */

static void inject(unsigned from, unsigned to, unsigned kind, uint64_t a, uint64_t b,
		   const uint8_t *tail, size_t len)
{
	uint8_t buf[2000], *p = ripc__header_put(buf, (uint8_t)kind, 0, kind == RIPC__GROUP, 0,
						 GROUP, RIG_ID(from));

	ripc__put_le64(p, a);
	p += 8;
	if (kind == RIPC__GROUP) {
		ripc__put_le32(p, (uint32_t)len);
		p += 4;
	} else if (kind != RIPC__MCAST_ACK) {
		ripc__put_le64(p, b);
		p += 8;
	}
	if (len)
		memcpy(p, tail, len);
	rig_inject(&rig, from, to, buf, (size_t)(p - buf) + len, 0);
	rig_run(&rig, 50);
}

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

/* MCAST_ACK for a forged message does not count as an answer to ours. */
START_TEST(mcast_ack__of_forgery)
{
	struct ripc__member *m;

	rig_start(&rig, 2, NULL);
	OK(ripc_group_join(rig.s[0], GROUP, 10000));
	OK(ripc_group_send(rig.s[1], GROUP, &(struct iovec){"x", 1}, 1, NULL, 5000));
	HASH_FIND(hh, group(1)->members, rig.ctx[0]->instance, 16, m);
	ck_assert_ptr_nonnull(m);
	inject(0, 1, RIPC__MCAST_ACK, next_number(), 0, NULL, 0);
	inject(0, 1, RIPC__MCAST_ACK, 1, 0, NULL, 0);
	ck_assert_uint_eq(m->mcast_until_ns, 0);
	inject(0, 1, RIPC__MCAST_ACK, group(1)->number, 0, NULL, 0);
	ck_assert_uint_gt(m->mcast_until_ns, 0);
}
END_TEST

/* ---- unauthenticated peers ---- */

static size_t record_of(const uint8_t instance[16], uint8_t *buf)
{
	struct ripc__record r = {.service = ripc__group_name(GROUP), .generation = 1};
	int len;

	memcpy(r.instance, instance, 16);
	len = ripc__record_encode(&r, buf, RIPC__RECORD_BYTES_MAX);
	ck_assert_int_gt(len, 0);
	return (size_t)len;
}

/* Only the group's coordinator is believed, and only about itself. */
START_TEST(control__not_from_coordinator)
{
	uint8_t record[RIPC__RECORD_BYTES_MAX], nobody[16] = {1, 2, 3};
	size_t len;

	rig_start(&rig, 4, NULL);
	join(3);
	rig_connect(&rig, 3, 1);
	len = record_of(nobody, record);
	inject(3, 1, RIPC__MEMBER, 1, 5, record, len);
	expect_member_count(0, 3, 3);
	len = record_of(rig_instance(&rig, 0), record);
	inject(3, 1, RIPC__MEMBER, 0, 5, record, len);
	inject(3, 1, RIPC__COORDINATOR, 0, 0, NULL, 0);
	inject(3, 1, RIPC__MCAST_ACK, 1, 0, NULL, 0);
	expect_member_count(0, 3, 3);
	ck_assert_uint_eq(group(1)->state, RIPC__GROUP_JOINED);
	rig_connect(&rig, 3, 0);
	inject(3, 0, RIPC__JOIN, RIPC__ROLE_MEMBER, 0, record, len);
	expect_member_count(0, 3, 3);
	ck_assert_uint_ge(rig_stats(&rig, 0).bad_messages, 1);
	send_all(1, 0, 3);
}
END_TEST

START_TEST(group_control__malformed)
{
	uint8_t record[RIPC__RECORD_BYTES_MAX];
	size_t len;

	rig_start(&rig, 2, NULL);
	join(1);
	for (unsigned i = 0; i < 3; i++) {
		rig_connect(&rig, 1, 0);
		len = record_of(rig_instance(&rig, 1), record);
		inject(1, 0, RIPC__JOIN, i == 2 ? 3 : RIPC__ROLE_MEMBER, 0, record,
		       i ? len - (i & 1) : 0);
		ck_assert_uint_eq(rig_stats(&rig, 0).bad_messages, i + 1);
		rig_run(&rig, 3000);
	}
	expect_member_count(0, 1, 1);
}
END_TEST

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

static void teardown(void)
{
	rig_end(&rig);
}

int main(void)
{
	Suite *suite = suite_create("core/group/group");
	TCase *tc = tcase_create("group");

	test_seed();
	tcase_add_checked_fixture(tc, NULL, teardown);
	tcase_set_timeout(tc, 120);
	tcase_add_test(tc, join__one_coordinator);
	tcase_add_test(tc, join__repeated);
	tcase_add_test(tc, coordinator__partition_merge);
	tcase_add_test(tc, coordinator__found_again);
	tcase_add_test(tc, member__silent_expires);
	tcase_add_test(tc, senders__forged_flood);
	tcase_add_test(tc, group__idle_freed);
	tcase_add_test(tc, members__leave_unnoticed);
	tcase_add_test(tc, members__leave_between_polls);
	tcase_add_test(tc, deliver__items);
	tcase_add_test(tc, deliver__after_long_message);
	tcase_add_test(tc, deliver__after_many_small_long);
	tcase_add_test(tc, receive__sequence_numbers);
	tcase_add_loop_test(tc, forgery__victim_still_received, 0, 2 * NFORGERIES);
	tcase_add_test(tc, mcast_ack__of_forgery);
	tcase_add_test(tc, control__not_from_coordinator);
	tcase_add_test(tc, group_control__malformed);
	suite_add_tcase(suite, tc);
	return test_main("core/group/group", suite);
}
