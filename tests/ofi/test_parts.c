/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * EAGER messages in parts. They are longer here than the window of reliable messages, so that the
 * sender posts the last parts later: a receiver has incomplete messages meanwhile.
 */
#include "side.h"

#include <stdlib.h>
#include <string.h>

#define LEN 524288

static struct side a, b;
static fi_addr_t to_a, to_b;
static char *out, *in;

static bool same(const char *buf, size_t len, unsigned seed)
{
	for (size_t i = 0; i < len; i++)
		if (buf[i] != (char)(i * 7 + i / 251 + seed))
			return false;
	return true;
}

static void begin(void)
{
	out = malloc(LEN);
	in = calloc(1, LEN);
	ck_assert(out && in);
	side_open(&a, NULL, FI_WAIT_NONE);
	side_open(&b, NULL, FI_WAIT_NONE);
	to_b = side_insert(&a, &b);
	to_a = side_insert(&b, &a);
	ck_assert_int_eq(fi_inject(a.ep, "x", 1, to_b), 0);
	ck_assert_int_eq(fi_recv(b.ep, in, 1, NULL, to_a, NULL), 0);
	side_wait(&b, &a);
}

static void end(void)
{
	side_close(&a);
	side_close(&b);
	free(out);
	free(in);
}

/* Sends LEN bytes; b has the first of them. */
static void send_first(uint64_t tag)
{
	for (size_t i = 0; i < LEN; i++)
		out[i] = (char)(i * 7 + i / 251 + tag);
	ck_assert_int_eq(fi_tsend(a.ep, out, LEN, NULL, to_b, tag, out), 0);
	side_progress(&b);
}

static void receive(uint64_t tag)
{
	ck_assert_int_eq(fi_trecv(b.ep, in, LEN, NULL, to_a, tag, 0, in), 0);
	ck_assert_uint_eq(side_wait(&b, &a).len, LEN);
	ck_assert(same(in, LEN, (unsigned)tag));
	ck_assert_ptr_eq(side_wait(&a, &b).op_context, out);
}

START_TEST(receive__posted_before_between_and_after_the_parts)
{
	ck_assert_int_eq(fi_trecv(b.ep, in, LEN, NULL, to_a, 1, 0, in), 0);
	send_first(1);
	ck_assert_uint_eq(side_wait(&b, &a).len, LEN);
	ck_assert(same(in, LEN, 1));
	ck_assert_ptr_eq(side_wait(&a, &b).op_context, out);
	send_first(2);
	receive(2);
	send_first(3);
	for (unsigned i = 0; i < 1000; i++) {
		side_progress(&a);
		side_progress(&b);
	}
	receive(3);
}
END_TEST

START_TEST(other_messages__follow_in_order)
{
	send_first(1);
	ck_assert_int_eq(fi_tinject(a.ep, "y", 1, to_b, 9), 0);
	/* Another one, to oneself meanwhile. */
	ck_assert_int_eq(fi_tinject(b.ep, "z", 1, side_insert(&b, &b), 9), 0);
	ck_assert_int_eq(fi_trecv(b.ep, in, 1, NULL, FI_ADDR_UNSPEC, 9, 0, NULL), 0);
	side_wait(&b, NULL);
	ck_assert_int_eq(in[0], 'z');
	ck_assert_int_eq(fi_trecv(b.ep, in, 1, NULL, FI_ADDR_UNSPEC, 9, 0, NULL), 0);
	side_wait(&b, &a);
	ck_assert_int_eq(in[0], 'y');
	receive(1);
}
END_TEST

START_TEST(incomplete_message__found_claimed_and_discarded)
{
	struct fi_msg_tagged m = {.addr = to_a, .tag = 1, .context = &m};
	struct iovec iov = {in, LEN};
	struct fi_cq_tagged_entry e;

	send_first(1);
	ck_assert_int_eq(fi_trecvmsg(b.ep, &m, FI_PEEK | FI_CLAIM), 0);
	ck_assert_uint_eq(side_wait(&b, NULL).len, LEN);
	m.msg_iov = &iov;
	m.iov_count = 1;
	ck_assert_int_eq(fi_trecvmsg(b.ep, &m, FI_CLAIM), 0);
	e = side_wait(&b, &a);
	ck_assert_uint_eq(e.len, LEN);
	ck_assert(same(in, LEN, 1));
	side_wait(&a, &b);

	m = (struct fi_msg_tagged){.addr = to_a, .tag = 2, .context = &m};
	send_first(2);
	ck_assert_int_eq(fi_trecvmsg(b.ep, &m, FI_PEEK | FI_DISCARD), 0);
	ck_assert_uint_eq(side_wait(&b, NULL).len, LEN);
	side_wait(&a, &b);
	m.tag = 3;
	send_first(3);
	ck_assert_int_eq(fi_trecvmsg(b.ep, &m, FI_PEEK | FI_CLAIM), 0);
	side_wait(&b, NULL);
	ck_assert_int_eq(fi_trecvmsg(b.ep, &m, FI_CLAIM | FI_DISCARD), 0);
	side_wait(&b, &a);
	side_wait(&a, &b);
	send_first(4);
	receive(4);
}
END_TEST

START_TEST(truncated__and_then_whole)
{
	struct fi_cq_err_entry err;

	for (unsigned first = 0; first < 2; first++) {
		memset(in, 0, LEN);
		if (first)
			ck_assert_int_eq(fi_trecv(b.ep, in, 10001, NULL, to_a, 1, 0, in), 0);
		send_first(1);
		if (!first)
			ck_assert_int_eq(fi_trecv(b.ep, in, 10001, NULL, to_a, 1, 0, in), 0);
		err = side_wait_error(&b, &a);
		ck_assert_int_eq(err.err, FI_ETRUNC);
		ck_assert_uint_eq(err.olen, LEN - 10001);
		ck_assert(same(in, 10001, 1));
		ck_assert_int_eq(in[10001], 0);
		side_wait(&a, &b);
	}
	send_first(2);
	receive(2);
}
END_TEST

START_TEST(pieces__with_other_borders_than_the_parts)
{
	struct iovec from[3], to[2] = {{in, 9000}, {in + 9000, LEN - 9000}};

	for (size_t i = 0; i < LEN; i++)
		out[i] = (char)(i * 7 + i / 251);
	from[0] = (struct iovec){out, 3};
	from[1] = (struct iovec){out + 3, 20000};
	from[2] = (struct iovec){out + 20003, LEN - 20003};
	ck_assert_int_eq(fi_tsendv(a.ep, from, NULL, 3, to_b, 0, NULL), 0);
	side_progress(&b);
	ck_assert_int_eq(fi_trecvv(b.ep, to, NULL, 2, to_a, 0, 0, NULL), 0);
	ck_assert_uint_eq(side_wait(&b, &a).len, LEN);
	ck_assert(same(in, LEN, 0));
}
END_TEST

START_TEST(cancel__of_a_send_that_has_begun_is_refused)
{
	struct fi_cq_tagged_entry e;

	send_first(1);
	/* The ring held all of it, or the message has begun: it arrives. */
	ck_assert_int_eq(fi_cancel(&a.ep->fid, out), -FI_ENOENT);
	ck_assert_int_eq(fi_trecv(b.ep, in, LEN, NULL, to_a, 1, 0, in), 0);
	e = side_wait(&b, &a);
	ck_assert_uint_eq(e.len, LEN);
	ck_assert(same(in, LEN, 1));
}
END_TEST

START_TEST(sender_closed_in_the_middle__ends_the_receive)
{
	ck_assert_int_eq(fi_trecv(b.ep, in, LEN, NULL, to_a, 1, 0, in), 0);
	send_first(1);
	ck_assert_int_eq(fi_close(&a.ep->fid), 0);
	a.ep = NULL;
	ck_assert_ptr_eq(side_wait_error(&b, NULL).op_context, in);
}
END_TEST

/* With a receive and a message that are incomplete. */
START_TEST(receiver_closed_in_the_middle__frees_all)
{
	struct side c;
	fi_addr_t c_to_b;

	side_open(&c, NULL, FI_WAIT_NONE);
	c_to_b = side_insert(&c, &b);
	side_insert(&b, &c);
	ck_assert_int_eq(fi_trecv(b.ep, in, LEN, NULL, to_a, 1, 0, in), 0);
	send_first(1);
	ck_assert_int_eq(fi_tsend(c.ep, out, LEN, NULL, c_to_b, 2, out), 0);
	for (unsigned i = 0; i < 1000; i++)
		side_progress(&c);
	side_progress(&b);
	ck_assert_int_eq(fi_close(&b.ep->fid), 0);
	b.ep = NULL;
	side_close(&c);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("ofi/parts");
	TCase *tc = tcase_create("parts");

	setenv("FI_RIPC_EAGER_SIZE", "524288", 1);
	tcase_add_checked_fixture(tc, begin, end);
	tcase_add_test(tc, receive__posted_before_between_and_after_the_parts);
	tcase_add_test(tc, other_messages__follow_in_order);
	tcase_add_test(tc, incomplete_message__found_claimed_and_discarded);
	tcase_add_test(tc, truncated__and_then_whole);
	tcase_add_test(tc, pieces__with_other_borders_than_the_parts);
	tcase_add_test(tc, cancel__of_a_send_that_has_begun_is_refused);
	tcase_add_test(tc, sender_closed_in_the_middle__ends_the_receive);
	tcase_add_test(tc, receiver_closed_in_the_middle__frees_all);
	suite_add_tcase(s, tc);
	return test_main("ofi/parts", s);
}
