/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Shared by the tests of calls: a caller, servers that answer or keep requests, and the calls
 * between them.
 */
#ifndef RIPC_TESTS_CORE_CALL_CALLS_H
#define RIPC_TESTS_CORE_CALL_CALLS_H

#include "core/rig.h"

#define EXECUTED_MAX 4096

/* A server: answers each request, which begins with a number, with the same bytes. */
struct server {
	struct ripc_service *s;
	unsigned executed[EXECUTED_MAX]; /* times that it received the request with this number */
	bool keep;                       /* it keeps requests in kept instead of answering them */
	struct ripc_message *kept[64];
	unsigned nkept;
	size_t reply_len; /* 0: that of the request */
	uint8_t *reply;
	struct ripc_request *answer[8];   /* long answers under way, */
	struct ripc_message *answered[8]; /* and their requests */
};

extern struct rig rig;           /* context 0 calls */
extern struct server servers[3]; /* the first is service 1 */
extern unsigned nservers;        /* that serve while the network runs */

/* Around each test: two contexts, of which the second serves. */
void calls_setup(void);
void calls_setup_with(void (*change)(struct ripc__sim_config *config));
void calls_teardown(void);

/* The number that a message begins with. */
uint64_t number_of(const struct ripc_message *m);
/* A call with this number and length. */
int start(uint64_t dest, uint64_t n, size_t len, const struct ripc_call_options *o, int timeout_ms,
	  struct ripc_request **r);
/* The result of a call; 0: its answer has this number. */
int result(struct ripc_request **r, uint64_t n);
/* Both, with service 1. */
int call(uint64_t n, size_t len, int timeout_ms);
/* Runs until the first server keeps n requests. */
void await_kept(unsigned n);
/* Answers request i of them with its bytes. */
int reply_kept(unsigned i);

/* The servers receive and answer; the network calls it. */
void serve_all(void *arg);
/* Another context takes service 1 over, as the second server. */
void open_second_holder(void);

#endif
