/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The calling service or its context is closed, or its process dies, while calls are in flight. */
#include "core/call/caller.h"
#include "core/call/calls.h"

START_TEST(caller_died__cancelled)
{
	struct ripc_request *r;
	struct ripc_message *m;

	servers[0].keep = true;
	OK(start(RIG_ID(1), 1, 8, NULL, 20000, &r));
	await_kept(1);
	ripc__sim_kill_context(rig.net, rig.ctx[0], false);
	rig.ctx[0] = NULL;
	rig.s[0] = NULL;
	m = servers[0].kept[0];
	for (unsigned i = 0; i < 100 && !ripc_message_cancelled(m); i++)
		rig_run(&rig, 100);
	ck_assert_int_eq(ripc_message_cancelled(m), 1);
	RC(-ECANCELED, ripc_reply(m, &m->items[0], 1, 0));
}
END_TEST

/* Its service is closed: the calls end, and the callee sees it. */
START_TEST(caller_closed__cancelled)
{
	struct ripc_request *r;

	servers[0].keep = true;
	OK(start(RIG_ID(1), 1, 8, NULL, 20000, &r));
	await_kept(1);
	OK(ripc_service_unregister(rig.s[0]));
	RC(-ESHUTDOWN, result(&r, 1));
	rig_run(&rig, 5);
	ck_assert_int_eq(ripc_message_cancelled(servers[0].kept[0]), 1);
	OK(ripc_service_register(rig.ctx[0], RIG_ID(0), 0, &rig.s[0]));
}
END_TEST

/*
 * Its context is closed while a long request, or one with reply buffers, is in flight: nothing is
 * left of it, at no moment.
 */
START_TEST(caller_closed__long_request_in_flight)
{
	struct iovec buffer;
	const struct ripc_call_options options = {
		.size = sizeof(options), .nreply_buffers = 1, .reply_buffers = &buffer};

	for (unsigned i = 0; i < 20; i++) {
		unsigned k = rig_open(&rig, NULL);
		struct ripc_service *first = rig.s[0];
		struct ripc_request *r;

		buffer = (struct iovec){ripc_buf_alloc(rig.ctx[k], 1000), 1000};
		rig_connect(&rig, k, 1);
		rig.s[0] = rig.s[k];
		OK(start(RIG_ID(1), i, i & 2 ? 100000 : 8, i & 1 ? &options : NULL, 5000, &r));
		rig.s[0] = first;
		ripc__sim_run(rig.net, i * 10000);
		rig_close(&rig, k);
		rig.n--;
		rig_run(&rig, 50);
	}
	/* The peers that are gone are given up. */
	rig_run(&rig, 5000);
	ck_assert(ripc__list_empty(&rig.s[1]->rndvs_in));
	OK(call(21, 8, 5000));
}
END_TEST

/*
 * Its service is closed while a long request is on its way, at each moment: the call never ends
 * like one that the service has dropped.
 */
START_TEST(caller_closed__long_request)
{
	servers[0].keep = true;
	for (unsigned i = 0; i < 20; i++) {
		struct ripc_message *m = NULL;
		struct ripc_request *r;

		rig_connect(&rig, 0, 1);
		OK(start(RIG_ID(1), i, 100000, NULL, 5000, &r));
		ripc__sim_run(rig.net, i * 10000);
		OK(ripc_service_unregister(rig.s[0]));
		RC(-ESHUTDOWN, ripc_call_wait(&r, &m, -1));
		ck_assert_ptr_null(m);
		rig_run(&rig, 50);
		OK(ripc_service_register(rig.ctx[0], RIG_ID(0), 0, &rig.s[0]));
	}
}
END_TEST

/* Another context takes its service over: the call ends when the peer has left its memory. */
START_TEST(caller_moved__long_request)
{
	const struct ripc__call *call;
	struct ripc_service *next;
	struct ripc_request *r;
	unsigned k = rig_open(&rig, NULL);

	rig_connect(&rig, 0, 1);
	ripc__sim_hold(rig.net, rig_instance(&rig, 1), true);
	OK(start(RIG_ID(1), 1, 100000, NULL, 20000, &r));
	OK(ripc_service_register(rig.ctx[k], RIG_ID(0), RIPC_TAKEOVER, &next));
	rig_run(&rig, 20);
	call = rig.ctx[0]->call_table[0];
	ck_assert_int_eq(call->state, RIPC__CALL_IS_CANCELLING);
	ck_assert_uint_eq(rig.ctx[0]->long_inflight, 1);
	ripc__sim_hold(rig.net, rig_instance(&rig, 1), false);
	rig_run(&rig, 20);
	ck_assert_int_eq(call->state, RIPC__CALL_IS_DONE);
	ck_assert_uint_eq(rig.ctx[0]->long_inflight, 0);
	RC(-ESHUTDOWN, result(&r, 1));
}
END_TEST

static struct ripc__hooks hooks; /* those of the rig */
static unsigned idles;

/* Another thread begins to close the context while the call waits. */
static void idle_until_closing(void *arg, uint64_t until_ns)
{
	if (idles++ < 3)
		hooks.idle(arg, until_ns);
	else
		rig.ctx[0]->closing = true;
}

/* ripc_call() gives up its items and its reply buffers before it returns. */
START_TEST(context_closed__memory)
{
	static uint8_t data[MIB], answer[MIB];
	struct iovec item = {data, _i ? 8 : sizeof(data)}, buffer = {answer, sizeof(answer)};
	struct ripc_call_options o = {
		.size = sizeof(o), .reply_buffers = &buffer, .nreply_buffers = (unsigned)_i};
	struct ripc *ctx = rig.ctx[0];
	struct ripc_message *m;

	OK(ripc_buf_register(ctx, answer, sizeof(answer)));
	rig_connect(&rig, 0, 1);
	servers[0].keep = true;
	ripc__sim_hold(rig.net, rig_instance(&rig, 1), !_i);
	hooks = ctx->hooks;
	ctx->hooks.idle = idle_until_closing;
	RC(-ESHUTDOWN, ripc_call(rig.s[0], RIG_ID(1), &item, 1, &o, &m, 5000));
	ck_assert_ptr_null(m);
	ctx->hooks.idle = hooks.idle;
	ctx->closing = false;
	ripc__calls_free_ended(ctx);
	ck_assert(ripc__list_empty(&ctx->requests));
	ck_assert_uint_eq(rig.s[0]->nrequests, 0);
	ck_assert_int_eq(ctx->call_table[0]->state, RIPC__CALL_IS_FREE);
	OK(ripc_buf_unregister(ctx, answer));
	ripc__sim_hold(rig.net, rig_instance(&rig, 1), false);
	rig_run(&rig, 5000);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("core/call/caller_ends");
	TCase *tc = tcase_create("caller_ends");

	test_seed();
	tcase_set_timeout(tc, 120);
	tcase_add_checked_fixture(tc, calls_setup, calls_teardown);
	tcase_add_test(tc, caller_died__cancelled);
	tcase_add_test(tc, caller_closed__cancelled);
	tcase_add_test(tc, caller_closed__long_request_in_flight);
	tcase_add_test(tc, caller_closed__long_request);
	tcase_add_test(tc, caller_moved__long_request);
	tcase_add_loop_test(tc, context_closed__memory, 0, 2);
	suite_add_tcase(suite, tc);
	return test_main("core/call/caller_ends", suite);
}
