/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A table from numbers to numbers that grows. The number 0 is no key. */
#ifndef RIPC_TESTS_STRESS_NUMBERS_H
#define RIPC_TESTS_STRESS_NUMBERS_H

#include <stdint.h>
#include <stdlib.h>

struct numbers {
	struct number {
		uint64_t key, value;
	} * slots;
	uint64_t size, used; /* size: a power of two, or 0 */
};

/* The value of a key, 0 if it is new. The address is valid until the next call. */
static inline uint64_t *numbers_at(struct numbers *t, uint64_t key)
{
	uint64_t at;

	if (t->used * 2 >= t->size) {
		struct numbers bigger = {.size = t->size ? t->size * 2 : 64};

		bigger.slots = calloc(bigger.size, sizeof(*bigger.slots));
		if (!bigger.slots)
			abort();
		for (uint64_t i = 0; i < t->size; i++)
			if (t->slots[i].key)
				*numbers_at(&bigger, t->slots[i].key) = t->slots[i].value;
		free(t->slots);
		*t = bigger;
	}
	at = key * 0x9e3779b97f4a7c15 >> 20 & (t->size - 1);
	while (t->slots[at].key && t->slots[at].key != key)
		at = (at + 1) & (t->size - 1);
	t->used += !t->slots[at].key;
	t->slots[at].key = key;
	return &t->slots[at].value;
}

#endif
