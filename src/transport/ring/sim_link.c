/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "transport/ring/sim_link.h"

#include <stdlib.h>
#include <string.h>

static uint64_t draw(struct ripc__link *l)
{
	uint64_t z = l->rng += 0x9e3779b97f4a7c15u;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

void ripc__link_init(struct ripc__link *l, void *target, size_t size, uint64_t seed)
{
	*l = (struct ripc__link){.target = target, .size = size, .rng = seed};
}

void ripc__link_fini(struct ripc__link *l)
{
	free(l->pieces);
	l->pieces = NULL;
	l->head = l->count = l->cap = 0;
}

static struct ripc__link_piece *append(struct ripc__link *l)
{
	if (l->head && l->head + l->count == l->cap) {
		memmove(l->pieces, l->pieces + l->head, l->count * sizeof(*l->pieces));
		l->head = 0;
	}
	if (l->head + l->count == l->cap) {
		size_t cap = l->cap ? 2 * l->cap : 1024;
		struct ripc__link_piece *more = realloc(l->pieces, cap * sizeof(*more));

		if (!more) {
			l->broken = true;
			return NULL;
		}
		l->pieces = more;
		l->cap = cap;
	}
	return &l->pieces[l->head + l->count++];
}

static void link_copy(void *arg, uint64_t at, const void *src, size_t len)
{
	struct ripc__link *l = arg;
	const uint8_t *from = src;

	while (len && !l->down && !l->broken) {
		/* Up to the next multiple of 8: a whole word is never split. */
		size_t n = 8 - (at & 7);
		struct ripc__link_piece *p = append(l);

		if (!p)
			return;
		if (n > len)
			n = len;
		*p = (struct ripc__link_piece){.at = (uint32_t)at, .len = (uint8_t)n};
		memcpy(p->bytes, from, n);
		l->written++;
		at += n;
		from += n;
		len -= n;
	}
}

static void link_fence(void *arg)
{
	struct ripc__link *l = arg;
	struct ripc__link_piece *p;

	if (l->unfenced || !l->count || l->pieces[l->head + l->count - 1].fence)
		return;
	p = append(l);
	if (p)
		*p = (struct ripc__link_piece){.fence = true};
}

static void link_kick(void *arg)
{
	struct ripc__link *l = arg;

	if (l->kick && !l->down)
		l->kick(l->kick_arg);
}

static void apply(struct ripc__link *l, const struct ripc__link_piece *p)
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

/* How many pieces stand before the first fence, of those near enough to overtake one another. */
static size_t group(const struct ripc__link *l)
{
	size_t n = 0;

	while (n < l->count && n < 64 && !l->pieces[l->head + n].fence)
		n++;
	return n;
}

bool ripc__link_step(struct ripc__link *l, size_t n)
{
	if (l->down || l->broken)
		l->count = 0;
	while (n-- && l->count) {
		struct ripc__link_piece *first = &l->pieces[l->head], *p;
		size_t near;

		if (first->fence) {
			l->head++;
			l->count--;
			n++;
			continue;
		}
		near = group(l);
		p = first + draw(l) % near;
		apply(l, p);
		*p = *first;
		l->head++;
		l->count--;
	}
	if (l->count && l->pieces[l->head].fence && l->count == 1)
		l->count = 0;
	if (!l->count)
		l->head = 0;
	return l->count;
}

bool ripc__link_some(struct ripc__link *l)
{
	uint64_t r = l->count ? draw(l) : 0;

	/* Now and then nothing does. */
	return ripc__link_step(l, r & 3 ? (r >> 32) % 400 : 0);
}

void ripc__link_down(struct ripc__link *l, bool down)
{
	l->down = down;
	if (down)
		l->head = l->count = 0;
}

const struct ripc__win_ops ripc__link_ops = {
	.copy = link_copy,
	.fence = link_fence,
	.kick = link_kick,
};
