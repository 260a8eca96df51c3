/* SPDX-License-Identifier: LGPL-2.1-or-later */
#define _GNU_SOURCE
#include "observe.h"

#include "chance.h"
#include "watchdog.h"

#include <errno.h>

static void watch(struct service *s, uint64_t dest)
{
	int rc = one_in(2) ? TIMED(0, ripc_watch(s->handle, dest))
			   : TIMED(0, ripc_unwatch(s->handle, dest));

	if (rc && rc != -ESHUTDOWN && rc != -ENOMEM)
		board_fault("watch of service %llu: %d: %s", (unsigned long long)dest, rc,
			    ripc_error_detail());
}

static void lookup(struct context *c, uint64_t dest)
{
	struct ripc_route route = {.size = sizeof(route)};
	int timeout_ms = chance_timeout();
	int rc = TIMED(timeout_ms, ripc_route_lookup(c->handle, dest, &route, timeout_ms));

	if (rc && rc != -EHOSTUNREACH && rc != -EAGAIN && rc != -ESHUTDOWN && rc != -ETIMEDOUT)
		board_fault("ripc_route_lookup: %d: %s", rc, ripc_error_detail());
	if (!rc && !route.connected)
		board_fault("ripc_route_lookup has connected nothing: %s", route.reason);
}

void observe_counters(struct context *c)
{
	struct ripc_stats stats = {.size = sizeof(stats)};
	int rc = ripc_context_stats(c->handle, &stats);

	if (rc && rc != -ESHUTDOWN)
		board_fault("ripc_context_stats: %d: %s", rc, ripc_error_detail());
	if (stats.bad_messages || stats.bad_peers || stats.unauthenticated)
		board_fault("the context has seen %llu bad messages, %llu bad peers, %llu "
			    "unauthenticated",
			    (unsigned long long)stats.bad_messages,
			    (unsigned long long)stats.bad_peers,
			    (unsigned long long)stats.unauthenticated);
}

static void next_completions(struct context *c)
{
	struct ripc_completion done = {.size = sizeof(done)};
	int timeout_ms = (int)chance(5), rc = 0;

	for (unsigned i = 0; !rc && i < 20; i++) {
		rc = TIMED(timeout_ms, ripc_completion_next(c->handle, &done, timeout_ms));
		if (!rc && (done.kind == RIPC_COMPLETION_REQUEST) != (done.request != NULL))
			board_fault("a completion of kind %u with request %p", done.kind,
				    (void *)done.request);
		if (!rc)
			board_count(EVENT_COMPLETION);
	}
	if (rc && rc != -EAGAIN && rc != -ETIMEDOUT && rc != -ESHUTDOWN)
		board_fault("ripc_completion_next: %d: %s", rc, ripc_error_detail());
}

void observe(struct service *s)
{
	uint64_t dest = 1 + chance(IDS);

	switch (chance(4)) {
	case 0:
		watch(s, dest);
		break;
	case 1:
		lookup(s->context, dest);
		break;
	case 2:
		observe_counters(s->context);
		break;
	default:
		next_completions(s->context);
	}
}
