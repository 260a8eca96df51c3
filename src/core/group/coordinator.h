/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the keeper of a group does (core/group/group.h): it hears who comes and goes, and tells all others. Lock held. */
#ifndef RIPC_CORE_GROUP_COORDINATOR_H
#define RIPC_CORE_GROUP_COORDINATOR_H

#include "core/group/group.h"

#define RIPC__MEMBER_TIMEOUT_NS \
	(16000 * RIPC__MS)                      /* a member that does not repeat its JOIN is gone */
#define RIPC__MEMBER_GRACE_NS (3000 * RIPC__MS) /* a new keeper waits for members it has heard of */

struct ripc__record;

/* The name of the group is ours. */
void ripc__coordinator_start(struct ripc__group *g);
/* We are not the keeper, or not any more: all others have to look for another. */
void ripc__coordinator_resign(struct ripc__group *g);

/* JOIN arrived, also where we are no keeper. Return: 0, or -EPROTO with *why. */
int ripc__coordinator_join(struct ripc__lane *lane, const struct ripc__header *h,
			   const struct ripc__record *record, const char **why);

/* Tells all others that one came or went, and the same of ourselves. @about: its instance. */
void ripc__coordinator_announce(struct ripc__group *g, const uint8_t *about, const uint8_t *record,
				size_t len, bool present);
void ripc__coordinator_announce_self(struct ripc__group *g, bool present);

#endif
