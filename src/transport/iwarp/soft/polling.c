/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Endpoints that received or sent recently: progress() polls their sockets without epoll. Those
 * without traffic for a second have no engine, only the numbers that it starts with again: a post
 * or input restores it.
 */
#include "transport/iwarp/soft/soft.h"

#include <stdlib.h>

void ripc__soft_rewatch(struct ripc__ep *ep)
{
	ep->recent_rx = 0;
	if (ep->polling != SOFT_SPINNING)
		return;
	ep->polling = SOFT_ACTIVE;
	(void)ripc__soft_ep_watch(ep, ep->watched);
}

static void make_idle(struct ripc__ep *ep)
{
	ripc__soft_rewatch(ep);
	ep->polling = SOFT_IDLE;
	if (ep->t->last_rx_ep == ep)
		ep->t->last_rx_ep = NULL;
}

void ripc__soft_ep_activate(struct ripc__ep *ep)
{
	struct ripc__transport *t = ep->t;
	unsigned oldest = 0;

	ep->empty_polls = 0;
	if (ep->polling != SOFT_IDLE)
		return;
	ep->polling = SOFT_ACTIVE;
	if (t->nactive < SOFT_ACTIVE_MAX) {
		t->active_ep[t->nactive++] = ep;
		return;
	}
	for (unsigned i = 1; i < SOFT_ACTIVE_MAX; i++)
		if (t->active_ep[i]->empty_polls > t->active_ep[oldest]->empty_polls)
			oldest = i;
	make_idle(t->active_ep[oldest]);
	t->active_ep[oldest] = ep;
}

void ripc__soft_ep_deactivate(struct ripc__ep *ep)
{
	struct ripc__transport *t = ep->t;

	if (ep->polling == SOFT_IDLE)
		return;
	make_idle(ep);
	for (unsigned i = 0; i < t->nactive; i++) {
		if (t->active_ep[i] == ep) {
			t->active_ep[i] = t->active_ep[--t->nactive];
			return;
		}
	}
}

void ripc__soft_ep_spin(struct ripc__ep *ep)
{
	ripc__soft_unwatch(ep->t, ep->fd);
	ep->polling = SOFT_SPINNING;
}

void ripc__soft_trim(struct ripc__ep *ep)
{
	if (!ep->engine || ep->state != SOFT_OPEN || ep->error || ep->rx != SOFT_RX_OPEN ||
	    ep->want_sendable || !ripc__list_empty(&ep->ready) || !ripc__list_empty(&ep->held) ||
	    !ripc__list_empty(&ep->blocked) || !ripc__engine_save(ep->engine, &ep->saved))
		return;
	ripc__soft_ep_deactivate(ep);
	free(ep->engine);
	ep->engine = NULL;
	free(ep->setup);
	ep->setup = NULL;
}

bool ripc__soft_restore(struct ripc__ep *ep)
{
	ep->engine = malloc(sizeof(*ep->engine));
	if (ep->engine)
		ripc__engine_restore(ep->engine, &ep->t->regions, &ep->t->pool, &ep->saved);
	return ep->engine;
}
