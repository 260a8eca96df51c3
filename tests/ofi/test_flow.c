/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Floods of unexpected messages, many endpoints, and endpoints that are closed or die. */
#include "side.h"

#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define FLOOD         12000
#define FLOOD_LEN     4000
#define BOUND         (16 << 20) /* of the heap; the messages have 48 MB */
#define ENDPOINTS     24
#define WINDOW        64
#define WINDOW_LEN    65536
#define LOSS_DELAY_NS 99000000 /* OFI_LOSS_DELAY_MS, in whole milliseconds */

/* Whether a message with this tag waits for its receive. */
static bool has_arrived(struct side *s, uint64_t tag)
{
	struct fi_msg_tagged m = {.addr = FI_ADDR_UNSPEC, .tag = tag, .context = &m};
	struct fi_cq_tagged_entry e;
	struct fi_cq_err_entry err = {0};
	ssize_t n;

	ck_assert_int_eq(fi_trecvmsg(s->ep, &m, FI_PEEK), 0);
	n = fi_cq_read(s->cq, &e, 1);
	if (n == 1)
		return true;
	ck_assert_int_eq(n, -FI_EAVAIL);
	ck_assert_int_eq(fi_cq_readerr(s->cq, &err, 0), 1);
	ck_assert_int_eq(err.err, FI_ENOMSG);
	return false;
}

START_TEST(flood__takes_bounded_memory)
{
	static char out[FLOOD_LEN], in[FLOOD_LEN];
	struct side a, b;
	fi_addr_t to_b;
	size_t before;
	unsigned polls = 0;
	uint64_t end_ns = 0;

	side_open(&a, NULL, FI_WAIT_NONE);
	side_open(&b, NULL, FI_WAIT_NONE);
	to_b = side_insert(&a, &b);
	before = mallinfo2().uordblks;
	for (uintptr_t i = 0; i < FLOOD; i++) {
		ck_assert_int_eq(fi_tsend(a.ep, out, FLOOD_LEN, NULL, to_b, i, NULL), 0);
		side_progress(&b);
	}
	while (!has_arrived(&b, FLOOD - 1)) {
		side_progress(&a);
		if (++polls % 1000 == 0)
			ck_assert(test_pause(&end_ns, TEST_PATIENCE_MS));
	}
	ck_assert_uint_lt(mallinfo2().uordblks - before, BOUND);
	for (uintptr_t i = FLOOD; i-- > 0;) {
		ck_assert_int_eq(fi_trecv(b.ep, in, FLOOD_LEN, NULL, FI_ADDR_UNSPEC, i, 0, NULL),
				 0);
		ck_assert_uint_eq(side_wait(&b, &a).len, FLOOD_LEN);
	}
	for (unsigned i = 0; i < FLOOD; i++)
		side_wait(&a, &b);
	side_close(&a);
	side_close(&b);
}
END_TEST

static void post_tagged(struct side *s, uint8_t *buf, size_t len, uint64_t tag)
{
	ck_assert_int_eq(fi_trecv(s->ep, buf, len, NULL, FI_ADDR_UNSPEC, tag, 0, buf), 0);
}

/* Waits for a receive of s. Return: whether it is whole, of len bytes like out; else truncated. */
static bool is_whole(struct side *s, struct side *other, const uint8_t *out, size_t len)
{
	struct fi_cq_err_entry err = {0};
	struct fi_cq_tagged_entry e;
	uint64_t end_ns = 0;
	ssize_t n;

	while ((n = fi_cq_read(s->cq, &e, 1)) == -FI_EAGAIN) {
		side_progress(other);
		ck_assert(test_pause(&end_ns, TEST_PATIENCE_MS));
	}
	if (n == 1) {
		ck_assert_uint_eq(e.len, len);
		ck_assert_mem_eq(e.op_context, out, len);
		return true;
	}
	ck_assert_int_eq(n, -FI_EAVAIL);
	ck_assert_int_eq(fi_cq_readerr(s->cq, &err, 0), 1);
	ck_assert_int_eq(err.err, FI_ETRUNC);
	ck_assert_uint_eq(err.len + err.olen, len);
	return false;
}

/*
 * A benchmark of bandwidth: tags number the messages, and the receiver posts one receive ahead.
 * The receive that a window leaves is shorter than the first message of the next window, which is
 * truncated for that reason; all others are whole. Senders overrun the receiver.
 */
START_TEST(windows_of_numbered_messages__one_receive_is_too_short)
{
	static uint8_t out[WINDOW_LEN], in[WINDOW + 1][WINDOW_LEN];
	uint64_t sent = 0, posted = 0;
	unsigned whole = 0;
	struct side a, b;
	fi_addr_t to_b;

	side_open(&a, NULL, FI_WAIT_NONE);
	side_open(&b, NULL, FI_WAIT_NONE);
	to_b = side_insert(&a, &b);
	for (size_t len = 64; len <= WINDOW_LEN; len *= 4) {
		for (unsigned i = 0; i < WINDOW; i++, sent++) {
			memset(out, (int)len / 64 + 1, len);
			ck_assert_int_eq(fi_tsend(a.ep, out, len, NULL, to_b, sent, NULL), 0);
		}
		if (!posted)
			post_tagged(&b, in[WINDOW], len, posted++);
		for (unsigned i = 0; i < WINDOW; i++)
			post_tagged(&b, in[i], len, posted++);
		for (unsigned i = 0; i < WINDOW; i++)
			whole += is_whole(&b, &a, out, len);
		ck_assert_uint_eq(whole, WINDOW - (len > 64));
		whole = 0;
		for (unsigned i = 0; i < WINDOW; i++)
			side_wait(&a, &b);
	}
	side_close(&a);
	side_close(&b);
}
END_TEST

START_TEST(injects_without_credit__are_refused_for_now)
{
	static char out[4096], in[4096];
	unsigned sent = 0, got = 0;
	struct side a, b;
	fi_addr_t to_b;

	side_open(&a, NULL, FI_WAIT_NONE);
	side_open(&b, NULL, FI_WAIT_NONE);
	to_b = side_insert(&a, &b);
	/* b takes nothing from its queue meanwhile. */
	while (sent < 100000 && !fi_inject(a.ep, out, sizeof(out), to_b))
		sent++;
	ck_assert_uint_lt(sent, 100000);
	while (got < sent) {
		ck_assert_int_eq(fi_recv(b.ep, in, sizeof(in), NULL, FI_ADDR_UNSPEC, NULL), 0);
		ck_assert_uint_eq(side_wait(&b, &a).len, sizeof(in));
		got++;
	}
	side_close(&a);
	side_close(&b);
}
END_TEST

START_TEST(many_endpoints__from_each_to_each)
{
	static struct side s[ENDPOINTS];
	static fi_addr_t to[ENDPOINTS][ENDPOINTS];
	static unsigned in[ENDPOINTS][ENDPOINTS];
	unsigned left = ENDPOINTS * ENDPOINTS;
	struct fi_cq_tagged_entry e;
	uint64_t end_ns = 0;

	for (unsigned i = 0; i < ENDPOINTS; i++)
		side_open(&s[i], i > 1 ? &s[i % 2] : NULL, FI_WAIT_NONE);
	for (unsigned i = 0; i < ENDPOINTS; i++)
		for (unsigned k = 0; k < ENDPOINTS; k++)
			to[i][k] = side_insert(&s[i], &s[k]);
	for (unsigned i = 0; i < ENDPOINTS; i++)
		for (unsigned k = 0; k < ENDPOINTS; k++) {
			unsigned v = i * 1000 + k;

			ck_assert_int_eq(
				fi_trecv(s[i].ep, &in[i][k], sizeof(v), NULL, to[i][k], 4, 0, NULL),
				0);
			ck_assert_int_eq(fi_tinject(s[i].ep, &v, sizeof(v), to[i][k], 4), 0);
		}
	while (left) {
		unsigned before = left;

		for (unsigned i = 0; i < ENDPOINTS; i++)
			if (fi_cq_read(s[i].cq, &e, 1) == 1)
				left--;
		if (left == before)
			ck_assert(test_pause(&end_ns, TEST_PATIENCE_MS));
	}
	for (unsigned i = 0; i < ENDPOINTS; i++)
		for (unsigned k = 0; k < ENDPOINTS; k++)
			ck_assert_uint_eq(in[i][k], k * 1000 + i);
	for (unsigned i = ENDPOINTS; i-- > 0;)
		side_close(&s[i]);
}
END_TEST

static void receive_in_two_pieces(struct side *s, uint8_t *buf, size_t len, fi_addr_t from)
{
	struct iovec iov[2] = {{buf, 100}, {buf + 100, len - 100}};

	ck_assert_int_eq(fi_recvv(s->ep, iov, NULL, 2, from, buf), 0);
}

/* Return: the number of completions read. */
static unsigned read_one(struct side *s)
{
	struct fi_cq_tagged_entry e;
	ssize_t n = fi_cq_read(s->cq, &e, 1);

	ck_assert_int_ne(n, -FI_EAVAIL);
	return n == 1;
}

/*
 * More long messages are under way to the peer than libripc sends at a time, so that a request for
 * contents waits. The next one, for a receive of two pieces, does not overtake it.
 */
START_TEST(contents__in_the_order_in_which_they_are_asked_for)
{
	enum { PAIRS = 4, MESSAGES = 1024, LEN = 200000, SHORT = 100000 };
	static uint8_t out[LEN], in[LEN], one[SHORT], two[SHORT], got[2 * SHORT];
	struct side a[PAIRS], b[PAIRS];
	fi_addr_t to_a[PAIRS], to_b[PAIRS];
	/* Completions of both sides. */
	unsigned left = 2 * (2 + (PAIRS - 1) * MESSAGES);
	uint64_t end_ns = 0;

	for (unsigned i = 0; i < PAIRS; i++) {
		side_open(&a[i], i ? &a[0] : NULL, FI_WAIT_NONE);
		side_open(&b[i], i ? &b[0] : NULL, FI_WAIT_NONE);
		to_a[i] = side_insert(&b[i], &a[i]);
		to_b[i] = side_insert(&a[i], &b[i]);
	}
	memset(one, 1, SHORT);
	memset(two, 2, SHORT);
	ck_assert_int_eq(fi_send(b[0].ep, one, SHORT, NULL, to_a[0], NULL), 0);
	ck_assert_int_eq(fi_send(b[0].ep, two, SHORT, NULL, to_a[0], NULL), 0);
	for (unsigned i = 1; i < PAIRS; i++) {
		for (unsigned k = 0; k < MESSAGES; k++) {
			receive_in_two_pieces(&b[i], in, LEN, to_a[i]);
			ck_assert_int_eq(fi_send(a[i].ep, out, LEN, NULL, to_b[i], NULL), 0);
		}
		for (unsigned k = 0; k < 2 * MESSAGES; k++)
			side_progress(&b[i]);
		/* b[i] takes no contents meanwhile. */
		for (unsigned k = 0; k < 2 * MESSAGES; k++)
			side_progress(&a[i]);
	}
	side_progress(&a[0]);
	side_progress(&a[0]);
	ck_assert_int_eq(fi_recv(a[0].ep, got, SHORT, NULL, to_b[0], got), 0);
	receive_in_two_pieces(&a[0], got + SHORT, SHORT, to_b[0]);
	for (unsigned k = 0; k < MESSAGES; k++)
		side_progress(&b[0]);
	while (left) {
		unsigned before = left;

		for (unsigned i = 0; i < PAIRS; i++) {
			left -= read_one(&a[i]);
			left -= read_one(&b[i]);
		}
		if (left == before)
			ck_assert(test_pause(&end_ns, TEST_PATIENCE_MS));
	}
	ck_assert_mem_eq(got, one, SHORT);
	ck_assert_mem_eq(got + SHORT, two, SHORT);
	for (unsigned i = PAIRS; i-- > 0;) {
		side_close(&a[i]);
		side_close(&b[i]);
	}
}
END_TEST

enum placement { IN_PIECES, IN_BUFFERS, IN_TURN };
static const struct {
	enum placement placement;
	unsigned messages;
} unsendable[] = {{IN_PIECES, 2}, {IN_BUFFERS, 2},  {IN_TURN, 2},
		  {IN_PIECES, 4}, {IN_BUFFERS, 17}, {IN_PIECES, 40}};

/* Reads one completion. Return: its context, or NULL; *failed: whether it is an error. */
static void *read_any(struct side *s, bool *failed)
{
	struct fi_cq_err_entry err = {0};
	struct fi_cq_tagged_entry e;
	ssize_t n = fi_cq_read(s->cq, &e, 1);

	*failed = n == -FI_EAVAIL;
	if (*failed)
		ck_assert_int_eq(fi_cq_readerr(s->cq, &err, 0), 1);
	return n == 1 ? e.op_context : err.op_context;
}

/*
 * All but the last of several messages of the same length lie in memory that cannot be read, which
 * a socket notices. The last one is whole, and in its own receive: all are asked for at once; the
 * same in return buffers; and the second one is written into the return buffer of the first one.
 */
START_TEST(contents_that_cannot_be_sent__are_not_mixed_up)
{
	enum { LEN = 50000, MAX = 40 };
	static uint8_t out[LEN], in[MAX][LEN];
	enum placement placement = unsendable[_i].placement;
	unsigned last = unsendable[_i].messages - 1, left = 2 * (last + 1);
	struct side a, b;
	fi_addr_t to_a, to_b;
	uint64_t end_ns = 0;
	void *absent, *context;
	bool failed;

	absent = mmap(NULL, LEN, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(absent, MAP_FAILED);
	setenv("RIPC_TRANSPORTS", "iwarp/soft", 1);
	side_open(&a, NULL, FI_WAIT_NONE);
	side_open(&b, NULL, FI_WAIT_NONE);
	unsetenv("RIPC_TRANSPORTS");
	to_a = side_insert(&b, &a);
	to_b = side_insert(&a, &b);
	memset(out, 1, LEN);
	for (unsigned i = 0; i <= last; i++) {
		void *from = i < last ? absent : out;

		ck_assert_int_eq(fi_tsend(a.ep, from, LEN, NULL, to_b, i, from), 0);
	}
	while (!has_arrived(&b, last))
		side_progress(&a);
	for (unsigned i = 0; i <= last; i++) {
		struct iovec iov[2] = {{in[i], LEN}, {in[i] + 100, LEN - 100}};

		if (placement == IN_PIECES)
			iov[0].iov_len = 100;
		ck_assert_int_eq(fi_trecvv(b.ep, iov, NULL, placement == IN_PIECES ? 2 : 1, to_a, i,
					   0, in[i]),
				 0);
		if (placement == IN_TURN && i == 0) {
			ck_assert_ptr_eq(side_wait_error(&a, NULL).op_context, absent);
			left--;
		}
	}
	for (unsigned k = 0; placement != IN_TURN && k < 1000; k++)
		side_progress(&b);
	while (left) {
		unsigned before = left;

		context = read_any(&a, &failed);
		if (context) {
			ck_assert_ptr_eq(context, failed ? absent : out);
			left--;
		}
		context = read_any(&b, &failed);
		if (context) {
			ck_assert_msg(failed == (context != in[last]), "receive %zu",
				      (size_t)((uint8_t *)context - in[0]) / LEN);
			left--;
		}
		if (left == before)
			ck_assert(test_pause(&end_ns, TEST_PATIENCE_MS));
	}
	ck_assert_mem_eq(in[last], out, LEN);
	munmap(absent, LEN);
	side_close(&a);
	side_close(&b);
}
END_TEST

/* The context of the next error; completions before it are read. */
static void *next_error(struct side *s)
{
	struct fi_cq_tagged_entry e;
	struct fi_cq_err_entry err = {0};
	uint64_t end_ns = 0;
	ssize_t n;

	while ((n = fi_cq_read(s->cq, &e, 1)) != -FI_EAVAIL)
		if (n == -FI_EAGAIN)
			ck_assert(test_pause(&end_ns, TEST_PATIENCE_MS));
	ck_assert_int_eq(fi_cq_readerr(s->cq, &err, 0), 1);
	ck_assert_int_ne(err.err, 0);
	return err.op_context;
}

/* An endpoint is closed during transfers in both directions. */
START_TEST(endpoint_closed_under_traffic__ends_operations)
{
	static char out[1 << 20], in[5][1 << 20];
	struct side a, b;
	fi_addr_t to_a, to_b;

	side_open(&a, NULL, FI_WAIT_NONE);
	side_open(&b, NULL, FI_WAIT_NONE);
	to_b = side_insert(&a, &b);
	to_a = side_insert(&b, &a);
	for (unsigned i = 0; i < 4; i++) {
		ck_assert_int_eq(fi_tsend(a.ep, out, sizeof(out), NULL, to_b, i, out), 0);
		ck_assert_int_eq(fi_tsend(b.ep, out, sizeof(out), NULL, to_a, i, out), 0);
		ck_assert_int_eq(fi_trecv(a.ep, in[i], sizeof(in[i]), NULL, to_b, i, 0, in[i]), 0);
	}
	ck_assert_int_eq(fi_trecv(b.ep, in[4], sizeof(in[4]), NULL, to_a, 2, 0, in[4]), 0);
	side_progress(&b);
	side_progress(&a);
	side_progress(&b);
	ck_assert_int_eq(fi_close(&b.ep->fid), 0);
	b.ep = NULL;
	/* The sends to b that nobody received end with an error, and so does a further one. */
	for (unsigned errors = 0; errors < 3;)
		errors += next_error(&a) == out;
	ck_assert_int_eq(fi_tsend(a.ep, out, 1, NULL, to_b, 9, &to_b), 0);
	while (next_error(&a) != &to_b)
		;
	side_close(&b);
	side_close(&a);
}
END_TEST

/* The sends wait for credit: nothing is posted that could fail. */
START_TEST(endpoint_closed_without_credit__ends_sends)
{
	enum { WINDOW_MESSAGES = 65536 };
	struct side a, b;
	fi_addr_t to_b;

	side_open(&a, NULL, FI_WAIT_NONE);
	side_open(&b, NULL, FI_WAIT_NONE);
	to_b = side_insert(&a, &b);
	for (unsigned i = 0; i < WINDOW_MESSAGES;) {
		if (!fi_inject(a.ep, NULL, 0, to_b))
			i++;
		else
			side_progress(&a);
		side_progress(&b);
	}
	ck_assert_int_eq(fi_send(a.ep, "x", 1, NULL, to_b, &to_b), 0);
	for (unsigned i = 0; i < 1000; i++) {
		side_progress(&a);
		side_progress(&b);
	}
	ck_assert_int_eq(fi_close(&b.ep->fid), 0);
	b.ep = NULL;
	ck_assert_ptr_eq(side_wait_error(&a, NULL).op_context, &to_b);
	side_close(&a);
	side_close(&b);
}
END_TEST

/* In the child: an endpoint that receives one message, and then waits to be killed. */
static void child(int from_parent, int to_parent)
{
	struct side s;
	uint8_t address[16];
	char buf[8];
	size_t len = sizeof(address);

	side_open(&s, NULL, FI_WAIT_NONE);
	if (fi_getname(&s.ep->fid, address, &len) ||
	    write(to_parent, address, len) != (ssize_t)len ||
	    fi_recv(s.ep, buf, sizeof(buf), NULL, FI_ADDR_UNSPEC, NULL))
		_exit(1);
	side_wait(&s, NULL);
	if (write(to_parent, "x", 1) != 1 || read(from_parent, buf, 1) != 1)
		_exit(1);
	_exit(0);
}

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

/* The parent of a killed process can wait for it before a peer gets an error. */
START_TEST(process_killed__ends_sends_to_it_later)
{
	static char out[1 << 20];
	uint64_t start_ns;
	int down[2], up[2];
	uint8_t address[16];
	struct pollfd received = {.events = POLLIN};
	struct side a;
	fi_addr_t to;
	pid_t pid;
	char c;

	ck_assert(!pipe(down) && !pipe(up));
	pid = fork();
	if (!pid)
		child(down[0], up[1]);
	ck_assert_int_eq(read(up[0], address, sizeof(address)), sizeof(address));
	side_open(&a, NULL, FI_WAIT_NONE);
	ck_assert_int_eq(fi_av_insert(a.av, address, 1, &to, 0, NULL), 1);
	ck_assert_int_eq(fi_inject(a.ep, "x", 1, to), 0);
	received.fd = up[0];
	while (!poll(&received, 1, 1))
		side_progress(&a);
	ck_assert_int_eq(read(up[0], &c, 1), 1);
	ck_assert_int_eq(fi_send(a.ep, out, sizeof(out), NULL, to, out), 0);
	ck_assert(side_is_quiet(&a));
	start_ns = now_ns();
	kill(pid, SIGKILL);
	ck_assert_ptr_eq(side_wait_error(&a, NULL).op_context, out);
	ck_assert_uint_ge(now_ns() - start_ns, LOSS_DELAY_NS);
	ck_assert_int_eq(waitpid(pid, NULL, WNOHANG), pid);
	/* A further one, too. */
	ck_assert_int_eq(fi_send(a.ep, out, 1, NULL, to, &to), 0);
	ck_assert_ptr_eq(side_wait_error(&a, NULL).op_context, &to);
	side_close(&a);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("ofi/flow");
	TCase *tc = tcase_create("flow");

	tcase_add_test(tc, flood__takes_bounded_memory);
	tcase_add_test(tc, windows_of_numbered_messages__one_receive_is_too_short);
	tcase_add_test(tc, injects_without_credit__are_refused_for_now);
	tcase_add_test(tc, contents__in_the_order_in_which_they_are_asked_for);
	tcase_add_loop_test(tc, contents_that_cannot_be_sent__are_not_mixed_up, 0,
			    sizeof(unsendable) / sizeof(*unsendable));
	tcase_add_test(tc, many_endpoints__from_each_to_each);
	tcase_add_test(tc, endpoint_closed_under_traffic__ends_operations);
	tcase_add_test(tc, endpoint_closed_without_credit__ends_sends);
	tcase_add_test(tc, process_killed__ends_sends_to_it_later);
	suite_add_tcase(s, tc);
	return test_main("ofi/flow", s);
}
