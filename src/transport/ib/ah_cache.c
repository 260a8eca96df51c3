/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Address handles of peer ports, cached by local port and peer port. */
#include "base/log.h"
#include "transport/ib/ib.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define RESOLVING_MAX 256u                 /* entries that resolve at the same time */
#define FAILED_NS     UINT64_C(1000000000) /* pause before a failed entry is resolved again */

#define TO(state) (1u << IB_AH_##state)

/* The states that may follow each state. */
__attribute__((unused)) static const unsigned next_states[IB_AH_STATES] = {
	[IB_AH_NEW] = TO(RESOLVING),
	[IB_AH_RESOLVING] = TO(READY) | TO(FAILED),
	[IB_AH_READY] = TO(FAILED),
	[IB_AH_FAILED] = TO(RESOLVING),
};

void ripc__ib_ah_set_state(struct ib_ah_entry *r, enum ib_ah_state to)
{
	assert(next_states[r->state] & 1u << to);
	r->state = to;
}

/* Whether a GRH is needed: InfiniBand subnets differ in their GID prefix. */
static bool routed(const struct ib_port *port, const struct ripc__ib_port_addr *port_addr)
{
	static const uint8_t none[16];

	if (port_addr->link != RIPC__IB_LINK_IB)
		return true;
	return memcmp(port_addr->gid, none, 16) && memcmp(port->port_addr.gid, port_addr->gid, 8);
}

void ripc__ib_ah_attr(const struct ib_port *port, const struct ripc__ib_port_addr *port_addr,
		      struct ibv_ah_attr *attr)
{
	*attr = (struct ibv_ah_attr){
		.dlid = port_addr->lid,
		.port_num = port->num,
		.is_global = routed(port, port_addr),
		.grh = {.sgid_index = port->gid_index, .hop_limit = 64},
	};
	memcpy(attr->grh.dgid.raw, port_addr->gid, 16);
}

static void make_key(struct ib_ah_key *key, const struct ib_port *port,
		     const struct ripc__ib_port_addr *port_addr)
{
	memset(key, 0, sizeof(*key));
	key->port = (uint32_t)(port - port->t->ports);
	key->qpn = port_addr->qpn;
	key->lid = port_addr->lid;
	key->link = port_addr->link;
	if (routed(port, port_addr))
		memcpy(key->gid, port_addr->gid, 16);
}

struct ib_ah_entry *ripc__ib_ah_find(struct ripc__transport *t, const struct ib_port *port,
				     const struct ripc__ib_port_addr *port_addr)
{
	struct ib_ah_key key;
	struct ib_ah_entry *r;

	make_key(&key, port, port_addr);
	HASH_FIND(hh, t->ah_cache, &key, sizeof(key), r);
	if (r)
		r->used = true;
	return r;
}

/* In a thread: over RoCE the kernel resolves the neighbour. */
static int create_ah(struct ripc__verbs_job *job)
{
	struct ib_ah_entry *r = (struct ib_ah_entry *)job;
	struct ibv_ah_attr attr;

	ripc__ib_ah_attr(r->port, &r->port_addr, &attr);
	errno = 0;
	r->ah = ibv_create_ah(r->port->d->v.pd, &attr);
	return r->ah ? 0 : errno ? -errno : -EHOSTUNREACH;
}

static void ah_created(struct ripc__verbs_job *job, int result)
{
	struct ib_ah_entry *r = (struct ib_ah_entry *)job;
	struct ripc__transport *t = r->port->t;

	t->nresolving--;
	ripc__ib_ah_set_state(r, result ? IB_AH_FAILED : IB_AH_READY);
	r->error = result;
	r->failed_ns = t->now_ns;
	/* Wire-ups wait for this entry. */
	t->next_timer_ns = 0;
}

static int ah_resolve(struct ib_ah_entry *r)
{
	struct ripc__transport *t = r->port->t;
	int rc;

	if (t->nresolving >= RESOLVING_MAX)
		return ripc__fail(-EBUSY, "ib: cannot resolve another peer: %u are being resolved",
				  t->nresolving);
	r->job.work = create_ah;
	r->job.done = ah_created;
	rc = ripc__verbs_job_start(&t->jobs, &r->job);
	if (rc)
		return rc;
	ripc__ib_ah_set_state(r, IB_AH_RESOLVING);
	t->nresolving++;
	return 0;
}

static void ah_free(struct ripc__transport *t, struct ib_ah_entry *r)
{
	HASH_DEL(t->ah_cache, r);
	t->route_gen++;
	if (r->ah)
		ibv_destroy_ah(r->ah);
	free(r);
}

/* Whether a work request may refer to the address handle, which must outlive its completion. */
static bool in_flight(const struct ib_ah_entry *r)
{
	return r->sent && (int32_t)(r->sent_upto - r->port->sendq.head) > 0;
}

/* Frees entries that have no connection and were not used since the last eviction. */
static void ah_cache_evict(struct ripc__transport *t)
{
	struct ib_ah_entry *r, *tmp;

	HASH_ITER (hh, t->ah_cache, r, tmp) {
		if (!r->used && !r->eps && r->state != IB_AH_RESOLVING && !in_flight(r))
			ah_free(t, r);
		else
			r->used = false;
	}
}

struct ib_ah_entry *ripc__ib_ah_get(struct ripc__transport *t, struct ib_port *port,
				    const struct ripc__ib_port_addr *port_addr)
{
	struct ib_ah_entry *r = ripc__ib_ah_find(t, port, port_addr);

	if (r) {
		r->port_addr.qkey = port_addr->qkey;
		if (r->state == IB_AH_FAILED && t->now_ns - r->failed_ns > FAILED_NS)
			ah_resolve(r);
		return r;
	}
	/* The first eviction may only mark them. */
	for (unsigned i = 0; i < 2 && HASH_COUNT(t->ah_cache) >= IB_AH_CACHE_MAX; i++)
		ah_cache_evict(t);
	if (HASH_COUNT(t->ah_cache) >= IB_AH_CACHE_MAX) {
		ripc__fail(-ENOBUFS, "ib: address handle cache full: %u entries are in use",
			   HASH_COUNT(t->ah_cache));
		return NULL;
	}
	r = calloc(1, sizeof(*r));
	if (!r) {
		ripc__fail(-ENOMEM, "ib: out of memory");
		return NULL;
	}
	r->port = port;
	r->port_addr = *port_addr;
	r->used = true;
	make_key(&r->key, port, port_addr);
	HASH_ADD(hh, t->ah_cache, key, sizeof(r->key), r);
	if (!r->hh.tbl) {
		free(r);
		ripc__fail(-ENOMEM, "ib: out of memory");
		return NULL;
	}
	if (ah_resolve(r)) {
		ah_free(t, r);
		return NULL;
	}
	return r;
}

bool ripc__ib_ah_cache_invalidate(const struct ib_port *port)
{
	struct ripc__transport *t = port->t;
	struct ib_ah_entry *r, *tmp;

	HASH_ITER (hh, t->ah_cache, r, tmp)
		if (r->port == port && r->state == IB_AH_RESOLVING)
			return false;
	t->route_gen++;
	HASH_ITER (hh, t->ah_cache, r, tmp) {
		if (r->port != port)
			continue;
		if (r->ah)
			ibv_destroy_ah(r->ah);
		r->ah = NULL;
		if (r->state == IB_AH_READY)
			ripc__ib_ah_set_state(r, IB_AH_FAILED);
		r->error = port->d->v.gone ? -ENODEV : -EADDRNOTAVAIL;
		r->sent = false;
		/* The next connection resolves it again at once. */
		r->failed_ns = 0;
	}
	return true;
}

void ripc__ib_ah_cache_close(struct ripc__transport *t)
{
	struct ib_ah_entry *r, *tmp;

	HASH_ITER (hh, t->ah_cache, r, tmp)
		ah_free(t, r);
}
