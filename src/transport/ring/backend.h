/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A back end of the ring engine provides a segment of ours that the peer writes into, a way to
 * write into the peer's, and a doorbell. The interface fits the weakest one: posted writes only,
 * no reads, no atomics, as over a PCIe bridge. Stronger ones need no copy() and fence(), and add
 * read().
 */
#ifndef RIPC_RING_BACKEND_H
#define RIPC_RING_BACKEND_H

#include <stddef.h>
#include <stdint.h>

struct ripc__ring_backend_ops {
	/*
	 * Writes len bytes into the peer's segment at an offset, later, in any order, in any pieces
	 * that do not split an aligned 8-byte word. The caller may reuse src on return.
	 */
	void (*copy)(void *arg, uint64_t at, const void *src, size_t len);
	/*
	 * Orders everything written before ahead of everything written after. NULL, with map: a
	 * release fence suffices.
	 */
	void (*fence)(void *arg);
	/* Wakes the peer if it sleeps. May arrive before earlier writes, or twice. */
	void (*kick)(void *arg);
	/* Copies from the peer's memory. NULL: it cannot. Return: 0 or a negative errno. */
	int (*read)(void *arg, void *to, uint64_t addr, size_t len);
};

struct ripc__ring_backend {
	const struct ripc__ring_backend_ops *ops;
	void *arg;
	const uint8_t *inbox; /* our segment, which we only read; 64-byte aligned */
	uint8_t *map;         /* the peer's segment, for plain stores; NULL: copy() only */
};

#endif
