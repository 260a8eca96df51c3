/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Shared by the tests of errors: each public function, a world in which it can be called with valid
 * arguments, and these arguments. A test changes one of them.
 */
#ifndef RIPC_TESTS_CORE_CONTEXT_FUNCTIONS_H
#define RIPC_TESTS_CORE_CONTEXT_FUNCTIONS_H

#include "core/group/group.h"
#include "core/rig.h"

#define GROUP 5 /* service 0 is its only member */

extern struct rig rig; /* context 0 is the caller's; service 1 answers and drops messages */

/* The handle with which a function begins. */
enum of { CONTEXT, SERVICE, MESSAGE, REQUEST };

/* Its other arguments. STRUCT: out has a member size. OUT: and must not be NULL. */
enum {
	OUT = 1 << 0,
	STRUCT = 1 << 1,
	MEMORY = 1 << 2,
	ITEMS = 1 << 3,
	SEND_OPTIONS = 1 << 4,
	CALL_OPTIONS = 1 << 5,
	DEST = 1 << 6,
	TIMEOUT = 1 << 7,
	ENDLESS = 1 << 8, /* it waits for what does not come */
};
#define SENDS (ITEMS | SEND_OPTIONS | DEST | TIMEOUT)

struct function {
	const char *name;
	int (*call)(void);
	enum of of;
	unsigned has;
	int rc, rc_now; /* with valid arguments, and with timeout 0 */
	unsigned flags; /* that it takes */
};
#define FUNCTIONS 45
extern const struct function functions[FUNCTIONS];

union any {
	size_t size;
	struct ripc_request *request;
	struct ripc_message *message;
	struct ripc_service *service;
	struct ripc_send_options send;
	struct ripc_call_options call;
	uint8_t bytes[65536 + 1];
};

extern struct arguments {
	struct ripc *ctx;
	struct ripc_service *s;
	uint64_t id, dest, group;
	const struct iovec *items;
	unsigned nitems, flags;
	void *options; /* struct ripc_send_options or ripc_call_options */
	void *out;     /* where a result is stored */
	uint8_t *memory;
	size_t len;
	struct ripc_message *message, *question; /* long; the request of a call */
	struct ripc_request **request, **call;
	const char *name;
	ripc_service_list_fn *fn;
	int timeout_ms;
	/* what these point to */
	struct iovec item[RIPC_ITEMS_MAX + 1];
	union any result, option;
	struct ripc_request *pending, *pending_call; /* to a service that nobody has; unanswered */
	uint8_t bytes[4096]; /* 100 are registered, and 100 more with a window from 1000 on */
} a;

/* Opens the world for a call of f, and closes it. context 0 may be closed and NULL. */
void open_world(const struct function *f);
void close_world(void);
/* Valid arguments for f again. */
void arguments(const struct function *f);
/* No service answers from now on. */
void stop_serving(void);

/* The counters and tables of the caller: a refused call changes none of them. */
struct state {
	struct ripc_stats stats;
	size_t services, requests, messages, completions, regions, windows, returns;
	size_t calls, dests, groups;
};

struct state state_of_caller(void);

#endif
