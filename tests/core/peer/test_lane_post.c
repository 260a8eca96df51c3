/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The elided header: four bytes replace the fields that equal those of the previous message on the
 * lane, which both ends remember.
 */
#include "core/rig.h"

#include "wire/bytes.h"

static struct rig rig;
static struct ripc_service *other[2]; /* a second service of context 0 and of context 1 */

#define OTHER(i) (RIG_ID(i) + 100)

/* ---- what passes from context 0 to context 1 ---- */

static uint8_t sender[16];
static struct {
	unsigned full, elided; /* SHORT, ELIDED */
	size_t len;            /* of the last one of either */
} seen;

static void count_headers(void *arg, const uint8_t from[16], const uint8_t to[16], uint8_t *data,
			  size_t *len)
{
	bool elided = *len >= RIPC__ELIDED_LEN && ripc__is_elided(data[0]);

	if (memcmp(from, sender, 16) ||
	    (!elided && (*len < RIPC__FAST_HEADER_LEN || ripc__get_le16(data) != RIPC__MSG_MAGIC ||
			 data[3] != RIPC__SHORT)))
		return;
	seen.len = *len;
	seen.elided += elided;
	seen.full += !elided;
}

static void start(const char *options)
{
	rig_init(&rig, NULL);
	for (unsigned i = 0; i < 2; i++) {
		rig_open(&rig, options);
		OK(ripc_service_register(rig.ctx[i], OTHER(i), 0, &other[i]));
	}
	rig_connect(&rig, 0, 1);
	OK(ripc_route_lookup(rig.ctx[0], OTHER(1), NULL, 5000));
	memcpy(sender, rig_instance(&rig, 0), 16);
	ripc__sim_tamper(rig.net, count_headers, NULL);
	memset(&seen, 0, sizeof(seen));
}

static void setup(void)
{
	start(NULL);
}

static void teardown(void)
{
	rig_end(&rig);
}

/* One message, which arrives as it was sent. */
static void exchange(struct ripc_service *from, struct ripc_service *to, size_t len)
{
	static uint8_t data[8192];
	struct iovec item = {data, len};
	struct ripc_message *m;

	rig_fill(data, len, len);
	OK(ripc_send_short(from, ripc_service_id(to), &item, 1, NULL, 5000));
	OK(ripc_receive(to, &m, 5000));
	ck_assert_uint_eq(m->source, ripc_service_id(from));
	ck_assert_uint_eq(m->dest, ripc_service_id(to));
	ck_assert_uint_eq(m->nitems, 1);
	ck_assert_uint_eq(m->items[0].iov_len, len);
	rig_verify(m->items[0].iov_base, len, len);
	ripc_message_free(m);
}

static void check_seen(unsigned full, unsigned elided)
{
	ck_assert_uint_eq(seen.full, full);
	ck_assert_uint_eq(seen.elided, elided);
}

/* ---- sending ---- */

START_TEST(elide__after_full_header)
{
	struct ripc_stats before = rig_stats(&rig, 0), after = {.size = sizeof(after)};
	static const size_t lens[] = {64, 64, 0, 1, 28, 29, 5000, 64};
	const size_t n = sizeof(lens) / sizeof(lens[0]);
	uint64_t units = 0, bytes = 0;
	size_t header;

	for (size_t i = 0; i < n; i++) {
		exchange(rig.s[0], rig.s[1], lens[i]);
		check_seen(1, (unsigned)i);
		header = i ? RIPC__ELIDED_LEN : RIPC__FAST_HEADER_LEN;
		ck_assert_uint_eq(seen.len, lens[i] + header);
		units += ripc__units_of(RIPC__FAST_HEADER_LEN + lens[i]);
		bytes += lens[i];
	}
	after = rig_stats(&rig, 0);
	ck_assert_uint_eq(after.short_sent - before.short_sent, n);
	ck_assert_uint_eq(after.bytes_sent - before.bytes_sent, bytes);
	/* Both count as if all had come in full. */
	ck_assert_uint_eq(rig_dest(&rig, 0, 1)->credit->sent_units, units);
	ck_assert_uint_eq(rig_lane(&rig, 1, 0)->flow->arrived_units, units);
	/* The other direction has a memory of its own. */
	exchange(rig.s[1], rig.s[0], 64);
	ck_assert(rig_lane(&rig, 1, 0)->tx_last.dest);
	check_seen(1, (unsigned)n - 1);
}
END_TEST

START_TEST(elide__not_other_services)
{
	for (unsigned i = 0; i < 4; i++) {
		exchange(rig.s[0], i & 1 ? other[1] : rig.s[1], 10);
		check_seen(i + 1, 0);
	}
	for (unsigned i = 0; i < 4; i++) {
		exchange(i & 1 ? rig.s[0] : other[0], other[1], 10);
		check_seen(i + 5, 0);
	}
	exchange(rig.s[0], other[1], 10);
	check_seen(8, 1);
}
END_TEST

/*
 * Messages between two short ones change nothing: several items, return buffers, long messages,
 * control messages.
 */
START_TEST(elide__after_slow_path)
{
	struct iovec items[2] = {{"ab", 2}, {"cde", 3}}, back = {NULL, 100};
	struct ripc_send_options options = {
		.size = sizeof(options), .nreturn_buffers = 1, .return_buffers = &back};
	struct ripc_message *m;

	exchange(rig.s[0], rig.s[1], 10);
	check_seen(1, 0);
	OK(ripc_send_short(rig.s[0], OTHER(1), items, 2, NULL, 5000));
	OK(ripc_receive(other[1], &m, 5000));
	ck_assert_uint_eq(m->nitems, 2);
	ripc_message_free(m);
	check_seen(2, 0);
	exchange(rig.s[0], rig.s[1], 11);
	check_seen(2, 1);
	back.iov_base = ripc_buf_alloc(rig.ctx[0], 100);
	OK(ripc_send_short(other[0], OTHER(1), items, 1, &options, 5000));
	OK(ripc_receive(other[1], &m, 5000));
	ck_assert_uint_eq(m->nreturn_buffers, 1);
	ripc_message_free(m);
	check_seen(3, 1);
	exchange(rig.s[0], rig.s[1], 12);
	check_seen(3, 2);
	OK(rig_long(&rig, 0, 1, 100000, 1, 5000));
	rig_expect(&rig, 1, 100000, 1);
	OK(rig_long(&rig, 1, 0, 20, 2, 5000));
	rig_expect(&rig, 0, 20, 2);
	exchange(rig.s[0], rig.s[1], 13);
	check_seen(3, 3);
	OK(ripc_buf_free(rig.ctx[0], back.iov_base));
}
END_TEST

/* A reliable message or a call of one item, which arrives as it was sent. */
static void exchange_reliable(struct ripc_service *from, struct ripc_service *to, bool call,
			      size_t len)
{
	struct ripc_send_options options = {.size = sizeof(options), .flags = RIPC_RELIABLE};
	static uint8_t data[8192];
	struct iovec item = {data, len};
	struct ripc_request *request = NULL;
	struct ripc_message *m, *reply;

	rig_fill(data, len, len);
	if (call)
		OK(ripc_call_start(from, ripc_service_id(to), &item, 1, NULL, 5000, &request));
	else
		OK(ripc_send_short(from, ripc_service_id(to), &item, 1, &options, 5000));
	OK(ripc_receive(to, &m, 5000));
	ck_assert_uint_eq(m->source, ripc_service_id(from));
	ck_assert_uint_eq(m->dest, ripc_service_id(to));
	ck_assert_uint_eq(m->items[0].iov_len, len);
	rig_verify(m->items[0].iov_base, len, len);
	if (call) {
		OK(ripc_reply(m, m->items, 1, 5000));
		OK(ripc_call_wait(&request, &reply, 5000));
		ck_assert_uint_eq(reply->items[0].iov_len, len);
		rig_verify(reply->items[0].iov_base, len, len);
		ripc_message_free(reply);
	}
	ripc_message_free(m);
}

/* Plain, reliable and call messages between the same services share one full header. */
START_TEST(elide__reliable_and_calls)
{
	static const size_t lens[] = {64, 64, 0, 1, 28, 29, 1000, 64};
	const unsigned n = sizeof(lens) / sizeof(lens[0]);
	struct ripc_stats stats;

	/* Their first ones begin the numbers of reliable messages. */
	exchange_reliable(rig.s[0], rig.s[1], false, 5);
	check_seen(1, 0);
	for (unsigned i = 0; i < n; i++) {
		exchange_reliable(rig.s[0], rig.s[1], false, lens[i]);
		ck_assert_uint_eq(seen.len, RIPC__ELIDED_LEN + lens[i]);
		exchange_reliable(rig.s[0], rig.s[1], true, lens[i]);
		ck_assert_uint_eq(seen.len, RIPC__ELIDED_LEN + RIPC__CALL_EXT + lens[i]);
		exchange(rig.s[0], rig.s[1], lens[i]);
		ck_assert_uint_eq(seen.len, RIPC__ELIDED_LEN + lens[i]);
	}
	check_seen(1, 3 * n);
	/* Answers, too. */
	memcpy(sender, rig_instance(&rig, 1), 16);
	exchange_reliable(rig.s[0], rig.s[1], true, 64);
	check_seen(1, 3 * n + 1);
	exchange_reliable(rig.s[0], other[1], true, 64);
	check_seen(2, 3 * n + 1);
	stats = rig_stats(&rig, 1);
	ck_assert_uint_eq(stats.bad_messages + stats.lanes_lost, 0);
}
END_TEST

/* The header contains only half of the number. */
START_TEST(elide__sequence_wraps)
{
	static const uint32_t from[] = {0xfffd, 0xfffffffd};

	for (size_t i = 0; i < sizeof(from) / sizeof(from[0]); i++) {
		rig_run(&rig, 100);
		rig_lane(&rig, 0, 1)->tx_seq = rig_lane(&rig, 1, 0)->rx_seq = from[i];
		for (unsigned k = 0; k < 8; k++)
			exchange(rig.s[0], rig.s[1], k);
		ck_assert_uint_eq(rig_lane(&rig, 1, 0)->rx_seq, (uint32_t)(from[i] + 8));
	}
	check_seen(1, 15);
}
END_TEST

/* More credit than it has room for goes with the next one. */
START_TEST(elide__returns_credit)
{
	struct ripc__lane *lane = rig_lane(&rig, 0, 1), *back = rig_lane(&rig, 1, 0);

	ck_assert(back->uses_credits);
	exchange(rig.s[0], rig.s[1], 10);
	exchange(rig.s[1], rig.s[0], 10);
	rig_run(&rig, 100);
	lane->rx_credits_due = 300;
	back->tx_credits = 10;
	exchange(rig.s[0], rig.s[1], 10);
	ck_assert_uint_eq(lane->rx_credits_due, 45);
	ck_assert_uint_eq(back->tx_credits, 10 + 255);
	exchange(rig.s[0], rig.s[1], 10);
	ck_assert_uint_eq(lane->rx_credits_due, 0);
	ck_assert_uint_eq(back->tx_credits, 10 + 300);
	check_seen(1, 2);
}
END_TEST

/* Both ends begin anew with each lane. */
START_TEST(elide__not_on_new_lane)
{
	for (unsigned i = 0; i < 3; i++) {
		exchange(rig.s[0], rig.s[1], 10);
		check_seen(i + 1, i);
		exchange(rig.s[0], rig.s[1], 10);
		check_seen(i + 1, i + 1);
		ck_assert_int_eq(
			ripc__sim_break(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1)), 1);
		rig_run(&rig, 100);
	}
	ck_assert_uint_eq(rig_stats(&rig, 0).lanes_lost, 3);
	ck_assert_uint_eq(rig_stats(&rig, 1).bad_messages, 0);
}
END_TEST

/* ---- receiving ---- */

static void put_short_header(uint8_t buf[RIPC__ELIDED_LEN + 4], uint32_t skew, uint32_t credits)
{
	ripc__put_le32(buf, ripc__elided_word(0, rig_lane(&rig, 0, 1)->tx_seq + skew, credits));
	ripc__put_le32(buf + RIPC__ELIDED_LEN, 0x65726f6d); /* "more" */
}

/* The lane is closed, that is counted, and the next one is as good as any. */
static void expect_lane_closed(uint8_t *buf, size_t len)
{
	struct ripc_stats before = rig_stats(&rig, 1), after = {.size = sizeof(after)};

	rig_inject(&rig, 0, 1, buf, len, 0);
	rig_expect_none(&rig, 1);
	after = rig_stats(&rig, 1);
	ck_assert_uint_eq(after.bad_messages - before.bad_messages, 1);
	ck_assert_uint_eq(after.short_received, before.short_received);
	rig_run(&rig, 100);
	rig_exchange(&rig, 0, 1);
}

START_TEST(dispatch__elided_first)
{
	uint8_t buf[RIPC__ELIDED_LEN + 4];

	put_short_header(buf, 0, 0);
	expect_lane_closed(buf, sizeof(buf));
	/* There has been one since: not so on the next lane. */
	OK(ripc__sim_break(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1)) != 1);
	rig_run(&rig, 100);
	rig_connect(&rig, 0, 1);
	put_short_header(buf, 0, 0);
	expect_lane_closed(buf, sizeof(buf));
}
END_TEST

START_TEST(dispatch__elided_same_services)
{
	uint8_t buf[RIPC__ELIDED_LEN + 4];
	struct ripc_message *m;

	exchange(other[0], rig.s[1], 10);
	/* Any length, and nothing at all. */
	for (size_t len = 0; len <= 4; len++) {
		put_short_header(buf, 0, 0);
		rig_inject(&rig, 0, 1, buf, RIPC__ELIDED_LEN + len, 0);
		OK(ripc_receive(rig.s[1], &m, 5000));
		ck_assert_uint_eq(m->source, OTHER(0));
		ck_assert_uint_eq(m->items[0].iov_len, len);
		ck_assert_mem_eq(m->items[0].iov_base, "more", len);
		ripc_message_free(m);
	}
	ck_assert_uint_eq(rig_stats(&rig, 1).bad_messages, 0);
}
END_TEST

/* Nor is a SHORT remembered that carries ACK. */
START_TEST(dispatch__elided_after_piggyback)
{
	uint8_t buf[RIPC__FAST_HEADER_LEN + RIPC__ACK_WORD + 4], *p;
	struct ripc_message *m;

	exchange(rig.s[0], rig.s[1], 10);
	p = ripc__header_put(buf, RIPC__SHORT, RIPC__F_ACK, 1, 0, OTHER(1), OTHER(0));
	ripc__put_le64(p, 12345);
	ripc__put_le32(p + RIPC__ACK_WORD, 4);
	ripc__put_le32(p + RIPC__ACK_WORD + 4, 0x656e6f64); /* "done" */
	rig_inject(&rig, 0, 1, buf, sizeof(buf), 0);
	OK(ripc_receive(other[1], &m, 5000));
	ripc_message_free(m);
	put_short_header(buf, 0, 0);
	rig_inject(&rig, 0, 1, buf, RIPC__ELIDED_LEN + 4, 0);
	m = rig_take(&rig, 1);
	ck_assert_uint_eq(m->source, RIG_ID(0));
	ripc_message_free(m);
	ck_assert_uint_eq(rig_stats(&rig, 1).bad_messages, 0);
}
END_TEST

/* To a service that is gone it is what a SHORT is: answered once, and no breach. */
START_TEST(dispatch__elided_service_gone)
{
	uint8_t buf[RIPC__ELIDED_LEN + 4];

	exchange(rig.s[0], other[1], 10);
	OK(ripc_service_unregister(other[1]));
	put_short_header(buf, 0, 0);
	rig_inject(&rig, 0, 1, buf, sizeof(buf), 0);
	rig_run(&rig, 10);
	ck_assert_uint_eq(rig_stats(&rig, 1).dropped_no_service, 1);
	ck_assert_uint_eq(rig_stats(&rig, 1).bad_messages, 0);
	rig_exchange(&rig, 0, 1);
}
END_TEST

START_TEST(dispatch__elided_malformed)
{
	uint8_t buf[RIPC__ELIDED_LEN + 4];

	/* Its number. */
	exchange(rig.s[0], rig.s[1], 10);
	put_short_header(buf, 1, 0);
	expect_lane_closed(buf, sizeof(buf));
	put_short_header(buf, 0xffff, 0);
	expect_lane_closed(buf, sizeof(buf));
	/* Its length. */
	for (size_t len = 1; len < RIPC__ELIDED_LEN; len++) {
		put_short_header(buf, 0, 0);
		expect_lane_closed(buf, len);
	}
}
END_TEST

static void no_credits(struct ripc__sim_config *config)
{
	config->recv_depth = 0;
}

/* Credit on a lane that needs none; messages over such a lane take the fast path. */
START_TEST(dispatch__elided_with_credit)
{
	uint8_t buf[RIPC__ELIDED_LEN + 4];

	rig_end(&rig);
	rig_start(&rig, 2, no_credits);
	rig_connect(&rig, 0, 1);
	ck_assert(!rig_lane(&rig, 1, 0)->uses_credits);
	for (unsigned i = 0; i < 20; i++)
		exchange(rig.s[0], rig.s[1], i);
	rig_run(&rig, 100);
	put_short_header(buf, 0, 1);
	expect_lane_closed(buf, sizeof(buf));
}
END_TEST

/* More than the room at the service is a breach, and it costs what the SHORT would. */
START_TEST(dispatch__elided_beyond_credit)
{
	uint8_t buf[40] = {0};
	struct ripc__flow *flow;

	ck_assert_uint_lt(ripc__units_of(sizeof(buf)),
			  ripc__units_of(sizeof(buf) - RIPC__ELIDED_LEN + RIPC__FAST_HEADER_LEN));
	for (unsigned i = 2; i; i--) {
		exchange(rig.s[0], rig.s[1], 60);
		flow = rig_lane(&rig, 1, 0)->flow;
		flow->advertised_units = flow->arrived_units + i;
		/* The next message that is received gives credit again. */
		flow->advertise_at_units = 0;
		put_short_header(buf, 0, 0);
		if (i == 1) {
			expect_lane_closed(buf, sizeof(buf));
			continue;
		}
		rig_inject(&rig, 0, 1, buf, sizeof(buf), 0);
		ripc_message_free(rig_take(&rig, 1));
	}
}
END_TEST

/* A datagram carries the full header. */
START_TEST(dispatch__elided_datagram)
{
	uint8_t addr[RIPC__ADDRESS_MAX], buf[RIPC__ELIDED_LEN + 4];
	const struct ripc__transport_ops *ops = &ripc__transport_sim;
	struct iovec iov = {buf, sizeof(buf)};
	struct ripc__tp *tp;
	uint64_t lost;
	int len;

	rig_end(&rig);
	rig_start_with(&rig, 2, rig_datagrams, "short=udp");
	rig_exchange(&rig, 0, 1);
	/* Both may have connected, and lost one of the two. */
	lost = rig_stats(&rig, 1).lanes_lost;
	len = ripc__sim_address(rig.net, rig_instance(&rig, 1), addr);
	tp = &rig.ctx[0]->tp[rig_lane(&rig, 0, 1)->tp];
	put_short_header(buf, 0, 0);
	OK(ops->post_datagram(tp->t, addr, (size_t)len, &iov, 1));
	rig_expect_none(&rig, 1);
	ck_assert_uint_eq(rig_stats(&rig, 1).bad_messages, 1);
	ck_assert_uint_eq(rig_stats(&rig, 1).lanes_lost, lost);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("core/peer/lane_post");
	TCase *tc = tcase_create("again");

	test_seed();
	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, elide__after_full_header);
	tcase_add_test(tc, elide__not_other_services);
	tcase_add_test(tc, elide__after_slow_path);
	tcase_add_test(tc, elide__reliable_and_calls);
	tcase_add_test(tc, elide__sequence_wraps);
	tcase_add_test(tc, elide__returns_credit);
	tcase_add_test(tc, elide__not_on_new_lane);
	tcase_add_test(tc, dispatch__elided_first);
	tcase_add_test(tc, dispatch__elided_same_services);
	tcase_add_test(tc, dispatch__elided_after_piggyback);
	tcase_add_test(tc, dispatch__elided_service_gone);
	tcase_add_test(tc, dispatch__elided_malformed);
	tcase_add_test(tc, dispatch__elided_with_credit);
	tcase_add_test(tc, dispatch__elided_beyond_credit);
	tcase_add_test(tc, dispatch__elided_datagram);
	suite_add_tcase(suite, tc);
	return test_main("core/peer/lane_post", suite);
}
