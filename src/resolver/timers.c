/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "resolver/timers.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

void ripc__timers_init(struct ripc__timers *timers)
{
	*timers = (struct ripc__timers){0};
}

void ripc__timers_fini(struct ripc__timers *timers)
{
	free(timers->heap);
	ripc__timers_init(timers);
}

static void set_at(struct ripc__timers *timers, uint32_t pos, struct ripc__timer *timer)
{
	timers->heap[pos] = timer;
	timer->pos = pos;
}

/* Moves a timer from a free index to its index in the heap. */
static void sift(struct ripc__timers *timers, uint32_t pos, struct ripc__timer *timer)
{
	struct ripc__timer **heap = timers->heap;

	while (pos && heap[(pos - 1) / 2]->at_ns > timer->at_ns) {
		set_at(timers, pos, heap[(pos - 1) / 2]);
		pos = (pos - 1) / 2;
	}
	for (;;) {
		uint32_t child = 2 * pos + 1;

		if (child >= timers->count)
			break;
		if (child + 1 < timers->count && heap[child + 1]->at_ns < heap[child]->at_ns)
			child++;
		if (heap[child]->at_ns >= timer->at_ns)
			break;
		set_at(timers, pos, heap[child]);
		pos = child;
	}
	set_at(timers, pos, timer);
}

static bool resize(struct ripc__timers *timers, uint32_t cap)
{
	struct ripc__timer **heap = realloc(timers->heap, cap * sizeof(*heap));

	if (!heap)
		return false;
	timers->heap = heap;
	timers->cap = cap;
	return true;
}

int ripc__timers_add(struct ripc__timers *timers, struct ripc__timer *timer, uint64_t at_ns)
{
	if (timers->count == timers->cap && !resize(timers, timers->cap ? timers->cap * 2 : 16))
		return -ENOMEM;
	timer->at_ns = at_ns;
	timers->count++;
	sift(timers, timers->count - 1, timer);
	return 0;
}

void ripc__timers_set(struct ripc__timers *timers, struct ripc__timer *timer, uint64_t at_ns)
{
	timer->at_ns = at_ns;
	sift(timers, timer->pos, timer);
}

void ripc__timers_remove(struct ripc__timers *timers, struct ripc__timer *timer)
{
	struct ripc__timer *last = timers->heap[--timers->count];

	if (last != timer)
		sift(timers, timer->pos, last);
	if (timers->cap > 16 && timers->count < timers->cap / 4)
		resize(timers, timers->cap / 2);
}

struct ripc__timer *ripc__timers_first(const struct ripc__timers *timers)
{
	return timers->count ? timers->heap[0] : NULL;
}
