/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Which contexts and applications have work, and how the time passes. */
#include "call_host.h"

#include "wire/record.h"

#include <stdlib.h>

#define STILL_MAX 1000000 /* polls without progress of time */

static void push(struct queue *q, struct host *h)
{
	if (q->n == q->cap) {
		q->cap = q->cap ? 2 * q->cap : 256;
		q->hosts = realloc(q->hosts, q->cap * sizeof(struct host *));
		check(q->hosts, "no memory");
	}
	q->hosts[q->n++] = h;
}

struct host *call_pop_any(struct queue *q)
{
	size_t i = draw(q->n);
	struct host *h = q->hosts[i];

	q->hosts[i] = q->hosts[--q->n];
	return h;
}

void call_poll_soon(struct host *h)
{
	if (h->poll_queued || !h->ctx || h->resume_ns)
		return;
	h->poll_queued = true;
	push(&world.polls, h);
}

void call_app_soon(struct host *h)
{
	if (h->app_queued)
		return;
	h->app_queued = true;
	push(&world.apps, h);
}

static void poll_due(struct ripc__sim *net, void *obj, uint64_t arg)
{
	struct host *h = obj;

	(void)net;
	if (h->poll_ns == arg)
		h->poll_ns = RIPC__NEVER;
	call_poll_soon(h);
}

static void app_due(struct ripc__sim *net, void *obj, uint64_t arg)
{
	struct host *h = obj;

	(void)net;
	if (h->app_ns == arg)
		h->app_ns = RIPC__NEVER;
	call_app_soon(h);
}

static void poll_at(struct host *h, uint64_t at_ns)
{
	if (at_ns >= h->poll_ns)
		return;
	h->poll_ns = at_ns;
	check(!ripc__sim_timer(world.net, at_ns, poll_due, h, at_ns), "no memory");
}

void call_app_at(struct host *h, uint64_t at_ns)
{
	if (at_ns >= h->app_ns)
		return;
	h->app_ns = at_ns;
	check(!ripc__sim_timer(world.net, at_ns, app_due, h, at_ns), "no memory");
}

static struct host *host_of(uint32_t node)
{
	return node < world.nnodes ? world.by_node[node] : NULL;
}

void call_arrived(void *arg, uint32_t node)
{
	struct host *h = host_of(node);

	(void)arg;
	if (h)
		call_poll_soon(h);
}

void call_join_audience(struct host *h, uint64_t service)
{
	struct audience *a = &world.audiences[service];

	for (unsigned i = 0; i < a->n; i++)
		if (a->hosts[i] == h->index)
			return;
	if (!a->hosts || a->n == a->cap) {
		a->cap = a->cap ? 2 * a->cap : 16;
		a->hosts = realloc(a->hosts, a->cap * sizeof(*a->hosts));
		a->nodes = realloc(a->nodes, a->cap * sizeof(*a->nodes));
		if (!a->hosts || !a->nodes)
			ck_abort_msg("no memory");
	}
	a->hosts[a->n++] = h->index;
}

/* Others would only note in passing who looks for which service. */
size_t call_audience_of(void *arg, const void *data, size_t len, const uint32_t **nodes)
{
	struct ripc__resolver_msg msg;
	struct audience *a;
	uint64_t service;
	const char *why;
	size_t n = 0;

	(void)arg;
	check(!ripc__resolver_msg_decode(&msg, data, len, &why), "a malformed resolver message");
	service = msg.service ? msg.service : msg.record.service;
	if (service > world.opt.services)
		return 0;
	a = &world.audiences[service];
	for (unsigned i = 0; i < a->n; i++)
		if (world.hosts[a->hosts[i]].ctx)
			a->nodes[n++] = world.hosts[a->hosts[i]].node;
	*nodes = a->nodes;
	return n;
}

/* ---- time ---- */

static void still_check(void)
{
	if (now_ns() != world.still_ns) {
		world.still_ns = now_ns();
		world.still = 0;
	}
	check(++world.still < STILL_MAX, "the time stands still");
}

void call_step(uint64_t until_ns)
{
	still_check();
	while (world.polls.n) {
		struct host *h = call_pop_any(&world.polls);
		uint64_t next;

		h->poll_queued = false;
		if (!h->ctx || h->resume_ns)
			continue;
		world.counts->polls++;
		next = ripc__poll(h->ctx);
		call_app_soon(h);
		if (next <= now_ns())
			call_poll_soon(h);
		else if (next != RIPC__NEVER)
			poll_at(h, next);
		return;
	}
	ripc__sim_step(world.net, until_ns);
}

/* A public call of the library waits. */
void call_idle(void *arg, uint64_t deadline_ns)
{
	(void)arg;
	/* Those that wait have to be polled, too: their deadlines may have changed. */
	for (unsigned i = 0; i < world.nbusy; i++)
		call_poll_soon(world.busy[i]);
	world.depth++;
	while (world.polls.n)
		call_step(deadline_ns);
	call_step(deadline_ns);
	if (world.depth == 1)
		call_apps_run();
	world.depth--;
}
