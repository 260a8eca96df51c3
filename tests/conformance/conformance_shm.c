/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The conformance suite over shared memory, between real contexts, threads and processes of this host. */
#include "real.h"

static void run_one(const struct conf_case *k)
{
	struct conf c;

	real_environment(&c, "shm", "", "transports=window/shm " REAL_STALL);
	/* Long messages are read by their receiver, into return buffers too. */
	c.can_write = false;
	if (!conf_suits(&c, k))
		return;
	conf_set_label(&c, k->name);
	conf_run_case(&c, k);
}

START_TEST(run)
{
	run_one(conf_find(_i));
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
	/* Drawn here, once for all cases. */
	test_seed();
	return test_main("conformance_shm", conf_suite("conformance_shm", run, wanted, 300));
}
