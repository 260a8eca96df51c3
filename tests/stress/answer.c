/* SPDX-License-Identifier: LGPL-2.1-or-later */
#define _GNU_SOURCE
#include "answer.h"

#include "chance.h"
#include "content.h"
#include "memory.h"
#include "watchdog.h"

#include <stdlib.h>
#include <string.h>

/* Whether the model permits this result of an answer: its caller may be gone in many ways. */
static bool permitted(int result)
{
	switch (result) {
	case 0:
	case -EAGAIN:
	case -ECANCELED:
	case -EHOSTUNREACH:
	case -EPIPE:
	case -ESHUTDOWN:
	case -ETIMEDOUT:
		return true;
	default:
		return false;
	}
}

void answer_send(struct ripc_message *m, uint64_t number, bool may_wait)
{
	uint64_t len =
		sizeof(struct head) + (one_in(3) ? chance_size(LONG_BYTES_MAX / 4) : chance(300));
	int timeout_ms = may_wait ? chance_timeout() : 20, rc;
	struct iovec items[RIPC_ITEMS_MAX];
	unsigned n;
	void *base;

	if (one_in(12))
		return;
	if (one_in(12)) {
		board_answered(number, ANSWERED_ERROR);
		rc = ripc_reply_error(m, ANSWER_ERROR);
		if (!permitted(rc))
			board_fault("ripc_reply_error: %d: %s", rc, ripc_error_detail());
		return;
	}
	board_answered(number, ANSWERED_CONTENT);
	base = malloc(len);
	n = content_split(items, base, len);
	content_fill(items, n, number, ~number);
	rc = TIMED(timeout_ms + 200, ripc_reply(m, items, n, timeout_ms));
	if (!permitted(rc))
		board_fault("ripc_reply: %d: %s", rc, ripc_error_detail());
	if (!rc) {
		board_count(EVENT_ANSWERED);
		rc = ripc_reply(m, items, n, 0);
		if (rc != -EALREADY && rc != -ECANCELED && rc != -ESHUTDOWN)
			board_fault("a second ripc_reply() to one request: %d", rc);
	}
	free(base);
}

void answer_start(struct context *c, struct ripc_message *m, uint64_t number,
		  void (*release)(struct context *c, struct ripc_message *m))
{
	uint64_t len = sizeof(struct head) + chance_size(LONG_BYTES_MAX / 2);
	struct ripc_request *request = NULL;
	struct iovec items[RIPC_ITEMS_MAX];
	void *base = malloc(len);
	unsigned n = content_split(items, base, len);
	bool early = one_in(2);
	int rc;

	content_fill(items, n, number, ~number);
	board_answered(number, ANSWERED_CONTENT);
	rc = TIMED(0, ripc_reply_start(m, items, n, NULL, &request));
	if (!permitted(rc) && rc != -EALREADY && rc != -ENOMEM)
		board_fault("ripc_reply_start: %d: %s", rc, ripc_error_detail());
	if (early)
		release(c, m);
	if (!rc) {
		if (one_in(3))
			TIMED(200, ripc_request_cancel(&request, (int)chance(100)));
		else
			TIMED(1500, ripc_request_wait(&request, 1500));
		if (request)
			TIMED(200, ripc_request_cancel(&request, 50));
		if (request)
			board_fault("a cancelled answer is not freed");
	}
	/* The caller must not see this. */
	memset(base, 0xee, len);
	free(base);
	if (!early)
		release(c, m);
}

/* Whether each item that lies in a buffer of the call has one of its own. */
static bool in_own_buffers(const struct request *r, const struct ripc_message *reply)
{
	unsigned used = 0;

	for (unsigned i = 0; i < reply->nitems; i++) {
		unsigned k = 0;

		if (!reply->items[i].iov_len || reply->placement[i] != RIPC_IN_RETURN_BUFFER)
			continue;
		while (k < r->nbuffers && r->buffers[k].iov_base != reply->items[i].iov_base)
			k++;
		if (k == r->nbuffers || used & 1u << k ||
		    reply->items[i].iov_len > r->buffers[k].iov_len)
			return false;
		used |= 1u << k;
	}
	return true;
}

void answer_check(const struct request *r, const struct ripc_message *reply)
{
	struct head h = {0}, expected;
	uint64_t wrong;

	if (!content_find_head(reply->items, reply->nitems, 0, &h) || h.number != r->number) {
		board_fault("call %llu has the answer to call %llu", (unsigned long long)r->number,
			    (unsigned long long)h.number);
		return;
	}
	expected = content_head(reply->items, reply->nitems, r->number);
	wrong = content_check(reply->items, reply->nitems, 0, ~r->number);
	if (memcmp(&expected, &h, sizeof(h)) || wrong)
		board_fault("the answer to %s has %u items, sent were %u, and is wrong at byte "
			    "%lld%s",
			    board_describe(r->number), reply->nitems, h.nitems,
			    (long long)wrong - 1,
			    content_layout(reply->items, reply->nitems, reply->placement));
	if (!board->records[r->number].received)
		board_fault("call %llu was answered, but not received",
			    (unsigned long long)r->number);
	if (!in_own_buffers(r, reply))
		board_fault("items of the answer to %s lie in buffers of something else, or in one "
			    "buffer%s",
			    board_describe(r->number),
			    content_layout(reply->items, reply->nitems, reply->placement));
}
