/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Where long items land: windows of the receiver, return buffers of the sender, and what they fall
 * back to.
 */
#include "conf.h"

/* Sends one long item and checks where it landed. Return: its base. */
static const uint8_t *send_to_window(struct conf *c, struct conf_pair *p, size_t len, uint64_t tag,
				     enum ripc_placement where)
{
	struct ripc_message *m;
	struct conf_plan plan;
	const uint8_t *base;

	plan = conf_plan_one(len, tag);
	EXPECT_OK(conf_send_long(c, p->sa, p->idb, len, tag, c->patience_ms));
	m = conf_receive(c, p->sb);
	conf_check_message(m, &plan, p->ida, p->idb, true);
	EXPECT_EQ(where, m->placement[0]);
	base = m->items[0].iov_base;
	ripc_message_free(m);
	return base;
}

static void window_order(struct conf *c)
{
	struct ripc_stats stats = {.size = sizeof(stats)};
	struct conf_pair p;
	uint8_t *buf;

	conf_pair(c, &p);
	buf = ripc_buf_alloc(p.b, 100000);
	CHECK(buf, "%s", ripc_error_detail());
	/* Added first, but the service's come first; of these the first that fits. */
	EXPECT_OK(ripc_window_add(p.b, NULL, buf, 10000));
	EXPECT_OK(ripc_window_add(p.b, p.sb, buf + 10000, 5000));
	EXPECT_OK(ripc_window_add(p.b, p.sb, buf + 20000, 20000));
	EXPECT_OK(ripc_window_add(p.b, p.sb, buf + 40000, 20000));
	CHECK(send_to_window(c, &p, 6000, 1, RIPC_IN_WINDOW) == buf + 20000,
	      "second window of the service");
	CHECK(send_to_window(c, &p, 5000, 2, RIPC_IN_WINDOW) == buf + 10000,
	      "first window of the service");
	CHECK(send_to_window(c, &p, 1, 3, RIPC_IN_WINDOW) == buf + 40000,
	      "third window of the service");
	conf_verify(buf + 20000, 6000, 1, "the application's again");
	CHECK(send_to_window(c, &p, 10000, 4, RIPC_IN_WINDOW) == buf, "window of the context");
	/* Used up: the pool. */
	send_to_window(c, &p, 100, 5, RIPC_IN_POOL);
	EXPECT_ERROR(-EINVAL, ripc_window_remove(p.b, buf + 20000));
	EXPECT_OK(ripc_window_add(p.b, p.sb, buf + 20000, 20000));
	CHECK(send_to_window(c, &p, 20000, 6, RIPC_IN_WINDOW) == buf + 20000, "added again");
	EXPECT_OK(ripc_window_add(p.b, p.sb, buf + 20000, 20000));
	send_to_window(c, &p, 20001, 7, RIPC_IN_POOL);
	EXPECT_OK(ripc_window_remove(p.b, buf + 20000));
	send_to_window(c, &p, 20000, 8, RIPC_IN_POOL);
	EXPECT_OK(ripc_context_stats(p.b, &stats));
	EXPECT_EQ(5, stats.window_items);
	EXPECT_OK(ripc_buf_free(p.b, buf));
}

static void window_items(struct conf *c)
{
	struct iovec items[RIPC_ITEMS_MAX];
	struct ripc_message *m;
	struct conf_plan plan;
	struct conf_pair p;
	uint8_t *buf;
	void *memory;

	conf_pair(c, &p);
	buf = ripc_buf_alloc(p.b, 100000);
	CHECK(buf, "%s", ripc_error_detail());
	/* Each item takes one; empty ones take none. */
	EXPECT_OK(ripc_window_add(p.b, p.sb, buf, 1000));
	EXPECT_OK(ripc_window_add(p.b, NULL, buf + 5000, 50000));
	plan = (struct conf_plan){5, {800, 0, 900, 40000, 0}, 7};
	memory = conf_build(c, p.a, CONF_UNREGISTERED, &plan, items);
	EXPECT_OK(ripc_send_long(p.sa, p.idb, items, 5, NULL, c->patience_ms));
	free(memory);
	m = conf_receive(c, p.sb);
	conf_check_message(m, &plan, p.ida, p.idb, true);
	EXPECT_EQ(RIPC_IN_WINDOW, m->placement[0]);
	CHECK(m->items[0].iov_base == buf, "first item");
	EXPECT_EQ(RIPC_IN_WINDOW, m->placement[2]);
	CHECK(m->items[2].iov_base == buf + 5000, "third item");
	EXPECT_EQ(RIPC_IN_POOL, m->placement[3]);
	errno = 0;
	CHECK(!ripc_message_detach(m, 0), "took a window");
	EXPECT_EQ(EINVAL, errno);
	ripc_message_free(m);
	EXPECT_OK(ripc_buf_free(p.b, buf));
}

static void window_refused(struct conf *c)
{
	static uint8_t memory[10000];
	struct conf_pair p;
	uint8_t *buf;

	conf_pair(c, &p);
	buf = ripc_buf_alloc(p.b, 10000);
	CHECK(buf, "%s", ripc_error_detail());
	EXPECT_ERROR(-EINVAL, ripc_window_add(p.b, p.sb, memory, 100));
	EXPECT_ERROR(-EINVAL, ripc_window_add(p.b, p.sb, buf, 0));
	EXPECT_ERROR(-EINVAL, ripc_window_add(p.b, p.sb, buf, 100 * MIB));
	EXPECT_OK(ripc_buf_register(p.b, memory, sizeof(memory)));
	EXPECT_ERROR(-EINVAL, ripc_window_add(p.b, p.sb, memory + 9000, 1001));
	EXPECT_OK(ripc_window_add(p.b, p.sb, memory, 5000));
	EXPECT_ERROR(-EBUSY, ripc_window_add(p.b, p.sb, memory + 4999, 100));
	EXPECT_ERROR(-EBUSY, ripc_window_add(p.b, NULL, memory, 5000));
	EXPECT_OK(ripc_window_add(p.b, NULL, memory + 5000, 5000));
	EXPECT_ERROR(-EBUSY, ripc_buf_unregister(p.b, memory));
	EXPECT_ERROR(-EINVAL, ripc_window_remove(p.b, memory + 1));
	EXPECT_OK(ripc_window_remove(p.b, memory));
	EXPECT_OK(ripc_window_remove(p.b, memory + 5000));
	EXPECT_ERROR(-EINVAL, ripc_window_remove(p.b, memory));
	EXPECT_OK(ripc_buf_unregister(p.b, memory));
	/* A buffer that is freed is no window any more. */
	EXPECT_OK(ripc_window_add(p.b, p.sb, buf, 10000));
	EXPECT_OK(ripc_buf_free(p.b, buf));
	EXPECT_ERROR(-EINVAL, ripc_window_remove(p.b, buf));
	send_to_window(c, &p, 9000, 1, RIPC_IN_POOL);
	/* The windows of a service end with it. */
	EXPECT_OK(ripc_buf_register(p.b, memory, sizeof(memory)));
	EXPECT_OK(ripc_window_add(p.b, p.sb, memory, 5000));
	EXPECT_OK(ripc_service_unregister(p.sb));
	EXPECT_ERROR(-EINVAL, ripc_window_remove(p.b, memory));
	EXPECT_OK(ripc_buf_unregister(p.b, memory));
}

/* a sends a long or short message with return buffers; b receives it. */
static void send_returns(struct conf *c, struct conf_pair *p, bool is_long,
			 const struct iovec *returns, unsigned nreturns)
{
	struct ripc_send_options options = {
		.size = sizeof(options), .return_buffers = returns, .nreturn_buffers = nreturns};
	uint8_t data[100];
	struct iovec item = {data, sizeof(data)};
	struct ripc_message *m;
	struct conf_plan plan;

	conf_fill(data, sizeof(data), 9);
	plan = conf_plan_one(sizeof(data), 9);
	if (is_long)
		EXPECT_OK(ripc_send_long(p->sa, p->idb, &item, 1, &options, c->patience_ms));
	else
		EXPECT_OK(ripc_send_short(p->sa, p->idb, &item, 1, &options, c->patience_ms));
	m = conf_receive(c, p->sb);
	conf_check_message(m, &plan, p->ida, p->idb, is_long);
	EXPECT_EQ(nreturns, m->nreturn_buffers);
	ripc_message_free(m);
}

/* b answers with a long message; a receives it and checks where its items are. */
static struct ripc_message *reply(struct conf *c, struct conf_pair *p, const struct conf_plan *plan)
{
	struct iovec items[RIPC_ITEMS_MAX];
	void *memory = conf_build(c, p->b, CONF_UNREGISTERED, plan, items);
	struct ripc_message *m;

	EXPECT_OK(ripc_send_long(p->sb, p->ida, items, plan->nitems, NULL, c->patience_ms));
	memset(memory, 0x5a, conf_plan_total(plan));
	free(memory);
	m = conf_receive(c, p->sa);
	conf_check_message(m, plan, p->idb, p->ida, true);
	return m;
}

static void return_fits(struct conf *c)
{
	struct ripc_stats stats = {.size = sizeof(stats)};
	struct conf_plan plan;
	struct conf_pair p;
	uint8_t *buf;

	conf_pair(c, &p);
	buf = ripc_buf_alloc(p.a, 20000);
	CHECK(buf, "%s", ripc_error_detail());
	for (int is_long = !c->reliable; is_long < 2; is_long++)
		for (unsigned i = 0; i < 3; i++) {
			struct iovec ret = {buf, 20000};
			struct ripc_message *m;

			send_returns(c, &p, is_long, &ret, 1);
			plan = conf_plan_one(i == 0 ? 20000 : i == 1 ? 5000 : 1, i);
			m = reply(c, &p, &plan);
			EXPECT_EQ(RIPC_IN_RETURN_BUFFER, m->placement[0]);
			CHECK(m->items[0].iov_base == buf, "not in the return buffer");
			errno = 0;
			CHECK(!ripc_message_detach(m, 0), "took a return buffer");
			ripc_message_free(m);
		}
	EXPECT_OK(ripc_context_stats(p.b, &stats));
	/* A context does not write to itself: it reads into its return buffer. */
	if (c->can_write && !c->same)
		EXPECT_EQ(c->reliable ? 6 : 3, stats.return_buffer_writes);
	EXPECT_OK(ripc_buf_free(p.a, buf));
}

static void return_does_not_fit(struct conf *c)
{
	struct ripc_message *m;
	struct conf_plan plan;
	struct conf_pair p;
	struct iovec ret;
	uint8_t *buf;

	conf_pair(c, &p);
	buf = ripc_buf_alloc(p.a, 5000);
	CHECK(buf, "%s", ripc_error_detail());
	memset(buf, 0x77, 5000);
	ret = (struct iovec){buf, 4000};
	send_returns(c, &p, true, &ret, 1);
	plan = conf_plan_one(4001, 3);
	m = reply(c, &p, &plan);
	EXPECT_EQ(RIPC_IN_POOL, m->placement[0]);
	/* Before a call on the context: TSan sees no order through memory that is mapped twice. */
	for (int i = 0; i < 5000; i++)
		EXPECT_EQ(0x77, buf[i]);
	ripc_message_free(m);
	/* Still a return buffer: a message that fits goes there, and not beyond its end. */
	plan = conf_plan_one(4000, 4);
	m = reply(c, &p, &plan);
	CHECK(m->items[0].iov_base == buf, "not in the return buffer");
	for (int i = 4000; i < 5000; i++)
		EXPECT_EQ(0x77, buf[i]);
	ripc_message_free(m);
	EXPECT_OK(ripc_buf_free(p.a, buf));
}

static void return_several(struct conf *c)
{
	struct iovec ret[RIPC_RETURN_BUFFERS_MAX];
	struct ripc_message *m;
	struct conf_plan plan = {4, {10, 0, 3000, 20000}, 11};
	struct conf_pair p;
	uint8_t *buf;

	conf_pair(c, &p);
	buf = ripc_buf_alloc(p.a, RIPC_RETURN_BUFFERS_MAX * 4096);
	CHECK(buf, "%s", ripc_error_detail());
	for (int i = 0; i < RIPC_RETURN_BUFFERS_MAX; i++)
		ret[i] = (struct iovec){buf + i * 4096, 4096};
	send_returns(c, &p, true, ret, RIPC_RETURN_BUFFERS_MAX);
	m = reply(c, &p, &plan);
	EXPECT_EQ(RIPC_IN_RETURN_BUFFER, m->placement[0]);
	EXPECT_EQ(RIPC_IN_RETURN_BUFFER, m->placement[2]);
	CHECK(m->items[0].iov_base != m->items[2].iov_base, "two items in one place");
	EXPECT_EQ(RIPC_IN_POOL, m->placement[3]);
	ripc_message_free(m);
	/* The rest is still there for later messages. */
	plan = (struct conf_plan){2, {4096, 4096}, 12};
	m = reply(c, &p, &plan);
	for (int i = 0; i < 2; i++)
		EXPECT_EQ(RIPC_IN_RETURN_BUFFER, m->placement[i]);
	ripc_message_free(m);
	EXPECT_OK(ripc_buf_free(p.a, buf));
}

/*
 * The first unused buffer that is long enough, in the order of the list, as ripc_send_long(3)
 * specifies.
 */
static void return_order(struct conf *c)
{
	static const struct conf_plan plan = {5, {50, 2000, 0, 50, 3000}, 13};
	struct ripc_message *m;
	struct iovec ret[4];
	struct conf_pair p;
	uint8_t *buf;

	conf_pair(c, &p);
	buf = ripc_buf_alloc(p.a, 4 * 4096);
	CHECK(buf, "%s", ripc_error_detail());
	for (int i = 0; i < 4; i++)
		ret[i] = (struct iovec){buf + i * 4096, i == 1 || i == 2 ? 4000 : 100};
	send_returns(c, &p, true, ret, 4);
	m = reply(c, &p, &plan);
	CHECK(m->items[0].iov_base == ret[0].iov_base, "50 bytes: the first buffer");
	CHECK(m->items[1].iov_base == ret[1].iov_base, "2000 bytes: the second buffer");
	CHECK(m->items[3].iov_base == ret[2].iov_base, "50 bytes: the first unused buffer");
	EXPECT_EQ(RIPC_IN_POOL, m->placement[4]);
	ripc_message_free(m);
	/* Empty items have used none. */
	m = reply(c, &p, &(struct conf_plan){1, {100}, 14});
	CHECK(m->items[0].iov_base == ret[3].iov_base, "100 bytes: the last buffer");
	ripc_message_free(m);
	EXPECT_OK(ripc_buf_free(p.a, buf));
}

static void return_refused(struct conf *c)
{
	struct ripc_send_options options = {.size = sizeof(options)};
	uint8_t data[10] = {0}, foreign[100];
	struct iovec item = {data, sizeof(data)}, ret[RIPC_RETURN_BUFFERS_MAX + 1];
	struct conf_pair p;
	uint8_t *buf;

	conf_pair(c, &p);
	conf_fill(data, sizeof(data), 0);
	buf = ripc_buf_alloc(p.a, 1000);
	CHECK(buf, "%s", ripc_error_detail());
	options.return_buffers = ret;
	options.nreturn_buffers = 1;
	ret[0] = (struct iovec){foreign, 100};
	EXPECT_ERROR(-EINVAL, ripc_send_short(p.sa, p.idb, &item, 1, &options, c->patience_ms));
	EXPECT_ERROR(-EINVAL, ripc_send_long(p.sa, p.idb, &item, 1, &options, c->patience_ms));
	options.nreturn_buffers = RIPC_RETURN_BUFFERS_MAX + 1;
	for (int i = 0; i <= RIPC_RETURN_BUFFERS_MAX; i++)
		ret[i] = (struct iovec){buf + i * 10, 10};
	EXPECT_ERROR(-EINVAL, ripc_send_long(p.sa, p.idb, &item, 1, &options, c->patience_ms));
	options.nreturn_buffers = 1;
	ret[0] = (struct iovec){buf, 500};
	EXPECT_OK(ripc_send_long(p.sa, p.idb, &item, 1, &options, c->patience_ms));
	/* Offered already, all or in part. */
	EXPECT_ERROR(-EBUSY, ripc_send_long(p.sa, p.idb, &item, 1, &options, c->patience_ms));
	ret[0] = (struct iovec){buf + 499, 500};
	EXPECT_ERROR(-EBUSY, ripc_send_long(p.sa, p.idb, &item, 1, &options, c->patience_ms));
	EXPECT_ERROR(-EBUSY, ripc_window_add(p.a, p.sa, buf, 100));
	errno = 0;
	CHECK(!ripc_buf_realloc(p.a, buf, 5 * MIB), "offered buffer");
	EXPECT_EQ(EBUSY, errno);
	ret[0] = (struct iovec){buf + 500, 500};
	EXPECT_OK(ripc_send_long(p.sa, p.idb, &item, 1, &options, c->patience_ms));
	EXPECT_OK(ripc_buf_free(p.a, buf));
	conf_expect(c, p.sb, &(struct conf_plan){1, {10}, 0}, p.ida, true);
}

static void return_cancelled(struct conf *c)
{
	static uint8_t memory[5000];
	struct ripc_message *m;
	struct conf_plan plan;
	struct conf_pair p;
	struct iovec ret;
	uint8_t *buf;

	conf_pair(c, &p);
	/* Freed: nobody writes into the memory any more, so that it can be used again. */
	buf = ripc_buf_alloc(p.a, 5000);
	CHECK(buf, "%s", ripc_error_detail());
	ret = (struct iovec){buf, 5000};
	send_returns(c, &p, true, &ret, 1);
	EXPECT_OK(ripc_buf_free(p.a, buf));
	buf = ripc_buf_alloc(p.a, 5000);
	CHECK(buf, "%s", ripc_error_detail());
	memset(buf, 0x77, 5000);
	plan = conf_plan_one(5000, 1);
	m = reply(c, &p, &plan);
	EXPECT_EQ(RIPC_IN_POOL, m->placement[0]);
	ripc_message_free(m);
	for (int i = 0; i < 5000; i++)
		EXPECT_EQ(0x77, buf[i]);
	EXPECT_OK(ripc_buf_free(p.a, buf));
	/* Offered by a service that ends. */
	EXPECT_OK(ripc_buf_register(p.a, memory, sizeof(memory)));
	ret = (struct iovec){memory, sizeof(memory)};
	send_returns(c, &p, true, &ret, 1);
	EXPECT_OK(ripc_service_unregister(p.sa));
	EXPECT_OK(ripc_buf_unregister(p.a, memory));
}

static void take(struct conf *c)
{
	struct ripc_message *m;
	struct conf_plan plan = {3, {5000, 0, 700}, 21};
	struct iovec items[3];
	struct conf_pair p;
	uint8_t *kept;
	void *memory;

	conf_pair(c, &p);
	memory = conf_build(c, p.a, CONF_UNREGISTERED, &plan, items);
	EXPECT_OK(ripc_send_long(p.sa, p.idb, items, 3, NULL, c->patience_ms));
	free(memory);
	m = conf_receive(c, p.sb);
	conf_check_message(m, &plan, p.ida, p.idb, true);
	EXPECT_EQ(RIPC_IN_POOL, m->placement[0]);
	kept = ripc_message_detach(m, 0);
	CHECK(kept, "%s", ripc_error_detail());
	errno = 0;
	CHECK(!ripc_message_detach(m, 3), "no such item");
	EXPECT_EQ(EINVAL, errno);
	errno = 0;
	CHECK(!ripc_message_detach(m, 0), "taken twice");
	EXPECT_EQ(EINVAL, errno);
	ripc_message_free(m);
	conf_verify(kept, 5000, 21, "taken buffer");
	/* It is now like any other: it can be sent, grow, and be freed. */
	items[0] = (struct iovec){kept, 5000};
	EXPECT_OK(ripc_send_long(p.sb, p.ida, items, 1, NULL, c->patience_ms));
	plan = conf_plan_one(5000, 21);
	conf_expect(c, p.sa, &plan, p.idb, true);
	kept = ripc_buf_realloc(p.b, kept, 50000);
	CHECK(kept, "%s", ripc_error_detail());
	conf_verify(kept, 5000, 21, "taken buffer");
	EXPECT_OK(ripc_buf_free(p.b, kept));
	if (c->reliable) {
		EXPECT_OK(conf_send_short(c, p.sa, p.idb, 10, 1, c->patience_ms));
		m = conf_receive(c, p.sb);
		errno = 0;
		CHECK(!ripc_message_detach(m, 0), "took a receive buffer");
		EXPECT_EQ(EINVAL, errno);
		ripc_message_free(m);
	}
	ripc_message_free(NULL);
}

const struct conf_case conf_target[] = {
	{"window_order", window_order, 0},
	{"window_items", window_items, 0},
	{"window_refused", window_refused, 0},
	{"return_fits", return_fits, 0},
	{"return_does_not_fit", return_does_not_fit, 0},
	{"return_several", return_several, 0},
	{"return_order", return_order, 0},
	{"return_refused", return_refused, 0},
	{"return_cancelled", return_cancelled, 0},
	{"take", take, 0},
	{0},
};
