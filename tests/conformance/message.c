/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Messages of every size and shape arrive as they were sent, and in order. */
#include "conf.h"

static uint64_t short_max(struct conf *c, struct ripc *ctx, uint64_t dest)
{
	struct ripc_limits limits = {.size = sizeof(limits)};

	EXPECT_OK(ripc_route_lookup(ctx, dest, NULL, c->patience_ms));
	EXPECT_OK(ripc_route_limits(ctx, dest, &limits));
	CHECK(limits.short_max >= RIPC_SHORT_GUARANTEED, "%zu", (size_t)limits.short_max);
	EXPECT_EQ(RIPC_ITEMS_MAX, limits.items_max);
	EXPECT_EQ(RIPC_RETURN_BUFFERS_MAX, limits.return_buffers_max);
	CHECK(limits.long_max >= 64 * MIB, "%llu", (unsigned long long)limits.long_max);
	return limits.short_max;
}

static void short_sizes(struct conf *c)
{
	struct conf_pair p;
	char number[32];
	size_t max;

	conf_pair(c, &p);
	max = short_max(c, p.a, p.idb);
	size_t sizes[] = {
		0, 1, 2, 3, 7, 8, 9, 63, 64, 65, RIPC_SHORT_GUARANTEED - 1, RIPC_SHORT_GUARANTEED,
		/* Around a packet of InfiniBand, with the four bytes of an elided header. */
		4092, 4093, 4096, 4097, max - 1, max};

	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct conf_plan plan;

		if (sizes[i] > max)
			continue;
		plan = conf_plan_one(sizes[i], i);
		EXPECT_OK(conf_send_short(c, p.sa, p.idb, sizes[i], i, c->patience_ms));
		conf_expect(c, p.sb, &plan, p.ida, false);
	}
	EXPECT_ERROR(-EMSGSIZE, conf_send_short(c, p.sa, p.idb, max + 1, 0, c->patience_ms));
	snprintf(number, sizeof(number), "%zu", max);
	CHECK(strstr(ripc_error_detail(), number), "limit %s in: %s", number, ripc_error_detail());
	/* Refused before it is looked at. */
	EXPECT_ERROR(-EMSGSIZE, ripc_send_short(p.sa, p.idb, &(struct iovec){number, 100 * MIB}, 1,
						NULL, c->patience_ms));
	conf_expect_none(c, p.sb);
	conf_exchange(c, &p);
}

static void short_items(struct conf *c)
{
	static const unsigned counts[] = {
		1, 2, 3, 4, 7, 31, 32, 33, RIPC_ITEMS_MAX - 1, RIPC_ITEMS_MAX};
	struct iovec items[RIPC_ITEMS_MAX];
	struct conf_plan plan;
	struct conf_pair p;
	size_t max;

	conf_pair(c, &p);
	max = short_max(c, p.a, p.idb);
	for (unsigned i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
		for (int shape = 0; shape < 6; shape++) {
			void *memory;

			/*
			 * 0: all empty, 1: first empty, 2: last empty, 3: every second empty, 4: as
			 * much as fits, 5: any
			 */
			conf_plan_random(c, &plan, counts[i], max);
			for (unsigned k = 0; k < counts[i] && shape < 4; k++)
				plan.len[k] = shape && !(shape == 1 && !k) &&
							      !(shape == 2 && k == counts[i] - 1) &&
							      !(shape == 3 && k % 2)
						      ? 1 + k % 7
						      : 0;
			if (shape == 4)
				plan.len[conf_random(c, counts[i])] += max - conf_plan_total(&plan);
			memory = conf_build(c, p.a, (enum conf_memory)conf_random(c, CONF_MEMORIES),
					    &plan, items);
			(void)memory;
			EXPECT_OK(ripc_send_short(p.sa, p.idb, items, plan.nitems, NULL,
						  c->patience_ms));
			memset(memory, 0x5a, conf_plan_total(&plan));
			conf_expect(c, p.sb, &plan, p.ida, false);
			if (ripc_buf_free(p.a, memory) == -EINVAL) {
				ripc_buf_unregister(p.a, memory);
				free(memory);
			}
		}
}

static void long_one(struct conf *c, struct conf_pair *p, enum conf_memory kind,
		     const struct conf_plan *plan)
{
	struct iovec items[RIPC_ITEMS_MAX];
	void *memory = conf_build(c, p->a, kind, plan, items);

	EXPECT_OK(ripc_send_long(p->sa, p->idb, items, plan->nitems, NULL, c->patience_ms));
	memset(memory, 0x5a, conf_plan_total(plan));
	conf_mem_free(c, p->a, kind, memory);
	conf_expect(c, p->sb, plan, p->ida, true);
}

static void long_sizes(struct conf *c)
{
	static const size_t sizes[] = {0,    1,    63,    64,    511,   4095,   4096,
				       4097, 8192, 65535, 65536, 65537, 200000, 1 << 20};
	struct conf_plan plan;
	struct conf_pair p;

	conf_pair(c, &p);
	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		for (int kind = 0; kind < CONF_MEMORIES; kind++) {
			plan = conf_plan_one(sizes[i], i);
			long_one(c, &p, (enum conf_memory)kind, &plan);
		}
}

/* Around all powers of two: where buffers end, and pieces and pages of all kinds. */
static void long_powers(struct conf *c)
{
	struct conf_plan plan;
	struct conf_pair p;
	unsigned n = 0;

	conf_pair(c, &p);
	for (size_t power = 4096; power <= 8 * MIB; power *= 2)
		for (size_t len = power - 1; len <= power + 1; len++, n++) {
			plan = conf_plan_one(len, n);
			long_one(c, &p, (enum conf_memory)((n + n / 3) % CONF_MEMORIES), &plan);
		}
}

static void long_16mib(struct conf *c)
{
	struct conf_plan plan;
	struct conf_pair p;

	conf_pair(c, &p);
	for (int kind = 0; kind < CONF_MEMORIES; kind++) {
		plan = conf_plan_one(16 * MIB, 3);
		long_one(c, &p, (enum conf_memory)kind, &plan);
	}
}

static void long_64mib(struct conf *c)
{
	struct conf_plan plan;
	struct conf_pair p;

	conf_pair(c, &p);
	plan = conf_plan_one(64 * MIB, 5);
	long_one(c, &p, CONF_ALLOCATED, &plan);
	conf_plan_random(c, &plan, 7, 64 * MIB);
	long_one(c, &p, CONF_UNREGISTERED, &plan);
}

static void long_items(struct conf *c)
{
	static const unsigned counts[] = {1, 2, 3, 7, 33, RIPC_ITEMS_MAX};
	struct conf_plan plan;
	struct conf_pair p;

	conf_pair(c, &p);
	for (unsigned i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
		for (int kind = 0; kind < CONF_MEMORIES; kind++) {
			conf_plan_random(c, &plan, counts[i], 100000);
			long_one(c, &p, (enum conf_memory)kind, &plan);
			/* Empty at both ends, then altogether. */
			plan.len[0] = plan.len[counts[i] - 1] = 0;
			long_one(c, &p, (enum conf_memory)kind, &plan);
			memset(plan.len, 0, sizeof(plan.len));
			long_one(c, &p, (enum conf_memory)kind, &plan);
		}
}

static void send_picks(struct conf *c)
{
	struct conf_plan plan;
	struct conf_pair p;
	size_t max;

	conf_pair(c, &p);
	max = short_max(c, p.a, p.idb);
	for (int i = 0; i < 4; i++) {
		struct iovec item;
		void *memory;

		plan = conf_plan_one(i == 0   ? 0
				     : i == 1 ? max
				     : i == 2 ? max + 1
					      : 50000,
				     (uint64_t)i);
		memory = conf_build(c, p.a, CONF_UNREGISTERED, &plan, &item);
		EXPECT_OK(ripc_send(p.sa, p.idb, &item, 1, NULL, c->patience_ms));
		free(memory);
		conf_expect(c, p.sb, &plan, p.ida, i > 1);
	}
}

static void order_short(struct conf *c)
{
	struct conf_plan plan;
	struct conf_pair p;
	unsigned sent = 0, received = 0;

	conf_pair(c, &p);
	EXPECT_OK(ripc_route_lookup(p.a, p.idb, NULL, c->patience_ms));
	while (received < 600) {
		struct ripc_send_options options = {.size = sizeof(options),
						    .flags = conf_random(c, 2) ? RIPC_MORE : 0};
		unsigned burst = (unsigned)conf_random(c, 40);

		for (; burst-- && sent < 600; sent++) {
			uint8_t data[200];
			struct iovec item = {data, conf_random(c, 2) ? 8 : 200};

			conf_fill(data, item.iov_len, sent);
			if (sent - received > 20)
				break;
			EXPECT_OK(ripc_send_short(p.sa, p.idb, &item, 1, &options, c->patience_ms));
		}
		burst = (unsigned)conf_random(c, 40);
		for (; burst-- && received < sent; received++) {
			struct ripc_message *m = conf_receive(c, p.sb);

			plan = conf_plan_one(m->items[0].iov_len, received);
			conf_check_message(m, &plan, p.ida, p.idb, false);
			ripc_message_free(m);
		}
	}
	conf_expect_none(c, p.sb);
}

static void order_long(struct conf *c)
{
	struct ripc_request *request[40];
	struct iovec item[40];
	struct conf_plan plan;
	struct conf_pair p;
	void *memory[40];

	conf_pair(c, &p);
	/* Small and large ones mixed: none overtakes, however they are carried. */
	for (unsigned i = 0; i < 40; i++) {
		size_t len = conf_random(c, 2) ? conf_random(c, 100) : conf_random(c, 60000);

		plan = conf_plan_one(len, i);
		memory[i] = conf_build(c, p.a, i % 3 ? CONF_ALLOCATED : CONF_UNREGISTERED, &plan,
				       &item[i]);
		EXPECT_OK(ripc_send_async(p.sa, p.idb, &item[i], 1, NULL, &request[i]));
	}
	for (unsigned i = 0; i < 40; i++) {
		struct ripc_message *m = conf_receive(c, p.sb);

		plan = conf_plan_one(item[i].iov_len, i);
		conf_check_message(m, &plan, p.ida, p.idb, true);
		ripc_message_free(m);
	}
	for (unsigned i = 40; i-- > 0;) {
		EXPECT_OK(ripc_request_wait(&request[i], c->patience_ms));
		conf_mem_free(c, p.a, i % 3 ? CONF_ALLOCATED : CONF_UNREGISTERED, memory[i]);
	}
}

static void one_service_many_sources(struct conf *c)
{
	struct ripc_service *source[8];
	struct conf_plan plan;
	struct conf_pair p;
	unsigned next[8] = {0};

	conf_pair(c, &p);
	for (int i = 0; i < 8; i++)
		source[i] = conf_register(c, p.a, conf_id(c));
	for (unsigned k = 0; k < 10; k++)
		for (unsigned i = 0; i < 8; i++)
			EXPECT_OK(conf_send_long(c, source[i], p.idb, 500, i * 100 + k,
						 c->patience_ms));
	for (int n = 0; n < 80; n++) {
		struct ripc_message *m = conf_receive(c, p.sb);
		unsigned i;

		for (i = 0; i < 8 && ripc_service_id(source[i]) != m->source; i++)
			;
		CHECK(i < 8, "unknown source");
		plan = conf_plan_one(500, i * 100 + next[i]++);
		conf_check_message(m, &plan, ripc_service_id(source[i]), p.idb, true);
		ripc_message_free(m);
	}
}

static void many_unreleased(struct conf *c)
{
	struct ripc_message *m[200];
	struct conf_plan plan;
	struct conf_pair p;

	conf_pair(c, &p);
	/* Messages stay unchanged while others come, in whatever order they are freed. */
	for (unsigned i = 0; i < 200; i++) {
		EXPECT_OK(conf_send_long(c, p.sa, p.idb, 100 + i, i, c->patience_ms));
		m[i] = conf_receive(c, p.sb);
	}
	for (unsigned n = 200; n; n--) {
		unsigned i = (unsigned)conf_random(c, n);

		plan = conf_plan_one(m[i]->items[0].iov_len, m[i]->items[0].iov_len - 100);
		conf_check_message(m[i], &plan, p.ida, p.idb, true);
		ripc_message_free(m[i]);
		m[i] = m[n - 1];
	}
}

/*
 * A message that is kept, perhaps in the sender's own memory, and given back while short ones go
 * the same way.
 */
static void unreleased_among_short(struct conf *c)
{
	struct ripc_stats is = {.size = sizeof(is)};
	/* In a guest of the lab each message takes a while. */
	unsigned rounds = c->net ? 40 : 10;
	struct conf_pair p;

	conf_pair(c, &p);
	for (unsigned i = 0; i < rounds; i++) {
		unsigned run = 1 + (unsigned)conf_random(c, 40);
		struct conf_plan held, plan;
		struct ripc_request *r;
		struct ripc_message *m;
		struct iovec item;
		void *buf;

		held = conf_plan_one(70000 + 100 * i, i);
		buf = conf_build(c, p.b, CONF_ALLOCATED, &held, &item);
		EXPECT_OK(ripc_send_async(p.sb, p.ida, &item, 1, NULL, &r));
		m = conf_receive(c, p.sa);
		for (unsigned k = 0; k < 2 * run; k++) {
			if (k == run) {
				conf_check_message(m, &held, p.idb, p.ida, true);
				ripc_message_free(m);
			}
			plan = conf_plan_one(10 + k, k);
			EXPECT_OK(conf_send_short(c, p.sa, p.idb, 10 + k, k, c->patience_ms));
			conf_expect(c, p.sb, &plan, p.ida, false);
		}
		EXPECT_OK(ripc_request_wait(&r, (int)c->patience_ms));
		conf_mem_free(c, p.b, CONF_ALLOCATED, buf);
	}
	EXPECT_OK(ripc_context_stats(p.a, &is));
	EXPECT_EQ(0, is.lanes_lost);
	EXPECT_OK(ripc_context_stats(p.b, &is));
	EXPECT_EQ(0, is.lanes_lost);
}

static void lossy_short(struct conf *c)
{
	struct ripc_message *m;
	struct conf_pair p;
	uint8_t seen[200] = {0};
	unsigned received = 0;

	conf_pair(c, &p);
	EXPECT_OK(ripc_route_lookup(p.a, p.idb, NULL, c->patience_ms));
	for (unsigned i = 0; i < 200; i++) {
		EXPECT_OK(conf_send_short(c, p.sa, p.idb, 100 + i, i, c->patience_ms));
		if (i % 10 == 9)
			conf_run(c, 1);
	}
	/* Whole, and at most once. */
	while (!ripc_receive(p.sb, &m, c->reliable && received < 200 ? c->patience_ms : 200)) {
		size_t i = m->items[0].iov_len - 100;
		struct conf_plan plan;

		CHECK(i < 200, "%zu", i);
		CHECK(!seen[i]++, "message %zu twice", i);
		plan = conf_plan_one(100 + i, i);
		conf_check_message(m, &plan, p.ida, p.idb, false);
		ripc_message_free(m);
		received++;
	}
	CHECK(received > 20, "only %u of 200 arrived", received);
	if (c->reliable)
		EXPECT_EQ(200, received);
}

const struct conf_case conf_message[] = {
	{"short_sizes", short_sizes, CONF_RELIABLE},
	{"short_items", short_items, CONF_RELIABLE},
	{"long_sizes", long_sizes, 0},
	{"long_powers", long_powers, CONF_ONCE},
	{"long_16mib", long_16mib, CONF_ONCE},
	{"long_64mib", long_64mib, CONF_REAL},
	{"long_items", long_items, 0},
	{"send_picks", send_picks, CONF_RELIABLE},
	{"order_short", order_short, CONF_RELIABLE},
	{"order_long", order_long, 0},
	{"one_service_many_sources", one_service_many_sources, 0},
	{"many_unreleased", many_unreleased, 0},
	{"unreleased_among_short", unreleased_among_short, CONF_RELIABLE | CONF_ONCE},
	{"lossy_short", lossy_short, 0},
	{0},
};
