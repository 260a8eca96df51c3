/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Requests: started, tested, waited for, and cancelled at every stage. */
#include "conf.h"

static void many_in_flight(struct conf *c)
{
	enum { N = 64 };
	struct ripc_request *request[N];
	struct conf_plan plan;
	struct iovec item[N];
	unsigned open[N];
	struct conf_pair p;

	conf_pair(c, &p);
	for (unsigned i = 0; i < N; i++) {
		open[i] = i;
		plan = conf_plan_one(1 + conf_random(c, 30000), i);
		conf_build(c, p.a, CONF_ALLOCATED, &plan, &item[i]);
		EXPECT_OK(ripc_send_async(p.sa, p.idb, &item[i], 1, NULL, &request[i]));
	}
	for (unsigned i = 0; i < N; i++) {
		plan = conf_plan_one(item[i].iov_len, i);
		conf_expect(c, p.sb, &plan, p.ida, true);
	}
	for (unsigned n = N; n; n--) {
		unsigned at = (unsigned)conf_random(c, n), i = open[at];

		EXPECT_OK(ripc_request_wait(&request[i], c->patience_ms));
		CHECK(!request[i], "request not gone");
		EXPECT_OK(ripc_buf_free(p.a, item[i].iov_base));
		open[at] = open[n - 1];
	}
	AWAIT_STAT(c, p.a, long_sent, N);
}

static void test_until_done(struct conf *c)
{
	struct ripc_request *request = NULL;
	struct conf_plan plan;
	struct iovec item;
	struct conf_pair p;
	int rc = -EINPROGRESS;
	void *memory;

	conf_pair(c, &p);
	plan = conf_plan_one(100000, 1);
	memory = conf_build(c, p.a, CONF_UNREGISTERED, &plan, &item);
	EXPECT_OK(ripc_send_async(p.sa, p.idb, &item, 1, NULL, &request));
	for (int i = 0; i < c->patience_ms && rc == -EINPROGRESS; i++) {
		conf_run(c, 1);
		rc = ripc_request_test(&request);
		CHECK((rc == -EINPROGRESS) == !!request, "%d", rc);
	}
	EXPECT_RC(0, rc);
	memset(memory, 0x5a, 100000);
	free(memory);
	conf_expect(c, p.sb, &plan, p.ida, true);
}

static void cancel_any_time(struct conf *c)
{
	struct conf_plan plan;
	struct conf_pair p;
	unsigned delivered = 0;

	conf_pair(c, &p);
	if (conf_random(c, 2))
		EXPECT_OK(ripc_route_lookup(p.a, p.idb, NULL, c->patience_ms));
	for (unsigned i = 0; i < 12; i++) {
		struct ripc_request *request;
		struct ripc_message *m;
		struct iovec item;
		size_t len = 1 + conf_random(c, i % 4 ? 20000 : 500000);
		void *memory;
		int rc;

		plan = conf_plan_one(len, i);
		memory = conf_build(c, p.a, CONF_UNREGISTERED, &plan, &item);
		EXPECT_OK(ripc_send_async(p.sa, p.idb, &item, 1, NULL, &request));
		if (conf_random(c, 4))
			ripc_request_wait(&request, (int)conf_random(c, 2));
		/* Done already, perhaps: then it was delivered. */
		rc = request ? ripc_request_cancel(&request, c->patience_ms) : 0;
		CHECK(!request, "request not gone");
		CHECK(rc == 0 || rc == -ECANCELED, "%d: %s", rc, ripc_error_detail());
		memset(memory, 0x5a, len);
		free(memory);
		if (!rc) {
			conf_expect(c, p.sb, &plan, p.ida, true);
			delivered++;
		} else {
			CHECK(ripc_receive(p.sb, &m, 20) == -ETIMEDOUT,
			      "a cancelled message was delivered");
		}
	}
	AWAIT_STAT(c, p.a, cancelled, 12 - delivered);
	conf_exchange(c, &p);
}

static void cancel_behind_absent_receiver(struct conf *c)
{
	enum { N = 30, LEN = 50000 };
	struct ripc_request *request[N];
	struct conf_plan plan;
	struct iovec item[N];
	struct conf_pair p;
	bool gone[N] = {false};

	conf_pair(c, &p);
	for (unsigned i = 0; i < N; i++) {
		plan = conf_plan_one(LEN, i);
		conf_build(c, p.a, CONF_UNREGISTERED, &plan, &item[i]);
		EXPECT_OK(ripc_send_async(p.sa, p.idb, &item[i], 1, NULL, &request[i]));
	}
	conf_run(c, 20);
	/* Some of those that wait; the others keep their order. */
	for (unsigned i = 0; i < N; i++) {
		int rc;

		if (conf_random(c, 2))
			continue;
		rc = ripc_request_cancel(&request[i], c->patience_ms);
		CHECK(rc == 0 || rc == -ECANCELED, "%d: %s", rc, ripc_error_detail());
		gone[i] = rc == -ECANCELED;
		memset(item[i].iov_base, 0x5a, LEN);
	}
	for (unsigned i = 0; i < N; i++) {
		if (gone[i])
			continue;
		plan = conf_plan_one(LEN, i);
		conf_expect(c, p.sb, &plan, p.ida, true);
	}
	conf_expect_none(c, p.sb);
	for (unsigned i = 0; i < N; i++) {
		if (request[i])
			EXPECT_OK(ripc_request_wait(&request[i], c->patience_ms));
		free(item[i].iov_base);
	}
}

static void unknown_destination(struct conf *c)
{
	struct ripc *ctx = conf_open(c);
	struct ripc_service *service = conf_register(c, ctx, conf_id(c));
	struct ripc_request *request, *same;
	uint8_t data[100] = {0};
	struct iovec item = {data, sizeof(data)};
	struct ripc_route route = {.size = sizeof(route)};
	uint64_t nobody = conf_id(c);
	char name[32];

	EXPECT_OK(ripc_send_async(service, nobody, &item, 1, NULL, &request));
	same = request;
	EXPECT_RC(-EINPROGRESS, ripc_request_test(&request));
	EXPECT_RC(-ETIMEDOUT, ripc_request_wait(&request, 0));
	EXPECT_RC(-ETIMEDOUT, ripc_request_wait(&request, 100));
	CHECK(request == same, "request changed");
	EXPECT_RC(-ECANCELED, ripc_request_cancel(&request, c->patience_ms));
	CHECK(!request, "request not gone");
	EXPECT_ERROR(-EAGAIN, ripc_send_short(service, conf_id(c), &item, 1, NULL, 0));
	/* Long enough for it to be asked for several times. */
	EXPECT_ERROR(-EHOSTUNREACH, ripc_send_short(service, nobody, &item, 1, NULL, 1000));
	snprintf(name, sizeof(name), "%llu", (unsigned long long)nobody);
	CHECK(strlen(ripc_error_detail()) > 20, "detail: %s", ripc_error_detail());
	EXPECT_ERROR(-EHOSTUNREACH, ripc_send_short(service, nobody, &item, 1, NULL, 100));
	EXPECT_ERROR(-EHOSTUNREACH,
		     ripc_send_long(service, nobody, &item, 1, NULL, CONF_NO_ANSWER_MS));
	EXPECT_ERROR(-EHOSTUNREACH, ripc_send(service, nobody, &item, 1, NULL, CONF_NO_ANSWER_MS));
	EXPECT_ERROR(-EHOSTUNREACH, ripc_route_lookup(ctx, nobody, &route, CONF_NO_ANSWER_MS));
	EXPECT_ERROR(-EHOSTUNREACH, ripc_send_short(service, nobody, &item, 1, NULL, 0));
	EXPECT_ERROR(-EHOSTUNREACH, ripc_send(service, nobody, &item, 1, NULL, 0));
	EXPECT_ERROR(-EHOSTUNREACH, ripc_route_lookup(ctx, nobody, NULL, 0));
	EXPECT_ERROR(-EAGAIN, ripc_route_lookup(ctx, conf_id(c), NULL, 0));
}

/* A request that began before there was a receiver. */
static void found_later(struct conf *c)
{
	struct ripc *a = conf_open(c), *b;
	struct ripc_service *sa = conf_register(c, a, conf_id(c)), *sb;
	uint64_t idb = conf_id(c);
	struct ripc_request *request;
	struct conf_plan plan;
	struct iovec item;
	void *memory;

	plan = conf_plan_one(5000, 1);
	memory = conf_build(c, a, CONF_UNREGISTERED, &plan, &item);
	EXPECT_OK(ripc_send_async(sa, idb, &item, 1, NULL, &request));
	conf_run(c, 1 + (unsigned)conf_random(c, 1500));
	b = c->same ? a : conf_open(c);
	sb = conf_register(c, b, idb);
	conf_expect(c, sb, &plan, ripc_service_id(sa), true);
	EXPECT_OK(ripc_request_wait(&request, c->patience_ms));
	free(memory);
}

const struct conf_case conf_request[] = {
	{"many_in_flight", many_in_flight, 0},
	{"test_until_done", test_until_done, 0},
	{"cancel_any_time", cancel_any_time, 0},
	{"cancel_behind_absent_receiver", cancel_behind_absent_receiver, 0},
	{"unknown_destination", unknown_destination, 0},
	{"found_later", found_later, 0},
	{0},
};
