/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Shared by the tests of groups: contexts of one group, what they know of each other, and messages
 * to it.
 */
#ifndef RIPC_TESTS_CORE_GROUPS_H
#define RIPC_TESTS_CORE_GROUPS_H

#include "core/group/group.h"
#include "rig.h"

#define GROUP 77

extern struct rig rig; /* the test program defines it */
extern bool hostile;   /* the test sends malformed messages */

/* The first n contexts join the group. */
void join(unsigned n);
/* The group as context i knows it, or NULL. */
struct ripc__group *group(unsigned i);
struct ripc_group_stats stats(unsigned i);
/* The contexts from to to - 1 count so many members; how many of them coordinate. */
void expect_member_count(unsigned from, unsigned to, unsigned want);
unsigned coordinators(unsigned from, unsigned to);
/* A message of one context arrives at the members [first, last). */
void send_all(unsigned from, unsigned first, unsigned last);
/* A message of the group's protocol with the words a and b, over the lane between two contexts. */
void inject(unsigned from, unsigned to, unsigned kind, uint64_t a, uint64_t b, const uint8_t *tail,
	    size_t len);
/* After each test: no message was malformed, unless the test is hostile. */
void groups_teardown(void);

#endif
