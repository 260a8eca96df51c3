/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "resolver/owed.h"

#include "base/clock.h"
#include "base/log.h"
#include "resolver/backend.h"
#include "resolver/core.h"
#include "resolver/inside.h"

#include <inttypes.h>
#include <stdlib.h>

enum {
	OWED_GAP_MS = 2, /* between two attempts to take over a name of this host */
};

/* A service taken over, for which a back end (the kernel of this host) still has the former holder's name. */
void ripc__owed_add(struct ripc__resolver *r, unsigned backend, uint64_t service)
{
	struct ripc__owed *o = calloc(1, sizeof(*o));

	/* Without memory for it the service is found by way of the other back ends only. */
	if (!o)
		return;
	o->service = service;
	o->backend = backend;
	o->end_ns = r->now_ns + r->timeout_ms * RIPC__MS;
	o->next = r->owed;
	r->owed = o;
}

void ripc__owed_forget(struct ripc__resolver *r, uint64_t service)
{
	for (struct ripc__owed **at = &r->owed, *o; (o = *at);) {
		if (o->service != service) {
			at = &o->next;
			continue;
		}
		*at = o->next;
		free(o);
	}
}

/* Takes the names that former holders have let go of. */
void ripc__owed_collect(struct ripc__resolver *r)
{
	if (r->now_ns < r->owed_ns)
		return;
	r->owed_ns = r->now_ns + OWED_GAP_MS * RIPC__MS;
	for (struct ripc__owed **at = &r->owed, *o; (o = *at);) {
		struct ripc__backend *b = r->backends[o->backend];

		if (o->done || (b->ops->hold(b, o->service) && r->now_ns < o->end_ns)) {
			at = &o->next;
			continue;
		}
		o->done = true;
		if (r->now_ns >= o->end_ns)
			ripc__log(RIPC_LOG_WARN,
				  "service %" PRIu64
				  " was taken over, but its former holder keeps its name in %s",
				  o->service, b->ops->name);
		at = &o->next;
	}
}

/* Whether the word that a service is ours has to wait for its name. */
bool ripc__owed_hold_back(struct ripc__resolver *r, uint64_t service)
{
	for (struct ripc__owed *o = r->owed; o; o = o->next) {
		if (o->service != service)
			continue;
		o->registered = true;
		return true;
	}
	return false;
}

/* The next word that was held back. */
bool ripc__owed_told(struct ripc__resolver *r, struct ripc__resolver_event *ev)
{
	for (struct ripc__owed *o = r->owed; o; o = o->next) {
		if (!o->registered || !o->done)
			continue;
		ev->kind = RIPC__REGISTERED;
		ev->service = o->service;
		ev->text[0] = 0;
		ripc__owed_forget(r, o->service);
		return true;
	}
	return false;
}
