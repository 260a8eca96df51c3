/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The core of the simulated network: time, random numbers, nodes, and faults between nodes. */
#define _GNU_SOURCE
#include "transport/sim/net.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define START_NS UINT64_C(1000000000)

void ripc__sim_defaults(struct ripc__sim_config *config)
{
	memset(config, 0, sizeof(*config));
	config->delay_min_ns = 5000;
	config->delay_max_ns = 20000;
	config->give_up_ns = 10000 * RIPC__MS;
	config->send_max = 8192;
	config->datagram_max = 1472;
	config->recv_depth = 64;
	config->read_depth = 16;
	config->rdma_max = 1u << 30;
	config->queue_depth = 128;
}

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
	DL_FOREACH_SAFE(net->in_flight, flight, next_flight)
	free(flight);
	DL_FOREACH_SAFE(net->conns, conn, next)
	ripc__sim_conn_free(net, conn);
	for (size_t i = 0; i < net->nnodes; i++)
		free(net->nodes[i]);
	free(net->nodes);
	free(net->pairs);
	free(net->heap);
	free(net->actors);
	close(net->fd);
	free(net);
}

const struct ripc__sim_config *ripc__sim_config(const struct ripc__sim *net)
{
	return &net->config;
}

void ripc__sim_configure(struct ripc__sim *net, const struct ripc__sim_config *config)
{
	net->config = *config;
}

uint64_t ripc__sim_now(const struct ripc__sim *net)
{
	return net->now_ns;
}

/* splitmix64 */
uint64_t ripc__sim_random(struct ripc__sim *net)
{
	uint64_t z = net->rng += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

bool ripc__sim_random_bool(struct ripc__sim *net, double probability)
{
	/*
	 * A fault that is off draws no number: switching it off leaves the random sequence
	 * unchanged.
	 */
	return probability > 0 && (double)(ripc__sim_random(net) >> 11) * 0x1p-53 < probability;
}

uint64_t ripc__sim_random_range(struct ripc__sim *net, uint64_t lo, uint64_t hi)
{
	return hi <= lo ? lo : lo + ripc__sim_random(net) % (hi - lo + 1);
}

uint64_t ripc__sim_delay(struct ripc__sim *net)
{
	return ripc__sim_random_range(net, net->config.delay_min_ns, net->config.delay_max_ns);
}

uint64_t ripc__sim_tx_done_ns(struct ripc__sim *net, struct sim_node *node, size_t len)
{
	if (!net->config.bandwidth)
		return net->now_ns;
	if (node->tx_free_ns < net->now_ns)
		node->tx_free_ns = net->now_ns;
	node->tx_free_ns += len * UINT64_C(1000000000) / net->config.bandwidth;
	return node->tx_free_ns;
}

void ripc__sim_counters(const struct ripc__sim *net, struct ripc__sim_counters *counters)
{
	*counters = net->counters;
}

uint64_t ripc__sim_violations(const struct ripc__sim *net, const char **text)
{
	const struct ripc__sim_counters *c = &net->counters;

	if (text)
		*text = net->first_violation;
	return c->not_ready + c->bad_remote + c->bad_local + c->bad_call;
}

void ripc__sim_report_violation(struct ripc__sim *net, uint64_t *counter,
				const struct sim_node *who, const char *fmt, ...)
{
	size_t n;
	va_list ap;

	if (who->hostile) {
		net->counters.refused++;
		return;
	}
	(*counter)++;
	if (net->first_violation[0])
		return;
	n = (size_t)snprintf(net->first_violation, sizeof(net->first_violation),
			     "node %u at %llu ns, event %llu: ", who->index,
			     (unsigned long long)net->now_ns,
			     (unsigned long long)net->counters.events);
	va_start(ap, fmt);
	vsnprintf(net->first_violation + n, sizeof(net->first_violation) - n, fmt, ap);
	va_end(ap);
}

/* ---- Time ---- */

static bool earlier(const struct sim_timer *a, const struct sim_timer *b)
{
	return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->seq < b->seq;
}

int ripc__sim_timer(struct ripc__sim *net, uint64_t at_ns,
		    void (*fire)(struct ripc__sim *net, void *obj, uint64_t arg), void *obj,
		    uint64_t arg)
{
	struct sim_timer timer = {at_ns, net->seq++, fire, obj, arg};
	size_t i;

	if (net->nheap == net->heapcap) {
		size_t cap = net->heapcap ? 2 * net->heapcap : 256;
		struct sim_timer *heap = realloc(net->heap, cap * sizeof(*heap));

		if (!heap)
			return -ENOMEM;
		net->heap = heap;
		net->heapcap = cap;
	}
	for (i = net->nheap++; i && earlier(&timer, &net->heap[(i - 1) / 2]); i = (i - 1) / 2)
		net->heap[i] = net->heap[(i - 1) / 2];
	net->heap[i] = timer;
	return 0;
}

static struct sim_timer pop(struct ripc__sim *net)
{
	struct sim_timer first = net->heap[0], last = net->heap[--net->nheap];
	size_t i = 0, child;

	while ((child = 2 * i + 1) < net->nheap) {
		if (child + 1 < net->nheap && earlier(&net->heap[child + 1], &net->heap[child]))
			child++;
		if (!earlier(&net->heap[child], &last))
			break;
		net->heap[i] = net->heap[child];
		i = child;
	}
	if (net->nheap)
		net->heap[i] = last;
	return first;
}

bool ripc__sim_step(struct ripc__sim *net, uint64_t until_ns)
{
	struct sim_timer timer;
	void (*fn)(void *arg);

	if (!net->nheap || net->heap[0].at_ns > until_ns) {
		if (until_ns != RIPC__NEVER && until_ns > net->now_ns)
			net->now_ns = until_ns;
		return false;
	}
	timer = pop(net);
	if (timer.at_ns > net->now_ns)
		net->now_ns = timer.at_ns;
	net->activity++;
	net->counters.events++;
	timer.fire(net, timer.obj, timer.arg);
	if (net->event_at && net->counters.events >= net->event_at) {
		net->event_at = 0;
		fn = net->event_fn;
		fn(net->event_arg);
	}
	return true;
}

void ripc__sim_at_event(struct ripc__sim *net, uint64_t nth, void (*fn)(void *arg), void *arg)
{
	net->event_at = fn ? net->counters.events + nth : 0;
	net->event_fn = fn;
	net->event_arg = arg;
}

/* ---- Nodes ---- */

struct sim_node *ripc__sim_find(struct ripc__sim *net, const uint8_t instance[16])
{
	for (size_t i = 0; i < net->nnodes; i++)
		if (!memcmp(net->nodes[i]->instance, instance, 16))
			return net->nodes[i];
	return NULL;
}

struct sim_node *ripc__sim_node(struct ripc__sim *net, const uint8_t instance[16])
{
	struct sim_node *node = ripc__sim_find(net, instance), **nodes;

	if (node)
		return node;
	nodes = realloc(net->nodes, (net->nnodes + 1) * sizeof(*nodes));
	if (!nodes)
		return NULL;
	net->nodes = nodes;
	node = calloc(1, sizeof(*node));
	if (!node)
		return NULL;
	memcpy(node->instance, instance, 16);
	node->index = (uint32_t)net->nnodes;
	net->nodes[net->nnodes++] = node;
	return node;
}

struct sim_pair *ripc__sim_pair(struct ripc__sim *net, const struct sim_node *a,
				const struct sim_node *b)
{
	for (size_t i = 0; i < net->npairs; i++) {
		struct sim_pair *pair = &net->pairs[i];

		if ((pair->a == a && pair->b == b) || (pair->a == b && pair->b == a))
			return pair;
	}
	return NULL;
}

/* Whether a partition blocks traffic from a to b now. */
bool ripc__sim_partitioned(struct ripc__sim *net, const struct sim_node *a, const struct sim_node *b)
{
	const struct sim_pair *pair = ripc__sim_pair(net, a, b);

	return a->host_dead || b->host_dead || (pair && pair->partitioned);
}

/* ---- Faults ---- */

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

static bool conn_between(const struct sim_conn *conn, const struct sim_node *a,
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
	DL_FOREACH_SAFE(net->conns, conn, next)
	{
		if (conn->broken || !conn_between(conn, na, nb))
			continue;
		ripc__sim_conn_break(net, conn, -ECONNRESET);
		n++;
	}
	return n;
}

int ripc__sim_break_at(struct ripc__sim *net, const uint8_t a[16], const uint8_t b[16], uint64_t nth)
{
	int rc;
	struct sim_pair *pair = make_pair(net, a, b, &rc);

	if (pair)
		pair->break_in = nth;
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
	DL_FOREACH_SAFE(net->conns, conn, next)
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

		if (conn->broken || !conn_between(conn, source, target) ||
		    conn->end[0].state != EP_ESTABLISHED || conn->end[1].state != EP_ESTABLISHED)
			continue;
		op = ripc__sim_op(OP_SEND, data, len);
		if (!op)
			return -ENOMEM;
		/*
		 * It used no entry in the sender's queue; wr_id marks that for
		 * ripc__sim_op_deliver().
		 */
		op->wr_id = UINT64_MAX;
		return ripc__sim_op_post(net, conn, side, op);
	}
	return -ENOTCONN;
}

void ripc__sim_tamper(struct ripc__sim *net, ripc__sim_tamper_fn *fn, void *arg)
{
	net->tamper = fn;
	net->tamper_arg = arg;
}
