/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Memory of applications, for random tests of mapped zero copy: blocks of each kind. A block is
 * divided into parts, and each part is filled with a number of its own, its tag, and the offset.
 */
#ifndef RIPC_TESTS_TRANSPORT_SHM_BLOCKS_H
#define RIPC_TESTS_TRANSPORT_SHM_BLOCKS_H

#include "virtual_time.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#define BLOCKS    12
#define PARTS     4
#define BLOCK_MAX ((size_t)100 << 10)
#define TAGS      (1 << 20)

enum kind { BUFFER, REGISTERED, HEAP };
enum use { MINE, RETURN_BUFFER, WITHDRAWN, WINDOW, RECEIVED, FREED_BY_SEND };

struct part {
	size_t at, len;
	uint32_t tag;
	unsigned sent_to; /* since it was written */
	unsigned readers;
};

struct block {
	uint8_t *base; /* NULL: none */
	size_t len;
	enum kind kind;
	enum use use;
	uint64_t peer_service;
	unsigned number, nparts, readers;
	struct part parts[PARTS];
};

static struct block blocks[CONTEXTS][BLOCKS];
static unsigned nblocks;
static unsigned block_of[TAGS]; /* the number of the block with this tag */
static uint32_t last_tag;
static uint64_t chance;

static unsigned draw(unsigned n)
{
	return (unsigned)(test_random(&chance) % n);
}

/* ---- out of memory ---- */

static unsigned scarce; /* one in so many calls fails; 0: none */

static bool fails(void)
{
	return scarce && !draw(scarce);
}

void *__real_mmap(void *p, size_t len, int prot, int flags, int fd, off_t at);
void *__wrap_mmap(void *p, size_t len, int prot, int flags, int fd, off_t at);
void *__real_mremap(void *p, size_t len, size_t to, int flags, void *at);
void *__wrap_mremap(void *p, size_t len, size_t to, int flags, void *at);

void *__wrap_mmap(void *p, size_t len, int prot, int flags, int fd, off_t at)
{
	/* In place is the last resort. */
	if (flags & MAP_FIXED || !fails())
		return __real_mmap(p, len, prot, flags, fd, at);
	errno = ENOMEM;
	return MAP_FAILED;
}

void *__wrap_mremap(void *p, size_t len, size_t to, int flags, void *at)
{
	if (!fails())
		return __real_mremap(p, len, to, flags, at);
	errno = ENOMEM;
	return MAP_FAILED;
}

/* ---- bytes ---- */

static uint64_t word(uint32_t tag, size_t k)
{
	return (uint64_t)tag << 32 | (k & 0xffffffff);
}

static void fill(uint8_t *p, size_t len, uint32_t tag)
{
	for (size_t k = 0; k < len; k += 8) {
		uint64_t w = word(tag, k);

		memcpy(p + k, &w, 8);
	}
}

static void check(const uint8_t *p, size_t len, uint32_t tag, const char *what)
{
	for (size_t k = 0; k < len; k += 8) {
		uint64_t w;

		memcpy(&w, p + k, 8);
		ck_assert_msg(w == word(tag, k), "%s: %llx at %zu of %zu, not %llx", what,
			      (unsigned long long)w, k, len, (unsigned long long)word(tag, k));
	}
}

static uint32_t new_tag(unsigned block)
{
	ck_assert_uint_lt(++last_tag, TAGS);
	block_of[last_tag] = block;
	return last_tag;
}

static void write_part(struct block *b, struct part *p)
{
	p->tag = new_tag(b->number);
	p->sent_to = 0;
	fill(b->base + p->at, p->len, p->tag);
}

/* ---- memory ---- */

static size_t draw_len(void)
{
	return 8 * (1 + draw(draw(4) ? BLOCK_MAX / 8 : 600));
}

/* Divides a block, and writes all of it. */
static void divide(struct block *b)
{
	size_t at = 0;

	b->nparts = 0;
	while (at < b->len) {
		struct part *p = &b->parts[b->nparts++];
		size_t left = b->len - at;

		*p = (struct part){.at = at, .len = left};
		if (b->nparts < PARTS && draw(2))
			p->len = 8 * (1 + draw((unsigned)(left / 8)));
		at += p->len;
		write_part(b, p);
	}
}

static struct block *free_block(unsigned i)
{
	for (struct block *b = blocks[i]; b < blocks[i] + BLOCKS; b++)
		if (!b->base)
			return b;
	return NULL;
}

static void block_new(unsigned i)
{
	struct block *b = free_block(i);
	size_t len = draw_len();

	if (!b)
		return;
	*b = (struct block){.len = len, .kind = BUFFER, .number = ++nblocks};
	switch (draw(6)) {
	case 0:
		b->kind = HEAP;
		b->base = malloc(len);
		break;
	case 1:
		b->kind = REGISTERED;
		b->base = malloc(len);
		ck_assert_int_eq(ripc_buf_register(ctx[i], b->base, len), 0);
		break;
	case 2:
	case 3:
		b->base = ripc_buf_alloc_for(ctx[i], len, test_ids() + draw(CONTEXTS));
		break;
	default:
		b->base = ripc_buf_alloc(ctx[i], len);
	}
	ck_assert(b->base || (scarce && errno == ENOMEM));
	if (!b->base)
		return;
	divide(b);
}

static void verify_block(const struct block *b)
{
	for (unsigned k = 0; k < b->nparts && b->base && b->use == MINE; k++)
		check(b->base + b->parts[k].at, b->parts[k].len, b->parts[k].tag, "own memory");
}

static bool is_unused(const struct block *b)
{
	return b->base && !b->readers && b->use == MINE && b->kind != HEAP;
}

static void window_change(unsigned i, struct block *b)
{
	int rc;

	if (is_unused(b)) {
		rc = ripc_window_add(ctx[i], draw(2) ? service[i] : NULL, b->base, b->len);
		ck_assert(!rc || (scarce && rc == -ENOMEM));
		b->use = rc ? MINE : WINDOW;
	} else if (b->base && b->use == WINDOW) {
		rc = ripc_window_remove(ctx[i], b->base);
		ck_assert(!rc || rc == -EINVAL || rc == -EBUSY);
		if (!rc) {
			b->use = MINE;
			divide(b);
		}
	}
}

static void block_free(unsigned i, struct block *b)
{
	int rc = 0;

	if (!b->base || b->readers || b->use == RECEIVED)
		return;
	if (b->use == WINDOW && b->kind == REGISTERED)
		window_change(i, b);
	if (b->kind == BUFFER)
		rc = ripc_buf_free(ctx[i], b->base + draw((unsigned)b->len));
	else if (b->kind == REGISTERED)
		rc = ripc_buf_unregister(ctx[i], b->base);
	if (rc) {
		ck_assert_int_eq(rc, -EBUSY);
		ck_assert_int_ne(b->use, MINE);
		/* Its return buffers are being withdrawn. */
		if (b->use == RETURN_BUFFER && b->kind == REGISTERED)
			b->use = WITHDRAWN;
		return;
	}
	if (b->kind != BUFFER)
		free(b->base);
	b->base = NULL;
}

static void block_resize(unsigned i, struct block *b)
{
	size_t len = draw_len(), kept = len < b->len ? len : b->len;
	void *moved;

	if (!b->base || b->readers || b->use != MINE || b->kind != BUFFER)
		return;
	moved = ripc_buf_realloc(ctx[i], b->base, len);
	ck_assert(moved || (scarce && errno == ENOMEM));
	if (!moved)
		return;
	b->base = moved;
	for (unsigned k = 0; k < b->nparts; k++) {
		const struct part *p = &b->parts[k];

		if (p->at < kept)
			check(b->base + p->at, p->at + p->len < kept ? p->len : kept - p->at,
			      p->tag, "resized");
	}
	b->len = len;
	divide(b);
}

#endif
