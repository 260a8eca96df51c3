/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Reliable short messages, calls, and watches. */
#include "conf.h"

static const struct ripc_send_options reliable = {.size = sizeof(reliable), .flags = RIPC_RELIABLE};

/* All arrive, once and in order, also where datagrams are lost. */
static void reliable_short(struct conf *c)
{
	enum { N = 250 };
	static uint8_t buf[RIPC_SHORT_GUARANTEED];
	struct conf_plan plan;
	struct conf_pair p;

	conf_pair(c, &p);
	for (unsigned i = 0; i < N; i++) {
		struct iovec item = {buf, conf_random(c, sizeof(buf) + 1)};

		conf_fill(buf, item.iov_len, i);
		EXPECT_OK(
			i & 1 ? ripc_send(p.sa, p.idb, &item, 1, &reliable, c->patience_ms)
			      : ripc_send_short(p.sa, p.idb, &item, 1, &reliable, c->patience_ms));
		plan = conf_plan_one(item.iov_len, i);
		if (i % 16 == 15)
			EXPECT_OK(ripc_flush(p.sa, p.idb, c->patience_ms));
		conf_expect(c, p.sb, &plan, p.ida, false);
	}
	EXPECT_OK(ripc_flush(p.sa, p.idb, c->patience_ms));
	conf_expect_none(c, p.sb);
}

static void reliable_errors(struct conf *c)
{
	struct ripc_send_options options = reliable;
	struct ripc_route route = {.size = sizeof(route)};
	struct iovec item = {NULL, 0}, buffer;
	struct conf_pair p;
	void *big;

	conf_pair(c, &p);
	EXPECT_ERROR(-EHOSTUNREACH,
		     ripc_send_short(p.sa, conf_id(c), &item, 1, &reliable, CONF_NO_ANSWER_MS));
	EXPECT_OK(ripc_flush(p.sa, conf_id(c), 0));
	EXPECT_ERROR(-EINVAL, ripc_flush(p.sa, 0, 0));
	EXPECT_OK(ripc_route_lookup(p.a, p.idb, &route, c->patience_ms));
	big = calloc(1, MIB);
	item = (struct iovec){big, MIB};
	EXPECT_ERROR(-EMSGSIZE, ripc_send_short(p.sa, p.idb, &item, 1, &reliable, c->patience_ms));
	free(big);
	buffer = (struct iovec){ripc_buf_alloc(p.a, 100), 100};
	options.nreturn_buffers = 1;
	options.return_buffers = &buffer;
	item = (struct iovec){"x", 1};
	EXPECT_ERROR(-EOPNOTSUPP, ripc_send_short(p.sa, p.idb, &item, 1, &options, c->patience_ms));
	EXPECT_OK(ripc_buf_free(p.a, buffer.iov_base));
	conf_expect_none(c, p.sb);
}

/* Answers the next request with its own bytes, after a check that there is one. */
static void echo(struct conf *c, struct ripc_service *s)
{
	struct ripc_message *m = conf_receive(c, s);
	struct ripc_request *answer = NULL;
	int rc;

	CHECK(m->call, "not a request");
	rc = ripc_reply(m, m->items, m->nitems, 0);
	if (rc == -EAGAIN)
		rc = ripc_reply_start(m, m->items, m->nitems, NULL, &answer);
	EXPECT_RC(0, rc);
	EXPECT_ERROR(-EALREADY, ripc_reply(m, m->items, m->nitems, 0));
	if (answer)
		EXPECT_OK(ripc_request_wait(&answer, c->patience_ms));
	ripc_message_free(m);
}

/* Each call gets its own answer, whatever the sizes. */
static void call_answers(struct conf *c)
{
	static const size_t lens[] = {0, 1, 64, 512, 513, 4000, 20000, 70000};
	struct conf_pair p;

	conf_pair(c, &p);
	for (unsigned i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
		struct ripc_request *request;
		struct ripc_message *m;
		struct conf_plan plan;
		struct iovec item;
		void *memory;

		plan = conf_plan_one(lens[i], i);
		memory = conf_build(c, p.a, CONF_UNREGISTERED, &plan, &item);
		EXPECT_OK(ripc_call_start(p.sa, p.idb, &item, 1, NULL, c->patience_ms, &request));
		echo(c, p.sb);
		EXPECT_OK(ripc_call_wait(&request, &m, c->patience_ms));
		EXPECT_EQ(1, m->nitems);
		EXPECT_EQ(lens[i], m->items[0].iov_len);
		EXPECT_EQ(p.idb, m->source);
		EXPECT_EQ(0, m->call);
		conf_verify(m->items[0].iov_base, lens[i], i, "answer");
		ripc_message_free(m);
		free(memory);
	}
	conf_expect_none(c, p.sa);
	AWAIT_STAT(c, p.a, calls, sizeof(lens) / sizeof(lens[0]));
}

/* Many at once: answered in another order, each by its own answer. */
static void call_many(struct conf *c)
{
	enum { N = 250 };
	struct ripc_request *request[N];
	struct ripc_message *asked[N], *m;
	uint32_t numbers[N];
	struct conf_pair p;

	conf_pair(c, &p);
	for (uint32_t i = 0; i < N; i++) {
		struct iovec item = {&numbers[i], sizeof(numbers[i])};

		numbers[i] = i;
		EXPECT_OK(
			ripc_call_start(p.sa, p.idb, &item, 1, NULL, c->patience_ms, &request[i]));
	}
	for (unsigned i = 0; i < N; i++)
		asked[i] = conf_receive(c, p.sb);
	for (unsigned n = N; n; n--) {
		unsigned at = (unsigned)conf_random(c, n);

		EXPECT_OK(ripc_reply(asked[at], asked[at]->items, 1, 0));
		ripc_message_free(asked[at]);
		asked[at] = asked[n - 1];
	}
	for (uint32_t i = 0; i < N; i++) {
		EXPECT_OK(ripc_call_wait(&request[i], &m, c->patience_ms));
		CHECK(!memcmp(m->items[0].iov_base, &i, sizeof(i)), "answer of another call");
		ripc_message_free(m);
	}
}

/* The detail string names the service and this cause. */
static void service_named(uint64_t id, const char *cause)
{
	char service[40];

	snprintf(service, sizeof(service), "service %llu ", (unsigned long long)id);
	CHECK(strstr(ripc_error_detail(), service) && strstr(ripc_error_detail(), cause),
	      "no \"%s\" and \"%s\" in: %s", service, cause, ripc_error_detail());
}

static void call_results(struct conf *c)
{
	struct iovec item = {"x", 1};
	struct ripc_request *request;
	struct ripc_message *m, *asked;
	struct conf_pair p;
	int rc;

	conf_pair(c, &p);
	EXPECT_ERROR(-EHOSTUNREACH,
		     ripc_call(p.sa, conf_id(c), &item, 1, NULL, &m, CONF_NO_ANSWER_MS));
	CHECK(!m, "an answer of nobody");
	/* Refused, and freed without an answer. */
	for (unsigned i = 0; i < 2; i++) {
		EXPECT_OK(ripc_call_start(p.sa, p.idb, &item, 1, NULL, c->patience_ms, &request));
		asked = conf_receive(c, p.sb);
		CHECK(ripc_message_deadline(asked) > 0, "no time left");
		if (!i)
			EXPECT_OK(ripc_reply_error(asked, EACCES));
		ripc_message_free(asked);
		EXPECT_ERROR(i ? -ECANCELED : -EACCES,
			     ripc_call_wait(&request, &m, c->patience_ms));
		service_named(p.idb, i ? "without an answer" : "refused");
		CHECK(m, "no message of the service");
		ripc_message_free(m);
	}
	/* Nobody receives it: it is not executed. A slow peer may not confirm that in time. */
	rc = ripc_call(p.sa, p.idb, &item, 1, NULL, &m, CONF_NO_ANSWER_MS);
	EXPECT_RC(!c->net && rc == -ETIME ? -ETIME : -ETIMEDOUT, rc);
	service_named(p.idb,
		      rc == -ETIME ? "may have executed" : "time was up; it was not executed");
	conf_expect_none(c, p.sb);
	/* Received, and given up by its caller: a late answer is dropped. */
	EXPECT_OK(ripc_call_start(p.sa, p.idb, &item, 1, NULL, c->patience_ms, &request));
	asked = conf_receive(c, p.sb);
	EXPECT_EQ(0, ripc_message_cancelled(asked));
	rc = ripc_request_cancel(&request, c->patience_ms);
	EXPECT_RC(-ETIME, rc);
	for (int i = 0; i < c->patience_ms && !ripc_message_cancelled(asked); i++)
		conf_run(c, 1);
	EXPECT_ERROR(-ECANCELED, ripc_reply(asked, &item, 1, 0));
	ripc_message_free(asked);
	/* The next one gets its own answer. */
	EXPECT_OK(ripc_call_start(p.sa, p.idb, &item, 1, NULL, c->patience_ms, &request));
	echo(c, p.sb);
	EXPECT_OK(ripc_call_wait(&request, &m, c->patience_ms));
	ripc_message_free(m);
	/* A plain message is no request. */
	EXPECT_OK(ripc_send(p.sa, p.idb, &item, 1, &reliable, c->patience_ms));
	asked = conf_receive(c, p.sb);
	EXPECT_EQ(0, asked->call);
	EXPECT_ERROR(-EINVAL, ripc_reply(asked, &item, 1, 0));
	ripc_message_free(asked);
}

/* The answer lands in the caller's buffer. */
static void call_reply_buffer(struct conf *c)
{
	struct ripc_call_options options = {.size = sizeof(options), .nreply_buffers = 1};
	struct ripc_request *request;
	struct iovec item, buffer;
	struct conf_plan plan;
	struct ripc_message *m;
	struct conf_pair p;
	void *memory;

	conf_pair(c, &p);
	buffer = (struct iovec){ripc_buf_alloc(p.a, 100000), 100000};
	options.reply_buffers = &buffer;
	plan = conf_plan_one(70000, 3);
	memory = conf_build(c, p.a, CONF_UNREGISTERED, &plan, &item);
	EXPECT_OK(ripc_call_start(p.sa, p.idb, &item, 1, &options, c->patience_ms, &request));
	echo(c, p.sb);
	EXPECT_OK(ripc_call_wait(&request, &m, c->patience_ms));
	CHECK(m->items[0].iov_base == buffer.iov_base, "not in the buffer: placement %u",
	      m->placement[0]);
	conf_verify(buffer.iov_base, 70000, 3, "answer");
	ripc_message_free(m);
	EXPECT_OK(ripc_buf_free(p.a, buffer.iov_base));
	free(memory);
}

/* A short answer lands there too, and each call may have the same buffer. */
static void call_reply_buffer_again(struct conf *c)
{
	static const size_t lens[] = {100, 30000, 0, 600, 90000, 100};
	struct ripc_call_options options = {.size = sizeof(options), .nreply_buffers = 1};
	struct ripc_request *request;
	struct iovec item, buffer;
	struct conf_plan plan;
	struct ripc_message *m;
	struct conf_pair p;
	void *memory;

	conf_pair(c, &p);
	buffer = (struct iovec){ripc_buf_alloc(p.a, 100000), 100000};
	options.reply_buffers = &buffer;
	for (unsigned i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
		memset(buffer.iov_base, 0xee, buffer.iov_len);
		plan = conf_plan_one(lens[i], i);
		memory = conf_build(c, p.a, CONF_UNREGISTERED, &plan, &item);
		EXPECT_OK(
			ripc_call_start(p.sa, p.idb, &item, 1, &options, c->patience_ms, &request));
		echo(c, p.sb);
		EXPECT_OK(ripc_call_wait(&request, &m, c->patience_ms));
		EXPECT_EQ(lens[i], m->items[0].iov_len);
		if (lens[i]) {
			CHECK(m->items[0].iov_base == buffer.iov_base,
			      "%zu bytes: not in the buffer: placement %u", lens[i],
			      m->placement[0]);
			EXPECT_EQ(RIPC_IN_RETURN_BUFFER, m->placement[0]);
		}
		conf_verify(m->items[0].iov_base, lens[i], i, "answer");
		ripc_message_free(m);
		free(memory);
	}
	EXPECT_OK(ripc_buf_free(p.a, buffer.iov_base));
}

/* Answers land in the buffers of their own calls, in whatever order they come. */
static void call_reply_buffers_apart(struct conf *c)
{
	enum { N = 3, LEN = 40000 };
	struct ripc_call_options options = {.size = sizeof(options), .nreply_buffers = 1};
	struct ripc_request *request[N], *answer;
	struct ripc_message *asked[N], *m;
	struct iovec item, buffer[N];
	struct conf_plan plan;
	struct conf_pair p;
	void *memory[N];

	conf_pair(c, &p);
	for (unsigned i = 0; i < N; i++) {
		buffer[i] = (struct iovec){ripc_buf_alloc(p.a, LEN), LEN};
		options.reply_buffers = &buffer[i];
		plan = conf_plan_one(LEN, i);
		memory[i] = conf_build(c, p.a, CONF_UNREGISTERED, &plan, &item);
		EXPECT_OK(ripc_call_start(p.sa, p.idb, &item, 1, &options, c->patience_ms,
					  &request[i]));
		asked[i] = conf_receive(c, p.sb);
	}
	/* A message that is no answer uses none of them. */
	EXPECT_OK(conf_send_long(c, p.sb, p.ida, LEN, 9, c->patience_ms));
	m = conf_receive(c, p.sa);
	CHECK(m->placement[0] != RIPC_IN_RETURN_BUFFER, "a message in a reply buffer");
	ripc_message_free(m);
	for (unsigned i = N; i-- > 0;) {
		EXPECT_OK(ripc_reply_start(asked[i], asked[i]->items, 1, NULL, &answer));
		EXPECT_OK(ripc_call_wait(&request[i], &m, c->patience_ms));
		CHECK(m->items[0].iov_base == buffer[i].iov_base,
		      "answer %u is not in its buffer: placement %u", i, m->placement[0]);
		conf_verify(buffer[i].iov_base, LEN, i, "answer");
		ripc_message_free(m);
		EXPECT_OK(ripc_request_wait(&answer, c->patience_ms));
		ripc_message_free(asked[i]);
	}
	for (unsigned i = 0; i < N; i++) {
		EXPECT_OK(ripc_buf_free(p.a, buffer[i].iov_base));
		free(memory[i]);
	}
}

/* A buffer is the caller's when the call is done: a late answer is not written into it. */
static void call_reply_buffer_late(struct conf *c)
{
	enum { LEN = 60000 };
	struct ripc_call_options options = {.size = sizeof(options), .nreply_buffers = 1};
	struct ripc_request *request, *answer = NULL;
	struct ripc_message *asked, *m;
	struct iovec item, buffer;
	struct conf_plan plan;
	struct conf_pair p;
	void *memory;
	int rc;

	conf_pair(c, &p);
	buffer = (struct iovec){ripc_buf_alloc(p.a, LEN), LEN};
	options.reply_buffers = &buffer;
	plan = conf_plan_one(LEN, 5);
	memory = conf_build(c, p.a, CONF_UNREGISTERED, &plan, &item);
	EXPECT_OK(ripc_call_start(p.sa, p.idb, &item, 1, &options, c->patience_ms, &request));
	asked = conf_receive(c, p.sb);
	rc = ripc_request_cancel(&request, c->patience_ms);
	EXPECT_RC(-ETIME, rc);
	memset(buffer.iov_base, 0xee, LEN);
	rc = ripc_reply_start(asked, asked->items, 1, NULL, &answer);
	if (!rc)
		ripc_request_wait(&answer, c->patience_ms);
	ripc_message_free(asked);
	for (size_t i = 0; i < LEN; i++)
		CHECK(((uint8_t *)buffer.iov_base)[i] == 0xee, "written at %zu", i);
	/* It serves the next call. */
	EXPECT_OK(ripc_call_start(p.sa, p.idb, &item, 1, &options, c->patience_ms, &request));
	echo(c, p.sb);
	EXPECT_OK(ripc_call_wait(&request, &m, c->patience_ms));
	CHECK(m->items[0].iov_base == buffer.iov_base, "not in the buffer: placement %u",
	      m->placement[0]);
	conf_verify(buffer.iov_base, LEN, 5, "answer");
	ripc_message_free(m);
	EXPECT_OK(ripc_buf_free(p.a, buffer.iov_base));
	free(memory);
}

/* The caller's context is closed before the answer: the peer must not keep it from that. */
static void call_reply_buffer_closed(struct conf *c)
{
	struct ripc_call_options options = {.size = sizeof(options), .nreply_buffers = 1};
	struct ripc_request *request;
	struct ripc_message *asked;
	struct iovec item, buffer;
	struct conf_plan plan;
	struct conf_pair p;
	void *memory;

	conf_pair(c, &p);
	buffer = (struct iovec){ripc_buf_alloc(p.a, 60000), 60000};
	options.reply_buffers = &buffer;
	plan = conf_plan_one(conf_random(c, 2) ? 100 : 60000, 5);
	memory = conf_build(c, p.a, CONF_UNREGISTERED, &plan, &item);
	EXPECT_OK(ripc_call_start(p.sa, p.idb, &item, 1, &options, c->patience_ms, &request));
	asked = conf_receive(c, p.sb);
	conf_close(c, p.a);
	/* In one context the request ends with it. */
	if (!c->same)
		ripc_message_free(asked);
	free(memory);
}

/* The event of a service that is closed follows all that it has sent. */
/* Return: how many answers arrive, if the context closes right after it has given n answers. */
static unsigned answers_before_close(struct conf *c, unsigned n)
{
	static uint8_t bytes[1900];
	struct ripc_request **request = calloc(n, sizeof(struct ripc_request *));
	struct ripc_message **asked = calloc(n, sizeof(struct ripc_message *)), *m;
	struct iovec item = {bytes, sizeof(bytes)};
	unsigned answered = 0;
	struct conf_pair p;

	conf_pair(c, &p);
	for (unsigned i = 0; i < n; i++) {
		EXPECT_OK(
			ripc_call_start(p.sa, p.idb, &item, 1, NULL, c->patience_ms, &request[i]));
		asked[i] = conf_receive(c, p.sb);
	}
	for (unsigned i = 0; i < n; i++) {
		EXPECT_OK(ripc_reply(asked[i], &item, 1, c->patience_ms));
		ripc_message_free(asked[i]);
	}
	conf_close(c, p.b);
	for (unsigned i = 0; i < n; i++) {
		int rc = ripc_call_wait(&request[i], &m, c->patience_ms);

		CHECK(!rc || rc == -EPIPE, "%d", rc);
		answered += !rc;
		if (!rc)
			ripc_message_free(m);
	}
	conf_close(c, p.a);
	free(asked);
	free(request);
	return answered;
}

/*
 * More answers than a peer may have without acknowledgement leave before the context closes. On a
 * busy machine the time for that may be over.
 */
static void call_answers_before_close(struct conf *c)
{
	enum { N = 250 };
	unsigned tries = 0;

	while (answers_before_close(c, N) != N)
		CHECK(++tries < 4, "answers are lost each time");
}

static void watch_moved(struct conf *c)
{
	struct conf_plan plan;
	struct ripc_message *m;
	struct conf_pair p;

	conf_pair(c, &p);
	EXPECT_OK(ripc_watch(p.sa, p.idb));
	conf_exchange(c, &p);
	conf_expect_none(c, p.sa);
	plan = conf_plan_one(20000, 1);
	EXPECT_OK(conf_send_long(c, p.sb, p.ida, 20000, 1, c->patience_ms));
	EXPECT_OK(ripc_service_unregister(p.sb));
	conf_expect(c, p.sa, &plan, p.idb, true);
	m = conf_receive(c, p.sa);
	EXPECT_EQ(RIPC_EVENT_MOVED, m->event);
	EXPECT_EQ(p.idb, m->source);
	CHECK(m->items[0].iov_len, "no cause");
	ripc_message_free(m);
	conf_expect_none(c, p.sa);
}

static void watch_died(struct conf *c)
{
	struct ripc_message *m;
	struct conf_pair p;

	conf_pair(c, &p);
	EXPECT_OK(ripc_watch(p.sa, p.idb));
	conf_exchange(c, &p);
	conf_close(c, p.b);
	m = conf_receive(c, p.sa);
	EXPECT_EQ(RIPC_EVENT_DIED, m->event);
	EXPECT_EQ(p.idb, m->source);
	ripc_message_free(m);
	/* Nobody holds it now. */
	EXPECT_OK(ripc_watch(p.sa, p.idb));
	m = conf_receive(c, p.sa);
	EXPECT_EQ(RIPC_EVENT_NOT_FOUND, m->event);
	ripc_message_free(m);
}

const struct conf_case conf_call[] = {
	{"reliable_short", reliable_short, 0},
	{"reliable_errors", reliable_errors, 0},
	{"call_answers", call_answers, 0},
	{"call_many", call_many, 0},
	{"call_results", call_results, 0},
	{"call_reply_buffer", call_reply_buffer, 0},
	{"call_reply_buffer_again", call_reply_buffer_again, 0},
	{"call_reply_buffers_apart", call_reply_buffers_apart, 0},
	{"call_reply_buffer_late", call_reply_buffer_late, 0},
	{"call_reply_buffer_closed", call_reply_buffer_closed, 0},
	{"call_answers_before_close", call_answers_before_close, CONF_REAL | CONF_TWO_CONTEXTS},
	{"watch_moved", watch_moved, 0},
	{"watch_died", watch_died, CONF_TWO_CONTEXTS},
	{NULL, NULL, 0},
};
