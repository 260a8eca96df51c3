/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * FLOW_END, by which both sides of a lane forget a service that has ended: one by one, many at
 * once, and at random beside all kinds of messages.
 */
#include "core/rig.h"

static struct rig rig;

static void setup(void)
{
	rig_start(&rig, 2, NULL);
}

static void teardown(void)
{
	rig_end(&rig);
}

#define SERVICE UINT64_C(77777)

static unsigned count_credits(const struct ripc__lane *l)
{
	const struct ripc__credit *c = &l->credits;
	unsigned n = c->id != 0;

	while ((c = c->next))
		n++;
	return n;
}

/* A message of each kind to a service of context 1, which has it for a while. */
static void use_service(uint64_t id, unsigned unread)
{
	static uint8_t large[MIB];
	struct ripc_send_options reliable = {.size = sizeof(reliable), .flags = RIPC_RELIABLE};
	struct iovec item = {large, 100}, large_item = {large, MIB};
	struct ripc_message *m;
	struct ripc_service *s;

	OK(ripc_service_register(rig.ctx[1], id, 0, &s));
	OK(ripc_send_long(rig.s[0], id, &large_item, 1, NULL, 5000));
	OK(ripc_send_short(rig.s[0], id, &item, 1, NULL, 5000));
	OK(ripc_send_short(rig.s[0], id, &item, 1, &reliable, 5000));
	OK(ripc_flush(rig.s[0], id, 5000));
	for (unsigned i = unread; i < 3; i++) {
		OK(ripc_receive(s, &m, 5000));
		ripc_message_free(m);
	}
	OK(ripc_service_unregister(s));
}

/* Services come and go: neither side keeps anything of them, and the lane stays. */
START_TEST(end__services_come_and_go)
{
	rig_connect(&rig, 0, 1);
	for (unsigned i = 0; i < 300; i++) {
		use_service(5000 + i % 250, i % 4);
		if (!(i % 100))
			rig_run(&rig, 3000);
	}
	rig_run(&rig, 3000);
	/* One flow may be parked. */
	ck_assert(rig_lane(&rig, 1, 0)->flow_parked || rig_lane(&rig, 1, 0)->flows.count <= 2);
	ck_assert_uint_le(count_credits(rig_lane(&rig, 0, 1)), 2);
	rig_exchange(&rig, 0, 1);
	for (unsigned i = 0; i < 2; i++) {
		ck_assert_uint_eq(rig_stats(&rig, i).lanes_lost, 0);
		ck_assert_uint_eq(rig_stats(&rig, i).bad_messages, 0);
	}
}
END_TEST

/* Short messages until there is no credit left. Return: their number. */
static unsigned send_all(uint64_t id)
{
	static uint8_t bytes[7000];
	struct iovec item = {bytes, sizeof(bytes)};
	unsigned n = 0;

	while (!ripc_send_short(rig.s[0], id, &item, 1, NULL, n ? 0 : 5000))
		n++;
	return n;
}

/* A service of the same id begins anew, each time with the whole window. */
START_TEST(end__same_id_again)
{
	unsigned n, first = 0;

	rig_connect(&rig, 0, 1);
	for (unsigned i = 0; i < 6; i++) {
		struct ripc_service *s;

		OK(ripc_service_register(rig.ctx[1], SERVICE, 0, &s));
		n = send_all(SERVICE);
		ck_assert_uint_gt(n, 1);
		first = first ? first : n;
		ck_assert_uint_eq(n, first);
		if (i % 2)
			rig_run(&rig, 10);
		OK(ripc_service_unregister(s));
		rig_run(&rig, i < 3 ? 3000 : 20);
	}
	ck_assert_uint_eq(rig_stats(&rig, 1).bad_messages, 0);
}
END_TEST

/* Messages are in flight to a service whose flow ends: both sides count them anew. */
START_TEST(end__messages_in_flight)
{
	struct ripc__credit *c;
	struct ripc__flow *f;
	struct ripc_service *s;
	struct iovec item = {"x", 1};
	struct ripc_message *m;

	rig_connect(&rig, 0, 1);
	OK(ripc_service_register(rig.ctx[1], SERVICE, 0, &s));
	OK(ripc_send_short(rig.s[0], SERVICE, &item, 1, NULL, 5000));
	OK(ripc_receive(s, &m, 5000));
	ripc_message_free(m);
	for (unsigned i = 0; i < 3; i++)
		OK(ripc_send_short(rig.s[0], SERVICE, &item, 1, NULL, 0));
	OK(ripc_service_unregister(s));
	ripc__lock(rig.ctx[1]);
	ripc__flows_trim(rig_lane(&rig, 1, 0));
	ck_assert_ptr_null(ripc__flow_find(rig_lane(&rig, 1, 0), SERVICE));
	ripc__unlock(rig.ctx[1]);
	rig_run(&rig, 50);
	c = ripc__credit_find(rig_lane(&rig, 0, 1), SERVICE);
	f = ripc__flow_find(rig_lane(&rig, 1, 0), SERVICE);
	ck_assert_ptr_nonnull(c);
	ck_assert_ptr_nonnull(f);
	ck_assert_uint_eq(f->arrived_units, 3);
	ck_assert_uint_eq(c->sent_units, 3);
	rig_run(&rig, 3000);
	ck_assert_ptr_null(ripc__credit_find(rig_lane(&rig, 0, 1), SERVICE));
	ck_assert_ptr_null(ripc__flow_find(rig_lane(&rig, 1, 0), SERVICE));
	ck_assert_uint_eq(rig_stats(&rig, 0).lanes_lost, 0);
}
END_TEST

/* More ends than was sent, or to a service that nothing was sent to. */
START_TEST(end__of_nothing)
{
	uint8_t buf[RIPC__CONTROL_MAX];
	struct iovec item = {"x", 1};
	size_t len;

	rig_connect(&rig, 0, 1);
	OK(ripc_send_short(rig.s[0], RIG_ID(1), &item, 1, NULL, 5000));
	len = ripc__control_put(buf, RIPC__FLOW_END, 0, _i ? RIG_ID(1) : SERVICE, 1000, 0);
	rig_inject(&rig, 1, 0, buf, len, 0);
	rig_run(&rig, 50);
	ck_assert_uint_eq(rig_stats(&rig, 0).bad_messages, 1);
	ck_assert_uint_eq(rig_stats(&rig, 0).lanes_lost, 1);
}
END_TEST

#define MANY 12000 /* more than the queue of control messages holds */

static struct ripc_service *many[MANY];

/* Many services end at once; the sender reads a bit later. */
START_TEST(end__many_at_once)
{
	struct iovec item = {"x", 1};
	struct ripc_message *m;

	rig_connect(&rig, 0, 1);
	for (unsigned i = 0; i < MANY; i++) {
		OK(ripc_service_register(rig.ctx[1], 100000 + i, 0, &many[i]));
		OK(ripc_send_short(rig.s[0], 100000 + i, &item, 1, NULL, 5000));
		OK(ripc_receive(many[i], &m, 5000));
		ripc_message_free(m);
	}
	rig_run(&rig, 3000);
	ck_assert_uint_eq(rig_stats(&rig, 1).lanes_lost, 0);
	for (unsigned i = 0; i < MANY; i++)
		OK(ripc_service_unregister(many[i]));
	rig_run(&rig, 3000);
	ck_assert_uint_eq(rig_stats(&rig, 0).lanes_lost, 0);
	ck_assert_uint_eq(rig_stats(&rig, 1).lanes_lost, 0);
	rig_run(&rig, 20000);
	ck_assert(rig_lane(&rig, 1, 0)->flow_parked || rig_lane(&rig, 1, 0)->flows.count <= 2);
	ck_assert_uint_le(rig.ctx[0]->credits.count, 3);
	rig_exchange(&rig, 0, 1);
}
END_TEST

/* ---- at random ---- */

static void jitter(struct ripc__sim_config *config)
{
	config->delay_min_ns = 1 * RIPC__MS;
	config->delay_max_ns = 30 * RIPC__MS;
}

static void jitter_few(struct ripc__sim_config *config)
{
	jitter(config);
	config->recv_depth = RIPC__RECV_DEPTH_MIN;
}

static uint64_t state;

static unsigned rnd(unsigned n)
{
	return (unsigned)(test_random(&state) % n);
}

#define NSVC  6
#define NREQ  40
#define NHELD 20

/*
 * Services come and go while short, reliable and long messages, some of them held, go to them.
 * Afterwards each still takes more than its window of credit.
 */
START_TEST(end__random)
{
	static uint8_t buf[300 * KIB];
	struct ripc_service *s[3][NSVC] = {{0}};
	struct ripc_request *r[NREQ] = {0};
	struct ripc_message *held[NHELD] = {0};
	struct ripc_message *m;
	struct ripc_send_options reliable = {.size = sizeof(reliable), .flags = RIPC_RELIABLE};
	unsigned ended = 0;

	state = test_seed() + (uint64_t)_i;
	rig_restart(&rig, 3, _i % 3 == 0 ? NULL : _i % 3 == 1 ? jitter : jitter_few);
	for (unsigned step = 0; step < 6000; step++) {
		unsigned c = rnd(3), k = rnd(NSVC), to = rnd(3), len;
		uint64_t id = 5000 + 100 * to + rnd(NSVC);
		struct iovec item;

		len = rnd(4) ? rnd(7000) : rnd(100);
		item = (struct iovec){buf, len};
		switch (rnd(12)) {
		case 0:
			if (!s[c][k] && rnd(2))
				ripc_service_register(rig.ctx[c], 5000 + 100 * c + k, 0, &s[c][k]);
			break;
		case 1:
			if (s[c][k] && !rnd(3) && !ripc_service_unregister(s[c][k]))
				s[c][k] = NULL;
			break;
		case 2:
		case 3:
		case 4:
			(void)ripc_send_short(rig.s[c], id, &item, 1, rnd(2) ? NULL : &reliable,
					      rnd(10) ? 0 : 20);
			break;
		case 5:
		case 6: {
			unsigned i = rnd(NREQ);

			item.iov_len = rnd(2) ? rnd(300 * KIB) : rnd(20000);
			if (r[i]) {
				(void)ripc_request_wait(&r[i], 0);
				if (r[i] && rnd(4) == 0)
					(void)ripc_request_cancel(&r[i], 2000);
			} else {
				ripc_send_async(rig.s[c], id, &item, 1, NULL, &r[i]);
			}
			break;
		}
		case 7:
		case 8:
			if (s[c][k] && !ripc_receive(s[c][k], &m, 0)) {
				unsigned h = rnd(NHELD);

				if (held[h])
					ripc_message_free(held[h]);
				held[h] = m;
			}
			break;
		case 9:
			if (s[c][k] && rnd(3) == 0)
				while (!ripc_receive(s[c][k], &m, 0)) {
					ripc_message_free(m);
				}
			break;
		case 10:
			rig_run(&rig, rnd(20) ? rnd(40) : rnd(3000));
			break;
		default: {
			struct ripc__lane *l;

			ripc__lock(rig.ctx[c]);
			ripc__list_for_each_entry (l, &rig.ctx[c]->lanes, link)
				if (l->state == RIPC__LANE_UP && rnd(2)) {
					size_t before = l->flow_parked ? 0 : l->flows.count;

					ripc__flows_trim(l);
					ended += before > (l->flow_parked ? 0 : l->flows.count);
				}
			ripc__unlock(rig.ctx[c]);
			if (rnd(8) == 0)
				ripc_watch(rig.s[c], id);
			break;
		}
		}
	}
	for (unsigned i = 0; i < NHELD; i++)
		if (held[i])
			ripc_message_free(held[i]);
	for (unsigned i = 0; i < NREQ; i++)
		if (r[i])
			ripc_request_cancel(&r[i], 5000);
	/* Everything works at the end: each service takes a whole window. */
	for (unsigned c = 0; c < 3; c++)
		for (unsigned k = 0; k < NSVC; k++) {
			struct iovec item = {buf, 5000};

			if (!s[c][k])
				OK(ripc_service_register(rig.ctx[c], 5000 + 100 * c + k, 0,
							 &s[c][k]));
			while (!ripc_receive(s[c][k], &m, 0))
				ripc_message_free(m);
			rig_run(&rig, 100);
			for (unsigned from = 0; from < 3; from++)
				for (unsigned n = 0; n < 40; n++) {
					OK(ripc_send_short(rig.s[from], 5000 + 100 * c + k, &item,
							   1, NULL, 5000));
					OK(ripc_receive(s[c][k], &m, 5000));
					ripc_message_free(m);
				}
		}
	for (unsigned i = 0; i < 3; i++)
		ck_assert_uint_gt(ended, 0);
	for (unsigned i = 0; i < 3; i++)
		ck_assert_uint_eq(rig_stats(&rig, i).bad_messages, 0);
	for (unsigned c = 0; c < 3; c++)
		for (unsigned k = 0; k < NSVC; k++)
			OK(ripc_service_unregister(s[c][k]));
	rig_run(&rig, 5000);
	for (unsigned i = 0; i < 3; i++)
		ck_assert_uint_eq(rig_stats(&rig, i).bad_messages, 0);
}
END_TEST

/* One message, and the service that sent it ends. */
static void send_once(void)
{
	struct iovec item = {"x", 1};
	struct ripc_service *s;

	OK(ripc_service_register(rig.ctx[0], RIPC_ANY_ID, 0, &s));
	OK(ripc_send_short(s, RIG_ID(1), &item, 1, NULL, 5000));
	ripc_message_free(rig_take(&rig, 1));
	OK(ripc_service_unregister(s));
}

/*
 * The services of a peer come and go, and are never sent to, so no FLOW_END reports their end. The
 * lane is busy all the time. Destinations and credits of them are bounded.
 */
START_TEST(end__of_senders)
{
	struct ripc *ctx = rig.ctx[1];
	struct ripc__lane *lane;
	struct ripc__credit *c;

	rig_connect(&rig, 0, 1);
	for (unsigned i = 0; i < 1000; i++) {
		send_once();
		rig_run(&rig, 100);
	}
	/* Those of up to two times RIPC__IDLE_MS. */
	ck_assert_uint_le(HASH_COUNT(ctx->dests), 650);
	ck_assert_uint_ge(ctx->credits.count, 350);
	lane = rig_lane(&rig, 1, 0);
	for (uint64_t id = 1000000; ctx->credits.count < RIPC__FOLDED_MAX; id++) {
		c = ripc__lane_credit(lane, id);
		ck_assert_ptr_nonnull(c);
		c->holds = true;
	}
	for (unsigned i = 0; i < 30; i++) {
		send_once();
		rig_run(&rig, 100);
	}
	ck_assert_uint_le(ctx->credits.count, 100);
	rig_exchange(&rig, 0, 1);
	rig_exchange(&rig, 1, 0);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("core/peer/flow_end");
	TCase *tc = tcase_create("flow_end");

	test_seed();
	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_set_timeout(tc, 300);
	tcase_add_test(tc, end__services_come_and_go);
	tcase_add_test(tc, end__same_id_again);
	tcase_add_test(tc, end__messages_in_flight);
	tcase_add_loop_test(tc, end__of_nothing, 0, 2);
	tcase_add_test(tc, end__many_at_once);
	tcase_add_loop_test(tc, end__random, 0, 6);
	tcase_add_test(tc, end__of_senders);
	suite_add_tcase(suite, tc);
	return test_main("core/peer/flow_end", suite);
}
