/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The conformance suite over memory that all contexts see, as through a PCIe device, between real
 * contexts, threads and processes. RIPC_TEST_PCIE names the device or the file; without it a file
 * of its own is made, and gone at the end.
 */
#define _GNU_SOURCE
#include "real.h"

#include <fcntl.h>

#define MEMORY ((off_t)32 << 20) /* bytes */

static char path[128];

static void run_one(const struct conf_case *k)
{
	char options[200];
	struct conf c;

	snprintf(options, sizeof(options), "transports=pcie pcie_device=%s %s", path,
		 k->needs & CONF_PEER_DEATH ? "" : REAL_STALL);
	real_environment(&c, "pcie", "", options);
	real_run(&c, k);
}

START_TEST(run)
{
	run_one(conf_find(_i));
}
END_TEST

/* There must be room for all of it: what is mapped and cannot be had is a signal. */
static int make_memory(void)
{
	static const char *const dirs[] = {"/dev/shm", "/tmp"};

	for (unsigned i = 0; i < 2; i++) {
		int fd;

		snprintf(path, sizeof(path), "%s/ripc-pcie.XXXXXX", dirs[i]);
		fd = mkstemp(path);
		if (fd < 0)
			continue;
		if (!posix_fallocate(fd, 0, MEMORY)) {
			close(fd);
			return 0;
		}
		close(fd);
		unlink(path);
	}
	fprintf(stderr, "conformance_pcie: no room for a file in /dev/shm or /tmp\n");
	return -1;
}

int main(int argc, char **argv)
{
	const char *device = getenv("RIPC_TEST_PCIE");
	int rc;

	if (argc > 1 && !strcmp(argv[1], "--child"))
		return conf_child(argc, argv);
	if (device)
		snprintf(path, sizeof(path), "%s", device);
	else if (make_memory())
		return 99;
	/* The default context of a case: other transports may keep descriptors open. */
	setenv("RIPC_TRANSPORTS", "pcie", 1);
	setenv("RIPC_PCIE_DEVICE", path, 1);
	rc = real_main(argc, argv, "conformance_pcie", run);
	if (!device)
		unlink(path);
	return rc;
}
