/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A device whose verbs are stubs, for tests of ib without a driver: one port, queues in memory,
 * events that a test makes. It defines the functions of libibverbs: one file of a program includes
 * it.
 */
#ifndef RIPC_TESTS_TRANSPORT_IB_MADE_DEVICE_H
#define RIPC_TESTS_TRANSPORT_IB_MADE_DEVICE_H

#include "harness.h"
#include "transport/ib/ib.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#undef ibv_reg_mr
#undef ibv_query_port

#define QUEUE 4096u /* entries of the stubs' queues */
#define QPS   4096u

static struct ibv_device device = {.name = "made0", .transport_type = IBV_TRANSPORT_IB};
static struct ibv_context context;
static struct ibv_comp_channel channel;
static struct ibv_cq cq = {.context = &context};
static struct ibv_srq srqs[4];
static unsigned nsrqs;
static struct ibv_qp qps[QPS];
static unsigned nqps;
static struct ibv_mr mrs[64];
static unsigned nmrs;
static struct ibv_pd pd;
static struct ibv_ah ah;
static int objects; /* contexts, queues, queue pairs and registrations that exist */
static int query_rc, open_rc;
static uint64_t srq_ids[QUEUE]; /* receives of the shared queue */
static unsigned nsrq_ids;
static uint64_t recv_ids[QUEUE]; /* receives for datagrams, of all queue pairs so far */
static unsigned nrecv_ids;
static struct ibv_wc wcs[QUEUE];
static unsigned nwcs;
static enum ibv_qp_state ud_state; /* of the last change of a UD queue pair */
static unsigned states;            /* changes of state */
static struct ibv_send_wr sent;    /* the last one */
static unsigned nsent;
static struct ibv_async_event event; /* the last one */
static uint16_t lid = 5;
static enum ibv_mtu mtu = IBV_MTU_1024;

static int poll_cq(struct ibv_cq *c, int max, struct ibv_wc *wc)
{
	unsigned n = nwcs < (unsigned)max ? nwcs : (unsigned)max;

	(void)c;
	memcpy(wc, wcs, n * sizeof(*wc));
	nwcs -= n;
	memmove(wcs, wcs + n, nwcs * sizeof(*wc));
	return (int)n;
}

static void complete(uint64_t id, uint32_t qpn, enum ibv_wc_status status, uint32_t len)
{
	ck_assert_uint_lt(nwcs, QUEUE);
	wcs[nwcs++] = (struct ibv_wc){.wr_id = id,
				      .qp_num = qpn,
				      .status = status,
				      .opcode = IBV_WC_RECV,
				      .byte_len = len};
}

static int req_notify_cq(struct ibv_cq *c, int solicited)
{
	(void)c;
	return solicited;
}

static int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	(void)qp;
	for (; wr; wr = wr->next) {
		*bad = wr;
		ck_assert_uint_lt(nrecv_ids, QUEUE);
		recv_ids[nrecv_ids++] = wr->wr_id;
	}
	return 0;
}

static int post_srq_recv(struct ibv_srq *s, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	(void)s;
	for (; wr; wr = wr->next) {
		*bad = wr;
		if (nsrq_ids == IB_SRQ_SIZE)
			return ENOMEM;
		srq_ids[nsrq_ids++] = wr->wr_id;
	}
	return 0;
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	(void)qp;
	(void)bad;
	for (; wr; wr = wr->next, nsent++)
		sent = *wr;
	return 0;
}

static struct ibv_context context = {.ops = {.poll_cq = poll_cq,
					     .req_notify_cq = req_notify_cq,
					     .post_recv = post_recv,
					     .post_srq_recv = post_srq_recv,
					     .post_send = post_send}};

struct ibv_device **ibv_get_device_list(int *n)
{
	struct ibv_device **list = calloc(2, sizeof(*list));

	*n = !access(device.dev_path, F_OK);
	if (list && *n)
		list[0] = &device;
	return list;
}

void ibv_free_device_list(struct ibv_device **list)
{
	free(list);
}

const char *ibv_get_device_name(struct ibv_device *d)
{
	return d->name;
}

struct ibv_context *ibv_open_device(struct ibv_device *d)
{
	errno = open_rc;
	if (open_rc)
		return NULL;
	objects++;
	context.device = d;
	context.async_fd = eventfd(0, EFD_CLOEXEC);
	context.cmd_fd = -1;
	nsrqs = nsrq_ids = 0;
	return &context;
}

int ibv_close_device(struct ibv_context *ctx)
{
	objects--;
	return close(ctx->async_fd);
}

int ibv_query_device(struct ibv_context *ctx, struct ibv_device_attr *attr)
{
	(void)ctx;
	*attr = (struct ibv_device_attr){.phys_port_cnt = 1,
					 .max_qp_wr = 1024,
					 .max_srq_wr = IB_SRQ_SIZE,
					 .max_cqe = IB_CQ_ENTRIES,
					 .max_qp_rd_atom = 4,
					 .max_qp_init_rd_atom = 4};
	return 0;
}

int ibv_query_port(struct ibv_context *ctx, uint8_t num, struct _compat_ibv_port_attr *attr)
{
	struct ibv_port_attr *port = (struct ibv_port_attr *)attr;

	(void)ctx;
	(void)num;
	port->state = IBV_PORT_ACTIVE;
	port->active_mtu = mtu;
	port->max_msg_sz = 1u << 30;
	port->link_layer = IBV_LINK_LAYER_INFINIBAND;
	port->lid = lid;
	return query_rc;
}

int ibv_query_gid(struct ibv_context *ctx, uint8_t num, int index, union ibv_gid *gid)
{
	(void)ctx;
	(void)num;
	(void)index;
	memset(gid, 0, sizeof(*gid));
	return 0;
}

static bool reported; /* the kernel holds no event */

int ibv_get_async_event(struct ibv_context *ctx, struct ibv_async_event *ev)
{
	(void)ctx;
	*ev = event;
	errno = EAGAIN;
	return reported ? -1 : 0;
}

void ibv_ack_async_event(struct ibv_async_event *ev)
{
	(void)ev;
	ck_assert(!reported);
	reported = true;
}

struct ibv_pd *ibv_alloc_pd(struct ibv_context *ctx)
{
	objects++;
	pd.context = ctx;
	return &pd;
}

int ibv_dealloc_pd(struct ibv_pd *p)
{
	(void)p;
	objects--;
	return 0;
}

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *ctx)
{
	objects++;
	channel = (struct ibv_comp_channel){.context = ctx, .fd = eventfd(0, EFD_CLOEXEC)};
	return &channel;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *c)
{
	objects--;
	return close(c->fd);
}

struct ibv_cq *ibv_create_cq(struct ibv_context *ctx, int cqe, void *arg,
			     struct ibv_comp_channel *c, int vector)
{
	(void)arg;
	(void)vector;
	objects++;
	nwcs = 0;
	cq = (struct ibv_cq){.context = ctx, .channel = c, .cqe = cqe};
	return &cq;
}

int ibv_destroy_cq(struct ibv_cq *c)
{
	(void)c;
	objects--;
	return 0;
}

int ibv_get_cq_event(struct ibv_comp_channel *c, struct ibv_cq **which, void **arg)
{
	(void)c;
	(void)which;
	(void)arg;
	return -1;
}

struct ibv_srq *ibv_create_srq(struct ibv_pd *p, struct ibv_srq_init_attr *attr)
{
	(void)p;
	(void)attr;
	ck_assert_uint_lt(nsrqs, 4);
	objects++;
	srqs[nsrqs].context = &context;
	return &srqs[nsrqs++];
}

int ibv_destroy_srq(struct ibv_srq *s)
{
	(void)s;
	objects--;
	return 0;
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *p, struct ibv_qp_init_attr *attr)
{
	struct ibv_qp *qp = &qps[nqps];

	(void)p;
	ck_assert_uint_lt(nqps, QPS);
	objects++;
	*qp = (struct ibv_qp){
		.context = &context, .qp_num = 100 + nqps++, .qp_type = attr->qp_type};
	return qp;
}

/* A UD queue pair flushes its receives in error. */
int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	if (qp->qp_type != IBV_QPT_UD || !(mask & IBV_QP_STATE))
		return 0;
	ud_state = attr->qp_state;
	states++;
	for (unsigned i = 0; ud_state == IBV_QPS_ERR && i < nrecv_ids; i++)
		complete(recv_ids[i], qp->qp_num, IBV_WC_WR_FLUSH_ERR, 0);
	if (ud_state == IBV_QPS_ERR)
		nrecv_ids = 0;
	return 0;
}

/* As libmlx5: the completions of the queue pair are discarded with it. */
int ibv_destroy_qp(struct ibv_qp *qp)
{
	unsigned n = 0;

	for (unsigned i = 0; i < nwcs; i++)
		if (wcs[i].qp_num != qp->qp_num)
			wcs[n++] = wcs[i];
	nwcs = n;
	objects--;
	return 0;
}

struct ibv_ah *ibv_create_ah(struct ibv_pd *p, struct ibv_ah_attr *attr)
{
	(void)p;
	(void)attr;
	return &ah;
}

int ibv_destroy_ah(struct ibv_ah *a)
{
	(void)a;
	return 0;
}

struct ibv_mr *ibv_reg_mr(struct ibv_pd *p, void *addr, size_t length, int access)
{
	return ibv_reg_mr_iova2(p, addr, length, (uintptr_t)addr, (unsigned)access);
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *p, void *addr, size_t length, uint64_t iova,
				unsigned int access)
{
	(void)iova;
	(void)access;
	ck_assert_uint_lt(nmrs, 64);
	objects++;
	mrs[nmrs] = (struct ibv_mr){.pd = p, .addr = addr, .length = length, .lkey = nmrs};
	return &mrs[nmrs++];
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
	(void)mr;
	objects--;
	return 0;
}

#endif
