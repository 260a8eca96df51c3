/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A model of fi_msg(3), fi_tagged(3), fi_cq(3) and fi_cntr(3) for several endpoints: each message
 * is received once, whole, by a receive that it fits, in the order of FI_ORDER_SAS; each operation
 * completes once, as its flags ask; memory that the application has back stays as it is.
 */
#ifndef OFI_TESTS_MODEL_H
#define OFI_TESTS_MODEL_H

#include "side.h"

#define ENDPOINTS 4
#define OPS_MAX   20000
#define ID_SHIFT  16 /* of the tag of a message: its id; below it: bits that receives compare */
#define ID_MASK   (~UINT64_C(0) << ID_SHIFT)

enum kind { SEND, RECEIVE, PEEK, CLAIM };
enum state { OPEN, DONE, FAILED };

/* An operation. Its address is the context, its index the id of the message. */
struct op {
	enum kind kind;
	enum state state;
	unsigned ep;
	bool tagged, notify, injected;
	int other; /* SEND: destination; else: source, or -1 */
	uint64_t tag, ignore;
	bool has_data;
	bool waits; /* SEND: completes only when it is matched */
	bool discard;
	bool unclaimed; /* PEEK: CLAIM and not yet taken */
	bool reused;    /* buf is the application's again */
	size_t len;     /* of the message, or room of the receive */
	uint8_t *buf;
	struct op *match;
};

struct end {
	struct fid_ep *ep;
	struct fid_av *av;
	struct fid_cq *tx, *rx;
	struct fid_cntr *tx_cntr, *rx_cntr;
	fi_addr_t to[ENDPOINTS];
	bool selective, directed, own_rx;
	uint64_t sent, send_errors, received, receive_errors;
};

extern struct end ends[ENDPOINTS];
extern struct op *ops;
extern unsigned nops;

void model_begin(void);
/* Checks the memory that the application has back, and frees it. */
void model_end(void);
struct op *new_op(enum kind kind, unsigned ep);
/* Memory of len bytes with a guard behind it. */
uint8_t *guarded(size_t len);
void fill_message(const struct op *s);
/* The memory is the application's again: a later access is an error. */
void done_with(struct op *o);
bool fits(const struct op *r, const struct op *m);
/* Reads at most n <= 8 completions and checks them. Return: whether there was one. */
bool poll_queue(struct fid_cq *cq, unsigned n);
/* Waits until everything has happened that needs no further call. */
void settle(void);
/* No message overtakes another one of its sender, and no receive an earlier one. */
void check_order(void);
/* Counters have the completed operations; all notified sends are complete. */
void check_counters(void);

#endif
