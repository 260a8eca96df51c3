/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "base/clock.h"
#include "transport/iwarp/soft/soft.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#define LINGER_MS   500
#define DRAIN_TRIES 16u /* receptions discarded by one progress() at most */

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

void ripc__soft_ep_end_linger(struct ripc__ep *ep)
{
	ripc__soft_drop_socket(ep);
	ep->t->nlingers--;
	ripc__list_del(&ep->timed);
	if (ep->state == SOFT_FREED)
		ripc__list_queue(&ep->t->deferred_free, &ep->timed);
}

static void start_linger(struct ripc__ep *ep)
{
	struct ripc__transport *t = ep->t;

	if (ep->fd < 0)
		return;
	shutdown(ep->fd, SHUT_WR);
	ripc__soft_unwatch(t, ep->fd);
	if (t->nlingers == SOFT_LINGER_MAX || ripc__soft_ep_watch(ep, EPOLLIN)) {
		ripc__soft_drop_socket(ep);
		return;
	}
	t->nlingers++;
	ep->deadline_ns = ripc__clock_ns() + LINGER_MS * RIPC__MS;
	soft_timer(t, ep->deadline_ns);
	ripc__list_queue(&t->timed, &ep->timed);
}

void ripc__soft_ep_drain(struct ripc__ep *ep)
{
	uint8_t waste[16384];
	unsigned tries = DRAIN_TRIES;
	ssize_t n;

	do
		n = recv(ep->fd, waste, sizeof(waste), MSG_DONTWAIT);
	while (n > 0 && --tries);
	if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
		ripc__soft_ep_end_linger(ep);
}

/* Ends the engine and the socket. @linger: see ripc__soft_ep_defer_free(). */
static void stop(struct ripc__ep *ep, bool linger)
{
	ripc__soft_ep_deactivate(ep);
	if (ep->engine)
		ripc__engine_fini(ep->engine);
	ripc__list_del(&ep->timed);
	ripc__list_del(&ep->held);
	ripc__list_del(&ep->blocked);
	if (linger)
		start_linger(ep);
	else
		ripc__soft_drop_socket(ep);
}

void ripc__soft_ep_break(struct ripc__ep *ep, int error, const char *why)
{
	if (ep->state >= SOFT_BROKEN)
		return;
	ripc__soft_ep_set_state(ep, SOFT_BROKEN);
	ep->error = error;
	ep->why = strdup(why);
	stop(ep, ep->rx != SOFT_RX_EOF && ep->error != -ECONNRESET);
	ripc__list_queue(&ep->t->ready, &ep->ready);
}

void ripc__soft_ep_defer_free(struct ripc__ep *ep, bool linger)
{
	bool stopped = ep->state >= SOFT_BROKEN;

	ripc__soft_ep_set_state(ep, SOFT_FREED);
	if (!stopped)
		stop(ep, linger);
	ripc__list_del(&ep->ready);
	while (!ripc__list_empty(&ep->grants))
		ripc__list_del(ep->grants.next);
	/* Events that epoll returned in this pass may still refer to it. */
	if (ep->fd < 0)
		ripc__list_queue(&ep->t->deferred_free, &ep->timed);
}
