/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The sender: in order and exactly once, or it learns otherwise. */
#include "core/reliable/reliables.h"
#include "wire/bytes.h"

/* ---- bounds ---- */

/* A receiver that is stopped: the sender has a bounded number of copies, then waits. */
START_TEST(window__full)
{
	uint64_t sent = 1;
	int rc = 0;

	restart_deep();
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

	restart_deep();
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

/* ---- the receiver forgets ---- */

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

/*
 * The acknowledgement is lost with a lane. Over the next one the sender has no room to repeat the
 * message, and is suspended, until the receiver has been idle and closes.
 */
START_TEST(context__closed_idle)
{
	struct ripc_service *next;
	unsigned i = rig_open(&rig, NULL);
	struct ripc__transport_ops ops;
	struct ripc__reliable *rel;
	struct ripc__tp *tp;

	OK(send_number(RIG_ID(1), 1, 1000));
	OK(ripc_flush(rig.s[0], RIG_ID(1), 1000));
	OK(send_number(RIG_ID(1), 2, 1000));
	rig_run(&rig, 1);
	expect_numbers(1, 1, 2);
	ck_assert_uint_eq(unacked(), 1);
	tp = &rig.ctx[0]->tp[rig_lane(&rig, 0, 1)->tp];
	ops = *tp->ops;
	ops.post = post_or_fail;
	tp->ops = &ops;
	post_fails = true;
	rel = rig_peer(&rig, 0, 1)->reliable;
	ripc__sim_break(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1));
	while (!rel->resend || !rig_lane(&rig, 0, 1))
		rig_run(&rig, 1);
	ripc__sim_hold(rig.net, rig_instance(&rig, 0), true);
	rig_run(&rig, 4000);
	ck_assert_ptr_nonnull(rig_lane(&rig, 1, 0));
	ck_assert_ptr_null(rig_peer(&rig, 1, 0)->reliable);
	rig_close(&rig, 1);
	post_fails = false;
	ripc__sim_hold(rig.net, rig_instance(&rig, 0), false);
	OK(ripc_service_register(rig.ctx[i], RIG_ID(1), 0, &next));
	OK(ripc_flush(rig.s[0], RIG_ID(1), 10000));
	ck_assert_uint_eq(take_number(next), 0);
	tp->ops = &ripc__transport_sim;
}
END_TEST

/* ---- a peer that breaks the protocol ---- */

/* Answers are never refused: the lane ends, and the answer stays with the peer of its caller. */
START_TEST(refused__answer)
{
	struct iovec item = {"12345678", 8};
	struct ripc__reliable_msg *answer;
	struct ripc_message *m;
	struct ripc_request *r;
	struct ripc__peer *p;

	OK(ripc_call_start(rig.s[0], RIG_ID(1), &item, 1, NULL, 5000, &r));
	OK(ripc_receive(rig.s[1], &m, 1000));
	OK(ripc_reply(m, &item, 1, 1000));
	ripc_message_free(m);
	p = rig_peer(&rig, 1, 0);
	answer = ripc__list_first_entry(&p->reliable->unacked, struct ripc__reliable_msg, link);
	ck_assert_ptr_nonnull(answer);
	ck_assert(answer->flags & RIPC__F_REPLY);
	ripc__lock(rig.ctx[1]);
	ripc__reliable_refused(p->lane, answer->number);
	ripc__unlock(rig.ctx[1]);
	ck_assert_uint_eq(rig.ctx[1]->reliable_npending, 0);
	ck_assert_uint_eq(p->reliable_unacked, 1);
	ck_assert_uint_eq(rig_stats(&rig, 1).bad_messages, 1);
	ck_assert_ptr_null(p->lane);
	OK(ripc_call_wait(&r, &m, 1000));
	ripc_message_free(m);
	rig_run(&rig, 100);
	ck_assert_uint_eq(p->reliable_unacked, 0);
}
END_TEST

/* ---- anything at any time ---- */

#define HOLDERS 3
#define LAST    400

static uint8_t seen[LAST + 1]; /* how often each number has come */

/* Takes all numbers that are there. last: the last one of each holder. */
static void take_all(struct ripc_service **holder, uint64_t *last)
{
	uint64_t n;

	for (unsigned i = 0; i < HOLDERS; i++)
		while ((n = take_number(holder[i]))) {
			ck_assert_uint_gt(n, last[i]);
			ck_assert_uint_eq(seen[n]++, 0);
			last[i] = n;
		}
}

/* Lanes break, and the service moves; round: which random numbers are used. */
static void chaos(uint64_t round)
{
	struct ripc_service *holder[HOLDERS] = {0};
	uint64_t last[HOLDERS] = {0}, lost = 0;
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

			take_all(holder, last);
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
		if (!(r & 1 << 20))
			take_all(holder, last);
	}
	if (ripc_flush(rig.s[0], 77, 20000))
		lost++;
	take_all(holder, last);
	/* No context died: nothing may be lost. */
	ck_assert_uint_eq(lost, 0);
	for (uint64_t n = 1; n <= LAST; n++)
		ck_assert_msg(seen[n] == 1, "round %llu: message %llu came %u times",
			      (unsigned long long)round, (unsigned long long)n, seen[n]);
	ck_assert_uint_eq(unacked(), 0);
}

START_TEST(chaos__exactly_once)
{
	for (uint64_t i = 0; i < 40; i++)
		chaos(i);
}
END_TEST

/*
 * The next lane does not take so long a message: it ends, although the former lane has delivered
 * it, and later ones are sent.
 */
START_TEST(flush__too_long_for_the_next_lane)
{
	static uint8_t data[3000];
	struct iovec item = {data, sizeof(data)};

	rig_fill(data, sizeof(data), 1);
	rig_connect(&rig, 0, 1);
	ripc__sim_partition(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1), true);
	OK(ripc_send_short(rig.s[0], RIG_ID(1), &item, 1, &reliable, 1000));
	OK(send_number(RIG_ID(1), 7, 1000));
	rig.ctx[0]->tp[rig_lane(&rig, 0, 1)->tp].limits.send_max = 2048;
	rig_fail_lane(&rig, 0, 1);
	ripc__sim_partition(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1), false);
	rig_connect(&rig, 0, 1);
	rig_run(&rig, 200);
	ck_assert_uint_eq(unacked(), 0);
	rig_expect(&rig, 1, sizeof(data), 1);
	expect_numbers(1, 7, 7);
	RC(-EPIPE, ripc_flush(rig.s[0], RIG_ID(1), 1000));
	ck_assert_ptr_nonnull(strstr(ripc_error_detail(), "does not take so long a message"));
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("core/reliable/sender");
	TCase *tc = tcase_create("sender");

	test_seed();
	tcase_set_timeout(tc, 120);
	tcase_add_checked_fixture(tc, reliable_setup, reliable_teardown);
	tcase_add_test(tc, window__full);
	tcase_add_test(tc, window__full_for_another_service);
	tcase_add_test(tc, window__one_service_full);
	tcase_add_test(tc, lane_lost__at_every_operation);
	tcase_add_test(tc, lane_lost__both_directions);
	tcase_add_test(tc, lane_lost__resend_before_new);
	tcase_add_test(tc, lane_lost__network_split);
	tcase_add_test(tc, peer_forgot__unknown);
	tcase_add_test(tc, service__moves_to_another_context);
	tcase_add_test(tc, service__comes_back_at_any_time);
	tcase_add_test(tc, context__closed);
	tcase_add_test(tc, context__closed_idle);
	tcase_add_test(tc, refused__answer);
	tcase_add_test(tc, chaos__exactly_once);
	tcase_add_test(tc, flush__too_long_for_the_next_lane);
	suite_add_tcase(suite, tc);
	return test_main("core/reliable/sender", suite);
}
