/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Bounce buffers: their allocation and reuse, the peer's access to them, and their end. */
#include "core/peer/lane_post.h"
#include "core/memory/bounce.h"
#include "core/rig.h"

#define READ  RIPC__ACCESS_REMOTE_READ
#define WRITE RIPC__ACCESS_REMOTE_WRITE

static struct rig rig;
static struct ripc *ctx;
static struct ripc__lane *lane;
static uint8_t *buf; /* 128 KiB of ctx */

static void expensive_registration(struct ripc__sim_config *config)
{
	config->caps_off = RIPC__CAP_CHEAP_REG;
}

static void expensive_few_credits(struct ripc__sim_config *config)
{
	expensive_registration(config);
	config->recv_depth = 3;
}

static void expensive_and_slow(struct ripc__sim_config *config)
{
	expensive_registration(config);
	config->bandwidth = 1000 * 1000;
}

static void expensive_no_read(struct ripc__sim_config *config)
{
	config->caps_off = RIPC__CAP_CHEAP_REG | RIPC__CAP_READ;
}

static void start(void (*change)(struct ripc__sim_config *config))
{
	rig_start(&rig, 2, change);
	ctx = rig.ctx[0];
	buf = ripc_buf_alloc(ctx, 128 * KIB);
	rig_fill(buf, 128 * KIB, 1);
	rig_connect(&rig, 0, 1);
	lane = rig_lane(&rig, 0, 1);
	/* Standing grants are bounce buffers, too: test_standing. */
	lane->caps &= ~(unsigned)RIPC__CAP_STANDING;
	rig_lane(&rig, 1, 0)->caps &= ~(unsigned)RIPC__CAP_STANDING;
}

static unsigned bounces(void)
{
	struct ripc__list *n;
	unsigned k = 0;

	ripc__list_for_each (n, &lane->memory->bounces)
		k++;
	return k;
}

static struct ripc__bounce *first_bounce(void)
{
	struct ripc__list *n = ripc__list_first(&lane->memory->bounces);

	ck_assert_ptr_nonnull(n);
	return ripc__list_entry(n, struct ripc__bounce, link);
}

static void restart(void (*change)(struct ripc__sim_config *config))
{
	rig_end(&rig);
	start(change);
}

static uint64_t registrations(void)
{
	struct ripc__sim_counters counters;

	ripc__sim_counters(rig.net, &counters);
	return counters.regions;
}

START_TEST(bounce_get__reuses_fitting)
{
	struct ripc__bounce *a = ripc__bounce_get(lane, 5000, READ), *b, *c;

	ck_assert_ptr_nonnull(a);
	ck_assert_uint_eq(a->region->cap, 8192);
	ck_assert_uint_eq(a->mr.access, READ);
	b = ripc__bounce_get(lane, 5000, READ);
	ck_assert_ptr_ne(a, b);
	ripc__bounce_put(a);
	c = ripc__bounce_get(lane, 8192, READ);
	ck_assert_ptr_eq(a, c);
	ripc__bounce_put(b);
	/* Not for the other way, nor of another size. */
	a = ripc__bounce_get(lane, 8192, WRITE);
	ck_assert_ptr_ne(a, b);
	ck_assert_uint_eq(a->mr.access, WRITE);
	ripc__bounce_put(a);
	a = ripc__bounce_get(lane, 4096, READ);
	ck_assert_ptr_ne(a, b);
	ripc__bounce_put(a);
	ripc__bounce_put(c);
	ck_assert_uint_eq(bounces(), 4);
}
END_TEST

START_TEST(bounce_get__zeroed)
{
	struct ripc__region *old = ripc__pool_get(ctx, 8192, RIPC__REGION_MESSAGE);
	struct ripc__bounce *st;

	memset(old->base, 0x5a, 8192);
	ripc__pool_put(ctx, old);
	st = ripc__bounce_get(lane, 8192, READ);
	ck_assert_ptr_eq(st->region, old);
	for (unsigned i = 0; i < 8192; i++)
		ck_assert_uint_eq(st->region->base[i], 0);
	ripc__bounce_put(st);
}
END_TEST

START_TEST(bounce_get__bounded)
{
	enum { N = RIPC__BOUNCE_LANE_MAX / RIPC__BOUNCE_ITEM_MAX };
	struct ripc__bounce *st[N];

	ck_assert_ptr_null(ripc__bounce_get(lane, RIPC__BOUNCE_ITEM_MAX + 1, READ));
	for (unsigned i = 0; i < N; i++)
		ck_assert_ptr_nonnull(st[i] = ripc__bounce_get(lane, RIPC__BOUNCE_ITEM_MAX, READ));
	ck_assert_ptr_null(ripc__bounce_get(lane, 1, READ));
	ck_assert_ptr_null(ripc__bounce_get(lane, 1, 0));
	ck_assert_uint_eq(lane->memory->bounce_bytes[0], RIPC__BOUNCE_LANE_MAX);
	/* The other way has its own. */
	ripc__bounce_put(ripc__bounce_get(lane, 1, WRITE));
	for (unsigned i = 0; i < N; i++)
		ripc__bounce_put(st[i]);
	/* Idle ones of another size do not stand in the way. */
	ck_assert_uint_eq(lane->memory->bounce_bytes[0], RIPC__BOUNCE_LANE_MAX);
	ck_assert_ptr_nonnull(st[0] = ripc__bounce_get(lane, 1, READ));
	ripc__bounce_put(st[0]);
	ripc__bounces_trim(lane);
	ck_assert_uint_eq(bounces(), 0);
	ck_assert_uint_eq(ctx->memory->bounce_bytes, 0);
	ctx->memory->bounce_bytes = RIPC__BOUNCE_CTX_MAX;
	ck_assert_ptr_null(ripc__bounce_get(lane, 1, READ));
	ctx->memory->bounce_bytes = 0;
}
END_TEST

START_TEST(bounce_get__registration_fails)
{
	ripc__sim_fail_reg_at(rig.net, 1);
	ck_assert_ptr_null(ripc__bounce_get(lane, 1, READ));
	ck_assert_uint_eq(bounces(), 0);
	ck_assert_uint_eq(ctx->memory->bounce_bytes, 0);
}
END_TEST

/* From the second message on nothing is registered any more. */
START_TEST(send__registers_once)
{
	uint64_t before = 0;

	for (unsigned i = 0; i < 5; i++) {
		struct ripc_request *r;

		rig_fill(buf, 20000, i);
		r = rig_begin(&rig, 0, 1, buf, 20000);
		ck_assert_ptr_nonnull(r->items[0].bounce);
		/* It has been copied. */
		ck_assert_uint_eq(bounces(), 1);
		OK(ripc_request_wait(&r, 5000));
		rig_expect(&rig, 1, 20000, i);
		if (i)
			ck_assert_uint_eq(registrations(), before);
		before = registrations();
		ripc__sim_fail_reg_at(rig.net, 1);
	}
}
END_TEST

START_TEST(send__large_registered_each_time)
{
	struct ripc_request *r = rig_begin(&rig, 0, 1, buf, 100000);

	ck_assert_ptr_null(r->items[0].bounce);
	ck_assert(r->items[0].exposed);
	OK(ripc_request_wait(&r, 5000));
	rig_expect(&rig, 1, 100000, 1);
	ck_assert_uint_eq(bounces(), 0);
}
END_TEST

static void is_zero(const struct ripc__bounce *st)
{
	for (size_t i = 0; i < st->region->cap; i++)
		ck_assert_uint_eq(st->region->base[i], 0);
}

/*
 * The peer, which has the key from an earlier message, does not see what was not sent: for want of
 * credit, of room.
 */
START_TEST(send__cancelled_not_exposed)
{
	struct ripc__sim_config config;
	struct ripc_request *r;
	struct ripc__bounce *st;
	unsigned k = 0;

	restart(_i ? expensive_registration : expensive_few_credits);
	OK(rig_long(&rig, 0, 1, 20000, 7, 5000));
	rig_expect(&rig, 1, 20000, 7);
	memset(first_bounce()->region->base, 0, first_bounce()->region->cap);
	config = *ripc__sim_config(rig.net);
	if (_i) {
		config.queue_full = 1;
		ripc__sim_configure(rig.net, &config);
		config.queue_full = 0;
	} else {
		ripc__sim_hold(rig.net, rig_instance(&rig, 1), true);
		while (k < 10 && ripc__lane_can_send(lane))
			k += !rig_short(&rig, 0, 1, 10, 1, 0);
	}
	r = rig_begin(&rig, 0, 1, buf, 20000);
	ck_assert_int_eq(r->state, RIPC__REQUEST_WRITING);
	st = r->items[0].bounce;
	ck_assert_ptr_nonnull(st);
	is_zero(st);
	RC(-ECANCELED, ripc_request_cancel(&r, 0));
	ck_assert_ptr_eq(st, first_bounce());
	is_zero(st);
	ripc__sim_configure(rig.net, &config);
	ripc__sim_hold(rig.net, rig_instance(&rig, 1), false);
	while (k--)
		rig_expect(&rig, 1, 10, 1);
	OK(rig_long(&rig, 0, 1, 20000, 2, 5000));
	rig_expect(&rig, 1, 20000, 2);
}
END_TEST

/* It leaves when there is room again, with its bytes. */
START_TEST(send__bounce_filled_when_posted)
{
	struct ripc__sim_config config = *ripc__sim_config(rig.net);
	struct ripc_request *r;

	config.queue_full = 1;
	ripc__sim_configure(rig.net, &config);
	r = rig_begin(&rig, 0, 1, buf, 20000);
	ck_assert_int_eq(r->state, RIPC__REQUEST_WRITING);
	ck_assert(!r->items[0].filled);
	config.queue_full = 0;
	ripc__sim_configure(rig.net, &config);
	OK(ripc_request_wait(&r, 5000));
	rig_expect(&rig, 1, 20000, 1);
}
END_TEST

/*
 * Data for a return buffer or a granted region is written from its own memory if that belongs to
 * the pool; other data is written from a private copy.
 */
START_TEST(send__write_source_mr_cached)
{
	static uint8_t foreign[20000];
	bool grant = _i & 1, known = !(_i & 2);
	uint8_t *from; /* buf comes with again() */
	void *back;
	uint64_t before = 0;

	restart(grant ? expensive_no_read : expensive_registration);
	from = known ? buf : foreign;
	back = ripc_buf_alloc(rig.ctx[1], 100000);
	for (unsigned i = 0; i < 4; i++) {
		struct ripc_request *r;

		rig_fill(from, 20000, i);
		if (!grant)
			rig_send_return_buffer(&rig, 1, 0, back, 100000);
		r = rig_begin(&rig, 0, 1, from, 20000);
		ck_assert_int_eq(r->items[0].how, grant ? RIPC__HOW_GRANT : RIPC__HOW_WRITTEN);
		ck_assert_int_eq(r->items[0].cached_mr != NULL, known);
		ck_assert_int_eq(r->items[0].bounce != NULL, !known);
		ck_assert(known || !r->items[0].bounce->mr.access);
		ck_assert(!r->items[0].exposed);
		OK(ripc_request_wait(&r, 5000));
		ck_assert_int_eq(rig_expect(&rig, 1, 20000, i),
				 grant ? RIPC_IN_POOL : RIPC_IN_RETURN_BUFFER);
		ck_assert_uint_eq(bounces(), !known);
		if (i)
			ck_assert_uint_eq(registrations(), before);
		before = registrations();
	}
	/* And larger ones. */
	if (!_i) {
		struct ripc_request *r;

		rig_send_return_buffer(&rig, 1, 0, back, 100000);
		rig_fill(buf, 100000, 9);
		r = rig_begin(&rig, 0, 1, buf, 100000);
		ck_assert_ptr_nonnull(r->items[0].cached_mr);
		ck_assert(!r->items[0].exposed);
		OK(ripc_request_wait(&r, 5000));
		ck_assert_int_eq(rig_expect(&rig, 1, 100000, 9), RIPC_IN_RETURN_BUFFER);
		ck_assert_uint_eq(registrations(), before);
	}
}
END_TEST

/* A message that offers buf; its answer lies there. */
static void announce_and_reply(uint64_t tag)
{
	rig_send_return_buffer(&rig, 0, 1, buf, 20000);
	OK(rig_long(&rig, 1, 0, 20000, tag, 5000));
	ck_assert_int_eq(rig_expect(&rig, 0, 20000, tag), RIPC_IN_RETURN_BUFFER);
	rig_verify(buf, 20000, tag);
}

START_TEST(returns__peer_writes_bounce_only)
{
	struct ripc__bounce *st;

	announce_and_reply(1);
	ck_assert_uint_eq(bounces(), 1);
	st = first_bounce();
	ck_assert_uint_eq(st->mr.access, WRITE);
	rig_verify(st->region->base, 20000, 1);
	/* Later writes of the peer do not change the application's data. */
	memset(st->region->base, 0, 20000);
	rig_verify(buf, 20000, 1);
	announce_and_reply(2);
	ck_assert_uint_eq(bounces(), 1);
}
END_TEST

START_TEST(returns__revoke_frees_bounce)
{
	rig_send_return_buffer(&rig, 0, 1, buf, 20000);
	ck_assert_uint_eq(bounces(), 1);
	OK(ripc_buf_free(ctx, buf));
	rig_run(&rig, 5);
	ck_assert(!first_bounce()->busy);
	buf = NULL;
}
END_TEST

START_TEST(trim__idle_lane)
{
	OK(rig_long(&rig, 0, 1, 20000, 1, 5000));
	rig_expect(&rig, 1, 20000, 1);
	ck_assert_uint_eq(bounces(), 1);
	rig_run(&rig, 3000);
	ck_assert_uint_eq(lane->silence, RIPC__SILENCE_IDLE);
	ck_assert_uint_eq(bounces(), 0);
	ck_assert_uint_eq(ctx->memory->bounce_bytes, 0);
	OK(rig_long(&rig, 0, 1, 20000, 2, 5000));
	rig_expect(&rig, 1, 20000, 2);
}
END_TEST

START_TEST(trim__return_buffers_only)
{
	rig_run(&rig, 3000);
	ck_assert_uint_eq(lane->silence, RIPC__SILENCE_IDLE);
	announce_and_reply(1);
	ck_assert_uint_eq(bounces(), 1);
	rig_run(&rig, 3000);
	ck_assert_uint_eq(bounces(), 0);
	ck_assert_uint_eq(ctx->memory->bounce_bytes, 0);
	announce_and_reply(2);
}
END_TEST

/* The lane breaks while a message is read out of one: the message goes over the next. */
START_TEST(lane_gone__busy_and_idle_bounces)
{
	struct ripc__bounce *idle, *busy;
	struct ripc_request *r;
	uint64_t n;

	restart(expensive_and_slow);
	idle = ripc__bounce_get(lane, 4096, WRITE);
	ripc__bounce_put(idle);
	busy = ripc__bounce_get(lane, 4096, READ);
	rig_fill(buf, 20000, 3);
	r = rig_begin(&rig, 0, 1, buf, 20000);
	ck_assert_ptr_nonnull(r->items[0].bounce);
	for (unsigned i = 0; i < 100 && !rig_lane(&rig, 1, 0)->reads; i++)
		ripc__sim_run(rig.net, 100000);
	ck_assert_uint_ne(rig_lane(&rig, 1, 0)->reads, 0);
	n = ripc__sim_break(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1));
	ck_assert_uint_eq(n, 1);
	OK(ripc_request_wait(&r, 5000));
	rig_expect(&rig, 1, 20000, 3);
	ck_assert_ptr_null(busy->lane);
	/* That of the message, on the new lane; or it is given back already. */
	ck_assert(ctx->memory->bounce_bytes == 32768 || !ctx->memory->bounce_bytes);
	ripc__bounce_put(busy);
}
END_TEST

/* Bytes that one node can have pinned. */
static void memlock(uint64_t limit)
{
	struct ripc__sim_config config = *ripc__sim_config(rig.net);

	config.memlock = limit;
	ripc__sim_configure(rig.net, &config);
}

/* One message from 0 to 1, into a return buffer, while 0 can pin 6 MiB. */
static void write_limited(uint8_t *from, size_t len, uint64_t tag)
{
	struct ripc_request *r;

	rig_fill(from, len, tag);
	memlock(0);
	rig_send_return_buffer(&rig, 1, 0, ripc_buf_alloc(rig.ctx[1], len), len);
	memlock(6 * MIB);
	r = rig_begin(&rig, 0, 1, from, len);
	ck_assert_int_eq(r->items[0].how, RIPC__HOW_WRITTEN);
	OK(ripc_request_wait(&r, 5000));
	ck_assert_int_eq(rig_expect(&rig, 1, len, tag), RIPC_IN_RETURN_BUFFER);
}

/* Of a large buffer that is written from nothing stays registered, and never what is not sent. */
START_TEST(memlock__large_buffers)
{
	uint8_t *large = ripc_buf_alloc(ctx, 16 * MIB);

	write_limited(large, 20000, 1);
	ck_assert_uint_eq(bounces(), 1);
	for (unsigned i = 0; i < 3; i++)
		write_limited(ripc_buf_alloc(ctx, 4 * MIB), 4 * MIB, i);
	OK(rig_long(&rig, 1, 0, 3 * MIB, 7, 5000));
	rig_expect(&rig, 0, 3 * MIB, 7);
}
END_TEST

/*
 * Buffers that the application keeps, and that were written from, stand in the way of nothing:
 * writes, reads, exposures, stages.
 */
START_TEST(memlock__many_buffers)
{
	enum { N = 30, SIZE = 256 * KIB };

	for (unsigned i = 0; i < 2 * N; i++) {
		static uint8_t *own[N];

		if (i < N)
			own[i] = ripc_buf_alloc(ctx, SIZE);
		write_limited(own[i % N], i & 1 ? SIZE : 20000, i);
	}
	switch (_i) {
	case 0:
		OK(rig_long(&rig, 1, 0, 4 * MIB, 1, 5000));
		rig_expect(&rig, 0, 4 * MIB, 1);
		break;
	case 1:
		write_limited(ripc_buf_alloc(ctx, 5 * MIB), 5 * MIB, 1);
		break;
	default:
		OK(rig_long(&rig, 0, 1, 3 * MIB, 1, 5000));
		rig_expect(&rig, 1, 3 * MIB, 1);
	}
}
END_TEST

/*
 * Nothing else is registered, and the buffer cannot be: its item is copied, or registered by
 * itself.
 */
START_TEST(memlock__one_buffer)
{
	uint8_t *from = ripc_buf_alloc(ctx, MIB);
	size_t len = _i ? 300000 : 20000;
	struct ripc_request *r;

	rig_fill(from, len, 1);
	rig_send_return_buffer(&rig, 1, 0, ripc_buf_alloc(rig.ctx[1], MIB), MIB);
	memlock(MIB / 2);
	r = rig_begin(&rig, 0, 1, from, len);
	ck_assert_ptr_null(r->items[0].cached_mr);
	ck_assert_int_eq(r->items[0].exposed, _i);
	ck_assert_int_eq(r->items[0].bounce != NULL, !_i);
	OK(ripc_request_wait(&r, 5000));
	ck_assert_int_eq(rig_expect(&rig, 1, len, 1), RIPC_IN_RETURN_BUFFER);
}
END_TEST

static void setup(void)
{
	start(expensive_registration);
}

static void teardown(void)
{
	rig_end(&rig);
}

int main(void)
{
	Suite *suite = suite_create("core/memory/bounce");
	TCase *tc = tcase_create("stage");

	test_seed();
	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, bounce_get__reuses_fitting);
	tcase_add_test(tc, bounce_get__zeroed);
	tcase_add_test(tc, bounce_get__bounded);
	tcase_add_test(tc, bounce_get__registration_fails);
	tcase_add_test(tc, send__registers_once);
	tcase_add_loop_test(tc, send__cancelled_not_exposed, 0, 2);
	tcase_add_test(tc, send__bounce_filled_when_posted);
	tcase_add_loop_test(tc, send__write_source_mr_cached, 0, 4);
	tcase_add_test(tc, send__large_registered_each_time);
	tcase_add_test(tc, returns__peer_writes_bounce_only);
	tcase_add_test(tc, returns__revoke_frees_bounce);
	tcase_add_test(tc, memlock__large_buffers);
	tcase_add_loop_test(tc, memlock__many_buffers, 0, 3);
	tcase_add_loop_test(tc, memlock__one_buffer, 0, 2);
	tcase_add_test(tc, trim__idle_lane);
	tcase_add_test(tc, trim__return_buffers_only);
	tcase_add_test(tc, lane_gone__busy_and_idle_bounces);
	suite_add_tcase(suite, tc);
	return test_main("core/memory/bounce", suite);
}
