/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Shared by the tests of the fast path of receiving: messages from service 1 for service 0. */
#ifndef RIPC_TESTS_CORE_MESSAGE_FAST_MESSAGES_H
#define RIPC_TESTS_CORE_MESSAGE_FAST_MESSAGES_H

#include "core/message/receive.h"
#include "core/rig.h"

extern struct rig rig;

/* A change(): lanes count receive buffers. */
void few_buffers(struct ripc__sim_config *config);
/* Two contexts that have exchanged messages. */
void fast_start(void (*change)(struct ripc__sim_config *config), const char *options);
void fast_teardown(void);

struct rx_message {
	uint8_t *bytes; /* in the room of the next message */
	struct ripc__message *m;
	struct ripc__event ev;
};

/*
 * A plain message of len bytes, in the room of the next message of context 0. lane: from 0 to 1;
 * NULL: a datagram.
 */
struct rx_message rx_message(struct ripc__lane *lane, size_t len);
/* Receives it on the fast path. Return: the message; NULL: it was refused. */
struct ripc__message *try_receive(const struct rx_message *a);
/* The message has len bytes and is complete. */
void check_message(struct ripc__message *m, size_t len);
/* The same, and it is aligned. It is freed. */
void received(struct ripc__message *m, size_t len);
/* The fast path refuses it, and nothing has changed. */
void refused(const struct rx_message *a);

#endif
