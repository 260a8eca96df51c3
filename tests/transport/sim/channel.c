/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Operations on a simulated connection: sends, writes and reads.
 *
 * A write takes its bytes from the source at a random time between post and arrival, reports
 * WRITE_DONE, and only then stores them. A read takes the bytes of the target when the answer
 * leaves. So memory that either side reuses too early shows as wrong contents. Each access checks
 * key, range and right when it happens.
 */
#define _GNU_SOURCE
#include "transport/sim/net.h"

#include "base/log.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define RETRY_NS (5 * RIPC__MS) /* interval at which the head of a partitioned channel retries */
#define INJECTED UINT64_MAX     /* wr_id of an injected send */

static bool has_source(const struct sim_op *op)
{
	return op->kind == OP_WRITE || op->kind == OP_READ_REPLY;
}

/* Return: the event, for more fields; NULL: it is not reported. */
static struct ripc__event *report(struct ripc__ep *end, enum ripc__ev_kind kind, uint64_t wr_id)
{
	struct sim_packet *p;

	if (!end->t || end->lost)
		return NULL;
	p = ripc__sim_packet(end->t, kind, NULL, 0);
	if (!p)
		return NULL;
	p->ep = p->ev.ep = end;
	p->ev.user = end->user;
	p->ev.wr_id = wr_id;
	return &p->ev;
}

/* Frees an entry of the endpoint's queue. */
static void complete(struct ripc__ep *end)
{
	end->outstanding--;
	if (end->want_sendable) {
		end->want_sendable = false;
		report(end, RIPC__EV_SENDABLE, 0);
	}
}

/* ---- In flight ---- */

static void head_due(struct ripc__sim *net, void *obj, uint64_t arg);

static void arm_head_timer(struct ripc__sim *net, struct sim_conn *conn, int side, uint64_t at_ns)
{
	struct sim_channel *channel = &conn->channel[side];

	if (channel->timer_pending || !channel->ops)
		return;
	if (!ripc__sim_conn_timer(net, conn, at_ns, head_due, (uint64_t)side))
		channel->timer_pending = true;
}

/* Copies the bytes from the source. Return: false if the source is not accessible any more. */
static bool depart(struct ripc__sim *net, struct sim_conn *conn, int side, struct sim_op *op)
{
	op->departed = true;
	if (!op->region->alive) {
		if (op->kind == OP_WRITE)
			ripc__sim_report_violation(
				net, &net->counters.bad_local, conn->node[side],
				"memory was deregistered while a write was under way");
		else
			ripc__sim_report_violation(
				net, &net->counters.bad_remote, conn->node[side],
				"memory was deregistered while a peer was reading it");
		return false;
	}
	op->data = malloc(op->len ? op->len : 1);
	if (!op->data)
		return false;
	memcpy(op->data, op->source, op->len);
	if (op->kind == OP_WRITE)
		report(&conn->end[side], RIPC__EV_WRITE_DONE, op->wr_id);
	return true;
}

static void departure_due(struct ripc__sim *net, void *obj, uint64_t arg)
{
	struct sim_conn *conn = obj;
	int side = arg & 1;
	struct sim_op *op;

	DL_FOREACH (conn->channel[side].ops, op)
		if (op->id == arg >> 1)
			break;
	if (op && !op->departed && !depart(net, conn, side, op)) {
		DL_DELETE(conn->channel[side].ops, op);
		ripc__sim_op_free(op);
		ripc__sim_conn_break(net, conn, -EREMOTEIO);
	}
	ripc__sim_conn_timer_done(net, conn);
}

static void tamper(struct ripc__sim *net, struct sim_conn *conn, int side, struct sim_op *op)
{
	if (net->audit && op->data && op->kind == OP_SEND && op->wr_id != UINT64_MAX &&
	    !conn->node[side]->hostile)
		net->audit(op->data, op->len);
	if (net->tamper && op->data &&
	    (op->kind == OP_SEND || op->kind == OP_REQUEST || op->kind == OP_ACCEPT))
		net->tamper(net->tamper_arg, conn->node[side]->instance,
			    conn->node[!side]->instance, op->data, &op->len);
}

int ripc__sim_op_post(struct ripc__sim *net, struct sim_conn *conn, int side, struct sim_op *op)
{
	struct sim_channel *channel = &conn->channel[side];
	uint64_t arrival;

	net->activity++;
	if (conn->broken || conn->node[side]->dead || conn->end[side].lost) {
		ripc__sim_op_free(op);
		return 0;
	}
	tamper(net, conn, side, op);
	op->id = net->seq++;
	arrival = ripc__sim_tx_done_ns(net, conn->node[side], op->kind == OP_READ ? 0 : op->len) +
		  ripc__sim_delay(net);
	if (op->kind == OP_ACCEPT || op->kind == OP_REJECT)
		arrival += net->config.setup_delay_ns;
	if (arrival < channel->last_arrival_ns)
		arrival = channel->last_arrival_ns;
	op->arrival_ns = channel->last_arrival_ns = arrival;
	DL_APPEND(channel->ops, op);
	if (has_source(op)) {
		if (channel->last_departure_ns < net->now_ns)
			channel->last_departure_ns = net->now_ns;
		channel->last_departure_ns =
			ripc__sim_random_range(net, channel->last_departure_ns, arrival);
		ripc__sim_conn_timer(net, conn, channel->last_departure_ns, departure_due,
				     op->id << 1 | (unsigned)side);
	}
	arm_head_timer(net, conn, side, channel->ops->arrival_ns);
	return 0;
}

/* Whether a fault between the two nodes strikes at this operation. */
static bool fault_due(struct ripc__sim *net, struct sim_conn *conn)
{
	struct sim_pair *pair = ripc__sim_pair(net, conn->node[0], conn->node[1]);

	if (ripc__sim_random_bool(net, net->config.conn_break))
		return true;
	return pair && pair->break_in && !--pair->break_in;
}

static void head_due(struct ripc__sim *net, void *obj, uint64_t arg)
{
	struct sim_conn *conn = obj;
	int side = (int)arg;
	struct sim_channel *channel = &conn->channel[side];
	struct sim_op *op = channel->ops;

	channel->timer_pending = false;
	if (!op) {
		channel->blocked_since_ns = 0;
	} else if (op->arrival_ns > net->now_ns) {
		arm_head_timer(net, conn, side, op->arrival_ns);
	} else if (ripc__sim_partitioned(net, conn->node[0], conn->node[1])) {
		if (!channel->blocked_since_ns)
			channel->blocked_since_ns = net->now_ns;
		if (net->config.give_up_ns &&
		    net->now_ns - channel->blocked_since_ns >= net->config.give_up_ns)
			ripc__sim_conn_break(net, conn, -ETIMEDOUT);
		else
			arm_head_timer(net, conn, side, net->now_ns + RETRY_NS);
	} else {
		channel->blocked_since_ns = 0;
		if (fault_due(net, conn)) {
			ripc__sim_break(net, conn->node[0]->instance, conn->node[1]->instance);
		} else {
			DL_DELETE(channel->ops, op);
			ripc__sim_op_deliver(net, conn, side, op);
			if (channel->ops)
				arm_head_timer(net, conn, side, channel->ops->arrival_ns);
		}
	}
	ripc__sim_conn_timer_done(net, conn);
}

/* ---- Arrival ---- */

/* The node that violated the contract, with a key or with credit: the sender, or a hostile peer. */
static struct sim_node *violator(struct sim_conn *conn, int side)
{
	return conn->node[!side]->hostile ? conn->node[!side] : conn->node[side];
}

/* Whether the target has a receive for a message from this side; if not, the connection breaks. */
static bool receive_free(struct ripc__sim *net, struct sim_conn *conn, int side)
{
	const struct ripc__ep *end = &conn->end[!side];

	if (!end->t->limits.recv_depth || end->unreleased < end->t->limits.recv_depth)
		return true;
	ripc__sim_report_violation(net, &net->counters.not_ready, violator(conn, side),
				   "a send met no receive: %u are taken", end->unreleased);
	ripc__sim_conn_break(net, conn, -EPROTO);
	return false;
}

static void arrive_send(struct ripc__sim *net, struct sim_conn *conn, int side, struct sim_op *op)
{
	struct ripc__ep *end = &conn->end[!side];
	struct ripc__transport *t = end->t;
	struct sim_packet *p;

	if (op->wr_id != INJECTED)
		complete(&conn->end[side]);
	if (!receive_free(net, conn, side))
		return;
	p = ripc__sim_packet(t, RIPC__EV_RECV, op->data, op->len);
	if (!p) {
		ripc__sim_conn_break(net, conn, -ENOMEM);
		return;
	}
	p->ep = p->ev.ep = end;
	p->ev.user = end->user;
	p->receive = true;
	end->unreleased++;
	if (!ripc__sim_random_bool(net, net->config.transient))
		p->ev.token = p;
}

static void arrive_write(struct ripc__sim *net, struct sim_conn *conn, int side, struct sim_op *op)
{
	struct sim_region *region;

	complete(&conn->end[side]);
	region = ripc__sim_region_remote(conn->end[!side].t, op->raddr, op->rkey, op->len,
					 RIPC__ACCESS_REMOTE_WRITE);
	if (!region) {
		ripc__sim_report_violation(
			net, &net->counters.bad_remote, violator(conn, side),
			"write of %zu bytes with key %x: no such memory at node %u", op->len,
			op->rkey, conn->node[!side]->index);
		ripc__sim_conn_break(net, conn, -EREMOTEIO);
		return;
	}
	memcpy(region->base + (op->raddr - region->addr), op->data, op->len);
	if (op->raddr - region->addr <= region->written &&
	    region->written < op->raddr - region->addr + op->len)
		region->written = op->raddr - region->addr + op->len;
	if (op->message && receive_free(net, conn, side)) {
		struct ripc__event *ev = report(&conn->end[!side], RIPC__EV_WRITTEN, 0);

		if (ev) {
			ev->len = (uint32_t)op->len;
			ev->imm = op->imm;
		}
	}
}

static void arrive_read(struct ripc__sim *net, struct sim_conn *conn, int side, struct sim_op *op)
{
	struct sim_region *region = ripc__sim_region_remote(conn->end[!side].t, op->raddr, op->rkey,
							    op->len, RIPC__ACCESS_REMOTE_READ);
	struct sim_op *reply;

	if (!region) {
		ripc__sim_report_violation(
			net, &net->counters.bad_remote, violator(conn, side),
			"read of %zu bytes with key %x: no such memory at node %u", op->len,
			op->rkey, conn->node[!side]->index);
		ripc__sim_conn_break(net, conn, -EREMOTEIO);
		return;
	}
	reply = ripc__sim_op(OP_READ_REPLY, NULL, op->len);
	if (!reply) {
		ripc__sim_conn_break(net, conn, -ENOMEM);
		return;
	}
	region->refs++;
	reply->region = region;
	reply->source = region->base + (op->raddr - region->addr);
	reply->dest = op->region;
	op->region = NULL;
	reply->dest_addr = op->dest_addr;
	reply->wr_id = op->wr_id;
	ripc__sim_op_post(net, conn, !side, reply);
}

static void arrive_read_reply(struct ripc__sim *net, struct sim_conn *conn, int side,
			      struct sim_op *op)
{
	struct ripc__ep *end = &conn->end[!side];

	if (!op->dest->alive) {
		ripc__sim_report_violation(
			net, &net->counters.bad_local, conn->node[!side],
			"memory was deregistered while a read into it was under way");
		ripc__sim_conn_break(net, conn, -EREMOTEIO);
		return;
	}
	memcpy(op->dest_addr, op->data, op->len);
	end->reads--;
	complete(end);
	report(end, RIPC__EV_READ_DONE, op->wr_id);
}

void ripc__sim_op_execute(struct ripc__sim *net, struct sim_conn *conn, int side, struct sim_op *op)
{
	if (conn->end[!side].t && !conn->end[!side].closed_reported) {
		switch (op->kind) {
		case OP_SEND:
			arrive_send(net, conn, side, op);
			break;
		case OP_WRITE:
			arrive_write(net, conn, side, op);
			break;
		case OP_READ:
			arrive_read(net, conn, side, op);
			break;
		default:
			arrive_read_reply(net, conn, side, op);
			break;
		}
	}
	ripc__sim_op_free(op);
}

void ripc__sim_op_deliver(struct ripc__sim *net, struct sim_conn *conn, int side, struct sim_op *op)
{
	struct ripc__ep *end = &conn->end[!side];
	struct sim_packet *p;

	if (op->kind != OP_SEND && op->kind != OP_WRITE && op->kind != OP_READ &&
	    op->kind != OP_READ_REPLY) {
		ripc__sim_conn_op_arrived(net, conn, side, op);
		return;
	}
	if (!end->t || end->lost || conn->node[!side]->dead) {
		ripc__sim_op_free(op);
		return;
	}
	if (has_source(op) && !op->departed && !depart(net, conn, side, op)) {
		ripc__sim_op_free(op);
		ripc__sim_conn_break(net, conn, -EREMOTEIO);
		return;
	}
	if (op->kind == OP_SEND || !end->t->target_progress) {
		ripc__sim_op_execute(net, conn, side, op);
		return;
	}
	/* Queue it behind the pending events: a send must stay behind the write before it. */
	p = ripc__sim_packet(end->t, RIPC__EV_NONE, NULL, 0);
	if (!p) {
		ripc__sim_op_free(op);
		ripc__sim_conn_break(net, conn, -ENOMEM);
		return;
	}
	p->ep = end;
	p->conn = conn;
	p->side = side;
	p->op = op;
}

/* ---- Posting ---- */

static void spurious_sendable(struct ripc__sim *net, void *obj, uint64_t arg)
{
	struct sim_conn *conn = obj;
	struct ripc__ep *end = &conn->end[arg];

	if (end->want_sendable) {
		end->want_sendable = false;
		report(end, RIPC__EV_SENDABLE, 0);
	}
	ripc__sim_conn_timer_done(net, conn);
}

/* Whether a post is acceptable now. @cap is the capability that it needs. */
static int check_post(struct ripc__ep *ep, unsigned cap)
{
	struct ripc__transport *t = ep->t;
	struct ripc__sim *net = t->net;
	int side = ep == &ep->conn->end[1];

	if (!(t->limits.caps & cap)) {
		ripc__sim_report_violation(net, &net->counters.bad_call, t->node,
					   "post without the capability %x", cap);
		return ripc__fail(-EOPNOTSUPP, "sim: this is switched off");
	}
	if (ep->closed_reported)
		return ripc__fail(-ENOTCONN, "sim: the connection to node %u is lost",
				  ep->conn->node[!side]->index);
	if (ep->state != EP_ESTABLISHED) {
		ripc__sim_report_violation(net, &net->counters.bad_call, t->node,
					   "post before EV_ESTABLISHED");
		return ripc__fail(-ENOTCONN, "sim: not connected yet");
	}
	if (ep->outstanding >= t->queue_depth) {
		ep->want_sendable = true;
		return -EAGAIN;
	}
	if (ripc__sim_random_bool(net, net->config.queue_full)) {
		ep->want_sendable = true;
		ripc__sim_conn_timer(net, ep->conn, net->now_ns + ripc__sim_delay(net),
				     spurious_sendable, (uint64_t)side);
		return -EAGAIN;
	}
	return 0;
}

void ripc__sim_flush_held(struct ripc__ep *ep)
{
	struct sim_op *op, *next;

	DL_FOREACH_SAFE (ep->held, op, next) {
		DL_DELETE(ep->held, op);
		ripc__sim_op_post(ep->t->net, ep->conn, ep == &ep->conn->end[1], op);
	}
}

int ripc__sim_post(struct ripc__ep *ep, const void *head, size_t head_len,
		   const struct iovec *items, unsigned n, bool more)
{
	struct ripc__sim *net = ep->t->net;
	int rc = check_post(ep, RIPC__CAP_CONNECTED);
	struct sim_op *op;
	size_t len = ripc__post_len(head_len, items, n);

	if (rc)
		return rc;
	if (len > ep->t->limits.send_max)
		return ripc__fail(-EMSGSIZE, "sim: send of %zu bytes, at most %u fit", len,
				  ep->t->limits.send_max);
	op = ripc__sim_op(OP_SEND, NULL, len);
	if (!op || !(op->data = malloc(len ? len : 1))) {
		free(op);
		return ripc__fail(-ENOMEM, "sim: out of memory for a send");
	}
	ripc__post_copy(op->data, head, head_len, items, n);
	net->counters.sends++;
	net->activity++;
	ep->outstanding++;
	DL_APPEND(ep->held, op);
	if (more || ripc__sim_random_bool(net, net->config.hold))
		return 1;
	ripc__sim_flush_held(ep);
	return 0;
}

/* The common part of writes and reads. Return: the operation, or NULL with *rc set. */
static struct sim_op *rdma_op(struct ripc__ep *ep, enum sim_op_kind kind,
			      const struct ripc__transfer *x, int *rc)
{
	struct ripc__sim *net = ep->t->net;
	struct sim_region *region = ripc__sim_region_local(ep->t, x->mr, x->local, x->len);
	struct sim_op *op;

	if (!region || x->len > ep->t->limits.rdma_max ||
	    (kind == OP_READ && !(region->access & RIPC__ACCESS_LOCAL_WRITE))) {
		ripc__sim_report_violation(
			net, &net->counters.bad_local, ep->t->node,
			"%s of %zu bytes with local memory that is not registered for it",
			kind == OP_READ ? "read" : "write", x->len);
		ripc__sim_region_put(region);
		*rc = ripc__fail(-EINVAL,
				 "sim: local memory is not registered, or more than %llu bytes",
				 (unsigned long long)ep->t->limits.rdma_max);
		return NULL;
	}
	op = ripc__sim_op(kind, NULL, x->len);
	if (!op) {
		ripc__sim_region_put(region);
		*rc = ripc__fail(-ENOMEM, "sim: out of memory for an operation");
		return NULL;
	}
	op->region = region;
	op->raddr = x->raddr;
	op->rkey = x->rkey;
	op->wr_id = x->wr_id;
	ep->outstanding++;
	net->activity++;
	ripc__sim_flush_held(ep);
	return op;
}

static int post_write(struct ripc__ep *ep, const struct ripc__transfer *x)
{
	bool message = x->kind == RIPC__WRITE_IMM;
	int rc = check_post(ep, message ? RIPC__CAP_WRITE_IMM : RIPC__CAP_WRITE);
	struct sim_op *op;

	if (rc)
		return rc;
	if (ep->t->net->fail_write_in && !--ep->t->net->fail_write_in)
		return ripc__fail(-ENOMEM, "sim: a write fails, as the test wants it");
	rc = ripc__sim_pin(ep->t, x->mr);
	if (rc)
		return rc;
	op = rdma_op(ep, OP_WRITE, x, &rc);
	if (!op)
		return rc;
	op->source = x->local;
	op->message = message;
	op->imm = x->imm;
	ep->t->net->counters.writes++;
	ep->t->net->counters.written_messages += op->message;
	return ripc__sim_op_post(ep->t->net, ep->conn, ep == &ep->conn->end[1], op);
}

static int post_read(struct ripc__ep *ep, const struct ripc__transfer *x)
{
	struct ripc__sim *net = ep->t->net;
	int rc = check_post(ep, RIPC__CAP_READ);
	struct sim_op *op;

	if (rc)
		return rc;
	if (ep->reads >= ep->t->limits.read_depth) {
		ep->want_sendable = true;
		return -EAGAIN;
	}
	if (net->fail_reads && ++net->reads_tried >= net->fail_read_from) {
		net->fail_reads--;
		return ripc__fail(-ENOMEM, "sim: a read fails, as the test wants it");
	}
	rc = ripc__sim_pin(ep->t, x->mr);
	if (rc)
		return rc;
	op = rdma_op(ep, OP_READ, x, &rc);
	if (!op)
		return rc;
	op->dest_addr = x->local;
	ep->reads++;
	ep->t->net->counters.reads++;
	return ripc__sim_op_post(ep->t->net, ep->conn, ep == &ep->conn->end[1], op);
}

int ripc__sim_transfer(struct ripc__ep *ep, const struct ripc__transfer *x)
{
	return x->kind == RIPC__READ ? post_read(ep, x) : post_write(ep, x);
}
