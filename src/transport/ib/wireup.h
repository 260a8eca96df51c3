/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * How two contexts set up a connection by datagrams that may be lost, repeated or late: one side of one connection.
 * Messages: doc/protocol.md, section 6. Pure: it is told the time and what came, and says what to do and what to send.
 *
 *   active   IDLE -> ASKING (REQ goes) -> REP: READYING (the queue pair) -> UP (RTU goes)
 *   passive  ASKED (REQ came) -> accepted: READYING -> ANSWERING (REP goes) -> RTU or data: UP
 *            ASKED -> rejected: REFUSING (REJ goes, again for each REQ) -> OVER
 *   both     -> CLOSING (DISC goes) -> DISCED or enough of them: OVER
 */
#ifndef RIPC_IB_WIREUP_H
#define RIPC_IB_WIREUP_H

#include "transport/transport.h"

#define RIPC__WIREUP_HEADER 20u /* bytes of every message */
#define RIPC__WIREUP_PARAMS 20u /* bytes that REQ and REP add */
#define RIPC__WIREUP_MAX    (RIPC__WIREUP_HEADER + RIPC__WIREUP_PARAMS + RIPC__PRIVATE_MAX)

enum ripc__wireup_kind {
	RIPC__WIREUP_REQ = 1,
	RIPC__WIREUP_REP = 2,
	RIPC__WIREUP_RTU = 3,
	RIPC__WIREUP_REJ = 4,
	RIPC__WIREUP_DISC = 5,
	RIPC__WIREUP_DISCED = 6,
	RIPC__WIREUP_PROBE = 7,
	RIPC__WIREUP_PROBED = 8,
};

/* What one side of a connection is. */
struct ripc__wireup_params {
	uint32_t rc_qpn, rc_psn;     /* 24 bits; the first packet sequence number that it sends */
	uint32_t uc_qpn, uc_psn;     /* 0: no UC queue pair */
	uint8_t mtu;                 /* largest packet, as in an address */
	uint8_t responder_resources; /* reads that it serves at once */
	uint8_t initiator_depth;     /* reads that it has outstanding at most */
};

struct ripc__wireup_message {
	uint8_t kind;
	uint32_t from, to; /* the sender's and the receiver's number of the connection; 0: not known */
	uint32_t qkey;     /* of the queue pair it came from, for the answer */
	struct ripc__wireup_params params; /* REQ, REP */
	uint8_t privlen;                   /* REQ, REP, REJ */
	const uint8_t *priv;               /* within the bytes decoded */
};

/* Return: bytes written at buf. */
size_t ripc__wireup_encode(const struct ripc__wireup_message *m, uint8_t buf[RIPC__WIREUP_MAX]);
/* Any bytes. Return: 0, or -EPROTO with *why a constant string. */
int ripc__wireup_decode(struct ripc__wireup_message *m, const uint8_t *buf, size_t len,
			const char **why);

enum ripc__wireup_state {
	RIPC__WIREUP_IDLE,
	RIPC__WIREUP_REQ_SENT,
	RIPC__WIREUP_REQ_RECEIVED,
	RIPC__WIREUP_QP_SETUP,
	RIPC__WIREUP_REP_SENT,
	RIPC__WIREUP_ESTABLISHED,
	RIPC__WIREUP_REJ_SENT,
	RIPC__WIREUP_CLOSING,
	RIPC__WIREUP_DONE,
};

/* What the caller has to do next. */
enum ripc__wireup_action {
	RIPC__WIREUP_NOTHING,
	RIPC__WIREUP_READY, /* make the queue pair ready with ->theirs, then ripc__wireup_ready() */
	RIPC__WIREUP_OPEN,  /* the connection is up */
	RIPC__WIREUP_REJECTED, /* by the peer; ->priv is its private data */
	RIPC__WIREUP_CLOSED,   /* the peer has closed it, or does not know it */
	RIPC__WIREUP_TIMEOUT,  /* no answer in time */
};

struct ripc__wireup {
	enum ripc__wireup_state state;
	bool active;
	bool due;              /* something is to be sent as soon as possible */
	bool timer_armed;      /* next_ns counts */
	uint8_t privlen;       /* of what we send, then of what was received */
	uint32_t mine, number; /* our and the peer's number of the connection */
	uint64_t next_ns;      /* when something is to be sent again, or it is over */
	uint64_t interval_ns;  /* between the last two of a kind */
	uint64_t until_ns;     /* gives up then */
	struct ripc__wireup_params ours, theirs;
	uint8_t priv[RIPC__PRIVATE_MAX];
};

/* Active: asks. @mine is not 0. */
void ripc__wireup_connect(struct ripc__wireup *w, uint32_t mine,
			  const struct ripc__wireup_params *ours, const void *priv, size_t privlen,
			  uint64_t now_ns);
/* Passive: a REQ that belongs to no connection. */
void ripc__wireup_request(struct ripc__wireup *w, uint32_t mine,
			  const struct ripc__wireup_message *req);
/* Passive: the answer. After acceptance the queue pair is to be made ready, then ripc__wireup_ready(). */
void ripc__wireup_accept(struct ripc__wireup *w, const struct ripc__wireup_params *ours,
			 const void *priv, size_t privlen);
void ripc__wireup_reject(struct ripc__wireup *w, const void *priv, size_t privlen, uint64_t now_ns);
/* The queue pair is ready. Active: that makes it OPEN. */
enum ripc__wireup_action ripc__wireup_ready(struct ripc__wireup *w, uint64_t now_ns);
/* Something arrived over the connection itself: the peer has our REP, though its RTU may be lost. */
enum ripc__wireup_action ripc__wireup_data_received(struct ripc__wireup *w);
/* We close it, in any state. */
void ripc__wireup_close(struct ripc__wireup *w, uint64_t now_ns);

/* A message for this connection: from the peer's queue pair, and to == mine or a repeated REQ of this number. */
enum ripc__wireup_action ripc__wireup_input(struct ripc__wireup *w,
					    const struct ripc__wireup_message *m, uint64_t now_ns);

/*
 * What is to be sent now. Return: whether m is to be sent; call until it is not. Then *todo may be SILENT. next_ns tells when
 * to call again, if restless.
 */
bool ripc__wireup_output(struct ripc__wireup *w, struct ripc__wireup_message *m, uint64_t now_ns,
			 enum ripc__wireup_action *action);

/* The answer to a message for a connection that does not exist. Return: whether there is one. */
bool ripc__wireup_unknown(const struct ripc__wireup_message *m, struct ripc__wireup_message *answer);

#endif
