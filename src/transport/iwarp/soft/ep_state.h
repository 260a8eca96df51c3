/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The states of an endpoint.
 *
 *   initiator   CONNECTING -> MPA_REQ_SENT -> ESTABLISHED
 *               CONNECTING, MPA_REQ_SENT -> next address: CONNECTING
 *   responder   MPA_REQ_WAIT -> REQUESTED -> ESTABLISHED
 *   both        ESTABLISHED -> OPEN
 *               lost: BROKEN -> CLOSED
 *               any state -> FREED
 *
 * Closing a socket with unread input resets the connection, and the peer may lose the data sent
 * last. So the socket of a BROKEN, CLOSED or FREED endpoint may linger: it is read until end of
 * file, for a limited time.
 *
 * ripc__soft_ep_set_state() asserts that a transition is in the table of ep_state.c.
 */
#ifndef RIPC_IWARP_SOFT_EP_STATE_H
#define RIPC_IWARP_SOFT_EP_STATE_H

#include <stdbool.h>

struct ripc__ep;

enum soft_ep_state {
	SOFT_CONNECTING,   /* the TCP connection is being opened */
	SOFT_MPA_REQ_SENT, /* the MPA reply is awaited */
	SOFT_MPA_REQ_WAIT, /* the MPA request is awaited; the core does not know the endpoint */
	SOFT_REQUESTED,    /* EV_REQUEST was reported: the core accepts or rejects */
	SOFT_ESTABLISHED,  /* the engine runs; EV_ESTABLISHED is to be reported */
	SOFT_OPEN,         /* the engine runs; posting is possible */
	SOFT_BROKEN,       /* lost: EV_CLOSED is to be reported */
	SOFT_CLOSED,       /* EV_CLOSED was reported */
	SOFT_FREED,        /* its memory is freed in the next progress() */
	SOFT_EP_STATES
};

void ripc__soft_ep_set_state(struct ripc__ep *ep, enum soft_ep_state to);

/* The connection is lost: EV_CLOSED follows. The first call counts. */
void ripc__soft_ep_break(struct ripc__ep *ep, int error, const char *why);

/* Frees it in a later progress(). @linger: the peer must receive the data sent last. */
void ripc__soft_ep_defer_free(struct ripc__ep *ep, bool linger);

/* The socket of an endpoint that lingers is readable. */
void ripc__soft_ep_drain(struct ripc__ep *ep);
/* Closes it. */
void ripc__soft_ep_end_linger(struct ripc__ep *ep);

#endif
