/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The states of a connection (an rdma_cm_id with its queue pair) and of an endpoint (what the core
 * knows of it).
 *
 *   connection, active    RESOLVING -> CONNECTING -> REQUEST_SENT -> UP
 *               passive   REQUESTED -> ACCEPTED -> UP
 *               both      UP -> LINGERING
 *                         any state -> DROPPED -> DESTROYED, or at once -> DESTROYED
 *
 *   endpoint, active      CONNECTING -> UP
 *             passive     REQUESTED -> ACCEPTED -> UP;  REQUESTED -> lost: WITHDRAWN
 *             both        CONNECTING, ACCEPTED, UP -> lost: BROKEN -> CLOSED
 *                         any state -> FREED
 *
 * An endpoint can be BROKEN while its connection is UP or becomes UP: messages that arrived before
 * the loss are delivered first.
 * The two set functions assert that a transition is in the tables of state.c.
 */
#ifndef RIPC_IWARP_VERBS_STATE_H
#define RIPC_IWARP_VERBS_STATE_H

struct iwv_conn;
struct ripc__ep;

enum iwv_conn_state {
	IWV_RESOLVING,    /* active: rdma_resolve_addr() or rdma_resolve_route() runs */
	IWV_CONNECTING,   /* active: rdma_connect() runs in its thread */
	IWV_REQUEST_SENT, /* active: the reply is awaited */
	IWV_REQUESTED,    /* passive: the core accepts or rejects */
	IWV_ACCEPTED,     /* passive: the first send of the peer is awaited */
	IWV_UP,
	IWV_LINGERING, /* without an endpoint: its last sends are in flight */
	IWV_DROPPED,   /* without an endpoint: an event of the connection manager is awaited */
	IWV_DESTROYED, /* without an identifier: completions may be left */
	IWV_CONN_STATES
};

enum iwv_ep_state {
	IWV_EP_CONNECTING, /* active: addresses are tried one after the other */
	IWV_EP_REQUESTED,  /* passive: EV_REQUEST was reported */
	IWV_EP_ACCEPTED,   /* passive: the first send of the peer is awaited */
	IWV_EP_UP,         /* EV_ESTABLISHED was reported: posting is possible */
	IWV_EP_WITHDRAWN,  /* lost while REQUESTED: accepting it fails */
	IWV_EP_BROKEN,     /* lost: EV_CLOSED is to be reported */
	IWV_EP_CLOSED,     /* EV_CLOSED was reported */
	IWV_EP_FREED,      /* its memory is freed in the next progress() */
	IWV_EP_STATES
};

void ripc__iwv_conn_set_state(struct iwv_conn *conn, enum iwv_conn_state to);
void ripc__iwv_ep_set_state(struct ripc__ep *ep, enum iwv_ep_state to);

/* The connection is lost: EV_CLOSED follows, once it is accepted. The first call counts. */
void ripc__iwv_ep_break(struct ripc__ep *ep, int error, const char *why);

#endif
