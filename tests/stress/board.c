/* SPDX-License-Identifier: LGPL-2.1-or-later */
#define _GNU_SOURCE
#include "board.h"

#include "harness.h"
#include "ripc.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define FAULTS_MAX      20    /* then a run ends */
#define MESSAGES_LEFT   20000 /* for the end of a run */
#define MESSAGES_ENOUGH 2000  /* so many include some of each kind that are delivered */

static const char *const kind_names[KINDS] = {"short", "reliable", "long", "call", "group"};
static const char *const state_names[STATES] = {"sending", "taken", "delivered", "failed",
						"unknown"};
static const char *const event_names[EVENTS] = {
	"sent",         "received",      "in place", "window",     "return buffer",
	"forwarded",    "freed by send", "answered", "call done",  "cancelled",
	"flushed",      "reliable lost", "watch",    "completion", "descriptor",
	"service lost", "unregistered",  "opened",   "closed"};

struct board *board;
unsigned board_process;

static uint64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

uint32_t board_ms(void)
{
	return (uint32_t)(now_ms() - board->start_ms);
}

void board_create(void)
{
	board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		     0);
	ck_assert_ptr_ne(board, MAP_FAILED);
	board->messages = 1;
	board->services = 1;
	board->start_ms = now_ms();
	board_process = PROCESSES_MAX;
}

void board_destroy(void)
{
	munmap(board, sizeof(*board));
}

bool board_running(void)
{
	return board->phase == PHASE_RUN && board->faults < FAULTS_MAX &&
	       board->messages < MESSAGES_MAX - MESSAGES_LEFT;
}

void board_pause(unsigned ms)
{
	usleep(ms * 1000);
}

void board_count(enum event e)
{
	board->events[e]++;
}

/* One write: lines of several processes do not mix. */
static void print_line(const char *kind, const char *fmt, va_list ap)
{
	char text[1200];

	vsnprintf(text, sizeof(text), fmt, ap);
	printf("%s%u ms, process %u (%d): %s\n", kind, board_ms(), board_process, (int)getpid(),
	       text);
	fflush(stdout);
}

void board_note(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	print_line("", fmt, ap);
	va_end(ap);
}

void board_fault(const char *fmt, ...)
{
	va_list ap;

	board->faults++;
	va_start(ap, fmt);
	print_line("FAULT: ", fmt, ap);
	va_end(ap);
}

uint64_t board_message(enum kind kind, uint32_t sender, uint64_t dest, uint64_t len,
		       uint32_t sequence)
{
	uint64_t number = board->messages++;
	struct record *r = &board->records[number];

	if (number >= MESSAGES_MAX) {
		board_fault("the board is full");
		_exit(1);
	}
	r->kind = (uint8_t)kind;
	r->dest = dest <= IDS ? (uint8_t)dest : 0;
	r->sender = sender;
	r->sequence = sequence;
	r->len = (uint32_t)len;
	r->losses = board->losses[r->dest];
	r->sent_ms = board_ms();
	r->state = STATE_SENDING;
	board_count(EVENT_SENT);
	return number;
}

void board_result(uint64_t number, enum state state, int result)
{
	board->records[number].result = (int16_t)result;
	board->records[number].state = (uint8_t)state;
}

void board_answered(uint64_t number, enum answered how)
{
	board->records[number].answered |= (uint8_t)how;
}

void board_long_result(uint64_t number, int result)
{
	switch (result) {
	case 0:
		board_result(number, STATE_DELIVERED, 0);
		break;
	case -EPIPE:
	case -ESHUTDOWN:
		board_result(number, STATE_UNKNOWN, result);
		break;
	default:
		board_fault("long message %llu ended with %d: %s", (unsigned long long)number,
			    result, ripc_error_detail());
		/* Fall through. */
	case -EAGAIN:
	case -ETIMEDOUT:
	case -EHOSTUNREACH:
	case -ECANCELED:
	case -ENOBUFS:
	case -EBUSY:
		board_result(number, STATE_FAILED, result);
	}
}

const char *board_describe(uint64_t number)
{
	static _Thread_local char text[2][250];
	static _Thread_local unsigned next;
	const struct record *r = &board->records[number];
	char *p = text[next++ % 2];

	snprintf(p, sizeof(text[0]),
		 "%s%s message %llu (%u bytes, number %u from %u to service %u, sent at %u ms, %s, "
		 "result %d, received %u times, last at %u ms)",
		 r->idempotent ? "idempotent " : "", kind_names[r->kind],
		 (unsigned long long)number, r->len, r->sequence, r->sender, r->dest, r->sent_ms,
		 state_names[r->state], r->result, r->received, r->received_ms);
	return p;
}

void board_lose(uint64_t id)
{
	if (id <= IDS)
		board->losses[id]++;
}

void board_hold(uint64_t id, int change)
{
	if (id <= IDS)
		board->held[board_process][id] += change;
}

void board_killed(unsigned process, bool ended)
{
	for (uint64_t id = 1; id <= IDS; id++)
		if (board->held[process][id]) {
			board_lose(id);
			if (ended)
				board->held[process][id] = 0;
		}
}

void board_check(void)
{
	bool some[KINDS] = {false};

	for (uint64_t i = 1; i < board->messages; i++) {
		const struct record *r = &board->records[i];
		const char *wrong = NULL;

		some[r->kind] |= r->state == STATE_DELIVERED;
		if (r->kind == KIND_GROUP)
			continue;
		if (r->state == STATE_FAILED && r->received)
			wrong = "was received although it had failed";
		else if (r->state == STATE_DELIVERED && !r->received && r->kind != KIND_SHORT &&
			 r->dest && r->losses == board->losses[r->dest])
			wrong = "was never received";
		/* ECANCELED: its receiver may not have counted it when the context was closed. */
		else if (r->kind == KIND_CALL && r->state == STATE_DELIVERED && !r->received &&
			 r->result != -ECANCELED)
			wrong = "was answered, but never received";
		if (wrong)
			board_fault("%s %s", board_describe(i), wrong);
		if (board->faults >= FAULTS_MAX)
			return;
	}
	for (unsigned kind = 0; kind < KINDS; kind++)
		if (!some[kind] && kind != KIND_GROUP && board->messages > MESSAGES_ENOUGH)
			board_fault("no %s message was delivered", kind_names[kind]);
}

void board_print(void)
{
	unsigned n[KINDS][STATES] = {0};

	for (uint64_t i = 1; i < board->messages; i++)
		n[board->records[i].kind][board->records[i].state]++;
	for (unsigned k = 0; k < KINDS; k++) {
		printf("%s:", kind_names[k]);
		for (unsigned s = 0; s < STATES; s++)
			if (n[k][s])
				printf(" %u %s", n[k][s], state_names[s]);
		printf("\n");
	}
	for (unsigned e = 0; e < EVENTS; e++)
		printf("%s%s %llu", e ? ", " : "", event_names[e],
		       (unsigned long long)board->events[e]);
	printf("\n");
}
