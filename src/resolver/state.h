/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The state of the resolver core, shared by its parts: core.c (messages, time, events), lookup.c and claim.c. */
#ifndef RIPC_RESOLVER_STATE_H
#define RIPC_RESOLVER_STATE_H

#include "resolver/cache.h"
#include "resolver/core.h"

/* What a timer is embedded in. */
enum ripc__timer_kind {
	RIPC__TIMER_CLAIM,
	RIPC__TIMER_LOOKUP,
	RIPC__TIMER_CACHED,
	RIPC__TIMER_REPEAT
};

enum ripc__claim_state {
	PROBING, /* asking whether anybody objects */
	HELD,    /* ours */
	LOST,    /* another's; here until CONFLICT is told */
	DROPPED, /* given up, no longer in the table; here until what is pending is told */
};

/* A service of ours. */
struct ripc__claim {
	struct ripc__node node;
	struct ripc__timer timer; /* PROBING: the next probe */
	struct ripc__pending pending;
	TAILQ_ENTRY(ripc__claim) link; /* in core->claims, not when DROPPED */
	enum ripc__claim_state state;
	unsigned probes;     /* sent */
	uint64_t nonce;      /* of the probes */
	uint64_t since_ns;   /* when it became ours */
	uint64_t generation; /* of our records of it */
	uint64_t end_ns;  /* PROBING: when those that have not answered are waited for no longer */
	bool takeover;    /* PROBING: its holder is outbid */
	bool unannounced; /* HELD without an announcement */
	unsigned announces; /* HELD: how often it is yet to be said */
	bool moved;         /* LOST: it was taken over */
	uint8_t *rival;     /* record of the other holder met last, encoded; NULL if unknown */
	uint16_t rival_len;
	unsigned asked;              /* HELD: how often lately */
	uint64_t asked_ns;           /* since when that is counted */
	uint8_t verdict_sent_to[16]; /* instance of the rival that was last told to give the service up */
	uint8_t rival_reported[16]; /* HELD: of the rival that was told last, as RIVAL */
};

/* A look-up under way, the refresh of a record in use, or a negative answer. */
struct ripc__lookup {
	struct ripc__node node;
	struct ripc__timer timer;
	struct ripc__pending pending;
	TAILQ_ENTRY(ripc__lookup) link; /* in core->negatives, if negative */
	uint64_t nonce;
	uint64_t end_ns;   /* when it gives up */
	unsigned requests; /* sent */
	bool refresh;      /* nobody waits: its failure is not told */
	bool unicast;      /* the holder known is asked first, by itself */
	bool negative;     /* failed; kept so that the network is not asked again at once */
};

struct ripc__rcore {
	struct ripc__rcore_env env;
	struct ripc__record_addr *addrs; /* what env.addrs points to */
	struct ripc__timers timers;
	struct ripc__pendings pendings;
	struct ripc__table held;              /* of struct ripc__claim */
	TAILQ_HEAD(, ripc__claim) claims;     /* the first one speaks for us in the next request */
	struct ripc__table lookups;           /* of struct ripc__lookup */
	TAILQ_HEAD(, ripc__lookup) negatives; /* oldest first */
	size_t nnegatives;
	struct ripc__cache cache;
	struct ripc__timer repeat;  /* the next time a service is claimed again */
	uint64_t assert_ns;         /* not before this is a rival answered to all */
	uint64_t random;            /* state of the generator */
	uint64_t rx_count_since_ns; /* since when is counted what others ask and claim */
	unsigned rx_count;          /* so often */
	unsigned rx_per_s;          /* in the time before */
	uint64_t bad, ignored;      /* as in struct ripc__rcore_counts */
};

/* Who keeps a service that two hold. */
enum ripc__verdict { RIPC__VERDICT_KEEP, RIPC__VERDICT_LOSE, RIPC__VERDICT_DEFER };

/* --- core.c --- */

/* The generator: the next number, a number that is not 0, and a time of about @ms. */
uint64_t ripc__rcore_random(struct ripc__rcore *core);
uint64_t ripc__rcore_nonce(struct ripc__rcore *core);
uint64_t ripc__rcore_jitter_ns(struct ripc__rcore *core, uint32_t ms);

/* The record of this context for a service of its own; NULL: says who we are, and no address. */
void ripc__rcore_own_record(struct ripc__rcore *core, const struct ripc__claim *h, uint64_t now_ns,
			    struct ripc__record *record);
void ripc__rcore_send(struct ripc__rcore *core, const struct ripc__mcast_sender *to,
		      const struct ripc__resolver_msg *msg);

/* Takes the first of the things @p has to tell. */
enum ripc__resolver_ev_kind ripc__rcore_take_event(struct ripc__rcore *core, struct ripc__pending *p);

/* --- lookup.c --- */

struct ripc__lookup *ripc__lookup_find(struct ripc__rcore *core, uint64_t service);
int ripc__lookup_start(struct ripc__rcore *core, uint64_t service, bool refresh, uint64_t now_ns);
void ripc__lookup_remove(struct ripc__rcore *core, struct ripc__lookup *l);

/* Whether somebody is to be told its outcome. */
bool ripc__lookup_has_waiter(const struct ripc__lookup *l);

/* The record of a service is in the cache: whoever waits for it is served. */
void ripc__lookup_complete(struct ripc__rcore *core, struct ripc__cached *c);
void ripc__lookup_timer(struct ripc__rcore *core, struct ripc__lookup *l, uint64_t now_ns);
void ripc__lookup_event(struct ripc__rcore *core, struct ripc__lookup *l,
			struct ripc__resolver_event *ev, unsigned *requests);

/* --- claim.c --- */

struct ripc__claim *ripc__claim_find(struct ripc__rcore *core, uint64_t service);
void ripc__claim_free(struct ripc__rcore *core, struct ripc__claim *h);
void ripc__claim_timer(struct ripc__rcore *core, struct ripc__claim *h, uint64_t now_ns);
void ripc__claim_event(struct ripc__rcore *core, struct ripc__claim *h,
		       struct ripc__resolver_event *ev, uint64_t now_ns);

/* The services take turns in speaking for the context, so that others learn them all. NULL: none is held. */
struct ripc__claim *ripc__claim_next_to_send(struct ripc__rcore *core);

/* Sends a message about a service of ours, with its record. */
void ripc__claim_send(struct ripc__rcore *core, const struct ripc__mcast_sender *to,
		      const struct ripc__claim *h, enum ripc__resolver_kind kind, uint8_t flags,
		      uint64_t nonce, uint64_t now_ns);

/* Says that the service is ours: everybody learns it, and another holder will object. */
void ripc__claim_announce(struct ripc__rcore *core, const struct ripc__claim *h, uint64_t now_ns);

/* It was asked for. Says it to all if many ask at the same time. */
void ripc__claim_requested(struct ripc__rcore *core, struct ripc__claim *h, uint64_t now_ns);

/* The time has come to say it again. */
void ripc__claim_reannounce(struct ripc__rcore *core, uint64_t now_ns);

/* Bids higher than the holder of a service that we are taking over. Return: whether that could be done. */
bool ripc__claim_raise_generation(struct ripc__claim *h, const struct ripc__record *rival);

/* Another instance holds, or has just given up, a service of ours: told once, unless it may be the one that held it before us.
 * @final: it is not. */
void ripc__claim_conflict(struct ripc__rcore *core, struct ripc__claim *h,
			  const struct ripc__record *rival, bool final, uint64_t now_ns);

/* Another instance says it holds a service of ours. @final: that cannot be disputed. */
enum ripc__verdict ripc__claim_resolve_conflict(struct ripc__rcore *core, struct ripc__claim *h,
						const struct ripc__record *rival, uint8_t flags,
						bool final, uint64_t now_ns);
void ripc__claim_lost(struct ripc__rcore *core, struct ripc__claim *h,
		      const struct ripc__record *rival, uint64_t now_ns);

#endif
