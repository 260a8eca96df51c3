/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Contexts and services that end, at every stage of what they and others do. */
#include "conf.h"

#include <poll.h>

static void open_close(struct conf *c)
{
	for (int i = 0; i < 5; i++) {
		struct conf_pair p;

		conf_pair(c, &p);
		if (i & 1)
			conf_exchange(c, &p);
		conf_close_all(c);
	}
}

/* Closed with everything still in use. */
static void close_in_use(struct conf *c)
{
	struct ripc_request *request[10];
	struct ripc_message *m;
	struct conf_plan plan;
	struct iovec item[10];
	struct conf_pair p;
	void *memory[10];
	int rc;

	conf_pair(c, &p);
	CHECK(ripc_buf_alloc(p.a, 12345), "%s", ripc_error_detail());
	EXPECT_OK(conf_send_long(c, p.sa, p.idb, 100, 1, c->patience_ms));
	EXPECT_OK(conf_send_long(c, p.sa, p.idb, 100, 2, c->patience_ms));
	m = conf_receive(c, p.sb);
	CHECK(ripc_message_detach(m, 0), "%s", ripc_error_detail());
	CHECK(ripc_service_fd(p.sb) >= 0, "no descriptor");
	for (int i = 0; i < 10; i++) {
		plan = conf_plan_one(50000, (uint64_t)i);
		memory[i] = conf_build(c, p.a, CONF_UNREGISTERED, &plan, &item[i]);
		EXPECT_OK(ripc_send_async(p.sa, i & 1 ? p.idb : conf_id(c), &item[i], 1, NULL,
					  &request[i]));
	}
	conf_run(c, (unsigned)conf_random(c, 3));
	rc = (int)conf_random(c, 2);
	conf_close(c, rc ? p.a : p.b);
	if (!c->same)
		conf_close(c, rc ? p.b : p.a);
	for (int i = 0; i < 10; i++)
		free(memory[i]);
}

static void unregister_with_queue(struct conf *c)
{
	struct ripc_stats stats = {.size = sizeof(stats)};
	struct ripc_message *m;
	struct conf_plan plan;
	struct conf_pair p;

	conf_pair(c, &p);
	for (unsigned i = 0; i < 5; i++)
		EXPECT_OK(conf_send_long(c, p.sa, p.idb, 100, i, c->patience_ms));
	m = conf_receive(c, p.sb);
	EXPECT_OK(ripc_service_unregister(p.sb));
	/* Received messages stay valid. */
	plan = conf_plan_one(100, 0);
	conf_check_message(m, &plan, p.ida, p.idb, true);
	ripc_message_free(m);
	EXPECT_OK(ripc_context_stats(p.b, &stats));
	EXPECT_EQ(4, stats.dropped_unread);
	EXPECT_EQ(0, stats.queued);
	EXPECT_EQ(5, stats.long_received);
	conf_expect_gone(c, p.sa, p.idb);
	/* Another service of the peer is still there. */
	p.sb = conf_register(c, p.b, conf_id(c));
	p.idb = ripc_service_id(p.sb);
	conf_exchange(c, &p);
}

static void unregister_and_back(struct conf *c)
{
	struct conf_pair p;

	conf_pair(c, &p);
	for (int i = 0; i < 3; i++) {
		conf_exchange(c, &p);
		EXPECT_OK(ripc_service_unregister(p.sb));
		p.sb = conf_register(c, p.b, p.idb);
	}
	conf_exchange(c, &p);
}

/* A service whose holder ended and that another context took over is found again. */
static void found_again(struct conf *c)
{
	struct conf_pair p;

	conf_pair(c, &p);
	conf_exchange(c, &p);
	for (int i = 0; i < 3; i++) {
		conf_close(c, p.b);
		/* A short message into the old lane would be lost with it. */
		AWAIT_STAT(c, p.a, lanes, 0);
		p.b = conf_open(c);
		p.sb = conf_register(c, p.b, p.idb);
		conf_exchange(c, &p);
	}
}

static void unregister_with_requests(struct conf *c)
{
	struct ripc_request *request[10];
	struct conf_plan plan;
	struct iovec item[10];
	struct conf_pair p;

	conf_pair(c, &p);
	for (int i = 0; i < 10; i++) {
		plan = conf_plan_one(50000, (uint64_t)i);
		conf_build(c, p.a, CONF_UNREGISTERED, &plan, &item[i]);
		EXPECT_OK(ripc_send_async(p.sa, i & 1 ? p.idb : conf_id(c), &item[i], 1, NULL,
					  &request[i]));
	}
	conf_run(c, (unsigned)conf_random(c, 3));
	EXPECT_OK(ripc_service_unregister(p.sa));
	/*
	 * Each completes once, and the memory is ours. A peer that gets no processor for 100 ms
	 * loses the lane, and delivery is unknown.
	 */
	for (int i = 0; i < 10; i++) {
		int rc = ripc_request_wait(&request[i], c->patience_ms);

		CHECK(!request[i], "request not gone");
		CHECK(rc == 0 || rc == -ECANCELED || rc == -ESHUTDOWN || rc == -EPIPE, "%d: %s", rc,
		      ripc_error_detail());
		memset(item[i].iov_base, 0x5a, 50000);
		free(item[i].iov_base);
	}
	p.sa = conf_register(c, p.a, p.ida);
	while (1) {
		struct ripc_message *m;
		uint64_t i;

		if (ripc_receive(p.sb, &m, 50))
			break;
		/* Whole, if it came at all. */
		for (i = 0; i < 10; i++) {
			uint8_t first[8];

			conf_fill(first, 8, i);
			if (!memcmp(first, m->items[0].iov_base, 8))
				break;
		}
		CHECK(i < 10, "unknown contents");
		plan = conf_plan_one(50000, i);
		conf_check_message(m, &plan, p.ida, p.idb, true);
		ripc_message_free(m);
	}
	conf_exchange(c, &p);
}

/* The receiver goes while long messages to it are under way. */
static void peer_closes(struct conf *c)
{
	struct ripc_request *request[10];
	struct conf_pair p, q;
	struct conf_plan plan;
	struct iovec item[10];

	conf_pair(c, &p);
	q = conf_pair_other(c, &p);
	conf_exchange(c, &q);
	for (int i = 0; i < 10; i++) {
		plan = conf_plan_one(50000, (uint64_t)i);
		conf_build(c, p.a, CONF_UNREGISTERED, &plan, &item[i]);
		EXPECT_OK(ripc_send_async(p.sa, p.idb, &item[i], 1, NULL, &request[i]));
	}
	conf_run(c, (unsigned)conf_random(c, 3));
	conf_close(c, p.b);
	conf_exchange(c, &q);
	for (int i = 0; i < 10; i++) {
		int rc = ripc_request_wait(&request[i], i ? 100 : 5000);

		/* Delivered, or unknown, or still looking for the service that is gone. */
		CHECK(rc == 0 || rc == -EPIPE || rc == -EHOSTUNREACH || rc == -ETIMEDOUT, "%d: %s",
		      rc, ripc_error_detail());
		if (rc == -ETIMEDOUT) {
			rc = ripc_request_cancel(&request[i], c->patience_ms);
			CHECK(rc == -ECANCELED || rc == -EPIPE || rc == -EHOSTUNREACH, "%d: %s", rc,
			      ripc_error_detail());
		}
		CHECK(!request[i], "request not gone");
		free(item[i].iov_base);
	}
	conf_expect_gone(c, p.sa, p.idb);
	conf_exchange(c, &q);
}

static bool readable(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return poll(&p, 1, 0) == 1;
}

/*
 * The sender may learn of the delivery a moment before the receiver's descriptor becomes readable.
 */
static bool becomes_readable(struct conf *c, int fd)
{
	for (int i = 0; i < c->patience_ms && !readable(fd); i++)
		conf_run(c, 1);
	return readable(fd);
}

static void service_fd(struct conf *c)
{
	struct ripc_message *m;
	struct conf_pair p;
	int fd, other;

	conf_pair(c, &p);
	fd = ripc_service_fd(p.sb);
	CHECK(fd >= 0, "%s", ripc_error_detail());
	other = ripc_service_fd(p.sa);
	CHECK(other >= 0 && other != fd, "%d", other);
	EXPECT_EQ(fd, ripc_service_fd(p.sb));
	CHECK(!readable(fd), "readable without a message");
	for (unsigned round = 0; round < 5; round++) {
		unsigned n = 1 + (unsigned)conf_random(c, 4);

		for (unsigned i = 0; i < n; i++)
			EXPECT_OK(conf_send_long(c, p.sa, p.idb, 100, i, c->patience_ms));
		CHECK(becomes_readable(c, fd), "not readable with %u messages", n);
		CHECK(!readable(other), "the other one is readable");
		for (unsigned i = 0; i < n; i++) {
			CHECK(becomes_readable(c, fd), "not readable with %u messages", n - i);
			EXPECT_OK(ripc_receive(p.sb, &m, 0));
			ripc_message_free(m);
		}
		CHECK(!readable(fd), "readable after the last");
		EXPECT_RC(-EAGAIN, ripc_receive(p.sb, &m, 0));
		/* Short ones: sent, then not yet there, then there. */
		if (!c->reliable)
			continue;
		EXPECT_OK(conf_send_short(c, p.sa, p.idb, 10, 1, c->patience_ms));
		CHECK(becomes_readable(c, fd), "not readable with a short message");
		EXPECT_OK(ripc_receive(p.sb, &m, 0));
		ripc_message_free(m);
		CHECK(!readable(fd), "readable after the last");
	}
	/* Asked for when messages are there already. */
	p.sb = conf_register(c, p.b, conf_id(c));
	EXPECT_OK(conf_send_long(c, p.sa, ripc_service_id(p.sb), 100, 1, c->patience_ms));
	CHECK(becomes_readable(c, ripc_service_fd(p.sb)),
	      "not readable with a message from before");
}

static void gauges_return(struct conf *c)
{
	struct ripc_stats before = {.size = sizeof(before)}, after = {.size = sizeof(after)};
	struct conf_pair p;
	struct ripc *b;

	conf_pair(c, &p);
	EXPECT_OK(ripc_context_stats(p.a, &before));
	b = conf_open(c);
	p.sb = conf_register(c, b, conf_id(c));
	p.idb = ripc_service_id(p.sb);
	conf_exchange(c, &p);
	EXPECT_OK(ripc_context_stats(p.a, &after));
	EXPECT_EQ(before.peers + 1, after.peers);
	EXPECT_EQ(before.lanes + 1, after.lanes);
	CHECK(after.lanes_opened > before.lanes_opened, "no lane was opened");
	conf_close(c, b);
	AWAIT_STAT(c, p.a, lanes, before.lanes);
	EXPECT_EQ(0, before.registered_bytes);
	EXPECT_OK(ripc_context_stats(p.a, &after));
	EXPECT_EQ(0, after.queued);
}

const struct conf_case conf_life[] = {
	{"open_close", open_close, 0},
	{"close_in_use", close_in_use, 0},
	{"unregister_with_queue", unregister_with_queue, 0},
	{"unregister_and_back", unregister_and_back, 0},
	{"found_again", found_again, CONF_TWO_CONTEXTS},
	{"unregister_with_requests", unregister_with_requests, 0},
	{"peer_closes", peer_closes, CONF_TWO_CONTEXTS},
	{"service_fd", service_fd, 0},
	{"gauges_return", gauges_return, CONF_TWO_CONTEXTS},
	{0},
};
