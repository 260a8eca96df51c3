/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Every call of libibverbs and librdmacm in a scenario fails once. The result is an error with a
 * reason, or another transport takes over; never a hang, a crash, a wrong byte or a leak.
 *
 * RIPC_TEST_STEP=n: only every n-th call, from a start that the seed decides.
 */
#include "harness.h"
#include "leaks.h"
#include "ripc.h"
#include "inject.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define LONG_BYTES (200 * 1024)
#define MID_BYTES  (40 * 1024) /* long, too, but the library copies it */
#define CHILDREN   6           /* at once: most of the time is waiting for time limits */
#define FAULTS     8   /* one after the other in a child, which has to run without a fault first */
#define FAULT_S    400 /* then it hangs */
#define CALLS_MAX  2000

/*
 * How long a message may take that must arrive; one that may fail, and the first after one that
 * failed, so that the lane is given up meanwhile and made anew; and one after that failed, too.
 */
#define TIMEOUT_MS   20000
#define LIMIT_MS     6000
#define RETRY_MS     1500
#define DRAIN_MS     200 /* what has not come by then is no longer on its way */
#define PEER_GONE_MS "4000"

struct config {
	const char *transport; /* that fails */
	const char *options;
	bool fallback; /* there is another transport: all must succeed in the end */
};

static const struct config configs[] = {
	{"ib", "transports=ib", false},
	{"ib", "transports=ib short=rdma", false},
	{"ib", "transports=ib,iwarp/soft", true},
	{"iwarp/verbs", "transports=iwarp/verbs", false},
	{"iwarp/verbs", "transports=iwarp/verbs,iwarp/soft", true},
};

/* The result of a child. */
struct report {
	unsigned calls;
	bool done; /* the child came to its end */
	bool hit;  /* the call did fail: it was reached */
	char name[40];
	char text[300]; /* why it is wrong; empty: it is not */
};

static struct report *reports; /* shared with the children, by n */
static const char *phase;      /* of the child, for a debugger if it hangs */
static int timeout_ms;         /* of its sends */
static unsigned failures;      /* of its calls */
static bool retry; /* second try of what was not reached in time: with all the patience */

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

/*
 * An error must have a text. With another transport no error is allowed, except when a device
 * refuses a message's memory: the lane lives, the text names the limit, and the next message
 * succeeds.
 */
static bool succeeded(struct report *r, const struct config *c, const char *what, int rc)
{
	bool refused = rc == -ENOMEM && !strcmp(what, "ripc_send_long") &&
		       strstr(ripc_error_detail(), "cannot be registered: ");

	if (!rc)
		return true;
	if (c->fallback && (!refused || failures++))
		report_failure(r, "%s failed in spite of another transport: %s: %s", what,
			       ripc_strerror(rc), ripc_error_detail());
	else if (rc > 0 || !*ripc_error_detail())
		report_failure(r, "%s failed with %d and without a reason", what, rc);
	if (!c->fallback)
		timeout_ms = failures++ ? RETRY_MS : LIMIT_MS;
	return false;
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

static void fill(uint8_t *p, size_t len, uint8_t first)
{
	for (size_t i = 0; i < len; i++)
		p[i] = (uint8_t)(first + i * 7);
}

/*
 * Receives messages whose send failed or that came late: they may have been delivered all the same.
 */
static void drain(struct ripc_service *service)
{
	struct ripc_message *m;

	phase = "drain";
	while (!ripc_receive(service, &m, DRAIN_MS))
		ripc_message_free(m);
}

/* One long message; if its send succeeded, it must have arrived. */
static void one_long(struct report *r, const struct config *c, struct ripc_service *from,
		     struct ripc_service *to, uint64_t dest, uint8_t *buf, size_t len, uint8_t seed)
{
	struct iovec iov = {buf, len};
	struct ripc_message *m;
	int rc;

	fill(buf, len, seed);
	phase = "send_long";
	rc = ripc_send_long(from, dest, &iov, 1, NULL, timeout_ms);
	if (!succeeded(r, c, "ripc_send_long", rc)) {
		drain(to);
		return;
	}
	phase = "receive";
	rc = ripc_receive(to, &m, TIMEOUT_MS);
	if (rc) {
		report_failure(r, "a long message was reported done and did not arrive: %s",
			       ripc_error_detail());
		return;
	}
	if (!intact(m, len, seed))
		report_failure(r, "a long message arrived damaged");
	ripc_message_free(m);
}

/*
 * A short message may be lost, but not damaged. With @back_buf its receiver may write a
 * long message of up to @room bytes there.
 */
static void one_short(struct report *r, const struct config *c, struct ripc_service *from,
		      struct ripc_service *to, uint64_t dest, uint8_t *back_buf, size_t room)
{
	uint8_t bytes[100];
	struct iovec iov = {bytes, sizeof(bytes)}, back = {back_buf, room};
	struct ripc_send_options options = {
		.size = sizeof(options), .return_buffers = &back, .nreturn_buffers = 1};
	struct ripc_message *m;
	int rc;

	fill(bytes, sizeof(bytes), 3);
	phase = "send_short";
	rc = ripc_send_short(from, dest, &iov, 1, back_buf ? &options : NULL, timeout_ms);
	if (!succeeded(r, c, "ripc_send_short", rc))
		return;
	phase = "receive";
	if (ripc_receive(to, &m, 1000))
		return;
	if (!intact(m, sizeof(bytes), 3))
		report_failure(r, "a short message arrived damaged");
	ripc_message_free(m);
}

/* A device whose completions cannot be had is gone for good, with all that is on it. */
static bool device_gone(void)
{
	const char *name = fault_name();

	return name && (!strcmp(name, "ibv_poll_cq") || !strcmp(name, "ibv_req_notify_cq") ||
			!strcmp(name, "ibv_get_cq_event"));
}

/*
 * One call failed, and the next ones do not: what there was is replaced, and messages arrive again,
 * both ways.
 */
static void recovers(struct report *r, const struct config *c, struct ripc_service *sa,
		     struct ripc_service *sb, uint64_t ids, uint8_t *buf, uint8_t *back)
{
	unsigned before = failures;

	timeout_ms = TIMEOUT_MS;
	drain(sa);
	drain(sb);
	one_long(r, c, sa, sb, ids + 2, buf, LONG_BYTES, 4);
	one_long(r, c, sb, sa, ids + 1, back, LONG_BYTES, 5);
	if (failures != before)
		report_failure(r, "nothing gets through any more: %s", ripc_error_detail());
}

static void scenario(struct report *r, const struct config *c, unsigned n)
{
	struct ripc *a = NULL, *b = NULL;
	struct ripc_service *sa = NULL, *sb = NULL;
	uint8_t *buf = NULL, *back = NULL, *mid = NULL;
	uint64_t ids = ((uint64_t)getpid() * CALLS_MAX + n) * 4;
	char options[200];

	snprintf(options, sizeof(options),
		 "%s resolver=local peer_timeout_ms=" PEER_GONE_MS " log=error", c->options);
	phase = "open";
	failures = 0;
	timeout_ms = c->fallback || !n || retry ? TIMEOUT_MS : LIMIT_MS;
	if (succeeded(r, c, "ripc_open", ripc_open(&a, options)) &&
	    succeeded(r, c, "ripc_open", ripc_open(&b, options)) &&
	    succeeded(r, c, "ripc_service_register", ripc_service_register(a, ids + 1, 0, &sa)) &&
	    succeeded(r, c, "ripc_service_register", ripc_service_register(b, ids + 2, 0, &sb))) {
		bool early = fault_name(); /* what a context could not open it does without */

		phase = "alloc";
		buf = ripc_buf_alloc(a, LONG_BYTES);
		back = ripc_buf_alloc(b, LONG_BYTES);
		mid = ripc_buf_alloc(b, MID_BYTES);
		if (!buf || !back || !mid) {
			succeeded(r, c, "ripc_buf_alloc", -ENOMEM);
		} else {
			one_short(r, c, sa, sb, ids + 2, NULL, 0);
			one_long(r, c, sa, sb, ids + 2, buf, LONG_BYTES, 1);
			one_short(r, c, sb, sa, ids + 1, back, LONG_BYTES);
			one_long(r, c, sa, sb, ids + 2, buf, LONG_BYTES, 2);
			one_long(r, c, sb, sa, ids + 1, back, LONG_BYTES, 3);
			one_short(r, c, sb, sa, ids + 1, mid, MID_BYTES);
			one_long(r, c, sa, sb, ids + 2, buf, MID_BYTES, 6);
			one_long(r, c, sb, sa, ids + 1, back, MID_BYTES, 7);
			if (!early && failures && !device_gone())
				recovers(r, c, sa, sb, ids, buf, back);
		}
	}
	phase = "close";
	if (a)
		ripc_close(a);
	if (b)
		ripc_close(b);
	phase = "closed";
}

static void timed_out(int sig)
{
	static const char text[] = "hangs in phase ";
	ssize_t n = write(STDERR_FILENO, text, sizeof(text) - 1);

	n += write(STDERR_FILENO, phase, strlen(phase));
	n += write(STDERR_FILENO, "\n", 1);
	(void)n;
	_exit(9);
}

/* Faults that a child has one after the other: from first to before upto, every step-th. */
struct turn {
	pid_t pid;
	unsigned first, end, step;
};

/* Return: whether what comes after it in the same process can be believed. */
static bool one_fault(unsigned n, const struct config *c, const struct leaks *old)
{
	struct report *r = &reports[n];
	struct leaks new;

	alarm(FAULT_S);
	fault_arm(n ? n : CALLS_MAX + 1);
	scenario(r, c, n);
	r->calls = fault_calls();
	r->hit = fault_name();
	snprintf(r->name, sizeof(r->name), "%s", r->hit ? fault_name() : "");
	fault_arm(0);
	if (!leaks_compare(old, &new))
		report_failure(r, "left behind: %d descriptors, %d threads, %d RDMA resources",
			       (int)(new.descriptors - old->descriptors),
			       (int)(new.threads - old->threads),
			       (int)(new.resources - old->resources));
	r->done = true;
	return !*r->text;
}

static void child(const struct turn *t, const struct config *c)
{
	struct report before = {0};
	struct leaks old;

	signal(SIGALRM, timed_out);
	alarm(FAULT_S);
	/* The libraries keep what they opened first. */
	scenario(&before, c, 0);
	if (*before.text) {
		report_failure(&reports[t->first], "without a fault: %s", before.text);
		reports[t->first].done = true;
		_exit(0);
	}
	old = leaks_wait_stable();
	for (unsigned n = t->first; n < t->end; n += t->step)
		if (!one_fault(n, c, &old))
			break;
	_exit(0);
}

static unsigned bad;

static void bad_fault(const struct config *c, unsigned n, const char *why)
{
	bad++;
	printf("%s: call %u (%s): %s\n", c->options, n,
	       *reports[n].name ? reports[n].name : "none failed", why);
	fflush(stdout);
}

/* The turn then holds the work left to another child. */
static void ended(struct turn *t, int status, const struct config *c)
{
	unsigned last = t->first;

	t->pid = 0;
	while (t->first < t->end) {
		unsigned n = t->first;
		struct report *r = &reports[n];

		last = n;
		t->first += t->step;
		if (!r->done || *r->text) {
			bad_fault(c, n,
				  *r->text              ? r->text
				  : WIFSIGNALED(status) ? strsignal(WTERMSIG(status))
							: "hangs");
			return;
		}
	}
	if (!WIFEXITED(status) || WEXITSTATUS(status))
		bad_fault(c, last, "the process ended badly after it");
	printf("%s: before call %u, %u bad\n", c->options, t->end, bad);
	fflush(stdout);
}

static void start(struct turn *t, const struct config *c)
{
	fflush(NULL);
	t->pid = fork();
	ck_assert_int_ge(t->pid, 0);
	if (!t->pid)
		child(t, c);
}

/*
 * The next from n on that is to be tried; the second time what was not reached, and failed at
 * nothing else.
 */
static unsigned next_step(unsigned n, unsigned last, unsigned step)
{
	while (retry && n <= last && (reports[n].hit || !reports[n].done || *reports[n].text))
		n += step;
	if (retry && n <= last)
		reports[n] = (struct report){0};
	return n;
}

/* The scenario with faults from first to last, every step-th. */
static void sweep(const struct config *c, unsigned first, unsigned last, unsigned step)
{
	struct turn turns[CHILDREN] = {0};
	unsigned next = first, running = 0;
	int status;

	for (;;) {
		pid_t pid;

		for (unsigned i = 0; i < CHILDREN; i++) {
			struct turn *t = &turns[i];

			if (t->pid)
				continue;
			if (t->first >= t->end && (next = next_step(next, last, step)) <= last) {
				unsigned end = next + (retry ? 1 : FAULTS) * step;

				*t = (struct turn){0, next, end > last + 1 ? last + 1 : end, step};
				next = end;
			}
			if (t->first < t->end) {
				start(t, c);
				running++;
			}
		}
		if (!running)
			return;
		pid = wait(&status);
		ck_assert_int_gt(pid, 0);
		for (unsigned i = 0; i < CHILDREN; i++) {
			if (turns[i].pid == pid) {
				ended(&turns[i], status, c);
				running--;
			}
		}
	}
}

/*
 * Those of the tried that were not reached, the second time either: their call did not fail, and
 * nothing was tested.
 */
static unsigned not_reached(const struct config *c, unsigned first, unsigned last, unsigned step)
{
	unsigned count = 0;

	for (unsigned n = first; n <= last; n += step) {
		if (!reports[n].done || *reports[n].text || reports[n].hit)
			continue;
		count++;
		printf("%s: call %u: not reached, %u were made\n", c->options, n, reports[n].calls);
	}
	return count;
}

START_TEST(faults__every_verbs_call)
{
	const struct config *c = &configs[_i];
	unsigned calls, first, tried, missed, step = leaks_check_step();

	if (!leaks_available(c->transport))
		return;
	reports = mmap(NULL, (CALLS_MAX + 1) * sizeof(*reports), PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(reports, MAP_FAILED);
	bad = 0;
	retry = false;
	sweep(c, 0, 0, 1);
	ck_assert_msg(!bad, "not even without a fault");
	calls = reports[0].calls;
	/* The turns of progress threads vary: a few more calls may occur. */
	ck_assert_uint_gt(calls, 10);
	ck_assert_uint_lt(calls, CALLS_MAX);
	first = 1 + (unsigned)(test_seed() % step);
	tried = first > calls ? 0 : (calls - first) / step + 1;
	sweep(c, first, calls, step);
	retry = true;
	sweep(c, first, calls, step);
	missed = not_reached(c, first, calls, step);
	printf("%s: %u calls, every %u: %u tried, %u of them not reached.\n", c->options, calls,
	       step, tried, missed);
	munmap(reports, (CALLS_MAX + 1) * sizeof(*reports));
	ck_assert_msg(!bad, "%u of %u faults had wrong consequences", bad, tried);
	ck_assert_msg(missed <= MISSED_MAX(tried), "%u of %u faults not reached", missed, tried);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("faults/faults");
	TCase *tc = tcase_create("faults");

	tcase_set_timeout(tc, 3600);
	tcase_add_loop_test(tc, faults__every_verbs_call, 0, sizeof(configs) / sizeof(configs[0]));
	suite_add_tcase(suite, tc);
	return test_main("faults/faults", suite);
}
