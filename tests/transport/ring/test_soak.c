/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * shm and ring/sim between two processes: RIPC_TEST_MESSAGES messages, each checked byte by byte,
 * and RIPC_TEST_CYCLES cycles of sleeping and waking. Over shared memory only the peer wakes a
 * side, so a side whose kick is lost sleeps for ever; over the simulated link a kick may be lost,
 * and a sleep is bounded.
 */
#define _GNU_SOURCE
#include "base/clock.h"
#include "harness.h"
#include "ring_sim.h"
#include "transport/shm/shm.h"
#include "transport/transfer.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define MESSAGES   100000
#define CYCLES     20000
#define LEN_MAX    5000u
#define EVENTS     16
#define PATIENCE_S 120 /* seconds without progress: a message is lost */
#define STOP       UINT64_MAX

static struct ripc__options options = {.mapped_mode = RIPC__MAPPED_ON};

/* One process. */
struct side {
	const struct ripc__transport_ops *ops;
	struct ripc__transport *t;
	struct ripc__ep *ep;
	bool first; /* it connects */
	bool up, closed, blocked, stopped;
	uint64_t rng;
	uint64_t sent, got, wrong, slept;
	uint64_t deadline_ns, last_rx_ns;
	uint64_t last; /* CYCLES: the last number */
};

/* The content of message n of one direction. */
static uint64_t word(bool first, uint64_t n)
{
	uint64_t state = n * 2 + first + 1;

	return test_random(&state);
}

static uint32_t length(uint64_t w)
{
	return (uint32_t)(w % 16 < 12   ? w / 16 % 130
			  : w % 16 < 15 ? w / 16 % 1100
					: w / 16 % LEN_MAX);
}

static void fill(uint8_t *p, uint32_t len, uint64_t w)
{
	for (uint32_t i = 0; i < len; i += 8, w = w * 5 + 0x9e3779b97f4a7c15)
		memcpy(p + i, &w, len - i < 8 ? len - i : 8);
}

static bool same(const uint8_t *p, uint32_t len, uint64_t w)
{
	for (uint32_t i = 0; i < len; i += 8, w = w * 5 + 0x9e3779b97f4a7c15)
		if (memcmp(p + i, &w, len - i < 8 ? len - i : 8))
			return false;
	return true;
}

static void side_open(struct side *s, const struct ripc__transport_ops *ops, bool first,
		      uint64_t first_seed)
{
	static const uint8_t instance[16];
	struct ripc__transport_env env = {.opt = &options, .instance = instance};

	*s = (struct side){.ops = ops, .first = first, .rng = first_seed + first};
	if (ops->open(&s->t, &env))
		exit(2);
	s->last_rx_ns = ripc__clock_ns();
}

/* Handles a received message. */
typedef void handle_fn(struct side *s, const uint8_t *p, uint32_t len);

static void handle_event(struct side *s, const struct ripc__event *ev, handle_fn *take)
{
	switch (ev->kind) {
	case RIPC__EV_REQUEST:
		if (s->ops->accept(s->t, ev->request, "", 0, s, &s->ep))
			exit(3);
		break;
	case RIPC__EV_ESTABLISHED:
		s->up = true;
		break;
	case RIPC__EV_CLOSED:
		s->closed = true;
		break;
	case RIPC__EV_SENDABLE:
		s->blocked = false;
		break;
	case RIPC__EV_RECV:
		take(s, ev->data, ev->len);
		if (ev->token)
			s->ops->release(s->t, ev->token);
		break;
	default:
		s->wrong++;
		break;
	}
}

/* Return: number of events. Ends the process if there have been none for too long. */
static unsigned progress(struct side *s, handle_fn *take)
{
	struct ripc__event ev[EVENTS];
	uint64_t now = ripc__clock_ns();
	unsigned n;

	s->deadline_ns = RIPC__NEVER;
	n = s->ops->progress(s->t, ev, EVENTS, now, &s->deadline_ns);
	for (unsigned i = 0; i < n; i++)
		handle_event(s, &ev[i], take);
	if (n)
		s->last_rx_ns = now;
	else if (now - s->last_rx_ns > PATIENCE_S * UINT64_C(1000000000))
		exit(4);
	return n;
}

/* Sleeps until a kick or the deadline of the transport. */
static void sleep_on_fd(struct side *s)
{
	struct pollfd fd = {.fd = test_fd(s->ops, s->t), .events = POLLIN};
	uint64_t now = ripc__clock_ns();
	int ms = PATIENCE_S * 1000;

	if (s->deadline_ns <= now || s->ops->arm(s->t))
		return;
	if (s->deadline_ns != RIPC__NEVER)
		ms = (int)((s->deadline_ns - now + 999999) / 1000000);
	s->slept++;
	/* No kick came, and nothing else would have woken us. */
	if (!poll(&fd, 1, ms) && s->deadline_ns == RIPC__NEVER)
		exit(4);
}

/* Return: whether it was sent. */
static bool post(struct side *s, const uint8_t *p, uint32_t len, bool more)
{
	struct iovec iov = {(void *)(uintptr_t)p, len};
	int rc = s->ops->post(s->ep, NULL, 0, &iov, 1, more);

	if (rc == -EAGAIN)
		s->blocked = true;
	else if (rc < 0)
		exit(5);
	return rc >= 0;
}

/* ---- messages ---- */

static void handle_message(struct side *s, const uint8_t *p, uint32_t len)
{
	uint64_t w = word(!s->first, s->got++);

	s->wrong += len != length(w) || !same(p, len, w);
}

static int messages(struct side *s, uint64_t n)
{
	uint8_t buf[LEN_MAX + 8];

	while (s->sent < n || s->got < n) {
		unsigned moved, burst = (unsigned)(test_random(&s->rng) % 64);

		for (unsigned i = 0; i < burst && s->sent < n && !s->blocked; i++) {
			uint64_t w = word(s->first, s->sent);

			fill(buf, length(w), w);
			s->sent += post(s, buf, length(w), i + 1 < burst);
		}
		moved = progress(s, handle_message);
		if (s->closed && s->got < n)
			return 6;
		if (!moved && (s->blocked || s->sent == n))
			sleep_on_fd(s);
	}
	return s->wrong ? 7 : 0;
}

/* ---- sleeping ---- */

static void handle_number(struct side *s, const uint8_t *p, uint32_t len)
{
	uint64_t number = 0;

	if (len == sizeof(number))
		memcpy(&number, p, len);
	s->stopped |= number == STOP;
	s->wrong += number != STOP && number != s->got + 1;
	s->got++;
}

/* Sends numbers to and fro, asleep in between, until we have slept so often. */
static int cycles(struct side *s, uint64_t n)
{
	uint64_t number = 1;

	for (uint64_t round = 0; !s->stopped && round < 1000 * n; round++) {
		/* The answer arrives before, while, or after the peer falls asleep. */
		for (uint64_t spin = test_random(&s->rng) % 256; spin; spin--)
			__asm__ volatile("" ::: "memory");
		if (round || s->first) {
			if (s->first && s->slept >= n)
				number = STOP;
			while (!post(s, (uint8_t *)&number, sizeof(number), false))
				progress(s, handle_number);
			if (number == STOP)
				return s->wrong ? 7 : 0;
			number++;
		}
		while (s->got <= round) {
			if (!progress(s, handle_number))
				sleep_on_fd(s);
			if (s->closed && s->got <= round)
				return 6;
		}
	}
	return s->wrong || !s->stopped ? 7 : 0;
}

/* ---- two processes ---- */

struct task {
	int (*run)(struct side *s, uint64_t n);
	handle_fn *take; /* the first messages arrive together with EV_ESTABLISHED */
};

static const struct task all_messages = {messages, handle_message},
			 all_cycles = {cycles, handle_number};

/* Return: an exit code. */
static int run_side(struct side *s, const struct task *task, uint64_t n)
{
	int rc;

	while (!s->up)
		if (!progress(s, task->take))
			sleep_on_fd(s);
	rc = task->run(s, n);
	/* Messages in flight arrive before the end of the connection. */
	s->ops->close(s->t);
	return rc;
}

static int second(const struct ripc__transport_ops *ops, const struct task *task, uint64_t n,
		  uint64_t seed, int out)
{
	uint8_t addr[RIPC__ADDRESS_MAX];
	struct side s;
	int len;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	side_open(&s, ops, false, seed);
	len = ops->address(s.t, addr, sizeof(addr));
	if (len < 0 || write(out, addr, (size_t)len) != len)
		return 2;
	return run_side(&s, task, n);
}

static void soak(const struct ripc__transport_ops *ops, const struct task *task, uint64_t n)
{
	uint8_t addr[RIPC__ADDRESS_MAX];
	uint64_t seed = test_seed();
	int fds[2], status = -1, rc;
	struct side s;
	ssize_t len;
	pid_t pid;

	ck_assert_int_eq(pipe(fds), 0);
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (!pid)
		_exit(second(ops, task, n, seed, fds[1]));
	side_open(&s, ops, true, seed);
	len = read(fds[0], addr, sizeof(addr));
	ck_assert_int_gt((int)len, 0);
	ck_assert_int_eq(ops->connect(s.t, addr, (size_t)len, "", 0, &s, &s.ep), 0);
	rc = run_side(&s, task, n);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(rc, 0);
	ck_assert_int_eq(status, 0);
	ck_assert_uint_eq(s.wrong, 0);
	ck_assert_uint_gt(s.slept, 0);
	printf("%s: %llu messages received, slept %llu times\n", ops->name,
	       (unsigned long long)s.got, (unsigned long long)s.slept);
	close(fds[0]);
	close(fds[1]);
}

START_TEST(messages__shm)
{
	soak(&ripc__transport_shm, &all_messages, test_number("RIPC_TEST_MESSAGES", MESSAGES) / 2);
}
END_TEST

START_TEST(messages__ntb)
{
	soak(ring_sim(), &all_messages, test_number("RIPC_TEST_MESSAGES", MESSAGES) / 2);
}
END_TEST

START_TEST(cycles__shm)
{
	soak(&ripc__transport_shm, &all_cycles, test_number("RIPC_TEST_CYCLES", CYCLES));
}
END_TEST

START_TEST(cycles__ntb)
{
	soak(ring_sim(), &all_cycles, test_number("RIPC_TEST_CYCLES", CYCLES / 20));
}
END_TEST

/* Each is a case of its own, for CK_RUN_CASE. */
static void add(Suite *s, const char *name, const TTest *test)
{
	TCase *t = tcase_create(name);

	/* No timeout: a process that hangs ends itself. */
	tcase_set_timeout(t, 0);
	tcase_add_test(t, test);
	suite_add_tcase(s, t);
}

int main(void)
{
	Suite *s = suite_create("transport/ring/soak");

	add(s, "messages_shm", messages__shm);
	add(s, "messages_ntb", messages__ntb);
	add(s, "cycles_shm", cycles__shm);
	add(s, "cycles_ntb", cycles__ntb);
	return test_main("transport/ring/soak", s);
}
