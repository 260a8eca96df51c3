/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "flow.h"
#include "../histogram.h"

#include <inttypes.h>
#include <stddef.h>

static const double percents[] = {50, 90, 99, 99.9, 99.99};
#define NPERCENTS (sizeof(percents) / sizeof(percents[0]))

bool flow_init(struct flow *flow)
{
	flow->latency = histogram_new();
	flow->gap = histogram_new();
	return flow->latency && flow->gap;
}

void flow_free(struct flow *flow)
{
	histogram_free(flow->latency);
	histogram_free(flow->gap);
}

/* Takes a sequence that is not behind the newest: @ahead of the expected one. */
static void advance(struct flow *flow, uint32_t sequence, uint32_t ahead)
{
	flow->lost += ahead;
	flow->seen = ahead < 63 ? flow->seen << (ahead + 1) | 1 : 1;
	flow->next = sequence + 1;
}

/* villas.binary carries the lower 32 bits of a sequence, so that all sequences are compared so. */
static void count_sequence(struct flow *flow, uint32_t sequence)
{
	const int32_t ahead = (int32_t)(sequence - flow->next);
	const uint32_t behind = flow->next - 1 - sequence;

	if (!flow->begun) {
		flow->next = sequence;
		advance(flow, sequence, 0);
	} else if (ahead >= 0) {
		advance(flow, sequence, (uint32_t)ahead);
	} else if (behind < 64 ? flow->seen >> behind & 1 : sequence != 0) {
		flow->duplicates++;
	} else if (behind < 64 && flow->lost) {
		flow->seen |= UINT64_C(1) << behind;
		flow->lost--;
		flow->reordered++;
	} else {
		flow->restarts++;
		advance(flow, sequence, 0);
	}
}

void flow_add(struct flow *flow, const struct sample *sample)
{
	const int64_t latency = sample->received_ns - sample->origin_ns;
	const int64_t gap = sample->received_ns - flow->last_ns;

	count_sequence(flow, (uint32_t)sample->sequence);
	if (latency >= 0)
		histogram_add(flow->latency, (uint64_t)latency);
	else
		flow->negative++;
	if (flow->begun && gap >= 0)
		histogram_add(flow->gap, (uint64_t)gap);
	flow->last_ns = sample->received_ns;
	flow->begun = true;
	flow->samples++;
}

static void print_times(const struct histogram *h, const char *name, FILE *out)
{
	if (!histogram_count(h))
		return;
	fprintf(out, "  %s us:", name);
	for (size_t i = 0; i < NPERCENTS; i++)
		fprintf(out, " p%g %.1f", percents[i],
			(double)histogram_percentile(h, percents[i]) * 1e-3);
	fprintf(out, " max %.1f\n", (double)histogram_max(h) * 1e-3);
}

void flow_print(const struct flow *flow, const char *name, FILE *out)
{
	fprintf(out,
		"%s: %" PRIu64 " samples, %" PRIu64 " lost, %" PRIu64 " reordered, %" PRIu64
		" duplicates, %" PRIu64 " restarts\n",
		name, flow->samples, flow->lost, flow->reordered, flow->duplicates, flow->restarts);
	print_times(flow->latency, "latency", out);
	if (flow->negative)
		fprintf(out, "  %" PRIu64 " samples are from the future: the clocks differ\n",
			flow->negative);
	print_times(flow->gap, "gap", out);
}

void flow_quantiles(const struct histogram *h, const char *metric, const char *node, FILE *out)
{
	for (size_t i = 0; i < NPERCENTS; i++)
		fprintf(out, "%s{node=\"%s\",quantile=\"%g\"} %.9f\n", metric, node,
			percents[i] / 100, (double)histogram_percentile(h, percents[i]) * 1e-9);
	fprintf(out, "%s_count{node=\"%s\"} %" PRIu64 "\n", metric, node, histogram_count(h));
}
