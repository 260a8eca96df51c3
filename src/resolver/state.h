/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The state of the resolver core, shared by core.c (messages, time, events), lookup.c, claim.c and
 * list.c.
 */
#ifndef RIPC_RESOLVER_STATE_H
#define RIPC_RESOLVER_STATE_H

#include "resolver/cache.h"
#include "resolver/core.h"

/*
 *   PROBING --no other holder answers--> HELD
 *   PROBING, HELD --another holds it--> LOST      any --unregistered--> DROPPED
 *
 * A claim never returns to an earlier state; claim.c asserts that.
 */
enum ripc__claim_state {
	PROBING, /* probes are being sent */
	HELD,    /* registered by this context */
	LOST,    /* another context holds it; kept until CONFLICT is taken */
	DROPPED, /* unregistered, not in the table; kept until its events are taken */
};

/* A service of this context. */
struct ripc__claim {
	struct ripc__node node;
	struct ripc__timer timer;      /* PROBING: the next probe */
	struct ripc__timer name_timer; /* REGISTER_TAKE_NAME: next attempt to acquire the name */
	struct ripc__pending pending;
	struct ripc__list link;      /* in core->claims */
	enum ripc__register_how how; /* REGISTER_TAKE_NAME: until the name is acquired */
	enum ripc__claim_state state;
	unsigned probes;     /* sent */
	uint64_t nonce;      /* of the probes */
	uint64_t since_ns;   /* start of HELD */
	uint64_t generation; /* generation of its records */
	/* end of the wait for back ends that have not answered (PROBING), and for the name */
	uint64_t end_ns;
	bool nameless;      /* REGISTERED waits for the name, which the former holder has */
	bool answered;      /* PROBING: another context has the service, or probes for it, too */
	unsigned announces; /* HELD: announcements left to send */
	bool moved;         /* LOST: by a takeover */
	char *name;         /* NULL: registered by its id alone */
	/* HELD: the rival reported last; LOST: the holder; NULL: unknown */
	struct ripc__record *rival;
	unsigned asked;              /* HELD: requests counted since asked_ns */
	uint64_t asked_ns;           /* start of that count */
	uint8_t verdict_sent_to[16]; /* instance of the rival that received our last VERDICT */
};

/* A look-up under way, the refresh of a record in use, or a negative answer. */
struct ripc__lookup {
	struct ripc__node node;
	struct ripc__timer timer;
	struct ripc__pending pending;
	struct ripc__list link; /* in core->negatives, if negative */
	uint64_t nonce;
	uint64_t end_ns;   /* end of the look-up */
	unsigned requests; /* sent */
	bool refresh;      /* a refresh: its failure is not reported */
	bool unicast;      /* the first requests go to the known holder only */
	bool negative;     /* failed; kept to answer further look-ups without a request */
};

/* A LIST that waits for its answer. */
struct ripc__list_answer {
	struct ripc__timer timer; /* RIPC__NEVER: unused */
	struct ripc__backend_addr to;
	uint64_t nonce;
	uint64_t first; /* smallest id asked for */
};

/* A context whose next page is asked for, until it arrives. */
struct ripc__list_ask {
	struct ripc__timer timer; /* RIPC__NEVER: all pages have arrived, or it was given up */
	struct ripc__backend_addr to;
	uint8_t instance[16];
	uint64_t first;    /* smallest id of the page; 0: all pages have arrived */
	unsigned requests; /* sent for this page */
};

struct ripc__rcore {
	struct ripc__rcore_env env;
	/* what all our records have in common: ids, lifetime and addresses; service 0 */
	struct ripc__record own;
	struct ripc__timers timers;
	struct ripc__list pendings;
	struct ripc__table held;     /* of struct ripc__claim */
	struct ripc__list claims;    /* the next request carries the first one */
	struct ripc__table lookups;  /* of struct ripc__lookup */
	struct ripc__list negatives; /* oldest first */
	struct ripc__cache cache;
	struct ripc__timer repeat; /* the next periodic claim */
	uint32_t hurried;          /* claims that follow without the usual pause */
	uint64_t given_up;         /* highest generation of the claims that were unregistered */
	uint64_t list_nonce;       /* of our LIST; 0: none is under way */
	struct ripc__list_ask *list_asks; /* RIPC__LIST_ASKS during a list; NULL: no memory */
	unsigned nlist_asks;              /* of them in use */
	bool list_untracked;              /* a page was asked for once, for want of an entry */
	struct ripc__list_answer list_answers[RIPC__LIST_ANSWERS];
	uint64_t list_since_ns;     /* start of list_pages */
	unsigned list_pages;        /* sent since then */
	uint64_t assert_ns;         /* earliest time of the next broadcast answer to a rival */
	uint64_t random;            /* state of the random number generator */
	uint64_t rx_count_since_ns; /* start of rx_count */
	unsigned rx_count;          /* requests and claims of others since then */
	unsigned rx_per_s;          /* rate over the previous period */
	uint64_t bad, ignored;      /* as in struct ripc__rcore_counts */
};

/* The outcome of a conflict: keep the service, lose it, or leave the decision to the other side. */
enum ripc__verdict { RIPC__VERDICT_KEEP, RIPC__VERDICT_LOSE, RIPC__VERDICT_DEFER };

/* --- state.c --- */

/* Random numbers: any, one that is not 0, and a time of @ms +- 25 % in nanoseconds. */
uint64_t ripc__rcore_random(struct ripc__rcore *core);
uint64_t ripc__rcore_nonce(struct ripc__rcore *core);
uint64_t ripc__rcore_jitter_ns(struct ripc__rcore *core, uint32_t ms);

/* Fills in the record of the own service @h; NULL: the own ids without addresses. */
void ripc__rcore_own_record(struct ripc__rcore *core, const struct ripc__claim *h, uint64_t now_ns,
			    struct ripc__record *record);
/* Bytes for names and listed services in a message with our addresses, sealed or not. */
size_t ripc__rcore_room(const struct ripc__rcore *core);
void ripc__rcore_send(struct ripc__rcore *core, const struct ripc__backend_addr *to,
		      const struct ripc__resolver_msg *msg);

/* --- list.c --- */

/* Return: 0 or -ENOMEM. */
int ripc__list_answers_init(struct ripc__rcore *core);
/* A LIST or LISTED has arrived. */
void ripc__list_input(struct ripc__rcore *core, const struct ripc__backend_addr *from,
		      const struct ripc__resolver_msg *msg, uint64_t now_ns);

/* --- lookup.c --- */

struct ripc__lookup *ripc__lookup_find(struct ripc__rcore *core, uint64_t service);
int ripc__lookup_start(struct ripc__rcore *core, uint64_t service, bool refresh, uint64_t now_ns);
void ripc__lookup_remove(struct ripc__rcore *core, struct ripc__lookup *l);

/* Whether the outcome is to be reported. */
bool ripc__lookup_has_waiter(const struct ripc__lookup *l);

/* Completes the look-up of a service whose record is in the cache. */
void ripc__lookup_complete(struct ripc__rcore *core, struct ripc__cached *c);

/* --- claim.c --- */

struct ripc__claim *ripc__claim_find(struct ripc__rcore *core, uint64_t service);
void ripc__claim_free(struct ripc__rcore *core, struct ripc__claim *h);

/*
 * The service that the next request carries, in rotation, so that peers learn all of them. NULL:
 * none is held.
 */
struct ripc__claim *ripc__claim_next_to_send(struct ripc__rcore *core);

/* Sends a message about an own service, with its record. */
void ripc__claim_send(struct ripc__rcore *core, const struct ripc__backend_addr *to,
		      const struct ripc__claim *h, enum ripc__resolver_kind kind, uint8_t flags,
		      uint64_t nonce, uint64_t now_ns);

/* Counts a request for the service, and announces the service to all if many peers ask at once. */
void ripc__claim_requested(struct ripc__rcore *core, struct ripc__claim *h, uint64_t now_ns);

/* core->repeat is due: sends the periodic claim. */
void ripc__claim_repeat(struct ripc__rcore *core, struct ripc__timer *timer, uint64_t now_ns);

/*
 * Reports once that another instance holds an own service, or has just released it. Not reported if
 * it may be the previous holder. @final: it is not the previous holder.
 */
void ripc__claim_conflict(struct ripc__rcore *core, struct ripc__claim *h,
			  const struct ripc__record *rival, bool final, uint64_t now_ns);

/*
 * Decides a conflict: another instance claims an own service. @decided: by that one, if the
 * generations are equal; @final: in any case, against us.
 */
enum ripc__verdict ripc__claim_resolve_conflict(struct ripc__rcore *core, struct ripc__claim *h,
						const struct ripc__record *rival, bool decided,
						bool final, uint64_t now_ns);
void ripc__claim_lost(struct ripc__rcore *core, struct ripc__claim *h,
		      const struct ripc__record *rival, uint64_t now_ns);

#endif
