/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Arguments that make no sense, ids, limits, counters, and texts. */
#include "conf.h"

/*
 * The id is held by another context. Where the network loses datagrams, all three probes may be
 * lost: then the refusal takes more than one attempt, but not many.
 */
static void refused_as_held(struct conf *c, struct ripc *ctx, uint64_t id)
{
	struct ripc_service *s = NULL;

	for (int i = 0; i < 10 && !strcmp(c->config, "lossy"); i++) {
		if (ripc_service_register(ctx, id, 0, &s) == -EADDRINUSE)
			return;
		EXPECT_OK(ripc_service_unregister(s));
		s = NULL;
	}
	EXPECT_ERROR(-EADDRINUSE, ripc_service_register(ctx, id, 0, &s));
	CHECK(!s, "a service in spite of the error");
}

static void register_ids(struct conf *c)
{
	struct ripc *ctx = conf_open(c), *other = conf_open(c);
	struct ripc_service *s[5], *none = NULL;
	uint64_t id = conf_id(c);

	EXPECT_ERROR(-EINVAL, ripc_service_register(ctx, 0, 0, &none));
	EXPECT_ERROR(-EINVAL, ripc_service_register(ctx, RIPC_ID_LIMIT, 0, &none));
	EXPECT_ERROR(-EINVAL, ripc_service_register(ctx, RIPC_ANY_ID - 1, 0, &none));
	EXPECT_ERROR(-EOPNOTSUPP, ripc_service_register(ctx, id, 1 << 7, &none));
	CHECK(ripc_service_register(ctx, id, 1u << 30, &none) < 0, "unknown flag");
	/* On a real host others test as well, and some with small numbers. */
	s[0] = conf_register(c, ctx, 1 + conf_random(c, c->net ? 1000 : 1u << 24));
	s[1] = conf_register(c, ctx, RIPC_ID_LIMIT - 1 - conf_random(c, c->net ? 1000 : 1u << 24));
	for (int i = 2; i < 5; i++) {
		s[i] = conf_register(c, ctx, RIPC_ANY_ID);
		CHECK(ripc_service_id(s[i]) >= RIPC_ID_LIMIT, "reserved id");
		CHECK(ripc_service_id(s[i]) != RIPC_ANY_ID, "id");
		CHECK(i == 2 || ripc_service_id(s[i]) != ripc_service_id(s[i - 1]),
		      "same id twice");
	}
	EXPECT_ERROR(-EADDRINUSE, ripc_service_register(ctx, ripc_service_id(s[0]), 0, &none));
	refused_as_held(c, other, ripc_service_id(s[0]));
	refused_as_held(c, other, ripc_service_id(s[1]));
	CHECK(!none, "a service in spite of the error");
	EXPECT_OK(ripc_service_unregister(s[0]));
	EXPECT_OK(ripc_service_unregister(conf_register(c, other, conf_id(c))));
	s[0] = conf_register(c, other, id);
	EXPECT_EQ(id, ripc_service_id(s[0]));
}

/* The one who is refused learns who holds the id. */
static void holder_is_named(struct conf *c)
{
	struct ripc *other = conf_open(c);
	struct ripc_message *m;
	struct conf_pair p;
	char hex[33];

	conf_pair(c, &p);
	EXPECT_OK(conf_send_long(c, p.sb, p.ida, 10, 1, c->patience_ms));
	m = conf_receive(c, p.sa);
	for (int i = 0; i < 16; i++)
		snprintf(hex + 2 * i, 3, "%02x", m->instance[i]);
	ripc_message_free(m);
	refused_as_held(c, other, p.idb);
	hex[8] = 0;
	CHECK(strstr(ripc_error_detail(), hex), "holder %s.. is not named in: %s", hex,
	      ripc_error_detail());
}

static void bad_sends(struct conf *c)
{
	struct iovec items[RIPC_ITEMS_MAX + 1],
		huge[2] = {{items, SIZE_MAX / 2}, {items, SIZE_MAX / 2 + 10}};
	struct ripc_send_options options = {.size = sizeof(options)};
	int rc;
	struct ripc_request *request = NULL;
	struct conf_pair p;
	uint8_t byte = 1;

	conf_pair(c, &p);
	for (int i = 0; i <= RIPC_ITEMS_MAX; i++)
		items[i] = (struct iovec){&byte, 1};
	EXPECT_ERROR(-EINVAL, ripc_send_short(p.sa, p.idb, items, 0, NULL, 100));
	EXPECT_ERROR(-EINVAL, ripc_send_long(p.sa, p.idb, items, 0, NULL, 100));
	EXPECT_ERROR(-EINVAL, ripc_send(p.sa, p.idb, items, 0, NULL, 100));
	EXPECT_ERROR(-EINVAL, ripc_send_async(p.sa, p.idb, items, 0, NULL, &request));
	EXPECT_ERROR(-EINVAL, ripc_send_short(p.sa, p.idb, items, RIPC_ITEMS_MAX + 1, NULL, 100));
	EXPECT_ERROR(-EINVAL, ripc_send_long(p.sa, p.idb, items, RIPC_ITEMS_MAX + 1, NULL, 100));
	EXPECT_ERROR(-EINVAL, ripc_send(p.sa, p.idb, items, RIPC_ITEMS_MAX + 1, NULL, 100));
	rc = ripc_send_async(p.sa, p.idb, items, RIPC_ITEMS_MAX + 1, NULL, &request);
	EXPECT_ERROR(-EINVAL, rc);
	CHECK(!request, "a request in spite of the error");
	/* Lengths whose sum wraps round. */
	CHECK(ripc_send_short(p.sa, p.idb, huge, 2, NULL, 100) < 0, "wraps round");
	CHECK(ripc_send_long(p.sa, p.idb, huge, 2, NULL, 100) < 0, "wraps round");
	options.flags = 1u << 30;
	CHECK(ripc_send_short(p.sa, p.idb, items, 1, &options, 100) < 0, "unknown flag");
	options.flags = 0;
	options.nreturn_buffers = 1;
	EXPECT_ERROR(-EINVAL, ripc_send_short(p.sa, p.idb, items, 1, &options, 100));
	/* Ids that nobody can hold. */
	CHECK(ripc_send_short(p.sa, 0, items, 1, NULL, 100) < 0, "to 0");
	conf_expect_none(c, p.sb);
	conf_exchange(c, &p);
}

static void bad_options(struct conf *c)
{
	static const char *const bad[] = {
		"nonsense=1", "wait=often", "peer_timeout_ms=soon", "peer_timeout_ms=-1",
		"wait",       "port=0",     "pool_bytes=1e9"};
	struct ripc *ctx = NULL;

	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		char key[32];

		EXPECT_ERROR(-EINVAL, ripc_open(&ctx, bad[i]));
		snprintf(key, sizeof(key), "%.*s", (int)strcspn(bad[i], "="), bad[i]);
		CHECK(strstr(ripc_error_detail(), key), "%s is not named in: %s", key,
		      ripc_error_detail());
		CHECK(!ctx, "a context in spite of the error");
	}
	EXPECT_ERROR(-EINVAL, ripc_open(&ctx, "transports=nothing"));
	EXPECT_ERROR(-EINVAL, ripc_open(&ctx, "transports=sim"));
	CHECK(!ctx, "a context in spite of the error");
	setenv("RIPC_NONSENSE", "1", 1);
	EXPECT_ERROR(-EINVAL, ripc_open(&ctx, NULL));
	CHECK(strstr(ripc_error_detail(), "RIPC_NONSENSE"), "variable is not named in: %s",
	      ripc_error_detail());
	unsetenv("RIPC_NONSENSE");
	setenv("RIPC_WAIT", "often", 1);
	EXPECT_ERROR(-EINVAL, ripc_open(&ctx, NULL));
	CHECK(strstr(ripc_error_detail(), "RIPC_WAIT"), "variable is not named in: %s",
	      ripc_error_detail());
	unsetenv("RIPC_WAIT");
}

/* The call fails, and the sentence has this word of the cause. */
#define EXPECT_CAUSE(want, word, call)                                                        \
	do {                                                                                  \
		EXPECT_RC(want, call);                                                        \
		CHECK(strstr(ripc_error_detail(), word), "%s: no \"%s\" in: %s", #call, word, \
		      ripc_error_detail());                                                   \
	} while (0)

/* Two faults with the same error number have a sentence each. */
static void causes_are_named(struct conf *c)
{
	static char memory[100], large[60000];
	struct iovec item = {memory, 1}, none = {NULL, 5}, huge = {memory, (size_t)1 << 47},
		     wraps = {(void *)(UINTPTR_MAX - 1), 10}, long_item = {large, sizeof(large)};
	struct ripc_send_options send = {.size = sizeof(send), .nreturn_buffers = 1};
	struct ripc_call_options call = {.size = sizeof(call), .nreply_buffers = 1};
	struct ripc_send_options reliable = {.size = sizeof(reliable), .flags = RIPC_RELIABLE};
	struct ripc_request *r;
	struct ripc_message *m;
	struct ripc *ctx;
	struct conf_pair p;
	int rc;

	conf_pair(c, &p);
	EXPECT_CAUSE(-EINVAL, "array of items", ripc_send(p.sa, p.idb, NULL, 1, NULL, 0));
	EXPECT_CAUSE(-EINVAL, "1 to 64", ripc_send(p.sa, p.idb, NULL, 0, NULL, 0));
	EXPECT_CAUSE(-EINVAL, "no memory", ripc_send(p.sa, p.idb, &none, 1, NULL, 0));
	EXPECT_CAUSE(-EINVAL, "2^47", ripc_send(p.sa, p.idb, &huge, 1, NULL, 0));
	EXPECT_CAUSE(-EINVAL, "address space", ripc_send(p.sa, p.idb, &wraps, 1, NULL, 0));
	EXPECT_CAUSE(-EINVAL, "no array", ripc_send(p.sa, p.idb, &item, 1, &send, 0));
	EXPECT_CAUSE(-EINVAL, "no array", ripc_call_start(p.sa, p.idb, &item, 1, &call, 0, &r));
	send.nreturn_buffers = call.nreply_buffers = 17;
	EXPECT_CAUSE(-EINVAL, "at most 16", ripc_send(p.sa, p.idb, &item, 1, &send, 0));
	EXPECT_CAUSE(-EINVAL, "at most 16", ripc_call_start(p.sa, p.idb, &item, 1, &call, 0, &r));
	EXPECT_OK(ripc_buf_register(p.a, memory, sizeof(memory)));
	EXPECT_CAUSE(-EINVAL, "at least 1", ripc_window_add(p.a, NULL, memory, 0));
	EXPECT_CAUSE(-EINVAL, "registered", ripc_window_add(p.a, NULL, memory, 101));
	EXPECT_CAUSE(-EINVAL, "1 to 2^47", ripc_buf_register(p.a, memory, 0));
	CHECK(!ripc_message_detach(NULL, 0) && strstr(ripc_error_detail(), "no message"), "%s",
	      ripc_error_detail());
	/* The limit of a lane, where it is below that of reliable messages. */
	rc = ripc_send_short(p.sa, p.idb, &long_item, 1, &reliable, c->patience_ms);
	if (!rc) {
		EXPECT_OK(ripc_receive(p.sb, &m, c->patience_ms));
		ripc_message_free(m);
	} else {
		EXPECT_CAUSE(-EMSGSIZE, "with its header", rc);
	}
	EXPECT_OK(ripc_send_short(p.sa, p.idb, &item, 1, &reliable, c->patience_ms));
	EXPECT_OK(ripc_receive(p.sb, &m, c->patience_ms));
	CHECK(!ripc_message_detach(m, 1) && strstr(ripc_error_detail(), "that has 1"), "%s",
	      ripc_error_detail());
	ripc_message_free(m);
	EXPECT_OK(ripc_call_start(p.sa, p.idb, &item, 1, NULL, c->patience_ms, &r));
	EXPECT_OK(ripc_receive(p.sb, &m, c->patience_ms));
	EXPECT_CAUSE(-EINVAL, "4096 is no", ripc_reply_error(m, 4096));
	CHECK(*ripc_error_detail() == '4', "%s", ripc_error_detail());
	EXPECT_CAUSE(-EINVAL, "-4096 is no", ripc_reply_error(m, -4096));
	EXPECT_CAUSE(-EINVAL, "0 is no", ripc_reply_error(m, 0));
	ripc_message_free(m);
	EXPECT_RC(-ECANCELED, ripc_call_wait(&r, &m, c->patience_ms));
	ripc_message_free(m);
	EXPECT_CAUSE(-EINVAL, "auto,shm,pcie,ib,iwarp/verbs,iwarp/soft,self",
		     ripc_open(&ctx, "transports=tcp"));
	CHECK(!strstr(ripc_error_detail(), "sim"), "%s", ripc_error_detail());
	EXPECT_CAUSE(-EINVAL, "not a regular file", ripc_open(&ctx, "resolver=file:/tmp"));
}

/* A program built with another version of ripc.h passes a smaller or a larger struct. */
static void struct_sizes(struct conf *c)
{
	struct {
		struct ripc_limits limits;
		uint64_t later[2];
	} larger = {.limits.size = sizeof(larger), .later = {1, 2}};
	struct {
		struct ripc_send_options options;
		uint64_t later[2];
	} options = {.options.size = sizeof(options)};
	struct {
		struct ripc_call_options options;
		uint64_t later[2];
	} call = {.options.size = sizeof(call)};
	struct ripc_call_options small_call = {.size = sizeof(small_call) - 1};
	struct ripc_request *request;
	struct ripc_limits limits = {.size = offsetof(struct ripc_limits, long_max), .long_max = 7};
	struct ripc_stats stats = {.size = offsetof(struct ripc_stats, short_received),
				   .short_received = 7};
	struct ripc_route route = {.size = offsetof(struct ripc_route, instance), .connected = 7};
	struct ripc_send_options small = {.size = sizeof(small) - 1};
	struct iovec item = {"x", 1};
	struct conf_pair p;

	conf_pair(c, &p);
	EXPECT_OK(ripc_route_limits(p.a, 0, &limits));
	EXPECT_EQ(RIPC_SHORT_GUARANTEED, limits.short_max);
	EXPECT_EQ(7, limits.long_max);
	EXPECT_OK(ripc_route_limits(p.a, 0, &larger.limits));
	EXPECT_EQ(RIPC_ITEMS_MAX, larger.limits.items_max);
	EXPECT_EQ(0, larger.later[0] + larger.later[1]);
	EXPECT_EQ(sizeof(larger), larger.limits.size);
	EXPECT_OK(ripc_context_stats(p.a, &stats));
	EXPECT_EQ(7, stats.short_received);
	EXPECT_OK(ripc_service_stats(p.sa, &stats));
	EXPECT_EQ(7, stats.short_received);
	EXPECT_OK(ripc_route_lookup(p.a, p.idb, &route, c->patience_ms));
	EXPECT_EQ(p.idb, route.service);
	EXPECT_EQ(7, route.connected);
	stats.size = limits.size = route.size = 0;
	EXPECT_RC(-EINVAL, ripc_route_limits(p.a, 0, &limits));
	EXPECT_RC(-EINVAL, ripc_context_stats(p.a, &stats));
	EXPECT_RC(-EINVAL, ripc_service_stats(p.sa, &stats));
	EXPECT_RC(-EINVAL, ripc_peer_stats(p.a, p.idb, &stats));
	EXPECT_RC(-EINVAL, ripc_route_get(p.a, p.idb, &route));
	EXPECT_RC(-EINVAL, ripc_route_lookup(p.a, p.idb, &route, 0));
	EXPECT_RC(-EINVAL, ripc_send_short(p.sa, p.idb, &item, 1, &small, c->patience_ms));
	EXPECT_OK(ripc_send_short(p.sa, p.idb, &item, 1, &options.options, c->patience_ms));
	options.later[1] = 1;
	EXPECT_RC(-EOPNOTSUPP,
		  ripc_send_short(p.sa, p.idb, &item, 1, &options.options, c->patience_ms));
	EXPECT_ERROR(-EINVAL, ripc_call_start(p.sa, p.idb, &item, 1, &small_call, -1, &request));
	EXPECT_OK(ripc_call_start(p.sa, p.idb, &item, 1, &call.options, -1, &request));
	ripc_request_cancel(&request, c->patience_ms);
	call.later[1] = 1;
	EXPECT_ERROR(-EOPNOTSUPP,
		     ripc_call_start(p.sa, p.idb, &item, 1, &call.options, -1, &request));
}

static void limits_and_query(struct conf *c)
{
	struct ripc_limits all = {.size = sizeof(all)}, one = {.size = sizeof(one)};
	struct ripc_route route = {.size = sizeof(route)};
	struct ripc_stats stats = {.size = sizeof(stats)};
	const char *name;
	char text[300];
	struct conf_pair p;
	unsigned n = 0, open = 0;
	int rc;

	conf_pair(c, &p);
	EXPECT_OK(ripc_route_limits(p.a, 0, &all));
	CHECK(all.short_max >= RIPC_SHORT_GUARANTEED, "%llu", (unsigned long long)all.short_max);
	EXPECT_RC(-ENOENT, ripc_route_get(p.a, conf_id(c), &route));
	EXPECT_RC(-ENOENT, ripc_route_limits(p.a, conf_id(c), &one));
	EXPECT_RC(-ENOENT, ripc_peer_stats(p.a, conf_id(c), &stats));
	EXPECT_OK(ripc_route_lookup(p.a, p.idb, &route, c->patience_ms));
	EXPECT_EQ(1, route.connected);
	EXPECT_OK(ripc_route_limits(p.a, p.idb, &one));
	EXPECT_EQ(route.short_max, one.short_max);
	CHECK(one.short_max >= all.short_max, "%llu", (unsigned long long)one.short_max);
	EXPECT_OK(ripc_peer_stats(p.a, p.idb, &stats));
	while ((rc = ripc_transport_info(p.a, n, &name, text, sizeof(text))) >= 0) {
		CHECK(name && name[0] && text[0], "transport %u has no name or text", n);
		open += rc == 1;
		n++;
	}
	EXPECT_RC(-ENOENT, rc);
	CHECK(open >= 1, "none of %u transports is open", n);
	CHECK(ripc_transport_info(p.a, 0, &name, text, 4) >= 0, "short text");
	EXPECT_EQ(3, strlen(text));
	n = open = 0;
	while ((rc = ripc_resolver_info(p.a, n, &name, text, sizeof(text))) >= 0) {
		CHECK(name && name[0] && text[0], "back end %u has no name or text", n);
		open += rc == 1 && strcmp(name, "cache") && strcmp(name, "keys");
		n++;
	}
	EXPECT_RC(-ENOENT, rc);
	CHECK(open >= 1, "none of %u back ends works", n);
	EXPECT_RC(-EINVAL, ripc_resolver_info(p.a, 0, NULL, text, 4));
	CHECK(ripc_resolver_info(p.a, 0, &name, text, 4) >= 0, "short text");
	EXPECT_EQ(3, strlen(text));
}

static void stats_add_up(struct conf *c)
{
	struct ripc_stats a = {.size = sizeof(a)}, b = {.size = sizeof(b)}, s = {.size = sizeof(s)};
	struct conf_pair p;
	uint64_t bytes = 0;

	conf_pair(c, &p);
	for (unsigned i = 0; i < 30; i++) {
		struct conf_plan plan;
		size_t len = 1 + (size_t)conf_random(c, 500);

		plan = conf_plan_one(len, i);
		if (i < 20)
			EXPECT_OK(conf_send_short(c, p.sa, p.idb, len, i, c->patience_ms));
		else
			EXPECT_OK(conf_send_long(c, p.sa, p.idb, len, i, c->patience_ms));
		conf_expect(c, p.sb, &plan, p.ida, i >= 20);
		bytes += len;
	}
	AWAIT_STAT(c, p.a, long_sent, 10);
	EXPECT_OK(ripc_context_stats(p.a, &a));
	EXPECT_OK(ripc_context_stats(p.b, &b));
	EXPECT_EQ(20, a.short_sent);
	EXPECT_EQ(bytes, a.bytes_sent);
	EXPECT_EQ(20, b.short_received);
	EXPECT_EQ(10, b.long_received);
	EXPECT_EQ(bytes, b.bytes_received);
	EXPECT_EQ(0, b.queued);
	EXPECT_EQ(0, a.bad_messages + b.bad_messages + a.bad_peers + b.bad_peers);
	EXPECT_EQ(0, b.datagrams_lost + b.duplicates + b.dropped_no_service + b.dropped_queue_full +
			     b.dropped_unread);
	EXPECT_EQ(10, b.pool_items + b.window_items + a.return_buffer_writes);
	EXPECT_OK(ripc_service_stats(p.sb, &s));
	EXPECT_EQ(20, s.short_received);
	EXPECT_EQ(10, s.long_received);
	EXPECT_EQ(bytes, s.bytes_received);
	EXPECT_OK(ripc_service_stats(p.sa, &s));
	EXPECT_EQ(20, s.short_sent);
	EXPECT_EQ(10, s.long_sent);
	EXPECT_OK(ripc_peer_stats(p.a, p.idb, &s));
	EXPECT_EQ(20, s.short_sent);
	EXPECT_EQ(10, s.long_sent);
}

/* One of the services of stats_at_any_time(). */
struct counted {
	struct ripc *ctx;
	struct ripc_service *s;
	uint64_t id;
	struct ripc_stats want;
};

static void same_counts(const struct ripc_stats *want, const struct ripc_stats *is)
{
	EXPECT_EQ(want->short_sent, is->short_sent);
	EXPECT_EQ(want->short_received, is->short_received);
	EXPECT_EQ(want->bytes_sent, is->bytes_sent);
	EXPECT_EQ(want->bytes_received, is->bytes_received);
}

static void add_counts(struct ripc_stats *sum, const struct ripc_stats *more)
{
	sum->short_sent += more->short_sent;
	sum->short_received += more->short_received;
	sum->bytes_sent += more->bytes_sent;
	sum->bytes_received += more->bytes_received;
}

/*
 * Counters are right at any time, whichever services have sent before and whatever other calls ran
 * meanwhile.
 */
static void stats_at_any_time(struct conf *c)
{
	struct conf_pair p;
	struct counted of[4];

	conf_pair(c, &p);
	of[0] = (struct counted){.ctx = p.a, .s = p.sa, .id = p.ida};
	of[1] = (struct counted){.ctx = p.b, .s = p.sb, .id = p.idb};
	for (unsigned i = 2; i < 4; i++) {
		of[i] = (struct counted){.ctx = of[i - 2].ctx, .id = conf_id(c)};
		of[i].s = conf_register(c, of[i].ctx, of[i].id);
	}
	for (unsigned i = 0; i < 120; i++) {
		struct counted *from = &of[conf_random(c, 4)], *to;
		unsigned run = 1 + (unsigned)conf_random(c, 40);
		size_t len = (size_t)conf_random(c, conf_random(c, 2) ? 100 : 1500);
		struct ripc_stats is = {.size = sizeof(is)}, want = {.size = sizeof(want)};
		struct conf_plan plan;

		to = &of[2 * conf_random(c, 2) + (unsigned)(from - of + 1) % 2];
		for (unsigned k = 0; k < run; k++) {
			plan = conf_plan_one(len, i);
			EXPECT_OK(conf_send_short(c, from->s, to->id, len, i, c->patience_ms));
			conf_expect(c, to->s, &plan, from->id, false);
			from->want.short_sent++;
			to->want.short_received++;
			from->want.bytes_sent += len;
			to->want.bytes_received += len;
			if (conf_random(c, 8) == 0) {
				struct ripc_service *one = conf_random(c, 2) ? from->s : to->s;

				EXPECT_OK(ripc_service_stats(one, &is));
				same_counts(one == from->s ? &from->want : &to->want, &is);
			}
		}
		if (conf_random(c, 3) == 0)
			EXPECT_OK(ripc_service_unregister(conf_register(c, from->ctx, conf_id(c))));
		if (conf_random(c, 2)) {
			EXPECT_OK(ripc_service_stats(from->s, &is));
			same_counts(&from->want, &is);
			EXPECT_OK(ripc_service_stats(to->s, &is));
			same_counts(&to->want, &is);
		} else {
			for (unsigned k = 0; k < 4; k++)
				if (of[k].ctx == from->ctx)
					add_counts(&want, &of[k].want);
			EXPECT_OK(ripc_context_stats(from->ctx, &is));
			same_counts(&want, &is);
			EXPECT_OK(ripc_peer_stats(from->ctx, to->id, &is));
			same_counts(&want, &is);
		}
	}
}

static unsigned log_lines;

static void count_line(void *arg, enum ripc_log_level level, const char *line)
{
	log_lines += arg == &log_lines && line[0] && !strchr(line, '\n');
}

static void texts(struct conf *c)
{
	struct conf_pair p;

	CHECK(!strcmp(ripc_version(), "0.1.0"), "%s", ripc_version());
	CHECK(!strcmp(ripc_strerror(-EINVAL), ripc_strerror(EINVAL)), "sign matters");
	CHECK(ripc_strerror(0)[0] && ripc_strerror(-99999)[0], "no text");
	ripc_log_set(count_line, &log_lines, RIPC_LOG_DEBUG);
	conf_pair(c, &p);
	conf_exchange(c, &p);
	conf_close_all(c);
	ripc_log_set(NULL, NULL, RIPC_LOG_ERROR);
	CHECK(log_lines > 0, "nothing was logged");
}

/* A service of a peer that is there, but not this one. */
static void no_such_service(struct conf *c)
{
	struct conf_pair p;

	conf_pair(c, &p);
	conf_exchange(c, &p);
	EXPECT_ERROR(-EHOSTUNREACH, conf_send_long(c, p.sa, conf_id(c), 10, 1, CONF_NO_ANSWER_MS));
	conf_exchange(c, &p);
}

static void find_named(void *arg, const struct ripc_service_info *info)
{
	uint64_t *found = arg;

	CHECK(info->size == sizeof(*info), "size");
	if (info->service == ripc_id("conformance/names") &&
	    !strcmp(info->name, "conformance/names"))
		++*found;
}

/* A service with a name is found by the id of the name, and both sides know the name. */
static void names(struct conf *c)
{
	struct ripc *ctx = conf_open(c), *other = conf_open(c);
	struct ripc_route route = {.size = sizeof(route)};
	struct ripc_service *s, *none = NULL;
	uint64_t found = 0;
	char name[40];
	int rc;

	EXPECT_ERROR(-EINVAL, ripc_register_name(ctx, "", 0, &none));
	EXPECT_ERROR(-EINVAL, ripc_register_name(ctx, NULL, 0, &none));
	EXPECT_ERROR(-EINVAL, ripc_register_name(ctx, "\xff", 0, &none));
	EXPECT_ERROR(-EOPNOTSUPP, ripc_register_name(ctx, "a", 1 << 7, &none));
	/* On a real host others test as well. */
	snprintf(name, sizeof(name), c->net ? "conformance/names" : "conformance/%llx",
		 (unsigned long long)conf_id(c));
	EXPECT_OK(ripc_register_name(ctx, name, 0, &s));
	EXPECT_EQ(ripc_id(name), ripc_service_id(s));
	EXPECT_ERROR(-EADDRINUSE, ripc_register_name(ctx, name, 0, &none));
	EXPECT_OK(ripc_route_lookup(other, ripc_id(name), &route, c->patience_ms));
	CHECK(!strcmp(route.name, name), "name %s instead of %s", route.name, name);
	EXPECT_ERROR(-EINVAL, ripc_service_list(other, NULL, NULL, 10));
	EXPECT_ERROR(-EINVAL, ripc_service_list(other, find_named, &found, 0));
	for (unsigned i = 0; c->net && i < 20 && !found; i++) {
		rc = ripc_service_list(other, find_named, &found, 1000);
		CHECK(rc >= 0, "list: %s", ripc_error_detail());
	}
	CHECK(!c->net || found == 1, "found %u times", (unsigned)found);
}

const struct conf_case conf_api[] = {
	{"register_ids", register_ids, 0},
	{"names", names, 0},
	{"holder_is_named", holder_is_named, CONF_TWO_CONTEXTS},
	{"bad_sends", bad_sends, 0},
	{"bad_options", bad_options, CONF_REAL},
	{"limits_and_query", limits_and_query, 0},
	{"causes_are_named", causes_are_named, CONF_RELIABLE},
	{"struct_sizes", struct_sizes, 0},
	{"stats_add_up", stats_add_up, CONF_RELIABLE},
	{"stats_at_any_time", stats_at_any_time, CONF_REAL | CONF_RELIABLE | CONF_TWO_CONTEXTS},
	{"texts", texts, 0},
	{"no_such_service", no_such_service, 0},
	{0},
};
