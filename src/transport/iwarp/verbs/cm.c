/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Events of librdmacm. Each is acknowledged at once, because rdma_destroy_id() waits for that. */
#include "base/log.h"
#include "transport/iwarp/verbs/verbs.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define ROUTE_MS 1000

/* A copy of an event and its private data, which the acknowledgement frees. */
struct report {
	struct rdma_cm_event ev;
	uint8_t priv[256];
	size_t privlen;
};

static bool carries_data(enum rdma_cm_event_type type)
{
	return type == RDMA_CM_EVENT_CONNECT_REQUEST || type == RDMA_CM_EVENT_ESTABLISHED ||
	       type == RDMA_CM_EVENT_REJECTED;
}

/* Drivers disagree on which side each field describes: use the smaller one. */
static void set_depth(struct iwv_conn *conn, const struct rdma_conn_param *param)
{
	if (param->initiator_depth && param->initiator_depth < conn->read_depth)
		conn->read_depth = param->initiator_depth;
	if (param->responder_resources && param->responder_resources < conn->read_depth)
		conn->read_depth = param->responder_resources;
}

static unsigned requested(struct ripc__transport *t, const struct report *r, struct ripc__event *ev)
{
	struct rdma_cm_id *id = r->ev.id;
	struct iwv_device *nic = ripc__iwv_device_find(t, id->verbs);
	union ripc__sockaddr from;
	struct iwv_conn *conn;
	struct ripc__ep *ep = NULL;

	if (nic && !nic->dev.gone)
		ep = ripc__iwv_ep_new(t, IWV_EP_REQUESTED);
	conn = ep ? ripc__iwv_conn_new(t, ep, IWV_REQUESTED) : NULL;
	if (!conn) {
		rdma_reject(id, NULL, 0);
		rdma_destroy_id(id);
		if (ep)
			ripc__iwv_ep_free(ep);
		ripc__log(RIPC_LOG_WARN, "iwarp/verbs: rejected a connection: %s",
			  nic ? "out of memory" : "its device is not in use");
		return 0;
	}
	conn->id = id;
	conn->nic = nic;
	nic->nconns++;
	id->context = conn;
	set_depth(conn, &r->ev.param.conn);
	ep->privlen = r->privlen < sizeof(ep->priv) ? r->privlen : sizeof(ep->priv);
	memcpy(ep->priv, r->priv, ep->privlen);
	memcpy(&from, rdma_get_peer_addr(id), sizeof(from));
	ripc__sockaddr_text(&from, ep->peer, sizeof(ep->peer));
	*ev = (struct ripc__event){
		.kind = RIPC__EV_REQUEST,
		.source = ripc__sockaddr_source(&from),
		.request = ep,
		.data = ep->priv,
		.len = (uint32_t)ep->privlen,
		.text = ep->peer,
	};
	return 1;
}

/* The route must leave by an address in use on a device in use. */
static void resolved(struct iwv_conn *conn)
{
	struct ripc__ep *ep = conn->ep;
	struct iwv_device *nic =
		conn->id->verbs ? ripc__iwv_device_find(conn->t, conn->id->verbs) : NULL;
	union ripc__sockaddr local;
	char why[128];

	memcpy(&local, rdma_get_local_addr(conn->id), sizeof(local));
	if (!nic || nic->dev.gone || !ripc__iwarp_listens_at(&conn->t->listen, &local)) {
		snprintf(why, sizeof(why), "the route leads %s%s, which is not in use",
			 conn->id->verbs ? "through device " : "through no device",
			 conn->id->verbs ? ibv_get_device_name(conn->id->verbs->device) : "");
		ripc__iwv_ep_failed(ep, -EHOSTUNREACH, why);
		return;
	}
	conn->nic = nic;
	nic->nconns++;
	if (rdma_resolve_route(conn->id, ROUTE_MS))
		ripc__iwv_ep_failed(ep, -EHOSTUNREACH, strerror(errno));
}

/* In a thread, which may be cancelled in write(), where rdma_connect() holds no lock. */
static int run_connect(struct ripc__verbs_job *job)
{
	struct iwv_conn *conn = ripc__list_entry(job, struct iwv_conn, job);

	return rdma_connect(conn->id, &conn->param) ? -errno : 0;
}

static void connect_done(struct ripc__verbs_job *job, int result)
{
	struct iwv_conn *conn = ripc__list_entry(job, struct iwv_conn, job);

	if (conn->state == IWV_CONNECTING)
		ripc__iwv_conn_set_state(conn, IWV_REQUEST_SENT);
	if (!result)
		return;
	conn->cm_event_due = false;
	if (conn->ep)
		ripc__iwv_ep_failed(conn->ep, result, strerror(-result));
}

static int start_connect(struct iwv_conn *conn)
{
	struct ripc__ep *ep = conn->ep;
	int rc;

	memcpy(conn->priv, ep->priv, ep->privlen);
	conn->param = (struct rdma_conn_param){
		.private_data = conn->priv,
		.private_data_len = (uint8_t)ep->privlen,
		.responder_resources = (uint8_t)conn->t->read_depth,
		.initiator_depth = (uint8_t)conn->t->read_depth,
		.retry_count = 7,
	};
	conn->job.work = run_connect;
	conn->job.done = connect_done;
	rc = ripc__verbs_job_start(&conn->t->jobs, &conn->job);
	conn->cm_event_due = !rc;
	return rc;
}

static void ready(struct iwv_conn *conn)
{
	int rc = ripc__iwv_conn_qp(conn);

	if (!rc) {
		ripc__iwv_conn_set_state(conn, IWV_CONNECTING);
		rc = start_connect(conn);
	}
	if (rc)
		ripc__iwv_ep_failed(conn->ep, -EHOSTUNREACH, ripc_error_detail());
}

static unsigned established(struct iwv_conn *conn, const struct report *r, struct ripc__event *ev)
{
	struct ripc__ep *ep = conn->ep;

	conn->established = true;
	if (!ep || !ep->initiator)
		return 0;
	set_depth(conn, &r->ev.param.conn);
	ep->replylen = r->privlen < sizeof(ep->reply) ? r->privlen : sizeof(ep->reply);
	memcpy(ep->reply, r->priv, ep->replylen);
	/* iWARP: the active side must send first. */
	if (!conn->flushed && ripc__verbs_post_empty(conn->qp, &conn->tx, IBV_WR_SEND, false)) {
		ripc__iwv_ep_failed(ep, -EHOSTUNREACH, "cannot post the first send");
		return 0;
	}
	ripc__iwv_conn_set_state(conn, IWV_UP);
	if (!iwv_ep_lost(ep))
		ripc__iwv_ep_set_state(ep, IWV_EP_UP);
	ep->deadline_ns = 0;
	*ev = (struct ripc__event){
		.kind = RIPC__EV_ESTABLISHED,
		.user = ep->user,
		.ep = ep,
		.data = ep->reply,
		.len = (uint32_t)ep->replylen,
	};
	/* Its receives were flushed, and their completions polled, before this event. */
	if (conn->flushed)
		ripc__iwv_ep_break(ep, -ECONNRESET, "closed by the peer");
	return 1;
}

static void rejected(struct iwv_conn *conn, const struct report *r)
{
	struct ripc__ep *ep = conn->ep;

	/* A rejection by the core has private data; without them the connection failed. */
	if (!ep->initiator || !r->privlen) {
		ripc__iwv_ep_failed(ep, -EHOSTUNREACH, "the peer refused the connection");
		return;
	}
	ep->rejected = true;
	ep->replylen = r->privlen < sizeof(ep->reply) ? r->privlen : sizeof(ep->reply);
	memcpy(ep->reply, r->priv, ep->replylen);
	ripc__iwv_ep_break(ep, -ECONNREFUSED, "the peer rejected the connection");
}

static void failed(struct iwv_conn *conn, const char *what, int status)
{
	char why[128];

	if (!conn->ep)
		return;
	snprintf(why, sizeof(why), "%s%s%s", what, status ? ": " : "",
		 status ? strerror(status < 0 ? -status : status) : "");
	ripc__iwv_ep_failed(conn->ep, -EHOSTUNREACH, why);
}

static void removed(struct ripc__transport *t, const struct rdma_cm_id *id, struct iwv_conn *conn)
{
	struct iwv_device *nic = conn ? conn->nic : NULL;

	for (unsigned i = 0; i < t->listen.n && !nic; i++)
		if (t->listen.l[i].id == id)
			nic = t->listen.l[i].nic;
	if (nic)
		ripc__iwv_device_lost(nic, "the device was removed");
}

/* Return: events, 0 or 1. */
static unsigned handle(struct ripc__transport *t, const struct report *r, struct ripc__event *ev)
{
	struct iwv_conn *conn;
	unsigned n = 0;

	if (r->ev.event == RDMA_CM_EVENT_CONNECT_REQUEST)
		return requested(t, r, ev);
	conn = r->ev.id->context; /* NULL: a listener */
	if (r->ev.event == RDMA_CM_EVENT_DEVICE_REMOVAL) {
		removed(t, r->ev.id, conn);
		return 0;
	}
	if (!conn)
		return 0;
	switch (r->ev.event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		if (conn->ep)
			resolved(conn);
		return 0;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		if (conn->ep)
			ready(conn);
		return 0;
	case RDMA_CM_EVENT_ADDR_ERROR:
		failed(conn, "no route through an iWARP device", r->ev.status);
		return 0;
	case RDMA_CM_EVENT_ROUTE_ERROR:
		failed(conn, "no route", r->ev.status);
		return 0;
	case RDMA_CM_EVENT_ESTABLISHED:
		conn->cm_event_due = false;
		n = established(conn, r, ev);
		break;
	case RDMA_CM_EVENT_REJECTED:
		conn->cm_event_due = false;
		if (conn->ep)
			rejected(conn, r);
		break;
	case RDMA_CM_EVENT_CONNECT_ERROR:
	case RDMA_CM_EVENT_UNREACHABLE:
		conn->cm_event_due = false;
		failed(conn, "no connection", r->ev.status);
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
		conn->cm_event_due = false;
		if (conn->ep)
			ripc__iwv_ep_break(conn->ep, -ECONNRESET, "closed by the peer");
		break;
	default:
		return 0;
	}
	/* Without an endpoint this was the awaited event, or the end of lingering. */
	if (conn->id && !conn->ep &&
	    !(conn->state == IWV_LINGERING && r->ev.event == RDMA_CM_EVENT_ESTABLISHED))
		ripc__iwv_conn_release(conn);
	return n;
}

unsigned ripc__iwv_cm(struct ripc__transport *t, struct ripc__event *events, unsigned max)
{
	struct rdma_cm_event *ev;
	unsigned n = 0;

	while (n < max && !rdma_get_cm_event(t->channel, &ev)) {
		struct report r = {.ev = *ev};

		if (carries_data(ev->event) && ev->param.conn.private_data) {
			r.privlen = ev->param.conn.private_data_len;
			memcpy(r.priv, ev->param.conn.private_data, r.privlen);
		}
		rdma_ack_cm_event(ev);
		n += handle(t, &r, events + n);
	}
	return n;
}
