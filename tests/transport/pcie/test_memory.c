/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The memory of pcie: joining it, its entries, and its blocks. */
#define _GNU_SOURCE
#include "harness.h"
#include "transport/pcie/memory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define BYTES ((size_t)4 << 20)

static uint8_t *new_memory(size_t size)
{
	uint8_t *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	ck_assert_ptr_ne(p, MAP_FAILED);
	return p;
}

static int join(struct ripc__pcie_memory *m, uint8_t *base, size_t size, bool format)
{
	const char *why = NULL;
	int rc = ripc__pcie_join(m, base, base, size, format, &why);

	ck_assert(!rc || (why && *why));
	return rc;
}

static void claim_entry(struct ripc__pcie_memory *m, uint8_t *base)
{
	ck_assert_int_eq(join(m, base, BYTES, true), 0);
	ck_assert_int_eq(ripc__pcie_entry_claim(m), 0);
}

START_TEST(join__formats_only_zeros)
{
	struct ripc__pcie_memory m, n;
	uint8_t *base = new_memory(BYTES), *zeros = calloc(1, BYTES);

	ck_assert_int_eq(join(&m, base, BYTES, false), -ENODATA);
	ck_assert(!memcmp(base, zeros, BYTES));
	base[100] = 1;
	ck_assert_int_eq(join(&m, base, BYTES, true), -EPROTO);
	ck_assert_int_eq(base[0], 0);
	base[100] = 0;
	base[20000] = 1;
	ck_assert_int_eq(join(&m, base, BYTES, true), -EPROTO);
	base[20000] = 0;
	ck_assert_int_eq(join(&m, base, BYTES, true), 0);
	ck_assert_int_eq(join(&n, base, BYTES, false), 0);
	ck_assert_mem_eq(m.id, n.id, 16);
	ck_assert_mem_ne(m.id, zeros, 16);
	ck_assert_uint_eq(m.nblocks, ripc__pcie_blocks(BYTES));
	/* It is not the same with another size. */
	ck_assert_int_eq(join(&n, base, BYTES / 2, true), -EPROTO);
	memset(base, 0xff, 4096);
	ck_assert_int_eq(join(&n, base, BYTES, true), -EPROTO);
	munmap(base, BYTES);
	free(zeros);
}
END_TEST

START_TEST(blocks__inside_memory)
{
	for (size_t size = 0; size < (size_t)64 << 20; size += 4096 * 37) {
		struct ripc__pcie_memory m = {.size = size};

		m.nblocks = ripc__pcie_blocks(size);
		if (m.nblocks)
			ck_assert_uint_le((size_t)(ripc__pcie_inbox(&m, m.nblocks - 1) -
						   RIPC__PCIE_SEGMENT_OFF - m.base) +
						  ripc__pcie_block_size(),
					  size);
	}
	ck_assert_uint_eq(ripc__pcie_blocks(0), 0);
	ck_assert_uint_eq(ripc__pcie_blocks(SIZE_MAX / 2), RIPC__PCIE_BLOCKS_MAX);
}
END_TEST

START_TEST(entry_claim__unique_ref)
{
	struct ripc__pcie_memory m;
	uint8_t *base = new_memory(BYTES);
	uint64_t last = 0;

	for (unsigned i = 0; i < 1000; i++) {
		claim_entry(&m, base);
		ck_assert_uint_ne(m.ref, 0);
		ck_assert_uint_ne(m.ref, last);
		ck_assert(!ripc__pcie_alive(&m, last, 1));
		ck_assert(ripc__pcie_alive(&m, m.ref, 1));
		last = m.ref;
		ripc__pcie_entry_release(&m);
		ck_assert(!ripc__pcie_alive(&m, last, 1));
	}
	munmap(base, BYTES);
}
END_TEST

/* Dead contexts have all entries: the next context finds that out by itself. */
START_TEST(entry_claim__reuses_dead_entry)
{
	static struct ripc__pcie_memory all[RIPC__PCIE_ENTRIES], m;
	uint8_t *base = new_memory(BYTES);

	for (unsigned i = 0; i < RIPC__PCIE_ENTRIES; i++)
		claim_entry(&all[i], base);
	claim_entry(&m, base);
	ck_assert(ripc__pcie_heartbeat(&m, 1));
	for (unsigned i = 0; i < RIPC__PCIE_ENTRIES; i++)
		ck_assert(!ripc__pcie_heartbeat(&all[i], 1));
	munmap(base, BYTES);
}
END_TEST

START_TEST(heartbeat__timeout)
{
	struct ripc__pcie_memory a, b;
	uint8_t *base = new_memory(BYTES);
	uint64_t now = 1, ref;

	claim_entry(&a, base);
	claim_entry(&b, base);
	ref = b.ref;
	for (unsigned i = 0; i < 50; i++, now += RIPC__PCIE_HEARTBEAT_NS) {
		ck_assert(ripc__pcie_heartbeat(&a, now));
		ck_assert(ripc__pcie_heartbeat(&b, now));
		ck_assert(ripc__pcie_alive(&a, ref, 3 * RIPC__PCIE_HEARTBEAT_NS));
	}
	/* If we slept for an hour, that proves nothing about others. */
	now += UINT64_C(3600000000000);
	ck_assert(ripc__pcie_heartbeat(&a, now));
	ck_assert(ripc__pcie_alive(&a, ref, 4 * RIPC__PCIE_HEARTBEAT_NS));
	for (unsigned i = 0; i < 5; i++)
		ck_assert(ripc__pcie_heartbeat(&a, now += RIPC__PCIE_HEARTBEAT_NS));
	ck_assert(!ripc__pcie_alive(&a, ref, 4 * RIPC__PCIE_HEARTBEAT_NS));
	/* It lives again. */
	ck_assert(ripc__pcie_heartbeat(&b, now));
	ck_assert(ripc__pcie_heartbeat(&a, now += RIPC__PCIE_HEARTBEAT_NS));
	ck_assert(ripc__pcie_alive(&a, ref, 4 * RIPC__PCIE_HEARTBEAT_NS));
	/* In the end its entry is evicted. */
	for (unsigned i = 0; i < RIPC__PCIE_EVICT_NS / RIPC__PCIE_HEARTBEAT_NS + 2; i++)
		ck_assert(ripc__pcie_heartbeat(&a, now += RIPC__PCIE_HEARTBEAT_NS));
	ck_assert(!ripc__pcie_alive(&a, ref, UINT64_MAX));
	ck_assert(!ripc__pcie_heartbeat(&b, now));
	/* A device that is gone reads as all ones. */
	memset(base, 0xff, BYTES);
	ck_assert(!ripc__pcie_heartbeat(&a, now));
	munmap(base, BYTES);
}
END_TEST

START_TEST(block__get_put_attach)
{
	struct ripc__pcie_memory a, b;
	struct ripc__pcie_setup_msg seen, old;
	uint8_t *base = new_memory(BYTES);
	bool used[64] = {false};
	uint32_t other;
	int block = -1;

	claim_entry(&a, base);
	claim_entry(&b, base);
	for (uint32_t i = 0; i < a.nblocks; i++) {
		block = ripc__pcie_block_get(i % 2 ? &a : &b);
		ck_assert_int_ge(block, 0);
		ck_assert_int_lt(block, (int)a.nblocks);
		ck_assert(!used[block]);
		used[block] = true;
	}
	ck_assert_int_eq(ripc__pcie_block_get(&a), -ENOSPC);
	/* A context that leaves frees all its blocks. */
	ripc__pcie_entry_release(&b);
	ck_assert_int_eq(ripc__pcie_entry_claim(&b), 0);
	for (uint32_t i = 0; i < (a.nblocks + 1) / 2; i++)
		ck_assert_int_ge(block = ripc__pcie_block_get(&a), 0);
	ck_assert_int_eq(ripc__pcie_block_get(&b), -ENOSPC);

	/* A block with a user is not free after its owner has released it. */
	ck_assert(!ripc__pcie_block_read(&b, (uint32_t)block, &seen));
	memcpy(ripc__pcie_params(&a, (uint32_t)block, 0), "notes", 6);
	ripc__pcie_block_publish(&a, (uint32_t)block, b.ref, RIPC__PCIE_REQUEST);
	ck_assert(ripc__pcie_block_read(&b, (uint32_t)block, &seen));
	ck_assert_uint_eq(seen.owner, a.ref);
	ck_assert_uint_eq(seen.target, b.ref);
	ck_assert_uint_eq((uint8_t)seen.call, RIPC__PCIE_REQUEST);
	ck_assert(ripc__pcie_attach(&b, (uint32_t)block, &seen));
	ck_assert(!ripc__pcie_attach(&b, (uint32_t)block, &seen));
	ck_assert_uint_eq(ripc__pcie_answer_read(&a, (uint32_t)block, &other), 0);
	ripc__pcie_answer(&b, (uint32_t)block, RIPC__PCIE_ACCEPTED, 77);
	ck_assert_uint_eq(ripc__pcie_answer_read(&a, (uint32_t)block, &other), RIPC__PCIE_ACCEPTED);
	ck_assert_uint_eq(other, 77);
	ck_assert(ripc__pcie_is_owner(&b, (uint32_t)block, a.ref));
	old = seen;
	ripc__pcie_block_put(&a, (uint32_t)block);
	ck_assert(!ripc__pcie_is_owner(&b, (uint32_t)block, a.ref));
	ck_assert_int_eq(ripc__pcie_block_get(&a), -ENOSPC);
	ripc__pcie_detach(&b, (uint32_t)block);
	/* A late context does not become the user. */
	ck_assert(!ripc__pcie_attach(&b, (uint32_t)block, &old));
	ck_assert_int_eq(ripc__pcie_block_get(&a), block);
	ck_assert(!ripc__pcie_attach(&b, (uint32_t)block, &old));
	ripc__pcie_block_publish(&a, (uint32_t)block, b.ref, RIPC__PCIE_REQUEST);
	ck_assert(!ripc__pcie_attach(&b, (uint32_t)block, &old));

	/* A user that left does not hold the block. */
	ck_assert(ripc__pcie_block_read(&b, (uint32_t)block, &seen));
	ck_assert(ripc__pcie_attach(&b, (uint32_t)block, &seen));
	ripc__pcie_entry_release(&b);
	ripc__pcie_block_put(&a, (uint32_t)block);
	ck_assert_int_eq(ripc__pcie_block_get(&a), block);
	munmap(base, BYTES);
}
END_TEST

/* Blocks of an ended process are reused at once, those of a lost one when there are no others. */
START_TEST(block__of_lost_contexts)
{
	struct ripc__pcie_memory a, b, lost;
	uint8_t *base = new_memory(BYTES);
	uint64_t now = 1;
	int status;
	pid_t pid;

	claim_entry(&a, base);
	ripc__pcie_set_kernel(&a);
	claim_entry(&lost, base);
	pid = fork();
	if (!pid) {
		join(&b, base, BYTES, false);
		ripc__pcie_set_kernel(&b);
		if (ripc__pcie_entry_claim(&b) || ripc__pcie_block_get(&b))
			_exit(1);
		_exit(0);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	ck_assert_int_eq(ripc__pcie_block_get(&lost), 1);
	for (unsigned i = 0; i < 4; i++)
		ck_assert(ripc__pcie_heartbeat(&a, now += RIPC__PCIE_HEARTBEAT_NS));
	if (a.kernel)
		ck_assert_int_eq(ripc__pcie_block_get(&a), 0);
	for (unsigned i = 0; i < RIPC__PCIE_EVICT_NS / RIPC__PCIE_HEARTBEAT_NS; i++)
		ck_assert(ripc__pcie_heartbeat(&a, now += RIPC__PCIE_HEARTBEAT_NS));
	ck_assert(ripc__pcie_entry_held(&a) && !ripc__pcie_entry_held(&lost));
	for (int i = 2; i < (int)a.nblocks; i++)
		ck_assert_int_eq(ripc__pcie_block_get(&a), i);
	if (!a.kernel)
		ck_assert_int_eq(ripc__pcie_block_get(&a), 0);
	ck_assert_int_eq(ripc__pcie_block_get(&a), 1);
	ck_assert_int_eq(ripc__pcie_block_get(&a), -ENOSPC);
	munmap(base, BYTES);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("pcie_memory");
	TCase *tc = tcase_create("memory");

	tcase_set_timeout(tc, 300);
	tcase_add_test(tc, join__formats_only_zeros);
	tcase_add_test(tc, blocks__inside_memory);
	tcase_add_test(tc, entry_claim__unique_ref);
	tcase_add_test(tc, entry_claim__reuses_dead_entry);
	tcase_add_test(tc, heartbeat__timeout);
	tcase_add_test(tc, block__get_put_attach);
	tcase_add_test(tc, block__of_lost_contexts);
	suite_add_tcase(suite, tc);
	return test_main("transport/pcie/memory", suite);
}
