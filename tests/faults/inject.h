/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Makes the n-th call of libibverbs or librdmacm fail. The linker puts these functions in place of
 * the libraries' (--wrap, see local.mk); those that are inline in verbs.h are replaced in each
 * context's table. Calls that only take down (destroy, deregister, close) never fail: nobody could
 * do anything about it.
 */
#ifndef RIPC_TESTS_FAULTS_INJECT_H
#define RIPC_TESTS_FAULTS_INJECT_H

/* From now on the n-th call fails, and no other; 0: none. Starts to count anew. */
void fault_arm(unsigned n);

/* The same, but the n-th call does not fail: the process is killed instead of it. */
void fault_arm_kill(unsigned n);

/* Calls since then. A poll counts only if it finds completions: else there is no end of them. */
unsigned fault_calls(void);

/* The name of the call that failed, or NULL: none did. */
const char *fault_name(void);

#endif
