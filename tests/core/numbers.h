/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Shared by the tests of waiting: real threads on the loopback that send and receive numbers. */
#ifndef RIPC_TESTS_CORE_NUMBERS_H
#define RIPC_TESTS_CORE_NUMBERS_H

#include "harness.h"
#include "ripc.h"

#include <stdatomic.h>

#define PATIENCE_MS 60000
#define ID(i)       (first_id + (i))

extern uint64_t first_id; /* of services that no other test on this host has */

#define OK(call)                                                                                   \
	do {                                                                                       \
		int rc_ = (call);                                                                  \
		ck_assert_msg(!rc_, "%s: %s: %s", #call, ripc_strerror(rc_), ripc_error_detail()); \
	} while (0)

/* Around each test: ids of its own, and iwarp/soft over the loopback. */
void numbers_setup(void);

uint64_t now_ms(void);
int send_number(struct ripc_service *from, uint64_t to, uint64_t number);
int receive_number(struct ripc_service *s, uint64_t *number, int timeout_ms);

/* A thread that receives one. */
struct waiter {
	struct ripc_service *s;
	uint64_t number, took_ms;
	int timeout_ms, rc;
	atomic_bool done;
};

void *waiter_main(void *arg);

#endif
