/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "wire.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

static void put64(uint8_t *p, uint64_t v)
{
	v = htole64(v);
	memcpy(p, &v, 8);
}

static uint64_t get64(const uint8_t *p)
{
	uint64_t v;

	memcpy(&v, p, 8);
	return le64toh(v);
}

size_t wire_encode(const struct sample *sample, uint8_t *out)
{
	put64(out, sample->sequence);
	put64(out + 8, (uint64_t)sample->origin_ns);
	for (unsigned i = 0; i < sample->nvalues; i++) {
		uint64_t bits;

		memcpy(&bits, &sample->values[i], 8);
		put64(out + WIRE_HEADER_LEN + (size_t)8 * i, bits);
	}
	return WIRE_HEADER_LEN + (size_t)8 * sample->nvalues;
}

int wire_decode(struct sample *sample, const uint8_t *data, size_t len)
{
	if (len < WIRE_HEADER_LEN || len > WIRE_MAX || len % 8)
		return -EBADMSG;
	sample->sequence = get64(data);
	/* Differences of such times could overflow, and no other format can carry them. */
	if (get64(data + 8) >= (UINT32_MAX + UINT64_C(1)) * 1000000000)
		return -EBADMSG;
	sample->origin_ns = (int64_t)get64(data + 8);
	sample->nvalues = (unsigned)((len - WIRE_HEADER_LEN) / 8);
	for (unsigned i = 0; i < sample->nvalues; i++) {
		uint64_t bits = get64(data + WIRE_HEADER_LEN + (size_t)8 * i);

		memcpy(&sample->values[i], &bits, 8);
	}
	return 0;
}
