/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Silent lanes: other paths are probed beside them, a lane that works is kept, and one that carries
 * nothing in one direction is replaced in time.
 */
#include "core/rig.h"
#include "core/peer/eviction.h"

static struct rig rig;

static void setup(void)
{
	rig_start(&rig, 2, NULL);
}

static void teardown(void)
{
	rig_end(&rig);
}

static void jitter(struct ripc__sim_config *config)
{
	config->delay_min_ns = 1 * RIPC__MS;
	config->delay_max_ns = 30 * RIPC__MS;
}

static struct ripc__ep *broken[2]; /* all that is sent there is lost */

static int post_unless_broken(struct ripc__ep *ep, const void *head, size_t head_len,
			      const struct iovec *items, unsigned n, bool more)
{
	if (ep != broken[0] && ep != broken[1])
		return ripc__transport_sim.post(ep, head, head_len, items, n, more);
	return 0;
}

/* The next endpoint may be at the same address. */
static void close_broken(struct ripc__ep *ep)
{
	for (unsigned i = 0; i < 2; i++)
		if (ep == broken[i])
			broken[i] = NULL;
	ripc__transport_sim.ep_close(ep);
}

static uint64_t silence(void)
{
	uint64_t before = ripc__sim_now(rig.net);

	for (int i = 0; i < 20000 && rig_lane(&rig, 0, 1); i++)
		rig_run(&rig, 1);
	return ripc__sim_now(rig.net) - before;
}

START_TEST(timer__silent_peer_with_work)
{
	static uint8_t data[MIB];
	struct ripc_request *r;
	uint64_t took;

	rig_connect(&rig, 0, 1);
	ripc__sim_hold(rig.net, rig_instance(&rig, 1), true);
	r = rig_begin(&rig, 0, 1, data, MIB);
	took = silence();
	/* peer_timeout_ms. A message at an unknown time may count as a tick earlier. */
	ck_assert_uint_ge(took, 1850 * RIPC__MS);
	ck_assert_uint_le(took, 2005 * RIPC__MS);
	ck_assert_uint_eq(rig_stats(&rig, 0).lanes_lost, 1);
	/* It had been sent. */
	RC(-EPIPE, ripc_request_cancel(&r, 0));
	ripc__sim_hold(rig.net, rig_instance(&rig, 1), false);
}
END_TEST

static uint64_t transferred, transferred_by; /* bytes, and how many more at each query */

static uint64_t count_transferred(struct ripc__ep *ep)
{
	(void)ep;
	return transferred += transferred_by;
}

/* Connects 0 to 1, whose transport reports the transfers of count_transferred(). Return: it. */
static struct ripc__tp *count_transfers(void)
{
	static struct ripc__transport_ops ops;
	struct ripc__tp *tp;

	rig_connect(&rig, 0, 1);
	tp = &rig.ctx[0]->tp[rig_lane(&rig, 0, 1)->tp];
	ops = *tp->ops;
	ops.bytes_transferred = count_transferred;
	tp->ops = &ops;
	transferred = 1;
	return tp;
}

/* No message arrives, but a transfer makes progress; fewer bytes may be those of a PING. */
START_TEST(timer__transfer_makes_progress)
{
	static const uint64_t bytes[] = {0, 100, 10 * KIB};
	static uint8_t data[MIB];
	struct ripc__tp *tp = count_transfers();
	struct ripc_request *r;

	transferred_by = bytes[_i];
	ripc__sim_hold(rig.net, rig_instance(&rig, 1), true);
	r = rig_begin(&rig, 0, 1, data, MIB);
	rig_run(&rig, 5000);
	ck_assert_uint_eq(rig_stats(&rig, 0).lanes_lost, _i < 2);
	ripc_request_cancel(&r, 0);
	ripc__sim_hold(rig.net, rig_instance(&rig, 1), false);
	tp->ops = &ripc__transport_sim;
}
END_TEST

/*
 * A peer becomes silent after a transfer: the bytes of that transfer prolong the time-out by one
 * tick at most. _i: the lane is idle in between.
 */
START_TEST(timer__silent_after_transfer)
{
	static uint8_t data[MIB];
	struct ripc__tp *tp = count_transfers();
	struct ripc_request *r;

	transferred_by = 0;
	ripc__sim_hold(rig.net, rig_instance(&rig, 1), true);
	r = rig_begin(&rig, 0, 1, data, MIB);
	rig_run(&rig, 600);
	ripc__sim_hold(rig.net, rig_instance(&rig, 1), false);
	OK(ripc_request_wait(&r, 5000));
	ripc_message_free(rig_take(&rig, 1));
	transferred += MIB;
	if (_i)
		rig_run(&rig, 3000);
	ripc__sim_hold(rig.net, rig_instance(&rig, 1), true);
	r = rig_begin(&rig, 0, 1, data, MIB);
	ck_assert_uint_le(silence(), (2005 + 125) * RIPC__MS);
	ripc_request_cancel(&r, 0);
	ripc__sim_hold(rig.net, rig_instance(&rig, 1), false);
	tp->ops = &ripc__transport_sim;
}
END_TEST

START_TEST(timer__silent_peer_without_work)
{
	rig_exchange(&rig, 0, 1);
	ripc__sim_hold(rig.net, rig_instance(&rig, 1), true);
	rig_run(&rig, 20000);
	ck_assert_ptr_nonnull(rig_lane(&rig, 0, 1));
	ripc__sim_hold(rig.net, rig_instance(&rig, 1), false);
	rig_exchange(&rig, 0, 1);
	ck_assert_uint_eq(rig_stats(&rig, 0).lanes_opened, 1);
}
END_TEST

/* A peer that is stopped for less than peer_timeout_ms keeps its lane, and nothing is lost. */
START_TEST(timer__peer_stopped_for_a_while)
{
	static uint8_t data[MIB];
	struct ripc_request *r;

	rig_connect(&rig, 0, 1);
	for (int i = 0; i < 3; i++) {
		ripc__sim_hold(rig.net, rig_instance(&rig, 1), true);
		r = rig_begin(&rig, 0, 1, data, MIB);
		rig_run(&rig, 1850);
		ripc__sim_hold(rig.net, rig_instance(&rig, 1), false);
		OK(ripc_request_wait(&r, 5000));
		ripc_message_free(rig_take(&rig, 1));
		rig_run(&rig, 2500);
		rig_expect_one_lane(&rig);
	}
	for (unsigned i = 0; i < 2; i++) {
		ck_assert_uint_eq(rig_stats(&rig, i).lanes_opened, 1);
		ck_assert_uint_eq(rig_stats(&rig, i).lanes_lost, 0);
		ck_assert_int_eq(rig_peer(&rig, i, !i)->contact, RIPC__CONTACT_NORMAL);
	}
}
END_TEST

/* This context is stopped, in the midst of a watch: that is no silence of the peer. */
START_TEST(timer__stopped_itself)
{
	rig_connect(&rig, 0, 1);
	OK(ripc_watch(rig.s[0], RIG_ID(1)));
	for (unsigned i = 0; i < 20; i++) {
		rig_run(&rig, 1 + 50 * i);
		ripc__sim_hold(rig.net, rig_instance(&rig, 0), true);
		rig_run(&rig, 10000);
		ripc__sim_hold(rig.net, rig_instance(&rig, 0), false);
	}
	rig_run(&rig, 3000);
	rig_expect_none(&rig, 0);
	ck_assert_uint_eq(rig_stats(&rig, 0).lanes_lost, 0);
	ck_assert_uint_eq(rig_stats(&rig, 1).lanes_opened, 1);
	ck_assert_int_eq(rig_peer(&rig, 0, 1)->contact, RIPC__CONTACT_NORMAL);
}
END_TEST

/*
 * A lane carries nothing any more, without an error, as behind a cable that was pulled; another
 * connection can be made. Work outstanding is done within peer_timeout_ms, whether one side
 * notices, or both do.
 */
START_TEST(timer__broken_lane)
{
	static uint8_t data[2][MIB];
	struct ripc__transport_ops ops = ripc__transport_sim;
	struct ripc_request *r[2] = {NULL, NULL};
	uint64_t before;

	rig_exchange(&rig, 0, 1);
	rig_run(&rig, 3000);
	ops.post = post_unless_broken;
	ops.ep_close = close_broken;
	for (unsigned i = 0; i < 2; i++) {
		rig.ctx[i]->tp[rig_lane(&rig, i, !i)->tp].ops = &ops;
		broken[i] = rig_lane(&rig, i, !i)->ep;
	}
	before = ripc__sim_now(rig.net);
	for (unsigned i = 0; i < 2; i++)
		if (_i != (int)!i)
			r[i] = rig_begin(&rig, i, !i, data[i], MIB);
	for (unsigned i = 0; i < 2; i++) {
		if (!r[i])
			continue;
		OK(ripc_request_wait(&r[i], 10000));
		ripc_message_free(rig_take(&rig, !i));
	}
	ck_assert_uint_le(ripc__sim_now(rig.net) - before, 1900 * RIPC__MS);
	rig_run(&rig, 3000);
	rig_expect_one_lane(&rig);
	for (unsigned i = 0; i < 2; i++) {
		ck_assert_int_eq(rig_peer(&rig, i, !i)->contact, RIPC__CONTACT_NORMAL);
		ck_assert_uint_eq(rig_stats(&rig, i).peers_lost, 0);
	}
	rig_exchange(&rig, 0, 1);
	for (unsigned i = 0; i < 2; i++)
		rig.ctx[i]->tp[rig_lane(&rig, i, !i)->tp].ops = &ripc__transport_sim;
}
END_TEST

/* Long silence before does not count against what begins now. */
START_TEST(monitor__restarts_timeout)
{
	static uint8_t data[MIB];
	struct ripc_request *r;

	rig_exchange(&rig, 0, 1);
	rig_run(&rig, 20000);
	ripc__sim_hold(rig.net, rig_instance(&rig, 1), true);
	r = rig_begin(&rig, 0, 1, data, MIB);
	rig_run(&rig, 1500);
	ck_assert_ptr_nonnull(rig_lane(&rig, 0, 1));
	ripc__sim_hold(rig.net, rig_instance(&rig, 1), false);
	OK(ripc_request_wait(&r, 5000));
	ripc_message_free(rig_take(&rig, 1));
	ck_assert_uint_eq(rig_stats(&rig, 0).lanes_opened, 1);
}
END_TEST

/* A service that does not receive is not a dead peer: PING is answered. */
START_TEST(ping__slow_receiver_alive)
{
	int rc;

	rig_connect(&rig, 0, 1);
	do
		rc = rig_short(&rig, 0, 1, 7000, 1, 0);
	while (!rc);
	ck_assert_int_eq(rc, -EAGAIN);
	RC(-ETIMEDOUT, rig_short(&rig, 0, 1, 7000, 1, 10000));
	ck_assert(strstr(ripc_error_detail(), "credit") != NULL);
	ck_assert_uint_eq(rig_stats(&rig, 0).lanes_lost, 0);
	ck_assert_uint_gt(rig_stats(&rig, 0).credit_stalls, 0);
	rig_expect(&rig, 1, 7000, 1);
}
END_TEST

static struct ripc__ep *kept; /* of a lane that is gone; NULL: none */

/* The other side does not learn of it. */
static void close_unless_broken(struct ripc__ep *ep)
{
	if (ep == broken[0])
		kept = ep;
	else
		close_broken(ep);
}

static unsigned progress_unless_kept(struct ripc__transport *t, struct ripc__event *events,
				     unsigned max, uint64_t now_ns, uint64_t *deadline_ns)
{
	unsigned n = ripc__transport_sim.progress(t, events, max, now_ns, deadline_ns), left = 0;

	for (unsigned i = 0; i < n; i++) {
		if (!kept || events[i].ep != kept)
			events[left++] = events[i];
		else if (events[i].token)
			ripc__transport_sim.release(t, events[i].token);
	}
	return left;
}

/*
 * A lane with few messages, in use right now, breaks; one side notices at once (its interface is
 * down), and can connect over another path. _i: how many messages before.
 */
START_TEST(fail_over__of_quiet_lane)
{
	static uint8_t data[MIB];
	static struct ripc__transport_ops ops;
	struct ripc_request *r;
	uint64_t before;
	int rc;

	ops = ripc__transport_sim;
	rig_connect(&rig, 0, 1);
	rig_run(&rig, 60000);
	for (int i = 0; i < (_i ? 100 : 1); i++)
		rig_exchange(&rig, 0, 1);
	ops.post = post_unless_broken;
	ops.ep_close = close_unless_broken;
	ops.progress = progress_unless_kept;
	for (unsigned i = 0; i < 2; i++) {
		rig.ctx[i]->tp[rig_lane(&rig, i, !i)->tp].ops = &ops;
		broken[i] = rig_lane(&rig, i, !i)->ep;
	}
	before = ripc__sim_now(rig.net);
	r = rig_begin(&rig, 0, 1, data, MIB);
	ripc__lock(rig.ctx[0]);
	ripc__lane_fail(rig_lane(&rig, 0, 1), -ENETDOWN, "the interface is down");
	ripc__unlock(rig.ctx[0]);
	rc = ripc_request_wait(&r, 10000);
	ck_assert_msg(!rc, "%s", ripc_error_detail());
	/* Half of peer_timeout_ms if another message was on its way, and the connection. */
	ck_assert_uint_le(ripc__sim_now(rig.net) - before, 1500 * RIPC__MS);
	ripc_message_free(rig_take(&rig, 1));
	ripc__transport_sim.ep_close(kept);
	kept = broken[0] = NULL;
	for (unsigned i = 0; i < 2; i++)
		rig.ctx[i]->tp[rig_lane(&rig, i, !i)->tp].ops = &ripc__transport_sim;
}
END_TEST

/* GOAWAY is the first message of a peer that was silent: the probe's short time does not stay. */
START_TEST(goaway__while_probing)
{
	struct ripc__peer *p;

	rig_exchange(&rig, 0, 1);
	OK(ripc_watch(rig.s[0], RIG_ID(1)));
	rig_run(&rig, 100);
	p = rig_peer(&rig, 0, 1);
	ripc__sim_hold(rig.net, rig_instance(&rig, 1), true);
	for (int i = 0; i < 1500 && p->contact != RIPC__CONTACT_PROBING; i++)
		rig_run(&rig, 1);
	ck_assert_int_eq(p->contact, RIPC__CONTACT_PROBING);
	ripc__lock(rig.ctx[0]);
	ripc__lane_goaway(p->lane, 0);
	ripc__unlock(rig.ctx[0]);
	ck_assert_uint_eq(p->unreachable_ns, 0);
	ripc__sim_hold(rig.net, rig_instance(&rig, 1), false);
}
END_TEST

/* A probe is refused because the lane is alive, after the timer has seen that. */
START_TEST(probe__refused_late)
{
	static uint8_t data[2][MIB];
	struct ripc_request *r, *r2;
	struct ripc__peer *p;
	uint64_t before;
	int rc;

	rig_exchange(&rig, 0, 1);
	rig_run(&rig, 3000);
	p = rig_peer(&rig, 0, 1);
	ripc__sim_hold(rig.net, rig_instance(&rig, 1), true);
	r = rig_begin(&rig, 0, 1, data[0], MIB);
	for (int i = 0; i < 1500 && !p->out; i++)
		rig_run(&rig, 1);
	ck_assert_ptr_nonnull(p->out);
	/* A message arrived and the timer ran. */
	ripc__lock(rig.ctx[0]);
	p->lane->last_rx_ns = ripc__now(rig.ctx[0]);
	ripc__peer_probe_end(p->lane);
	ck_assert_ptr_nonnull(p->out);
	ck_assert_int_eq(p->contact, RIPC__CONTACT_NORMAL);
	ripc__unlock(rig.ctx[0]);
	ripc__sim_hold(rig.net, rig_instance(&rig, 1), false);
	OK(ripc_request_wait(&r, 5000));
	ripc_message_free(rig_take(&rig, 1));
	rig_run(&rig, 300);
	/* Now the lane fails. */
	ripc__sim_break(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1));
	before = ripc__sim_now(rig.net);
	r2 = rig_begin(&rig, 0, 1, data[1], MIB);
	rc = ripc_request_wait(&r2, 20000);
	ck_assert_int_eq(rc, 0);
	ripc_message_free(rig_take(&rig, 1));
	ck_assert_uint_le(ripc__sim_now(rig.net) - before, 100 * RIPC__MS);
}
END_TEST

/* A lane ends the probe of its own peer, and only if there is one. */
START_TEST(probe__ended_by_its_lane)
{
	struct ripc__lane other = {.ctx = rig.ctx[0]};
	struct ripc__peer *p;

	rig_exchange(&rig, 0, 1);
	p = rig_peer(&rig, 0, 1);
	other.peer = p;
	p->next_path = 1;
	ripc__lock(rig.ctx[0]);
	ripc__peer_probe_end(p->lane);
	ck_assert_uint_eq(p->next_path, 1);
	p->contact = RIPC__CONTACT_PROBING;
	ripc__peer_probe_end(&other);
	ck_assert_int_eq(p->contact, RIPC__CONTACT_PROBING);
	ripc__peer_probe_end(p->lane);
	ck_assert_int_eq(p->contact, RIPC__CONTACT_NORMAL);
	ck_assert_uint_eq(p->next_path, 0);
	ripc__unlock(rig.ctx[0]);
}
END_TEST

/*
 * Reliable messages of both sides over a lane that breaks: in order, each once. _i: the broken
 * direction, with long messages or not, from both sides or one.
 */
START_TEST(replace__reliable_in_order)
{
	static uint8_t data[2][MIB];
	static struct ripc__transport_ops ops;
	struct ripc_send_options reliable = {.size = sizeof(reliable), .flags = RIPC_RELIABLE};
	struct ripc_request *r[2] = {NULL, NULL};
	struct ripc_message *m;
	unsigned next[2] = {0, 0}, sent[2] = {0, 0}, before_break = 7, longs[2] = {0, 0};

	ops = ripc__transport_sim;
	rig_exchange(&rig, 0, 1);
	rig_run(&rig, 3000);
	ops.post = post_unless_broken;
	ops.ep_close = close_broken;
	for (unsigned round = 0; round < 40; round++) {
		for (unsigned i = 0; i < 2; i++) {
			if (round == before_break) {
				rig.ctx[i]->tp[rig_lane(&rig, i, !i)->tp].ops = &ops;
				if (_i % 3 != (int)i + 1)
					broken[i] = rig_lane(&rig, i, !i)->ep;
			}
			if (round == before_break && !r[i] && _i / 3 % 2)
				r[i] = rig_begin(&rig, i, !i, data[i], 200 * KIB);
		}
		for (unsigned i = 0; i < 2; i++)
			for (unsigned k = 0; k < 3; k++) {
				struct iovec item = {&sent[i], sizeof(sent[i])};

				if (_i / 6 == 0 || i == 0)
					if (!ripc_send_short(rig.s[i], RIG_ID(!i), &item, 1,
							     &reliable, 0))
						sent[i]++;
			}
		rig_run(&rig, 1 + (unsigned)_i * 13 % 100);
	}
	for (unsigned i = 0; i < 2; i++)
		while (!ripc_receive(rig.s[i], &m, 4000)) {
			if (m->items[0].iov_len == sizeof(unsigned)) {
				unsigned number;

				memcpy(&number, m->items[0].iov_base, sizeof(number));
				ck_assert_uint_eq(number, next[i]);
				next[i]++;
			} else {
				longs[i]++;
			}
			ripc_message_free(m);
		}
	for (unsigned i = 0; i < 2; i++) {
		ck_assert_uint_eq(next[i], sent[!i]);
		if (r[!i]) {
			OK(ripc_request_wait(&r[!i], 5000));
			ck_assert_uint_eq(longs[i], 1);
		}
		rig.ctx[i]->tp[rig_lane(&rig, i, !i)->tp].ops = &ripc__transport_sim;
		ck_assert_uint_eq(rig_stats(&rig, i).peers_lost, 0);
		ck_assert_uint_eq(rig_stats(&rig, i).bad_messages, 0);
	}
	rig_exchange(&rig, 0, 1);
	broken[0] = broken[1] = NULL;
}
END_TEST

/*
 * A lane carries nothing in one direction any more; another connection can be made. The
 * request to the silent peer is done.
 */
START_TEST(replace__one_direction)
{
	static uint8_t data[MIB];
	static struct ripc__transport_ops ops;
	struct ripc_request *r;
	int rc;

	ops = ripc__transport_sim;
	rig_exchange(&rig, 1, 0);
	rig_run(&rig, 3000);
	ops.post = post_unless_broken;
	ops.ep_close = close_broken;
	rig.ctx[0]->tp[rig_lane(&rig, 0, 1)->tp].ops = &ops;
	broken[0] = rig_lane(&rig, 0, 1)->ep;
	broken[1] = NULL;
	r = rig_begin(&rig, 1, 0, data, _i ? 300 : MIB);
	rc = ripc_request_wait(&r, 10000);
	rig.ctx[0]->tp[1].ops = &ripc__transport_sim;
	ck_assert_msg(!rc, "%s", ripc_error_detail());
	ripc_message_free(rig_take(&rig, 0));
	rig_exchange(&rig, 0, 1);
}
END_TEST

/* Many peers are silent for a while, and go on. */
START_TEST(probe__many_peers)
{
	static uint8_t data[RIG_CONTEXTS][MIB];
	struct ripc_request *r[RIG_CONTEXTS];
	static const unsigned ms[] = {800, 1100, 1500, 1800, 1900};

	rig_restart(&rig, RIG_CONTEXTS, _i % 2 ? jitter : NULL);
	for (unsigned i = 1; i < RIG_CONTEXTS; i++)
		rig_exchange(&rig, 0, i);
	rig_run(&rig, 3000);
	for (unsigned k = 0; k < 5; k++) {
		for (unsigned i = 1; i < RIG_CONTEXTS; i++)
			ripc__sim_hold(rig.net, rig_instance(&rig, i), true);
		for (unsigned i = 1; i < RIG_CONTEXTS; i++)
			r[i] = rig_begin(&rig, 0, i, data[i], MIB);
		rig_run(&rig, ms[k] - (_i % 2 ? 100 : 0));
		for (unsigned i = 1; i < RIG_CONTEXTS; i++)
			ripc__sim_hold(rig.net, rig_instance(&rig, i), false);
		for (unsigned i = 1; i < RIG_CONTEXTS; i++) {
			OK(ripc_request_wait(&r[i], 5000));
			ripc_message_free(rig_take(&rig, i));
		}
		rig_run(&rig, _i / 2 ? 3000 : 1);
	}
	ck_assert_uint_eq(rig_stats(&rig, 0).lanes_lost, 0);
	ck_assert_uint_eq(rig_stats(&rig, 0).lanes_opened, RIG_CONTEXTS - 1);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("core/peer/silence");
	TCase *tc = tcase_create("silence");

	test_seed();
	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_set_timeout(tc, 300);
	tcase_add_test(tc, timer__silent_peer_with_work);
	tcase_add_loop_test(tc, timer__transfer_makes_progress, 0, 3);
	tcase_add_loop_test(tc, timer__silent_after_transfer, 0, 2);
	tcase_add_test(tc, timer__silent_peer_without_work);
	tcase_add_test(tc, timer__peer_stopped_for_a_while);
	tcase_add_test(tc, timer__stopped_itself);
	tcase_add_loop_test(tc, timer__broken_lane, 0, 3);
	tcase_add_test(tc, monitor__restarts_timeout);
	tcase_add_test(tc, ping__slow_receiver_alive);
	tcase_add_loop_test(tc, fail_over__of_quiet_lane, 0, 2);
	tcase_add_test(tc, goaway__while_probing);
	tcase_add_test(tc, probe__refused_late);
	tcase_add_test(tc, probe__ended_by_its_lane);
	tcase_add_loop_test(tc, replace__reliable_in_order, 0, 12);
	tcase_add_loop_test(tc, replace__one_direction, 0, 2);
	tcase_add_loop_test(tc, probe__many_peers, 0, 4);
	suite_add_tcase(suite, tc);
	return test_main("core/peer/silence", suite);
}
