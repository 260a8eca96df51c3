/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Bounce buffers of a lane. Registering and deregistering memory for one message takes longer than
 * a copy of some ten KiB. So items up to RIPC__BOUNCE_ITEM_MAX are copied through buffers that stay
 * registered while the lane is in use. The peer reads or writes them, or they are the source of own
 * writes. A buffer that the peer can reach holds only data sent to or written by this peer, and is
 * deregistered before it is reused elsewhere. All functions need the context's lock.
 */
#ifndef RIPC_CORE_MEMORY_BOUNCE_H
#define RIPC_CORE_MEMORY_BOUNCE_H

#include "base/list.h"
#include "transport/transport.h"

#include <stdbool.h>

#define RIPC__BOUNCE_ITEM_MAX (64u << 10) /* bytes of the largest item that is copied */
#define RIPC__BOUNCE_LANE_MAX (1u << 20)  /* bytes of one lane, per direction */
#define RIPC__BOUNCE_CTX_MAX \
	(32u << 20) /* bytes of a context; above, memory is registered for each message */

struct ripc;
struct ripc__lane;
struct ripc__region;

struct ripc__bounce {
	struct ripc__list link;  /* in lane->memory->bounces; not in a list if the lane is closed */
	struct ripc__lane *lane; /* NULL when closed: the peer cannot reach the buffer any more */
	struct ripc__region *region; /* from the pool; the data is at region->base */
	struct ripc__mr mr;          /* the whole buffer; valid while lane is set */
	bool busy;                   /* used by a message or a return buffer */
};

/*
 * Allocates a bounce buffer for len bytes. access: RIPC__ACCESS_REMOTE_READ or _WRITE, or 0 for the
 * source of our own writes. Return: NULL: the item is too large, registration is cheap on this
 * lane, or a limit is reached; the caller registers the memory itself.
 */
struct ripc__bounce *ripc__bounce_get(struct ripc__lane *lane, size_t len, unsigned access);
/* Frees the buffer when its message has ended. */
void ripc__bounce_put(struct ripc__bounce *bounce);
/* Frees the buffers that are not in use. Call when the lane is idle. */
void ripc__bounces_trim(struct ripc__lane *lane);
/*
 * A registration failed: frees the idle bounce buffers of all lanes, idle pool buffers and unused
 * cached registrations. Return: whether any was freed.
 */
bool ripc__idle_mrs_release(struct ripc *ctx);
/*
 * Registers memory for one transfer over the lane. After a failure it releases idle registrations
 * and retries once. Return: as reg(), and -ENOTCONN also if the lane's device was removed.
 */
int ripc__reg_with_retry(struct ripc__lane *lane, void *base, size_t len, unsigned access,
			 struct ripc__mr *mr);
/*
 * The endpoint is closed and no peer can reach its buffers. Buffers in use are freed by
 * ripc__bounce_put().
 */
void ripc__bounces_lane_gone(struct ripc__lane *lane);

#endif
