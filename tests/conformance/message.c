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
		conf_plan_one(&plan, sizes[i], i);
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
			conf_plan_one(&plan, sizes[i], i);
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
			conf_plan_one(&plan, len, n);
			long_one(c, &p, (enum conf_memory)((n + n / 3) % CONF_MEMORIES), &plan);
		}
}

static void long_16mib(struct conf *c)
{
	struct conf_plan plan;
	struct conf_pair p;

	conf_pair(c, &p);
	for (int kind = 0; kind < CONF_MEMORIES; kind++) {
		conf_plan_one(&plan, 16 * MIB, 3);
		long_one(c, &p, (enum conf_memory)kind, &plan);
	}
}

static void long_64mib(struct conf *c)
{
	struct conf_plan plan;
	struct conf_pair p;

	conf_pair(c, &p);
	conf_plan_one(&plan, 64 * MIB, 5);
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

		conf_plan_one(&plan,
			      i == 0   ? 0
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

			conf_plan_one(&plan, m->items[0].iov_len, received);
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

		conf_plan_one(&plan, len, i);
		memory[i] = conf_build(c, p.a, i % 3 ? CONF_ALLOCATED : CONF_UNREGISTERED, &plan,
				       &item[i]);
		EXPECT_OK(ripc_send_async(p.sa, p.idb, &item[i], 1, NULL, &request[i]));
	}
	for (unsigned i = 0; i < 40; i++) {
		struct ripc_message *m = conf_receive(c, p.sb);

		conf_plan_one(&plan, item[i].iov_len, i);
		conf_check_message(m, &plan, p.ida, p.idb, true);
		ripc_message_free(m);
	}
	for (unsigned i = 40; i-- > 0;) {
		EXPECT_OK(ripc_request_wait(&request[i], c->patience_ms));
		conf_mem_free(c, p.a, i % 3 ? CONF_ALLOCATED : CONF_UNREGISTERED, memory[i]);
	}
}

/* The public fields that the next message from one end to the other must have. */
struct direction {
	struct ripc *ctx; /* that sends */
	struct ripc_service *from, *to;
	const struct ripc_send_options *options;
	const uint8_t *instance; /* of ctx */
	bool is_long;
	unsigned placements; /* bits: enum ripc_placement that an item with bytes may have */
};

static void check_fields(const struct ripc_message *m, const struct direction *dir,
			 const struct conf_plan *plan)
{
	conf_check_message(m, plan, ripc_service_id(dir->from), ripc_service_id(dir->to),
			   dir->is_long);
	EXPECT_EQ(0, memcmp(m->instance, dir->instance, 16));
	EXPECT_EQ(dir->options ? dir->options->nreturn_buffers : 0, m->nreturn_buffers);
	EXPECT_EQ(0, m->group);
	for (unsigned i = 0; i < plan->nitems; i++)
		if (plan->len[i])
			CHECK(dir->placements >> m->placement[i] & 1, "item %u: placement %u", i,
			      m->placement[i]);
}

typedef int send_fn(struct ripc_service *from, uint64_t dest, const struct iovec *items,
		    unsigned nitems, const struct ripc_send_options *options, int timeout_ms);

/*
 * Sends a message by one of the calls, until it comes, and checks it. Return: where its first
 * item was received.
 */
static void *travel(struct conf *c, const struct direction *dir, const struct conf_plan *plan,
		    enum conf_memory kind, send_fn *send)
{
	bool reliable =
		c->reliable || dir->is_long || (dir->options && dir->options->nreturn_buffers);
	struct iovec items[RIPC_ITEMS_MAX];
	void *memory = conf_build(c, dir->ctx, kind, plan, items), *base;
	uint64_t dest = ripc_service_id(dir->to);
	struct ripc_message *m;
	int rc = -EAGAIN;

	for (int waited = 0; rc && waited < c->patience_ms; waited += 50) {
		EXPECT_OK(send(dir->from, dest, items, plan->nitems, dir->options, c->patience_ms));
		rc = ripc_receive(dir->to, &m, reliable ? c->patience_ms : 50);
		if (reliable)
			break;
	}
	EXPECT_OK(rc);
	check_fields(m, dir, plan);
	base = m->items[0].iov_base;
	ripc_message_free(m);
	/* One that was sent twice. */
	while (!reliable && !ripc_receive(dir->to, &m, 50))
		ripc_message_free(m);
	conf_mem_free(c, dir->ctx, kind, memory);
	return base;
}

/* The first one, those that follow it between the same services, and others in between. */
static void fields_short(struct conf *c, struct direction dir[2])
{
	static const struct conf_plan plans[] = {{1, {16}, 1},      {1, {16}, 2},  {1, {0}, 3},
						 {3, {5, 0, 7}, 4}, {1, {400}, 5}, {1, {1}, 6}};
	const struct ripc_send_options more = {.size = sizeof(more), .flags = RIPC_MORE};
	const unsigned nplans = sizeof(plans) / sizeof(plans[0]);

	for (unsigned i = 0; i < (c->reliable ? 10 * nplans : nplans); i++) {
		struct direction *at = &dir[i % 4 > 1];
		send_fn *send;

		at->is_long = false;
		at->options = i % 5 ? NULL : &more;
		at->placements = 1 << RIPC_IN_RECEIVE_BUFFER;
		send = i % 3 ? ripc_send : ripc_send_short;
		travel(c, at, &plans[i % nplans], CONF_UNREGISTERED, send);
	}
}

static const size_t fields_sizes[] = {8, 3000, 20000, 70000, 300000};
#define FIELDS_SIZES (sizeof(fields_sizes) / sizeof(fields_sizes[0]))

/* Inline, by way of a bounce buffer, by a registration of its own, and in place. */
static void fields_long(struct conf *c, struct direction dir[2])
{
	for (unsigned i = 0; i < 12 * FIELDS_SIZES; i++) {
		size_t len = fields_sizes[i % FIELDS_SIZES];
		enum conf_memory kind = (enum conf_memory)(i / FIELDS_SIZES % CONF_MEMORIES);
		struct direction *at = &dir[i / 20 % 2];
		struct conf_plan plan = {4, {len, 0, 9, 5000}, i};

		if (i % 7)
			conf_plan_one(&plan, len, i);
		at->is_long = true;
		at->options = NULL;
		at->placements = 1 << RIPC_IN_POOL;
		if (kind == CONF_ALLOCATED)
			at->placements |= 1 << RIPC_IN_SENDER_MEMORY;
		travel(c, at, &plan, kind, ripc_send_long);
	}
}

/*
 * A message offers buffers, and the answer lands in the first that fits, and offers one itself.
 * That is so whether the transport writes there, or a bounce buffer stands in between, or the
 * owner of the buffer has to fetch what is for it.
 */
static void fields_returns(struct conf *c, struct direction dir[2])
{
	static const unsigned counts[] = {1, 2, RIPC_RETURN_BUFFERS_MAX};

	for (unsigned i = 0; i < 6 * FIELDS_SIZES; i++) {
		struct direction *ask = &dir[i % 2], *answer = &dir[!(i % 2)];
		enum conf_memory kind = i % 4 > 1 ? CONF_ALLOCATED : CONF_REGISTERED;
		size_t len = fields_sizes[i % FIELDS_SIZES];
		uint8_t *buf = conf_mem_alloc(c, ask->ctx, kind, len + RIPC_RETURN_BUFFERS_MAX);
		uint8_t *back = conf_mem_alloc(c, answer->ctx, CONF_ALLOCATED, 1);
		struct iovec returns[RIPC_RETURN_BUFFERS_MAX], other = {back, 1};
		struct ripc_send_options options = {.size = sizeof(options),
						    .nreturn_buffers = counts[i % 3],
						    .return_buffers = returns};
		const struct ripc_send_options one = {
			.size = sizeof(one), .nreturn_buffers = 1, .return_buffers = &other};
		struct conf_plan plan;
		send_fn *send;

		returns[options.nreturn_buffers - 1] = (struct iovec){buf, len};
		for (unsigned k = 0; k + 1 < options.nreturn_buffers; k++)
			returns[k] = (struct iovec){buf + len + k, 1};
		ask->is_long = i % 5 > 1;
		ask->options = &options;
		ask->placements = 1 << (ask->is_long ? RIPC_IN_POOL : RIPC_IN_RECEIVE_BUFFER);
		conf_plan_one(&plan, 100, i);
		send = ask->is_long ? ripc_send_long : ripc_send_short;
		travel(c, ask, &plan, CONF_UNREGISTERED, send);
		answer->is_long = true;
		answer->options = &one;
		answer->placements = 1 << RIPC_IN_RETURN_BUFFER;
		conf_plan_one(&plan, len, i + 1);
		CHECK(travel(c, answer, &plan, CONF_UNREGISTERED, ripc_send_long) == buf,
		      "not in the return buffer");
		conf_mem_free(c, answer->ctx, CONF_ALLOCATED, back);
		if (kind == CONF_ALLOCATED) {
			conf_mem_free(c, ask->ctx, kind, buf);
		} else {
			/* Unused return buffers keep the memory registered: use them up. */
			struct ripc_message *m;

			while (options.nreturn_buffers > 1) {
				struct ripc_service *from = answer->from;
				uint64_t id = ripc_service_id(ask->from);

				EXPECT_OK(conf_send_long(c, from, id, 1, i, c->patience_ms));
				m = conf_receive(c, ask->from);
				EXPECT_EQ(RIPC_IN_RETURN_BUFFER, m->placement[0]);
				ripc_message_free(m);
				options.nreturn_buffers--;
			}
			conf_mem_free(c, ask->ctx, kind, buf);
		}
	}
}

static void fields(struct conf *c)
{
	struct ripc_service *third;
	struct ripc_message *m;
	struct ripc_route route = {.size = sizeof(route)};
	struct conf_pair p;
	struct direction dir[2];
	uint8_t instance[2][16];

	conf_pair(c, &p);
	EXPECT_OK(ripc_route_lookup(p.a, p.idb, NULL, c->patience_ms));
	EXPECT_OK(ripc_route_get(p.a, p.idb, &route));
	EXPECT_EQ(p.idb, route.service);
	EXPECT_EQ(1, route.connected);
	CHECK(route.transport[0] && route.reason[0], "route without transport or reason");
	CHECK(route.short_max >= RIPC_SHORT_GUARANTEED, "%zu", (size_t)route.short_max);
	memcpy(instance[1], route.instance, 16);
	EXPECT_OK(ripc_route_lookup(p.b, p.ida, &route, c->patience_ms));
	memcpy(instance[0], route.instance, 16);
	EXPECT_EQ(c->same, !memcmp(instance[0], instance[1], 16));
	dir[0] = (struct direction){.ctx = p.a, .from = p.sa, .to = p.sb, .instance = instance[0]};
	dir[1] = (struct direction){.ctx = p.b, .from = p.sb, .to = p.sa, .instance = instance[1]};
	fields_short(c, dir);
	fields_long(c, dir);
	fields_returns(c, dir);
	fields_short(c, dir);
	/* Another service of the same context. */
	third = conf_register(c, p.a, conf_id(c));
	EXPECT_OK(conf_send_long(c, third, p.idb, 10, 1, c->patience_ms));
	m = conf_receive(c, p.sb);
	EXPECT_EQ(ripc_service_id(third), m->source);
	EXPECT_EQ(0, memcmp(m->instance, instance[0], 16));
	EXPECT_EQ(0, m->nreturn_buffers);
	ripc_message_free(m);
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
		conf_plan_one(&plan, 500, i * 100 + next[i]++);
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

		conf_plan_one(&plan, m[i]->items[0].iov_len, m[i]->items[0].iov_len - 100);
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

		conf_plan_one(&held, 70000 + 100 * i, i);
		buf = conf_build(c, p.b, CONF_ALLOCATED, &held, &item);
		EXPECT_OK(ripc_send_async(p.sb, p.ida, &item, 1, NULL, &r));
		m = conf_receive(c, p.sa);
		for (unsigned k = 0; k < 2 * run; k++) {
			if (k == run) {
				conf_check_message(m, &held, p.idb, p.ida, true);
				ripc_message_free(m);
			}
			conf_plan_one(&plan, 10 + k, k);
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
		conf_plan_one(&plan, 100 + i, i);
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
	{"fields", fields, 0},
	{"one_service_many_sources", one_service_many_sources, 0},
	{"many_unreleased", many_unreleased, 0},
	{"unreleased_among_short", unreleased_among_short, CONF_RELIABLE | CONF_ONCE},
	{"lossy_short", lossy_short, 0},
	{0},
};
