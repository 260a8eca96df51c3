/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The history of many calls, and a checker of the promises of ripc_call() (ripc.h). The history is
 * written by the applications of a simulation: their calls, the requests that they received, and
 * their results. The checker is a function of the history alone, without access to the library.
 *
 * Rules, by the name that a violation begins with:
 *   unknown      an execution, or an end, of a call that nobody started
 *   twice        a call is executed more than once, and is not idempotent
 *   early        a call is executed before it starts
 *   ended-twice  a call ends more than once
 *   never-ended  a call does not end, and its caller was not killed
 *   late         a call ends HISTORY_SLACK_NS after its deadline, and its caller ran all along
 *   answer       result 0, but the answer is not that of an execution of this call
 *   refused      an error of the service, but no execution of this call has given it
 *   executed     a result that means "not executed", but the call is executed
 *   result       a result that ripc_call() does not have
 */
#ifndef RIPC_TESTS_SCALE_CALL_HISTORY_H
#define RIPC_TESTS_SCALE_CALL_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The time of CALL_CANCEL, and of an application that waits in another call. */
#define HISTORY_SLACK_NS UINT64_C(1500000000)

enum history_kind {
	HISTORY_STARTED,  /* the caller starts a call */
	HISTORY_EXECUTED, /* ripc_receive() returns its request to a service */
	HISTORY_ENDED,    /* the caller has its result */
	HISTORY_KILLED,   /* the caller dies: this call need not end */
};

struct history_event {
	enum history_kind kind;
	/* ENDED */
	int result;
	bool withdrawn; /* by ripc_request_cancel() */
	bool has_reply; /* the service has answered, maybe with an error */
	bool paused;    /* the caller was suspended during the call: it may end late */
	/* STARTED */
	bool idempotent;
	uint64_t call; /* its number, which its request contains: no two calls have the same */
	uint64_t at_ns;
	uint64_t deadline_ns; /* STARTED; UINT64_MAX: none */
	/*
	 * EXECUTED: the life of the server that executes it: no two lives of any server are the
	 * same. ENDED with result 0: as the answer states it.
	 */
	uint64_t life;
	uint64_t answered; /* ENDED with result 0: the call for which the answer was made */
};

struct history {
	struct history_event *events;
	size_t n, cap;
};

/* Ends the program when there is no memory. */
void history_add(struct history *h, const struct history_event *event);
void history_free(struct history *h);

/*
 * Checks all rules. Return: number of violations; the first is described in why, "" without any.
 * The events may be in any order.
 */
size_t history_check(const struct history *h, char *why, size_t len);

#endif
