/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A sample as nodes of type ripc send it, one per short message, all little-endian: sequence (8
 * bytes), origin time in nanoseconds since 1970 (8 bytes, below 2^32 s), values (8 bytes each, IEEE
 * 754 binary64). The number of values follows from the length.
 */
#ifndef RIPC_GATEWAY_WIRE_H
#define RIPC_GATEWAY_WIRE_H

#include "sample.h"

#include <stddef.h>

#define WIRE_HEADER_LEN 16
#define WIRE_MAX        (WIRE_HEADER_LEN + 8 * SAMPLE_VALUES_MAX)

/* @out takes WIRE_MAX bytes. Return: bytes written. */
size_t wire_encode(const struct sample *sample, uint8_t *out);

/* Sets all but received_ns. Return: 0, or -EBADMSG if that is no sample. */
int wire_decode(struct sample *sample, const uint8_t *data, size_t len);

#endif
