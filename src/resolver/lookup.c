/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "resolver/state.h"

#include "base/clock.h"
#include "base/log.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Gaps between the requests of one look-up, in ms; the last one repeats. */
static const uint32_t retry_ms[] = {5, 15, 40, 100, 250};

#define UNICAST   2 /* requests of a refresh sent to the known holder alone */
#define BROADCAST 8 /* one refresh in this many is broadcast, to find a second holder */

static void send_request(struct ripc__rcore *core, struct ripc__lookup *l, uint64_t now_ns)
{
	struct ripc__resolver_msg msg = {
		.kind = RIPC__RESOLVE_REQUEST, .service = l->node.id, .nonce = l->nonce};
	struct ripc__claim *carried = ripc__claim_next_to_send(core);
	const size_t last = sizeof(retry_ms) / sizeof(retry_ms[0]) - 1;
	const struct ripc__backend_addr *to = NULL;
	struct ripc__cached *c;
	uint64_t next_ns;

	ripc__rcore_own_record(core, carried, now_ns, &msg.record);
	next_ns = now_ns + ripc__rcore_jitter_ns(core, retry_ms[MIN(l->requests, last)]);
	if (l->unicast && l->requests < UNICAST) {
		c = ripc__cache_find(&core->cache, l->node.id);
		to = c && c->location.len ? &c->location : NULL;
	}
	l->requests++;
	ripc__timers_set(&core->timers, &l->timer, MIN(next_ns, l->end_ns));
	ripc__rcore_send(core, to, &msg);
}

struct ripc__lookup *ripc__lookup_find(struct ripc__rcore *core, uint64_t service)
{
	return (struct ripc__lookup *)ripc__table_find(&core->lookups, service);
}

void ripc__lookup_remove(struct ripc__rcore *core, struct ripc__lookup *l)
{
	if (l->negative)
		ripc__list_del(&l->link);
	ripc__pending_clear(&l->pending);
	ripc__timers_remove(&core->timers, &l->timer);
	ripc__table_remove(&core->lookups, &l->node);
	free(l);
}

bool ripc__lookup_has_waiter(const struct ripc__lookup *l)
{
	return !l->refresh && (!l->negative || l->pending.events);
}

static void lookup_begin(struct ripc__rcore *core, struct ripc__lookup *l, bool refresh,
			 uint64_t now_ns)
{
	l->nonce = ripc__rcore_nonce(core);
	l->requests = 0;
	l->refresh = refresh;
	l->unicast = refresh && ripc__rcore_random(core) % BROADCAST;
	l->end_ns = now_ns + core->env.resolve_timeout_ms * RIPC__MS;
	send_request(core, l, now_ns);
}

/* Removes the oldest negative look-up without pending events. Return: whether there was one. */
static bool remove_negative(struct ripc__rcore *core)
{
	struct ripc__lookup *l;

	ripc__list_for_each_entry (l, &core->negatives, link) {
		if (l->pending.events)
			continue;
		ripc__lookup_remove(core, l);
		return true;
	}
	return false;
}

static void lookup_due(struct ripc__rcore *core, struct ripc__timer *timer, uint64_t now_ns)
{
	struct ripc__lookup *l = ripc__list_entry(timer, struct ripc__lookup, timer);

	if (!l->negative && now_ns < l->end_ns) {
		send_request(core, l, now_ns);
	} else if (l->refresh || (l->negative && !l->pending.events)) {
		ripc__lookup_remove(core, l);
	} else if (l->negative) {
		/* Freed when its event is taken. */
		ripc__timers_set(&core->timers, &l->timer, now_ns + 100 * RIPC__MS);
	} else {
		l->negative = true;
		ripc__list_add(&core->negatives, &l->link);
		ripc__timers_set(&core->timers, &l->timer,
				 now_ns + core->env.negative_ms * RIPC__MS);
		ripc__pending_add(&core->pendings, &l->pending, RIPC__UNRESOLVED);
	}
}

static void lookup_event(struct ripc__rcore *core, struct ripc__pending *p,
			 struct ripc__resolver_event *ev, uint64_t now_ns)
{
	struct ripc__lookup *l = ripc__list_entry(p, struct ripc__lookup, pending);

	ev->service = l->node.id;
	ev->requests = l->requests;
	if (!core->env.negative_ms)
		ripc__lookup_remove(core, l);
}

int ripc__lookup_start(struct ripc__rcore *core, uint64_t service, bool refresh, uint64_t now_ns)
{
	struct ripc__lookup *l;

	if (core->lookups.count >= RIPC__LOOKUPS_MAX && !remove_negative(core))
		return ripc__fail(-EAGAIN, "%d look-ups are under way already", RIPC__LOOKUPS_MAX);
	l = calloc(1, sizeof(*l));
	if (!l || ripc__timers_add(&core->timers, &l->timer, RIPC__NEVER)) {
		free(l);
		return ripc__fail(-ENOMEM, "no memory for a look-up");
	}
	l->node.id = service;
	l->timer.due = lookup_due;
	l->pending.taken = lookup_event;
	ripc__table_add(&core->lookups, &l->node);
	lookup_begin(core, l, refresh, now_ns);
	return 0;
}

int ripc__rcore_lookup(struct ripc__rcore *core, uint64_t service, uint64_t now_ns)
{
	struct ripc__claim *h = ripc__claim_find(core, service);
	struct ripc__cached *c;
	struct ripc__lookup *l;

	if (h && h->state == HELD) {
		ripc__pending_add(&core->pendings, &h->pending, RIPC__RESOLVED);
		return 0;
	}
	c = ripc__cache_find(&core->cache, service);
	if (c) {
		ripc__cache_watch(&core->cache, c);
		ripc__pending_add(&core->pendings, &c->pending, RIPC__RESOLVED);
		return 0;
	}
	l = ripc__lookup_find(core, service);
	if (!l)
		return ripc__lookup_start(core, service, false, now_ns);
	if (l->negative)
		ripc__pending_add(&core->pendings, &l->pending, RIPC__UNRESOLVED);
	else if (l->refresh)
		lookup_begin(core, l, false, now_ns);
	return 0;
}

void ripc__rcore_lookup_cancel(struct ripc__rcore *core, uint64_t service)
{
	struct ripc__lookup *l = ripc__lookup_find(core, service);
	struct ripc__claim *h = ripc__claim_find(core, service);

	ripc__cache_unwatch(&core->cache, service);
	if (l && l->negative)
		ripc__pending_remove(&l->pending, RIPC__UNRESOLVED);
	else if (l && !l->refresh)
		ripc__lookup_remove(core, l);
	if (h)
		ripc__pending_remove(&h->pending, RIPC__RESOLVED);
}

void ripc__lookup_complete(struct ripc__rcore *core, struct ripc__cached *c)
{
	struct ripc__lookup *l = ripc__lookup_find(core, c->node.id);

	if (!l)
		return;
	if (ripc__lookup_has_waiter(l)) {
		ripc__cache_watch(&core->cache, c);
		ripc__pending_add(&core->pendings, &c->pending, RIPC__RESOLVED);
	}
	ripc__lookup_remove(core, l);
}
