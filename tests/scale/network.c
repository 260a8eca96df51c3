/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The crowd's network: who hears what is said, when, and what is lost. */
#include "world.h"

#include "resolver/cache.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BIN_NS (100 * RIPC__MS)
/* Of what is told by messages that nobody else is handed any more. */
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
static bool heard(const struct crowd *crowd, const struct message *m, const struct context *c)
{
	uint32_t chance = (uint32_t)world_hash(crowd->opt.seed, m->number, c->index);
	uint64_t lost = ((uint64_t)crowd->opt.loss_ppm << 32) / 1000000;
	unsigned side = m->at_ns < c->side_ns ? c->former_side : c->side;

	lost += m->drop - (lost * m->drop >> 32);
	return c->core && side == m->side && c->born_ns <= m->at_ns && chance >= lost;
}

/* When it is read there. */
static uint64_t read_ns(const struct crowd *crowd, const struct message *m, const struct context *c)
{
	uint64_t spread = crowd->opt.delay_max_ns - crowd->opt.delay_min_ns + 1;

	return m->at_ns + crowd->opt.delay_min_ns +
	       world_hash(crowd->opt.seed ^ 1, m->number, c->index) % spread;
}

static void hand(struct crowd *crowd, struct message *m, unsigned context)
{
	struct context *c = &crowd->contexts[context];

	if (context == m->sender)
		return;
	if (!heard(crowd, m, c)) {
		crowd->counts.heard_lost += m->drop && c->core && c->side == m->side;
		return;
	}
	m->refs++;
	world_push(crowd, &(struct event){.at_ns = read_ns(crowd, m, c),
					  .kind = EVENT_DATAGRAM,
					  .context = context,
					  .life = c->life,
					  .message = m});
}

static void count_to_all(struct crowd *crowd)
{
	uint64_t bin = crowd->now_ns / BIN_NS;

	if (bin != crowd->bin)
		crowd->in_bin = 0;
	crowd->bin = bin;
	if (++crowd->in_bin > crowd->counts.peak_all)
		crowd->counts.peak_all = crowd->in_bin;
}

/* One more datagram for every host of the side: what its queue cannot take is lost here and there. */
static void crowd_in(struct crowd *crowd, struct message *m)
{
	uint64_t room = crowd->opt.queue * crowd->opt.datagram_ns;
	uint64_t *busy_ns = &crowd->busy_ns[m->side];
	uint64_t waiting;

	if (*busy_ns < crowd->now_ns)
		*busy_ns = crowd->now_ns;
	waiting = *busy_ns - crowd->now_ns;
	if (waiting > room / 2) {
		uint64_t over = waiting - room / 2;

		m->drop = over >= room / 2 ? UINT32_MAX : (uint32_t)((over << 32) / (room / 2));
	}
	m->at_ns = crowd->now_ns + waiting + crowd->opt.datagram_ns;
	*busy_ns += crowd->opt.datagram_ns - (crowd->opt.datagram_ns * m->drop >> 32);
}

/* Whether it is in the cache of one who overhears everything and has no use for it. */
static bool typically_known(const struct crowd *crowd, uint64_t service)
{
	return crowd->typical[service] && crowd->nth - crowd->typical[service] < RIPC__CACHE_HEARD_MAX;
}

/* What everybody overhears: kept until it is no longer of use to anybody. */
static void keep_overheard(struct crowd *crowd, struct message *m)
{
	struct message **last = &crowd->overheard[m->record];
	unsigned depth = 0;

	if (m->kind == RIPC__RESOLVE_REQUEST && !typically_known(crowd, m->record))
		crowd->typical[m->record] = ++crowd->nth;
	m->refs++;
	m->former = *last;
	*last = m;
	for (struct message *at = m; at->former; at = at->former) {
		if (++depth < OVERHEARD_MAX && at->former->at_ns + RECORD_NS > crowd->now_ns)
			continue;
		network_release(at->former);
		at->former = NULL;
		break;
	}
}

static void to_all(struct crowd *crowd, struct message *m, uint64_t service)
{
	/* A question is for those who hold the service, or have held it; what is told of one is for all who care for it. */
	const struct group *asked = &crowd->holders[service], *cares = &crowd->interested[m->record];

	count_to_all(crowd);
	crowd_in(crowd, m);
	for (unsigned i = 0; i < asked->n; i++)
		if (asked->members[i] >= crowd->opt.witnesses &&
		    !world_is_interested(crowd, m->record, asked->members[i]))
			hand(crowd, m, asked->members[i]);
	for (unsigned i = 0; i < cares->n; i++)
		if (cares->members[i] >= crowd->opt.witnesses)
			hand(crowd, m, cares->members[i]);
	for (unsigned i = 0; i < crowd->opt.witnesses; i++)
		hand(crowd, m, i);
	if (m->record && (m->kind == RIPC__RESOLVE_REQUEST || m->kind == RIPC__RESOLVE_GONE))
		keep_overheard(crowd, m);
}

static void to_one(struct crowd *crowd, struct message *m, unsigned context)
{
	struct context *c = &crowd->contexts[context];
	uint64_t common =
		crowd->busy_ns[m->side] > crowd->now_ns ? crowd->busy_ns[m->side] - crowd->now_ns : 0;
	uint64_t own;

	if (c->busy_ns < crowd->now_ns)
		c->busy_ns = crowd->now_ns;
	own = c->busy_ns - crowd->now_ns;
	if (common + own > crowd->opt.queue * crowd->opt.datagram_ns) {
		crowd->counts.heard_lost++;
		return;
	}
	c->busy_ns += crowd->opt.datagram_ns;
	m->at_ns = crowd->now_ns + common + own + crowd->opt.datagram_ns;
	hand(crowd, m, context);
}

void network_send(void *arg, const struct ripc__sender *to, uint64_t service, const uint8_t *data,
		  size_t len)
{
	struct context *c = arg;
	struct crowd *crowd = c->crowd;
	struct ripc__resolver_msg msg;
	struct message *m;
	const char *why;
	unsigned target;

	if (ripc__resolver_msg_decode(&msg, data, len, &why)) {
		fprintf(stderr, "crowd: a core says nonsense: %s\n", why);
		exit(1);
	}
	if (crowd->ensemble) {
		ensemble_send(c, to, &msg);
		return;
	}
	m = world_zeroed(1, sizeof(*m) + len);
	m->refs = 1;
	m->sender = c->index;
	m->side = c->side;
	m->number = ++crowd->messages;
	m->record = msg.record.service;
	m->kind = msg.kind;
	m->len = len;
	memcpy(m->data, data, len);
	crowd->counts.bytes += len;
	if (to) {
		memcpy(&target, to->bytes, 4);
		crowd->counts.to_one[msg.kind]++;
		to_one(crowd, m, target);
	} else {
		crowd->counts.to_all[msg.kind]++;
		to_all(crowd, m, service);
	}
	network_release(m);
}

/* What the context has overheard of a service that it did not care for until now. */
void network_remember(struct crowd *crowd, struct context *c, uint64_t service)
{
	struct ripc__resolver_msg msg;
	uint8_t buf[RIPC__RESOLVER_MSG_MAX];
	const char *why;

	if (c->index < crowd->opt.witnesses || !typically_known(crowd, service))
		return;
	for (struct message *m = crowd->overheard[service]; m; m = m->former) {
		uint64_t at_ns;
		int len;

		if (!heard(crowd, m, c) || m->sender == c->index)
			continue;
		at_ns = read_ns(crowd, m, c);
		if (at_ns > crowd->now_ns) {
			hand(crowd, m, c->index);
			continue;
		}
		/* The last word on it was that there is none, or was so long ago that it is forgotten. */
		if (at_ns + RECORD_NS <= crowd->now_ns)
			return;
		if (m->kind == RIPC__RESOLVE_GONE ||
		    ripc__resolver_msg_decode(&msg, m->data, m->len, &why))
			return;
		/* Whatever it asked for: whoever could answer was handed it then. */
		msg.service = service;
		len = ripc__resolver_msg_encode(&msg, buf, sizeof(buf));
		if (len > 0)
			world_input(crowd, c, m->sender, buf, (size_t)len, at_ns);
		return;
	}
}
