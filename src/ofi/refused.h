/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Calls of endpoints that are not served: each logs its name and returns -FI_ENOSYS. Calls with the
 * same parameters share a function.
 */
#ifndef OFI_REFUSED_H
#define OFI_REFUSED_H

#include <rdma/fi_atomic.h>
#include <rdma/fi_collective.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_rma.h>

extern struct fi_ops_rma ofi_no_rma;
extern struct fi_ops_atomic ofi_no_atomic;
extern struct fi_ops_collective ofi_no_collective;

#endif
