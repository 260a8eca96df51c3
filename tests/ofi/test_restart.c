/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* An endpoint with a service of its own choice is closed, and another process opens it again. */
#include "side.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>

#define LEN      100000
#define MESSAGES 66000 /* more than a sender has credit for */

static struct side a, b;
static fi_addr_t to_a, to_b;
static char *out, *in;

static void begin(void)
{
	out = malloc(LEN);
	in = calloc(1, LEN);
	ck_assert(out && in);
	memset(out, 7, LEN);
	side_open_service(&a, test_ids());
	side_open(&b, NULL, FI_WAIT_NONE);
	to_b = side_insert(&a, &b);
	to_a = side_insert(&b, &a);
}

static void end(void)
{
	side_close(&a);
	side_close(&b);
	free(out);
	free(in);
}

static void restart(void)
{
	side_close(&a);
	side_open_service(&a, test_ids());
	to_b = side_insert(&a, &b);
}

static void exchange(struct side *from, struct side *to, fi_addr_t dest, size_t len)
{
	memset(in, 0, len);
	ck_assert_int_eq(fi_trecv(to->ep, in, len, NULL, FI_ADDR_UNSPEC, 1, 0, in), 0);
	ck_assert_int_eq(fi_tsend(from->ep, out, len, NULL, dest, 1, out), 0);
	ck_assert_ptr_eq(side_wait(to, from).op_context, in);
	ck_assert_mem_eq(in, out, len);
	ck_assert_ptr_eq(side_wait(from, to).op_context, out);
}

START_TEST(restarted__sends_and_receives)
{
	static const size_t lengths[] = {100, LEN};

	for (unsigned i = 0; i < 4; i++) {
		exchange(&a, &b, to_b, lengths[i % 2]);
		exchange(&b, &a, to_a, lengths[i % 2]);
		restart();
		exchange(&a, &b, to_b, lengths[i / 2]);
		exchange(&b, &a, to_a, lengths[i / 2]);
	}
}
END_TEST

/* They are whole if their contents have arrived, and end with an error if not. */
START_TEST(messages_of_the_process_before)
{
	exchange(&a, &b, to_b, 1);
	ck_assert_int_eq(fi_tsend(a.ep, out, 100, NULL, to_b, 2, NULL), 0);
	ck_assert_int_eq(fi_tsend(a.ep, out, LEN, NULL, to_b, 3, NULL), 0);
	side_progress(&b);
	side_progress(&b);
	restart();
	exchange(&a, &b, to_b, LEN);
	ck_assert_int_eq(fi_trecv(b.ep, in, LEN, NULL, FI_ADDR_UNSPEC, 3, 0, &a), 0);
	ck_assert_ptr_eq(side_wait_error(&b, &a).op_context, &a);
	ck_assert_int_eq(fi_trecv(b.ep, in, LEN, NULL, FI_ADDR_UNSPEC, 2, 0, in), 0);
	ck_assert_uint_eq(side_wait(&b, &a).len, 100);
	exchange(&a, &b, to_b, LEN);
}
END_TEST

/* Posts a long message for b: a shorter one before it is complete when b was found. */
static void send_to_b(uint64_t tag)
{
	ck_assert_int_eq(fi_tsend(a.ep, out, 1, NULL, to_b, UINT64_MAX, NULL), 0);
	ck_assert_ptr_null(side_wait(&a, NULL).op_context);
	ck_assert_int_eq(fi_tsend(a.ep, out, LEN, NULL, to_b, tag, out), 0);
}

/* The same, and waits until it is there: a message to another endpoint follows. */
static void bring_to_b(uint64_t tag, struct side *witness)
{
	char c;

	send_to_b(tag);
	ck_assert_int_eq(fi_inject(a.ep, "x", 1, side_insert(&a, witness)), 0);
	ck_assert_int_eq(fi_recv(witness->ep, &c, 1, NULL, FI_ADDR_UNSPEC, NULL), 0);
	side_wait(witness, &a);
}

/* Its contents come before the next message, and b looks at them after it. */
START_TEST(contents_of_the_process_before)
{
	struct pollfd p = {.events = POLLIN};
	struct fid *fids[1];
	struct side witness;
	char *next = malloc(LEN);

	side_close(&b);
	side_open(&b, NULL, FI_WAIT_FD);
	side_open(&witness, &b, FI_WAIT_NONE);
	to_a = side_insert(&b, &a);
	to_b = side_insert(&a, &b);
	for (unsigned i = 0; i < 2; i++) {
		struct iovec iov[2] = {{in, i ? LEN : LEN / 2}, {in + LEN / 2, LEN / 2}};

		exchange(&a, &b, to_b, 1);
		memset(out, 7, LEN);
		ck_assert_int_eq(fi_trecvv(b.ep, iov, NULL, 1 + !i, to_a, 1, 0, in), 0);
		bring_to_b(1, &witness);
		side_progress(&b);
		side_wait(&a, NULL);
		restart();
		memset(out, 9, LEN);
		bring_to_b(2, &witness);
		if (i)
			ck_assert_int_eq(fi_trecv(b.ep, next, LEN, NULL, to_a, 2, 0, next), 0);
		ck_assert_ptr_eq(side_wait_error(&b, NULL).op_context, in);
		fids[0] = &b.cq->fid;
		ck_assert_int_eq(fi_control(fids[0], FI_GETWAIT, &p.fd), 0);
		if (!i) {
			AWAIT(!fi_trywait(b.fabric, fids, 1) && !poll(&p, 1, 1));
			ck_assert_int_eq(fi_trecv(b.ep, next, LEN, NULL, to_a, 2, 0, next), 0);
		}
		ck_assert_ptr_eq(side_wait(&b, &a).op_context, next);
		side_wait(&a, &b);
		ck_assert_mem_eq(next, out, LEN);
	}
	side_close(&witness);
	free(next);
}
END_TEST

/* It reaches the next process, which has sent a message with the same number. */
START_TEST(match_with_the_process_before__ends_no_send_of_the_next)
{
	exchange(&a, &b, to_b, 1);
	ck_assert_int_eq(fi_tsend(a.ep, out, LEN, NULL, to_b, 2, out), 0);
	side_progress(&b);
	side_progress(&b);
	restart();
	send_to_b(3);
	ck_assert_int_eq(fi_trecv(b.ep, in, LEN, NULL, to_a, 2, 0, in), 0);
	ck_assert_ptr_eq(side_wait_error(&b, &a).op_context, in);
	ck_assert(side_is_quiet(&a));
	ck_assert_int_eq(fi_trecv(b.ep, in, LEN, NULL, to_a, 3, 0, in), 0);
	side_wait(&b, &a);
	side_wait(&a, &b);
	exchange(&a, &b, to_b, LEN);
}
END_TEST

/*
 * b does not know yet that another process receives its messages: it ends them when the first
 * message comes from there. The receive of one of them ends, too.
 */
START_TEST(message_that_ended__ends_its_receive)
{
	exchange(&a, &b, to_b, 1);
	restart();
	ck_assert_int_eq(fi_trecv(a.ep, in, 1, NULL, FI_ADDR_UNSPEC, 5, 0, in), 0);
	ck_assert_int_eq(fi_tsend(b.ep, out, 1, NULL, to_a, 5, NULL), 0);
	ck_assert_int_eq(fi_tsend(b.ep, out, LEN, NULL, to_a, 6, out), 0);
	ck_assert_ptr_eq(side_wait(&a, &b).op_context, in);
	ck_assert_ptr_null(side_wait(&b, NULL).op_context);
	ck_assert_int_eq(fi_inject(a.ep, "x", 1, to_b), 0);
	ck_assert_ptr_eq(side_wait_error(&b, &a).op_context, out);
	ck_assert_int_eq(fi_trecv(a.ep, in, LEN, NULL, FI_ADDR_UNSPEC, 6, 0, in), 0);
	ck_assert_ptr_eq(side_wait_error(&a, &b).op_context, in);
	exchange(&b, &a, to_a, LEN);
	exchange(&a, &b, to_b, LEN);
}
END_TEST

static void send_many(struct side *from, struct side *to, fi_addr_t dest, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		ck_assert_int_eq(fi_recv(to->ep, in, 1, NULL, FI_ADDR_UNSPEC, NULL), 0);
		while (fi_inject(from->ep, "x", 1, dest))
			side_progress(from);
		side_wait(to, from);
		side_progress(from);
	}
}

START_TEST(credit__begins_again)
{
	send_many(&a, &b, to_b, 100);
	send_many(&b, &a, to_a, 100);
	restart();
	/* b has not received a message from the new process. */
	send_many(&b, &a, to_a, 100);
	send_many(&a, &b, to_b, MESSAGES);
	send_many(&b, &a, to_a, MESSAGES);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("ofi/restart");
	TCase *tc = tcase_create("restart");

	tcase_add_checked_fixture(tc, begin, end);
	tcase_add_test(tc, restarted__sends_and_receives);
	tcase_add_test(tc, messages_of_the_process_before);
	tcase_add_test(tc, contents_of_the_process_before);
	tcase_add_test(tc, match_with_the_process_before__ends_no_send_of_the_next);
	tcase_add_test(tc, message_that_ended__ends_its_receive);
	tcase_add_test(tc, credit__begins_again);
	suite_add_tcase(s, tc);
	return test_main("ofi/restart", s);
}
