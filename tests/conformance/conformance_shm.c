/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The conformance suite over shared memory, between real contexts, threads and processes of this
 * host.
 */
#include "real.h"

static void run_one(const struct conf_case *k)
{
	struct conf c;

	real_environment(&c, "shm", "", "transports=shm " REAL_STALL);
	/* Long messages are read by their receiver, into return buffers too. */
	c.can_write = false;
	real_run(&c, k);
}

START_TEST(run)
{
	run_one(conf_find(_i));
}
END_TEST

int main(int argc, char **argv)
{
	return real_main(argc, argv, "conformance_shm", run);
}
