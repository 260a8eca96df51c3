/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The default context: calls with NULL open it and share it, and the application closes it. */
#include "core/context/context.h"
#include "core/rig.h"

#include <pthread.h>

static void setup(void)
{
	setenv("RIPC_TRANSPORTS", "self", 1);
	setenv("RIPC_RESOLVER", "local", 1);
}

START_TEST(context__first_call_opens)
{
	struct ripc_stats stats = {.size = sizeof(stats)};
	struct ripc_service *a, *b;
	void *p;

	OK(ripc_buf_free(NULL, NULL));
	RC(-EINVAL, ripc_close(NULL));
	OK(ripc_service_register(NULL, test_ids(), 0, &a));
	OK(ripc_service_register(NULL, test_ids() + 1, 0, &b));
	ck_assert_ptr_eq(a->ctx, b->ctx);
	/* The other calls take it, too. */
	p = ripc_buf_alloc(NULL, 1000);
	ck_assert_ptr_nonnull(p);
	OK(ripc_buf_free(a->ctx, p));
	OK(ripc_context_stats(NULL, &stats));
	OK(ripc_close(NULL));
	RC(-EINVAL, ripc_close(NULL));
	/* A new one. */
	OK(ripc_service_register(NULL, test_ids(), 0, &a));
	OK(ripc_close(a->ctx));
	RC(-EINVAL, ripc_close(NULL));
}
END_TEST

static void *open_default(void *arg)
{
	struct ripc **ctx = arg;

	*ctx = NULL;
	return ripc__context(ctx) ? arg : NULL;
}

START_TEST(context__one_for_all_threads)
{
	enum { N = 8 };
	pthread_t threads[N];
	struct ripc *ctx[N];

	for (unsigned i = 0; i < N; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, open_default, &ctx[i]), 0);
	for (unsigned i = 0; i < N; i++) {
		void *failed;

		ck_assert_int_eq(pthread_join(threads[i], &failed), 0);
		ck_assert_ptr_null(failed);
		ck_assert_ptr_eq(ctx[i], ctx[0]);
	}
	OK(ripc_close(NULL));
}
END_TEST

START_TEST(context__own_context_is_kept)
{
	struct ripc *ctx, *same;

	OK(ripc_open(&ctx, NULL));
	same = ctx;
	OK(ripc__context(&same));
	ck_assert_ptr_eq(same, ctx);
	RC(-EINVAL, ripc_close(NULL));
	OK(ripc_close(ctx));
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("core/context/default_context");
	TCase *tc = tcase_create("default_context");

	tcase_add_checked_fixture(tc, setup, NULL);
	tcase_add_test(tc, context__first_call_opens);
	tcase_add_test(tc, context__one_for_all_threads);
	tcase_add_test(tc, context__own_context_is_kept);
	suite_add_tcase(suite, tc);
	return test_main("core/context/default_context", suite);
}
