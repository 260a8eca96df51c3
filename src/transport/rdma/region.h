/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Memory registered with devices: reg() and dereg() of the vtable. A region without an endpoint has
 * local access only, and is registered with each device on first use.
 */
#ifndef RIPC_RDMA_REGION_H
#define RIPC_RDMA_REGION_H

#include "base/list.h"
#include "transport/transport.h"
#include "transport/rdma/device.h"

/* Frees a list of regions. Call before the devices are closed, after the last endpoint. */
void ripc__verbs_regions_fini(struct ripc__list *regions);

/*
 * Deregisters all regions from a device that is gone or about to be closed; they stay until
 * dereg().
 */
void ripc__verbs_regions_invalidate(struct ripc__list *regions, struct ripc__verbs_device *d);

/*
 * Fills mr. @d: the device of the endpoint, or NULL: any, local access only. Return: 0, or a
 * negative errno, explained: with size, limit and usage if locked memory ran out.
 */
int ripc__verbs_reg(struct ripc__list *regions, struct ripc__verbs_device *d, void *base,
		    size_t len, unsigned access, struct ripc__mr *mr);
/* dereg() of the vtable. */
void ripc__verbs_dereg(struct ripc__transport *t, struct ripc__mr *mr);

/*
 * The local key of mr on a device; registers it on first use. Return: 0, or a negative errno,
 * explained.
 */
int ripc__verbs_lkey(struct ripc__verbs_device *d, const struct ripc__mr *mr, uint32_t *lkey);

/* ibv_reg_mr() with the same explanation. @access: IBV_ACCESS_*. *mr is NULL after an error. */
int ripc__verbs_reg_mr(struct ripc__verbs_device *d, void *base, size_t len, int access,
		       struct ibv_mr **mr);

#endif
