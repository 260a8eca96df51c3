/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The messages by which the client of ripc-perf directs its server.
 *
 * Requests and replies are short messages of two items: the magic, then the fields below as 64-bit
 * little-endian numbers and a text. Measured messages have one item, which distinguishes them.
 * Every request is answered with a reply of the same token. A client repeats an unanswered request;
 * the server answers a repeated token with the same reply, and does nothing twice.
 */
#ifndef RIPC_TOOLS_PERF_CONTROL_H
#define RIPC_TOOLS_PERF_CONTROL_H

#include "perf.h"

enum perf_type {
	PERF_HELLO = 1,     /* the server is this client's until PERF_BYE, or silence */
	PERF_START = 2,     /* count messages of test, kind and size come now; echo or count them */
	PERF_END = 3,       /* that was all. Reply: received, damaged, cpu_ns, waited_ns */
	PERF_BASE_OPEN = 4, /* listen at the address in text. Reply: port */
	PERF_BASE_START = 5, /* the same exchange over the socket; the reply comes before it */
	PERF_BASE_CLOSE = 6,
	PERF_BYE = 7,
	PERF_QUIT = 8, /* end the server */
	/*
	 * of a paced test: after the reply comes a long message, 64 bits little-endian per message:
	 * when it came
	 */
	PERF_STAMPS = 9,
	PERF_REPLY = 100,   /* done */
	PERF_REFUSAL = 101, /* not done, text has the reason */
	PERF_BUSY = 102,    /* not done, another client is being served */
};

/* One message. Fields that a type does not use are 0. */
struct perf_control {
	uint64_t type;  /* enum perf_type */
	uint64_t token; /* number of the request, from 1; a reply has that of its request */
	uint64_t test, kind, size, count, verify;
	uint64_t protocol, wait, port;
	uint64_t received;  /* messages that arrived */
	uint64_t damaged;   /* of these, with other contents than were sent */
	uint64_t cpu_ns;    /* processor time of the server since START */
	uint64_t waited_ns; /* how long the server waited in vain for the rest */
	uint64_t returns;   /* START: 1: return buffers are offered by both sides */
	char text[256];
};

#define PERF_CONTROL_MS 1000 /* for the service to be found, and for credit */
/* Sends a control message. Return: as ripc_send_short(). */
int perf_control_send(struct ripc_service *service, uint64_t dest, const struct perf_control *c,
		      int timeout_ms);

/* Whether the message is one of these; false for measured messages and for anything malformed. */
bool perf_control_read(const struct ripc_message *m, struct perf_control *c);

#endif
