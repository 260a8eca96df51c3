/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The conformance suite over InfiniBand and RoCE devices, in the lab or on a host with an adapter.
 * RIPC_TEST_INTERFACES names the network interfaces to use; without it, and outside the lab,
 * nothing is run.
 */
#include "real.h"

static const struct {
	const char *name, *options;
	bool datagram, small_packets;
} configs[] = {
	{"ud", "", true, false},
	{"rc", "short=rdma", false, false},
	/*
	 * And everything is copied, completes one by one and, where sizes are the question, goes in
	 * smaller packets.
	 */
	{"uc", "short=rdma ib_qp=uc inline=0 signal_every=1", false, true},
};

static const char *interfaces;

static void run_one(const struct conf_case *k, int which)
{
	/*
	 * In all cases they would be four times the work of the emulated kernel, which is most of
	 * the suite's time.
	 */
	bool small = configs[which].small_packets && !strcmp(k->name, "long_sizes");
	static char options[320];
	struct conf c;

	real_environment(&c, "ib", configs[which].name, "");
	snprintf(options, sizeof(options), "%s%s port=%u transports=ib %s%s",
		 interfaces ? "interfaces=" : "", interfaces ? interfaces : "",
		 20000 + (unsigned)(c.seed % 12000), configs[which].options,
		 small ? " path_mtu=1024" : "");
	c.options = options;
	c.datagram = configs[which].datagram;
	/* In a guest the kernel takes a second for the connections of each. */
	c.peers = 8;
	c.reliable = !c.datagram;
	/* With keys groups go over lanes: the far end has to prove itself. */
	c.multicast = !getenv("RIPC_KEY_FILE");
	if (!conf_can_run(&c, k))
		return;
	conf_set_label(&c, k->name);
	conf_run_case(&c, k);
}

START_TEST(run)
{
	const char *only = getenv("RIPC_TEST_CONFIG");
	int n = sizeof(configs) / sizeof(configs[0]);

	for (int i = 0; i < n; i++)
		if (!only || !strcmp(only, configs[i].name))
			run_one(conf_find(_i), i);
}
END_TEST

static bool wanted(const struct conf_case *k)
{
	return !(k->needs & CONF_SIM);
}

int main(int argc, char **argv)
{
	if (argc > 1 && !strcmp(argv[1], "--child"))
		return conf_child(argc, argv);
	interfaces = getenv("RIPC_TEST_INTERFACES");
	if (!interfaces && !getenv("RIPC_LAB_IB")) {
		printf("conformance_ib: no InfiniBand or RoCE device is named: see tests/lab\n"
		       "conformance_ib: 0 passed, 0 failed, 1 skipped\n");
		return 77;
	}
	/* The default context of a case: other transports may keep descriptors open. */
	setenv("RIPC_TRANSPORTS", "ib", 1);
	/* Drawn here, once for all cases. */
	test_seed();
	return test_main("conformance_ib", conf_suite("conformance_ib", run, wanted, 300));
}
