/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Reliable short messages: in order and exactly once, or their sender learns otherwise. */
#include "core/rig.h"

#include "core/reliable/send_now.h"
#include "wire/bytes.h"

static struct rig rig;

static const struct ripc_send_options reliable = {.size = sizeof(reliable), .flags = RIPC_RELIABLE};

static void setup(void)
{
	rig_start(&rig, 2, NULL);
}

static void teardown(void)
{
	rig_end(&rig);
}

/* Number n, reliable, from service 0. */
static int send_number(uint64_t dest, uint64_t n, int timeout_ms)
{
	struct iovec item = {&n, sizeof(n)};

	return ripc_send_short(rig.s[0], dest, &item, 1, &reliable, timeout_ms);
}

/* The next number of a service that is there already; 0: none. */
static uint64_t take_number(struct ripc_service *s)
{
	struct ripc_message *m;
	uint64_t n;

	if (!s || ripc_receive(s, &m, 0))
		return 0;
	ck_assert_uint_eq(m->nitems, 1);
	ck_assert_uint_eq(m->is_long, 0);
	ck_assert_uint_eq(m->source, RIG_ID(0));
	memcpy(&n, m->items[0].iov_base, sizeof(n));
	ripc_message_free(m);
	return n;
}

/* Service i has the numbers first..last, and nothing else. */
static void expect_numbers(unsigned i, uint64_t first, uint64_t last)
{
	for (uint64_t n = first; n <= last; n++)
		ck_assert_uint_eq(take_number(rig.s[i]), n);
	ck_assert_uint_eq(take_number(rig.s[i]), 0);
}

static unsigned unacked(void)
{
	struct ripc__peer *p = rig_peer(&rig, 0, 1);

	return p ? p->reliable_unacked : 0;
}

/* With this value a message waits; without it one may go at once. */
#define WAITS(field, value)                                           \
	do {                                                          \
		__typeof__((field) + 0) before = (field);             \
		(field) = (value);                                    \
		ck_assert(!ripc__reliable_may_send(d, sizeof(item))); \
		(field) = before;                                     \
		ck_assert(ripc__reliable_may_send(d, sizeof(item)));  \
	} while (0)

START_TEST(may_send__each_reason_to_wait)
{
	struct ripc__list item;
	struct ripc__lane *lane;
	struct ripc__dest *d;
	struct ripc__peer *p;

	OK(send_number(RIG_ID(1), 1, 1000));
	rig_run(&rig, 60);
	expect_numbers(1, 1, 1);
	OK(send_number(RIG_ID(1), 2, 1000));
	d = rig_dest(&rig, 0, 1);
	p = d->peer;
	lane = p->lane;
	ck_assert_uint_gt(d->reliable_unacked, 0);
	ck_assert(ripc__reliable_may_send(d, sizeof(item)));
	WAITS(p->reliable, NULL);
	WAITS(d->credit, NULL);
	/* Earlier ones: after a lost lane, for a holder, at another holder. */
	WAITS(p->reliable->resend, &p->reliable->unacked);
	ripc__list_init(&item);
	ripc__list_add(&d->reliable_pending, &item);
	ck_assert(!ripc__reliable_may_send(d, sizeof(item)));
	ripc__list_del(&item);
	WAITS(d->reliable_peer, NULL);
	/* Windows, lengths and credit. */
	WAITS(p->reliable_unacked, RIPC__RELIABLE_WINDOW);
	WAITS(p->reliable->bytes, RIPC__RELIABLE_WINDOW_BYTES - sizeof(item) + 1);
	WAITS(lane->send_max, sizeof(item) - 1);
	WAITS(d->credit->limit_units, d->credit->sent_units);
	/* The peer does not know the next number, or the lane counts as idle. */
	WAITS(lane->reliable_tx, lane->reliable_tx + 1);
	WAITS(lane->silence, RIPC__SILENCE_IDLE);
	WAITS(lane->sending, RIPC__SENDING_BLOCKED);
	rig_run(&rig, 60);
	expect_numbers(1, 2, 2);
}
END_TEST

static void deep(struct ripc__sim_config *config)
{
	config->recv_depth = 4096;
	config->queue_depth = 4096;
}

/* ---- delivery ---- */

START_TEST(flush__all_delivered)
{
	for (uint64_t n = 1; n <= 40; n++)
		OK(send_number(RIG_ID(1), n, 1000));
	ck_assert_uint_gt(unacked(), 0);
	OK(ripc_flush(rig.s[0], RIG_ID(1), 1000));
	ck_assert_uint_eq(unacked(), 0);
	expect_numbers(1, 1, 40);
	/* Nothing was sent: nothing to wait for. */
	OK(ripc_flush(rig.s[0], RIG_ID(1), 0));
	RC(-EINVAL, ripc_flush(NULL, RIG_ID(1), 0));
}
END_TEST

START_TEST(flush__timeout)
{
	OK(send_number(RIG_ID(1), 1, 1000));
	OK(ripc_flush(rig.s[0], RIG_ID(1), 1000));
	ripc__sim_hold(rig.net, rig_instance(&rig, 1), true);
	OK(send_number(RIG_ID(1), 2, 0));
	RC(-EAGAIN, ripc_flush(rig.s[0], RIG_ID(1), 0));
	RC(-ETIMEDOUT, ripc_flush(rig.s[0], RIG_ID(1), 50));
	ripc__sim_hold(rig.net, rig_instance(&rig, 1), false);
	OK(ripc_flush(rig.s[0], RIG_ID(1), 1000));
	expect_numbers(1, 1, 2);
}
END_TEST

/* Without ripc_flush() the acknowledgement comes by itself, and soon. */
START_TEST(ack__delayed)
{
	OK(send_number(RIG_ID(1), 1, 1000));
	rig_run(&rig, 60);
	ck_assert_uint_eq(unacked(), 0);
	ck_assert(rig_lane(&rig, 0, 1));
	expect_numbers(1, 1, 1);
}
END_TEST

/* ---- a quarter of the window, which is acknowledged at once ---- */

#define QUARTER (RIPC__RELIABLE_WINDOW / 4)

/* Messages that have not ended; acknowledged: only those that are acknowledged. */
static unsigned in_list(bool acknowledged)
{
	struct ripc__reliable *rel = rig_peer(&rig, 0, 1)->reliable;
	struct ripc__reliable_msg *m;
	unsigned n = 0;

	ripc__list_for_each_entry (m, &rel->unacked, link)
		n += !acknowledged || m->number < rel->acked;
	return n;
}

/* Sends numbers 2 to QUARTER + 10: the peer acknowledges most, none has ended. */
static void send_quarter(void)
{
	rig_end(&rig);
	rig_start(&rig, 2, deep);
	OK(send_number(RIG_ID(1), 1, 1000));
	rig_run(&rig, 60);
	for (uint64_t n = 2; n <= QUARTER + 10; n++)
		OK(send_number(RIG_ID(1), n, 0));
	ck_assert_uint_eq(unacked(), QUARTER + 9);
	ck_assert_uint_eq(in_list(true), 0);
	ripc__sim_run(rig.net, RIPC__RELIABLE_ACK_NS / 2);
	ck_assert_uint_ge(in_list(true), QUARTER);
	ck_assert_uint_eq(unacked(), QUARTER + 9);
}

/* A few end with each message that is sent on, all after RIPC__RELIABLE_ACK_NS. */
START_TEST(quarter__ends_later)
{
	uint64_t next = QUARTER + 11;
	unsigned left;

	send_quarter();
	left = in_list(true);
	for (unsigned i = 1; i <= 5; i++) {
		OK(send_number(RIG_ID(1), next++, 0));
		ck_assert_uint_eq(in_list(true), left - 8 * i);
	}
	/* The rest is acknowledged after RIPC__RELIABLE_ACK_NS, and ends after as much again. */
	rig_run(&rig, 100);
	ck_assert_uint_eq(unacked(), 0);
	expect_numbers(1, 1, next - 1);
}
END_TEST

/* One that waits for it: ripc_flush(), a message to the next holder, a window that is full. */
START_TEST(quarter__awaited)
{
	struct ripc__peer *p;

	send_quarter();
	RC(-EAGAIN, ripc_flush(rig.s[0], RIG_ID(1), 0));
	ck_assert_uint_eq(in_list(true), 0);
	ck_assert_uint_gt(in_list(false), 0);
	OK(ripc_flush(rig.s[0], RIG_ID(1), 1000));
	ck_assert_uint_eq(unacked(), 0);

	send_quarter();
	p = rig_peer(&rig, 0, 1);
	p->reliable->bytes += RIPC__RELIABLE_WINDOW_BYTES;
	RC(-EAGAIN, send_number(RIG_ID(1), 1, 0));
	p->reliable->bytes -= RIPC__RELIABLE_WINDOW_BYTES;
	ck_assert_uint_eq(in_list(true), 0);

	send_quarter();
	rig_dest(&rig, 0, 1)->peer = NULL;
	ripc__lock(rig.ctx[0]);
	ripc__reliable_ask(rig.ctx[0], rig_dest(&rig, 0, 1));
	ripc__unlock(rig.ctx[0]);
	rig_dest(&rig, 0, 1)->peer = rig_peer(&rig, 0, 1);
	ck_assert_uint_eq(in_list(true), 0);
	/* Later ones end as soon as they are acknowledged. */
	for (uint64_t n = 0; n < QUARTER; n++)
		OK(send_number(RIG_ID(1), n, 0));
	for (unsigned before = unacked(); unacked() == before;) {
		ripc__sim_run(rig.net, 1000);
		ck_assert_uint_eq(in_list(true), 0);
	}
}
END_TEST

/* The lane is lost: what was acknowledged is not sent again. */
START_TEST(quarter__lane_lost)
{
	struct ripc__reliable *rel;

	send_quarter();
	rel = rig_peer(&rig, 0, 1)->reliable;
	ripc__lock(rig.ctx[0]);
	ripc__reliable_lane_failed(rig_lane(&rig, 0, 1));
	ripc__unlock(rig.ctx[0]);
	ck_assert_uint_eq(in_list(false), 9);
	ck_assert_ptr_eq(rel->resend, ripc__list_first(&rel->unacked));
	rel->resend = NULL;
}
END_TEST

/* The peer closes or dies: what was acknowledged goes to no other holder, and is not unknown. */
START_TEST(quarter__peer_ends)
{
	unsigned rest;

	send_quarter();
	ripc__lock(rig.ctx[0]);
	ripc__reliable_bye(rig_lane(&rig, 0, 1));
	ripc__unlock(rig.ctx[0]);
	ck_assert_uint_eq(rig.ctx[0]->reliable_npending, 9);

	send_quarter();
	rest = in_list(false) - in_list(true);
	ripc__lock(rig.ctx[0]);
	ripc__reliable_unknown(rig.ctx[0], rig_peer(&rig, 0, 1), "for the test");
	ripc__unlock(rig.ctx[0]);
	ck_assert_uint_eq(rig_stats(&rig, 0).reliable_unknown, rest);
	ck_assert_uint_eq(unacked(), 0);
}
END_TEST

/* ---- items ---- */

/* Items keep their number and lengths. */
START_TEST(items__many)
{
	char text[300];
	struct iovec items[3] = {{text, 0}, {text, 7}, {text, sizeof(text)}};
	struct ripc_message *m;

	memset(text, 'x', sizeof(text));
	OK(ripc_send(rig.s[0], RIG_ID(1), items, 3, &reliable, 1000));
	OK(ripc_flush(rig.s[0], RIG_ID(1), 1000));
	m = rig_take(&rig, 1);
	ck_assert_uint_eq(m->nitems, 3);
	ck_assert_uint_eq(m->is_long, 0);
	for (unsigned i = 0; i < 3; i++) {
		ck_assert_uint_eq(m->items[i].iov_len, items[i].iov_len);
		ck_assert_int_eq(memcmp(text, m->items[i].iov_base, items[i].iov_len), 0);
	}
	ripc_message_free(m);
}
END_TEST

START_TEST(items__too_long)
{
	static char text[RIPC__RELIABLE_WINDOW_BYTES];
	struct iovec item = {text, sizeof(text)};

	RC(-EMSGSIZE, ripc_send_short(rig.s[0], RIG_ID(1), &item, 1, &reliable, 1000));
	ck_assert_ptr_nonnull(strstr(ripc_error_detail(), "ripc_send_long"));
	/* ripc_send() makes a long message of it, which is delivered when the call returns. */
	OK(ripc_send(rig.s[0], RIG_ID(1), &item, 1, &reliable, 1000));
	ripc_message_free(rig_take(&rig, 1));
}
END_TEST

/* To a service of the same context. */
START_TEST(self__delivered)
{
	struct ripc_service *s;

	OK(ripc_service_register(rig.ctx[0], 77, 0, &s));
	for (uint64_t n = 1; n <= 10; n++)
		OK(send_number(77, n, 1000));
	OK(ripc_flush(rig.s[0], 77, 1000));
	for (uint64_t n = 1; n <= 10; n++)
		ck_assert_uint_eq(take_number(s), n);
	OK(ripc_service_unregister(s));
}
END_TEST

/* ---- bounds ---- */

/* A receiver that is stopped: the sender has a bounded number of copies, then waits. */
START_TEST(window__full)
{
	uint64_t sent = 1;
	int rc = 0;

	rig_end(&rig);
	rig_start(&rig, 2, deep);
	OK(send_number(RIG_ID(1), sent, 1000));
	OK(ripc_flush(rig.s[0], RIG_ID(1), 1000));
	ripc__sim_hold(rig.net, rig_instance(&rig, 1), true);
	while (!rc && sent <= 2 * RIPC__RELIABLE_WINDOW) {
		rc = send_number(RIG_ID(1), sent + 1, 0);
		sent += !rc;
	}
	ck_assert_int_eq(rc, -EAGAIN);
	ck_assert_uint_eq(unacked(), RIPC__RELIABLE_WINDOW);
	ripc__sim_hold(rig.net, rig_instance(&rig, 1), false);
	for (uint64_t n = 1, got; n <= sent; n += got != 0) {
		got = take_number(rig.s[1]);
		if (got)
			ck_assert_uint_eq(got, n);
		else
			rig_run(&rig, 1);
	}
	OK(ripc_flush(rig.s[0], RIG_ID(1), 1000));
}
END_TEST

/* Messages that are acknowledged take no room in the window, which is bounded in bytes, too. */
START_TEST(window__bytes_of_acknowledged)
{
	uint8_t data[1024] = {0};
	struct iovec item = {data, sizeof(data)};
	struct ripc_message *m;
	unsigned n = RIPC__RELIABLE_WINDOW_BYTES / sizeof(data) + 1;

	rig_end(&rig);
	rig_start(&rig, 2, deep);
	for (unsigned i = 0; i < n; i++) {
		OK(ripc_send_short(rig.s[0], RIG_ID(1), &item, 1, &reliable, 1000));
		OK(ripc_receive(rig.s[1], &m, 1000));
		ripc_message_free(m);
	}
	OK(ripc_flush(rig.s[0], RIG_ID(1), 1000));
	ripc__sim_hold(rig.net, rig_instance(&rig, 1), true);
	for (unsigned i = 0; i < 16; i++)
		OK(ripc_send_short(rig.s[0], RIG_ID(1), &item, 1, &reliable, 0));
	ck_assert_uint_eq(unacked(), 16);
	ripc__sim_hold(rig.net, rig_instance(&rig, 1), false);
	OK(ripc_flush(rig.s[0], RIG_ID(1), 1000));
}
END_TEST

/*
 * The window is full of messages to one service: a call to another service of that context waits,
 * and goes when the peer acknowledges.
 */
START_TEST(window__full_for_another_service)
{
	struct iovec item = {"12345678", 8};
	struct ripc_service *other;
	struct ripc_message *m;
	struct ripc_request *r;
	uint64_t sent = 1;

	rig_end(&rig);
	rig_start(&rig, 2, deep);
	OK(ripc_service_register(rig.ctx[1], 77, 0, &other));
	OK(ripc_route_lookup(rig.ctx[0], 77, NULL, 1000));
	OK(send_number(RIG_ID(1), sent, 1000));
	OK(ripc_flush(rig.s[0], RIG_ID(1), 1000));
	ripc__sim_hold(rig.net, rig_instance(&rig, 1), true);
	while (!send_number(RIG_ID(1), sent + 1, 0))
		sent++;
	ck_assert_uint_eq(unacked(), RIPC__RELIABLE_WINDOW);
	OK(ripc_call_start(rig.s[0], 77, &item, 1, NULL, 5000, &r));
	ck_assert_uint_eq(rig.ctx[0]->reliable_npending, 1);
	ck_assert(rig_peer(&rig, 0, 1)->reliable->window_full);
	ripc__sim_hold(rig.net, rig_instance(&rig, 1), false);
	while (unacked() == RIPC__RELIABLE_WINDOW)
		ripc__sim_run(rig.net, 1000);
	ck_assert_uint_ge(unacked(), 1);
	ck_assert_uint_eq(rig.ctx[0]->reliable_npending, 0);
	ck_assert(!rig_peer(&rig, 0, 1)->reliable->window_full);
	OK(ripc_receive(other, &m, 5));
	ck_assert_mem_eq(m->items[0].iov_base, item.iov_base, 8);
	OK(ripc_reply(m, &item, 1, 1000));
	ripc_message_free(m);
	OK(ripc_call_wait(&r, &m, 1000));
	ripc_message_free(m);
	expect_numbers(1, 1, sent);
}
END_TEST

/* A service that takes nothing delays no other one of its context. */
START_TEST(window__one_service_full)
{
	struct ripc_service *other;
	int rc = 0;

	OK(ripc_service_register(rig.ctx[1], 77, 0, &other));
	for (uint64_t n = 1; !rc && n < 5000; n++)
		rc = send_number(RIG_ID(1), n, 5);
	ck_assert_int_eq(rc, -ETIMEDOUT);
	for (uint64_t n = 1; n <= 50; n++)
		OK(send_number(77, n, 1000));
	OK(ripc_flush(rig.s[0], 77, 1000));
	for (uint64_t n = 1; n <= 50; n++)
		ck_assert_uint_eq(take_number(other), n);
}
END_TEST

/* ---- lanes that are lost ---- */

/* The lane breaks after each number of operations: each message is delivered once, in order. */
START_TEST(lane_lost__at_every_operation)
{
	OK(send_number(RIG_ID(1), 1, 1000));
	OK(ripc_flush(rig.s[0], RIG_ID(1), 1000));
	expect_numbers(1, 1, 1);
	for (uint64_t nth = 1; nth <= 40; nth++) {
		ripc__sim_break_at(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1), nth);
		for (uint64_t n = 1; n <= 20; n++)
			OK(send_number(RIG_ID(1), n, 5000));
		OK(ripc_flush(rig.s[0], RIG_ID(1), 5000));
		expect_numbers(1, 1, 20);
		ck_assert_uint_eq(unacked(), 0);
	}
	ck_assert_uint_gt(rig_stats(&rig, 0).lanes_lost, 15);
	ck_assert_uint_gt(rig_stats(&rig, 0).resent, 0);
	ck_assert_uint_gt(rig_stats(&rig, 1).duplicates, 0);
}
END_TEST

START_TEST(lane_lost__both_directions)
{
	uint64_t n = 1;
	struct iovec item = {&n, sizeof(n)};

	for (uint64_t nth = 1; nth <= 40; nth++) {
		OK(send_number(RIG_ID(1), 1, 5000));
		ripc__sim_break_at(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1), nth);
		for (n = 1; n <= 10; n++)
			OK(ripc_send_short(rig.s[1], RIG_ID(0), &item, 1, &reliable, 5000));
		for (uint64_t k = 2; k <= 10; k++)
			OK(send_number(RIG_ID(1), k, 5000));
		OK(ripc_flush(rig.s[0], RIG_ID(1), 5000));
		OK(ripc_flush(rig.s[1], RIG_ID(0), 5000));
		expect_numbers(1, 1, 10);
		for (uint64_t k = 1; k <= 10; k++) {
			struct ripc_message *m = rig_take(&rig, 0);

			ck_assert_uint_eq(ripc__get_le64(m->items[0].iov_base), k);
			ripc_message_free(m);
		}
		rig_expect_none(&rig, 0);
	}
}
END_TEST

static bool post_fails;
static unsigned ends_of_five;

static void end_of_five(struct ripc *ctx, struct ripc__reliable_owner *o,
			struct ripc__reliable_msg *m, int status, const char *why)
{
	(void)o;
	(void)why;
	ck_assert_int_eq(status, 0);
	ends_of_five++;
	ripc__reliable_free(ctx, m);
}

static int post_or_fail(struct ripc__ep *ep, const void *head, size_t head_len,
			const struct iovec *items, unsigned n, bool more)
{
	return post_fails ? -EAGAIN : ripc__transport_sim.post(ep, head, head_len, items, n, more);
}

/*
 * After a lane was lost, a new message waits while the transport has no room for the earlier ones.
 * Once there is room, it goes at once, behind them.
 */
START_TEST(lane_lost__resend_before_new)
{
	struct ripc__transport_ops ops;
	struct ripc__reliable *rel;
	struct ripc__tp *tp;

	OK(send_number(RIG_ID(1), 1, 1000));
	OK(ripc_flush(rig.s[0], RIG_ID(1), 1000));
	tp = &rig.ctx[0]->tp[rig_lane(&rig, 0, 1)->tp];
	ops = *tp->ops;
	ops.post = post_or_fail;
	tp->ops = &ops;
	ripc__sim_hold(rig.net, rig_instance(&rig, 1), true);
	for (uint64_t n = 2; n <= 4; n++)
		OK(send_number(RIG_ID(1), n, 0));
	rel = rig_peer(&rig, 0, 1)->reliable;
	ck_assert_ptr_null(rel->resend);
	ripc__sim_break(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1));
	ripc__sim_hold(rig.net, rig_instance(&rig, 1), false);
	post_fails = true;
	for (unsigned i = 0; i < 1000 && !(rig_lane(&rig, 0, 1) && rel->resend); i++)
		ripc__sim_run(rig.net, 10000);
	ck_assert_ptr_eq(rel->resend, ripc__list_first(&rel->unacked));
	RC(-EAGAIN, send_number(RIG_ID(1), 5, 0));
	ck_assert_uint_eq(unacked(), 3);
	post_fails = false;
	rig_lane(&rig, 0, 1)->sending = RIPC__SENDING_FREE;
	ripc__lock(rig.ctx[0]);
	ck_assert(ripc__lane_flush_control(rig_lane(&rig, 0, 1)));
	ck_assert_ptr_nonnull(rel->resend);
	{
		static struct ripc__reliable_owner owner;
		struct ripc__reliable_msg *m;
		uint64_t n = 5;
		struct iovec item = {&n, sizeof(n)};

		owner.end = end_of_five;
		m = ripc__reliable_new(rig.ctx[0], 0, RIG_ID(0), NULL, &item, 1);
		ck_assert_ptr_nonnull(m);
		m->owner = &owner;
		OK(ripc__reliable_post(rig_dest(&rig, 0, 1), m, false));
	}
	ripc__unlock(rig.ctx[0]);
	ck_assert_ptr_null(rel->resend);
	ck_assert_uint_eq(unacked(), 4);
	OK(ripc_flush(rig.s[0], RIG_ID(1), 1000));
	rig_run(&rig, 60);
	ck_assert_uint_eq(ends_of_five, 1);
	expect_numbers(1, 1, 5);
	tp->ops = &ripc__transport_sim;
}
END_TEST

/* The peer cannot be reached for a while. */
START_TEST(lane_lost__network_split)
{
	OK(send_number(RIG_ID(1), 1, 1000));
	for (unsigned k = 0; k < 5; k++) {
		uint64_t first = 2 + k * 10;

		for (uint64_t n = first; n < first + 5; n++)
			OK(send_number(RIG_ID(1), n, 1000));
		ripc__sim_partition(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1), true);
		ripc__sim_break(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1));
		rig_run(&rig, 100 + 200 * k);
		ripc__sim_partition(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1), false);
		for (uint64_t n = first + 5; n < first + 10; n++)
			OK(send_number(RIG_ID(1), n, 5000));
		OK(ripc_flush(rig.s[0], RIG_ID(1), 5000));
	}
	expect_numbers(1, 1, 51);
}
END_TEST

/* ---- the receiver dies, or forgets ---- */

START_TEST(peer_died__unknown)
{
	OK(send_number(RIG_ID(1), 1, 1000));
	OK(ripc_flush(rig.s[0], RIG_ID(1), 1000));
	ripc__sim_hold(rig.net, rig_instance(&rig, 1), true);
	OK(send_number(RIG_ID(1), 2, 1000));
	ripc__sim_kill_context(rig.net, rig.ctx[1], false);
	rig.ctx[1] = NULL;
	rig.s[1] = NULL;
	RC(-EPIPE, ripc_flush(rig.s[0], RIG_ID(1), 20000));
	ck_assert_ptr_nonnull(strstr(ripc_error_detail(), "1001"));
	/* Reported once. */
	OK(ripc_flush(rig.s[0], RIG_ID(1), 0));
	ck_assert_uint_eq(rig_stats(&rig, 0).reliable_unknown, 1);
}
END_TEST

/* The next send reports it, and sends nothing; the one after it is sent. */
START_TEST(peer_died__reported_by_next_send)
{
	unsigned i;
	uint64_t n = 3;

	OK(send_number(RIG_ID(1), 1, 1000));
	OK(ripc_flush(rig.s[0], RIG_ID(1), 1000));
	ripc__sim_hold(rig.net, rig_instance(&rig, 1), true);
	OK(send_number(RIG_ID(1), 2, 1000));
	ripc__sim_kill_context(rig.net, rig.ctx[1], false);
	rig.ctx[1] = NULL;
	rig.s[1] = NULL;
	i = rig_open(&rig, NULL);
	OK(ripc_service_unregister(rig.s[i]));
	OK(ripc_service_register(rig.ctx[i], RIG_ID(1), 0, &rig.s[i]));
	RC(-EPIPE, send_number(RIG_ID(1), n, 20000));
	OK(send_number(RIG_ID(1), n, 5000));
	OK(ripc_flush(rig.s[0], RIG_ID(1), 5000));
	expect_numbers(i, n, n);
}
END_TEST

/* The receiver forgot what it received: nothing is sent again. */
START_TEST(peer_forgot__unknown)
{
	struct ripc__peer *p;

	OK(send_number(RIG_ID(1), 1, 1000));
	OK(ripc_flush(rig.s[0], RIG_ID(1), 1000));
	/* The acknowledgement of the next one is lost with the lane. */
	OK(send_number(RIG_ID(1), 2, 1000));
	while (rig_stats(&rig, 1).short_received < 2)
		ripc__sim_run(rig.net, 1000);
	ck_assert_uint_eq(unacked(), 1);
	ripc__sim_partition(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1), true);
	ripc__sim_break(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1));
	rig_run(&rig, 10);
	p = rig_peer(&rig, 1, 0);
	ck_assert_ptr_nonnull(p);
	ripc__sweep(rig.ctx[1], true);
	ck_assert_ptr_null(rig_peer(&rig, 1, 0));
	ripc__sim_partition(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1), false);
	RC(-EPIPE, ripc_flush(rig.s[0], RIG_ID(1), 20000));
	expect_numbers(1, 1, 2);
	OK(send_number(RIG_ID(1), 3, 5000));
	OK(ripc_flush(rig.s[0], RIG_ID(1), 5000));
	expect_numbers(1, 3, 3);
}
END_TEST

/* ---- the service moves ---- */

/* Messages that the former holder has not taken into its queue go to the next one, in order. */
START_TEST(service__moves_to_another_context)
{
	struct ripc_service *next;
	unsigned i = rig_open(&rig, NULL);
	uint64_t at_old = 0, at_new = 0, n;

	for (n = 1; n <= 10; n++)
		OK(send_number(RIG_ID(1), n, 1000));
	OK(ripc_flush(rig.s[0], RIG_ID(1), 1000));
	OK(ripc_service_register(rig.ctx[i], RIG_ID(1), RIPC_TAKEOVER, &next));
	for (n = 11; n <= 30; n++)
		OK(send_number(RIG_ID(1), n, 5000));
	OK(ripc_flush(rig.s[0], RIG_ID(1), 5000));
	for (uint64_t k = 0; (n = take_number(rig.s[1])); k++) {
		ck_assert_uint_eq(n, k + 1);
		at_old++;
	}
	for (uint64_t k = at_old; (n = take_number(next)); k++) {
		ck_assert_uint_eq(n, k + 1);
		at_new++;
	}
	ck_assert_uint_ge(at_old, 10);
	ck_assert_uint_eq(at_old + at_new, 30);
}
END_TEST

/* A service that is closed while messages are on their way, and registered in the same process. */
START_TEST(service__registered_again)
{
	uint64_t n, got = 0;

	OK(send_number(RIG_ID(1), 1, 1000));
	OK(ripc_flush(rig.s[0], RIG_ID(1), 1000));
	expect_numbers(1, 1, 1);
	for (unsigned k = 0; k < 10; k++) {
		uint64_t first = 2 + 20 * k;

		for (n = first; n < first + 10; n++)
			OK(send_number(RIG_ID(1), n, 5000));
		ripc__sim_run(rig.net, 1 + k * 3000);
		while ((n = take_number(rig.s[1]))) {
			ck_assert_uint_gt(n, got);
			got = n;
		}
		OK(ripc_service_unregister(rig.s[1]));
		OK(ripc_service_register(rig.ctx[1], RIG_ID(1), 0, &rig.s[1]));
		for (n = first + 10; n < first + 20; n++)
			OK(send_number(RIG_ID(1), n, 5000));
		OK(ripc_flush(rig.s[0], RIG_ID(1), 5000));
		while ((n = take_number(rig.s[1]))) {
			ck_assert_uint_gt(n, got);
			got = n;
		}
		ck_assert_uint_eq(got, first + 19);
	}
	ck_assert_uint_gt(rig_stats(&rig, 1).dropped_no_service, 0);
}
END_TEST

/*
 * A message is refused, and the service is registered again before the sender receives the refusal:
 * later messages are refused too, on this lane and the next, until the sender sends RELIABLE_BEGIN
 * for the service.
 */
START_TEST(service__refused_until_sender_knows)
{
	struct ripc__flow flow = {.id = RIG_ID(1)}, other = {.id = 77};
	struct ripc__lane *lane;

	rig_connect(&rig, 0, 1);
	lane = rig_lane(&rig, 1, 0);
	ck_assert_int_eq(ripc__reliable_receive(lane, &flow, 100, false), -EPROTO);
	OK(ripc__reliable_begin(lane, 0, 500));
	ck_assert_int_eq(ripc__reliable_receive(lane, &flow, 100, false), 0);
	flow.service = other.service = rig.s[1];
	ck_assert_int_eq(ripc__reliable_receive(lane, &flow, 100, false), 0);
	ck_assert_int_eq(ripc__reliable_receive(lane, &other, 100, false), 1);
	lane->reliable_rx = 0;
	OK(ripc__reliable_begin(lane, 0, 503));
	ck_assert_int_eq(ripc__reliable_receive(lane, &flow, 100, false), 0);
	OK(ripc__reliable_begin(lane, RIG_ID(1), 0));
	ck_assert_int_eq(ripc__reliable_receive(lane, &flow, 100, false), 1);
}
END_TEST

static uint64_t trickle_next;

/* Sends a message now and then. */
static void trickle(void *arg)
{
	static uint64_t last_ns;

	(void)arg;
	if (ripc__sim_now(rig.net) - last_ns < 200000)
		return;
	last_ns = ripc__sim_now(rig.net);
	trickle_next += !send_number(RIG_ID(1), trickle_next, 0);
}

/* The service goes and comes back while messages for it are on their way. */
START_TEST(service__comes_back_at_any_time)
{
	uint64_t n, got = 0;

	trickle_next = 1;
	OK(send_number(RIG_ID(1), trickle_next++, 1000));
	OK(ripc__sim_actor(rig.net, trickle, NULL));
	for (unsigned k = 0; k < 20; k++) {
		/* In steps: each one runs the actor. */
		for (unsigned i = 0; i < 20 + k; i++)
			rig_run(&rig, 1);
		while ((n = take_number(rig.s[1]))) {
			ck_assert_uint_eq(n, got + 1);
			got = n;
		}
		OK(ripc_service_unregister(rig.s[1]));
		if (k & 1)
			ripc__sim_break_at(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1),
					   k);
		OK(ripc_service_register(rig.ctx[1], RIG_ID(1), 0, &rig.s[1]));
		/* Messages that were in its queue went with it. */
		n = take_number(rig.s[1]);
		if (n)
			ck_assert_uint_gt(n, got);
		got = n ? n : got;
	}
	ripc__sim_actor_remove(rig.net, trickle, NULL);
	OK(ripc_flush(rig.s[0], RIG_ID(1), 5000));
	while ((n = take_number(rig.s[1]))) {
		ck_assert_uint_eq(n, got + 1);
		got = n;
	}
	ck_assert_uint_eq(got, trickle_next - 1);
	ck_assert_uint_gt(got, 50);
}
END_TEST

/* Nobody holds the service any more. */
START_TEST(service__gone)
{
	uint64_t n;

	OK(send_number(RIG_ID(1), 1, 1000));
	OK(ripc_flush(rig.s[0], RIG_ID(1), 1000));
	for (n = 2; n <= 5; n++)
		OK(send_number(RIG_ID(1), n, 1000));
	OK(ripc_service_unregister(rig.s[1]));
	rig.s[1] = NULL;
	RC(-EHOSTUNREACH, ripc_flush(rig.s[0], RIG_ID(1), 60000));
	ck_assert_uint_eq(rig_stats(&rig, 0).reliable_unknown, 0);
}
END_TEST

/* A context that closes in order has acknowledged all that it received: the rest goes elsewhere. */
START_TEST(context__closed)
{
	struct ripc_service *next;
	unsigned i = rig_open(&rig, NULL);
	uint64_t n, got = 0, expected;

	OK(send_number(RIG_ID(1), 1, 1000));
	OK(ripc_flush(rig.s[0], RIG_ID(1), 1000));
	for (n = 2; n <= 40; n++)
		OK(send_number(RIG_ID(1), n, 1000));
	while ((n = take_number(rig.s[1])))
		got = n;
	expected = rig_stats(&rig, 1).short_received;
	ck_assert_uint_eq(got, expected);
	rig_close(&rig, 1);
	OK(ripc_service_register(rig.ctx[i], RIG_ID(1), 0, &next));
	OK(ripc_flush(rig.s[0], RIG_ID(1), 10000));
	ck_assert_uint_eq(rig_stats(&rig, 0).reliable_unknown, 0);
	/* The queue of the closed service is lost, later messages arrive. */
	while ((n = take_number(next))) {
		ck_assert_uint_gt(n, got);
		got = n;
	}
	ck_assert_uint_eq(got, 40);
}
END_TEST

/* ---- anything at any time ---- */

#define HOLDERS 3
#define LAST    400

/* Lanes break, and the service moves; round: which random numbers are used. */
static void chaos(uint64_t round)
{
	static uint8_t seen[LAST + 1];
	struct ripc_service *holder[HOLDERS] = {0};
	uint64_t n, last[HOLDERS] = {0}, lost = 0;
	unsigned at = 0;

	memset(seen, 0, sizeof(seen));
	rig_end(&rig);
	rig_start(&rig, 1 + HOLDERS, NULL);
	for (uint64_t i = 0; i < round; i++)
		ripc__sim_random(rig.net);
	OK(ripc_service_register(rig.ctx[1], 77, 0, &holder[0]));
	for (uint64_t k = 1; k <= LAST;) {
		uint64_t r = ripc__sim_random(rig.net);
		int rc = send_number(77, k, 20000);

		if (rc == -EPIPE || rc == -EHOSTUNREACH)
			lost++;
		else
			ck_assert_msg(!rc, "%d: %s", rc, ripc_error_detail());
		k += !rc;
		switch (r % 64) {
		case 0:
			ripc__sim_break(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1 + at));
			break;
		case 1:
			ripc__sim_break_at(rig.net, rig_instance(&rig, 0),
					   rig_instance(&rig, 1 + at), 1 + (r >> 8) % 12);
			break;
		case 2: {
			unsigned next = (at + 1) % HOLDERS;

			for (unsigned i = 0; i < HOLDERS; i++)
				while ((n = take_number(holder[i]))) {
					ck_assert_uint_gt(n, last[i]);
					ck_assert_uint_eq(seen[n]++, 0);
					last[i] = n;
				}
			if (holder[next])
				OK(ripc_service_unregister(holder[next]));
			last[next] = 0;
			OK(ripc_service_register(rig.ctx[1 + next], 77, RIPC_TAKEOVER,
						 &holder[next]));
			at = next;
			break;
		}
		case 3:
			ripc__sim_run(rig.net, (r >> 8) % 3000000);
			break;
		default:
			break;
		}
		if (r & 1 << 20)
			continue;
		for (unsigned i = 0; i < HOLDERS; i++)
			while ((n = take_number(holder[i]))) {
				ck_assert_uint_gt(n, last[i]);
				ck_assert_uint_eq(seen[n]++, 0);
				last[i] = n;
			}
	}
	if (ripc_flush(rig.s[0], 77, 20000))
		lost++;
	for (unsigned i = 0; i < HOLDERS; i++)
		while ((n = take_number(holder[i]))) {
			ck_assert_uint_gt(n, last[i]);
			ck_assert_uint_eq(seen[n]++, 0);
			last[i] = n;
		}
	/* No context died: nothing may be lost. */
	ck_assert_uint_eq(lost, 0);
	for (n = 1; n <= LAST; n++)
		ck_assert_msg(seen[n] == 1, "round %llu: message %llu came %u times",
			      (unsigned long long)round, (unsigned long long)n, seen[n]);
	ck_assert_uint_eq(rig_peer(&rig, 0, 1) ? rig_peer(&rig, 0, 1)->reliable_unacked : 0, 0);
}

START_TEST(chaos__exactly_once)
{
	for (uint64_t i = 0; i < 40; i++)
		chaos(i);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("core/reliable/reliable");
	TCase *tc = tcase_create("reliable");

	test_seed();
	tcase_set_timeout(tc, 120);
	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, may_send__each_reason_to_wait);
	tcase_add_test(tc, flush__all_delivered);
	tcase_add_test(tc, flush__timeout);
	tcase_add_test(tc, ack__delayed);
	tcase_add_test(tc, quarter__ends_later);
	tcase_add_test(tc, quarter__awaited);
	tcase_add_test(tc, quarter__lane_lost);
	tcase_add_test(tc, quarter__peer_ends);
	tcase_add_test(tc, items__many);
	tcase_add_test(tc, items__too_long);
	tcase_add_test(tc, self__delivered);
	tcase_add_test(tc, window__full);
	tcase_add_test(tc, window__bytes_of_acknowledged);
	tcase_add_test(tc, window__full_for_another_service);
	tcase_add_test(tc, window__one_service_full);
	tcase_add_test(tc, lane_lost__at_every_operation);
	tcase_add_test(tc, lane_lost__both_directions);
	tcase_add_test(tc, lane_lost__resend_before_new);
	tcase_add_test(tc, lane_lost__network_split);
	tcase_add_test(tc, peer_died__unknown);
	tcase_add_test(tc, peer_died__reported_by_next_send);
	tcase_add_test(tc, peer_forgot__unknown);
	tcase_add_test(tc, service__moves_to_another_context);
	tcase_add_test(tc, service__registered_again);
	tcase_add_test(tc, service__refused_until_sender_knows);
	tcase_add_test(tc, service__comes_back_at_any_time);
	tcase_add_test(tc, service__gone);
	tcase_add_test(tc, context__closed);
	tcase_add_test(tc, chaos__exactly_once);
	suite_add_tcase(suite, tc);
	return test_main("core/reliable/reliable", suite);
}
