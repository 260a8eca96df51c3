/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A peer that is lost on one side only: its process is stopped until this one has given it up, and
 * then goes on. All operations end on both sides, and none of them is stuck.
 */
#include "side.h"

#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define LEN      200000
#define MESSAGES 70000        /* more than a sender has credit for */
#define MANY     3000         /* long messages */
#define BOUND    (100 * 1024) /* of the heap that they leave */

static char out[LEN], in[LEN];
static struct side a;
static fi_addr_t to_b;
static pid_t b;
static int to_child, from_child;

/* ---- the other process ---- */

/* The next command; 0: there is none. */
static char next_command(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	char c = 0;

	if (poll(&p, 1, 0) && read(fd, &c, 1) != 1)
		_exit(0);
	return c;
}

/* In the child. It answers each command; an operation that ends has the first byte of its name. */
static void serve(int from, int to)
{
	struct fi_cq_err_entry err = {0};
	struct fi_cq_tagged_entry e;
	uint8_t address[16];
	size_t len = sizeof(address);
	unsigned flood = 0;
	fi_addr_t to_a;
	struct side s;
	ssize_t n;
	char c;

	side_open(&s, NULL, FI_WAIT_NONE);
	if (fi_getname(&s.ep->fid, address, &len) || write(to, address, len) != (ssize_t)len ||
	    read(from, address, len) != (ssize_t)len ||
	    fi_av_insert(s.av, address, 1, &to_a, 0, NULL) != 1)
		_exit(1);
	for (;;) {
		switch (next_command(from)) {
		case 's':
			fi_tsend(s.ep, out, LEN, NULL, to_a, 1, "s");
			break;
		case 'm':
			for (unsigned i = 0; i < MANY; i++)
				fi_tsend(s.ep, out, LEN, NULL, to_a, 1 + (i == MANY - 1), "m");
			break;
		case 'r':
			fi_trecv(s.ep, in, LEN, NULL, to_a, 2, 0, "r");
			break;
		case 'f':
			flood = MESSAGES;
			break;
		case 'p':
			for (unsigned i = 0; i < 1000; i++)
				side_progress(&s);
			if (write(to, "p", 1) != 1)
				_exit(1);
			break;
		}
		while (flood && !fi_tinject(s.ep, "x", 1, to_a, 3))
			flood--;
		n = fi_cq_read(s.cq, &e, 1);
		if (n == -FI_EAVAIL) {
			fi_cq_readerr(s.cq, &err, 0);
			e.op_context = err.op_context;
		}
		c = n == -FI_EAVAIL ? 'E' : 'D';
		if (n != -FI_EAGAIN && (write(to, e.op_context, 1) != 1 || write(to, &c, 1) != 1))
			_exit(1);
	}
}

/* ---- this process ---- */

static void begin(void)
{
	int down[2], up[2];
	uint8_t address[16];
	size_t len = sizeof(address);

	setenv("RIPC_PEER_TIMEOUT_MS", "1000", 1);
	ck_assert(!pipe(down) && !pipe(up));
	b = fork();
	if (!b) {
		close(down[1]);
		serve(down[0], up[1]);
	}
	to_child = down[1];
	from_child = up[0];
	ck_assert_int_eq(read(from_child, address, len), len);
	side_open(&a, NULL, FI_WAIT_NONE);
	ck_assert_int_eq(fi_av_insert(a.av, address, 1, &to_b, 0, NULL), 1);
	ck_assert_int_eq(fi_getname(&a.ep->fid, address, &len), 0);
	ck_assert_int_eq(write(to_child, address, len), len);
}

static void begin_with_long_searches(void)
{
	setenv("RIPC_RESOLVE_TIMEOUT_MS", "600000", 1);
	begin();
}

static void kill_b(void)
{
	ck_assert_int_eq(kill(b, SIGKILL), 0);
	ck_assert_int_eq(waitpid(b, NULL, 0), b);
	b = 0;
}

static void end(void)
{
	side_close(&a);
	if (b)
		kill_b();
	close(to_child);
	close(from_child);
}

/* The next byte from b. */
static char answer(void)
{
	struct pollfd p = {.fd = from_child, .events = POLLIN};
	uint64_t end_ns = 0;
	char c = 0;

	while (!poll(&p, 1, 0)) {
		side_progress(&a);
		ck_assert_msg(test_pause(&end_ns, TEST_PATIENCE_MS), "b is stuck");
	}
	ck_assert_int_eq(read(from_child, &c, 1), 1);
	return c;
}

static void command_b(char c)
{
	ck_assert_int_eq(write(to_child, &c, 1), 1);
}

/* b has taken all commands, without progress here. */
static void await_b(void)
{
	char c;

	command_b('p');
	ck_assert_int_eq(read(from_child, &c, 1), 1);
	ck_assert_int_eq(c, 'p');
}

static void stop_b(void)
{
	ck_assert_int_eq(kill(b, SIGSTOP), 0);
	ck_assert_int_eq(waitpid(b, NULL, WUNTRACED), b);
}

/* b does not run until a send to it has ended with an error here. */
static void lose_b(void)
{
	stop_b();
	ck_assert_ptr_eq(side_wait_error(&a, NULL).op_context, out);
	ck_assert_int_eq(kill(b, SIGCONT), 0);
}

/* The same, and b has no long message of this process that would show it the loss. */
static void lose_b_by_short_messages(void)
{
	stop_b();
	/* They are complete at once; the window of reliable ones is full later. */
	for (unsigned i = 0; i < 2000; i++)
		ck_assert_int_eq(fi_tsend(a.ep, out, 1000, NULL, to_b, 9, out), 0);
	for (bool error = false; !error;) {
		struct fi_cq_tagged_entry e;
		struct fi_cq_err_entry err = {0};
		ssize_t n = fi_cq_read(a.cq, &e, 1);

		error = n == -FI_EAVAIL && fi_cq_readerr(a.cq, &err, 0) == 1;
	}
	ck_assert_int_eq(kill(b, SIGCONT), 0);
}

/* Whether a message with this tag is here. */
static bool has_arrived(uint64_t tag)
{
	struct fi_msg_tagged m = {.addr = FI_ADDR_UNSPEC, .tag = tag, .context = &m};
	struct fi_cq_tagged_entry e;
	struct fi_cq_err_entry err = {0};

	ck_assert_int_eq(fi_trecvmsg(a.ep, &m, FI_PEEK), 0);
	if (fi_cq_read(a.cq, &e, 1) == 1)
		return true;
	ck_assert_int_eq(fi_cq_readerr(a.cq, &err, 0), 1);
	return false;
}

/* b is found. */
static void reach_b(void)
{
	ck_assert_int_eq(fi_tsend(a.ep, out, 1, NULL, to_b, UINT64_MAX, NULL), 0);
	side_wait(&a, NULL);
}

/* A message to b that nobody receives: it has arrived there. */
static void send_to_b(uint64_t tag)
{
	reach_b();
	ck_assert_int_eq(fi_tsend(a.ep, out, LEN, NULL, to_b, tag, out), 0);
	await_b();
}

/* There is a long message to each side, and b has asked for the contents of its one. */
static void post_both(void)
{
	command_b('s');
	AWAIT(has_arrived(1));
	send_to_b(2);
	command_b('r');
	await_b();
}

/* Its message is here, and is not received. */
START_TEST(send_of_the_peer__ends)
{
	command_b('s');
	AWAIT(has_arrived(1));
	send_to_b(9);
	lose_b();
	ck_assert_int_eq(answer(), 's');
	ck_assert_int_eq(answer(), 'E');
	ck_assert_int_eq(fi_trecv(a.ep, in, LEN, NULL, FI_ADDR_UNSPEC, 1, 0, in), 0);
	ck_assert_ptr_eq(side_wait_error(&a, NULL).op_context, in);
}
END_TEST

/* The same, and this endpoint has sent nothing long to the peer. */
START_TEST(send_of_the_peer__ends_without_own_long_sends)
{
	command_b('s');
	AWAIT(has_arrived(1));
	await_b();
	lose_b_by_short_messages();
	ck_assert_int_eq(answer(), 's');
	ck_assert_int_eq(answer(), 'E');
}
END_TEST

/* It has asked for the contents, which are lost with the connection, or just arrive. */
START_TEST(receive_of_the_peer__ends)
{
	send_to_b(2);
	command_b('r');
	await_b();
	lose_b();
	ck_assert_int_eq(answer(), 'r');
}
END_TEST

/*
 * The peer waits for nothing meanwhile, and goes on to send: over the next connection, because what
 * it sends over the former one before it notices its end is lost, and shows it the loss.
 */
START_TEST(messages_after_the_loss)
{
	struct fi_cq_err_entry err;
	unsigned n = 0;

	reach_b();
	await_b();
	lose_b_by_short_messages();
	await_b();
	command_b('s');
	ck_assert_int_eq(fi_trecv(a.ep, in, LEN, NULL, FI_ADDR_UNSPEC, 1, 0, in), 0);
	do
		err = side_wait_error(&a, NULL);
	while (err.op_context == out);
	ck_assert_ptr_eq(err.op_context, in);
	ck_assert_int_eq(answer(), 's');
	ck_assert_int_eq(answer(), 'E');
	command_b('f');
	while (n < MESSAGES) {
		ck_assert_int_eq(fi_trecv(a.ep, in, 1, NULL, FI_ADDR_UNSPEC, 3, 0, in), 0);
		ck_assert_ptr_eq(side_wait(&a, NULL).op_context, in);
		n++;
	}
}
END_TEST

/* Its message is here, and is received later: no search for its service is needed. */
START_TEST(receive_from_a_dead_peer__ends)
{
	command_b('s');
	AWAIT(has_arrived(1));
	kill_b();
	ck_assert_int_eq(fi_trecv(a.ep, in, LEN, NULL, FI_ADDR_UNSPEC, 1, 0, in), 0);
	ck_assert_ptr_eq(side_wait_error(&a, NULL).op_context, in);
}
END_TEST

/* Requests for contents, and refusals, do not wait for the next holder of its services. */
START_TEST(receives_from_a_dead_peer__leave_nothing)
{
	size_t before;

	command_b('m');
	AWAIT(has_arrived(2));
	before = mallinfo2().uordblks;
	kill_b();
	for (unsigned i = 0; i < MANY; i++)
		ck_assert_int_eq(fi_trecv(a.ep, in, LEN, NULL, FI_ADDR_UNSPEC, 1, 3, in), 0);
	for (unsigned i = 0; i < MANY; i++)
		ck_assert_ptr_eq(side_wait_error(&a, NULL).op_context, in);
	AWAIT((side_progress(&a), mallinfo2().uordblks < before + BOUND));
}
END_TEST

/* Contents are on their way in both directions: the memory is the application's after the call. */
START_TEST(close__while_the_peer_is_stopped)
{
	post_both();
	stop_b();
	ck_assert_int_eq(fi_trecv(a.ep, in, LEN, NULL, FI_ADDR_UNSPEC, 1, 0, in), 0);
	side_progress(&a);
	ck_assert(side_is_quiet(&a));
	ck_assert_int_eq(fi_close(&a.ep->fid), 0);
	a.ep = NULL;
	memset(in, 42, LEN);
	memset(out, 42, LEN);
	ck_assert_int_eq(kill(b, SIGCONT), 0);
	for (unsigned i = 0; i < 2; i++) {
		answer();
		answer();
	}
	for (size_t i = 0; i < LEN; i++)
		ck_assert_int_eq(in[i], 42);
}
END_TEST

/* In a child of fork() nothing ends any more, and nobody waits for it. */
START_TEST(close__in_a_child)
{
	pid_t child;
	int status;

	post_both();
	side_progress(&a);
	side_progress(&a);
	child = fork();
	if (!child)
		_exit(fi_close(&a.ep->fid) ? 1 : 0);
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(status, 0);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("ofi/peer");
	TCase *tc = tcase_create("peer");

	tcase_add_checked_fixture(tc, begin, end);
	tcase_add_test(tc, send_of_the_peer__ends);
	tcase_add_test(tc, send_of_the_peer__ends_without_own_long_sends);
	tcase_add_test(tc, receive_of_the_peer__ends);
	tcase_add_test(tc, messages_after_the_loss);
	tcase_add_test(tc, receives_from_a_dead_peer__leave_nothing);
	tcase_add_test(tc, close__while_the_peer_is_stopped);
	tcase_add_test(tc, close__in_a_child);
	suite_add_tcase(s, tc);
	tc = tcase_create("search");
	tcase_add_checked_fixture(tc, begin_with_long_searches, end);
	tcase_add_test(tc, receive_from_a_dead_peer__ends);
	suite_add_tcase(s, tc);
	return test_main("ofi/peer", s);
}
