/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Address handles: the ports of others, as reached from ports of ours. */
#include "base/log.h"
#include "transport/ib/ib.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define LOOKING_MAX 256u                 /* that look for their way at the same time */
#define FAILED_NS   UINT64_C(1000000000) /* after that a failed one is looked for again */

bool ripc__ib_pair(struct ib *t, const struct ripc__ib_address *a, unsigned n,
		   struct ib_port **port, const struct ripc__ib_place **place)
{
	for (unsigned i = 0; i < a->count; i++)
		for (unsigned k = 0; k < t->nports; k++) {
			struct ib_port *p = &t->ports[k];

			if (p->down || !ripc__ib_reaches(&p->place, &a->places[i]) || n--)
				continue;
			*port = p;
			*place = &a->places[i];
			return true;
		}
	return false;
}

/* Whether the way leads through a router: InfiniBand subnets have different prefixes. */
static bool routed(const struct ib_port *port, const struct ripc__ib_place *place)
{
	static const uint8_t none[16];

	if (place->link != RIPC__IB_LINK_IB)
		return true;
	return memcmp(place->gid, none, 16) && memcmp(port->place.gid, place->gid, 8);
}

void ripc__ib_ah_attr(const struct ib_port *port, const struct ripc__ib_place *place,
		      struct ibv_ah_attr *attr)
{
	*attr = (struct ibv_ah_attr){
		.dlid = place->lid,
		.port_num = port->num,
		.is_global = routed(port, place),
		.grh = {.sgid_index = port->gid_index, .hop_limit = 64},
	};
	memcpy(attr->grh.dgid.raw, place->gid, 16);
}

static void make_key(struct ib_remote_key *key, const struct ib_port *port,
		     const struct ripc__ib_place *place)
{
	memset(key, 0, sizeof(*key));
	key->port = (uint32_t)(port - port->t->ports);
	key->qpn = place->qpn;
	key->lid = place->lid;
	key->link = place->link;
	if (routed(port, place))
		memcpy(key->gid, place->gid, 16);
}

struct ib_remote *ripc__ib_remote_find(struct ib *t, const struct ib_port *port,
				       const struct ripc__ib_place *place)
{
	struct ib_remote_key key;
	struct ib_remote *r;

	make_key(&key, port, place);
	HASH_FIND(hh, t->remotes, &key, sizeof(key), r);
	if (r)
		r->used = true;
	return r;
}

/* In a thread: with RoCE this waits for the neighbour's answer. */
static int look(struct ripc__ib_job *job)
{
	struct ib_remote *r = (struct ib_remote *)job;
	struct ibv_ah_attr attr;

	ripc__ib_ah_attr(r->port, &r->place, &attr);
	errno = 0;
	r->ah = ibv_create_ah(r->port->d->v.pd, &attr);
	return r->ah ? 0 : errno ? -errno : -EHOSTUNREACH;
}

static void found(struct ripc__ib_job *job, int result)
{
	struct ib_remote *r = (struct ib_remote *)job;
	struct ib *t = r->port->t;

	t->nlooking--;
	r->state = result ? IB_REMOTE_FAILED : IB_REMOTE_READY;
	r->error = result;
	r->failed_ns = t->now_ns;
	ripc__ib_remote_settled(r);
}

static int start_looking(struct ib_remote *r)
{
	struct ib *t = r->port->t;
	int rc;

	if (t->nlooking >= LOOKING_MAX)
		return ripc__fail(-EBUSY, "ib: the ways to %u peers are being looked for already",
				  t->nlooking);
	r->job.work = look;
	r->job.done = found;
	r->state = IB_REMOTE_LOOKING;
	rc = ripc__ib_worker_start(&t->worker, &r->job);
	if (!rc)
		t->nlooking++;
	return rc;
}

static void remote_free(struct ib *t, struct ib_remote *r)
{
	HASH_DEL(t->remotes, r);
	t->nremotes--;
	t->changes++;
	if (r->ah)
		ibv_destroy_ah(r->ah);
	free(r);
}

/* Those not used since the last time go, if nothing hangs on them. */
static void make_room(struct ib *t)
{
	struct ib_remote *r, *tmp;

	HASH_ITER (hh, t->remotes, r, tmp) {
		if (!r->used && !r->eps && r->state != IB_REMOTE_LOOKING)
			remote_free(t, r);
		else
			r->used = false;
	}
}

struct ib_remote *ripc__ib_remote_get(struct ib *t, struct ib_port *port,
				      const struct ripc__ib_place *place)
{
	struct ib_remote *r = ripc__ib_remote_find(t, port, place);

	if (r) {
		r->place.qkey = place->qkey;
		if (r->state == IB_REMOTE_FAILED && t->now_ns - r->failed_ns > FAILED_NS)
			start_looking(r);
		return r;
	}
	if (t->nremotes >= IB_REMOTES_MAX)
		make_room(t);
	if (t->nremotes >= IB_REMOTES_MAX)
		make_room(t);
	if (t->nremotes >= IB_REMOTES_MAX) {
		ripc__fail(-ENOBUFS, "ib: connections to %u peers", t->nremotes);
		return NULL;
	}
	r = calloc(1, sizeof(*r));
	if (!r) {
		ripc__fail(-ENOMEM, "ib: out of memory");
		return NULL;
	}
	r->port = port;
	r->place = *place;
	r->used = true;
	make_key(&r->key, port, place);
	HASH_ADD(hh, t->remotes, key, sizeof(r->key), r);
	if (!r->hh.tbl) {
		free(r);
		ripc__fail(-ENOMEM, "ib: out of memory");
		return NULL;
	}
	t->nremotes++;
	if (start_looking(r)) {
		remote_free(t, r);
		return NULL;
	}
	return r;
}

bool ripc__ib_remotes_lose(struct ib *t, const struct ib_device *d)
{
	struct ib_remote *r, *tmp;

	HASH_ITER (hh, t->remotes, r, tmp)
		if (r->port->d == d && r->state == IB_REMOTE_LOOKING)
			return false;
	t->changes++;
	HASH_ITER (hh, t->remotes, r, tmp) {
		if (r->port->d != d)
			continue;
		if (r->ah)
			ibv_destroy_ah(r->ah);
		r->ah = NULL;
		r->state = IB_REMOTE_FAILED;
		r->error = -ENODEV;
	}
	return true;
}

void ripc__ib_remotes_close(struct ib *t)
{
	struct ib_remote *r, *tmp;

	HASH_ITER (hh, t->remotes, r, tmp)
		remote_free(t, r);
}
