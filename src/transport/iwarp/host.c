/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "transport/iwarp/host.h"
#include "base/host.h"
#include "base/hash.h"

#include <string.h>
#include <sys/utsname.h>

uint64_t ripc__iwarp_host_id(void)
{
	uint64_t key[2] = {0, 0}, id = 0;
	struct ripc__host host;
	struct utsname name;

	ripc__host_get(&host);
	if (host.known) {
		memcpy(key, host.boot, sizeof(key));
	} else if (!uname(&name)) {
		for (const char *p = name.nodename; *p; p++)
			id = ripc__siphash(key, id ^ (uint8_t)*p);
	}
	return ripc__siphash(key, id ^ host.netns);
}
