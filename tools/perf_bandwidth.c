/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Long messages one way, with a window of requests in flight. */
#include "perf_client.h"

#include <errno.h>

/*
 * With --verify each message in flight has contents, and so memory, of its own. Otherwise all are
 * sent from one buffer, as the baseline does: the two then differ in nothing but the way.
 */
static int allocate(struct perf_client *c, const struct perf_round *round, void **bufs, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		bufs[i] = i && c->args->verify ? perf_buffer_new(c, round->size) : round->buf;
		if (!bufs[i]) {
			tool_fail(-errno, "%u buffers of %llu bytes", n,
				  (unsigned long long)round->size);
			return -ENOMEM;
		}
	}
	return 0;
}

static int wait_for(struct ripc_request **request)
{
	int rc = ripc_request_wait(request, PERF_STALL_MS);

	if (rc)
		tool_fail(rc, "long message");
	return rc;
}

int perf_send_window(struct perf_client *c, const struct perf_round *round)
{
	struct ripc_request *requests[PERF_WINDOW_MAX] = {0};
	void *bufs[PERF_WINDOW_MAX] = {0};
	unsigned window = c->args->window;
	int rc = allocate(c, round, bufs, window);

	for (uint64_t i = 0; !rc && i < round->count && !tool_stopped; i++) {
		unsigned slot = (unsigned)(i % window);
		struct iovec item = {.iov_base = bufs[slot], .iov_len = round->size};

		if (requests[slot])
			rc = wait_for(&requests[slot]);
		if (rc)
			break;
		if (c->args->verify)
			perf_fill(bufs[slot], round->size, i);
		rc = ripc_send_async(c->service, c->args->service, &item, 1, NULL, &requests[slot]);
		if (rc)
			tool_fail(rc, "start message %llu", (unsigned long long)i + 1);
	}
	/* After an error the rest is withdrawn: it must not outlive the buffers. */
	for (unsigned slot = 0; slot < window; slot++) {
		if (!requests[slot])
			continue;
		if (!rc && !tool_stopped)
			rc = wait_for(&requests[slot]);
		if (requests[slot])
			ripc_request_cancel(&requests[slot], 1000);
	}
	for (unsigned i = 1; i < window; i++)
		if (bufs[i] && bufs[i] != round->buf)
			perf_buffer_free(c, bufs[i]);
	return rc;
}
