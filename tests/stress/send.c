/* SPDX-License-Identifier: LGPL-2.1-or-later */
#define _GNU_SOURCE
#include "send.h"

#include "chance.h"
#include "content.h"
#include "request.h"
#include "watchdog.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define RELIABLE_BYTES_MAX 65536

void send_short(struct service *s)
{
	uint64_t dest = 1 + chance(IDS), max = RIPC_SHORT_GUARANTEED, len;
	struct ripc_send_options options = {.size = sizeof(options)};
	struct ripc_limits limits = {.size = sizeof(limits)};
	struct stream *stream = &s->streams[KIND_SHORT][dest];
	bool ordered = !pthread_mutex_trylock(&stream->lock);
	struct iovec items[RIPC_ITEMS_MAX];
	uint8_t bytes[RELIABLE_BYTES_MAX];
	int rc = 0;

	if (one_in(4) && !ripc_route_limits(s->context->handle, dest, &limits))
		max = limits.short_max < sizeof(bytes) ? limits.short_max : sizeof(bytes);
	len = sizeof(struct head) + chance(max - sizeof(struct head) + 1);
	for (uint64_t more = one_in(3) ? chance(30) : 0; !rc; more--) {
		unsigned n = content_split(items, bytes, len);
		uint64_t number = board_message(KIND_SHORT, s->uid, dest, len,
						ordered ? ++stream->sequence : 0);
		int timeout_ms = more ? 10 * (int)chance(2) : chance_timeout();

		content_fill(items, n, number, number);
		options.flags = more && one_in(2) ? RIPC_MORE : 0;
		rc = TIMED(timeout_ms,
			   ripc_send_short(s->handle, dest, items, n, &options, timeout_ms));
		board_result(number, rc ? STATE_FAILED : STATE_DELIVERED, rc);
		if ((rc && rc != -EAGAIN && rc != -ETIMEDOUT && rc != -EHOSTUNREACH &&
		     rc != -ESHUTDOWN && rc != -EMSGSIZE) ||
		    (rc == -EAGAIN && timeout_ms))
			board_fault("ripc_send_short, timeout %d: %d: %s", timeout_ms, rc,
				    ripc_error_detail());
		if (!more)
			break;
	}
	if (ordered)
		pthread_mutex_unlock(&stream->lock);
}

static void stream_add(struct stream *stream, uint64_t number)
{
	if (stream->ntaken == stream->taken_room) {
		stream->taken_room = stream->taken_room * 2 + 64;
		stream->taken =
			reallocarray(stream->taken, stream->taken_room, sizeof(*stream->taken));
		if (!stream->taken)
			abort();
	}
	stream->taken[stream->ntaken++] = number;
}

/* All reliable messages of the stream have ended, as far as the sender can know. */
static void stream_end(struct stream *stream, enum state state, int result)
{
	stream->failed = state != STATE_DELIVERED && (stream->failed || stream->ntaken);
	while (stream->ntaken)
		board_result(stream->taken[--stream->ntaken], state, result);
}

/* A call returned the error of an earlier reliable message. */
static void stream_fail(struct stream *stream, uint64_t dest, int result)
{
	board_count(EVENT_RELIABLE_LOST);
	if (!stream->ntaken && !stream->failed)
		board_fault("error %d of a reliable message to service %llu, but there was none: "
			    "%s",
			    result, (unsigned long long)dest, ripc_error_detail());
	stream_end(stream, STATE_UNKNOWN, result);
}

static void flush(struct service *s, uint64_t dest, int timeout_ms)
{
	struct stream *stream = &s->streams[KIND_RELIABLE][dest];
	int rc;

	if (pthread_mutex_trylock(&stream->lock))
		return;
	rc = TIMED(timeout_ms, ripc_flush(s->handle, dest, timeout_ms));
	switch (rc) {
	case 0:
		board_count(EVENT_FLUSHED);
		stream_end(stream, STATE_DELIVERED, 0);
		break;
	case -EPIPE:
	case -EHOSTUNREACH:
		stream_fail(stream, dest, rc);
		break;
	case -ESHUTDOWN:
		stream_end(stream, STATE_UNKNOWN, rc);
		break;
	default:
		if (rc != (timeout_ms ? -ETIMEDOUT : -EAGAIN))
			board_fault("ripc_flush, timeout %d: %d: %s", timeout_ms, rc,
				    ripc_error_detail());
	}
	pthread_mutex_unlock(&stream->lock);
}

void flush_all(struct service *s)
{
	for (uint64_t dest = 1; dest <= IDS; dest++)
		if (s->streams[KIND_RELIABLE][dest].ntaken)
			flush(s, dest, 20);
}

/* Return: whether it was taken. */
static bool send_one_reliable(struct service *s, struct stream *stream, uint64_t dest, bool more)
{
	uint64_t len =
		sizeof(struct head) +
		(one_in(6) ? chance_size(RELIABLE_BYTES_MAX - sizeof(struct head)) : chance(400));
	struct ripc_send_options options = {.size = sizeof(options), .flags = RIPC_RELIABLE};
	uint8_t bytes[RELIABLE_BYTES_MAX];
	struct iovec items[RIPC_ITEMS_MAX];
	unsigned n = content_split(items, bytes, len);
	int timeout_ms = more ? 20 * (int)chance(3) : chance_timeout(), rc;
	uint64_t number = board_message(KIND_RELIABLE, s->uid, dest, len, ++stream->sequence);

	content_fill(items, n, number, number);
	if (more && one_in(3))
		options.flags |= RIPC_MORE;
	/* It is received before the call returns. */
	board_result(number, STATE_TAKEN, 0);
	/* ripc_send() sends a message of this length as a short one. */
	if (len <= RIPC_SHORT_GUARANTEED && one_in(2))
		rc = TIMED(timeout_ms, ripc_send(s->handle, dest, items, n, &options, timeout_ms));
	else
		rc = TIMED(timeout_ms,
			   ripc_send_short(s->handle, dest, items, n, &options, timeout_ms));
	switch (rc) {
	case 0:
		stream_add(stream, number);
		break;
	case -EPIPE:
		stream_fail(stream, dest, rc);
		board_result(number, STATE_FAILED, rc);
		break;
	case -EHOSTUNREACH:
		/* Of this message or of an earlier one. */
		stream_end(stream, STATE_UNKNOWN, rc);
		board_result(number, STATE_FAILED, rc);
		break;
	case -ESHUTDOWN:
	case -EAGAIN:
	case -ETIMEDOUT:
	case -EMSGSIZE:
		board_result(number, STATE_FAILED, rc);
		break;
	default:
		board_fault("reliable message to service %llu, timeout %d: %d: %s",
			    (unsigned long long)dest, timeout_ms, rc, ripc_error_detail());
	}
	return !rc;
}

void send_reliable(struct service *s)
{
	uint64_t dest = 1 + chance(IDS), more = one_in(2) ? chance(60) : 0;
	struct stream *stream = &s->streams[KIND_RELIABLE][dest];

	if (pthread_mutex_trylock(&stream->lock))
		return;
	while (send_one_reliable(s, stream, dest, more) && more)
		more--;
	pthread_mutex_unlock(&stream->lock);
	if (one_in(3))
		flush(s, dest, chance_timeout());
}

/* Sends what is in r. stream: the messages of which it is one; NULL: it has no order. */
static void start_long(struct request *r, uint64_t dest, bool async)
{
	struct service *s = r->service;
	struct context *c = s->context;
	struct iovec buffers[RIPC_RETURN_BUFFERS_MAX];
	struct ripc_send_options options = {.size = sizeof(options),
					    .return_buffers = buffers,
					    .data = (void *)(uintptr_t)r->number};
	int timeout_ms = chance_timeout(), rc;

	if (one_in(5) && context_use(c)) {
		options.nreturn_buffers = return_buffers_alloc(s, buffers);
		context_leave(c);
	}
	if (r->freed_by_send)
		options.flags |= RIPC_FREE_ITEMS;
	if (async)
		rc = TIMED(0, ripc_send_async(s->handle, dest, r->items, r->nitems, &options,
					      &r->handle));
	else
		rc = TIMED(timeout_ms + 100, ripc_send_long(s->handle, dest, r->items, r->nitems,
							    &options, timeout_ms));
	if (async && rc && context_use(c)) {
		return_buffers_free(c, buffers, options.nreturn_buffers);
		context_leave(c);
	} else {
		return_buffers_sent(c, buffers, options.nreturn_buffers);
	}
	if (async && !rc) {
		request_add(r);
		return;
	}
	if (!async)
		board_long_result(r->number, rc);
	else
		board_result(r->number, STATE_FAILED, rc);
	if (async && rc != -ESHUTDOWN && rc != -ENOMEM)
		board_fault("ripc_send_async: %d: %s", rc, ripc_error_detail());
	request_free(r, !rc);
}

void send_long(struct service *s, bool async)
{
	uint64_t dest = 1 + chance(IDS), len = sizeof(struct head) + chance_size(LONG_BYTES_MAX);
	struct stream *stream = &s->streams[KIND_LONG][dest];
	bool one_item = one_in(3), ordered;
	struct request *r = request_new(s, dest, len, one_item);

	if (!r)
		return;
	r->freed_by_send = one_item && r->memory.kind == MEMORY_BUFFER;
	ordered = !pthread_mutex_trylock(&stream->lock);
	r->number = board_message(KIND_LONG, s->uid, dest, len, ordered ? ++stream->sequence : 0);
	if (context_use(s->context)) {
		content_fill(r->items, r->nitems, r->number, r->number);
		context_leave(s->context);
		start_long(r, dest, async);
	} else {
		board_result(r->number, STATE_FAILED, -ESHUTDOWN);
		request_free(r, false);
	}
	if (ordered)
		pthread_mutex_unlock(&stream->lock);
}

static void forward(struct service *s, const struct ripc_message *m, uint64_t dest)
{
	struct iovec items[RIPC_ITEMS_MAX];
	int timeout_ms = 1 + (int)chance(100);
	unsigned n = m->nitems + 1;
	struct head h;

	items[0] = (struct iovec){&h, sizeof(h)};
	memcpy(items + 1, m->items, m->nitems * sizeof(*items));
	h = content_head(items, n,
			 board_message(KIND_LONG, s->uid, dest, content_len(items, n), 0));
	h.forwarded = 1;
	board_count(EVENT_FORWARDED);
	board_long_result(h.number, TIMED(timeout_ms, ripc_send_long(s->handle, dest, items, n,
								     NULL, timeout_ms)));
}

static void send_back(struct service *s, const struct ripc_message *m)
{
	uint64_t len = sizeof(struct head) + chance_size(LONG_BYTES_MAX / 2), number;
	struct iovec items[RIPC_ITEMS_MAX] = {{malloc(len), len}};
	int timeout_ms = 1 + (int)chance(30);
	void *base = items[0].iov_base;
	unsigned n = one_in(2) ? 1 : content_split(items, base, len);

	number = board_message(KIND_LONG, s->uid, m->source, len, 0);
	content_fill(items, n, number, number);
	board_long_result(number, TIMED(timeout_ms, ripc_send_long(s->handle, m->source, items, n,
								   NULL, timeout_ms)));
	free(base);
}

void send_on(struct service *s, const struct ripc_message *m)
{
	struct head h;

	if (one_in(2))
		send_back(s, m);
	else if (m->nitems < RIPC_ITEMS_MAX && content_find_head(m->items, m->nitems, 0, &h) &&
		 !h.forwarded)
		forward(s, m, 1 + chance(IDS));
}

void send_group(struct service *s)
{
	uint64_t group = 1 + chance(GROUPS);
	uint8_t bytes[RIPC_GROUP_MESSAGE_MAX];
	struct iovec items[RIPC_ITEMS_MAX];
	int rc = 0;

	for (uint64_t more = chance(10); !rc && more; more--) {
		uint64_t len =
			sizeof(struct head) + chance(sizeof(bytes) - sizeof(struct head) + 1);
		unsigned n = content_split(items, bytes, len);
		uint64_t number = board_message(KIND_GROUP, s->uid, 0, len, 0);
		int timeout_ms = (int)chance(100);

		content_fill(items, n, number, number);
		rc = TIMED(timeout_ms,
			   ripc_group_send(s->handle, group, items, n, NULL, timeout_ms));
		board_result(number, rc ? STATE_FAILED : STATE_DELIVERED, rc);
		if (rc && rc != -EHOSTUNREACH && rc != -EAGAIN && rc != -ETIMEDOUT &&
		    rc != -ESHUTDOWN)
			board_fault("ripc_group_send: %d: %s", rc, ripc_error_detail());
	}
}

void group_change(struct service *s)
{
	uint64_t group = 1 + chance(GROUPS);
	int rc;

	if (one_in(2)) {
		rc = TIMED(300, ripc_group_join(s->handle, group, 300));
		if (rc == -EALREADY || rc == -ETIMEDOUT)
			rc = 0;
	} else {
		rc = TIMED(0, ripc_group_leave(s->handle, group));
		if (rc == -ENOENT)
			rc = 0;
	}
	if (rc && rc != -ESHUTDOWN)
		board_fault("group %llu: %d: %s", (unsigned long long)group, rc,
			    ripc_error_detail());
}
