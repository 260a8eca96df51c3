/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Memory from which a process sends, and buffers into which it receives. Callers hold
 * context_use(), unless stated otherwise.
 */
#ifndef RIPC_TESTS_STRESS_MEMORY_H
#define RIPC_TESTS_STRESS_MEMORY_H

#include "objects.h"

#include <sys/uio.h>

#define LONG_BYTES_MAX (4u << 20)

struct memory {
	enum memory_kind {
		MEMORY_HEAP,
		MEMORY_REGISTERED,
		MEMORY_BUFFER /* of ripc_buf_alloc() */
	} kind;
	uint8_t *base;
	uint64_t len;
	struct context *context;
};

/* Return: false: there is none. */
bool memory_alloc(struct memory *m, struct context *c, uint64_t len, uint64_t dest);
void memory_free(struct memory *m);
/* The context was closed: its buffers are gone. Without context_use(). */
void memory_closed(struct memory *m);

/* Adds buffers to buffers, and to those of the context as BUFFER_CHANGING. Return: how many. */
unsigned return_buffers_alloc(struct service *s, struct iovec *buffers);
/* The send that offers them was started, or was not. */
void return_buffers_sent(struct context *c, const struct iovec *buffers, unsigned n);
void return_buffers_free(struct context *c, const struct iovec *buffers, unsigned n);

/* The operations, without context_use(). */
void window_add(struct service *s);
void window_remove(struct context *c);
/* Frees a return buffer into which a peer may be writing. */
void return_buffer_withdraw(struct service *s);

#endif
