/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The memory that programs of 2012 have given to the library or got from it, and what was claimed
 * of it: windows and return buffers. ripc.h says whether a claim may be made, but not whether one
 * that was made before has been used up by a message that nobody has received yet; programs claim
 * the same memory in every round, so that has to be known here. All functions take the lock of
 * memory.c themselves.
 */
#ifndef RIPC_COMPAT_MEMORY_H
#define RIPC_COMPAT_MEMORY_H

#include "compat/lengths.h"
#include "ripc.h"

#include <stdint.h>

/*
 * Return buffers that were allocated since the program named none, and that no peer has used: the
 * oldest beyond these go.
 */
#define COMPAT_OWN_RETURNS_MAX 256

/* A buffer of the pool of at least one byte, known here. NULL: errno says why. */
void *ripc__compat_alloc(size_t len);

/* Makes a buffer taken from a message known here. Return: 0, or -ENOMEM. */
int ripc__compat_adopt(void *base, size_t len);

/*
 * Return buffers for one send: fills vec with those of the program's that can be offered, at most
 * RIPC_RETURN_BUFFERS_MAX, and claims them. Return: how many.
 */
unsigned ripc__compat_add_returns(void **bufs, const struct compat_lengths *lens, unsigned n,
				  struct iovec *vec);

/* The send failed: they are not offered. */
void ripc__compat_undo_returns(const struct iovec *vec, unsigned n);

/* An item came in claimed memory: the claim is used up, and the memory the program's again. */
void ripc__compat_claim_consume(const void *base);

/* The same for an item that a program of 2012 would not have got there: a window is set again. */
void ripc__compat_claim_renew(void *base);

#endif
