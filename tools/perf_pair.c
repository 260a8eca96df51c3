/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "perf_pair.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SEND_MAX 512
#define GIDS_MAX 256

static int fail(const char *what)
{
	tool_error("%s: %s", what, strerror(errno));
	return -1;
}

/* The first port that is up. */
static bool choose_port(struct perf_pair *p)
{
	struct ibv_device_attr attr;

	if (ibv_query_device(p->ctx, &attr))
		return false;
	for (unsigned i = 1; i <= attr.phys_port_cnt; i++) {
		if (ibv_query_port(p->ctx, (uint8_t)i, &p->port))
			continue;
		if (p->port.state != IBV_PORT_ACTIVE)
			continue;
		p->port_num = (uint8_t)i;
		return true;
	}
	return false;
}

/*
 * Of RoCE v2 and IPv4, if there is one: the table of an interface begins with its link-local
 * address.
 */
static int choose_gid(struct perf_pair *p)
{
	static const unsigned char v4[12] = {[10] = 0xff, [11] = 0xff};
	struct ibv_gid_entry *table = calloc(GIDS_MAX, sizeof(*table));
	ssize_t n = table ? ibv_query_gid_table(p->ctx, table, GIDS_MAX, 0) : 0;
	int best = 0;

	for (ssize_t i = 0; i < n; i++) {
		const struct ibv_gid_entry *g = &table[i];
		int rank = 1 + (g->gid_type == IBV_GID_TYPE_ROCE_V2) +
			   2 * !memcmp(g->gid.raw, v4, sizeof(v4));

		if (g->port_num != p->port_num || g->gid_index > 255 || rank <= best)
			continue;
		best = rank;
		p->gid_index = (uint8_t)g->gid_index;
		p->gid = g->gid;
	}
	free(table);
	if (!best && p->port.link_layer == IBV_LINK_LAYER_ETHERNET) {
		tool_error("the device has no GID: give its network interface an address");
		return -1;
	}
	return 0;
}

static int open_device(struct perf_pair *p, const struct perf_args *args)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	const char *why = args->device ? "no such RDMA device" : "no RDMA device";

	for (int i = 0; list && list[i] && !p->ctx; i++) {
		if (args->device && strcmp(args->device, ibv_get_device_name(list[i])))
			continue;
		if (list[i]->transport_type != IBV_TRANSPORT_IB) {
			why = "an iWARP device, whose queue pairs only librdmacm makes";
			continue;
		}
		p->ctx = ibv_open_device(list[i]);
		if (p->ctx && choose_port(p))
			continue;
		why = p->ctx ? "no port is up" : "cannot be opened";
		if (p->ctx)
			ibv_close_device(p->ctx);
		p->ctx = NULL;
	}
	if (list)
		ibv_free_device_list(list);
	if (p->ctx)
		return choose_gid(p);
	tool_error("%s%s%s; \"ripc-info\" lists the devices and the cause",
		   args->device ? args->device : "", args->device ? ": " : "", why);
	return -1;
}

static int modify(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask, const char *what)
{
	errno = ibv_modify_qp(qp, attr, mask);
	return errno ? fail(what) : 0;
}

static struct ibv_qp *make_qp(struct perf_pair *p, const struct perf_args *args)
{
	static const enum ibv_qp_type types[] = {
		[PERF_RC] = IBV_QPT_RC, [PERF_UC] = IBV_QPT_UC, [PERF_UD] = IBV_QPT_UD};
	struct ibv_qp_init_attr init = {.send_cq = p->send_cq,
					.recv_cq = p->recv_cq,
					.qp_type = types[args->qp],
					.cap = {.max_send_wr = p->send_max,
						.max_recv_wr = args->depth,
						.max_send_sge = 1,
						.max_recv_sge = 1,
						.max_inline_data = args->inline_bytes}};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = p->port_num};
	int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
	struct ibv_qp *qp = ibv_create_qp(p->pd, &init);

	if (!qp) {
		tool_error("no %s queue pair with %u receives and %u bytes inline: %s",
			   perf_qp_name(args->qp), args->depth, args->inline_bytes,
			   strerror(errno));
		return NULL;
	}
	if (args->qp == PERF_UD) {
		attr.qkey = PERF_QKEY;
		mask |= IBV_QP_QKEY;
	} else {
		attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
		mask |= IBV_QP_ACCESS_FLAGS;
	}
	if (!modify(qp, &attr, mask, "initialize a queue pair"))
		return qp;
	ibv_destroy_qp(qp);
	return NULL;
}

static void set_address(const struct perf_pair *p, struct ibv_ah_attr *ah)
{
	ah->port_num = p->port_num;
	ah->dlid = p->port.lid;
	if (p->port.link_layer != IBV_LINK_LAYER_ETHERNET)
		return;
	ah->is_global = 1;
	ah->grh.dgid = p->gid;
	ah->grh.sgid_index = p->gid_index;
	ah->grh.hop_limit = 64;
}

static int connect_qps(struct perf_pair *p, const struct perf_args *args, struct ibv_qp *qp,
		       uint32_t other)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR,
				   .path_mtu = p->port.active_mtu,
				   .dest_qp_num = other,
				   .max_dest_rd_atomic = 1,
				   .min_rnr_timer = 1};
	int mask = IBV_QP_STATE;

	set_address(p, &attr.ah_attr);
	if (args->qp != PERF_UD)
		mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	if (args->qp == PERF_RC)
		mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	if (modify(qp, &attr, mask, "join a queue pair"))
		return -1;
	attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS,
				    .timeout = 14,
				    .retry_cnt = 7,
				    .rnr_retry = 7, /* as long as it takes */
				    .max_rd_atomic = 1};
	mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
	if (args->qp == PERF_RC)
		mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			IBV_QP_MAX_QP_RD_ATOMIC;
	return modify(qp, &attr, mask, "make a queue pair ready to send");
}

static int open_queues(struct perf_pair *p, const struct perf_args *args)
{
	struct ibv_ah_attr ah = {0};

	p->pd = ibv_alloc_pd(p->ctx);
	p->channel = ibv_create_comp_channel(p->ctx);
	p->send_cq = ibv_create_cq(p->ctx, (int)p->send_max, NULL, NULL, 0);
	if (p->channel)
		p->recv_cq = ibv_create_cq(p->ctx, (int)args->depth, NULL, p->channel, 0);
	if (!p->pd || !p->send_cq || !p->recv_cq)
		return fail("completion queues");
	p->from = make_qp(p, args);
	p->to = p->from ? make_qp(p, args) : NULL;
	if (!p->to || connect_qps(p, args, p->from, p->to->qp_num) ||
	    connect_qps(p, args, p->to, p->from->qp_num))
		return -1;
	if (args->qp != PERF_UD)
		return 0;
	set_address(p, &ah);
	p->ah = ibv_create_ah(p->pd, &ah);
	return p->ah ? 0 : fail("address of the datagrams");
}

/* Touched before it is used: a page that is not there costs hundreds of microseconds. */
static int open_memory(struct perf_pair *p, const struct perf_args *args, uint64_t size)
{
	p->slot_bytes = (size + PERF_GRH + 63) / 64 * 64;
	p->source = aligned_alloc(64, p->send_max * p->slot_bytes);
	p->target = aligned_alloc(64, args->depth * p->slot_bytes);
	if (!p->source || !p->target)
		return fail("memory");
	memset(p->source, 1, p->send_max * p->slot_bytes);
	memset(p->target, 0, args->depth * p->slot_bytes);
	p->source_mr = ibv_reg_mr(p->pd, p->source, p->send_max * p->slot_bytes, 0);
	p->target_mr = ibv_reg_mr(p->pd, p->target, args->depth * p->slot_bytes,
				  IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	return p->source_mr && p->target_mr ? 0 : fail("register memory");
}

int perf_pair_post_receive(struct perf_pair *p, const struct perf_args *args, unsigned slot)
{
	struct ibv_sge sge = {.addr = (uintptr_t)(p->target + slot * p->slot_bytes),
			      .length = (uint32_t)p->slot_bytes,
			      .lkey = p->target_mr->lkey};
	/*
	 * A write brings its bytes where they belong, and takes no more than the entry of the
	 * queue.
	 */
	struct ibv_recv_wr wr = {
		.wr_id = slot, .sg_list = &sge, .num_sge = args->op == PERF_SEND ? 1 : 0};
	struct ibv_recv_wr *bad;

	return ibv_post_recv(p->to, &wr, &bad);
}

int perf_pair_open(struct perf_pair *p, const struct perf_args *args, uint64_t size)
{
	memset(p, 0, sizeof(*p));
	p->send_max = SEND_MAX;
	if (open_device(p, args) || open_queues(p, args) || open_memory(p, args, size))
		return -1;
	for (unsigned i = 0; i < args->depth && args->op != PERF_WRITE; i++) {
		errno = perf_pair_post_receive(p, args, i);
		if (errno)
			return fail("post a receive");
	}
	return 0;
}

/* Members not reached by a failed open are NULL. */
#define RELEASE(how, what)         \
	do {                       \
		if (what)          \
			how(what); \
	} while (0)

void perf_pair_close(struct perf_pair *p)
{
	RELEASE(ibv_destroy_ah, p->ah);
	RELEASE(ibv_destroy_qp, p->from);
	RELEASE(ibv_destroy_qp, p->to);
	RELEASE(ibv_dereg_mr, p->source_mr);
	RELEASE(ibv_dereg_mr, p->target_mr);
	RELEASE(ibv_destroy_cq, p->send_cq);
	RELEASE(ibv_destroy_cq, p->recv_cq);
	RELEASE(ibv_destroy_comp_channel, p->channel);
	RELEASE(ibv_dealloc_pd, p->pd);
	RELEASE(ibv_close_device, p->ctx);
	free(p->source);
	free(p->target);
}
