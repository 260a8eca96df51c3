/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Transfers of the iWARP engine, with arguments in place of the struct. */
#ifndef RIPC_TESTS_TRANSPORT_IWARP_SOFT_ENGINE_TRANSFER_H
#define RIPC_TESTS_TRANSPORT_IWARP_SOFT_ENGINE_TRANSFER_H

#include "transport/iwarp/soft/engine.h"

static inline int engine_write(struct ripc__engine *e, struct ripc__region *region,
			       const void *local, size_t len, uint64_t raddr, uint32_t rkey,
			       uint64_t wr_id)
{
	const struct ripc__mr mr = {.priv = region};
	const struct ripc__transfer x = {RIPC__WRITE, 0,     &mr,  (uint8_t *)(uintptr_t)local,
					 len,         raddr, rkey, wr_id};

	return ripc__engine_write(e, &x);
}

static inline int engine_read(struct ripc__engine *e, struct ripc__region *region, uint8_t *local,
			      size_t len, uint64_t raddr, uint32_t rkey, uint64_t wr_id)
{
	const struct ripc__mr mr = {.priv = region};
	const struct ripc__transfer x = {RIPC__READ, 0, &mr, local, len, raddr, rkey, wr_id};

	return ripc__engine_read(e, &x);
}

#endif
