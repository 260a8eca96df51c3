/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The memory that programs of 2012 passed to the library or received from it, with its claims:
 * windows and return buffers. ripc.h reports whether a claim can be made, but not whether an
 * unreceived message has used up an earlier one. Programs claim the same memory in every round, so
 * this module keeps track. All functions take the lock of memory.c.
 */
#ifndef RIPC_COMPAT_MEMORY_H
#define RIPC_COMPAT_MEMORY_H

#include "compat/lengths.h"
#include "ripc.h"

/*
 * Most return buffers allocated for a program that named none and not used by a peer. The oldest is
 * freed for the next one, but only while no thread is in ripc_receive(): else none is offered.
 */
#define COMPAT_OWN_RETURNS_MAX 256

/* Allocates a buffer of the pool of at least one byte and tracks it. NULL: errno is set. */
void *ripc__compat_alloc(size_t len);

/* Tracks a buffer taken from a message. Return: 0, or -ENOMEM. */
int ripc__compat_adopt(void *base, size_t len);

/*
 * Return buffers for one send: fills vec with those of the program that are usable, at most
 * RIPC_RETURN_BUFFERS_MAX, and claims them. Return: their number.
 */
unsigned ripc__compat_add_returns(void **bufs, const struct compat_lengths *lens, unsigned n,
				  struct iovec *vec);

/* The send failed: ends the claims of its return buffers. */
void ripc__compat_undo_returns(const struct iovec *vec, unsigned n);

/*
 * A thread begins to wait for a message, or has ended the claims of the items of one. In between no
 * return buffer is freed on behalf of the program: an item may have come in it.
 */
void ripc__compat_receiving(bool begin);

/*
 * An item came in claimed memory: ends the claim, and the memory is the program's again. renew: a
 * program of 2012 does not expect the item there: sets a window again.
 */
void ripc__compat_claim_consume(void *base, bool renew);

#endif
