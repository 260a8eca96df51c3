/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Many peers at once, and pairs that turn to one another at the same moment. */
#include "conf.h"

struct peer_contexts {
	unsigned n;
	struct ripc *ctx[CONF_CONTEXTS_MAX];
	struct ripc_service *service[CONF_CONTEXTS_MAX];
	uint64_t id[CONF_CONTEXTS_MAX];
};

static struct peer_contexts *gather(struct conf *c, unsigned n)
{
	static struct peer_contexts peer_contexts;

	peer_contexts.n = n;
	for (unsigned i = 0; i < n; i++) {
		peer_contexts.ctx[i] = conf_open(c);
		peer_contexts.id[i] = conf_id(c);
		peer_contexts.service[i] =
			conf_register(c, peer_contexts.ctx[i], peer_contexts.id[i]);
	}
	return &peer_contexts;
}

/* One long message to each of `to` from each of `from`, all at the same time. */
static void all_at_once(struct conf *c, struct peer_contexts *w, unsigned nfrom, unsigned first_to,
			unsigned nto)
{
	struct ripc_request **request = calloc((size_t)nfrom * nto, sizeof(*request));
	uint8_t *data = malloc(2000);
	struct iovec item = {data, 2000};
	struct conf_plan plan;

	CHECK(request && data, "out of memory");
	conf_fill(data, 2000, 4);
	plan = conf_plan_one(2000, 4);
	for (unsigned i = 0; i < nfrom; i++)
		for (unsigned k = 0; k < nto; k++)
			if (i != first_to + k)
				EXPECT_OK(ripc_send_async(w->service[i], w->id[first_to + k], &item,
							  1, NULL, &request[i * nto + k]));
	for (unsigned k = 0; k < nto; k++) {
		uint8_t seen[CONF_CONTEXTS_MAX] = {0};

		for (unsigned n = 0; n < nfrom; n++) {
			struct ripc_message *m;
			unsigned i;

			if (n == first_to + k)
				continue;
			m = conf_receive(c, w->service[first_to + k]);
			for (i = 0; i < nfrom && w->id[i] != m->source; i++)
				;
			CHECK(i < nfrom && !seen[i]++, "from whom?");
			conf_check_message(m, &plan, w->id[i], w->id[first_to + k], true);
			ripc_message_free(m);
		}
	}
	for (unsigned i = 0; i < nfrom * nto; i++)
		if (request[i])
			EXPECT_OK(ripc_request_wait(&request[i], c->patience_ms));
	free(request);
	free(data);
}

static void many_to_one(struct conf *c)
{
	struct peer_contexts *w = gather(c, c->peers + 1);

	for (int round = 0; round < 3; round++)
		all_at_once(c, w, c->peers, c->peers, 1);
	AWAIT_STAT(c, w->ctx[c->peers], lanes, c->peers);
}

static void each_to_each(struct conf *c)
{
	unsigned n = c->peers > 12 ? 12 : c->peers;
	struct peer_contexts *w = gather(c, n);
	struct ripc_stats stats = {.size = sizeof(stats)};

	/* Every pair crosses. */
	all_at_once(c, w, n, 0, n);
	all_at_once(c, w, n, 0, n);
	for (unsigned i = 0; i < n; i++) {
		AWAIT_STAT(c, w->ctx[i], lanes, n - 1);
		EXPECT_OK(ripc_context_stats(w->ctx[i], &stats));
		EXPECT_EQ(n - 1, stats.peers);
		EXPECT_EQ(0, stats.bad_messages + stats.bad_peers);
		EXPECT_EQ(0, stats.peers_lost);
	}
}

static void crossed(struct conf *c)
{
	for (int round = 0; round < 5; round++) {
		struct ripc_request *request[2];
		struct conf_plan plan;
		uint8_t data[2][1000];
		struct conf_pair p;

		conf_pair(c, &p);
		for (int i = 0; i < 2; i++) {
			struct iovec item = {data[i], 1000};

			conf_fill(data[i], 1000, (uint64_t)i);
			EXPECT_OK(ripc_send_async(i ? p.sb : p.sa, i ? p.ida : p.idb, &item, 1,
						  NULL, &request[i]));
			if (!i)
				conf_run(c, (unsigned)conf_random(c, 2));
		}
		plan = conf_plan_one(1000, 0);
		conf_expect(c, p.sb, &plan, p.ida, true);
		plan = conf_plan_one(1000, 1);
		conf_expect(c, p.sa, &plan, p.idb, true);
		for (int i = 0; i < 2; i++)
			EXPECT_OK(ripc_request_wait(&request[i], c->patience_ms));
		conf_exchange(c, &p);
		/* One lane is enough, and only one stays. */
		AWAIT_STAT(c, p.a, lanes, 1);
		AWAIT_STAT(c, p.b, lanes, 1);
		conf_close_all(c);
	}
}

static void many_services(struct conf *c)
{
	struct ripc_service *service[60];
	struct ripc_stats stats = {.size = sizeof(stats)};
	struct conf_plan plan;
	struct conf_pair p;

	conf_pair(c, &p);
	plan = conf_plan_one(100, 1);
	for (int i = 0; i < 60; i++) {
		service[i] = conf_register(c, p.b, RIPC_ANY_ID);
		EXPECT_OK(conf_send_long(c, p.sa, ripc_service_id(service[i]), 100, 1,
					 c->patience_ms));
	}
	for (int i = 0; i < 60; i++)
		conf_expect(c, service[i], &plan, p.ida, true);
	EXPECT_OK(ripc_context_stats(p.a, &stats));
	/* Shared by all services of both. A context is connected to itself with two ends. */
	CHECK(stats.lanes <= 1u + c->same, "%llu lanes", (unsigned long long)stats.lanes);
}

const struct conf_case conf_peer[] = {
	{"many_to_one", many_to_one, CONF_TWO_CONTEXTS},
	{"each_to_each", each_to_each, CONF_TWO_CONTEXTS},
	{"crossed", crossed, CONF_TWO_CONTEXTS},
	{"many_services", many_services, 0},
	{0},
};
