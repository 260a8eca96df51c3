/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Faults: broken lanes, failing allocations and connections, silent and slow peers. */
#include "conf.h"

#include "core/progress/hooks.h"
#include "core/sim/world.h"
#include "transport/sim/sim.h"

static const uint8_t *instance(struct conf *c, struct ripc *ctx)
{
	const uint8_t *id = ripc__sim_instance(c->net, ctx);

	CHECK(id, "not in the simulation");
	return id;
}

/*
 * Long messages over a lane that breaks again and again: each is delivered once, or its sender
 * learns otherwise.
 */
static void lane_breaks(struct conf *c)
{
	enum { N = 30 };
	struct ripc_stats stats = {.size = sizeof(stats)};
	unsigned unknown = 0, lost = 0;
	struct conf_pair p;

	conf_pair(c, &p);
	EXPECT_OK(ripc_route_lookup(p.a, p.idb, NULL, c->patience_ms));
	for (unsigned i = 0; i < N; i++) {
		struct ripc_message *m = NULL;
		struct conf_plan plan = conf_plan_one(1 + conf_random(c, 40000), i);
		uint64_t at = 1 + conf_random(c, 12);
		int rc;

		ripc__sim_break_at(c->net, instance(c, p.a), instance(c, p.b), at);
		rc = conf_send_long(c, p.sa, p.idb, plan.len[0], i, c->patience_ms);
		CHECK(rc == 0 || rc == -EPIPE, "%d: %s", rc, ripc_error_detail());
		if (!rc) {
			EXPECT_OK(ripc_receive(p.sb, &m, 0));
		} else {
			CHECK(ripc_error_detail()[0], "no detail");
			unknown++;
			if (ripc_receive(p.sb, &m, 100)) {
				lost++;
				continue;
			}
		}
		conf_check_message(m, &plan, p.ida, p.idb, true);
		ripc_message_free(m);
		CHECK(ripc_receive(p.sb, &m, 30) == -ETIMEDOUT, "message %u came twice", i);
	}
	ripc__sim_break_at(c->net, instance(c, p.a), instance(c, p.b), 0);
	EXPECT_OK(ripc_context_stats(p.a, &stats));
	CHECK(stats.lanes_lost > 0, "no lane was lost");
	/* The peer is alive: it can be asked what became of a message. */
	EXPECT_EQ(0, unknown);
	EXPECT_EQ(0, lost);
	conf_exchange(c, &p);
}

/* The same with many in flight, in order. */
static void lane_breaks_under_load(struct conf *c)
{
	enum { N = 30 };
	struct ripc_request *request[N];
	struct iovec item[N];
	struct conf_pair p;
	struct conf_plan plan;

	conf_pair(c, &p);
	for (unsigned i = 0; i < N; i++) {
		plan = conf_plan_one(1 + conf_random(c, 20000), i);
		conf_build(c, p.a, (enum conf_memory)(i & 1), &plan, &item[i]);
		EXPECT_OK(ripc_send_async(p.sa, p.idb, &item[i], 1, NULL, &request[i]));
	}
	for (unsigned i = 0; i < N; i++) {
		if (i % 5 == 0)
			ripc__sim_break_at(c->net, instance(c, p.a), instance(c, p.b),
					   1 + conf_random(c, 20));
		plan = conf_plan_one(item[i].iov_len, i);
		conf_expect(c, p.sb, &plan, p.ida, true);
	}
	for (unsigned i = 0; i < N; i++) {
		EXPECT_OK(ripc_request_wait(&request[i], c->patience_ms));
		conf_mem_free(c, p.a, (enum conf_memory)(i & 1), item[i].iov_base);
	}
	ripc__sim_break_at(c->net, instance(c, p.a), instance(c, p.b), 0);
	conf_expect_none(c, p.sb);
	conf_exchange(c, &p);
}

/* Short messages may be lost with their lane, but come once, whole and in order. */
static void lane_breaks_short(struct conf *c)
{
	struct ripc_message *m;
	struct conf_pair p;
	uint8_t seen[301] = {0};
	uint64_t last = 0;
	unsigned received = 0;

	conf_pair(c, &p);
	EXPECT_OK(ripc_route_lookup(p.a, p.idb, NULL, c->patience_ms));
	for (unsigned i = 1; i <= 300; i++) {
		if (i % 40 == 0)
			ripc__sim_break_at(c->net, instance(c, p.a), instance(c, p.b),
					   1 + conf_random(c, 20));
		EXPECT_OK(conf_send_short(c, p.sa, p.idb, 8 + i, i, c->patience_ms));
		while (!ripc_receive(p.sb, &m, (int)conf_random(c, 2))) {
			struct conf_plan plan =
				conf_plan_one(m->items[0].iov_len, m->items[0].iov_len - 8);

			conf_check_message(m, &plan, p.ida, p.idb, false);
			/* Datagrams overtake one another. */
			CHECK(c->datagram || plan.tag > last, "%llu after %llu",
			      (unsigned long long)plan.tag, (unsigned long long)last);
			CHECK(plan.tag <= 300 && (c->datagram || !seen[plan.tag]++), "%llu twice",
			      (unsigned long long)plan.tag);
			last = plan.tag;
			received++;
			ripc_message_free(m);
		}
	}
	CHECK(received > 150, "only %u of 300 arrived", received);
	ripc__sim_break_at(c->net, instance(c, p.a), instance(c, p.b), 0);
	conf_run(c, 100);
	while (!ripc_receive(p.sb, &m, 50))
		ripc_message_free(m);
	conf_exchange(c, &p);
}

/* ---- Resources ---- */

static void configure(struct conf *c, void (*change)(struct ripc__sim_config *config))
{
	struct ripc__sim_config config = *ripc__sim_config(c->net);

	change(&config);
	ripc__sim_configure(c->net, &config);
}

static void reg_never(struct ripc__sim_config *config)
{
	config->reg_failure = 1;
}

static void reg_often(struct ripc__sim_config *config)
{
	config->reg_failure = 0.2;
}

static void reg_always_works(struct ripc__sim_config *config)
{
	config->reg_failure = 0;
}

static void registration_fails(struct conf *c)
{
	struct conf_pair p;
	unsigned arrived = 0;

	configure(c, reg_always_works);
	conf_pair(c, &p);
	conf_exchange(c, &p);
	configure(c, reg_often);
	for (unsigned i = 0; i < 40; i++) {
		struct conf_plan plan =
			conf_plan_one(1 + conf_random(c, i % 5 ? 20000 : 3000000), i);
		int rc = conf_send_long(c, p.sa, p.idb, plan.len[0], i, c->patience_ms);

		/* Copied, or refused: at the sender or by the receiver. */
		CHECK(!rc || rc == -ENOMEM || rc == -ENOBUFS, "%d: %s", rc, ripc_error_detail());
		CHECK(!rc || ripc_error_detail()[0], "no detail");
		if (rc)
			continue;
		conf_expect(c, p.sb, &plan, p.ida, true);
		arrived++;
	}
	CHECK(arrived > 0, "nothing arrived");
	configure(c, reg_never);
	for (int i = 0; i < 5; i++) {
		void *buf = ripc_buf_alloc(p.a, 10 * MIB);
		struct iovec item = {buf, 10 * MIB};

		/* Registered when it is first used, or at once: then it fails here. */
		if (!buf) {
			EXPECT_EQ(ENOMEM, errno);
			CHECK(ripc_error_detail()[0], "no detail");
			continue;
		}
		EXPECT_ERROR(-ENOMEM, ripc_send_long(p.sa, p.idb, &item, 1, NULL, c->patience_ms));
		EXPECT_OK(ripc_buf_free(p.a, buf));
	}
	if (c->reliable) {
		struct conf_plan plan = conf_plan_one(100, 5);

		EXPECT_OK(conf_send_short(c, p.sa, p.idb, 100, 5, c->patience_ms));
		conf_expect(c, p.sb, &plan, p.ida, false);
	}
	configure(c, reg_always_works);
	conf_expect_none(c, p.sb);
	conf_exchange(c, &p);
}

static void registration_fails_at_open(struct conf *c)
{
	unsigned opened = 0;

	configure(c, reg_always_works);
	for (uint64_t nth = 1; nth <= 6; nth++) {
		struct ripc__hooks hooks;
		struct ripc *ctx = NULL;
		int rc;

		ripc__sim_hooks(c->net, &hooks);
		ripc__sim_fail_reg_at(c->net, nth);
		rc = ripc__open_hooked(&ctx, c->options, &hooks);
		ripc__sim_fail_reg_at(c->net, 0);
		CHECK(rc == 0 || rc == -ENOMEM || rc == -ENODEV, "%d: %s", rc, ripc_error_detail());
		CHECK(!rc == !!ctx, "%d with a context", rc);
		if (rc)
			continue;
		opened++;
		EXPECT_OK(ripc_close(ctx));
	}
	CHECK(opened > 0, "never opened");
}

static void connects_often_fail(struct ripc__sim_config *config)
{
	config->connect_failure = 0.5;
	config->setup_delay_ns = 3000000;
}

static void connect_fails(struct conf *c)
{
	struct conf_pair p;

	configure(c, connects_often_fail);
	for (int i = 0; i < 5; i++) {
		conf_pair(c, &p);
		/* It tries again as long as it has time. */
		struct conf_plan plan = conf_plan_one(1000, 4);
		EXPECT_OK(conf_send_long(c, p.sa, p.idb, 1000, 4, c->patience_ms));
		conf_expect(c, p.sb, &plan, p.ida, true);
		conf_exchange(c, &p);
		conf_close_all(c);
	}
}

static void connect_never(struct ripc__sim_config *config)
{
	config->connect_failure = 1;
}

static void connect_always_fails(struct conf *c)
{
	struct conf_pair p;

	configure(c, connect_never);
	conf_pair(c, &p);
	if (!c->datagram)
		EXPECT_ERROR(-EHOSTUNREACH, conf_send_short(c, p.sa, p.idb, 10, 1, 3000));
	EXPECT_ERROR(-EHOSTUNREACH, conf_send_long(c, p.sa, p.idb, 10, 1, 3000));
	EXPECT_ERROR(-EHOSTUNREACH, ripc_route_lookup(p.a, p.idb, NULL, 3000));
}

/* ---- Partitions and slow peers ---- */

static void partition(struct conf *c)
{
	struct ripc_request *request[5];
	struct iovec item[5];
	struct ripc_message *m;
	struct conf_pair p, q;
	unsigned expected = 0;

	conf_pair(c, &p);
	q = conf_pair_other(c, &p);
	conf_exchange(c, &p);
	ripc__sim_partition(c->net, instance(c, p.a), instance(c, p.b), true);
	for (unsigned i = 0; i < 5; i++) {
		struct conf_plan plan = conf_plan_one(5000, i);

		conf_build(c, p.a, CONF_UNREGISTERED, &plan, &item[i]);
		EXPECT_OK(ripc_send_async(p.sa, p.idb, &item[i], 1, NULL, &request[i]));
	}
	conf_run(c, (unsigned)conf_random(c, 1000));
	conf_exchange(c, &q);
	ripc__sim_partition(c->net, instance(c, p.a), instance(c, p.b), false);
	/* It was shorter than the silence that a peer is allowed: nothing is lost. */
	for (unsigned i = 0; i < 5; i++) {
		struct conf_plan plan = conf_plan_one(5000, i);

		conf_expect(c, p.sb, &plan, p.ida, true);
		EXPECT_OK(ripc_request_wait(&request[i], c->patience_ms));
	}
	conf_exchange(c, &p);
	/* Longer: the peer is dead for us, and everything outstanding ends. */
	ripc__sim_partition(c->net, instance(c, p.a), instance(c, p.b), true);
	for (unsigned i = 0; i < 5; i++)
		EXPECT_OK(ripc_send_async(p.sa, p.idb, &item[i], 1, NULL, &request[i]));
	for (unsigned i = 0; i < 5; i++) {
		int rc = ripc_request_wait(&request[i], 8000);

		CHECK(rc == -EPIPE || rc == -EHOSTUNREACH || rc == -ETIMEDOUT, "%d: %s", rc,
		      ripc_error_detail());
		if (rc == -ETIMEDOUT) {
			rc = ripc_request_cancel(&request[i], 100);
			CHECK(rc == -ECANCELED || rc == -EPIPE, "%d: %s", rc, ripc_error_detail());
		}
		expected += rc == -EPIPE;
		memset(item[i].iov_base, 0x5a, 5000);
		free(item[i].iov_base);
	}
	conf_exchange(c, &q);
	ripc__sim_partition(c->net, instance(c, p.a), instance(c, p.b), false);
	/* Only what may have been delivered is. */
	conf_run(c, 5000);
	while (!ripc_receive(p.sb, &m, 100)) {
		CHECK(expected--, "a message that was given up came");
		ripc_message_free(m);
	}
	for (int i = 0; i < 20; i++)
		if (!ripc_route_lookup(p.a, p.idb, NULL, 3000) &&
		    !ripc_route_lookup(p.b, p.ida, NULL, 3000))
			break;
	conf_exchange(c, &p);
}

static void slow_peer(struct conf *c)
{
	struct ripc_request *request[10];
	struct iovec item[10];
	struct conf_pair p, q;

	conf_pair(c, &p);
	q = conf_pair_other(c, &p);
	conf_exchange(c, &p);
	conf_exchange(c, &q);
	for (int round = 0; round < 3; round++) {
		ripc__sim_hold(c->net, instance(c, p.b), true);
		for (unsigned i = 0; i < 10; i++) {
			struct conf_plan plan = conf_plan_one(5000, i);

			conf_build(c, p.a, CONF_UNREGISTERED, &plan, &item[i]);
			EXPECT_OK(ripc_send_async(p.sa, p.idb, &item[i], 1, NULL, &request[i]));
		}
		conf_run(c, 1 + (unsigned)conf_random(c, 500));
		/* A stopped peer stops nobody else. */
		conf_exchange(c, &q);
		ripc__sim_hold(c->net, instance(c, p.b), false);
		for (unsigned i = 0; i < 10; i++) {
			struct conf_plan plan = conf_plan_one(5000, i);

			conf_expect(c, p.sb, &plan, p.ida, true);
			EXPECT_OK(ripc_request_wait(&request[i], c->patience_ms));
			free(item[i].iov_base);
		}
	}
}

/* A return buffer withdrawn while the peer writes into it. */
static void cancel_in_flight(struct conf *c)
{
	for (int round = 0; round < 8; round++) {
		struct ripc_send_options options = {.size = sizeof(options), .nreturn_buffers = 1};
		struct ripc_request *request;
		struct ripc_message *m;
		struct iovec item, ret;
		uint8_t data[10] = {0}, *buf, *next;
		struct conf_plan plan = conf_plan_one(30000, 8);
		struct conf_pair p;
		int rc;

		conf_pair(c, &p);
		buf = ripc_buf_alloc(p.a, 30000);
		CHECK(buf, "%s", ripc_error_detail());
		ret = (struct iovec){buf, 30000};
		options.return_buffers = &ret;
		item = (struct iovec){data, sizeof(data)};
		EXPECT_OK(ripc_send_long(p.sa, p.idb, &item, 1, &options, c->patience_ms));
		m = conf_receive(c, p.sb);
		ripc_message_free(m);
		conf_build(c, p.b, CONF_UNREGISTERED, &plan, &item);
		EXPECT_OK(ripc_send_async(p.sb, p.ida, &item, 1, NULL, &request));
		for (uint64_t n = conf_random(c, 8); n--;)
			ripc__sim_run(c->net, 7000);
		/* Delivered before: the message has it. Otherwise the message lands elsewhere. */
		rc = ripc_buf_free(p.a, buf);
		CHECK(!rc || rc == -EBUSY, "%s", ripc_error_detail());
		next = ripc_buf_alloc(p.a, 30000);
		CHECK(next, "%s", ripc_error_detail());
		memset(next, 0x77, 30000);
		m = conf_receive(c, p.sa);
		EXPECT_EQ(rc ? RIPC_IN_RETURN_BUFFER : RIPC_IN_POOL, m->placement[0]);
		conf_check_message(m, &plan, p.idb, p.ida, true);
		ripc_message_free(m);
		if (rc)
			EXPECT_OK(ripc_buf_free(p.a, buf));
		conf_run(c, 200);
		for (int i = 0; i < 30000; i++)
			EXPECT_EQ(0x77, next[i]);
		EXPECT_OK(ripc_request_wait(&request, c->patience_ms));
		free(item.iov_base);
		EXPECT_OK(ripc_buf_free(p.a, next));
		conf_close_all(c);
	}
}

const struct conf_case conf_fault[] = {
	{"lane_breaks", lane_breaks, CONF_SIM | CONF_TWO_CONTEXTS},
	{"lane_breaks_under_load", lane_breaks_under_load, CONF_SIM | CONF_TWO_CONTEXTS},
	{"lane_breaks_short", lane_breaks_short, CONF_SIM | CONF_TWO_CONTEXTS},
	{"registration_fails", registration_fails, CONF_SIM | CONF_TWO_CONTEXTS | CONF_NO_MEMORY},
	{"registration_fails_at_open", registration_fails_at_open, CONF_SIM | CONF_NO_MEMORY},
	{"connect_fails", connect_fails, CONF_SIM | CONF_TWO_CONTEXTS},
	{"connect_always_fails", connect_always_fails, CONF_SIM | CONF_TWO_CONTEXTS},
	{"partition", partition, CONF_SIM | CONF_TWO_CONTEXTS},
	{"slow_peer", slow_peer, CONF_SIM | CONF_TWO_CONTEXTS},
	{"cancel_in_flight", cancel_in_flight, CONF_SIM | CONF_TWO_CONTEXTS},
	{0},
};
