/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The moments of messages that were sent at a rate: waiting for them, and what they come to. */
#define _GNU_SOURCE
#include "perf.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <time.h>

/* Sleeping wakes up some 50 us late, which a process that may not spin has to take. */
void perf_wait_until(const struct perf_args *args, uint64_t ns)
{
	struct timespec ts = {.tv_sec = (time_t)(ns / 1000000000)};

	ts.tv_nsec = (long)(ns % 1000000000);

	if (args->wait == PERF_BLOCK)
		while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL) == EINTR &&
		       !tool_stopped)
			;
	else
		while (tool_now_ns() < ns && !tool_stopped)
			;
}

/*
 * Generator and transport apart: what was not sent in its time, and what was but did not get there,
 * or not in its time.
 */
void perf_evaluate(const struct perf_args *args, uint64_t size, const struct perf_sample *samples,
		   uint64_t count, bool same_clock, struct perf_figures *figures)
{
	uint64_t period_ns = args->rate_hz ? 1000000000 / args->rate_hz : 0;

	for (uint64_t i = 0; i < count; i++) {
		const struct perf_sample *s = &samples[i];
		uint64_t latency_ns = s->received_ns - s->sent_ns;

		figures->count++;
		if (!s->sent_ns) {
			figures->missed++;
		} else if (s->refused) {
			figures->refused++;
		} else if (!s->received_ns) {
			figures->lost++;
		} else {
			figures->bytes += size;
			if (same_clock)
				histogram_add(figures->rtt, latency_ns);
			figures->late += period_ns && same_clock && latency_ns > period_ns;
		}
	}
}

int perf_write_samples(const struct perf_args *args, const struct perf_sample *samples,
		       uint64_t count, bool same_clock)
{
	FILE *file = args->csv_file;

	tool_output_begin(file);
	fputs("number,due_ns,sent_ns,received_ns,latency_ns,state\n", file);
	for (uint64_t i = 0; i < count; i++) {
		const struct perf_sample *s = &samples[i];

		fprintf(file, "%" PRIu64 ",", i);
		if (s->due_ns)
			fprintf(file, "%" PRIu64, s->due_ns);
		fputc(',', file);
		if (s->sent_ns)
			fprintf(file, "%" PRIu64, s->sent_ns);
		fputc(',', file);
		if (s->received_ns)
			fprintf(file, "%" PRIu64, s->received_ns);
		fputc(',', file);
		if (s->received_ns && same_clock)
			fprintf(file, "%" PRId64, (int64_t)(s->received_ns - s->sent_ns));
		fprintf(file, ",%s\n",
			!s->sent_ns      ? "missed"
			: s->refused     ? "refused"
			: s->received_ns ? "received"
					 : "lost");
	}
	return tool_output_close(file, "--csv", args->csv) ? 0 : -EIO;
}
