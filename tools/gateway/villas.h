/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The format villas.binary of VILLASnode: a datagram holds one message after the other. A message
 * is, in network byte order:
 *
 *	offset	bytes	meaning
 *	0	1	0x20: version 2 (bits 7-4), data (bits 3-2), reserved (bits 1-0)
 *	1	1	source index
 *	2	2	number of values
 *	4	4	sequence, its lower half
 *	8	4	origin time: seconds since 1970
 *	12	4	origin time: nanoseconds
 *	16	4 each	values, IEEE 754 binary32
 *
 * The functions do no I/O and keep no state.
 */
#ifndef RIPC_GATEWAY_VILLAS_H
#define RIPC_GATEWAY_VILLAS_H

#include "sample.h"

#include <stddef.h>

#define VILLAS_HEADER_LEN  16
#define VILLAS_MESSAGE_MAX (VILLAS_HEADER_LEN + 4 * SAMPLE_VALUES_MAX)

/*
 * Appends one message. A value outside the range of binary32 becomes infinite.
 * Return: bytes written; 0 if @room is too small or the origin time is outside of 1970 .. 2106.
 */
size_t villas_encode(const struct sample *sample, uint8_t source_index, uint8_t *out, size_t room);

/*
 * Decodes the first message of @len bytes; sets all of *@sample but received_ns, and the source
 * index. Return: bytes of the message; 0 if it is malformed, *@why is a sentence then.
 */
size_t villas_decode(struct sample *sample, uint8_t *source_index, const uint8_t *data, size_t len,
		     const char **why);

#endif
