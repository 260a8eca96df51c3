/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A running gateway: the nodes and paths of a plan on one loop, in one thread. Nothing is allocated
 * for a sample.
 */
#ifndef RIPC_GATEWAY_GATEWAY_H
#define RIPC_GATEWAY_GATEWAY_H

#include "hook.h"

#include <uv.h>

struct node;
struct path;
struct ripc;

struct gateway {
	struct plan plan;
	uv_loop_t loop;
	bool has_loop;
	/* a file or stream was not written to its end */
	bool incomplete;
	struct ripc *ctx; /* NULL: no node needs it */
	struct node *nodes;
	struct path *paths;
	/* sources that may still deliver samples; the gateway ends when none is left */
	unsigned open_sources;
};

/*
 * Starts all nodes and paths. @gateway is zeroed but for the plan. Return: 0, or a negative errno
 * with an error printed; call gateway_stop() in either case.
 */
int gateway_start(struct gateway *gateway);

/* Sends what waits in the nodes, before the last statistics. */
void gateway_flush(struct gateway *gateway);

/* Writes out what is buffered, closes all, and frees what gateway_start() has allocated. */
void gateway_stop(struct gateway *gateway);

/* A source has no more samples. Ends the loop with the last one. */
void gateway_source_ended(struct gateway *gateway);

/* Nanoseconds since 1970. */
int64_t gateway_now_ns(void);

/* Prints the statistics: for people, or as OpenMetrics text. */
void gateway_print(const struct gateway *gateway, FILE *out);
void gateway_metrics(const struct gateway *gateway, FILE *out);

#endif
