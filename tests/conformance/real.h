/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Shared by the conformance programs with real contexts. */
#ifndef RIPC_TESTS_CONFORMANCE_REAL_H
#define RIPC_TESTS_CONFORMANCE_REAL_H

#include "conf.h"
#include "process.h"

#include <unistd.h>

/*
 * A peer without processor time for a while is not dead. Where the kernel reports deaths, this
 * delays nothing.
 */
#define REAL_STALL "peer_timeout_ms=10000"

/* Options that keep apart what several test programs do on one host at the same time. */
static inline void real_environment(struct conf *c, const char *program, const char *config,
				    const char *options)
{
	static char text[256];

	*c = (struct conf){.program = program,
			   .config = config,
			   .options = text,
			   .reliable = true,
			   .can_write = true,
			   .peers = 20,
			   .patience_ms = 60000,
			   .silence_ms = 1000,
			   /* Process ids are not enough: containers may share a network. */
			   .seed = test_seed() + test_ids() + (uint64_t)getpid()};
	/* The next one is that of multicast. */
	snprintf(text, sizeof(text), "interfaces=lo port=%u %s",
		 20000 + 2 * (unsigned)(c->seed % 6000), options);
	unsetenv("RIPC_INTERFACES");
}

/* All cases but those of a simulated network. */
static inline bool real_wanted(const struct conf_case *k)
{
	return !(k->needs & CONF_SIM);
}

/* Runs a case in the environment c, if it suits that. */
static inline void real_run(struct conf *c, const struct conf_case *k)
{
	if (!conf_can_run(c, k))
		return;
	conf_set_label(c, k->name);
	conf_run_case(c, k);
}

/* The end of main(): the suite, or its part as a child of that. */
static inline int real_main(int argc, char **argv, const char *name, const TTest *run)
{
	if (argc > 1 && !strcmp(argv[1], "--child"))
		return conf_child(argc, argv);
	/* Drawn here, once for all cases. */
	test_seed();
	return test_main(name, conf_suite(name, run, real_wanted, 300));
}

#endif
