/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Staging buffers of a lane. To register memory for one message and to end that again takes longer than copying some ten
 * kilobytes: items up to RIPC__BOUNCE_ITEM_MAX are copied out of, or into, buffers that stay registered for as long as the lane
 * is busy: for its peer to read, for its peer to write, or for our own writes. Those that the peer reaches hold nothing but what
 * this peer was sent, or has written; nobody else gets them before they are registered no more. Under the context's lock.
 */
#ifndef RIPC_CORE_MEMORY_BOUNCE_H
#define RIPC_CORE_MEMORY_BOUNCE_H

#include "base/list.h"
#include "transport/transport.h"

#include <stdbool.h>

#define RIPC__BOUNCE_ITEM_MAX (64u << 10) /* bytes of the largest item that is staged */
#define RIPC__BOUNCE_LANE_MAX \
	(1u << 20) /* bytes of one lane, for each of the two ways: out and in */
#define RIPC__BOUNCE_CTX_MAX \
	(32u << 20) /* bytes of a context; beyond that memory is registered for each message */

struct ripc;
struct ripc__lane;
struct ripc__region;

struct ripc__bounce {
	struct ripc__list link; /* in lane->stages; in none when the lane is closed */
	struct ripc *ctx;
	struct ripc__lane *lane;     /* NULL when it is closed: the peer cannot reach it any more */
	struct ripc__region *region; /* of the pool; its bytes are at region->base */
	struct ripc__mr mr;          /* all of it; with lane */
	bool busy;                   /* in the hands of a message or a return buffer */
};

/*
 * A buffer for an item of len bytes; access: RIPC__ACCESS_REMOTE_READ or _WRITE, or 0 for the source of our own writes. NULL: the
 * item is too large, registering is cheap on this lane, or there is no memory or too much is in use; then what is to be reached
 * is registered itself.
 */
struct ripc__bounce *ripc__bounce_get(struct ripc__lane *lane, size_t len, unsigned access);
/* The message it served is over. */
void ripc__bounce_put(struct ripc__bounce *bounce);
/* Gives back those that are not busy: the lane has nothing to do. */
void ripc__bounces_trim(struct ripc__lane *lane);
/*
 * Registering has failed: gives back those of all lanes that are not busy, what lies idle in the pool, and the registrations kept
 * for other regions that are not in use. Return: whether there was anything.
 */
bool ripc__idle_mrs_release(struct ripc *ctx);
/* As the transport's reg(), for one transfer over the lane: what fails is tried once more when all that has been given back. */
int ripc__reg_with_retry(struct ripc__lane *lane, void *base, size_t len, unsigned access,
			 struct ripc__mr *mr);
/* The endpoint is closed: none can be reached any more. Those that are busy go with their ripc__bounce_put(). */
void ripc__bounces_lane_gone(struct ripc__lane *lane);

#endif
