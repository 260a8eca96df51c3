/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Calls of endpoints that are not served: each logs its name and returns -FI_ENOSYS. Calls with the
 * same parameters share a function.
 */
#include "ofi/provider.h"

#include <rdma/fi_atomic.h>
#include <rdma/fi_collective.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_rma.h>

OFI_REFUSED(ssize_t, rma_read, "fi_ops_rma.read", struct fid_ep *ep, void *buf, size_t len,
	    void *desc, fi_addr_t src_addr, uint64_t addr, uint64_t key, void *context)
OFI_REFUSED(ssize_t, rma_vector, "fi_ops_rma.readv, writev", struct fid_ep *ep,
	    const struct iovec *iov, void **desc, size_t count, fi_addr_t src_addr, uint64_t addr,
	    uint64_t key, void *context)
OFI_REFUSED(ssize_t, rma_msg, "fi_ops_rma.readmsg, writemsg", struct fid_ep *ep,
	    const struct fi_msg_rma *msg, uint64_t flags)
OFI_REFUSED(ssize_t, rma_write, "fi_ops_rma.write", struct fid_ep *ep, const void *buf, size_t len,
	    void *desc, fi_addr_t dest_addr, uint64_t addr, uint64_t key, void *context)
OFI_REFUSED(ssize_t, rma_inject, "fi_ops_rma.inject", struct fid_ep *ep, const void *buf,
	    size_t len, fi_addr_t dest_addr, uint64_t addr, uint64_t key)
OFI_REFUSED(ssize_t, rma_writedata, "fi_ops_rma.writedata", struct fid_ep *ep, const void *buf,
	    size_t len, void *desc, uint64_t data, fi_addr_t dest_addr, uint64_t addr, uint64_t key,
	    void *context)
OFI_REFUSED(ssize_t, rma_injectdata, "fi_ops_rma.injectdata", struct fid_ep *ep, const void *buf,
	    size_t len, uint64_t data, fi_addr_t dest_addr, uint64_t addr, uint64_t key)
OFI_REFUSED(ssize_t, atomic_write, "fi_ops_atomic.write", struct fid_ep *ep, const void *buf,
	    size_t count, void *desc, fi_addr_t dest_addr, uint64_t addr, uint64_t key,
	    enum fi_datatype datatype, enum fi_op op, void *context)
OFI_REFUSED(ssize_t, atomic_writev, "fi_ops_atomic.writev", struct fid_ep *ep,
	    const struct fi_ioc *iov, void **desc, size_t count, fi_addr_t dest_addr, uint64_t addr,
	    uint64_t key, enum fi_datatype datatype, enum fi_op op, void *context)
OFI_REFUSED(ssize_t, atomic_writemsg, "fi_ops_atomic.writemsg", struct fid_ep *ep,
	    const struct fi_msg_atomic *msg, uint64_t flags)
OFI_REFUSED(ssize_t, atomic_inject, "fi_ops_atomic.inject", struct fid_ep *ep, const void *buf,
	    size_t count, fi_addr_t dest_addr, uint64_t addr, uint64_t key,
	    enum fi_datatype datatype, enum fi_op op)
OFI_REFUSED(ssize_t, atomic_readwrite, "fi_ops_atomic.readwrite", struct fid_ep *ep,
	    const void *buf, size_t count, void *desc, void *result, void *result_desc,
	    fi_addr_t dest_addr, uint64_t addr, uint64_t key, enum fi_datatype datatype,
	    enum fi_op op, void *context)
OFI_REFUSED(ssize_t, atomic_readwritev, "fi_ops_atomic.readwritev", struct fid_ep *ep,
	    const struct fi_ioc *iov, void **desc, size_t count, struct fi_ioc *resultv,
	    void **result_desc, size_t result_count, fi_addr_t dest_addr, uint64_t addr,
	    uint64_t key, enum fi_datatype datatype, enum fi_op op, void *context)
OFI_REFUSED(ssize_t, atomic_readwritemsg, "fi_ops_atomic.readwritemsg", struct fid_ep *ep,
	    const struct fi_msg_atomic *msg, struct fi_ioc *resultv, void **result_desc,
	    size_t result_count, uint64_t flags)
OFI_REFUSED(ssize_t, atomic_compwrite, "fi_ops_atomic.compwrite", struct fid_ep *ep,
	    const void *buf, size_t count, void *desc, const void *compare, void *compare_desc,
	    void *result, void *result_desc, fi_addr_t dest_addr, uint64_t addr, uint64_t key,
	    enum fi_datatype datatype, enum fi_op op, void *context)
OFI_REFUSED(ssize_t, atomic_compwritev, "fi_ops_atomic.compwritev", struct fid_ep *ep,
	    const struct fi_ioc *iov, void **desc, size_t count, const struct fi_ioc *comparev,
	    void **compare_desc, size_t compare_count, struct fi_ioc *resultv, void **result_desc,
	    size_t result_count, fi_addr_t dest_addr, uint64_t addr, uint64_t key,
	    enum fi_datatype datatype, enum fi_op op, void *context)
OFI_REFUSED(ssize_t, atomic_compwritemsg, "fi_ops_atomic.compwritemsg", struct fid_ep *ep,
	    const struct fi_msg_atomic *msg, const struct fi_ioc *comparev, void **compare_desc,
	    size_t compare_count, struct fi_ioc *resultv, void **result_desc, size_t result_count,
	    uint64_t flags)
OFI_REFUSED(int, atomic_valid, "fi_ops_atomic.writevalid, readwritevalid, compwritevalid",
	    struct fid_ep *ep, enum fi_datatype datatype, enum fi_op op, size_t *count)
OFI_REFUSED(ssize_t, collective_barrier, "fi_ops_collective.barrier", struct fid_ep *ep,
	    fi_addr_t coll_addr, void *context)
OFI_REFUSED(ssize_t, collective_broadcast, "fi_ops_collective.broadcast", struct fid_ep *ep,
	    void *buf, size_t count, void *desc, fi_addr_t coll_addr, fi_addr_t root_addr,
	    enum fi_datatype datatype, uint64_t flags, void *context)
OFI_REFUSED(ssize_t, collective_all, "fi_ops_collective.alltoall, allgather", struct fid_ep *ep,
	    const void *buf, size_t count, void *desc, void *result, void *result_desc,
	    fi_addr_t coll_addr, enum fi_datatype datatype, uint64_t flags, void *context)
OFI_REFUSED(ssize_t, collective_reduce_all, "fi_ops_collective.allreduce, reduce_scatter",
	    struct fid_ep *ep, const void *buf, size_t count, void *desc, void *result,
	    void *result_desc, fi_addr_t coll_addr, enum fi_datatype datatype, enum fi_op op,
	    uint64_t flags, void *context)
OFI_REFUSED(ssize_t, collective_reduce, "fi_ops_collective.reduce", struct fid_ep *ep,
	    const void *buf, size_t count, void *desc, void *result, void *result_desc,
	    fi_addr_t coll_addr, fi_addr_t root_addr, enum fi_datatype datatype, enum fi_op op,
	    uint64_t flags, void *context)
OFI_REFUSED(ssize_t, collective_at_root, "fi_ops_collective.scatter, gather", struct fid_ep *ep,
	    const void *buf, size_t count, void *desc, void *result, void *result_desc,
	    fi_addr_t coll_addr, fi_addr_t root_addr, enum fi_datatype datatype, uint64_t flags,
	    void *context)
OFI_REFUSED(ssize_t, collective_msg, "fi_ops_collective.msg", struct fid_ep *ep,
	    const struct fi_msg_collective *msg, struct fi_ioc *resultv, void **result_desc,
	    size_t result_count, uint64_t flags)

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
};
