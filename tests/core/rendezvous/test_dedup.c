/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The dedup window: which of a peer's long messages have ended. */
#include "core/rendezvous/dedup.h"
#include "core/rig.h"

static struct rig rig;
static struct ripc *ctx;

START_TEST(dedup__against_model)
{
	enum { N = 20000 };
	/* 1: has ended; 2: has failed */
	static uint8_t over[N + RIPC__REQUESTS_MAX + 1];
	uint8_t instance[16] = {1};
	struct ripc__peer *p = ripc__peer_get(ctx, instance);
	uint64_t rng = test_seed(), below = p->dedup_base;
	const uint64_t first = below;

	while (below < N) {
		if (test_random(&rng) % 4 == 0) {
			below += test_random(&rng) % (test_random(&rng) % 50 ? 20 : 3000);
			ripc__dedup_advance(p, below);
			/* Backwards means nothing. */
			ripc__dedup_advance(p, below - test_random(&rng) % below);
		} else {
			uint64_t id = below + test_random(&rng) % RIPC__REQUESTS_MAX;

			bool fails = below > N / 2 && test_random(&rng) % 4 == 0;

			if (ripc__dedup_seen(p, id))
				continue;
			ck_assert(ripc__dedup_begin(p));
			if (fails)
				ripc__dedup_mark_failed(p, id);
			else
				ripc__dedup_mark(p, id);
			over[id < N + RIPC__REQUESTS_MAX ? id : 0] = fails ? 2 : 1;
		}
		for (uint64_t id = first; id < below && id < below + 3; id += 1 + below / 3)
			ck_assert(ripc__dedup_seen(p, id));
		for (uint64_t id = below; id < below + RIPC__REQUESTS_MAX && id < N; id++) {
			ck_assert_int_eq(ripc__dedup_seen(p, id), over[id] != 0);
			ck_assert_int_eq(ripc__dedup_failed(p, id), over[id] == 2);
		}
	}
}
END_TEST

START_TEST(dedup__large_numbers)
{
	uint8_t instance[16] = {1};
	struct ripc__peer *p = ripc__peer_get(ctx, instance);

	ck_assert(ripc__dedup_begin(p));
	ripc__dedup_mark(p, p->dedup_base + 3);
	ripc__dedup_advance(p, UINT64_MAX - 10);
	ck_assert(ripc__dedup_seen(p, UINT64_MAX - 11));
	for (uint64_t id = UINT64_MAX - 10; id != 0; id++)
		ck_assert(!ripc__dedup_seen(p, id));
	ripc__dedup_mark(p, UINT64_MAX);
	ck_assert(ripc__dedup_seen(p, UINT64_MAX));
	ck_assert(!ripc__dedup_seen(p, UINT64_MAX - 1));
}
END_TEST

static void setup(void)
{
	rig_start(&rig, 2, NULL);
	ctx = rig.ctx[0];
}

static void teardown(void)
{
	rig_end(&rig);
}

int main(void)
{
	Suite *suite = suite_create("core/rendezvous/dedup");
	TCase *tc = tcase_create("dedup");

	test_seed();
	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_set_timeout(tc, 120);
	tcase_add_test(tc, dedup__against_model);
	tcase_add_test(tc, dedup__large_numbers);
	suite_add_tcase(suite, tc);
	return test_main("core/rendezvous/dedup", suite);
}
