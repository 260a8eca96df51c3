/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * One way at a fixed rate: when each message was due, sent and received. The server keeps the
 * moments of arrival, and hands them over at the end; where both ends read the same clock, their
 * differences are one-way latencies.
 */
#define _GNU_SOURCE
#include "perf_client.h"
#include "perf_clock.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define START_NS   UINT64_C(1000000) /* the first message is due so long after the beginning */
#define STAMPS_MS  10000
#define STAMPS_ASK 3 /* a request or a reply may be lost */

static int send_sample(struct perf_client *c, const struct perf_round *round, struct perf_sample *s,
		       uint64_t number)
{
	/*
	 * At a rate the next one does not wait for this one; without one, as fast as the transport
	 * takes them.
	 */
	int timeout_ms = c->args->rate_hz ? 0 : PERF_STALL_MS, rc;
	struct iovec item = {.iov_base = round->buf, .iov_len = round->size};
	uint64_t le = htole64(number);

	memcpy(round->buf, &le, sizeof(le));
	s->sent_ns = tool_now_ns();
	rc = round->kind == PERF_LONG
		     ? ripc_send_long(c->service, c->args->service, &item, 1, NULL, PERF_STALL_MS)
		     : ripc_send_short(c->service, c->args->service, &item, 1, NULL, timeout_ms);
	if (rc == -EAGAIN || rc == -ETIMEDOUT) {
		s->refused = true;
		return 0;
	}
	if (rc)
		tool_fail(rc, "message %llu", (unsigned long long)number + 1);
	return rc;
}

static int send_all(struct perf_client *c, const struct perf_round *round,
		    struct perf_sample *samples)
{
	uint64_t period_ns = c->args->rate_hz ? 1000000000 / c->args->rate_hz : 0;
	uint64_t begin_ns = tool_now_ns() + START_NS, taken_ns = begin_ns;
	unsigned burst = c->args->burst;
	int rc = 0;

	for (uint64_t i = 0; i < round->count && !rc && !tool_stopped; i++) {
		struct perf_sample *s = &samples[i];

		s->due_ns = period_ns ? begin_ns + i / burst * burst * period_ns : 0;
		if (period_ns && !(i % burst)) {
			perf_wait_until(c->args, s->due_ns);
		}
		/*
		 * A send that is late by a whole period has missed it, as a sampling clock would.
		 */
		if (period_ns && tool_now_ns() >= s->due_ns + burst * period_ns)
			continue;
		rc = send_sample(c, round, s, i);
		if (!s->refused) {
			taken_ns = s->sent_ns;
		} else if (s->sent_ns > taken_ns + PERF_STALL_MS * UINT64_C(1000000)) {
			rc = -ETIMEDOUT;
			tool_fail(rc, "message %llu, like all for %d s", (unsigned long long)i + 1,
				  PERF_STALL_MS / 1000);
		}
		if (c->args->pause_ns)
			perf_wait_until(c->args, tool_now_ns() + c->args->pause_ns);
	}
	return tool_stopped ? -EINTR : rc;
}

void perf_take_stamps(struct perf_client *c, const struct ripc_message *m)
{
	if (!c->samples || m->source != c->args->service || m->nitems != 1 ||
	    m->items[0].iov_len != c->nsamples * 8)
		return;
	for (uint64_t i = 0; i < c->nsamples; i++) {
		uint64_t le;

		memcpy(&le, (const char *)m->items[0].iov_base + i * 8, 8);
		c->samples[i].received_ns = le64toh(le);
	}
	c->samples = NULL;
}

static int ask_for_stamps(struct perf_client *c)
{
	struct perf_control request = {.type = PERF_STAMPS}, reply;
	struct ripc_message *m;
	int rc = perf_ask(c, &request, &reply);

	while (!rc && c->samples) {
		rc = ripc_receive(c->service, &m, STAMPS_MS);
		if (rc == -ETIMEDOUT)
			return 0;
		if (rc) {
			tool_fail(rc, "receive");
			return rc;
		}
		perf_take_stamps(c, m);
		ripc_message_free(m);
	}
	return rc;
}

/* Asks for the moments of arrival. Return: 0, or a negative errno, explained. */
static int fetch_stamps(struct perf_client *c, struct perf_sample *samples, uint64_t count)
{
	int rc = 0;

	c->samples = samples;
	c->nsamples = count;
	for (int tries = 0; !rc && c->samples && tries < STAMPS_ASK; tries++)
		rc = ask_for_stamps(c);
	if (!rc && c->samples) {
		tool_error("the server sent no times of arrival");
		rc = -ETIMEDOUT;
	}
	c->samples = NULL;
	return rc;
}

static int run(struct perf_client *c, const struct perf_round *round, struct perf_sample *samples,
	       struct perf_figures *figures)
{
	struct perf_control request = {.type = PERF_START,
				       .test = PERF_PACED,
				       .kind = round->kind,
				       .size = round->size,
				       .count = round->count};
	struct perf_control reply;
	char clock[sizeof(reply.text)];
	uint64_t begin_ns, elapsed_ns;
	double cpu_s;
	int rc = perf_ask(c, &request, &reply);

	if (rc)
		return rc;
	perf_clock_name(clock, sizeof(clock));
	c->same_clock = *clock && !strcmp(clock, reply.text);
	cpu_s = tool_cpu_s();
	begin_ns = tool_now_ns();
	rc = send_all(c, round, samples);
	if (rc)
		return rc;
	elapsed_ns = tool_now_ns() - begin_ns;
	cpu_s = tool_cpu_s() - cpu_s;
	request = (struct perf_control){.type = PERF_END};
	rc = perf_ask(c, &request, &reply);
	if (!rc)
		rc = fetch_stamps(c, samples, round->count);
	if (rc)
		return rc;
	figures->elapsed_ns += elapsed_ns;
	figures->cpu_s += cpu_s + (double)reply.cpu_ns / 1e9;
	perf_evaluate(c->args, round->size, samples, round->count, c->same_clock, figures);
	return 0;
}

int perf_paced(struct perf_client *c, const struct perf_round *round, struct perf_figures *figures)
{
	struct perf_sample *samples = calloc(round->count, sizeof(*samples));
	int rc;

	if (!samples) {
		tool_error("out of memory for %llu messages", (unsigned long long)round->count);
		return -ENOMEM;
	}
	rc = run(c, round, samples, figures);
	if (!rc && c->args->csv && !c->warming_up &&
	    perf_write_samples(c->args, samples, round->count, c->same_clock))
		c->unwritten = true;
	free(samples);
	return rc;
}
