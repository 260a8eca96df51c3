/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The conformance suite over iWARP devices, and between these and the user-space iWARP, in the lab
 * or on a host with an adapter. RIPC_TEST_INTERFACES names the device's network interface; without
 * it that of RIPC_LAB_IWARP_ADDRESS is taken.
 */
#include "real.h"

static const struct {
	const char *name;
	const char *common;           /* options of child processes, too */
	const char *extra_options[2]; /* of the first and the second context of a case, in turn */
	bool datagram;
} configs[] = {
	{"rdma", "", {"transports=iwarp/verbs", "transports=iwarp/verbs"}, false},
	{"udp", "short=udp", {"transports=iwarp/verbs", "transports=iwarp/verbs"}, true},
	{"soft_verbs", "", {"transports=iwarp/soft crc=off", "transports=iwarp/verbs"}, false},
	{"verbs_soft", "", {"transports=iwarp/verbs", "transports=iwarp/soft crc=off"}, false},
	/* And everything of the device's end is copied and completes one by one. */
	{"soft_crc",
	 "",
	 {"transports=iwarp/soft crc=on", "transports=iwarp/verbs inline=0 signal_every=1"},
	 false},
	{"crc_soft", "", {"transports=iwarp/verbs", "transports=iwarp/soft crc=on"}, false},
	{"soft_verbs_udp", "short=udp", {"transports=iwarp/soft", "transports=iwarp/verbs"}, true},
};

static const char *interface;

static void run_one(const struct conf_case *k, int which)
{
	static char options[256];
	struct conf c;

	real_environment(&c, "iwarp", configs[which].name, "");
	snprintf(options, sizeof(options),
		 "interfaces=%s port=%u transports=iwarp/verbs,iwarp/soft %s", interface,
		 20000 + (unsigned)(c.seed % 12000), configs[which].common);
	c.options = options;
	c.extra_options[0] = configs[which].extra_options[0];
	c.extra_options[1] = configs[which].extra_options[1];
	c.datagram = configs[which].datagram;
	/* In a guest the kernel takes a second for the connections of each. */
	c.peers = 8;
	c.reliable = !c.datagram;
	if (!conf_can_run(&c, k))
		return;
	/*
	 * SoftiWARP (Linux 6.1) was seen to free a listener twice, and the kernel to stop, when a
	 * process was shot while a user-space peer connected to it anew. Between devices these
	 * cases run.
	 */
	if (strcmp(configs[which].extra_options[0], configs[which].extra_options[1]) &&
	    !strncmp(k->name, "kill_", 5))
		return;
	conf_set_label(&c, k->name);
	conf_run_case(&c, k);
}

/*
 * librdmacm keeps one context of each device that it has used for the life of the process: they are
 * no leak of a case.
 */
static void open_devices(void)
{
	unsigned threads = conf_count_dir("/proc/self/task");
	struct ripc *ctx;

	EXPECT_OK(ripc_open(&ctx, "transports=iwarp/verbs"));
	EXPECT_OK(ripc_close(ctx));
	conf_await_threads(threads);
}

START_TEST(run)
{
	const char *only = getenv("RIPC_TEST_CONFIG");
	int n = sizeof(configs) / sizeof(configs[0]);
	bool ran = false;

	open_devices();
	for (int i = 0; i < n; i++) {
		if (only && strcmp(only, configs[i].name))
			continue;
		run_one(conf_find(_i), i);
		ran = true;
	}
	ck_assert_msg(ran, "there is no RIPC_TEST_CONFIG=%s", only);
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
	interface = test_iwarp_interfaces();
	if (!interface) {
		printf("conformance_iwarp: no iWARP device is named: see tests/lab\n"
		       "conformance_iwarp: 0 passed, 0 failed, 1 skipped\n");
		return 77;
	}
	/* Drawn here, once for all cases. */
	test_seed();
	return test_main("conformance_iwarp", conf_suite("conformance_iwarp", run, wanted, 300));
}
