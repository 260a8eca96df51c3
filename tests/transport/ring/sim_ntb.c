/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "sim_ntb.h"
#include "base/hash.h"

#include <stdlib.h>
#include <string.h>

void ripc__sim_ntb_init(struct ripc__sim_ntb *l, void *target, size_t size, uint64_t seed)
{
	*l = (struct ripc__sim_ntb){.target = target, .size = size, .rng = seed};
}

void ripc__sim_ntb_fini(struct ripc__sim_ntb *l)
{
	free(l->in_flight);
	l->in_flight = NULL;
	l->head = l->count = l->cap = l->group = 0;
}

static struct ripc__sim_ntb_write *append(struct ripc__sim_ntb *l)
{
	/* Half of the room at least, so that a write is moved once on average. */
	if (l->head && l->head >= l->cap / 2 && l->head + l->count == l->cap) {
		memmove(l->in_flight, l->in_flight + l->head, l->count * sizeof(*l->in_flight));
		l->head = 0;
	}
	if (l->head + l->count == l->cap) {
		size_t cap = l->cap ? 2 * l->cap : 1024;
		struct ripc__sim_ntb_write *more = realloc(l->in_flight, cap * sizeof(*more));

		if (!more) {
			l->broken = true;
			return NULL;
		}
		l->in_flight = more;
		l->cap = cap;
	}
	return &l->in_flight[l->head + l->count++];
}

static void ntb_copy(void *arg, uint64_t at, const void *src, size_t len)
{
	struct ripc__sim_ntb *l = arg;
	const uint8_t *from = src;

	while (len && !l->down && !l->broken) {
		/* Up to the next multiple of 8: a whole word is never split. */
		size_t n = 8 - (at & 7);
		struct ripc__sim_ntb_write *p = append(l);

		if (!p)
			return;
		if (n > len)
			n = len;
		*p = (struct ripc__sim_ntb_write){.at = (uint32_t)at, .len = (uint8_t)n};
		memcpy(p->bytes, from, n);
		l->written++;
		at += n;
		from += n;
		len -= n;
	}
}

static void ntb_fence(void *arg)
{
	struct ripc__sim_ntb *l = arg;
	struct ripc__sim_ntb_write *p;

	if (l->unfenced || !l->count || l->in_flight[l->head + l->count - 1].fence)
		return;
	p = append(l);
	if (p)
		*p = (struct ripc__sim_ntb_write){.fence = true};
}

static void ntb_kick(void *arg)
{
	struct ripc__sim_ntb *l = arg;

	if (l->kick && !l->down)
		l->kick(l->kick_arg);
}

static void apply(struct ripc__sim_ntb *l, const struct ripc__sim_ntb_write *p)
{
	uint64_t word;

	l->applied++;
	if (p->at > l->size || p->len > l->size - p->at)
		return;
	if (p->len == 8) {
		memcpy(&word, p->bytes, 8);
		__atomic_store_n((uint64_t *)(void *)(l->target + p->at), word, __ATOMIC_RELEASE);
	} else {
		memcpy(l->target + p->at, p->bytes, p->len);
	}
}

/* Pieces before the first fence, of those near enough to overtake one another. */
static size_t fence_group_len(struct ripc__sim_ntb *l)
{
	while (l->group < l->count && l->group < 64 && !l->in_flight[l->head + l->group].fence)
		l->group++;
	return l->group;
}

bool ripc__sim_ntb_step(struct ripc__sim_ntb *l, size_t n)
{
	if (l->down || l->broken)
		l->count = l->group = 0;
	while (n-- && l->count) {
		struct ripc__sim_ntb_write *first = &l->in_flight[l->head], *p;
		size_t near;

		if (first->fence) {
			l->head++;
			l->count--;
			n++;
			continue;
		}
		near = fence_group_len(l);
		p = first + ripc__splitmix(&l->rng) % near;
		apply(l, p);
		*p = *first;
		l->head++;
		l->count--;
		l->group--;
	}
	if (l->count && l->in_flight[l->head].fence && l->count == 1)
		l->count = 0;
	if (!l->count)
		l->head = l->group = 0;
	return l->count;
}

bool ripc__sim_ntb_step_random(struct ripc__sim_ntb *l)
{
	uint64_t r = l->count ? ripc__splitmix(&l->rng) : 0;

	/* Sometimes nothing arrives. */
	return ripc__sim_ntb_step(l, r & 3 ? (r >> 32) % 400 : 0);
}

void ripc__sim_ntb_set_down(struct ripc__sim_ntb *l, bool down)
{
	l->down = down;
	if (down)
		l->head = l->count = l->group = 0;
}

const struct ripc__ring_backend_ops ripc__sim_ntb_ops = {
	.copy = ntb_copy,
	.fence = ntb_fence,
	.kick = ntb_kick,
};
