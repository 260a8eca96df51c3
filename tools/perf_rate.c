/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* One way: the server counts the messages, and reports them at the end. */
#include "perf_client.h"

#include <errno.h>

/*
 * Every message but the last announces that more follow, so that several may share one system call.
 */
static int send_short(struct perf_client *c, const struct perf_round *round)
{
	struct iovec item = {.iov_base = round->buf, .iov_len = round->size};
	struct ripc_send_options options = {.size = sizeof(options),
					    .flags = c->args->no_more ? 0 : RIPC_MORE};
	uint64_t dest = c->args->service;

	for (uint64_t i = 0; i < round->count && !tool_stopped; i++) {
		int rc;

		if (c->args->verify)
			perf_fill(round->buf, round->size, i);
		if (i + 1 == round->count)
			options.flags = 0;
		rc = ripc_send_short(c->service, dest, &item, 1, &options, PERF_STALL_MS);
		if (rc) {
			tool_fail(rc, "message %llu of %llu", (unsigned long long)i + 1,
				  (unsigned long long)round->count);
			return rc;
		}
	}
	return 0;
}

int perf_oneway(struct perf_client *c, const struct perf_round *round, struct perf_figures *figures)
{
	struct perf_control request = {.type = PERF_START,
				       .test = round->test,
				       .kind = round->kind,
				       .size = round->size,
				       .count = round->count,
				       .verify = c->args->verify};
	struct perf_control reply;
	uint64_t begin_ns, elapsed_ns;
	double cpu_s;
	int rc;

	rc = perf_ask(c, &request, &reply);
	if (rc)
		return rc;
	cpu_s = tool_cpu_s();
	begin_ns = tool_now_ns();
	rc = round->kind == PERF_LONG ? perf_send_window(c, round) : send_short(c, round);
	if (rc)
		return rc;
	if (tool_stopped)
		return -EINTR;
	request = (struct perf_control){.type = PERF_END};
	rc = perf_ask(c, &request, &reply);
	if (rc)
		return rc;
	elapsed_ns = tool_now_ns() - begin_ns;
	cpu_s = tool_cpu_s() - cpu_s + (double)reply.cpu_ns / 1e9;
	/*
	 * Waiting in vain for what is lost is no part of sending the rest, nor is spinning
	 * meanwhile.
	 */
	if (elapsed_ns > reply.waited_ns) {
		elapsed_ns -= reply.waited_ns;
		if (c->args->wait == PERF_POLL && cpu_s > (double)reply.waited_ns / 1e9)
			cpu_s -= (double)reply.waited_ns / 1e9;
	}
	figures->elapsed_ns += elapsed_ns;
	figures->cpu_s += cpu_s;
	figures->count += round->count;
	figures->lost += round->count > reply.received ? round->count - reply.received : 0;
	figures->bytes += reply.received * round->size;
	c->damaged += reply.damaged;
	return 0;
}
