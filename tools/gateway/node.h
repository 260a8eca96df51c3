/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A node: a source or a destination of samples, or both. */
#ifndef RIPC_GATEWAY_NODE_H
#define RIPC_GATEWAY_NODE_H

#include "gateway.h"

struct node_ops {
	/* Starts the asked directions. Prints its error. Return: 0 or a negative errno. */
	int (*start)(struct node *node, bool source, bool sink);
	/* Writes one sample without waiting. Return: 0 or a negative errno. */
	int (*write)(struct node *node, const struct sample *sample);
	/* Releases node->state, also after start failed. Its uv handles are closed before. */
	void (*stop)(struct node *node);
	/* Sends what waits, within half a second; what is left is not sent. NULL: nothing waits. */
	void (*flush)(struct node *node);
};

#define NODE_QUIET_S 10

extern const struct node_ops node_signal, node_file, node_socket, node_ripc, node_zeromq,
	node_nanomsg;

struct node {
	const struct node_plan *plan;
	struct gateway *gateway;
	const struct node_ops *ops;
	void *state;
	struct flow received;
	struct hooks in_hooks, out_hooks;
	/* steps of a generator that passed before it could run */
	uint64_t missed;
	/* calls of a generator more than 50 us after their deadline */
	uint64_t late;
	uint64_t sent, not_sent;
	/* input that is no sample; before this time it is counted, but not printed */
	uint64_t malformed;
	int64_t quiet_until_ns;
};

/* A sample has come; sets its time of receipt and passes it to all paths of this source. */
void node_deliver(struct node *node, struct sample *sample);

/* Writes a sample, and counts. */
void node_write(struct node *node, const struct sample *sample);

/* Counts input that is no sample, and prints it at most once in NODE_QUIET_S. @why: with origin. */
void node_malformed(struct node *node, const char *why);

#endif
