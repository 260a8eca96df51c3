/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A peer connects anew while its lane is there: the request waits for the end of that lane. */
#include "core/rig.h"
#include "core/peer/eviction.h"
#include "wire/hello.h"

static struct rig rig;

static void setup(void)
{
	rig_start(&rig, 2, NULL);
}

static void teardown(void)
{
	rig_end(&rig);
}

/* A context that holds a request is stopped itself: the answer is there when it goes on. */
START_TEST(pending__stopped_itself)
{
	static uint8_t data[MIB];
	struct ripc_request *r;
	struct ripc__peer *p;
	int k;

	rig_exchange(&rig, 1, 0);
	rig_run(&rig, 3000);
	p = rig_peer(&rig, 0, 1);
	ripc__sim_hold(rig.net, rig_instance(&rig, 0), true);
	r = rig_begin(&rig, 1, 0, data, MIB);
	for (k = 0; k < 1500 && !rig_peer(&rig, 1, 0)->out; k++)
		rig_run(&rig, 1);
	ck_assert_ptr_nonnull(rig_peer(&rig, 1, 0)->out);
	rig_run(&rig, 50);
	ripc__sim_hold(rig.net, rig_instance(&rig, 0), false);
	for (k = 0; k < 10000 && !p->pending_conn; k++)
		ripc__sim_run(rig.net, 1000);
	ripc__sim_hold(rig.net, rig_instance(&rig, 0), true);
	rig_run(&rig, 600);
	ripc__sim_hold(rig.net, rig_instance(&rig, 0), false);
	OK(ripc_request_wait(&r, 5000));
	ripc_message_free(rig_take(&rig, 0));
	rig_run(&rig, 3000);
	ck_assert_uint_eq(rig_stats(&rig, 0).lanes_lost, 0);
	ck_assert_uint_eq(rig_stats(&rig, 1).lanes_lost, 0);
}
END_TEST

/* The peer connects anew while the lane is retired: it is accepted when that lane has failed. */
START_TEST(pending__retiring_lane_fails)
{
	struct ripc__peer *p;
	struct ripc__lane *old;

	rig_exchange(&rig, 0, 1);
	p = rig_peer(&rig, 1, 0);
	old = p->lane;
	ripc__lock(rig.ctx[0]);
	ripc__peer_probe(rig_lane(&rig, 0, 1), ripc__now(rig.ctx[0]) + 5000 * RIPC__MS);
	ck_assert_ptr_nonnull(rig_peer(&rig, 0, 1)->out);
	ripc__unlock(rig.ctx[0]);
	for (unsigned i = 0; i < 1000 && !p->pending_conn; i++)
		ripc__sim_run(rig.net, 1000);
	ck_assert_ptr_nonnull(p->pending_conn);
	ripc__lock(rig.ctx[1]);
	ripc__lane_goaway(old, 0);
	ck_assert_int_eq(old->state, RIPC__LANE_RETIRING);
	ripc__lane_fail(old, -ECONNRESET, "as the test wants it");
	ck_assert_ptr_null(p->pending_conn);
	ripc__unlock(rig.ctx[1]);
	rig_run(&rig, 100);
	rig_expect_one_lane(&rig);
	rig_exchange(&rig, 0, 1);
}
END_TEST

/* The connection of a request ends before it is accepted. */
static int accept_too_late(struct ripc__transport *t, void *request, const void *priv,
			   size_t privlen, void *user, struct ripc__ep **ep)
{
	(void)priv;
	(void)privlen;
	(void)user;
	(void)ep;
	ripc__transport_sim.reject(t, request, NULL, 0);
	return -ECONNRESET;
}

/*
 * The peer connects anew, and dies before the request, which waited, is accepted: calls to it end.
 */
START_TEST(pending__peer_dies)
{
	static uint8_t data[MIB];
	struct iovec item = {data, 8};
	struct ripc__transport_ops ops = ripc__transport_sim;
	struct ripc_request *r;
	struct ripc__peer *p;

	rig_exchange(&rig, 1, 0);
	rig_run(&rig, 3000);
	p = rig_peer(&rig, 0, 1);
	OK(ripc_call_start(rig.s[0], RIG_ID(1), &item, 1, NULL, -1, &r));
	rig_run(&rig, 100);
	ripc__sim_hold(rig.net, rig_instance(&rig, 0), true);
	rig_begin(&rig, 1, 0, data, MIB);
	for (int k = 0; k < 1500 && !rig_peer(&rig, 1, 0)->out; k++)
		rig_run(&rig, 1);
	ck_assert_ptr_nonnull(rig_peer(&rig, 1, 0)->out);
	rig_run(&rig, 50);
	ops.accept = accept_too_late;
	rig.ctx[0]->tp[p->lane->tp].ops = &ops;
	ripc__sim_kill_context(rig.net, rig.ctx[1], false);
	rig.ctx[1] = NULL;
	ripc__sim_hold(rig.net, rig_instance(&rig, 0), false);
	RC(-EPIPE, ripc_call_wait(&r, NULL, 10000));
	rig.ctx[0]->tp[1].ops = &ripc__transport_sim;
}
END_TEST

static uint8_t elsewhere[RIPC__ADDRESS_MAX];
static size_t elsewhere_len;

/* Connects to a process that does not answer, as through a firewall that drops requests. */
static int connect_elsewhere(struct ripc__transport *t, const uint8_t *addr, size_t addrlen,
			     const void *priv, size_t privlen, void *user, struct ripc__ep **ep)
{
	(void)addr;
	(void)addrlen;
	return ripc__transport_sim.connect(t, elsewhere, elsewhere_len, priv, privlen, user, ep);
}

/*
 * The lane is lost, and connections can be made in one direction only, against the one that would
 * win if they crossed: the other context accepts one before it gives the peer up.
 */
START_TEST(crossed__one_direction)
{
	static const char *const options[] = {NULL, "peer_timeout_ms=400"};
	struct ripc__transport_ops ops = ripc__transport_sim;
	static uint8_t data[MIB];
	struct iovec item = {data, 8};
	struct ripc_message *m, *reply;
	struct ripc_request *call, *r;
	unsigned small, large;

	rig_end(&rig);
	rig_start_with(&rig, 3, NULL, options[_i]);
	small = memcmp(rig_instance(&rig, 0), rig_instance(&rig, 1), 16) > 0;
	large = !small;
	rig_exchange(&rig, small, large);
	elsewhere_len = (size_t)ripc__sim_address(rig.net, rig_instance(&rig, 2), elsewhere);
	ripc__sim_hold(rig.net, rig_instance(&rig, 2), true);
	OK(ripc_call_start(rig.s[small], RIG_ID(large), &item, 1, NULL, -1, &call));
	m = rig_take(&rig, large);
	ops.connect = connect_elsewhere;
	rig.ctx[small]->tp[1].ops = &ops;
	ripc__sim_break(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1));
	r = rig_begin(&rig, large, small, data, MIB);
	OK(ripc_request_wait(&r, 5000));
	OK(ripc_reply(m, &item, 1, 1000));
	ripc_message_free(m);
	OK(ripc_call_wait(&call, &reply, 1000));
	ripc_message_free(reply);
	ripc_message_free(rig_take(&rig, small));
	ripc__sim_hold(rig.net, rig_instance(&rig, 2), false);
	rig_run(&rig, 3000);
	rig.ctx[small]->tp[1].ops = &ripc__transport_sim;
	rig_expect_one_lane(&rig);
}
END_TEST

static void few_buffers(struct ripc__sim_config *config)
{
	config->recv_depth = 4;
}

/*
 * A process without a key connects again and again in the name of a peer, whose lane has no room
 * at the moment: the lane is tested by one PING, and stays.
 */
START_TEST(pending__in_the_name_of_a_busy_peer)
{
	struct ripc__transport_env env = {.instance = (const uint8_t *)"another instance"};
	struct ripc__hello h = {.send_max = 8192, .service_window = 4096};
	uint8_t addr[RIPC__ADDRESS_MAX], hello[RIPC__HELLO_LEN];
	struct ripc__transport *t;
	struct ripc__lane *lane;
	unsigned most = 0;
	int len;

	rig_restart(&rig, 2, few_buffers);
	rig_exchange(&rig, 0, 1);
	lane = rig_lane(&rig, 0, 1);
	env.arg = rig.net;
	OK(ripc__transport_sim.open(&t, &env));
	OK(ripc__sim_hostile(rig.net, env.instance));
	len = ripc__sim_address(rig.net, rig_instance(&rig, 0), addr);
	memcpy(h.target, rig_instance(&rig, 0), 16);
	memcpy(h.instance, rig_instance(&rig, 1), 16);
	ripc__hello_encode(&h, hello);
	ripc__sim_hold(rig.net, rig_instance(&rig, 1), true);
	while (!rig_short(&rig, 0, 1, 10, 1, 0))
		;
	for (unsigned i = 0; i < 5000; i++) {
		uint64_t deadline = RIPC__NEVER;
		struct ripc__event ev;
		struct ripc__ep *ep;

		OK(ripc__transport_sim.connect(t, addr, (size_t)len, hello, sizeof(hello), NULL,
					       &ep));
		if (i % 16 == 15)
			ripc__sim_run(rig.net, 100000);
		while (ripc__transport_sim.progress(t, &ev, 1, ripc__sim_now(rig.net), &deadline))
			if (ev.kind == RIPC__EV_CLOSED)
				ripc__transport_sim.ep_close(ev.ep);
		most = lane->ncontrol > most ? lane->ncontrol : most;
	}
	ck_assert_uint_le(most, 4);
	ripc__sim_hold(rig.net, rig_instance(&rig, 1), false);
	ripc__transport_sim.close(t);
	rig_run(&rig, 1000);
	ck_assert_uint_eq(rig_stats(&rig, 0).lanes_lost, 0);
	ck_assert_ptr_eq(rig_lane(&rig, 0, 1), lane);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("core/peer/pending_conn");
	TCase *tc = tcase_create("pending_conn");

	test_seed();
	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_set_timeout(tc, 300);
	tcase_add_test(tc, pending__stopped_itself);
	tcase_add_test(tc, pending__retiring_lane_fails);
	tcase_add_test(tc, pending__peer_dies);
	tcase_add_test(tc, pending__in_the_name_of_a_busy_peer);
	tcase_add_loop_test(tc, crossed__one_direction, 0, 2);
	suite_add_tcase(suite, tc);
	return test_main("core/peer/pending_conn", suite);
}
