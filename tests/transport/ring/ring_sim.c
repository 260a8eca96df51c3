/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ring_sim.h"
#include "core/progress/transports.h"
#include "sim_ntb.h"
#include "transport/shm/shm.h"

#include <stdatomic.h>
#include <stdlib.h>

#define TRANSPORT_ID 254 /* in resolver records, doc/protocol.md section 4 */

static struct ripc__transport_ops ops;
static atomic_ullong seed; /* of the next link */

static void *link_open(void)
{
	return calloc(1, sizeof(struct ripc__sim_ntb));
}

static void link_map(void *link, uint8_t *target, size_t len)
{
	ripc__sim_ntb_init(link, target, len, seed++);
}

static void link_start(struct shm_ep *ep, struct ripc__ring_backend *be)
{
	struct ripc__sim_ntb *l = ep->link;

	l->kick = ripc__shm_kick;
	l->kick_arg = ep;
	be->ops = &ripc__sim_ntb_ops;
	be->arg = l;
}

static bool link_step(void *link)
{
	return ripc__sim_ntb_step_random(link);
}

static bool link_busy(const void *link)
{
	return ((const struct ripc__sim_ntb *)link)->count;
}

static uint8_t *link_close(void *link)
{
	struct ripc__sim_ntb *l = link;
	uint8_t *target = l->target;

	while (ripc__sim_ntb_step(l, 1000))
		;
	ripc__sim_ntb_fini(l);
	free(l);
	return target;
}

static const struct shm_link_ops links = {
	.open = link_open,
	.map = link_map,
	.start = link_start,
	.step = link_step,
	.busy = link_busy,
	.close = link_close,
};

static int sim_open(struct ripc__transport **tr, const struct ripc__transport_env *env)
{
	const char *text = getenv("RIPC_TEST_LINK_SEED");

	seed = text ? strtoull(text, NULL, 0) : 1;
	return ripc__shm_open(tr, env, &ops, RIPC__CAP_WRITE, &links);
}

const struct ripc__transport_ops *ring_sim(void)
{
	ops = ripc__transport_shm;
	ops.name = "ring/sim";
	ops.id = TRANSPORT_ID;
	ops.open = sim_open;
	ripc__test_transport = &ops;
	return &ops;
}
