/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "resolver/name_claim.h"

#include "base/clock.h"
#include "base/log.h"
#include "resolver/backend.h"
#include "resolver/core.h"
#include "resolver/internal.h"

#include <inttypes.h>
#include <stdlib.h>

enum {
	RETRY_MS = 2, /* interval of attempts to bind a name of this host */
};

/* Waits for a socket name of this host that the former holder still has bound. */
void ripc__name_claim_add(struct ripc__resolver *r, uint64_t service)
{
	struct ripc__name_claim *o = calloc(1, sizeof(*o));

	/* Without memory only the other back ends find the service. */
	if (!o)
		return;
	o->service = service;
	o->end_ns = r->now_ns + r->timeout_ms * RIPC__MS;
	o->next = r->name_claims;
	r->name_claims = o;
}

void ripc__name_claim_cancel(struct ripc__resolver *r, uint64_t service)
{
	for (struct ripc__name_claim **at = &r->name_claims, *o; (o = *at);) {
		if (o->service != service) {
			at = &o->next;
			continue;
		}
		*at = o->next;
		free(o);
	}
}

void ripc__name_claim_retry(struct ripc__resolver *r)
{
	if (r->now_ns < r->name_claims_ns)
		return;
	r->name_claims_ns = r->now_ns + RETRY_MS * RIPC__MS;
	for (struct ripc__name_claim *o = r->name_claims; o; o = o->next) {
		struct ripc__backend *b = r->local;

		if (o->done || (b->ops->acquire(b, o->service) && r->now_ns < o->end_ns))
			continue;
		o->done = true;
		if (r->now_ns >= o->end_ns)
			ripc__log(RIPC_LOG_WARN,
				  "service %" PRIu64
				  " was taken over, but its former holder keeps its name in %s",
				  o->service, b->ops->name);
	}
}

bool ripc__name_claim_defer(struct ripc__resolver *r, uint64_t service)
{
	for (struct ripc__name_claim *o = r->name_claims; o; o = o->next) {
		if (o->service != service)
			continue;
		o->registered = true;
		return true;
	}
	return false;
}

bool ripc__name_claim_event(struct ripc__resolver *r, struct ripc__resolver_event *ev)
{
	for (struct ripc__name_claim *o = r->name_claims; o; o = o->next) {
		if (!o->registered || !o->done)
			continue;
		ev->kind = RIPC__REGISTERED;
		ev->service = o->service;
		ev->text[0] = ev->name[0] = 0;
		ripc__name_claim_cancel(r, o->service);
		return true;
	}
	return false;
}
