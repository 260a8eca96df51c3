/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef RIPC_TESTS_RESOLVER_DESCRIBE_H
#define RIPC_TESTS_RESOLVER_DESCRIBE_H

#include "base/text.h"
#include "resolver/resolver.h"

/* All entries of a resolver in one line. */
static inline void describe_entries(struct ripc__resolver *r, char *text, size_t len)
{
	const char *name;
	char one[512];
	size_t at = 0;

	for (unsigned i = 0; ripc__resolver_entry(r, i, &name, one, sizeof(one)) >= 0; i++)
		at = ripc__append(text, len, at, "%s%s: %s", at ? "; " : "", name, one);
}

#endif
