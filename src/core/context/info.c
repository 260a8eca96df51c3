/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Queries: routes, limits, counters, transports. */
#include "config.h"
#include "auth/key.h"
#include "base/output.h"
#include "base/text.h"
#include "core/context/context.h"
#include "core/peer/attempt.h"
#include "core/group/group.h"
#include "core/peer/lane.h"
#include "core/peer/path.h"
#include "core/peer/peer.h"
#include "core/message/send.h"
#include "core/service/service.h"
#include "wire/bytes.h"

#include <stdio.h>

const char *ripc_version(void)
{
	return PACKAGE_VERSION;
}

/* Begins a call that fills a struct of this type. Return: 0: lock held; or an error. */
static int enter(struct ripc **ctx, const void *to, const char *type)
{
	int rc = ripc__check_output(to, type);

	return rc ? rc : ripc__context_enter(ctx);
}

/* The best address of the peer that transport i understands, or NULL. */
static const uint8_t *peer_addr(const struct ripc *ctx, const struct ripc__peer *p, unsigned i,
				size_t *len)
{
	const uint8_t *addr;
	unsigned tp;

	for (unsigned slot = 0; (addr = ripc__peer_path(ctx, p, slot, &tp, len)); slot++)
		if (tp == i)
			return addr;
	return NULL;
}

/*
 * Why this transport, then every one that was tried and failed, the likeliest cause first, then why
 * each of the others was not tried. Lock held.
 */
static void explain(struct ripc *ctx, const struct ripc__dest *d, struct ripc_route *route)
{
	struct ripc__peer *p = d->peer;
	const struct ripc__lane *lane = p->lane;
	const size_t size = sizeof(route->reason);
	size_t at = 0, len;
	unsigned slot;

	if (lane) {
		const struct ripc__tp *tp = &ctx->tp[lane->tp];

		at = ripc__append(route->reason, size, at, "%s: in use, %s", tp->ops->name,
				  lane->active ? "the first that connected"
					       : "the peer connected over it");
		if (ripc__peer_datagram(ctx, p, &slot, &len))
			at = ripc__append(route->reason, size, at, ", short messages by datagram");
		else if (tp->limits.eager_datagram && p->no_dgram_path)
			at = ripc__append(
				route->reason, size, at,
				", short messages too, since the peer takes no datagrams");
	}
	if (!lane || !ripc__list_empty(&p->lists->attempts)) {
		at = ripc__append(route->reason, size, at, "%s", lane ? "; " : "");
		if (at < size)
			at += ripc__attempts_text(ctx, p, route->reason + at, size - at);
	}
	for (unsigned i = 0; i < ctx->ntp; i++) {
		const struct ripc__tp *tp = &ctx->tp[i];

		if ((lane && lane->tp == i) || ripc__attempt_failed_over(p, i) ||
		    (p->out && p->out->tp == i) || (tp->t && tp->limits.caps & RIPC__CAP_SELF))
			continue;
		if (!tp->t)
			at = ripc__append(route->reason, size, at, "; %s: %s", tp->ops->name,
					  tp->why);
		else if (lane && lane->tp < i)
			at = ripc__append(route->reason, size, at, "; %s: not needed",
					  tp->ops->name);
		else if (!peer_addr(ctx, p, i, &len))
			at = ripc__append(route->reason, size, at,
					  "; %s: the peer has no address on it", tp->ops->name);
	}
}

static void fill_route(struct ripc *ctx, const struct ripc__dest *d, struct ripc_route *route)
{
	const struct ripc__lane *lane;
	const struct ripc__tp *tp;
	const uint8_t *addr;
	const char *name;
	size_t len;

	memset(route, 0, sizeof(*route));
	route->service = d->id;
	if (!d->peer) {
		memcpy(route->instance, d->holder, 16);
		ripc__dest_why(ctx, d, route->reason, sizeof(route->reason));
		return;
	}
	memcpy(route->instance, d->peer->instance, 16);
	lane = d->peer->lane;
	if (lane) {
		tp = &ctx->tp[lane->tp];
		route->connected = 1;
		route->short_max = ripc__short_max(ctx, d, &name);
		snprintf(route->transport, sizeof(route->transport), "%s", tp->ops->name);
		addr = peer_addr(ctx, d->peer, lane->tp, &len);
		if (addr)
			tp->ops->describe(addr, len, route->address, sizeof(route->address));
	}
	explain(ctx, d, route);
}

/* The name is in the resolver's record, which may have expired: then the route has none. */
static void describe(struct ripc *ctx, const struct ripc__dest *d, struct ripc_route *route)
{
	const struct ripc__record *record = ripc__resolver_peek(ctx->resolver, d->id);
	struct ripc_route full;

	fill_route(ctx, d, &full);
	if (record)
		memcpy(full.name, record->name, sizeof(full.name));
	ripc__store_output(route, &full, sizeof(full));
}

int RIPC__NO_ANALYSIS ripc_route_lookup(struct ripc *ctx, uint64_t dest, struct ripc_route *route,
					int timeout_ms)
{
	struct ripc__dest *d;
	uint64_t deadline;
	int rc = route ? ripc__check_output(route, "ripc_route") : 0;

	if (!rc && (!dest || ripc__group_is_name(dest)))
		rc = ripc__fail(-EINVAL, "%" PRIu64 " is no service id", dest);
	if (!rc)
		rc = ripc__context_enter(&ctx);
	if (rc)
		return rc;
	d = ripc__dest_get(ctx, dest);
	if (!d) {
		rc = ripc__fail(-ENOMEM, "no memory for %s", ripc__service_text(ctx, dest));
		ripc__unlock(ctx);
		return rc;
	}
	d->users++;
	deadline = ripc__deadline(ctx, timeout_ms);
	if (!timeout_ms && ripc__dest_reach(ctx, d))
		ripc__progress(ctx);
	while (!rc && ripc__dest_reach(ctx, d)) {
		if (ctx->closing)
			rc = ripc__fail(-ESHUTDOWN, "the context is being closed");
		else if (!timeout_ms ||
			 (ripc__wait(ctx, &d->waitq, deadline) && ripc__dest_reach(ctx, d)))
			rc = ripc__dest_not_reached(ctx, d, timeout_ms);
	}
	if (route)
		describe(ctx, d, route);
	d->users--;
	ripc__unlock(ctx);
	return rc;
}

/* The destination; NULL: not known, or of the name of a group, which is no service. */
static struct ripc__dest *dest_of_service(struct ripc *ctx, uint64_t id)
{
	return ripc__group_is_name(id) ? NULL : ripc__dest_find(ctx, id);
}

int RIPC__NO_ANALYSIS ripc_route_get(struct ripc *ctx, uint64_t dest, struct ripc_route *route)
{
	struct ripc__dest *d;
	int rc = enter(&ctx, route, "ripc_route");

	if (rc)
		return rc;
	d = dest_of_service(ctx, dest);
	if (d)
		describe(ctx, d, route);
	else
		rc = ripc__fail(-ENOENT, "nothing is known of %s", ripc__service_text(ctx, dest));
	ripc__unlock(ctx);
	return rc;
}

int RIPC__NO_ANALYSIS ripc_route_limits(struct ripc *ctx, uint64_t dest, struct ripc_limits *limits)
{
	struct ripc_limits full = {
		.short_max = RIPC_SHORT_GUARANTEED,
		.long_max = (UINT64_C(1) << RIPC__LEN_BITS) - 1,
		.items_max = RIPC_ITEMS_MAX,
		.return_buffers_max = RIPC_RETURN_BUFFERS_MAX,
	};
	const struct ripc__dest *d;
	const char *name;
	int rc = enter(&ctx, limits, "ripc_limits");

	if (rc)
		return rc;
	if (dest) {
		d = dest_of_service(ctx, dest);
		full.short_max = d ? ripc__short_max(ctx, d, &name) : 0;
	}
	if (!full.short_max)
		rc = ripc__fail(-ENOENT, "%s is not connected: ripc_route_lookup() does that",
				ripc__service_text(ctx, dest));
	ripc__unlock(ctx);
	ripc__store_output(limits, &full, sizeof(full));
	return rc;
}

int RIPC__NO_ANALYSIS ripc_context_stats(struct ripc *ctx, struct ripc_stats *stats)
{
	struct ripc__auth_counts counts;
	struct ripc_stats full;
	int rc = enter(&ctx, stats, "ripc_stats");

	if (rc)
		return rc;
	full = ctx->stats;
	for (struct ripc_service *s = ctx->services; s; s = s->hh.next)
		ripc__service_add_stats(s, &full);
	full.bad_messages += ripc__resolver_bad_messages(ctx->resolver);
	if (ctx->auth) {
		ripc__auth_counts(ctx->auth, &counts);
		full.unauthenticated = counts.unauthenticated + counts.late;
	} else {
		full.unauthenticated = ripc__resolver_sealed(ctx->resolver);
	}
	ripc__unlock(ctx);
	ripc__store_output(stats, &full, sizeof(full));
	return 0;
}

int RIPC__NO_ANALYSIS ripc_service_stats(struct ripc_service *service, struct ripc_stats *stats)
{
	struct ripc_stats full;
	struct ripc *ctx;
	int rc = ripc__service_context(service, &ctx);

	if (!rc)
		rc = ripc__check_output(stats, "ripc_stats");
	if (!rc)
		rc = ripc__service_lock(service, ctx);
	if (rc)
		return rc;
	full = service->stats;
	full.queued = service->queued;
	ripc__store_output(stats, &full, sizeof(full));
	ripc__service_unlock(service, ctx);
	return 0;
}

int RIPC__NO_ANALYSIS ripc_peer_stats(struct ripc *ctx, uint64_t dest, struct ripc_stats *stats)
{
	struct ripc_stats full = {0};
	struct ripc__dest *d;
	int rc = enter(&ctx, stats, "ripc_stats");

	if (rc)
		return rc;
	d = dest_of_service(ctx, dest);
	if (d && d->peer) {
		const struct ripc__peer_stats *s = &d->peer->stats;

		full.short_sent = s->short_sent;
		full.short_received = s->short_received;
		full.long_sent = s->long_sent;
		full.long_received = s->long_received;
		full.bytes_sent = s->bytes_sent;
		full.bytes_received = s->bytes_received;
		full.credit_stalls = s->credit_stalls;
		full.queue_stalls = s->queue_stalls;
		full.datagrams_lost = s->lost;
		full.duplicates = s->duplicates;
		full.bad_messages = s->bad_messages;
		full.lanes_opened = s->lanes_opened;
		full.lanes_lost = s->lanes_lost;
		full.lanes = d->peer->lane != NULL;
		ripc__store_output(stats, &full, sizeof(full));
	} else {
		rc = ripc__fail(-ENOENT, "nothing is known of %s", ripc__service_text(ctx, dest));
	}
	ripc__unlock(ctx);
	return rc;
}

int RIPC__NO_ANALYSIS ripc_group_stats(struct ripc *ctx, uint64_t group, const uint8_t *sender,
				       struct ripc_group_stats *stats)
{
	struct ripc_group_stats full = {0};
	int rc = enter(&ctx, stats, "ripc_group_stats");

	if (rc)
		return rc;
	rc = ripc__group_stats(ctx, group, sender, &full);
	ripc__unlock(ctx);
	if (!rc)
		ripc__store_output(stats, &full, sizeof(full));
	return rc;
}

int RIPC__NO_ANALYSIS ripc_transport_info(struct ripc *ctx, unsigned i, const char **name,
					  char *text, size_t len)
{
	uint8_t addr[RIPC__ADDRESS_MAX];
	struct ripc__tp *tp;
	int n, rc;

	if (!name || !text || !len)
		return ripc__fail(-EINVAL, "nowhere to store the answer");
	rc = ripc__context_enter(&ctx);
	if (rc)
		return rc;
	if (i >= ctx->ntp) {
		rc = ripc__fail(-ENOENT, "there are %u transports", ctx->ntp);
		ripc__unlock(ctx);
		return rc;
	}
	tp = &ctx->tp[i];
	*name = tp->ops->name;
	if (tp->t) {
		n = tp->ops->address(tp->t, addr, sizeof(addr));
		if (n < 0)
			snprintf(text, len, "no address at present");
		else
			tp->ops->describe(addr, (size_t)n, text, len);
	} else {
		snprintf(text, len, "%s", tp->why);
	}
	rc = tp->t != NULL;
	ripc__unlock(ctx);
	return rc;
}

int RIPC__NO_ANALYSIS ripc_resolver_info(struct ripc *ctx, unsigned i, const char **name,
					 char *text, size_t len)
{
	int rc;

	if (!name || !text || !len)
		return ripc__fail(-EINVAL, "nowhere to store the answer");
	rc = ripc__context_enter(&ctx);
	if (rc)
		return rc;
	rc = ripc__resolver_entry(ctx->resolver, i, name, text, len);
	if (rc < 0)
		ripc__fail(rc, "there is no resolver back end %u", i);
	ripc__unlock(ctx);
	return rc;
}
