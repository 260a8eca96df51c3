/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Receives for a node that has a descriptor. It waits for the descriptor while samples are rare,
 * and polls while they come faster than TICKER_SPIN_HZ, because a wake-up takes longer than their
 * period allows. With the setting spin it always polls.
 */
#ifndef RIPC_GATEWAY_RECEIVER_H
#define RIPC_GATEWAY_RECEIVER_H

#include "node.h"

/* Messages received before other nodes are served. */
#define RECEIVER_BATCH 64

/* Delivers what has come, without waiting. Return: messages, up to RECEIVER_BATCH. */
typedef unsigned receiver_fn(struct node *node);

struct receiver {
	uv_poll_t poll;
	uv_idle_t spin;
	receiver_fn *fn;
	/* there is another processor for the sender */
	bool may_spin;
	bool always;
	/* when the last message came, and the mean time between two */
	int64_t last_ns, gap_ns;
};

/* The node is a source from now on. Return: 0 or a negative errno. */
int receiver_start(struct receiver *receiver, struct node *node, int fd, receiver_fn *fn);

/* Delivers a message in the form of wire.h. Return: false if it is malformed. */
bool receiver_deliver(struct node *node, const void *data, size_t len);

/* Counts and prints a malformed message. @from: its sender */
void receiver_malformed(struct node *node, size_t len, const char *from);

#endif
