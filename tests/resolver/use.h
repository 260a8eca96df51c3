/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The model of the random tests: the state of a service, as the application of a context knows it.
 * Calls and events change it; each event is checked against it.
 */
#ifndef RIPC_TESTS_RESOLVER_USE_H
#define RIPC_TESTS_RESOLVER_USE_H

#include "base/clock.h"
#include "harness.h"
#include "resolver/resolver.h"

enum held { NOTHING, PENDING, HELD };

struct use {
	enum held held;
	uint64_t since_ns;          /* start of PENDING or HELD */
	uint64_t asked_ns;          /* of the look-up under way; 0: none */
	bool watched;               /* looked up and not cancelled */
	bool reachable;             /* since asked_ns, a holder was in reach all the time */
	uint64_t negative_until_ns; /* a failed look-up is not repeated before then */
};

/* The application registers the service. */
static inline void use_register(struct use *u, uint64_t at_ns)
{
	u->held = PENDING;
	u->since_ns = at_ns;
}

/* The application looks the service up. @reachable: a holder is in reach at present. */
static inline void use_lookup(struct use *u, bool reachable, uint64_t at_ns)
{
	if (u->asked_ns)
		return;
	u->asked_ns = at_ns;
	u->reachable = at_ns > u->negative_until_ns && reachable;
}

static inline void use_cancel(struct use *u)
{
	u->asked_ns = 0;
	u->watched = false;
}

/* @context, @id: for the message of a check that fails. */
static inline void use_event(struct use *u, enum ripc__resolver_ev_kind kind, unsigned context,
			     uint64_t id, uint64_t at_ns)
{
	switch (kind) {
	case RIPC__RESOLVED:
		ck_assert(u->asked_ns || u->watched);
		u->watched = true;
		u->asked_ns = 0;
		break;
	case RIPC__UNRESOLVED:
		ck_assert(u->asked_ns);
		ck_assert_msg(!u->reachable,
			      "context %u: service %u has a holder in reach and was not found",
			      context, (unsigned)id);
		u->asked_ns = 0;
		u->negative_until_ns = at_ns + 100 * RIPC__MS;
		break;
	case RIPC__REGISTERED:
		ck_assert_int_eq(u->held, PENDING);
		u->held = HELD;
		u->since_ns = at_ns;
		break;
	case RIPC__CONFLICT:
		ck_assert_int_ne(u->held, NOTHING);
		u->held = NOTHING;
		break;
	case RIPC__GONE:
		ck_assert(u->watched);
		break;
	case RIPC__RIVAL:
		/* A takeover may still wait for the name. */
		ck_assert_int_ne(u->held, NOTHING);
		break;
	}
}

#endif
