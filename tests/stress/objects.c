/* SPDX-License-Identifier: LGPL-2.1-or-later */
#define _GNU_SOURCE
#include "objects.h"

#include "chance.h"
#include "watchdog.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const struct setup *setup;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of what follows */
static struct context *contexts[CONTEXTS_MAX];
static unsigned ncontexts;
static struct context *all_contexts;
static struct service *all_services;

struct context *context_any(void)
{
	struct context *c;

	pthread_mutex_lock(&lock);
	c = ncontexts ? contexts[chance(ncontexts)] : NULL;
	pthread_mutex_unlock(&lock);
	return c;
}

struct service *service_any(struct context *c)
{
	struct service *s;

	if (!c)
		return NULL;
	pthread_mutex_lock(&c->lock);
	s = c->nservices ? c->services[chance(c->nservices)] : NULL;
	pthread_mutex_unlock(&c->lock);
	return s;
}

void service_each(void (*fn)(struct service *s))
{
	struct service *first;

	pthread_mutex_lock(&lock);
	first = all_services;
	pthread_mutex_unlock(&lock);
	/* New ones come before the first. */
	for (struct service *s = first; s; s = s->next)
		if (!s->ended)
			fn(s);
}

bool context_use(struct context *c)
{
	c->users++;
	if (!c->closing)
		return true;
	c->users--;
	return false;
}

void context_await_closed(const struct context *c)
{
	while (!c->closed)
		board_pause(1);
}

void context_leave(struct context *c)
{
	c->users--;
}

struct buffer *buffer_find(struct context *c, const void *base)
{
	for (struct buffer *b = c->buffers; b < c->buffers + BUFFERS_MAX; b++)
		if (b->state != BUFFER_NONE && b->base == base)
			return b;
	return NULL;
}

struct buffer *buffer_add(struct context *c, void *base, uint64_t len, enum buffer_state state,
			  uint32_t service)
{
	for (struct buffer *b = c->buffers; b < c->buffers + BUFFERS_MAX; b++)
		if (b->state == BUFFER_NONE) {
			*b = (struct buffer){state, base, len, service};
			return b;
		}
	return NULL;
}

unsigned buffer_count(const struct context *c)
{
	unsigned n = 0;

	for (unsigned i = 0; i < BUFFERS_MAX; i++)
		n += c->buffers[i].state != BUFFER_NONE;
	return n;
}

void context_open(void)
{
	unsigned noptions = 0;
	struct context *c;
	int rc;

	while (noptions < 4 && setup->options[noptions])
		noptions++;
	c = calloc(1, sizeof(*c));
	if (!c)
		abort();
	c->options = setup->options[chance(noptions)];
	pthread_mutex_init(&c->lock, NULL);
	rc = TIMED(1500, ripc_open(&c->handle, c->options));
	if (rc) {
		board_fault("ripc_open(%s): %d: %s", c->options, rc, ripc_error_detail());
		free(c);
		return;
	}
	board_count(EVENT_OPENED);
	pthread_mutex_lock(&lock);
	c->next = all_contexts;
	all_contexts = c;
	if (ncontexts < CONTEXTS_MAX) {
		contexts[ncontexts++] = c;
		c = NULL;
	}
	pthread_mutex_unlock(&lock);
	if (c)
		context_close(c);
}

/* Removes it from those that threads take. Return: false: another thread closes it. */
static bool context_remove(struct context *c)
{
	if (atomic_exchange(&c->closing, true))
		return false;
	pthread_mutex_lock(&lock);
	for (unsigned i = 0; i < ncontexts; i++)
		if (contexts[i] == c)
			contexts[i--] = contexts[--ncontexts];
	pthread_mutex_unlock(&lock);
	while (c->users)
		board_pause(1);
	return true;
}

void context_close(struct context *c)
{
	struct service *services[SERVICES_MAX];
	unsigned n;
	int rc;

	if (!context_remove(c))
		return;
	pthread_mutex_lock(&c->lock);
	n = c->nservices;
	memcpy(services, c->services, sizeof(services));
	pthread_mutex_unlock(&c->lock);
	/* Before and after: a message may be sent to it meanwhile. */
	for (unsigned i = 0; i < n; i++)
		board_lose(services[i]->id);
	rc = TIMED(1000, ripc_close(c->handle));
	c->closed = true;
	if (rc)
		board_fault("ripc_close: %d", rc);
	for (unsigned i = 0; i < n; i++) {
		board_lose(services[i]->id);
		if (!atomic_exchange(&services[i]->ended, true))
			board_hold(services[i]->id, -1);
	}
	board_count(EVENT_CLOSED);
	board_note("has closed context %p", (void *)c);
	if (ripc_close(c->handle) != -EINVAL)
		board_fault("a context can be closed twice");
	if (ripc_buf_alloc(c->handle, 100))
		board_fault("a closed context has buffers");
}

void context_close_all(void)
{
	struct context *c;

	while ((c = context_any())) {
		struct ripc_stats stats = {.size = sizeof(stats)};

		ripc_context_stats(c->handle, &stats);
		if (stats.registered_bytes)
			board_fault("%llu bytes are registered at the end",
				    (unsigned long long)stats.registered_bytes);
		context_close(c);
	}
}

void service_register(struct context *c)
{
	uint64_t id = one_in(4) ? RIPC_ANY_ID : 1 + chance(IDS);
	unsigned flags = id != RIPC_ANY_ID && setup->takeover && one_in(3) ? RIPC_TAKEOVER : 0;
	struct service *s;
	int rc;

	pthread_mutex_lock(&c->lock);
	rc = c->nservices == SERVICES_MAX;
	pthread_mutex_unlock(&c->lock);
	if (rc)
		return;
	s = calloc(1, sizeof(*s));
	if (!s)
		abort();
	s->context = c;
	s->uid = board->services++;
	s->ordered = !one_in(4);
	s->datagrams = strstr(c->options, "short=udp");
	pthread_rwlock_init(&s->receiving, NULL);
	for (unsigned kind = 0; kind <= KIND_LONG; kind++)
		for (unsigned i = 0; i <= IDS; i++)
			pthread_mutex_init(&s->streams[kind][i].lock, NULL);
	/* It holds the id before the call returns. */
	board_hold(id, 1);
	rc = TIMED(1500, ripc_service_register(c->handle, id, flags, &s->handle));
	if (rc) {
		board_hold(id, -1);
		board_note("failed to register service %llu as %u: %d", (unsigned long long)id,
			   s->uid, rc);
		if (rc != -EADDRINUSE && rc != -ESHUTDOWN)
			board_fault("ripc_service_register(%llu, %u): %d: %s",
				    (unsigned long long)id, flags, rc, ripc_error_detail());
		free(s);
		return;
	}
	s->id = id == RIPC_ANY_ID ? ripc_service_id(s->handle) : id;
	board_note("%s service %llu as %u in context %p", flags ? "has taken" : "has registered",
		   (unsigned long long)s->id, s->uid, (void *)c);
	pthread_mutex_lock(&lock);
	s->next = all_services;
	all_services = s;
	pthread_mutex_unlock(&lock);
	pthread_mutex_lock(&c->lock);
	if (c->nservices < SERVICES_MAX) {
		c->services[c->nservices++] = s;
		s = NULL;
	}
	pthread_mutex_unlock(&c->lock);
	if (s)
		service_unregister(s, true);
}

/*
 * The windows and return buffers of a service that has ended are the application's. But windows may
 * hold items of answers: then the end of the context frees them.
 */
static void free_buffers(struct service *s)
{
	struct context *c = s->context;

	for (unsigned i = 0; i < BUFFERS_MAX; i++) {
		struct buffer *b = &c->buffers[i];
		void *base = NULL;
		int rc = 0;

		pthread_mutex_lock(&c->lock);
		if ((b->state == BUFFER_RETURN || (b->state == BUFFER_WINDOW && !s->calls)) &&
		    b->service == s->uid) {
			base = b->base;
			b->state = BUFFER_NONE;
		}
		pthread_mutex_unlock(&c->lock);
		if (base)
			rc = ripc_buf_free(c->handle, base);
		if (rc && rc != -ESHUTDOWN)
			board_fault("a buffer of an ended service cannot be freed: %d: %s", rc,
				    ripc_error_detail());
	}
}

void service_unregister(struct service *s, bool lossy)
{
	struct context *c = s->context;
	int rc;

	if (atomic_exchange(&s->ended, true))
		return;
	pthread_mutex_lock(&c->lock);
	for (unsigned i = 0; i < c->nservices; i++)
		if (c->services[i] == s)
			c->services[i--] = c->services[--c->nservices];
	pthread_mutex_unlock(&c->lock);
	/* Before and after: a message may be sent to it meanwhile. */
	if (lossy)
		board_lose(s->id);
	rc = TIMED(200, ripc_service_unregister(s->handle));
	if (rc && rc != -ESHUTDOWN)
		board_fault("ripc_service_unregister: %d: %s", rc, ripc_error_detail());
	if (lossy)
		board_lose(s->id);
	board_hold(s->id, -1);
	board_count(EVENT_UNREGISTERED);
	board_note("%s service %llu as %u", lossy ? "has unregistered" : "has lost",
		   (unsigned long long)s->id, s->uid);
	if (!rc && context_use(c)) {
		pthread_rwlock_wrlock(&s->receiving);
		free_buffers(s);
		pthread_rwlock_unlock(&s->receiving);
		context_leave(c);
	}
}

void service_lost(struct service *s)
{
	if (s->context->closing || s->ended)
		return;
	board_count(EVENT_SERVICE_LOST);
	service_unregister(s, false);
}

void objects_free(void)
{
	while (all_services) {
		struct service *s = all_services;

		all_services = s->next;
		for (unsigned i = 0; i <= IDS; i++)
			free(s->streams[KIND_RELIABLE][i].taken);
		free(s->last.slots);
		free(s->groups.slots);
		free(s);
	}
	while (all_contexts) {
		struct context *c = all_contexts;

		all_contexts = c->next;
		free(c);
	}
}
