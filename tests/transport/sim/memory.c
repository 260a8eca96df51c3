/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Registered memory of the simulated network. Each access of a simulated device is checked here
 * when it happens.
 */
#define _GNU_SOURCE
#include "transport/sim/net.h"

#include "base/log.h"

#include <errno.h>
#include <stdlib.h>

int ripc__sim_pin(struct ripc__transport *t, const struct ripc__mr *mr)
{
	uint64_t limit = t->net->config.memlock;
	struct sim_region *region = mr ? mr->priv : NULL;

	/* A region that is not registered is reported by the access check. */
	if (!region || region->pinned)
		return 0;
	if (limit && t->pinned + region->len > limit)
		return ripc__fail(-ENOMEM, "sim: %zu bytes cannot be registered, %llu are pinned",
				  region->len, (unsigned long long)t->pinned);
	region->pinned = true;
	t->pinned += region->len;
	return 0;
}

int ripc__sim_reg(struct ripc__transport *t, struct ripc__ep *ep, void *base, size_t len,
		  unsigned access, struct ripc__mr *mr)
{
	struct ripc__sim *net = t->net;
	struct sim_region *region;

	if (!base || !len || (uintptr_t)base + len < (uintptr_t)base) {
		ripc__sim_report_violation(net, &net->counters.bad_call, t->node,
					   "reg() of no memory");
		return ripc__fail(-EINVAL, "sim: cannot register %zu bytes at %p", len, base);
	}
	net->regs++;
	if (net->fail_reg_at == net->regs || ripc__sim_random_bool(net, net->config.reg_failure))
		return ripc__fail(
			-ENOMEM, "sim: registration of %zu bytes fails, as the test wants it", len);
	region = calloc(1, sizeof(*region));
	if (!region)
		return ripc__fail(-ENOMEM, "sim: out of memory for a registration");
	region->base = base;
	region->len = len;
	region->access = access;
	region->alive = true;
	region->refs = 1;
	if (access & (RIPC__ACCESS_REMOTE_READ | RIPC__ACCESS_REMOTE_WRITE)) {
		/*
		 * The address differs from the local one and no key is used twice, so that a mix-up
		 * is detected.
		 */
		region->addr = ripc__sim_random(net) & UINT64_C(0x7ffffffff000);
		region->key = (uint32_t)((2 * net->regs + 1) * 2654435761u);
	}
	DL_APPEND(t->regions, region);
	net->counters.regions++;
	mr->base = base;
	mr->len = len;
	mr->addr = region->addr;
	mr->key = region->key;
	mr->access = access;
	mr->priv = region;
	if (ep && ripc__sim_pin(t, mr)) {
		ripc__sim_dereg(t, mr);
		return -ENOMEM;
	}
	return 0;
}

void ripc__sim_region_put(struct sim_region *region)
{
	if (region && !--region->refs)
		free(region);
}

void ripc__sim_dereg(struct ripc__transport *t, struct ripc__mr *mr)
{
	struct sim_region *region = mr->priv;

	if (!region || !region->alive) {
		ripc__sim_report_violation(t->net, &t->net->counters.bad_call, t->node,
					   "dereg() of what is not registered");
		return;
	}
	region->alive = false;
	if (region->pinned)
		t->pinned -= region->len;
	DL_DELETE(t->regions, region);
	t->net->counters.regions--;
	mr->priv = NULL;
	mr->key = 0;
	ripc__sim_region_put(region);
}

uint64_t ripc__sim_written(struct ripc__transport *t, const struct ripc__mr *mr)
{
	const struct sim_region *region = mr->priv;

	return region->written;
}

struct sim_region *ripc__sim_region_remote(struct ripc__transport *t, uint64_t raddr, uint32_t rkey,
					   size_t len, unsigned access)
{
	struct sim_region *region;

	DL_FOREACH (t->regions, region) {
		if (region->key != rkey || !rkey)
			continue;
		if (!(region->access & access) || raddr < region->addr ||
		    raddr - region->addr > region->len ||
		    len > region->len - (raddr - region->addr))
			return NULL;
		return region;
	}
	return NULL;
}

struct sim_region *ripc__sim_region_local(struct ripc__transport *t, const struct ripc__mr *mr,
					  const void *local, size_t len)
{
	struct sim_region *region = mr ? mr->priv : NULL;
	const uint8_t *p = local;

	if (!region || !region->alive || p < region->base ||
	    (size_t)(p - region->base) > region->len ||
	    len > region->len - (size_t)(p - region->base))
		return NULL;
	region->refs++;
	return region;
}
