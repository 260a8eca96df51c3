/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Devices: listening at their addresses, completion queues, buffers, removal. */
#include "base/clock.h"
#include "base/log.h"
#include "transport/iwarp/verbs/verbs.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BACKLOG        128
#define PORT_TRIES     16  /* librdmacm chooses a port that TCP may use already */
#define RECV_SLAB      36u /* buffers by which a pool grows: receives of two connections */
#define SMALL_SLAB     256u
#define STALE_RETRY_MS 100
#define STALE_TRIES    100
#define BUFS_MAX       (1u << 17)

struct iwv_device *ripc__iwv_device_find(struct ripc__transport *t, const struct ibv_context *ctx)
{
	for (unsigned i = 0; i < t->nnics; i++)
		if (t->nic[i]->dev.ctx && t->nic[i]->dev.ctx == ctx)
			return t->nic[i];
	return NULL;
}

struct ripc__verbs_cq *ripc__iwv_device_cq(struct iwv_device *nic, uint32_t n)
{
	struct ripc__verbs_cq *cq;

	for (unsigned i = 0; i < nic->ncqs; i++) {
		cq = &nic->cq[i];
		if (cq->entries - cq->reserved >= n && !ripc__verbs_cq_reserve(cq, n))
			return cq;
	}
	if (nic->ncqs == NIC_CQS_MAX) {
		ripc__fail(-ENOBUFS,
			   "%s: cannot create another completion queue: limit of %u reached",
			   nic->dev.name, NIC_CQS_MAX);
		return NULL;
	}
	cq = &nic->cq[nic->ncqs];
	if (ripc__verbs_cq_init(cq, &nic->dev, NIC_CQ_ENTRIES))
		return NULL;
	if (iwv_watch(nic->t, cq->channel->fd, IWV_CQ, 0)) {
		ripc__verbs_cq_fini(cq);
		return NULL;
	}
	nic->ncqs++;
	return ripc__verbs_cq_reserve(cq, n) ? NULL : cq;
}

/*
 * Frees all objects on the device except listeners, whose identifiers keep librdmacm's context
 * open.
 */
static void nic_empty(struct iwv_device *nic)
{
	struct ripc__transport *t = nic->t;

	if (!nic->dev.ctx)
		return;
	t->active = NULL;
	for (unsigned i = 0; i < nic->ncqs; i++) {
		epoll_ctl(t->epoll_fd, EPOLL_CTL_DEL, nic->cq[i].channel->fd, NULL);
		ripc__verbs_cq_fini(&nic->cq[i]);
	}
	nic->ncqs = 0;
	ripc__verbs_regions_invalidate(&t->regions, &nic->dev);
	/* The core may still read received data, so the memory stays until close. */
	ripc__verbs_pool_invalidate(&nic->big);
	ripc__verbs_pool_invalidate(&nic->small);
	ripc__verbs_device_close(&nic->dev);
}

void ripc__iwv_device_free(struct iwv_device *nic)
{
	struct ripc__transport *t = nic->t;

	if (!nic->dev.gone || nic->nconns || !nic->dev.ctx)
		return;
	t->stale = nic->dev.ctx;
	snprintf(t->stale_path, sizeof(t->stale_path), "%s", nic->dev.ctx->device->dev_path);
	t->stale_tries = STALE_TRIES;
	t->stale_ns = t->next_timer_ns = t->now_ns;
	nic_empty(nic);
	ripc__iwarp_unlisten(&t->listen, nic);
}

/*
 * Makes librdmacm close the context of a removed device: the kernel completes the removal only
 * then. rdma_get_devices() is called when the device file is gone, because librdmacm closes the
 * context when it lists the devices after that. Each call also references all devices of the
 * process for a moment; contexts that others release in that time stay open.
 */
void ripc__iwv_stale_close(struct ripc__transport *t)
{
	struct ibv_context **all;
	bool there;
	int n = 0;

	if (!t->stale || t->now_ns < t->stale_ns)
		return;
	there = !access(t->stale_path, F_OK);
	all = there ? NULL : rdma_get_devices(&n);
	for (int i = 0; all && i < n; i++)
		there |= all[i] == t->stale;
	if (all)
		rdma_free_devices(all);
	if (there && --t->stale_tries) {
		t->stale_ns = t->now_ns + STALE_RETRY_MS * RIPC__MS;
		return;
	}
	t->stale = NULL;
}

void ripc__iwv_device_lost(struct iwv_device *nic, const char *why)
{
	struct ripc__ep *ep;
	char text[WHY_MAX];

	if (!nic->dev.gone)
		ripc__log(RIPC_LOG_WARN, "iwarp/verbs: lost device %s: %s", nic->dev.name, why);
	nic->dev.gone = true;
	nic->t->reports.address = true;
	snprintf(text, sizeof(text), "%s: %s", nic->dev.name, why);
	ripc__list_for_each_entry (ep, &nic->t->eps, link)
		if (ep->conn && ep->conn->nic == nic)
			ripc__iwv_ep_break(ep, -ENODEV, text);
	nic->t->full_pass = true;
}

static int device_open(struct ripc__transport *t, struct ibv_context *ctx,
		       struct iwv_device **found)
{
	struct iwv_device *nic;
	unsigned index = 0;
	int rc;

	while (index < t->nnics && t->nic[index]->dev.ctx)
		index++;
	if (index == RIPC__VERBS_DEVICES_MAX)
		return ripc__fail(-ENOBUFS,
				  "iwarp/verbs: cannot open another device: limit of %d reached",
				  RIPC__VERBS_DEVICES_MAX);
	/* The core may still read data in the buffers of a closed one. */
	nic = index < t->nnics ? t->nic[index] : calloc(1, sizeof(*nic));
	if (!nic)
		return ripc__fail(-ENOMEM, "iwarp/verbs: out of memory");
	if (index == t->nnics) {
		nic->t = t;
		ripc__verbs_pool_init(&nic->big, &nic->dev, CONN_SEND_MAX, RECV_SLAB, BUFS_MAX);
		ripc__verbs_pool_init(&nic->small, &nic->dev, SMALL_MAX, SMALL_SLAB, BUFS_MAX);
		t->nic[t->nnics++] = nic;
	}
	nic->inline_known = false;
	rc = ripc__verbs_device_adopt(&nic->dev, ctx, index);
	if (rc)
		return rc;
	if (t->listen.scanned_ns && nic->dev.read_sink_remote_write && !t->sink_writable) {
		ripc__log(RIPC_LOG_WARN,
			  "iwarp/verbs: does not use %s: its reads need memory that peers can "
			  "write, which other devices do not; open the context again",
			  nic->dev.name);
		rc = -ENODEV;
	}
	if (!rc)
		rc = ripc__verbs_pool_renew(&nic->big);
	if (!rc)
		rc = ripc__verbs_pool_renew(&nic->small);
	if (rc) {
		nic_empty(nic);
		return rc;
	}
	t->sink_writable |= nic->dev.read_sink_remote_write;
	t->read_depth = MIN(t->read_depth, (uint32_t)nic->dev.attr.max_qp_rd_atom);
	t->read_depth = MIN(t->read_depth, (uint32_t)nic->dev.attr.max_qp_init_rd_atom);
	*found = nic;
	return 0;
}

/* ---- listening ---- */

static void listen_close(struct ripc__transport *t, struct ripc__iwarp_listener *l)
{
	rdma_destroy_id(l->id);
	l->id = NULL;
}

/* Creates an identifier bound to the address. -ENODEV: no iWARP device has it. */
static int bind_id(struct ripc__transport *t, struct ripc__iwarp_listener *l)
{
	int rc = 0;

	ripc__sockaddr_set_port(&l->addr, 0);
	if (rdma_create_id(t->channel, &l->id, NULL, RDMA_PS_TCP))
		return -errno;
	if (rdma_bind_addr(l->id, &l->addr.sa))
		rc = -errno;
	else if (!l->id->verbs || l->id->verbs->device->transport_type != IBV_TRANSPORT_IWARP)
		rc = -ENODEV;
	if (rc)
		listen_close(t, l);
	return rc;
}

static int listen_open(struct ripc__transport *t, struct ripc__iwarp_listener *l)
{
	int rc = -EADDRINUSE;

	for (unsigned tries = 0; rc == -EADDRINUSE && tries < PORT_TRIES; tries++) {
		rc = bind_id(t, l);
		if (rc)
			return rc;
		if (!rdma_listen(l->id, BACKLOG))
			break;
		rc = -errno;
		listen_close(t, l);
	}
	if (!l->id)
		return rc;
	l->nic = ripc__iwv_device_find(t, l->id->verbs);
	rc = l->nic ? 0 : device_open(t, l->id->verbs, &l->nic);
	if (rc) {
		listen_close(t, l);
		return rc;
	}
	l->lost = &l->nic->dev.gone;
	ripc__sockaddr_set_port(&l->addr, ntohs(rdma_get_src_port(l->id)));
	return 0;
}

const struct ripc__iwarp_listen_ops ripc__iwv_listen_ops = {
	.name = "iwarp/verbs",
	.needs = "iWARP device with an address",
	.open = listen_open,
	.close = listen_close,
};

void ripc__iwv_nics_close(struct ripc__transport *t)
{
	for (unsigned i = 0; i < t->nnics; i++)
		nic_empty(t->nic[i]);
	ripc__iwarp_unlisten(&t->listen, NULL);
	while (t->nnics) {
		struct iwv_device *nic = t->nic[--t->nnics];

		ripc__verbs_pool_fini(&nic->big);
		ripc__verbs_pool_fini(&nic->small);
		free(nic);
	}
}
