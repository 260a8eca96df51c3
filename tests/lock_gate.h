/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A page that stops each thread that touches it until a condition holds: shows that no other thread
 * waits for the stopped one.
 */
#ifndef RIPC_TESTS_LOCK_GATE_H
#define RIPC_TESTS_LOCK_GATE_H

#include <stdbool.h>
#include <stdint.h>

#define GATE_BYTES ((size_t)4096)

/*
 * Shuts GATE_BYTES at page. The first to touch them is stopped there until meanwhile(arg) has
 * returned in another thread, 20 s at most. One gate at a time; it has the handler of SIGSEGV until
 * it is opened.
 */
void gate_shut(uint8_t *page, bool (*meanwhile)(void *arg), void *arg);

/* Whether somebody has come to it. */
bool gate_stopped(void);

/*
 * Opens it. The test has failed if somebody was stopped, and meanwhile() waited until he was let go
 * or returned false. Return: whether somebody was stopped.
 */
bool gate_open(void);

#endif
