/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Resolver messages: what is accepted means exactly its bytes. */
#include "fuzz.h"
#include "wire/record.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t again[RIPC__RECORD_BYTES_MAX + 24];
	struct ripc__resolver_msg msg;
	struct ripc__record record;
	const char *why = NULL;
	int len;

	if (!ripc__resolver_msg_decode(&msg, data, size, &why)) {
		len = ripc__resolver_msg_encode(&msg, again, sizeof(again));
		if (len < 0 || (size_t)len != size || memcmp(again, data, size))
			abort();
	} else if (!why) {
		abort();
	}
	if (!ripc__record_decode(&record, data, size, &why)) {
		len = ripc__record_encode(&record, again, sizeof(again));
		if (len < 0 || (size_t)len != size || memcmp(again, data, size))
			abort();
	}
	return 0;
}
