/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Contexts and actors on a simulated network: who is polled, and until when. */
#include "core/rig.h"

#include <malloc.h>
#include <sys/mman.h>

static struct rig rig;

START_TEST(attach__last_opened)
{
	rig_start(&rig, 2, NULL);
	RC(-ENOENT, ripc__sim_attach(rig.net, rig.ctx[0]));
	for (unsigned i = 0; i < 2; i++)
		ck_assert_mem_eq(ripc__sim_instance(rig.net, rig.ctx[i]), rig.ctx[i]->instance, 16);
	rig_end(&rig);
}
END_TEST

START_TEST(detach__not_known_any_more)
{
	struct ripc *ctx;

	rig_start(&rig, 2, NULL);
	ctx = rig.ctx[1];
	OK(ripc_close(ctx));
	ck_assert_ptr_nonnull(ripc__sim_instance(rig.net, ctx));
	ripc__sim_detach(rig.net, ctx);
	ck_assert_ptr_null(ripc__sim_instance(rig.net, ctx));
	/* A second time there is nothing to do; the others stay. */
	ripc__sim_detach(rig.net, ctx);
	ck_assert_ptr_nonnull(ripc__sim_instance(rig.net, rig.ctx[0]));
	rig.ctx[1] = NULL;
	rig_run(&rig, 10);
	rig_end(&rig);
}
END_TEST

static unsigned calls[2];

static void act(void *arg)
{
	++*(unsigned *)arg;
}

START_TEST(actor__until_removed)
{
	rig_start(&rig, 1, NULL);
	for (unsigned i = 0; i < 2; i++)
		OK(ripc__sim_actor(rig.net, act, &calls[i]));
	rig_run(&rig, 10);
	ck_assert_uint_gt(calls[0], 0);
	ck_assert_uint_eq(calls[0], calls[1]);
	ripc__sim_actor_remove(rig.net, act, &calls[0]);
	calls[0] = calls[1] = 0;
	rig_run(&rig, 10);
	ck_assert_uint_eq(calls[0], 0);
	ck_assert_uint_gt(calls[1], 0);
	ripc__sim_actor_remove(rig.net, act, &calls[1]);
	rig_end(&rig);
}
END_TEST

#define LONG_MAX_BYTES (64 * KIB)

/*
 * A random run: long messages, some of a context to itself, and lanes that break. new_pages: the
 * kernel has not provided the pages of their memory yet.
 */
static uint64_t random_history(bool new_pages)
{
	struct ripc__sim_counters counters;

	rig_start(&rig, 3, rig_datagrams);
	for (unsigned n = 0; n < 100; n++) {
		uint8_t *bytes[4];
		struct ripc_request *r[4];
		unsigned to[4];

		for (unsigned i = 0; i < 4; i++) {
			unsigned from = ripc__sim_random(rig.net) % 3;
			size_t len = 2000 + ripc__sim_random(rig.net) % 60000;
			int flags = MAP_PRIVATE | MAP_ANONYMOUS | (new_pages ? 0 : MAP_POPULATE);

			to[i] = ripc__sim_random(rig.net) % 3;
			if (!(ripc__sim_random(rig.net) % 8))
				ripc__sim_break(rig.net, rig_instance(&rig, from),
						rig_instance(&rig, to[i]));
			bytes[i] = mmap(NULL, LONG_MAX_BYTES, PROT_READ | PROT_WRITE, flags, -1, 0);
			ck_assert_ptr_ne(bytes[i], MAP_FAILED);
			r[i] = rig_begin(&rig, from, to[i], bytes[i], len);
		}
		for (unsigned i = 0; i < 4; i++) {
			OK(ripc_request_wait(&r[i], 5000));
			ripc_message_free(rig_take(&rig, to[i]));
			munmap(bytes[i], LONG_MAX_BYTES);
		}
	}
	rig_run(&rig, 3000);
	ripc__sim_counters(rig.net, &counters);
	rig_end(&rig);
	return counters.history;
}

/* Addresses, contents and pages of memory decide nothing. */
START_TEST(history__same_with_another_heap)
{
	uint64_t first = random_history(false);
	void *junk[64];

	mallopt(M_PERTURB, 0xa5);
	for (unsigned i = 0; i < 64; i++)
		junk[i] = malloc(16 + i * 321 % 1024);
	for (unsigned i = 0; i < 64; i += 2)
		free(junk[i]);
	ck_assert_uint_eq(random_history(false), first);
	ck_assert_uint_eq(random_history(true), first);
	for (unsigned i = 1; i < 64; i += 2)
		free(junk[i]);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("core/sim/world");
	TCase *tc = tcase_create("world");

	test_seed();
	tcase_add_test(tc, attach__last_opened);
	tcase_add_test(tc, detach__not_known_any_more);
	tcase_add_test(tc, actor__until_removed);
	tcase_add_test(tc, history__same_with_another_heap);
	suite_add_tcase(suite, tc);
	return test_main("core/sim/world", suite);
}
