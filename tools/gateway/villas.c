/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "villas.h"

#include <float.h>
#include <math.h>
#include <string.h>

#define VERSION_2_DATA 0x20
#define NS_PER_S       1000000000

static void put16(uint8_t *p, uint16_t v)
{
	p[0] = (uint8_t)(v >> 8);
	p[1] = (uint8_t)v;
}

static void put32(uint8_t *p, uint32_t v)
{
	put16(p, (uint16_t)(v >> 16));
	put16(p + 2, (uint16_t)v);
}

static uint16_t get16(const uint8_t *p)
{
	return (uint16_t)(p[0] << 8 | p[1]);
}

static uint32_t get32(const uint8_t *p)
{
	return (uint32_t)get16(p) << 16 | get16(p + 2);
}

/* The conversion of a finite double outside the range of float is undefined in C. */
static float narrow(double value)
{
	if (isfinite(value) && fabs(value) > (double)FLT_MAX)
		return value > 0 ? INFINITY : -INFINITY;
	return (float)value;
}

size_t villas_encode(const struct sample *sample, uint8_t source_index, uint8_t *out, size_t room)
{
	const size_t len = VILLAS_HEADER_LEN + (size_t)4 * sample->nvalues;

	if (room < len || sample->origin_ns < 0 || sample->origin_ns / NS_PER_S > UINT32_MAX)
		return 0;
	out[0] = VERSION_2_DATA;
	out[1] = source_index;
	put16(out + 2, (uint16_t)sample->nvalues);
	put32(out + 4, (uint32_t)sample->sequence);
	put32(out + 8, (uint32_t)(sample->origin_ns / NS_PER_S));
	put32(out + 12, (uint32_t)(sample->origin_ns % NS_PER_S));
	for (unsigned i = 0; i < sample->nvalues; i++) {
		const float value = narrow(sample->values[i]);
		uint32_t bits;

		memcpy(&bits, &value, 4);
		put32(out + VILLAS_HEADER_LEN + (size_t)4 * i, bits);
	}
	return len;
}

static const char *header_fault(const uint8_t *data, size_t len)
{
	if (len < VILLAS_HEADER_LEN)
		return "the header is cut: it needs 16 bytes";
	if (data[0] >> 4 != 2)
		return "the version is not 2";
	if (data[0] & 0xc)
		return "the type is not data";
	if (data[0] & 0x3)
		return "the reserved bits are not 0";
	if (get16(data + 2) > SAMPLE_VALUES_MAX)
		return "it has more than 64 values";
	if (len - VILLAS_HEADER_LEN < (size_t)4 * get16(data + 2))
		return "the values are cut";
	if (get32(data + 12) >= NS_PER_S)
		return "the nanoseconds of its origin time are above 999999999";
	return NULL;
}

size_t villas_decode(struct sample *sample, uint8_t *source_index, const uint8_t *data, size_t len,
		     const char **why)
{
	const char *fault = header_fault(data, len);

	if (fault) {
		*why = fault;
		return 0;
	}
	*source_index = data[1];
	sample->nvalues = get16(data + 2);
	sample->sequence = get32(data + 4);
	sample->origin_ns = (int64_t)get32(data + 8) * NS_PER_S + get32(data + 12);
	for (unsigned i = 0; i < sample->nvalues; i++) {
		const uint32_t bits = get32(data + VILLAS_HEADER_LEN + (size_t)4 * i);
		float value;

		memcpy(&value, &bits, 4);
		sample->values[i] = (double)value;
	}
	return VILLAS_HEADER_LEN + (size_t)4 * sample->nvalues;
}
