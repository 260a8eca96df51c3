/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Memory of the engine: an idle one holds none of its rings, and the nth allocation fails, for
 * every n of a session. Then a post returns -ENOMEM or an engine ends, and no reference to memory
 * is left. The linker inserts __wrap_malloc() and __wrap_calloc() before those of the C library
 * (--wrap).
 */
#include "transport/iwarp/soft/engine_pair.h"

#include <errno.h>

#define BYTES 20000

void *__real_malloc(size_t len);
void *__wrap_malloc(size_t len);
void *__real_calloc(size_t n, size_t len);
void *__wrap_calloc(size_t n, size_t len);

static struct {
	bool armed;
	unsigned count, nth; /* allocations; the one that fails */
	unsigned failed;
} shim;

/* Memory of the engine: the framework's checks allocate, too. */
static bool of_engine(size_t len)
{
	return len >= RIPC__STASH_BYTES;
}

static bool fails(size_t len)
{
	bool fail = shim.armed && of_engine(len) && ++shim.count == shim.nth;

	shim.failed += fail;
	return fail;
}

void *__wrap_malloc(size_t len)
{
	return fails(len) ? NULL : __real_malloc(len);
}

void *__wrap_calloc(size_t n, size_t len)
{
	return fails(n * len) ? NULL : __real_calloc(n, len);
}

static struct engine_end a, b;
static uint8_t source[BYTES], target[BYTES];
static bool refused; /* a post returned -ENOMEM */

static void note(int err)
{
	if (err == -ENOMEM)
		refused = true;
	else if (err != -ENOTCONN)
		ck_assert_int_eq(err, 0);
}

static bool move(struct engine_end *from, struct engine_end *to)
{
	/* Not a multiple of anything: FPDUs are cut. */
	uint8_t bytes[131];
	size_t n = engine_end_take(from, bytes, sizeof(bytes));

	engine_end_feed(to, bytes, n);
	engine_end_events(from);
	return n;
}

static void settle(void)
{
	bool ab, ba;

	do {
		ab = move(&a, &b);
		ba = move(&b, &a);
	} while (ab || ba);
}

static void session(void)
{
	struct iovec iov = {source, 300};
	struct ripc__region *from =
		ripc__region_add(&b.regions, source, BYTES, RIPC__ACCESS_REMOTE_READ);
	struct ripc__region *to =
		ripc__region_add(&b.regions, target, BYTES, RIPC__ACCESS_REMOTE_WRITE);
	struct ripc__region *src = ripc__region_add(&a.regions, source, BYTES, 0);
	struct ripc__region *dst =
		ripc__region_add(&a.regions, target, BYTES, RIPC__ACCESS_LOCAL_WRITE);

	shim.armed = true;
	note(ripc__engine_send(&a.e, &iov, 1, 300));
	note(engine_read(&a.e, dst, target, BYTES / 2, from->addr, from->stag, 1));
	note(engine_write(&a.e, src, source, BYTES / 2, to->addr + BYTES / 2, to->stag, 2));
	for (unsigned i = 0; i < 3; i++)
		note(ripc__engine_send(&a.e, &iov, 1, 300));
	settle();
	note(ripc__engine_send(&b.e, &iov, 1, 300));
	settle();
	shim.armed = false;
}

/* Saves and restores it, as for a connection without traffic. */
static void check_idle(struct engine_end *end)
{
	struct ripc__engine_conn saved;

	ck_assert(ripc__engine_save(&end->e, &saved));
	ck_assert_ptr_null(end->e.tx.framing);
	ck_assert_ptr_null(end->e.tx.writes.ring);
	ck_assert_ptr_null(end->e.tx.responses.ring);
	ck_assert_ptr_null(end->e.tx.head);
	ck_assert_ptr_null(end->e.tx.spare);
	ck_assert_ptr_null(end->e.rx.reads);
}

/* Return: whether an allocation failed. */
static bool run(unsigned nth, bool crc)
{
	const struct ripc__mpa_terms terms = {.crc = crc, .read_depth = 8, .serve_depth = 8};

	memset(target, 0, sizeof(target));
	memset(&shim, 0, sizeof(shim));
	refused = false;
	engine_end_open(&a, &terms, true, 1460);
	engine_end_open(&b, &terms, false, 1460);
	shim.nth = nth;
	session();
	if (shim.failed) {
		ck_assert_msg(refused || a.e.status == -ENOMEM || b.e.status == -ENOMEM,
			      "allocation %u: unnoticed", nth);
	} else {
		ck_assert_int_eq(a.e.status, 0);
		ck_assert_int_eq(b.e.status, 0);
		ck_assert_uint_eq(b.nrecv, 4);
		ck_assert_uint_eq(a.nrecv, 1);
		ck_assert_uint_eq(a.nread, 1);
		ck_assert_uint_eq(a.nwrite, 1);
		ck_assert_mem_eq(target, source, BYTES / 2);
		ck_assert_mem_eq(target + BYTES / 2, source, BYTES / 2);
		check_idle(&a);
		check_idle(&b);
	}
	engine_end_close(&a);
	engine_end_close(&b);
	return shim.failed;
}

START_TEST(engine__idle_holds_no_rings)
{
	ck_assert(!run(0, false));
}
END_TEST

START_TEST(engine__nth_allocation_fails)
{
	unsigned n = 1;

	while (run(n, _i))
		n++;
	ck_assert_uint_gt(n, 6);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("engine_memory");
	TCase *tc = tcase_create("engine_memory");

	for (size_t i = 0; i < sizeof(source); i++)
		source[i] = (uint8_t)(i * 7 + i / 251);
	tcase_add_test(tc, engine__idle_holds_no_rings);
	tcase_add_loop_test(tc, engine__nth_allocation_fails, 0, 2);
	tcase_set_timeout(tc, 60);
	suite_add_tcase(suite, tc);
	return test_main("transport/iwarp/soft/engine_memory", suite);
}
