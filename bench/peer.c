/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The exchanges of ripc-perf over a library of others (bench/peer.h), so that both do the same:
 * round trips one at a time, or a stream one way that is acknowledged at its end, so that the time
 * covers the arrival of everything.
 *
 *     peer_NAME server|client latency|stream shm|tcp ADDRESS SIZE COUNT WINDOW [SIZE COUNT
 *       WINDOW]...
 *     peer_NAME version
 *
 * Both processes are started with the same words. WINDOW of the first size holds for all. A tenth
 * of each COUNT, at most 2000, goes ahead unmeasured. The client prints one line of JSON for each
 * size.
 */
#include "peer.h"
#include "tools/histogram.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const struct {
	const char *name;
	double percent;
} ranks[] = {
	{"p1", 1},      {"p10", 10},    {"p25", 25},      {"p50", 50},
	{"p75", 75},    {"p90", 90},    {"p95", 95},      {"p99", 99},
	{"p995", 99.5}, {"p999", 99.9}, {"p9999", 99.99}, {"p99999", 99.999},
};

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

int peer_fail(const char *what, const char *why)
{
	fprintf(stderr, "peer_%s: %s: %s\n", peer.name, what, why);
	return -1;
}

static int echo(const void *buf, size_t len, uint64_t count)
{
	for (uint64_t i = 0; i < count; i++)
		if (peer.receive() || peer.send(buf, len, false))
			return -1;
	return peer.drain();
}

static int round_trips(const void *buf, size_t len, uint64_t count, struct histogram *h)
{
	for (uint64_t i = 0; i < count; i++) {
		uint64_t begin_ns = now_ns();

		if (peer.send(buf, len, false) || peer.receive())
			return -1;
		if (h)
			histogram_add(h, now_ns() - begin_ns);
	}
	return peer.drain();
}

static void print_latency(size_t len, uint64_t count, const struct histogram *h)
{
	printf("{\"size\":%zu,\"count\":%llu,\"rtt_us\":{\"min\":%.3f", len,
	       (unsigned long long)count, (double)histogram_min(h) / 1e3);
	for (size_t i = 0; i < sizeof(ranks) / sizeof(*ranks); i++)
		printf(",\"%s\":%.3f", ranks[i].name,
		       (double)histogram_percentile(h, ranks[i].percent) / 1e3);
	printf(",\"max\":%.3f,\"mean\":%.3f}}\n", (double)histogram_max(h) / 1e3,
	       histogram_mean(h) / 1e3);
}

static int latency(bool server, const void *buf, size_t len, uint64_t count, uint64_t unmeasured)
{
	struct histogram *h;
	int rc;

	if (server)
		return echo(buf, len, unmeasured + count);
	h = histogram_new();
	if (!h)
		return peer_fail("latency", "out of memory");
	rc = round_trips(buf, len, unmeasured, NULL);
	if (!rc)
		rc = round_trips(buf, len, count, h);
	if (!rc)
		print_latency(len, count, h);
	histogram_free(h);
	return rc;
}

static int stream_out(const void *buf, size_t len, uint64_t count)
{
	for (uint64_t i = 0; i < count; i++)
		if (peer.send(buf, len, i + 1 < count))
			return -1;
	return peer.receive() || peer.drain() ? -1 : 0;
}

static int stream_in(const void *buf, uint64_t count)
{
	for (uint64_t i = 0; i < count; i++)
		if (peer.receive())
			return -1;
	return peer.send(buf, 1, false) || peer.drain() ? -1 : 0;
}

static int stream(bool server, const void *buf, size_t len, uint64_t count, uint64_t unmeasured)
{
	uint64_t begin_ns;
	double s;

	if (server)
		return stream_in(buf, unmeasured) || stream_in(buf, count) ? -1 : 0;
	if (stream_out(buf, len, unmeasured))
		return -1;
	begin_ns = now_ns();
	if (stream_out(buf, len, count))
		return -1;
	s = (double)(now_ns() - begin_ns) / 1e9;
	printf("{\"size\":%zu,\"count\":%llu,\"rate_per_s\":%.1f,\"mb_per_s\":%.3f}\n", len,
	       (unsigned long long)count, (double)count / s, (double)count * (double)len / s / 1e6);
	return 0;
}

static int run(const struct peer_setup *setup, bool is_latency, int n, char **words)
{
	char *buf = malloc(setup->len_max);
	int rc = buf ? 0 : peer_fail("buffer", "out of memory");

	/* Pages that were never written are all the same one, which is in the cache. */
	if (buf)
		memset(buf, 1, setup->len_max);
	for (int i = 0; i + 2 < n && !rc; i += 3) {
		size_t len = strtoull(words[i], NULL, 10);
		uint64_t count = strtoull(words[i + 1], NULL, 10), unmeasured = count / 10;

		unmeasured = unmeasured > 2000 ? 2000 : unmeasured ? unmeasured : 1;
		rc = is_latency ? latency(setup->server, buf, len, count, unmeasured)
				: stream(setup->server, buf, len, count, unmeasured);
	}
	peer.close();
	free(buf);
	return rc;
}

static bool either(const char *word, const char *a, const char *b)
{
	return !strcmp(word, a) || !strcmp(word, b);
}

int main(int argc, char **argv)
{
	struct peer_setup setup = {0};
	bool is_latency;

	if (argc == 2 && !strcmp(argv[1], "version")) {
		printf("%s\n", peer.version());
		return 0;
	}
	if (argc < 8 || (argc - 5) % 3 || !either(argv[1], "server", "client") ||
	    !either(argv[2], "latency", "stream")) {
		fprintf(stderr,
			"usage: peer_%s server|client latency|stream shm|tcp ADDRESS "
			"SIZE COUNT WINDOW...\n",
			peer.name);
		return 2;
	}
	setup.server = !strcmp(argv[1], "server");
	is_latency = !strcmp(argv[2], "latency");
	setup.tcp = !strcmp(argv[3], "tcp");
	setup.address = argv[4];
	setup.window = (unsigned)strtoul(argv[7], NULL, 10);
	for (int i = 5; i < argc; i += 3) {
		size_t len = strtoull(argv[i], NULL, 10);

		setup.len_max = len > setup.len_max ? len : setup.len_max;
	}
	if (!setup.window || !setup.len_max)
		return peer_fail("usage", "a size and a window are at least 1") != 0;
	if (peer.open(&setup, &argc, &argv))
		return 1;
	return run(&setup, is_latency, argc - 5, argv + 5) ? 1 : 0;
}
