/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The history of the calls between processes, in shared memory: it has all that a process did
 * before it was killed. The function that checks it is in scale/call_history.h.
 */
#ifndef RIPC_TESTS_CORE_CALL_BOARD_H
#define RIPC_TESTS_CORE_CALL_BOARD_H

#include "scale/call_history.h"

#define BOARD_PROCESSES 5
#define BOARD_OPEN_MAX  8                   /* calls of a process at once */
#define BOARD_EVENTS    (UINT64_C(1) << 17) /* then no further calls start */

struct board_event {
	struct history_event event;
	unsigned process;
	bool full; /* the process lived until it was stored */
};

struct board {
	uint64_t nevents, ncalls, nlives; /* given out so far */
	uint64_t nanswered;               /* calls with result 0 */
	bool calm;                        /* no further calls start */
	bool idle;                        /* a client that lives on has no call under way */
	bool leave[BOARD_PROCESSES];      /* the process closes its context and ends */
	char why[400];                    /* the first fault that a process saw */
	struct board_event events[BOARD_EVENTS];
};

struct board_counts {
	unsigned started, executed, answered, killed, failed;
};

extern struct board *board;

void board_new(void);
void board_free(void);
/* The next number of a counter of the board, from 1 on. */
uint64_t board_number(uint64_t *counter);
/* Whether there is room for further calls. */
bool board_has_room(void);
void board_log(unsigned process, const struct history_event *event);
/* Reports a fault; the first one stays. */
void board_complain(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* The process has ended: calls of it that have not ended need not end. */
void board_process_ended(unsigned process);
/* As history_check(). */
size_t board_check(struct board_counts *counts, char *why, size_t len);

#endif
