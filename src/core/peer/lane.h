/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A lane: one connection to a peer over one transport, shared by all services of both contexts. It
 * numbers messages, keeps the credits of the connection and of each remote service, and detects a
 * silent peer.
 */
#ifndef RIPC_CORE_PEER_LANE_H
#define RIPC_CORE_PEER_LANE_H

#include "auth/handshake.h"
#include "base/table.h"
#include "core/peer/lane_memory.h"
#include "core/progress/context.h"
#include "wire/elided.h"
#include "wire/hello.h"

#include <assert.h>
#include <sys/cdefs.h>

/*
 *   CONNECTING, ACCEPTING --established--> UP --GOAWAY--> RETIRING
 *   any --closed, failed--> DEAD
 *
 * ripc__lane_set_state() asserts that a transition is in the table of lane.c.
 */
enum ripc__lane_state {
	RIPC__LANE_CONNECTING, /* active side: waiting for the peer's reply */
	RIPC__LANE_ACCEPTING,  /* passive side: accepted, waiting for the transport */
	RIPC__LANE_UP,
	RIPC__LANE_RETIRING, /* GOAWAY was sent, see eviction.h; it is not peer->lane */
	RIPC__LANE_DEAD,     /* in ctx->dead_lanes until the end of the pass */
	RIPC__LANE_STATES,
};

/*
 * Whether a lane can send.
 *
 *   FREE --no credit, no room--> STARVED --flush--> FREE
 *   FREE, STARVED --the transport's queue is full--> BLOCKED --EV_SENDABLE--> FREE
 *   any --no memory for a control message--> BROKEN
 */
enum ripc__lane_sending {
	RIPC__SENDING_FREE,
	RIPC__SENDING_STARVED, /* senders wait: credit that arrives wakes them */
	RIPC__SENDING_BLOCKED, /* senders wait, if any: EV_SENDABLE wakes them */
	RIPC__SENDING_BROKEN,  /* the timers close the lane: later messages must not overtake */
};

/*
 * The silence of the peer, as far as it is known.
 *
 *   IDLE --ripc__lane_monitor()--> TIMED --a message, at an unknown time--> UNTIMED
 *   UNTIMED --timer--> TIMED      TIMED, UNTIMED --timer, no work--> IDLE
 *
 * The values make the transition of each received message one instruction: ripc__lane_untimed().
 */
enum ripc__lane_silence {
	RIPC__SILENCE_TIMED = 0,   /* since last_rx_ns */
	RIPC__SILENCE_UNTIMED = 1, /* a message arrived since last_rx_ns, at an unknown time */
	RIPC__SILENCE_IDLE = 3,    /* no work depends on the lane: silence is no failure */
};

/* a monitored lane is looked at so many times in peer_timeout_ms */
#define RIPC__SILENCE_TICKS 16

/* A connection request of a peer. */
struct ripc__conn_request {
	unsigned tp;
	void *request;                /* the transport's */
	uint64_t source;              /* the address it came from: base/admission.h */
	struct ripc__hello hello;     /* instance: zeros if it was malformed */
	struct ripc__handshake shake; /* with keys: the state of its handshake */
};

/* A request to connect that waits until it is known whether the present lane is alive. */
struct ripc__pending_conn {
	struct ripc__conn_request request;
	uint64_t since_ns; /* PING was sent on the present lane */
	uint64_t until_ns; /* the present lane is considered dead then */
};

/* Receive side of the credit of one service on one lane. */
struct ripc__flow {
	union {
		struct ripc__node node; /* in lane->flows */
		uint64_t id;            /* the local service */
	};
	struct ripc_service *service; /* NULL: not looked up yet, or closed */
	struct ripc__lane *lane;
	uint64_t arrived_units;      /* total on this lane */
	uint64_t consumed_units;     /* received by the application, of arrived_units */
	uint64_t advertised_units;   /* limit sent to the peer */
	uint64_t advertise_at_units; /* consumed_units at which a new limit is sent */
	uint64_t source;             /* service whose address was last learned from this flow */
	uint64_t noservice_ns;       /* last NOSERVICE for this service; 0: none yet */
	bool watched;                /* the peer gets WATCH_END when the service ends */
	bool refused;                /* a long message was: ripc__flow_refuses() */
	uint8_t medium_items;        /* medium items that arrived, up to the number for a grant */
	uint16_t nstanding;          /* standing buffers that refer to it */
	/* struct ripc__rndv: long messages that are WAITING, oldest first */
	struct ripc__list waiting;
	struct ripc__list wait_link; /* in service->waiting while there are some */
	uint32_t standing_len; /* bytes of each buffer that the peer is granted; 0: none yet */
};

/* Units of a service's window for a message of len bytes, header included. */
static inline uint32_t ripc__units_of(size_t len)
{
	return (uint32_t)((len + RIPC__CREDIT_UNIT - 1) / RIPC__CREDIT_UNIT);
}

/*
 * The same for a message with these flags. An answer takes none: a thread that waits for it may be
 * the one that would empty the queue of the service.
 */
static inline uint32_t ripc__units_for(unsigned flags, size_t len)
{
	return flags & RIPC__F_REPLY ? 0 : ripc__units_of(len);
}

/* Send side of the credit of one service on one lane. */
struct ripc__credit {
	union {
		struct ripc__node node; /* in ctx->credits */
		uint64_t id;            /* the remote service */
	};
	struct ripc__lane *lane;
	struct ripc__credit *next; /* of the lane, behind the first */
	uint64_t sent_units;       /* total on this lane */
	uint64_t limit_units;      /* total that may be sent */
	unsigned unacked_round; /* lane->ref_round in which an unacknowledged request was found */
	/* items to copy before the next export: its receivers keep their messages */
	uint16_t export_skip;
	uint16_t export_backoff : 14; /* the next value of export_skip */
	uint8_t unregistered_items;   /* long items of other memory, as far as counted */
	/* its destination is folded: the lane's peer holds the service */
	bool holds : 1;
	bool ended : 1; /* the service has ended: freed when no request refers to it */
};

/* services that one peer may name over one lane, whether or not this context holds them */
#define RIPC__FLOWS_MAX 4096
/* the same of services that this context holds, or held: besides as many as it holds at present */
#define RIPC__FLOWS_HELD_MAX 65536

/* A process has one for each connection, so it is small; the rest is allocated on demand. */
struct ripc__lane {
	struct ripc__list link; /* in ctx->lanes or ctx->dead_lanes */
	struct ripc *ctx;
	struct ripc__peer *peer;
	struct ripc__ep *ep;                 /* NULL once closed */
	uint8_t tp;                          /* index of the transport */
	enum ripc__lane_state state : 8;     /* ripc__lane_set_state() */
	enum ripc__lane_sending sending : 8; /* ripc__lane_set_sending() */
	enum ripc__lane_silence silence : 8;
	bool active : 1;       /* this side connected */
	bool flow_parked : 1;  /* parked, not flows */
	bool replaces : 1;     /* CONNECTING: takes the place of the silent peer->lane */
	bool epoch_is_old : 1; /* our hello had a former epoch of the peer: it ends when it is up */
	bool uses_credits;     /* the peer needs credits: tx_credits is valid */
	/* long messages in a row with a quick reply; negative: penalty of delayed_ack.c */
	int8_t reply_streak;
	uint16_t ncontrol;
	uint32_t tx_credits;     /* receive buffers of the peer for this side's sends */
	uint32_t rx_depth;       /* receive buffers for the peer; 0: no credits needed */
	uint32_t rx_credits_due; /* free again and not yet returned as credit */
	uint32_t rx_held;        /* held by messages */
	uint32_t tx_seq, rx_seq;
	/* tx_seq + rx_seq at the last trim, and at the last check for lanes to retire */
	uint32_t trim_seq, evict_seq;
	uint16_t reads;    /* posted */
	uint16_t nwatched; /* flows that the peer watches */
	uint16_t barriers; /* sent by ripc__lane_barrier(), without PONG */
	struct ripc__header_context tx_last, rx_last;
	uint64_t reliable_tx, reliable_rx; /* next reliable number; 0: RELIABLE_BEGIN is due */
	uint32_t send_max;                 /* largest message in bytes: the minimum of both sides */
	unsigned caps;                     /* READ/WRITE: operations allowed towards the peer */
	uint32_t service_window;           /* the peer's, in units */
	unsigned ref_round;                /* counts the passes of the reference timer */
	struct ripc__flow *flow;           /* the last one used */
	union {
		struct ripc__table flows; /* struct ripc__flow by service id */
		/* the only flow, of an idle peer: all units that arrived are consumed */
		struct ripc__parked_flow {
			uint64_t id, arrived_units, advertised_units;
		} parked;
	};
	/* the first credit, id 0: none yet; its next are the others */
	struct ripc__credit credits;
	struct ripc__list control;        /* struct ripc__control: queued for credit or room */
	struct ripc__lane_memory *memory; /* never NULL */
	struct ripc__handshake *shake;    /* with keys: the handshake, until it ends; else NULL */
	uint64_t last_rx_ns;              /* last sign of life */
	uint64_t up_ns;                   /* when it came up */
	union {
		/* CONNECTING, ACCEPTING: time limit until it is up; 0: the peer was given up */
		uint64_t connect_ns;
		uint64_t pinged_ns; /* UP: last PING without an answer; 0: none */
	};
	union {
		/* before UP: epoch of the peer's dedup window: then peer->remote_epoch */
		uint64_t remote_epoch;
		uint64_t bytes_transferred; /* UP: as last reported by the transport */
	};
};

struct ripc__control {
	struct ripc__list link;
	uint32_t len;
	uint8_t bytes[];
};

/* Also counts the lanes of the context that are UP. */
void ripc__lane_set_state(struct ripc__lane *lane, enum ripc__lane_state to);

/* BLOCKED ends only by EV_SENDABLE, which frees the lane, and BROKEN never. */
static inline void ripc__lane_set_sending(struct ripc__lane *lane, enum ripc__lane_sending to)
{
	assert(lane->sending < RIPC__SENDING_BLOCKED || to > lane->sending ||
	       (lane->sending == RIPC__SENDING_BLOCKED && to == RIPC__SENDING_FREE));
	lane->sending = to;
}

/* A sender waits for credit or room. */
static inline void ripc__lane_wait_for_room(struct ripc__lane *lane)
{
	if (lane->sending == RIPC__SENDING_FREE)
		ripc__lane_set_sending(lane, RIPC__SENDING_STARVED);
}

/* A message arrived at an unknown time. An idle lane stays idle. */
static inline void ripc__lane_untimed(struct ripc__lane *lane)
{
	lane->silence |= RIPC__SILENCE_UNTIMED;
}

/*
 * Sends one application message: a header, stamped here, and items. Return: 0; -EMSGSIZE;
 * -EFAULT: items cannot be read; -EAGAIN: no credit or no room, or the lane is failing; the
 * destination's waitq is woken later.
 */
int ripc__lane_send(struct ripc__lane *lane, uint8_t *header, size_t len,
		    const struct iovec *payload, unsigned n, bool more);
/* The same for ripc__lane_post_item(). */
int ripc__lane_send_item(struct ripc__lane *lane, unsigned flags,
			 const struct ripc__call_words *call, uint64_t dest, uint64_t source,
			 const struct iovec *item, bool more);

/*
 * Sends a control message, at once or when there is credit and room, in order. Out of memory closes
 * the lane; no other failure.
 */
void ripc__lane_control(struct ripc__lane *lane, uint8_t *bytes, size_t len);

/* Returns credit if it is due, and sends queued control messages. Return: whether none is left. */
bool ripc__lane_flush_control(struct ripc__lane *lane);

/*
 * Sends a control message together with the next message of the lane, or at the next pass. Return:
 * false: there is no credit or no room, and the message is dropped.
 */
bool ripc__lane_control_later(struct ripc__lane *lane, uint8_t *bytes, size_t len);

/* Sends a control message with one or two words. */
void ripc__lane_notify(struct ripc__lane *lane, unsigned kind, uint64_t dest, uint64_t source,
		       uint64_t a, uint64_t b);

/* Credit of a service on this lane, or NULL. */
struct ripc__credit *ripc__credit_find(struct ripc__lane *lane, uint64_t id);
/* The credit, of any lane, into which the destination of a service is folded; or NULL. */
struct ripc__credit *ripc__credit_holder(struct ripc *ctx, uint64_t id);
/* Credit of a service on this lane, created if needed. Return: NULL: out of memory. */
struct ripc__credit *ripc__lane_credit(struct ripc__lane *lane, uint64_t id);

/* time between two checks for idle peers, and for services that have ended */
#define RIPC__TRIM_MS 1000

/* State was allocated that idle peers do not need: plans a trim (peer.c). */
static inline void ripc__trim_plan(struct ripc *ctx)
{
	if (ctx->next_trim_ns != RIPC__NEVER)
		return;
	ctx->next_trim_ns = ripc__now(ctx) + RIPC__TRIM_MS * RIPC__MS;
	ripc__timer_at(ctx, ctx->next_trim_ns);
}

/* The flow to a service, if it is there and not parked; or NULL. */
struct ripc__flow *ripc__flow_find(struct ripc__lane *lane, uint64_t id);
/* The peer is idle: parks the only flow, if there is nothing else to know of it. */
void ripc__flow_park(struct ripc__lane *lane);
/* Frees flows and credits of a closed lane. */
void ripc__flows_free(struct ripc__lane *lane);

/* The flow to a local service, created if needed. NULL: out of memory, or there are too many. */
struct ripc__flow *ripc__flow_lookup(struct ripc__lane *lane, uint64_t id);
static inline struct ripc__flow *ripc__flow_get(struct ripc__lane *lane, uint64_t id)
{
	struct ripc__flow *f = lane->flow;

	return RIPC__LIKELY(f && f->id == id) ? f : ripc__flow_lookup(lane, id);
}

/*
 * Whether a long message to this service was refused, and the refusal may not have reached the
 * sender. Later messages of it must not overtake the refused one if the service is here again.
 */
static inline bool ripc__flow_refuses(const struct ripc__flow *f)
{
	return f->refused && f->lane->barriers;
}

/* A receive buffer is free again: its credit returns to the peer. */
void ripc__lane_repost(struct ripc__lane *lane);

/* Advertises the whole window to the peer, now or behind the reply that is expected. */
void ripc__flow_advertise(struct ripc__flow *flow);
void ripc__flow_advertise_now(struct ripc__flow *flow);
/*
 * The application received units of a flow. The peer gets credit when a quarter of the window is
 * free.
 */
static __always_inline void ripc__flow_consume(struct ripc__flow *flow, uint32_t units)
{
	flow->consumed_units += units;
	if (RIPC__UNLIKELY(flow->consumed_units >= flow->advertise_at_units))
		ripc__flow_advertise(flow);
}
/* A service of the peer is unknown now: its next message sets its address again. */
void ripc__flows_relearn(struct ripc__lane *lane, uint64_t source);
/* A service was closed, or taken over: its flows keep counting messages that still arrive. */
void ripc__flows_drop(struct ripc *ctx, struct ripc_service *s);
/*
 * Frees the flows of services that do not exist, and the credits of those that have ended. FLOW_END
 * makes both sides count such a service from 0 again. Return: false: some flows wait for room.
 */
bool ripc__flows_trim(struct ripc__lane *lane);
/* FLOW_END arrived. Return: whether it is possible. */
bool ripc__flow_ended(struct ripc__lane *lane, uint64_t id, uint64_t arrived_units);

/* Work begins to depend on the lane: from now on silence is detected. */
void ripc__lane_monitor(struct ripc__lane *lane);
/* A message waits for credit: counts that. Return: -EAGAIN. */
int ripc__lane_stalled(struct ripc__lane *lane);
/*
 * Whether a message on one concerns transfers on the other: the same lane, or both ends of a
 * context's lane to itself.
 */
static inline bool ripc__lane_same(const struct ripc__lane *a, const struct ripc__lane *b)
{
	return a == b || (a && b && a->peer == b->peer && a->tp == b->tp &&
			  a->ctx->tp[a->tp].limits.caps & RIPC__CAP_SELF);
}

/*
 * Fails the lane (failover.c): frees all that depends on it and reconnects if work is outstanding.
 */
void ripc__lane_fail(struct ripc__lane *lane, int status, const char *text);
/* Removes all return buffers that the peer offered for a destination. */
void ripc__remote_returns_drop(struct ripc__dest *d);
/* The peer's lane is closed, retires or is replaced: what its destinations have on it ends. */
void ripc__peer_lane_ends(struct ripc__peer *p);
/* Closes the lane, which is not dead, without further effect. */
void ripc__lane_close(struct ripc__lane *lane);
void ripc__dead_lanes_free(struct ripc *ctx);

/* Counts a message that violates the protocol and fails its lane (failover.c). */
void ripc__lane_protocol_error(struct ripc__lane *lane, const char *why);

#endif
