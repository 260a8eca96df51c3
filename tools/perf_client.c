/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The client: finds the server, and measures each size in rounds, ours and the baseline in turn. */
#include "perf_client.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define REPEAT_MS 1000 /* a request that is not answered is sent again after this */

/*
 * Takes one reply to @token, dropping whatever else comes but for moments of arrival. Return: 0,
 * -ETIMEDOUT, or a negative errno.
 */
static int await_reply(struct perf_client *c, uint64_t token, struct perf_control *reply,
		       uint64_t until_ns)
{
	for (;;) {
		uint64_t now_ns = tool_now_ns();
		struct ripc_message *m;
		bool good;
		int rc;

		if (now_ns >= until_ns)
			return -ETIMEDOUT;
		rc = ripc_receive(c->service, &m, (int)((until_ns - now_ns + 999999) / 1000000));
		if (rc)
			return rc;
		perf_take_stamps(c, m);
		good = m->source == c->args->service && perf_control_read(m, reply) &&
		       reply->token == token && reply->type >= PERF_REPLY;
		ripc_message_free(m);
		if (good)
			return 0;
	}
}

static void fail(const struct perf_client *c, int rc, bool reached)
{
	/* server 42, or with a name server 4950... ("camera/left") */
	const char *server =
		tool_service_text(c->args->service, c->args->service_name) + strlen("service");

	if (reached && rc == -ETIMEDOUT)
		tool_error("server%s is there but has not answered in %llu ms: is it ripc-perf?",
			   server, (unsigned long long)c->args->timeout_ms);
	else
		tool_fail(rc, "server%s", server);
}

int perf_ask(struct perf_client *c, struct perf_control *request, struct perf_control *reply)
{
	uint64_t deadline_ns = tool_now_ns() + c->args->timeout_ms * 1000000, now_ns;
	bool sent;
	int rc;

	request->token = ++c->token;
	do {
		uint64_t until_ns;

		rc = perf_control_send(c->service, c->args->service, request, PERF_CONTROL_MS);
		sent = !rc;
		now_ns = tool_now_ns();
		until_ns = now_ns + REPEAT_MS * UINT64_C(1000000);
		if (!rc)
			rc = await_reply(c, request->token, reply,
					 until_ns < deadline_ns ? until_ns : deadline_ns);
		now_ns = tool_now_ns();
	} while ((rc == -ETIMEDOUT || rc == -EAGAIN) && now_ns < deadline_ns && !tool_stopped);
	if (tool_stopped)
		return -EINTR;
	if (rc) {
		fail(c, rc, sent);
		return rc;
	}
	if (reply->type == PERF_BUSY)
		return -EBUSY;
	if (reply->type == PERF_REFUSAL) {
		tool_error("the server refuses: %s", reply->text);
		return -EOPNOTSUPP;
	}
	return 0;
}

/* Waits for the server to be there, and to be free. Return: 0 or a negative errno, explained. */
static int find_server(struct perf_client *c)
{
	uint64_t deadline_ns = tool_now_ns() + c->args->timeout_ms * 1000000;
	struct perf_control request = {.type = PERF_HELLO}, reply;
	int rc;

	c->route.size = sizeof(c->route);
	rc = tool_route_lookup(c->ctx, c->args->service, &c->route, c->args->timeout_ms);
	if (rc) {
		fail(c, rc, false);
		return rc;
	}
	while ((rc = perf_ask(c, &request, &reply)) == -EBUSY && tool_now_ns() < deadline_ns &&
	       !tool_stopped)
		usleep(100000);
	if (rc == -EBUSY)
		tool_error("the server is busy: %s", reply.text);
	return rc;
}

/* So many that a measurement takes about a second on a machine of today. */
static uint64_t default_count(enum perf_test test, enum perf_kind kind, uint64_t size)
{
	uint64_t small, bytes, count, least;

	switch (test) {
	case PERF_PACED:
		small = 100000;
		bytes = UINT64_C(1) << 30;
		least = 20;
		break;
	case PERF_LATENCY:
		small = 50000;
		bytes = UINT64_C(2) << 30;
		least = 20;
		break;
	case PERF_RATE:
		small = kind == PERF_LONG ? 50000 : 2000000;
		bytes = UINT64_C(4) << 30;
		least = 20;
		break;
	default:
		small = 200000;
		bytes = UINT64_C(8) << 30;
		least = 40;
		break;
	}
	count = size ? bytes / size : small;
	if (count > small)
		return small;
	return count < least ? least : count;
}

static enum perf_kind real_kind(const struct perf_client *c, uint64_t size)
{
	if (c->args->kind != PERF_AUTO)
		return c->args->kind;
	return size <= c->route.short_max ? PERF_SHORT : PERF_LONG;
}

static int our_round(struct perf_client *c, struct perf_round *round, struct perf_figures *figures)
{
	enum perf_kind kind = round->kind;
	int rc;

	/* The latency test leaves the choice to the library where the user did. */
	if (round->test == PERF_LATENCY && c->args->kind == PERF_AUTO)
		round->kind = PERF_AUTO;
	rc = round->test == PERF_LATENCY ? perf_latency(c, round, figures)
	     : round->test == PERF_PACED ? perf_paced(c, round, figures)
					 : perf_oneway(c, round, figures);
	round->kind = kind;
	return rc;
}

/*
 * The number of warm-up messages before a round. For long ones twice as many as are in flight: then
 * both sides have their memory, and mappable buffers are mapped.
 */
static uint64_t warming_up(const struct perf_client *c, const struct perf_round *round)
{
	uint64_t n = round->count / 10 > 2000 ? 2000 : round->count / 10;
	uint64_t least = round->kind == PERF_LONG ? 2 * (uint64_t)c->args->window : 1;

	if (least > round->count)
		least = round->count;
	return n > least ? n : least;
}

/* Unmeasured: connections, caches and processor clocks settle. */
static int run_unmeasured(struct perf_client *c, struct perf_round *round,
			  const struct perf_socket *s)
{
	struct perf_figures scratch = {.rtt = histogram_new()};
	uint64_t count = round->count;
	int rc;

	if (!scratch.rtt) {
		tool_error("out of memory");
		return -ENOMEM;
	}
	round->count = warming_up(c, round);
	c->warming_up = true;
	rc = our_round(c, round, &scratch);
	c->warming_up = false;
	if (!rc && s->fd >= 0)
		rc = perf_baseline_round(c, s, round, &scratch);
	round->count = count;
	histogram_free(scratch.rtt);
	return rc;
}

static int measure_rounds(struct perf_client *c, struct perf_round *round,
			  const struct perf_socket *s, struct perf_result *r)
{
	unsigned rounds = round->test == PERF_PACED ? 1 : c->args->rounds;
	uint64_t total = round->count;
	int rc = run_unmeasured(c, round, s);

	if (rounds > total)
		rounds = (unsigned)total;
	for (unsigned i = 0; !rc && i < rounds; i++) {
		round->count = total / rounds + (i < total % rounds ? 1 : 0);
		rc = our_round(c, round, &r->ours);
		if (!rc && s->fd >= 0)
			rc = perf_baseline_round(c, s, round, &r->baseline);
	}
	return tool_stopped ? -EINTR : rc;
}

void *perf_buffer_new(const struct perf_client *c, uint64_t size)
{
	size_t len = size ? size : 1;
	void *buf = c->args->own_memory ? malloc(len) : ripc_buf_alloc(c->ctx, len);

	/* Pages that were never written are all the same one. */
	if (buf && c->args->own_memory)
		memset(buf, 1, len);
	return buf;
}

void perf_buffer_free(const struct perf_client *c, void *buf)
{
	if (c->args->own_memory)
		free(buf);
	else
		ripc_buf_free(c->ctx, buf);
}

static int measure(struct perf_client *c, uint64_t size, struct perf_result *r)
{
	const struct perf_args *args = c->args;
	struct perf_round round = {.test = args->test, .size = size, .kind = real_kind(c, size)};
	struct perf_socket s = {.fd = -1};
	int rc = 0;

	r->size = size;
	r->kind = round.kind;
	snprintf(r->transport, sizeof(r->transport), "%s", c->route.transport);
	snprintf(r->reason, sizeof(r->reason), "%s", c->route.reason);
	round.count = args->count ? args->count : default_count(args->test, round.kind, size);
	round.buf = perf_buffer_new(c, size);
	if (round.buf && args->returns && args->test == PERF_LATENCY && size)
		c->back = ripc_buf_alloc(c->ctx, size);
	if (!round.buf || (args->returns && args->test == PERF_LATENCY && size && !c->back)) {
		tool_fail(-errno, "buffers of %llu bytes", (unsigned long long)size);
		rc = -ENOMEM;
	}
	c->announced = false;
	if (args->verify && round.buf)
		perf_fill(round.buf, size, 0);
	if (!rc && args->baseline) {
		r->has_baseline = perf_baseline_fits(args, size);
		if (r->has_baseline)
			rc = perf_baseline_open(c, &s);
		else
			tool_error("no baseline: %s has no messages of %llu bytes",
				   perf_protocol_name(args->baseline), (unsigned long long)size);
	}
	if (!rc)
		rc = measure_rounds(c, &round, &s, r);
	/*
	 * After a failure the server may be gone; if not, it closes its side at the next request.
	 */
	if (rc)
		perf_socket_close(&s);
	else
		perf_baseline_close(c, &s);
	ripc_buf_free(c->ctx, c->back);
	c->back = NULL;
	perf_buffer_free(c, round.buf);
	return rc;
}

static int measure_all(struct perf_client *c, struct perf_result *results, unsigned *done)
{
	const struct perf_args *args = c->args;
	bool timed = args->test == PERF_LATENCY || args->test == PERF_PACED;

	if (perf_has_table(args))
		perf_print_head(args);
	for (unsigned i = 0; i < args->nsizes; i++) {
		struct perf_result *r = &results[i];
		int rc;

		r->ours.rtt = timed ? histogram_new() : NULL;
		r->baseline.rtt = timed ? histogram_new() : NULL;
		if (timed && (!r->ours.rtt || !r->baseline.rtt)) {
			tool_error("out of memory");
			return -ENOMEM;
		}
		rc = measure(c, args->sizes[i], r);
		if (rc)
			return rc;
		r->same_clock = c->same_clock;
		(*done)++;
		if (perf_has_table(args))
			perf_print(args, r);
		/* Nobody can see the rest. */
		if (ferror(stdout))
			break;
	}
	return 0;
}

static int finish(struct perf_client *c, bool stop)
{
	struct perf_control request = {.type = stop ? PERF_QUIT : PERF_BYE}, reply;

	return perf_ask(c, &request, &reply);
}

static int run(struct perf_client *c)
{
	struct perf_result results[PERF_SIZES_MAX];
	const struct perf_args *args = c->args;
	unsigned done = 0;
	int rc, code;

	memset(results, 0, sizeof(results));
	rc = find_server(c);
	/*
	 * The server was reached if it is busy or refuses, or if a signal ended the wait for its
	 * answer.
	 */
	if (rc == -EBUSY || rc == -EOPNOTSUPP || rc == -EINTR)
		return TOOL_NO_ANSWER;
	if (rc)
		return tool_exit_of(rc);
	if (args->command == PERF_STOP)
		return finish(c, true) ? TOOL_NO_ANSWER : TOOL_OK;
	rc = measure_all(c, results, &done);
	code = rc ? TOOL_NO_ANSWER : TOOL_OK;
	/* After a failure the server may be gone: then there is nobody to take leave of. */
	if ((!rc || rc == -EMSGSIZE) && finish(c, args->stop))
		code = TOOL_NO_ANSWER;
	if (c->damaged) {
		tool_error("%llu messages arrived with wrong contents",
			   (unsigned long long)c->damaged);
		code = TOOL_NO_ANSWER;
	}
	if ((!rc || done) && args->json && perf_write_json(args, results, done))
		code = TOOL_ERROR;
	if (c->unwritten)
		code = TOOL_ERROR;
	for (unsigned i = 0; i < args->nsizes; i++) {
		histogram_free(results[i].ours.rtt);
		histogram_free(results[i].baseline.rtt);
	}
	return code;
}

int perf_run(struct ripc *ctx, const struct perf_args *args)
{
	struct perf_client c = {.args = args, .ctx = ctx};
	int rc = ripc_service_register(ctx, RIPC_ANY_ID, 0, &c.service);

	if (rc) {
		tool_fail(rc, "register a service to be answered at");
		return TOOL_ERROR;
	}
	return run(&c);
}
