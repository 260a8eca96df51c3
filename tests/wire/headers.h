/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Random valid messages of every kind, and what a decoder must return for them. */
#ifndef RIPC_TESTS_WIRE_HEADERS_H
#define RIPC_TESTS_WIRE_HEADERS_H

#include "harness.h"
#include "wire/header.h"

#define BUF_MAX (RIPC__HEADER_MAX + 4096)

/* The bytes behind the header, as in doc/protocol.md, section 1.1. */
struct header_kind {
	uint8_t kind;
	unsigned words; /* u64 */
	bool items, returns, payload, instance;
	bool lens;   /* items have a length each, and no descriptor */
	bool record; /* what follows is not for the header to judge */
	bool acked;  /* may carry the end of a request */
};

#define KINDS (RIPC__KIND_END - 1)

extern const struct header_kind kinds[KINDS];
extern uint64_t rng; /* of the messages */

/* A message that was made, and what must come out of it again. */
struct made {
	uint64_t number;
	uint8_t buf[BUF_MAX];
	size_t len;
	unsigned k; /* index of its kind */
	uint64_t dest, source, acked, call, call_word, u[2];
	uint16_t nitems, nreturns, credits, flags;
	uint32_t seq;
	struct ripc__desc items[RIPC_ITEMS_MAX], returns[RIPC_RETURN_BUFFERS_MAX];
	size_t payload_at, payload_len;
};

/*
 * Makes a message of kinds[k] with random flags. It has items, return buffers and an instance id
 * only if its kind may have them.
 */
void make(struct made *m, unsigned k, unsigned nitems, unsigned nreturns, bool instance);
/* One without flags. */
void make_minimal(struct made *m, unsigned k, unsigned nitems, unsigned nreturns);
/* Decodes a copy of exactly that size. An error has a reason. Return: 0 or -EPROTO. */
int decode(const uint8_t *buf, size_t len);
void same_desc(const struct ripc__desc *a, const struct ripc__desc *b);
/* Fixture: the same messages in each case. */
void headers_setup(void);

#endif
