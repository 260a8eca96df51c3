/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A lane: one connection to a peer over one transport, shared by all services of both contexts. It numbers messages,
 * keeps the credits of the connection and of each service at its far end, and notices when the peer falls silent.
 */
#ifndef RIPC_CORE_PEER_LANE_H
#define RIPC_CORE_PEER_LANE_H

#include "auth/handshake.h"
#include "core/context/context.h"
#include "wire/header.h"
#include "wire/hello.h"

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

enum ripc__lane_state {
	RIPC__LANE_CONNECTING, /* active: waiting for the peer's answer */
	RIPC__LANE_ACCEPTING,  /* passive: accepted, waiting for the transport's word */
	RIPC__LANE_UP,
	RIPC__LANE_RETIRING, /* gives way: GOAWAY was sent, see eviction.h; not peer->lane */
	RIPC__LANE_DEAD,     /* in ctx->dead_lanes until the round of progress is over */
};

/* A connection request that waits for the decision whether the present lane is still alive. */
struct ripc__pending_conn {
	unsigned tp;
	void *request;
	struct ripc__hello hello;
	struct ripc__handshake shake; /* with keys: what it has said */
	uint64_t source;              /* the address it came from */
	uint64_t until_ns;            /* then the present lane is taken for dead */
};

/* What arrives over one lane for one service: its side of the credit. */
struct ripc__flow {
	UT_hash_handle hh;
	uint64_t id;                  /* the service */
	struct ripc_service *service; /* NULL: not looked up yet, or gone */
	struct ripc__lane *lane;
	uint64_t arrived_units;    /* in all, on this lane */
	uint64_t consumed_units;   /* of these, received by the application */
	uint64_t advertised_units; /* limit told to the peer */
	uint64_t source;           /* whose address was last learned from a message of this flow */
	uint64_t noservice_ns;     /* last NOSERVICE for this service; 0: none yet */
};

/* How much of a service's window a message of so many bytes, header included, takes. */
static inline uint32_t ripc__units_of(size_t len)
{
	return (uint32_t)((len + RIPC__CREDIT_UNIT - 1) / RIPC__CREDIT_UNIT);
}

/* What we sent over one lane to one service: the other side of a flow. */
struct ripc__credit {
	UT_hash_handle hh;
	uint64_t id;          /* the service */
	uint64_t sent_units;  /* in all, on this lane */
	uint64_t limit_units; /* that may have been sent, in all */
	unsigned export_skip; /* items to copy before one is lent again: its receivers keep what they get */
	unsigned export_backoff; /* how many it will be the next time */
	unsigned unacked_round;  /* lane->ref_round in which an unanswered request was seen */
};

/* How long one attempt to connect may take: the last way there is, and one before it. */
#define RIPC__CONNECT_NS       (3000 * UINT64_C(1000000))
#define RIPC__CONNECT_FIRST_NS (1000 * UINT64_C(1000000))
#define RIPC__FLOWS_MAX        4096 /* services that one peer may send to over one lane */

struct ripc__lane {
	struct ripc__list link; /* in ctx->lanes or ctx->dead_lanes */
	struct ripc *ctx;
	struct ripc__peer *peer;
	unsigned tp;         /* index of the transport */
	struct ripc__ep *ep; /* NULL once closed */
	enum ripc__lane_state state;
	struct ripc__handshake *shake; /* with keys: the handshake, until it is over; else NULL */
	bool active;                   /* we connected */
	uint64_t source;               /* passive: the address it came from, base/admission.h */
	uint32_t idle_check_seq[2];    /* tx_seq, rx_seq when idle lanes were last looked for */
	unsigned ref_round;            /* counts the looks at what is lent */
	int reply_streak; /* long messages in a row that the application answered soon; below 0: that, less what done.c waits for */
	bool starved;     /* somebody found no credit or no room: tell them when there is some */
	bool close_pending; /* to be closed by the next timer: a control message found no memory */
	bool idle;          /* nothing hangs on its life: silence is no fault */
	bool rx_untimed;    /* since last_rx_ns, at a time that was not looked at */
	bool blocked;       /* the transport's queue is full: EV_SENDABLE will come */
	uint32_t tx_seq, rx_seq;
	struct ripc__header_context tx_last, rx_last;
	uint32_t send_max;       /* the largest message: ours and the peer's limit, bytes */
	unsigned caps;           /* READ/WRITE: what we may use towards the peer */
	bool uses_credits;       /* the peer needs credits: tx_credits is meaningful */
	uint32_t tx_credits;     /* sends the peer has receive buffers for */
	uint32_t rx_depth;       /* receive buffers we have for it; 0: no credits needed */
	uint32_t rx_credits_due; /* of these, free again and not yet told */
	uint32_t rx_held;        /* of these, held by messages */
	uint32_t service_window; /* the peer's, in units */
	uint64_t remote_epoch; /* number of the peer's memory of us: peer->remote_epoch when it is up */
	struct ripc__flow *flows; /* uthash by service id */
	struct ripc__flow *flow;  /* the last one used */
	unsigned nflows;
	struct ripc__credit *credits; /* uthash by service id */
	struct ripc__list control; /* struct ripc__control: control messages that wait for credit or room */
	unsigned ncontrol;
	struct ripc__list rndvs; /* struct ripc__rndv with work to post on this lane, in order */
	unsigned reads;          /* outstanding */
	struct ripc__list exports; /* struct ripc__export: buffers of ours that the peer has been given */
	struct ripc__list imports; /* struct ripc__region: buffers of the peer's that we map */
	unsigned nexports, nimports;
	struct ripc__list bounces;  /* struct ripc__bounce: buffers that stay registered */
	uint64_t bounce_bytes[2];   /* theirs, by way: out, and in */
	uint32_t last_export_id;    /* of the last share */
	uint64_t ref_bytes;         /* of ours that the peer reads in place */
	uint64_t connect_ns;        /* until it is up, or RETIRING: how long that may take */
	uint64_t last_rx_ns;        /* last sign of life */
	uint64_t pinged_ns;         /* last PING without an answer; 0: none */
	uint64_t bytes_transferred; /* bytes, as the transport told last */
};

struct ripc__control {
	struct ripc__list link;
	uint32_t len;
	uint8_t bytes[];
};

/* Connects to p over transport tp at an address; last: there is no other way. Return: 0 (p->out is set) or a negative errno, explained. */
int ripc__lane_connect(struct ripc *ctx, struct ripc__peer *p, unsigned tp, const uint8_t *addr,
		       size_t len, bool last);

/*
 * Sends one application message: header bytes, which are stamped, and items. Return: 0; -EMSGSIZE; -EAGAIN:
 * no credit or no room, or the lane is about to end; the destination's waitq will be woken.
 */
int ripc__lane_send(struct ripc__lane *lane, uint8_t *header, size_t len,
		    const struct iovec *payload, unsigned n, bool more);

/* Sends a control message, now or as soon as there is credit and room, in order. Never fails but for memory, and then closes the lane. */
void ripc__lane_control(struct ripc__lane *lane, uint8_t *bytes, size_t len);

/* A control message of one or two words for a request or the like. */
void ripc__lane_notify(struct ripc__lane *lane, unsigned kind, uint64_t dest, uint64_t source,
		       uint64_t a, uint64_t b);

/* The credit of a service on this lane, created if need be; NULL: out of memory. */
struct ripc__credit *ripc__lane_credit(struct ripc__lane *lane, uint64_t id);

/* A receive buffer is free again: its credit goes back to the peer. */
void ripc__lane_repost(struct ripc__lane *lane);

/* Advertises the whole window to the peer. */
void ripc__flow_advertise(struct ripc__flow *flow);
/* The application has taken units of a flow. The peer gets credit when a quarter of the window is free. */
static inline void ripc__flow_consume(struct ripc__flow *flow, uint32_t units)
{
	uint64_t window = flow->lane->ctx->opt.service_window / RIPC__CREDIT_UNIT;

	flow->consumed_units += units;
	if (RIPC__UNLIKELY(flow->consumed_units + window - flow->advertised_units >= window / 4))
		ripc__flow_advertise(flow);
}
/* A service of the peer's is not known any more: the next message from it is its address again. */
void ripc__flows_relearn(struct ripc__lane *lane, uint64_t source);
/* A service is gone: its flows count on, for what still comes. */
void ripc__flows_drop(struct ripc *ctx, struct ripc_service *s);

/* Something begins to hang on the life of the lane: from now on silence is noticed. */
void ripc__lane_monitor(struct ripc__lane *lane);
/* Whether what is said on one concerns what went over the other: they are one, or both ends of a context's lane to itself. */
static inline bool ripc__lane_same(const struct ripc__lane *a, const struct ripc__lane *b)
{
	return a == b || (a && b && a->peer == b->peer && a->tp == b->tp &&
			  a->ctx->tp[a->tp].limits.caps & RIPC__CAP_SELF);
}

/* Posts reads for the lane's long messages, sends what waits. */
void ripc__lane_flush(struct ripc__lane *lane);

/* The lane broke or is given up: frees all that depends on it, reconnects if work is outstanding. */
void ripc__lane_fail(struct ripc__lane *lane, int status, const char *text);
/* Closes it without any further consequence. */
void ripc__lane_close(struct ripc__lane *lane);
/* Frees closed lanes. */
void ripc__dead_lanes_free(struct ripc *ctx);

/* An event of transport tp. Takes care of its token. */
void ripc__lane_event(struct ripc *ctx, unsigned tp, const struct ripc__event *ev);

/* connect.c: a connection request arrived / an endpoint is up. */
void ripc__lane_on_request(struct ripc *ctx, unsigned tp, const struct ripc__event *ev);
void ripc__lane_on_established(struct ripc__lane *lane, const struct ripc__event *ev);
/* The reason of a refusal; RIPC__REFUSE_NONE, and another *status, if it cannot be believed. */
unsigned ripc__lane_refusal(struct ripc__lane *lane, const struct ripc__event *ev, int *status);
/* The first message on a lane whose peer has still to prove that it has our key. Takes care of its token. */
void ripc__lane_on_confirm(struct ripc__lane *lane, const struct ripc__event *ev);
/* Decides a request that was held back while we asked whether the present lane is alive. */
void ripc__pending_conn_resolve(struct ripc *ctx, struct ripc__peer *p, bool accept);

/* Keep-alive, held requests. */
void ripc__lane_timers(struct ripc *ctx);

/* Our hello to a peer over a transport. */
void ripc__lane_hello(struct ripc *ctx, unsigned tp, const uint8_t target[16], unsigned refusal,
		      uint8_t buf[RIPC__HELLO_LEN]);

/* Protocol.c: a message arrived on a lane / as a datagram. */
void ripc__dispatch_message(struct ripc__lane *lane, const struct ripc__event *ev);
void ripc__dispatch_datagram(struct ripc *ctx, unsigned tp, const struct ripc__event *ev);
/* Counts a message that broke the protocol; a lane it came on is closed. */
void ripc__lane_protocol_error(struct ripc__lane *lane, const char *why);

#endif
