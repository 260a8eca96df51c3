/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Receivers that are slow or absent stop their senders, and nobody else. */
#include "conf.h"

#define FLOOD_MAX 200000

/* Sends until there is no credit. Return: how many went. */
static unsigned flood(struct conf *c, struct conf_pair *p, size_t len)
{
	unsigned sent = 0;
	int rc = 0;

	EXPECT_OK(ripc_route_lookup(p->a, p->idb, NULL, c->patience_ms));
	/* No credit may also mean: not returned yet. Only a send that need not wait proves it. */
	while (sent < FLOOD_MAX) {
		rc = conf_send_short(c, p->sa, p->idb, len, sent, 0);
		if (rc == -EAGAIN)
			rc = conf_send_short(c, p->sa, p->idb, len, sent, c->silence_ms);
		if (rc)
			break;
		sent++;
	}
	EXPECT_RC(-ETIMEDOUT, rc);
	CHECK(ripc_error_detail()[0], "no detail");
	return sent;
}

static void drain(struct conf *c, struct conf_pair *p, size_t len, unsigned n)
{
	struct conf_plan plan;

	for (unsigned i = 0; i < n; i++) {
		plan = conf_plan_one(len, i);
		conf_expect(c, p->sb, &plan, p->ida, false);
	}
	conf_expect_none(c, p->sb);
}

static void absent_receiver(struct conf *c)
{
	size_t len = conf_random(c, 2) ? 8 : 400;
	struct ripc_stats stats = {.size = sizeof(stats)};
	struct conf_pair p, other;
	struct ripc_message *m;
	struct conf_plan plan;
	unsigned sent;

	conf_pair(c, &p);
	other = p;
	other.idb = conf_id(c);
	other.sb = conf_register(c, p.b, other.idb);
	sent = flood(c, &p, len);
	CHECK(sent >= 1, "%u", sent);
	EXPECT_ERROR(-EAGAIN, conf_send_short(c, p.sa, p.idb, len, 0, 0));
	EXPECT_OK(ripc_context_stats(p.a, &stats));
	CHECK(stats.credit_stalls > 0, "no stall was counted");
	EXPECT_EQ(sent, stats.short_sent);
	/* Another service of the same peer does not notice. */
	plan = conf_plan_one(100, 1);
	for (int i = 0; i < 50; i++) {
		EXPECT_OK(conf_send_short(c, p.sa, other.idb, 100, 1, c->patience_ms));
		conf_expect(c, other.sb, &plan, p.ida, false);
		EXPECT_OK(conf_send_long(c, p.sa, other.idb, 100, 1, c->patience_ms));
		conf_expect(c, other.sb, &plan, p.ida, true);
	}
	/* Nor do the peer's own sends to us. */
	EXPECT_OK(conf_send_short(c, p.sb, p.ida, 100, 1, c->patience_ms));
	conf_expect(c, p.sa, &plan, p.idb, false);
	drain(c, &p, len, sent);
	/* And then it goes on as if nothing had been. */
	sent = flood(c, &p, len);
	drain(c, &p, len, sent);
	conf_exchange(c, &p);
	EXPECT_OK(ripc_receive(p.sb, &m, 0) == -EAGAIN ? 0 : -1);
}

/* An application that keeps what it receives: in receive buffers first, then in copies. */
static void unreleased_messages(struct conf *c)
{
	enum { KEPT = 1000 };
	static struct ripc_message *kept[KEPT];
	struct ripc_service *other;
	struct conf_plan plan;
	struct conf_pair p;
	unsigned n = 0;

	conf_pair(c, &p);
	other = conf_register(c, p.b, conf_id(c));
	EXPECT_OK(ripc_route_lookup(p.a, p.idb, NULL, c->patience_ms));
	while (n < KEPT && !conf_send_short(c, p.sa, p.idb, 500, n, 1000)) {
		kept[n++] = conf_receive(c, p.sb);
		/* The other lanes keep their receive buffers. */
		if (n % 50)
			continue;
		plan = conf_plan_one(200, n);
		EXPECT_OK(conf_send_short(c, p.sa, ripc_service_id(other), 200, n, c->patience_ms));
		conf_expect(c, other, &plan, p.ida, false);
	}
	CHECK(n > 0, "nothing came");
	for (unsigned i = 0; i < n; i++) {
		plan = conf_plan_one(500, i);
		conf_check_message(kept[i], &plan, p.ida, p.idb, false);
		ripc_message_free(kept[i]);
	}
	conf_exchange(c, &p);
}

static void absent_receiver_long(struct conf *c)
{
	enum { N = 17, LEN = 4 << 20 };
	struct ripc_request *request[N];
	struct conf_plan plan;
	struct iovec item[N];
	struct conf_pair p;
	unsigned current_attempt = 0;

	conf_pair(c, &p);
	for (unsigned i = 0; i < N; i++) {
		plan = conf_plan_one(LEN, i);
		conf_build(c, p.a, CONF_ALLOCATED, &plan, &item[i]);
		EXPECT_OK(ripc_send_async(p.sa, p.idb, &item[i], 1, NULL, &request[i]));
	}
	conf_run(c, 50);
	for (unsigned i = 0; i < N; i++) {
		struct ripc_request *r = request[i];
		int rc = ripc_request_test(&request[i]);

		CHECK(rc == 0 || rc == -EINPROGRESS, "%d", rc);
		CHECK(rc ? request[i] == r : !request[i], "request after %d", rc);
		current_attempt += rc != 0;
	}
	/* 68 MiB are more than is fetched for a service that does not receive. */
	CHECK(current_attempt > 0, "everything was taken");
	for (unsigned i = 0; i < N; i++) {
		plan = conf_plan_one(LEN, i);
		conf_expect(c, p.sb, &plan, p.ida, true);
	}
	for (unsigned i = 0; i < N; i++) {
		if (request[i])
			EXPECT_OK(ripc_request_wait(&request[i], c->patience_ms));
		EXPECT_OK(ripc_buf_free(p.a, item[i].iov_base));
	}
	conf_expect_none(c, p.sb);
}

static void long_times_out(struct conf *c)
{
	enum { N = 17, LEN = 4 << 20 };
	struct ripc_message *m;
	struct conf_plan plan;
	struct conf_pair p;
	unsigned sent = 0;
	int rc = 0;

	conf_pair(c, &p);
	while (sent < N && !(rc = conf_send_long(c, p.sa, p.idb, LEN, sent, 2000)))
		sent++;
	CHECK(sent > 0 && sent < N, "%u: %d %s", sent, rc, ripc_error_detail());
	/* -EPIPE: a receiver without processor time did not confirm the message in time. */
	CHECK(rc == -ETIMEDOUT || (rc == -EPIPE && !c->net), "%d: %s", rc, ripc_error_detail());
	CHECK(ripc_error_detail()[0], "no detail");
	for (unsigned i = 0; i < sent; i++) {
		plan = conf_plan_one(LEN, i);
		conf_expect(c, p.sb, &plan, p.ida, true);
	}
	/* A cancelled message is never delivered. */
	if (rc == -ETIMEDOUT) {
		conf_expect_none(c, p.sb);
	} else if (!ripc_receive(p.sb, &m, c->silence_ms)) {
		plan = conf_plan_one(LEN, sent);
		conf_check_message(m, &plan, p.ida, p.idb, true);
		ripc_message_free(m);
	}
	conf_exchange(c, &p);
}

static void larger_than_the_window(struct conf *c)
{
	struct conf_plan plan;
	struct conf_pair p;

	/* One message larger than all that may be queued must still get through. */
	conf_pair(c, &p);
	for (unsigned i = 0; i < 3; i++) {
		plan = conf_plan_one(3 * MIB, i);
		EXPECT_OK(conf_send_long(c, p.sa, p.idb, 3 * MIB, i, c->patience_ms));
		conf_expect(c, p.sb, &plan, p.ida, true);
	}
}

const struct conf_case conf_flow[] = {
	{"absent_receiver", absent_receiver, CONF_RELIABLE | CONF_CREDITS},
	{"unreleased_messages", unreleased_messages, CONF_RELIABLE | CONF_CREDITS},
	{"absent_receiver_long", absent_receiver_long, CONF_ONCE},
	{"long_times_out", long_times_out, CONF_ONCE},
	{"larger_than_the_window", larger_than_the_window, 0},
	{0},
};
