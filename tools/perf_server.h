/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The server side of ripc-perf. */
#ifndef RIPC_TOOLS_PERF_SERVER_H
#define RIPC_TOOLS_PERF_SERVER_H

#include "perf_control.h"
#include "perf_socket.h"

struct perf_server {
	const struct perf_args *args;
	struct ripc *ctx;
	struct ripc_service *service;
	uint64_t client;        /* whom it serves, or 0 */
	uint64_t activity;      /* messages that came from the client */
	uint64_t idle_activity; /* the activity when it was accepted, or another one was refused */
	uint64_t idle_since_ns; /* the time of that: a client that stays silent loses its place */
	uint64_t gone;          /* the client that the last failed reply was for, or 0 */
	uint64_t last_client, last_token; /* whose last request it was, and which */
	struct perf_control last_reply;   /* sent again when that request comes again */
	struct perf_control test; /* START of the test under way; test.test is 0 if there is none */
	/*
	 * return buffers of test.size bytes for the next messages, used in turns; NULL without
	 * --returns
	 */
	uint8_t *back[2];
	bool announced; /* one of them */
	uint64_t received, damaged;
	uint64_t waited_ns;      /* spent in vain on messages that were lost */
	uint64_t cpu_ns;         /* of a baseline round that has ended */
	double cpu_s;            /* reading when the test began */
	int listener;            /* of a TCP baseline, or -1 */
	struct perf_socket base; /* base.fd is -1 without a baseline */
	bool connected;          /* the UDP socket knows its partner */
	/* paced: when message i came, little-endian, 0 if it did not; test_count of them */
	uint64_t *stamps;
	uint64_t stamps_count;
	bool quit;
};

/* The server's half of the baseline (perf_base_server.c). */

/* Opens the socket that @request asks for; fills in reply->port, or makes it a refusal. */
void perf_base_open(struct perf_server *s, const struct perf_control *request,
		    struct perf_control *reply);

/* Takes part in one round, s->test, until it is over or the partner gone. */
void perf_base_run(struct perf_server *s);

/* May be called without a baseline. */
void perf_base_close(struct perf_server *s);

#endif
