/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Simulated connections: set-up and end. */
#define _GNU_SOURCE
#include "transport/sim/net.h"

#include "base/log.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int ripc__sim_conn_timer(struct ripc__sim *net, struct sim_conn *conn, uint64_t at_ns,
			 void (*fire)(struct ripc__sim *net, void *obj, uint64_t arg), uint64_t arg)
{
	int rc = ripc__sim_timer(net, at_ns, fire, conn, arg);

	if (!rc)
		conn->timers++;
	return rc;
}

void ripc__sim_conn_timer_done(struct ripc__sim *net, struct sim_conn *conn)
{
	conn->timers--;
	ripc__sim_conn_put(net, conn);
}

void ripc__sim_conn_free(struct ripc__sim *net, struct sim_conn *conn)
{
	struct sim_op *op, *next;

	for (int i = 0; i < 2; i++)
		DL_FOREACH_SAFE (conn->channel[i].ops, op, next)
			ripc__sim_op_free(op);
	DL_DELETE(net->conns, conn);
	free(conn);
}

void ripc__sim_conn_put(struct ripc__sim *net, struct sim_conn *conn)
{
	if (!conn->end[0].t && !conn->end[1].t && !conn->timers &&
	    conn->end[1].state != EP_REQUESTED)
		ripc__sim_conn_free(net, conn);
}

/* ---- End ---- */

static void report_lost(struct ripc__sim *net, void *obj, uint64_t arg)
{
	struct sim_conn *conn = obj;
	struct ripc__ep *end = &conn->end[arg & 1];
	struct sim_packet *p;

	if (end->t) {
		p = ripc__sim_packet(end->t, RIPC__EV_CLOSED, NULL, 0);
		if (p) {
			p->ep = p->ev.ep = end;
			p->ev.user = end->user;
			p->ev.status = -(int)(arg >> 1);
			snprintf(p->text, sizeof(p->text), "node %u",
				 conn->node[!(arg & 1)]->index);
		}
	}
	ripc__sim_conn_timer_done(net, conn);
}

void ripc__sim_conn_lost(struct ripc__sim *net, struct ripc__ep *end, int err, uint64_t delay_ns)
{
	struct sim_conn *conn = end->conn;

	if (end->lost || !end->t)
		return;
	end->lost = true;
	ripc__sim_conn_timer(net, conn, net->now_ns + delay_ns, report_lost,
			     (uint64_t)-err << 1 | (end == &conn->end[1]));
}

void ripc__sim_conn_break(struct ripc__sim *net, struct sim_conn *conn, int status)
{
	if (conn->broken)
		return;
	conn->broken = true;
	net->counters.breaks++;
	for (int i = 0; i < 2; i++) {
		bool cut = ripc__sim_partitioned(net, conn->node[0], conn->node[1]);
		struct sim_op *op, *next;
		uint64_t n = 0;

		/* Some operations in flight may have arrived, the last write among them in part. */
		DL_COUNT(conn->channel[i].ops, op, n);
		n = cut ? 0 : ripc__sim_random_range(net, 0, n);
		while (n-- && (op = conn->channel[i].ops)) {
			DL_DELETE(conn->channel[i].ops, op);
			if (!n && op->kind == OP_WRITE && op->departed) {
				size_t len = (size_t)ripc__sim_random_range(net, 0, op->len);

				/* Its immediate data comes with the last byte. */
				op->message &= len == op->len;
				op->len = len;
			}
			ripc__sim_op_deliver(net, conn, i, op);
		}
		DL_FOREACH_SAFE (conn->channel[i].ops, op, next)
			ripc__sim_op_free(op);
		conn->channel[i].ops = NULL;
	}
	for (int i = 0; i < 2; i++)
		ripc__sim_conn_lost(net, &conn->end[i], status, ripc__sim_delay(net));
}

bool ripc__sim_conn_between(const struct sim_conn *conn, const struct sim_node *a,
			    const struct sim_node *b)
{
	return (conn->node[0] == a && conn->node[1] == b) ||
	       (conn->node[0] == b && conn->node[1] == a);
}

int ripc__sim_break(struct ripc__sim *net, const uint8_t a[16], const uint8_t b[16])
{
	struct sim_node *na = ripc__sim_find(net, a), *nb = ripc__sim_find(net, b);
	struct sim_conn *conn, *next;
	int n = 0;

	if (!na || !nb)
		return -ENOENT;
	DL_FOREACH_SAFE (net->conns, conn, next) {
		if (conn->broken || !ripc__sim_conn_between(conn, na, nb))
			continue;
		ripc__sim_conn_break(net, conn, -ECONNRESET);
		n++;
	}
	return n;
}

/*
 * Ends all access to local memory through this connection. Operations that have not left are
 * dropped, and all behind them, because the channel keeps its order.
 */
static void drop_channel(struct sim_channel *channel)
{
	struct sim_op *op, *next;
	bool cut = false;

	DL_FOREACH_SAFE (channel->ops, op, next) {
		cut |= (op->kind == OP_WRITE || op->kind == OP_READ_REPLY) && !op->departed;
		if (!cut)
			continue;
		DL_DELETE(channel->ops, op);
		ripc__sim_op_free(op);
	}
}

void ripc__sim_ep_close(struct ripc__ep *ep)
{
	struct sim_conn *conn = ep->conn;
	struct ripc__transport *t = ep->t;
	struct ripc__sim *net = t->net;
	struct sim_packet *p, *next;
	struct sim_op *op, *next_op;
	int side = ep == &conn->end[1];

	ripc__sim_flush_held(ep);
	DL_FOREACH_SAFE (ep->held, op, next_op)
		ripc__sim_op_free(op);
	ep->held = NULL;
	DL_FOREACH_SAFE (t->inbox, p, next)
		if (p->ep == ep) {
			DL_DELETE(t->inbox, p);
			ripc__sim_packet_free(t, p);
		}
	DL_FOREACH (t->reported, p)
		if (p->ep == ep)
			p->ep = NULL;
	DL_FOREACH (t->transient, p)
		if (p->ep == ep)
			p->ep = NULL;
	drop_channel(&conn->channel[side]);
	op = ripc__sim_op(OP_FIN, NULL, 0);
	if (op)
		ripc__sim_op_post(net, conn, side, op);
	DL_DELETE(t->eps, ep);
	ep->t = NULL;
	net->counters.endpoints--;
	ripc__sim_conn_put(net, conn);
}

/* ---- Set-up ---- */

static void open_end(struct ripc__ep *end, struct ripc__transport *t, enum sim_state state,
		     void *user)
{
	end->t = t;
	end->state = state;
	end->user = user;
	DL_APPEND(t->eps, end);
	t->net->counters.endpoints++;
}

int ripc__sim_connect(struct ripc__transport *t, const uint8_t *addr, size_t addrlen,
		      const void *priv, size_t privlen, void *user, struct ripc__ep **ep)
{
	struct ripc__sim *net = t->net;
	struct sim_node *target = ripc__sim_decode_address(net, addr, addrlen);
	struct sim_conn *conn;
	struct sim_op *op;

	if (!target)
		return ripc__fail(-EINVAL, "sim: %zu bytes that are no address of this network",
				  addrlen);
	if (privlen > RIPC__PRIVATE_MAX) {
		ripc__sim_report_violation(net, &net->counters.bad_call, t->node,
					   "%zu bytes of private data", privlen);
		return ripc__fail(-EINVAL, "sim: %zu bytes of private data", privlen);
	}
	conn = calloc(1, sizeof(*conn));
	op = ripc__sim_op(OP_REQUEST, priv, privlen);
	if (!conn || !op) {
		free(conn);
		if (op)
			ripc__sim_op_free(op);
		return ripc__fail(-ENOMEM, "sim: out of memory for a connection");
	}
	conn->node[0] = t->node;
	conn->node[1] = target;
	conn->end[0].conn = conn->end[1].conn = conn;
	DL_APPEND(net->conns, conn);
	open_end(&conn->end[0], t, EP_CONNECTING, user);
	net->counters.connects++;
	net->connects++;
	if (net->fail_connect_at == net->connects ||
	    ripc__sim_random_bool(net, net->config.connect_failure)) {
		ripc__sim_op_free(op);
		ripc__sim_conn_lost(net, &conn->end[0], -ECONNREFUSED, ripc__sim_delay(net));
	} else {
		ripc__sim_op_post(net, conn, 0, op);
	}
	*ep = &conn->end[0];
	return 0;
}

int ripc__sim_accept(struct ripc__transport *t, void *request, const void *priv, size_t privlen,
		     void *user, struct ripc__ep **ep)
{
	struct ripc__sim *net = t->net;
	struct sim_conn *conn = request;
	struct ripc__ep *end = &conn->end[1];
	struct sim_packet *p;
	struct sim_op *op;

	if (end->state != EP_REQUESTED || privlen > RIPC__PRIVATE_MAX) {
		ripc__sim_report_violation(net, &net->counters.bad_call, t->node,
					   "accept() of no request, or %zu bytes", privlen);
		return ripc__fail(-EINVAL, "sim: accept() of no request, or with %zu bytes",
				  privlen);
	}
	open_end(end, t, EP_ACCEPTED, user);
	op = ripc__sim_op(OP_ACCEPT, priv, privlen);
	if (op)
		ripc__sim_op_post(net, conn, 1, op);
	*ep = end;
	if (conn->broken || conn->fin) {
		ripc__sim_conn_lost(net, end, -ECONNRESET, ripc__sim_delay(net));
		return 0;
	}
	/*
	 * The contract allows both: the passive side is notified at once, or when the active side
	 * is ready.
	 */
	if (ripc__sim_random_range(net, 0, 1)) {
		p = ripc__sim_packet(t, RIPC__EV_ESTABLISHED, NULL, 0);
		if (p) {
			end->established_queued = true;
			p->ep = p->ev.ep = end;
			p->ev.user = user;
		}
	}
	return 0;
}

void ripc__sim_reject(struct ripc__transport *t, void *request, const void *priv, size_t privlen)
{
	struct ripc__sim *net = t->net;
	struct sim_conn *conn = request;
	struct sim_op *op;

	if (conn->end[1].state != EP_REQUESTED || privlen > RIPC__PRIVATE_MAX) {
		ripc__sim_report_violation(net, &net->counters.bad_call, t->node,
					   "reject() of no request, or %zu bytes", privlen);
		return;
	}
	conn->end[1].state = EP_NONE;
	op = ripc__sim_op(OP_REJECT, priv, privlen);
	if (op)
		ripc__sim_op_post(net, conn, 1, op);
	ripc__sim_conn_put(net, conn);
}

void ripc__sim_conn_refuse_all(struct ripc__transport *t)
{
	struct sim_conn *conn, *next;

	DL_FOREACH_SAFE (t->net->conns, conn, next) {
		if (conn->node[1] != t->node || conn->end[1].state != EP_REQUESTED ||
		    conn->end[1].t)
			continue;
		conn->end[1].state = EP_NONE;
		if (!t->node->dead)
			ripc__sim_conn_lost(t->net, &conn->end[0], -ECONNREFUSED,
					    ripc__sim_delay(t->net));
		ripc__sim_conn_put(t->net, conn);
	}
}

/* Handles an arrived connection request. */
static void handle_request(struct ripc__sim *net, struct sim_conn *conn, struct sim_op *op)
{
	struct ripc__transport *t = conn->node[1]->t;
	struct sim_packet *p = NULL;

	if (t && !conn->node[1]->dead)
		p = ripc__sim_packet(t, RIPC__EV_REQUEST, op->data, op->len);
	if (!p) {
		ripc__sim_conn_lost(net, &conn->end[0], -ECONNREFUSED, ripc__sim_delay(net));
		return;
	}
	conn->end[1].state = EP_REQUESTED;
	p->ev.request = conn;
	p->ev.source = conn->node[0]->index + 1;
	snprintf(p->text, sizeof(p->text), "node %u", conn->node[0]->index);
}

static void handle_answer(struct ripc__sim *net, struct sim_conn *conn, struct sim_op *op)
{
	struct ripc__ep *end = &conn->end[0];
	struct sim_packet *p;

	if (!end->t || end->lost)
		return;
	p = ripc__sim_packet(end->t, op->kind == OP_ACCEPT ? RIPC__EV_ESTABLISHED : RIPC__EV_CLOSED,
			     op->data, op->len);
	if (!p)
		return;
	p->ep = p->ev.ep = end;
	p->ev.user = end->user;
	if (op->kind == OP_REJECT) {
		end->lost = true;
		p->ev.status = -ECONNREFUSED;
		p->ev.reject = true;
		return;
	}
	end->established_queued = true;
	op = ripc__sim_op(OP_READY, NULL, 0);
	if (op)
		ripc__sim_op_post(net, conn, 0, op);
}

void ripc__sim_conn_op_arrived(struct ripc__sim *net, struct sim_conn *conn, int side,
			       struct sim_op *op)
{
	struct ripc__ep *end = &conn->end[!side];
	struct sim_packet *p;

	switch (op->kind) {
	case OP_REQUEST:
		handle_request(net, conn, op);
		break;
	case OP_ACCEPT:
	case OP_REJECT:
		handle_answer(net, conn, op);
		break;
	case OP_READY:
		if (!end->t || end->lost || end->established_queued)
			break;
		p = ripc__sim_packet(end->t, RIPC__EV_ESTABLISHED, NULL, 0);
		if (!p)
			break;
		end->established_queued = true;
		p->ep = p->ev.ep = end;
		p->ev.user = end->user;
		break;
	default: /* OP_FIN */
		if (end->t)
			ripc__sim_conn_lost(net, end, -ECONNRESET, 0);
		else
			conn->fin = true;
		break;
	}
	ripc__sim_op_free(op);
}
