/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The core of the simulated network: time, random numbers and nodes. */
#define _GNU_SOURCE
#include "transport/sim/net.h"
#include "base/hash.h"
#include "wire/bytes.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ADDRESS_MAGIC 0x314d4953u /* "SIM1" */

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
	net->counters.history =
		ripc__mix64(ripc__mix64(net->counters.history ^ net->now_ns) ^ timer.seq);
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

int64_t ripc__sim_number(struct ripc__sim *net, const uint8_t instance[16])
{
	const struct sim_node *node = ripc__sim_find(net, instance);

	return node ? (int64_t)node->index : -ENOENT;
}

void ripc__sim_on_arrival(struct ripc__sim *net, ripc__sim_arrival_fn *fn, void *arg)
{
	net->arrival = fn;
	net->arrival_arg = arg;
}

void ripc__sim_audience(struct ripc__sim *net, ripc__sim_audience_fn *fn, void *arg)
{
	net->audience = fn;
	net->audience_arg = arg;
}

/* ---- Nodes ---- */

struct sim_node *ripc__sim_find(struct ripc__sim *net, const uint8_t instance[16])
{
	struct sim_node *node;

	HASH_FIND(hh, net->by_instance, instance, 16, node);
	return node;
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
	HASH_ADD(hh, net->by_instance, instance, sizeof(node->instance), node);
	if (!node->hh.tbl) {
		free(node);
		return NULL;
	}
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
bool ripc__sim_partitioned(struct ripc__sim *net, const struct sim_node *a,
			   const struct sim_node *b)
{
	const struct sim_pair *pair = ripc__sim_pair(net, a, b);

	return a->host_dead || b->host_dead || a->side != b->side || (pair && pair->partitioned);
}

int ripc__sim_encode_address(const struct sim_node *node, uint8_t *buf)
{
	ripc__put_le32(buf, ADDRESS_MAGIC);
	ripc__put_le32(buf + 4, node->index);
	return SIM_ADDRESS_LEN;
}

bool ripc__sim_address_node(const uint8_t *addr, size_t len, uint32_t *index)
{
	if (len != SIM_ADDRESS_LEN || ripc__get_le32(addr) != ADDRESS_MAGIC)
		return false;
	*index = ripc__get_le32(addr + 4);
	return true;
}

struct sim_node *ripc__sim_decode_address(struct ripc__sim *net, const uint8_t *addr, size_t len)
{
	uint32_t index;

	return ripc__sim_address_node(addr, len, &index) && index < net->nnodes ? net->nodes[index]
										: NULL;
}

int ripc__sim_address(struct ripc__sim *net, const uint8_t instance[16], uint8_t *buf)
{
	struct sim_node *node = ripc__sim_find(net, instance);

	return node ? ripc__sim_encode_address(node, buf) : -ENOENT;
}
