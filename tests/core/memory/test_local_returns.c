/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Return buffers: offered, written by the peer, withdrawn, and what a freed one still sees. */
#include "core/memory/return_buffers.h"

static unsigned returns_count(void)
{
	struct ripc__dest *d = rig_dest(&rig, 1, 0);

	return d ? d->nremote_returns : 0;
}

START_TEST(local_return_new__unique_ids)
{
	enum { N = 1000 };
	struct ripc__local_return *r[N];

	for (unsigned i = 0; i < N; i++) {
		r[i] = ripc__local_return_new(ctx, rig.s[0], buf + i * 10, 10);
		ck_assert_ptr_nonnull(r[i]);
		ck_assert_uint_ne(r[i]->id, 0);
	}
	for (unsigned i = 0; i < N; i++)
		ck_assert_ptr_eq(ripc__local_return_find(ctx, r[i]->id), r[i]);
	/* Every other one goes, new ones come. */
	for (unsigned i = 0; i < N; i += 2) {
		uint64_t id = r[i]->id;

		ripc__local_return_drop(ctx, r[i]);
		ck_assert_ptr_null(ripc__local_return_find(ctx, id));
		r[i] = ripc__local_return_new(ctx, rig.s[0], buf + i * 10, 10);
	}
	for (unsigned i = 0; i < N; i++)
		ck_assert_ptr_eq(ripc__local_return_find(ctx, r[i]->id), r[i]);
	for (unsigned i = 0; i < N; i++)
		ripc__local_return_drop(ctx, r[i]);
	ck_assert_uint_eq(ctx->memory->return_ids.count, 0);
	ck_assert_uint_eq(ripc__memory_find(ctx, buf, 1)->pins, 0);
}
END_TEST

START_TEST(local_return_new__ids_skip_0)
{
	struct ripc__local_return *r;

	ctx->memory->next_return_id = UINT32_MAX - 1;
	r = ripc__local_return_new(ctx, rig.s[0], buf, 10);
	ck_assert_uint_eq(r->id, UINT32_MAX);
	ripc__local_return_drop(ctx, r);
	r = ripc__local_return_new(ctx, rig.s[0], buf, 10);
	ck_assert_uint_eq(r->id, 1);
	ck_assert_ptr_null(ripc__local_return_find(ctx, 0));
	ck_assert_ptr_null(ripc__local_return_find(ctx, UINT64_C(1) << 32 | 1));
	ripc__local_return_drop(ctx, r);
}
END_TEST

START_TEST(local_return_new__refused)
{
	static uint8_t foreign[10];

	ck_assert_ptr_null(ripc__local_return_new(ctx, rig.s[0], foreign, 10));
	ck_assert_int_eq(errno, EINVAL);
	ck_assert_ptr_null(ripc__local_return_new(ctx, rig.s[0], buf, 0));
	ck_assert_int_eq(errno, EINVAL);
	ck_assert_ptr_null(ripc__local_return_new(ctx, rig.s[0], buf, 65537));
	ck_assert_int_eq(errno, EINVAL);
	OK(ripc_window_add(ctx, NULL, buf, 10));
	ck_assert_ptr_null(ripc__local_return_new(ctx, rig.s[0], buf + 5, 10));
	ck_assert_int_eq(errno, EBUSY);
	/* The length that was asked for counts, not the size of the buffer's class. */
	buf = ripc_buf_alloc(ctx, 1000);
	ck_assert_ptr_null(ripc__local_return_new(ctx, rig.s[0], buf, 1001));
	ck_assert_int_eq(errno, EINVAL);
}
END_TEST

START_TEST(local_returns_add__all_or_none)
{
	struct iovec item = {"x", 1}, back[3] = {{buf, 10}, {buf + 10, 10}, {buf + 15, 10}};
	struct ripc_send_options options = {
		.size = sizeof(options), .nreturn_buffers = 3, .return_buffers = back};

	RC(-EBUSY, ripc_send_short(rig.s[0], RIG_ID(1), &item, 1, &options, 5000));
	ck_assert_uint_eq(ctx->memory->return_ids.count, 0);
	back[2].iov_base = &item;
	RC(-EINVAL, ripc_send_short(rig.s[0], RIG_ID(1), &item, 1, &options, 5000));
	ck_assert_uint_eq(ctx->memory->return_ids.count, 0);
	options.nreturn_buffers = RIPC_RETURN_BUFFERS_MAX + 1;
	RC(-EINVAL, ripc_send_short(rig.s[0], RIG_ID(1), &item, 1, &options, 5000));
	/* A message that does not leave offers nothing. */
	options.nreturn_buffers = 2;
	RC(-EHOSTUNREACH, ripc_send_short(rig.s[0], 4711, &item, 1, &options, 100));
	ck_assert_uint_eq(ctx->memory->return_ids.count, 0);
	OK(ripc_buf_free(ctx, buf));
}
END_TEST

START_TEST(returns__next_fit_written)
{
	uint32_t sent;

	for (uint64_t k = 1; k <= 2; k++) {
		send_with_return(1000);
		/* Too long for it. */
		OK(rig_long(&rig, 1, 0, 20000, 1, 5000));
		ck_assert_int_eq(rig_expect(&rig, 0, 20000, 1), RIPC_IN_POOL);
		sent = rig_lane(&rig, 1, 0)->tx_seq;
		OK(rig_long(&rig, 1, 0, 1000, 2, 5000));
		ck_assert_int_eq(rig_expect(&rig, 0, 1000, 2), RIPC_IN_RETURN_BUFFER);
		rig_verify(buf, 1000, 2);
		rig_run(&rig, 5);
		ck_assert_uint_eq(rig_lane(&rig, 1, 0)->tx_seq, sent + 1);
		ck_assert_uint_eq(rig_stats(&rig, 1).return_buffer_writes, k);
		ck_assert_uint_eq(ctx->memory->return_ids.count, 0);
		ck_assert_uint_eq(returns_count(), 0);
		/* It is the application's again, and may be offered again. */
		OK(rig_long(&rig, 1, 0, 1000, 3, 5000));
		ck_assert_int_eq(rig_expect(&rig, 0, 1000, 3), RIPC_IN_POOL);
	}
	OK(ripc_buf_free(ctx, buf));
}
END_TEST

START_TEST(returns__written_before_message)
{
	send_with_return(64 * KIB);
	OK(rig_long(&rig, 1, 0, 64 * KIB, 7, 5000));
	ck_assert_int_eq(rig_expect(&rig, 0, 64 * KIB, 7), RIPC_IN_RETURN_BUFFER);
	rig_verify(buf, 64 * KIB, 7);
}
END_TEST

/* A context's lane to itself has two ends: buffers announced over one end return over the other. */
START_TEST(returns__same_context)
{
	struct ripc_service *owner, *writer;
	struct iovec item = {"x", 1}, back, large;
	struct ripc_send_options options = {
		.size = sizeof(options), .nreturn_buffers = 1, .return_buffers = &back};
	struct ripc_message *m;
	struct ripc_stats stats = {.size = sizeof(stats)};
	struct ripc *one;

	OK(ripc_open(&one, "resolver=local"));
	OK(ripc_service_register(one, RIPC_ANY_ID, 0, &owner));
	OK(ripc_service_register(one, RIPC_ANY_ID, 0, &writer));
	back = (struct iovec){ripc_buf_alloc(one, 100000), 100000};
	large = (struct iovec){ripc_buf_alloc(one, 100000), 100000};
	memset(large.iov_base, 7, 100000);
	for (unsigned i = 0; i < 2; i++) {
		OK(ripc_send_short(owner, ripc_service_id(writer), &item, 1, &options, 5000));
		OK(ripc_receive(writer, &m, 5000));
		ck_assert_uint_eq(m->nreturn_buffers, 1);
		ripc_message_free(m);
		/* Used, and taken back. */
		if (i) {
			ck_assert_int_eq(ripc_buf_free(one, back.iov_base), 0);
			continue;
		}
		OK(ripc_send_long(writer, ripc_service_id(owner), &large, 1, NULL, 5000));
		OK(ripc_receive(owner, &m, 5000));
		ck_assert_int_eq(m->placement[0], RIPC_IN_RETURN_BUFFER);
		ck_assert_ptr_eq(m->items[0].iov_base, back.iov_base);
		ck_assert_int_eq(memcmp(back.iov_base, large.iov_base, 100000), 0);
		ripc_message_free(m);
	}
	OK(ripc_context_stats(one, &stats));
	ck_assert_uint_eq(stats.bad_messages, 0);
	ck_assert_uint_eq(stats.lanes_lost, 0);
	OK(ripc_close(one));
}
END_TEST

START_TEST(revoke__peer_replies)
{
	send_with_return(1000);
	ck_assert_uint_eq(returns_count(), 1);
	ck_assert_ptr_nonnull(first_local_return()->lane);
	OK(ripc_buf_free(ctx, buf));
	/* The peer could still write into it. */
	ck_assert(first_local_return()->revoking);
	ck_assert_int_eq(ripc__memory_find(ctx, buf, 1)->state, RIPC__REGION_FREED);
	RC(-EINVAL, ripc_buf_free(ctx, buf));
	rig_run(&rig, 5);
	ck_assert_ptr_null(first_local_return());
	ck_assert_uint_eq(returns_count(), 0);
	ck_assert_int_eq(ripc__memory_find(ctx, buf, 1)->state, RIPC__REGION_FREE);
	rig_exchange(&rig, 0, 1);
}
END_TEST

/* REVOKED counts from the peer that has the buffer alone, and as the answer to REVOKE. */
START_TEST(revoked__unasked)
{
	const unsigned third = rig_open(&rig, NULL);
	uint8_t message[RIPC__CONTROL_MAX];
	struct ripc__local_return *r;
	size_t len;

	rig_connect(&rig, third, 0);
	send_with_return(1000);
	r = first_local_return();
	len = ripc__control_put(message, RIPC__REVOKED, 0, 0, r->id, 0);
	rig_inject(&rig, 1, 0, message, len, 0);
	rig_run(&rig, 5);
	ck_assert_ptr_eq(first_local_return(), r);

	OK(ripc__sim_hold(rig.net, rig_instance(&rig, 1), true));
	OK(ripc_buf_free(ctx, buf));
	rig_inject(&rig, third, 0, message, len, 0);
	rig_run(&rig, 5);
	ck_assert_ptr_eq(first_local_return(), r);
	OK(ripc__sim_hold(rig.net, rig_instance(&rig, 1), false));
	rig_run(&rig, 5);
	ck_assert_ptr_null(first_local_return());
}
END_TEST

START_TEST(revoke__idempotent)
{
	send_with_return(1000);
	ripc__local_return_revoke(ctx, first_local_return());
	ripc__local_return_revoke(ctx, first_local_return());
	ck_assert_uint_eq(ctx->memory->return_ids.count, 1);
	rig_run(&rig, 5);
	ck_assert_uint_eq(ctx->memory->return_ids.count, 0);
}
END_TEST

START_TEST(revoke__registered_memory)
{
	static uint8_t foreign[1000];

	OK(ripc_buf_free(ctx, buf));
	buf = foreign;
	OK(ripc_buf_register(ctx, foreign, sizeof(foreign)));
	send_with_return(sizeof(foreign));
	/* The peer could still write into it. */
	RC(-EBUSY, ripc_buf_unregister(ctx, foreign));
	RC(-EBUSY, ripc_buf_unregister(ctx, foreign));
	rig_run(&rig, 5);
	ck_assert_uint_eq(returns_count(), 0);
	OK(ripc_buf_unregister(ctx, foreign));
	OK(rig_long(&rig, 1, 0, 1000, 2, 5000));
	ck_assert_int_eq(rig_expect(&rig, 0, 1000, 2), RIPC_IN_POOL);
}
END_TEST

START_TEST(revoke__used_message_copied)
{
	struct ripc_request *r;
	uint8_t data[1000];

	send_with_return(1000);
	rig_fill(data, sizeof(data), 4);
	/* On its way, inline, when the buffer is freed. */
	r = rig_begin(&rig, 1, 0, data, sizeof(data));
	OK(ripc_buf_free(ctx, buf));
	ck_assert_int_eq(ripc__memory_find(ctx, buf, 1)->state, RIPC__REGION_FREED);
	OK(ripc_request_wait(&r, 5000));
	ck_assert_int_eq(rig_expect(&rig, 0, 1000, 4), RIPC_IN_POOL);
	rig_run(&rig, 5);
	ck_assert_uint_eq(ctx->memory->return_ids.count, 0);
	ck_assert_int_eq(ripc__memory_find(ctx, buf, 1)->state, RIPC__REGION_FREE);
}
END_TEST

static void slow(struct ripc__sim_config *config)
{
	config->bandwidth = 50 * 1000 * 1000;
}

/* The same with one that is being written. */
START_TEST(revoke__waits_for_writes)
{
	struct ripc_request *r;
	uint8_t *data = malloc(64 * KIB);

	restart(slow, 64 * KIB);
	send_with_return(64 * KIB);
	rig_fill(data, 64 * KIB, 5);
	r = rig_begin(&rig, 1, 0, data, 64 * KIB);
	OK(ripc_buf_free(ctx, buf));
	rig_run(&rig, 1);
	ck_assert_uint_eq(ctx->memory->return_ids.count, 1);
	ck_assert_int_eq(ripc__memory_find(ctx, buf, 1)->state, RIPC__REGION_FREED);
	OK(ripc_request_wait(&r, 5000));
	ck_assert_int_eq(rig_expect(&rig, 0, 64 * KIB, 5), RIPC_IN_POOL);
	rig_run(&rig, 5);
	ck_assert_uint_eq(ctx->memory->return_ids.count, 0);
	ck_assert_int_eq(ripc__memory_find(ctx, buf, 1)->state, RIPC__REGION_FREE);
	free(data);
}
END_TEST

START_TEST(revoke__service_closed)
{
	send_with_return(1000);
	OK(ripc_service_unregister(rig.s[0]));
	ck_assert_uint_eq(ctx->memory->return_ids.count, 0);
	OK(ripc_buf_free(ctx, buf));
	ck_assert_int_eq(ripc__memory_find(ctx, buf, 1)->state, RIPC__REGION_FREE);
}
END_TEST

/* The peer does not answer: its lane is closed, and then nobody can write. */
START_TEST(revoke__closed_peer_silent)
{
	send_with_return(1000);
	ripc__sim_hold(rig.net, rig_instance(&rig, 1), true);
	OK(ripc_service_unregister(rig.s[0]));
	ck_assert_uint_eq(ctx->memory->return_ids.count, 0);
	ck_assert_ptr_null(rig_lane(&rig, 0, 1));
	ripc__sim_hold(rig.net, rig_instance(&rig, 1), false);
}
END_TEST

START_TEST(lane_gone__returns_not_writable)
{
	send_with_return(1000);
	ripc__sim_break(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1));
	rig_run(&rig, 5);
	ck_assert_ptr_nonnull(first_local_return());
	ck_assert_ptr_null(first_local_return()->lane);
	ck_assert_uint_eq(returns_count(), 0);
	/* Over the next lane it is read into. */
	OK(rig_long(&rig, 1, 0, 20000, 1, 5000));
	ck_assert_int_eq(rig_expect(&rig, 0, 20000, 1), RIPC_IN_POOL);
	OK(ripc_buf_free(ctx, buf));
	ck_assert_ptr_null(first_local_return());
}
END_TEST

START_TEST(lane_gone__ends_revoke)
{
	send_with_return(1000);
	ripc__sim_hold(rig.net, rig_instance(&rig, 1), true);
	OK(ripc_buf_free(ctx, buf));
	rig_run(&rig, 5);
	ck_assert_ptr_nonnull(first_local_return());
	ripc__sim_break(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1));
	rig_run(&rig, 5);
	ck_assert_ptr_null(first_local_return());
	ck_assert_int_eq(ripc__memory_find(ctx, buf, 1)->state, RIPC__REGION_FREE);
	ripc__sim_hold(rig.net, rig_instance(&rig, 1), false);
}
END_TEST

START_TEST(lane_gone__revoke_finds_silence)
{
	send_with_return(1000);
	rig_run(&rig, 100);
	ripc__sim_kill_context(rig.net, rig.ctx[1], true);
	rig.ctx[1] = NULL;
	OK(ripc_buf_free(ctx, buf));
	rig_run(&rig, 2500);
	ck_assert_ptr_null(first_local_return());
	ck_assert_int_eq(ripc__memory_find(ctx, buf, 1)->state, RIPC__REGION_FREE);
}
END_TEST

START_TEST(peer_gone__return_buffer_freed)
{
	struct iovec item = {"x", 1};

	send_with_return(1000);
	ripc__sim_kill_context(rig.net, rig.ctx[1], false);
	rig.ctx[1] = NULL;
	rig_run(&rig, 5);
	RC(-EHOSTUNREACH, ripc_send_short(rig.s[0], RIG_ID(1), &item, 1, NULL, 3000));
	ck_assert_ptr_nonnull(first_local_return());
	ck_assert_ptr_null(first_local_return()->peer);
	OK(ripc_buf_free(ctx, buf));
	ck_assert_ptr_null(first_local_return());
}
END_TEST

/*
 * Context 0 begins a long message that offers buf. It waits at the receiver until an earlier one,
 * of the same length, is received.
 */
static struct ripc_request *begin_with_return(uint8_t *data, size_t len)
{
	struct iovec item = {data, len}, back = {buf, 1000};
	struct ripc_send_options options = {
		.size = sizeof(options), .nreturn_buffers = 1, .return_buffers = &back};
	struct ripc_request *r;

	OK(ripc_send_async(rig.s[0], RIG_ID(1), &item, 1, &options, &r));
	rig_run(&rig, 500);
	ck_assert_int_eq(r->state, RIPC__REQUEST_SENT);
	ck_assert_ptr_nonnull(first_local_return());
	return r;
}

/* A message that failed offers nothing: the caller may repeat it with the same buffers. */
START_TEST(send_fails__return_buffers_withdrawn)
{
	const size_t len = (size_t)40 * 1024 * KIB;
	uint8_t *data = calloc(1, len);
	struct ripc_request *first, *r;

	first = rig_begin(&rig, 0, 1, data, len);
	for (unsigned i = 0; i < 2; i++) {
		r = begin_with_return(data, len);
		RC(-ECANCELED, ripc_request_cancel(&r, 5000));
		rig_run(&rig, 5);
		ck_assert_uint_eq(ctx->memory->return_ids.count, 0);
		ck_assert_uint_eq(returns_count(), 0);
	}
	OK(ripc_request_wait(&first, 5000));
	/* Whether it was delivered is not known. */
	r = begin_with_return(data, len);
	ripc__sim_hold(rig.net, rig_instance(&rig, 1), true);
	RC(-EPIPE, ripc_request_cancel(&r, 50));
	ck_assert_uint_eq(ctx->memory->return_ids.count, 0);
	ripc__sim_hold(rig.net, rig_instance(&rig, 1), false);
	free(data);
}
END_TEST

START_TEST(claim__other_service_or_peer)
{
	struct ripc__local_return *r;
	struct ripc_service *other;
	struct ripc__peer *p;

	rig_connect(&rig, 0, 1);
	p = rig_peer(&rig, 0, 1);
	OK(ripc_service_register(ctx, 77, 0, &other));
	r = ripc__local_return_new(ctx, rig.s[0], buf, 100);
	ck_assert_ptr_null(ripc__local_return_claim(ctx, rig.s[0], p, 0, 10));
	r->peer = p;
	ck_assert_ptr_null(ripc__local_return_claim(ctx, rig.s[0], p, 0, 101));
	ck_assert_ptr_null(ripc__local_return_claim(ctx, other, p, 0, 10));
	ck_assert_ptr_null(ripc__local_return_claim(ctx, rig.s[0], p, 7, 10));
	ck_assert_ptr_eq(ripc__local_return_claim(ctx, rig.s[0], p, 0, 100), r);
	ck_assert_ptr_null(ripc__local_return_claim(ctx, rig.s[0], p, 0, 100));
	r->arriving = false;
	ripc__local_return_drop(ctx, r);
}
END_TEST

START_TEST(returns_encode__skips_freed)
{
	struct iovec item, back = {buf, 1000};
	struct ripc_send_options options = {
		.size = sizeof(options), .nreturn_buffers = 1, .return_buffers = &back};
	struct ripc_request *r;
	struct ripc_message *m;
	uint8_t data[100] = {0};

	/* Its destination comes later than the buffer goes. */
	item = (struct iovec){data, sizeof(data)};
	OK(ripc_send_async(rig.s[0], RIG_ID(2), &item, 1, &options, &r));
	OK(ripc_buf_free(ctx, buf));
	ck_assert_uint_eq(ctx->memory->return_ids.count, 0);
	rig_open(&rig, NULL);
	OK(ripc_request_wait(&r, 5000));
	m = rig_take(&rig, 2);
	ck_assert_uint_eq(m->nreturn_buffers, 0);
	ripc_message_free(m);
}
END_TEST

static void break_lane(void)
{
	ripc__sim_break(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1));
}

/* Many times over, with everything that may happen to one in any order. */
START_TEST(random__no_loss_no_reuse)
{
	uint64_t rng = test_seed();
	void *p[8] = {NULL};

	for (int k = 0; k < 3000; k++) {
		unsigned i = test_random(&rng) % 8;
		struct iovec item = {"x", 1}, back;
		struct ripc_send_options options = {
			.size = sizeof(options), .nreturn_buffers = 1, .return_buffers = &back};
		struct ripc_message *m;

		switch (test_random(&rng) % 6) {
		case 0:
			if (!p[i])
				p[i] = ripc_buf_alloc(ctx, 20000);
			back = (struct iovec){p[i], 20000};
			ripc_send_short(rig.s[0], RIG_ID(1), &item, 1, &options, 1000);
			break;
		case 1:
			if (p[i])
				OK(ripc_buf_free(ctx, p[i]));
			p[i] = NULL;
			break;
		case 2:
			OK(rig_long(&rig, 1, 0, 1 + test_random(&rng) % 25000, (uint64_t)k, 5000));
			while (!ripc_receive(rig.s[0], &m, 0)) {
				rig_verify(m->items[0].iov_base, m->items[0].iov_len, (uint64_t)k);
				ripc_message_free(m);
			}
			break;
		case 3:
			if (test_random(&rng) % 20 == 0)
				break_lane();
			break;
		default:
			rig_run(&rig, 1);
			break;
		}
		while (!ripc_receive(rig.s[1], &m, 0))
			ripc_message_free(m);
	}
	for (unsigned i = 0; i < 8; i++)
		OK(ripc_buf_free(ctx, p[i]));
	rig_run(&rig, 3000);
	ck_assert_uint_eq(ctx->memory->return_ids.count, 0);
	for (size_t i = 0; i < ctx->memory->nregions; i++)
		ck_assert(ctx->memory->regions[i]->state == RIPC__REGION_FREE ||
			  ctx->memory->regions[i]->base == buf);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("core/memory/local_returns");
	TCase *tc = tcase_create("returns");

	test_seed();
	tcase_add_checked_fixture(tc, return_buffers_setup, return_buffers_teardown);
	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, local_return_new__unique_ids);
	tcase_add_test(tc, local_return_new__ids_skip_0);
	tcase_add_test(tc, local_return_new__refused);
	tcase_add_test(tc, local_returns_add__all_or_none);
	tcase_add_test(tc, returns__next_fit_written);
	tcase_add_test(tc, returns__written_before_message);
	tcase_add_test(tc, returns__same_context);
	tcase_add_test(tc, revoke__peer_replies);
	tcase_add_test(tc, revoked__unasked);
	tcase_add_test(tc, revoke__idempotent);
	tcase_add_test(tc, revoke__registered_memory);
	tcase_add_test(tc, revoke__used_message_copied);
	tcase_add_test(tc, revoke__waits_for_writes);
	tcase_add_test(tc, revoke__service_closed);
	tcase_add_test(tc, revoke__closed_peer_silent);
	tcase_add_test(tc, lane_gone__returns_not_writable);
	tcase_add_test(tc, lane_gone__ends_revoke);
	tcase_add_test(tc, lane_gone__revoke_finds_silence);
	tcase_add_test(tc, peer_gone__return_buffer_freed);
	tcase_add_test(tc, send_fails__return_buffers_withdrawn);
	tcase_add_test(tc, claim__other_service_or_peer);
	tcase_add_test(tc, returns_encode__skips_freed);
	tcase_add_test(tc, random__no_loss_no_reuse);
	suite_add_tcase(suite, tc);
	return test_main("core/memory/local_returns", suite);
}
