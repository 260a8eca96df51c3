/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* transfer() of the vtable with arguments in place of the struct; the descriptor of limits(). */
#ifndef RIPC_TESTS_TRANSPORT_TRANSFER_H
#define RIPC_TESTS_TRANSPORT_TRANSFER_H

#include "transport/transport.h"

static inline int test_transfer(const struct ripc__transport_ops *vtable, struct ripc__ep *ep,
				enum ripc__transfer_kind kind, uint32_t imm,
				const struct ripc__mr *mr, const void *local, size_t len,
				uint64_t raddr, uint32_t rkey, uint64_t wr_id)
{
	const struct ripc__transfer x = {
		.kind = kind,
		.imm = imm,
		.mr = mr,
		.local = (uint8_t *)(uintptr_t)local,
		.len = len,
		.raddr = raddr,
		.rkey = rkey,
		.wr_id = wr_id,
	};

	return vtable->transfer(ep, &x);
}

static inline int test_read(const struct ripc__transport_ops *vtable, struct ripc__ep *ep,
			    const struct ripc__mr *mr, void *local, size_t len, uint64_t raddr,
			    uint32_t rkey, uint64_t wr_id)
{
	return test_transfer(vtable, ep, RIPC__READ, 0, mr, local, len, raddr, rkey, wr_id);
}

static inline int test_write(const struct ripc__transport_ops *vtable, struct ripc__ep *ep,
			     const struct ripc__mr *mr, const void *local, size_t len,
			     uint64_t raddr, uint32_t rkey, uint64_t wr_id)
{
	return test_transfer(vtable, ep, RIPC__WRITE, 0, mr, local, len, raddr, rkey, wr_id);
}

static inline int test_fd(const struct ripc__transport_ops *vtable, struct ripc__transport *t)
{
	struct ripc__transport_limits limits;

	vtable->limits(t, &limits);
	return limits.fd;
}

#endif
