/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What a resolver is made of, for the files that make it: resolver.c, backends.c, owed.c, report.c. */
#ifndef RIPC_RESOLVER_INTERNAL_H
#define RIPC_RESOLVER_INTERNAL_H

#include "base/resolver_chain.h"
#include "resolver/resolver.h"

#define RIPC__LOG_SOURCES_MAX 64 /* sources of garbage remembered, so that each is logged once */

/* A back end that could not be opened. */
struct ripc__disabled_backend {
	char name[sizeof(((struct ripc__chain_link *)0)->name)];
	char why[256];
};

struct ripc__resolver {
	struct ripc__rcore *core;
	struct ripc__backend *backends[RIPC__CHAIN_MAX];
	unsigned nbackends;
	struct ripc__name_claim *name_claims;
	uint64_t name_claims_ns; /* when to try for these again */
	int epoll_fd;
	struct ripc__auth *auth; /* the cluster's keys, or NULL */
	bool polled;             /* a back end without descriptors: looked at in every call */
	bool local;              /* the kernel of this host sees to it that an id is held once */
	bool local_only; /* the first back end, local, is there to hear what is passed on, and not to ask */
	uint32_t timeout_ms;
	uint64_t now_ns; /* as last told */
	void (*describe)(uint8_t transport, const uint8_t *addr, size_t len, char *text,
			 size_t textlen);
	char zookeeper_auth[160];  /* user:password, or empty */
	struct ripc__record found; /* what find() returns */
	uint64_t bad;              /* datagrams dropped before the core saw them */
	uint64_t sealed;           /* without keys: those of somebody who has one */
	uint64_t logged_sources[RIPC__LOG_SOURCES_MAX];
	unsigned nlogged; /* lines logged */
	bool load_logged; /* that so many speak here that broadcast is a burden */
	struct ripc__disabled_backend disabled[RIPC__CHAIN_MAX];
	unsigned ndisabled;
};

#endif
