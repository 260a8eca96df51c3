/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The cluster's network: receivers, times and losses of messages. */
#include "world.h"

#include "resolver/cache.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BIN_NS (100 * RIPC__MS)
/* Expiry of messages that are no longer delivered to others. */
#define RECORD_NS     (RIPC__TTL_MS * RIPC__MS)
#define OVERHEARD_MAX 16 /* messages kept for each service */

void network_release(struct message *m)
{
	while (m && !--m->refs) {
		struct message *former = m->former;

		free(m);
		m = former;
	}
}

/* Whether it reaches a context that was there when it was sent. */
static bool reaches(const struct cluster *cluster, const struct message *m, const struct context *c)
{
	uint32_t chance = (uint32_t)world_hash(cluster->opt.seed, m->number, c->index);
	uint64_t lost = ((uint64_t)cluster->opt.loss_ppm << 32) / 1000000;
	unsigned side = m->number <= c->side_messages ? c->former_side : c->side;

	lost += m->drop - (lost * m->drop >> 32);
	return c->core && side == m->side && m->number > c->started_messages && chance >= lost;
}

/* When it is read there. */
static uint64_t read_ns(const struct cluster *cluster, const struct message *m,
			const struct context *c)
{
	uint64_t spread = cluster->opt.delay_max_ns - cluster->opt.delay_min_ns + 1;

	return m->at_ns + cluster->opt.delay_min_ns +
	       world_hash(cluster->opt.seed ^ 1, m->number, c->index) % spread;
}

static void deliver(struct cluster *cluster, struct message *m, unsigned context)
{
	struct context *c = &cluster->contexts[context];

	if (context == m->sender)
		return;
	if (!reaches(cluster, m, c)) {
		cluster->counts.rx_dropped += m->drop && c->core && c->side == m->side;
		return;
	}
	m->refs++;
	world_push(cluster, &(struct event){.at_ns = read_ns(cluster, m, c),
					    .kind = EVENT_DATAGRAM,
					    .context = context,
					    .incarnation = c->incarnation,
					    .message = m});
}

static void count_to_all(struct cluster *cluster)
{
	uint64_t bin = cluster->now_ns / BIN_NS;

	if (bin != cluster->bin)
		cluster->in_bin = 0;
	cluster->bin = bin;
	if (++cluster->in_bin > cluster->counts.peak_all)
		cluster->counts.peak_all = cluster->in_bin;
}

/* One more datagram for every host of the side: each host loses it if its queue is full. */
static void enqueue(struct cluster *cluster, struct message *m)
{
	uint64_t room = cluster->opt.queue * cluster->opt.datagram_ns;
	uint64_t *busy_ns = &cluster->busy_ns[m->side];
	uint64_t waiting;

	if (*busy_ns < cluster->now_ns)
		*busy_ns = cluster->now_ns;
	waiting = *busy_ns - cluster->now_ns;
	if (waiting > room / 2) {
		uint64_t over = waiting - room / 2;

		m->drop = over >= room / 2 ? UINT32_MAX : (uint32_t)((over << 32) / (room / 2));
	}
	m->at_ns = cluster->now_ns + waiting + cluster->opt.datagram_ns;
	*busy_ns += cluster->opt.datagram_ns - (cluster->opt.datagram_ns * m->drop >> 32);
}

/* Whether it is in the cache of one who overhears everything and has no use for it. */
static bool typically_known(const struct cluster *cluster, uint64_t service)
{
	return cluster->typical[service] &&
	       cluster->nth - cluster->typical[service] < RIPC__CACHE_OVERHEARD_MAX;
}

/* Stores a broadcast for contexts that overhear it, until it is obsolete. */
static void keep_overheard(struct cluster *cluster, struct message *m)
{
	struct message **last = &cluster->overheard[m->record];
	unsigned depth = 0;

	if (m->kind == RIPC__RESOLVE_REQUEST && !typically_known(cluster, m->record))
		cluster->typical[m->record] = ++cluster->nth;
	m->refs++;
	m->former = *last;
	*last = m;
	for (struct message *at = m; at->former; at = at->former) {
		if (++depth < OVERHEARD_MAX && at->former->at_ns + RECORD_NS > cluster->now_ns)
			continue;
		network_release(at->former);
		at->former = NULL;
		break;
	}
}

static void to_all(struct cluster *cluster, struct message *m, uint64_t service)
{
	/*
	 * A request concerns present and former holders of the service; a record concerns all
	 * contexts interested in it.
	 */
	const struct group *asked = &cluster->holders[service],
			   *cares = &cluster->interested[m->record];

	count_to_all(cluster);
	enqueue(cluster, m);
	for (unsigned i = 0; i < asked->n; i++)
		if (asked->members[i] >= cluster->opt.observers &&
		    !world_is_interested(cluster, m->record, asked->members[i]))
			deliver(cluster, m, asked->members[i]);
	for (unsigned i = 0; i < cares->n; i++)
		if (cares->members[i] >= cluster->opt.observers)
			deliver(cluster, m, cares->members[i]);
	for (unsigned i = 0; i < cluster->opt.observers; i++)
		deliver(cluster, m, i);
	if (m->record && (m->kind == RIPC__RESOLVE_REQUEST || m->kind == RIPC__RESOLVE_GONE))
		keep_overheard(cluster, m);
}

static void to_one(struct cluster *cluster, struct message *m, unsigned context)
{
	struct context *c = &cluster->contexts[context];
	uint64_t common = cluster->busy_ns[m->side] > cluster->now_ns
				  ? cluster->busy_ns[m->side] - cluster->now_ns
				  : 0;
	uint64_t own;

	if (c->busy_ns < cluster->now_ns)
		c->busy_ns = cluster->now_ns;
	own = c->busy_ns - cluster->now_ns;
	if (common + own > cluster->opt.queue * cluster->opt.datagram_ns) {
		cluster->counts.rx_dropped++;
		return;
	}
	c->busy_ns += cluster->opt.datagram_ns;
	m->at_ns = cluster->now_ns + common + own + cluster->opt.datagram_ns;
	deliver(cluster, m, context);
}

void network_send(void *arg, const struct ripc__backend_addr *to, uint64_t service,
		  const uint8_t *data, size_t len)
{
	struct context *c = arg;
	struct cluster *cluster = c->cluster;
	struct ripc__resolver_msg msg;
	struct message *m;
	const char *why;
	unsigned target;

	if (ripc__resolver_msg_decode(&msg, data, len, &why)) {
		fprintf(stderr, "cluster: a core sent a malformed message: %s\n", why);
		exit(1);
	}
	if (cluster->ensemble) {
		ensemble_send(c, to, &msg);
		return;
	}
	m = world_zeroed(1, sizeof(*m) + len);
	m->refs = 1;
	m->sender = c->index;
	m->side = c->side;
	m->number = ++cluster->messages;
	m->record = msg.record.service;
	m->kind = msg.kind;
	m->len = len;
	memcpy(m->data, data, len);
	cluster->counts.bytes += len;
	if (to) {
		memcpy(&target, to->bytes, 4);
		cluster->counts.to_one[msg.kind]++;
		to_one(cluster, m, target);
	} else {
		cluster->counts.to_all[msg.kind]++;
		to_all(cluster, m, service);
	}
	network_release(m);
}

/* The records that the context has overheard of a service new to it. */
void network_store_record(struct cluster *cluster, struct context *c, uint64_t service)
{
	struct ripc__resolver_msg msg;
	uint8_t buf[RIPC__RESOLVER_MSG_MAX];
	const char *why;

	if (c->index < cluster->opt.observers || !typically_known(cluster, service))
		return;
	for (struct message *m = cluster->overheard[service]; m; m = m->former) {
		uint64_t at_ns;
		int len;

		if (!reaches(cluster, m, c) || m->sender == c->index)
			continue;
		at_ns = read_ns(cluster, m, c);
		if (at_ns > cluster->now_ns) {
			deliver(cluster, m, c->index);
			continue;
		}
		/*
		 * The last word on it was that there is none, or was so long ago that it is
		 * forgotten.
		 */
		if (at_ns + RECORD_NS <= cluster->now_ns)
			return;
		if (m->kind == RIPC__RESOLVE_GONE ||
		    ripc__resolver_msg_decode(&msg, m->data, m->len, &why))
			return;
		/* Its own request: contexts that could answer have reaches it already. */
		msg.service = service;
		len = ripc__resolver_msg_encode(&msg, buf, sizeof(buf));
		if (len > 0)
			world_input(cluster, c, m->sender, buf, (size_t)len, at_ns);
		return;
	}
}
