/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A model of a ZooKeeper ensemble and of its back end (src/resolver/zookeeper.c): the same rules,
 * with two queues in place of servers. Writes go one by one through the leader, reads are shared by
 * the servers; the delay of a message is that of a datagram. Nodes of dead contexts are removed
 * when their session ends.
 */
#include "world.h"

#include <stdlib.h>
#include <string.h>

/* The node of a service, and who watches it. */
struct znode {
	bool there;
	unsigned owner;
	uint64_t incarnation; /* of the owner */
	struct ripc__record *record;
	struct group watchers; /* one notice each, then they ask again */
};

/* The state of one service at one context. */
struct zentry {
	uint64_t service;
	enum { ZK_NONE, ZK_CLAIMING, ZK_CREATED, ZK_TAKEN } held;
	uint64_t nonce; /* of the probe or request that waits for an answer; 0: none */
	bool watching, known;
	uint64_t generation;         /* of the record sent last */
	struct ripc__record *record; /* to be written, or as it was read */
};

struct zclient {
	struct zentry *entries;
	unsigned n, cap;
	uint64_t incarnation;
};

struct ensemble {
	struct cluster *cluster;
	struct znode *nodes;
	struct zclient *clients;
	uint64_t write_ns, read_ns; /* until when it has work */
};

struct ensemble *ensemble_new(struct cluster *cluster)
{
	struct ensemble *e = world_alloc(NULL, sizeof(*e));

	memset(e, 0, sizeof(*e));
	e->cluster = cluster;
	e->nodes = world_alloc(NULL, (cluster->opt.services + 1) * sizeof(*e->nodes));
	memset(e->nodes, 0, (cluster->opt.services + 1) * sizeof(*e->nodes));
	e->clients = world_alloc(NULL, cluster->opt.contexts * sizeof(*e->clients));
	memset(e->clients, 0, cluster->opt.contexts * sizeof(*e->clients));
	return e;
}

static void free_node(struct zclient *client)
{
	for (unsigned i = 0; i < client->n; i++)
		free(client->entries[i].record);
	client->n = 0;
}

void ensemble_free(struct ensemble *e)
{
	struct cluster *cluster = e->cluster;

	for (unsigned i = 0; i <= cluster->opt.services; i++) {
		free(e->nodes[i].record);
		free(e->nodes[i].watchers.members);
	}
	for (unsigned i = 0; i < cluster->opt.contexts; i++) {
		free_node(&e->clients[i]);
		free(e->clients[i].entries);
	}
	free(e->nodes);
	free(e->clients);
	free(e);
}

static struct zentry *find(struct context *c, uint64_t service, bool add)
{
	struct zclient *client = &c->cluster->ensemble->clients[c->index];

	if (client->incarnation != c->incarnation)
		free_node(client);
	client->incarnation = c->incarnation;
	for (unsigned i = 0; i < client->n; i++)
		if (client->entries[i].service == service)
			return &client->entries[i];
	if (!add)
		return NULL;
	if (client->n == client->cap) {
		client->cap = client->cap ? 2 * client->cap : 8;
		client->entries =
			world_alloc(client->entries, client->cap * sizeof(*client->entries));
	}
	client->entries[client->n] = (struct zentry){.service = service};
	return &client->entries[client->n++];
}

static struct ripc__record *copy(struct ripc__record *old, const struct ripc__record *record)
{
	struct ripc__record *mine = world_alloc(old, sizeof(*mine));

	*mine = *record;
	mine->since_ms = 0;
	return mine;
}

/* One operation: there, through the queue, and back. */
static void submit(struct context *c, uint64_t service, enum event_kind kind, enum event_op op)
{
	struct cluster *cluster = c->cluster;
	struct ensemble *e = cluster->ensemble;
	uint64_t *busy_ns = kind == EVENT_WRITE ? &e->write_ns : &e->read_ns;
	uint64_t takes_ns = kind == EVENT_WRITE ? cluster->opt.write_ns : cluster->opt.read_ns;
	uint64_t delay_ns = (cluster->opt.delay_min_ns + cluster->opt.delay_max_ns) / 2;

	cluster->counts.ensemble += 2;
	if (*busy_ns < cluster->now_ns + delay_ns)
		*busy_ns = cluster->now_ns + delay_ns;
	*busy_ns += takes_ns;
	world_push(cluster, &(struct event){.at_ns = *busy_ns + delay_ns,
					    .kind = kind,
					    .op = op,
					    .context = c->index,
					    .incarnation = c->incarnation,
					    .service = service});
}

static void notify(struct cluster *cluster, uint64_t service)
{
	struct group *watchers = &cluster->ensemble->nodes[service].watchers;
	unsigned n = watchers->n;

	watchers->n = 0;
	for (unsigned i = 0; i < n; i++) {
		struct context *c = &cluster->contexts[watchers->members[i]];

		cluster->counts.ensemble++;
		world_push(cluster,
			   &(struct event){.at_ns = cluster->now_ns + cluster->opt.delay_max_ns,
					   .kind = EVENT_NOTIFY,
					   .context = c->index,
					   .incarnation = c->incarnation,
					   .service = service});
	}
}

/* --- what the back end does with the core's messages --- */

static void claim(struct context *c, const struct ripc__resolver_msg *msg)
{
	struct zentry *z = find(c, msg->service, true);

	if (z->held && z->held != ZK_TAKEN && z->generation == msg->record.generation)
		return;
	z->held = ZK_CLAIMING;
	z->generation = msg->record.generation;
	z->record = copy(z->record, &msg->record);
	submit(c, msg->service, EVENT_WRITE, z->generation > 1 ? OP_TAKE : OP_MAKE);
}

void ensemble_send(struct context *c, const struct ripc__backend_addr *to,
		   const struct ripc__resolver_msg *msg)
{
	struct cluster *cluster = c->cluster;
	struct zentry *z;

	if (to)
		return;
	switch (msg->kind) {
	case RIPC__RESOLVE_PROBE:
		claim(c, msg);
		find(c, msg->service, true)->nonce = msg->nonce;
		break;
	case RIPC__RESOLVE_REQUEST:
		if (msg->record.service == msg->service) {
			claim(c, msg);
			break;
		}
		z = find(c, msg->service, true);
		z->nonce = msg->nonce;
		if (z->known)
			world_push(cluster, &(struct event){.at_ns = cluster->now_ns,
							    .kind = EVENT_REPLY,
							    .context = c->index,
							    .incarnation = c->incarnation,
							    .service = msg->service});
		if (!z->watching)
			submit(c, msg->service, EVENT_READ, OP_READ);
		z->watching = true;
		break;
	case RIPC__RESOLVE_GONE:
		z = find(c, msg->service, false);
		if (z && z->held == ZK_CREATED)
			submit(c, msg->service, EVENT_WRITE, OP_REMOVE);
		if (z)
			z->held = ZK_NONE;
		break;
	default:
		break;
	}
}

bool ensemble_settled(struct context *c, uint64_t service)
{
	struct zentry *z = find(c, service, false);

	return !z || z->held == ZK_CREATED;
}

void ensemble_died(struct context *c)
{
	world_push(c->cluster, &(struct event){.at_ns = c->cluster->now_ns +
							c->cluster->opt.session_ms * RIPC__MS,
					       .kind = EVENT_EXPIRE,
					       .context = c->index,
					       .incarnation = c->incarnation});
}

/* --- what comes back --- */

static void deliver_reply(struct context *c, const struct zentry *z, const struct ripc__record *r,
			  enum ripc__resolver_kind kind, uint8_t flags, uint64_t nonce)
{
	struct ripc__resolver_msg msg = {
		.kind = kind,
		.flags = flags,
		.service = z->service,
		.nonce = nonce,
		.record = *r,
	};
	uint8_t buf[RIPC__RESOLVER_MSG_MAX];
	int len = ripc__resolver_msg_encode(&msg, buf, sizeof(buf));

	if (len > 0)
		world_input(c->cluster, c, c->index, buf, (size_t)len, c->cluster->now_ns);
}

/* Whether the node still is the one that the context of an event created. */
static bool owns(const struct znode *node, const struct event *e)
{
	return node->there && node->owner == e->context && node->incarnation == e->incarnation;
}

static void written(struct cluster *cluster, struct context *c, const struct event *e, bool alive)
{
	struct znode *node = &cluster->ensemble->nodes[e->service];
	struct zentry *z = alive ? find(c, e->service, false) : NULL;

	if (e->op == OP_REMOVE) {
		if (!owns(node, e))
			return;
		node->there = false;
		notify(cluster, e->service);
		return;
	}
	/* A context that starts again finds nothing of its previous life in this model. */
	if (!z || !z->record)
		return;
	if (node->there && node->owner != e->context && e->op != OP_TAKE) {
		z->held = ZK_TAKEN;
		deliver_reply(c, z, node->record, RIPC__RESOLVE_REPLY, RIPC__RESOLVE_VERDICT,
			      z->nonce ? z->nonce : ripc__dispute_nonce(c->instance));
		return;
	}
	node->there = true;
	node->owner = e->context;
	node->incarnation = e->incarnation;
	node->record = copy(node->record, z->record);
	z->held = ZK_CREATED;
	notify(cluster, e->service);
}

static void was_read(struct cluster *cluster, struct context *c, uint64_t service)
{
	struct znode *node = &cluster->ensemble->nodes[service];
	struct zentry *z = find(c, service, true);
	uint64_t nonce = z->nonce;
	bool was_known = z->known;

	world_join(&node->watchers, c->index);
	z->watching = true;
	z->known = node->there;
	if (!node->there) {
		if (was_known)
			deliver_reply(c, z, z->record, RIPC__RESOLVE_GONE, 0, 0);
		return;
	}
	z->record = copy(z->record, node->record);
	z->nonce = 0;
	if (nonce)
		deliver_reply(c, z, z->record, RIPC__RESOLVE_REPLY, 0, nonce);
	else if (was_known)
		deliver_reply(c, z, z->record, RIPC__RESOLVE_REQUEST, 0, 1);
}

static void expired(struct cluster *cluster, const struct event *e)
{
	/* Of the services that were dealt to it. */
	for (uint64_t s = e->context + 1; s <= cluster->opt.services; s += cluster->opt.contexts) {
		struct znode *node = &cluster->ensemble->nodes[s];

		if (!owns(node, e))
			continue;
		node->there = false;
		notify(cluster, s);
	}
}

void ensemble_event(struct cluster *cluster, const struct event *e)
{
	struct context *c = &cluster->contexts[e->context];
	bool alive = c->core && c->incarnation == e->incarnation;
	struct zentry *z = alive ? find(c, e->service, false) : NULL;

	switch (e->kind) {
	case EVENT_WRITE:
		written(cluster, c, e, alive);
		break;
	case EVENT_READ:
		if (alive)
			was_read(cluster, c, e->service);
		break;
	case EVENT_NOTIFY:
		if (z)
			submit(c, e->service, EVENT_READ, OP_READ);
		break;
	case EVENT_REPLY:
		if (!z || !z->known || !z->nonce)
			break;
		deliver_reply(c, z, z->record, RIPC__RESOLVE_REPLY, 0, z->nonce);
		break;
	case EVENT_EXPIRE:
		expired(cluster, e);
		break;
	default:
		break;
	}
}
