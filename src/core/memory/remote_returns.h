/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Remote return buffers: the side of the peer that has the offers. A message claims one, writes
 * into it and releases it. The owner's side: buffer.h, local_returns.c.
 */
#ifndef RIPC_CORE_MEMORY_REMOTE_RETURNS_H
#define RIPC_CORE_MEMORY_REMOTE_RETURNS_H

#include "core/peer/peer.h"

/*
 * A peer offers one. call: its call whose answer alone may use it, or 0. Return: false: out of
 * memory, or the destination has too many; ignored.
 */
bool ripc__remote_return_add(struct ripc__dest *d, const struct ripc__desc *desc, uint64_t call,
			     bool pooled);
/* The call was answered, or will not be: drops the offers that came with it. d: or NULL. */
void ripc__remote_returns_drop_call(struct ripc__dest *d, uint64_t call);
/*
 * Claims one of at least len bytes for a message to d over the lane: the peer's application's
 * first, then with pooled the smallest pool buffer. call: the call that the message answers, or 0.
 * Return: NULL: none fits.
 */
struct ripc__remote_return *ripc__remote_return_claim(struct ripc__lane *lane, struct ripc__dest *d,
						      size_t len, uint64_t call, bool pooled);
/*
 * No write into the return buffer is left on this lane. The offer stays unless it was used or
 * revoked. lane: NULL if closed.
 */
void ripc__remote_return_release(struct ripc__lane *lane, struct ripc__dest *d,
				 struct ripc__remote_return *o, bool used);
/* REVOKE arrived: REVOKED is sent when no write is left. d: destination of the offer, or NULL. */
void ripc__remote_return_revoke(struct ripc__lane *lane, struct ripc__dest *d, uint64_t id);

#endif
