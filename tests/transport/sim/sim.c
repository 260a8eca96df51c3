/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The simulated network, and the `sim` transport: the network behind the vtable of transport.h. */
#define _GNU_SOURCE
#include "transport/sim/net.h"

#include "base/log.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define START_NS UINT64_C(1000000000)

/* ---- The network ---- */

struct ripc__sim *ripc__sim_create(uint64_t seed, const struct ripc__sim_config *config,
				   ripc__sim_fail_fn *fail, void *arg)
{
	struct ripc__sim *net = calloc(1, sizeof(*net));

	if (!net)
		return NULL;
	net->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (net->fd < 0) {
		free(net);
		return NULL;
	}
	net->rng = seed;
	net->now_ns = START_NS;
	net->fail = fail;
	net->fail_arg = arg;
	if (config)
		net->config = *config;
	else
		ripc__sim_defaults(&net->config);
	return net;
}

void ripc__sim_destroy(struct ripc__sim *net)
{
	struct sim_in_flight *flight, *next_flight;
	struct sim_conn *conn, *next;

	if (!net)
		return;
	DL_FOREACH_SAFE (net->in_flight, flight, next_flight)
		free(flight);
	DL_FOREACH_SAFE (net->conns, conn, next)
		ripc__sim_conn_free(net, conn);
	HASH_CLEAR(hh, net->by_instance);
	for (size_t i = 0; i < net->nnodes; i++)
		free(net->nodes[i]);
	free(net->nodes);
	free(net->pairs);
	free(net->heap);
	free(net->actors);
	close(net->fd);
	free(net);
}

/* ---- The transport ---- */

static void free_packets(struct ripc__transport *t, struct sim_packet **list)
{
	struct sim_packet *p, *next;

	DL_FOREACH_SAFE (*list, p, next) {
		DL_DELETE(*list, p);
		ripc__sim_packet_free(t, p);
	}
}

static void fill_limits(struct ripc__transport_limits *l, const struct ripc__sim_config *config)
{
	l->caps = RIPC__CAP_CONNECTED | RIPC__CAP_READ | RIPC__CAP_WRITE | RIPC__CAP_CHEAP_REG;
	if (config->datagram)
		l->caps |= RIPC__CAP_DATAGRAM;
	if (config->multicast)
		l->caps |= RIPC__CAP_MULTICAST;
	if (config->target_progress)
		l->caps |= RIPC__CAP_TARGET_PROGRESS;
	if (config->written)
		l->caps |= RIPC__CAP_WRITTEN;
	if (config->write_imm)
		l->caps |= RIPC__CAP_WRITE_IMM;
	l->caps &= ~config->caps_off;
	l->send_max = l->caps & RIPC__CAP_CONNECTED ? config->send_max : 0;
	l->datagram_max =
		l->caps & (RIPC__CAP_DATAGRAM | RIPC__CAP_MULTICAST) ? config->datagram_max : 0;
	l->recv_depth = config->recv_depth;
	l->read_depth = l->caps & RIPC__CAP_READ ? config->read_depth : 0;
	l->rdma_max = config->rdma_max;
}

static int sim_open(struct ripc__transport **transport, const struct ripc__transport_env *env)
{
	struct ripc__sim *net = env->arg;
	struct ripc__transport *t;
	struct sim_node *node;

	if (!net)
		return ripc__fail(-ENODEV, "sim: for tests only: there is no simulated network");
	node = ripc__sim_node(net, env->instance);
	t = calloc(1, sizeof(*t));
	if (!node || !t) {
		free(t);
		return ripc__fail(-ENOMEM, "sim: out of memory");
	}
	if (node->t || node->dead) {
		free(t);
		return ripc__fail(-EADDRINUSE, "sim: node %u is open already, or was killed",
				  node->index);
	}
	t->net = net;
	t->node = node;
	t->queue_depth = net->config.queue_depth;
	t->target_progress = net->config.target_progress;
	fill_limits(&t->limits, &net->config);
	t->limits.fd = net->fd;
	t->limits.eager_datagram = t->limits.caps & RIPC__CAP_DATAGRAM && env->opt &&
				   env->opt->shorts == RIPC__SHORT_UDP;
	node->t = t;
	*transport = t;
	return 0;
}

static void sim_close(struct ripc__transport *t)
{
	struct sim_region *region, *next_region;

	while (t->eps)
		ripc__sim_ep_close(t->eps);
	t->node->t = NULL;
	ripc__sim_conn_refuse_all(t);
	free_packets(t, &t->inbox);
	free_packets(t, &t->reported);
	free_packets(t, &t->transient);
	DL_FOREACH_SAFE (t->regions, region, next_region) {
		region->alive = false;
		DL_DELETE(t->regions, region);
		t->net->counters.regions--;
		ripc__sim_region_put(region);
	}
	free(t);
}

static void sim_limits(struct ripc__transport *t, struct ripc__transport_limits *limits)
{
	*limits = t->limits;
}

static int sim_address(struct ripc__transport *t, uint8_t *buf, size_t cap)
{
	return cap < SIM_ADDRESS_LEN ? -EINVAL : ripc__sim_encode_address(t->node, buf);
}

static void sim_describe(const uint8_t *addr, size_t len, char *text, size_t textlen)
{
	uint32_t node;

	if (ripc__sim_address_node(addr, len, &node))
		snprintf(text, textlen, "node %u", node);
	else
		snprintf(text, textlen, "%zu bytes that are no address", len);
}

/* ---- Progress ---- */

/* Updates the state of the endpoint from an event that was reported to the user. */
static void note_reported(struct sim_packet *p)
{
	if (p->ev.kind == RIPC__EV_ESTABLISHED)
		p->ep->state = EP_ESTABLISHED;
	else if (p->ev.kind == RIPC__EV_CLOSED)
		p->ep->closed_reported = true;
}

/* Sends what was delayed. */
static void flush_held(struct ripc__transport *t)
{
	struct ripc__ep *ep;

	DL_FOREACH (t->eps, ep)
		ripc__sim_flush_held(ep);
}

static unsigned sim_progress(struct ripc__transport *t, struct ripc__event *events, unsigned max,
			     uint64_t now_ns, uint64_t *deadline_ns)
{
	unsigned n = 0;

	free_packets(t, &t->transient);
	flush_held(t);
	if (t->node->held || t->node->dead)
		return 0;
	while (n < max && t->inbox) {
		struct sim_packet *p = t->inbox;
		struct sim_op *op = p->op;

		DL_DELETE(t->inbox, p);
		t->net->activity++;
		if (op) {
			struct sim_conn *conn = p->conn;
			int side = p->side;

			p->op = NULL;
			ripc__sim_packet_free(t, p);
			ripc__sim_op_execute(t->net, conn, side, op);
			continue;
		}
		note_reported(p);
		p->ev.text = p->text;
		events[n++] = p->ev;
		if (p->ev.token)
			DL_APPEND(t->reported, p);
		else
			DL_APPEND(t->transient, p);
	}
	if (t->inbox && *deadline_ns > now_ns)
		*deadline_ns = now_ns;
	return n;
}

static void sim_release(struct ripc__transport *t, void *token)
{
	struct sim_packet *p;

	DL_FOREACH (t->reported, p)
		if (p == token)
			break;
	if (!p) {
		ripc__sim_report_violation(t->net, &t->net->counters.bad_call, t->node,
					   "release() of what was not received");
		return;
	}
	DL_DELETE(t->reported, p);
	ripc__sim_packet_free(t, p);
}

static int sim_arm(struct ripc__transport *t)
{
	flush_held(t);
	return t->inbox && !t->node->held;
}

/* The network owns the descriptor, not the transport. */
static void sim_forked(struct ripc__transport *t)
{
}

const struct ripc__transport_ops ripc__transport_sim = {
	.name = "sim",
	.id = 255,
	.open = sim_open,
	.close = sim_close,
	.limits = sim_limits,
	.address = sim_address,
	.describe = sim_describe,
	.reg = ripc__sim_reg,
	.dereg = ripc__sim_dereg,
	.written = ripc__sim_written,
	.connect = ripc__sim_connect,
	.accept = ripc__sim_accept,
	.reject = ripc__sim_reject,
	.ep_close = ripc__sim_ep_close,
	.post = ripc__sim_post,
	.transfer = ripc__sim_transfer,
	.post_datagram = ripc__sim_post_datagram,
	.group_join = ripc__sim_group_join,
	.group_leave = ripc__sim_group_leave,
	.post_group = ripc__sim_post_group,
	.progress = sim_progress,
	.release = sim_release,
	.arm = sim_arm,
	.forked = sim_forked,
};
