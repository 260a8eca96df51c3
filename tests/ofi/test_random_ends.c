/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Random messages between endpoints that are closed, and opened again at their addresses, at any
 * moment. Each operation of an open endpoint ends once, a message is received once and whole, and
 * memory that the application has back stays as it is. RIPC_TEST_SEED repeats a run,
 * RIPC_TEST_STEPS sets its length.
 */
#include "side.h"

#include <stdlib.h>
#include <string.h>

#define SIDES   4
#define OPS_MAX 8000
#define ROOM    100000 /* of a receive */

struct op {
	bool open, is_send, received;
	unsigned side, dest;
	size_t len;
	uint8_t *buf;
};

static struct side sides[SIDES];
static fi_addr_t to[SIDES][SIDES];
static struct op ops[OPS_MAX];
static unsigned nops, nopen;
static uint64_t rnd;

static unsigned below(unsigned n)
{
	return (unsigned)(test_random(&rnd) % n);
}

static uint8_t byte_of(unsigned id, size_t i)
{
	return (uint8_t)(i < 4 ? id >> 8 * i : i * 7 + i / 251 + id * 13);
}

static void open_one(unsigned i)
{
	side_open_service(&sides[i], test_ids() + i);
}

static void insert_all(unsigned i)
{
	for (unsigned k = 0; k < SIDES; k++)
		to[i][k] = side_insert(&sides[i], &sides[k]);
}

static struct op *new_op(unsigned side, bool is_send, size_t len)
{
	struct op *o = &ops[nops++];

	ck_assert_uint_lt(nops, OPS_MAX);
	*o = (struct op){
		.open = true, .is_send = is_send, .side = side, .len = len, .buf = malloc(len)};
	ck_assert_ptr_nonnull(o->buf);
	nopen++;
	return o;
}

/* It has ended: a later access to its memory is an error. */
static void end_op(struct op *o)
{
	o->open = false;
	nopen--;
	memset(o->buf, 0xdd, o->len);
}

static void post_send(unsigned side, unsigned dest)
{
	static const size_t lengths[] = {8, 500, 9000, 17000, ROOM};
	struct op *s = new_op(side, true, lengths[below(5)]);

	s->dest = dest;
	for (size_t i = 0; i < s->len; i++)
		s->buf[i] = byte_of((unsigned)(s - ops), i);
	ck_assert_int_eq(
		fi_tsend(sides[side].ep, s->buf, s->len, NULL, to[side][dest], below(3), s), 0);
}

static void post_receive(unsigned side, uint64_t ignore)
{
	struct op *r = new_op(side, false, ROOM);

	ck_assert_int_eq(
		fi_trecv(sides[side].ep, r->buf, ROOM, NULL, FI_ADDR_UNSPEC, below(3), ignore, r),
		0);
}

static void received(struct op *r, size_t len)
{
	unsigned id = 0;

	for (unsigned i = 0; i < 4; i++)
		id |= (unsigned)r->buf[i] << 8 * i;
	ck_assert_uint_lt(id, nops);
	ck_assert(ops[id].is_send && ops[id].dest == r->side);
	ck_assert_msg(!ops[id].received, "message %u was received twice", id);
	ops[id].received = true;
	ck_assert_uint_eq(len, ops[id].len);
	for (size_t i = 0; i < len; i++)
		ck_assert_msg(r->buf[i] == byte_of(id, i), "byte %zu of message %u", i, id);
}

/* Reads one completion. Return: whether there was one. */
static bool poll_one(unsigned side)
{
	struct fi_cq_err_entry err = {0};
	struct fi_cq_tagged_entry e;
	ssize_t n = fi_cq_read(sides[side].cq, &e, 1);
	struct op *o;

	if (n == -FI_EAGAIN)
		return false;
	if (n == -FI_EAVAIL)
		ck_assert_int_eq(fi_cq_readerr(sides[side].cq, &err, 0), 1);
	o = n == 1 ? e.op_context : err.op_context;
	ck_assert(o >= ops && o < ops + nops);
	ck_assert_msg(o->open && o->side == side, "operation %zu has ended", (size_t)(o - ops));
	if (n == 1 && !o->is_send)
		received(o, e.len);
	end_op(o);
	return true;
}

static void close_and_open(unsigned side)
{
	side_close(&sides[side]);
	for (unsigned i = 0; i < nops; i++)
		if (ops[i].open && ops[i].side == side)
			end_op(&ops[i]);
	open_one(side);
	insert_all(side);
}

static bool is_open(bool is_send)
{
	for (unsigned i = 0; i < nops; i++)
		if (ops[i].open && ops[i].is_send == is_send)
			return true;
	return false;
}

/* Everything ends: messages are received, and receives that got none are cancelled. */
static void end_all(void)
{
	uint64_t end_ns = 0;

	for (unsigned i = 0, n = nops; i < n; i++)
		if (ops[i].is_send && !ops[i].received)
			post_receive(ops[i].dest, UINT64_MAX);
	while (is_open(true)) {
		bool any = false;

		for (unsigned i = 0; i < SIDES; i++)
			while (poll_one(i))
				any = true;
		if (!any)
			ck_assert_msg(test_pause(&end_ns, TEST_PATIENCE_MS), "a send is stuck");
	}
	end_ns = 0;
	while (is_open(false)) {
		for (unsigned i = 0; i < nops; i++)
			if (ops[i].open)
				fi_cancel(&sides[ops[i].side].ep->fid, &ops[i]);
		for (unsigned i = 0; i < SIDES; i++)
			while (poll_one(i))
				;
		if (nopen)
			ck_assert_msg(test_pause(&end_ns, TEST_PATIENCE_MS), "a receive is stuck");
	}
}

START_TEST(random_messages__of_endpoints_that_end)
{
	uint64_t steps = test_number("RIPC_TEST_STEPS", 1500);

	rnd = test_seed();
	for (unsigned i = 0; i < SIDES; i++)
		open_one(i);
	for (unsigned i = 0; i < SIDES; i++)
		insert_all(i);
	for (uint64_t i = 0; i < steps; i++) {
		unsigned side = below(SIDES), k = below(100);

		if (k < 25)
			post_send(side, below(SIDES));
		else if (k < 50)
			post_receive(side, below(2) ? UINT64_MAX : 0);
		else if (k < 51 && below(2))
			close_and_open(side);
		else
			poll_one(side);
	}
	end_all();
	for (unsigned i = 0; i < SIDES; i++)
		side_close(&sides[i]);
	for (unsigned i = 0; i < nops; i++) {
		for (size_t k = 0; k < ops[i].len; k++)
			ck_assert_msg(ops[i].buf[k] == 0xdd, "operation %u: written later", i);
		free(ops[i].buf);
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("ofi/random_ends");
	TCase *tc = tcase_create("random_ends");

	tcase_add_test(tc, random_messages__of_endpoints_that_end);
	suite_add_tcase(s, tc);
	return test_main("ofi/random_ends", s);
}
