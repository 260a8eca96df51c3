/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Received messages: the location of their items, the memory they reference, and its release. */
#include "core/rig.h"
#include "transitions.h"

static struct rig rig;
static struct ripc *ctx;

#define TO(role) (1u << RIPC__CALL_##role)

static unsigned set_role(unsigned from, unsigned to)
{
	struct ripc__message m = {.call_role = (uint8_t)from};

	ripc__message_set_role(&m, to);
	return m.call_role;
}

START_TEST(set_role__transitions)
{
	static const unsigned allowed[RIPC__CALL_ROLES] = {
		[RIPC__CALL_NONE] = TO(NONE) | TO(REPLY) | TO(REQUEST_ARRIVING),
		[RIPC__CALL_REPLY] = TO(NONE),
		[RIPC__CALL_REQUEST_ARRIVING] = TO(NONE) | TO(REQUEST_QUEUED) | TO(REQUEST_TAKEN),
		[RIPC__CALL_REQUEST_QUEUED] = TO(NONE) | TO(REQUEST_TAKEN),
		[RIPC__CALL_REQUEST_TAKEN] = TO(NONE) | TO(REQUEST_ANSWERED),
		[RIPC__CALL_REQUEST_ANSWERED] = TO(NONE) | TO(REQUEST_TAKEN),
	};

	check_transitions(set_role, allowed);
}
END_TEST

START_TEST(new__room_for_every_number_of_items)
{
	for (unsigned n = 1; n <= RIPC_ITEMS_MAX; n++) {
		struct ripc__message *m = ripc__message_new(ctx, n);

		ck_assert_ptr_nonnull(m);
		ck_assert_uint_eq(m->pub.nitems, n);
		ck_assert((m->arrays != NULL) == (n > RIPC__MESSAGE_INLINE));
		for (unsigned i = 0; i < n; i++) {
			((struct iovec *)m->pub.items)[i] = (struct iovec){"x", i};
			((uint8_t *)m->pub.placement)[i] = (uint8_t)i;
			ck_assert_ptr_null(m->pool[i]);
		}
		for (unsigned i = 0; i < n; i++) {
			ck_assert_uint_eq(m->pub.items[i].iov_len, i);
			ck_assert_uint_eq(m->pub.placement[i], i);
		}
		ripc__message_release(m);
	}
}
END_TEST

START_TEST(new__from_the_cache)
{
	struct ripc__message *m = ripc__message_new(ctx, 10);

	ripc__message_release(m);
	ck_assert_uint_eq(ctx->message_cached, 1);
	ck_assert_ptr_eq(ripc__message_new(ctx, 1), m);
	ck_assert_uint_eq(ctx->message_cached, 0);
	/* Nothing of its former life is left. */
	ck_assert_ptr_null(m->arrays);
	ck_assert_ptr_null(m->token);
	ck_assert_ptr_null(m->flow);
	ripc__message_release(m);
}
END_TEST

START_TEST(drop__the_cache_is_bounded)
{
	enum { N = RIPC__MESSAGE_CACHE + 10 };
	static struct ripc__message *m[N];

	for (unsigned i = 0; i < N; i++)
		ck_assert_ptr_nonnull(m[i] = ripc__message_new(ctx, 1));
	for (unsigned i = 0; i < N; i++)
		ripc__message_release(m[i]);
	ck_assert_uint_eq(ctx->message_cached, RIPC__MESSAGE_CACHE);
}
END_TEST

static struct ripc_message *hand_out(void)
{
	struct ripc__message *m = ripc__message_new(ctx, 1);

	ck_assert_ptr_nonnull(m);
	ripc__message_hand_out(ctx, m);
	ck_assert(m->small);
	return &m->pub;
}

static unsigned small_count(void)
{
	unsigned n = 0;

	for (struct ripc__message *m = ctx->small_first; m; m = m->next)
		n++;
	return n;
}

/* Two structs take turns, whichever number of messages comes and goes. */
START_TEST(small__a_freed_struct_is_used_again)
{
	struct ripc_message *m[2] = {hand_out(), NULL};

	ripc_message_free(m[0]);
	m[1] = hand_out();
	ck_assert_ptr_ne(m[1], m[0]);
	ripc_message_free(m[1]);
	for (unsigned i = 0; i < 100; i++) {
		struct ripc_message *next = hand_out();

		ck_assert_ptr_eq(next, m[i % 2]);
		ripc_message_free(next);
		ck_assert_uint_le(small_count(), 2);
	}
}
END_TEST

START_TEST(small__one_in_use_is_left_alone)
{
	struct ripc_message *held[3] = {hand_out(), hand_out(), hand_out()};

	for (unsigned i = 0; i < 100; i++) {
		struct ripc_message *next = hand_out();

		for (unsigned k = 0; k < 3; k++) {
			ck_assert_ptr_ne(next, held[k]);
			ck_assert(!((struct ripc__message *)held[k])->freed);
		}
		ripc_message_free(next);
	}
	ck_assert_uint_le(small_count(), 2 * 4);
	for (unsigned k = 0; k < 3; k++)
		ripc_message_free(held[k]);
}
END_TEST

/* The struct of a message that was freed before is not taken back from the next one. */
START_TEST(small__one_used_again_is_left_alone)
{
	struct ripc_message *first = hand_out(), *second, *m;

	ripc_message_free(first);
	second = hand_out();
	ripc_message_free(second);
	m = hand_out();
	ck_assert(m == first || m == second);
	for (unsigned i = 0; i < 10; i++) {
		struct ripc_message *other = hand_out();

		ck_assert_ptr_ne(other, m);
		ripc_message_free(other);
	}
	ripc_message_free(m);
}
END_TEST

START_TEST(small__a_burst_goes_back_to_the_cache)
{
	struct ripc_message *m[1000];

	for (unsigned i = 0; i < 1000; i++)
		m[i] = hand_out();
	for (unsigned i = 0; i < 1000; i++)
		ripc_message_free(m[i]);
	for (unsigned i = 0; i < 1000; i++)
		ripc_message_free(hand_out());
	ck_assert_uint_le(small_count(), 2);
	ck_assert_uint_ge(ctx->message_cached, 998);
}
END_TEST

/* Gives a message to the application that was received into this room. */
static struct ripc_message *receive_into(struct ripc__message *m)
{
	ripc__message_room_take(ctx, m);
	ck_assert(!m->small);
	ck_assert(!m->freed);
	m->pub.nitems = 1;
	ripc__message_hand_out_small(ctx, m);
	return &m->pub;
}

/* One struct is enough for messages that come and go, and it goes out clean. */
START_TEST(room__of_the_freed_one)
{
	struct ripc_message *m = hand_out();
	unsigned cached = ctx->message_cached;

	for (unsigned i = 0; i < 100; i++) {
		struct ripc__message *freed = (struct ripc__message *)m;

		freed->pub.call = 1;
		ripc_message_free(m);
		ck_assert_ptr_eq(ripc__message_room(ctx), freed);
		/* It stays where it is until it is taken. */
		ck_assert_ptr_eq(ripc__message_room(ctx), freed);
		ck_assert_uint_eq(small_count(), 1);
		m = receive_into(freed);
		ck_assert_uint_eq(m->call, 0);
	}
	ck_assert_uint_eq(ctx->message_cached, cached);
	ripc_message_free(m);
}
END_TEST

/* While the application holds the oldest one, room is in the cache. */
START_TEST(room__not_in_use)
{
	struct ripc_message *held[2] = {hand_out(), NULL}, *m;
	struct ripc__message *room = ripc__message_room(ctx);

	ck_assert_ptr_ne(room, held[0]);
	ck_assert_ptr_eq(room, ctx->message_cache);
	held[1] = receive_into(room);
	for (unsigned i = 0; i < 100; i++) {
		room = ripc__message_room(ctx);
		m = receive_into(room);
		for (unsigned k = 0; k < 2; k++) {
			ck_assert_ptr_ne(m, held[k]);
			ck_assert(!((struct ripc__message *)held[k])->freed);
		}
		ripc_message_free(m);
	}
	ck_assert_uint_le(small_count(), 2 * 3);
	ripc_message_free(held[0]);
	ripc_message_free(held[1]);
}
END_TEST

/* The application frees a small message while another thread has the lock. */
START_TEST(small__freed_without_the_lock)
{
	struct ripc_message *m = hand_out();

	ripc__lock(ctx);
	ripc_message_free(m);
	ripc__unlock(ctx);
	ck_assert(((struct ripc__message *)m)->freed);
}
END_TEST

START_TEST(short__items_lie_in_the_receive_buffer)
{
	struct ripc__sim_counters counters;
	struct iovec items[3] = {{"abc", 3}, {NULL, 0}, {"defgh", 5}};
	struct ripc_message *m;

	OK(ripc_send_short(rig.s[1], RIG_ID(0), items, 3, NULL, 5000));
	m = rig_take(&rig, 0);
	ck_assert_uint_eq(m->is_long, 0);
	ck_assert_uint_eq(m->nitems, 3);
	ck_assert_uint_eq(m->source, RIG_ID(1));
	ck_assert_uint_eq(m->dest, RIG_ID(0));
	ck_assert_mem_eq(m->instance, rig_instance(&rig, 1), 16);
	for (unsigned i = 0; i < 3; i++) {
		ck_assert_int_eq(m->placement[i], RIPC_IN_RECEIVE_BUFFER);
		ck_assert_uint_eq(m->items[i].iov_len, items[i].iov_len);
	}
	ck_assert_mem_eq(m->items[0].iov_base, "abc", 3);
	ck_assert_mem_eq(m->items[2].iov_base, "defgh", 5);
	/* The buffers of the lane's set-up have been freed. */
	rig_run(&rig, 100);
	/* Zero copy: it has hold of the transport's memory until it is freed. */
	ripc__sim_counters(rig.net, &counters);
	ck_assert_uint_eq(counters.packets, 1);
	ripc_message_free(m);
	ripc__sim_counters(rig.net, &counters);
	ck_assert_uint_eq(counters.packets, 0);
}
END_TEST

/* recv_depth is 64: half of the buffers may be held, then messages are copied. */
START_TEST(short__copied_when_half_of_the_buffers_are_held)
{
	struct ripc__sim_counters counters;
	struct ripc_message *m[60];

	for (unsigned i = 0; i < 60; i++) {
		OK(rig_short(&rig, 1, 0, 100, i, 5000));
		m[i] = rig_take(&rig, 0);
	}
	ripc__sim_counters(rig.net, &counters);
	ck_assert_uint_eq(counters.packets, 32);
	ck_assert_uint_eq(rig_lane(&rig, 0, 1)->rx_held, 32);
	for (unsigned i = 0; i < 60; i++) {
		rig_verify(m[i]->items[0].iov_base, 100, i);
		ripc_message_free(m[i]);
	}
	ck_assert_uint_eq(rig_lane(&rig, 0, 1)->rx_held, 0);
}
END_TEST

/* Units come back when a message is received, not when it is freed. */
START_TEST(credit__given_back_when_received)
{
	struct ripc_message *m, *held[200];
	struct ripc__flow *flow;
	unsigned n = 0;

	OK(rig_short(&rig, 1, 0, 100, 0, 5000));
	rig_run(&rig, 1);
	flow = (struct ripc__flow *)rig_lane(&rig, 0, 1)->flows.only;
	ck_assert_ptr_nonnull(flow);
	ck_assert_uint_eq(flow->arrived_units, 3); /* 32 + 4 + 100 bytes */
	ck_assert_uint_eq(flow->consumed_units, 0);
	m = rig_take(&rig, 0);
	ck_assert_uint_eq(flow->consumed_units, 3);
	ripc_message_free(m);
	ck_assert_uint_eq(flow->consumed_units, 3);
	while (n < 200) {
		OK(rig_short(&rig, 1, 0, 7000, n, 5000));
		held[n++] = rig_take(&rig, 0);
	}
	while (n)
		ripc_message_free(held[--n]);
}
END_TEST

START_TEST(free__null)
{
	ripc_message_free(NULL);
}
END_TEST

/* A message outlives its lane, its peer and its service. */
START_TEST(free__after_everything_else)
{
	struct ripc_message *m[4];

	OK(rig_short(&rig, 1, 0, 100, 1, 5000));
	m[0] = rig_take(&rig, 0);
	OK(rig_long(&rig, 1, 0, 50000, 2, 5000));
	m[1] = rig_take(&rig, 0);
	OK(rig_short(&rig, 1, 0, 100, 3, 5000));
	OK(rig_long(&rig, 1, 0, 50000, 4, 5000));
	rig_close(&rig, 1);
	rig_run(&rig, 5);
	ck_assert_uint_eq(ctx->stats.lanes, 0);
	/* Messages received completely are delivered. */
	m[2] = rig_take(&rig, 0);
	m[3] = rig_take(&rig, 0);
	OK(ripc_service_unregister(rig.s[0]));
	for (unsigned i = 0; i < 4; i++) {
		rig_verify(m[i]->items[0].iov_base, m[i]->items[0].iov_len, i + 1);
		ripc_message_free(m[i]);
	}
}
END_TEST

START_TEST(take__an_item_in_the_pool)
{
	struct ripc_message *m;
	uint8_t *kept;

	OK(rig_long(&rig, 1, 0, 50000, 6, 5000));
	m = rig_take(&rig, 0);
	ck_assert_int_eq(m->placement[0], RIPC_IN_POOL);
	ck_assert_uint_eq((uintptr_t)m->items[0].iov_base % 64, 0);
	kept = ripc_message_detach(m, 0);
	ck_assert_ptr_eq(kept, m->items[0].iov_base);
	/* Only once. */
	errno = 0;
	ck_assert_ptr_null(ripc_message_detach(m, 0));
	ck_assert_int_eq(errno, EINVAL);
	ripc_message_free(m);
	rig_verify(kept, 50000, 6);
	kept = ripc_buf_realloc(ctx, kept, 60000);
	rig_verify(kept, 50000, 6);
	OK(ripc_buf_free(ctx, kept));
}
END_TEST

START_TEST(take__refused)
{
	struct ripc_message *m;
	uint8_t *window = ripc_buf_alloc(ctx, 5000);

	errno = 0;
	ck_assert_ptr_null(ripc_message_detach(NULL, 0));
	ck_assert_int_eq(errno, EINVAL);
	OK(rig_short(&rig, 1, 0, 100, 1, 5000));
	m = rig_take(&rig, 0);
	errno = 0;
	ck_assert_ptr_null(ripc_message_detach(m, 0));
	ck_assert_int_eq(errno, EINVAL);
	ripc_message_free(m);
	OK(ripc_window_add(ctx, NULL, window, 5000));
	OK(rig_long(&rig, 1, 0, 5000, 2, 5000));
	m = rig_take(&rig, 0);
	ck_assert_ptr_null(ripc_message_detach(m, 0));
	ck_assert(strstr(ripc_error_detail(), "not in a buffer of the pool") != NULL);
	ck_assert_ptr_null(ripc_message_detach(m, 1));
	ck_assert(strstr(ripc_error_detail(), "item 1 of a message that has 1") != NULL);
	ck_assert_ptr_null(ripc_message_detach(m, UINT32_MAX));
	ripc_message_free(m);
	OK(ripc_buf_free(ctx, window));
}
END_TEST

START_TEST(take__an_empty_item)
{
	struct iovec items[2] = {{NULL, 0}, {"abc", 3}};
	struct ripc_message *m;

	OK(ripc_send_long(rig.s[1], RIG_ID(0), items, 2, NULL, 5000));
	m = rig_take(&rig, 0);
	ck_assert_uint_eq(m->items[0].iov_len, 0);
	ck_assert_ptr_null(ripc_message_detach(m, 0));
	ck_assert_mem_eq(m->items[1].iov_base, "abc", 3);
	ripc_message_free(m);
}
END_TEST

/* A transport that takes its memory back with the next round of progress. */
static void transient(struct ripc__sim_config *config)
{
	config->transient = 1.0;
	config->recv_depth = 0;
}

START_TEST(short__copied_where_the_transport_keeps_nothing)
{
	struct ripc_message *m[50];

	rig_end(&rig);
	rig_start(&rig, 2, transient);
	for (unsigned i = 0; i < 50; i++) {
		OK(rig_short(&rig, 1, 0, i * 10, i, 5000));
		m[i] = rig_take(&rig, 0);
	}
	for (unsigned i = 0; i < 50; i++) {
		rig_verify(m[i]->items[0].iov_base, i * 10, i);
		ripc_message_free(m[i]);
	}
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
	Suite *suite = suite_create("core/memory/message");
	TCase *tc = tcase_create("message");

	test_seed();
	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, set_role__transitions);
	tcase_add_test(tc, new__room_for_every_number_of_items);
	tcase_add_test(tc, new__from_the_cache);
	tcase_add_test(tc, drop__the_cache_is_bounded);
	tcase_add_test(tc, small__a_freed_struct_is_used_again);
	tcase_add_test(tc, small__one_in_use_is_left_alone);
	tcase_add_test(tc, small__one_used_again_is_left_alone);
	tcase_add_test(tc, small__a_burst_goes_back_to_the_cache);
	tcase_add_test(tc, room__of_the_freed_one);
	tcase_add_test(tc, room__not_in_use);
	tcase_add_test(tc, small__freed_without_the_lock);
	tcase_add_test(tc, short__items_lie_in_the_receive_buffer);
	tcase_add_test(tc, short__copied_when_half_of_the_buffers_are_held);
	tcase_add_test(tc, short__copied_where_the_transport_keeps_nothing);
	tcase_add_test(tc, credit__given_back_when_received);
	tcase_add_test(tc, free__null);
	tcase_add_test(tc, free__after_everything_else);
	tcase_add_test(tc, take__an_item_in_the_pool);
	tcase_add_test(tc, take__refused);
	tcase_add_test(tc, take__an_empty_item);
	suite_add_tcase(suite, tc);
	return test_main("core/memory/message", suite);
}
