/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What the core does with an endpoint of pcie: memory, posts, the end. And the back end of the
 * engine.
 */
#include "base/log.h"
#include "transport/pcie/pcie.h"

#include <errno.h>
#include <stddef.h>

/* ---- the back end ---- */

static void pcie_fence(void *arg)
{
	struct ripc__ep *ep = arg;

	ripc__pcie_fence(&ep->t->memory);
}

/* Whoever cannot be rung wakes by himself to look. */
static void pcie_kick(void *arg)
{
	struct ripc__ep *ep = arg;

	ripc__pcie_wake(ep->t, ep->peer);
}

const struct ripc__ring_backend_ops ripc__pcie_ops = {.fence = pcie_fence, .kick = pcie_kick};

static void no_copy(void *arg, uint64_t at, const void *src, size_t len)
{
}

static void no_kick(void *arg)
{
}

static const struct ripc__ring_backend_ops no_write_ops = {
	.copy = no_copy, .fence = pcie_fence, .kick = no_kick};

void ripc__pcie_stop_writes(struct ripc__ep *ep)
{
	ep->ring.be.map = NULL;
	ep->ring.be.ops = &no_write_ops;
}

/* ---- memory ---- */

int ripc__pcie_reg(struct ripc__transport *tr, struct ripc__ep *ep, void *base, size_t len,
		   unsigned access, struct ripc__mr *mr)
{
	struct pcie *t = (struct pcie *)tr;
	struct ripc__ring_region *region = NULL;

	if (access & (RIPC__ACCESS_REMOTE_READ | RIPC__ACCESS_REMOTE_WRITE)) {
		if (!ep || ep->state != PCIE_OPEN)
			return ripc__fail(-ENOTCONN, "pcie: no connection to expose memory to");
		region = ripc__ring_reg(&ep->ring, base, len, access);
		if (!region)
			return ripc__fail(-ENOMEM,
					  "pcie: out of memory, or %u regions are exposed to "
					  "one peer",
					  RIPC__RING_REGIONS_MAX);
		region->next = t->regions;
		region->at = &t->regions;
		if (region->next)
			region->next->at = &region->next;
		t->regions = region;
	}
	*mr = (struct ripc__mr){
		.base = base,
		.len = len,
		.addr = region ? region->addr : 0,
		.key = region ? region->key : 0,
		.access = access,
		.priv = region,
	};
	return 0;
}

void ripc__pcie_dereg(struct ripc__transport *tr, struct ripc__mr *mr)
{
	struct ripc__ring_region *region = mr->priv;

	mr->priv = NULL;
	mr->key = 0;
	if (!region)
		return;
	*region->at = region->next;
	if (region->next)
		region->next->at = region->at;
	/* Nobody reads but through the ring, so that nothing needs to be told to the peer. */
	ripc__ring_region_remove(region);
}

/* ---- posts ---- */

int ripc__pcie_post(struct ripc__ep *ep, const void *head, size_t head_len,
		    const struct iovec *items, unsigned n, bool more)
{
	struct iovec all[1 + RIPC__POST_ITEMS_MAX];
	size_t len;

	if (ep->state != PCIE_OPEN)
		return -ENOTCONN;
	len = ripc__post_gather(all, head, head_len, items, n);
	return ripc__ring_send(&ep->ring, all, 1 + n, len, false);
}

static bool local_range(const struct ripc__mr *mr, const void *local, size_t len)
{
	uintptr_t base = (uintptr_t)mr->base, at = (uintptr_t)local;

	return !len || (at >= base && at - base <= mr->len && len <= mr->len - (at - base));
}

int ripc__pcie_post_write(struct ripc__ep *ep, const struct ripc__mr *mr, const void *local,
			  size_t len, uint64_t raddr, uint32_t rkey, uint64_t wr_id)
{
	if (ep->state != PCIE_OPEN)
		return -ENOTCONN;
	if (!local_range(mr, local, len))
		return -EINVAL;
	return ripc__ring_write(&ep->ring, local, len, raddr, rkey, wr_id);
}

int ripc__pcie_post_read(struct ripc__ep *ep, const struct ripc__mr *mr, void *local, size_t len,
			 uint64_t raddr, uint32_t rkey, uint64_t wr_id)
{
	if (ep->state != PCIE_OPEN)
		return -ENOTCONN;
	if (!local_range(mr, local, len))
		return -EINVAL;
	return ripc__ring_read(&ep->ring, local, len, raddr, rkey, wr_id);
}

void ripc__pcie_ep_close(struct ripc__ep *ep)
{
	if (ep->state == PCIE_OPEN)
		ripc__ring_send_bye(&ep->ring);
	ripc__pcie_defer_free(ep);
}
