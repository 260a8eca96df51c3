/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Connection set-up by datagrams that may be lost, repeated or delayed: one side of one connection.
 * Messages: doc/protocol.md, section 7.2. Pure: time and messages go in, actions and messages come
 * out.
 *
 *   active   IDLE -> REQ_SENT -> REP received: QP_SETUP -> ESTABLISHED (RTU is sent)
 *   passive  REQ_RECEIVED -> accepted: QP_SETUP -> REP_SENT -> RTU or data: ESTABLISHED
 *            REQ_RECEIVED -> rejected: REJ_SENT (REJ answers each repeated REQ) ->
 *              RIPC__WIREUP_DONE
 *   both     any state -> CLOSING (DISC is sent) -> DISCED or time-out: RIPC__WIREUP_DONE
 *            no answer to REQ or REP: the caller ends the wire-up, or starts a new one
 *
 * ripc__wireup_set_state() asserts that a transition is in the table of wireup.c.
 */
#ifndef RIPC_IB_WIREUP_H
#define RIPC_IB_WIREUP_H

#include "transport/transport.h"

#define RIPC__WIREUP_HEADER 20u /* bytes of every message */
#define RIPC__WIREUP_PARAMS 20u /* additional bytes of REQ and REP */
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

enum ripc__wireup_flags {
	/* understands a SEND with immediate data: the first 4 bytes of a message */
	RIPC__WIREUP_SEND_IMM = 1 << 0,
};

/* The parameters of one side of a connection. */
struct ripc__wireup_params {
	uint32_t rc_qpn, rc_psn;     /* 24 bits; the first packet sequence number of the sender */
	uint32_t uc_qpn, uc_psn;     /* 0: no UC queue pair */
	uint8_t mtu;                 /* largest packet, as in an address */
	uint8_t responder_resources; /* most reads it serves at a time */
	uint8_t initiator_depth;     /* most reads it has outstanding */
	uint8_t flags;               /* of enum ripc__wireup_flags; others are ignored */
};

struct ripc__wireup_message {
	uint8_t kind;
	uint32_t from, to; /* connection numbers of sender and receiver; 0: unknown */
	uint32_t qkey;     /* of the UD queue pair of the sender */
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
	RIPC__WIREUP_STATES,
};

/* The next step of the caller. */
enum ripc__wireup_action {
	RIPC__WIREUP_NOTHING,
	RIPC__WIREUP_READY, /* make the queue pair ready with ->theirs, then ripc__wireup_ready() */
	RIPC__WIREUP_OPEN,  /* the connection is up */
	RIPC__WIREUP_REJECTED, /* by the peer; ->priv is its private data */
	RIPC__WIREUP_CLOSED,   /* the peer closed or does not know the connection */
	/* No answer to REQ or REP within the time limit: call ripc__wireup_connect() or _end(). */
	RIPC__WIREUP_TIMEOUT,
};

struct ripc__wireup {
	enum ripc__wireup_state state; /* ripc__wireup_set_state() */
	bool active;
	bool due;              /* a message is to be sent now */
	bool timer_armed;      /* next_ns is valid */
	uint8_t privlen;       /* of the private data sent, then of that received */
	uint32_t mine, number; /* connection numbers: own and of the peer */
	uint64_t next_ns;      /* time of the next retransmission, or of the time-out */
	uint64_t interval_ns;  /* current retransmission interval */
	uint64_t until_ns;     /* time of the time-out */
	struct ripc__wireup_params ours, theirs;
	uint8_t priv[RIPC__PRIVATE_MAX];
};

void ripc__wireup_set_state(struct ripc__wireup *w, enum ripc__wireup_state to);
/* Active: starts with a REQ, also again if no REQ was answered. @mine is not 0. */
void ripc__wireup_connect(struct ripc__wireup *w, uint32_t mine,
			  const struct ripc__wireup_params *ours, const void *priv, size_t privlen,
			  uint64_t now_ns);
/* Passive: starts with a REQ of an unknown connection. */
void ripc__wireup_request(struct ripc__wireup *w, uint32_t mine,
			  const struct ripc__wireup_message *req);
/* Passive: answers the REQ. After accept, connect the queue pair and call ripc__wireup_ready(). */
void ripc__wireup_accept(struct ripc__wireup *w, const struct ripc__wireup_params *ours,
			 const void *priv, size_t privlen);
void ripc__wireup_reject(struct ripc__wireup *w, const void *priv, size_t privlen, uint64_t now_ns);
/* The queue pair is connected. Active: returns RIPC__WIREUP_OPEN. */
enum ripc__wireup_action ripc__wireup_ready(struct ripc__wireup *w, uint64_t now_ns);
/* Data arrived over the connection: the peer has received our REP, even if its RTU was lost. */
enum ripc__wireup_action ripc__wireup_data_received(struct ripc__wireup *w);
/* Closes it, in any state. */
void ripc__wireup_close(struct ripc__wireup *w, uint64_t now_ns);
/* Ends it, in any state: no message can reach the peer. */
void ripc__wireup_end(struct ripc__wireup *w);

/* A message for this connection: to == mine, or a repeated REQ with its number. */
enum ripc__wireup_action ripc__wireup_input(struct ripc__wireup *w,
					    const struct ripc__wireup_message *m, uint64_t now_ns);

/*
 * The next message to send. Return: whether m was filled; call until it is not. *action may be
 * RIPC__WIREUP_TIMEOUT then. If timer_armed, call again at next_ns.
 */
bool ripc__wireup_output(struct ripc__wireup *w, struct ripc__wireup_message *m, uint64_t now_ns,
			 enum ripc__wireup_action *action);

/* The answer to a message of an unknown connection. Return: whether there is one. */
bool ripc__wireup_unknown(const struct ripc__wireup_message *m, struct ripc__wireup_message *reply);

#endif
