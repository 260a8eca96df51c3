/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The conformance suite over memory that all contexts see, as through a PCIe device, between real contexts, threads and
 * processes. RIPC_TEST_PCIE names the device or the file; without it a file of its own is made, and gone at the end.
 */
#define _GNU_SOURCE
#include "real.h"

#include <fcntl.h>

#define MEMORY ((off_t)128 << 20) /* bytes; only what is written takes memory */

static char path[128];

static void run_one(const struct conf_case *k)
{
	char options[200];
	struct conf c;

	snprintf(options, sizeof(options), "transports=window/pcie pcie_device=%s", path);
	real_environment(&c, "pcie", "", options);
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

static int make_memory(void)
{
	int fd;

	snprintf(path, sizeof(path), "/dev/shm/ripc-pcie.XXXXXX");
	fd = mkstemp(path);
	if (fd < 0 || ftruncate(fd, MEMORY)) {
		fprintf(stderr, "conformance_pcie: no memory in /dev/shm: %s\n", strerror(errno));
		return -1;
	}
	close(fd);
	return 0;
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
	setenv("RIPC_TRANSPORTS", "window/pcie", 1);
	setenv("RIPC_PCIE_DEVICE", path, 1);
	/* Drawn here, once for all cases. */
	test_seed();
	rc = test_main("conformance_pcie", conf_suite("conformance_pcie", run, wanted, 300));
	if (!device)
		unlink(path);
	return rc;
}
