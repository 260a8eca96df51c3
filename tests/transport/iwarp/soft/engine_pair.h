/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* For tests of the engine: two ends with arbitrary cuts of the stream, and handmade FPDUs. */
#ifndef RIPC_TESTS_TRANSPORT_IWARP_SOFT_ENGINE_PAIR_H
#define RIPC_TESTS_TRANSPORT_IWARP_SOFT_ENGINE_PAIR_H

#include "harness.h"
#include "transport/iwarp/soft/crc32c.h"
#include "transport/iwarp/soft/engine.h"
#include "transport/iwarp/soft/engine_transfer.h"
#include "transport/transport.h"

#include <stdlib.h>
#include <string.h>

#define ACCESS_ALL (RIPC__ACCESS_LOCAL_WRITE | RIPC__ACCESS_REMOTE_READ | RIPC__ACCESS_REMOTE_WRITE)

/* One end: an engine with its memory and its events. */
struct engine_end {
	struct ripc__engine e;
	struct ripc__regions regions;
	struct ripc__slab_pool pool;
	struct ripc__slab *slab;
	size_t used;
	unsigned nrecv, nread, nwrite; /* events so far */
	uint64_t last_wr_id;
	uint8_t *recv; /* all received sends, concatenated */
	size_t recv_len, recv_cap;
	size_t lens[4096];                   /* their lengths */
	size_t out;                          /* bytes transmitted so far */
	const struct ripc__region *expected; /* of rx_buffer() */
	unsigned direct; /* receptions with payload of a Write that was expected */
};

static inline void engine_end_open(struct engine_end *end, const struct ripc__mpa_terms *terms,
				   bool active, uint32_t segment)
{
	static const uint8_t secret[16] = "rig";

	memset(end, 0, sizeof(*end));
	ripc__regions_init(&end->regions, secret);
	ripc__slab_pool_init(&end->pool, 64u << 20);
	end->slab = ripc__slab_get(&end->pool, RIPC__SLAB_BYTES);
	ripc__engine_init(&end->e, &end->regions, &end->pool, terms, active, segment);
}

static inline void region_unused(struct ripc__node *node, void *arg)
{
	(void)arg;
	ck_assert_uint_eq(((struct ripc__region *)node)->users, 0);
}

/* Ends it; checks that no reference to memory is left. */
static inline void engine_end_close(struct engine_end *end)
{
	const struct ripc__region *local;

	ripc__engine_fini(&end->e);
	ripc__list_for_each_entry (local, &end->regions.local, link)
		ck_assert_uint_eq(local->users, 0);
	ripc__table_each(&end->regions.table, region_unused, NULL);
	ripc__regions_fini(&end->regions);
	ck_assert_uint_eq(end->slab->refs, 1);
	ripc__slab_put(end->slab);
	ck_assert_uint_eq(end->pool.bytes, end->pool.nfree * RIPC__SLAB_BYTES);
	ripc__slab_pool_fini(&end->pool);
	free(end->recv);
}

static inline void engine_end_events(struct engine_end *end)
{
	struct ripc__event ev;

	while (ripc__engine_next(&end->e, &ev)) {
		switch (ev.kind) {
		case RIPC__EV_RECV:
			while (end->recv_cap < end->recv_len + ev.len) {
				end->recv_cap = end->recv_cap ? 2 * end->recv_cap : 65536;
				end->recv = realloc(end->recv, end->recv_cap);
				ck_assert_ptr_nonnull(end->recv);
			}
			if (ev.len)
				memcpy(end->recv + end->recv_len, ev.data, ev.len);
			end->recv_len += ev.len;
			end->lens[end->nrecv++ % 4096] = ev.len;
			ripc__slab_put(ev.token);
			break;
		case RIPC__EV_READ_DONE:
			end->nread++;
			end->last_wr_id = ev.wr_id;
			break;
		case RIPC__EV_WRITE_DONE:
			end->nwrite++;
			end->last_wr_id = ev.wr_id;
			break;
		default:
			ck_abort_msg("event %d", ev.kind);
		}
	}
}

/* Feeds n bytes at p to the engine by as many receives as it needs. */
static inline void engine_end_feed(struct engine_end *end, const uint8_t *p, size_t n)
{
	while (n && !end->e.status) {
		struct iovec iov[RIPC__RX_IOV];
		size_t done = 0;
		unsigned niov;

		if (end->slab->refs == 1)
			end->used = 0;
		if (RIPC__SLAB_BYTES - end->used < 2 * RIPC__STASH_BYTES) {
			ripc__slab_put(end->slab);
			end->slab = ripc__slab_get(&end->pool, RIPC__SLAB_BYTES);
			ck_assert_ptr_nonnull(end->slab);
			end->used = 0;
		}
		niov = ripc__engine_rx_buffer(&end->e, end->slab->data + end->used,
					      RIPC__SLAB_BYTES - end->used, end->expected, iov);
		ck_assert(niov >= 1 && niov <= RIPC__RX_IOV);
		for (unsigned i = 0; i < niov; i++) {
			size_t part = iov[i].iov_len < n ? iov[i].iov_len : n;

			if (part)
				memcpy(iov[i].iov_base, p, part);
			p += part;
			n -= part;
			done += part;
		}
		ck_assert_uint_gt(done, 0);
		end->used += ripc__engine_received(&end->e, end->slab, done);
		end->direct += end->e.rx.ahead != 0;
		engine_end_events(end);
	}
}

/* The next bytes to transmit, at most cap. Return: how many. */
static inline size_t engine_end_take(struct engine_end *end, uint8_t *buf, size_t cap)
{
	struct iovec iov[3 * RIPC__FRAMED_MAX];
	unsigned niov = ripc__engine_gather(&end->e, iov, 3 * RIPC__FRAMED_MAX, cap);
	size_t n = 0;

	for (unsigned i = 0; i < niov && n < cap; i++) {
		size_t part = iov[i].iov_len < cap - n ? iov[i].iov_len : cap - n;

		if (part)
			memcpy(buf + n, iov[i].iov_base, part);
		n += part;
	}
	ripc__engine_sent(&end->e, n);
	end->out += n;
	return n;
}

/* Builds an FPDU at p. @extra: bytes behind the header. Return: its length. */
static inline size_t make_fpdu(uint8_t *p, size_t header, const void *extra, size_t len, bool crc)
{
	size_t n = header + len;

	if (len)
		memcpy(p + header, extra, len);
	memset(p + n, 0, 7);
	n = (n + 3) & ~(size_t)3;
	if (crc)
		ripc__put_le32(p + n, ripc__crc32c(0, p, n));
	return n + 4;
}

#endif
