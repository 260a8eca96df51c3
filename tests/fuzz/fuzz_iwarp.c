/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The iWARP engine against a hostile peer. The first byte of the input: bit 0 active side, bit 1
 * CRC, bit 2 set-up frames first, bit 3 CRCs are put right, bits 4-6 how the input is cut, bit 7 we
 * have work of our own outstanding. The rest is what the peer sends. Placeholders for what it could
 * know are filled in: see seed().
 */
#include "fuzz.h"
#include "transport/iwarp/address.h"
#include "transport/iwarp/soft/crc32c.h"
#include "transport/iwarp/soft/engine.h"
#include "transport/transport.h"

#include <stdlib.h>
#include <string.h>

#define CANARY 64u
#define LEN    2048u

#define require(condition)        \
	do {                      \
		if (!(condition)) \
			abort();  \
	} while (0)

struct world {
	struct ripc__engine e;
	struct ripc__regions regions;
	struct ripc__slab_pool pool;
	struct ripc__slab *slab;
	struct ripc__region *region[3];
	uint8_t memory[3][CANARY + LEN + CANARY];
};

/* Regions: 0 may be written, 1 may be read, 2 is local. */
static void make_world(struct world *w)
{
	static const uint8_t secret[16] = "fuzz";
	static const unsigned access[3] = {RIPC__ACCESS_REMOTE_WRITE, RIPC__ACCESS_REMOTE_READ,
					   RIPC__ACCESS_LOCAL_WRITE};

	memset(w, 0, sizeof(*w));
	memset(w->memory, 0xcc, sizeof(w->memory));
	ripc__regions_init(&w->regions, secret);
	ripc__slab_pool_init(&w->pool, 1u << 20);
	w->slab = ripc__slab_get(&w->pool, RIPC__SLAB_BYTES);
	require(w->slab);
	for (unsigned i = 0; i < 3; i++) {
		w->region[i] = ripc__region_add(&w->regions, w->memory[i] + CANARY, LEN, access[i]);
		require(w->region[i]);
	}
}

static void check_canaries(const struct world *w)
{
	for (unsigned i = 0; i < 3; i++)
		for (unsigned k = 0; k < CANARY; k++)
			require(w->memory[i][k] == 0xcc && w->memory[i][CANARY + LEN + k] == 0xcc);
	/* Read-only memory is not written. */
	for (unsigned k = 0; k < LEN; k++)
		require(w->memory[1][CANARY + k] == 0xcc);
}

/* STags 0, 1, 2 and small offsets stand for those of the regions, which no input could guess. */
static void seed(struct world *w, uint8_t *p, size_t len, bool repair)
{
	size_t at = 0;

	while (len - at >= 20) {
		size_t ulpdu = ripc__get_be16(p + at), whole = ripc__fpdu_size(ulpdu);
		uint8_t *stag = NULL, *to = NULL;

		if (p[at + 2] & RIPC__DDP_T) {
			stag = p + at + 4;
			to = p + at + 8;
		} else if ((p[at + 3] & 15) == RIPC__RDMAP_READ_REQUEST && len - at >= 48) {
			stag = p + at + 20 + 16;
			to = p + at + 20 + 20;
		} else if ((p[at + 3] & 15) == RIPC__RDMAP_SEND_INVALIDATE) {
			stag = p + at + 4;
		}
		if (stag && ripc__get_be32(stag) < 3) {
			const struct ripc__region *r = w->region[ripc__get_be32(stag)];

			ripc__put_be32(stag, r->stag);
			if (to && ripc__get_be64(to) < UINT64_C(0x8000000000000000))
				ripc__put_be64(to, ripc__get_be64(to) + r->addr);
		}
		if (whole > len - at)
			return;
		if (repair)
			ripc__put_le32(p + at + whole - 4, ripc__crc32c(0, p + at, whole - 4));
		at += whole;
	}
}

static void drain(struct world *w)
{
	struct iovec iov[48];
	unsigned n;

	while ((n = ripc__engine_gather(&w->e, iov, 48, 3000))) {
		size_t bytes = 0;

		for (unsigned i = 0; i < n; i++)
			bytes += iov[i].iov_len;
		require(bytes > 0);
		/* Half of it, so that most are cut. */
		ripc__engine_sent(&w->e, bytes > 1 ? bytes / 2 : bytes);
	}
}

static void feed(struct world *w, const uint8_t *p, size_t n, size_t cut)
{
	while (n && !w->e.status) {
		struct ripc__engine_event ev;
		struct iovec iov[RIPC__RX_IOV];
		size_t prefix, done = 0;
		uint8_t *data = w->slab->data;
		unsigned niov =
			ripc__engine_rx_buffer(&w->e, data, RIPC__SLAB_BYTES, NULL, iov, &prefix);

		for (unsigned i = 0; i < niov && done < cut; i++) {
			size_t part = iov[i].iov_len < n ? iov[i].iov_len : n;

			part = part < cut - done ? part : cut - done;
			if (part)
				memcpy(iov[i].iov_base, p, part);
			p += part;
			n -= part;
			done += part;
		}
		ripc__engine_received(&w->e, w->slab, done);
		while (ripc__engine_next(&w->e, &ev)) {
			if (ev.kind != RIPC__ENGINE_RECV)
				continue;
			require(ev.len <= RIPC__SEND_MAX);
			if (ev.len)
				require(ev.data[0] + ev.data[ev.len - 1] >= 0);
			ripc__slab_put(ev.token);
		}
		drain(w);
	}
}

static size_t set_up(const uint8_t *data, size_t size, bool active, struct ripc__mpa_terms *terms)
{
	struct ripc__mpa frame, other = {.revision = 2,
					 .enhanced = true,
					 .peer_to_peer = true,
					 .rtr = 7,
					 .ird = 32,
					 .ord = 32,
					 .soft = true};
	const char *why = NULL;
	uint8_t buf[RIPC__MPA_FRAME_MAX];
	int n = ripc__mpa_decode(&frame, active, data, size, &why);

	if (n <= 0) {
		require(n == 0 || why);
		return 0;
	}
	require((size_t)n <= size && frame.privlen <= RIPC__MPA_PRIVATE_MAX);
	if (active) {
		n = ripc__mpa_conclude(&other, &frame, terms, &why) || frame.reject ? 0 : n;
	} else {
		n = ripc__mpa_answer(&frame, false, 32, &other, terms, &why) ? 0 : n;
		require(ripc__mpa_encode(&other, buf, sizeof(buf)) >= RIPC__MPA_HEADER);
	}
	return (size_t)n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const size_t cuts[8] = {SIZE_MAX, 1, 2, 3, 19, 64, 300, 1000};
	struct ripc__mpa_terms terms = {
		.enhanced = true, .soft = true, .read_depth = 4, .serve_depth = 4, .rtr = 2};
	struct ripc__iwarp_address address;
	struct world *w;
	uint8_t *copy;
	uint8_t mode;
	bool active;

	if (size < 1 || size > 1u << 20)
		return 0;
	mode = *data++;
	size--;
	active = mode & 1;
	terms.crc = mode & 2;
	if (!ripc__iwarp_address_decode(&address, data, size))
		require(address.naddrs >= 1 && address.naddrs <= RIPC__IWARP_ADDRS_MAX);
	if (mode & 4) {
		size_t n = set_up(data, size, active, &terms);

		if (!n)
			return 0;
		data += n;
		size -= n;
	}
	w = malloc(sizeof(*w));
	copy = malloc(size + 1);
	if (!w || !copy) {
		free(w);
		free(copy);
		return 0;
	}
	make_world(w);
	memcpy(copy, data, size);
	seed(w, copy, size, terms.crc && (mode & 8));
	ripc__engine_init(&w->e, &w->regions, &w->pool, &terms, active, 1448);
	if (mode & 0x80) {
		for (unsigned i = 0; i < 3; i++)
			ripc__engine_read(&w->e, w->region[2], w->memory[2] + CANARY, 100 * i, 1, 1,
					  i);
		ripc__engine_write(&w->e, w->region[2], w->memory[2] + CANARY, LEN, 1, 1, 9);
		ripc__engine_send(&w->e, &(struct iovec){w->memory[2], 500}, 1, 500);
	}
	feed(w, copy, size, cuts[mode >> 4 & 7]);
	check_canaries(w);
	ripc__engine_revoke(&w->e, w->region[0]);
	require(w->region[0]->users == 0);
	drain(w);
	ripc__engine_fini(&w->e);
	for (unsigned i = 0; i < 3; i++)
		require(w->region[i]->users == 0);
	require(w->slab->refs == 1);
	ripc__slab_put(w->slab);
	require(w->pool.bytes == w->pool.nfree * RIPC__SLAB_BYTES);
	ripc__slab_pool_fini(&w->pool);
	ripc__regions_fini(&w->regions);
	free(copy);
	free(w);
	return 0;
}
