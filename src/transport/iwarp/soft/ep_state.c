/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "transport/iwarp/soft/ep_state.h"

#include "transport/iwarp/soft/soft.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#define TO(state) (1u << SOFT_##state)

/* The states that may follow each state. */
__attribute__((unused)) static const unsigned next_states[SOFT_EP_STATES] = {
	[SOFT_CONNECTING] = TO(CONNECTING) | TO(MPA_REQ_SENT) | TO(BROKEN) | TO(FREED),
	[SOFT_MPA_REQ_SENT] = TO(CONNECTING) | TO(ESTABLISHED) | TO(BROKEN) | TO(FREED),
	[SOFT_MPA_REQ_WAIT] = TO(REQUESTED) | TO(FREED),
	[SOFT_REQUESTED] = TO(ESTABLISHED) | TO(FREED),
	[SOFT_ESTABLISHED] = TO(OPEN) | TO(BROKEN) | TO(FREED),
	[SOFT_OPEN] = TO(BROKEN) | TO(FREED),
	[SOFT_BROKEN] = TO(CLOSED) | TO(FREED),
	[SOFT_CLOSED] = TO(FREED),
	[SOFT_FREED] = 0,
};

void ripc__soft_ep_set_state(struct ripc__ep *ep, enum soft_ep_state to)
{
	assert(next_states[ep->state] & 1u << to);
	ep->t->nhalf_open -= ep->state == SOFT_MPA_REQ_WAIT;
	ep->state = to;
}

void ripc__soft_ep_stop(struct ripc__ep *ep, bool linger)
{
	ripc__soft_ep_deactivate(ep);
	if (ep->engine)
		ripc__engine_fini(ep->engine);
	ripc__list_del(&ep->timed);
	ripc__list_del(&ep->held);
	ripc__list_del(&ep->blocked);
	if (linger)
		ripc__soft_linger(ep);
	ripc__soft_drop_socket(ep);
}

void ripc__soft_ep_break(struct ripc__ep *ep, int error, const char *why)
{
	if (ep->state >= SOFT_BROKEN)
		return;
	ripc__soft_ep_set_state(ep, SOFT_BROKEN);
	ep->error = error;
	ep->why = strdup(why);
	ripc__soft_ep_stop(ep, ep->rx != SOFT_RX_EOF && ep->error != -ECONNRESET);
	ripc__list_queue(&ep->t->ready, &ep->ready);
}
