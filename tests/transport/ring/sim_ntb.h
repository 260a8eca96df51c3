/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A simulated PCIe link (non-transparent bridge) as a back end of the ring engine. Writes travel in
 * pieces of at most 8 bytes, arrive late and in any order between two fences, and are lost while
 * the link is down. It does not read. The seed determines everything random.
 */
#ifndef RIPC_TESTS_RING_SIM_NTB_H
#define RIPC_TESTS_RING_SIM_NTB_H

#include "transport/ring/backend.h"

#include <stdbool.h>

struct ripc__sim_ntb_write {
	uint32_t at;
	uint8_t len; /* 1 .. 8 */
	bool fence;  /* a fence: later pieces wait for earlier ones */
	uint8_t bytes[8];
};

/* One direction. */
struct ripc__sim_ntb {
	uint8_t *target; /* the peer's segment */
	size_t size;     /* bytes of it */
	uint64_t rng;
	bool down;               /* writes, and pieces in flight, are lost */
	bool broken;             /* out of memory: treated as down */
	bool unfenced;           /* fences are ignored, to prove that the tests notice */
	void (*kick)(void *arg); /* the doorbell; may arrive before the bytes */
	void *kick_arg;
	struct ripc__sim_ntb_write *in_flight; /* oldest first, from head */
	size_t head, count, cap;
	size_t group;              /* pieces from head on that are known to come before a fence */
	uint64_t written, applied; /* pieces */
};

extern const struct ripc__ring_backend_ops ripc__sim_ntb_ops; /* arg: struct ripc__sim_ntb */

void ripc__sim_ntb_init(struct ripc__sim_ntb *l, void *target, size_t size, uint64_t seed);
void ripc__sim_ntb_fini(struct ripc__sim_ntb *l);
/* Lets at most n pieces arrive. Return: whether some are still in flight. */
bool ripc__sim_ntb_step(struct ripc__sim_ntb *l, size_t n);
/* The same with a random n. */
bool ripc__sim_ntb_step_random(struct ripc__sim_ntb *l);
void ripc__sim_ntb_set_down(struct ripc__sim_ntb *l, bool down);

#endif
