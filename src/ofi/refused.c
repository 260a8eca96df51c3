/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ofi/refused.h"
#include "ofi/provider.h"

static ssize_t rma_read(struct fid_ep *ep, void *buf, size_t len, void *desc, fi_addr_t src_addr,
			uint64_t addr, uint64_t key, void *context)
{
	return ofi_refused("fi_ops_rma.read");
}

static ssize_t rma_vector(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
			  fi_addr_t src_addr, uint64_t addr, uint64_t key, void *context)
{
	return ofi_refused("fi_ops_rma.readv, writev");
}

static ssize_t rma_msg(struct fid_ep *ep, const struct fi_msg_rma *msg, uint64_t flags)
{
	return ofi_refused("fi_ops_rma.readmsg, writemsg");
}

static ssize_t rma_write(struct fid_ep *ep, const void *buf, size_t len, void *desc,
			 fi_addr_t dest_addr, uint64_t addr, uint64_t key, void *context)
{
	return ofi_refused("fi_ops_rma.write");
}

static ssize_t rma_inject(struct fid_ep *ep, const void *buf, size_t len, fi_addr_t dest_addr,
			  uint64_t addr, uint64_t key)
{
	return ofi_refused("fi_ops_rma.inject");
}

static ssize_t rma_writedata(struct fid_ep *ep, const void *buf, size_t len, void *desc,
			     uint64_t data, fi_addr_t dest_addr, uint64_t addr, uint64_t key,
			     void *context)
{
	return ofi_refused("fi_ops_rma.writedata");
}

static ssize_t rma_injectdata(struct fid_ep *ep, const void *buf, size_t len, uint64_t data,
			      fi_addr_t dest_addr, uint64_t addr, uint64_t key)
{
	return ofi_refused("fi_ops_rma.injectdata");
}

static ssize_t atomic_write(struct fid_ep *ep, const void *buf, size_t count, void *desc,
			    fi_addr_t dest_addr, uint64_t addr, uint64_t key,
			    enum fi_datatype datatype, enum fi_op op, void *context)
{
	return ofi_refused("fi_ops_atomic.write");
}

static ssize_t atomic_writev(struct fid_ep *ep, const struct fi_ioc *iov, void **desc, size_t count,
			     fi_addr_t dest_addr, uint64_t addr, uint64_t key,
			     enum fi_datatype datatype, enum fi_op op, void *context)
{
	return ofi_refused("fi_ops_atomic.writev");
}

static ssize_t atomic_writemsg(struct fid_ep *ep, const struct fi_msg_atomic *msg, uint64_t flags)
{
	return ofi_refused("fi_ops_atomic.writemsg");
}

static ssize_t atomic_inject(struct fid_ep *ep, const void *buf, size_t count, fi_addr_t dest_addr,
			     uint64_t addr, uint64_t key, enum fi_datatype datatype, enum fi_op op)
{
	return ofi_refused("fi_ops_atomic.inject");
}

static ssize_t atomic_readwrite(struct fid_ep *ep, const void *buf, size_t count, void *desc,
				void *result, void *result_desc, fi_addr_t dest_addr, uint64_t addr,
				uint64_t key, enum fi_datatype datatype, enum fi_op op,
				void *context)
{
	return ofi_refused("fi_ops_atomic.readwrite");
}

static ssize_t atomic_readwritev(struct fid_ep *ep, const struct fi_ioc *iov, void **desc,
				 size_t count, struct fi_ioc *resultv, void **result_desc,
				 size_t result_count, fi_addr_t dest_addr, uint64_t addr,
				 uint64_t key, enum fi_datatype datatype, enum fi_op op,
				 void *context)
{
	return ofi_refused("fi_ops_atomic.readwritev");
}

static ssize_t atomic_readwritemsg(struct fid_ep *ep, const struct fi_msg_atomic *msg,
				   struct fi_ioc *resultv, void **result_desc, size_t result_count,
				   uint64_t flags)
{
	return ofi_refused("fi_ops_atomic.readwritemsg");
}

static ssize_t atomic_compwrite(struct fid_ep *ep, const void *buf, size_t count, void *desc,
				const void *compare, void *compare_desc, void *result,
				void *result_desc, fi_addr_t dest_addr, uint64_t addr, uint64_t key,
				enum fi_datatype datatype, enum fi_op op, void *context)
{
	return ofi_refused("fi_ops_atomic.compwrite");
}

static ssize_t atomic_compwritev(struct fid_ep *ep, const struct fi_ioc *iov, void **desc,
				 size_t count, const struct fi_ioc *comparev, void **compare_desc,
				 size_t compare_count, struct fi_ioc *resultv, void **result_desc,
				 size_t result_count, fi_addr_t dest_addr, uint64_t addr,
				 uint64_t key, enum fi_datatype datatype, enum fi_op op,
				 void *context)
{
	return ofi_refused("fi_ops_atomic.compwritev");
}

static ssize_t atomic_compwritemsg(struct fid_ep *ep, const struct fi_msg_atomic *msg,
				   const struct fi_ioc *comparev, void **compare_desc,
				   size_t compare_count, struct fi_ioc *resultv, void **result_desc,
				   size_t result_count, uint64_t flags)
{
	return ofi_refused("fi_ops_atomic.compwritemsg");
}

static int atomic_valid(struct fid_ep *ep, enum fi_datatype datatype, enum fi_op op, size_t *count)
{
	return ofi_refused("fi_ops_atomic.writevalid, readwritevalid, compwritevalid");
}

static ssize_t collective_barrier(struct fid_ep *ep, fi_addr_t coll_addr, void *context)
{
	return ofi_refused("fi_ops_collective.barrier");
}

static ssize_t collective_broadcast(struct fid_ep *ep, void *buf, size_t count, void *desc,
				    fi_addr_t coll_addr, fi_addr_t root_addr,
				    enum fi_datatype datatype, uint64_t flags, void *context)
{
	return ofi_refused("fi_ops_collective.broadcast");
}

static ssize_t collective_all(struct fid_ep *ep, const void *buf, size_t count, void *desc,
			      void *result, void *result_desc, fi_addr_t coll_addr,
			      enum fi_datatype datatype, uint64_t flags, void *context)
{
	return ofi_refused("fi_ops_collective.alltoall, allgather");
}

static ssize_t collective_reduce_all(struct fid_ep *ep, const void *buf, size_t count, void *desc,
				     void *result, void *result_desc, fi_addr_t coll_addr,
				     enum fi_datatype datatype, enum fi_op op, uint64_t flags,
				     void *context)
{
	return ofi_refused("fi_ops_collective.allreduce, reduce_scatter");
}

static ssize_t collective_reduce(struct fid_ep *ep, const void *buf, size_t count, void *desc,
				 void *result, void *result_desc, fi_addr_t coll_addr,
				 fi_addr_t root_addr, enum fi_datatype datatype, enum fi_op op,
				 uint64_t flags, void *context)
{
	return ofi_refused("fi_ops_collective.reduce");
}

static ssize_t collective_at_root(struct fid_ep *ep, const void *buf, size_t count, void *desc,
				  void *result, void *result_desc, fi_addr_t coll_addr,
				  fi_addr_t root_addr, enum fi_datatype datatype, uint64_t flags,
				  void *context)
{
	return ofi_refused("fi_ops_collective.scatter, gather");
}

static ssize_t collective_msg(struct fid_ep *ep, const struct fi_msg_collective *msg,
			      struct fi_ioc *resultv, void **result_desc, size_t result_count,
			      uint64_t flags)
{
	return ofi_refused("fi_ops_collective.msg");
}

static ssize_t collective_barrier2(struct fid_ep *ep, fi_addr_t coll_addr, uint64_t flags,
				   void *context)
{
	return ofi_refused("fi_ops_collective.barrier2");
}

struct fi_ops_rma ofi_no_rma = {
	.size = sizeof(struct fi_ops_rma),
	.read = rma_read,
	.readv = rma_vector,
	.readmsg = rma_msg,
	.write = rma_write,
	.writev = rma_vector,
	.writemsg = rma_msg,
	.inject = rma_inject,
	.writedata = rma_writedata,
	.injectdata = rma_injectdata,
};

struct fi_ops_atomic ofi_no_atomic = {
	.size = sizeof(struct fi_ops_atomic),
	.write = atomic_write,
	.writev = atomic_writev,
	.writemsg = atomic_writemsg,
	.inject = atomic_inject,
	.readwrite = atomic_readwrite,
	.readwritev = atomic_readwritev,
	.readwritemsg = atomic_readwritemsg,
	.compwrite = atomic_compwrite,
	.compwritev = atomic_compwritev,
	.compwritemsg = atomic_compwritemsg,
	.writevalid = atomic_valid,
	.readwritevalid = atomic_valid,
	.compwritevalid = atomic_valid,
};

struct fi_ops_collective ofi_no_collective = {
	.size = sizeof(struct fi_ops_collective),
	.barrier = collective_barrier,
	.broadcast = collective_broadcast,
	.alltoall = collective_all,
	.allreduce = collective_reduce_all,
	.allgather = collective_all,
	.reduce_scatter = collective_reduce_all,
	.reduce = collective_reduce,
	.scatter = collective_at_root,
	.gather = collective_at_root,
	.msg = collective_msg,
	.barrier2 = collective_barrier2,
};

int ofi_no_getpeer(struct fid_ep *ep, void *address, size_t *len)
{
	return ofi_refused("fi_getpeer");
}

int ofi_no_connect(struct fid_ep *ep, const void *address, const void *param, size_t len)
{
	return ofi_refused("fi_connect");
}

int ofi_no_listen(struct fid_pep *pep)
{
	return ofi_refused("fi_listen");
}

int ofi_no_accept(struct fid_ep *ep, const void *param, size_t len)
{
	return ofi_refused("fi_accept");
}

int ofi_no_reject(struct fid_pep *pep, fid_t handle, const void *param, size_t len)
{
	return ofi_refused("fi_reject");
}

int ofi_no_shutdown(struct fid_ep *ep, uint64_t flags)
{
	return ofi_refused("fi_shutdown");
}

int ofi_no_join(struct fid_ep *ep, const void *address, uint64_t flags, struct fid_mc **mc,
		void *context)
{
	return ofi_refused("fi_join");
}
