/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The resolver of a context: from service ids to records. It joins the pure state machine (resolver/core.h) with
 * the back ends that do I/O (local, udp). The core drives it under the context's lock; nothing here
 * blocks, waits or calls back; what happens comes as events from progress().
 */
#ifndef RIPC_RESOLVER_H
#define RIPC_RESOLVER_H

#include "wire/record.h"

#include <stdbool.h>

struct ripc__resolver;

struct ripc__resolver_env {
	const struct ripc__options *opt;
	const uint8_t *instance; /* 16 bytes */
	const uint8_t *host;     /* 16 bytes */
	/* The addresses that go into every record of ours; naddrs as in struct ripc__record. Copied. */
	const struct ripc__record_addr *addrs;
	unsigned naddrs;
	struct ripc__auth *auth; /* the cluster's keys, or NULL: messages are neither sealed nor checked */
	void *sim; /* simulation: the simulated network, see transport/sim/sim.h; otherwise NULL */
	/* The text of a record's address with the name of its transport, e.g. "iwarp/soft 127.0.0.1:4242", for the
	 * texts of events. Any bytes: they come from the network. NULL: addresses are left out of texts. */
	void (*describe)(uint8_t transport, const uint8_t *addr, size_t len, char *text,
			 size_t textlen);
};

enum ripc__resolver_ev_kind {
	RIPC__RESOLVED = 1, /* record: the answer to a look-up, or a change of one known before */
	RIPC__UNRESOLVED, /* service, text: nobody answered within resolve_timeout_ms; text = what was tried */
	RIPC__REGISTERED, /* service: nobody objected, it is ours and we answer for it */
	RIPC__CONFLICT, /* service, text: a probe, or later a claim, met another holder; text names it */
	RIPC__GONE,  /* service, record.instance: its holder gave it up */
	RIPC__RIVAL, /* service, record, text: another holds, or held, what is ours, as after a split; CONFLICT follows if it is given up */
};

struct ripc__resolver_event {
	enum ripc__resolver_ev_kind kind;
	uint64_t service;
	struct ripc__record record;
	bool moved; /* CONFLICT: it was ours, and record took it over */
	char text[512];
};

/* Errors: -ENOMEM, -EMFILE, -EADDRINUSE ..., explained by ripc__fail(). A back end that cannot work here (no interface,
 * no port) is left out, with its reason for ripc__resolver_describe(), unless it is the only one. */
int ripc__resolver_open(struct ripc__resolver **r, const struct ripc__resolver_env *env);

/* Says good-bye (RIPC__RESOLVE_GONE) for every service still registered, closes everything. */
void ripc__resolver_close(struct ripc__resolver *r);

/* As close(), but as if the process had been killed: sends nothing. For ripc__kill(). */
void ripc__resolver_kill(struct ripc__resolver *r);

/* These addresses go into our records from now on, in place of what the same transports had. */
void ripc__resolver_readdress(struct ripc__resolver *r, const struct ripc__record_addr *addrs,
			      unsigned naddrs);

/* Claims a service: REGISTERED or CONFLICT follows. -EADDRINUSE at once if this host knows a holder (local). -ENOMEM, -EMFILE. */
int ripc__resolver_register(struct ripc__resolver *r, uint64_t service, uint64_t now_ns);

/*
 * After -EADDRINUSE: asks the process of this host that has the service who it is. Waiting for the
 * answer is the caller's: the descriptor is readable when it has come. Return: the descriptor, to be
 * passed to ripc__resolver_holder_answer(), or a negative errno: no process of this host has it.
 */
int ripc__resolver_ask_holder(struct ripc__resolver *r, uint64_t service);

/* Explains by the answer, if it has come, who holds the service. Closes fd. Return: -EADDRINUSE. */
int ripc__resolver_holder_answer(struct ripc__resolver *r, int fd, uint64_t service);

/*
 * As ripc__resolver_register(), for an id drawn at random, which nobody else is expected to hold: REGISTERED follows at
 * once, and the network is neither asked nor notified. A holder that is heard of later is a CONFLICT.
 */
int ripc__resolver_register_random(struct ripc__resolver *r, uint64_t service, uint64_t now_ns);

/* The same, but a present holder has to give it up: it is told so by a record of a higher generation. */
int ripc__resolver_takeover(struct ripc__resolver *r, uint64_t service, uint64_t now_ns);

void ripc__resolver_unregister(struct ripc__resolver *r, uint64_t service, uint64_t now_ns);

/* Starts, or joins, a look-up: RESOLVED or UNRESOLVED follows. Served from the cache if possible (also then by an event
 * of the next progress()). -ENOMEM, -EAGAIN: too many look-ups under way. */
int ripc__resolver_lookup(struct ripc__resolver *r, uint64_t service, uint64_t now_ns);

/* Gives up a look-up that nobody waits for any more. */
void ripc__resolver_lookup_cancel(struct ripc__resolver *r, uint64_t service);

/* What the cache holds, or NULL. Valid until the next call. */
const struct ripc__record *ripc__resolver_find(struct ripc__resolver *r, uint64_t service);

/* The record led nowhere (its holder is dead or answered that it does not hold the service): drop it, if it is still of this instance. */
void ripc__resolver_invalidate(struct ripc__resolver *r, uint64_t service, const uint8_t instance[16]);

/*
 * I/O and timers. @readable: whether the descriptor is, or may be, readable; with false the call costs no system
 * call unless a deadline is due. *deadline_ns is lowered to when it wants to be called again; look-ups,
 * registrations and the like move it forward. Return: number of events; equal to max: call again.
 */
unsigned ripc__resolver_progress(struct ripc__resolver *r, bool readable,
				 struct ripc__resolver_event *events, unsigned max, uint64_t now_ns,
				 uint64_t *deadline_ns);

/* Readable (level-triggered) when progress() has something to read. Constant. */
int ripc__resolver_fd(struct ripc__resolver *r);

/* In the child of fork(): closes descriptors, touches nothing else. */
void ripc__resolver_atfork_child(struct ripc__resolver *r);

/*
 * For people: first what each back end is doing, then why each of the others is left out, then, as "cache", what is known at
 * present and, as "keys", those of the cluster. *name lives as long as the resolver. Return: 1 if it works, 0 if it is left out or
 * can find nothing at present, -ENOENT after the last.
 */
int ripc__resolver_entry(struct ripc__resolver *r, unsigned index, const char **name, char *text,
			 size_t len);

/* All of that in one line. */
void ripc__resolver_describe(struct ripc__resolver *r, char *text, size_t len);

/* Messages that were not understood, since the start. */
uint64_t ripc__resolver_bad_messages(const struct ripc__resolver *r);

/* Those of them that were sealed with a key, and came to a resolver that has none. */
uint64_t ripc__resolver_sealed(const struct ripc__resolver *r);

#endif
