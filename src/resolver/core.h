/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The rules of the resolver as a pure state machine: doc/protocol.md, section 3.3. Input: calls,
 * datagrams and the time. Output: datagrams to send, events and the next deadline.
 *
 * Of two holders only one compares their ages, so exactly one remains. A record that another
 * context passes on never decides: its holder may be dead.
 *
 * Takeover on one host: the kernel has the name of the service for the former holder, which drops
 * it when it learns of the takeover. REGISTERED waits until the name is acquired, at most
 * resolve_timeout_ms: without the name, peers on this host do not find the service. After that time
 * the former holder is stopped, and the name is acquired when it runs again.
 */
#ifndef RIPC_RESOLVER_CORE_H
#define RIPC_RESOLVER_CORE_H

#include "resolver/resolver.h"
#include "wire/bytes.h"

#define RIPC__LOOKUPS_MAX       4096   /* look-ups under way and negative answers, at most */
#define RIPC__TTL_MS            60000u /* lifetime of the records of this context */
#define RIPC__PROBES            3      /* PROBEs sent before a registration */
#define RIPC__PROBE_INTERVAL_MS 20u    /* between PROBEs */
/* intervals, if a holder is known: a busy machine may delay its answer by 400 ms */
#define RIPC__PROBES_KNOWN 25
/* so many requests for one service within as many ms: one answer to all */
#define RIPC__ANNOUNCE_LIMIT   16
#define RIPC__LIST_ANSWERS     4   /* LISTs that wait for their answer; others are dropped */
#define RIPC__LIST_SPREAD_MS   50u /* answers to a LIST to all are sent within this time */
#define RIPC__LIST_PAGES_PER_S 64u /* pages that a context sends */
#define RIPC__LIST_ASKS        256 /* contexts whose lost pages are asked for again */
#define RIPC__LIST_REQUESTS    8   /* for one page, the last after about a second */
/*
 * broadcasts received per second from which on a warning is logged: about 1 % of a processor on
 * every host
 */
#define RIPC__BROADCAST_WARN_PER_S 2000
#define RIPC__CLAIM_INTERVAL_MS    30000u /* mean time between two periodic claims of a context */
/*
 * A context with many services claims all of them within this time, but not more often than every
 * CLAIM_MIN_MS, and only while it receives fewer than CLAIM_QUIET_PER_S requests and claims.
 */
#define RIPC__CLAIM_ROUND_MS    300000u
#define RIPC__CLAIM_MIN_MS      300u
#define RIPC__CLAIM_QUIET_PER_S 200u

struct ripc__rcore;

/* The source of a datagram, to answer it and to send there again: opaque but to its back end. */
struct ripc__backend_addr {
	uint8_t backend; /* index of the back end */
	uint8_t len;     /* of bytes */
	uint8_t bytes[46];
	/* unicast to this host: another context of the host may be its destination */
	bool direct;
	bool reusable; /* bytes address exactly the context that sent it and can be used again */
	/* forwarded by another context of this host: bytes are the original source */
	bool forwarded;
	bool final; /* decided by a back end that is the only authority: final */
};

struct ripc__rcore_env {
	uint8_t instance[16], host[16];
	const struct ripc__record_addr *addrs; /* copied */
	unsigned naddrs;
	uint32_t resolve_timeout_ms; /* timeout of a look-up */
	/* lifetime of a negative answer, during which look-ups fail at once; 0: not kept */
	uint32_t negative_ms;
	uint64_t secret; /* secret seed of nonces, hash tables and jitter */
	/*
	 * Sends a datagram about @service, to all if @to is NULL. May lose it. Must not call the
	 * core.
	 */
	void (*send)(void *arg, const struct ripc__backend_addr *to, uint64_t service,
		     const uint8_t *data, size_t len);
	/*
	 * The back end that keeps records; those of random ids it receives at once, too. NULL:
	 * none.
	 */
	const struct ripc__backend_addr *registry;
	/*
	 * Whether all back ends have answered a registration. The core waits for them, at most
	 * resolve_timeout_ms. NULL: always true.
	 */
	bool (*settled)(void *arg, uint64_t service);
	/*
	 * REGISTER_TAKE_NAME: acquires the name of the service on this host, if its former holder
	 * has released it. @last: REGISTERED follows in any case. Return: whether it was acquired.
	 */
	bool (*acquire)(void *arg, uint64_t service, bool last);
	/*
	 * Takes one service found by ripc__rcore_list_begin(). Must not call the core. NULL: not
	 * wanted.
	 */
	void (*listed)(void *arg, const struct ripc__record *record);
	void *arg;
};

/* Present contents, and counters of messages. */
struct ripc__rcore_counts {
	size_t held;         /* services registered or being registered */
	size_t lookups;      /* look-ups under way or kept as negative answers */
	size_t cached;       /* records */
	size_t cached_bytes; /* of memory for them */
	uint64_t bad;        /* malformed messages */
	uint64_t ignored;    /* replies without a request of this context */
};

/*
 * The nonce of a REPLY in a dispute: the holder to which it is addressed. Among three holders each
 * of them may receive what two have to settle.
 */
static inline uint64_t ripc__dispute_nonce(const uint8_t instance[16])
{
	return ripc__get_le64(instance);
}

/* Return: 0, -ENOMEM, -EMSGSIZE (too many or too long addresses). */
int ripc__rcore_new(struct ripc__rcore **core, const struct ripc__rcore_env *env);
void ripc__rcore_free(struct ripc__rcore *core);

/* Sends a GONE for every service held. */
void ripc__rcore_send_gone(struct ripc__rcore *core, uint64_t now_ns);

/*
 * Registers a service. @name: NULL, or a name without a fault (base/name.h), copied; the id is not
 * checked against it. Return: 0; -EADDRINUSE: this core holds it; explained: -EMSGSIZE: name and
 * addresses do not fit one message; -ENOMEM.
 */
int ripc__rcore_register(struct ripc__rcore *core, uint64_t service, const char *name,
			 enum ripc__register_how how, uint64_t now_ns);
/* The name of a service of ours, or NULL. Valid until it is unregistered. */
const char *ripc__rcore_name(struct ripc__rcore *core, uint64_t service);
/*
 * The record of a service as it is known at present, which does not count as use.
 * Return: whether there is one.
 */
bool ripc__rcore_peek(struct ripc__rcore *core, uint64_t service, struct ripc__record *record,
		      uint64_t now_ns);

/*
 * Begins to list the services of all contexts, or asks all again: env.listed() is called for each
 * service of ours now, and for those of others as their answers arrive, also more than once.
 */
void ripc__rcore_list_begin(struct ripc__rcore *core, uint64_t now_ns);
/* Return: the number of contexts that have announced a page that did not arrive. */
unsigned ripc__rcore_list_end(struct ripc__rcore *core);
/* Sends the records of all held services to env.registry, with higher generations. */
void ripc__rcore_reannounce(struct ripc__rcore *core, uint64_t now_ns);
/* As ripc__resolver_readdress(), for all later messages. */
void ripc__rcore_readdress(struct ripc__rcore *core, const struct ripc__record_addr *addrs,
			   unsigned naddrs);
/* As ripc__resolver_claim(). */
void ripc__rcore_claim(struct ripc__rcore *core, uint64_t service, uint64_t now_ns);
void ripc__rcore_unregister(struct ripc__rcore *core, uint64_t service, uint64_t now_ns);
int ripc__rcore_lookup(struct ripc__rcore *core, uint64_t service, uint64_t now_ns);
void ripc__rcore_lookup_cancel(struct ripc__rcore *core, uint64_t service);
/* As ripc__resolver_forget(). */
void ripc__rcore_forget(struct ripc__rcore *core, uint64_t service);
void ripc__rcore_invalidate(struct ripc__rcore *core, uint64_t service, const uint8_t instance[16],
			    uint64_t now_ns);

/* Whether the service is registered, being registered, or lost while CONFLICT is pending. */
bool ripc__rcore_holds(struct ripc__rcore *core, uint64_t service);

/* Processes a received datagram of any content. Return: 0, or as ripc__resolver_msg_decode(). */
int ripc__rcore_input(struct ripc__rcore *core, const struct ripc__backend_addr *from,
		      const uint8_t *data, size_t len, uint64_t now_ns, const char **why);

/* Requests and claims received per second, over the last complete period (10 s or more). */
unsigned ripc__rcore_rx_per_s(const struct ripc__rcore *core);

/* Advances the time and sends due messages. */
void ripc__rcore_advance(struct ripc__rcore *core, uint64_t now_ns);

/*
 * Takes the next event; its text is left empty. CONFLICT: record is the other holder, instance
 * zeros if unknown. Return: whether there was an event.
 */
bool ripc__rcore_event(struct ripc__rcore *core, struct ripc__resolver_event *event,
		       uint64_t now_ns);

/* When advance() is due: 0 if an event is pending, RIPC__NEVER if nothing is. */
uint64_t ripc__rcore_deadline(const struct ripc__rcore *core);

void ripc__rcore_counts(const struct ripc__rcore *core, struct ripc__rcore_counts *counts);

#endif
