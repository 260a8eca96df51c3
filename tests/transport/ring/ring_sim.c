/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ring_sim.h"
#include "base/clock.h"
#include "core/progress/transports.h"
#include "sim_ntb.h"
#include "transport/shm/shm.h"

#include <stdatomic.h>
#include <stdlib.h>

#define TRANSPORT_ID 254      /* in resolver records, doc/protocol.md section 4 */
#define LOST_KICK_NS RIPC__MS /* the longest sleep: a kick may arrive before the bytes */

/* The mapping of the peer's segment is taken from an open endpoint and given to a link. */
struct sim_ep {
	struct shm_ep shm;
	struct ripc__sim_ntb *link; /* NULL: not open yet */
};

static struct ripc__transport_ops ops;
static struct ripc__ring_setup_ops setup;
static atomic_ullong seed; /* of the next link */

static struct sim_ep *sim_ep(struct ripc__ep *ep)
{
	return (struct sim_ep *)ep;
}

static void kick(void *ep)
{
	ripc__shm_ops.kick(ep);
}

/* Return: whether there is memory. The hello was written already. */
static bool link_open(struct ripc__ep *ep)
{
	struct ripc__ring *w = &ep->ring;
	struct ripc__sim_ntb *l = malloc(sizeof(*l));

	if (!l)
		return false;
	ripc__sim_ntb_init(l, w->be.map, ripc__ring_segment_len(&w->layout), seed++);
	l->kick = kick;
	l->kick_arg = ep;
	w->be.ops = &ripc__sim_ntb_ops;
	w->be.arg = l;
	w->be.map = NULL;
	w->direct_store = false;
	sim_ep(ep)->link = l;
	return true;
}

/* The last messages arrive before the socket closes. */
static void sim_release(struct ripc__ep *ep)
{
	struct ripc__sim_ntb *l = sim_ep(ep)->link;

	if (l) {
		while (ripc__sim_ntb_step(l, 1000))
			;
		ep->ring.be.map = l->target;
		ripc__sim_ntb_fini(l);
		free(l);
		sim_ep(ep)->link = NULL;
	}
	ripc__shm_setup.release(ep);
}

static int sim_accept(struct ripc__ep *ep, const void *priv, size_t privlen)
{
	int rc = ripc__shm_setup.accept(ep, priv, privlen);

	return rc ? rc : link_open(ep) ? 0 : -ENOMEM;
}

static unsigned sim_progress(struct ripc__transport *tr, struct ripc__event *events, unsigned max,
			     uint64_t now_ns, uint64_t *deadline_ns)
{
	struct ripc__transport *r = (struct ripc__transport *)tr;
	unsigned n = ripc__transport_shm.progress(tr, events, max, now_ns, deadline_ns);
	struct ripc__ep *ep;

	ripc__list_for_each_entry (ep, &r->eps, link) {
		uint64_t next = now_ns + LOST_KICK_NS;

		if (ep->state != RIPC__EP_OPEN)
			continue;
		if ((!sim_ep(ep)->link && !link_open(ep)) ||
		    ripc__sim_ntb_step_random(sim_ep(ep)->link))
			next = now_ns;
		if (next < *deadline_ns)
			*deadline_ns = next;
	}
	return n;
}

static int sim_arm(struct ripc__transport *tr)
{
	struct ripc__transport *r = (struct ripc__transport *)tr;
	struct ripc__ep *ep;

	ripc__list_for_each_entry (ep, &r->eps, link)
		if (sim_ep(ep)->link && sim_ep(ep)->link->count)
			return 1;
	return ripc__transport_shm.arm(tr);
}

/* Posts arrive with passes. */
static int sim_post(struct ripc__ep *ep, const void *head, size_t head_len,
		    const struct iovec *items, unsigned n, bool more)
{
	int rc = ripc__transport_shm.post(ep, head, head_len, items, n, more);

	return rc >= 0 ? 1 : rc;
}

static int sim_open(struct ripc__transport **tr, const struct ripc__transport_env *env)
{
	const char *text = getenv("RIPC_TEST_LINK_SEED");
	int rc = ripc__transport_shm.open(tr, env);
	struct shm *t = (struct shm *)*tr;

	if (rc)
		return rc;
	seed = text ? strtoull(text, NULL, 0) : 1;
	t->r.ops = &ops;
	t->r.setup = &setup;
	t->r.caps = (t->r.caps & ~(unsigned)RIPC__CAP_EXPORT) | RIPC__CAP_WRITE;
	t->r.may_idle = false;
	t->zero_copy = false;
	return 0;
}

const struct ripc__transport_ops *ring_sim(void)
{
	setup = ripc__shm_setup;
	setup.ep_size = sizeof(struct sim_ep);
	setup.accept = sim_accept;
	setup.release = sim_release;
	ops = ripc__transport_shm;
	ops.name = "ring/sim";
	ops.id = TRANSPORT_ID;
	ops.open = sim_open;
	ops.progress = sim_progress;
	ops.arm = sim_arm;
	ops.post = sim_post;
	ops.poll_one = NULL;
	ripc__test_transport = &ops;
	return &ops;
}
