/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Shared by the tests of reliable short messages: numbers from service 0. */
#ifndef RIPC_TESTS_CORE_RELIABLE_RELIABLES_H
#define RIPC_TESTS_CORE_RELIABLE_RELIABLES_H

#include "core/reliable/reliable.h"
#include "core/rig.h"

extern struct rig rig;
extern const struct ripc_send_options reliable;

/* Around each test: two contexts. */
void reliable_setup(void);
void reliable_teardown(void);
/* Two new contexts, with room for all messages that a sender may have in flight. */
void restart_deep(void);

/* Number n, reliable, from service 0. */
int send_number(uint64_t dest, uint64_t n, int timeout_ms);
/* The next number of a service that is there already; 0: none. */
uint64_t take_number(struct ripc_service *s);
/* Service i has the numbers first..last, and nothing else. */
void expect_numbers(unsigned i, uint64_t first, uint64_t last);
/* How many messages context 1 has not acknowledged to context 0. */
unsigned unacked(void);

#endif
