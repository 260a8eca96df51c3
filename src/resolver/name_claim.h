/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Names owed: a service that was taken over is registered here, but the kernel of this host has its name for the former
 * holder still. Until that lets go of it, which is tried again and again for a second, nobody is told that the service is ours.
 */
#ifndef RIPC_RESOLVER_NAME_CLAIM_H
#define RIPC_RESOLVER_NAME_CLAIM_H

#include <stdbool.h>
#include <stdint.h>

struct ripc__resolver;
struct ripc__resolver_event;

/* A name that the former holder of a service still has. */
struct ripc__name_claim {
	struct ripc__name_claim *next;
	uint64_t service;
	uint64_t end_ns; /* when to give up */
	bool registered; /* ours, but not told before the name is ours as well: or nobody would find us there */
	bool done; /* the name is ours, or given up */
	unsigned backend;
};

/* backend has the name of a service for its former holder. */
void ripc__name_claim_add(struct ripc__resolver *r, unsigned backend, uint64_t service);
/* The service is not ours any more, or has its name. */
void ripc__name_claim_cancel(struct ripc__resolver *r, uint64_t service);
/* Takes the names that former holders have let go of. */
void ripc__name_claim_retry(struct ripc__resolver *r);
/* Whether the word that a service is ours has to wait for its name. */
bool ripc__name_claim_defer(struct ripc__resolver *r, uint64_t service);
/* The next word that was held back and need not be any longer. Return: whether there was one. */
bool ripc__name_claim_event(struct ripc__resolver *r, struct ripc__resolver_event *ev);

#endif
