/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The table for people. */
#include "perf.h"

#include <string.h>

static double us(uint64_t ns)
{
	return (double)ns / 1e3;
}

static double per_s(const struct perf_figures *f)
{
	return f->elapsed_ns ? (double)(f->count - f->lost) * 1e9 / (double)f->elapsed_ns : 0;
}

static double mb_per_s(const struct perf_figures *f)
{
	return f->elapsed_ns ? (double)f->bytes * 1e3 / (double)f->elapsed_ns : 0;
}

static double ratio(double ours, double base)
{
	return base > 0 ? ours / base : 0;
}

bool perf_has_table(const struct perf_args *args)
{
	return (!args->json || strcmp(args->json, "-")) && (!args->csv || strcmp(args->csv, "-"));
}

void perf_print_head(const struct perf_args *args)
{
	char base[32] = "";

	if (args->baseline)
		snprintf(base, sizeof(base), "%s:%s", perf_protocol_name(args->baseline),
			 perf_wait_name(args->baseline_wait));
	printf("%s, wait %s", perf_test_name(args->test), perf_wait_name(args->wait));
	if (args->baseline)
		printf(", next to %s", base);
	if (args->test == PERF_PACED)
		printf("; one way in microseconds\n%-16s %-5s %10s %8s %6s %6s %6s %6s %8s %8s %8s "
		       "%8s %8s %8s",
		       "", "kind", "size", "count", "missed", "refus", "lost", "late", "p10", "p50",
		       "p90", "p99", "p99.9", "max");
	else if (args->test == PERF_LATENCY)
		printf("; round trips in microseconds\n%-16s %-5s %10s %8s %6s %8s %8s %8s %8s %8s "
		       "%8s %8s",
		       "", "kind", "size", "count", "lost", "min", "p50", "p90", "p99", "p99.9",
		       "max", "mean");
	else
		printf("\n%-16s %-5s %10s %9s %6s %12s %10s", "", "kind", "size", "count", "lost",
		       "messages/s", "MB/s");
	printf(" %8s\n", "cpu s");
	fflush(stdout);
}

static void print_line(const struct perf_args *args, const struct perf_result *r, const char *name,
		       const struct perf_figures *f)
{
	const struct histogram *h = f->rtt;

	printf("%-16s %-5s %10llu", name, perf_kind_name(r->kind), (unsigned long long)r->size);
	if (args->test == PERF_PACED)
		printf(" %8llu %6llu %6llu %6llu %6llu %8.2f %8.2f %8.2f %8.2f %8.2f %8.2f",
		       (unsigned long long)f->count, (unsigned long long)f->missed,
		       (unsigned long long)f->refused, (unsigned long long)f->lost,
		       (unsigned long long)f->late, us(histogram_percentile(h, 10)),
		       us(histogram_percentile(h, 50)), us(histogram_percentile(h, 90)),
		       us(histogram_percentile(h, 99)), us(histogram_percentile(h, 99.9)),
		       us(histogram_max(h)));
	else if (args->test == PERF_LATENCY)
		printf(" %8llu %6llu %8.2f %8.2f %8.2f %8.2f %8.2f %8.2f %8.2f",
		       (unsigned long long)f->count, (unsigned long long)f->lost,
		       us(histogram_min(h)), us(histogram_percentile(h, 50)),
		       us(histogram_percentile(h, 90)), us(histogram_percentile(h, 99)),
		       us(histogram_percentile(h, 99.9)), us(histogram_max(h)),
		       histogram_mean(h) / 1e3);
	else
		printf(" %9llu %6llu %12.0f %10.1f", (unsigned long long)f->count,
		       (unsigned long long)f->lost, per_s(f), mb_per_s(f));
	printf(" %8.3f\n", f->cpu_s);
}

static void print_ratio(const struct perf_args *args, const struct perf_result *r)
{
	const struct histogram *a = r->ours.rtt, *b = r->baseline.rtt;

	if (args->test != PERF_LATENCY) {
		printf("%-16s %-5s %10s %9s %6s %12.3f %10.3f %8.3f\n", "ratio", "", "", "", "",
		       ratio(per_s(&r->ours), per_s(&r->baseline)),
		       ratio(mb_per_s(&r->ours), mb_per_s(&r->baseline)),
		       ratio(r->ours.cpu_s, r->baseline.cpu_s));
		return;
	}
	printf("%-16s %-5s %10s %8s %6s %8.3f %8.3f %8.3f %8.3f %8.3f %8.3f %8.3f %8.3f\n", "ratio",
	       "", "", "", "", ratio(us(histogram_min(a)), us(histogram_min(b))),
	       ratio(us(histogram_percentile(a, 50)), us(histogram_percentile(b, 50))),
	       ratio(us(histogram_percentile(a, 90)), us(histogram_percentile(b, 90))),
	       ratio(us(histogram_percentile(a, 99)), us(histogram_percentile(b, 99))),
	       ratio(us(histogram_percentile(a, 99.9)), us(histogram_percentile(b, 99.9))),
	       ratio(us(histogram_max(a)), us(histogram_max(b))),
	       ratio(histogram_mean(a), histogram_mean(b)),
	       ratio(r->ours.cpu_s, r->baseline.cpu_s));
}

void perf_print(const struct perf_args *args, const struct perf_result *result)
{
	char base[32];

	print_line(args, result, result->transport, &result->ours);
	if (args->test == PERF_PACED && !result->same_clock)
		puts("the server reads another clock: no time of one way is known");
	if (result->has_baseline) {
		snprintf(base, sizeof(base), "%s:%s", perf_protocol_name(args->baseline),
			 perf_wait_name(args->baseline_wait));
		print_line(args, result, base, &result->baseline);
		print_ratio(args, result);
	}
	fflush(stdout);
}
