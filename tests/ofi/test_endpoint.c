/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Messages between two endpoints of two domains: matching, probes, truncation, cancel, waiting. */
#include "side.h"

#include <malloc.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#define LONG_LEN (1 << 20)

static struct side a, b;
static fi_addr_t to_a, to_b;
static char *out, *in;

static void fill(size_t len, unsigned seed)
{
	for (size_t i = 0; i < len; i++)
		out[i] = (char)(i * 5 + i / 253 + seed);
}

static bool same(const char *buf, size_t len, unsigned seed)
{
	for (size_t i = 0; i < len; i++)
		if (buf[i] != (char)(i * 5 + i / 253 + seed))
			return false;
	return true;
}

static void begin(void)
{
	out = malloc(LONG_LEN);
	in = calloc(1, LONG_LEN + 1);
	ck_assert(out && in);
	side_open(&a, NULL, FI_WAIT_FD);
	side_open(&b, NULL, FI_WAIT_FD);
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

START_TEST(every_length__arrives_before_and_after_its_receive)
{
	static const size_t lengths[] = {0,     1,     463,   464,   465,          4096,    16383,
					 16384, 16385, 65536, 65537, LONG_LEN - 1, LONG_LEN};

	for (unsigned i = 0; i < sizeof(lengths) / sizeof(*lengths); i++) {
		for (unsigned first = 0; first < 2; first++) {
			struct fi_cq_tagged_entry e;

			fill(lengths[i], i);
			memset(in, 0, LONG_LEN);
			if (first)
				ck_assert_int_eq(fi_trecv(b.ep, in, LONG_LEN, NULL, to_a, i, 0, in),
						 0);
			ck_assert_int_eq(
				fi_tsenddata(a.ep, out, lengths[i], NULL, 77 + i, to_b, i, out), 0);
			if (!first)
				ck_assert_int_eq(fi_trecv(b.ep, in, LONG_LEN, NULL, to_a, i, 0, in),
						 0);
			e = side_wait(&b, &a);
			ck_assert_ptr_eq(e.op_context, in);
			ck_assert_uint_eq(e.len, lengths[i]);
			ck_assert_uint_eq(e.tag, i);
			ck_assert_uint_eq(e.data, 77 + i);
			ck_assert_uint_eq(e.flags, FI_RECV | FI_TAGGED | FI_REMOTE_CQ_DATA);
			ck_assert(same(in, lengths[i], i));
			e = side_wait(&a, &b);
			ck_assert_ptr_eq(e.op_context, out);
			ck_assert_uint_eq(e.flags, FI_SEND | FI_TAGGED);
		}
	}
}
END_TEST

START_TEST(messages_of_one_sender__match_in_order)
{
	static const size_t lengths[] = {100000, 8, 20000, 0, 500, 16385};
	unsigned n = sizeof(lengths) / sizeof(*lengths);

	fill(LONG_LEN, 0);
	for (unsigned i = 0; i < n; i++)
		ck_assert_int_eq(fi_tsend(a.ep, out, lengths[i], NULL, to_b, 1, NULL), 0);
	for (unsigned i = 0; i < n; i++) {
		ck_assert_int_eq(
			fi_trecv(b.ep, in, LONG_LEN, NULL, FI_ADDR_UNSPEC, 0, UINT64_MAX, NULL), 0);
		ck_assert_uint_eq(side_wait(&b, &a).len, lengths[i]);
	}
	/* The same with the receives first. They may complete in any order. */
	for (uintptr_t i = 0; i < n; i++)
		ck_assert_int_eq(fi_trecv(b.ep, in, LONG_LEN, NULL, to_a, 1, 0, (void *)i), 0);
	for (unsigned i = 0; i < n; i++)
		ck_assert_int_eq(fi_tsend(a.ep, out, lengths[i], NULL, to_b, 1, NULL), 0);
	for (unsigned i = 0; i < n; i++) {
		struct fi_cq_tagged_entry e = side_wait(&b, &a);

		ck_assert_uint_eq(e.len, lengths[(uintptr_t)e.op_context]);
	}
}
END_TEST

START_TEST(source__counts_with_directed_receives)
{
	struct side c;
	struct fi_cq_tagged_entry e;
	fi_addr_t c_to_b, to_c, source;
	ssize_t n;

	side_open(&c, &a, FI_WAIT_NONE);
	c_to_b = side_insert(&c, &b);
	to_c = side_insert(&b, &c);
	ck_assert_int_eq(fi_recv(b.ep, in, 8, NULL, to_c, "from c"), 0);
	ck_assert_int_eq(fi_recv(b.ep, in, 8, NULL, FI_ADDR_UNSPEC, "any"), 0);
	ck_assert_int_eq(fi_inject(a.ep, "a", 1, to_b), 0);
	e = side_wait(&b, &a);
	ck_assert_str_eq(e.op_context, "any");
	ck_assert_int_eq(fi_inject(c.ep, "c", 1, c_to_b), 0);
	do {
		n = fi_cq_readfrom(b.cq, &e, 1, &source);
	} while (n == -FI_EAGAIN);
	ck_assert_int_eq(n, 1);
	ck_assert_str_eq(e.op_context, "from c");
	ck_assert_uint_eq(source, to_c);
	side_close(&c);
}
END_TEST

START_TEST(tagged_and_untagged__do_not_mix)
{
	ck_assert_int_eq(fi_recv(b.ep, in, 8, NULL, FI_ADDR_UNSPEC, "msg"), 0);
	ck_assert_int_eq(fi_trecv(b.ep, in, 8, NULL, FI_ADDR_UNSPEC, 0, UINT64_MAX, "tagged"), 0);
	ck_assert_int_eq(fi_tinject(a.ep, "x", 1, to_b, 0), 0);
	ck_assert_str_eq(side_wait(&b, &a).op_context, "tagged");
	ck_assert_int_eq(fi_injectdata(a.ep, "x", 1, 5, to_b), 0);
	ck_assert_str_eq(side_wait(&b, &a).op_context, "msg");
}
END_TEST

/* A probe with flags for tag. Return: its completion, or context NULL if nothing was found. */
static struct fi_cq_tagged_entry probe(uint64_t tag, uint64_t flags, void *context)
{
	struct fi_msg_tagged m = {.addr = to_a, .tag = tag, .context = context};
	struct fi_cq_tagged_entry e = {0};
	struct fi_cq_err_entry err = {0};
	ssize_t n;

	ck_assert_int_eq(fi_trecvmsg(b.ep, &m, flags), 0);
	while ((n = fi_cq_read(b.cq, &e, 1)) == -FI_EAGAIN)
		side_progress(&a);
	if (n == 1)
		return e;
	ck_assert_int_eq(n, -FI_EAVAIL);
	ck_assert_int_eq(fi_cq_readerr(b.cq, &err, 0), 1);
	ck_assert_int_eq(err.err, FI_ENOMSG);
	ck_assert_ptr_eq(err.op_context, context);
	return (struct fi_cq_tagged_entry){0};
}

START_TEST(probes__find_claim_and_discard)
{
	static const size_t lengths[] = {100, 200000};
	int x, y;

	ck_assert_ptr_null(probe(3, FI_PEEK, &x).op_context);
	/* The endpoints are connected, so that the messages of a round are posted at once. */
	ck_assert_int_eq(fi_inject(a.ep, "x", 1, to_b), 0);
	ck_assert_int_eq(fi_recv(b.ep, in, 8, NULL, to_a, NULL), 0);
	side_wait(&b, &a);
	for (unsigned i = 0; i < 2; i++) {
		struct iovec iov = {in, LONG_LEN};
		struct fi_msg_tagged m = {.msg_iov = &iov, .iov_count = 1, .context = &x};
		struct fi_cq_tagged_entry e;

		fill(LONG_LEN, i);
		for (unsigned k = 0; k < 3; k++)
			ck_assert_int_eq(fi_tsend(a.ep, out, lengths[i] + k, NULL, to_b, 3, NULL),
					 0);
		do {
			side_progress(&a);
			e = probe(3, FI_PEEK, &x);
		} while (!e.op_context);
		ck_assert_uint_eq(e.len, lengths[i]);
		ck_assert_uint_eq(e.tag, 3);
		ck_assert_uint_eq(probe(3, FI_PEEK | FI_CLAIM, &x).len, lengths[i]);
		/* Claimed: the next one is found, and a receive takes that. */
		ck_assert_uint_eq(probe(3, FI_PEEK | FI_DISCARD, &y).len, lengths[i] + 1);
		ck_assert_int_eq(fi_trecv(b.ep, in, LONG_LEN, NULL, to_a, 3, 0, &y), 0);
		ck_assert_uint_eq(side_wait(&b, &a).len, lengths[i] + 2);
		ck_assert_int_eq(fi_trecvmsg(b.ep, &m, FI_CLAIM), 0);
		e = side_wait(&b, &a);
		ck_assert_uint_eq(e.len, lengths[i]);
		ck_assert(same(in, lengths[i], i));
		ck_assert_int_eq(fi_trecvmsg(b.ep, &m, FI_CLAIM), -FI_EINVAL);
		for (unsigned k = 0; k < 3; k++)
			side_wait(&a, &b);
	}
	ck_assert_ptr_null(probe(3, FI_PEEK, &x).op_context);
}
END_TEST

START_TEST(truncation__is_an_error_of_the_receive_alone)
{
	static const size_t lengths[] = {101, 300000};

	for (unsigned i = 0; i < 2; i++) {
		struct fi_cq_err_entry e;

		fill(lengths[i], i);
		in[100] = 42;
		ck_assert_int_eq(fi_trecv(b.ep, in, 100, NULL, to_a, 1, 0, in), 0);
		ck_assert_int_eq(fi_tsend(a.ep, out, lengths[i], NULL, to_b, 1, out), 0);
		e = side_wait_error(&b, &a);
		ck_assert_int_eq(e.err, FI_ETRUNC);
		ck_assert_uint_eq(e.len, 100);
		ck_assert_uint_eq(e.olen, lengths[i] - 100);
		ck_assert_ptr_eq(e.op_context, in);
		ck_assert(same(in, 100, i) && in[100] == 42);
		ck_assert_ptr_eq(side_wait(&a, &b).op_context, out);
	}
}
END_TEST

START_TEST(cancel__of_a_posted_receive)
{
	struct fi_cq_err_entry e;

	ck_assert_int_eq(fi_trecv(b.ep, in, 8, NULL, to_a, 1, 0, in), 0);
	ck_assert_int_eq(fi_trecv(b.ep, in + 8, 8, NULL, to_a, 1, 0, in + 8), 0);
	ck_assert_int_eq(fi_cancel(&b.ep->fid, in), 0);
	e = side_wait_error(&b, &a);
	ck_assert_int_eq(e.err, FI_ECANCELED);
	ck_assert_ptr_eq(e.op_context, in);
	ck_assert_uint_eq(e.flags, FI_RECV | FI_TAGGED);
	ck_assert_int_eq(fi_cancel(&b.ep->fid, in), -FI_ENOENT);
	ck_assert_int_eq(fi_tinject(a.ep, "x", 1, to_b, 1), 0);
	ck_assert_ptr_eq(side_wait(&b, &a).op_context, in + 8);
}
END_TEST

START_TEST(pieces__are_one_message)
{
	static const size_t sizes[] = {60, 30000, 300000};

	for (unsigned i = 0; i < 3; i++) {
		size_t n = sizes[i];
		struct iovec from[4] = {{out, n / 3},
					{NULL, 0},
					{out + n / 3, 7},
					{out + n / 3 + 7, n - n / 3 - 7}};
		struct iovec to[3] = {{in, 1}, {in + 1, n / 2}, {in + 1 + n / 2, n - n / 2}};

		fill(n, i);
		ck_assert_int_eq(fi_sendv(a.ep, from, NULL, 4, to_b, NULL), 0);
		ck_assert_int_eq(fi_recvv(b.ep, to, NULL, 3, FI_ADDR_UNSPEC, NULL), 0);
		ck_assert_uint_eq(side_wait(&b, &a).len, n);
		ck_assert(same(in, n, i));
		side_wait(&a, &b);
	}
}
END_TEST

/* FI_INJECT as an op_flag: the send waits for its receive, its buffer does not. */
START_TEST(inject_of_an_endpoint__copies)
{
	uint64_t flags = FI_TRANSMIT | FI_INJECT | FI_DELIVERY_COMPLETE;

	ck_assert_int_eq(fi_control(&a.ep->fid, FI_SETOPSFLAG, &flags), 0);
	fill(100, 1);
	ck_assert_int_eq(fi_tsend(a.ep, out, 100, NULL, to_b, 1, out), 0);
	fill(100, 2);
	ck_assert_int_eq(fi_trecv(b.ep, in, 100, NULL, to_a, 1, 0, in), 0);
	side_wait(&b, &a);
	ck_assert(same(in, 100, 1));
	ck_assert_ptr_eq(side_wait(&a, &b).op_context, out);
	ck_assert_int_eq(fi_tsend(a.ep, out, 4097, NULL, to_b, 1, out), -FI_EMSGSIZE);
}
END_TEST

/* fi_endpoint(3): an error without a context of its own has that of the endpoint. */
START_TEST(inject_that_fails__has_the_context_of_the_endpoint)
{
	struct side c;
	fi_addr_t to_c;

	side_open(&c, &a, FI_WAIT_NONE);
	to_c = side_insert(&a, &c);
	ck_assert_int_eq(fi_tsend(a.ep, out, LONG_LEN, NULL, to_c, 1, out), 0);
	side_progress(&a);
	side_progress(&c);
	side_close(&c);
	ck_assert_ptr_eq(side_wait_error(&a, NULL).op_context, out);
	a.ep->fid.context = &c;
	ck_assert_int_eq(fi_inject(a.ep, "x", 1, to_c), 0);
	ck_assert_ptr_eq(side_wait_error(&a, NULL).op_context, &c);
}
END_TEST

START_TEST(delivery_complete__waits_for_the_receive)
{
	struct iovec iov = {out, 4};
	struct fi_msg m = {.msg_iov = &iov, .iov_count = 1, .addr = to_b, .context = out};

	ck_assert_int_eq(fi_sendmsg(a.ep, &m, FI_DELIVERY_COMPLETE), 0);
	m.iov_count = 0;
	ck_assert_int_eq(fi_sendmsg(a.ep, &m, FI_MATCH_COMPLETE), 0);
	side_progress(&b);
	ck_assert(side_is_quiet(&a));
	ck_assert_int_eq(fi_recv(b.ep, in, 4, NULL, FI_ADDR_UNSPEC, NULL), 0);
	ck_assert_int_eq(fi_recv(b.ep, in, 4, NULL, FI_ADDR_UNSPEC, NULL), 0);
	side_wait(&b, &a);
	side_wait(&b, &a);
	side_wait(&a, &b);
	side_wait(&a, &b);
}
END_TEST

START_TEST(waiting__ends_with_a_message)
{
	struct fi_cq_tagged_entry e;
	struct pollfd p = {.events = POLLIN};
	struct fid *fids[] = {&b.cq->fid};

	ck_assert_int_eq(fi_cq_sread(b.cq, &e, 1, NULL, 10), -FI_EAGAIN);
	ck_assert_int_eq(fi_control(&b.cq->fid, FI_GETWAIT, &p.fd), 0);
	ck_assert_int_eq(fi_recv(b.ep, in, 8, NULL, FI_ADDR_UNSPEC, NULL), 0);
	ck_assert_int_eq(fi_trywait(b.fabric, fids, 1), 0);
	ck_assert_int_eq(fi_inject(a.ep, "x", 1, to_b), 0);
	while (fi_trywait(b.fabric, fids, 1) == 0) {
		side_progress(&a);
		ck_assert_int_eq(poll(&p, 1, 100) & ~1, 0);
	}
	ck_assert_int_eq(fi_cq_sread(b.cq, &e, 1, NULL, -1), 1);
	ck_assert_int_eq(fi_cq_signal(b.cq), 0);
	ck_assert_int_eq(fi_cq_sread(b.cq, &e, 1, NULL, -1), -FI_EAGAIN);
}
END_TEST

START_TEST(wait__yields_without_an_object)
{
	struct side one, two;
	struct fi_cq_tagged_entry e;
	char got = 0;
	int fd;

	side_open(&one, NULL, FI_WAIT_NONE);
	side_open(&two, NULL, FI_WAIT_YIELD);
	ck_assert_int_eq(fi_cq_sread(two.cq, &e, 1, NULL, 1), -FI_EAGAIN);
	ck_assert_int_eq(fi_control(&two.cq->fid, FI_GETWAIT, &fd), -FI_ENODATA);
	ck_assert_int_eq(fi_recv(two.ep, &got, 1, NULL, FI_ADDR_UNSPEC, &got), 0);
	ck_assert_int_eq(fi_send(one.ep, "x", 1, NULL, side_insert(&one, &two), NULL), 0);
	while (fi_cq_sread(two.cq, &e, 1, NULL, 1) != 1)
		side_progress(&one);
	ck_assert_ptr_eq(e.op_context, &got);
	ck_assert_int_eq(got, 'x');
	ck_assert_int_eq(fi_cq_signal(two.cq), 0);
	ck_assert_int_eq(fi_cq_sread(two.cq, &e, 1, NULL, -1), -FI_EAGAIN);
	side_close(&one);
	side_close(&two);
}
END_TEST

START_TEST(counters__count_messages)
{
	struct fi_cntr_attr attr = {.wait_obj = FI_WAIT_UNSPEC};
	struct fid_cntr *cntr;
	struct fid_ep *ep;
	uint8_t address[16];
	size_t len = sizeof(address);
	fi_addr_t to;

	ck_assert_int_eq(fi_cntr_open(b.domain, &attr, &cntr, NULL), 0);
	ck_assert_int_eq(fi_endpoint(b.domain, b.info, &ep, NULL), 0);
	ck_assert_int_eq(fi_ep_bind(ep, &b.av->fid, 0), 0);
	ck_assert_int_eq(fi_ep_bind(ep, &b.cq->fid, FI_TRANSMIT | FI_RECV), 0);
	ck_assert_int_eq(fi_ep_bind(ep, &cntr->fid, FI_RECV), 0);
	ck_assert_int_eq(fi_enable(ep), 0);
	ck_assert_int_eq(fi_getname(&ep->fid, address, &len), 0);
	ck_assert_int_eq(fi_av_insert(a.av, address, 1, &to, 0, NULL), 1);
	ck_assert_int_eq(fi_cntr_wait(cntr, 1, 10), -FI_ETIMEDOUT);
	for (unsigned i = 0; i < 3; i++) {
		ck_assert_int_eq(fi_recv(ep, in, 8, NULL, FI_ADDR_UNSPEC, NULL), 0);
		ck_assert_int_eq(fi_inject(a.ep, "x", 1, to), 0);
	}
	while (fi_cntr_wait(cntr, 3, 1))
		side_progress(&a);
	ck_assert_uint_eq(fi_cntr_read(cntr), 3);
	ck_assert_uint_eq(fi_cntr_readerr(cntr), 0);
	ck_assert_int_eq(fi_close(&ep->fid), 0);
	ck_assert_int_eq(fi_close(&cntr->fid), 0);
}
END_TEST

static bool is_unchanged(const char *buf, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (buf[i] != 42)
			return false;
	return true;
}

/*
 * Two endpoints of one domain send long messages, and answer in the other order than they were
 * asked: each message lies in the memory of its receive, which is the application's afterwards.
 */
START_TEST(long_messages__of_two_endpoints_of_a_domain)
{
	enum { LEN = 200000 };
	struct side c;
	fi_addr_t c_to_b, to_c;

	side_open(&c, &a, FI_WAIT_NONE);
	c_to_b = side_insert(&c, &b);
	to_c = side_insert(&b, &c);
	fill(LONG_LEN, 1);
	for (unsigned i = 0; i < 3; i++) {
		ck_assert_int_eq(fi_tsend(a.ep, out, LEN, NULL, to_b, 1, NULL), 0);
		ck_assert_int_eq(fi_tsend(c.ep, out + 256, LEN, NULL, c_to_b, 1, NULL), 0);
		ck_assert_int_eq(fi_trecv(b.ep, in, LEN, NULL, to_a, 1, 0, in), 0);
		ck_assert_int_eq(fi_trecv(b.ep, in + LEN, LEN, NULL, to_c, 1, 0, in + LEN), 0);
		/* Both are asked now; c answers first. */
		for (unsigned k = 0; k < 1000; k++)
			side_progress(&b);
		ck_assert_ptr_eq(side_wait(&b, &c).op_context, in + LEN);
		ck_assert_mem_eq(in + LEN, out + 256, LEN);
		memset(in + LEN, 42, LEN);
		ck_assert_ptr_eq(side_wait(&b, &a).op_context, in);
		ck_assert_mem_eq(in, out, LEN);
		ck_assert(is_unchanged(in + LEN, LEN));
		side_wait(&a, &b);
		side_wait(&c, &b);
	}
	side_close(&c);
}
END_TEST

/* Its endpoint was closed, but the process of the sender goes on. */
START_TEST(receive_that_ended_with_an_error__has_its_memory)
{
	enum { LEN = 200000 };
	struct side c;
	fi_addr_t c_to_b;

	side_open(&c, &a, FI_WAIT_NONE);
	c_to_b = side_insert(&c, &b);
	ck_assert_int_eq(fi_inject(a.ep, "x", 1, to_b), 0);
	ck_assert_int_eq(fi_recv(b.ep, in, 1, NULL, to_a, NULL), 0);
	side_wait(&b, &a);
	ck_assert_int_eq(fi_trecv(b.ep, in, LEN, NULL, to_a, 1, 0, in), 0);
	ck_assert_int_eq(fi_tsend(a.ep, out, LEN, NULL, to_b, 1, NULL), 0);
	for (unsigned i = 0; i < 1000; i++)
		side_progress(&b);
	ck_assert_int_eq(fi_close(&a.ep->fid), 0);
	a.ep = NULL;
	ck_assert_ptr_eq(side_wait_error(&b, NULL).op_context, in);
	memset(in, 42, LEN);
	fill(LEN, 2);
	ck_assert_int_eq(fi_tsend(c.ep, out, LEN, NULL, c_to_b, 2, NULL), 0);
	ck_assert_int_eq(fi_trecv(b.ep, in + LEN, LEN, NULL, FI_ADDR_UNSPEC, 2, 0, in + LEN), 0);
	ck_assert_ptr_eq(side_wait(&b, &c).op_context, in + LEN);
	ck_assert(same(in + LEN, LEN, 2));
	ck_assert(is_unchanged(in, LEN));
	side_close(&c);
}
END_TEST

/* Of any length. The discarded message completes at its sender. */
START_TEST(counters__do_not_count_probes)
{
	static const size_t lengths[] = {10, 100000};
	struct fi_cntr_attr attr = {.events = FI_CNTR_EVENTS_COMP};
	struct fid_cntr *cntr;

	ck_assert_int_eq(fi_cntr_open(b.domain, &attr, &cntr, NULL), 0);
	ck_assert_int_eq(fi_ep_bind(b.ep, &cntr->fid, FI_RECV), 0);
	for (unsigned i = 0; i < 2; i++) {
		struct fi_msg_tagged m = {.addr = FI_ADDR_UNSPEC, .tag = i, .context = &m};
		struct fi_cq_err_entry err = {0};
		struct fi_cq_tagged_entry e;
		ssize_t n;

		ck_assert_int_eq(fi_tsend(a.ep, out, lengths[i], NULL, to_b, i, NULL), 0);
		do {
			side_progress(&a);
			ck_assert_int_eq(fi_trecvmsg(b.ep, &m, FI_PEEK | FI_DISCARD), 0);
			n = fi_cq_read(b.cq, &e, 1);
			if (n == -FI_EAVAIL)
				ck_assert_int_eq(fi_cq_readerr(b.cq, &err, 0), 1);
		} while (n != 1);
		ck_assert_uint_eq(e.len, lengths[i]);
		side_wait(&a, &b);
		ck_assert_uint_eq(fi_cntr_read(cntr), 0);
	}
	ck_assert_int_eq(fi_close(&b.ep->fid), 0);
	b.ep = NULL;
	ck_assert_int_eq(fi_close(&cntr->fid), 0);
}
END_TEST

START_TEST(messages_to_itself)
{
	fi_addr_t self = side_insert(&a, &a);

	fill(200000, 1);
	ck_assert_int_eq(fi_trecv(a.ep, in, 200000, NULL, self, 1, 0, in), 0);
	ck_assert_int_eq(fi_tsend(a.ep, out, 200000, NULL, self, 1, out), 0);
	side_wait(&a, NULL);
	side_wait(&a, NULL);
	ck_assert(same(in, 200000, 1));
}
END_TEST

static size_t allocated(void)
{
	struct mallinfo2 m = mallinfo2();

	return m.uordblks + m.hblkhd;
}

/*
 * Operations that end with their endpoint have no completion, and leave nothing behind in the
 * queue, which other endpoints use.
 */
START_TEST(close__releases_the_completion_queue)
{
	enum { ROUNDS = 200, RECEIVES = 500 };
	size_t before = 0;

	for (unsigned i = 0; i < ROUNDS; i++) {
		struct fid_ep *ep;

		ck_assert_int_eq(fi_endpoint(a.domain, a.info, &ep, NULL), 0);
		ck_assert_int_eq(fi_ep_bind(ep, &a.av->fid, 0), 0);
		ck_assert_int_eq(fi_ep_bind(ep, &a.cq->fid, FI_TRANSMIT | FI_RECV), 0);
		ck_assert_int_eq(fi_enable(ep), 0);
		for (unsigned k = 0; k < RECEIVES; k++)
			ck_assert_int_eq(fi_recv(ep, in, 1, NULL, FI_ADDR_UNSPEC, NULL), 0);
		ck_assert_int_eq(fi_tsend(ep, out, LONG_LEN, NULL, to_b, 1, out), 0);
		ck_assert_int_eq(fi_close(&ep->fid), 0);
		if (i == ROUNDS / 10)
			before = allocated();
	}
	ck_assert(side_is_quiet(&a));
	/* Without that it grows by 8 MB; b keeps what it was sent. */
	ck_assert_uint_lt(allocated(), before + (1 << 22));
}
END_TEST

int main(void)
{
	Suite *s = suite_create("ofi/endpoint");
	TCase *tc = tcase_create("endpoint");

	tcase_add_checked_fixture(tc, begin, end);
	tcase_add_test(tc, every_length__arrives_before_and_after_its_receive);
	tcase_add_test(tc, messages_of_one_sender__match_in_order);
	tcase_add_test(tc, source__counts_with_directed_receives);
	tcase_add_test(tc, tagged_and_untagged__do_not_mix);
	tcase_add_test(tc, probes__find_claim_and_discard);
	tcase_add_test(tc, truncation__is_an_error_of_the_receive_alone);
	tcase_add_test(tc, cancel__of_a_posted_receive);
	tcase_add_test(tc, pieces__are_one_message);
	tcase_add_test(tc, inject_of_an_endpoint__copies);
	tcase_add_test(tc, inject_that_fails__has_the_context_of_the_endpoint);
	tcase_add_test(tc, delivery_complete__waits_for_the_receive);
	tcase_add_test(tc, waiting__ends_with_a_message);
	tcase_add_test(tc, wait__yields_without_an_object);
	tcase_add_test(tc, counters__count_messages);
	tcase_add_test(tc, long_messages__of_two_endpoints_of_a_domain);
	tcase_add_test(tc, receive_that_ended_with_an_error__has_its_memory);
	tcase_add_test(tc, counters__do_not_count_probes);
	tcase_add_test(tc, messages_to_itself);
	tcase_add_test(tc, close__releases_the_completion_queue);
	suite_add_tcase(s, tc);
	return test_main("ofi/endpoint", s);
}
