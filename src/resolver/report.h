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

/*
 * Writes to text[at...len-1] with a terminating 0. Return: the new end; >= len: the text is full.
 */
size_t ripc__append(char *text, size_t len, size_t at, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

/*
 * "service 42 is held by instance 1a2b3c4d on iwarp/soft 127.0.0.1:4242, pid 77, uid 1000", with
 * the parts that are known. who: NULL if it is not a process of this host.
 */
void ripc__report_holder(const struct ripc__resolver *r, uint64_t service,
			 const struct ripc__record *record, const struct ripc__holder *who,
			 char *text, size_t len);
/* Describes a failed look-up: the back ends asked, and for how long. */
void ripc__report_failure(struct ripc__resolver *r, uint64_t service, unsigned requests, char *text,
			  size_t len);

#endif
