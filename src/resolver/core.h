/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The rules of the resolver as a state machine. It does no I/O, starts no thread and reads no clock: it is given calls,
 * datagrams and the time, and hands out datagrams to send, events and its next deadline.
 *
 * Look-up: a REQUEST to all at once, then after about 5, 20, 60, 160, 400 ... ms until the time is up. The holder
 * answers with a unicast REPLY that repeats the nonce. Every REQUEST carries a record of the asker, from which
 * everybody learns. A record in use is refreshed by asking its holder alone, and all only if that one says nothing. A holder that
 * many ask for one service at the same time tells all, once, where it is.
 *
 * Registration: three PROBEs 20 ms apart; a holder answers with a REPLY, which is a conflict. Of two
 * that probe at once, the one with the smaller instance id wins. An id drawn at random is registered
 * at once, without a PROBE. Afterwards every holder claims its services again from time to time (a
 * REQUEST for its own service). If two hold one service all the same (a partition healed), the one
 * with the greater instance id compares their ages and sends a VERDICT if the other has to give up.
 * Only one of the two compares, so exactly one remains.
 */
#ifndef RIPC_RESOLVER_CORE_H
#define RIPC_RESOLVER_CORE_H

#include "resolver/resolver.h"

#define RIPC__LOOKUPS_MAX       4096   /* look-ups under way or negative answers kept */
#define RIPC__TTL_MS            60000u /* life of the records we hand out */
#define RIPC__PROBES            3      /* sent before a service is ours */
#define RIPC__PROBE_INTERVAL_MS 20u    /* after each of them */
#define RIPC__HERD_LIMIT        16 /* requests for one service within so many ms are answered to all */
#define RIPC__BROADCAST_WARN_PER_S \
	2000 /* messages heard from which on broadcast costs every host too much: 1 % of a processor, about */
#define RIPC__CLAIM_INTERVAL_MS 30000u /* between two claims of a context, about */

struct ripc__rcore;

/* Where a datagram came from: opaque bytes of the back end, used to answer, and to ask again. */
struct ripc__mcast_sender {
	uint8_t backend; /* index of the back end */
	uint8_t len;     /* of bytes */
	uint8_t bytes[46];
	bool direct;   /* it came to this host alone: another context of the host may be meant */
	bool reusable; /* bytes are of the one context that sent it: it can be asked again there */
	bool forwarded; /* by another context of this host: bytes are where it came from in the first place */
	bool final; /* a back end has settled a dispute in which there are no two opinions */
};

struct ripc__rcore_env {
	uint8_t instance[16], host[16];
	const struct ripc__record_addr *addrs; /* copied */
	unsigned naddrs;
	uint32_t resolve_timeout_ms; /* how long a look-up tries */
	uint32_t negative_ms; /* how long its failure is kept: look-ups fail at once meanwhile; 0: not at all */
	uint64_t secret; /* known to nobody outside: nonces and tables depend on it, and jitter */
	/* Sends a datagram about @service, to all if @to is NULL. Must not call the core. Losing it is allowed. */
	void (*send)(void *arg, const struct ripc__mcast_sender *to, uint64_t service,
		     const uint8_t *data, size_t len);
	/* Whether all that may object to a registration have spoken: it waits for that, resolve_timeout_ms at most. NULL: they have. */
	bool (*settled)(void *arg, uint64_t service);
	void *arg;
};

/* What it holds at present, and what it met. */
struct ripc__rcore_counts {
	size_t held;         /* services registered or being registered */
	size_t lookups;      /* look-ups under way or kept as negative answers */
	size_t cached;       /* records */
	size_t cached_bytes; /* of memory for them */
	uint64_t bad;        /* messages not understood */
	uint64_t ignored;    /* replies that nobody had asked for */
};

/* Return: 0, -ENOMEM, -EMSGSIZE (too many or too long addresses). */
int ripc__rcore_new(struct ripc__rcore **core, const struct ripc__rcore_env *env);
void ripc__rcore_free(struct ripc__rcore *core);

/* Sends a GONE for every service held. */
void ripc__rcore_send_gone(struct ripc__rcore *core, uint64_t now_ns);

/* As the calls of resolver.h. @probe: ask the network first; otherwise it is ours at once. -EADDRINUSE: held by this core. */
int ripc__rcore_register(struct ripc__rcore *core, uint64_t service, bool probe, uint64_t now_ns);
/*
 * The same for an id drawn at random. It is HELD at once and nothing is sent: the next request of
 * this context names the service, and each later claim does.
 */
int ripc__rcore_register_random(struct ripc__rcore *core, uint64_t service, uint64_t now_ns);
/* Takes a service over from its holder, if there is one: probes, and then bids a higher generation. */
int ripc__rcore_takeover(struct ripc__rcore *core, uint64_t service, uint64_t now_ns);
/* Sends the record of a service held to one back end, which keeps it. */
void ripc__rcore_publish(struct ripc__rcore *core, const struct ripc__mcast_sender *to,
			 uint64_t service, uint64_t now_ns);
/* Says all services held again, to one, with higher generations. */
void ripc__rcore_reannounce(struct ripc__rcore *core, const struct ripc__mcast_sender *to,
			    uint64_t now_ns);
/* As ripc__resolver_readdress(), for all that is said from now on. */
void ripc__rcore_readdress(struct ripc__rcore *core, const struct ripc__record_addr *addrs,
			   unsigned naddrs);
void ripc__rcore_unregister(struct ripc__rcore *core, uint64_t service, uint64_t now_ns);
int ripc__rcore_lookup(struct ripc__rcore *core, uint64_t service, uint64_t now_ns);
void ripc__rcore_lookup_cancel(struct ripc__rcore *core, uint64_t service);
void ripc__rcore_invalidate(struct ripc__rcore *core, uint64_t service, const uint8_t instance[16],
			    uint64_t now_ns);

/* Whether it is registered, being registered, or lost and that not yet told. */
bool ripc__rcore_holds(struct ripc__rcore *core, uint64_t service);

/* Whether it is being taken over from a holder that has answered. */
bool ripc__rcore_taking_over(struct ripc__rcore *core, uint64_t service);

/* Fills *record with what is known of the service. Marks it as used. */
bool ripc__rcore_find(struct ripc__rcore *core, uint64_t service, struct ripc__record *record,
		      uint64_t now_ns);

/* A datagram. Any bytes. Return: 0, or as ripc__resolver_msg_decode(). */
int ripc__rcore_input(struct ripc__rcore *core, const struct ripc__mcast_sender *from,
		      const uint8_t *data, size_t len, uint64_t now_ns, const char **why);

/* Questions and claims of others heard per second, over ten seconds or more that are over. */
unsigned ripc__rcore_rx_per_s(const struct ripc__rcore *core);

/* Lets the time pass: sends what is due. */
void ripc__rcore_advance(struct ripc__rcore *core, uint64_t now_ns);

/*
 * The next event; its text is left empty. CONFLICT: record is the other holder, instance zeros if unknown. *requests:
 * UNRESOLVED: how many were sent to all. Return: whether there was one.
 */
bool ripc__rcore_event(struct ripc__rcore *core, struct ripc__resolver_event *event,
		       unsigned *requests, uint64_t now_ns);

/* When advance() is due: 0 if an event is waiting, RIPC__NEVER if nothing is. */
uint64_t ripc__rcore_deadline(const struct ripc__rcore *core);

/* Look-ups under way: somebody waits for an answer. */
bool ripc__rcore_busy(const struct ripc__rcore *core);

void ripc__rcore_counts(const struct ripc__rcore *core, struct ripc__rcore_counts *counts);

#endif
