/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* For tests of the engine: a and b, two engines joined by a stream that is cut at will. */
#ifndef RIPC_TESTS_TRANSPORT_IWARP_SOFT_ENGINE_LINK_H
#define RIPC_TESTS_TRANSPORT_IWARP_SOFT_ENGINE_LINK_H

#include "engine_pair.h"

#include <errno.h>

#define SOURCE 300000u /* of source_bytes and target_bytes */

extern struct engine_end a, b; /* a is the active side */
extern uint8_t *source_bytes, *target_bytes;
extern uint8_t pipe_buf[1 << 20]; /* bytes under way */

struct ripc__mpa_terms terms(bool crc, bool soft);
void open_pair(const struct ripc__mpa_terms *t, uint32_t segment);
void close_pair(void);

/* Moves at most cap bytes from one end to the other. Return: whether any moved. */
bool move(struct engine_end *from, struct engine_end *to, size_t cap);
/* Moves all bytes of both ends, at most so many at a time. rng: random numbers of them, or NULL. */
void settle(uint64_t *rng, size_t most);

void post_send(struct engine_end *end, const uint8_t *p, size_t len);
/*
 * A send that an idle end transmits directly: the first n bytes of its FPDU arrive, at most all of
 * it, and the rest is queued.
 */
void post_direct(struct engine_end *from, struct engine_end *to, const uint8_t *p, size_t len,
		 size_t n);
/* a posts a Write of len bytes, and the send that announces it. */
void write_and_announce(const struct ripc__region *from, const struct ripc__region *to, size_t len,
			size_t announcement);
/* a reads bytes of b: a pair whose request has not left. Return: the region at b. */
struct ripc__region *begin_read(const struct ripc__mpa_terms *t, uint32_t len);

#endif
