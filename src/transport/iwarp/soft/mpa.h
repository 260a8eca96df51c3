/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The set-up frames of MPA: RFC 5044 section 7.1 (revision 1) and RFC 6581 (revision 2, enhanced).
 * Pure.
 */
#ifndef RIPC_IWARP_MPA_H
#define RIPC_IWARP_MPA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RIPC__MPA_HEADER      20  /* bytes of a frame without its private data */
#define RIPC__MPA_PRIVATE_MAX 512 /* bytes of private data of any frame at most */
#define RIPC__MPA_FRAME_MAX   (RIPC__MPA_HEADER + RIPC__MPA_PRIVATE_MAX)
#define RIPC__MPA_DEPTH_NONE  0x3fff /* IRD or ORD: not negotiated here */

/* The first FPDU of the active side: flags of RFC 6581 section 9. */
enum ripc__mpa_rtr {
	RIPC__MPA_RTR_SEND = 1,  /* B: a Send of no bytes */
	RIPC__MPA_RTR_WRITE = 2, /* C: an RDMA Write of no bytes */
	RIPC__MPA_RTR_READ = 4,  /* D: an RDMA Read of no bytes */
};

/* A Request or Reply frame. */
struct ripc__mpa {
	uint8_t revision;    /* 1 or 2 */
	bool reply;          /* else it is a request */
	bool markers;        /* M: the sender of this frame requires markers in what it receives */
	bool crc;            /* C: the sender wants CRCs; they are used if either side does */
	bool reject;         /* R: reply only, the connection is refused */
	bool enhanced;       /* S: revision 2 only, the fields below are present */
	bool peer_to_peer;   /* A: the active side sends an FPDU of its own */
	unsigned rtr;        /* of enum ripc__mpa_rtr */
	uint16_t ird, ord;   /* reads served, reads wanted; RIPC__MPA_DEPTH_NONE: not given */
	bool soft;           /* the sender is this stack, which takes FPDUs of any length */
	const uint8_t *priv; /* private data of the application only */
	size_t privlen;      /* bytes at priv */
};

/* The parameters on which two frames agree. */
struct ripc__mpa_terms {
	bool crc;             /* both sides send and check CRCs */
	bool soft;            /* the peer is this stack */
	uint32_t read_depth;  /* reads we may have outstanding */
	uint32_t serve_depth; /* reads the peer may have outstanding */
};

/* Writes a frame. privlen is at most 256. Return: its bytes. */
size_t ripc__mpa_encode(const struct ripc__mpa *frame, uint8_t buf[RIPC__MPA_FRAME_MAX]);

/*
 * Reads the frame at the start of the @len bytes received. frame->priv points into them. Return:
 * bytes of the frame; 0: more are needed; -EPROTO, with the reason in *why: no frame can begin so.
 */
int ripc__mpa_decode(struct ripc__mpa *frame, bool reply, const uint8_t *buf, size_t len,
		     const char **why);

/*
 * Passive side: fills the reply to a request that the application accepts, and the resulting terms.
 * @want_crc: we want CRCs. @depth: most reads we serve and want. The caller fills reply->priv.
 * Return: 0, or -EPROTO with the reason in *why; reply is a refusal then, with the reason as its
 * private data.
 */
int ripc__mpa_answer(const struct ripc__mpa *request, bool want_crc, uint32_t depth,
		     struct ripc__mpa *reply, struct ripc__mpa_terms *terms, const char **why);

/*
 * Active side: the terms of our request and the reply to it. Return: 0; -EPROTO with *why; -EAGAIN:
 * the peer supports revision 1 only, connect again with that.
 */
int ripc__mpa_conclude(const struct ripc__mpa *request, const struct ripc__mpa *reply,
		       struct ripc__mpa_terms *terms, const char **why);

#endif
