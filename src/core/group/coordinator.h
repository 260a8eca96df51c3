/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The coordinator of a group (group.h): members report to it, and it announces changes to all. Lock
 * held.
 */
#ifndef RIPC_CORE_GROUP_COORDINATOR_H
#define RIPC_CORE_GROUP_COORDINATOR_H

#include "core/group/group.h"

#define RIPC__MEMBER_TIMEOUT_NS \
	(16000 * RIPC__MS) /* a member that sent no JOIN for this long is removed */

struct ripc__record;

/* The name of the group was registered for this context. */
void ripc__coordinator_start(struct ripc__group *g);
/* This context is not the coordinator (any more): other members search for another. */
void ripc__coordinator_resign(struct ripc__group *g);

/*
 * JOIN arrived, possibly at a context that is not the coordinator. Return: 0, or -EPROTO with *why.
 */
int ripc__coordinator_join(struct ripc__lane *lane, const struct ripc__header *h,
			   const struct ripc__record *record, const char **why);
/* Sends the whole list to a member that may have an older one. */
void ripc__coordinator_send_list(struct ripc__group *g, struct ripc__lane *lane);

/* Announces to all others that a member (about: its instance) or this context joined or left. */
void ripc__coordinator_announce(struct ripc__group *g, const uint8_t *about, const uint8_t *record,
				size_t len, bool present);
void ripc__coordinator_announce_self(struct ripc__group *g, bool present);

#endif
