/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "content.h"

#include "chance.h"
#include "ripc.h"

#include <stdio.h>
#include <string.h>

#define MAGIC 0x5354524553530002ull

uint64_t content_len(const struct iovec *items, unsigned n)
{
	uint64_t len = 0;

	while (n--)
		len += items[n].iov_len;
	return len;
}

struct head content_head(const struct iovec *items, unsigned n, uint64_t number)
{
	struct head h = {.magic = MAGIC,
			 .number = number,
			 .len = content_len(items, n),
			 .nitems = n,
			 .lengths = 1};

	for (unsigned i = 0; i < n; i++)
		h.lengths = h.lengths * 1000003 + items[i].iov_len + 7;
	return h;
}

/* Eight bytes of the pattern. */
static uint64_t word(uint64_t key, uint64_t position)
{
	uint64_t x = key * 0x9e3779b97f4a7c15 + position / 8 * 0xd6e8feb86659fd93;

	x ^= x >> 29;
	return x * 0xbf58476d1ce4e5b9;
}

static uint8_t byte(uint64_t key, uint64_t position)
{
	return (uint8_t)(word(key, position) >> position % 8 * 8);
}

/* Bytes of the pattern from position on, in one item. */
static void fill_part(uint8_t *p, uint64_t len, uint64_t position, uint64_t key)
{
	uint64_t i = 0;

	while (i < len) {
		if ((position + i) % 8 || len - i < 8) {
			p[i] = byte(key, position + i);
			i++;
		} else {
			uint64_t w = word(key, position + i);

			memcpy(p + i, &w, 8);
			i += 8;
		}
	}
}

/* Return: the first wrong byte, or len. */
static uint64_t check_part(const uint8_t *p, uint64_t len, uint64_t position, uint64_t key)
{
	uint64_t i = 0;

	while (i < len) {
		uint64_t w = word(key, position + i);

		if (!((position + i) % 8) && len - i >= 8 && !memcmp(p + i, &w, 8))
			i += 8;
		else if (p[i] == byte(key, position + i))
			i++;
		else
			break;
	}
	return i;
}

void content_fill(const struct iovec *items, unsigned n, uint64_t number, uint64_t key)
{
	struct head h = content_head(items, n, number);
	uint64_t position = 0;

	for (unsigned i = 0; i < n; i++) {
		uint8_t *p = items[i].iov_base;

		fill_part(p, items[i].iov_len, position, key);
		for (uint64_t k = 0; k < items[i].iov_len && position + k < sizeof(h); k++)
			p[k] = ((uint8_t *)&h)[position + k];
		position += items[i].iov_len;
	}
}

bool content_find_head(const struct iovec *items, unsigned n, uint64_t from, struct head *h)
{
	uint64_t position = 0, got = 0;

	for (unsigned i = 0; i < n && got < sizeof(*h); i++) {
		const uint8_t *p = items[i].iov_base;
		uint64_t k = from > position ? from - position : 0;

		for (; k < items[i].iov_len && got < sizeof(*h); k++)
			((uint8_t *)h)[got++] = p[k];
		position += items[i].iov_len;
	}
	return got == sizeof(*h) && h->magic == MAGIC;
}

uint64_t content_check(const struct iovec *items, unsigned n, uint64_t from, uint64_t key)
{
	uint64_t position = 0, begin = from + sizeof(struct head);

	for (unsigned i = 0; i < n; i++) {
		uint64_t len = items[i].iov_len, skip = begin > position ? begin - position : 0;

		if (skip < len) {
			uint64_t ok = check_part((uint8_t *)items[i].iov_base + skip, len - skip,
						 position + skip - from, key);

			if (ok < len - skip)
				return position + skip + ok + 1;
		}
		position += len;
	}
	return 0;
}

const char *content_layout(const struct iovec *items, unsigned n, const uint8_t *placement)
{
	static _Thread_local char text[700];
	size_t at = 0;

	for (unsigned i = 0; i < n && at + 90 < sizeof(text); i++) {
		const uint8_t *p = items[i].iov_base;

		if (!items[i].iov_len)
			continue;
		at += (size_t)snprintf(text + at, sizeof(text) - at,
				       "; item %u: %zu at %p, in %u:", i, items[i].iov_len,
				       items[i].iov_base, placement[i]);
		for (unsigned k = 0; k < 12 && k < items[i].iov_len; k++)
			at += (size_t)snprintf(text + at, sizeof(text) - at, " %02x", p[k]);
	}
	return text;
}

unsigned content_split(struct iovec *items, void *base, uint64_t len)
{
	unsigned n = 1;
	uint8_t *p = base;

	if (one_in(3))
		n = 1 + (unsigned)chance(RIPC_ITEMS_MAX);
	else if (one_in(2))
		n = 1 + (unsigned)chance(4);
	for (unsigned i = 0; i < n; i++) {
		uint64_t part = len;

		if (i + 1 < n)
			part = one_in(5) ? 0 : chance(len / (n - i) * 2 + 1);
		if (part > len)
			part = len;
		items[i] = (struct iovec){p, part};
		p += part;
		len -= part;
	}
	return n;
}
