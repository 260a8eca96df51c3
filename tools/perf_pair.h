/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Two queue pairs of one RDMA device, joined by hand in one process, and their memory. */
#ifndef RIPC_TOOLS_PERF_PAIR_H
#define RIPC_TOOLS_PERF_PAIR_H

#include "perf.h"

#include <infiniband/verbs.h>

#define PERF_GRH  40 /* bytes that precede what a datagram brings */
#define PERF_QKEY 0x11111111

struct perf_pair {
	struct ibv_context *ctx;
	struct ibv_port_attr port;
	uint8_t port_num, gid_index;
	union ibv_gid gid;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel; /* of @recv_cq */
	struct ibv_cq *send_cq, *recv_cq;
	struct ibv_qp *from, *to;
	struct ibv_ah *ah; /* UD, else NULL */
	unsigned send_max; /* sends that may be under way */
	/*
	 * @send_max slots that messages are sent from, and as many as the receive queue is deep
	 * that they come to.
	 */
	size_t slot_bytes;
	unsigned char *source, *target;
	struct ibv_mr *source_mr, *target_mr;
};

/*
 * Opens the device that the arguments name, or the first one whose queue pairs can be made by hand,
 * for messages of at most @size bytes. Return: 0, or -1 with an error message; to be closed with
 * perf_pair_close() in both cases.
 */
int perf_pair_open(struct perf_pair *p, const struct perf_args *args, uint64_t size);
void perf_pair_close(struct perf_pair *p);

/* Posts slot @slot of @target to the receive queue. Return: 0 or an errno. */
int perf_pair_post_receive(struct perf_pair *p, const struct perf_args *args, unsigned slot);

#endif
