/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A simulated PCIe link (non-transparent bridge) as a back end of the window engine: what is
 * written travels in pieces of at most 8 bytes, arrives late and in any order between two fences,
 * and is lost while the link is down. There is no way to read through it. Everything random comes
 * from the seed.
 */
#ifndef RIPC_RING_SIM_NTB_H
#define RIPC_RING_SIM_NTB_H

#include "transport/ring/backend.h"

#include <stdbool.h>

struct ripc__sim_ntb_write {
	uint32_t at;
	uint8_t len; /* 1 .. 8 */
	bool fence;  /* no piece: what is behind it waits for what is before it */
	uint8_t bytes[8];
};

/* One direction. */
struct ripc__sim_ntb {
	uint8_t *target; /* where it ends: the peer's segment */
	size_t size;     /* of it */
	uint64_t rng;
	bool down;               /* what is written and what is under way is lost */
	bool broken;             /* out of memory: as if it were down */
	bool unfenced;           /* fences are ignored: for tests that tests can fail */
	void (*kick)(void *arg); /* the doorbell; may ring before the bytes are there */
	void *kick_arg;
	struct ripc__sim_ntb_write *in_flight; /* under way, oldest first, from head */
	size_t head, count, cap;
	uint64_t written, applied; /* pieces */
};

extern const struct ripc__ring_backend_ops ripc__sim_ntb_ops; /* arg: struct ripc__sim_ntb */

void ripc__sim_ntb_init(struct ripc__sim_ntb *l, void *target, size_t size, uint64_t seed);
void ripc__sim_ntb_fini(struct ripc__sim_ntb *l);
/* Lets at most n pieces arrive. Return: whether some are still under way. */
bool ripc__sim_ntb_step(struct ripc__sim_ntb *l, size_t n);
/* The same with a random n. */
bool ripc__sim_ntb_step_random(struct ripc__sim_ntb *l);
void ripc__sim_ntb_set_down(struct ripc__sim_ntb *l, bool down);

#endif
