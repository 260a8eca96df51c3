/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Shared by the tests of long sends: a world of two contexts, set up again on other networks, and
 * their messages.
 */
#ifndef RIPC_TESTS_CORE_REQUESTS_H
#define RIPC_TESTS_CORE_REQUESTS_H

#include "rig.h"

#define LARGE (4 * MIB)

extern struct rig rig;
extern uint8_t *data; /* LARGE bytes of tag 1 */

/* Networks: a slow one, without reads, with little room for what is received. */
void slow(struct ripc__sim_config *config);
void slow_no_read(struct ripc__sim_config *config);
void slow_no_credits(struct ripc__sim_config *config);

/* Ends the world, and starts another with n contexts. */
void restart(unsigned n, void (*change)(struct ripc__sim_config *config));

/* Around each test: a world of two contexts. */
void requests_setup(void);
void requests_teardown(void);

#endif
