/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Shared by the tests of the interface of 2012: two services, and messages of one item between
 * them.
 */
#ifndef RIPC_TESTS_COMPAT_COMPAT_H
#define RIPC_TESTS_COMPAT_COMPAT_H

#include "harness.h"
#include "ripc.h"
#include "ripc_compat.h"

#include <stdlib.h>
#include <string.h>

/* The result of ripc_compat_receive(). */
struct got {
	uint16_t from, nshort, nlong;
	void **shorts, **longs;
	uint32_t *short_sizes, *long_sizes;
};

static uint16_t alice, bob;

static inline void setup(void)
{
	/*
	 * The 65535 ids of 2012 are few, and some are fixed here: another run on this host may have
	 * them.
	 */
	test_own_network();
	alice = ripc_compat_register_random_service_id();
	bob = ripc_compat_register_random_service_id();
	ck_assert(alice && bob && alice != bob);
}

static inline struct got receive(uint16_t service)
{
	struct got g;

	memset(&g, 0xee, sizeof(g));
	ck_assert_uint_eq(ripc_compat_receive(service, &g.from, &g.shorts, &g.short_sizes,
					      &g.nshort, &g.longs, &g.long_sizes, &g.nlong),
			  0);
	return g;
}

static inline void free_arrays(struct got *g)
{
	free(g->shorts);
	free(g->short_sizes);
	free(g->longs);
	free(g->long_sizes);
}

/* One item each. */
static inline uint8_t send_one(int is_long, uint16_t from, uint16_t to, const void *p, uint32_t len)
{
	void *item = (void *)p;

	return is_long ? ripc_compat_send_long(from, to, &item, &len, 1, NULL, NULL, 0)
		       : ripc_compat_send_short(from, to, &item, &len, 1, NULL, NULL, 0);
}

static inline uint8_t send_with_return(uint16_t from, uint16_t to, void *buf, uint32_t len)
{
	void *item = "take this";
	uint32_t item_len = 9;

	return ripc_compat_send_short(from, to, &item, &item_len, 1, &buf, &len, 1);
}

#endif
