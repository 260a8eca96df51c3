/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A generator: one form for all values, or one after the other (mixed). */
#include "node.h"
#include "ticker.h"
#include "../tool.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct signal_state {
	struct ticker ticker;
	uint64_t step;
	double walk[SAMPLE_VALUES_MAX];
	uint64_t random;
};

/* xorshift64*, a uniform number from -1 to 1. */
static double draw(struct signal_state *s)
{
	s->random ^= s->random >> 12;
	s->random ^= s->random << 25;
	s->random ^= s->random >> 27;
	return (double)(int64_t)(s->random * UINT64_C(2685821657736338717)) * 0x1p-63;
}

static double value_of(const struct node_plan *plan, struct signal_state *s, unsigned i)
{
	const double t = (double)s->step / plan->rate;
	const double turn = t * plan->frequency + plan->phase / (2 * M_PI);
	const double part = turn - floor(turn);
	/* sine, square, triangle, ramp and counter in turn */
	const enum signal_form form = plan->form == SIGNAL_MIXED ? i % 5 : plan->form;

	switch (form) {
	case SIGNAL_SINE:
		return plan->offset + plan->amplitude * sin(2 * M_PI * turn);
	case SIGNAL_SQUARE:
		return plan->offset + (part < 0.5 ? plan->amplitude : -plan->amplitude);
	case SIGNAL_TRIANGLE:
		return plan->offset + plan->amplitude * (4 * fabs(part - 0.5) - 1);
	case SIGNAL_RAMP:
		return plan->offset + plan->amplitude * part;
	case SIGNAL_COUNTER:
		return plan->offset + plan->amplitude * (double)s->step;
	case SIGNAL_RANDOM:
		/* A uniform step of this standard deviation. */
		s->walk[i] += draw(s) * plan->stddev * sqrt(3);
		return plan->offset + s->walk[i];
	default:
		return plan->offset + plan->amplitude;
	}
}

static void on_tick(void *arg, uint64_t missed)
{
	struct node *node = arg;
	struct signal_state *s = node->state;
	struct sample sample = {.nvalues = node->plan->values};

	/* A missed step leaves a gap in the sequence. */
	node->missed += missed;
	node->late = s->ticker.late;
	s->step += missed;
	if (node->plan->limit && s->step >= node->plan->limit) {
		ticker_stop(&s->ticker);
		gateway_source_ended(node->gateway);
		return;
	}
	sample.sequence = s->step;
	for (unsigned i = 0; i < sample.nvalues; i++)
		sample.values[i] = value_of(node->plan, s, i);
	sample.origin_ns = gateway_now_ns();
	s->step++;
	node_deliver(node, &sample);
}

static int start(struct node *node, bool source, bool sink)
{
	struct signal_state *s = calloc(1, sizeof(*s));
	int rc;

	(void)sink;
	node->state = s;
	if (!s)
		return -ENOMEM;
	if (!source)
		return 0;
	s->random = (uint64_t)gateway_now_ns() | 1;
	node->gateway->open_sources++;
	rc = ticker_start(&s->ticker, &node->gateway->loop, node->plan->rate, on_tick, node);
	if (rc)
		tool_error("node %s: timer: %s", node->plan->name, strerror(-rc));
	return rc;
}

static void stop(struct node *node)
{
	struct signal_state *s = node->state;

	if (s)
		ticker_free(&s->ticker);
	free(s);
}

const struct node_ops node_signal = {.start = start, .stop = stop};
