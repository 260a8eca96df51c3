/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Datagrams of villas.binary: an accepted message lies in its bytes and is encoded the same. */
#include "fuzz.h"
#include "../tools/gateway/villas.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void check_again(const struct sample *s, uint8_t source, const uint8_t *data, size_t len)
{
	uint8_t out[VILLAS_MESSAGE_MAX];

	if (villas_encode(s, source, out, sizeof(out)) != len)
		abort();
	if (memcmp(out, data, VILLAS_HEADER_LEN))
		abort();
	/* The conversion to double and back may make a signalling NaN a quiet one. */
	for (unsigned i = 0; i < s->nvalues; i++) {
		const size_t at = VILLAS_HEADER_LEN + (size_t)4 * i;

		if (!isnan(s->values[i]) && memcmp(out + at, data + at, 4))
			abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	while (size) {
		const char *why = NULL;
		struct sample s;
		uint8_t source;
		size_t len = villas_decode(&s, &source, data, size, &why);

		if (!len) {
			if (!why || !*why)
				abort();
			break;
		}
		if (len > size || s.nvalues > SAMPLE_VALUES_MAX)
			abort();
		check_again(&s, source, data, len);
		data += len;
		size -= len;
	}
	return 0;
}
