/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Calls a function at a fixed rate, with absolute deadlines: a late call does not move the later
 * ones. Up to TICKER_SPIN_HZ by a timerfd; above, the loop spins, because a sleep takes longer than
 * a period.
 */
#ifndef RIPC_GATEWAY_TICKER_H
#define RIPC_GATEWAY_TICKER_H

#include <stdint.h>
#include <uv.h>

#define TICKER_SPIN_HZ 5000

/* @missed: deadlines that passed without a call since the last one. */
typedef void ticker_fn(void *arg, uint64_t missed);

struct ticker {
	uv_poll_t poll;
	uv_idle_t idle;
	int fd; /* -1: it spins */
	uint64_t period_ns, next_ns;
	ticker_fn *fn;
	void *arg;
	/* how late the calls were: the largest, and the number above 50 us */
	uint64_t late_max_ns, late;
};

/* @ticker stays in place until its handles were closed. Return: 0 or a negative errno. */
int ticker_start(struct ticker *ticker, uv_loop_t *loop, double rate, ticker_fn *fn, void *arg);

/* No call comes after this. Does nothing before ticker_start(). */
void ticker_stop(struct ticker *ticker);

/* Releases the rest, when the loop has closed all handles. */
void ticker_free(struct ticker *ticker);

#endif
