/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/service/service.h"

#include <assert.h>
#include <stdlib.h>

#define TO(state) (1u << RIPC__SERVICE_##state)

__attribute__((unused)) static const unsigned next_states[RIPC__SERVICE_STATES] = {
	[RIPC__SERVICE_ENDED] = TO(CLAIMING),
	[RIPC__SERVICE_CLAIMING] = TO(ACTIVE) | TO(CONFLICT),
	[RIPC__SERVICE_CONFLICT] = 0,
	[RIPC__SERVICE_CLOSING] = 0,
	[RIPC__SERVICE_ACTIVE] = TO(TAKEN_OVER) | TO(CLOSING),
	[RIPC__SERVICE_TAKEN_OVER] = TO(CLOSING),
};

void ripc__service_set_state(struct ripc_service *s, enum ripc__service_state to)
{
	assert(next_states[s->state] & 1u << to);
	s->state = to;
}

struct ripc_service *ripc__service_any(const struct ripc *ctx, uint64_t id)
{
	struct ripc_service *s;

	HASH_FIND(hh, ctx->services, &id, sizeof(id), s);
	return s;
}

/*
 * Whether the resolver announces the id, and answers for it. REGISTERED may come later: with the
 * next pass, or when the former holder has released its name on this host.
 */
static bool is_held(const struct ripc *ctx, uint64_t id)
{
	const struct ripc__record *record = ripc__resolver_peek(ctx->resolver, id);

	return record && !memcmp(record->instance, ctx->instance, 16);
}

struct ripc_service *ripc__service_find(struct ripc *ctx, uint64_t id)
{
	struct ripc_service *s = ripc__service_any(ctx, id);

	if (s && s->state == RIPC__SERVICE_CLAIMING && is_held(ctx, id))
		ripc__service_set_state(s, RIPC__SERVICE_ACTIVE);
	return s && s->state == RIPC__SERVICE_ACTIVE ? s : NULL;
}

void ripc__service_deliver(struct ripc_service *s, struct ripc__message *m)
{
	struct ripc *ctx = s->ctx;
	uint64_t bytes = m->bytes + m->long_bytes;

	if (m->pub.is_long) {
		s->stats.long_received++;
	} else if (!m->pub.event) {
		s->stats.short_received++;
	}
	s->stats.bytes_received += bytes;
	m->next = NULL;
	if (s->last)
		s->last->next = m;
	else
		s->first = m;
	s->last = m;
	s->queued_shorts += !m->pub.is_long;
	s->queued_bytes += m->bytes;
	s->queued_long_bytes += m->long_bytes;
	ctx->stats.queued++;
	if (!s->queued++)
		ripc__ready_fd_signal(ctx, &s->ready, true);
	if (!ripc__list_empty(&s->receivers.waiters))
		ripc__wake(ctx, &s->receivers);
}

static void queue_uncount(struct ripc_service *s, const struct ripc__message *m)
{
	s->queued_shorts -= !m->pub.is_long;
	s->queued_bytes -= m->bytes;
	s->queued_long_bytes -= m->long_bytes;
	s->ctx->stats.queued--;
	/* If it is over, the next call fails at once: the descriptor stays readable. */
	if (!--s->queued && !ripc__service_over(s))
		ripc__ready_fd_signal(s->ctx, &s->ready, false);
}

void ripc__service_check_over(struct ripc_service *s)
{
	if (!ripc__service_over(s))
		return;
	ripc__ready_fd_signal(s->ctx, &s->ready, true);
	ripc__wake(s->ctx, &s->receivers);
}

struct ripc__message *ripc__service_pop(struct ripc_service *s)
{
	struct ripc__message *m = s->first;

	if (!m)
		return NULL;
	s->first = m->next;
	if (!s->first)
		s->last = NULL;
	queue_uncount(s, m);
	return m;
}

bool ripc__service_remove(struct ripc_service *s, struct ripc__message *m)
{
	struct ripc__message **at = &s->first, *before = NULL;

	while (*at && *at != m) {
		before = *at;
		at = &before->next;
	}
	if (!*at)
		return false;
	*at = m->next;
	if (s->last == m)
		s->last = before;
	queue_uncount(s, m);
	return true;
}

int ripc__service_context(const struct ripc_service *s, struct ripc **ctx)
{
	if (!s)
		return ripc__fail(-EINVAL, "no service");
	*ctx = ripc__service_owner(s);
	return *ctx ? ripc__check_owner(*ctx) : ripc__fail(-ESHUTDOWN, "the service is closed");
}

int ripc__service_closed_error(const struct ripc_service *s)
{
	if (s->state == RIPC__SERVICE_ENDED)
		return ripc__fail(-ESHUTDOWN, "the service is closed");
	return ripc__fail(-ESHUTDOWN, "%s is being closed", ripc__service_text(s->ctx, s->id));
}

void ripc__service_add_stats(const struct ripc_service *s, struct ripc_stats *sum)
{
	sum->short_sent += s->stats.short_sent;
	sum->short_received += s->stats.short_received;
	sum->long_sent += s->stats.long_sent;
	sum->long_received += s->stats.long_received;
	sum->bytes_sent += s->stats.bytes_sent;
	sum->bytes_received += s->stats.bytes_received;
}

void ripc__service_free(struct ripc_service *s)
{
	ripc__service_add_stats(s, &s->ctx->stats);
	ripc__ready_fd_close(s->ctx, &s->ready);
	free(s->conflict);
	ripc__handle_free(s, sizeof(*s));
}
