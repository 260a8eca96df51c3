/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * For tests of the receiving engine: an end with memory of all rights, and FPDUs that no correct
 * peer sends.
 */
#ifndef RIPC_TESTS_TRANSPORT_IWARP_SOFT_BAD_FPDU_H
#define RIPC_TESTS_TRANSPORT_IWARP_SOFT_BAD_FPDU_H

#include "engine_pair.h"

#include <errno.h>

#define LEN 4096u

extern struct engine_end target;
/* The same memory with all rights, one right each. */
extern struct ripc__region *both, *readable, *writable, *local;
extern uint8_t memory[LEN + 2 * 64]; /* with canaries on both sides */
/* The last FPDU. */
extern uint8_t fpdu[70000];
extern size_t fpdu_len;

void bad_fpdu_open(bool crc);
void bad_fpdu_close(void);

/* 66000 bytes for any payload. */
uint8_t *bad_fpdu_filler(void);
void make_tagged(enum ripc__rdmap_op op, bool last, uint32_t stag, uint64_t to, size_t len);
void make_untagged(enum ripc__rdmap_op op, bool last, unsigned queue, uint32_t msn, uint32_t mo,
		   const void *p, size_t len);
/* A Read Request. */
void make_read_request(uint32_t msn, uint32_t stag, uint64_t from, uint32_t len);
/* Computes the CRC of a modified FPDU. */
void fix_crc(void);

void feed_fpdu(void);
/* The passive side may send only after it received an FPDU. */
void feed_first_fpdu(void);
/*
 * Feeds the FPDU, whole or (step > 0) in pieces; the engine must end with this code and place
 * nothing.
 */
void feed_bad_fpdu(unsigned code, size_t step);
/*
 * The engine must transmit this Terminate last. @with_ddp, @with_request: headers of the last FPDU.
 */
void check_terminate(unsigned code, bool with_ddp, bool with_request);

#endif
