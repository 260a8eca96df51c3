/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Events of a whole transport, which wait for progress() to report them. All zeros at first. */
#ifndef RIPC_TRANSPORT_REPORTS_H
#define RIPC_TRANSPORT_REPORTS_H

#include "transport/transport.h"

#define RIPC__REPORTS_MAX 16u

struct ripc__reports {
	char bad_input[RIPC__REPORTS_MAX][192]; /* texts, a ring; more are dropped */
	unsigned head, tail;                    /* counters into it */
	bool address;                           /* EV_ADDRESS */
	bool fd_low;                            /* EV_FD_LOW with this status */
	int fd_status;
};

void ripc__report_bad_input(struct ripc__reports *r, const char *who, const char *why);
/* A descriptor was opened, or none could be (-errno): the core may have to close idle lanes. */
void ripc__report_descriptor(struct ripc__reports *r, int fd);

static inline bool ripc__reports_pending(const struct ripc__reports *r)
{
	return r->head != r->tail || r->address || r->fd_low;
}

/* Return: number of events. Their texts are valid until the next pass. */
unsigned ripc__reports_take(struct ripc__reports *r, struct ripc__event *events, unsigned max);

#endif
