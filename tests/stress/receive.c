/* SPDX-License-Identifier: LGPL-2.1-or-later */
#define _GNU_SOURCE
#include "receive.h"

#include "answer.h"
#include "chance.h"
#include "content.h"
#include "send.h"
#include "watchdog.h"

#include <errno.h>
#include <poll.h>
#include <string.h>

/* ---- checks ---- */

/* The head, lengths and bytes of a message. Return: its number; 0: it has none. */
static uint64_t check_content(const struct ripc_message *m)
{
	struct head h, original, expected;
	uint64_t wrong;

	if (!content_find_head(m->items, m->nitems, 0, &h) || !h.number ||
	    h.number >= board->messages) {
		board_fault("a message without head: %u items, %llu bytes, long %u, call %llu",
			    m->nitems, (unsigned long long)content_len(m->items, m->nitems),
			    m->is_long, (unsigned long long)m->call);
		return 0;
	}
	expected = content_head(m->items, m->nitems, h.number);
	expected.forwarded = h.forwarded;
	if (memcmp(&expected, &h, sizeof(h)) || h.len != board->records[h.number].len)
		board_fault("%s has other items than were sent", board_describe(h.number));
	if (!h.forwarded)
		wrong = content_check(m->items, m->nitems, 0, h.number);
	else if (content_find_head(m->items, m->nitems, sizeof(h), &original))
		wrong = content_check(m->items, m->nitems, sizeof(h), original.number);
	else
		wrong = sizeof(h) + 1;
	if (wrong)
		board_fault("%s, forwarded %u, is wrong at byte %llu%s", board_describe(h.number),
			    h.forwarded, (unsigned long long)wrong - 1,
			    content_layout(m->items, m->nitems, m->placement));
	return h.number;
}

/* An item that lies in a buffer of the application. The buffer belongs to the message from now. */
static void check_buffer(struct service *s, uint64_t number, const struct iovec *item, bool window)
{
	struct context *c = s->context;
	const char *wrong = NULL;
	struct buffer *b;

	pthread_mutex_lock(&c->lock);
	b = buffer_find(c, item->iov_base);
	if (!b)
		wrong = "no such buffer";
	else if (b->state != (window ? BUFFER_WINDOW : BUFFER_RETURN) &&
		 b->state != BUFFER_CHANGING)
		wrong = "one in another state";
	else if (item->iov_len > b->len)
		wrong = "a shorter one";
	else if (window ? b->service && b->service != s->uid : b->service != s->uid)
		wrong = "one of another service";
	else
		b->state = BUFFER_IN_MESSAGE;
	pthread_mutex_unlock(&c->lock);
	board_count(window ? EVENT_WINDOW : EVENT_RETURN_BUFFER);
	if (wrong)
		board_fault("message %llu has an item of %zu bytes in a %s, but that is %s",
			    (unsigned long long)number, item->iov_len,
			    window ? "window" : "return buffer", wrong);
}

static void check_placement(struct service *s, const struct ripc_message *m, uint64_t number)
{
	for (unsigned i = 0; i < m->nitems; i++) {
		if (!m->items[i].iov_len)
			continue;
		if (m->placement[i] == RIPC_IN_SENDER_MEMORY)
			board_count(EVENT_IN_PLACE);
		else if (m->placement[i] == RIPC_IN_WINDOW ||
			 m->placement[i] == RIPC_IN_RETURN_BUFFER)
			check_buffer(s, number, &m->items[i], m->placement[i] == RIPC_IN_WINDOW);
	}
}

static void check_order(struct service *s, const struct record *r, uint64_t number)
{
	uint64_t *last;

	/* Threads of a service that is not ordered may check in another order. */
	if (!s->ordered || !r->sequence || (r->kind == KIND_SHORT && s->datagrams))
		return;
	last = numbers_at(&s->last, (uint64_t)r->sender * KINDS + r->kind);
	if (*last && board->records[*last].sequence >= r->sequence)
		board_fault("%s came to %u after %s", board_describe(number), s->uid,
			    board_describe(*last));
	*last = number;
}

static void check_record(struct service *s, const struct ripc_message *m, uint64_t number)
{
	struct record *r = &board->records[number];
	unsigned before;

	if (!m->group != (r->kind != KIND_GROUP) || !m->call != (r->kind != KIND_CALL) ||
	    (r->kind == KIND_LONG && !m->is_long))
		board_fault("%s came with group %llu, call %llu, long %u", board_describe(number),
			    (unsigned long long)m->group, (unsigned long long)m->call, m->is_long);
	if (r->kind == KIND_GROUP) {
		uint64_t *seen;

		pthread_mutex_lock(&s->context->lock);
		seen = numbers_at(&s->groups, number);
		before = (unsigned)(*seen)++;
		pthread_mutex_unlock(&s->context->lock);
	} else {
		before = r->received++;
	}
	r->received_ms = board_ms();
	if (before && !r->idempotent)
		board_fault("%s came again, to %u", board_describe(number), s->uid);
	/* board_check() has those whose senders did not know it yet. */
	if (r->state == STATE_FAILED && r->kind != KIND_CALL && r->kind != KIND_GROUP)
		board_fault("%s came although it had failed", board_describe(number));
	check_order(s, r, number);
}

/* Return: the number of the message; 0: it is an event, or wrong. */
static uint64_t check(struct service *s, const struct ripc_message *m)
{
	uint64_t number;

	board_count(EVENT_RECEIVED);
	if (m->dest != s->id)
		board_fault("a message for service %llu came to service %llu",
			    (unsigned long long)m->dest, (unsigned long long)s->id);
	if (m->event) {
		board_count(EVENT_WATCH);
		if (m->nitems != 1 || !m->items[0].iov_len || !m->source || m->source > IDS)
			board_fault("event %u of service %llu has no text, or was not watched",
				    m->event, (unsigned long long)m->source);
		return 0;
	}
	number = check_content(m);
	if (number) {
		check_placement(s, m, number);
		check_record(s, m, number);
	}
	return number;
}

/* ---- what is done with a message ---- */

/* Detaches the first item that can be, changes it, and frees it before or after the message. */
static bool free_detached(struct context *c, struct ripc_message *m)
{
	for (unsigned i = 0; i < m->nitems; i++) {
		struct iovec item = m->items[i];
		uint8_t first, last, *p;
		int rc;

		if (!item.iov_len ||
		    (m->placement[i] != RIPC_IN_POOL && m->placement[i] != RIPC_IN_SENDER_MEMORY))
			continue;
		first = *(uint8_t *)item.iov_base;
		last = ((uint8_t *)item.iov_base)[item.iov_len - 1];
		p = ripc_message_detach(m, i);
		if (!p) {
			if (errno != ENOMEM)
				board_fault("ripc_message_detach: %s", strerror(errno));
			return false;
		}
		if (p[0] != first || p[item.iov_len - 1] != last)
			board_fault("a detached item has other bytes");
		if (one_in(2))
			memset(p, 0x77, item.iov_len);
		if (one_in(2)) {
			ripc_message_free(m);
			m = NULL;
		}
		rc = ripc_buf_free(c->handle, p + chance(item.iov_len));
		if (rc)
			board_fault("a detached item cannot be freed: %d: %s", rc,
				    ripc_error_detail());
		ripc_message_free(m);
		return true;
	}
	return false;
}

/* With its windows and return buffers, which are the application's again. */
static void free_message(struct context *c, struct ripc_message *m)
{
	void *bases[RIPC_ITEMS_MAX];
	unsigned n = 0;

	pthread_mutex_lock(&c->lock);
	for (unsigned i = 0; i < m->nitems; i++) {
		struct buffer *b = NULL;

		if (m->items[i].iov_len &&
		    (m->placement[i] == RIPC_IN_RETURN_BUFFER || m->placement[i] == RIPC_IN_WINDOW))
			b = buffer_find(c, m->items[i].iov_base);
		if (b && b->state == BUFFER_IN_MESSAGE) {
			bases[n++] = b->base;
			b->state = BUFFER_NONE;
		}
	}
	pthread_mutex_unlock(&c->lock);
	if (!one_in(8) || !free_detached(c, m))
		ripc_message_free(m);
	while (n--) {
		int rc = ripc_buf_free(c->handle, bases[n]);

		if (rc && rc != -ESHUTDOWN)
			board_fault("a returned buffer cannot be freed: %d: %s", rc,
				    ripc_error_detail());
	}
}

/* Return: whether m is in the context's store. */
static bool store(struct context *c, struct ripc_message *m, uint64_t number)
{
	bool ok;

	pthread_mutex_lock(&c->lock);
	ok = c->nstored < STORED_MAX;
	if (ok)
		c->stored[c->nstored++] = (struct stored){m, number};
	pthread_mutex_unlock(&c->lock);
	return ok;
}

static void handle(struct service *s, struct ripc_message *m, uint64_t number)
{
	if (!number) {
		ripc_message_free(m);
	} else if (m->call) {
		int rc = ripc_message_cancelled(m);

		if (rc < 0 && rc != -ESHUTDOWN)
			board_fault("ripc_message_cancelled: %d", rc);
		if (one_in(3) && store(s->context, m, number))
			return;
		answer_send(m, number, false);
		free_message(s->context, m);
	} else {
		if (one_in(6) && board_running())
			send_on(s, m);
		if (!one_in(10) || !store(s->context, m, number))
			free_message(s->context, m);
	}
}

/* ---- operations ---- */

/* As an event loop does. Return: as ripc_receive(). */
static int receive_by_descriptor(struct service *s, struct ripc_message **m)
{
	int fd = ripc_service_fd(s->handle);
	struct pollfd p = {.fd = fd, .events = POLLIN};

	if (fd < 0 && fd != -ESHUTDOWN)
		board_fault("ripc_service_fd: %d", fd);
	if (fd < 0)
		return fd;
	/* If the service ends meanwhile, this may be another descriptor: that does no harm. */
	poll(&p, 1, (int)chance(20));
	board_count(EVENT_DESCRIPTOR);
	return TIMED(0, ripc_receive(s->handle, m, 0));
}

/* Return: as ripc_receive(); -EAGAIN: or another thread is receiving. */
static int receive(struct service *s, int timeout_ms)
{
	struct ripc_message *m = NULL;
	uint64_t number = 0;
	int rc;

	if (s->ordered ? pthread_rwlock_trywrlock(&s->receiving)
		       : pthread_rwlock_tryrdlock(&s->receiving))
		return -EAGAIN;
	rc = one_in(12) ? receive_by_descriptor(s, &m)
			: TIMED(timeout_ms, ripc_receive(s->handle, &m, timeout_ms));
	if (rc && rc != -EAGAIN && rc != -ETIMEDOUT && rc != -ESHUTDOWN)
		board_fault("ripc_receive: %d: %s", rc, ripc_error_detail());
	/* Else the message is freed with the context. */
	if (!rc && context_use(s->context)) {
		number = check(s, m);
		pthread_rwlock_unlock(&s->receiving);
		handle(s, m, number);
		context_leave(s->context);
		return rc;
	}
	pthread_rwlock_unlock(&s->receiving);
	if (!rc)
		board_lose(s->id);
	else if (rc == -ESHUTDOWN)
		service_lost(s);
	return rc;
}

void receive_some(struct service *s)
{
	uint64_t max = 1 + chance(30);
	int timeout_ms = one_in(2) ? 0 : (int)chance(40);

	while (max-- && !receive(s, timeout_ms))
		timeout_ms = 0;
}

bool receive_all(struct service *s)
{
	bool some = false;

	while (!receive(s, 100))
		some = true;
	return some;
}

/* With context_use(). */
static void use_stored(struct context *c, struct stored stored)
{
	uint64_t number = check_content(stored.message);

	if (number != stored.number)
		board_fault("a message changed before it was freed: %llu is %llu",
			    (unsigned long long)stored.number, (unsigned long long)number);
	if (!stored.message->call) {
		free_message(c, stored.message);
	} else if (one_in(3)) {
		answer_start(c, stored.message, number, free_message);
	} else {
		answer_send(stored.message, number, true);
		free_message(c, stored.message);
	}
}

void receive_stored(struct context *c)
{
	struct stored stored = {0};

	if (!context_use(c))
		return;
	pthread_mutex_lock(&c->lock);
	if (c->nstored) {
		uint64_t at = chance(c->nstored);

		stored = c->stored[at];
		c->stored[at] = c->stored[--c->nstored];
	}
	pthread_mutex_unlock(&c->lock);
	if (stored.message)
		use_stored(c, stored);
	context_leave(c);
}

void receive_all_stored(struct context *c)
{
	for (unsigned i = 0; i < STORED_MAX; i++)
		receive_stored(c);
}
