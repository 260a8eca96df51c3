/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Finds calls that hang. Its clock counts the ticks of a thread of the process, so the time in
 * which the process is stopped, or gets no processor, is not counted.
 */
#ifndef RIPC_TESTS_STRESS_WATCHDOG_H
#define RIPC_TESTS_STRESS_WATCHDOG_H

#include <stdint.h>

#define WATCHDOG_GRACE_MS 30000 /* beyond the timeout of the call */

void watchdog_start(void);
void watchdog_stop(void);
/* Milliseconds of the process. */
uint64_t watchdog_ms(void);
/* The calling thread makes calls from now on, and ends. */
void watchdog_join(void);
void watchdog_leave(void);
/* The result of call, which is made with this timeout. The name is that of the function. */
#define TIMED(timeout_ms, call)                      \
	({                                           \
		watchdog_begin(#call, (timeout_ms)); \
		__typeof__(call) result_ = (call);   \
		watchdog_end();                      \
		result_;                             \
	})
void watchdog_begin(const char *call, int timeout_ms);
void watchdog_end(void);

#endif
