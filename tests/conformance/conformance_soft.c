/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The conformance suite over iWARP in user space, between real contexts, threads and processes, on
 * the loopback.
 */
#include "real.h"

static const struct {
	const char *name, *options;
	bool datagram;
} configs[] = {
	{"rdma", "transports=iwarp/soft", false},
	{"udp", "transports=iwarp/soft short=udp", true},
	{"crc", "transports=iwarp/soft crc=on", false},
};

static void run_one(const struct conf_case *k, int which)
{
	char options[100];
	struct conf c;

	snprintf(options, sizeof(options), "%s " REAL_STALL, configs[which].options);
	real_environment(&c, "soft", configs[which].name, options);
	c.datagram = configs[which].datagram;
	c.reliable = !c.datagram;
	/* With keys groups go over lanes: the far end has to prove itself. */
	c.multicast = !getenv("RIPC_KEY_FILE");
	real_run(&c, k);
}

START_TEST(run)
{
	const char *only = getenv("RIPC_TEST_CONFIG");
	int n = sizeof(configs) / sizeof(configs[0]);
	bool ran = false;

	for (int i = 0; i < n; i++) {
		if (only && strcmp(only, configs[i].name))
			continue;
		run_one(conf_find(_i), i);
		ran = true;
	}
	ck_assert_msg(ran, "there is no RIPC_TEST_CONFIG=%s", only);
}
END_TEST

int main(int argc, char **argv)
{
	return real_main(argc, argv, "conformance_soft", run);
}
