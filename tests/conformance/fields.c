/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The public fields of received messages, for each call that sends and each kind of memory. */
#include "conf.h"

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
			plan = conf_plan_one(len, i);
		at->is_long = true;
		at->options = NULL;
		at->placements = 1 << RIPC_IN_POOL | 1 << RIPC_IN_SENDER_MEMORY;
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
		plan = conf_plan_one(100, i);
		send = ask->is_long ? ripc_send_long : ripc_send_short;
		travel(c, ask, &plan, CONF_UNREGISTERED, send);
		answer->is_long = true;
		answer->options = &one;
		answer->placements = 1 << RIPC_IN_RETURN_BUFFER;
		plan = conf_plan_one(len, i + 1);
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

const struct conf_case conf_fields[] = {
	{"fields", fields, 0},
	{0},
};
