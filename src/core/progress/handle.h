/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Memory of what the application has handles of: contexts, services, requests.
 *
 * A thread may be on its way into a call while another thread ends the object. It reads the object,
 * and the word of the context's lock, before it holds the lock. Nobody can count such a thread: it
 * may have been preempted at the first instruction of the call. Therefore the memory of a handle
 * outlives all callers. It is type-stable in the strictest sense: an address that was a handle is
 * never used for anything else, and reads as zeros once the object has ended. Every entry takes
 * zeros for an ended object, and a lock of zeros is free. The pages go back to the kernel: an ended
 * object costs address space and 8 bytes of page table per page, but no memory. Under
 * vm.overcommit_memory=2 and RLIMIT_DATA the kernel counts the address space as memory.
 *
 *   context            pages of its own, ended by ripc__handle_free()
 *   service            likewise, on a page with others, which goes back when all have ended
 *   request            a piece of a block of its context, reused within it, which ends with it
 *
 * Pieces may be reused because the call that ends a request takes the handle away from the
 * application. Messages are ordinary memory: their items end with the context, so a thread that
 * holds one may not be around when it is closed.
 */
#ifndef RIPC_CORE_PROGRESS_HANDLE_H
#define RIPC_CORE_PROGRESS_HANDLE_H

#include <stddef.h>

/* Bytes of address space taken from the kernel at a time. */
#define RIPC__HANDLE_RESERVE ((size_t)1 << 20)

/* The blocks of one context. Zeros: there are none. */
struct ripc__handle_block;
struct ripc__handle_blocks {
	struct ripc__handle_block *first;
	char *next; /* of what is left of the first one, */
	size_t left;
};

/*
 * Zeroed memory for one object, aligned to a cache line, on pages of its own unless it is small.
 * NULL: out of memory. Any thread.
 */
void *ripc__handle_alloc(size_t len);

/*
 * Ends one: it reads as zeros from now on. The page in which it begins ends last, so that a caller
 * who finds that one ended finds all of it ended. Any thread.
 */
void ripc__handle_free(void *p, size_t len);

/* A piece of a block, not zeroed, aligned to a cache line. NULL: out of memory. Lock held. */
void *ripc__handle_block_alloc(struct ripc__handle_blocks *blocks, size_t len);

/* Ends all of them. Lock held. */
void ripc__handle_blocks_free(struct ripc__handle_blocks *blocks);

/* Around fork(): before it, in the parent, in the child. */
void ripc__handle_fork_lock(void);
void ripc__handle_fork_unlock(void);
void ripc__handle_fork_child(void);

#endif
