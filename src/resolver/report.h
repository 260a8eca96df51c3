/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Texts for people: the holder of a service, the cause of a failed look-up, the state of back ends.
 */
#ifndef RIPC_RESOLVER_REPORT_H
#define RIPC_RESOLVER_REPORT_H

#include <stddef.h>
#include <stdint.h>

struct ripc__holder;
struct ripc__record;
struct ripc__resolver;
struct ripc__resolver_event;

/*
 * "service 42 is held by instance 1a2b3c4d on iwarp/soft 127.0.0.1:4242, pid 77, uid 1000", as far
 * as known. @name: the name that we registered it by, or NULL. who: NULL if it is not a process of
 * this host.
 */
void ripc__report_holder(const struct ripc__resolver *r, uint64_t service, const char *name,
			 const struct ripc__record *record, const struct ripc__holder *who,
			 char *text, size_t len);
/* The text of UNRESOLVED: the back ends asked, and for how long. */
void ripc__report_failure(struct ripc__resolver *r, struct ripc__resolver_event *ev);

#endif
