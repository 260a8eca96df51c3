/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The contexts of a group that this context knows, and the control messages to them. Lock held. */
#ifndef RIPC_CORE_GROUP_MEMBERSHIP_H
#define RIPC_CORE_GROUP_MEMBERSHIP_H

#include "core/group/group.h"

struct ripc__record;

struct ripc__member *ripc__member_find(struct ripc__group *g, const uint8_t instance[16]);
void ripc__member_free(struct ripc__group *g, struct ripc__member *m);
/*
 * Adds or updates a context and its addresses. Return: NULL: out of memory, or too many. Pointers
 * to the old entry become invalid.
 */
struct ripc__member *ripc__member_put(struct ripc__group *g, const struct ripc__record *record,
				      enum ripc__group_role role);
bool ripc__member_has_record(const struct ripc__member *m, const struct ripc__record *record);
/* Sets an expiry, unless an earlier one is set. */
void ripc__member_expire(struct ripc__group *g, struct ripc__member *m, uint64_t after_ns);
/* The members, or those that are not listed, get time to appear in the list of a coordinator. */
void ripc__members_expire(struct ripc__group *g, bool unlisted);
/* A sender waits for a lane to the peer of a member; NULL: for none. */
void ripc__member_want(struct ripc__member *m, struct ripc__peer *p);

/* The lane to a context of the group; NULL: none. */
struct ripc__lane *ripc__group_lane(struct ripc__group *g, const uint8_t instance[16]);
/* Sends JOIN, MEMBER or COORDINATOR with its two numbers and a record of len bytes, or none. */
void ripc__group_notify(struct ripc__lane *lane, unsigned kind, uint64_t group, uint64_t a,
			uint64_t b, const uint8_t *record, size_t len);
/*
 * Encodes this context's own record. buf: RIPC__RECORD_BYTES_MAX bytes. Return: bytes; 0: it cannot
 * be encoded.
 */
size_t ripc__group_own_record(struct ripc__group *g, uint8_t *buf);

#endif
