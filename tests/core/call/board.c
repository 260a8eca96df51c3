/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "board.h"

#include "base/clock.h"
#include "harness.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

struct board *board;

void board_new(void)
{
	board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		     0);
	ck_assert_ptr_ne(board, MAP_FAILED);
}

void board_free(void)
{
	munmap(board, sizeof(*board));
}

uint64_t board_number(uint64_t *counter)
{
	return __atomic_add_fetch(counter, 1, __ATOMIC_RELAXED);
}

bool board_has_room(void)
{
	return board->nevents < BOARD_EVENTS / 2;
}

void board_log(unsigned process, const struct history_event *event)
{
	uint64_t i = board_number(&board->nevents) - 1;

	if (i >= BOARD_EVENTS) {
		board_complain("the board is full");
		return;
	}
	board->events[i].event = *event;
	board->events[i].process = process;
	__atomic_store_n(&board->events[i].full, true, __ATOMIC_RELEASE);
}

void board_complain(const char *fmt, ...)
{
	char text[sizeof(board->why)];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	fprintf(stderr, "%s\n", text);
	if (!*board->why)
		memcpy(board->why, text, sizeof(text));
}

void board_process_ended(unsigned process)
{
	uint64_t open[BOARD_OPEN_MAX] = {0};

	for (uint64_t i = 0; i < board->nevents; i++) {
		const struct board_event *b = &board->events[i];
		bool started = b->event.kind == HISTORY_STARTED;

		if (!b->full || b->process != process || b->event.kind == HISTORY_EXECUTED)
			continue;
		for (unsigned k = 0; k < BOARD_OPEN_MAX; k++) {
			if (open[k] != (started ? 0 : b->event.call))
				continue;
			open[k] = started ? b->event.call : 0;
			break;
		}
	}
	for (unsigned k = 0; k < BOARD_OPEN_MAX; k++) {
		struct history_event e = {
			.kind = HISTORY_KILLED, .call = open[k], .at_ns = ripc__clock_ns()};

		if (e.call)
			board_log(process, &e);
	}
}

size_t board_check(struct board_counts *counts, char *why, size_t len)
{
	struct history h = {0};
	size_t bad;

	*counts = (struct board_counts){0};
	for (uint64_t i = 0; i < board->nevents && i < BOARD_EVENTS; i++) {
		const struct history_event *e = &board->events[i].event;

		if (!board->events[i].full)
			continue;
		history_add(&h, e);
		counts->started += e->kind == HISTORY_STARTED;
		counts->executed += e->kind == HISTORY_EXECUTED;
		counts->killed += e->kind == HISTORY_KILLED;
		counts->answered += e->kind == HISTORY_ENDED && !e->result;
		counts->failed += e->kind == HISTORY_ENDED && e->result;
	}
	bad = history_check(&h, why, len);
	history_free(&h);
	return bad;
}
