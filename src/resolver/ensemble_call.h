/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * An ensemble, inside: ensemble.c has the session, its thread and its queues, ensemble_call.c what becomes of one command: the
 * calls of ZooKeeper's library that carry it out, one after the other, up to its report.
 */
#ifndef RIPC_RESOLVER_ENSEMBLE_CALL_H
#define RIPC_RESOLVER_ENSEMBLE_CALL_H

#define THREADED /* the multi-threaded library */
#include "resolver/ensemble.h"
#include "resolver/ensemble_hosts.h"

#include <pthread.h>
#include <sys/queue.h>
#include <zookeeper/zookeeper.h>

enum ripc__ensemble_command {
	RIPC__CALL_CLAIM,
	RIPC__CALL_RELEASE,
	RIPC__CALL_WATCH,
	RIPC__CALL_REPORT_RIVAL
};

/* A command, and later the call that carries it out. */
struct ripc__ensemble_call {
	STAILQ_ENTRY(ripc__ensemble_call) link;
	struct ripc__ensemble *e;
	zhandle_t *zh; /* the session it belongs to */
	enum ripc__ensemble_command command;
	uint64_t service;
	bool force;
	unsigned tries;
	zoo_op_result_t results[2];
	zoo_op_t ops[2];
	char path[512];
	size_t len;
	size_t their_len; /* ACCUSE: bytes of the node as it is, behind those of ours */
	int32_t version;  /* of that node */
	char bytes[];     /* data for the node */
};

struct ripc__ensemble_report_entry {
	STAILQ_ENTRY(ripc__ensemble_report_entry) link;
	enum ripc__ensemble_kind kind;
	uint64_t service;
	bool ours;
	int32_t version;
	size_t len;
	uint8_t bytes[];
};

struct ripc__ensemble {
	pthread_mutex_t lock; /* of what follows, up to starved */
	pthread_cond_t cond;  /* the keeper waits here */
	STAILQ_HEAD(, ripc__ensemble_call) calls;
	STAILQ_HEAD(, ripc__ensemble_call)
	unconfirmed; /* releases that were lost with the connection: made again in the same session */
	STAILQ_HEAD(, ripc__ensemble_report_entry) reports;
	atomic_bool stop;
	bool expired;     /* the session is over: a new handle is needed */
	bool lost;        /* not connected */
	bool report_lost; /* a report was lost for want of memory: as if the connection had been */
	int fd;
	pthread_t thread;
	char hosts[512];                   /* as configured, in random order */
	char addresses[RIPC__HOSTS_BYTES]; /* what they resolved to last; the keeper's thread only */
	char root[480];
	char auth[160];
	uint32_t session_ms;
	int64_t session; /* the one last connected; the library's thread only */
};

/* Leaves a report, of a node or of anything. Any thread. Without memory it is as if the connection had been lost. */
void ripc__ensemble_report_node(struct ripc__ensemble *e, enum ripc__ensemble_kind kind,
				uint64_t service, bool ours, int32_t version, const void *bytes,
				size_t len);
void ripc__ensemble_report(struct ripc__ensemble *e, enum ripc__ensemble_kind kind,
			   uint64_t service, bool ours, const void *bytes, size_t len);
void ripc__ensemble_report_text(struct ripc__ensemble *e, enum ripc__ensemble_kind kind,
				uint64_t service, const char *text);

/* Carries a command out in a session: the keeper's thread. The call is freed when it is over, or kept in e->unsure. */
void ripc__ensemble_execute(zhandle_t *zh, struct ripc__ensemble_call *c);

#endif
