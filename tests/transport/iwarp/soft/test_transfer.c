/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Reads and writes of peer memory over real loopback sockets, and every way they end. */
#include "soft_pair.h"
#include "transport/transfer.h"

static bool all_are(const uint8_t *p, size_t len, uint8_t value)
{
	return !len || (p[0] == value && !memcmp(p, p + 1, len - 1));
}

/* Transfers a length by read and by write. */
static void transfer(size_t len)
{
	uint8_t *src = side_pattern(len, 1), *dst = calloc(1, len + 2), *back = calloc(1, len + 2);
	struct ripc__mr ms, md, mb;
	unsigned nread = a.nread, nwrite = a.nwrite, nrecv = b.nrecv;

	ck_assert_ptr_nonnull(dst);
	ck_assert_ptr_nonnull(back);
	dst[0] = back[0] = dst[len + 1] = back[len + 1] = 0xcc;
	ck_assert_int_eq(ops->reg(a.t, NULL, src, len, 0, &ms), 0);
	ck_assert_uint_eq(ms.key, 0);
	ck_assert_int_eq(ops->reg(b.t, NULL, dst + 1, len,
				  RIPC__ACCESS_REMOTE_WRITE | RIPC__ACCESS_REMOTE_READ, &md),
			 0);
	ck_assert_int_eq(ops->reg(a.t, NULL, back + 1, len, RIPC__ACCESS_LOCAL_WRITE, &mb), 0);
	ck_assert_int_eq(test_write(ops, a.ep, &ms, src, len, md.addr, md.key, 11), 0);
	ck_assert_int_ge(side_post(&a, "done", 4, false), 0);
	UNTIL(b.nrecv > nrecv);
	/* Long payload was received into its target, and is reported once. */
	ck_assert(ops->receiving(b.t) || len < 1000000);
	ck_assert(!ops->receiving(b.t));
	ck_assert_mem_eq(dst + 1, src, len);
	ck_assert_uint_eq(ops->written(b.t, &md), len);
	UNTIL(a.nwrite > nwrite);
	ck_assert_uint_eq(a.wr_id, 11);
	ck_assert_int_eq(test_read(ops, a.ep, &mb, back + 1, len, md.addr, md.key, 12), 0);
	UNTIL(a.nread > nread);
	ck_assert_uint_eq(a.wr_id, 12);
	ck_assert_mem_eq(back + 1, src, len);
	ck_assert(dst[0] == 0xcc && dst[len + 1] == 0xcc);
	ck_assert(back[0] == 0xcc && back[len + 1] == 0xcc);
	ops->dereg(a.t, &ms);
	ops->dereg(b.t, &md);
	ops->dereg(a.t, &mb);
	free(src);
	free(dst);
	free(back);
}

/*
 * Writes to memory of the pool that the peer was granted, to the newest and to older memory. The
 * last grants end after the connection.
 */
START_TEST(soft_post_write__granted_memory)
{
	static const size_t lens[] = {65536, 65536, 65536, 262144, 65536, 100, 65536, 65536};
	const unsigned access = RIPC__ACCESS_REMOTE_WRITE | RIPC__ACCESS_RESIDENT;
	const size_t most = 262144;
	uint8_t *src = side_pattern(most, 1), *dst = calloc(2, most);
	struct ripc__mr ms, md[2];

	ck_assert_ptr_nonnull(dst);
	sides_connect(_i ? "crc=on" : "crc=off");
	ck_assert_int_eq(ops->reg(a.t, NULL, src, most, 0, &ms), 0);
	for (unsigned i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
		unsigned which = i == 3 || i == 6 ? 0 : 1, nrecv = b.nrecv;

		memset(dst, 0, 2 * most);
		for (unsigned k = 0; k < 2; k++)
			ck_assert_int_eq(ops->reg(b.t, b.ep, dst + k * most, most, access, &md[k]),
					 0);
		ck_assert_int_eq(
			test_write(ops, a.ep, &ms, src, lens[i], md[which].addr, md[which].key, 11),
			0);
		ck_assert_int_ge(side_post(&a, "done", 4, false), 0);
		UNTIL(b.nrecv > nrecv);
		ck_assert_uint_eq(ops->written(b.t, &md[which]), lens[i]);
		ck_assert_uint_eq(ops->written(b.t, &md[!which]), 0);
		ck_assert_mem_eq(dst + which * most, src, lens[i]);
		if (i + 1 == sizeof(lens) / sizeof(lens[0]))
			break;
		ops->dereg(b.t, &md[0]);
		ops->dereg(b.t, &md[1]);
	}
	ops->ep_close(b.ep);
	b.ep = NULL;
	UNTIL(a.nclosed);
	ops->dereg(b.t, &md[1]);
	ops->dereg(b.t, &md[0]);
	ops->dereg(a.t, &ms);
	sides_close();
	free(src);
	free(dst);
}
END_TEST

START_TEST(soft_post_write__lengths_up_to_64_mib)
{
	static const size_t lens[] = {0, 1, 3, 4, 4095, 65471, 65472, 65473, 1000000, 64u << 20};

	sides_connect(_i ? "crc=on" : "crc=off");
	for (unsigned i = 0; i < sizeof(lens) / sizeof(lens[0]); i++)
		transfer(lens[i]);
	sides_close();
}
END_TEST

/* Only what follows the bytes written before counts. */
START_TEST(soft_written__without_a_gap)
{
	static const struct {
		size_t from, len, written;
	} writes[] = {{100, 50, 0}, {0, 10, 10}, {11, 5, 10}, {5, 10, 15}, {0, 3, 15}, {15, 1, 16}};
	uint8_t *src = side_pattern(200, 1), *dst = calloc(1, 200);
	struct ripc__mr ms, md;

	sides_connect("");
	ck_assert_int_eq(ops->reg(a.t, NULL, src, 200, 0, &ms), 0);
	ck_assert_int_eq(ops->reg(b.t, NULL, dst, 200, RIPC__ACCESS_REMOTE_WRITE, &md), 0);
	for (unsigned i = 0; i < sizeof(writes) / sizeof(writes[0]); i++) {
		unsigned nrecv = b.nrecv;

		ck_assert_int_eq(test_write(ops, a.ep, &ms, src, writes[i].len,
					    md.addr + writes[i].from, md.key, 1),
				 0);
		ck_assert_int_ge(side_post(&a, "done", 4, false), 0);
		UNTIL(b.nrecv > nrecv);
		ck_assert_uint_eq(ops->written(b.t, &md), writes[i].written);
	}
	UNTIL(a.nwrite == sizeof(writes) / sizeof(writes[0]));
	ops->dereg(a.t, &ms);
	ops->dereg(b.t, &md);
	sides_close();
	free(src);
	free(dst);
}
END_TEST

START_TEST(soft_post_read__depth)
{
	uint8_t *src = side_pattern(100000, 5), *dst = calloc(1, 100000);
	struct ripc__transport_limits l;
	struct ripc__mr ms, md;
	unsigned n = 0;
	int err;

	sides_connect(NULL);
	ops->limits(a.t, &l);
	ck_assert_int_eq(ops->reg(b.t, NULL, src, 100000, RIPC__ACCESS_REMOTE_READ, &ms), 0);
	ck_assert_int_eq(ops->reg(a.t, NULL, dst, 100000, RIPC__ACCESS_LOCAL_WRITE, &md), 0);
	for (;;) {
		size_t at = n * 1000;

		err = test_read(ops, a.ep, &md, dst + at, 1000, ms.addr + at, ms.key, n);
		if (err)
			break;
		n++;
	}
	ck_assert_int_eq(err, -EAGAIN);
	ck_assert_uint_eq(n, l.read_depth);
	UNTIL(a.nread == n && a.nsendable);
	ck_assert_uint_eq(a.wr_id, n - 1);
	ck_assert_mem_eq(dst, src, n * 1000);
	ck_assert_int_eq(test_read(ops, a.ep, &md, dst, l.rdma_max + 1, ms.addr, ms.key, n),
			 -EMSGSIZE);
	sides_close();
	free(src);
	free(dst);
}
END_TEST

START_TEST(soft_post_write__bad_key_ends_that_connection_only)
{
	struct ripc__ep *bad, *good;
	struct ripc__mr ms, md;
	uint8_t src[1000] = {1}, dst[1000] = {0};

	sides_connect(NULL);
	good = a.ep;
	side_connect(&a, &b, &bad);
	UNTIL(a.nestablished == 2 && b.nestablished == 2);
	ck_assert_int_eq(ops->reg(a.t, NULL, src, 1000, RIPC__ACCESS_LOCAL_WRITE, &ms), 0);
	ck_assert_int_eq(ops->reg(b.t, NULL, dst, 1000, RIPC__ACCESS_REMOTE_READ, &md), 0);
	if (_i == 0)
		ck_assert_int_eq(test_write(ops, bad, &ms, src, 1000, md.addr, md.key, 1), 0);
	else if (_i == 1)
		ck_assert_int_eq(test_read(ops, bad, &ms, src, 1000, md.addr + 1, md.key, 1), 0);
	else
		ck_assert_int_eq(test_read(ops, bad, &ms, src, 1000, md.addr, md.key ^ 1, 1), 0);
	UNTIL(a.nclosed && b.nclosed);
	ck_assert_ptr_nonnull(strstr(a.text, "the peer terminated the connection"));
	ck_assert_ptr_nonnull(strstr(b.text, "terminated"));
	ck_assert_uint_eq(dst[0], 0);
	ck_assert_uint_eq(a.nread, 0);
	a.ep = good;
	ck_assert_int_eq(side_post(&a, "alive", 5, false), 0);
	UNTIL(b.nrecv);
	sides_close();
}
END_TEST

START_TEST(soft_ep_close__in_the_midst_of_a_transfer)
{
	size_t len = 64u << 20;
	uint8_t *src = calloc(1, len), *dst = calloc(1, len);
	struct ripc__mr ms, md;

	sides_connect(NULL);
	ck_assert_int_eq(ops->reg(a.t, NULL, src, len, RIPC__ACCESS_LOCAL_WRITE, &ms), 0);
	ck_assert_int_eq(ops->reg(b.t, NULL, dst, len,
				  RIPC__ACCESS_REMOTE_READ | RIPC__ACCESS_REMOTE_WRITE, &md),
			 0);
	if (_i & 1)
		ck_assert_int_eq(test_read(ops, a.ep, &ms, src, len, md.addr, md.key, 1), 0);
	else
		ck_assert_int_eq(test_write(ops, a.ep, &ms, src, len, md.addr, md.key, 1), 0);
	for (unsigned i = 0; i < 5; i++) {
		side_step(&a);
		side_step(&b);
	}
	if (_i & 2) {
		ops->ep_close(b.ep);
		UNTIL(a.nclosed);
		ck_assert_uint_eq(a.nread + a.nwrite, 0);
	} else {
		ops->ep_close(a.ep);
		/* No local memory is accessed any more. */
		memset(src, 0xcc, len);
		UNTIL(b.nclosed);
		ck_assert(all_are(src, len, 0xcc));
	}
	sides_close();
	free(src);
	free(dst);
}
END_TEST

START_TEST(soft_dereg__in_flight)
{
	size_t len = 64u << 20;
	uint8_t *src = calloc(1, len), *dst = calloc(1, len);
	struct ripc__mr ms, md;

	sides_connect(NULL);
	ck_assert_int_eq(ops->reg(a.t, NULL, src, len, RIPC__ACCESS_LOCAL_WRITE, &ms), 0);
	ck_assert_int_eq(ops->reg(b.t, NULL, dst, len,
				  RIPC__ACCESS_REMOTE_READ | RIPC__ACCESS_REMOTE_WRITE, &md),
			 0);
	if (_i)
		ck_assert_int_eq(test_read(ops, a.ep, &ms, src, len, md.addr, md.key, 1), 0);
	else
		ck_assert_int_eq(test_write(ops, a.ep, &ms, src, len, md.addr, md.key, 1), 0);
	for (unsigned i = 0; i < 5; i++) {
		side_step(&a);
		side_step(&b);
	}
	UNTIL(((struct ripc__region *)md.priv)->users);
	ops->dereg(b.t, &md);
	memset(dst, 0xcc, len);
	UNTIL(a.nclosed && b.nclosed);
	ck_assert_int_eq(b.closed_status, -ECANCELED);
	ck_assert_uint_eq(a.nread, 0);
	ck_assert(all_are(dst, len, 0xcc));
	sides_close();
	free(src);
	free(dst);
}
END_TEST

START_TEST(soft_dereg__unused_disturbs_nobody)
{
	uint8_t memory[10];
	struct ripc__mr mr;

	sides_connect(NULL);
	ck_assert_int_eq(ops->reg(b.t, NULL, memory, 10, RIPC__ACCESS_REMOTE_READ, &mr), 0);
	ops->dereg(b.t, &mr);
	ck_assert_int_eq(side_post(&a, "x", 1, false), 0);
	UNTIL(b.nrecv);
	ck_assert_uint_eq(a.nclosed + b.nclosed, 0);
	sides_close();
}
END_TEST

/* Trims both ends, as after a second without traffic. */
static void trim_both(void)
{
	ops->trim(a.ep);
	ops->trim(b.ep);
	ck_assert_ptr_null(a.ep->engine);
	ck_assert_ptr_null(b.ep->engine);
}

/* An end without its engine sends, receives, reads, serves and closes as one that has it. */
START_TEST(soft_trim__restored_by_use)
{
	sides_connect(NULL);
	transfer(100000);
	for (unsigned i = 0; i < 3; i++) {
		trim_both();
		transfer(1000);
		trim_both();
		ck_assert_int_ge(side_post(&b, "x", 1, false), 0);
		UNTIL(a.nrecv == i + 1);
	}
	trim_both();
	ops->ep_close(b.ep);
	b.ep = NULL;
	UNTIL(a.nclosed);
	ck_assert_int_eq(a.closed_status, -ECONNRESET);
	sides_close();
}
END_TEST

START_TEST(soft_trim__not_with_held_sends)
{
	sides_connect(NULL);
	ck_assert_int_ge(side_post(&a, "x", 1, false), 0);
	UNTIL(b.nrecv == 1);
	ck_assert_int_ge(side_post(&b, "x", 1, false), 0);
	UNTIL(a.nrecv == 1);
	ck_assert_int_eq(side_post(&a, "y", 1, true), 1);
	ops->trim(a.ep);
	ck_assert_ptr_nonnull(a.ep->engine);
	UNTIL(b.nrecv == 2);
	trim_both();
	sides_close();
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("transfer");
	TCase *tc = tcase_create("transfer");

	setenv("RIPC_INTERFACES", "lo", 1);
	tcase_add_loop_test(tc, soft_post_write__lengths_up_to_64_mib, 0, 2);
	tcase_add_loop_test(tc, soft_post_write__granted_memory, 0, 2);
	tcase_add_test(tc, soft_written__without_a_gap);
	tcase_add_test(tc, soft_post_read__depth);
	tcase_add_loop_test(tc, soft_post_write__bad_key_ends_that_connection_only, 0, 3);
	tcase_add_loop_test(tc, soft_ep_close__in_the_midst_of_a_transfer, 0, 4);
	tcase_add_loop_test(tc, soft_dereg__in_flight, 0, 2);
	tcase_add_test(tc, soft_dereg__unused_disturbs_nobody);
	tcase_add_test(tc, soft_trim__restored_by_use);
	tcase_add_test(tc, soft_trim__not_with_held_sends);
	tcase_set_timeout(tc, 120);
	suite_add_tcase(suite, tc);
	return test_main("transport/iwarp/soft/transfer", suite);
}
