/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Endpoints from connect() or a peer's request until they are freed.
 *
 * A broken endpoint stays until the completion queue was found empty, so that earlier messages are
 * delivered. Then its queue pair is destroyed, which ends all access to memory, and EV_CLOSED is
 * reported.
 *
 * A closed endpoint lingers until its last send, which is empty and notifies the peer, was
 * acknowledged, and DISC was answered.
 */
#include "base/clock.h"
#include "base/log.h"
#include "transport/ib/ib.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define LINGER_NS (3000 * RIPC__MS) /* time for the last sends of a closed endpoint */
#define PATH_NS   (800 * RIPC__MS)  /* time limit of a path while there is another one to try */
#define RETRY_NS  (1 * RIPC__MS)    /* pause after a full send queue */

static void schedule(struct ripc__ep *ep);

/* ---- creation and release ---- */

static struct ripc__ep *ep_new(struct ripc__transport *t, enum ib_ep_state state)
{
	struct ripc__ep *ep, *other;
	uint32_t number;

	if (HASH_CNT(by_number, t->by_number) >= IB_ENDPOINTS_MAX)
		return NULL;
	ep = calloc(1, sizeof(*ep));
	if (!ep)
		return NULL;
	do {
		other = ep;
		if (getrandom(&number, sizeof(number), 0) != sizeof(number))
			break;
		HASH_FIND(by_number, t->by_number, &number, sizeof(number), other);
	} while (!number || other);
	ep->wireup.mine = number;
	if (!other)
		HASH_ADD(by_number, t->by_number, wireup.mine, sizeof(number), ep);
	if (other || !ep->by_number.tbl) {
		free(ep);
		return NULL;
	}
	ep->t = t;
	ep->state = state;
	ep->wireup.active = state == IB_EP_CONNECTING;
	ripc__list_init(&ep->timed);
	ripc__list_init(&ep->events);
	ripc__list_init(&ep->held.link);
	ripc__list_init(&ep->dying);
	ripc__list_add(&t->eps, &ep->all);
	return ep;
}

static void ep_free(struct ripc__ep *ep)
{
	ripc__ib_qp_destroy(ep);
	ripc__ib_qp_drained(ep);
	if (ep->ah_entry)
		ep->ah_entry->eps--;
	HASH_DELETE(by_number, ep->t->by_number, ep);
	ripc__list_del(&ep->all);
	ripc__list_del(&ep->timed);
	ripc__list_del(&ep->events);
	ripc__list_del(&ep->dying);
	free(ep);
}

/* ---- actions of the wire-up ---- */

static int try_paths(struct ripc__ep *ep);
static void wireup_act(struct ripc__ep *ep, enum ripc__wireup_action action);

static void qp_ready_done(struct ripc__verbs_job *job, int result)
{
	struct ripc__ep *ep = (struct ripc__ep *)job;
	const struct ripc__wireup_params *ours = &ep->wireup.ours, *theirs = &ep->wireup.theirs;
	char why[IB_WHY_MAX];

	if (ep->state != IB_EP_CONNECTING)
		return;
	if (result) {
		snprintf(why, sizeof(why), "%s: cannot connect the queue pair: %s", ep->d->v.name,
			 strerror(-result));
		ripc__ib_ep_break(ep, result, why);
		return;
	}
	ep->read_depth = MIN(ours->initiator_depth, theirs->responder_resources);
	if (theirs->flags & RIPC__WIREUP_SEND_IMM && !ib_uc_used(ep))
		ep->packet = ripc__ib_mtu_bytes(MIN(ours->mtu, theirs->mtu));
	wireup_act(ep, ripc__wireup_ready(&ep->wireup, ep->t->now_ns));
	schedule(ep);
}

static void start_qp_ready(struct ripc__ep *ep)
{
	int rc;

	ep->job.work = ripc__ib_qp_ready;
	ep->job.done = qp_ready_done;
	rc = ripc__verbs_job_start(&ep->t->jobs, &ep->job);
	if (rc)
		ripc__ib_ep_break(ep, rc, ripc_error_detail());
}

/* The current path failed: tries the next one, or ends the attempt. */
static void path_failed(struct ripc__ep *ep, int status, const char *why)
{
	char text[IB_WHY_MAX], who[96];

	ripc__ib_port_addr_text(&ep->ah_entry->port_addr, who, sizeof(who));
	snprintf(text, sizeof(text), "%s to %s: %s", ep->d->v.name, who, why);
	if (ep->wireup.active && ep->job.state == RIPC__JOB_IDLE && !ib_ep_closed(ep) &&
	    ep->wireup.state <= RIPC__WIREUP_REQ_SENT) {
		ep->path_index++;
		ripc__ib_qp_destroy(ep);
		ripc__ib_qp_drained(ep);
		ep->ah_entry->eps--;
		ep->ah_entry = NULL;
		if (!try_paths(ep))
			return;
	}
	ripc__ib_ep_break(ep, status, text);
}

static void wireup_act(struct ripc__ep *ep, enum ripc__wireup_action action)
{
	switch (action) {
	case RIPC__WIREUP_NOTHING:
		break;
	case RIPC__WIREUP_READY:
		/* Lost or closed since then: DISC follows. */
		if (ep->state != IB_EP_CONNECTING)
			break;
		/* The peer has no UC: writes use RC. */
		if (!ep->wireup.theirs.uc_qpn)
			ripc__ib_uc_destroy(ep);
		start_qp_ready(ep);
		break;
	case RIPC__WIREUP_OPEN:
		if (ep->state != IB_EP_CONNECTING)
			break;
		ripc__ib_ep_set_state(ep, IB_EP_ESTABLISHED);
		ripc__ib_ep_queue_event(ep);
		break;
	case RIPC__WIREUP_REJECTED:
		/* Without private data the peer is alive, but failed to accept. */
		ep->rejected = ep->wireup.privlen;
		ripc__ib_ep_break(ep, ep->rejected ? -ECONNREFUSED : -EHOSTUNREACH,
				  "the peer refused the connection");
		break;
	case RIPC__WIREUP_CLOSED:
		ripc__ib_ep_break(ep, -ECONNRESET, "the peer has closed the connection");
		break;
	case RIPC__WIREUP_TIMEOUT:
		path_failed(ep, -ETIMEDOUT, "no answer");
		if (ep->status || ib_ep_closed(ep))
			ripc__wireup_end(&ep->wireup);
		break;
	}
}

/* Queues the endpoint if its wire-up has a message due or a timer armed. */
static void schedule(struct ripc__ep *ep)
{
	const struct ripc__wireup *w = &ep->wireup;
	struct ripc__transport *t = ep->t;
	uint64_t at = w->due ? 0 : w->next_ns;

	if (!w->due && !w->timer_armed)
		return;
	ripc__list_queue(&t->timed, &ep->timed);
	t->next_timer_ns = MIN(t->next_timer_ns, at);
}

/* Sends due messages. Return: when to call again. */
static uint64_t timer(struct ripc__ep *ep, uint64_t now_ns)
{
	struct ripc__wireup_message m;
	enum ripc__wireup_action action = RIPC__WIREUP_NOTHING;
	struct ripc__wireup *w = &ep->wireup;

	if (ep->status && !ib_ep_closed(ep))
		return RIPC__NEVER;
	if (!ep->ah_entry) {
		ripc__wireup_end(w);
		return RIPC__NEVER;
	}
	if (ep->ah_entry->state == IB_AH_RESOLVING)
		return RIPC__NEVER;
	if (ep->ah_entry->state == IB_AH_FAILED) {
		if (ib_ep_closed(ep))
			ripc__wireup_end(w);
		else
			path_failed(ep, ep->ah_entry->error, strerror(-ep->ah_entry->error));
		return RIPC__NEVER;
	}
	while (ripc__wireup_output(w, &m, now_ns, &action))
		if (ripc__ib_post_wireup(ep->ah_entry, &m) == -EAGAIN) {
			w->due = true;
			return now_ns + RETRY_NS;
		}
	wireup_act(ep, action);
	return w->due ? now_ns : w->timer_armed ? w->next_ns : RIPC__NEVER;
}

uint64_t ripc__ib_timers(struct ripc__transport *t, uint64_t now_ns)
{
	struct ripc__ep *ep, *tmp;

	if (now_ns < t->next_timer_ns)
		return t->next_timer_ns;
	t->next_timer_ns = RIPC__NEVER;
	ripc__list_for_each_entry_safe (ep, tmp, &t->timed, timed) {
		uint64_t next = timer(ep, now_ns);

		if (!ep->wireup.due && !ep->wireup.timer_armed)
			ripc__list_del(&ep->timed);
		else if (next < t->next_timer_ns)
			t->next_timer_ns = next;
	}
	return t->next_timer_ns;
}

/* ---- calls of the core ---- */

/* Tries paths from ep->path_index on. Return: 0, or the error of the last one. */
static int try_paths(struct ripc__ep *ep)
{
	const struct ripc__ib_port_addr *port_addr, *another;
	struct ripc__wireup_params ours;
	struct ripc__transport *t = ep->t;
	struct ib_port *port;
	int rc = ripc__ib_no_path();

	for (; ripc__ib_select_path(t, &ep->address, ep->path_index, &port, &port_addr);
	     ep->path_index++) {
		ep->port = port;
		ep->d = port->d;
		ep->ah_entry = ripc__ib_ah_get(t, port, port_addr);
		if (!ep->ah_entry) {
			rc = -ENOMEM;
			continue;
		}
		rc = ripc__ib_qp_new(ep);
		if (rc) {
			ep->ah_entry = NULL;
			continue;
		}
		ep->ah_entry->eps++;
		ripc__ib_qp_params(ep, &ours);
		ripc__wireup_connect(&ep->wireup, ep->wireup.mine, &ours, ep->priv, ep->privlen,
				     t->now_ns);
		if (ripc__ib_select_path(t, &ep->address, ep->path_index + 1, &port, &another))
			ep->wireup.until_ns = t->now_ns + PATH_NS;
		schedule(ep);
		return 0;
	}
	return rc;
}

int ripc__ib_connect(struct ripc__transport *t, const uint8_t *addr, size_t addrlen,
		     const void *priv, size_t privlen, void *user, struct ripc__ep **epp)
{
	struct ripc__ib_address address;
	struct ripc__ep *ep;
	int rc;

	if (ripc__ib_address_decode(&address, addr, addrlen))
		return ripc__fail(-EINVAL, "ib: malformed address of the peer: %zu bytes", addrlen);
	t->now_ns = ripc__clock_ns();
	ep = ep_new(t, IB_EP_CONNECTING);
	if (!ep)
		return ripc__fail(-ENOMEM, "ib: out of memory");
	ep->address = address;
	ep->user = user;
	ep->privlen = (uint8_t)privlen;
	if (privlen)
		memcpy(ep->priv, priv, privlen);
	rc = try_paths(ep);
	if (rc)
		ep_free(ep);
	else
		*epp = ep;
	return rc;
}

int ripc__ib_accept(struct ripc__transport *t, void *request, const void *priv, size_t privlen,
		    void *user, struct ripc__ep **epp)
{
	struct ripc__ep *ep = request;
	struct ripc__wireup_params ours;
	int rc = 0;

	if (ep->status || ep->wireup.state != RIPC__WIREUP_REQ_RECEIVED)
		rc = ripc__fail(-ECONNRESET,
				"ib: the peer closed the connection before it was accepted");
	else
		rc = ripc__ib_qp_new(ep);
	if (rc) {
		ripc__ib_reject(t, request, NULL, 0);
		return rc;
	}
	t->nhalf_open--;
	ripc__ib_ep_set_state(ep, IB_EP_CONNECTING);
	ep->user = user;
	ripc__ib_qp_params(ep, &ours);
	ripc__wireup_accept(&ep->wireup, &ours, priv, privlen);
	start_qp_ready(ep);
	*epp = ep;
	return 0;
}

void ripc__ib_reject(struct ripc__transport *t, void *request, const void *priv, size_t privlen)
{
	struct ripc__ep *ep = request;

	if (ep->wireup.state == RIPC__WIREUP_REQ_RECEIVED)
		ripc__wireup_reject(&ep->wireup, priv, privlen, t->now_ns);
	ripc__ib_ep_leave(ep, IB_EP_CLOSING);
	schedule(ep);
}

/* Posts an empty send as the last one: its acknowledgement covers all sends before it. */
static bool post_fin(struct ripc__ep *ep)
{
	ripc__ib_flush_held(ep);
	return ib_ep_can_post(ep) && ripc__verbs_sendq_space(&ep->sendq) &&
	       !ripc__verbs_post_empty(ep->qp, &ep->sendq, IBV_WR_SEND, true);
}

void ripc__ib_ep_close(struct ripc__ep *ep)
{
	/*
	 * Reads and writes must not access the core's memory any more; sends continue from bounce
	 * buffers.
	 */
	if (ib_ep_can_post(ep) && !ep->rdmas && post_fin(ep)) {
		ep->linger_ns = ripc__clock_ns() + LINGER_NS;
		ripc__ib_ep_leave(ep, IB_EP_LINGERING);
		return;
	}
	if (ep->job.state == RIPC__JOB_IDLE)
		ripc__ib_qp_destroy(ep);
	ripc__ib_ep_leave(ep, IB_EP_CLOSING);
}

/* Advances the close of an endpoint. Return: whether it can be freed. */
static bool try_finish_close(struct ripc__ep *ep, uint64_t now_ns)
{
	struct ripc__wireup *w = &ep->wireup;

	if (ep->job.state != RIPC__JOB_IDLE)
		return false;
	if (ep->qp && (ep->status || ep->sendq.head == ep->sendq.tail || now_ns >= ep->linger_ns))
		ripc__ib_qp_destroy(ep);
	if (ep->qp)
		return false;
	if (ep->state == IB_EP_LINGERING)
		ripc__ib_ep_set_state(ep, IB_EP_CLOSING);
	if (w->state != RIPC__WIREUP_CLOSING && w->state != RIPC__WIREUP_REJ_SENT &&
	    w->state != RIPC__WIREUP_DONE) {
		ripc__wireup_close(w, now_ns);
		schedule(ep);
	}
	if (ep->d && ep->d->v.gone)
		ripc__wireup_end(w);
	return w->state == RIPC__WIREUP_DONE && (!ep->qpn || ep->destroyed_round < ep->t->rounds);
}

void ripc__ib_cq_drained(struct ripc__transport *t, const struct ib_device *d)
{
	struct ripc__ep *ep, *tmp;

	ripc__list_for_each_entry (ep, &t->event_eps, events)
		if (ep->state == IB_EP_BROKEN && ep->d == d)
			ripc__ib_ep_set_state(ep, IB_EP_DRAINED);
	ripc__list_for_each_entry_safe (ep, tmp, &t->dying, dying)
		if (ep->d == d && try_finish_close(ep, t->now_ns))
			ep_free(ep);
}

unsigned ripc__ib_ep_events(struct ripc__transport *t, struct ripc__event *events, unsigned max)
{
	struct ripc__ep *ep, *tmp;
	unsigned k = 0;

	ripc__list_for_each_entry_safe (ep, tmp, &t->event_eps, events) {
		if (max - k < 3)
			break;
		if (ep->state == IB_EP_REQUESTED) {
			ripc__ib_ep_set_state(ep, IB_EP_PENDING);
			ripc__ib_port_addr_text(&ep->ah_entry->port_addr, ep->why, sizeof(ep->why));
			events[k] = ib_event(ep, RIPC__EV_REQUEST);
			events[k].request = ep;
			events[k].source = ripc__ib_port_addr_source(&ep->ah_entry->port_addr);
			events[k].data = ep->wireup.priv;
			events[k].len = ep->wireup.privlen;
			events[k++].text = ep->why;
		}
		if (ep->state == IB_EP_ESTABLISHED) {
			ripc__ib_ep_established(ep);
			events[k] = ib_event(ep, RIPC__EV_ESTABLISHED);
			events[k].data = ep->wireup.active ? ep->wireup.priv : NULL;
			events[k++].len = ep->wireup.active ? ep->wireup.privlen : 0;
		}
		if (ep->uc && ep->uc->reported != ep->uc->tx.base) {
			k += ripc__ib_uc_events(ep, events + k, max - k - 2);
			ripc__ib_ep_unblock(ep);
			/* The next pass reports the rest. */
			if (ep->uc->reported != ep->uc->tx.base || max - k < 2)
				break;
		}
		if (ep->sendable == IB_SENDABLE_DUE) {
			ep->sendable = IB_SENDABLE_NONE;
			events[k++] = ib_event(ep, RIPC__EV_SENDABLE);
		}
		if (ep->state == IB_EP_BROKEN)
			continue;
		if (ep->state == IB_EP_DRAINED) {
			if (ep->job.state == RIPC__JOB_IDLE)
				ripc__ib_qp_destroy(ep);
			ripc__ib_ep_set_state(ep, IB_EP_REPORTED);
			events[k] = ib_event(ep, RIPC__EV_CLOSED);
			events[k].status = ep->status;
			events[k].reject = ep->rejected;
			events[k].data = ep->rejected ? ep->wireup.priv : NULL;
			events[k].len = ep->rejected ? ep->wireup.privlen : 0;
			events[k++].text = ep->why;
		}
		ripc__list_del(&ep->events);
	}
	return k;
}

bool ripc__ib_eps_closed(const struct ripc__transport *t)
{
	const struct ripc__ep *ep;

	ripc__list_for_each_entry (ep, &t->dying, dying)
		if (ep->job.state == RIPC__JOB_IDLE && ep->wireup.state != RIPC__WIREUP_REJ_SENT)
			return false;
	return true;
}

void ripc__ib_eps_free(struct ripc__transport *t)
{
	struct ripc__list *n;

	while ((n = ripc__list_first(&t->eps)))
		ep_free(ripc__list_entry(n, struct ripc__ep, all));
}

/* ---- messages of the wire-up ---- */

void ripc__ib_ep_received(struct ripc__ep *ep)
{
	if (ep->wireup.state == RIPC__WIREUP_REP_SENT)
		wireup_act(ep, ripc__wireup_data_received(&ep->wireup));
}

static struct ripc__ep *find_asked(struct ripc__transport *t, const struct ib_ah_entry *r,
				   uint32_t number)
{
	struct ripc__ep *ep;

	if (!r->eps)
		return NULL;
	ripc__list_for_each_entry (ep, &t->eps, all)
		if (ep->ah_entry == r && !ep->wireup.active && ep->wireup.number == number &&
		    ep->wireup.state != RIPC__WIREUP_DONE)
			return ep;
	return NULL;
}

static void asked(struct ib_port *p, struct ib_ah_entry *r, const struct ripc__wireup_message *m)
{
	struct ripc__transport *t = p->t;
	struct ripc__ep *ep = find_asked(t, r, m->from);

	if (ep) {
		wireup_act(ep, ripc__wireup_input(&ep->wireup, m, t->now_ns));
		schedule(ep);
		return;
	}
	/* Over the limit or out of memory: drops it, because the peer repeats the REQ. */
	if (t->nhalf_open >= IB_HALF_OPEN_MAX)
		return;
	ep = ep_new(t, IB_EP_REQUESTED);
	if (!ep)
		return;
	ep->port = p;
	ep->d = p->d;
	ep->ah_entry = r;
	r->eps++;
	ripc__wireup_request(&ep->wireup, ep->wireup.mine, m);
	t->nhalf_open++;
	ripc__ib_ep_queue_event(ep);
}

void ripc__ib_wireup_received(struct ib_port *p, struct ib_ah_entry *r,
			      const struct ripc__wireup_message *m)
{
	struct ripc__wireup_message answer;
	struct ripc__transport *t = p->t;
	struct ripc__ep *ep;
	bool unknown_peer;

	if (m->kind == RIPC__WIREUP_REQ) {
		asked(p, r, m);
		return;
	}
	HASH_FIND(by_number, t->by_number, &m->to, sizeof(m->to), ep);
	if (ep && ep->ah_entry != r)
		ep = NULL;
	/* The message is of an earlier attempt, or of a connection that has ended here. */
	unknown_peer = !ep || ep->wireup.state == RIPC__WIREUP_DONE ||
		       (m->kind == RIPC__WIREUP_REP && ep->wireup.state != RIPC__WIREUP_REQ_SENT &&
			m->from != ep->wireup.number);
	if ((unknown_peer || m->kind == RIPC__WIREUP_DISC) && ripc__wireup_unknown(m, &answer))
		ripc__ib_post_wireup(r, &answer);
	if (unknown_peer)
		return;
	wireup_act(ep, ripc__wireup_input(&ep->wireup, m, t->now_ns));
	schedule(ep);
}
