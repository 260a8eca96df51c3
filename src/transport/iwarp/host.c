/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "transport/iwarp/host.h"
#include "transport/iwarp/soft/region.h"

#include <fcntl.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

uint64_t ripc__iwarp_host_id(void)
{
	uint64_t key[2] = {0, 0}, id = 0;
	char boot[64] = "";
	struct stat net;
	ssize_t len = -1;
	int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);

	if (fd >= 0) {
		len = read(fd, boot, 36);
		close(fd);
	}
	if (len < 36 || stat("/proc/self/ns/net", &net)) {
		/* Nobody is on this host for sure, then. */
		if (getrandom(&id, sizeof(id), 0) != sizeof(id))
			return 0;
		return id;
	}
	memcpy(key, boot, sizeof(key));
	for (unsigned i = 0; i < 32; i += 8) {
		uint64_t part;

		memcpy(&part, boot + 4 + i, sizeof(part));
		id = ripc__siphash(key, id ^ part);
	}
	return ripc__siphash(key, id ^ (uint64_t)net.st_ino);
}
