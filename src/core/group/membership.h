/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The contexts of a group that this one knows of, and what is said to them. Lock held. */
#ifndef RIPC_CORE_GROUP_MEMBERSHIP_H
#define RIPC_CORE_GROUP_MEMBERSHIP_H

#include "core/group/group.h"

struct ripc__record;

struct ripc__member *ripc__member_find(struct ripc__group *g, const uint8_t instance[16]);
void ripc__member_free(struct ripc__group *g, struct ripc__member *m);
/* Remembers a context and where it is. NULL: out of memory, or too many. One that was known may have moved in memory. */
struct ripc__member *ripc__member_put(struct ripc__group *g, const struct ripc__record *record,
				      enum ripc__group_role role);
/* It is to be forgotten after some time, unless that is so sooner already. */
void ripc__member_expire(struct ripc__group *g, struct ripc__member *m, uint64_t after_ns);

/* The lane to one, NULL: there is none. */
struct ripc__lane *ripc__group_lane(struct ripc__group *g, const uint8_t instance[16]);
/* Sends JOIN, MEMBER or COORDINATOR with its two numbers and a record, of len bytes or none. */
void ripc__group_notify(struct ripc__lane *lane, unsigned kind, uint64_t group, uint64_t a,
			uint64_t b, const uint8_t *record, size_t len);
/* Ourselves, as others are to know us. @buf: of RIPC__RECORD_BYTES_MAX. Return: bytes, 0: none that can be written. */
size_t ripc__group_own_record(struct ripc__group *g, uint8_t *buf);

#endif
