/* SPDX-License-Identifier: LGPL-2.1-or-later */
#define _GNU_SOURCE
#include "memory.h"

#include "chance.h"
#include "watchdog.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define RETURN_BUFFERS_MAX 60 /* then no more are allocated */
#define WINDOWS_MAX        40 /* then no more windows are added */

bool memory_alloc(struct memory *m, struct context *c, uint64_t len, uint64_t dest)
{
	int rc;

	*m = (struct memory){.len = len, .context = c};
	switch (chance(5)) {
	case 0:
		m->base = malloc(len);
		return m->base;
	case 1:
		m->base = malloc(len);
		rc = ripc_buf_register(c->handle, m->base, len);
		if (!rc)
			m->kind = MEMORY_REGISTERED;
		else if (rc != -ESHUTDOWN && rc != -ENOMEM)
			board_fault("ripc_buf_register: %d: %s", rc, ripc_error_detail());
		return true;
	case 2:
		m->base = ripc_buf_alloc(c->handle, 1 + chance(len));
		if (m->base) {
			void *moved = ripc_buf_realloc(c->handle, m->base, len);

			if (!moved)
				ripc_buf_free(c->handle, m->base);
			m->base = moved;
		}
		break;
	case 3:
		m->base = ripc_buf_alloc(c->handle, len);
		break;
	default:
		m->base = ripc_buf_alloc_for(c->handle, len, dest);
	}
	m->kind = MEMORY_BUFFER;
	if (!m->base && errno != ESHUTDOWN && errno != EINVAL && errno != ENOMEM)
		board_fault("ripc_buf_alloc(%llu): %s", (unsigned long long)len, strerror(errno));
	return m->base;
}

void memory_free(struct memory *m)
{
	int rc = 0;

	switch (m->kind) {
	case MEMORY_REGISTERED:
		rc = ripc_buf_unregister(m->context->handle, m->base);
		/* Fall through. */
	case MEMORY_HEAP:
		free(m->base);
		break;
	case MEMORY_BUFFER:
		rc = ripc_buf_free(m->context->handle, m->base + chance(m->len));
	}
	if (rc && rc != -ESHUTDOWN)
		board_fault("memory of kind %d cannot be freed: %d: %s", m->kind, rc,
			    ripc_error_detail());
	m->base = NULL;
}

void memory_closed(struct memory *m)
{
	if (m->kind != MEMORY_BUFFER)
		free(m->base);
	m->base = NULL;
}

unsigned return_buffers_alloc(struct service *s, struct iovec *buffers)
{
	struct context *c = s->context;
	unsigned n = 0, max = 1 + (unsigned)chance(3);
	bool ok = true;

	while (ok && n < max) {
		uint64_t len = 1 + chance_size(LONG_BYTES_MAX / 2);
		void *base = ripc_buf_alloc(c->handle, len);

		if (!base)
			break;
		pthread_mutex_lock(&c->lock);
		ok = buffer_count(c) < RETURN_BUFFERS_MAX &&
		     buffer_add(c, base, len, BUFFER_CHANGING, s->uid);
		pthread_mutex_unlock(&c->lock);
		if (ok)
			buffers[n++] = (struct iovec){base, len};
		else
			ripc_buf_free(c->handle, base);
	}
	return n;
}

/* A call has ended that changed the state of a buffer. It may have come back as an item before. */
static void buffer_changed(struct context *c, void *base, enum buffer_state state)
{
	struct buffer *b = buffer_find(c, base);

	if (b && b->state == BUFFER_CHANGING)
		b->state = state;
}

void return_buffers_sent(struct context *c, const struct iovec *buffers, unsigned n)
{
	pthread_mutex_lock(&c->lock);
	for (unsigned i = 0; i < n; i++)
		buffer_changed(c, buffers[i].iov_base, BUFFER_RETURN);
	pthread_mutex_unlock(&c->lock);
}

void return_buffers_free(struct context *c, const struct iovec *buffers, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		int rc;

		pthread_mutex_lock(&c->lock);
		buffer_find(c, buffers[i].iov_base)->state = BUFFER_NONE;
		pthread_mutex_unlock(&c->lock);
		rc = ripc_buf_free(c->handle, buffers[i].iov_base);
		if (rc && rc != -ESHUTDOWN)
			board_fault("a return buffer of a failed send cannot be freed: %d: %s", rc,
				    ripc_error_detail());
	}
}

static void add(struct service *s)
{
	struct context *c = s->context;
	bool for_service = one_in(2), ok;
	uint64_t len = 1 + chance_size(LONG_BYTES_MAX / 2);
	void *base = ripc_buf_alloc(c->handle, len);
	int rc;

	if (!base)
		return;
	pthread_mutex_lock(&c->lock);
	ok = buffer_count(c) < WINDOWS_MAX &&
	     buffer_add(c, base, len, BUFFER_CHANGING, for_service ? s->uid : 0);
	pthread_mutex_unlock(&c->lock);
	if (ok) {
		rc = ripc_window_add(c->handle, for_service ? s->handle : NULL, base, len);
		pthread_mutex_lock(&c->lock);
		buffer_changed(c, base, rc ? BUFFER_NONE : BUFFER_WINDOW);
		pthread_mutex_unlock(&c->lock);
		if (!rc)
			return;
		if (rc != -ESHUTDOWN && rc != -ENOMEM)
			board_fault("ripc_window_add: %d: %s", rc, ripc_error_detail());
	}
	ripc_buf_free(c->handle, base);
}

void window_add(struct service *s)
{
	if (context_use(s->context)) {
		add(s);
		context_leave(s->context);
	}
}

/* Any buffer in this state, of this service unless it is 0. */
static struct buffer *buffer_any(struct context *c, enum buffer_state state, uint32_t service)
{
	uint64_t first = chance(BUFFERS_MAX);

	for (uint64_t i = 0; i < BUFFERS_MAX; i++) {
		struct buffer *b = &c->buffers[(first + i) % BUFFERS_MAX];

		if (b->state == state && (!service || b->service == service))
			return b;
	}
	return NULL;
}

static void remove_window(struct context *c, void *base)
{
	int rc = TIMED(0, ripc_window_remove(c->handle, base));

	pthread_mutex_lock(&c->lock);
	buffer_changed(c, base, rc ? BUFFER_WINDOW : BUFFER_NONE);
	pthread_mutex_unlock(&c->lock);
	/* EINVAL: it is used up by a message in a queue. */
	if (rc && rc != -EINVAL && rc != -EBUSY && rc != -ESHUTDOWN)
		board_fault("ripc_window_remove: %d: %s", rc, ripc_error_detail());
	if (rc)
		return;
	rc = ripc_buf_free(c->handle, base);
	if (rc && rc != -ESHUTDOWN)
		board_fault("a removed window cannot be freed: %d: %s", rc, ripc_error_detail());
}

void window_remove(struct context *c)
{
	struct buffer *b;
	void *base = NULL;

	if (!context_use(c))
		return;
	pthread_mutex_lock(&c->lock);
	b = buffer_any(c, BUFFER_WINDOW, 0);
	if (b) {
		base = b->base;
		b->state = BUFFER_CHANGING;
	}
	pthread_mutex_unlock(&c->lock);
	if (base)
		remove_window(c, base);
	context_leave(c);
}

static void withdraw(struct service *s)
{
	struct context *c = s->context;
	uint8_t *base = NULL;
	uint64_t len = 0;
	struct buffer *b;
	int rc;

	/* First: another thread may allocate a buffer at the same address. */
	pthread_mutex_lock(&c->lock);
	b = buffer_any(c, BUFFER_RETURN, s->uid);
	if (b) {
		base = b->base;
		len = b->len;
		b->state = BUFFER_NONE;
	}
	pthread_mutex_unlock(&c->lock);
	if (!base)
		return;
	rc = TIMED(200, ripc_buf_free(c->handle, base + chance(len)));
	if (!rc)
		return;
	/* EBUSY: it is an item of a message in a queue. */
	if (rc != -EBUSY && rc != -ESHUTDOWN)
		board_fault("a return buffer cannot be withdrawn: %d: %s", rc, ripc_error_detail());
	pthread_mutex_lock(&c->lock);
	buffer_add(c, base, len, BUFFER_RETURN, s->uid);
	pthread_mutex_unlock(&c->lock);
}

void return_buffer_withdraw(struct service *s)
{
	if (pthread_rwlock_trywrlock(&s->receiving))
		return;
	if (context_use(s->context)) {
		withdraw(s);
		context_leave(s->context);
	}
	pthread_rwlock_unlock(&s->receiving);
}
