/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the sending calls and the calls that tell about them share. */
#ifndef RIPC_CORE_MESSAGE_SEND_H
#define RIPC_CORE_MESSAGE_SEND_H

#include "core/progress/context.h"
#include "core/peer/peer.h"

/*
 * What a short message's header takes from a send at most: the fixed header, the instance id, 64
 * item lengths.
 */
#define RIPC__SHORT_FIXED (RIPC__HEADER_LEN + 16 + RIPC_ITEMS_MAX * 4)

/* Largest short message to a destination and what carries it; 0: not connected. */
uint64_t ripc__short_max(const struct ripc *ctx, const struct ripc__dest *d, const char **transport);

/* Checks what every call on a service checks before it takes the lock. *ctx: whose lock. */
int ripc__check_call(struct ripc_service *s, uint64_t dest, struct ripc **ctx);

#endif
