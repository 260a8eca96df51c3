/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Registered memory and buffers over stubs of the verbs: rights, keys per device, errors. */
#include "transport/rdma/region.h"
#include "harness.h"
#include "ripc.h"
#include "transport/rdma/pool.h"

#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#undef ibv_reg_mr

#define MRS_MAX 16

/* Registrations of the device. A free entry has no address. */
static struct ibv_mr mrs[MRS_MAX];
static int rights; /* of the last registration */
static unsigned registrations;
static int reg_errno; /* the next ones fail with it; -1: without an errno */

static unsigned registered(void)
{
	unsigned n = 0;

	for (unsigned i = 0; i < MRS_MAX; i++)
		n += mrs[i].addr != NULL;
	return n;
}

static struct ibv_mr *reg(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	errno = reg_errno > 0 ? reg_errno : 0;
	for (unsigned i = 0; i < MRS_MAX && !reg_errno; i++)
		if (!mrs[i].addr) {
			registrations++;
			rights = access;
			mrs[i] = (struct ibv_mr){.pd = pd,
						 .addr = addr,
						 .length = length,
						 .lkey = 100 + registrations,
						 .rkey = 200 + registrations};
			return &mrs[i];
		}
	return NULL;
}

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	return reg(pd, addr, length, access);
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
				unsigned int access)
{
	return reg(pd, addr, length, (int)access);
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
	ck_assert_ptr_nonnull(mr->addr);
	mr->addr = NULL;
	return 0;
}

static struct ibv_pd pds[2];
static struct ripc__verbs_device devices[2] = {
	{.pd = &pds[0], .name = "made0", .index = 0},
	{.pd = &pds[1], .name = "made1", .index = 1},
};
static struct ripc__list regions;
static uint8_t memory[8192];
static uint8_t aligned[64 << 10] __attribute__((aligned(64 << 10)));

static void setup(void)
{
	ripc__list_init(&regions);
}

static void teardown(void)
{
	ripc__verbs_regions_fini(&regions);
	ck_assert_uint_eq(registered(), 0);
}

/* The narrowest rights. _i: the device needs remote write access to the target of a read. */
START_TEST(reg__rights)
{
	const struct {
		unsigned access;
		int rights, sink_rights;
	} cases[] = {
		{0, 0, 0},
		{RIPC__ACCESS_LOCAL_WRITE, IBV_ACCESS_LOCAL_WRITE,
		 IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE},
		{RIPC__ACCESS_REMOTE_READ, IBV_ACCESS_REMOTE_READ, IBV_ACCESS_REMOTE_READ},
		{RIPC__ACCESS_REMOTE_WRITE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE,
		 IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE},
	};
	struct ripc__mr mr;

	devices[0].read_sink_remote_write = _i;
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		bool remote = cases[i].access & ~(unsigned)RIPC__ACCESS_LOCAL_WRITE;

		ck_assert_int_eq(
			ripc__verbs_reg(&regions, &devices[0], memory, 10, cases[i].access, &mr),
			0);
		ck_assert_int_eq(rights, _i ? cases[i].sink_rights : cases[i].rights);
		/* Only memory that the peer may use has a key. */
		ck_assert_uint_eq(mr.key, remote ? 200 + registrations : 0);
		ck_assert_uint_eq(mr.addr, (uintptr_t)memory);
		ck_assert_uint_eq(mr.len, 10);
		ripc__verbs_dereg(NULL, &mr);
		ck_assert_uint_eq(mr.key, 0);
		ripc__verbs_dereg(NULL, &mr);
		ck_assert_uint_eq(registered(), 0);
	}
	ck_assert_str_eq(ripc_error_detail(), "");
}
END_TEST

/* Memory is registered at a device when it is first used there. */
START_TEST(lkey__per_device)
{
	struct ripc__mr mr, other;
	uint32_t lkey;

	ck_assert_int_eq(ripc__verbs_reg(&regions, NULL, memory, 10, RIPC__ACCESS_LOCAL_WRITE, &mr),
			 0);
	ck_assert_uint_eq(registered(), 0);
	for (unsigned i = 0; i < 4; i++) {
		ck_assert_int_eq(ripc__verbs_lkey(&devices[i & 1], &mr, &lkey), 0);
		ck_assert_uint_eq(lkey, 101 + (i & 1));
		ck_assert_ptr_eq(mrs[i & 1].pd, &pds[i & 1]);
	}
	ck_assert_uint_eq(registrations, 2);
	ck_assert_int_eq(rights, IBV_ACCESS_LOCAL_WRITE);
	ck_assert_int_eq(ripc__verbs_reg(&regions, &devices[0], memory, 10, 0, &other), 0);
	/* A device that was removed has no registrations; the other keeps them. */
	ripc__verbs_regions_invalidate(&regions, &devices[0]);
	ck_assert_uint_eq(registered(), 1);
	ck_assert_int_eq(ripc__verbs_lkey(&devices[1], &mr, &lkey), 0);
	ck_assert_uint_eq(lkey, 102);
	devices[0].gone = true;
	ck_assert_int_eq(ripc__verbs_lkey(&devices[0], &mr, &lkey), -ENODEV);
	devices[0].gone = false;
}
END_TEST

START_TEST(reg__empty)
{
	struct ripc__mr mr;
	uint32_t lkey = 1;

	ck_assert_int_eq(
		ripc__verbs_reg(&regions, &devices[0], memory, 0, RIPC__ACCESS_REMOTE_READ, &mr),
		0);
	ck_assert_int_eq(ripc__verbs_lkey(&devices[0], &mr, &lkey), 0);
	ck_assert_uint_eq(lkey, 0);
	ck_assert_uint_eq(mr.key, 0);
	ck_assert_uint_eq(registrations, 0);
}
END_TEST

START_TEST(reg__fails)
{
	static const struct {
		int err, rc;
		bool limit; /* the text names the limit of locked memory */
	} cases[] = {
		{ENOMEM, -ENOMEM, true},  {EPERM, -EPERM, true}, {EAGAIN, -EAGAIN, true},
		{EFAULT, -EFAULT, false}, {-1, -EIO, false},
	};
	struct ripc__mr mr;
	uint32_t lkey;

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const char *text;

		reg_errno = cases[i].err;
		ck_assert_int_eq(
			ripc__verbs_reg(&regions, &devices[0], memory, sizeof(memory), 0, &mr),
			cases[i].rc);
		ck_assert_ptr_null(mr.priv);
		text = ripc_error_detail();
		ck_assert_msg(!strncmp(text, "made0: cannot register 8", 24), "%s", text);
		ck_assert_msg(!strstr(text, "RLIMIT_MEMLOCK") != cases[i].limit, "%s", text);
		ck_assert_msg(!cases[i].limit || strstr(text, "register 8 KiB"), "%s", text);
	}
	reg_errno = 0;
	ck_assert_int_eq(ripc__verbs_reg(&regions, NULL, memory, 10, 0, &mr), 0);
	reg_errno = ENOMEM;
	ck_assert_int_eq(ripc__verbs_lkey(&devices[0], &mr, &lkey), -ENOMEM);
	reg_errno = 0;
}
END_TEST

void *__real_calloc(size_t n, size_t len);
void *__wrap_calloc(size_t n, size_t len);

static bool fail_calloc; /* the next one */

void *__wrap_calloc(size_t n, size_t len)
{
	bool fail = fail_calloc;

	fail_calloc = false;
	return fail ? NULL : __real_calloc(n, len);
}

START_TEST(reg__without_memory)
{
	struct ripc__mr mr;

	fail_calloc = true;
	ck_assert_int_eq(ripc__verbs_reg(&regions, &devices[0], memory, 10, 0, &mr), -ENOMEM);
	ck_assert_str_eq(ripc_error_detail(), "verbs: out of memory");
	ck_assert_uint_eq(registrations, 0);
	ck_assert_int_eq(ripc__verbs_reg(&regions, &devices[0], memory, 10, 0, &mr), 0);
	ripc__verbs_dereg(NULL, &mr);
}
END_TEST

static void expect_text(const char *part)
{
	unsigned descriptors = test_descriptors();
	struct ripc__mr mr;
	const char *text;

	ck_assert_int_eq(ripc__verbs_reg(&regions, &devices[0], memory, 10, 0, &mr), -ENOMEM);
	ck_assert_uint_eq(test_descriptors(), descriptors);
	text = ripc_error_detail();
	ck_assert_msg(strstr(text, part), "%s", text);
}

/* The text names the limit of locked memory, and how much is locked. */
START_TEST(reg__limit_in_text)
{
	const unsigned long page = (unsigned long)getpagesize();
	struct rlimit before, limit;
	char text[64];

	ck_assert_int_eq(getrlimit(RLIMIT_MEMLOCK, &before), 0);
	reg_errno = ENOMEM;
	snprintf(text, sizeof(text), "pinned are 0 KiB (VmPin), locked %lu KiB (VmLck)",
		 page / 1024);
	/* The address sanitizer makes mlock() do nothing. */
	if (syscall(SYS_mlock, aligned, 1))
		test_skip("no memory can be locked: %s", strerror(errno));
	else
		expect_text(text);
	syscall(SYS_munlock, aligned, 1);
	limit = (struct rlimit){page, before.rlim_max};
	ck_assert_int_eq(setrlimit(RLIMIT_MEMLOCK, &limit), 0);
	snprintf(text, sizeof(text), "RLIMIT_MEMLOCK is %lu KiB,", page / 1024);
	expect_text(text);
	limit.rlim_cur = RLIM_INFINITY;
	if (!setrlimit(RLIMIT_MEMLOCK, &limit))
		expect_text("RLIMIT_MEMLOCK is unlimited,");
	ck_assert_int_eq(setrlimit(RLIMIT_MEMLOCK, &before), 0);
	reg_errno = 0;
}
END_TEST

/* Buffers grow by slabs up to the limit, do not overlap, and are used again. */
START_TEST(pool__grows)
{
	struct ripc__verbs_buf *bufs[5];
	struct ripc__verbs_pool pool;

	ripc__verbs_pool_init(&pool, &devices[0], 65, 2, 5);
	ck_assert_uint_eq(pool.buf_bytes, 128);
	ck_assert_int_eq(ripc__verbs_pool_reserve(&pool, 3), 0);
	ck_assert_uint_eq(pool.count, 4);
	ck_assert_int_eq(rights, IBV_ACCESS_LOCAL_WRITE);
	for (unsigned i = 0; i < 5; i++) {
		bufs[i] = ripc__verbs_pool_get(&pool);
		ck_assert_ptr_nonnull(bufs[i]);
		ck_assert_uint_eq((uintptr_t)bufs[i]->data % 64, 0);
		memset(bufs[i]->data, (int)i, 128);
	}
	for (unsigned i = 0; i < 5; i++)
		ck_assert(bufs[i]->data[0] == i && bufs[i]->data[127] == i);
	ck_assert_uint_eq(registrations, 3);
	/* Whole pages are registered. */
	ck_assert_uint_eq(mrs[2].length, 4096);
	ck_assert_uint_eq(bufs[4]->lkey, mrs[2].lkey);
	ck_assert_ptr_null(ripc__verbs_pool_get(&pool));
	ck_assert_int_eq(ripc__verbs_pool_reserve(&pool, 1), -ENOBUFS);
	ripc__verbs_pool_put(bufs[1]);
	ck_assert_uint_eq(pool.nfree, 1);
	ck_assert_int_eq(ripc__verbs_pool_reserve(&pool, 1), 0);
	ck_assert_ptr_eq(ripc__verbs_pool_get(&pool), bufs[1]);
	ripc__verbs_pool_invalidate(&pool);
	ck_assert_uint_eq(registered(), 0);
	ripc__verbs_pool_fini(&pool);
	ck_assert_uint_eq(pool.count, 0);
	ripc__verbs_pool_fini(&pool);
}
END_TEST

/* A device that was removed and is there again: one buffer is still read by the core. */
START_TEST(pool__renew)
{
	struct ripc__verbs_buf *bufs[4];
	struct ripc__verbs_pool pool;

	ripc__verbs_pool_init(&pool, &devices[0], 64, 2, 4);
	for (unsigned i = 0; i < 4; i++) {
		bufs[i] = ripc__verbs_pool_get(&pool);
		bufs[i]->owner = &pool;
	}
	bufs[2]->delivered = true;
	ripc__verbs_pool_invalidate(&pool);
	ck_assert_uint_eq(registered(), 0);
	ck_assert_uint_eq(pool.nfree, 3);
	for (unsigned i = 0; i < 4; i++)
		ck_assert_ptr_null(bufs[i]->owner);
	reg_errno = ENOMEM;
	ck_assert_int_eq(ripc__verbs_pool_renew(&pool), -ENOMEM);
	reg_errno = 0;
	ck_assert_int_eq(ripc__verbs_pool_renew(&pool), 0);
	ck_assert_uint_eq(registered(), 2);
	for (unsigned i = 0; i < 4; i++)
		ck_assert_uint_eq(bufs[i]->lkey, 104 - i / 2);
	for (unsigned i = 0; i < 3; i++)
		ck_assert_ptr_ne(ripc__verbs_pool_get(&pool), bufs[2]);
	ck_assert_ptr_null(ripc__verbs_pool_get(&pool));
	bufs[2]->delivered = false;
	ripc__verbs_pool_put(bufs[2]);
	ck_assert_ptr_eq(ripc__verbs_pool_get(&pool), bufs[2]);
	ripc__verbs_pool_fini(&pool);
	ck_assert_uint_eq(registered(), 0);
}
END_TEST

/* Bytes of the heap in use; 0 with a sanitizer, which reports leaks itself. */
static size_t heap_bytes(void)
{
	struct mallinfo2 info = mallinfo2();

	return info.uordblks + info.hblkhd;
}

START_TEST(pool__registration_fails)
{
	struct ripc__verbs_pool pool;
	size_t before;

	ripc__verbs_pool_init(&pool, &devices[0], 64, 4, 8);
	reg_errno = EFAULT;
	ck_assert_int_eq(ripc__verbs_pool_reserve(&pool, 1), -EFAULT);
	before = heap_bytes();
	for (unsigned i = 0; i < 100; i++)
		ck_assert_ptr_null(ripc__verbs_pool_get(&pool));
	/* The allocator may keep a few freed blocks. */
	ck_assert_uint_lt(heap_bytes(), before + 4096);
	reg_errno = 0;
	ck_assert_ptr_nonnull(ripc__verbs_pool_get(&pool));
	ck_assert_uint_eq(pool.nfree, 3);
	ripc__verbs_pool_fini(&pool);
	ck_assert_uint_eq(registered(), 0);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("transport/rdma/region");
	TCase *tc = tcase_create("region");

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_loop_test(tc, reg__rights, 0, 2);
	tcase_add_test(tc, lkey__per_device);
	tcase_add_test(tc, reg__empty);
	tcase_add_test(tc, reg__fails);
	tcase_add_test(tc, reg__without_memory);
	tcase_add_test(tc, reg__limit_in_text);
	tcase_add_test(tc, pool__grows);
	tcase_add_test(tc, pool__renew);
	tcase_add_test(tc, pool__registration_fails);
	suite_add_tcase(suite, tc);
	return test_main("transport/rdma/region", suite);
}
