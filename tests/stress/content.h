/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The bytes of a message: a head that names its record, then a pattern of which each byte depends
 * on the message and on its place. A forwarded message is a head of its own, then all items of the
 * original.
 */
#ifndef RIPC_TESTS_STRESS_CONTENT_H
#define RIPC_TESTS_STRESS_CONTENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

struct head {
	uint64_t magic;
	uint64_t number; /* of the message on the board */
	uint64_t len;
	uint32_t forwarded;
	uint32_t nitems;
	uint64_t lengths; /* a hash of the lengths of the items */
};

uint64_t content_len(const struct iovec *items, unsigned n);
/* The head of a message with these items. */
struct head content_head(const struct iovec *items, unsigned n, uint64_t number);
/* key: the number of the message; of an answer its complement. */
void content_fill(const struct iovec *items, unsigned n, uint64_t number, uint64_t key);
/* Whether a head begins at this byte of the items. */
bool content_find_head(const struct iovec *items, unsigned n, uint64_t from, struct head *h);
/*
 * Compares the pattern of a message that begins at byte from of the items. Return: 0: it is right;
 * else the number of the first wrong byte, from 1 on.
 */
uint64_t content_check(const struct iovec *items, unsigned n, uint64_t from, uint64_t key);
/*
 * The places of items and their first bytes, for reports. Return: a buffer of the calling thread.
 */
const char *content_layout(const struct iovec *items, unsigned n, const uint8_t *placement);
/* Divides memory into items, some of them empty, at random. Return: how many. */
unsigned content_split(struct iovec *items, void *base, uint64_t len);

#endif
