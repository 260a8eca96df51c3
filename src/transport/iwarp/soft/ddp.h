/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Headers of DDP (RFC 5041) and RDMAP (RFC 5040) inside an FPDU of MPA (RFC 5044), and the codes of
 * Terminate. Pure.
 */
#ifndef RIPC_IWARP_DDP_H
#define RIPC_IWARP_DDP_H

#include "wire/bytes.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* FPDU: length of the ULPDU (2), ULPDU, 0..3 bytes so that the sum is a multiple of 4, CRC (4). */
#define RIPC__FPDU_LEN     2
#define RIPC__FPDU_CRC     4
#define RIPC__DDP_TAGGED   14 /* bytes of the header of a tagged segment */
#define RIPC__DDP_UNTAGGED 18 /* bytes of the header of an untagged segment */
#define RIPC__READ_REQUEST 28 /* bytes of the payload of a Read Request */

/* First byte of the DDP header. */
#define RIPC__DDP_T       0x80 /* tagged */
#define RIPC__DDP_L       0x40 /* last segment of its message */
#define RIPC__DDP_VERSION 0x01 /* low two bits */
/* Second byte: RDMAP version and operation. */
#define RIPC__RDMAP_VERSION 0x40 /* high two bits */

enum ripc__rdmap_op {
	RIPC__RDMAP_WRITE = 0,
	RIPC__RDMAP_READ_REQUEST = 1,
	RIPC__RDMAP_READ_RESPONSE = 2,
	RIPC__RDMAP_SEND = 3,
	RIPC__RDMAP_SEND_INVALIDATE = 4,
	RIPC__RDMAP_SEND_SE = 5,
	RIPC__RDMAP_SEND_SE_INVALIDATE = 6,
	RIPC__RDMAP_TERMINATE = 7,
};

/* Queue numbers of untagged segments. */
enum ripc__ddp_queue {
	RIPC__DDP_Q_SEND = 0,
	RIPC__DDP_Q_READ = 1,
	RIPC__DDP_Q_TERMINATE = 2,
	RIPC__DDP_QUEUES = 3
};

/*
 * Layer, error type and code of a Terminate as one number 0xLTCC: RFC 5040 section 4.8, RFC 5041
 * section 7, RFC 5044 section 8, RFC 6581 section 10.
 */
enum ripc__term {
	RIPC__TERM_CATASTROPHE = 0x0000, /* RDMAP, local catastrophic error */
	RIPC__TERM_STAG = 0x0100,        /* RDMAP, remote protection: invalid STag */
	RIPC__TERM_BOUNDS = 0x0101,      /* base or bounds violation */
	RIPC__TERM_ACCESS = 0x0102,      /* access rights violation */
	RIPC__TERM_WRAP = 0x0104,        /* tagged offset wraps round */
	RIPC__TERM_VERSION = 0x0205,     /* RDMAP, remote operation: invalid RDMAP version */
	RIPC__TERM_OPCODE = 0x0206,      /* unexpected opcode */
	RIPC__TERM_INVALIDATE = 0x0209,  /* STag cannot be invalidated */
	RIPC__TERM_UNSPECIFIED = 0x02ff,
	RIPC__TERM_DDP_CATASTROPHE = 0x1000,
	RIPC__TERM_T_STAG = 0x1100,      /* DDP, tagged buffer: invalid STag */
	RIPC__TERM_T_BOUNDS = 0x1101,    /* base or bounds violation */
	RIPC__TERM_T_WRAP = 0x1103,      /* tagged offset wraps round */
	RIPC__TERM_T_VERSION = 0x1104,   /* invalid DDP version */
	RIPC__TERM_U_QUEUE = 0x1201,     /* DDP, untagged buffer: invalid queue number */
	RIPC__TERM_U_NO_BUFFER = 0x1202, /* invalid MSN, no buffer available */
	RIPC__TERM_U_MSN = 0x1203,       /* invalid MSN, out of range */
	RIPC__TERM_U_OFFSET = 0x1204,    /* invalid message offset */
	RIPC__TERM_U_TOO_LONG = 0x1205,  /* message too long for the buffer */
	RIPC__TERM_U_VERSION = 0x1206,   /* invalid DDP version */
	RIPC__TERM_CRC = 0x2002,         /* MPA: CRC error */
	RIPC__TERM_FRAMING = 0x2003,     /* MPA: ULPDU length does not match */
};

/* The header of a segment. */
struct ripc__ddp {
	bool tagged, last;
	uint8_t op;              /* low four bits, of enum ripc__rdmap_op if it is valid */
	uint32_t len;            /* bytes of the header */
	uint32_t stag;           /* tagged: of the target; untagged: the one to invalidate */
	uint64_t to;             /* tagged: offset in the target */
	uint32_t queue, msn, mo; /* untagged: queue, message number, offset in the message */
};

/* Bytes of the whole FPDU for an ULPDU of this length. */
static inline size_t ripc__fpdu_size(size_t ulpdu)
{
	return ((RIPC__FPDU_LEN + ulpdu + 3) & ~(size_t)3) + RIPC__FPDU_CRC;
}

/* Writes length and header of a tagged segment at p. Return: bytes. */
static inline size_t ripc__ddp_put_tagged(uint8_t *p, enum ripc__rdmap_op op, bool last,
					  uint32_t stag, uint64_t to, size_t payload)
{
	ripc__put_be16(p, (uint16_t)(RIPC__DDP_TAGGED + payload));
	p[2] = RIPC__DDP_T | (last ? RIPC__DDP_L : 0) | RIPC__DDP_VERSION;
	p[3] = (uint8_t)(RIPC__RDMAP_VERSION | op);
	ripc__put_be32(p + 4, stag);
	ripc__put_be64(p + 8, to);
	return RIPC__FPDU_LEN + RIPC__DDP_TAGGED;
}

/* Writes length and header of an untagged segment at p. Return: bytes. */
static inline size_t ripc__ddp_put_untagged(uint8_t *p, enum ripc__rdmap_op op, bool last,
					    enum ripc__ddp_queue queue, uint32_t msn, uint32_t mo,
					    size_t payload)
{
	ripc__put_be16(p, (uint16_t)(RIPC__DDP_UNTAGGED + payload));
	p[2] = (last ? RIPC__DDP_L : 0) | RIPC__DDP_VERSION;
	p[3] = (uint8_t)(RIPC__RDMAP_VERSION | op);
	ripc__put_be32(p + 4, 0);
	ripc__put_be32(p + 8, queue);
	ripc__put_be32(p + 12, msn);
	ripc__put_be32(p + 16, mo);
	return RIPC__FPDU_LEN + RIPC__DDP_UNTAGGED;
}

/*
 * Decodes and checks the header of a segment: versions, operation, kind of segment, queue. @ulpdu
 * bytes: length of the ULPDU; at least its header is present. Return: 0, or the Terminate code.
 */
int ripc__ddp_get(struct ripc__ddp *ddp, const uint8_t *p, size_t ulpdu);

/* Text of a code. */
const char *ripc__term_text(unsigned code);

#endif
