/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "transport/iwarp/soft/ddp.h"

int ripc__ddp_get(struct ripc__ddp *ddp, const uint8_t *p, size_t ulpdu)
{
	ddp->tagged = p[0] & RIPC__DDP_T;
	ddp->last = p[0] & RIPC__DDP_L;
	ddp->op = p[1] & 0x0f;
	ddp->len = ddp->tagged ? RIPC__DDP_TAGGED : RIPC__DDP_UNTAGGED;
	if ((p[0] & 3) != RIPC__DDP_VERSION)
		return ddp->tagged ? RIPC__TERM_T_VERSION : RIPC__TERM_U_VERSION;
	if (ulpdu < ddp->len)
		return RIPC__TERM_FRAMING;
	if ((p[1] & 0xc0) != RIPC__RDMAP_VERSION)
		return RIPC__TERM_VERSION;
	ddp->stag = ripc__get_be32(p + 2);
	if (ddp->tagged) {
		ddp->to = ripc__get_be64(p + 6);
		if (ddp->op != RIPC__RDMAP_WRITE && ddp->op != RIPC__RDMAP_READ_RESPONSE)
			return RIPC__TERM_OPCODE;
		return 0;
	}
	ddp->queue = ripc__get_be32(p + 6);
	ddp->msn = ripc__get_be32(p + 10);
	ddp->mo = ripc__get_be32(p + 14);
	switch (ddp->queue) {
	case RIPC__DDP_Q_SEND:
		if (ddp->op < RIPC__RDMAP_SEND || ddp->op > RIPC__RDMAP_SEND_SE_INVALIDATE)
			return RIPC__TERM_OPCODE;
		return 0;
	case RIPC__DDP_Q_READ:
		return ddp->op == RIPC__RDMAP_READ_REQUEST ? 0 : RIPC__TERM_OPCODE;
	case RIPC__DDP_Q_TERMINATE:
		return ddp->op == RIPC__RDMAP_TERMINATE ? 0 : RIPC__TERM_OPCODE;
	default:
		return RIPC__TERM_U_QUEUE;
	}
}

const char *ripc__term_text(unsigned code)
{
	switch (code) {
	case RIPC__TERM_CATASTROPHE:
		return "local catastrophic error";
	case RIPC__TERM_STAG:
	case RIPC__TERM_T_STAG:
		return "invalid STag";
	case RIPC__TERM_BOUNDS:
	case RIPC__TERM_T_BOUNDS:
		return "access beyond the bounds of the memory";
	case RIPC__TERM_ACCESS:
		return "access right missing";
	case RIPC__TERM_WRAP:
	case RIPC__TERM_T_WRAP:
		return "tagged offset wraps round";
	case RIPC__TERM_VERSION:
		return "invalid RDMAP version";
	case RIPC__TERM_OPCODE:
		return "unexpected RDMAP operation";
	case RIPC__TERM_INVALIDATE:
		return "STag cannot be invalidated";
	case RIPC__TERM_DDP_CATASTROPHE:
		return "local catastrophic error of DDP";
	case RIPC__TERM_T_VERSION:
	case RIPC__TERM_U_VERSION:
		return "invalid DDP version";
	case RIPC__TERM_U_QUEUE:
		return "invalid queue number";
	case RIPC__TERM_U_NO_BUFFER:
		return "no buffer for the message";
	case RIPC__TERM_U_MSN:
		return "message number out of order";
	case RIPC__TERM_U_OFFSET:
		return "invalid message offset";
	case RIPC__TERM_U_TOO_LONG:
		return "message too long";
	case RIPC__TERM_CRC:
		return "CRC error";
	case RIPC__TERM_FRAMING:
		return "invalid ULPDU length";
	default:
		return "unspecified error";
	}
}
