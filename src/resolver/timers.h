/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Deadlines in order: a binary heap of timers embedded in their owners. Grows and shrinks. */
#ifndef RIPC_RESOLVER_TIMERS_H
#define RIPC_RESOLVER_TIMERS_H

#include <stdint.h>

struct ripc__rcore;
struct ripc__timer;

typedef void ripc__timer_fn(struct ripc__rcore *core, struct ripc__timer *timer, uint64_t now_ns);

struct ripc__timer {
	uint64_t at_ns;      /* time when it is due; RIPC__NEVER: not due */
	ripc__timer_fn *due; /* called then; set by the owner */
	uint32_t pos;        /* index in the heap */
};

struct ripc__timers {
	struct ripc__timer **heap;
	uint32_t count, cap;
};

void ripc__timers_init(struct ripc__timers *timers);
void ripc__timers_fini(struct ripc__timers *timers);

/*
 * Adds a timer; it stays until removed, so that setting it later cannot fail. Return: 0 or -ENOMEM.
 */
int ripc__timers_add(struct ripc__timers *timers, struct ripc__timer *timer, uint64_t at_ns);
void ripc__timers_set(struct ripc__timers *timers, struct ripc__timer *timer, uint64_t at_ns);
void ripc__timers_remove(struct ripc__timers *timers, struct ripc__timer *timer);

/* The earliest one, or NULL if there is none at all. */
struct ripc__timer *ripc__timers_first(const struct ripc__timers *timers);

#endif
