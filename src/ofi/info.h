/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* fi_getinfo(): what the provider offers, and the check of what an application asks for. */
#ifndef OFI_INFO_H
#define OFI_INFO_H

#include <rdma/fabric.h>

/* Longest message in bytes; an item of libripc is shorter than 2^47. */
#define OFI_MESSAGE_MAX ((size_t)1 << 46)
#define OFI_INJECT_MAX  4096
#define OFI_IOV_MAX     4
#define OFI_QUEUE_SIZE  1024

/* op_flags that an endpoint may have */
#define OFI_TX_OP_FLAGS                                                          \
	(FI_COMPLETION | FI_INJECT | FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE | \
	 FI_DELIVERY_COMPLETE | FI_MATCH_COMPLETE | FI_MORE | FI_REMOTE_CQ_DATA)
#define OFI_RX_OP_FLAGS ((uint64_t)FI_COMPLETION)

int ofi_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
		const struct fi_info *hints, struct fi_info **info);

#endif
