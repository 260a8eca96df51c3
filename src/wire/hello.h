/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The private data of a lane's set-up: the ids and limits of both sides. doc/protocol.md, section
 * 2.
 */
#ifndef RIPC_WIRE_HELLO_H
#define RIPC_WIRE_HELLO_H

#include <stddef.h>
#include <stdint.h>

#define RIPC__HELLO_LEN 64
#define RIPC__HELLO_AUTH \
	6 /* index of the byte that is 1 if a proof follows, else 0: see auth/handshake.h */
/* With fewer receive buffers both sides would exchange only CREDIT messages, one for each. */
#define RIPC__RECV_DEPTH_MIN 3

/* The reason of a refusal; 0 in a request and in an acceptance. */
enum ripc__refusal {
	RIPC__REFUSE_NONE = 0,
	RIPC__REFUSE_STALE = 1,   /* the target instance is not here: the record is stale */
	RIPC__REFUSE_CROSSED = 2, /* the rejecting side connects, or has connected: use that */
	RIPC__REFUSE_CLOSING = 3, /* the context is being closed */
	RIPC__REFUSE_MEMORY = 4,  /* no memory for another peer */
	RIPC__REFUSE_VERSION = 5, /* another version of the protocol */
	RIPC__REFUSE_END,
};

struct ripc__hello {
	uint8_t refusal;      /* enum ripc__refusal */
	uint8_t instance[16]; /* the sender */
	uint8_t target[16];   /* the expected receiver */
	uint32_t send_max;    /* largest send that the sender of the hello can receive, bytes */
	uint32_t recv_depth;  /* receive buffers it has posted for this lane; 0: needs no credits */
	/* units of RIPC__CREDIT_UNIT bytes that may be queued at each of its services */
	uint32_t service_window;
	/* of the sender's dedup window for the other side: struct ripc__peer; 0: it has none */
	uint64_t epoch;
	/* RIPC__CAP_READ, RIPC__CAP_WRITE: operations that the other side may use on it */
	uint32_t caps;
};

void ripc__hello_encode(const struct ripc__hello *hello, uint8_t buf[RIPC__HELLO_LEN]);

/* Return: 0, -EPROTO, or -EPROTONOSUPPORT (another version), with *why a constant string. */
int ripc__hello_decode(struct ripc__hello *hello, const uint8_t *buf, size_t len, const char **why);

const char *ripc__refusal_text(unsigned refusal);

#endif
