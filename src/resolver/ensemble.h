/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A ZooKeeper ensemble with a non-blocking interface: commands in, reports out. A separate thread
 * makes all calls of ZooKeeper's library, because some of them block (name resolution, closing a
 * session).
 *
 * A lost connection may lose commands: after every RIPC__ENS_UP the user repeats those that are
 * still needed.
 */
#ifndef RIPC_RESOLVER_ENSEMBLE_H
#define RIPC_RESOLVER_ENSEMBLE_H

#include "base/list.h"
#include "wire/record.h"

#include <stdbool.h>

/* Most bytes of the data of a node: a record and its signature. */
#define RIPC__NODE_MAX (RIPC__RECORD_BYTES_MAX + 128)

struct ripc__ensemble;

struct ripc__ensemble_env {
	const char *hosts; /* HOST:PORT,HOST:PORT[/ROOT]; the default root is /ripc */
	const char *auth;  /* user:password for digest authentication; empty: none */
	uint32_t session_ms;
};

enum ripc__ensemble_command {
	RIPC__CALL_CLAIM,       /* creates the node with these bytes */
	RIPC__CALL_CLAIM_FORCE, /* the same, or replaces the node of another */
	RIPC__CALL_RELEASE,     /* removes the node, if it belongs to this session */
	RIPC__CALL_WATCH,       /* reads the node, and reports its next change */
	/* reads the node of this service; 0: those of all services, at most RIPC__LISTING_MAX */
	RIPC__CALL_LIST,
	RIPC__CALL_REPORT_RIVAL, /* notifies the holder of the node of another, with these bytes */
};

enum ripc__ensemble_kind {
	/* connected; len 1: a new session, without own nodes; service: its id */
	RIPC__ENS_UP = 1,
	RIPC__ENS_LOST,    /* not connected; the session may survive. Text: the cause, if known */
	RIPC__ENS_CLAIMED, /* service: the node belongs to this session */
	RIPC__ENS_TAKEN,   /* service: another session holds the node; bytes: its data */
	RIPC__ENS_REFUSED, /* service: the node cannot be created or read. Text: the cause */
	RIPC__ENS_FOUND,   /* service: bytes: the data of its node */
	RIPC__ENS_NONE,    /* service: it has no node */
	/* service: another context lost the conflict over the own node; bytes: its record */
	RIPC__ENS_RIVAL,
	RIPC__ENS_CHANGED, /* service: its node changed: watch it again to read it */
	/* service: one of those asked for by RIPC__CALL_LIST; bytes: the data of its node */
	RIPC__ENS_LISTED,
	RIPC__ENS_MESSAGE, /* the user's own: bytes: a message for the core; ours: final */
};

struct ripc__ensemble_report {
	struct ripc__list link;
	enum ripc__ensemble_kind kind;
	uint64_t service;
	bool ours; /* FOUND: the node belongs to this session; MESSAGE */
	/* FOUND, TAKEN: number of writes to the node since its creation; LISTED: its age in s */
	int32_t version;
	size_t len;
	uint8_t bytes[]; /* data; or text with its terminating 0 */
};

/* Starts to connect. Return: 0 or a negative errno, with a phrase in why. */
int ripc__ensemble_open(struct ripc__ensemble **e, const struct ripc__ensemble_env *env, char *why,
			size_t whylen);

/* Ends the session, which removes its nodes. Waits for the thread. */
void ripc__ensemble_close(struct ripc__ensemble *e);

/* An eventfd: readable when there may be reports. */
int ripc__ensemble_fd(const struct ripc__ensemble *e);

/*
 * Queues a command for the node of a service, with len bytes of data; found: REPORT_RIVAL: the node
 * of the other holder. Return: 0, -ENOMEM.
 */
int ripc__ensemble_submit(struct ripc__ensemble *e, enum ripc__ensemble_command command,
			  uint64_t service, const uint8_t *bytes, size_t len,
			  const struct ripc__ensemble_report *found);

/* Queues a report. Any thread. */
void ripc__ensemble_report_node(struct ripc__ensemble *e, enum ripc__ensemble_kind kind,
				uint64_t service, bool ours, int32_t version, const void *bytes,
				size_t len);

/*
 * Takes the next report, for the caller to free; NULL: there is none, and the descriptor is not
 * readable. *lost: a report was lost for lack of memory: as after RIPC__ENS_UP.
 */
struct ripc__ensemble_report *ripc__ensemble_next(struct ripc__ensemble *e, bool *lost);

/* The root of its nodes, for people. */
const char *ripc__ensemble_root(const struct ripc__ensemble *e);

/* In the child of fork(): closes descriptors. */
void ripc__ensemble_forked(struct ripc__ensemble *e);

#endif
