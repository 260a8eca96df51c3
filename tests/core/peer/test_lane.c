/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Lanes: how they come to be, crossed or not, what counts on them, and how silence ends them. */
#include "core/context/events.h"
#include "core/peer/endpoint.h"
#include "core/peer/eviction.h"
#include "core/peer/lane_post.h"
#include "core/peer/lane_progress.h"
#include "core/peer/ops.h"
#include "core/rig.h"
#include "transitions.h"

#include "wire/bytes.h"

static struct rig rig;

/* Contexts 0 and 1 know of each other's service and are not connected. */
static void locate_both(void)
{
	for (unsigned i = 0; i < 2; i++) {
		struct ripc__dest *d = ripc__dest_get(rig.ctx[i], RIG_ID(!i));

		for (int k = 0; k < 1000 && ripc__dest_locate(rig.ctx[i], d); k++)
			rig_run(&rig, 1);
		ck_assert_int_eq(d->state, RIPC__DEST_KNOWN);
	}
	ck_assert_uint_eq(rig.ctx[0]->stats.lanes + rig.ctx[1]->stats.lanes, 0);
}

/* ---- states ---- */

#define TO(state) (1u << RIPC__LANE_##state)

/* Also whether the lanes that are up are counted. */
static unsigned set_state(unsigned from, unsigned to)
{
	struct ripc *ctx = rig.ctx[0];
	struct ripc__lane lane = {.ctx = ctx, .state = (enum ripc__lane_state)from};

	ctx->stats.lanes = 5;
	ripc__lane_set_state(&lane, (enum ripc__lane_state)to);
	ck_assert_uint_eq(ctx->stats.lanes, 5 - (from == RIPC__LANE_UP) + (to == RIPC__LANE_UP));
	return lane.state;
}

START_TEST(set_state__transitions)
{
	static const unsigned allowed[RIPC__LANE_STATES] = {
		[RIPC__LANE_CONNECTING] = TO(UP) | TO(DEAD),
		[RIPC__LANE_ACCEPTING] = TO(UP) | TO(DEAD),
		[RIPC__LANE_UP] = TO(RETIRING) | TO(DEAD),
		[RIPC__LANE_RETIRING] = TO(DEAD),
	};

	check_transitions(set_state, allowed);
}
END_TEST

/* ---- connecting ---- */

START_TEST(connect__one_side)
{
	rig_connect(&rig, 0, 1);
	rig_expect_one_lane(&rig);
	ck_assert(rig_lane(&rig, 0, 1)->active);
	/* The other direction needs no connection of its own. */
	rig_exchange(&rig, 1, 0);
	rig_expect_one_lane(&rig);
}
END_TEST

static void far(struct ripc__sim_config *config)
{
	config->delay_min_ns = 1 * RIPC__MS;
	config->delay_max_ns = 3 * RIPC__MS;
}

static void far_slow_accept(struct ripc__sim_config *config)
{
	far(config);
	config->setup_delay_ns = 20 * RIPC__MS;
}

/*
 * Both connect at the same moment, or one somewhat later than the other: one lane is left, and
 * nothing is lost.
 */
START_TEST(connect__crossed)
{
	static const uint64_t offsets_ns[] = {0,       500000,   1500000,  2500000,
					      5000000, 15000000, 22000000, 30000000};

	for (size_t k = 0; k < 2 * sizeof(offsets_ns) / sizeof(offsets_ns[0]); k++) {
		static uint8_t data[20000];
		struct ripc_request *r[2];

		rig_restart(&rig, 2, k & 1 ? far_slow_accept : far);
		locate_both();
		r[0] = rig_begin(&rig, 0, 1, data, sizeof(data));
		ripc__sim_run(rig.net, offsets_ns[k / 2] + 1);
		r[1] = rig_begin(&rig, 1, 0, data, sizeof(data));
		for (unsigned i = 0; i < 2; i++)
			OK(ripc_request_wait(&r[i], 10000));
		for (unsigned i = 0; i < 2; i++) {
			ripc_message_free(rig_take(&rig, i));
			rig_expect_none(&rig, i);
		}
		rig_run(&rig, 2000);
		rig_expect_one_lane(&rig);
		rig_exchange(&rig, 0, 1);
	}
}
END_TEST

START_TEST(connect__failed_attempt_retried)
{
	ripc__sim_fail_connect_at(rig.net, 1);
	OK(rig_short(&rig, 0, 1, 10, 1, 5000));
	rig_expect(&rig, 1, 10, 1);
	rig_expect_one_lane(&rig);
}
END_TEST

static int no_memory(struct ripc__transport *t, const uint8_t *addr, size_t addrlen,
		     const void *priv, size_t privlen, void *user, struct ripc__ep **ep)
{
	return ripc__fail(-ENOMEM, "no memory for a connection");
}

/*
 * Attempts to reach a lost peer end when the only message to it is given up. A later message has
 * the whole peer_timeout_ms again.
 */
START_TEST(connect__after_a_pause)
{
	struct ripc__transport_ops ops = ripc__transport_sim;
	struct ripc__tp *tp;

	rig_exchange(&rig, 0, 1);
	tp = &rig.ctx[0]->tp[rig_lane(&rig, 0, 1)->tp];
	ops.connect = no_memory;
	tp->ops = &ops;
	rig_fail_lane(&rig, 0, 1);
	RC(-EHOSTUNREACH, rig_short(&rig, 0, 1, 10, 1, 300));
	tp->ops = &ripc__transport_sim;
	rig_run(&rig, 10000);
	rig.config.setup_delay_ns = 200 * RIPC__MS;
	ripc__sim_configure(rig.net, &rig.config);
	OK(rig_short(&rig, 0, 1, 10, 2, 5000));
	rig_expect(&rig, 1, 10, 2);
	ck_assert_uint_eq(rig_stats(&rig, 0).peers_lost, 0);
}
END_TEST

START_TEST(connect__no_answer)
{
	struct ripc_route route = {.size = sizeof(route)};

	locate_both();
	ripc__sim_partition(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1), true);
	RC(-EHOSTUNREACH, rig_short(&rig, 0, 1, 10, 1, 8000));
	ck_assert(ripc_error_detail()[0]);
	ck_assert_int_eq(ripc_route_get(rig.ctx[0], RIG_ID(1), &route), 0);
	ck_assert_uint_eq(route.connected, 0);
	ck_assert(route.reason[0]);
	ripc__sim_partition(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1), false);
	OK(rig_short(&rig, 0, 1, 10, 2, 8000));
	rig_expect(&rig, 1, 10, 2);
}
END_TEST

START_TEST(hello__transport_limits)
{
	uint8_t target[16] = {9};
	uint8_t hello[RIPC__HELLO_LEN];
	struct ripc__hello h;
	const char *why;

	ripc__lane_hello(rig.ctx[0], 1, target, RIPC__REFUSE_NONE, hello);
	OK(ripc__hello_decode(&h, hello, sizeof(hello), &why));
	ck_assert_mem_eq(h.instance, rig_instance(&rig, 0), 16);
	ck_assert_mem_eq(h.target, target, 16);
	ck_assert_uint_eq(h.send_max, 8192);
	ck_assert_uint_eq(h.recv_depth, 64);
	ck_assert_uint_eq(h.service_window, 4096);
	ck_assert_uint_eq(h.caps, RIPC__CAP_READ | RIPC__CAP_WRITE | RIPC__CAP_STANDING |
					  RIPC__CAP_DATAGRAM_CONTEXT | RIPC__CAP_FLOW_END);
}
END_TEST

/* ---- a request while there is a lane ---- */

/*
 * The peer has lost its end without our knowing: the request is held, the old lane found silent,
 * the new one taken.
 */
START_TEST(pending_conn__old_lane_dead)
{
	struct ripc__lane *old;

	rig_restart(&rig, 2, NULL);
	rig_connect(&rig, 0, 1);
	/* The other end closes without notice. */
	ripc__sim_hold(rig.net, rig_instance(&rig, 0), true);
	old = rig_lane(&rig, 1, 0);
	ripc__lane_fail(old, -ETIMEDOUT, "as the test wants it");
	ripc__dead_lanes_free(rig.ctx[1]);
	{
		static uint8_t data[100];
		struct ripc_request *r = rig_begin(&rig, 1, 0, data, sizeof(data));

		rig_run(&rig, 100);
		ripc__sim_hold(rig.net, rig_instance(&rig, 0), false);
		OK(ripc_request_wait(&r, 10000));
	}
	ripc_message_free(rig_take(&rig, 0));
	rig_run(&rig, 2000);
	rig_expect_one_lane(&rig);
	rig_exchange(&rig, 0, 1);
}
END_TEST

/* ---- lanes that fail ---- */

/* The lane from 0 to 1, which is being retired: its peer is silent. */
static struct ripc__lane *retiring_lane(void)
{
	struct ripc__lane *lane;

	rig_connect(&rig, 0, 1);
	rig_run(&rig, 50);
	lane = rig_lane(&rig, 0, 1);
	ripc__sim_hold(rig.net, rig_instance(&rig, 1), true);
	ripc__lock(rig.ctx[0]);
	/* Twice: idle is a lane that was not used since the last check. */
	for (unsigned i = 0; i < 2; i++)
		ripc__evict_lanes(rig.ctx[0], false);
	ripc__unlock(rig.ctx[0]);
	ck_assert_int_eq(lane->state, RIPC__LANE_RETIRING);
	return lane;
}

/* A message waits until its peer's retiring lane has ended, and goes over the next one. */
START_TEST(fail__retiring_lane)
{
	static uint8_t data[100];
	struct ripc__lane *lane = retiring_lane();
	struct ripc__peer *p = rig_peer(&rig, 0, 1);
	struct ripc_request *r = NULL;
	bool work = _i;
	uint32_t sent;

	if (work)
		r = rig_begin(&rig, 0, 1, data, sizeof(data));
	ck_assert_ptr_null(p->out);
	ripc__lock(rig.ctx[0]);
	/* It carries nothing more of this side. */
	sent = lane->tx_seq;
	lane->sending = RIPC__SENDING_STARVED;
	ripc__lane_flush(lane);
	ck_assert_uint_eq(lane->sending, RIPC__SENDING_STARVED);
	ck_assert_uint_eq(lane->tx_seq, sent);
	ripc__lane_fail(lane, -ETIMEDOUT, "as the test wants it");
	ck_assert_int_eq(p->out != NULL, work);
	ck_assert_uint_eq(rig.ctx[0]->stats.lanes_lost, 0);
	/* It has failed already: nothing happens. */
	ripc__lane_fail(lane, -ETIMEDOUT, "again");
	ripc__unlock(rig.ctx[0]);
	ripc__sim_hold(rig.net, rig_instance(&rig, 1), false);
	if (work) {
		OK(ripc_request_wait(&r, 5000));
		ripc_message_free(rig_take(&rig, 1));
	}
	rig_exchange(&rig, 0, 1);
}
END_TEST

static bool others_blocked(struct ripc__lane *lane)
{
	(void)lane;
	return true;
}

/* A lane has room again: the destinations of other peers are flushed if that may help them. */
/* The memory of a lane is freed when nothing in it is in use. */
START_TEST(memory_trim__unused_only)
{
	struct ripc__lane *lane;
	struct ripc__lane_memory *m;
	struct ripc__list entry;

	rig_connect(&rig, 0, 1);
	lane = rig_lane(&rig, 0, 1);
	ripc__lock(rig.ctx[0]);
	ripc__lane_memory_trim(lane);
	m = ripc__lane_memory_get(lane);
	ck_assert_ptr_nonnull(m);
	for (unsigned i = 0; i < 6; i++) {
		struct ripc__list *lists[] = {&m->rndvs,     &m->exports, &m->imports,
					      &m->late_refs, &m->bounces, &m->standing};

		ripc__list_add(lists[i], &entry);
		ripc__lane_memory_trim(lane);
		ck_assert_ptr_eq(lane->memory, m);
		ripc__list_del(&entry);
	}
	ripc__lane_memory_trim(lane);
	ck_assert_ptr_ne(lane->memory, m);
	ripc__unlock(rig.ctx[0]);
}
END_TEST

START_TEST(flush__other_destinations)
{
	static uint8_t data[100];
	struct ripc__peer_ops ops;
	struct ripc__lane *first, *second;
	struct ripc_request *r;

	rig_restart(&rig, 3, NULL);
	rig_connect(&rig, 0, 1);
	rig_connect(&rig, 0, 2);
	first = rig_lane(&rig, 0, 1);
	second = rig_lane(&rig, 0, 2);
	second->sending = RIPC__SENDING_BLOCKED;
	r = rig_begin(&rig, 0, 2, data, sizeof(data));
	second->sending = RIPC__SENDING_FREE;
	ripc__lock(rig.ctx[0]);
	ck_assert(!ripc__list_empty(&rig_dest(&rig, 0, 2)->pending));
	ripc__lane_flush(first);
	ck_assert(!ripc__list_empty(&rig_dest(&rig, 0, 2)->pending));
	ops = *rig.ctx[0]->peer_ops;
	ops.sendable = others_blocked;
	rig.ctx[0]->peer_ops = &ops;
	ripc__lane_flush(first);
	ck_assert(ripc__list_empty(&rig_dest(&rig, 0, 2)->pending));
	rig.ctx[0]->peer_ops = &ripc__peer_ops;
	ripc__unlock(rig.ctx[0]);
	OK(ripc_request_wait(&r, 5000));
	ripc_message_free(rig_take(&rig, 2));
}
END_TEST

/* ---- sequence and credit ---- */

START_TEST(sequence__wraps)
{
	rig_connect(&rig, 0, 1);
	rig_run(&rig, 5);
	rig_lane(&rig, 0, 1)->tx_seq = rig_lane(&rig, 1, 0)->rx_seq = UINT32_MAX - 5;
	for (int i = 0; i < 5; i++)
		rig_exchange(&rig, 0, 1);
	ck_assert_uint_lt(rig_lane(&rig, 0, 1)->tx_seq, 1000);
	ck_assert_uint_eq(rig_stats(&rig, 1).bad_messages, 0);
}
END_TEST

/*
 * Everything a message on a lane may not be: it is counted, the lane closed, and the next one
 * works.
 */
START_TEST(message__protocol_error)
{
	for (int what = 0; what < 6; what++) {
		uint8_t buf[200] = {0}, *p;
		int skew = 0;
		size_t len;

		rig_restart(&rig, 3, NULL);
		rig_connect(&rig, 0, 1);
		rig_connect(&rig, 2, 1);
		p = ripc__header_put(buf, RIPC__PING, 0, 0, 0, 0, 0);
		len = (size_t)(p + 8 - buf);
		switch (what) {
		case 0: /* a message left out */
			skew = 1;
			break;
		case 1: /* one again */
			skew = -1;
			break;
		case 2: /* a datagram */
			p = ripc__header_put(buf, RIPC__NOSERVICE, RIPC__F_INSTANCE, 0, 0, 0, 0);
			len = (size_t)(p + 16 - buf);
			break;
		case 3: /* not of the protocol */
			buf[0] ^= 1;
			break;
		case 4:
			len = 0;
			break;
		default: /* more than the credit of a service */
			p = ripc__header_put(buf, RIPC__SHORT, 0, 1, 0, RIG_ID(1), RIG_ID(0));
			ripc__put_le32(p, 100);
			len = (size_t)(p + 4 + 100 - buf);
			rig_run(&rig, 5);
			rig_short(&rig, 0, 1, 1, 0, 100);
			rig_run(&rig, 5);
			rig_lane(&rig, 1, 0)->flow->advertised_units = 2;
			break;
		}
		rig_inject(&rig, 0, 1, buf, len, skew);
		rig_run(&rig, 10);
		ck_assert_uint_eq(rig_stats(&rig, 1).bad_messages, 1);
		ck_assert_uint_eq(rig_stats(&rig, 1).lanes_lost, 1);
		while (rig.s[1]->queued)
			ripc_message_free(rig_take(&rig, 1));
		/* The others did not notice. */
		ck_assert_uint_eq(rig_stats(&rig, 2).lanes_lost, 0);
		rig_exchange(&rig, 2, 1);
		rig_exchange(&rig, 0, 1);
	}
}
END_TEST

static void few_buffers(struct ripc__sim_config *config)
{
	config->recv_depth = RIPC__RECV_DEPTH_MIN;
}

/*
 * With the fewest receive buffers allowed, both sides send at once for long: neither side stalls.
 */
START_TEST(credit__both_sides_few_buffers)
{
	struct ripc_message *m;
	unsigned got[2] = {0};

	rig_restart(&rig, 2, few_buffers);
	rig_connect(&rig, 0, 1);
	for (unsigned k = 0; k < 2000; k++)
		for (unsigned i = 0; i < 2; i++) {
			OK(rig_short(&rig, i, !i, 50, k, 5000));
			while (!ripc_receive(rig.s[i], &m, 0)) {
				got[i]++;
				ripc_message_free(m);
			}
		}
	rig_run(&rig, 50);
	for (unsigned i = 0; i < 2; i++)
		while (!ripc_receive(rig.s[i], &m, 0)) {
			got[i]++;
			ripc_message_free(m);
		}
	ck_assert_uint_eq(got[0], 2000);
	ck_assert_uint_eq(got[1], 2000);
	rig_expect_one_lane(&rig);
}
END_TEST

/*
 * Some messages are freed at once, then as many are kept as the lane has receive buffers. The
 * sender gets back what was freed, and does not wait until it takes the lane for silent.
 */
START_TEST(credit__messages_held)
{
	const unsigned depth = rig.config.recv_depth;
	struct ripc_message *held[256];

	rig_connect(&rig, 0, 1);
	ck_assert_uint_le(depth, 256);
	for (int k = 0; k < _i; k++) {
		OK(rig_short(&rig, 0, 1, 50, 1, 1000));
		rig_expect(&rig, 1, 50, 1);
	}
	for (unsigned k = 0; k < depth; k++) {
		OK(rig_short(&rig, 0, 1, 50, 1, 10));
		held[k] = rig_take(&rig, 1);
	}
	for (unsigned k = 0; k < depth; k++)
		ripc_message_free(held[k]);
}
END_TEST

START_TEST(credit__per_service)
{
	struct ripc_service *other;
	struct iovec item = {"x", 1};
	struct ripc_message *m;

	OK(ripc_service_register(rig.ctx[1], 77, 0, &other));
	rig_connect(&rig, 0, 1);
	while (!rig_short(&rig, 0, 1, 7000, 1, 0))
		rig_run(&rig, 1);
	/* That one is full; this one is not its concern. */
	for (int i = 0; i < 100; i++) {
		OK(ripc_send_short(rig.s[0], 77, &item, 1, NULL, 1000));
		OK(ripc_receive(other, &m, 1000));
		ripc_message_free(m);
	}
}
END_TEST

START_TEST(control__queue_limit_closes_lane)
{
	rig_connect(&rig, 0, 1);
	ripc__sim_hold(rig.net, rig_instance(&rig, 1), true);
	for (unsigned i = 0; i < 6000; i++)
		ripc__lane_notify(rig_lane(&rig, 0, 1), RIPC__PONG, 0, 0, i, 0);
	ck_assert_uint_eq(rig_lane(&rig, 0, 1)->sending, RIPC__SENDING_BROKEN);
	ck_assert_uint_le(rig_lane(&rig, 0, 1)->ncontrol, 4096);
	rig_run(&rig, 1);
	ck_assert_ptr_null(rig_lane(&rig, 0, 1));
	ripc__sim_hold(rig.net, rig_instance(&rig, 1), false);
	rig_exchange(&rig, 0, 1);
}
END_TEST

/* The order of messages is the protocol's: nothing follows one that could not be queued. */
START_TEST(control__nothing_after_a_lost_one)
{
	struct ripc__lane *lane;
	uint32_t seq;

	rig_connect(&rig, 0, 1);
	lane = rig_lane(&rig, 0, 1);
	seq = lane->tx_seq;
	lane->sending = RIPC__SENDING_BLOCKED;
	lane->ncontrol = UINT16_MAX;
	ripc__lane_notify(lane, RIPC__PONG, 0, 0, 1, 0);
	ck_assert_uint_eq(lane->sending, RIPC__SENDING_BROKEN);
	lane->ncontrol = 0;
	ripc__lane_notify(lane, RIPC__PONG, 0, 0, 2, 0);
	ck_assert(ripc__list_empty(&lane->control));
	ck_assert(!ripc__lane_can_send(lane));
	ck_assert_uint_eq(lane->tx_seq, seq);
	rig_run(&rig, 1);
	ck_assert_ptr_null(rig_lane(&rig, 0, 1));
	rig_exchange(&rig, 0, 1);
}
END_TEST

START_TEST(bye__closes_lane)
{
	rig_connect(&rig, 0, 1);
	rig_close(&rig, 1);
	rig_run(&rig, 5);
	ck_assert_uint_eq(rig_stats(&rig, 0).lanes, 0);
	RC(-EHOSTUNREACH, rig_short(&rig, 0, 1, 10, 1, 3000));
}
END_TEST

static void setup(void)
{
	rig_start(&rig, 2, NULL);
}

static void teardown(void)
{
	rig_end(&rig);
}

int main(void)
{
	Suite *suite = suite_create("core/peer/lane");
	TCase *tc = tcase_create("lane");

	test_seed();
	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_set_timeout(tc, 120);
	tcase_add_test(tc, set_state__transitions);
	tcase_add_test(tc, connect__one_side);
	tcase_add_test(tc, connect__crossed);
	tcase_add_test(tc, connect__failed_attempt_retried);
	tcase_add_test(tc, connect__after_a_pause);
	tcase_add_test(tc, connect__no_answer);
	tcase_add_test(tc, hello__transport_limits);
	tcase_add_test(tc, pending_conn__old_lane_dead);
	tcase_add_loop_test(tc, fail__retiring_lane, 0, 2);
	tcase_add_test(tc, memory_trim__unused_only);
	tcase_add_test(tc, flush__other_destinations);
	tcase_add_test(tc, sequence__wraps);
	tcase_add_test(tc, message__protocol_error);
	tcase_add_test(tc, credit__both_sides_few_buffers);
	tcase_add_loop_test(tc, credit__messages_held, 0, 64);
	tcase_add_test(tc, credit__per_service);
	tcase_add_test(tc, control__queue_limit_closes_lane);
	tcase_add_test(tc, control__nothing_after_a_lost_one);
	tcase_add_test(tc, bye__closes_lane);
	suite_add_tcase(suite, tc);
	return test_main("core/peer/lane", suite);
}
