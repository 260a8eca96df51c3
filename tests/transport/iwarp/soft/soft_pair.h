/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * For tests of iwarp/soft over real loopback sockets: two transports in one thread, and their
 * events.
 */
#ifndef RIPC_TESTS_TRANSPORT_IWARP_SOFT_SOFT_PAIR_H
#define RIPC_TESTS_TRANSPORT_IWARP_SOFT_SOFT_PAIR_H

#include "base/clock.h"
#include "harness.h"
#include "ripc.h"
#include "transport/iwarp/soft/mpa.h"
#include "transport/iwarp/soft/soft.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Time limit of a required event. */
#define TIMEOUT_NS (UINT64_C(20) * 1000 * RIPC__MS)

static const struct ripc__transport_ops *const ops = &ripc__transport_soft;

/* One end and its events. */
struct side {
	struct ripc__transport *t;
	struct ripc__ep *ep; /* of the last EV_ESTABLISHED */
	unsigned nrequest, nestablished, nclosed, nrecv, nread, nwrite, nsendable, nlow, ngarbage,
		ndatagram;
	void *request; /* the last unanswered request */
	bool answer_later, refuse;
	uint8_t priv[256]; /* last private data */
	uint32_t privlen;
	bool rejected;
	int closed_status;
	char text[256]; /* of EV_CLOSED or EV_BAD_INPUT */
	uint8_t *last;  /* last message */
	uint32_t last_len;
	uint64_t wr_id;
	uint8_t from[64];
	uint32_t fromlen;
	uint64_t sum; /* bytes received */
	unsigned max; /* events per progress() */
	bool hold;    /* keeps tokens */
	void *held[8192];
	unsigned nheld;
	bool closed_before_data;
	bool in_order; /* messages carry consecutive numbers, checked */
	uint32_t number;
};

extern struct side a, b;

/* A failed check ends the test: only side_open() returns an error, that of the transport. */
int side_open(struct side *s, const char *options);
void side_close(struct side *s);
void sides_open(const char *options);
/* The same, connected by a.ep and b.ep. */
void sides_connect(const char *options);
/* Closes both; checks that no descriptor is left. */
void sides_close(void);

/* Handles the events of one progress(), up to s->max. Return: how many. */
void side_handle(struct side *s, const struct ripc__event *e);
unsigned side_step(struct side *s);
void side_connect(struct side *from, struct side *to, struct ripc__ep **ep);
int side_post(struct side *s, const void *p, size_t len, bool more);
/* No connection was lost. */
void sides_live(void);
/* Bytes that depend on seed. The caller frees them. */
uint8_t *side_pattern(size_t len, unsigned seed);

/* Runs both until the condition holds. */
#define UNTIL(condition)                                                                     \
	do {                                                                                 \
		uint64_t end_ns = ripc__clock_ns() + TIMEOUT_NS;                             \
		while (!(condition)) {                                                       \
			ck_assert_msg(ripc__clock_ns() < end_ns, "in vain: %s", #condition); \
			side_step(&a);                                                       \
			side_step(&b);                                                       \
		}                                                                            \
	} while (0)

/* The same; both must stay connected. */
#define LIVE_UNTIL(condition) UNTIL((sides_live(), (condition)))

#endif
