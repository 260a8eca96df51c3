/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The client's half of the baseline: the exchanges of the tests over a plain socket to the same
 * server process.
 */
#include "perf_client.h"

#include <errno.h>
#include <string.h>

bool perf_baseline_fits(const struct perf_args *args, uint64_t size)
{
	/* A stream has no empty messages. */
	return args->baseline == PERF_TCP ? size > 0 : size <= PERF_UDP_MAX;
}

int perf_baseline_open(struct perf_client *c, struct perf_socket *s)
{
	struct perf_control request = {.type = PERF_BASE_OPEN,
				       .protocol = c->args->baseline,
				       .wait = c->args->baseline_wait};
	struct perf_control reply;
	int rc;

	s->fd = -1;
	s->protocol = c->args->baseline;
	s->wait = c->args->baseline_wait;
	s->patience_ms = s->protocol == PERF_UDP ? PERF_DRAIN_MS : PERF_STALL_MS;
	/* The server listens where our own transport reaches it: both then take the same way. */
	perf_socket_host(c->route.address, request.text, sizeof(request.text));
	rc = perf_ask(c, &request, &reply);
	if (rc)
		return rc;
	rc = perf_socket_connect(s, request.text, reply.port);
	if (rc)
		tool_error("baseline: cannot connect to %s port %u: %s", request.text,
			   (unsigned)reply.port, strerror(-rc));
	return rc;
}

void perf_baseline_close(struct perf_client *c, struct perf_socket *s)
{
	struct perf_control request = {.type = PERF_BASE_CLOSE}, reply;

	if (s->fd < 0)
		return;
	perf_socket_close(s);
	perf_ask(c, &request, &reply);
}

/* Return: 0, 1 if the echo was lost, or a negative errno. */
static int round_trip(const struct perf_socket *s, const struct perf_round *round, size_t checked,
		      uint64_t number)
{
	ssize_t n;
	int rc;

	rc = perf_socket_send(s, round->buf, round->size);
	if (rc)
		return rc;
	if (s->protocol == PERF_TCP)
		return perf_socket_receive_all(s, round->buf, round->size);
	do {
		n = perf_socket_receive(s, round->buf, round->size);
		if (n == -ETIMEDOUT)
			return 1;
		if (n < 0)
			return (int)n;
		/* A late echo of an earlier message is not the one. */
	} while ((uint64_t)n != round->size || !perf_check(round->buf, checked, number));
	return 0;
}

static int latency(const struct perf_socket *s, const struct perf_round *round,
		   struct perf_figures *figures)
{
	size_t checked = round->size < 8 ? (size_t)round->size : 8;

	for (uint64_t i = 0; i < round->count && !tool_stopped; i++) {
		uint64_t sent_ns;
		int rc;

		perf_fill(round->buf, checked, i);
		sent_ns = tool_now_ns();
		rc = round_trip(s, round, checked, i);
		if (rc < 0)
			return rc;
		if (rc) {
			figures->lost++;
		} else {
			histogram_add(figures->rtt, tool_now_ns() - sent_ns);
			figures->bytes += round->size;
		}
	}
	return 0;
}

/* The acknowledgement at the end is one byte; of datagrams, the reply to PERF_END. */
static int oneway(const struct perf_socket *s, const struct perf_round *round)
{
	char ack;
	int rc = 0;

	for (uint64_t i = 0; !rc && i < round->count && !tool_stopped; i++) {
		rc = perf_socket_send(s, round->buf, round->size);
		/* A datagram that finds no room is a datagram lost. */
		if (s->protocol == PERF_UDP && (rc == -ENOBUFS || rc == -ETIMEDOUT))
			rc = 0;
	}
	if (rc || s->protocol == PERF_UDP)
		return rc;
	return perf_socket_receive_all(s, &ack, 1);
}

int perf_baseline_round(struct perf_client *c, const struct perf_socket *s,
			const struct perf_round *round, struct perf_figures *figures)
{
	struct perf_control request = {.type = PERF_BASE_START,
				       .test = round->test,
				       .size = round->size,
				       .count = round->count};
	struct perf_control reply;
	uint64_t begin_ns, elapsed_ns;
	double cpu_s;
	int rc;

	rc = perf_ask(c, &request, &reply);
	if (rc)
		return rc;
	cpu_s = tool_cpu_s();
	begin_ns = tool_now_ns();
	rc = round->test == PERF_LATENCY ? latency(s, round, figures) : oneway(s, round);
	elapsed_ns = tool_now_ns() - begin_ns;
	cpu_s = tool_cpu_s() - cpu_s;
	if (rc) {
		tool_error("baseline: %s", strerror(-rc));
		return rc;
	}
	request = (struct perf_control){.type = PERF_END};
	rc = perf_ask(c, &request, &reply);
	if (rc)
		return rc;
	if (s->protocol == PERF_UDP && round->test != PERF_LATENCY) {
		elapsed_ns = tool_now_ns() - begin_ns;
		if (elapsed_ns > reply.waited_ns)
			elapsed_ns -= reply.waited_ns;
	}
	figures->elapsed_ns += elapsed_ns;
	figures->cpu_s += cpu_s + (double)reply.cpu_ns / 1e9;
	figures->count += round->count;
	if (round->test != PERF_LATENCY) {
		figures->lost += round->count > reply.received ? round->count - reply.received : 0;
		figures->bytes += reply.received * round->size;
	}
	return 0;
}
