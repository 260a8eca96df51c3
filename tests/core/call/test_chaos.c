/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Calls of all sizes, with and without reply buffers, among other messages, while connections break
 * at random, contexts are suspended, closed or killed, services move, and callers and callees give
 * up. In virtual time, on a network whose transport has other capabilities in each run.
 *
 * tests/scale/call_history.h has the rules for the results. Here the bytes are checked, too: of
 * requests, of answers, and of the buffers that a call gave back, which nothing may change later.
 */
#include "core/call/chaos.h"

#define STEPS       2500
#define QUIET_STEPS 20000

static uint64_t lives; /* of services */

/* ---- faults ---- */

static void host_open(unsigned i)
{
	struct ripc__hooks hooks;
	/* Some give a lost peer up long before, or after, the peer gives them up. */
	static const char *const options[] = {"peer_timeout_ms=200", "peer_timeout_ms=500",
					      "peer_timeout_ms=5000"};

	ripc__sim_hooks(rig.net, &hooks);
	OK(ripc__open_hooked(&rig.ctx[i], options[draw(3)], &hooks));
	OK(ripc__sim_attach(rig.net, rig.ctx[i]));
	OK(ripc_service_register(rig.ctx[i], RIG_ID(i), RIPC_TAKEOVER, &rig.s[i]));
}

static void resume(unsigned i)
{
	hosts[i].resume_ns = 0;
	ripc__sim_hold(rig.net, rig_instance(&rig, i), false);
}

/* Its context is closed or killed. */
static void host_end(unsigned i, bool killed)
{
	check_kept(i, true);
	if (killed) {
		ripc__sim_kill_context(rig.net, rig.ctx[i], one_in(2));
		rig.ctx[i] = NULL;
		rig.s[i] = NULL;
	} else {
		rig_close(&rig, i);
	}
	hosts[i] = (struct host){0};
	host_ended(i);
}

static void hold_service(unsigned i, unsigned k, unsigned flags)
{
	if (!runs(i) || hosts[i].services[k])
		return;
	if (!ripc_service_register(rig.ctx[i], 1 + k, flags, &hosts[i].services[k]))
		hosts[i].lives[k] = ++lives;
}

static void fault(void)
{
	unsigned i = (unsigned)draw(HOSTS), j = (i + 1 + (unsigned)draw(HOSTS - 1)) % HOSTS,
		 k = (unsigned)draw(SERVICES);

	switch (draw(24)) {
	case 0:
	case 1:
	case 2:
	case 3:
		if (rig.ctx[i] && rig.ctx[j])
			ripc__sim_break(rig.net, rig_instance(&rig, i), rig_instance(&rig, j));
		break;
	case 4:
	case 5:
	case 6:
	case 7:
		if (rig.ctx[i] && rig.ctx[j])
			ripc__sim_break_at(rig.net, rig_instance(&rig, i), rig_instance(&rig, j),
					   1 + draw(20));
		break;
	case 8:
	case 9:
		if (runs(i) && rig.ctx[j] && rig_lane(&rig, i, j))
			rig_fail_lane(&rig, i, j);
		break;
	case 10:
	case 11:
		if (!runs(i))
			break;
		hosts[i].resume_ns =
			ripc__sim_now(rig.net) + draw(one_in(3) ? 3000 : 100) * RIPC__MS + 1;
		ripc__sim_hold(rig.net, rig_instance(&rig, i), true);
		host_paused(i);
		break;
	case 12:
		if (rig.ctx[i] && rig.ctx[j])
			ripc__sim_partition(rig.net, rig_instance(&rig, i), rig_instance(&rig, j),
					    true);
		break;
	case 13:
	case 14:
	case 15:
		if (rig.ctx[i] && rig.ctx[j])
			ripc__sim_partition(rig.net, rig_instance(&rig, i), rig_instance(&rig, j),
					    false);
		break;
	case 16:
	case 17:
		if (runs(i) && hosts[i].services[k]) {
			ripc_service_unregister(hosts[i].services[k]);
			hosts[i].services[k] = NULL;
		}
		break;
	case 18:
	case 19:
	case 20:
		hold_service(i, k, one_in(2) ? RIPC_TAKEOVER : 0);
		break;
	case 21:
		if (runs(i) && one_in(3)) {
			OK(ripc_service_unregister(rig.s[i]));
			OK(ripc_service_register(rig.ctx[i], RIG_ID(i), RIPC_TAKEOVER, &rig.s[i]));
		}
		break;
	case 22:
		if (runs(i) && one_in(4))
			host_end(i, one_in(2));
		break;
	default:
		if (!rig.ctx[i])
			host_open(i);
	}
}

/* ---- the run ---- */

static void step(bool quiet)
{
	for (unsigned i = 0; i < HOSTS; i++) {
		if (hosts[i].resume_ns && ripc__sim_now(rig.net) >= hosts[i].resume_ns)
			resume(i);
		if (runs(i) && one_in(10))
			check_kept(i, false);
	}
	receive_some();
	answer_some();
	check_sends();
	check_calls(!quiet);
	if (!quiet) {
		for (uint64_t n = draw(3); n; n--)
			start_call();
		if (one_in(2))
			send_message();
		/* Several at one moment. */
		if (one_in(12))
			for (uint64_t n = 1 + draw(4); n; n--)
				fault();
	}
	ripc__sim_run(rig.net, 1 + draw(one_in(10) ? 40 * RIPC__MS : 200000));
}

static bool is_held(unsigned k)
{
	for (unsigned i = 0; i < HOSTS; i++)
		if (hosts[i].services[k])
			return true;
	return false;
}

/* No more faults: every call ends. */
static void quiet(void)
{
	for (unsigned i = 0; i < HOSTS; i++) {
		if (!rig.ctx[i])
			host_open(i);
		else if (hosts[i].resume_ns)
			resume(i);
	}
	rig_heal_links(&rig);
	for (unsigned n = 0; n < QUIET_STEPS && calls_left(); n++) {
		step(true);
		if (n % 1000)
			continue;
		for (unsigned k = 0; k < SERVICES; k++)
			for (unsigned i = 0; i < 2 * HOSTS && !is_held(k); i++) {
				/* A host from which it was taken cannot have it again. */
				if (i >= HOSTS) {
					host_end(i % HOSTS, false);
					host_open(i % HOSTS);
				}
				hold_service(i % HOSTS, k, RIPC_TAKEOVER);
			}
	}
}

static void change(struct ripc__sim_config *config)
{
	(void)config;
}

static void no_read(struct ripc__sim_config *config)
{
	config->caps_off = RIPC__CAP_READ;
}

static void no_write(struct ripc__sim_config *config)
{
	config->caps_off = RIPC__CAP_WRITE;
}

static void cheap(struct ripc__sim_config *config)
{
	config->written = true;
	config->send_max = 32 * KIB;
	config->queue_full = 0.05;
	config->hold = config->transient = 0.1;
	config->bandwidth = 100000000;
}

static void immediate(struct ripc__sim_config *config)
{
	config->write_imm = true;
	config->queue_depth = 8;
	config->read_depth = 2;
	config->recv_depth = 16;
}

static void (*const changes[])(struct ripc__sim_config *config) = {change, no_read, no_write, cheap,
								   immediate};

START_TEST(chaos__calls)
{
	static char why[2000];
	size_t n;

	rng = test_seed() + (uint64_t)_i * 7919;
	rig_init(&rig, changes[(unsigned)_i % 5]);
	rig.n = HOSTS;
	for (unsigned i = 0; i < HOSTS; i++)
		host_open(i);
	for (unsigned k = 0; k < SERVICES; k++)
		hold_service(k, k, 0);
	for (unsigned i = 0; i < STEPS; i++)
		step(false);
	quiet();
	ck_assert_msg(!calls_left(), "a call does not end");
	for (unsigned i = 0; i < HOSTS; i++)
		host_end(i, false);
	rig_end(&rig);
	printf("run %d: %llu messages; calls: %u answered, %u refused, %u not executed, %u "
	       "unknown; others: %u received\n",
	       _i, (unsigned long long)numbers, results[0], results[1], results[2], results[3],
	       results[4]);
	n = history_check(&history, why, sizeof(why));
	ck_assert_msg(!n, "%zu violations: %s", n, why);
	history_free(&history);
	ck_assert_uint_gt(results[0], 0);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("core/call/chaos");
	TCase *tc = tcase_create("chaos");

	test_seed();
	tcase_set_timeout(tc, 240);
	tcase_add_loop_test(tc, chaos__calls, 0, (int)test_number("RIPC_TEST_ROUNDS", 5));
	suite_add_tcase(suite, tc);
	return test_main("core/call/chaos", suite);
}
