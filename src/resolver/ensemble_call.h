/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The inside of an ensemble. ensemble.c: the session, its thread and queues. ensemble_call.c: one
 * command, as a chain of asynchronous calls of ZooKeeper's library that ends with a report.
 */
#ifndef RIPC_RESOLVER_ENSEMBLE_CALL_H
#define RIPC_RESOLVER_ENSEMBLE_CALL_H

#define THREADED /* selects the multi-threaded library */
#include "resolver/ensemble.h"
#include "resolver/ensemble_hosts.h"

#include <pthread.h>
#include <zookeeper/zookeeper.h>

/* A command, then the call that executes it. */
struct ripc__ensemble_call {
	struct ripc__list link;
	struct ripc__ensemble *e;
	zhandle_t *zh; /* its session */
	enum ripc__ensemble_command command;
	uint64_t service;
	unsigned tries;
	zoo_op_result_t results[2];
	zoo_op_t ops[2];
	char path[512];
	size_t len;
	size_t their_len; /* REPORT_RIVAL: bytes of the node as it is, behind ours */
	int32_t version;  /* of that node */
	char bytes[];     /* data for the node */
};

struct ripc__ensemble {
	pthread_mutex_t lock;    /* guards the members up to report_lost */
	pthread_cond_t cond;     /* the ensemble's thread waits here */
	struct ripc__list calls; /* executed when a server is connected */
	struct ripc__list reports;
	atomic_bool stop;
	bool expired;     /* the session is over: a new handle is needed */
	bool lost;        /* no server is connected */
	bool report_lost; /* a report was lost for lack of memory */
	int fd;
	pthread_t thread;
	char hosts[512]; /* as configured, in random order */
	char addresses[RIPC__HOSTS_BYTES];
	char root[480];
	char auth[160];
	uint32_t session_ms;
	int64_t session; /* the one last connected; the library's thread only */
};

/* Queues a report. Any thread. */
void ripc__ensemble_report(struct ripc__ensemble *e, enum ripc__ensemble_kind kind,
			   uint64_t service, const void *bytes, size_t len);
void ripc__ensemble_report_text(struct ripc__ensemble *e, enum ripc__ensemble_kind kind,
				uint64_t service, const char *text);

/*
 * Executes a command in a session; the ensemble's thread only. Frees the call at its end, or moves
 * it to e->calls.
 */
void ripc__ensemble_execute(zhandle_t *zh, struct ripc__ensemble_call *c);

#endif
