/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Calls of RMA, which are not served: each logs its name and returns -FI_ENOSYS. Calls with the
 * same parameters share a function. Of atomics and collectives there is not even a table, as in
 * other providers without them: fi_getinfo() offers neither, and no key and no collective group
 * can be made that these calls need.
 */
#include "ofi/provider.h"

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
