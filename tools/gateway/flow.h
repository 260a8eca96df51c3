/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Statistics of the samples at one point: losses by their sequence, and times. */
#ifndef RIPC_GATEWAY_FLOW_H
#define RIPC_GATEWAY_FLOW_H

#include "sample.h"

#include <stdbool.h>
#include <stdio.h>

struct histogram;

struct flow {
	uint64_t samples;
	/* Missing in the sequence. A sample that comes later is no longer lost, but reordered. */
	uint64_t lost, reordered, duplicates;
	/* Times that the sequence began again at 0. */
	uint64_t restarts;
	/* Of sources on other clocks: origin times after the time of receipt. */
	uint64_t negative;
	/* Latency, origin to receipt, and time between two samples, in nanoseconds. */
	struct histogram *latency, *gap;
	uint32_t next;
	/* bit i: sequence next - 1 - i has come */
	uint64_t seen;
	int64_t last_ns;
	bool begun;
};

/* Return: false if out of memory. */
bool flow_init(struct flow *flow);
void flow_free(struct flow *flow);

/* Counts a sample. Allocates nothing. */
void flow_add(struct flow *flow, const struct sample *sample);

/* Prints one paragraph for people. */
void flow_print(const struct flow *flow, const char *name, FILE *out);

/* Prints the lines of one node in a summary of OpenMetrics text. */
void flow_quantiles(const struct histogram *h, const char *metric, const char *node, FILE *out);

#endif
