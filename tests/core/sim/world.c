/* SPDX-License-Identifier: LGPL-2.1-or-later */
#define _GNU_SOURCE
#include "core/sim/world.h"
#include "resolver/sim.h"
#include "transport/sim/net.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define STILL_ROUNDS_MAX 200000 /* without the time moving: somebody turns round in circles */

static struct sim_node *node_of(struct ripc__sim *net, const struct ripc *ctx)
{
	for (size_t i = 0; i < net->nnodes; i++)
		if (net->nodes[i]->ctx == ctx)
			return net->nodes[i];
	return NULL;
}

int ripc__sim_attach(struct ripc__sim *net, struct ripc *ctx)
{
	/* The one that was opened last and has no context yet is the one this context opened. */
	for (size_t i = net->nnodes; i-- > 0;) {
		struct sim_node *node = net->nodes[i];

		if (node->ctx || node->dead || !(node->t || node->port))
			continue;
		node->ctx = ctx;
		return 0;
	}
	return -ENOENT;
}

void ripc__sim_detach(struct ripc__sim *net, struct ripc *ctx)
{
	struct sim_node *node = node_of(net, ctx);

	if (node)
		node->ctx = NULL;
}

const uint8_t *ripc__sim_instance(struct ripc__sim *net, struct ripc *ctx)
{
	struct sim_node *node = node_of(net, ctx);

	return node ? node->instance : NULL;
}

void ripc__sim_kill_context(struct ripc__sim *net, struct ripc *ctx, bool silently)
{
	struct sim_node *node = node_of(net, ctx);

	if (node) {
		ripc__sim_kill(net, node->instance, silently);
		node->ctx = NULL;
	}
	ripc__kill(ctx);
}

int ripc__sim_actor(struct ripc__sim *net, void (*fn)(void *arg), void *arg)
{
	struct sim_actor *actors = realloc(net->actors, (net->nactors + 1) * sizeof(*actors));

	if (!actors)
		return -ENOMEM;
	net->actors = actors;
	actors[net->nactors++] = (struct sim_actor){fn, arg};
	return 0;
}

void ripc__sim_actor_remove(struct ripc__sim *net, void (*fn)(void *arg), void *arg)
{
	for (size_t i = 0; i < net->nactors; i++) {
		if (net->actors[i].fn != fn || net->actors[i].arg != arg)
			continue;
		net->actors[i] = net->actors[--net->nactors];
		return;
	}
}

/*
 * Polls every context, beginning anywhere. Return: the earliest time by which one wants to be
 * polled again.
 */
static uint64_t poll_all(struct ripc__sim *net)
{
	uint64_t earliest = RIPC__NEVER;
	size_t n = net->nnodes, first, step;

	if (!n)
		return earliest;
	/* A random start and a random direction are a random enough order, and need no memory. */
	first = (size_t)(ripc__sim_random(net) % n);
	step = ripc__sim_random_range(net, 0, 1) ? 1 : n - 1;
	for (size_t i = 0; i < n; i++) {
		struct sim_node *node = net->nodes[(first + i * step) % n];
		uint64_t deadline;

		if (!node->ctx || node->held || node->dead)
			continue;
		deadline = ripc__poll(node->ctx);
		if (deadline < earliest)
			earliest = deadline;
	}
	for (size_t i = 0; i < net->nactors; i++)
		net->actors[i].fn(net->actors[i].arg);
	return earliest;
}

static void fail(struct ripc__sim *net, const char *why, uint64_t deadline_ns)
{
	char text[256];

	snprintf(text, sizeof(text), "%s at %llu ns after %llu events, waiting until %llu", why,
		 (unsigned long long)net->now_ns, (unsigned long long)net->counters.events,
		 (unsigned long long)deadline_ns);
	if (net->fail)
		net->fail(net->fail_arg, text);
}

static void idle(void *arg, uint64_t deadline_ns)
{
	struct ripc__sim *net = arg;
	uint64_t activity = net->activity, next, started = net->now_ns;

	if (net->idling) {
		fail(net, "an actor, or the poll of a context, waits", deadline_ns);
		return;
	}
	net->idling = true;
	next = poll_all(net);
	/* Nothing came of that: let time pass, up to the next thing that happens. */
	if (activity == net->activity) {
		if (next > deadline_ns)
			next = deadline_ns;
		if (net->nheap && net->heap[0].at_ns < next)
			next = net->heap[0].at_ns;
		if (next == RIPC__NEVER) {
			fail(net, "nothing can ever happen", deadline_ns);
		} else {
			while (ripc__sim_step(net, next > net->now_ns ? next : net->now_ns))
				;
			poll_all(net);
		}
	}
	if (net->now_ns != started)
		net->still_rounds = 0;
	else if (++net->still_rounds > STILL_ROUNDS_MAX)
		fail(net, "the time stands still", deadline_ns);
	net->idling = false;
}

void ripc__sim_run(struct ripc__sim *net, uint64_t duration_ns)
{
	uint64_t until_ns = net->now_ns + duration_ns;

	while (net->now_ns < until_ns)
		idle(net, until_ns);
}

static uint64_t now(void *arg)
{
	return ripc__sim_now(arg);
}

static uint64_t hook_random(void *arg)
{
	return ripc__sim_random(arg);
}

void ripc__sim_hooks(struct ripc__sim *net, struct ripc__hooks *hooks)
{
	static const struct ripc__transport_ops *const transports[] = {&ripc__transport_sim, NULL};

	*hooks = (struct ripc__hooks){
		.now = now,
		.idle = idle,
		.random = hook_random,
		.arg = net,
		.transports = transports,
		.backend = &ripc__backend_sim,
	};
}
