/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Faults between the nodes, as a test orders them: contract in sim.h. */
#include "transport/sim/net.h"

#include <errno.h>
#include <stdlib.h>

static struct sim_pair *make_pair(struct ripc__sim *net, const uint8_t a[16], const uint8_t b[16],
				  int *rc)
{
	struct sim_node *na = ripc__sim_find(net, a), *nb = ripc__sim_find(net, b);
	struct sim_pair *pair, *pairs;

	*rc = -ENOENT;
	if (!na || !nb)
		return NULL;
	*rc = 0;
	pair = ripc__sim_pair(net, na, nb);
	if (pair)
		return pair;
	*rc = -ENOMEM;
	pairs = realloc(net->pairs, (net->npairs + 1) * sizeof(*pairs));
	if (!pairs)
		return NULL;
	*rc = 0;
	net->pairs = pairs;
	pair = &pairs[net->npairs++];
	*pair = (struct sim_pair){.a = na, .b = nb};
	return pair;
}

int ripc__sim_partition(struct ripc__sim *net, const uint8_t a[16], const uint8_t b[16], bool on)
{
	int rc;
	struct sim_pair *pair = make_pair(net, a, b, &rc);

	if (pair)
		pair->partitioned = on;
	return rc;
}

int ripc__sim_side(struct ripc__sim *net, const uint8_t instance[16], unsigned side)
{
	struct sim_node *node = ripc__sim_find(net, instance);

	if (!node)
		return -ENOENT;
	node->side = side;
	return 0;
}

int ripc__sim_break_at(struct ripc__sim *net, const uint8_t a[16], const uint8_t b[16], uint64_t n)
{
	int rc;
	struct sim_pair *pair = make_pair(net, a, b, &rc);

	if (pair)
		pair->break_in = n;
	return rc;
}

void ripc__sim_fail_reg_at(struct ripc__sim *net, uint64_t nth)
{
	net->fail_reg_at = nth ? net->regs + nth : 0;
}

void ripc__sim_fail_write_at(struct ripc__sim *net, uint64_t nth)
{
	net->fail_write_in = nth;
}

void ripc__sim_fail_reads(struct ripc__sim *net, uint64_t nth, uint64_t count)
{
	net->reads_tried = 0;
	net->fail_read_from = nth;
	net->fail_reads = count;
}

void ripc__sim_fail_connect_at(struct ripc__sim *net, uint64_t nth)
{
	net->fail_connect_at = nth ? net->connects + nth : 0;
}

int ripc__sim_kill(struct ripc__sim *net, const uint8_t instance[16], bool silently)
{
	struct sim_node *node = ripc__sim_find(net, instance);
	struct sim_conn *conn, *next;

	if (!node)
		return -ENOENT;
	node->dead = true;
	node->host_dead |= silently;
	if (silently)
		return 0;
	DL_FOREACH_SAFE (net->conns, conn, next)
		if (conn->node[0] == node || conn->node[1] == node)
			ripc__sim_conn_break(net, conn, -ECONNRESET);
	return 0;
}

int ripc__sim_hold(struct ripc__sim *net, const uint8_t instance[16], bool on)
{
	struct sim_node *node = ripc__sim_find(net, instance);

	if (!node)
		return -ENOENT;
	node->held = on;
	net->activity++;
	return 0;
}

int ripc__sim_hostile(struct ripc__sim *net, const uint8_t instance[16])
{
	struct sim_node *node = ripc__sim_node(net, instance);

	if (!node)
		return -ENOMEM;
	node->hostile = true;
	return 0;
}

int ripc__sim_inject(struct ripc__sim *net, const uint8_t from[16], const uint8_t to[16],
		     const void *data, size_t len)
{
	struct sim_node *source = ripc__sim_find(net, from), *target = ripc__sim_find(net, to);
	struct sim_conn *conn;

	if (!source || !target)
		return -ENOENT;
	DL_FOREACH (net->conns, conn) {
		int side = conn->node[0] == source ? 0 : 1;
		struct sim_op *op;

		if (conn->broken || !conn->end[side].t ||
		    !ripc__sim_conn_between(conn, source, target) ||
		    conn->end[0].state != EP_ESTABLISHED || conn->end[1].state != EP_ESTABLISHED)
			continue;
		op = ripc__sim_op(OP_SEND, data, len);
		if (!op)
			return -ENOMEM;
		/*
		 * It took no place in the sender's queue: marked by its wr_id, see
		 * ripc__sim_op_deliver().
		 */
		op->wr_id = UINT64_MAX;
		return ripc__sim_op_post(net, conn, side, op);
	}
	return -ENOTCONN;
}

void ripc__sim_audit(struct ripc__sim *net, ripc__sim_audit_fn *fn)
{
	net->audit = fn;
}

void ripc__sim_tamper(struct ripc__sim *net, ripc__sim_tamper_fn *fn, void *arg)
{
	net->tamper = fn;
	net->tamper_arg = arg;
}
