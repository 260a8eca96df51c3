/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The conformance suite over simulated networks: RIPC_TEST_SEEDS runs (200) of each case, spread
 * over the configurations below. RIPC_TEST_SEED names the first seed, RIPC_TEST_CONFIG one
 * configuration.
 */
#include "conf.h"

#include "transport/sim/sim.h"
#include "transport/transport.h"

struct config {
	const char *name;
	void (*change)(struct conf *c, struct ripc__sim_config *config);
};

static void no_faults(struct conf *c, struct ripc__sim_config *config)
{
}

static void lossy(struct conf *c, struct ripc__sim_config *config)
{
	config->datagram = true;
	config->datagram_loss = 0.1;
	config->datagram_duplication = 0.1;
	config->datagram_reordering = 0.2;
	c->options = "short=udp";
	c->reliable = false;
	c->datagram = true;
}

/* Multicast beside the lanes, or a network that duplicates it. */
static void multicast(struct conf *c, struct ripc__sim_config *config)
{
	config->multicast = c->multicast = true;
	config->datagram_duplication = conf_random(c, 2) ? 0 : 0.1;
}

static void no_read(struct conf *c, struct ripc__sim_config *config)
{
	config->caps_off = RIPC__CAP_READ;
}

static void no_write(struct conf *c, struct ripc__sim_config *config)
{
	config->caps_off = RIPC__CAP_WRITE;
	c->can_write = false;
}

static void no_cheap_reg(struct conf *c, struct ripc__sim_config *config)
{
	config->caps_off = RIPC__CAP_CHEAP_REG;
}

/* Every queue and every message as small as it may be. */
static void small(struct conf *c, struct ripc__sim_config *config)
{
	config->recv_depth = 3 + (uint32_t)conf_random(c, 6);
	config->send_max = 2048;
	config->read_depth = 1 + (uint32_t)conf_random(c, 2);
	config->queue_depth = 2 + (uint32_t)conf_random(c, 7);
	config->rdma_max = 4096;
	if (conf_random(c, 3) == 0)
		config->caps_off = RIPC__CAP_READ;
}

/* Everything that a transport may do to its user within the contract. */
static void all_faults(struct conf *c, struct ripc__sim_config *config)
{
	config->queue_full = 0.2;
	config->hold = 0.3;
	config->transient = 0.3;
	config->delay_max_ns = 1 + conf_random(c, 3000000);
	config->target_progress = conf_random(c, 2);
	config->bandwidth = conf_random(c, 2) ? 0 : 1000000000;
	config->recv_depth = conf_random(c, 3) ? 16 : 0;
}

static void no_memory(struct conf *c, struct ripc__sim_config *config)
{
	config->reg_failure = 0.05;
	c->no_memory = true;
}

static const struct config configs[] = {
	{"plain", no_faults},           {"lossy", lossy},
	{"no_read", no_read},           {"no_write", no_write},
	{"no_cheap_reg", no_cheap_reg}, {"small", small},
	{"rough", all_faults},          {"no_memory", no_memory},
	{"multicast", multicast},
};

#define NCONFIGS (sizeof(configs) / sizeof(configs[0]))

static void no_progress(void *arg, const char *text)
{
	FAIL("%s", text);
}

static void run_one(const struct conf_case *k, const struct config *how, uint64_t seed)
{
	struct conf c = {.program = "sim",
			 .config = how->name,
			 .options = "",
			 .reliable = true,
			 .can_write = true,
			 .peers = 50,
			 .patience_ms = 60000,
			 .silence_ms = 100,
			 .seed = seed,
			 .rng = seed};
	struct ripc__sim_counters counters;
	struct ripc__sim_config config;
	const char *text;

	ripc__sim_defaults(&config);
	how->change(&c, &config);
	/* Source and destination in one context, now and then. */
	c.same = seed % 5 == 4;
	c.net = ripc__sim_create(seed, &config, no_progress, NULL);
	if (!conf_can_run(&c, k))
		c.same = false;
	if (conf_can_run(&c, k)) {
		conf_set_label(&c, k->name);
		conf_run_case(&c, k);
		while (ripc__sim_step(c.net, UINT64_MAX))
			;
		ripc__sim_counters(c.net, &counters);
		EXPECT_EQ(0, counters.endpoints);
		EXPECT_EQ(0, counters.regions);
		EXPECT_EQ(0, counters.packets);
		CHECK(ripc__sim_violations(c.net, &text) == c.violations, "%s", text);
	}
	ripc__sim_destroy(c.net);
}

START_TEST(run)
{
	const struct conf_case *k = conf_find(_i);
	const char *seeds = getenv("RIPC_TEST_SEEDS"), *only = getenv("RIPC_TEST_CONFIG");
	unsigned n = seeds ? (unsigned)strtoul(seeds, NULL, 0) : 200;
	uint64_t seed = test_seed();

	if (k->needs & CONF_ONCE && n > NCONFIGS)
		n = NCONFIGS;
	for (unsigned i = 0; i < n; i++) {
		const struct config *how = &configs[i % NCONFIGS];

		for (unsigned j = 0; only && j < NCONFIGS; j++)
			if (!strcmp(configs[j].name, only))
				how = &configs[j];
		run_one(k, how, seed + i);
	}
}
END_TEST

static bool wanted(const struct conf_case *k)
{
	return !(k->needs & CONF_REAL);
}

int main(int argc, char **argv)
{
	/* Drawn here, once for all cases. */
	test_seed();
	return test_main("conformance_sim", conf_suite("conformance_sim", run, wanted, 600));
}
