/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The resolver at scale, simulated (tests/scale/cluster.h): one scenario, one line of results.
 *
 *     scale SCENARIO MODE CONTEXTS [LOSS_PPM [SEED]]
 *
 * MODE is broadcast or zookeeper. There are ten services to each context, and each needs ten
 * services of others. SCENARIO:
 *
 *     `boot`       all contexts start within a second, register, and look up their services
 *     `rush`       the same within ten milliseconds, as after a power failure
 *     `steady`     five minutes of normal use; 1 % of the contexts restarts per minute
 *     `herd`       all contexts look up the same service within a millisecond
 *     `partition`  the network is split for a minute, and 1 % of the services are registered in
 *       both halves
 *
 * scale names prints the names of the columns.
 */
#include "../tests/scale/cluster.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SERVICES_EACH 10
#define NEEDS         10
#define SECOND        (1000 * RIPC__MS)

struct run {
	struct cluster_options opt;
	struct cluster *cluster;
	uint64_t rng;
	double seconds;  /* that the counts are of */
	uint64_t waited; /* until all was found, in ns; 0: it was not */
};

static uint64_t draw(struct run *run, uint64_t below)
{
	uint64_t z = run->rng += 0x9e3779b97f4a7c15u;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return (z ^ (z >> 31)) % below;
}

static void lookup_all(struct run *run, unsigned context, uint64_t at_ns)
{
	for (unsigned i = 0; i < NEEDS; i++)
		cluster_ask(run->cluster, context, 1 + draw(run, run->opt.services), at_ns);
}

static void start_all(struct run *run, uint64_t within_ns, bool need)
{
	uint64_t now_ns = cluster_now_ns(run->cluster);

	for (unsigned i = 0; i < run->opt.contexts; i++) {
		uint64_t at_ns = now_ns + draw(run, within_ns);

		cluster_start(run->cluster, i, at_ns);
		if (need)
			lookup_all(run, i, at_ns);
	}
}

/* Runs until everything is found, @most_ns at most. */
static void settle(struct run *run, uint64_t most_ns)
{
	uint64_t begin_ns = cluster_now_ns(run->cluster), at_ns = begin_ns;

	do
		cluster_run(run->cluster, at_ns += 10 * RIPC__MS);
	while ((at_ns - begin_ns < SECOND || cluster_open_asks(run->cluster)) &&
	       at_ns - begin_ns < most_ns);
	run->waited = cluster_open_asks(run->cluster) ? 0 : at_ns - begin_ns;
	run->seconds = (double)(at_ns - begin_ns) / 1e9;
}

static void boot(struct run *run)
{
	start_all(run, SECOND, true);
	settle(run, 120 * SECOND);
}

static void boot_all(struct run *run)
{
	start_all(run, 10 * RIPC__MS, true);
	settle(run, 120 * SECOND);
}

static void steady(struct run *run)
{
	const unsigned minutes = 5;
	unsigned restarts = run->opt.contexts / 100 * minutes;
	uint64_t begin_ns;

	start_all(run, 30 * SECOND, true);
	settle(run, 120 * SECOND);
	cluster_run(run->cluster, cluster_now_ns(run->cluster) + 120 * SECOND);
	cluster_forget_counts(run->cluster);
	begin_ns = cluster_now_ns(run->cluster);
	for (unsigned i = 0; i < restarts; i++) {
		unsigned context = (unsigned)draw(run, run->opt.contexts);
		uint64_t at_ns = begin_ns + draw(run, minutes * 60 * SECOND);

		cluster_start(run->cluster, context, at_ns);
		lookup_all(run, context, at_ns);
	}
	run->seconds = minutes * 60;
	cluster_run(run->cluster, begin_ns + minutes * 60 * SECOND);
	settle(run, 60 * SECOND);
	run->seconds = minutes * 60;
}

static void same_lookup(struct run *run)
{
	uint64_t now_ns, service = 1;

	start_all(run, 30 * SECOND, false);
	/* Records overheard at registration have expired for most services by then. */
	cluster_run(run->cluster, cluster_now_ns(run->cluster) + 100 * SECOND);
	cluster_forget_counts(run->cluster);
	now_ns = cluster_now_ns(run->cluster);
	while (service < run->opt.services &&
	       (cluster_holds(run->cluster, 0, service) ||
		cluster_knows(run->cluster, 0, service, cluster_owner(run->cluster, service))))
		service++;
	for (unsigned i = 1; i < run->opt.contexts; i++)
		if (i != cluster_owner(run->cluster, service))
			cluster_ask(run->cluster, i, service, now_ns + draw(run, RIPC__MS));
	settle(run, 60 * SECOND);
}

static void partition(struct run *run)
{
	const unsigned contexts = run->opt.contexts;
	uint64_t now_ns;

	if (!contexts)
		return;
	start_all(run, 30 * SECOND, true);
	settle(run, 120 * SECOND);
	cluster_run(run->cluster, cluster_now_ns(run->cluster) + 60 * SECOND);
	for (unsigned i = 0; i < run->opt.contexts; i++)
		cluster_side(run->cluster, i, i & 1);
	now_ns = cluster_now_ns(run->cluster);
	for (unsigned i = 0; i < run->opt.services; i += 100)
		cluster_claim(run->cluster, (cluster_owner(run->cluster, i + 1) + 1) % contexts,
			      i + 1, now_ns + draw(run, 30 * SECOND));
	cluster_run(run->cluster, now_ns + 60 * SECOND);
	for (unsigned i = 0; i < run->opt.contexts; i++)
		cluster_side(run->cluster, i, 0);
	cluster_forget_counts(run->cluster);
	now_ns = cluster_now_ns(run->cluster);
	/* Those who lost touch ask again, as applications with something to send do. */
	for (unsigned i = 0; i < run->opt.contexts; i++)
		lookup_all(run, i, now_ns + draw(run, SECOND));
	settle(run, 120 * SECOND);
	cluster_run(run->cluster, now_ns + 600 * SECOND);
	run->seconds = 600;
}

static const struct {
	const char *name;
	void (*run)(struct run *run);
} scenarios[] = {{"boot", boot},
		 {"rush", boot_all},
		 {"steady", steady},
		 {"herd", same_lookup},
		 {"partition", partition}};

static void print(struct run *run, const char *scenario, const char *mode)
{
	const struct cluster_counts *c = cluster_counts(run->cluster);
	uint64_t all = 0, one = 0;
	unsigned n = run->opt.contexts;
	double datagrams;

	for (unsigned k = 0; k < CLUSTER_KINDS; k++) {
		all += c->to_all[k];
		one += c->to_one[k];
	}
	datagrams = ((double)all + (double)one / n) / run->seconds;
	printf("%s\t%s\t%u\t%u\t%u\t%.1f\t%llu\t%llu\t%llu\t%llu\t%llu\t%llu\t%llu\t%llu\t%.1f\t"
	       "%.3f\t%u\t%u\t%u\t%zu\t%u\t%u\t%llu\t%llu\t%.0f",
	       scenario, mode, n, run->opt.services, run->opt.loss_ppm, run->seconds,
	       (unsigned long long)all, (unsigned long long)one,
	       (unsigned long long)c->to_all[RIPC__RESOLVE_PROBE],
	       (unsigned long long)c->to_all[RIPC__RESOLVE_REQUEST],
	       (unsigned long long)c->to_one[RIPC__RESOLVE_REQUEST],
	       (unsigned long long)c->to_one[RIPC__RESOLVE_REPLY], (unsigned long long)c->ensemble,
	       (unsigned long long)c->peak_all * 10, datagrams,
	       datagrams * (double)run->opt.datagram_ns / 1e7,
	       cluster_percentile(c->resolve_us, c->nresolve, 50),
	       cluster_percentile(c->resolve_us, c->nresolve, 99),
	       cluster_percentile(c->resolve_us, c->nresolve, 100), cluster_open_asks(run->cluster),
	       cluster_percentile(c->register_us, c->nregister, 50),
	       cluster_percentile(c->register_us, c->nregister, 99),
	       (unsigned long long)c->conflicts, (unsigned long long)c->rx_dropped,
	       (double)run->waited / 1e6);
	printf("\t%zu\t%zu\n", cluster_memory(run->cluster, 0),
	       cluster_memory(run->cluster, n - 1));
}

int main(int argc, char **argv)
{
	struct run run = {.opt = cluster_defaults()};

	if (argc == 2 && !strcmp(argv[1], "names")) {
		printf("scenario\tmode\tcontexts\tservices\tloss_ppm\tseconds\tto_all\t"
		       "to_one\tprobes\trequests_all\trequests_one\treplies\tensemble\t"
		       "peak_per_s\theard_per_s\tcpu_percent\tresolve_p50_us\t"
		       "resolve_p99_us\tresolve_max_us\topen\tregister_p50_us\t"
		       "register_p99_us\tconflicts\tlost\tsettled_ms\tmemory_all\t"
		       "memory_own\n");
		return 0;
	}
	for (size_t i = 0; argc > 3 && i < sizeof(scenarios) / sizeof(scenarios[0]); i++) {
		if (strcmp(argv[1], scenarios[i].name))
			continue;
		run.opt.mode = strcmp(argv[2], "zookeeper") ? CLUSTER_BROADCAST : CLUSTER_ZOOKEEPER;
		run.opt.contexts = (unsigned)atoi(argv[3]);
		run.opt.services = SERVICES_EACH * run.opt.contexts;
		run.opt.loss_ppm = argc > 4 ? (unsigned)atoi(argv[4]) : 0;
		run.opt.seed = run.rng = argc > 5 ? strtoull(argv[5], NULL, 0) : 1;
		/* One context receives everything, so that its memory can be measured. */
		run.opt.observers = 1;
		if (run.opt.contexts < 2 || run.opt.contexts > 100000)
			break;
		run.cluster = cluster_new(&run.opt);
		scenarios[i].run(&run);
		print(&run, argv[1], argv[2]);
		cluster_free(run.cluster);
		return 0;
	}
	fprintf(stderr, "usage: scale SCENARIO broadcast|zookeeper CONTEXTS [LOSS_PPM [SEED]]\n"
			"scenarios:");
	for (size_t i = 0; i < sizeof(scenarios) / sizeof(*scenarios); i++)
		fprintf(stderr, " %s", scenarios[i].name);
	fprintf(stderr, "\n");
	return 2;
}
