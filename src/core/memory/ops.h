/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Calls from the memory to the layers above it, set by ripc_open(). Lock held. No callee closes a
 * lane.
 */
#ifndef RIPC_CORE_MEMORY_OPS_H
#define RIPC_CORE_MEMORY_OPS_H

#include <stddef.h>
#include <stdint.h>

struct ripc;
struct ripc__message;

struct ripc__memory_ops {
	/* The request of a call is released without an answer. */
	void (*request_dropped)(struct ripc__message *m);
	/* A reply buffer of a call was dropped, or the item that was to arrive in it does not. */
	void (*call_buffer_free)(struct ripc *ctx, uint64_t call);
	/* The service of a message under way that is read from [p, p+len); 0: there is none. */
	uint64_t (*sent_from)(struct ripc *ctx, const void *p, size_t len);
};

#endif
