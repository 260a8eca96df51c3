/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * ring/sim: shm with simulated PCIe links (sim_ntb.h) in place of the mapping. RIPC_TEST_LINK_SEED
 * seeds the links.
 */
#ifndef RIPC_TESTS_RING_SIM_H
#define RIPC_TESTS_RING_SIM_H

#include "transport/transport.h"

/* From now on contexts open it if the setting transports names it. Return: its operations. */
const struct ripc__transport_ops *ring_sim(void);

#endif
