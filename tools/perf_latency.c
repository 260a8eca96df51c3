/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Round trips: one message there and its echo back, one at a time. */
#include "perf_client.h"

#include <errno.h>
#include <string.h>

#define ECHO_MS  1000 /* an echo of a short message that takes longer is lost */
#define LOST_MAX 10   /* round trips lost in a row that mean that the server is gone */

/*
 * The first bytes distinguish an echo from a late one of an earlier message; with --verify all
 * bytes are checked.
 */
static size_t checked_len(const struct perf_client *c, uint64_t size)
{
	return c->args->verify || size < 8 ? (size_t)size : 8;
}

/* A long message in a buffer of its own, which the receiver may read in place. */
static int send_own(struct perf_client *c, const struct perf_round *round, uint64_t number)
{
	struct ripc_send_options options = {.size = sizeof(options), .flags = RIPC_FREE_ITEMS};
	struct iovec item = {.iov_len = round->size};
	int rc;

	item.iov_base = ripc_buf_alloc_for(c->ctx, round->size, c->args->service);
	if (!item.iov_base) {
		tool_fail(-errno, "buffer of %llu bytes", (unsigned long long)round->size);
		return -ENOMEM;
	}
	perf_fill(item.iov_base, checked_len(c, round->size), number);
	rc = ripc_send_long(c->service, c->args->service, &item, 1, &options, PERF_STALL_MS);
	if (!rc)
		return 0;
	tool_fail(rc, "message of %llu bytes", (unsigned long long)round->size);
	ripc_buf_free(c->ctx, item.iov_base);
	return rc;
}

static int send_one(struct perf_client *c, const struct perf_round *round, uint64_t number)
{
	struct iovec item = {.iov_base = round->buf, .iov_len = round->size};
	struct iovec back = {.iov_base = c->back, .iov_len = round->size};
	struct ripc_send_options options = {
		.size = sizeof(options), .nreturn_buffers = 1, .return_buffers = &back};
	bool announce = c->back && !c->announced && round->kind != PERF_SHORT;
	const struct ripc_send_options *with = announce ? &options : NULL;
	uint64_t dest = c->args->service;
	int rc;

	if (round->kind == PERF_LONG && !c->back && round->size)
		return send_own(c, round, number);

	switch (round->kind) {
	case PERF_SHORT:
		rc = ripc_send_short(c->service, dest, &item, 1, with, PERF_STALL_MS);
		break;
	case PERF_LONG:
		rc = ripc_send_long(c->service, dest, &item, 1, with, PERF_STALL_MS);
		break;
	default:
		rc = ripc_send(c->service, dest, &item, 1, with, PERF_STALL_MS);
		break;
	}
	if (rc)
		tool_fail(rc, "message of %llu bytes", (unsigned long long)round->size);
	else if (announce)
		c->announced = true;
	return rc;
}

/*
 * Takes echoes until that of message @number. Return: 0, 1 if it does not come, or a negative
 * errno.
 */
static int await_echo(struct perf_client *c, const struct perf_round *round, uint64_t number)
{
	bool is_short = round->kind != PERF_LONG && round->size <= c->route.short_max;
	size_t len = checked_len(c, round->size);

	for (;;) {
		struct ripc_message *m;
		bool ours, good;
		int rc;

		rc = ripc_receive(c->service, &m, is_short ? ECHO_MS : PERF_STALL_MS);
		if (rc == -ETIMEDOUT)
			return 1;
		if (rc) {
			tool_fail(rc, "receive");
			return rc;
		}
		ours = m->nitems == 1 && m->source == c->args->service;
		good = ours && m->items[0].iov_len == round->size &&
		       (!len || perf_check(m->items[0].iov_base, len, number));
		if (ours && m->placement[0] == RIPC_IN_RETURN_BUFFER)
			c->announced = false;
		ripc_message_free(m);
		if (good)
			return 0;
		/*
		 * A late echo has the number of another message; with --verify a wrong one counts,
		 * once.
		 */
		if (ours && c->args->verify) {
			c->damaged++;
			return 0;
		}
	}
}

int perf_latency(struct perf_client *c, const struct perf_round *round,
		 struct perf_figures *figures)
{
	struct perf_control request = {.type = PERF_START,
				       .test = PERF_LATENCY,
				       .kind = round->kind,
				       .size = round->size,
				       .count = round->count,
				       .verify = c->args->verify,
				       .returns = c->back != NULL};
	size_t len = checked_len(c, round->size);
	struct perf_control reply;
	uint64_t begin_ns;
	unsigned lost = 0;
	double cpu_s;
	int rc;

	rc = perf_ask(c, &request, &reply);
	if (rc)
		return rc;
	cpu_s = tool_cpu_s();
	begin_ns = tool_now_ns();
	for (uint64_t i = 0; i < round->count && !tool_stopped; i++) {
		uint64_t sent_ns;

		perf_fill(round->buf, len, i);
		sent_ns = tool_now_ns();
		rc = send_one(c, round, i);
		if (rc)
			return rc;
		rc = await_echo(c, round, i);
		if (rc < 0)
			return rc;
		figures->count++;
		if (!rc) {
			histogram_add(figures->rtt, tool_now_ns() - sent_ns);
			figures->bytes += round->size;
			lost = 0;
			continue;
		}
		figures->lost++;
		if (++lost == LOST_MAX) {
			tool_error("%d round trips in a row lost: the server is gone", LOST_MAX);
			return -EPIPE;
		}
	}
	figures->elapsed_ns += tool_now_ns() - begin_ns;
	cpu_s = tool_cpu_s() - cpu_s;
	request = (struct perf_control){.type = PERF_END};
	rc = perf_ask(c, &request, &reply);
	if (rc)
		return rc;
	figures->cpu_s += cpu_s + (double)reply.cpu_ns / 1e9;
	c->damaged += reply.damaged;
	return 0;
}
