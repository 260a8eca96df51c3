/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * ripc_send() of what fits a short message does what ripc_send_short() does, and nothing more: the
 * same entries of the transport are called, and the clock is read as often. No time is measured.
 * Datagrams that the transport does not take. The fast path over lanes that count receive buffers,
 * and of datagrams.
 */
#include "core/peer/datagram_context.h"
#include "core/rig.h"

#define MESSAGES 20

static struct rig rig;
static struct ripc__transport_ops ops;
static struct ripc__hooks hooks;

/* The cost of a number of sends. */
static struct costs {
	unsigned fast; /* entries for messages of the fast path */
	unsigned slow; /* entries for others */
	unsigned datagrams;
	unsigned clock; /* looks at it */
} costs;

static int post(struct ripc__ep *ep, const void *head, size_t head_len, const struct iovec *items,
		unsigned n, bool more)
{
	bool fast = n == 1 && (head_len == RIPC__FAST_HEADER_LEN || head_len == RIPC__ELIDED_LEN);

	costs.fast += fast;
	costs.slow += !fast;
	return ripc__transport_sim.post(ep, head, head_len, items, n, more);
}

static int post_datagram(struct ripc__transport *t, const uint8_t *addr, size_t addrlen,
			 const struct iovec *iov, unsigned n)
{
	costs.datagrams++;
	return ripc__transport_sim.post_datagram(t, addr, addrlen, iov, n);
}

static uint64_t now(void *arg)
{
	costs.clock++;
	return hooks.now(arg);
}

/* ---- networks ---- */

static void no_credits(struct ripc__sim_config *config)
{
	config->recv_depth = 0;
}

static void credits(struct ripc__sim_config *config)
{
	config->recv_depth = 64;
}

static const struct {
	void (*change)(struct ripc__sim_config *config);
	const char *options;
} networks[] = {
	{no_credits, NULL},
	{credits, NULL},
	{rig_datagrams, "short=udp"},
};
#define NETWORKS (int)(sizeof(networks) / sizeof(networks[0]))

/* Two contexts that know each other. Messages of the first are counted from now on. */
static void start_with(void (*change)(struct ripc__sim_config *config), const char *options)
{
	rig_start_with(&rig, 2, change, options);
	rig_exchange(&rig, 0, 1);
	rig_exchange(&rig, 1, 0);
	ops = *rig.ctx[0]->tp[rig_lane(&rig, 0, 1)->tp].ops;
	ops.post = post;
	ops.post_datagram = post_datagram;
	rig.ctx[0]->tp[rig_lane(&rig, 0, 1)->tp].ops = &ops;
}

static void start(int i)
{
	start_with(networks[i].change, networks[i].options);
	/* The header context of datagrams is stated before messages are counted. */
	for (unsigned k = 0; k < RIPC__DATAGRAM_CONTEXT_AFTER; k++) {
		OK(rig_short(&rig, 0, 1, 64, k, 5000));
		rig_expect(&rig, 1, 64, k);
	}
	costs = (struct costs){0};
	hooks = rig.ctx[0]->hooks;
	rig.ctx[0]->hooks.now = now;
}

static void teardown(void)
{
	rig_end(&rig);
}

/* ---- sending ---- */

typedef int send_fn(struct ripc_service *from, uint64_t dest, const struct iovec *items,
		    unsigned nitems, const struct ripc_send_options *options, int timeout_ms);

/*
 * The messages that follow a first one. Its receiver takes them, since else there would be no
 * credit.
 */
static struct costs cost_of(send_fn *send, unsigned nitems, size_t len, unsigned flags)
{
	const struct ripc_send_options options = {.size = sizeof(options), .flags = flags};
	uint8_t data[3][400] = {{0}};
	struct iovec items[3];
	struct costs sum = {0};

	ck_assert_uint_le(len, sizeof(data[0]));
	for (unsigned k = 0; k < 3; k++)
		items[k] = (struct iovec){data[k], len};
	for (unsigned i = 0; i < 1 + MESSAGES; i++) {
		costs = (struct costs){0};
		OK(send(rig.s[0], RIG_ID(1), items, nitems, flags ? &options : NULL, 5000));
		if (i) {
			sum.fast += costs.fast;
			sum.slow += costs.slow;
			sum.datagrams += costs.datagrams;
			sum.clock += costs.clock;
		}
		/* Flushes what RIPC_MORE has held back. */
		rig_run(&rig, 5);
		ripc_message_free(rig_take(&rig, 1));
	}
	return sum;
}

static void check_same(unsigned nitems, size_t len, unsigned flags)
{
	struct costs shorts = cost_of(ripc_send_short, nitems, len, flags);
	struct costs any = cost_of(ripc_send, nitems, len, flags);

	ck_assert_uint_eq(any.fast, shorts.fast);
	ck_assert_uint_eq(any.slow, shorts.slow);
	ck_assert_uint_eq(any.datagrams, shorts.datagrams);
	ck_assert_uint_eq(any.clock, shorts.clock);
	/* One message each, whatever it is. */
	ck_assert_uint_eq(any.fast + any.slow + any.datagrams, MESSAGES);
	ck_assert_uint_eq(any.clock, 0);
}

START_TEST(send__one_item_same_cost)
{
	start(_i);
	check_same(1, 64, 0);
	check_same(1, 0, 0);
	check_same(1, 400, 0);
	check_same(1, 64, RIPC_MORE);
}
END_TEST

START_TEST(send__one_item_takes_the_fast_path)
{
	struct costs any;

	start(_i);
	any = cost_of(ripc_send, 1, 64, 0);
	if (rig.ctx[0]->datagrams)
		ck_assert_uint_eq(any.datagrams, MESSAGES);
	else
		ck_assert_uint_eq(any.fast, MESSAGES);
}
END_TEST

START_TEST(send__several_items_same_cost)
{
	start(_i);
	check_same(2, 64, 0);
	check_same(3, 0, 0);
	check_same(3, 100, RIPC_MORE);
}
END_TEST

/* A message too long for the short form is sent as a long one, whatever was sent before. */
START_TEST(send__too_large_is_long)
{
	struct ripc_limits limits = {.size = sizeof(limits)};
	struct ripc_message *m;
	static uint8_t data[100000];
	struct iovec item = {data, 0};

	start(_i);
	OK(ripc_route_limits(rig.ctx[0], RIG_ID(1), &limits));
	for (unsigned i = 0; i < 6; i++) {
		item.iov_len =
			i % 2 ? (size_t)limits.short_max + i / 2 : (size_t)limits.short_max - i / 2;
		OK(ripc_send(rig.s[0], RIG_ID(1), &item, 1, NULL, 5000));
		m = rig_take(&rig, 1);
		ck_assert_uint_eq(m->is_long, item.iov_len > limits.short_max);
		ck_assert_uint_eq(m->items[0].iov_len, item.iov_len);
		ripc_message_free(m);
	}
}
END_TEST

/* A service that is not found yet: no message is begun. */
START_TEST(send__not_located)
{
	struct iovec item = {"x", 1};

	start(_i);
	RC(-EAGAIN, ripc_send(rig.s[0], 4711, &item, 1, NULL, 0));
	ck_assert_uint_eq(rig_stats(&rig, 0).cancelled, 0);
	RC(-EHOSTUNREACH, ripc_send(rig.s[0], 4711, &item, 1, NULL, 5000));
	ck_assert_uint_eq(rig_stats(&rig, 0).cancelled, 0);
}
END_TEST

/* The next datagrams fail like this. */
static int datagram_error;
static unsigned datagrams_to_fail;

static int post_datagram_or_fail(struct ripc__transport *t, const uint8_t *addr, size_t addrlen,
				 const struct iovec *iov, unsigned n)
{
	if (!datagrams_to_fail)
		return post_datagram(t, addr, addrlen, iov, n);
	datagrams_to_fail--;
	return ripc__fail(datagram_error, "no datagram, as the test wants it");
}

/* A datagram of one item, or of two, that the transport does not take now is not sent. */
START_TEST(datagram__no_room)
{
	struct ripc__peer_datagrams *state;
	struct iovec items[2] = {{"a", 1}, {"b", 1}};
	unsigned nitems = 1 + (unsigned)_i;
	struct ripc_stats before;
	uint64_t seq;

	start(NETWORKS - 1);
	ops.post_datagram = post_datagram_or_fail;
	state = rig_peer(&rig, 0, 1)->lists->datagrams;
	seq = state->next_seq;
	before = rig_stats(&rig, 0);
	datagram_error = -EAGAIN;
	/* One try on the fast path, and one before and after a pass. */
	datagrams_to_fail = 3;
	RC(-EAGAIN, ripc_send_short(rig.s[0], RIG_ID(1), items, nitems, NULL, 0));
	ck_assert_uint_eq(datagrams_to_fail, nitems - 1);
	ck_assert_uint_eq(costs.datagrams, 0);
	ck_assert_uint_eq(state->next_seq, seq);
	ck_assert_uint_eq(rig_stats(&rig, 0).short_sent, before.short_sent);
	ck_assert_uint_eq(rig_peer(&rig, 0, 1)->stats.short_sent, before.short_sent);
	/* With time it is sent once there is room. */
	datagrams_to_fail = 5;
	OK(ripc_send_short(rig.s[0], RIG_ID(1), items, nitems, NULL, 100));
	ck_assert_uint_eq(datagrams_to_fail, 0);
	ck_assert_uint_eq(costs.datagrams, 1);
	ck_assert_uint_eq(state->next_seq, seq + 1);
	ck_assert_uint_eq(rig_stats(&rig, 0).short_sent, before.short_sent + 1);
	ripc_message_free(rig_take(&rig, 1));
	rig_expect_none(&rig, 1);
	ck_assert_uint_eq(rig_stats(&rig, 1).datagrams_lost, 0);
}
END_TEST

/* Its host cannot be reached by datagrams: the message goes over the lane, and so do later ones. */
START_TEST(datagram__no_route)
{
	static const int errors[] = {-EHOSTUNREACH, -EINVAL, -ENOTCONN, -EIO};

	start(NETWORKS - 1);
	ops.post_datagram = post_datagram_or_fail;
	datagram_error = errors[_i];
	/* One try on the fast path, one on the slow path. */
	datagrams_to_fail = 2;
	for (unsigned i = 0; i < 3; i++) {
		OK(rig_short(&rig, 0, 1, 64, i, 100));
		rig_expect(&rig, 1, 64, i);
		ck_assert_uint_eq(datagrams_to_fail, 0);
		ck_assert(rig_peer(&rig, 0, 1)->no_dgram_path);
	}
	ck_assert_uint_eq(costs.datagrams, 0);
	/* After a change of addresses it is tried again. */
	ripc__peers_addrs_changed(rig.ctx[0]);
	OK(rig_short(&rig, 0, 1, 64, 3, 100));
	rig_expect(&rig, 1, 64, 3);
	ck_assert_uint_eq(costs.datagrams, 1);
}
END_TEST

/* An item that cannot be read is no fault of the path. */
START_TEST(datagram__unreadable_item)
{
	start(NETWORKS - 1);
	ops.post_datagram = post_datagram_or_fail;
	datagram_error = -EFAULT;
	datagrams_to_fail = 2;
	RC(-EFAULT, rig_short(&rig, 0, 1, 64, 1, 1000));
	ck_assert_ptr_nonnull(strstr(ripc_error_detail(), "service 1001: an item"));
	ck_assert(!rig_peer(&rig, 0, 1)->no_dgram_path);
	OK(rig_short(&rig, 0, 1, 64, 2, 1000));
	rig_expect(&rig, 1, 64, 2);
	ck_assert_uint_eq(costs.datagrams, 1);
}
END_TEST

/* The path takes less than short_max: only a message above that goes over the lane. */
START_TEST(datagram__small_path)
{
	struct ripc_limits limits = {.size = sizeof(limits)};
	size_t len;

	start(NETWORKS - 1);
	ops.post_datagram = post_datagram_or_fail;
	datagram_error = -EMSGSIZE;
	OK(ripc_route_limits(rig.ctx[0], RIG_ID(1), &limits));
	len = (size_t)limits.short_max;
	/* One try on the fast path, one on the slow path. */
	datagrams_to_fail = 2;
	OK(rig_short(&rig, 0, 1, len, 1, 0));
	ck_assert_uint_eq(datagrams_to_fail, 0);
	ck_assert_uint_eq(costs.datagrams, 0);
	rig_expect(&rig, 1, len, 1);
	ck_assert(!rig_peer(&rig, 0, 1)->no_dgram_path);
	OK(rig_short(&rig, 0, 1, 64, 2, 100));
	rig_expect(&rig, 1, 64, 2);
	ck_assert_uint_eq(costs.datagrams, 1);
	RC(-EMSGSIZE, rig_short(&rig, 0, 1, len + 1, 3, 100));
}
END_TEST

/* ---- the fast path over a lane ---- */

/* The messages of the second context are counted, too. */
static void setup_fast(void (*change)(struct ripc__sim_config *config), const char *options)
{
	memset(&costs, 0, sizeof(costs));
	start_with(change, options);
	rig.ctx[1]->tp[rig_lane(&rig, 1, 0)->tp].ops = &ops;
}

static void few_buffers(struct ripc__sim_config *config)
{
	config->recv_depth = 8;
}

static void setup_lane(void)
{
	setup_fast(few_buffers, NULL);
}

static void setup_datagrams(void)
{
	setup_fast(rig_datagrams, "short=udp");
}

/* Messages over lanes. */
static unsigned posts(void)
{
	return costs.fast + costs.slow;
}

/* Sends an item of len bytes from service 0 to service 1, without waiting. */
static int send_now(const void *data, size_t len)
{
	struct iovec item = {(void *)data, len};

	return ripc_send_short(rig.s[0], RIG_ID(1), &item, 1, NULL, 0);
}

static bool sent_fast(size_t len)
{
	static uint8_t data[65536];

	ck_assert_uint_le(len, sizeof(data));
	rig_fill(data, len, len);
	return !send_now(data, len);
}

/* Far more than there are receive buffers: each message takes one, and gives some back. */
START_TEST(send__credit_both_directions)
{
	struct ripc_stats before = rig_stats(&rig, 0), after = {.size = sizeof(after)};

	ck_assert(rig_lane(&rig, 0, 1)->uses_credits);
	for (unsigned i = 0; i < 200; i++) {
		size_t len = i * 7 % 300;

		OK(rig_short(&rig, 0, 1, len, i, 5000));
		rig_expect(&rig, 1, len, i);
		OK(rig_short(&rig, 1, 0, len + 1, i, 5000));
		rig_expect(&rig, 0, len + 1, i);
	}
	after = rig_stats(&rig, 0);
	ck_assert_uint_eq(after.short_sent - before.short_sent, 200);
	ck_assert_uint_eq(after.lanes_lost, 0);
	/* One way and the other, but for the first ones. */
	ck_assert_uint_ge(posts(), 300);
	ck_assert(rig_lane(&rig, 0, 1)->tx_last.dest);
}
END_TEST

START_TEST(send__keeps_last_credit)
{
	struct ripc__lane *lane = rig_lane(&rig, 0, 1);
	uint32_t credits = lane->tx_credits;

	lane->tx_credits = 1;
	ck_assert(!sent_fast(10));
	ck_assert_uint_eq(posts(), 0);
	lane->tx_credits = credits;
	ck_assert(sent_fast(10));
	ck_assert_uint_eq(lane->tx_credits, credits - 1);
	rig_expect(&rig, 1, 10, 10);
}
END_TEST

START_TEST(send__returns_credit)
{
	struct ripc__lane *lane = rig_lane(&rig, 0, 1), *back = rig_lane(&rig, 1, 0);
	uint32_t credits, due;

	/* Messages in flight arrive first. */
	rig_run(&rig, 100);
	OK(rig_short(&rig, 1, 0, 5, 5, 5000));
	rig_expect(&rig, 0, 5, 5);
	due = lane->rx_credits_due;
	credits = back->tx_credits;
	ck_assert_uint_gt(due, 0);
	ck_assert(sent_fast(10));
	ck_assert_uint_eq(lane->rx_credits_due, 0);
	rig_expect(&rig, 1, 10, 10);
	ck_assert_uint_eq(back->tx_credits, credits + due);
}
END_TEST

START_TEST(send__refused)
{
	struct ripc__lane *lane = rig_lane(&rig, 0, 1);
	struct ripc__credit *c = rig_dest(&rig, 0, 1)->credit;
	uint64_t limit;

	ck_assert_ptr_nonnull(c);
	ck_assert(!sent_fast(lane->send_max));
	ck_assert_int_eq(send_now(NULL, 5), -EINVAL);
	lane->sending = RIPC__SENDING_BLOCKED;
	ck_assert(!sent_fast(10));
	lane->sending = RIPC__SENDING_FREE;
	limit = c->limit_units;
	c->limit_units = c->sent_units;
	ck_assert(!sent_fast(10));
	c->limit_units = limit;
	rig.s[0]->state = RIPC__SERVICE_CLOSING;
	ck_assert_int_eq(send_now("x", 1), -ESHUTDOWN);
	rig.s[0]->state = RIPC__SERVICE_ACTIVE;
	ck_assert_uint_eq(posts(), 0);
	ck_assert(sent_fast(10));
	rig_expect(&rig, 1, 10, 10);
}
END_TEST

/* The first message on a lane to a service. */
START_TEST(send__new_credit)
{
	struct ripc__dest *d = rig_dest(&rig, 0, 1);
	struct ripc__credit *c = d->credit;

	d->credit = NULL;
	ck_assert(sent_fast(10));
	ck_assert_ptr_eq(d->credit, c);
	rig_expect(&rig, 1, 10, 10);
}
END_TEST

/* ---- the fast path of datagrams ---- */

START_TEST(send__datagram)
{
	struct ripc__peer *p = rig_peer(&rig, 0, 1);

	for (uint32_t i = 0; i < 50; i++) {
		uint64_t seq = p->lists->datagrams->next_seq;

		ck_assert(sent_fast(i * 10));
		ck_assert_uint_eq(p->lists->datagrams->next_seq, seq + 1);
		rig_expect(&rig, 1, i * 10, i * 10);
	}
	/* A header context and its ACK. */
	ck_assert_uint_eq(posts(), 2);
	ck_assert(!sent_fast(rig.ctx[0]->tp[rig_lane(&rig, 0, 1)->tp].limits.datagram_max));
	ck_assert_int_eq(send_now(NULL, 1), -EINVAL);
	ck_assert_int_eq(send_now(p, SIZE_MAX), -EINVAL);
	ck_assert(sent_fast(0));
	rig_expect(&rig, 1, 0, 0);
}
END_TEST

/* A peer that takes none gets its messages over the lane. */
START_TEST(send__no_datagrams)
{
	struct ripc__peer *p = rig_peer(&rig, 0, 1);
	uint64_t seq = p->lists->datagrams->next_seq;

	p->no_dgram_path = true;
	OK(rig_short(&rig, 0, 1, 10, 10, 5000));
	rig_expect(&rig, 1, 10, 10);
	ck_assert(sent_fast(20));
	rig_expect(&rig, 1, 20, 20);
	ck_assert_uint_eq(p->lists->datagrams->next_seq, seq);
	ck_assert_uint_gt(posts(), 0);
}
END_TEST

/* The address may lie elsewhere, and be another one, after the peer was resolved again. */
START_TEST(send__new_record)
{
	struct ripc__peer *p = rig_peer(&rig, 0, 1);
	struct ripc__record record = {.naddrs = 2, .addrs[0] = {.transport = 250, .len = 3}};
	uint64_t seq;

	ck_assert(sent_fast(10));
	rig_expect(&rig, 1, 10, 10);
	ck_assert_ptr_nonnull(p->lists->datagrams->path);
	seq = p->lists->datagrams->next_seq;
	/* The same one, behind another. */
	record.addrs[1].transport = rig.ctx[0]->tp[p->lists->datagrams->path_tp].ops->id;
	record.addrs[1].len = (uint16_t)p->lists->datagrams->path_len;
	memcpy(record.addrs[1].addr, p->lists->datagrams->path, p->lists->datagrams->path_len);
	OK(ripc__peer_set_addrs(p, &record));
	ck_assert(sent_fast(20));
	rig_expect(&rig, 1, 20, 20);
	ck_assert_uint_eq(p->lists->datagrams->next_seq, seq + 1);
	ck_assert_uint_eq(posts(), 0);
	/* None. */
	record.naddrs = 0;
	OK(ripc__peer_set_addrs(p, &record));
	ck_assert(sent_fast(30));
	rig_expect(&rig, 1, 30, 30);
	ck_assert_uint_eq(p->lists->datagrams->next_seq, seq + 1);
	ck_assert_uint_eq(posts(), 1);
}
END_TEST

/* The service is reached by datagrams, without a lane: a reliable message makes one. */
START_TEST(send__reliable_without_lane)
{
	struct ripc_send_options options = {.size = sizeof(options), .flags = RIPC_RELIABLE};
	struct iovec items[2] = {{(void *)"ab", 2}, {(void *)"c", 1}};
	struct ripc__sim_config config;
	struct ripc_message *m;

	rig_start_with(&rig, 2, rig_datagrams, "short=udp");
	OK(rig_short(&rig, 0, 1, 10, 1, 5000));
	rig_expect(&rig, 1, 10, 1);
	ck_assert_ptr_null(rig_peer(&rig, 0, 1)->lane);
	config = rig.config;
	config.datagram_loss = 1;
	ripc__sim_configure(rig.net, &config);
	OK(ripc_send(rig.s[0], RIG_ID(1), items, _i + 1u, &options, 5000));
	OK(ripc_flush(rig.s[0], RIG_ID(1), 5000));
	m = rig_take(&rig, 1);
	ck_assert_uint_eq(m->nitems, _i + 1u);
	ripc_message_free(m);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("core/message/send");
	TCase *tc = tcase_create("send");

	test_seed();
	tcase_add_checked_fixture(tc, NULL, teardown);
	tcase_add_loop_test(tc, send__one_item_same_cost, 0, NETWORKS);
	tcase_add_loop_test(tc, send__one_item_takes_the_fast_path, 0, NETWORKS);
	tcase_add_loop_test(tc, send__several_items_same_cost, 0, NETWORKS);
	tcase_add_loop_test(tc, send__too_large_is_long, 0, NETWORKS);
	tcase_add_loop_test(tc, send__not_located, 0, NETWORKS);
	tcase_add_loop_test(tc, datagram__no_room, 0, 2);
	tcase_add_loop_test(tc, datagram__no_route, 0, 4);
	tcase_add_test(tc, datagram__unreadable_item);
	tcase_add_test(tc, datagram__small_path);
	tcase_add_loop_test(tc, send__reliable_without_lane, 0, 2);
	suite_add_tcase(suite, tc);
	tc = tcase_create("lane");
	tcase_add_checked_fixture(tc, setup_lane, teardown);
	tcase_add_test(tc, send__credit_both_directions);
	tcase_add_test(tc, send__keeps_last_credit);
	tcase_add_test(tc, send__returns_credit);
	tcase_add_test(tc, send__refused);
	tcase_add_test(tc, send__new_credit);
	suite_add_tcase(suite, tc);
	tc = tcase_create("datagram");
	tcase_add_checked_fixture(tc, setup_datagrams, teardown);
	tcase_add_test(tc, send__datagram);
	tcase_add_test(tc, send__no_datagrams);
	tcase_add_test(tc, send__new_record);
	suite_add_tcase(suite, tc);
	return test_main("core/message/send", suite);
}
