/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What the window engine needs of a back end: a segment of ours that the peer writes into, a way to
 * write into the peer's, and a doorbell. Written to the weakest one (a PCIe window: posted writes
 * only, no reads, no atomics); what a stronger one can do in addition it says with capability bits,
 * and the engine takes short cuts.
 */
#ifndef RIPC_RING_BACKEND_H
#define RIPC_RING_BACKEND_H

#include <stddef.h>
#include <stdint.h>

enum ripc__ring_cap {
	/*
	 * A full fence of ours orders our stores into the peer's segment before our loads from our
	 * own, and the peer's likewise: arming and looking again cannot miss anything.
	 */
	RIPC__RING_CAP_ORDERED = 1 << 0,
	RIPC__RING_CAP_READ = 1 << 1, /* read() works: we can read the peer's memory */
};

struct ripc__ring_backend_ops {
	/*
	 * Writes len bytes into the peer's segment at an offset, some time, in any order, in any
	 * pieces that do not split an aligned 8-byte word. src may be reused on return.
	 */
	void (*copy)(void *arg, uint64_t at, const void *src, size_t len);
	/*
	 * Everything written before stands in the peer's segment before anything written after.
	 * NULL, with map: a release fence does.
	 */
	void (*fence)(void *arg);
	/* Wakes the peer if it sleeps. May come before what was written, or twice. */
	void (*kick)(void *arg);
	/* With RIPC__RING_CAP_READ: copies from the peer's memory. Return: 0 or a negative errno. */
	int (*read)(void *arg, void *to, uint64_t addr, size_t len);
};

struct ripc__ring_backend {
	const struct ripc__ring_backend_ops *ops;
	void *arg;
	const uint8_t *inbox; /* our segment: only ever read by us; 64-byte aligned */
	uint8_t *map;  /* the peer's segment, where plain stores reach it; NULL: by copy() only */
	unsigned caps; /* of enum ripc__ring_cap */
};

#endif
