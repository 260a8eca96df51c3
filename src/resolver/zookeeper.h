/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The back end for clusters. zookeeper.c: reports of the ensemble and services of others.
 * zookeeper_held.c: services of this context. Used under the context's lock.
 */
#ifndef RIPC_RESOLVER_ZOOKEEPER_H
#define RIPC_RESOLVER_ZOOKEEPER_H

#include "base/list.h"
#include "base/table.h"
#include "resolver/backend.h"
#include "resolver/ensemble.h"

/* lifetime of a record whose change or end will not be reported at present */
#define RIPC__ZK_STALE_TTL_MS 5000u

struct ripc__auth;

/*
 * The node of a service of this context.
 *
 *   CLAIMING --created--> CREATED     CLAIMING --another holds it--> TAKEN
 *   CREATED, TAKEN --gone, or announced with another record--> CLAIMING
 *   any --a new session, and no probe is unanswered--> ENDED --announced--> CLAIMING
 *
 * Two claims may be under way, with any two results, so there is no table of transitions.
 */
enum ripc__zk_held_state {
	RIPC__ZK_CLAIMING, /* its creation was requested in this session */
	RIPC__ZK_CREATED,
	RIPC__ZK_TAKEN,
	RIPC__ZK_ENDED, /* with the session: another context may have the node now */
};

/* A service of this context. */
struct ripc__zk_held {
	struct ripc__node node;
	struct ripc__list link;
	enum ripc__zk_held_state state; /* ripc__zk_held_set_state() */
	uint64_t nonce;                 /* nonce of the probe to answer; 0: none */
	uint64_t taken_ns; /* first report since the probe that another holds the node; 0: none */
	bool last;         /* the limit is over: the next such report is a conflict */
	bool force;        /* a takeover from its holder */
	size_t len;
	uint8_t *bytes; /* data of the node */
};

/* A service of another context that was looked up. */
struct ripc__zk_watched {
	struct ripc__node node;
	struct ripc__list link;    /* most recent look-up at the end */
	bool watching;             /* its node was requested in this session */
	uint64_t nonce;            /* nonce of the request to answer; 0: none */
	uint64_t suspect_until_ns; /* the record failed: not used before this time */
	unsigned failures;         /* recent failures, at most FAILURES_MAX */
	uint64_t since_ns;         /* time when the record was first seen */
	/* no record is known: the reason to reject its node; NULL: no node exists */
	const char *refused;
	size_t len;
	/* the record, encoded; NULL: no node, or a rejected one */
	uint8_t *bytes;
};

struct ripc__zk {
	struct ripc__backend base;
	struct ripc__ensemble *e;
	uint8_t instance[16], host[16];
	struct ripc__auth *auth; /* the cluster's keys, or NULL */
	bool kernel_enforced;    /* the kernel enforces that an id is held once on this host */
	/*
	 * CONNECTING -- UP --> CONNECTED -- LOST --> DISCONNECTED -- UP --> CONNECTED
	 * CONNECTING -- a registration got no answer in time --> DISCONNECTED
	 * Records stay in use while it is disconnected, and registrations do not wait for it then.
	 */
	enum {
		RIPC__ZK_CONNECTING, /* since the start */
		RIPC__ZK_CONNECTED,
		RIPC__ZK_DISCONNECTED,
	} state;
	uint64_t list_nonce; /* of the LIST to answer; 0: none */
	uint64_t session;    /* its id, when it was connected; 0: it never was */
	uint64_t lost_ns;
	uint64_t last_log_ns; /* rate limit of log lines: time of the last one */
	char hosts[448];
	char last_error[400]; /* the last error, or empty */
	struct ripc__table held, watched;
	struct ripc__list held_list;
	struct ripc__list lru;
};

/*
 * Queues a message for the core, behind the reports of the ensemble. @final: as in struct
 * ripc__backend_addr. Without memory it is lost, as a datagram may be.
 */
void ripc__zk_queue_msg(struct ripc__zk *z, const struct ripc__resolver_msg *msg, bool final);
/*
 * Decodes the data of a node. Return: NULL, or a constant phrase, logged: the reason to
 * reject it.
 */
const char *ripc__zk_decode(struct ripc__zk *z, uint64_t service, const uint8_t *bytes, size_t len,
			    struct ripc__record *record);

/* Reads the node of a service, and reports its next change. Return: false: out of memory. */
static inline bool ripc__zk_watch(struct ripc__zk *z, uint64_t service)
{
	return !ripc__ensemble_submit(z->e, RIPC__CALL_WATCH, service, NULL, 0, NULL);
}

/* A service of this context, or NULL. */
struct ripc__zk_held *ripc__zk_held_find(struct ripc__zk *z, uint64_t service);
void ripc__zk_held_remove(struct ripc__zk *z, struct ripc__zk_held *h);
/* Also: CREATED answers the probe, and TAKEN notes when it was first reported. */
void ripc__zk_held_set_state(struct ripc__zk_held *h, enum ripc__zk_held_state to);
/* Requests the creation of its node, or the removal of the node of this session. */
void ripc__zk_claim(struct ripc__zk *z, struct ripc__zk_held *h);
void ripc__zk_release(struct ripc__zk *z, uint64_t service);
/*
 * Updates the node of a service from our own message about it. @force: replaces the node of a
 * holder with a lower generation. A repeated announcement for a new session replaces no node of
 * others. Return: the service, also if nothing changed; NULL: out of memory, or the record is too
 * large.
 */
struct ripc__zk_held *ripc__zk_held_update(struct ripc__zk *z, const struct ripc__record *record,
					   bool force);
/*
 * ripc__zk_taken(): another holds its node. ripc__zk_rival(): another context, which held it
 * before, found our node in place of its own and left its record.
 */
void ripc__zk_taken(struct ripc__zk *z, struct ripc__zk_held *h,
		    const struct ripc__ensemble_report *r);
void ripc__zk_rival(struct ripc__zk *z, struct ripc__zk_held *h, const uint8_t *bytes, size_t len);
/* Its node was read: makes it anew if another context has changed its data. */
void ripc__zk_held_found(struct ripc__zk *z, struct ripc__zk_held *h,
			 const struct ripc__ensemble_report *r);

/* Entries of struct ripc__backend_ops. */
void ripc__zk_drop(struct ripc__backend *b, uint64_t service);
bool ripc__zk_settled(const struct ripc__backend *b, uint64_t service);

#endif
