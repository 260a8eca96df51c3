/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Calls from peers and lanes to the layers above them, set by ripc_open(). Lock held. A callee may
 * close the lane unless its comment excludes that.
 */
#ifndef RIPC_CORE_PEER_OPS_H
#define RIPC_CORE_PEER_OPS_H

#include "core/peer/lane.h"
#include "core/peer/peer.h"

struct ripc__peer_ops {
	/* A message arrived over the lane, or a datagram; the callee releases the event's token. */
	void (*message)(struct ripc__lane *lane, const struct ripc__event *ev);
	void (*datagram)(struct ripc *ctx, unsigned tp, const struct ripc__event *ev);
	/* A long message of a call arrived in full. Return: whether a service gets it. */
	bool (*call_arrived)(struct ripc__message *m);
	/* Whether a call waits for an answer of this service of p. */
	bool (*answer_awaited)(struct ripc *ctx, const struct ripc__peer *p, uint64_t source,
			       uint64_t call);
	/* Completions. imported is also called for a closed lane. */
	void (*write_done)(const struct ripc__event *ev);
	void (*read_done)(const struct ripc__event *ev);
	void (*imported)(struct ripc__lane *lane, const struct ripc__event *ev);

	/*
	 * The lane has credit and room, and its control messages are sent: continue its transfers.
	 * Return: whether messages of other destinations can be flushed.
	 */
	bool (*sendable)(struct ripc__lane *lane);
	/* Send the first of d->pending over the lane of its peer. Return: 0: it left the list. */
	int (*send_pending)(struct ripc__dest *d);
	/* d can be reached perhaps: send its reliable short messages that wait. */
	void (*flush_reliable)(struct ripc *ctx, struct ripc__dest *d);
	/* As flush_reliable: send WATCH for its watches that wait. */
	void (*flush_watches)(struct ripc *ctx, struct ripc__dest *d);
	/* Nobody holds d, or none could be looked for: its watches that wait end. */
	void (*not_found)(struct ripc *ctx, struct ripc__dest *d, const char *why);
	/* The peer has no addresses: look up its services that are watched. */
	void (*resolve_watched)(struct ripc *ctx, struct ripc__peer *p);
	/* A control message is about to be sent, which must not overtake others. Closes no lane. */
	void (*before_control)(struct ripc__lane *lane);

	/* Timer of a lane that is up. */
	void (*lane_timer)(struct ripc__lane *lane);
	/* The lane has no work: free what only speeds up the next transfer. Closes no lane. */
	void (*lane_idle)(struct ripc__lane *lane);
	/* Whether the peer's answer to a withdrawn offer is outstanding on the lane. */
	bool (*lane_awaits_answer)(const struct ripc__lane *lane);
	/* Whether something would be lost with the lane, although it is idle. */
	bool (*lane_in_use)(const struct ripc__lane *lane);

	/*
	 * The endpoint is closed, so the peer reaches none of our memory over it. The flows and
	 * credits are still there and are freed next.
	 */
	void (*lane_closed)(struct ripc__lane *lane);
	/* The lane failed and was closed: its transfers go back to their destinations. */
	void (*lane_failed)(struct ripc__lane *lane);
	/* The lane took the place of another one, whose last messages may be lost. */
	void (*lane_replaced)(struct ripc__lane *lane);
	/* The peer's lane is up. */
	void (*lane_up)(struct ripc__lane *lane);
	/* The peer has lost its lane, or its lane retires. */
	void (*peer_disconnected)(struct ripc *ctx, const struct ripc__peer *p);
	/* The peer lost its dedup window: it may deliver messages twice that are repeated. */
	void (*dedup_lost)(struct ripc *ctx, struct ripc__peer *p);
	/* No address of the peer answers (text): ends what it may have received. */
	void (*peer_unreachable)(struct ripc *ctx, struct ripc__peer *p, const char *text);
	/* The peer has no work and had no traffic for a while: free what it does not need. */
	void (*peer_idle)(struct ripc__peer *p);
	/* No peer had traffic for a while: free what is kept for reuse. */
	void (*all_idle)(struct ripc *ctx);
	/* The peer is about to be freed. */
	void (*peer_forgotten)(struct ripc *ctx, struct ripc__peer *p);
};

#endif
