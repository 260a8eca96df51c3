/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Compares a JSON report with what was promised.
 *
 *     perf_json_check FILE latency|rate|bandwidth|paced RESULTS [baseline]
 *     perf_json_check FILE info
 */
#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const rtt_keys[] = {"min",   "p10",    "p50", "p90",  "p99", "p999",
				       "p9999", "p99999", "max", "mean", NULL};

static void fail(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));

static void fail(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fprintf(stderr, "perf_json_check: ");
	vfprintf(stderr, fmt, ap);
	fputc('\n', stderr);
	va_end(ap);
	exit(1);
}

static const char *text(json_t *o, const char *key)
{
	const char *s = json_string_value(json_object_get(o, key));

	if (!s || !*s)
		fail("%s: not a text, or empty", key);
	return s;
}

static double number(json_t *o, const char *key, double min)
{
	json_t *v = json_object_get(o, key);

	if (!json_is_number(v) || !isfinite(json_number_value(v)) || json_number_value(v) < min)
		fail("%s: not a number of at least %g", key, min);
	return json_number_value(v);
}

static void one_of(json_t *o, const char *key, const char *const *list)
{
	const char *s = text(o, key);

	for (; *list; list++)
		if (!strcmp(s, *list))
			return;
	fail("%s: %s is none of those allowed", key, s);
}

static void absent(json_t *o, const char *key)
{
	if (json_object_get(o, key))
		fail("%s: does not belong here", key);
}

static void check_rtt(json_t *rtt)
{
	double last = 0, mean;

	if (!json_is_object(rtt))
		fail("rtt_us: missing");
	for (int i = 0; i < 9; i++) {
		double v = number(rtt, rtt_keys[i], 0);

		/* One bucket of rounding, and six digits of printing. */
		if (v < last * 0.999)
			fail("%s: less than the one before", rtt_keys[i]);
		last = v;
	}
	mean = number(rtt, "mean", number(rtt, "min", 0));
	if (mean > last)
		fail("mean: more than max");
	if (json_object_size(rtt) != 10)
		fail("rtt_us: has members that were not promised");
}

/* Every message is accounted for, and where the clock is the same its time is known. */
static void check_paced(json_t *o, double count)
{
	double gone = number(o, "missed", 0) + number(o, "refused", 0) + number(o, "lost", 0);

	if (gone > count)
		fail("missed, refused and lost: more than count");
	if (number(o, "late", 0) > count - gone)
		fail("late: more than arrived");
	number(o, "rate_hz", 0);
	number(o, "burst", 1);
	if (!json_is_true(json_object_get(o, "same_clock")))
		fail("same_clock: both processes are on one host");
	if (gone < count)
		check_rtt(json_object_get(o, "oneway_us"));
}

static void check_figures(json_t *o, const char *test)
{
	double count = number(o, "count", 1);

	if (!json_is_integer(json_object_get(o, "count")) ||
	    !json_is_integer(json_object_get(o, "lost")))
		fail("count or lost: not an integer");
	if (number(o, "lost", 0) > count)
		fail("lost: more than count");
	number(o, "cpu_s", 0);
	if (!strcmp(test, "latency")) {
		check_rtt(json_object_get(o, "rtt_us"));
		absent(o, "rate_per_s");
		absent(o, "mb_per_s");
		return;
	}
	absent(o, "rtt_us");
	if (!strcmp(test, "paced")) {
		check_paced(o, count);
		return;
	}
	number(o, "rate_per_s", 1);
	number(o, "mb_per_s", 0);
}

static void check_quotient(json_t *ours, json_t *base, json_t *ratio, const char *key)
{
	double b = number(base, key, 0), want, got;

	if (b <= 0)
		return;
	want = number(ours, key, 0) / b;
	got = number(ratio, key, 0);
	if (fabs(got - want) > 1e-4 * want + 1e-6)
		fail("ratio of %s: %g, not %g", key, got, want);
}

static void check_baseline(json_t *o, const char *test)
{
	static const char *const protocols[] = {"tcp", "udp", NULL}, *const waits[] = {
									     "poll", "block", NULL};
	json_t *base = json_object_get(o, "baseline"), *ratio = json_object_get(o, "ratio");

	if (!json_is_object(base) || !json_is_object(ratio))
		fail("baseline or ratio: missing");
	one_of(base, "protocol", protocols);
	one_of(base, "wait", waits);
	check_figures(base, test);
	if (json_integer_value(json_object_get(base, "count")) !=
	    json_integer_value(json_object_get(o, "count")))
		fail("baseline: another count than ours");
	check_quotient(o, base, ratio, "cpu_s");
	if (strcmp(test, "latency")) {
		check_quotient(o, base, ratio, "rate_per_s");
		check_quotient(o, base, ratio, "mb_per_s");
		return;
	}
	for (int i = 0; rtt_keys[i]; i++)
		check_quotient(json_object_get(o, "rtt_us"), json_object_get(base, "rtt_us"),
			       json_object_get(ratio, "rtt_us"), rtt_keys[i]);
}

static void check_perf(json_t *root, const char *test, size_t results, bool baseline)
{
	static const char *const kinds[] = {"short", "long", NULL};
	static const char *const waits[] = {"adaptive", "poll", "block", NULL};
	json_t *list = json_object_get(root, "results"),
	       *environment = json_object_get(root, "environment"), *o;
	size_t i;

	if (!json_is_object(environment))
		fail("environment: missing");
	text(environment, "kernel");
	text(environment, "library");
	if (!json_is_array(json_object_get(environment, "devices")))
		fail("devices: missing");
	if (!json_is_array(list) || json_array_size(list) != results)
		fail("results: %zu of them, not %zu", json_array_size(list), results);
	json_array_foreach(list, i, o)
	{
		if (strcmp(text(o, "test"), test))
			fail("test: %s, not %s", text(o, "test"), test);
		one_of(o, "kind", kinds);
		one_of(o, "wait", waits);
		text(o, "transport");
		text(o, "reason");
		number(o, "size", 0);
		check_figures(o, test);
		if (baseline && number(o, "size", 0) > 0) {
			check_baseline(o, test);
		} else {
			absent(o, "baseline");
			absent(o, "ratio");
		}
	}
}

static void check_info(json_t *root)
{
	json_t *transports = json_object_get(root, "transports"), *t,
	       *resolvers = json_object_get(root, "resolvers"),
	       *context = json_object_get(root, "context");
	bool available = false;
	size_t i;

	text(root, "library");
	text(json_object_get(root, "host"), "kernel");
	text(context, "instance");
	number(json_object_get(context, "limits"), "short_max", 512);
	number(json_object_get(context, "limits"), "long_max", 1 << 26);
	if (!json_is_array(transports) || !json_array_size(transports))
		fail("transports: missing");
	json_array_foreach(transports, i, t)
	{
		text(t, "name");
		if (json_is_true(json_object_get(t, "available"))) {
			available = true;
			text(t, "address");
		} else {
			text(t, "reason");
		}
	}
	if (!available)
		fail("transports: none is available, and yet the library was opened");
	if (!json_is_array(resolvers) || json_array_size(resolvers) < 2)
		fail("resolvers: missing");
	json_array_foreach(resolvers, i, t)
	{
		text(t, "name");
		text(t, "state");
		if (!json_is_boolean(json_object_get(t, "works")))
			fail("resolvers: works: missing");
	}
	if (!json_is_array(json_object_get(root, "devices")) ||
	    !json_is_array(json_object_get(root, "settings")))
		fail("devices or settings: missing");
	if (!json_is_object(json_object_get(root, "memlock_bytes")))
		fail("memlock_bytes: missing");
	if (!json_is_true(json_object_get(json_object_get(root, "features"), "json")))
		fail("features: reports that JSON is missing");
}

int main(int argc, char **argv)
{
	json_error_t error;
	json_t *root;

	if (argc < 3 || (strcmp(argv[2], "info") && argc < 4))
		fail("usage: perf_json_check FILE info|latency|rate|bandwidth|paced [RESULTS "
		     "[baseline]]");
	root = json_load_file(argv[1], JSON_REJECT_DUPLICATES, &error);
	if (!root)
		fail("%s:%d: %s", argv[1], error.line, error.text);
	if (json_integer_value(json_object_get(root, "version")) != 1)
		fail("version: not 1");
	if (!strcmp(argv[2], "info"))
		check_info(root);
	else
		check_perf(root, argv[2], strtoul(argv[3], NULL, 10), argc > 4);
	json_decref(root);
	return 0;
}
