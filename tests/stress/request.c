/* SPDX-License-Identifier: LGPL-2.1-or-later */
#define _GNU_SOURCE
#include "request.h"

#include "answer.h"
#include "chance.h"
#include "content.h"
#include "watchdog.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define REQUESTS_MAX    20    /* of a thread; one ends before a further one is started */
#define CALL_OVERDUE_MS 10000 /* beyond the timeout of the call */

static _Thread_local struct request *requests[REQUESTS_MAX];
static _Thread_local unsigned nrequests;

struct request *request_new(struct service *s, uint64_t dest, uint64_t len, bool one_item)
{
	struct request *r = calloc(1, sizeof(*r));
	bool ok;

	if (!r || !context_use(s->context)) {
		free(r);
		return NULL;
	}
	r->service = s;
	ok = memory_alloc(&r->memory, s->context, len, dest);
	context_leave(s->context);
	if (!ok) {
		free(r);
		return NULL;
	}
	r->items[0] = (struct iovec){r->memory.base, len};
	r->nitems = one_item ? 1 : content_split(r->items, r->memory.base, len);
	return r;
}

/* With context_use(). */
static void check_and_free(struct request *r)
{
	uint64_t wrong = content_check(r->items, r->nitems, 0, r->number);

	if (wrong)
		board_fault("memory of kind %d has changed at byte %llu while it was sent: %s",
			    r->memory.kind, (unsigned long long)wrong - 1,
			    board_describe(r->number));
	/* A receiver must not see this. */
	memset(r->memory.base, 0xdd, r->memory.len);
	memory_free(&r->memory);
	for (unsigned i = 0; i < r->nbuffers; i++) {
		int rc;

		memset(r->buffers[i].iov_base, 0xdd, r->buffers[i].iov_len);
		rc = ripc_buf_free(r->service->context->handle, r->buffers[i].iov_base);
		if (rc && rc != -ESHUTDOWN)
			board_fault("a buffer for an answer cannot be freed: %d: %s", rc,
				    ripc_error_detail());
	}
}

void request_free(struct request *r, bool sent)
{
	struct context *c = r->service->context;

	if (sent && r->freed_by_send) {
		board_count(EVENT_FREED_BY_SEND);
	} else if (context_use(c)) {
		/* A message that was not sent may have no content. */
		if (r->number)
			check_and_free(r);
		else
			memory_free(&r->memory);
		context_leave(c);
	} else {
		context_await_closed(c);
		memory_closed(&r->memory);
	}
	r->service->calls -= r->call;
	free(r);
}

/* ---- requests that are under way ---- */

static bool request_end(struct request *r, bool cancel, int timeout_ms);

void request_add(struct request *r)
{
	r->started_ms = watchdog_ms();
	while (nrequests == REQUESTS_MAX) {
		struct request *oldest = requests[0];

		memmove(requests, requests + 1, (REQUESTS_MAX - 1) * sizeof(*requests));
		nrequests--;
		if (!request_end(oldest, true, 100))
			board_fault("a cancelled request is still under way");
	}
	requests[nrequests++] = r;
}

/* reply: the answer. dropped: the caller did not ask for it. cancelled: the call was withdrawn. */
static void call_ended(struct request *r, int result, struct ripc_message *reply, bool dropped,
		       bool cancelled)
{
	enum state state = STATE_UNKNOWN;
	bool answered = false;

	switch (result) {
	case 0:
	case -ANSWER_ERROR:
		state = STATE_DELIVERED;
		answered = true;
		break;
	case -ECANCELED:
		/* Withdrawn by this process; or freed by the service without an answer. */
		if (cancelled)
			state = STATE_FAILED;
		else if (!dropped)
			state = STATE_DELIVERED;
		answered = !cancelled;
		break;
	case -ETIMEDOUT:
	case -EHOSTUNREACH:
	case -EAGAIN:
	case -ENOMEM:
	case -ENOBUFS:
		state = STATE_FAILED;
		break;
	case -ETIME:
	case -EPIPE:
	case -ESHUTDOWN:
		break;
	default:
		board_fault("call %llu ended with %d: %s", (unsigned long long)r->number, result,
			    ripc_error_detail());
	}
	if (!dropped && answered != (reply != NULL))
		board_fault("call %llu ended with %d %s an answer", (unsigned long long)r->number,
			    result, reply ? "and" : "without");
	/* The content of an answer names its call, an error does not. */
	if ((!result && !(board->records[r->number].answered & ANSWERED_CONTENT)) ||
	    (result == -ANSWER_ERROR && !(board->records[r->number].answered & ANSWERED_ERROR)))
		board_fault("%s ended with %d: no service has answered it like that",
			    board_describe(r->number), result);
	board_result(r->number, state, result);
	if (answered)
		board_count(EVENT_CALL_DONE);
	if (reply && context_use(r->service->context)) {
		if (!result)
			answer_check(r, reply);
		ripc_message_free(reply);
		context_leave(r->service->context);
	}
}

/*
 * Waits for one, or withdraws it. Return: whether it has ended; r is freed then.
 */
static bool request_end(struct request *r, bool cancel, int timeout_ms)
{
	struct ripc_message *reply = NULL;
	bool dropped = true;
	int rc;

	if (cancel) {
		board_count(EVENT_CANCELLED);
		rc = TIMED(timeout_ms + 100, ripc_request_cancel(&r->handle, timeout_ms));
	} else if (r->call && !one_in(3)) {
		dropped = one_in(10);
		rc = TIMED(timeout_ms,
			   ripc_call_wait(&r->handle, dropped ? NULL : &reply, timeout_ms));
	} else if (one_in(2)) {
		rc = ripc_request_test(&r->handle);
	} else {
		rc = TIMED(timeout_ms, ripc_request_wait(&r->handle, timeout_ms));
		if (rc == -ETIMEDOUT && r->handle)
			rc = -EINPROGRESS;
	}
	if (rc == -EINPROGRESS) {
		if (!r->handle)
			board_fault("a request is under way and freed");
		if (r->call &&
		    watchdog_ms() > r->started_ms + (uint64_t)r->timeout_ms + CALL_OVERDUE_MS) {
			board_fault("call %llu with timeout %d is under way after %llu ms",
				    (unsigned long long)r->number, r->timeout_ms,
				    (unsigned long long)(watchdog_ms() - r->started_ms));
			r->started_ms = watchdog_ms();
		}
		return false;
	}
	if (r->handle && rc != -ESHUTDOWN)
		board_fault("a request ended with %d and is not freed", rc);
	if (r->call)
		call_ended(r, rc, reply, dropped, cancel);
	else
		board_long_result(r->number, rc);
	request_free(r, !rc);
	return true;
}

void request_any(void)
{
	uint64_t at = chance(nrequests);
	bool cancel = one_in(5);

	if (nrequests && request_end(requests[at], cancel, (int)chance(cancel ? 100 : 60)))
		requests[at] = requests[--nrequests];
}

void request_end_all(void (*idle)(void))
{
	uint64_t start = watchdog_ms();

	while (nrequests) {
		/* Then those to services that nobody holds are left. */
		bool cancel = watchdog_ms() > start + 3000;

		if (request_end(requests[nrequests - 1], cancel, 100))
			nrequests--;
		else
			idle();
	}
}

void call_service(struct service *s, bool start)
{
	uint64_t dest = 1 + chance(IDS);
	uint64_t len =
		sizeof(struct head) + (one_in(3) ? chance_size(LONG_BYTES_MAX / 4) : chance(450));
	bool idempotent = one_in(6);
	struct request *r = request_new(s, dest, len, false);
	struct ripc_call_options options = {.size = sizeof(options),
					    .flags = idempotent ? RIPC_IDEMPOTENT : 0};
	struct ripc_message *reply = NULL;
	int rc;

	if (!r)
		return;
	if (!context_use(s->context)) {
		request_free(r, false);
		return;
	}
	r->call = true;
	s->calls++;
	r->timeout_ms = chance_timeout();
	r->number = board_message(KIND_CALL, s->uid, dest, len, 0);
	board->records[r->number].idempotent = idempotent;
	content_fill(r->items, r->nitems, r->number, r->number);
	for (uint64_t n = one_in(3) ? 1 + chance(3) : 0; n; n--) {
		uint64_t bytes = 1 + chance_size(LONG_BYTES_MAX / 4);
		void *base = ripc_buf_alloc(s->context->handle, bytes);

		if (base)
			r->buffers[r->nbuffers++] = (struct iovec){base, bytes};
	}
	context_leave(s->context);
	options.nreply_buffers = r->nbuffers;
	options.reply_buffers = r->buffers;
	if (!start) {
		rc = TIMED(r->timeout_ms + 100, ripc_call(s->handle, dest, r->items, r->nitems,
							  &options, &reply, r->timeout_ms));
		call_ended(r, rc, reply, false, false);
		request_free(r, !rc);
		return;
	}
	rc = TIMED(0, ripc_call_start(s->handle, dest, r->items, r->nitems, &options, r->timeout_ms,
				      &r->handle));
	if (!rc) {
		request_add(r);
		return;
	}
	board_result(r->number, STATE_FAILED, rc);
	if (rc != -ESHUTDOWN && rc != -ENOMEM)
		board_fault("ripc_call_start: %d: %s", rc, ripc_error_detail());
	request_free(r, false);
}
