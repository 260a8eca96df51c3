/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The server: echoes or counts the messages of its client, one client at a time, until it is
 * stopped.
 */
#include "perf_server.h"
#include "perf_clock.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define IDLE_MS 500 /* a signal does not end a wait: look for it now and then */
#define IDLE_CLIENT_MS \
	3000 /* a client that sends nothing for so long has to make room for another */

/*
 * Sends the item back by the same path, or as the test demands, with a return buffer for the next
 * one, which is not the item's own. Return: 0 or a negative errno.
 */
static int echo(struct perf_server *s, const struct ripc_message *m)
{
	struct iovec back = {.iov_len = s->test.size};
	struct ripc_send_options options = {
		.size = sizeof(options), .nreturn_buffers = 1, .return_buffers = &back};
	const struct ripc_send_options *with = NULL;
	int rc;

	if (m->placement[0] == RIPC_IN_RETURN_BUFFER)
		s->announced = false;
	if (s->back[0] && !s->announced) {
		back.iov_base = s->back[m->items[0].iov_base == s->back[0]];
		with = &options;
	}
	switch (s->test.kind) {
	case PERF_SHORT:
		rc = ripc_send_short(s->service, m->source, m->items, 1, NULL, PERF_STALL_MS);
		break;
	case PERF_LONG:
		rc = ripc_send_long(s->service, m->source, m->items, 1, with, PERF_STALL_MS);
		break;
	default:
		rc = ripc_send(s->service, m->source, m->items, 1, with, PERF_STALL_MS);
		break;
	}
	s->announced |= !rc && with && s->test.kind != PERF_SHORT;
	return rc;
}

static void end_test(struct perf_server *s)
{
	for (unsigned i = 0; i < 2; i++) {
		ripc_buf_free(s->ctx, s->back[i]);
		s->back[i] = NULL;
	}
	s->announced = false;
	memset(&s->test, 0, sizeof(s->test));
}

static void drop_client(struct perf_server *s)
{
	end_test(s);
	perf_base_close(s);
	free(s->stamps);
	s->stamps = NULL;
	s->stamps_count = 0;
	s->client = 0;
}

static void answer_ping(struct perf_server *s, const struct ripc_message *m)
{
	if (m->nitems == 1 && m->items[0].iov_len >= TOOL_PING_MAGIC_LEN &&
	    !memcmp(m->items[0].iov_base, TOOL_PING_MAGIC, TOOL_PING_MAGIC_LEN) &&
	    ripc_send(s->service, m->source, m->items, 1, NULL, 1000))
		tool_error("ping of service %llu: not answered: %s", (unsigned long long)m->source,
			   ripc_error_detail());
}

/* Numbers beyond the test are not ours; a message that comes twice counts when it came first. */
static void stamp(struct perf_server *s, const struct ripc_message *m)
{
	uint64_t number;

	if (m->items[0].iov_len < sizeof(number))
		return;
	memcpy(&number, m->items[0].iov_base, sizeof(number));
	number = le64toh(number);
	if (number < s->stamps_count && !s->stamps[number])
		s->stamps[number] = htole64(tool_now_ns());
}

static void send_stamps(struct perf_server *s)
{
	size_t len = s->stamps_count * sizeof(*s->stamps);
	struct iovec item = {.iov_base = s->stamps, .iov_len = len};
	int rc = ripc_send_long(s->service, s->client, &item, 1, NULL, PERF_STALL_MS);

	if (rc)
		tool_fail(rc, "times of arrival to service %llu", (unsigned long long)s->client);
}

static void count_messages(struct perf_server *s, const struct ripc_message *m)
{
	int rc;

	if (!s->test.test || m->source != s->client || m->nitems != 1) {
		answer_ping(s, m);
		return;
	}
	s->activity++;
	if (s->test.test == PERF_PACED)
		stamp(s, m);
	if (s->test.verify && (m->items[0].iov_len != s->test.size ||
			       !perf_check(m->items[0].iov_base, m->items[0].iov_len, s->received)))
		s->damaged++;
	s->received++;
	if (s->test.test != PERF_LATENCY)
		return;
	rc = echo(s, m);
	if (rc) {
		tool_fail(rc, "echo to service %llu", (unsigned long long)m->source);
		drop_client(s);
	}
}

/* After the end was announced: what is still under way, on networks that do not keep the order. */
static void drain_late(struct perf_server *s)
{
	while (s->received < s->test.count && !tool_stopped) {
		uint64_t begin_ns = tool_now_ns();
		struct ripc_message *m;
		int rc = ripc_receive(s->service, &m, PERF_DRAIN_MS);

		if (rc) {
			s->waited_ns += tool_now_ns() - begin_ns;
			return;
		}
		if (m->nitems == 1 && m->source == s->client)
			count_messages(s, m);
		ripc_message_free(m);
	}
}

/*
 * How long a client may send nothing: a large message is no sign of life before it is there in
 * full.
 */
static uint64_t timeout_ns(const struct perf_server *s)
{
	return IDLE_CLIENT_MS * UINT64_C(1000000) + s->test.size * 10;
}

/* Whether @client may use the server now; then it is the server's client. */
static bool accept_client(struct perf_server *s, uint64_t client, struct perf_control *reply)
{
	uint64_t now_ns = tool_now_ns();

	if (s->client == client)
		return true;
	if (s->client && s->idle_activity != s->activity) {
		s->idle_activity = s->activity;
		s->idle_since_ns = now_ns;
	}
	if (s->client && now_ns - s->idle_since_ns < timeout_ns(s)) {
		reply->type = PERF_BUSY;
		snprintf(reply->text, sizeof(reply->text), "it serves the client with service %llu",
			 (unsigned long long)s->client);
		return false;
	}
	drop_client(s);
	s->client = client;
	s->idle_activity = s->activity;
	s->idle_since_ns = now_ns;
	return true;
}

static bool is_valid_test(const struct perf_control *r)
{
	return r->test >= PERF_LATENCY && r->test <= PERF_PACED && r->kind <= PERF_AUTO &&
	       r->size <= PERF_SIZE_LIMIT && r->count &&
	       r->count <= (r->test == PERF_PACED ? PERF_PACED_MAX : UINT64_C(1) << 40);
}

/* Room for the moments of arrival, touched now rather than on the way. */
static bool begin_stamps(struct perf_server *s, uint64_t count, struct perf_control *reply)
{
	free(s->stamps);
	s->stamps_count = 0;
	s->stamps = malloc(count * sizeof(*s->stamps));
	if (!s->stamps) {
		reply->type = PERF_REFUSAL;
		snprintf(reply->text, sizeof(reply->text), "out of memory");
		return false;
	}
	memset(s->stamps, 0, count * sizeof(*s->stamps));
	s->stamps_count = count;
	perf_clock_name(reply->text, sizeof(reply->text));
	return true;
}

static bool begin_returns(struct perf_server *s, uint64_t size, struct perf_control *reply)
{
	for (unsigned i = 0; i < 2; i++) {
		s->back[i] = ripc_buf_alloc(s->ctx, size);
		if (s->back[i])
			continue;
		end_test(s);
		reply->type = PERF_REFUSAL;
		snprintf(reply->text, sizeof(reply->text), "out of memory");
		return false;
	}
	return true;
}

static void begin_test(struct perf_server *s, const struct perf_control *request,
		       struct perf_control *reply)
{
	bool base = request->type == PERF_BASE_START;
	/* A stream has no empty messages, and its bytes are counted in 64 bits. */
	bool stream = base && s->base.protocol == PERF_TCP;

	if (!is_valid_test(request) || (base && s->base.fd < 0 && s->listener < 0) ||
	    (stream && (!request->size || request->count > UINT64_MAX / request->size))) {
		reply->type = PERF_REFUSAL;
		snprintf(reply->text, sizeof(reply->text), "no such test");
		return;
	}
	if (request->test == PERF_PACED && !begin_stamps(s, request->count, reply))
		return;
	end_test(s);
	if (request->test == PERF_LATENCY && request->returns && request->size && !base &&
	    !begin_returns(s, request->size, reply))
		return;
	s->test = *request;
	s->received = s->damaged = s->waited_ns = s->cpu_ns = 0;
	s->cpu_s = tool_cpu_s();
}

static void finish_test(struct perf_server *s, struct perf_control *reply)
{
	bool base = s->test.type == PERF_BASE_START;

	if (s->test.test && s->test.test != PERF_LATENCY && !base)
		drain_late(s);
	reply->received = s->received;
	reply->damaged = s->damaged;
	reply->waited_ns = s->waited_ns;
	reply->cpu_ns = base ? s->cpu_ns : (uint64_t)((tool_cpu_s() - s->cpu_s) * 1e9);
	end_test(s);
}

static void handle_control(struct perf_server *s, const struct perf_control *request,
			   struct perf_control *reply)
{
	switch (request->type) {
	case PERF_HELLO:
		end_test(s);
		break;
	case PERF_START:
	case PERF_BASE_START:
		begin_test(s, request, reply);
		break;
	case PERF_END:
		finish_test(s, reply);
		break;
	case PERF_STAMPS:
		if (!s->stamps) {
			reply->type = PERF_REFUSAL;
			snprintf(reply->text, sizeof(reply->text), "no paced test was made");
		}
		break;
	case PERF_BASE_OPEN:
		perf_base_open(s, request, reply);
		break;
	case PERF_BASE_CLOSE:
		perf_base_close(s);
		break;
	case PERF_BYE:
		drop_client(s);
		break;
	case PERF_QUIT:
		s->quit = true;
		break;
	default:
		reply->type = PERF_REFUSAL;
		snprintf(reply->text, sizeof(reply->text),
			 "request %llu is not known to this version",
			 (unsigned long long)request->type);
		break;
	}
}

static void take_control(struct perf_server *s, uint64_t client, const struct perf_control *request)
{
	struct perf_control reply = {.type = PERF_REPLY, .token = request->token};
	bool fresh = client != s->last_client || request->token != s->last_token;
	int rc;

	if (request->type >= PERF_REPLY)
		return;
	if (client == s->client)
		s->activity++;
	if (!fresh) {
		reply = s->last_reply;
	} else if (accept_client(s, client, &reply)) {
		handle_control(s, request, &reply);
		s->last_client = client;
		s->last_token = request->token;
		s->last_reply = reply;
	}
	/* Its further requests may be in the queue, and other clients wait behind them. */
	rc = perf_control_send(s->service, client, &reply, client == s->gone ? 0 : PERF_CONTROL_MS);
	if (rc) {
		if (client != s->gone)
			tool_fail(rc, "reply to service %llu", (unsigned long long)client);
		s->gone = client;
		if (client == s->client)
			drop_client(s);
		return;
	}
	if (client == s->gone)
		s->gone = 0;
	/* Only now does the client begin. */
	if (fresh && reply.type == PERF_REPLY && request->type == PERF_BASE_START)
		perf_base_run(s);
	if (fresh && reply.type == PERF_REPLY && request->type == PERF_STAMPS)
		send_stamps(s);
}

static int serve(struct perf_server *s)
{
	while (!tool_stopped && !s->quit) {
		struct perf_control request;
		struct ripc_message *m;
		int rc = ripc_receive(s->service, &m, IDLE_MS);

		if (rc == -ETIMEDOUT)
			continue;
		if (rc) {
			tool_fail(rc, "receive");
			return TOOL_ERROR;
		}
		if (m->nitems == 1) {
			count_messages(s, m);
			ripc_message_free(m);
			continue;
		}
		if (perf_control_read(m, &request)) {
			uint64_t client = m->source;

			/* First: a round may take long, and holds no more than it needs. */
			ripc_message_free(m);
			take_control(s, client, &request);
			continue;
		}
		ripc_message_free(m);
	}
	return TOOL_OK;
}

int perf_serve(struct ripc *ctx, const struct perf_args *args)
{
	struct perf_server s = {.args = args, .ctx = ctx, .listener = -1, .base = {.fd = -1}};
	int rc = tool_register(ctx, args->service, args->service_name, &s.service);

	if (rc) {
		tool_fail(rc, "%s", tool_service_text(args->service, args->service_name));
		return TOOL_ERROR;
	}
	printf("ripc-perf: serving at %s\n",
	       tool_service_text(ripc_service_id(s.service), args->service_name));
	fflush(stdout);
	rc = serve(&s);
	end_test(&s);
	perf_base_close(&s);
	free(s.stamps);
	return rc;
}
