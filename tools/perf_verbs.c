/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Messages over queue pairs of verbs alone, without the library: what a device does by itself,
 * beside what the library makes of it. One thread sends and another one receives, so that both read
 * the same clock.
 */
#define _GNU_SOURCE
#include "config.h"
#include "perf.h"

#ifdef HAVE_VERBS
#include "perf_pair.h"

#include <endian.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COUNT      8000 /* messages when no number is given */
#define UNMEASURED 500
#define WAIT_MS    50 /* of the receiver that sleeps, to see that it is over */

struct verbs {
	const struct perf_args *args;
	struct perf_pair pair;
	uint64_t size, count;
	struct perf_sample *samples;
	unsigned posted, reaped;  /* of the send queue */
	atomic_uint_fast64_t got; /* messages received */
	uint64_t timed_out;       /* sent, and taken for lost */
	/* Writes by themselves: where the receiver goes on after what was given up. */
	atomic_uint_fast64_t skip_to;
	atomic_bool finished, failed;
};

static void fail(struct verbs *v, const char *what, const char *why)
{
	if (!atomic_exchange(&v->failed, true))
		tool_error("%s: %s", what, why);
}

/* ---- the receiver ---- */

/* A message ends with its number, counted from 1: the last bytes of a write arrive last. */
static uint64_t number_in(const unsigned char *message, uint64_t size)
{
	uint64_t number;

	memcpy(&number, message + size - sizeof(number), sizeof(number));
	return number;
}

static void record_sample(struct verbs *v, uint64_t number, uint64_t now_ns)
{
	if (number && number <= v->count && !v->samples[number - 1].received_ns)
		v->samples[number - 1].received_ns = now_ns;
	atomic_fetch_add(&v->got, 1);
}

static void poll_one(struct verbs *v, const struct ibv_wc *wc)
{
	const struct perf_pair *p = &v->pair;
	unsigned slot = (unsigned)wc->wr_id;
	const unsigned char *at = p->target + slot * p->slot_bytes;
	uint64_t now_ns = tool_now_ns(), number;

	if (wc->status != IBV_WC_SUCCESS) {
		fail(v, "receive", ibv_wc_status_str(wc->status));
		return;
	}
	if (v->args->op == PERF_WRITE_IMM)
		number = (uint64_t)be32toh(wc->imm_data) + 1;
	else
		number = number_in(at + (v->args->qp == PERF_UD ? PERF_GRH : 0), v->size);
	/* Replenished before it is counted: who counts may send one more. */
	if (perf_pair_post_receive(&v->pair, v->args, slot))
		fail(v, "post a receive", strerror(errno));
	record_sample(v, number, now_ns);
}

static int poll_batch(struct verbs *v)
{
	struct ibv_wc wc[16];
	int n = ibv_poll_cq(v->pair.recv_cq, 16, wc);

	for (int i = 0; i < n; i++)
		poll_one(v, &wc[i]);
	if (n < 0)
		fail(v, "receive", "the completion queue cannot be read");
	return n;
}

/* Arms, looks once more, and sleeps: what came in between has no event. */
static void wait_and_poll(struct verbs *v)
{
	struct pollfd fd = {.fd = v->pair.channel->fd, .events = POLLIN};
	struct ibv_cq *cq;
	void *context;

	errno = ibv_req_notify_cq(v->pair.recv_cq, 0);
	if (errno)
		fail(v, "arm the completion queue", strerror(errno));
	if (poll_batch(v))
		return;
	if (poll(&fd, 1, WAIT_MS) > 0 && !ibv_get_cq_event(v->pair.channel, &cq, &context))
		ibv_ack_cq_events(cq, 1);
}

/* A write without immediate does not notify its target: the memory is polled. */
static void watch(struct verbs *v, uint64_t *next)
{
	const struct perf_pair *p = &v->pair;
	const unsigned char *at = p->target + *next % v->args->depth * p->slot_bytes;
	const volatile unsigned char *last = at + v->size - 1;
	uint64_t skip_to = atomic_load(&v->skip_to);

	if (*next < skip_to)
		*next = skip_to;
	/* The highest byte of a number is in its last: it is marked, so that it is not 0. */
	if (*next >= v->count || !*last ||
	    (number_in(at, v->size) & ~(UINT64_C(0xff) << 56)) != *next + 1)
		return;
	atomic_thread_fence(memory_order_acquire);
	record_sample(v, ++*next, tool_now_ns());
}

static void *receive(void *arg)
{
	struct verbs *v = arg;
	uint64_t next = 0;

	while (!atomic_load(&v->finished) && !atomic_load(&v->failed) && !tool_stopped) {
		if (v->args->op == PERF_WRITE)
			watch(v, &next);
		else if (v->args->wait == PERF_BLOCK)
			wait_and_poll(v);
		else
			poll_batch(v);
	}
	return NULL;
}

/* ---- the sender ---- */

/* A completion stands for all that were posted before it, too. */
static void poll_sends(struct verbs *v)
{
	struct ibv_wc wc[16];
	int n = ibv_poll_cq(v->pair.send_cq, 16, wc);

	for (int i = 0; i < n; i++) {
		if (wc[i].status != IBV_WC_SUCCESS)
			fail(v, "send", ibv_wc_status_str(wc[i].status));
		v->reaped = (unsigned)wc[i].wr_id;
	}
}

static bool has_room(struct verbs *v)
{
	if (v->posted - v->reaped >= v->pair.send_max)
		poll_sends(v);
	return v->posted - v->reaped < v->pair.send_max;
}

/*
 * Waits until no more than @most of @sent messages are under way; what does not come within a while
 * is lost.
 */
static void wait_for_receiver(struct verbs *v, uint64_t sent, uint64_t most)
{
	uint64_t seen = atomic_load(&v->got), since_ns = tool_now_ns();
	/* Over a reliable queue pair nothing is lost but with all of it. */
	uint64_t quiet_ms = v->args->qp == PERF_RC ? PERF_STALL_MS : PERF_DRAIN_MS;

	while (!atomic_load(&v->failed) && !tool_stopped) {
		uint64_t got = atomic_load(&v->got);

		if (got + v->timed_out + most >= sent)
			return;
		poll_sends(v);
		if (got != seen) {
			seen = got;
			since_ns = tool_now_ns();
		} else if (tool_now_ns() - since_ns > quiet_ms * 1000000) {
			v->timed_out = sent - got;
			atomic_store(&v->skip_to, sent);
		}
		sched_yield();
	}
}

static void post(struct verbs *v, uint64_t i)
{
	static const enum ibv_wr_opcode codes[] = {
		[PERF_SEND] = IBV_WR_SEND,
		[PERF_WRITE] = IBV_WR_RDMA_WRITE,
		[PERF_WRITE_IMM] = IBV_WR_RDMA_WRITE_WITH_IMM,
	};
	const struct perf_args *args = v->args;
	struct perf_pair *p = &v->pair;
	unsigned char *at = p->source + v->posted % p->send_max * p->slot_bytes;
	uint64_t number = i + 1;
	struct ibv_sge sge = {
		.addr = (uintptr_t)at, .length = (uint32_t)v->size, .lkey = p->source_mr->lkey};
	struct ibv_send_wr wr = {.wr_id = v->posted + 1,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = codes[args->op],
				 .imm_data = htobe32((uint32_t)i)};
	struct ibv_send_wr *bad;

	if (args->op == PERF_WRITE)
		number |= UINT64_C(0xff) << 56;
	memcpy(at + v->size - sizeof(number), &number, sizeof(number));
	if (v->size <= args->inline_bytes)
		wr.send_flags |= IBV_SEND_INLINE;
	if (!((v->posted + 1) % args->signal_every))
		wr.send_flags |= IBV_SEND_SIGNALED;
	if (args->qp == PERF_UD) {
		wr.wr.ud.ah = p->ah;
		wr.wr.ud.remote_qpn = p->to->qp_num;
		wr.wr.ud.remote_qkey = PERF_QKEY;
	} else if (args->op != PERF_SEND) {
		wr.wr.rdma.remote_addr = (uintptr_t)(p->target + i % args->depth * p->slot_bytes);
		wr.wr.rdma.rkey = p->target_mr->rkey;
	}
	v->samples[i].sent_ns = tool_now_ns();
	errno = ibv_post_send(p->from, &wr, &bad);
	if (errno)
		fail(v, "send", strerror(errno));
	else
		v->posted++;
}

/*
 * Without a rate, no more are under way than the receive queue has room for; with one, what has no
 * room is not sent.
 */
static void send_all(struct verbs *v)
{
	const struct perf_args *args = v->args;
	uint64_t period_ns = args->rate_hz ? 1000000000 / args->rate_hz : 0;
	uint64_t begin_ns = tool_now_ns();
	unsigned burst = args->burst;
	uint64_t sent = 0;

	for (uint64_t i = 0; i < v->count && !atomic_load(&v->failed) && !tool_stopped; i++) {
		struct perf_sample *s = &v->samples[i];

		s->due_ns = period_ns ? begin_ns + (i / burst + 1) * burst * period_ns : 0;
		if (period_ns && !(i % burst))
			perf_wait_until(args, s->due_ns);
		if (period_ns && tool_now_ns() >= s->due_ns + burst * period_ns)
			continue;
		/* A write has nothing that keeps it from what was not read yet. */
		if (!period_ns || args->op == PERF_WRITE)
			wait_for_receiver(v, sent, args->depth - 1);
		while (!period_ns && !has_room(v) && !atomic_load(&v->failed) && !tool_stopped)
			sched_yield();
		if (has_room(v)) {
			post(v, i);
			sent++;
		} else {
			s->sent_ns = tool_now_ns();
			s->refused = true;
		}
		if (args->pause_ns)
			perf_wait_until(args, tool_now_ns() + args->pause_ns);
	}
	wait_for_receiver(v, sent, 0);
}

/* On the processor after the sender's, if that was chosen. */
static void move_receiver(pthread_t thread, int pin)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	cpu_set_t set;

	if (pin < 0 || cpus < 2)
		return;
	CPU_ZERO(&set);
	CPU_SET((size_t)((pin + 1) % cpus), &set);
	pthread_setaffinity_np(thread, sizeof(set), &set);
}

/* Sends @count messages. Return: 0, or -1, explained. */
static int run(struct verbs *v, uint64_t count, struct perf_sample *samples)
{
	pthread_t thread;

	v->count = count;
	v->samples = samples;
	v->timed_out = 0;
	atomic_store(&v->got, 0);
	atomic_store(&v->skip_to, 0);
	atomic_store(&v->finished, false);
	memset(v->pair.target, 0, v->args->depth * v->pair.slot_bytes);
	errno = pthread_create(&thread, NULL, receive, v);
	if (errno) {
		tool_error("cannot start a thread: %s", strerror(errno));
		return -1;
	}
	move_receiver(thread, v->args->pin);
	send_all(v);
	atomic_store(&v->finished, true);
	pthread_join(thread, NULL);
	return atomic_load(&v->failed) || tool_stopped ? -1 : 0;
}

static int measure(struct verbs *v, struct perf_result *r)
{
	uint64_t count = v->args->count ? v->args->count : COUNT, begin_ns;
	struct perf_sample *samples =
		calloc(count > UNMEASURED ? count : UNMEASURED, sizeof(*samples));
	double cpu_s;
	int rc = -1;

	if (!samples) {
		tool_error("out of memory for %llu messages", (unsigned long long)count);
		return -1;
	}
	rc = run(v, count < UNMEASURED ? count : UNMEASURED, samples);
	memset(samples, 0, count * sizeof(*samples));
	cpu_s = tool_cpu_s();
	begin_ns = tool_now_ns();
	if (!rc)
		rc = run(v, count, samples);
	r->ours.elapsed_ns = tool_now_ns() - begin_ns;
	r->ours.cpu_s = tool_cpu_s() - cpu_s;
	if (!rc) {
		perf_evaluate(v->args, v->size, samples, count, true, &r->ours);
		if (v->args->csv)
			rc = perf_write_samples(v->args, samples, count, true) ? -1 : 0;
	}
	free(samples);
	return rc;
}

static int measure_size(const struct perf_args *args, uint64_t size, struct perf_result *r)
{
	struct verbs v = {.args = args, .size = size};
	int rc = -1;

	r->size = size;
	r->kind = PERF_SHORT;
	r->same_clock = true;
	r->ours.rtt = histogram_new();
	snprintf(r->transport, sizeof(r->transport), "%s %s", perf_qp_name(args->qp),
		 perf_op_name(args->op));
	if (!r->ours.rtt)
		tool_error("out of memory");
	else if (!perf_pair_open(&v.pair, args, size)) {
		snprintf(r->reason, sizeof(r->reason), "queue pairs of %s alone",
			 ibv_get_device_name(v.pair.ctx->device));
		if (args->qp == PERF_UD && size > (128u << v.pair.port.active_mtu))
			tool_error("--size %llu: a datagram of this device has %u bytes at most",
				   (unsigned long long)size, 128u << v.pair.port.active_mtu);
		else
			rc = measure(&v, r);
	}
	perf_pair_close(&v.pair);
	return rc;
}

int perf_verbs(const struct perf_args *args)
{
	struct perf_result results[PERF_SIZES_MAX] = {0};
	bool print = perf_has_table(args);
	int rc = 0;
	unsigned n = 0;

	if (print) {
		printf("%s queue pairs alone, %s, a receive queue of %u, one of %u sends signaled, "
		       "up to %u bytes inline\n",
		       perf_qp_name(args->qp), perf_op_name(args->op), args->depth,
		       args->signal_every, args->inline_bytes);
		perf_print_head(args);
	}
	while (!rc && n < args->nsizes) {
		rc = measure_size(args, args->sizes[n], &results[n]);
		if (!rc && print)
			perf_print(args, &results[n]);
		n++;
	}
	if (!rc && args->json)
		rc = perf_write_json(args, results, n);
	for (unsigned i = 0; i < n; i++)
		histogram_free(results[i].ours.rtt);
	return rc ? TOOL_ERROR : TOOL_OK;
}
#else
int perf_verbs(const struct perf_args *args)
{
	(void)args;
	tool_error("this build has no verbs: libibverbs was left out");
	return TOOL_ERROR;
}
#endif
