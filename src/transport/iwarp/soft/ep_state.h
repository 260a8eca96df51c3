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

/* Ends the engine and the socket. @linger: what was sent last must reach the peer. */
void ripc__soft_ep_stop(struct ripc__ep *ep, bool linger);

/* The connection is lost: EV_CLOSED follows. The first call counts. */
void ripc__soft_ep_break(struct ripc__ep *ep, int error, const char *why);

#endif
