/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "inject.h"

#include <errno.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <signal.h>
#include <rdma/rdma_cma.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <unistd.h>

static atomic_uint calls, victim;
static atomic_bool kill_on_hit;
static _Atomic(const char *) failed;

void fault_arm_kill(unsigned n)
{
	fault_arm(0);
	atomic_store(&kill_on_hit, true);
	atomic_store(&victim, n);
}

void fault_arm(unsigned n)
{
	atomic_store(&kill_on_hit, false);
	atomic_store(&failed, NULL);
	atomic_store(&calls, 0);
	atomic_store(&victim, n);
}

unsigned fault_calls(void)
{
	return atomic_load(&calls);
}

const char *fault_name(void)
{
	return atomic_load(&failed);
}

static bool hit(const char *name)
{
	if (atomic_fetch_add(&calls, 1) + 1 != atomic_load(&victim))
		return false;
	if (atomic_load(&kill_on_hit))
		kill(getpid(), SIGKILL);
	atomic_store(&failed, name);
	return true;
}

/* A call that returns a pointer, a positive errno, or -1 with errno. */
#define WRAP(type, name, params, args, error, result) \
	type __real_##name params;                    \
	type __wrap_##name params;                    \
	type __wrap_##name params                     \
	{                                             \
		if (hit(#name)) {                     \
			errno = error;                \
			return result;                \
		}                                     \
		return __real_##name args;            \
	}
#define WRAP_POINTER(type, name, params, args) WRAP(type, name, params, args, ENOMEM, NULL)
#define WRAP_ERRNO(name, params, args)         WRAP(int, name, params, args, EIO, EIO)
#define WRAP_MINUS(name, params, args)         WRAP(int, name, params, args, EIO, -1)

#undef ibv_reg_mr
#undef ibv_query_port

/* ---- what is inline ---- */

#define CONTEXTS_MAX 64

struct table {
	struct ibv_context *context;
	struct ibv_context_ops real;
};

static struct table tables[CONTEXTS_MAX];
static pthread_mutex_t tables_lock = PTHREAD_MUTEX_INITIALIZER;

static const struct ibv_context_ops *real_of(const struct ibv_context *context)
{
	for (unsigned i = 0; i < CONTEXTS_MAX; i++)
		if (tables[i].context == context)
			return &tables[i].real;
	return NULL;
}

static int poll_cq(struct ibv_cq *cq, int max, struct ibv_wc *wc)
{
	int n = real_of(cq->context)->poll_cq(cq, max, wc);

	return n > 0 && hit("ibv_poll_cq") ? -1 : n;
}

static int req_notify_cq(struct ibv_cq *cq, int solicited)
{
	return hit("ibv_req_notify_cq") ? EIO : real_of(cq->context)->req_notify_cq(cq, solicited);
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	if (hit("ibv_post_send")) {
		*bad = wr;
		return ENOMEM;
	}
	return real_of(qp->context)->post_send(qp, wr, bad);
}

static int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	if (hit("ibv_post_recv")) {
		*bad = wr;
		return ENOMEM;
	}
	return real_of(qp->context)->post_recv(qp, wr, bad);
}

static int post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	if (hit("ibv_post_srq_recv")) {
		*bad = wr;
		return ENOMEM;
	}
	return real_of(srq->context)->post_srq_recv(srq, wr, bad);
}

/* A context that was closed may leave its address to the next one, whose table is new. */
static void patch(struct ibv_context *context)
{
	struct table *t = NULL;

	if (context->ops.poll_cq == poll_cq)
		return;
	pthread_mutex_lock(&tables_lock);
	for (unsigned i = 0; i < CONTEXTS_MAX && (!t || t->context != context); i++)
		if (tables[i].context == context || (!t && !tables[i].context))
			t = &tables[i];
	if (t && context->ops.poll_cq != poll_cq) {
		t->real = context->ops;
		t->context = context;
		context->ops.poll_cq = poll_cq;
		context->ops.req_notify_cq = req_notify_cq;
		context->ops.post_send = post_send;
		context->ops.post_recv = post_recv;
		context->ops.post_srq_recv = post_srq_recv;
	}
	pthread_mutex_unlock(&tables_lock);
}

struct ibv_pd *__real_ibv_alloc_pd(struct ibv_context *context);
struct ibv_pd *__wrap_ibv_alloc_pd(struct ibv_context *context);
struct ibv_pd *__wrap_ibv_alloc_pd(struct ibv_context *context)
{
	if (hit("ibv_alloc_pd")) {
		errno = ENOMEM;
		return NULL;
	}
	patch(context);
	return __real_ibv_alloc_pd(context);
}

/* ---- libibverbs ---- */

WRAP_POINTER(struct ibv_device **, ibv_get_device_list, (int *n), (n))
WRAP_POINTER(struct ibv_context *, ibv_open_device, (struct ibv_device * device), (device))
WRAP_MINUS(ibv_fork_init, (void), ())
WRAP_ERRNO(ibv_query_device, (struct ibv_context * context, struct ibv_device_attr *attr),
	   (context, attr))
WRAP_ERRNO(ibv_query_port,
	   (struct ibv_context * context, uint8_t port, struct _compat_ibv_port_attr *attr),
	   (context, port, attr))
WRAP_MINUS(ibv_query_gid, (struct ibv_context * context, uint8_t port, int i, union ibv_gid *gid),
	   (context, port, i, gid))
WRAP_MINUS(ibv_query_pkey, (struct ibv_context * context, uint8_t port, int index, __be16 *pkey),
	   (context, port, index, pkey))
WRAP_ERRNO(_ibv_query_gid_ex,
	   (struct ibv_context * context, uint32_t port, uint32_t index,
	    struct ibv_gid_entry *entry, uint32_t flags, size_t len),
	   (context, port, index, entry, flags, len))
WRAP(ssize_t, _ibv_query_gid_table,
     (struct ibv_context * context, struct ibv_gid_entry *entries, size_t n, uint32_t flags,
      size_t len),
     (context, entries, n, flags, len), EIO, -EIO)
WRAP_POINTER(struct ibv_mr *, ibv_reg_mr, (struct ibv_pd * pd, void *addr, size_t len, int access),
	     (pd, addr, len, access))
WRAP_POINTER(struct ibv_mr *, ibv_reg_mr_iova2,
	     (struct ibv_pd * pd, void *addr, size_t len, uint64_t iova, unsigned access),
	     (pd, addr, len, iova, access))
WRAP_POINTER(struct ibv_comp_channel *, ibv_create_comp_channel, (struct ibv_context * context),
	     (context))
WRAP_POINTER(struct ibv_cq *, ibv_create_cq,
	     (struct ibv_context * context, int entries, void *arg,
	      struct ibv_comp_channel *channel, int vector),
	     (context, entries, arg, channel, vector))
WRAP_ERRNO(ibv_resize_cq, (struct ibv_cq * cq, int entries), (cq, entries))
WRAP_MINUS(ibv_get_cq_event, (struct ibv_comp_channel * channel, struct ibv_cq **cq, void **arg),
	   (channel, cq, arg))
WRAP_POINTER(struct ibv_srq *, ibv_create_srq, (struct ibv_pd * pd, struct ibv_srq_init_attr *attr),
	     (pd, attr))
WRAP_ERRNO(ibv_modify_srq, (struct ibv_srq * srq, struct ibv_srq_attr *attr, int mask),
	   (srq, attr, mask))
WRAP_POINTER(struct ibv_qp *, ibv_create_qp, (struct ibv_pd * pd, struct ibv_qp_init_attr *attr),
	     (pd, attr))
WRAP_ERRNO(ibv_modify_qp, (struct ibv_qp * qp, struct ibv_qp_attr *attr, int m), (qp, attr, m))
WRAP_ERRNO(ibv_query_qp,
	   (struct ibv_qp * qp, struct ibv_qp_attr *attr, int mask, struct ibv_qp_init_attr *init),
	   (qp, attr, mask, init))
WRAP_POINTER(struct ibv_ah *, ibv_create_ah, (struct ibv_pd * pd, struct ibv_ah_attr *attr),
	     (pd, attr))

/* ---- librdmacm ---- */

WRAP_POINTER(struct rdma_event_channel *, rdma_create_event_channel, (void), ())
WRAP_MINUS(rdma_create_id,
	   (struct rdma_event_channel * channel, struct rdma_cm_id **id, void *arg,
	    enum rdma_port_space ps),
	   (channel, id, arg, ps))
WRAP_MINUS(rdma_bind_addr, (struct rdma_cm_id * id, struct sockaddr *addr), (id, addr))
WRAP_MINUS(rdma_listen, (struct rdma_cm_id * id, int backlog), (id, backlog))
WRAP_MINUS(rdma_resolve_addr,
	   (struct rdma_cm_id * id, struct sockaddr *src, struct sockaddr *dst, int timeout_ms),
	   (id, src, dst, timeout_ms))
WRAP_MINUS(rdma_resolve_route, (struct rdma_cm_id * id, int timeout_ms), (id, timeout_ms))
WRAP_MINUS(rdma_create_qp, (struct rdma_cm_id * id, struct ibv_pd *pd, struct ibv_qp_init_attr *qp),
	   (id, pd, qp))
WRAP_MINUS(rdma_connect, (struct rdma_cm_id * id, struct rdma_conn_param *param), (id, param))
WRAP_MINUS(rdma_accept, (struct rdma_cm_id * id, struct rdma_conn_param *param), (id, param))
WRAP_MINUS(rdma_reject, (struct rdma_cm_id * id, const void *data, uint8_t len), (id, data, len))
WRAP_MINUS(rdma_get_cm_event, (struct rdma_event_channel * channel, struct rdma_cm_event **event),
	   (channel, event))
WRAP_MINUS(rdma_set_option, (struct rdma_cm_id * id, int level, int name, void *value, size_t len),
	   (id, level, name, value, len))
WRAP_MINUS(rdma_disconnect, (struct rdma_cm_id * id), (id))
