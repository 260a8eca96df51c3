/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Destinations: how often one is looked up, and when it is forgotten. */
#include "core/rig.h"
#include "core/watch/watch.h"
#include "resolver/core.h"
#include "transitions.h"

static struct rig rig;
static struct ripc *ctx;

/* ---- allocations that fail ---- */

static unsigned fail_calloc, fail_malloc; /* so many of the next ones fail */

void *__real_malloc(size_t len);
void *__real_calloc(size_t n, size_t len);
void *__wrap_malloc(size_t len);
void *__wrap_calloc(size_t n, size_t len);

void *__wrap_malloc(size_t len)
{
	return fail_malloc && fail_malloc-- ? NULL : __real_malloc(len);
}

void *__wrap_calloc(size_t n, size_t len)
{
	return fail_calloc && fail_calloc-- ? NULL : __real_calloc(n, len);
}

/* ---- states ---- */

#define TO(state) (1u << RIPC__DEST_##state)

static unsigned set_state(unsigned from, unsigned to)
{
	struct ripc__dest d = {.state = from};
	struct ripc__peer p;

	d.peer = to == RIPC__DEST_KNOWN ? &p : NULL;
	ripc__dest_set_state(&d, to);
	return d.state;
}

/* The peer is missing where it is needed, and is there where it is not. */
static unsigned set_state_wrong_peer(unsigned from, unsigned to)
{
	struct ripc__dest d = {.state = from};
	struct ripc__peer p;

	d.peer = to == RIPC__DEST_KNOWN ? NULL : &p;
	ripc__dest_set_state(&d, to);
	return d.state;
}

START_TEST(set_state__transitions)
{
	static const unsigned none[RIPC__DEST_STATES];
	static const unsigned allowed[RIPC__DEST_STATES] = {
		[RIPC__DEST_UNKNOWN] = TO(RESOLVING) | TO(KNOWN) | TO(FAILED),
		[RIPC__DEST_RESOLVING] = TO(UNKNOWN) | TO(KNOWN) | TO(FAILED),
		[RIPC__DEST_KNOWN] = TO(UNKNOWN) | TO(KNOWN) | TO(FAILED),
		[RIPC__DEST_FAILED] = TO(UNKNOWN) | TO(KNOWN) | TO(FAILED),
	};

	check_transitions(set_state, allowed);
	check_transitions(set_state_wrong_peer, none);
}
END_TEST

/* ---- destinations ---- */

START_TEST(sweep__keeps_dest_with_waiters)
{
	struct iovec item = {"x", 1};
	struct ripc_request *r;

	OK(ripc_send_async(rig.s[0], 4711, &item, 1, NULL, &r));
	rig_run(&rig, 3 * RIPC__IDLE_MS);
	ck_assert_ptr_nonnull(ripc__dest_find(ctx, 4711));
	RC(-ECANCELED, ripc_request_cancel(&r, 0));
	rig_run(&rig, 3 * RIPC__IDLE_MS);
	ck_assert_ptr_null(ripc__dest_find(ctx, 4711));
}
END_TEST

static uint64_t cancelled; /* the last look-up that was */

void __real_ripc__resolver_lookup_cancel(struct ripc__resolver *r, uint64_t service);
void __wrap_ripc__resolver_lookup_cancel(struct ripc__resolver *r, uint64_t service);

void __wrap_ripc__resolver_lookup_cancel(struct ripc__resolver *r, uint64_t service)
{
	cancelled = service;
	__real_ripc__resolver_lookup_cancel(r, service);
}

/* The look-up of a destination ends with it. */
START_TEST(sweep__cancels_lookup)
{
	struct iovec item = {"x", 1};
	struct ripc_request *r;

	for (unsigned i = 0; i < 2; i++) {
		cancelled = 0;
		OK(ripc_send_async(rig.s[0], 4711 + i, &item, 1, NULL, &r));
		/* The second one has failed. */
		if (i)
			while (ripc__dest_find(ctx, 4711 + i)->state != RIPC__DEST_FAILED)
				rig_run(&rig, 10);
		RC(-ECANCELED, ripc_request_cancel(&r, 0));
		ripc__lock(ctx);
		ripc__dest_sweep(ctx, 0);
		ripc__unlock(ctx);
		ck_assert_ptr_null(ripc__dest_find(ctx, 4711 + i));
		ck_assert_uint_eq(cancelled, 4711 + i);
	}
}
END_TEST

/*
 * A connected client that does nothing keeps the record of its server, and so learns of the next
 * holder at once.
 */
START_TEST(connected__record_is_refreshed)
{
	const struct ripc__record *record;
	struct ripc_service *s;
	unsigned third = rig_open(&rig, NULL);

	/* The server claims its services in turn: each one rarely. */
	for (unsigned i = 0; i < 40; i++)
		OK(ripc_service_register(rig.ctx[1], 5000 + i, 0, &s));
	rig_connect(&rig, 0, 1);
	for (unsigned i = 0; i < 5; i++) {
		rig_run(&rig, RIPC__TTL_MS);
		ck_assert_ptr_nonnull(ripc__resolver_peek(ctx->resolver, RIG_ID(1)));
		ck_assert_ptr_nonnull(rig_lane(&rig, 0, 1));
	}
	OK(ripc_service_register(rig.ctx[third], RIG_ID(1), RIPC_TAKEOVER, &s));
	rig_run(&rig, 10);
	record = ripc__resolver_peek(ctx->resolver, RIG_ID(1));
	ck_assert_ptr_nonnull(record);
	ck_assert_mem_eq(record->instance, rig.ctx[third]->instance, 16);
}
END_TEST

START_TEST(reach__resolver_backoff)
{
	struct iovec item = {"x", 1};
	struct ripc_request *r;
	struct ripc__dest *d;
	unsigned failures;

	OK(ripc_send_async(rig.s[0], 4711, &item, 1, NULL, &r));
	rig_run(&rig, 20000);
	d = ripc__dest_find(ctx, 4711);
	failures = d->failures;
	/* A look-up of a second, and a pause of up to a second. */
	ck_assert_uint_ge(failures, 5);
	ck_assert_uint_le(failures, 25);
	rig_run(&rig, 20000);
	ck_assert_uint_ge(d->failures - failures, 5);
	ck_assert_uint_le(d->failures - failures, 22);
	/* It is found soon after it has come. */
	{
		struct ripc_service *late;

		OK(ripc_service_register(rig.ctx[1], 4711, 0, &late));
		OK(ripc_request_wait(&r, 3000));
		ck_assert_uint_eq(d->failures, 0);
	}
}
END_TEST

START_TEST(reach__error_lists_attempts)
{
	RC(-EHOSTUNREACH, ripc_route_lookup(ctx, 4711, NULL, 3000));
	ck_assert(strstr(ripc_error_detail(), "4711") != NULL);
	RC(-EAGAIN, ripc_route_lookup(ctx, 4712, NULL, 0));
	RC(-EINVAL, ripc_route_lookup(ctx, 0, NULL, 0));
	RC(-EINVAL, ripc_route_lookup(ctx, RIPC_ANY_ID, NULL, 0));
}
END_TEST

/* Whether the look-up of d has failed for want of memory; nothing is left that fails. */
static void expect_out_of_memory(struct ripc__dest *d)
{
	ck_assert_uint_eq(fail_calloc + fail_malloc, 0);
	ck_assert_int_eq(d->state, RIPC__DEST_FAILED);
	ck_assert_ptr_null(d->peer);
	ck_assert_str_eq(d->why, "out of memory");
	/* Later there is memory. */
	rig_run(&rig, 100);
}

/* There is no memory for a destination, for its peer, or for the lists of that. */
START_TEST(reach__out_of_memory)
{
	struct ripc__dest *own = ripc__dest_get(ctx, RIG_ID(0));
	struct ripc__dest *other = ripc__dest_get(ctx, RIG_ID(1));

	fail_calloc = 1;
	RC(-ENOMEM, ripc_route_lookup(ctx, 4711, NULL, 1000));
	ck_assert_uint_eq(fail_calloc, 0);
	ck_assert_ptr_null(ripc__dest_find(ctx, 4711));
	for (unsigned i = 0; i < 2; i++) {
		fail_calloc = !i;
		fail_malloc = i;
		RC(-EAGAIN, ripc__dest_locate(ctx, own));
		expect_out_of_memory(own);
	}
	OK(ripc__dest_locate(ctx, own));
	ck_assert_mem_eq(own->peer->instance, ctx->instance, 16);
	for (unsigned i = 0; i < 2; i++) {
		struct ripc__record record = {.service = RIG_ID(1)};

		memcpy(record.instance, rig_instance(&rig, 1), 16);
		fail_calloc = !i;
		fail_malloc = i;
		ripc__dest_resolved(ctx, &record);
		expect_out_of_memory(other);
	}
	OK(rig_short(&rig, 0, 1, 10, 1, 1000));
	rig_expect(&rig, 1, 10, 1);
}
END_TEST

/* There is no memory for the look-up: the error names the service and this cause, once each. */
START_TEST(reach__no_memory_for_lookup)
{
	struct ripc__dest *d = ripc__dest_get(ctx, 4711);

	fail_calloc = 1;
	RC(-EAGAIN, ripc__dest_locate(ctx, d));
	ck_assert_uint_eq(fail_calloc, 0);
	RC(-EHOSTUNREACH, ripc__dest_unreachable(ctx, d));
	ck_assert_ptr_nonnull(
		strstr(ripc_error_detail(), "service 4711: no memory for a look-up; "));
	ck_assert_ptr_null(strstr(ripc_error_detail(), "service 4711: service 4711"));
}
END_TEST

/* There is no memory for the next holder: the former one is not used any more. */
START_TEST(resolved__no_memory_for_next_holder)
{
	struct ripc__record record = {.service = RIG_ID(1), .instance = {1, 2, 3}};
	struct ripc_route route = {.size = sizeof(route)};
	struct ripc__dest *d;

	rig_connect(&rig, 0, 1);
	d = rig_dest(&rig, 0, 1);
	ripc__lock(ctx);
	fail_calloc = 1;
	ripc__dest_resolved(ctx, &record);
	ripc__unlock(ctx);
	expect_out_of_memory(d);
	OK(ripc_route_get(ctx, RIG_ID(1), &route));
	ck_assert_uint_eq(route.connected, 0);
	ck_assert_str_eq(route.reason, "out of memory");
	rig_exchange(&rig, 0, 1);
}
END_TEST

/* The service moves from a peer into this context. */
START_TEST(resolved__holder_is_this_context)
{
	struct ripc__record record = {.service = RIG_ID(1)};
	struct ripc_route route = {.size = sizeof(route)};
	struct ripc__dest *d;

	rig_connect(&rig, 0, 1);
	d = rig_dest(&rig, 0, 1);
	memcpy(record.instance, ctx->instance, 16);
	ripc__lock(ctx);
	ripc__dest_resolved(ctx, &record);
	ck_assert_int_eq(d->state, RIPC__DEST_UNKNOWN);
	ripc__unlock(ctx);
	OK(ripc_route_get(ctx, RIG_ID(1), &route));
	ck_assert_uint_eq(route.connected, 0);
	/* A holder that is known already stays. */
	d = ripc__dest_get(ctx, RIG_ID(0));
	OK(ripc__dest_locate(ctx, d));
	record.service = RIG_ID(0);
	ripc__lock(ctx);
	ripc__dest_resolved(ctx, &record);
	ck_assert_int_eq(d->state, RIPC__DEST_KNOWN);
	ripc__unlock(ctx);
	rig_exchange(&rig, 0, 1);
}
END_TEST

/* An application thread connects and does not wait: the progress thread does the rest. */
START_TEST(reach__requests_progress)
{
	union ripc__progress_word ticking = {.state = {.thread = RIPC__THREAD_TICKING}};
	struct ripc__dest *d;

	rig_connect(&rig, 0, 1);
	ripc__sim_break(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1));
	rig_run(&rig, 1);
	d = rig_dest(&rig, 0, 1);
	ck_assert_int_eq(d->state, RIPC__DEST_KNOWN);
	ck_assert_ptr_null(d->peer->lane);
	ripc__lock(ctx);
	atomic_store(&ctx->progress.word, ticking.bits);
	ck_assert_int_eq(ripc__dest_reach(ctx, d), -EAGAIN);
	ck_assert(ripc__progress_is_requested(ripc__progress_state(&ctx->progress)));
	/* In virtual time there is no progress thread. */
	atomic_store(&ctx->progress.word, 0);
	ripc__unlock(ctx);
}
END_TEST

START_TEST(reach__own_services)
{
	struct ripc_service *own, *second;
	struct iovec item = {"x", 1};
	struct ripc_message *m;
	struct ripc_route route = {.size = sizeof(route)};

	OK(ripc_service_register(ctx, 77, 0, &own));
	OK(ripc_send_short(rig.s[0], 77, &item, 1, NULL, 1000));
	OK(ripc_receive(own, &m, 1000));
	ripc_message_free(m);
	OK(ripc_route_get(ctx, 77, &route));
	ck_assert_str_eq(route.transport, "self");
	/* Another one is reachable at once, over the same lane. */
	OK(ripc_service_register(ctx, 78, 0, &second));
	ripc__lock(ctx);
	ck_assert_int_eq(ripc__dest_reach(ctx, ripc__dest_get(ctx, 78)), 0);
	ripc__unlock(ctx);
	OK(ripc_send_short(own, 77, &item, 1, NULL, 1000));
	OK(ripc_receive(own, &m, 1000));
	ck_assert_uint_eq(m->source, 77);
	ripc_message_free(m);
	OK(ripc_service_unregister(own));
	/* The next one may be lost like any short message; then it is known. */
	ripc_send_short(rig.s[0], 77, &item, 1, NULL, 100);
	rig_run(&rig, 5);
	RC(-EHOSTUNREACH, ripc_send_short(rig.s[0], 77, &item, 1, NULL, 3000));
}
END_TEST

START_TEST(withdrawn__resolved_elsewhere)
{
	rig_exchange(&rig, 0, 1);
	OK(ripc_service_unregister(rig.s[1]));
	rig.n++;
	{
		struct ripc__hooks hooks;

		ripc__sim_hooks(rig.net, &hooks);
		OK(ripc__open_hooked(&rig.ctx[2], NULL, &hooks));
		OK(ripc__sim_attach(rig.net, rig.ctx[2]));
	}
	OK(ripc_service_register(rig.ctx[2], RIG_ID(1), 0, &rig.s[2]));
	OK(rig_short(&rig, 0, 1, 10, 1, 5000));
	rig_expect(&rig, 2, 10, 1);
	ck_assert_mem_eq(rig_dest(&rig, 0, 1)->peer->instance, rig.ctx[2]->instance, 16);
}
END_TEST

/*
 * A service was taken over, and its former holder answers messages that it had received. It is not
 * the holder again: the next message would be lost. Another peer may be.
 */
START_TEST(learn__not_from_former_holder)
{
	uint8_t holder[16];

	rig_exchange(&rig, 0, 1);
	memcpy(holder, rig.ctx[1]->instance, 16);
	ripc__lock(ctx);
	if (_i == 2)
		ripc__watch_ended(rig_lane(&rig, 0, 1), RIG_ID(1));
	else if (_i)
		ripc__dest_withdrawn(ctx, RIG_ID(1), holder);
	else
		ripc__dest_refused(ctx, RIG_ID(1), rig_peer(&rig, 0, 1));
	ripc__unlock(ctx);
	OK(rig_short(&rig, 1, 0, 10, 1, 1000));
	rig_expect(&rig, 0, 10, 1);
	ck_assert_int_eq(ripc__dest_find(ctx, RIG_ID(1))->state, RIPC__DEST_FAILED);
	/* A look-up finds it there: it holds the service again, and is learned as before. */
	OK(rig_short(&rig, 0, 1, 10, 2, 5000));
	rig_expect(&rig, 1, 10, 2);
	ripc__lock(ctx);
	ripc__dest_invalidate(ctx, ripc__dest_find(ctx, RIG_ID(1)), "no cause");
	ripc__unlock(ctx);
	OK(rig_short(&rig, 1, 0, 10, 3, 5000));
	rig_expect(&rig, 0, 10, 3);
	ck_assert_int_eq(ripc__dest_find(ctx, RIG_ID(1))->state, RIPC__DEST_KNOWN);
}
END_TEST

/* Only the end of the service at its holder makes it unknown. */
START_TEST(withdrawn__other_service_or_holder)
{
	static const uint8_t zeros[16];
	uint8_t other[16] = {1, 2, 3}, holder[16];
	struct ripc__dest *d, *unknown = ripc__dest_get(ctx, 4711);

	rig_connect(&rig, 0, 1);
	memcpy(holder, rig_instance(&rig, 1), 16);
	d = rig_dest(&rig, 0, 1);
	ripc__lock(ctx);
	ripc__dest_withdrawn(ctx, 4712, holder);
	ck_assert_ptr_null(ripc__dest_find(ctx, 4712));
	ripc__dest_withdrawn(ctx, 4711, holder);
	ck_assert_int_eq(unknown->state, RIPC__DEST_UNKNOWN);
	ripc__dest_withdrawn(ctx, RIG_ID(1), other);
	ck_assert_int_eq(d->state, RIPC__DEST_KNOWN);
	ck_assert_ptr_eq(d->peer, rig_peer(&rig, 0, 1));
	ck_assert_mem_eq(d->holder, holder, 16);
	ripc__dest_withdrawn(ctx, RIG_ID(1), holder);
	ck_assert_int_eq(d->state, RIPC__DEST_FAILED);
	ck_assert_ptr_null(d->peer);
	ck_assert_mem_eq(d->holder, zeros, 16);
	ck_assert_str_eq(d->why, "its holder gave it up");
	ripc__unlock(ctx);
	rig_run(&rig, 100);
	rig_exchange(&rig, 0, 1);
}
END_TEST

/* The answer "not found" counts only while the service is looked up. */
START_TEST(unresolved__only_while_resolving)
{
	struct ripc__dest *d, *unknown = ripc__dest_get(ctx, 4711);

	rig_connect(&rig, 0, 1);
	d = rig_dest(&rig, 0, 1);
	ripc__lock(ctx);
	ripc__dest_unresolved(ctx, 4712, "nobody");
	ck_assert_ptr_null(ripc__dest_find(ctx, 4712));
	ripc__dest_unresolved(ctx, 4711, "nobody");
	ck_assert_int_eq(unknown->state, RIPC__DEST_UNKNOWN);
	ripc__dest_unresolved(ctx, RIG_ID(1), "nobody");
	ck_assert_int_eq(d->state, RIPC__DEST_KNOWN);
	ck_assert_int_eq(ripc__dest_locate(ctx, unknown), -EAGAIN);
	ck_assert_int_eq(unknown->state, RIPC__DEST_RESOLVING);
	ripc__dest_unresolved(ctx, 4711, "nobody");
	ck_assert_int_eq(unknown->state, RIPC__DEST_FAILED);
	ck_assert_str_eq(unknown->why, "nobody");
	RC(-EHOSTUNREACH, ripc__dest_unreachable(ctx, unknown));
	ck_assert_ptr_nonnull(strstr(ripc_error_detail(), "service 4711: nobody"));
	ripc__unlock(ctx);
}
END_TEST

/*
 * The application does not ask for completions for long: SENDABLE is still there. _i: the holder is
 * known, without a lane, and there is no room for another peer.
 */
START_TEST(sweep__keeps_completion)
{
	struct ripc_completion c = {.size = sizeof(c)};
	uint64_t id = _i ? RIG_ID(1) : 4711;
	struct iovec item = {"x", 1};

	ck_assert_int_ge(ripc_completion_fd(ctx), 0);
	RC(-EAGAIN, ripc_send_short(rig.s[0], id, &item, 1, NULL, 0));
	rig_run(&rig, 10000);
	ck_assert(!ripc__list_empty(&ctx->completions));
	if (_i) {
		rig_fail_lane(&rig, 0, 1);
		rig_run(&rig, 100);
		ripc__lock(ctx);
		/* As one that connected by itself, from where the others come. */
		rig_peer(&rig, 0, 1)->addrs_len = 0;
		for (unsigned i = 0; i < RIPC__PEERS_MAX; i++) {
			uint8_t instance[16] = {(uint8_t)i, (uint8_t)(i >> 8), 1};

			ck_assert_ptr_nonnull(ripc__peer_get(ctx, instance));
		}
		ripc__unlock(ctx);
	} else {
		rig_run(&rig, 3 * RIPC__IDLE_MS);
	}
	OK(ripc_completion_next(ctx, &c, 0));
	ck_assert_uint_eq(c.kind, RIPC_COMPLETION_SENDABLE);
	ck_assert_uint_eq(c.dest, id);
	rig_run(&rig, 3 * RIPC__IDLE_MS);
	ck_assert_ptr_null(ripc__dest_find(ctx, id));
}
END_TEST

/*
 * A call returned -EAGAIN, and the application waits for completions: the destination is reported
 * once it can be reached, and a thread makes passes until then.
 */
START_TEST(want__requests_progress)
{
	struct ripc_completion c = {.size = sizeof(c)};
	struct ripc__dest *d = ripc__dest_get(ctx, RIG_ID(1));
	union ripc__progress_word ticking = {.state = {.thread = RIPC__THREAD_TICKING}};

	for (unsigned used = 0; used < 2; used++) {
		ripc__lock(ctx);
		atomic_store(&ctx->progress.word, ticking.bits);
		ripc__dest_want(ctx, d);
		ck_assert_int_eq(d->wanted, used);
		ck_assert_int_eq(ripc__progress_is_requested(ripc__progress_state(&ctx->progress)),
				 used);
		/* In virtual time there is no progress thread. */
		atomic_store(&ctx->progress.word, 0);
		ripc__unlock(ctx);
		/* From now on the application uses completions. */
		ck_assert_int_ge(ripc_completion_fd(ctx), 0);
	}
	ck_assert_int_eq(ripc__dest_reach(ctx, d), -EAGAIN);
	RC(-EAGAIN, ripc_completion_next(ctx, &c, 0));
	OK(ripc_completion_next(ctx, &c, 1000));
	ck_assert_uint_eq(c.kind, RIPC_COMPLETION_SENDABLE);
	ck_assert_uint_eq(c.dest, RIG_ID(1));
	ck_assert(!d->wanted);
	/* Wanted again, it is not reported for what was before. */
	ripc__lock(ctx);
	ripc__dest_want(ctx, d);
	ripc__dest_wake(ctx, d);
	ripc__dest_want(ctx, d);
	ck_assert(ripc__list_empty(&ctx->completions));
	ripc__unlock(ctx);
	OK(rig_short(&rig, 0, 1, 10, 1, 1000));
	rig_expect(&rig, 1, 10, 1);
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
	Suite *suite = suite_create("core/peer/dest");
	TCase *tc = tcase_create("dest");

	test_seed();
	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_set_timeout(tc, 120);
	tcase_add_test(tc, set_state__transitions);
	tcase_add_test(tc, sweep__keeps_dest_with_waiters);
	tcase_add_test(tc, sweep__cancels_lookup);
	tcase_add_test(tc, connected__record_is_refreshed);
	tcase_add_test(tc, reach__resolver_backoff);
	tcase_add_test(tc, reach__error_lists_attempts);
	tcase_add_test(tc, reach__out_of_memory);
	tcase_add_test(tc, reach__no_memory_for_lookup);
	tcase_add_test(tc, resolved__no_memory_for_next_holder);
	tcase_add_test(tc, resolved__holder_is_this_context);
	tcase_add_test(tc, reach__requests_progress);
	tcase_add_test(tc, reach__own_services);
	tcase_add_test(tc, withdrawn__resolved_elsewhere);
	tcase_add_loop_test(tc, learn__not_from_former_holder, 0, 3);
	tcase_add_test(tc, withdrawn__other_service_or_holder);
	tcase_add_test(tc, unresolved__only_while_resolving);
	tcase_add_test(tc, want__requests_progress);
	tcase_add_loop_test(tc, sweep__keeps_completion, 0, 2);
	suite_add_tcase(suite, tc);
	return test_main("core/peer/dest", suite);
}
