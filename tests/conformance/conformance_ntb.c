/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The conformance suite over a simulated PCIe link that delays, reorders and splits what is
 * written, between real contexts, threads and processes. RIPC_TEST_LINK_SEED seeds the links; else
 * it is drawn from RIPC_TEST_SEED for each case.
 */
#include "real.h"
#include "transport/ring/ring_sim.h"

static void run_one(const struct conf_case *k)
{
	struct conf c;
	char seed[32];

	real_environment(&c, "ntb", "",
			 k->needs & CONF_PEER_DEATH ? "transports=ring/sim"
						    : "transports=ring/sim " REAL_STALL);
	snprintf(seed, sizeof(seed), "%llu", (unsigned long long)c.seed);
	setenv("RIPC_TEST_LINK_SEED", seed, 0);
	real_run(&c, k);
}

START_TEST(run)
{
	run_one(conf_find(_i));
}
END_TEST

int main(int argc, char **argv)
{
	ring_sim();
	return real_main(argc, argv, "conformance_ntb", run);
}
