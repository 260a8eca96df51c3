/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What a resolver is made of, for the files that make it: resolver.c, backends.c, owed.c, report.c. */
#ifndef RIPC_RESOLVER_INSIDE_H
#define RIPC_RESOLVER_INSIDE_H

#include "resolver/chain.h"
#include "resolver/resolver.h"

#define RIPC__COMPLAINTS 64 /* sources of garbage remembered, so that each is logged once */

/* A back end that could not be opened. */
struct ripc__left_out {
	char name[sizeof(((struct ripc__chain_link *)0)->name)];
	char why[256];
};

struct ripc__resolver {
	struct ripc__rcore *core;
	struct ripc__backend *backends[RIPC__CHAIN_MAX];
	unsigned nbackends;
	struct ripc__owed *owed;
	uint64_t owed_ns; /* when to try for these again */
	int epoll_fd;
	struct ripc__auth *auth; /* the cluster's keys, or NULL */
	bool polled;             /* a back end without descriptors: looked at in every call */
	bool local;              /* the kernel of this host sees to it that an id is held once */
	bool quiet; /* the first back end, local, is there to hear what is passed on, and not to ask */
	uint32_t timeout_ms;
	uint64_t now_ns; /* as last told */
	void (*describe)(uint8_t transport, const uint8_t *addr, size_t len, char *text,
			 size_t textlen);
	char zookeeper_auth[160];  /* user:password, or empty */
	struct ripc__record found; /* what find() returns */
	uint64_t bad;              /* datagrams dropped before the core saw them */
	uint64_t sealed;           /* without keys: those of somebody who has one */
	uint64_t complaints[RIPC__COMPLAINTS];
	unsigned ncomplaints; /* lines logged */
	bool advised;         /* that so many speak here that broadcast is a burden */
	struct ripc__left_out left[RIPC__CHAIN_MAX];
	unsigned nleft;
};

#endif
