/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Two transports in one thread, one connection: tests of iwarp/verbs with itself and with
 * iwarp/soft.
 */
#ifndef RIPC_TESTS_TRANSPORT_IWARP_ENDPOINT_PAIR_H
#define RIPC_TESTS_TRANSPORT_IWARP_ENDPOINT_PAIR_H

#include "base/clock.h"
#include "harness.h"
#include "transport/transport.h"

#define TIMEOUT_NS (UINT64_C(60) * 1000 * RIPC__MS)

/* One end and what it received. */
struct side {
	const struct ripc__transport_ops *ops;
	struct ripc__transport *t;
	struct ripc__options opt;
	struct ripc__transport_limits limits;
	struct ripc__ep *ep;
	unsigned nestablished, nclosed, nrecv, nread, nwrite, nsendable, naddress;
	bool refuse, rejected, closed_before_data;
	int status;
	uint32_t number; /* messages carry consecutive numbers */
	uint8_t priv[256];
	uint32_t privlen;
	char text[256];
};

extern struct side a, b;
extern char options[64]; /* of both */

/* One round of progress; records its events. */
void step(struct side *s);

/* Runs both until the condition holds. */
#define UNTIL(cond)                                                                              \
	do {                                                                                     \
		uint64_t end_ = ripc__clock_ns() + TIMEOUT_NS;                                   \
		while (!(cond)) {                                                                \
			ck_assert_msg(ripc__clock_ns() < end_, "not in time: %s; %s; %s", #cond, \
				      a.text, b.text);                                           \
			step(&a);                                                                \
			step(&b);                                                                \
		}                                                                                \
	} while (0)

/*
 * Pairs of transports by number: iwarp/verbs with itself, and with iwarp/soft in either direction,
 * without and with CRC.
 */
#define PAIRS   5
#define PAIR_IB PAIRS /* also: ib */

void open_pair(int which);
void close_pair(void);
void start_connect(void); /* a connects to b */
void connect_pair(void);  /* and waits until both are connected */
/* The first closes, the second gets EV_CLOSED; ready for the next connection. */
void disconnect(struct side *first, struct side *second);
/* As post(). @number: awaited by the other side. */
int send_one(struct side *from, uint32_t number, size_t len);

#endif
