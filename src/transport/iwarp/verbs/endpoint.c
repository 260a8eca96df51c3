/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Endpoints as the core uses them: connect, accept, reject, post, close. */
#include "base/clock.h"
#include "base/log.h"
#include "transport/iwarp/verbs/verbs.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RESOLVE_MS 1000 /* to resolve one address */
#define ADDRESS_MS 5000 /* for all steps to one address; the core allows less */
/*
 * SoftiWARP lets TCP refer to the memory of larger unsignaled sends, even after a later send has
 * completed.
 */
#define SIGNAL_BYTES 4096u

struct ripc__ep *ripc__iwv_ep_new(struct ripc__transport *t, enum iwv_ep_state state)
{
	struct ripc__ep *ep = calloc(1, sizeof(*ep));

	if (!ep)
		return NULL;
	ep->t = t;
	ep->state = state;
	ep->initiator = state == IWV_EP_CONNECTING;
	ripc__list_init(&ep->link);
	ripc__list_add(&t->eps, &ep->link);
	return ep;
}

static void set_stalled(struct ripc__ep *ep, bool stalled)
{
	ep->t->nstalled += stalled;
	ep->t->nstalled -= ep->want_sendable;
	ep->want_sendable = stalled;
}

void ripc__iwv_ep_free(struct ripc__ep *ep)
{
	struct ripc__transport *t = ep->t;

	ep->deadline_ns = 0;
	set_stalled(ep, false);
	ripc__iwv_ep_set_state(ep, IWV_EP_FREED);
	if (ep->conn)
		ripc__iwv_conn_drop(ep->conn);
	ripc__list_del(&ep->link);
	ripc__list_add(&t->deferred_free, &ep->link);
}

static void note(struct ripc__ep *ep, int error, const char *why)
{
	size_t len = strlen(ep->why);

	ep->peer_may_exist = ep->peer_may_exist || error != -ECONNREFUSED;
	snprintf(ep->why + len, sizeof(ep->why) - len, "%s%s: %s", len ? "; " : "", ep->peer, why);
}

/* Starts to connect to the current address. Return: 0 or a negative errno. */
static int start(struct ripc__ep *ep)
{
	struct ripc__iwarp_listen_addr *addr_index = &ep->address.addrs[ep->addr_index];
	union ripc__sockaddr to = addr_index->ip;
	struct iwv_conn *conn = ripc__iwv_conn_new(ep->t, ep, IWV_RESOLVING);
	int rc = 0;

	ripc__sockaddr_set_port(&to, addr_index->tcp);
	ripc__sockaddr_text(&to, ep->peer, sizeof(ep->peer));
	if (!conn)
		return -ENOMEM;
	if (rdma_create_id(ep->t->channel, &conn->id, conn, RDMA_PS_TCP)) {
		conn->id = NULL;
		rc = -errno;
	} else if (rdma_resolve_addr(conn->id, NULL, &to.sa, RESOLVE_MS)) {
		rc = -errno;
	}
	if (rc)
		ripc__iwv_conn_drop(conn);
	else
		iwv_set_deadline(ep->t, &ep->deadline_ns, ripc__clock_ns() + ADDRESS_MS * RIPC__MS);
	return rc;
}

/* Active: tries the next address. */
static void try_next(struct ripc__ep *ep)
{
	char tried[WHY_MAX];
	int rc;

	for (; ep->addr_index < ep->address.naddrs; ep->addr_index++) {
		/* No device reaches the loopback, and librdmacm reports that late. */
		if (ripc__sockaddr_is_loopback(&ep->address.addrs[ep->addr_index].ip))
			continue;
		rc = start(ep);
		if (!rc)
			return;
		note(ep, -EHOSTUNREACH, strerror(-rc));
	}
	snprintf(tried, sizeof(tried), "%s",
		 ep->why[0] ? ep->why : "no address is reachable through an iWARP device");
	/* The peer counts as dead only if every address refused the connection. */
	ripc__iwv_ep_break(ep, ep->why[0] && !ep->peer_may_exist ? -ECONNREFUSED : -EHOSTUNREACH,
			   tried);
}

void ripc__iwv_ep_failed(struct ripc__ep *ep, int error, const char *why)
{
	if (iwv_ep_lost(ep))
		return;
	if (ep->state != IWV_EP_CONNECTING) {
		ripc__iwv_ep_break(ep, -ECONNRESET, why);
		return;
	}
	note(ep, error, why);
	if (ep->conn)
		ripc__iwv_conn_drop(ep->conn);
	ep->addr_index++;
	try_next(ep);
}

static bool has_room(const struct iwv_conn *conn)
{
	return ripc__verbs_sendq_space(&conn->tx) >= CONN_TX_DEPTH / 2 &&
	       conn->rd.tail - conn->rd.head < conn->read_depth;
}

unsigned ripc__iwv_ep_events(struct ripc__transport *t, struct ripc__event *events, unsigned max)
{
	struct ripc__ep *ep, *tmp;
	unsigned n = 0;

	ripc__list_for_each_entry_safe (ep, tmp, &t->eps, link) {
		if (n == max)
			break;
		if (ep->state == IWV_EP_BROKEN) {
			/* After EV_CLOSED the device accesses no memory of the core. */
			if (ep->conn)
				ripc__iwv_conn_drop(ep->conn);
			set_stalled(ep, false);
			ripc__iwv_ep_set_state(ep, IWV_EP_CLOSED);
			events[n++] = (struct ripc__event){
				.kind = RIPC__EV_CLOSED,
				.user = ep->user,
				.ep = ep,
				.status = ep->error,
				.reject = ep->rejected,
				.data = ep->rejected ? ep->reply : NULL,
				.len = ep->rejected ? (uint32_t)ep->replylen : 0,
				.text = ep->why,
			};
		} else if (ep->want_sendable && ep->conn && has_room(ep->conn)) {
			set_stalled(ep, false);
			events[n++] = (struct ripc__event){
				.kind = RIPC__EV_SENDABLE, .user = ep->user, .ep = ep};
		}
	}
	return n;
}

int ripc__iwv_connect(struct ripc__transport *t, const uint8_t *addr, size_t addrlen,
		      const void *priv, size_t privlen, void *user, struct ripc__ep **epp)
{
	struct ripc__iwarp_address address;
	struct ripc__ep *ep;

	if (ripc__iwarp_address_decode(&address, addr, addrlen))
		return ripc__fail(-EINVAL, "iwarp/verbs: malformed address of the peer: %zu bytes",
				  addrlen);
	ep = ripc__iwv_ep_new(t, IWV_EP_CONNECTING);
	if (!ep)
		return ripc__fail(-ENOMEM, "iwarp/verbs: out of memory");
	/* Link-local addresses are those of iwarp/soft: this transport does not use them. */
	ripc__iwarp_address_order(&address, t->udp.host, NULL, 0);
	ep->user = user;
	ep->address = address;
	if (privlen)
		memcpy(ep->priv, priv, privlen);
	ep->privlen = privlen;
	*epp = ep;
	try_next(ep);
	return 0;
}

int ripc__iwv_accept(struct ripc__transport *t, void *request, const void *priv, size_t privlen,
		     void *user, struct ripc__ep **epp)
{
	struct ripc__ep *ep = request;
	struct iwv_conn *conn = ep->conn;
	struct rdma_conn_param param = {
		.private_data = priv,
		.private_data_len = (uint8_t)privlen,
	};
	int rc;

	if (!conn || iwv_ep_lost(ep))
		rc = ripc__fail(-ECONNRESET,
				"iwarp/verbs: the connection was lost before it was accepted");
	else
		rc = ripc__iwv_conn_qp(conn);
	if (rc) {
		ripc__iwv_ep_free(ep);
		return rc;
	}
	param.responder_resources = (uint8_t)conn->t->read_depth;
	param.initiator_depth = (uint8_t)conn->read_depth;
	ripc__iwv_conn_set_state(conn, IWV_ACCEPTED);
	ripc__iwv_ep_set_state(ep, IWV_EP_ACCEPTED);
	if (rdma_accept(conn->id, &param)) {
		rc = ripc__fail(-errno, "iwarp/verbs: cannot accept %s: %s", ep->peer,
				strerror(errno));
		ripc__iwv_ep_free(ep);
		return rc;
	}
	conn->cm_event_due = true;
	ep->user = user;
	*epp = ep;
	return 0;
}

void ripc__iwv_reject(struct ripc__transport *t, void *request, const void *priv, size_t privlen)
{
	struct ripc__ep *ep = request;

	if (ep->conn && ep->conn->id)
		rdma_reject(ep->conn->id, priv, (uint8_t)privlen);
	ripc__iwv_ep_free(ep);
}

static bool transfers_outstanding(const struct iwv_conn *conn)
{
	const struct ripc__verbs_sendq *tx = &conn->tx;

	if (conn->rd.head != conn->rd.tail)
		return true;
	for (uint32_t i = tx->head; i != tx->tail; i++)
		if (tx->slots[i & (tx->depth - 1)].kind != RIPC__EV_NONE)
			return true;
	return false;
}

void ripc__iwv_ep_close(struct ripc__ep *ep)
{
	struct iwv_conn *conn = ep->conn;

	if (conn && !iwv_ep_lost(ep))
		ripc__iwv_flush_held(conn);
	/* Sends use bounce buffers and may still complete. */
	if (conn && !iwv_ep_lost(ep) && conn->state == IWV_UP && !conn->nic->dev.gone &&
	    conn->tx.head != conn->tx.tail && ripc__verbs_sendq_space(&conn->tx) &&
	    !transfers_outstanding(conn))
		ripc__iwv_conn_linger(conn);
	ripc__iwv_ep_free(ep);
}

static int ready_to_post(struct ripc__ep *ep)
{
	return ep->state != IWV_EP_UP || !ep->conn || !ep->conn->qp ? -ENOTCONN : 0;
}

/* Posts a chain. Refused requests free their slots and end the connection. */
static int posted(struct ripc__ep *ep, struct ripc__verbs_sendq *q, struct ibv_send_wr *wr)
{
	int rc = ripc__verbs_post(ep->conn->qp, q, wr);
	char why[WHY_MAX];

	if (!rc)
		return 0;
	snprintf(why, sizeof(why), "%s: cannot post a work request: %s", ep->conn->nic->dev.name,
		 strerror(-rc));
	ripc__iwv_ep_break(ep, rc, why);
	return -ENOTCONN;
}

int ripc__iwv_flush_held(struct iwv_conn *conn)
{
	struct ibv_send_wr *wr = ripc__verbs_unhold(&conn->held);

	return wr ? posted(conn->ep, &conn->tx, wr) : 0;
}

/* Only a completion leads to EV_SENDABLE, so sends held back are posted. */
static int stalled(struct ripc__ep *ep)
{
	if (ripc__iwv_flush_held(ep->conn))
		return -ENOTCONN;
	set_stalled(ep, true);
	return -EAGAIN;
}

/* Holds a send back, or posts all of them if there is no reason to wait. Return: as post(). */
static int hold_back(struct ripc__ep *ep, const struct ibv_send_wr *wr, bool more)
{
	struct iwv_conn *conn = ep->conn;

	if (!ripc__verbs_hold(&ep->t->held, &conn->held, wr) && more)
		return 1;
	return ripc__iwv_flush_held(conn);
}

int ripc__iwv_post(struct ripc__ep *ep, const void *head, size_t head_len,
		   const struct iovec *items, unsigned n, bool more)
{
	struct iwv_conn *conn = ep->conn;
	uint8_t copy[CONN_INLINE_MAX];
	struct ripc__verbs_buf *buf = NULL;
	struct ripc__verbs_slot *slot;
	struct ibv_send_wr wr = {0};
	struct ibv_sge sge;
	size_t len = ripc__post_len(head_len, items, n);

	if (ready_to_post(ep))
		return -ENOTCONN;
	if (len > CONN_SEND_MAX || !len)
		return -EMSGSIZE;
	/* One slot is reserved for the last send of the connection. */
	if (ripc__verbs_sendq_space(&conn->tx) < 2)
		return stalled(ep);
	/* Inline data are on the stack, so they must be posted in this call. */
	if (len > conn->nic->inline_max || more || conn->held.n) {
		buf = ripc__verbs_pool_get(len <= SMALL_MAX ? &conn->nic->small : &conn->nic->big);
		if (!buf && conn->tx.head == conn->tx.tail) {
			ripc__iwv_ep_break(ep, -ENOMEM, ripc_error_detail());
			return -ENOTCONN;
		}
		/* Buffers in flight will be returned. */
		if (!buf)
			return stalled(ep);
	}
	ripc__post_copy(buf ? buf->data : copy, head, head_len, items, n);
	slot = ripc__verbs_sendq_alloc(&conn->tx, len >= SIGNAL_BYTES);
	slot->bounce = buf;
	ripc__verbs_fill_send(&wr, &sge, slot, IBV_WR_SEND, copy, len);
	if (more || conn->held.n)
		return hold_back(ep, &wr, more);
	return posted(ep, &conn->tx, &wr);
}

int ripc__iwv_transfer(struct ripc__ep *ep, const struct ripc__transfer *x)
{
	struct iwv_conn *conn = ep->conn;
	bool read = x->kind == RIPC__READ;
	bool hold = !read && x->len <= RIPC__VERBS_HELD_WRITE_MAX;
	struct ripc__verbs_sendq *q;
	struct ripc__verbs_slot *slot;
	struct ibv_sge sge = {.addr = (uintptr_t)x->local, .length = (uint32_t)x->len};
	struct ibv_send_wr wr = {
		.opcode = read ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
		.sg_list = &sge,
		.num_sge = 1,
		.wr.rdma = {x->raddr, x->rkey},
	};
	int rc;

	if (ready_to_post(ep))
		return -ENOTCONN;
	if (x->len > CONN_RDMA_MAX)
		return -EMSGSIZE;
	q = read ? &conn->rd : &conn->tx;
	if (read ? q->tail - q->head >= conn->read_depth : ripc__verbs_sendq_space(q) < 2)
		return stalled(ep);
	if (!hold && ripc__iwv_flush_held(conn))
		return -ENOTCONN;
	rc = ripc__verbs_lkey(&conn->nic->dev, x->mr, &sge.lkey);
	if (rc)
		return rc;
	slot = ripc__verbs_sendq_alloc(q, true);
	slot->kind = read ? RIPC__EV_READ_DONE : RIPC__EV_WRITE_DONE;
	slot->wr_id = x->wr_id;
	wr.wr_id = ripc__verbs_send_id(slot);
	if (!hold)
		return posted(ep, q, &wr);
	return hold_back(ep, &wr, true) < 0 ? -ENOTCONN : 0;
}
