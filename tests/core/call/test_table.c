/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The calls of a context: their states and ids. */
#include "core/call/caller.h"
#include "core/rig.h"
#include "transitions.h"

#define TO(state) (1u << RIPC__CALL_IS_##state)

DEFINE_SET_STATE(struct ripc__call, ripc__call_set_state)

START_TEST(set_state__transitions)
{
	static const unsigned allowed[RIPC__CALL_STEPS] = {
		[RIPC__CALL_IS_WAITING] =
			TO(SENT) | TO(CANCELLING) | TO(WITHDRAWING) | TO(DONE) | TO(FREE),
		[RIPC__CALL_IS_SENT] = TO(WAITING) | TO(CANCELLING) | TO(WITHDRAWING) | TO(DONE),
		[RIPC__CALL_IS_CANCELLING] = TO(CANCELLING) | TO(WITHDRAWING) | TO(DONE),
		[RIPC__CALL_IS_WITHDRAWING] = TO(DONE),
		[RIPC__CALL_IS_DONE] = TO(FREE),
		[RIPC__CALL_IS_FREE] = TO(WAITING) | TO(SENT),
	};

	check_transitions(set_state, allowed);
}
END_TEST

/* A call serves one request after the other. Each has an id of its own. */
START_TEST(find__only_by_its_id)
{
	struct rig rig;
	struct ripc__call *call, *other;
	uint64_t first;

	rig_start(&rig, 1, NULL);
	ripc__lock(rig.ctx[0]);
	call = ripc__call_alloc(rig.ctx[0]);
	ck_assert_ptr_nonnull(call);
	ripc__call_set_state(call, RIPC__CALL_IS_WAITING);
	first = call->id;
	ck_assert_ptr_eq(ripc__call_find(rig.ctx[0], first), call);
	other = ripc__call_alloc(rig.ctx[0]);
	ck_assert_ptr_nonnull(other);
	ck_assert_ptr_ne(other, call);
	ripc__call_set_state(other, RIPC__CALL_IS_WAITING);
	ripc__call_release(call);

	ck_assert_ptr_eq(ripc__call_alloc(rig.ctx[0]), call);
	ripc__call_set_state(call, RIPC__CALL_IS_WAITING);
	ck_assert_ptr_null(ripc__call_find(rig.ctx[0], first));
	ck_assert_ptr_eq(ripc__call_find(rig.ctx[0], call->id), call);
	ck_assert_ptr_eq(ripc__call_find(rig.ctx[0], other->id), other);
	ck_assert_ptr_null(ripc__call_find(rig.ctx[0], other->id + 1));
	ripc__call_release(call);
	ripc__call_release(other);
	ripc__unlock(rig.ctx[0]);
	rig_end(&rig);
}
END_TEST

/* The ids of two contexts differ, so that an answer to a former one of a name matches no call. */
START_TEST(alloc__differs_between_contexts)
{
	uint64_t id[2];
	struct rig rig;

	rig_start(&rig, 2, NULL);
	for (unsigned i = 0; i < 2; i++) {
		struct ripc__call *call;

		ripc__lock(rig.ctx[i]);
		call = ripc__call_alloc(rig.ctx[i]);
		ck_assert_ptr_nonnull(call);
		id[i] = call->id;
		ripc__call_set_state(call, RIPC__CALL_IS_WAITING);
		ripc__call_release(call);
		ripc__unlock(rig.ctx[i]);
	}
	ck_assert_uint_ne(id[0], id[1]);
	rig_end(&rig);
}
END_TEST

/* An id is never 0, which no message may have. Numbers in it have 44 bits. */
START_TEST(alloc__never_0)
{
	struct rig rig;
	struct ripc__call *call;
	struct ripc *ctx;

	rig_start(&rig, 1, NULL);
	ctx = rig.ctx[0];
	ripc__lock(ctx);
	ctx->call_number = (UINT64_C(3) << (64 - RIPC__CALL_SLOT_BITS)) - 3;
	for (unsigned i = 0; i < 4; i++) {
		call = ripc__call_alloc(ctx);
		ck_assert_ptr_nonnull(call);
		ck_assert_uint_ne(call->id, 0);
		ripc__call_set_state(call, RIPC__CALL_IS_WAITING);
		ripc__call_release(call);
	}
	ripc__unlock(ctx);
	rig_end(&rig);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("core/call/table");
	TCase *tc = tcase_create("table");

	test_seed();
	tcase_add_test(tc, set_state__transitions);
	tcase_add_test(tc, find__only_by_its_id);
	tcase_add_test(tc, alloc__differs_between_contexts);
	tcase_add_test(tc, alloc__never_0);
	suite_add_tcase(suite, tc);
	return test_main("core/call/table", suite);
}
