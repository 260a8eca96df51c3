/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "transport/iwarp/verbs/verbs.h"

#include <assert.h>
#include <stdio.h>

#define CONN(state) (1u << IWV_##state)
#define EP(state)   (1u << IWV_EP_##state)

/* The states that may follow each state. */
__attribute__((unused)) static const unsigned next_conn_states[IWV_CONN_STATES] = {
	[IWV_RESOLVING] = CONN(CONNECTING) | CONN(DROPPED) | CONN(DESTROYED),
	[IWV_CONNECTING] = CONN(REQUEST_SENT) | CONN(UP) | CONN(DROPPED) | CONN(DESTROYED),
	[IWV_REQUEST_SENT] = CONN(UP) | CONN(DROPPED) | CONN(DESTROYED),
	[IWV_REQUESTED] = CONN(ACCEPTED) | CONN(DROPPED) | CONN(DESTROYED),
	[IWV_ACCEPTED] = CONN(UP) | CONN(DROPPED) | CONN(DESTROYED),
	[IWV_UP] = CONN(LINGERING) | CONN(DROPPED) | CONN(DESTROYED),
	[IWV_LINGERING] = CONN(DESTROYED),
	[IWV_DROPPED] = CONN(DESTROYED),
	[IWV_DESTROYED] = 0,
};

__attribute__((unused)) static const unsigned next_ep_states[IWV_EP_STATES] = {
	[IWV_EP_CONNECTING] = EP(UP) | EP(BROKEN) | EP(FREED),
	[IWV_EP_REQUESTED] = EP(ACCEPTED) | EP(WITHDRAWN) | EP(FREED),
	[IWV_EP_ACCEPTED] = EP(UP) | EP(BROKEN) | EP(FREED),
	[IWV_EP_UP] = EP(BROKEN) | EP(FREED),
	[IWV_EP_WITHDRAWN] = EP(FREED),
	[IWV_EP_BROKEN] = EP(CLOSED) | EP(FREED),
	[IWV_EP_CLOSED] = EP(FREED),
	[IWV_EP_FREED] = 0,
};

void ripc__iwv_conn_set_state(struct iwv_conn *conn, enum iwv_conn_state to)
{
	assert(next_conn_states[conn->state] & 1u << to);
	conn->state = to;
}

void ripc__iwv_ep_set_state(struct ripc__ep *ep, enum iwv_ep_state to)
{
	assert(next_ep_states[ep->state] & 1u << to);
	ep->t->nbroken += to == IWV_EP_BROKEN;
	ep->t->nbroken -= ep->state == IWV_EP_BROKEN;
	ep->state = to;
}

void ripc__iwv_ep_break(struct ripc__ep *ep, int error, const char *why)
{
	if (iwv_ep_lost(ep))
		return;
	ripc__iwv_ep_set_state(ep,
			       ep->state == IWV_EP_REQUESTED ? IWV_EP_WITHDRAWN : IWV_EP_BROKEN);
	ep->error = error;
	snprintf(ep->why, sizeof(ep->why), "%s", why);
	ep->deadline_ns = 0;
}
