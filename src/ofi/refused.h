/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Calls of endpoints that are not served: each logs its name and returns -FI_ENOSYS. Calls with the
 * same parameters share a function.
 */
#ifndef OFI_REFUSED_H
#define OFI_REFUSED_H

#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_collective.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_rma.h>

extern struct fi_ops_rma ofi_no_rma;
extern struct fi_ops_atomic ofi_no_atomic;
extern struct fi_ops_collective ofi_no_collective;

int ofi_no_getpeer(struct fid_ep *ep, void *address, size_t *len);
int ofi_no_connect(struct fid_ep *ep, const void *address, const void *param, size_t len);
int ofi_no_listen(struct fid_pep *pep);
int ofi_no_accept(struct fid_ep *ep, const void *param, size_t len);
int ofi_no_reject(struct fid_pep *pep, fid_t handle, const void *param, size_t len);
int ofi_no_shutdown(struct fid_ep *ep, uint64_t flags);
int ofi_no_join(struct fid_ep *ep, const void *address, uint64_t flags, struct fid_mc **mc,
		void *context);

#endif
