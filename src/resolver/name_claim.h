/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Socket names still bound by a former holder. After a takeover the service is registered here, but
 * the kernel still has its name for the former holder. REGISTERED is deferred until the name is
 * bound here, with retries for one second.
 */
#ifndef RIPC_RESOLVER_NAME_CLAIM_H
#define RIPC_RESOLVER_NAME_CLAIM_H

#include <stdbool.h>
#include <stdint.h>

struct ripc__resolver;
struct ripc__resolver_event;

/* A name still bound by the former holder of a service. */
struct ripc__name_claim {
	struct ripc__name_claim *next;
	uint64_t service;
	uint64_t end_ns; /* end of the attempts */
	/*
	 * REGISTERED is deferred: without the name, peers on this host would not find the service
	 */
	bool registered;
	bool done; /* the name is bound here, or the attempts ended */
};

/* Waits for the name of a service. */
void ripc__name_claim_add(struct ripc__resolver *r, uint64_t service);
/* Ends the wait: the service was released, or its name is bound. */
void ripc__name_claim_cancel(struct ripc__resolver *r, uint64_t service);
/* Binds names that former holders have released. */
void ripc__name_claim_retry(struct ripc__resolver *r);
/* Whether REGISTERED of a service has to wait for its name. */
bool ripc__name_claim_defer(struct ripc__resolver *r, uint64_t service);
/* Takes the next deferred REGISTERED that is due. Return: whether there was one. */
bool ripc__name_claim_event(struct ripc__resolver *r, struct ripc__resolver_event *ev);

#endif
