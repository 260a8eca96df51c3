/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The resolver of a context: from service ids to records. It joins the pure state machine
 * (resolver/core.h) with the back ends that do I/O. Called under the context's lock; nothing blocks
 * or calls back; progress() returns events.
 */
#ifndef RIPC_RESOLVER_H
#define RIPC_RESOLVER_H

#include "wire/record.h"

#include <stdbool.h>

struct ripc__backend_ops;
struct ripc__listing;
struct ripc__resolver;

struct ripc__resolver_env {
	const struct ripc__options *opt;
	const uint8_t *instance; /* 16 bytes */
	const uint8_t *host;     /* 16 bytes */
	/* The addresses in every own record; naddrs as in struct ripc__record. Copied. */
	const struct ripc__record_addr *addrs;
	unsigned naddrs;
	/* the keys of the cluster; NULL: messages are neither sealed nor checked */
	struct ripc__auth *auth;
	/* tests: the only back end, in place of those of the chain, and its network; or NULL */
	const struct ripc__backend_ops *backend;
	void *sim;
	/*
	 * The text of a record's address with the name of its transport, e.g. "iwarp/soft
	 * 127.0.0.1:4242", for the texts of events. Any bytes: they come from the network. NULL:
	 * addresses are left out of texts.
	 */
	void (*describe)(const void *arg, uint8_t transport, const uint8_t *addr, size_t len,
			 char *text, size_t textlen);
	const void *describe_arg;
};

enum ripc__resolver_ev_kind {
	RIPC__RESOLVED = 1, /* record: the answer to a look-up, or a changed record */
	/* service, text: no answer within resolve_timeout_ms; text: the attempts */
	RIPC__UNRESOLVED,
	RIPC__REGISTERED, /* service: registered without conflict */
	/*
	 * service, record, text: another context holds, or held, a service of this one, as after a
	 * partition; CONFLICT follows if this one loses it
	 */
	RIPC__RIVAL,
	/* service, text: a probe or a later claim met another holder; text names it */
	RIPC__CONFLICT,
	RIPC__GONE, /* service, record.instance: unregistered by its holder */
};

struct ripc__resolver_event {
	enum ripc__resolver_ev_kind kind;
	uint64_t service;
	struct ripc__record record;
	bool moved;        /* CONFLICT: a takeover; record is the new holder */
	unsigned requests; /* UNRESOLVED: the number of requests sent to all */
	/* CONFLICT, RIVAL: the name of our service, or empty */
	char name[RIPC__NAME_MAX + 1];
	char text[1024];
};

/*
 * Errors: -ENOMEM, -EMFILE, -EADDRINUSE ..., explained by ripc__fail(). A back end that cannot work
 * here (no interface, no port) is disabled, with its reason for ripc__resolver_entry(), unless
 * it is the only one.
 */
int ripc__resolver_open(struct ripc__resolver **r, const struct ripc__resolver_env *env);

/* Sends RIPC__RESOLVE_GONE for every service still registered, then closes everything. */
void ripc__resolver_close(struct ripc__resolver *r);

/* As close(), but sends nothing, like a killed process. For ripc__kill(). */
void ripc__resolver_kill(struct ripc__resolver *r);

/*
 * Replaces the addresses in all later records: at most RIPC__RECORD_ADDRS_MAX, each of at most
 * RIPC__ADDRESS_MAX bytes. None: no device is left.
 */
void ripc__resolver_readdress(struct ripc__resolver *r, const struct ripc__record_addr *addrs,
			      unsigned naddrs);

enum ripc__register_how {
	RIPC__REGISTER,      /* after PROBEs, if another host may hold the service */
	RIPC__REGISTER_TAKE, /* after PROBEs, from its holder, if any, by a higher generation */
	/*
	 * A random id: HELD at once, and nothing is sent. The next request of this context carries
	 * the service, and so does each later claim. A holder found later is a CONFLICT.
	 */
	RIPC__REGISTER_RANDOM,
	RIPC__REGISTER_LOCAL, /* of the core: HELD at once and announced, without PROBEs */
	/* of the core: as TAKE, from a holder of this host, whose name is to be acquired, too */
	RIPC__REGISTER_TAKE_NAME,
};

/*
 * Registers a service: REGISTERED or CONFLICT follows. @name: NULL, or a name without a fault
 * (base/name.h), copied; CONFLICT follows in any case if another name has the id. Return: 0;
 * explained: -EADDRINUSE: the back end local knows a holder; -EMSGSIZE: with the name the record is
 * too long for a message; -ENOMEM, -EMFILE.
 */
int ripc__resolver_register(struct ripc__resolver *r, uint64_t service, const char *name,
			    enum ripc__register_how how, uint64_t now_ns);

/* The name of a service of ours, or NULL. Valid until it is unregistered. */
const char *ripc__resolver_own_name(struct ripc__resolver *r, uint64_t service);

/* As ripc__id_text(), with the name of a service that is ours or in the cache. */
const char *ripc__resolver_id_text(const struct ripc__resolver *r, uint64_t service);

/*
 * After -EADDRINUSE: asks the process of this host that holds the service for its record. The
 * caller waits for the answer. Return: a descriptor for ripc__resolver_holder_answer(), readable
 * when the answer has arrived; or a negative errno: no process of this host holds the service.
 */
int ripc__resolver_ask_holder(struct ripc__resolver *r, uint64_t service);

/*
 * Explains with the answer, if it has arrived, which process holds the service. @name: the one that
 * was to be registered, or NULL. Closes fd. Return: -EADDRINUSE.
 */
int ripc__resolver_holder_answer(struct ripc__resolver *r, int fd, uint64_t id, const char *name);

/* Claims a service of ours once more, to all: another holder answers. */
void ripc__resolver_claim(struct ripc__resolver *r, uint64_t service, uint64_t now_ns);

void ripc__resolver_unregister(struct ripc__resolver *r, uint64_t service, uint64_t now_ns);

/*
 * Starts or joins a look-up: RESOLVED or UNRESOLVED follows from a later progress(), also if the
 * cache has the record. The record is then refreshed before it expires, and its changes are
 * RESOLVED and GONE, until lookup_cancel(). -ENOMEM, -EAGAIN: too many look-ups under way.
 */
int ripc__resolver_lookup(struct ripc__resolver *r, uint64_t service, uint64_t now_ns);

/* Cancels a look-up. A record that it found stays, but is neither refreshed nor reported. */
void ripc__resolver_lookup_cancel(struct ripc__resolver *r, uint64_t service);

/* Drops a cached record, unless it is the result of a look-up that was not cancelled. */
void ripc__resolver_forget(struct ripc__resolver *r, uint64_t service);

/* The cached record, or NULL; this is no use of it. Valid until the next call. */
const struct ripc__record *ripc__resolver_peek(struct ripc__resolver *r, uint64_t service);

/*
 * Begins to list the services of all contexts that can be found. -EBUSY: a list is under way.
 * Otherwise initializes *found, which the caller frees after end(). Answers arrive there with
 * progress(); repeat() asks again, for those that were lost.
 */
int ripc__resolver_list_begin(struct ripc__resolver *r, struct ripc__listing *found,
			      uint64_t now_ns);
void ripc__resolver_list_repeat(struct ripc__resolver *r, uint64_t now_ns);
void ripc__resolver_list_end(struct ripc__resolver *r);

/*
 * Drops the record if it is still of this instance: its holder is dead, or does not hold the
 * service.
 */
void ripc__resolver_invalidate(struct ripc__resolver *r, uint64_t service, const uint8_t id[16]);

/*
 * I/O and timers. @readable: whether the descriptor is, or may be, readable; with false the call
 * costs no system call unless a deadline is due. *deadline_ns is lowered to the time of the next
 * call; look-ups and registrations may move it forward. Return: number of events; if max, call
 * again.
 */
unsigned ripc__resolver_progress(struct ripc__resolver *r, bool readable,
				 struct ripc__resolver_event *events, unsigned max, uint64_t now_ns,
				 uint64_t *deadline_ns);

/* Readable (level-triggered) when progress() has something to read. Constant. */
int ripc__resolver_fd(struct ripc__resolver *r);

/* In the child of fork(): closes descriptors, touches nothing else. */
void ripc__resolver_atfork_child(struct ripc__resolver *r);

/*
 * Describes entry @index: each open back end, each disabled one with its reason, "cache", and
 * "keys". *name lives as long as the resolver. Return: 1: it works; 0: it is disabled or can find
 * nothing at present; -ENOENT: index is behind the last entry.
 */
int ripc__resolver_entry(struct ripc__resolver *r, unsigned index, const char **name, char *text,
			 size_t len);

/* Messages that could not be decoded, since the start. */
uint64_t ripc__resolver_bad_messages(const struct ripc__resolver *r);

/* Those of them that were sealed with a key, while this resolver has no key. */
uint64_t ripc__resolver_sealed(const struct ripc__resolver *r);

#endif
