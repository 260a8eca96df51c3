/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The model: a record of each message in memory that all processes of a run share. stress.c states
 * the rules. A record is made before its message is sent, so a receiver always finds it.
 */
#ifndef RIPC_TESTS_STRESS_BOARD_H
#define RIPC_TESTS_STRESS_BOARD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define IDS           10 /* the services of a run have the ids 1 .. IDS, others random ones */
#define GROUPS        3
#define PROCESSES_MAX 8
#define MESSAGES_MAX  400000

enum kind { KIND_SHORT, KIND_RELIABLE, KIND_LONG, KIND_CALL, KIND_GROUP, KINDS };

/* The state of a message as its sender knows it. */
enum state {
	STATE_SENDING,   /* the call has not returned */
	STATE_TAKEN,     /* a reliable one: the library has it */
	STATE_DELIVERED, /* it must be received; a short one: it may */
	STATE_FAILED,    /* it must not be received */
	STATE_UNKNOWN,
	STATES
};

/* How a call was answered by those that received it. */
enum answered {
	ANSWERED_CONTENT = 1,
	ANSWERED_ERROR = 2,
};

struct record {
	_Atomic uint8_t state, received; /* received: how often */
	_Atomic uint8_t answered; /* of a call: bits of enum answered, set before the answer */
	uint8_t kind, dest;       /* dest: 0: a random id */
	bool idempotent;          /* a call that may be received more than once */
	int16_t result;           /* of the sending call */
	uint32_t sender;          /* uid of the sending service */
	uint32_t sequence;        /* of its kind from sender to dest; 0: without order */
	uint32_t len;
	uint32_t losses;               /* of dest before it was sent */
	uint32_t sent_ms, received_ms; /* of the run; for reports */
};

enum phase {
	PHASE_RUN,
	PHASE_FINISH, /* end what was started: requests, reliable messages */
	PHASE_DRAIN,  /* receive what is in the queues */
	PHASE_CLOSE
};

/* Counters of the run, named in board.c. */
enum event {
	EVENT_SENT,
	EVENT_RECEIVED,
	EVENT_IN_PLACE,
	EVENT_WINDOW,
	EVENT_RETURN_BUFFER,
	EVENT_FORWARDED,
	EVENT_FREED_BY_SEND,
	EVENT_ANSWERED,
	EVENT_CALL_DONE,
	EVENT_CANCELLED,
	EVENT_FLUSHED,
	EVENT_RELIABLE_LOST,
	EVENT_WATCH,
	EVENT_COMPLETION,
	EVENT_DESCRIPTOR,
	EVENT_SERVICE_LOST,
	EVENT_UNREGISTERED,
	EVENT_OPENED,
	EVENT_CLOSED,
	EVENTS
};

struct board {
	uint64_t start_ms;
	_Atomic uint64_t messages; /* records in use; 0 is none */
	_Atomic uint32_t services; /* uids in use; 0 is none */
	_Atomic int phase;
	_Atomic unsigned arrived[PHASE_CLOSE + 1]; /* threads that have nothing to do in it */
	_Atomic unsigned faults;
	/* How often queued messages of an id may have been lost, because its holder ended. */
	_Atomic uint32_t losses[IDS + 1];
	/* Services with this id in the process. They are lost if it is killed. */
	_Atomic int32_t held[PROCESSES_MAX][IDS + 1];
	_Atomic uint64_t events[EVENTS];
	struct record records[MESSAGES_MAX];
};

extern struct board *board;
extern unsigned board_process; /* the place of this process on the board */

void board_create(void);
void board_destroy(void);
/* Whether operations go on: not if the board is nearly full, or too much is wrong. */
bool board_running(void);
/* The pause between two checks of the board, or of what another thread changes. */
void board_pause(unsigned ms);
/* Milliseconds since the run began. */
uint32_t board_ms(void);
void board_count(enum event e);
/* One line of the run's history, which explains a fault. */
void board_note(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Reports that the library has violated the model. */
void board_fault(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* A new message. dest: any id. Return: its number. */
uint64_t board_message(enum kind kind, uint32_t sender, uint64_t dest, uint64_t len,
		       uint32_t sequence);
void board_result(uint64_t number, enum state state, int result);
/* A call is about to be answered like this. */
void board_answered(uint64_t number, enum answered how);
/* The result of a long message: whether it may have been delivered. */
void board_long_result(uint64_t number, int result);
/* The record of a message in words, for reports. Return: a buffer of the calling thread. */
const char *board_describe(uint64_t number);
/* Messages in the queue of this id are lost, if they are not received yet. */
void board_lose(uint64_t id);
/* The number of services with this id in this process changes. */
void board_hold(uint64_t id, int change);
/* The process in this place is going to be killed; ended: is dead. */
void board_killed(unsigned process, bool ended);

/* When all messages are received: the rules that hold at the end. */
void board_check(void);
/* The states of all messages by kind, and the events. */
void board_print(void);

#endif
