/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The Write that the receiving half of the engine expects next: its payload is received in its
 * target, before its header is known. If another FPDU comes, its bytes are copied back. A private
 * part of engine_rx.c.
 */
#ifndef RIPC_IWARP_SOFT_RX_EXPECT_H
#define RIPC_IWARP_SOFT_RX_EXPECT_H

#include "transport/iwarp/soft/engine.h"

/* Bytes per reception when the next FPDU is probably tagged, because they are copied. */
#define RIPC__BULK_PEEK 4096u

/*
 * A segment with this header comes, for this offset in its region. If it is a long one of a Write,
 * the next Write is expected.
 */
void ripc__rx_learn(struct ripc__engine_rx *rx, const struct ripc__ddp *ddp, uint32_t payload,
		    uint64_t offset);
/*
 * Whether the next Write is expected, in that region, and there is space if it does not come. Other
 * bytes may then overwrite the region, so it must not hold payload yet.
 */
bool ripc__rx_expects(const struct ripc__engine_rx *rx, const struct ripc__region *region,
		      size_t len);
/* The memory for the next bytes, after ripc__rx_expects(). Return: entries in iov. */
unsigned ripc__rx_expect(struct ripc__engine_rx *rx, const struct ripc__region *region,
			 struct iovec iov[RIPC__RX_IOV]);
/* n > 0 bytes were received there. Return: those in space, without a gap. */
size_t ripc__rx_received_ahead(struct ripc__engine_rx *rx, size_t n);

#endif
