/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Endpoints without memory to receive into: they receive when there is memory again. */
#include "base/log.h"
#include "soft_pair.h"

static bool no_memory;

void *__real_malloc(size_t len);
void *__wrap_malloc(size_t len);
void *__wrap_malloc(size_t len)
{
	return no_memory && len == sizeof(struct ripc__engine) ? NULL : __real_malloc(len);
}

void *__real_aligned_alloc(size_t alignment, size_t len);
void *__wrap_aligned_alloc(size_t alignment, size_t len);
void *__wrap_aligned_alloc(size_t alignment, size_t len)
{
	return no_memory ? NULL : __real_aligned_alloc(alignment, len);
}

/*
 * For a message while the core keeps those before it, and for the engine of an endpoint that was
 * idle. No token is released.
 */
START_TEST(soft_progress__memory_comes_back)
{
	static uint8_t p[16000];
	uint64_t deadline = RIPC__NEVER;
	const struct ripc__transport *receiver;
	struct ripc__event event;
	unsigned sent = 1;

	sides_connect(NULL);
	receiver = b.t;
	b.hold = !_i;
	ck_assert_int_ge(side_post(&a, p, sizeof(p), false), 0);
	UNTIL(b.nrecv == 1);
	if (_i) {
		for (unsigned i = 0; i < 100; i++)
			side_step(&b);
		ops->trim(b.ep);
		ck_assert_ptr_null(b.ep->engine);
	}
	no_memory = true;
	for (; !receiver->starved_retry_ns; sent++) {
		ck_assert_uint_lt(sent, 100);
		ck_assert_int_ge(side_post(&a, p, sizeof(p), false), 0);
		for (unsigned i = 0; i < 100; i++) {
			side_step(&a);
			side_step(&b);
		}
	}
	ck_assert_int_ge(side_post(&a, p, sizeof(p), false), 0);
	sent++;
	for (unsigned i = 0; i < 100; i++) {
		side_step(&a);
		side_step(&b);
	}
	ck_assert_uint_lt(b.nrecv, sent);
	ck_assert_uint_eq(ops->progress(b.t, &event, 1, ripc__clock_ns(), &deadline), 0);
	/* A sleeping context wakes up for it. */
	ck_assert_uint_le(deadline, ripc__clock_ns() + 100 * RIPC__MS);
	no_memory = false;
	UNTIL(b.nrecv == sent);
	while (b.nheld)
		ops->release(b.t, b.held[--b.nheld]);
	sides_close();
}
END_TEST

/* A transfer over an endpoint that was idle: the error is explained, for the log of the core. */
START_TEST(soft_transfer__no_memory)
{
	struct ripc__transfer read = {.kind = RIPC__READ, .len = 100};

	sides_connect(NULL);
	for (unsigned i = 0; i < 100; i++)
		side_step(&a);
	ops->trim(a.ep);
	ck_assert_ptr_null(a.ep->engine);
	no_memory = true;
	ripc__fail(-EINVAL, "former failure");
	ck_assert_int_eq(ops->transfer(a.ep, &read), -ENOMEM);
	no_memory = false;
	ck_assert_str_eq(ripc_error_detail(), "iwarp/soft: out of memory");
	sides_close();
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("starved");
	TCase *tc = tcase_create("starved");

	tcase_set_timeout(tc, 60);
	tcase_add_loop_test(tc, soft_progress__memory_comes_back, 0, 2);
	tcase_add_test(tc, soft_transfer__no_memory);
	suite_add_tcase(suite, tc);
	return test_main("iwarp/soft/starved", suite);
}
