/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The back end for clusters, inside: zookeeper.c has what it makes of the ensemble's reports and of services of others,
 * zookeeper_held.c services of ours. Used under the context's lock.
 */
#ifndef RIPC_RESOLVER_ZOOKEEPER_H
#define RIPC_RESOLVER_ZOOKEEPER_H

#include "resolver/backend.h"
#include "resolver/ensemble.h"
#include "resolver/table.h"

#include <sys/queue.h>

struct ripc__auth;

/* A service of ours. */
struct ripc__zk_held {
	struct ripc__node node;
	TAILQ_ENTRY(ripc__zk_held) link;
	enum { RIPC__ZK_CLAIMING, RIPC__ZK_CREATED, RIPC__ZK_TAKEN } state;
	uint64_t nonce; /* of the probe that is to be answered; 0: none */
	uint64_t taken_ns; /* when its node was first found to be another's, since it was probed; 0: it was not */
	bool last;  /* it has been so for long: its holder stays, and the next answer is told */
	bool force; /* it is being taken over from its holder */
	size_t len;
	uint8_t *bytes; /* for the node */
};

/* A service of others that was looked up. */
struct ripc__zk_watched {
	struct ripc__node node;
	TAILQ_ENTRY(ripc__zk_watched) link; /* the one asked for last at the end */
	bool watching;                      /* its node was asked for in the present session */
	bool known;                         /* record is what its node says, or last said */
	bool stale;                /* known, but not confirmed since the ensemble was away */
	uint64_t nonce;            /* of the request that waits for an answer; 0: none */
	uint64_t suspect_until_ns; /* known, but it led nowhere: not given out before this */
	unsigned failures;         /* how often that was so of late, at most DOUBTS */
	uint64_t since_ns;         /* known: when it was first seen */
	const char *refused; /* not known: why what its node says is not believed; NULL: it has none */
	size_t len;
	uint8_t *bytes; /* the record, encoded */
};

/* A message for the core. */
struct ripc__zk_msg {
	STAILQ_ENTRY(ripc__zk_msg) link;
	bool final; /* as in struct ripc__mcast_sender */
	size_t len;
	uint8_t bytes[];
};

struct ripc__zk {
	struct ripc__backend base;
	struct ripc__ensemble *e;
	uint8_t instance[16], host[16];
	struct ripc__auth *auth; /* the cluster's keys, or NULL */
	bool kernel_enforced;    /* the kernel sees to it that an id is held once on this host */
	bool up;                 /* connected */
	bool was_up;             /* and it has been, at least once */
	bool renew;              /* a new session: all services of ours are to be said again */
	uint64_t session;        /* its id, when it was up */
	uint64_t lost_ns;
	uint64_t last_log_ns; /* last complaint */
	char hosts[448];
	char last_error[128]; /* the last thing that went wrong, or empty */
	struct ripc__table held, watched;
	TAILQ_HEAD(, ripc__zk_held) held_list;
	TAILQ_HEAD(, ripc__zk_watched) lru;
	STAILQ_HEAD(, ripc__zk_msg) msgs;
	uint64_t bad;
};

/* Leaves a message for the core. @final: as in struct ripc__mcast_sender. Lost without memory, as a datagram may be. */
void ripc__zk_queue_msg(struct ripc__zk *z, const struct ripc__resolver_msg *msg, bool final);
/* What a node says. Return: NULL, or a constant phrase that says why it is not believed, counted and logged. */
const char *ripc__zk_decode(struct ripc__zk *z, uint64_t service, const uint8_t *bytes, size_t len,
			    struct ripc__record *record);

/* A service of ours, NULL if it is none. */
struct ripc__zk_held *ripc__zk_held_find(struct ripc__zk *z, uint64_t service);
void ripc__zk_held_remove(struct ripc__zk *z, struct ripc__zk_held *h);
/* Wants its node to be made. */
void ripc__zk_claim(struct ripc__zk *z, struct ripc__zk_held *h);
/*
 * What our own messages say of a service of ours goes into its node. @force: the node is taken away from the holder of a lower
 * generation; what was said again for a new session alone takes nothing away from those that came meanwhile.
 * Return: it, also if nothing is new; NULL: out of memory, or the record cannot be written.
 */
struct ripc__zk_held *ripc__zk_held_update(struct ripc__zk *z, const struct ripc__record *record,
					   bool force);
/* Its node is another's, or somebody found it in place of the one it had, and left its record. */
void ripc__zk_taken(struct ripc__zk *z, struct ripc__zk_held *h,
		    const struct ripc__ensemble_report *r);
void ripc__zk_rival(struct ripc__zk *z, struct ripc__zk_held *h, const uint8_t *bytes, size_t len);

/* Entries of struct ripc__backend_ops. */
void ripc__zk_drop(struct ripc__backend *b, uint64_t service);
bool ripc__zk_settled(const struct ripc__backend *b, uint64_t service);

#endif
