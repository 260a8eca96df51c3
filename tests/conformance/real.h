/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the conformance programs with real contexts share. */
#ifndef RIPC_TESTS_CONFORMANCE_REAL_H
#define RIPC_TESTS_CONFORMANCE_REAL_H

#include "conf.h"
#include "process.h"

#include <unistd.h>

/* A peer that gets no processor for a while has not died. Where the kernel tells of those that have, nothing is late by it. */
#define REAL_STALL "peer_timeout_ms=10000"

/* Options that keep apart what several test programs do on one host at the same time. */
static inline void real_environment(struct conf *c, const char *program, const char *config,
				    const char *options)
{
	static char text[256];

	*c = (struct conf){.program = program,
			   .config = config,
			   .options = text,
			   .sure = true,
			   .can_write = true,
			   .peers = 20,
			   .patience_ms = 60000,
			   .silence_ms = 1000,
			   .seed = test_seed() + (uint64_t)getpid()};
	snprintf(text, sizeof(text), "interfaces=lo port=%u %s",
		 20000 + (unsigned)(c->seed % 12000), options);
	unsetenv("RIPC_INTERFACES");
}

#endif
