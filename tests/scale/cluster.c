/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "world.h"

#include "resolver/cache.h"
#include "resolver/find.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ASK_AGAIN_NS (150 * RIPC__MS)   /* lifetime of a negative answer */
#define USE_NS       (10000 * RIPC__MS) /* between two uses of what an application has found */

void *world_alloc(void *old, size_t bytes)
{
	void *p = realloc(old, bytes);

	if (p)
		return p;
	fprintf(stderr, "crowd: out of memory\n");
	exit(1);
}

void *world_zeroed(size_t n, size_t size)
{
	void *p = world_alloc(NULL, n * size);

	memset(p, 0, n * size);
	return p;
}

uint64_t world_hash(uint64_t a, uint64_t b, uint64_t c)
{
	uint64_t z = a + b * 0x9e3779b97f4a7c15u + c * 0xd6e8feb86659fd93u;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

void world_join(struct group *group, unsigned context)
{
	if (group->n == group->cap) {
		group->cap = group->cap ? 2 * group->cap : 2;
		group->members = world_alloc(group->members, group->cap * sizeof(*group->members));
	}
	group->members[group->n++] = context;
}

/* Where a pair of service and context stands in the set of these, or would. */
static uint64_t *bucket_of(struct cluster *cluster, uint64_t service, unsigned context)
{
	uint64_t pair = service << 24 | (context + 1);
	size_t i = world_hash(pair, 0, 0) & (cluster->npairs - 1);

	while (cluster->pairs[i] && cluster->pairs[i] != pair)
		i = (i + 1) & (cluster->npairs - 1);
	return &cluster->pairs[i];
}

bool world_is_interested(struct cluster *cluster, uint64_t service, unsigned context)
{
	return *bucket_of(cluster, service, context) != 0;
}

static void grow_pairs(struct cluster *cluster)
{
	uint64_t *old = cluster->pairs;
	size_t n = cluster->npairs;

	cluster->npairs *= 2;
	cluster->pairs = world_zeroed(cluster->npairs, sizeof(*cluster->pairs));
	for (size_t i = 0; i < n; i++)
		if (old[i])
			*bucket_of(cluster, old[i] >> 24, (old[i] & 0xffffff) - 1) = old[i];
	free(old);
}

/* Return: whether it was not there yet. */
static bool interest(struct cluster *cluster, uint64_t service, unsigned context)
{
	struct group *group = &cluster->interested[service];

	if (world_is_interested(cluster, service, context))
		return false;
	*bucket_of(cluster, service, context) = service << 24 | (context + 1);
	if (++cluster->pairs_used > cluster->npairs / 2)
		grow_pairs(cluster);
	world_join(group, context);
	return true;
}

/* --- events in the order of their time --- */

static bool before(const struct event *a, const struct event *b)
{
	return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->order < b->order;
}

void world_push(struct cluster *cluster, const struct event *event)
{
	struct event e = *event;
	size_t i = cluster->nheap++;

	e.order = cluster->order++;
	if (cluster->nheap > cluster->cap) {
		cluster->cap = cluster->cap ? 2 * cluster->cap : 1024;
		cluster->heap = world_alloc(cluster->heap, cluster->cap * sizeof(*cluster->heap));
	}
	for (; i && before(&e, &cluster->heap[(i - 1) / 2]); i = (i - 1) / 2)
		cluster->heap[i] = cluster->heap[(i - 1) / 2];
	cluster->heap[i] = e;
}

static struct event pop(struct cluster *cluster)
{
	struct event first = cluster->heap[0], last = cluster->heap[--cluster->nheap];
	size_t i = 0, child;

	while ((child = 2 * i + 1) < cluster->nheap) {
		if (child + 1 < cluster->nheap &&
		    before(&cluster->heap[child + 1], &cluster->heap[child]))
			child++;
		if (!before(&cluster->heap[child], &last))
			break;
		cluster->heap[i] = cluster->heap[child];
		i = child;
	}
	cluster->heap[i] = last;
	return first;
}

/* --- events of cores --- */

static void record_time(uint32_t **values, size_t *n, size_t *cap, uint64_t ns)
{
	if (*n == *cap) {
		*cap = *cap ? 2 * *cap : 1024;
		*values = world_alloc(*values, *cap * sizeof(**values));
	}
	(*values)[(*n)++] = (uint32_t)(ns / 1000 < UINT32_MAX ? ns / 1000 : UINT32_MAX);
}

static struct asked *find_asked(struct context *c, uint64_t service)
{
	for (unsigned i = 0; i < c->nasked; i++)
		if (c->asked[i].service == service)
			return &c->asked[i];
	return NULL;
}

static void resolver_event(struct cluster *cluster, struct context *c,
			   const struct ripc__resolver_event *ev)
{
	struct asked *a;

	switch (ev->kind) {
	case RIPC__REGISTERED:
		cluster->counts.registered++;
		record_time(&cluster->counts.register_us, &cluster->counts.nregister,
			    &cluster->register_cap,
			    cluster->now_ns - cluster->registered_ns[ev->service]);
		break;
	case RIPC__CONFLICT:
		cluster->counts.conflicts++;
		break;
	case RIPC__RESOLVED:
		a = find_asked(c, ev->service);
		if (!a || a->found)
			break;
		a->found = true;
		cluster->open--;
		cluster->counts.resolved++;
		record_time(&cluster->counts.resolve_us, &cluster->counts.nresolve,
			    &cluster->resolve_cap, cluster->now_ns - a->since_ns);
		break;
	case RIPC__UNRESOLVED:
		/* The application goes on asking, after the time that its negative answer lives. */
		cluster->counts.unresolved++;
		a = find_asked(c, ev->service);
		if (a && !a->found)
			world_push(cluster, &(struct event){.at_ns = cluster->now_ns + ASK_AGAIN_NS,
							    .kind = EVENT_ASK,
							    .context = c->index,
							    .incarnation = c->incarnation,
							    .service = ev->service});
		break;
	case RIPC__RIVAL:
	case RIPC__GONE:
		break;
	}
}

/* After every call of a core. */
static void context_changed(struct cluster *cluster, struct context *c)
{
	struct ripc__resolver_event ev;
	uint64_t at_ns;

	while (ripc__rcore_event(c->core, &ev, cluster->now_ns))
		resolver_event(cluster, c, &ev);
	at_ns = ripc__rcore_deadline(c->core);
	if (at_ns >= c->wake_ns)
		return;
	c->wake_ns = at_ns;
	world_push(cluster, &(struct event){.at_ns = at_ns,
					    .kind = EVENT_WAKE,
					    .context = c->index,
					    .incarnation = c->incarnation});
}

void world_input(struct cluster *cluster, struct context *c, unsigned from, const uint8_t *data,
		 size_t len, uint64_t now_ns)
{
	struct ripc__backend_addr sender = {.len = 4, .reusable = !cluster->ensemble};
	const char *why;

	memcpy(sender.bytes, &from, 4);
	if (ripc__rcore_input(c->core, &sender, data, len, now_ns, &why)) {
		fprintf(stderr, "crowd: a core does not understand another: %s\n", why);
		exit(1);
	}
	context_changed(cluster, c);
}

static bool core_settled(void *arg, uint64_t service)
{
	struct context *c = arg;

	return !c->cluster->ensemble || ensemble_settled(c, service);
}

/* --- what happens --- */

static void kill_context(struct cluster *cluster, struct context *c)
{
	if (cluster->ensemble && c->core)
		ensemble_died(c);
	ripc__rcore_free(c->core);
	c->core = NULL;
	for (unsigned i = 0; i < c->nasked; i++)
		cluster->open -= !c->asked[i].found;
	c->nasked = 0;
	c->wake_ns = RIPC__NEVER;
}

static void register_services(struct cluster *cluster, struct context *c, uint64_t service)
{
	unsigned i;

	if (interest(cluster, service, c->index))
		network_store_record(cluster, c, service);
	for (i = 0; i < cluster->holders[service].n; i++)
		if (cluster->holders[service].members[i] == c->index)
			break;
	if (i == cluster->holders[service].n)
		world_join(&cluster->holders[service], c->index);
	cluster->registered_ns[service] = cluster->now_ns;
	if (ripc__rcore_register(c->core, service, NULL, RIPC__REGISTER, cluster->now_ns)) {
		fprintf(stderr, "crowd: context %u cannot register service %llu\n", c->index,
			(unsigned long long)service);
		exit(1);
	}
}

static void start(struct cluster *cluster, struct context *c)
{
	struct ripc__record_addr addr = {.transport = 2, .len = 20};
	struct ripc__rcore_env env = {.addrs = &addr,
				      .naddrs = 1,
				      .resolve_timeout_ms = 1000,
				      .negative_ms = 100,
				      .send = network_send,
				      .settled = core_settled,
				      .arg = c};

	kill_context(cluster, c);
	c->incarnation++;
	c->started_messages = cluster->messages;
	for (unsigned i = 0; i < 2; i++) {
		uint64_t id = world_hash(cluster->opt.seed ^ (2 + i), c->index, c->incarnation);

		memcpy(c->instance + 8 * i, &id, 8);
	}
	memcpy(env.instance, c->instance, 16);
	memcpy(env.host, c->instance, 16);
	memcpy(addr.addr, c->instance, 16);
	env.secret = world_hash(cluster->opt.seed ^ 4, c->index, c->incarnation);
	if (ripc__rcore_new(&c->core, &env)) {
		fprintf(stderr, "crowd: no core\n");
		exit(1);
	}
	for (uint64_t service = c->index + 1; service <= cluster->opt.services;
	     service += cluster->opt.contexts)
		register_services(cluster, c, service);
	context_changed(cluster, c);
	world_push(cluster,
		   &(struct event){.at_ns = cluster->now_ns + world_hash(cluster->opt.seed ^ 5,
									 c->index, c->incarnation) %
								      USE_NS,
				   .kind = EVENT_USE,
				   .context = c->index,
				   .incarnation = c->incarnation});
}

static void ask(struct cluster *cluster, struct context *c, uint64_t service)
{
	struct asked *a = find_asked(c, service);

	if (!a) {
		if (interest(cluster, service, c->index))
			network_store_record(cluster, c, service);
		if (c->nasked == c->cap) {
			c->cap = c->cap ? 2 * c->cap : 4;
			c->asked = world_alloc(c->asked, c->cap * sizeof(*c->asked));
		}
		a = &c->asked[c->nasked++];
		*a = (struct asked){service, cluster->now_ns, false};
		cluster->open++;
	}
	if (a->found)
		return;
	if (ripc__rcore_lookup(c->core, service, cluster->now_ns))
		world_push(cluster, &(struct event){.at_ns = cluster->now_ns + ASK_AGAIN_NS,
						    .kind = EVENT_ASK,
						    .context = c->index,
						    .incarnation = c->incarnation,
						    .service = service});
	context_changed(cluster, c);
}

static void use_service(struct cluster *cluster, struct context *c)
{
	struct ripc__record record;

	/* One whose record ran out is looked up again, as a message to it would do. */
	for (unsigned i = 0; i < c->nasked; i++) {
		if (c->asked[i].found &&
		    !core_find(c->core, c->asked[i].service, &record, cluster->now_ns))
			(void)ripc__rcore_lookup(c->core, c->asked[i].service, cluster->now_ns);
	}
	context_changed(cluster, c);
	world_push(cluster, &(struct event){.at_ns = cluster->now_ns + USE_NS,
					    .kind = EVENT_USE,
					    .context = c->index,
					    .incarnation = c->incarnation});
}

static void handle_event(struct cluster *cluster, const struct event *e)
{
	struct context *c = &cluster->contexts[e->context];
	bool alive = c->core && (!e->incarnation || e->incarnation == c->incarnation);

	switch (e->kind) {
	case EVENT_DATAGRAM:
		if (alive)
			world_input(cluster, c, e->message->sender, e->message->data,
				    e->message->len, cluster->now_ns);
		network_release(e->message);
		break;
	case EVENT_WAKE:
		if (!alive || e->at_ns != c->wake_ns)
			break;
		c->wake_ns = RIPC__NEVER;
		ripc__rcore_advance(c->core, cluster->now_ns);
		context_changed(cluster, c);
		break;
	case EVENT_START:
		start(cluster, c);
		break;
	case EVENT_KILL:
		kill_context(cluster, c);
		break;
	case EVENT_ASK:
		if (alive)
			ask(cluster, c, e->service);
		break;
	case EVENT_CLAIM:
		if (!alive)
			break;
		register_services(cluster, c, e->service);
		context_changed(cluster, c);
		break;
	case EVENT_USE:
		if (alive)
			use_service(cluster, c);
		break;
	default:
		ensemble_event(cluster, e);
		break;
	}
}

void cluster_run(struct cluster *cluster, uint64_t until_ns)
{
	while (cluster->nheap && cluster->heap[0].at_ns <= until_ns) {
		struct event e = pop(cluster);

		if (e.at_ns > cluster->now_ns)
			cluster->now_ns = e.at_ns;
		handle_event(cluster, &e);
	}
	cluster->now_ns = until_ns;
}

/* --- calls --- */

struct cluster_options cluster_defaults(void)
{
	return (struct cluster_options){
		.seed = 1,
		.contexts = 10,
		.services = 100,
		.delay_min_ns = 50000,
		.delay_max_ns = 150000,
		.datagram_ns = 5000,
		.queue = 277, /* of 768 bytes in 212992, the kernel's default */
		.write_ns = 100000,
		.read_ns = 16000,
		.session_ms = 10000,
	};
}

struct cluster *cluster_new(const struct cluster_options *opt)
{
	struct cluster *cluster = world_zeroed(1, sizeof(*cluster));

	cluster->opt = *opt;
	cluster->now_ns = 1000 * RIPC__MS;
	cluster->contexts = world_zeroed(opt->contexts, sizeof(*cluster->contexts));
	for (unsigned i = 0; i < opt->contexts; i++) {
		cluster->contexts[i].cluster = cluster;
		cluster->contexts[i].index = i;
		cluster->contexts[i].wake_ns = RIPC__NEVER;
	}
	cluster->npairs = 1024;
	cluster->pairs = world_zeroed(cluster->npairs, sizeof(*cluster->pairs));
	cluster->interested = world_zeroed(opt->services + 1, sizeof(*cluster->interested));
	cluster->holders = world_zeroed(opt->services + 1, sizeof(*cluster->holders));
	cluster->overheard = world_zeroed(opt->services + 1, sizeof(struct message *));
	cluster->typical = world_zeroed(opt->services + 1, sizeof(*cluster->typical));
	cluster->registered_ns = world_zeroed(opt->services + 1, sizeof(*cluster->registered_ns));
	if (opt->mode == CLUSTER_ZOOKEEPER)
		cluster->ensemble = ensemble_new(cluster);
	return cluster;
}

void cluster_free(struct cluster *cluster)
{
	for (unsigned i = 0; i < cluster->opt.contexts; i++) {
		ripc__rcore_free(cluster->contexts[i].core);
		free(cluster->contexts[i].asked);
	}
	while (cluster->nheap)
		network_release(cluster->heap[--cluster->nheap].message);
	for (unsigned i = 0; i <= cluster->opt.services; i++) {
		network_release(cluster->overheard[i]);
		free(cluster->interested[i].members);
		free(cluster->holders[i].members);
	}
	if (cluster->ensemble)
		ensemble_free(cluster->ensemble);
	free(cluster->counts.resolve_us);
	free(cluster->counts.register_us);
	free(cluster->heap);
	free(cluster->contexts);
	free(cluster->interested);
	free(cluster->holders);
	free(cluster->pairs);
	free(cluster->overheard);
	free(cluster->typical);
	free(cluster->registered_ns);
	free(cluster);
}

uint64_t cluster_now_ns(const struct cluster *cluster)
{
	return cluster->now_ns;
}

void cluster_start(struct cluster *cluster, unsigned context, uint64_t at_ns)
{
	struct event e = {.at_ns = at_ns, .kind = EVENT_START, .context = context};

	world_push(cluster, &e);
}

void cluster_kill(struct cluster *cluster, unsigned context, uint64_t at_ns)
{
	struct event e = {.at_ns = at_ns, .kind = EVENT_KILL, .context = context};

	world_push(cluster, &e);
}

void cluster_ask(struct cluster *cluster, unsigned context, uint64_t service, uint64_t at_ns)
{
	world_push(cluster, &(struct event){
				    .at_ns = at_ns,
				    .kind = EVENT_ASK,
				    .context = context,
				    .service = service,
			    });
}

void cluster_claim(struct cluster *cluster, unsigned context, uint64_t service, uint64_t at_ns)
{
	world_push(cluster, &(struct event){.at_ns = at_ns,
					    .kind = EVENT_CLAIM,
					    .context = context,
					    .service = service});
}

void cluster_side(struct cluster *cluster, unsigned context, unsigned side)
{
	struct context *c = &cluster->contexts[context];

	c->former_side = c->side;
	c->side = side;
	c->side_messages = cluster->messages;
}

static int by_value(const void *a, const void *b)
{
	const uint32_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

const struct cluster_counts *cluster_counts(struct cluster *cluster)
{
	struct cluster_counts *counts = &cluster->counts;

	if (counts->nresolve)
		qsort(counts->resolve_us, counts->nresolve, sizeof(uint32_t), by_value);
	if (counts->nregister)
		qsort(counts->register_us, counts->nregister, sizeof(uint32_t), by_value);
	return counts;
}

void cluster_forget_counts(struct cluster *cluster)
{
	uint32_t *resolve_us = cluster->counts.resolve_us;
	uint32_t *register_us = cluster->counts.register_us;

	cluster->counts =
		(struct cluster_counts){.resolve_us = resolve_us, .register_us = register_us};
	cluster->in_bin = 0;
}

uint32_t cluster_percentile(const uint32_t *sorted, size_t n, double percent)
{
	size_t at = (size_t)((double)n * percent / 100);

	return n ? sorted[at < n ? at : n - 1] : 0;
}

bool cluster_holds(struct cluster *cluster, unsigned context, uint64_t service)
{
	struct context *c = &cluster->contexts[context];

	return c->core && ripc__rcore_holds(c->core, service);
}

bool cluster_knows(struct cluster *cluster, unsigned context, uint64_t service, unsigned holder)
{
	struct context *c = &cluster->contexts[context];
	struct ripc__record record;

	return c->core && core_find(c->core, service, &record, cluster->now_ns) &&
	       !memcmp(record.instance, cluster->contexts[holder].instance, 16);
}

size_t cluster_open_asks(const struct cluster *cluster)
{
	return cluster->open;
}

unsigned cluster_owner(const struct cluster *cluster, uint64_t service)
{
	return (unsigned)((service - 1) % cluster->opt.contexts);
}

size_t cluster_memory(struct cluster *cluster, unsigned context)
{
	struct context *c = &cluster->contexts[context];
	struct mallinfo2 with = mallinfo2(), without;

	ripc__rcore_free(c->core);
	c->core = NULL;
	without = mallinfo2();
	return with.uordblks + with.hblkhd - without.uordblks - without.hblkhd;
}
