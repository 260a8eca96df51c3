/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The states of an endpoint.
 *
 *   active    CONNECTING
 *   passive   REQUESTED -> PENDING -> accepted: CONNECTING
 *   both      CONNECTING -> ESTABLISHED -> OPEN
 *             CONNECTING, OPEN -> lost: BROKEN -> DRAINED -> REPORTED
 *             ESTABLISHED -> lost and EV_ESTABLISHED reported: BROKEN
 *             ESTABLISHED, OPEN -> closed by the core: LINGERING -> CLOSING
 *             any state -> CLOSING -> freed
 *
 * ripc__ib_ep_set_state() asserts that a transition is in the table of ep_state.c.
 */
#ifndef RIPC_IB_EP_STATE_H
#define RIPC_IB_EP_STATE_H

struct ripc__ep;

/* EV_SENDABLE: NONE -> a post returned -EAGAIN: WANTED -> there is room: DUE -> reported: NONE */
enum ib_sendable { IB_SENDABLE_NONE, IB_SENDABLE_WANTED, IB_SENDABLE_DUE };

enum ib_ep_state {
	IB_EP_CONNECTING, /* the wire-up runs; the core knows the endpoint */
	IB_EP_REQUESTED,  /* EV_REQUEST is to be reported */
	/* EV_REQUEST was reported: the core accepts, which fails if it was lost, or rejects. */
	IB_EP_PENDING,
	/*
	 * EV_ESTABLISHED is to be reported, before all that was received. Posting is possible,
	 * unless the connection was lost meanwhile.
	 */
	IB_EP_ESTABLISHED,
	IB_EP_OPEN,      /* posting is possible */
	IB_EP_BROKEN,    /* lost: earlier completions are still delivered */
	IB_EP_DRAINED,   /* the completion queue was found empty: EV_CLOSED is to be reported */
	IB_EP_REPORTED,  /* EV_CLOSED was reported: the core closes it */
	IB_EP_LINGERING, /* closed by the core: its last sends are in flight */
	IB_EP_CLOSING, /* closed by the core, or never reported to it: the peer is being notified */
	IB_EP_STATES
};

void ripc__ib_ep_set_state(struct ripc__ep *ep, enum ib_ep_state to);

/* Reports events of the endpoint in this or the next progress(). */
void ripc__ib_ep_queue_event(struct ripc__ep *ep);

/*
 * The connection is lost: EV_CLOSED follows, if the core knows the endpoint. The first call counts.
 */
void ripc__ib_ep_break(struct ripc__ep *ep, int status, const char *why);

/* EV_ESTABLISHED is being reported: OPEN, or BROKEN if the connection was lost meanwhile. */
void ripc__ib_ep_established(struct ripc__ep *ep);

/* Stops all reports of the endpoint. @to: IB_EP_LINGERING or IB_EP_CLOSING. */
void ripc__ib_ep_leave(struct ripc__ep *ep, enum ib_ep_state to);

#endif
