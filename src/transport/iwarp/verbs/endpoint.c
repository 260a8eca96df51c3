/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Endpoints as the core sees them: connect, accept, reject, post, close. */
#include "base/clock.h"
#include "base/log.h"
#include "transport/iwarp/verbs/verbs.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RESOLVE_MS 1000 /* time to find the way to one place */
#define PLACE_MS   5000 /* for one place in all; the core gives less */
/*
 * From this size on SoftiWARP lets TCP refer to the memory of a send that is not signaled, and goes on to do so after a later
 * one has completed.
 */
#define SIGNAL_BYTES 4096u

struct ripc__ep *ripc__iwv_ep_new(struct iwv *t, bool active)
{
	struct ripc__ep *ep = calloc(1, sizeof(*ep));

	if (!ep)
		return NULL;
	ep->t = t;
	ep->active = active;
	ripc__list_init(&ep->link);
	ripc__list_add(&t->eps, &ep->link);
	return ep;
}

void ripc__iwv_ep_deadline(struct ripc__ep *ep, uint64_t deadline_ns)
{
	struct iwv *t = ep->t;

	t->ntimed += !!deadline_ns;
	t->ntimed -= !!ep->deadline_ns;
	ep->deadline_ns = deadline_ns;
	if (deadline_ns && deadline_ns < t->next_timer_ns)
		t->next_timer_ns = deadline_ns;
}

static void set_stalled(struct ripc__ep *ep, bool stalled)
{
	ep->t->nstalled += stalled;
	ep->t->nstalled -= ep->want_sendable;
	ep->want_sendable = stalled;
}

void ripc__iwv_ep_free(struct ripc__ep *ep)
{
	struct iwv *t = ep->t;

	ripc__iwv_ep_deadline(ep, 0);
	set_stalled(ep, false);
	if (ep->broken && !ep->closed)
		t->nbroken--;
	if (ep->conn)
		ripc__iwv_conn_drop(ep->conn);
	ripc__list_del(&ep->link);
	ripc__list_add(&t->deferred_free, &ep->link);
}

void ripc__iwv_ep_break(struct ripc__ep *ep, int error, const char *why)
{
	if (ep->broken)
		return;
	ep->broken = true;
	ep->error = error;
	snprintf(ep->why, sizeof(ep->why), "%s", why);
	ripc__iwv_ep_deadline(ep, 0);
	ep->t->nbroken++;
}

static void note(struct ripc__ep *ep, int error, const char *why)
{
	size_t len = strlen(ep->why);

	ep->peer_may_exist = ep->peer_may_exist || error != -ECONNREFUSED;
	snprintf(ep->why + len, sizeof(ep->why) - len, "%s%s: %s", len ? "; " : "", ep->peer, why);
}

/* Starts to connect to the current place. Return: 0 or a negative errno. */
static int start(struct ripc__ep *ep)
{
	struct ripc__iwarp_listen_addr *addr_index = &ep->address.addrs[ep->addr_index];
	union ripc__sockaddr to = addr_index->ip;
	struct iwv_conn *conn = ripc__iwv_conn_new(ep->t, ep);
	int rc = 0;

	ripc__sockaddr_set_port(&to, addr_index->tcp);
	ripc__sockaddr_text(&to, ep->peer, sizeof(ep->peer));
	if (!conn)
		return -ENOMEM;
	conn->state = IWV_RESOLVING;
	if (rdma_create_id(ep->t->channel, &conn->id, conn, RDMA_PS_TCP)) {
		conn->id = NULL;
		rc = -errno;
	} else if (rdma_resolve_addr(conn->id, NULL, &to.sa, RESOLVE_MS)) {
		rc = -errno;
	}
	if (rc)
		ripc__iwv_conn_drop(conn);
	else
		ripc__iwv_ep_deadline(ep, ripc__clock_ns() + PLACE_MS * RIPC__MS);
	return rc;
}

void ripc__iwv_ep_try_next(struct ripc__ep *ep)
{
	char tried[WHY_MAX];
	int rc;

	for (; ep->addr_index < ep->address.naddrs; ep->addr_index++) {
		/* No device leads there, and librdmacm says so late. */
		if (ep->address.addrs[ep->addr_index].loopback)
			continue;
		rc = start(ep);
		if (!rc)
			return;
		note(ep, -EHOSTUNREACH, strerror(-rc));
	}
	snprintf(tried, sizeof(tried), "%s",
		 ep->why[0] ? ep->why : "no address that an iWARP device could lead to");
	/* Only if its host says at every place that nobody listens is the peer known to be dead. */
	ripc__iwv_ep_break(ep, ep->why[0] && !ep->peer_may_exist ? -ECONNREFUSED : -EHOSTUNREACH,
			   tried);
}

void ripc__iwv_ep_failed(struct ripc__ep *ep, int error, const char *why)
{
	if (ep->broken)
		return;
	if (!ep->active || ep->up) {
		ripc__iwv_ep_break(ep, -ECONNRESET, why);
		return;
	}
	note(ep, error, why);
	if (ep->conn)
		ripc__iwv_conn_drop(ep->conn);
	ep->addr_index++;
	ripc__iwv_ep_try_next(ep);
}

static bool has_room(const struct iwv_conn *conn)
{
	return ripc__verbs_sendq_space(&conn->tx) >= CONN_TX_DEPTH / 2 &&
	       conn->rd.tail - conn->rd.head < conn->read_depth;
}

unsigned ripc__iwv_ep_events(struct iwv *t, struct ripc__event *events, unsigned max)
{
	struct ripc__list *l, *tmp;
	unsigned n = 0;

	ripc__list_for_each_safe (l, tmp, &t->eps) {
		struct ripc__ep *ep = ripc__list_entry(l, struct ripc__ep, link);

		if (n == max)
			break;
		/* Of one that the core has not accepted yet it learns when it tries to. */
		if (ep->broken && !ep->closed && !ep->asked) {
			/* Nothing may touch the memory of what was posted any more. */
			if (ep->conn)
				ripc__iwv_conn_drop(ep->conn);
			set_stalled(ep, false);
			ep->closed = true;
			t->nbroken--;
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

int ripc__iwv_connect(struct ripc__transport *tr, const uint8_t *addr, size_t addrlen,
		      const void *priv, size_t privlen, void *user, struct ripc__ep **epp)
{
	struct iwv *t = (struct iwv *)tr;
	struct ripc__iwarp_address address;
	struct ripc__ep *ep;

	if (privlen > RIPC__PRIVATE_MAX)
		return ripc__fail(-EINVAL, "iwarp/verbs: %zu bytes of private data, at most %d",
				  privlen, RIPC__PRIVATE_MAX);
	if (ripc__iwarp_address_decode(&address, addr, addrlen))
		return ripc__fail(-EINVAL, "iwarp/verbs: the peer's address makes no sense");
	ep = ripc__iwv_ep_new(t, true);
	if (!ep)
		return ripc__fail(-ENOMEM, "iwarp/verbs: out of memory");
	ripc__iwarp_address_order(&address, t->host);
	ep->user = user;
	ep->address = address;
	if (privlen)
		memcpy(ep->priv, priv, privlen);
	ep->privlen = privlen;
	*epp = ep;
	ripc__iwv_ep_try_next(ep);
	return 0;
}

int ripc__iwv_accept(struct ripc__transport *tr, void *request, const void *priv, size_t privlen,
		     void *user, struct ripc__ep **epp)
{
	struct ripc__ep *ep = request;
	struct iwv_conn *conn = ep->conn;
	struct rdma_conn_param param = {
		.private_data = priv,
		.private_data_len = (uint8_t)privlen,
	};
	int rc;

	ep->asked = false;
	if (privlen > RIPC__PRIVATE_MAX)
		rc = ripc__fail(-EINVAL, "iwarp/verbs: %zu bytes of private data, at most %d",
				privlen, RIPC__PRIVATE_MAX);
	else if (!conn || ep->broken)
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
	conn->state = IWV_ACCEPTED;
	if (rdma_accept(conn->id, &param)) {
		rc = ripc__fail(-errno, "iwarp/verbs: %s cannot be accepted: %s", ep->peer,
				strerror(errno));
		ripc__iwv_ep_free(ep);
		return rc;
	}
	conn->cm_event_due = true;
	ep->user = user;
	*epp = ep;
	return 0;
}

void ripc__iwv_reject(struct ripc__transport *tr, void *request, const void *priv, size_t privlen)
{
	struct ripc__ep *ep = request;

	if (ep->conn && ep->conn->id)
		rdma_reject(ep->conn->id, priv,
			    (uint8_t)(privlen < RIPC__PRIVATE_MAX ? privlen : RIPC__PRIVATE_MAX));
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

	if (conn && !ep->broken)
		ripc__iwv_flush_held(conn);
	/* Sends are copies of ours, and may still go out. */
	if (conn && !ep->broken && conn->state == IWV_UP && !conn->nic->dev.gone &&
	    conn->tx.head != conn->tx.tail && ripc__verbs_sendq_space(&conn->tx) &&
	    !transfers_outstanding(conn))
		ripc__iwv_conn_linger(conn);
	ripc__iwv_ep_free(ep);
}

static int ready_to_post(struct ripc__ep *ep)
{
	return ep->broken || !ep->up || !ep->conn || !ep->conn->qp ? -ENOTCONN : 0;
}

/*
 * Posts a chain. Those that are refused have free slots again, and the connection is over, of which the connection manager
 * will tell.
 */
static int posted(struct ripc__ep *ep, struct ripc__verbs_sendq *q, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad = wr;
	int rc = ibv_post_send(ep->conn->qp, wr, &bad);
	char why[WHY_MAX];
	uint32_t n = 0;

	if (!rc)
		return 0;
	rc = rc > 0 ? -rc : rc;
	for (; bad; bad = bad->next)
		n++;
	ripc__verbs_sendq_unalloc(q, n);
	snprintf(why, sizeof(why), "%s: work cannot be posted: %s", ep->conn->nic->dev.name,
		 strerror(-rc));
	ripc__iwv_ep_break(ep, rc, why);
	return -ENOTCONN;
}

int ripc__iwv_flush_held(struct iwv_conn *conn)
{
	unsigned n = conn->nheld;

	if (!n)
		return 0;
	conn->nheld = 0;
	ripc__list_del(&conn->held);
	for (unsigned i = 0; i < n; i++)
		conn->held_wr[i].next = i + 1 < n ? &conn->held_wr[i + 1] : NULL;
	return posted(conn->ep, &conn->tx, conn->held_wr);
}

/* Something that completes brings it back: so nothing may be held back meanwhile. */
static int stalled(struct ripc__ep *ep)
{
	if (ripc__iwv_flush_held(ep->conn))
		return -ENOTCONN;
	set_stalled(ep, true);
	return -EAGAIN;
}

/* Keeps it for later, and posts all that is kept when there is no reason to wait. Return: as post(). */
static int hold_back(struct ripc__ep *ep, const struct ibv_send_wr *wr, bool more)
{
	struct iwv_conn *conn = ep->conn;
	unsigned i = conn->nheld++;

	conn->held_sge[i] = *wr->sg_list;
	conn->held_wr[i] = *wr;
	conn->held_wr[i].sg_list = &conn->held_sge[i];
	if (!i)
		ripc__list_add(&ep->t->held, &conn->held);
	if (more && conn->nheld < CONN_HELD_MAX)
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
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .num_sge = 1};
	struct ibv_sge sge;
	size_t len = ripc__post_len(head_len, items, n);

	if (ready_to_post(ep))
		return -ENOTCONN;
	if (len > CONN_SEND_MAX || !len)
		return -EMSGSIZE;
	/* One slot is for the mark at the end. */
	if (ripc__verbs_sendq_space(&conn->tx) < 2)
		return stalled(ep);
	/* What waits cannot be inline: the device takes that out of memory of the call. */
	if (len > conn->nic->inline_max || more || conn->nheld) {
		buf = ripc__verbs_pool_get(len <= SMALL_MAX ? &conn->nic->small : &conn->nic->big);
		if (!buf && conn->tx.head == conn->tx.tail) {
			ripc__iwv_ep_break(ep, -ENOMEM, ripc_error_detail());
			return -ENOTCONN;
		}
		/* Those that are on their way come back. */
		if (!buf)
			return stalled(ep);
	}
	ripc__post_copy(buf ? buf->data : copy, head, head_len, items, n);
	slot = ripc__verbs_sendq_alloc(&conn->tx, len >= SIGNAL_BYTES);
	slot->bounce = buf;
	sge = (struct ibv_sge){
		.addr = (uintptr_t)(buf ? buf->data : copy),
		.length = (uint32_t)len,
		.lkey = buf ? buf->lkey : 0,
	};
	wr.wr_id = ripc__verbs_send_id(slot);
	wr.sg_list = &sge;
	wr.send_flags = (slot->signaled ? IBV_SEND_SIGNALED : 0u) | (buf ? 0u : IBV_SEND_INLINE);
	if (more || conn->nheld)
		return hold_back(ep, &wr, more);
	return posted(ep, &conn->tx, &wr);
}

static int post_transfer(struct ripc__ep *ep, enum ibv_wr_opcode opcode, const struct ripc__mr *mr,
			 const void *local, size_t len, uint64_t raddr, uint32_t rkey, uint64_t wr_id)
{
	struct iwv_conn *conn = ep->conn;
	bool read = opcode == IBV_WR_RDMA_READ;
	uintptr_t base = (uintptr_t)mr->base, at = (uintptr_t)local;
	struct ripc__verbs_sendq *q;
	struct ripc__verbs_slot *slot;
	struct ibv_send_wr wr = {.opcode = opcode, .send_flags = IBV_SEND_SIGNALED, .num_sge = 1};
	struct ibv_sge sge = {.addr = at, .length = (uint32_t)len};
	int rc;

	if (ready_to_post(ep))
		return -ENOTCONN;
	if (len > CONN_RDMA_MAX)
		return -EMSGSIZE;
	if (len && (at < base || at - base > mr->len || len > mr->len - (at - base)))
		return -EINVAL;
	q = read ? &conn->rd : &conn->tx;
	if (read ? q->tail - q->head >= conn->read_depth : ripc__verbs_sendq_space(q) < 2)
		return stalled(ep);
	if (ripc__iwv_flush_held(conn))
		return -ENOTCONN;
	rc = ripc__verbs_lkey(&conn->nic->dev, mr, &sge.lkey);
	if (rc)
		return rc;
	slot = ripc__verbs_sendq_alloc(q, true);
	slot->kind = read ? RIPC__EV_READ_DONE : RIPC__EV_WRITE_DONE;
	slot->wr_id = wr_id;
	wr.wr_id = ripc__verbs_send_id(slot);
	wr.sg_list = &sge;
	wr.wr.rdma.remote_addr = raddr;
	wr.wr.rdma.rkey = rkey;
	return posted(ep, q, &wr);
}

int ripc__iwv_post_write(struct ripc__ep *ep, const struct ripc__mr *mr, const void *local,
			 size_t len, uint64_t raddr, uint32_t rkey, uint64_t wr_id)
{
	return post_transfer(ep, IBV_WR_RDMA_WRITE, mr, local, len, raddr, rkey, wr_id);
}

int ripc__iwv_post_read(struct ripc__ep *ep, const struct ripc__mr *mr, void *local, size_t len,
			uint64_t raddr, uint32_t rkey, uint64_t wr_id)
{
	return post_transfer(ep, IBV_WR_RDMA_READ, mr, local, len, raddr, rkey, wr_id);
}
