/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * kill -9 in every phase of a long message: a process is killed in place of each call of libibverbs
 * or librdmacm that it makes for one, as its sender and as its receiver. The other process learns
 * of it in time, has no wrong byte, and keeps nothing.
 *
 * RIPC_TEST_STEP=n: only every n-th call, from one that the seed decides.
 */
#define _GNU_SOURCE
#include "harness.h"
#include "leaks.h"
#include "ripc.h"
#include "inject.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define LONG_BYTES (200 * 1024)
#define MID_BYTES  (40 * 1024) /* long, too, but the library copies it */
#define PAIRS      6           /* at once: most of the time is waiting for time limits */
#define PAIR_S     400         /* then it hangs */
#define CALLS_MAX  1000
#define TIMEOUT_MS 60000
#define DEAD_MS    6000 /* for a message to the dead: longer than the time limit for peers */

static const struct config {
	const char *transport, *options;
} configs[] = {
	{"ib", "transports=ib"},
	{"ib", "transports=ib short=rdma ib_qp=uc"},
	{"iwarp/verbs", "transports=iwarp/verbs"},
};
#define CONFIGS ((int)(sizeof(configs) / sizeof(configs[0])))

/*
 * The long messages. Where a return buffer is offered, the first is written there; the second is
 * read from a copy, the third from where it lies.
 */
static const size_t sizes[] = {LONG_BYTES, MID_BYTES, LONG_BYTES};
#define MESSAGES (sizeof(sizes) / sizeof(sizes[0]))

/* The result of a pair; shared with both. */
struct report {
	unsigned calls; /* of the victim, if it was not killed */
	bool armed;     /* it got that far */
	char text[300]; /* why it is wrong; empty: it is not */
};

static struct report *reports; /* by n */

static void report_failure(struct report *r, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

static void report_failure(struct report *r, const char *fmt, ...)
{
	va_list ap;

	if (*r->text)
		return;
	va_start(ap, fmt);
	vsnprintf(r->text, sizeof(r->text), fmt, ap);
	va_end(ap);
}

static void fill(uint8_t *p, uint8_t first)
{
	for (size_t i = 0; i < LONG_BYTES; i++)
		p[i] = (uint8_t)(first + i * 7);
}

static bool intact(const struct ripc_message *m, size_t len, uint8_t first)
{
	const uint8_t *p = m->items[0].iov_base;

	if (m->nitems != 1 || m->items[0].iov_len != len)
		return false;
	for (size_t i = 0; i < len; i++)
		if (p[i] != (uint8_t)(first + i * 7))
			return false;
	return true;
}

/* One process of a pair. */
struct side {
	struct ripc *ctx;
	struct ripc_service *service;
	uint8_t *buf, *back; /* what is sent; what is offered */
	uint64_t peer;
	int in, out;   /* pipes to the other */
	bool finished; /* the other has ended, or done all it had to do */
};

static bool side_open(struct side *s, struct report *r, const struct config *c, uint64_t id,
		      uint64_t peer)
{
	char options[200], byte = '+';

	snprintf(options, sizeof(options), "%s resolver=local peer_timeout_ms=4000 log=error",
		 c->options);
	s->peer = peer;
	if (ripc_open(&s->ctx, options) || ripc_service_register(s->ctx, id, 0, &s->service)) {
		report_failure(r, "not even open: %s", ripc_error_detail());
		return false;
	}
	s->buf = ripc_buf_alloc(s->ctx, LONG_BYTES);
	s->back = ripc_buf_alloc(s->ctx, LONG_BYTES);
	if (!s->buf || !s->back || write(s->out, &byte, 1) != 1 || read(s->in, &byte, 1) != 1) {
		report_failure(r, "not even ready: %s", ripc_error_detail());
		return false;
	}
	return true;
}

/* A short message, which offers a return buffer. Return: whether it was sent. */
static bool add_return(struct side *s, struct report *r)
{
	struct iovec item = {"go", 2}, back = {s->back, LONG_BYTES};
	struct ripc_send_options options = {
		.size = sizeof(options), .return_buffers = &back, .nreturn_buffers = 1};
	int rc = ripc_send_short(s->service, s->peer, &item, 1, &options, TIMEOUT_MS);

	if (rc)
		report_failure(r, "no offer can be sent: %s", ripc_error_detail());
	return !rc;
}

static bool return_vec(struct side *s, struct report *r)
{
	struct ripc_message *m;
	int rc = ripc_receive(s->service, &m, TIMEOUT_MS);

	if (rc)
		report_failure(r, "no offer comes: %s", ripc_error_detail());
	else
		ripc_message_free(m);
	return !rc;
}

static void victim(struct side *s, struct report *r, unsigned n, bool sends)
{
	struct ripc_message *m;
	char byte;

	if (sends ? !return_vec(s, r) : !add_return(s, r))
		return;
	r->armed = true;
	fault_arm_kill(n ? n : CALLS_MAX + 1);
	for (unsigned i = 0; i < MESSAGES; i++) {
		struct iovec item = {s->buf, sizes[i]};

		fill(s->buf, (uint8_t)i);
		if (sends ? ripc_send_long(s->service, s->peer, &item, 1, NULL, TIMEOUT_MS)
			  : ripc_receive(s->service, &m, TIMEOUT_MS)) {
			report_failure(r, "the victim's message %u: %s", i, ripc_error_detail());
			break;
		}
		if (!sends)
			ripc_message_free(m);
	}
	r->calls = fault_calls();
	fault_arm(0);
	/*
	 * Its pending answers are still sent, until the other process has received enough and kills
	 * it.
	 */
	if (write(s->out, "+", 1) == 1)
		while (read(s->in, &byte, 1) == -1 && errno == EINTR)
			;
	pause();
}

/* Whether the victim has ended by itself, or all it had to do. */
static bool finished(struct side *s, pid_t pid)
{
	siginfo_t info = {0};
	char byte;

	if (!s->finished && read(s->in, &byte, 1) != 1 &&
	    (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) || info.si_pid != pid))
		return false;
	s->finished = true;
	return true;
}

static void take(struct side *s, struct report *r, pid_t pid)
{
	unsigned n = 0;
	bool last = false;
	int rc;

	/* One more look after its end: what was complete is delivered. */
	while (n < MESSAGES) {
		struct ripc_message *m;

		rc = ripc_receive(s->service, &m, 100);
		if (!rc) {
			if (!intact(m, sizes[n], (uint8_t)n))
				report_failure(r, "message %u arrived damaged", n);
			n++;
			ripc_message_free(m);
		} else if (rc != -ETIMEDOUT) {
			report_failure(r, "ripc_receive: %s", ripc_error_detail());
			return;
		} else if (last) {
			return;
		}
		last = finished(s, pid);
	}
}

static void give(struct side *s, struct report *r)
{
	for (unsigned i = 0; i < MESSAGES; i++) {
		struct iovec item = {s->buf, sizes[i]};
		int rc;

		fill(s->buf, (uint8_t)i);
		rc = ripc_send_long(s->service, s->peer, &item, 1, NULL, TIMEOUT_MS);
		/* Its memory is ours again. */
		memset(s->buf, 0x5a, LONG_BYTES);
		if (rc && !*ripc_error_detail())
			report_failure(r, "message %u failed with %d and without a reason", i, rc);
		if (rc == -ETIMEDOUT)
			report_failure(r, "message %u: the killed receiver was not detected: %s", i,
				       ripc_error_detail());
	}
}

static void survivor(struct side *s, struct report *r, pid_t pid, bool sends)
{
	struct iovec item = {s->buf, LONG_BYTES};
	int rc;

	if (sends) {
		if (return_vec(s, r))
			give(s, r);
	} else if (add_return(s, r)) {
		take(s, r, pid);
	}
	/*
	 * The other process has received the last message too: else it would be killed before it
	 * can report the number of calls.
	 */
	for (uint64_t end = 0; !finished(s, pid) && test_pause(&end, TIMEOUT_MS);)
		;
	kill(pid, SIGKILL);
	fill(s->buf, 77);
	rc = ripc_send_long(s->service, s->peer, &item, 1, NULL, DEAD_MS);
	if (!rc)
		report_failure(r, "a message reached a process that is dead");
	else if (!*ripc_error_detail())
		report_failure(r, "a message to the dead failed with %d and without a reason", rc);
	ripc_buf_free(s->ctx, s->buf);
	ripc_buf_free(s->ctx, s->back);
}

/* In a process of its own: makes the victim, then lives on. */
static void pair(unsigned n, const struct config *c, bool victim_sends)
{
	struct report *r = &reports[n];
	uint64_t ids = (uint64_t)getpid() * 4;
	struct leaks before, after;
	struct side s = {0};
	int there[2], back[2], status;
	pid_t pid;

	alarm(PAIR_S);
	signal(SIGPIPE, SIG_IGN);
	if (pipe2(there, O_CLOEXEC) || pipe2(back, O_CLOEXEC))
		_exit(8);
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		s.in = there[0];
		s.out = back[1];
		if (side_open(&s, r, c, ids + 1, ids + 2))
			victim(&s, r, n, victim_sends);
		_exit(7);
	}
	close(there[0]);
	close(back[1]);
	s.in = back[0];
	s.out = there[1];
	/* The libraries keep what they opened first. */
	if (ripc_open(&s.ctx, c->options) || ripc_close(s.ctx))
		_exit(8);
	before = leaks_wait_stable();
	if (side_open(&s, r, c, ids + 2, ids + 1)) {
		fcntl(s.in, F_SETFL, O_NONBLOCK);
		survivor(&s, r, pid, !victim_sends);
	}
	kill(pid, SIGKILL);
	if (waitpid(pid, &status, 0) != pid || !WIFSIGNALED(status))
		report_failure(r, "the victim had ended by itself");
	if (s.ctx && ripc_close(s.ctx))
		report_failure(r, "ripc_close: %s", ripc_error_detail());
	if (!leaks_compare(&before, &after))
		report_failure(r, "left behind: %d descriptors, %d threads, %d RDMA resources",
			       (int)(after.descriptors - before.descriptors),
			       (int)(after.threads - before.threads),
			       (int)(after.resources - before.resources));
	_exit(0);
}

static unsigned bad, tried, missed;

static void ended(unsigned n, int status, const struct config *c, bool victim_sends)
{
	struct report *r = &reports[n];

	tried++;
	if (WIFEXITED(status) && !WEXITSTATUS(status) && !*r->text && r->armed) {
		/* It had done all it had to do before, and was shot by the other. */
		bool spared = n && r->calls;

		missed += spared;
		printf("%s: the %s killed at call %u: %s\n", c->options,
		       victim_sends ? "sender" : "receiver", n, spared ? "not reached" : "fine");
		fflush(stdout);
		return;
	}
	bad++;
	printf("%s: the %s killed at call %u: %s\n", c->options,
	       victim_sends ? "sender" : "receiver", n,
	       *r->text              ? r->text
	       : WIFSIGNALED(status) ? strsignal(WTERMSIG(status))
				     : "did not get that far");
	fflush(stdout);
}

static void sweep(const struct config *c, bool victim_sends, unsigned first, unsigned last,
		  unsigned step)
{
	pid_t pids[PAIRS] = {0};
	unsigned numbers[PAIRS] = {0}, next = first, running = 0;
	int status;

	while (next <= last || running) {
		pid_t pid;

		for (unsigned i = 0; i < PAIRS && next <= last; i++) {
			if (pids[i])
				continue;
			fflush(NULL);
			numbers[i] = next;
			next += step;
			pids[i] = fork();
			ck_assert_int_ge(pids[i], 0);
			if (!pids[i])
				pair(numbers[i], c, victim_sends);
			running++;
		}
		pid = wait(&status);
		ck_assert_int_gt(pid, 0);
		for (unsigned i = 0; i < PAIRS; i++) {
			if (pids[i] != pid)
				continue;
			ended(numbers[i], status, c, victim_sends);
			pids[i] = 0;
			running--;
		}
	}
}

START_TEST(kill__every_phase)
{
	const struct config *c = &configs[_i % CONFIGS];
	bool victim_sends = _i >= CONFIGS;
	unsigned calls, step = leaks_check_step();

	if (!leaks_available(c->transport))
		return;
	reports = mmap(NULL, (CALLS_MAX + 1) * sizeof(*reports), PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(reports, MAP_FAILED);
	bad = 0;
	sweep(c, victim_sends, 0, 0, 1);
	ck_assert_msg(!bad, "not even without a kill before the end");
	calls = reports[0].calls;
	ck_assert_uint_gt(calls, 5);
	ck_assert_uint_lt(calls, CALLS_MAX);
	tried = missed = 0;
	sweep(c, victim_sends, 1 + (unsigned)(test_seed() % step), calls, step);
	printf("%s: %u calls as %s, every %u: %u tried, %u of them not reached.\n", c->options,
	       calls, victim_sends ? "sender" : "receiver", step, tried, missed);
	munmap(reports, (CALLS_MAX + 1) * sizeof(*reports));
	ck_assert_msg(!bad, "%u of %u kills had wrong consequences", bad, tried);
	ck_assert_msg(missed <= MISSED_MAX(tried), "%u of %u kills not reached", missed, tried);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("faults/kills");
	TCase *tc = tcase_create("kills");

	test_seed();
	tcase_set_timeout(tc, 3600);
	tcase_add_loop_test(tc, kill__every_phase, 0, 2 * CONFIGS);
	suite_add_tcase(suite, tc);
	return test_main("faults/kills", suite);
}
