/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef RIPC_TESTS_RESOLVER_FIND_H
#define RIPC_TESTS_RESOLVER_FIND_H

#include "resolver/core.h"

/* Reads the record of a service. */
static inline bool core_find(struct ripc__rcore *core, uint64_t service,
			     struct ripc__record *record, uint64_t now_ns)
{
	return ripc__rcore_peek(core, service, record, now_ns) && record->ttl_ms;
}

#endif
