/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The state of a resolver, shared by resolver.c, backends.c and report.c. */
#ifndef RIPC_RESOLVER_INTERNAL_H
#define RIPC_RESOLVER_INTERNAL_H

#include "base/resolver_chain.h"
#include "resolver/core.h"

#define RIPC__LOG_SOURCES_MAX 64 /* sources of malformed messages remembered, to log each once */

/* A back end that could not be opened. */
struct ripc__disabled_backend {
	const char *name;
	char why[256];
};

struct ripc__resolver {
	struct ripc__rcore *core;
	struct ripc__backend *backends[RIPC__CHAIN_MAX];
	unsigned nbackends;
	int epoll_fd; /* < 0: the only back end has no descriptor and is polled in every call */
	struct ripc__auth *auth; /* the cluster's keys, or NULL */
	/* the back end local: the kernel of this host enforces that an id is held once; or NULL */
	struct ripc__backend *local;
	int inet; /* index of the back end that sends to IP addresses; -1: none */
	struct ripc__backend *registry;        /* the back end that keeps records, or NULL */
	struct ripc__backend_addr to_registry; /* sends to it alone */
	bool local_only;  /* the back end local receives forwarded requests and sends none */
	uint8_t host[16]; /* as in records */
	uint32_t timeout_ms;
	uint64_t now_ns; /* time of the last call */
	void (*describe)(const void *arg, uint8_t transport, const uint8_t *addr, size_t len,
			 char *text, size_t textlen);
	const void *describe_arg;
	char zookeeper_auth[160];      /* user:password, or empty */
	struct ripc__record found;     /* result of find() */
	struct ripc__listing *listing; /* the caller's, while it lists services; or NULL */
	uint64_t bad;                  /* datagrams dropped before the core decoded them */
	uint64_t sealed;               /* without keys: messages sealed by a context with a key */
	uint64_t logged_sources[RIPC__LOG_SOURCES_MAX];
	unsigned nlogged; /* lines logged so far */
	bool load_logged; /* the warning about the broadcast load was logged */
	struct ripc__disabled_backend disabled[RIPC__CHAIN_MAX];
	unsigned ndisabled;
};

#endif
