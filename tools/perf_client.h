/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The client side of ripc-perf: its tests, each measured in rounds. */
#ifndef RIPC_TOOLS_PERF_CLIENT_H
#define RIPC_TOOLS_PERF_CLIENT_H

#include "perf_control.h"
#include "perf_socket.h"

struct perf_client {
	const struct perf_args *args;
	struct ripc *ctx;
	struct ripc_service *service; /* where replies and echoes come to */
	struct ripc_route route;      /* to the server */
	uint64_t token;               /* of the last request */
	uint64_t damaged;             /* messages whose contents were wrong, seen on either side */
	/* the server reads the same clock, as reported at the start of a paced test */
	bool same_clock;
	bool unwritten;  /* a report of the paced test could not be written */
	bool warming_up; /* nothing that is measured now counts */
	bool announced;  /* @back is announced to the server as a return buffer */
	void *back;      /* it, or NULL */
	/*
	 * Paced: what waits for its moments of arrival, NULL: nothing does. They are no datagram,
	 * and may overtake the reply that announces them, which may be one.
	 */
	struct perf_sample *samples;
	uint64_t nsamples;
};

/* One round: what is to be sent. */
struct perf_round {
	enum perf_test test;
	enum perf_kind kind; /* PERF_SHORT, PERF_LONG or PERF_AUTO */
	uint64_t size, count;
	unsigned char *buf; /* ripc_buf_alloc()ed, size bytes */
};

/*
 * Sends a request and waits for its reply, repeating the request as long as the time given on the
 * command line. @request gets its token here. Return: 0 with a reply of type PERF_REPLY, or a
 * negative errno, explained on the standard error stream.
 */
int perf_ask(struct perf_client *c, struct perf_control *request, struct perf_control *reply);

/* If the message has the moments that @c waits for, takes them and waits for them no more. */
void perf_take_stamps(struct perf_client *c, const struct ripc_message *m);

/*
 * The rounds. Each adds to *figures, which may have figures of earlier rounds in it.
 * Return: 0, or a negative errno, explained on the standard error stream.
 */
int perf_latency(struct perf_client *c, const struct perf_round *round, struct perf_figures *f);
int perf_paced(struct perf_client *c, const struct perf_round *round, struct perf_figures *f);
int perf_oneway(struct perf_client *c, const struct perf_round *round, struct perf_figures *f);

/* Memory for messages of size bytes, as the arguments demand. NULL: with errno. */
void *perf_buffer_new(const struct perf_client *c, uint64_t size);
void perf_buffer_free(const struct perf_client *c, void *buf);
/* Sends the messages of a round as long ones, several in flight. Return: as above. */
int perf_send_window(struct perf_client *c, const struct perf_round *round);

/*
 * The same over plain sockets. Opened once per size, and used between the rounds of our own.
 */
int perf_baseline_open(struct perf_client *c, struct perf_socket *s);
int perf_baseline_round(struct perf_client *c, const struct perf_socket *s,
			const struct perf_round *round, struct perf_figures *figures);
void perf_baseline_close(struct perf_client *c, struct perf_socket *s);

/* Whether messages of this size can be sent over the baseline's protocol at all. */
bool perf_baseline_fits(const struct perf_args *args, uint64_t size);

#endif
