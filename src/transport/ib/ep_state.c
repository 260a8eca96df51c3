/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "transport/ib/ib.h"

#include <assert.h>
#include <stdio.h>

#define TO(state) (1u << IB_EP_##state)

/* The states that may follow each state. */
__attribute__((unused)) static const unsigned next_states[IB_EP_STATES] = {
	[IB_EP_CONNECTING] = TO(ESTABLISHED) | TO(BROKEN) | TO(CLOSING),
	[IB_EP_REQUESTED] = TO(PENDING) | TO(CLOSING),
	[IB_EP_PENDING] = TO(CONNECTING) | TO(CLOSING),
	[IB_EP_ESTABLISHED] = TO(OPEN) | TO(BROKEN) | TO(LINGERING) | TO(CLOSING),
	[IB_EP_OPEN] = TO(BROKEN) | TO(LINGERING) | TO(CLOSING),
	[IB_EP_BROKEN] = TO(DRAINED) | TO(CLOSING),
	[IB_EP_DRAINED] = TO(REPORTED) | TO(CLOSING),
	[IB_EP_REPORTED] = TO(CLOSING),
	[IB_EP_LINGERING] = TO(CLOSING),
	[IB_EP_CLOSING] = 0,
};

void ripc__ib_ep_set_state(struct ripc__ep *ep, enum ib_ep_state to)
{
	assert(next_states[ep->state] & 1u << to);
	ep->state = to;
}

void ripc__ib_ep_queue_event(struct ripc__ep *ep)
{
	ripc__list_queue(&ep->t->event_eps, &ep->events);
}

void ripc__ib_ep_established(struct ripc__ep *ep)
{
	ripc__ib_ep_set_state(ep, ep->status ? IB_EP_BROKEN : IB_EP_OPEN);
}

void ripc__ib_ep_leave(struct ripc__ep *ep, enum ib_ep_state to)
{
	if (ib_ep_closed(ep))
		return;
	ep->t->nhalf_open -= ep->state == IB_EP_REQUESTED || ep->state == IB_EP_PENDING;
	ripc__ib_ep_set_state(ep, to);
	ripc__list_del(&ep->events);
	ripc__list_add(&ep->t->dying, &ep->dying);
}

void ripc__ib_ep_break(struct ripc__ep *ep, int status, const char *why)
{
	if (ep->status)
		return;
	ep->status = status;
	snprintf(ep->why, sizeof(ep->why), "%s", why);
	switch (ep->state) {
	case IB_EP_REQUESTED:
		ripc__ib_ep_leave(ep, IB_EP_CLOSING);
		break;
	case IB_EP_LINGERING:
		ripc__ib_ep_set_state(ep, IB_EP_CLOSING);
		break;
	case IB_EP_ESTABLISHED:
		ripc__ib_ep_queue_event(ep);
		break;
	case IB_EP_CONNECTING:
	case IB_EP_OPEN:
		ripc__ib_ep_set_state(ep, IB_EP_BROKEN);
		ep->sendable = IB_SENDABLE_NONE;
		ripc__ib_ep_queue_event(ep);
		break;
	default:
		break;
	}
}
