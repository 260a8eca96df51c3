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

static const struct {
	enum ripc__term code;
	const char *text;
} texts[] = {
	{RIPC__TERM_CATASTROPHE, "local catastrophic error"},
	{RIPC__TERM_STAG, "invalid STag"},
	{RIPC__TERM_T_STAG, "invalid STag"},
	{RIPC__TERM_BOUNDS, "access beyond the bounds of the memory"},
	{RIPC__TERM_T_BOUNDS, "access beyond the bounds of the memory"},
	{RIPC__TERM_ACCESS, "access right missing"},
	{RIPC__TERM_WRAP, "tagged offset wraps round"},
	{RIPC__TERM_T_WRAP, "tagged offset wraps round"},
	{RIPC__TERM_VERSION, "invalid RDMAP version"},
	{RIPC__TERM_OPCODE, "unexpected RDMAP operation"},
	{RIPC__TERM_INVALIDATE, "STag cannot be invalidated"},
	{RIPC__TERM_DDP_CATASTROPHE, "local catastrophic error of DDP"},
	{RIPC__TERM_T_VERSION, "invalid DDP version"},
	{RIPC__TERM_U_VERSION, "invalid DDP version"},
	{RIPC__TERM_U_QUEUE, "invalid queue number"},
	{RIPC__TERM_U_NO_BUFFER, "no buffer for the message"},
	{RIPC__TERM_U_MSN, "message number out of order"},
	{RIPC__TERM_U_OFFSET, "invalid message offset"},
	{RIPC__TERM_U_TOO_LONG, "message too long"},
	{RIPC__TERM_CRC, "CRC error"},
	{RIPC__TERM_FRAMING, "invalid ULPDU length"},
};

const char *ripc__term_text(unsigned code)
{
	for (unsigned i = 0; i < sizeof(texts) / sizeof(*texts); i++)
		if (texts[i].code == code)
			return texts[i].text;
	return "unspecified error";
}
