/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "path.h"
#include "node.h"
#include "../tool.h"

#include <errno.h>
#include <string.h>

/* The values of all sources in a row, with the latest of their times. */
static void join(struct path *path, struct sample *out)
{
	out->nvalues = 0;
	out->origin_ns = out->received_ns = 0;
	for (unsigned i = 0; i < path->plan->nin; i++) {
		const struct sample *in = &path->last[i];
		unsigned n = in->nvalues;

		if (n > SAMPLE_VALUES_MAX - out->nvalues) {
			n = SAMPLE_VALUES_MAX - out->nvalues;
			path->cut += in->nvalues - n;
		}
		memcpy(out->values + out->nvalues, in->values, n * sizeof(double));
		out->nvalues += n;
		if (in->origin_ns > out->origin_ns)
			out->origin_ns = in->origin_ns;
		if (in->received_ns > out->received_ns)
			out->received_ns = in->received_ns;
	}
	/* The sequence of a single source is kept: its losses can be seen behind the path. */
	if (path->plan->nin == 1 && path->plan->rate == 0)
		out->sequence = path->last[0].sequence;
	else
		out->sequence = path->next_sequence++;
}

static void forward(struct path *path)
{
	struct sample sample;

	join(path, &sample);
	path->joined++;
	path->fresh = 0;
	if (!hooks_run(&path->hooks, &sample, gateway_now_ns()))
		return;
	path->forwarded++;
	for (unsigned i = 0; i < path->plan->nout; i++)
		node_write(&path->gateway->nodes[path->plan->out[i]], &sample);
}

void path_deliver(struct path *path, unsigned number, const struct sample *sample)
{
	const unsigned mask = path->plan->mask;

	for (unsigned i = 0; i < path->plan->nin; i++) {
		if (path->plan->in[i] != number)
			continue;
		path->last[i] = *sample;
		path->fresh |= 1U << i;
		path->begun = true;
		if (path->plan->all ? (path->fresh & mask) == mask : mask >> i & 1)
			forward(path);
	}
}

/* Repeats the last sample if no new one came in this period. */
static void on_tick(void *arg, uint64_t missed)
{
	struct path *path = arg;

	(void)missed;
	if (path->begun && path->joined == path->joined_before)
		forward(path);
	path->joined_before = path->joined;
}

int path_start(struct path *path)
{
	int rc;

	if (!hooks_init(&path->hooks, &path->plan->hooks)) {
		tool_error("out of memory");
		return -ENOMEM;
	}
	if (path->plan->rate == 0)
		return 0;
	rc = ticker_start(&path->ticker, &path->gateway->loop, path->plan->rate, on_tick, path);
	if (rc)
		tool_error("path %u: timer: %s", (unsigned)(path - path->gateway->paths) + 1,
			   strerror(-rc));
	return rc;
}

void path_stop(struct path *path)
{
	ticker_free(&path->ticker);
	hooks_free(&path->hooks);
}
