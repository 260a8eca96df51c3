/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "world.h"

#include "resolver/cache.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define USE_NS (10000 * RIPC__MS) /* between two uses of what an application has found */

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
static uint64_t *place(struct crowd *crowd, uint64_t service, unsigned context)
{
	uint64_t pair = service << 24 | (context + 1);
	size_t i = world_hash(pair, 0, 0) & (crowd->npairs - 1);

	while (crowd->pairs[i] && crowd->pairs[i] != pair)
		i = (i + 1) & (crowd->npairs - 1);
	return &crowd->pairs[i];
}

bool world_is_interested(struct crowd *crowd, uint64_t service, unsigned context)
{
	return *place(crowd, service, context) != 0;
}

static void grow_pairs(struct crowd *crowd)
{
	uint64_t *old = crowd->pairs;
	size_t n = crowd->npairs;

	crowd->npairs *= 2;
	crowd->pairs = world_zeroed(crowd->npairs, sizeof(*crowd->pairs));
	for (size_t i = 0; i < n; i++)
		if (old[i])
			*place(crowd, old[i] >> 24, (unsigned)(old[i] & 0xffffff) - 1) = old[i];
	free(old);
}

/* Return: whether it was not there yet. */
static bool interest(struct crowd *crowd, uint64_t service, unsigned context)
{
	struct group *group = &crowd->interested[service];

	if (world_is_interested(crowd, service, context))
		return false;
	*place(crowd, service, context) = service << 24 | (context + 1);
	if (++crowd->pairs_used > crowd->npairs / 2)
		grow_pairs(crowd);
	world_join(group, context);
	return true;
}

/* --- events in the order of their time --- */

static bool before(const struct event *a, const struct event *b)
{
	return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->order < b->order;
}

void world_push(struct crowd *crowd, const struct event *event)
{
	struct event e = *event;
	size_t i = crowd->nheap++;

	e.order = crowd->order++;
	if (crowd->nheap > crowd->cap) {
		crowd->cap = crowd->cap ? 2 * crowd->cap : 1024;
		crowd->heap = world_alloc(crowd->heap, crowd->cap * sizeof(*crowd->heap));
	}
	for (; i && before(&e, &crowd->heap[(i - 1) / 2]); i = (i - 1) / 2)
		crowd->heap[i] = crowd->heap[(i - 1) / 2];
	crowd->heap[i] = e;
}

static struct event pop(struct crowd *crowd)
{
	struct event first = crowd->heap[0], last = crowd->heap[--crowd->nheap];
	size_t i = 0, child;

	while ((child = 2 * i + 1) < crowd->nheap) {
		if (child + 1 < crowd->nheap && before(&crowd->heap[child + 1], &crowd->heap[child]))
			child++;
		if (!before(&crowd->heap[child], &last))
			break;
		crowd->heap[i] = crowd->heap[child];
		i = child;
	}
	crowd->heap[i] = last;
	return first;
}

/* --- what cores tell --- */

static void note(uint32_t **values, size_t *n, size_t *cap, uint64_t ns)
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

static void told(struct crowd *crowd, struct context *c, const struct ripc__resolver_event *ev)
{
	struct asked *a;

	switch (ev->kind) {
	case RIPC__REGISTERED:
		crowd->counts.registered++;
		note(&crowd->counts.register_us, &crowd->counts.nregister, &crowd->register_cap,
		     crowd->now_ns - crowd->registered_ns[ev->service]);
		break;
	case RIPC__CONFLICT:
		crowd->counts.conflicts++;
		break;
	case RIPC__RESOLVED:
		a = find_asked(c, ev->service);
		if (!a || a->found)
			break;
		a->found = true;
		crowd->open--;
		crowd->counts.resolved++;
		note(&crowd->counts.resolve_us, &crowd->counts.nresolve, &crowd->resolve_cap,
		     crowd->now_ns - a->since_ns);
		break;
	case RIPC__UNRESOLVED:
		/* The application goes on asking, after the time that its negative answer lives. */
		crowd->counts.unresolved++;
		a = find_asked(c, ev->service);
		if (a && !a->found)
			world_push(crowd, &(struct event){.at_ns = crowd->now_ns + 150 * RIPC__MS,
							  .kind = EVENT_ASK,
							  .context = c->index,
							  .life = c->life,
							  .service = ev->service});
		break;
	case RIPC__RIVAL:
	case RIPC__GONE:
		break;
	}
}

/* After every call of a core. */
static void touched(struct crowd *crowd, struct context *c)
{
	struct ripc__resolver_event ev;
	unsigned requests;
	uint64_t at_ns;

	while (ripc__rcore_event(c->core, &ev, &requests, crowd->now_ns))
		told(crowd, c, &ev);
	at_ns = ripc__rcore_deadline(c->core);
	if (at_ns >= c->wake_ns)
		return;
	c->wake_ns = at_ns;
	world_push(crowd,
		   &(struct event){
			   .at_ns = at_ns, .kind = EVENT_WAKE, .context = c->index, .life = c->life});
}

void world_input(struct crowd *crowd, struct context *c, unsigned from, const uint8_t *data,
		 size_t len, uint64_t now_ns)
{
	struct ripc__sender sender = {.len = 4, .lasting = !crowd->ensemble};
	const char *why;

	memcpy(sender.bytes, &from, 4);
	if (ripc__rcore_input(c->core, &sender, data, len, now_ns, &why)) {
		fprintf(stderr, "crowd: a core does not understand another: %s\n", why);
		exit(1);
	}
	touched(crowd, c);
}

static bool core_settled(void *arg, uint64_t service)
{
	struct context *c = arg;

	return !c->crowd->ensemble || ensemble_settled(c, service);
}

/* --- what happens --- */

static void die(struct crowd *crowd, struct context *c)
{
	if (crowd->ensemble && c->core)
		ensemble_died(c);
	ripc__rcore_free(c->core);
	c->core = NULL;
	for (unsigned i = 0; i < c->nasked; i++)
		crowd->open -= !c->asked[i].found;
	c->nasked = 0;
	c->wake_ns = RIPC__NEVER;
}

static void enroll(struct crowd *crowd, struct context *c, uint64_t service)
{
	unsigned i;

	if (interest(crowd, service, c->index))
		network_remember(crowd, c, service);
	for (i = 0; i < crowd->holders[service].n; i++)
		if (crowd->holders[service].members[i] == c->index)
			break;
	if (i == crowd->holders[service].n)
		world_join(&crowd->holders[service], c->index);
	crowd->registered_ns[service] = crowd->now_ns;
	if (ripc__rcore_register(c->core, service, true, crowd->now_ns)) {
		fprintf(stderr, "crowd: context %u cannot register service %llu\n", c->index,
			(unsigned long long)service);
		exit(1);
	}
}

static void start(struct crowd *crowd, struct context *c)
{
	struct ripc__record_addr addr = {.transport = 2, .len = 20};
	struct ripc__rcore_env env = {.addrs = &addr,
				      .naddrs = 1,
				      .resolve_timeout_ms = 1000,
				      .negative_ms = 100,
				      .send = network_send,
				      .settled = core_settled,
				      .arg = c};

	die(crowd, c);
	c->life++;
	c->born_ns = crowd->now_ns;
	for (unsigned i = 0; i < 2; i++) {
		uint64_t id = world_hash(crowd->opt.seed ^ (2 + i), c->index, c->life);

		memcpy(c->instance + 8 * i, &id, 8);
	}
	memcpy(env.instance, c->instance, 16);
	memcpy(env.host, c->instance, 16);
	memcpy(addr.addr, c->instance, 16);
	env.secret = world_hash(crowd->opt.seed ^ 4, c->index, c->life);
	if (ripc__rcore_new(&c->core, &env)) {
		fprintf(stderr, "crowd: no core\n");
		exit(1);
	}
	for (uint64_t service = c->index + 1; service <= crowd->opt.services;
	     service += crowd->opt.contexts)
		enroll(crowd, c, service);
	touched(crowd, c);
	world_push(crowd, &(struct event){.at_ns = crowd->now_ns + world_hash(crowd->opt.seed ^ 5,
									      c->index, c->life) %
									   USE_NS,
					  .kind = EVENT_USE,
					  .context = c->index,
					  .life = c->life});
}

static void ask(struct crowd *crowd, struct context *c, uint64_t service)
{
	struct asked *a = find_asked(c, service);

	if (!a) {
		if (interest(crowd, service, c->index))
			network_remember(crowd, c, service);
		if (c->nasked == c->cap) {
			c->cap = c->cap ? 2 * c->cap : 4;
			c->asked = world_alloc(c->asked, c->cap * sizeof(*c->asked));
		}
		a = &c->asked[c->nasked++];
		*a = (struct asked){service, crowd->now_ns, false};
		crowd->open++;
	}
	if (a->found)
		return;
	if (ripc__rcore_lookup(c->core, service, crowd->now_ns))
		world_push(crowd, &(struct event){.at_ns = crowd->now_ns + 150 * RIPC__MS,
						  .kind = EVENT_ASK,
						  .context = c->index,
						  .life = c->life,
						  .service = service});
	touched(crowd, c);
}

static void use(struct crowd *crowd, struct context *c)
{
	struct ripc__record record;

	/* One whose record ran out is looked up again, as a message to it would do. */
	for (unsigned i = 0; i < c->nasked; i++) {
		if (c->asked[i].found &&
		    !ripc__rcore_find(c->core, c->asked[i].service, &record, crowd->now_ns))
			(void)ripc__rcore_lookup(c->core, c->asked[i].service, crowd->now_ns);
	}
	touched(crowd, c);
	world_push(crowd, &(struct event){.at_ns = crowd->now_ns + USE_NS,
					  .kind = EVENT_USE,
					  .context = c->index,
					  .life = c->life});
}

static void happen(struct crowd *crowd, const struct event *e)
{
	struct context *c = &crowd->contexts[e->context];
	bool alive = c->core && (!e->life || e->life == c->life);

	switch (e->kind) {
	case EVENT_DATAGRAM:
		if (alive)
			world_input(crowd, c, e->message->sender, e->message->data, e->message->len,
				    crowd->now_ns);
		network_release(e->message);
		break;
	case EVENT_WAKE:
		if (!alive || e->at_ns != c->wake_ns)
			break;
		c->wake_ns = RIPC__NEVER;
		ripc__rcore_advance(c->core, crowd->now_ns);
		touched(crowd, c);
		break;
	case EVENT_START:
		start(crowd, c);
		break;
	case EVENT_KILL:
		die(crowd, c);
		break;
	case EVENT_ASK:
		if (alive)
			ask(crowd, c, e->service);
		break;
	case EVENT_CLAIM:
		if (!alive)
			break;
		enroll(crowd, c, e->service);
		touched(crowd, c);
		break;
	case EVENT_USE:
		if (alive)
			use(crowd, c);
		break;
	default:
		ensemble_event(crowd, e);
		break;
	}
}

void crowd_run(struct crowd *crowd, uint64_t until_ns)
{
	while (crowd->nheap && crowd->heap[0].at_ns <= until_ns) {
		struct event e = pop(crowd);

		if (e.at_ns > crowd->now_ns)
			crowd->now_ns = e.at_ns;
		happen(crowd, &e);
	}
	crowd->now_ns = until_ns;
}

/* --- calls --- */

struct crowd_options crowd_defaults(void)
{
	return (struct crowd_options){
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

struct crowd *crowd_new(const struct crowd_options *opt)
{
	struct crowd *crowd = world_zeroed(1, sizeof(*crowd));

	crowd->opt = *opt;
	crowd->now_ns = 1000 * RIPC__MS;
	crowd->contexts = world_zeroed(opt->contexts, sizeof(*crowd->contexts));
	for (unsigned i = 0; i < opt->contexts; i++) {
		crowd->contexts[i].crowd = crowd;
		crowd->contexts[i].index = i;
		crowd->contexts[i].wake_ns = RIPC__NEVER;
	}
	crowd->npairs = 1024;
	crowd->pairs = world_zeroed(crowd->npairs, sizeof(*crowd->pairs));
	crowd->interested = world_zeroed(opt->services + 1, sizeof(*crowd->interested));
	crowd->holders = world_zeroed(opt->services + 1, sizeof(*crowd->holders));
	crowd->overheard = world_zeroed(opt->services + 1, sizeof(struct message *));
	crowd->typical = world_zeroed(opt->services + 1, sizeof(*crowd->typical));
	crowd->registered_ns = world_zeroed(opt->services + 1, sizeof(*crowd->registered_ns));
	if (opt->mode == CROWD_ZOOKEEPER)
		crowd->ensemble = ensemble_new(crowd);
	return crowd;
}

void crowd_free(struct crowd *crowd)
{
	for (unsigned i = 0; i < crowd->opt.contexts; i++) {
		ripc__rcore_free(crowd->contexts[i].core);
		free(crowd->contexts[i].asked);
	}
	while (crowd->nheap)
		network_release(crowd->heap[--crowd->nheap].message);
	for (unsigned i = 0; i <= crowd->opt.services; i++) {
		network_release(crowd->overheard[i]);
		free(crowd->interested[i].members);
		free(crowd->holders[i].members);
	}
	if (crowd->ensemble)
		ensemble_free(crowd->ensemble);
	free(crowd->counts.resolve_us);
	free(crowd->counts.register_us);
	free(crowd->heap);
	free(crowd->contexts);
	free(crowd->interested);
	free(crowd->holders);
	free(crowd->pairs);
	free(crowd->overheard);
	free(crowd->typical);
	free(crowd->registered_ns);
	free(crowd);
}

uint64_t crowd_now_ns(const struct crowd *crowd)
{
	return crowd->now_ns;
}

void crowd_start(struct crowd *crowd, unsigned context, uint64_t at_ns)
{
	world_push(crowd, &(struct event){.at_ns = at_ns, .kind = EVENT_START, .context = context});
}

void crowd_kill(struct crowd *crowd, unsigned context, uint64_t at_ns)
{
	world_push(crowd, &(struct event){.at_ns = at_ns, .kind = EVENT_KILL, .context = context});
}

void crowd_ask(struct crowd *crowd, unsigned context, uint64_t service, uint64_t at_ns)
{
	world_push(crowd,
		   &(struct event){
			   .at_ns = at_ns, .kind = EVENT_ASK, .context = context, .service = service});
}

void crowd_claim(struct crowd *crowd, unsigned context, uint64_t service, uint64_t at_ns)
{
	world_push(crowd, &(struct event){.at_ns = at_ns,
					  .kind = EVENT_CLAIM,
					  .context = context,
					  .service = service});
}

void crowd_side(struct crowd *crowd, unsigned context, unsigned side)
{
	struct context *c = &crowd->contexts[context];

	c->former_side = c->side;
	c->side = side;
	c->side_ns = crowd->now_ns;
}

static int by_value(const void *a, const void *b)
{
	const uint32_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

const struct crowd_counts *crowd_counts(struct crowd *crowd)
{
	struct crowd_counts *counts = &crowd->counts;

	if (counts->nresolve)
		qsort(counts->resolve_us, counts->nresolve, sizeof(uint32_t), by_value);
	if (counts->nregister)
		qsort(counts->register_us, counts->nregister, sizeof(uint32_t), by_value);
	return counts;
}

void crowd_forget_counts(struct crowd *crowd)
{
	uint32_t *resolve_us = crowd->counts.resolve_us, *register_us = crowd->counts.register_us;

	crowd->counts = (struct crowd_counts){.resolve_us = resolve_us, .register_us = register_us};
	crowd->in_bin = 0;
}

uint32_t crowd_percentile(const uint32_t *sorted, size_t n, double percent)
{
	size_t at = (size_t)((double)n * percent / 100);

	return n ? sorted[at < n ? at : n - 1] : 0;
}

bool crowd_holds(struct crowd *crowd, unsigned context, uint64_t service)
{
	struct context *c = &crowd->contexts[context];

	return c->core && ripc__rcore_holds(c->core, service);
}

bool crowd_knows(struct crowd *crowd, unsigned context, uint64_t service, unsigned holder)
{
	struct context *c = &crowd->contexts[context];
	struct ripc__record record;

	return c->core && ripc__rcore_find(c->core, service, &record, crowd->now_ns) &&
	       !memcmp(record.instance, crowd->contexts[holder].instance, 16);
}

size_t crowd_open_asks(const struct crowd *crowd)
{
	return crowd->open;
}

unsigned crowd_owner(const struct crowd *crowd, uint64_t service)
{
	return (unsigned)((service - 1) % crowd->opt.contexts);
}

size_t crowd_weigh(struct crowd *crowd, unsigned context)
{
	struct context *c = &crowd->contexts[context];
	struct mallinfo2 with = mallinfo2(), without;

	ripc__rcore_free(c->core);
	c->core = NULL;
	without = mallinfo2();
	return with.uordblks + with.hblkhd - without.uordblks - without.hblkhd;
}
