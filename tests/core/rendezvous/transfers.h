/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Shared by the tests of receivers of long messages: networks that differ in how the bytes come. */
#ifndef RIPC_TESTS_CORE_RENDEZVOUS_TRANSFERS_H
#define RIPC_TESTS_CORE_RENDEZVOUS_TRANSFERS_H

#include "core/rig.h"

#define LARGE (4 * MIB)

extern struct rig rig;
extern uint8_t *data; /* LARGE bytes */

/* The bytes are read, with as little under way as can be. */
void read_slow(struct ripc__sim_config *config);
/* The same where registration is expensive. */
void read_slow_expensive(struct ripc__sim_config *config);
/* The receiver grants memory, and the sender writes. */
void grant_slow(struct ripc__sim_config *config);
/* A fast network, where the bytes are read, and read_slow(), grant_slow(). */
extern void (*const configs[3])(struct ripc__sim_config *config);

/* Fixture: two contexts on a fast network. */
void transfers_setup(void);
void transfers_teardown(void);

#endif
