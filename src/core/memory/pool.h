/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The cache of buffers, in classes of powers of two. Public part: buffer.h. Lock held. */
#ifndef RIPC_CORE_MEMORY_POOL_H
#define RIPC_CORE_MEMORY_POOL_H

#include "core/memory/buffer.h"

/* Unmaps or frees the memory of a region of the pool or of a peer. */
void ripc__pool_unmap(struct ripc *ctx, struct ripc__region *r);

#endif
