/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "bus.h"
#include "harness.h"

#include <stdlib.h>
#include <string.h>

/* A datagram on its way. */
struct datagram {
	uint64_t at_ns, order;
	unsigned from, to;
	size_t len;
	uint8_t data[];
};

struct bus *bus_new(uint64_t seed)
{
	struct bus *bus = calloc(1, sizeof(*bus));

	ck_assert_ptr_nonnull(bus);
	bus->now_ns = 1000 * RIPC__MS;
	bus->rng = seed;
	bus->delay_min_ns = bus->delay_max_ns = RIPC__MS / 10;
	return bus;
}

void bus_free(struct bus *bus)
{
	for (unsigned i = 0; i < bus->nnodes; i++) {
		ripc__rcore_free(bus->nodes[i].core);
		free(bus->nodes[i].events);
		free(bus->nodes[i].listed);
	}
	while (bus->nheap)
		free(bus->heap[--bus->nheap]);
	free(bus->heap);
	free(bus);
}

static bool before(const struct datagram *a, const struct datagram *b)
{
	return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->order < b->order;
}

static void push(struct bus *bus, struct datagram *f)
{
	size_t i = bus->nheap++;

	if (bus->nheap > bus->cap) {
		bus->cap = bus->cap ? bus->cap * 2 : 1024;
		bus->heap = realloc(bus->heap, bus->cap * sizeof(*bus->heap));
		ck_assert_ptr_nonnull(bus->heap);
	}
	for (; i && before(f, bus->heap[(i - 1) / 2]); i = (i - 1) / 2)
		bus->heap[i] = bus->heap[(i - 1) / 2];
	bus->heap[i] = f;
}

static struct datagram *pop(struct bus *bus)
{
	struct datagram *first = bus->heap[0], *last = bus->heap[--bus->nheap];
	size_t i = 0, child;

	while ((child = 2 * i + 1) < bus->nheap) {
		if (child + 1 < bus->nheap && before(bus->heap[child + 1], bus->heap[child]))
			child++;
		if (!before(bus->heap[child], last))
			break;
		bus->heap[i] = bus->heap[child];
		i = child;
	}
	bus->heap[i] = last;
	return first;
}

static void enqueue(struct bus *bus, unsigned from, unsigned to, const uint8_t *data, size_t len)
{
	uint64_t spread = bus->delay_max_ns - bus->delay_min_ns;
	unsigned copies = test_random(&bus->rng) % 100 < bus->dup_percent ? 2 : 1;

	while (copies--) {
		struct datagram *f;

		if (test_random(&bus->rng) % 100 < bus->loss_percent)
			continue;
		f = malloc(sizeof(*f) + len);
		ck_assert_ptr_nonnull(f);
		f->at_ns = bus->now_ns + bus->delay_min_ns +
			   (spread ? test_random(&bus->rng) % spread : 0);
		f->order = bus->order++;
		f->from = from;
		f->to = to;
		f->len = len;
		memcpy(f->data, data, len);
		push(bus, f);
	}
}

/* Broadcasts come back to their sender, as on a real network. */
static void send_datagram(void *arg, const struct ripc__backend_addr *to, uint64_t service,
			  const uint8_t *data, size_t len)
{
	struct node *node = arg;
	struct bus *bus = node->bus;
	struct sent *sent;
	const char *why;

	if (node->nsent >= BUS_LAST && ++node->last > node->sent + BUS_LAST) {
		memcpy(node->sent, node->last, (BUS_LAST - 1) * sizeof(node->sent[0]));
		node->last = node->sent;
	}
	sent = &node->last[node->nsent < BUS_LAST ? node->nsent : BUS_LAST - 1];
	node->nsent++;
	sent->at_ns = bus->now_ns;
	sent->all = !to;
	ck_assert_int_eq(ripc__resolver_msg_decode(&sent->msg, data, len, &why), 0);
	ck_assert(sent->msg.service == service);
	if (to) {
		enqueue(bus, node->index, to->bytes[0], data, len);
		return;
	}
	for (unsigned i = 0; i < bus->nnodes; i++)
		enqueue(bus, node->index, i, data, len);
}

static bool acquire_name(void *arg, uint64_t service, bool last)
{
	return !((struct node *)arg)->name_bound;
}

static void listed(void *arg, const struct ripc__record *record)
{
	struct node *node = arg;

	for (unsigned i = 0; i < node->nlisted; i++)
		if (node->listed[i].service == record->service &&
		    !memcmp(node->listed[i].instance, record->instance, 16))
			return;
	if (!(node->nlisted & (node->nlisted - 1)))
		node->listed =
			realloc(node->listed, (2 * (size_t)node->nlisted + 1) * sizeof(*record));
	ck_assert_ptr_nonnull(node->listed);
	node->listed[node->nlisted++] = *record;
}

static void start(struct node *node, uint8_t first)
{
	struct bus *bus = node->bus;
	struct ripc__record_addr addr = {.transport = 9, .len = 16};
	struct ripc__rcore_env env = {.resolve_timeout_ms = 1000,
				      .negative_ms = 100,
				      .send = send_datagram,
				      .acquire = acquire_name,
				      .listed = listed};

	for (unsigned i = 0; i < 16; i++)
		node->instance[i] = (uint8_t)test_random(&bus->rng);
	node->instance[0] = first;
	node->instance[15] |= 1;
	memcpy(addr.addr, node->instance, 16);
	memcpy(env.instance, node->instance, 16);
	env.addrs = &addr;
	env.naddrs = 1;
	env.secret = test_random(&bus->rng);
	env.arg = node;
	ck_assert_int_eq(ripc__rcore_new(&node->core, &env), 0);
}

struct node *bus_add(struct bus *bus, uint8_t first)
{
	struct node *node = &bus->nodes[bus->nnodes];

	ck_assert_uint_lt(bus->nnodes, BUS_NODES_MAX);
	node->bus = bus;
	node->index = bus->nnodes++;
	node->last = node->sent;
	node->events = calloc(NODE_EVENTS, sizeof(*node->events));
	ck_assert_ptr_nonnull(node->events);
	start(node, first);
	return node;
}

void bus_restart(struct node *node, uint8_t first)
{
	bus_kill(node);
	node->nevents = 0;
	start(node, first);
}

void bus_kill(struct node *node)
{
	ripc__rcore_free(node->core);
	node->core = NULL;
}

void node_collect(struct node *node)
{
	struct ripc__resolver_event ev;

	while (ripc__rcore_event(node->core, &ev, node->bus->now_ns)) {
		struct node_event *t;

		ck_assert_uint_lt(node->nevents, NODE_EVENTS);
		t = &node->events[node->nevents++];
		*t = (struct node_event){.kind = ev.kind,
					 .service = ev.service,
					 .at_ns = node->bus->now_ns,
					 .requests = ev.requests,
					 .record = ev.record};
	}
}

static void deliver(struct bus *bus, struct datagram *f)
{
	struct node *to = &bus->nodes[f->to];
	struct ripc__backend_addr from = {.len = 1, .bytes = {(uint8_t)f->from}, .reusable = true};
	const char *why;

	if (to->stopped_ns > bus->now_ns) {
		f->at_ns = to->stopped_ns;
		push(bus, f);
		return;
	}
	if (to->core && to->group == bus->nodes[f->from].group) {
		ck_assert_int_eq(
			ripc__rcore_input(to->core, &from, f->data, f->len, bus->now_ns, &why), 0);
		node_collect(to);
	}
	free(f);
}

void bus_run(struct bus *bus, uint64_t ms)
{
	uint64_t end = bus->now_ns + ms * RIPC__MS;

	for (;;) {
		uint64_t next = bus->nheap ? bus->heap[0]->at_ns : RIPC__NEVER;
		struct node *due = NULL;

		for (unsigned i = 0; i < bus->nnodes; i++) {
			struct node *node = &bus->nodes[i];
			uint64_t at = node->core ? ripc__rcore_deadline(node->core) : RIPC__NEVER;

			at = at < node->stopped_ns ? node->stopped_ns : at;
			if (at < next) {
				next = at;
				due = node;
			}
		}
		if (next > end)
			break;
		if (next > bus->now_ns)
			bus->now_ns = next;
		if (due) {
			ripc__rcore_advance(due->core, bus->now_ns);
			node_collect(due);
			/* Otherwise it would want to be called for ever. */
			ck_assert_uint_gt(ripc__rcore_deadline(due->core), bus->now_ns);
		} else {
			deliver(bus, pop(bus));
		}
	}
	bus->now_ns = end;
}

int node_register(struct node *node, uint64_t service, bool probe)
{
	int rc = ripc__rcore_register(node->core, service, NULL,
				      probe ? RIPC__REGISTER : RIPC__REGISTER_LOCAL,
				      node->bus->now_ns);

	node_collect(node);
	return rc;
}

int node_register_random(struct node *node, uint64_t service)
{
	int rc = ripc__rcore_register(node->core, service, NULL, RIPC__REGISTER_RANDOM,
				      node->bus->now_ns);

	node_collect(node);
	return rc;
}

int node_lookup(struct node *node, uint64_t service)
{
	int rc = ripc__rcore_lookup(node->core, service, node->bus->now_ns);

	node_collect(node);
	return rc;
}

int node_input(struct node *node, const struct ripc__resolver_msg *msg)
{
	uint8_t buf[RIPC__RESOLVER_MSG_MAX];
	struct ripc__backend_addr from = {.len = 1, .bytes = {(uint8_t)node->index}};
	int len = ripc__resolver_msg_encode(msg, buf, sizeof(buf)), rc;
	const char *why;

	ck_assert_int_gt(len, 0);
	rc = ripc__rcore_input(node->core, &from, buf, (size_t)len, node->bus->now_ns, &why);
	node_collect(node);
	return rc;
}

unsigned node_count(const struct node *node, enum ripc__resolver_ev_kind kind, uint64_t service)
{
	unsigned count = 0;

	for (unsigned i = 0; i < node->nevents; i++)
		count += node->events[i].kind == kind && node->events[i].service == service;
	return count;
}

const struct node_event *node_has_event(const struct node *node, enum ripc__resolver_ev_kind kind,
					uint64_t service)
{
	for (unsigned i = node->nevents; i--;)
		if (node->events[i].kind == kind && node->events[i].service == service)
			return &node->events[i];
	return NULL;
}

bool node_finds(struct node *node, uint64_t service, const struct node *holder)
{
	struct ripc__record record;

	return core_find(node->core, service, &record, node->bus->now_ns) &&
	       !memcmp(record.instance, holder->instance, 16) && record.naddrs == 1 &&
	       !memcmp(record.addrs[0].addr, holder->instance, 16);
}

bool node_holds(struct node *node, uint64_t service)
{
	return node->core && ripc__rcore_holds(node->core, service);
}

const struct ripc__record *node_listed(const struct node *node, uint64_t service,
				       const struct node *holder)
{
	for (unsigned i = 0; i < node->nlisted; i++)
		if (node->listed[i].service == service &&
		    !memcmp(node->listed[i].instance, holder->instance, 16))
			return &node->listed[i];
	return NULL;
}
