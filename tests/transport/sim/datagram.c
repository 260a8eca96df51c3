/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Simulated datagrams between transports and between resolver ports, with loss, duplication and
 * delay.
 */
#define _GNU_SOURCE
#include "transport/sim/net.h"

#include "base/log.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define QUEUE_MAX 256 /* most datagrams queued at one node, like a socket's buffer */

static void arrive_port(struct sim_in_flight *flight)
{
	struct ripc__sim_port *port = flight->to->port;
	struct sim_datagram *d;

	if (!port || port->queued >= QUEUE_MAX)
		return;
	d = malloc(sizeof(*d) + flight->len);
	if (!d)
		return;
	memcpy(d->from, flight->from->instance, 16);
	d->len = flight->len;
	memcpy(d->data, flight->data, flight->len);
	DL_APPEND(port->inbox, d);
	port->queued++;
	if (port->net->arrival)
		port->net->arrival(port->net->arrival_arg, port->node->index);
}

static void arrive_transport(struct sim_in_flight *flight)
{
	struct ripc__transport *t = flight->to->t;
	struct sim_packet *p;

	if (!t || !(t->limits.caps & (RIPC__CAP_DATAGRAM | RIPC__CAP_MULTICAST)) ||
	    t->datagrams >= QUEUE_MAX)
		return;
	p = ripc__sim_packet(t, RIPC__EV_DATAGRAM, flight->data, flight->len);
	if (!p)
		return;
	t->datagrams++;
	p->ev.fromlen = (uint32_t)ripc__sim_encode_address(flight->from, p->from);
	p->ev.from = p->from;
	snprintf(p->text, sizeof(p->text), "node %u", flight->from->index);
	if (!ripc__sim_random_bool(t->net, t->net->config.transient))
		p->ev.token = p;
}

static void arrive(struct ripc__sim *net, void *obj, uint64_t arg)
{
	struct sim_in_flight *flight = obj;

	DL_DELETE(net->in_flight, flight);
	if (flight->to->dead || ripc__sim_partitioned(net, flight->from, flight->to))
		net->counters.datagrams_lost++;
	else if (flight->resolver)
		arrive_port(flight);
	else
		arrive_transport(flight);
	free(flight);
}

static void schedule_datagram(struct ripc__sim *net, struct sim_node *from, struct sim_node *to,
			      bool resolver, const struct iovec *iov, unsigned niov)
{
	struct sim_in_flight *flight;
	size_t len = 0;
	uint64_t at;

	for (unsigned i = 0; i < niov; i++)
		len += iov[i].iov_len;
	flight = malloc(sizeof(*flight) + len);
	if (!flight)
		return;
	flight->from = from;
	flight->to = to;
	flight->resolver = resolver;
	flight->len = 0;
	for (unsigned i = 0; i < niov; i++) {
		if (iov[i].iov_len)
			memcpy(flight->data + flight->len, iov[i].iov_base, iov[i].iov_len);
		flight->len += iov[i].iov_len;
	}
	if (net->audit && !resolver && !from->hostile)
		net->audit(flight->data, flight->len);
	if (net->tamper)
		net->tamper(net->tamper_arg, from->instance, to->instance, flight->data,
			    &flight->len);
	at = ripc__sim_tx_done_ns(net, from, len) + ripc__sim_delay(net);
	if (ripc__sim_random_bool(net, net->config.datagram_reordering))
		at += ripc__sim_random_range(net, 0, 10 * net->config.delay_max_ns);
	DL_APPEND(net->in_flight, flight);
	if (ripc__sim_timer(net, at, arrive, flight, 0)) {
		DL_DELETE(net->in_flight, flight);
		free(flight);
	}
}

static void send_datagram(struct ripc__sim *net, struct sim_node *from, struct sim_node *to,
			  bool resolver, const struct iovec *iov, unsigned niov)
{
	net->counters.datagrams++;
	net->activity++;
	if (from->dead || ripc__sim_random_bool(net, net->config.datagram_loss)) {
		net->counters.datagrams_lost++;
		return;
	}
	schedule_datagram(net, from, to, resolver, iov, niov);
	if (ripc__sim_random_bool(net, net->config.datagram_duplication)) {
		net->counters.datagrams_duplicated++;
		schedule_datagram(net, from, to, resolver, iov, niov);
	}
}

static int check_cap(struct ripc__transport *t, enum ripc__cap cap)
{
	if (t->limits.caps & cap)
		return 0;
	ripc__sim_report_violation(t->net, &t->net->counters.bad_call, t->node,
				   "datagram without the capability %x", cap);
	return ripc__fail(-EOPNOTSUPP, "sim: this is switched off");
}

/* Whether the datagram can be posted now. */
static int check_datagram(struct ripc__transport *t, const struct iovec *iov, unsigned niov)
{
	size_t len = ripc__post_len(0, iov, niov);

	if (len > t->limits.datagram_max)
		return ripc__fail(-EMSGSIZE, "sim: datagram of %zu bytes, at most %u fit", len,
				  t->limits.datagram_max);
	return ripc__sim_random_bool(t->net, t->net->config.queue_full) ? -EAGAIN : 0;
}

int ripc__sim_post_datagram(struct ripc__transport *t, const uint8_t *addr, size_t addrlen,
			    const struct iovec *iov, unsigned niov)
{
	struct sim_node *to = ripc__sim_decode_address(t->net, addr, addrlen);
	int rc = check_cap(t, RIPC__CAP_DATAGRAM);

	if (!rc && !to)
		return ripc__fail(-EINVAL, "sim: %zu bytes that are no address of this network",
				  addrlen);
	if (!rc)
		rc = check_datagram(t, iov, niov);
	if (!rc)
		send_datagram(t->net, t->node, to, false, iov, niov);
	return rc;
}

/* ---- Multicast ---- */

/* The entry of a group, of 0: a free one; NULL: there is none. */
static uint64_t *group_entry(struct ripc__transport *t, uint64_t group)
{
	for (unsigned i = 0; i < SIM_GROUPS_MAX; i++)
		if (t->groups[i] == group)
			return &t->groups[i];
	return NULL;
}

int ripc__sim_group_join(struct ripc__transport *t, uint64_t group)
{
	uint64_t *entry = group_entry(t, 0);
	int rc = check_cap(t, RIPC__CAP_MULTICAST);

	if (rc)
		return rc;
	if (group_entry(t, group))
		ripc__sim_report_violation(t->net, &t->net->counters.bad_call, t->node,
					   "group_join() of a group that it has joined");
	if (!entry)
		return ripc__fail(-ENOSPC, "sim: at most %d groups", SIM_GROUPS_MAX);
	*entry = group;
	return 0;
}

void ripc__sim_group_leave(struct ripc__transport *t, uint64_t group)
{
	uint64_t *entry = group_entry(t, group);

	if (entry)
		*entry = 0;
}

int ripc__sim_post_group(struct ripc__transport *t, uint64_t group, const struct iovec *iov,
			 unsigned niov)
{
	struct ripc__sim *net = t->net;
	int rc = check_cap(t, RIPC__CAP_MULTICAST);

	if (!rc)
		rc = check_datagram(t, iov, niov);
	for (size_t i = 0; !rc && i < net->nnodes; i++)
		if (net->nodes[i]->t && group_entry(net->nodes[i]->t, group))
			send_datagram(net, t->node, net->nodes[i], false, iov, niov);
	return rc;
}

/* ---- Ports of the resolver ---- */

int ripc__sim_port_open(struct ripc__sim *net, const uint8_t id[16], struct ripc__sim_port **port)
{
	struct sim_node *node = ripc__sim_node(net, id);
	struct ripc__sim_port *p = calloc(1, sizeof(*p));

	if (!node || !p) {
		free(p);
		return ripc__fail(-ENOMEM, "sim: out of memory for a port");
	}
	if (node->port || node->dead) {
		free(p);
		return ripc__fail(-EADDRINUSE, "sim: node %u has a port already, or was killed",
				  node->index);
	}
	p->net = net;
	p->node = node;
	node->port = p;
	*port = p;
	return 0;
}

void ripc__sim_port_close(struct ripc__sim_port *port)
{
	struct sim_datagram *d, *next;

	DL_FOREACH_SAFE (port->inbox, d, next)
		free(d);
	port->node->port = NULL;
	free(port);
}

int ripc__sim_port_send(struct ripc__sim_port *p, const uint8_t *to, const void *data, size_t len)
{
	struct ripc__sim *net = p->net;
	struct iovec iov = {(void *)(uintptr_t)data, len};
	const uint32_t *numbers = NULL;
	size_t n = net->nnodes;
	struct sim_node *node;

	if (to) {
		node = ripc__sim_find(net, to);
		if (node)
			send_datagram(net, p->node, node, true, &iov, 1);
		return 0;
	}
	if (net->audience)
		n = net->audience(net->audience_arg, data, len, &numbers);
	for (size_t i = 0; i < n; i++) {
		node = net->nodes[numbers ? numbers[i] : i];
		if (node != p->node && node->port)
			send_datagram(net, p->node, node, true, &iov, 1);
	}
	return 0;
}

int ripc__sim_port_recv(struct ripc__sim_port *port, uint8_t from[16], void *buf, size_t cap)
{
	struct sim_datagram *d = port->inbox;
	size_t len;

	if (!d || port->node->held)
		return -EAGAIN;
	DL_DELETE(port->inbox, d);
	port->queued--;
	port->net->activity++;
	memcpy(from, d->from, 16);
	len = d->len < cap ? d->len : cap;
	memcpy(buf, d->data, len);
	free(d);
	return (int)len;
}
