/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A sample: the values of all signals of a simulator at one time, as nodes exchange it. */
#ifndef RIPC_GATEWAY_SAMPLE_H
#define RIPC_GATEWAY_SAMPLE_H

#include <stdint.h>

/* Most values of a sample: the default number of signals of a node of VILLASnode. */
#define SAMPLE_VALUES_MAX 64

struct sample {
	uint64_t sequence;
	/* Nanoseconds since 1970: when its source made it, and when this gateway received it. */
	int64_t origin_ns;
	int64_t received_ns;
	/* 0 .. SAMPLE_VALUES_MAX */
	unsigned nvalues;
	double values[SAMPLE_VALUES_MAX];
};

#endif
