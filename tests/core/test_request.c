/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Long sends, the sender's side: every state, the ways their items travel, and every way they end. */
#include "rig.h"

#include "wire/bytes.h"

static struct rig rig;
static uint8_t *data; /* 4 MiB */

#define LARGE (4 * MIB)

static void slow(struct ripc__sim_config *config)
{
	config->bandwidth = 200 * 1000 * 1000;
	/* Little is on its way at any time: what is withdrawn has not all been asked for. */
	config->read_depth = 2;
	config->rdma_max = 64 * KIB;
	config->queue_depth = 8;
}

static void slow_without_read(struct ripc__sim_config *config)
{
	slow(config);
	config->caps_off = RIPC__CAP_READ;
}

static void slow_without_credits(struct ripc__sim_config *config)
{
	slow(config);
	config->recv_depth = 3;
	config->queue_depth = 2;
}

static void small(struct ripc__sim_config *config)
{
	config->send_max = 2048;
}

static void again(unsigned n, void (*change)(struct ripc__sim_config *config))
{
	rig_end(&rig);
	rig_start(&rig, n, change);
}

/* Lets the world go on until r is in a state. */
static void await_state(struct ripc_request *r, enum ripc__request_state state)
{
	for (int i = 0; i < 100000 && r->state != state; i++)
		ripc__sim_run(rig.net, 1000);
	ck_assert_int_eq(r->state, state);
}

/* ---- how items travel ---- */

START_TEST(prepare__a_message_that_fits_travels_inline)
{
	struct ripc_request *r;

	rig_connect(&rig, 0, 1);
	r = rig_begin(&rig, 0, 1, data, 8000);
	ck_assert_int_eq(r->state, RIPC__REQUEST_SENT);
	ck_assert_int_eq(r->items[0].how, RIPC__HOW_INLINE);
	ck_assert(!r->items[0].exposed);
	OK(ripc_request_wait(&r, 5000));
	rig_expect(&rig, 1, 8000, 1);
}
END_TEST

START_TEST(prepare__large_items_are_read_small_ones_inline)
{
	struct iovec items[4] = {{data, 100000}, {data, 10}, {NULL, 0}, {data, 1024}};
	struct ripc_request *r;
	struct ripc_message *m;

	rig_connect(&rig, 0, 1);
	OK(ripc_start(rig.s[0], RIG_ID(1), items, 4, NULL, &r));
	ck_assert_int_eq(r->items[0].how, RIPC__HOW_READ);
	ck_assert_int_eq(r->items[1].how, RIPC__HOW_INLINE);
	ck_assert_int_eq(r->items[2].how, RIPC__HOW_INLINE);
	ck_assert_int_eq(r->items[3].how, RIPC__HOW_INLINE);
	/* Exactly the item, and only for reading. */
	ck_assert(r->items[0].exposed);
	ck_assert_ptr_eq(r->items[0].mr.base, data);
	ck_assert_uint_eq(r->items[0].mr.len, 100000);
	ck_assert_uint_eq(r->items[0].mr.access, RIPC__ACCESS_REMOTE_READ);
	OK(ripc_request_wait(&r, 5000));
	m = rig_take(&rig, 1);
	for (unsigned i = 0; i < 4; i++) {
		ck_assert_uint_eq(m->items[i].iov_len, items[i].iov_len);
		rig_verify(m->items[i].iov_base, items[i].iov_len, 1);
	}
	ripc_message_free(m);
}
END_TEST

START_TEST(prepare__granted_where_the_lane_cannot_read)
{
	struct iovec items[3] = {{data, 100000}, {data, 10}, {data, 50000}};
	struct ripc_request *r;
	struct ripc_message *m;

	again(2, slow_without_read);
	rig_connect(&rig, 0, 1);
	OK(ripc_start(rig.s[0], RIG_ID(1), items, 3, NULL, &r));
	ck_assert_int_eq(r->state, RIPC__REQUEST_SENT);
	ck_assert_int_eq(r->items[0].how, RIPC__HOW_GRANT);
	ck_assert_int_eq(r->items[1].how, RIPC__HOW_INLINE);
	ck_assert_int_eq(r->items[2].how, RIPC__HOW_GRANT);
	ck_assert_uint_eq(r->items[0].mr.access, 0);
	OK(ripc_request_wait(&r, 5000));
	m = rig_take(&rig, 1);
	for (unsigned i = 0; i < 3; i++)
		rig_verify(m->items[i].iov_base, items[i].iov_len, 1);
	ripc_message_free(m);
}
END_TEST

/* 64 items of 1 KiB do not fit one send: those that fit go inline. */
START_TEST(prepare__inline_as_far_as_there_is_room)
{
	struct iovec items[RIPC_ITEMS_MAX];
	struct ripc_request *r;
	struct ripc_message *m;
	unsigned inlined = 0;

	again(2, small);
	rig_connect(&rig, 0, 1);
	for (unsigned i = 0; i < RIPC_ITEMS_MAX; i++)
		items[i] = (struct iovec){data, 40};
	OK(ripc_start(rig.s[0], RIG_ID(1), items, RIPC_ITEMS_MAX, NULL, &r));
	for (unsigned i = 0; i < RIPC_ITEMS_MAX; i++)
		inlined += r->items[i].how == RIPC__HOW_INLINE;
	/* 2048 bytes less 48 less 64 * 24. */
	ck_assert_uint_eq(inlined, 464 / 40);
	OK(ripc_request_wait(&r, 5000));
	m = rig_take(&rig, 1);
	for (unsigned i = 0; i < RIPC_ITEMS_MAX; i++)
		rig_verify(m->items[i].iov_base, 40, 1);
	ripc_message_free(m);
}
END_TEST

static void dear(struct ripc__sim_config *config)
{
	config->caps_off = RIPC__CAP_CHEAP_REG;
}

START_TEST(prepare__small_foreign_memory_is_copied_where_registering_is_dear)
{
	struct ripc_request *r[2];

	again(2, dear);
	rig_connect(&rig, 0, 1);
	r[0] = rig_begin(&rig, 0, 1, data, 20000);
	ck_assert_ptr_nonnull(r[0]->items[0].copy);
	r[1] = rig_begin(&rig, 0, 1, data, 100000);
	ck_assert_ptr_null(r[1]->items[0].copy);
	for (unsigned i = 0; i < 2; i++)
		OK(ripc_request_wait(&r[i], 5000));
	rig_expect(&rig, 1, 20000, 1);
	rig_expect(&rig, 1, 100000, 1);
}
END_TEST

START_TEST(prepare__memory_that_cannot_be_registered)
{
	struct ripc_request *r;

	rig_connect(&rig, 0, 1);
	ripc__sim_fail_reg_at(rig.net, 1);
	r = rig_begin(&rig, 0, 1, data, 100000);
	ck_assert_int_eq(r->state, RIPC__REQUEST_DONE);
	RC(-ENOMEM, ripc_request_wait(&r, 0));
	ck_assert(strstr(ripc_detail(), "cannot be registered") != NULL);
	rig_expect_none(&rig, 1);
	/* The next is not held up by it. */
	OK(rig_long(&rig, 0, 1, 100000, 2, 5000));
	rig_expect(&rig, 1, 100000, 2);
}
END_TEST

START_TEST(prepare__memory_is_pinned_until_the_end)
{
	uint8_t *p = ripc_buf_alloc(rig.ctx[0], 100000);
	struct ripc__region *region = ripc__memory_find(rig.ctx[0], p, 1);
	struct iovec items[3] = {{p, 1000}, {p + 500, 1000}, {NULL, 0}};
	struct ripc_request *r;

	memset(p, 0, 2000);
	OK(ripc_start(rig.s[0], RIG_ID(1), items, 3, NULL, &r));
	ck_assert_uint_eq(region->sends, 2);
	OK(ripc_request_wait(&r, 5000));
	ck_assert_uint_eq(region->sends, 0);
	r = rig_begin(&rig, 0, 2, p, 100);
	ck_assert_uint_eq(region->sends, 1);
	RC(-ECANCELED, ripc_request_cancel(&r, 0));
	ck_assert_uint_eq(region->sends, 0);
	ripc_message_free(rig_take(&rig, 1));
}
END_TEST

/* ---- order and numbers ---- */

START_TEST(issue__in_the_order_they_were_started)
{
	enum { N = 50 };
	struct ripc_request *r[N];

	for (unsigned i = 0; i < N; i++)
		r[i] = rig_begin(&rig, 0, 1, data, 1 + (i * 7919) % 60000);
	for (unsigned i = 0; i < N; i++)
		OK(ripc_request_wait(&r[i], 5000));
	for (unsigned i = 0; i < N; i++)
		rig_expect(&rig, 1, 1 + (i * 7919) % 60000, 1);
}
END_TEST

/* At most RIPC__REQUESTS_MAX are under way; the others queue. */
START_TEST(issue__the_window_of_requests)
{
	enum { N = RIPC__REQUESTS_MAX + 50 };
	static struct ripc_request *r[N];
	struct ripc_message *m;
	unsigned sent = 0;

	rig_connect(&rig, 0, 1);
	for (unsigned i = 0; i < N; i++)
		r[i] = rig_begin(&rig, 0, 1, data, 1);
	for (unsigned i = 0; i < N; i++)
		sent += r[i]->state == RIPC__REQUEST_SENT;
	ck_assert_uint_le(sent, RIPC__REQUESTS_MAX);
	ck_assert_uint_le(rig_peer(&rig, 0, 1)->nrequests, RIPC__REQUESTS_MAX);
	for (unsigned i = 0; i < N; i++) {
		OK(ripc_receive(rig.s[1], &m, 5000));
		ripc_message_free(m);
	}
	for (unsigned i = 0; i < N; i++)
		OK(ripc_request_wait(&r[i], 5000));
	ck_assert_uint_eq(rig_peer(&rig, 0, 1)->nrequests, 0);
}
END_TEST

/* The first is held up at the receiver: the others go on to the end of the window, and no further. */
START_TEST(issue__the_window_waits_for_its_oldest)
{
	enum { N = RIPC__REQUESTS_MAX + 10 };
	static struct ripc_request *r[N];
	struct iovec item = {data, 1}, first[10];
	struct ripc_service *other;
	struct ripc_message *m;

	again(2, slow);
	rig_connect(&rig, 0, 1);
	OK(ripc_register(rig.ctx[1], 77, 0, &other));
	OK(ripc_lookup(rig.ctx[0], 77, NULL, 5000));
	for (unsigned i = 0; i < 10; i++)
		first[i] = (struct iovec){data, LARGE};
	OK(ripc_start(rig.s[0], RIG_ID(1), first, 10, NULL, &r[0]));
	for (unsigned i = 1; i < N; i++) {
		OK(ripc_start(rig.s[0], 77, &item, 1, NULL, &r[i]));
		/* The first takes 200 ms. */
		ripc__sim_run(rig.net, 100000);
		while (!ripc_receive(other, &m, 0))
			ripc_message_free(m);
	}
	ck_assert_int_ne(r[0]->state, RIPC__REQUEST_DONE);
	ck_assert_uint_ne(r[RIPC__REQUESTS_MAX - 1]->id, 0);
	ck_assert_uint_eq(r[N - 1]->id, 0);
	for (unsigned i = 1; i < N; i++)
		while (r[i] && ripc_request_wait(&r[i], 1))
			while (!ripc_receive(other, &m, 0))
				ripc_message_free(m);
	OK(ripc_request_wait(&r[0], 5000));
	ripc_message_free(rig_take(&rig, 1));
}
END_TEST

START_TEST(issue__credit_of_the_service)
{
	enum { N = 100 };
	struct ripc_request *r[N];
	unsigned sent = 0;

	rig_connect(&rig, 0, 1);
	/* 4096 units; each of these takes 127. */
	for (unsigned i = 0; i < N; i++)
		r[i] = rig_begin(&rig, 0, 1, data, 8000);
	for (unsigned i = 0; i < N; i++)
		sent += r[i]->state != RIPC__REQUEST_PENDING;
	ck_assert_uint_eq(sent, 4096 / 127);
	ck_assert_uint_gt(rig_stats(&rig, 0).credit_stalls, 0);
	for (unsigned i = 0; i < N; i++)
		rig_expect(&rig, 1, 8000, 1);
	for (unsigned i = 0; i < N; i++)
		OK(ripc_request_wait(&r[i], 5000));
	ck_assert_uint_eq(rig_dest(&rig, 0, 1)->credit->sent_units, N * 127);
}
END_TEST

/* A read message reserves the largest form and gives back what it did not need. */
START_TEST(issue__unused_credit_goes_back)
{
	rig_connect(&rig, 0, 1);
	for (unsigned i = 0; i < 10; i++) {
		OK(rig_long(&rig, 0, 1, 100000, i, 5000));
		rig_expect(&rig, 1, 100000, i);
	}
	ck_assert_uint_eq(rig_dest(&rig, 0, 1)->credit->sent_units, 10 * 2); /* 48 + 24 bytes each */
}
END_TEST

/* ---- the end ---- */

START_TEST(answer__of_an_unknown_request_is_ignored)
{
	struct ripc_request *r;

	rig_connect(&rig, 0, 1);
	ripc__request_answer(rig_lane(&rig, 0, 1), 1, 0, false);
	ripc__request_answer(rig_lane(&rig, 0, 1), UINT64_MAX, -EIO, false);
	r = rig_begin(&rig, 0, 1, data, 10);
	ripc__request_answer(rig_lane(&rig, 0, 1), r->id + 1, -EIO, false);
	ripc__request_answer(rig_lane(&rig, 0, 1), r->id - 1, -EIO, false);
	ck_assert_int_eq(r->state, RIPC__REQUEST_SENT);
	OK(ripc_request_wait(&r, 5000));
	rig_expect(&rig, 1, 10, 1);
}
END_TEST

START_TEST(answer__errors_of_the_peer)
{
	static const struct {
		int answer, rc;
	} cases[] = {{-ENOBUFS, -ENOBUFS},
		     {-ECANCELED, -ECANCELED},
		     {-EIO, -EIO},
		     {-EINVAL, -EIO},
		     {1, -EIO},
		     {INT32_MIN, -EIO}};

	rig_connect(&rig, 0, 1);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct ripc_request *r = rig_begin(&rig, 0, 1, data, 10);

		ripc__request_answer(rig_lane(&rig, 0, 1), r->id, cases[i].answer, false);
		RC(cases[i].rc, ripc_request_wait(&r, 0));
		ck_assert(strstr(ripc_detail(), "service 1001") != NULL);
		rig_expect(&rig, 1, 10, 1);
	}
}
END_TEST

START_TEST(grant__not_asked_for)
{
	uint8_t buf[RIPC__HEADER_MAX], *p;
	struct ripc__desc d = {.addr = 1, .len = 10, .key = 1, .how = RIPC__HOW_GRANT};
	struct ripc_request *r;
	const char *why = NULL;
	struct ripc__header h;

	rig_connect(&rig, 0, 1);
	r = rig_begin(&rig, 0, 1, data, 100000);
	p = ripc__header_put(buf, RIPC__GRANT, 0, 2, 0, 0, 0);
	ripc__put_le64(p, r->id);
	p = ripc__desc_put(ripc__desc_put(p + 8, &d), &d);
	OK(ripc__header_decode(&h, buf, (size_t)(p - buf), &why));
	/* Another number of items. */
	RC(-EPROTO, ripc__request_grant(rig_lane(&rig, 0, 1), &h, &why));
	ck_assert_ptr_nonnull(why);
	/* Not of a request that is over. */
	h.u[0] = r->id + 1;
	OK(ripc__request_grant(rig_lane(&rig, 0, 1), &h, &why));
	OK(ripc_request_wait(&r, 5000));
	rig_expect(&rig, 1, 100000, 1);
}
END_TEST

START_TEST(grant__of_another_length)
{
	uint8_t buf[RIPC__HEADER_MAX], *p;
	struct ripc__desc d = {.addr = 1, .len = 99999, .key = 1, .how = RIPC__HOW_GRANT};
	struct ripc_request *r;
	const char *why = NULL;
	struct ripc__header h;

	again(2, slow_without_read);
	rig_connect(&rig, 0, 1);
	r = rig_begin(&rig, 0, 1, data, 100000);
	p = ripc__header_put(buf, RIPC__GRANT, 0, 1, 0, 0, 0);
	ripc__put_le64(p, r->id);
	p = ripc__desc_put(p + 8, &d);
	OK(ripc__header_decode(&h, buf, (size_t)(p - buf), &why));
	RC(-EPROTO, ripc__request_grant(rig_lane(&rig, 0, 1), &h, &why));
	OK(ripc_request_wait(&r, 5000));
	rig_expect(&rig, 1, 100000, 1);
}
END_TEST

/* ---- cancelling, in every state ---- */

START_TEST(withdraw__pending)
{
	struct ripc_request *r = rig_begin(&rig, 0, 2, data, 1000);

	ck_assert_int_eq(r->state, RIPC__REQUEST_PENDING);
	RC(-EINPROGRESS, ripc_request_test(&r));
	RC(-ECANCELED, ripc_request_cancel(&r, 0));
	ck_assert_ptr_null(r);
	ck_assert_uint_eq(rig_stats(&rig, 0).cancelled, 1);
}
END_TEST

START_TEST(withdraw__writing_without_credit)
{
	struct ripc_request *r[10];
	uint64_t units;
	unsigned k;

	again(2, slow_without_credits);
	rig_connect(&rig, 0, 1);
	ripc__sim_hold(rig.net, rig_instance(&rig, 1), true);
	for (k = 0; k < 10; k++) {
		r[k] = rig_begin(&rig, 0, 1, data, 1000);
		if (r[k]->state == RIPC__REQUEST_WRITING)
			break;
	}
	ck_assert_uint_lt(k, 10);
	units = rig_dest(&rig, 0, 1)->credit->sent_units;
	RC(-ECANCELED, ripc_request_cancel(&r[k], 0));
	/* What it had reserved is free again. */
	ck_assert_uint_eq(rig_dest(&rig, 0, 1)->credit->sent_units, units - 17); /* 48 + 24 + 1000 */
	ripc__sim_hold(rig.net, rig_instance(&rig, 1), false);
	for (unsigned i = 0; i < k; i++) {
		OK(ripc_request_wait(&r[i], 5000));
		rig_expect(&rig, 1, 1000, 1);
	}
	rig_expect_none(&rig, 1);
}
END_TEST

START_TEST(withdraw__sent_while_it_is_read)
{
	struct ripc_request *r;

	again(2, slow);
	rig_connect(&rig, 0, 1);
	r = rig_begin(&rig, 0, 1, data, LARGE);
	rig_run(&rig, 5);
	RC(-ECANCELED, ripc_request_cancel(&r, 1000));
	rig_expect_none(&rig, 1);
	/* Over the same lane. */
	ck_assert_uint_eq(rig_stats(&rig, 0).lanes_opened, 1);
	rig_exchange(&rig, 0, 1);
}
END_TEST

START_TEST(withdraw__granted_while_it_is_written)
{
	struct ripc_request *r;

	again(2, slow_without_read);
	rig_connect(&rig, 0, 1);
	r = rig_begin(&rig, 0, 1, data, LARGE);
	rig_run(&rig, 5);
	RC(-ECANCELED, ripc_request_cancel(&r, 1000));
	rig_expect_none(&rig, 1);
	rig_exchange(&rig, 0, 1);
}
END_TEST

START_TEST(withdraw__after_it_was_delivered)
{
	struct ripc_request *r;

	rig_connect(&rig, 0, 1);
	r = rig_begin(&rig, 0, 1, data, 10);
	/* Delivered, and the answer is not here yet. */
	ripc__sim_hold(rig.net, rig_instance(&rig, 0), true);
	rig_expect(&rig, 1, 10, 1);
	ripc__sim_hold(rig.net, rig_instance(&rig, 0), false);
	OK(ripc_request_cancel(&r, 1000));
}
END_TEST

START_TEST(withdraw__a_peer_that_does_not_answer_loses_its_lane)
{
	struct ripc_request *r;

	again(2, slow);
	rig_connect(&rig, 0, 1);
	r = rig_begin(&rig, 0, 1, data, LARGE);
	rig_run(&rig, 5);
	ripc__sim_hold(rig.net, rig_instance(&rig, 1), true);
	RC(-EPIPE, ripc_request_cancel(&r, 50));
	ck_assert_ptr_null(rig_lane(&rig, 0, 1));
	/* Nobody reads this any more. */
	memset(data, 0xee, LARGE);
	ripc__sim_hold(rig.net, rig_instance(&rig, 1), false);
	rig_expect_none(&rig, 1);
	rig_exchange(&rig, 0, 1);
}
END_TEST

START_TEST(withdraw__done)
{
	struct ripc_request *r = rig_begin(&rig, 0, 1, data, 10);

	rig_expect(&rig, 1, 10, 1);
	await_state(r, RIPC__REQUEST_DONE);
	OK(ripc_request_cancel(&r, 0));
	RC(-EINVAL, ripc_request_cancel(&r, 0));
	RC(-EINVAL, ripc_request_wait(&r, 0));
	RC(-EINVAL, ripc_request_test(&r));
	RC(-EINVAL, ripc_request_test(NULL));
}
END_TEST

/* ---- lanes that go ---- */

START_TEST(lane_gone__sent_again_in_order)
{
	enum { N = 20 };
	struct ripc_request *r[N];

	again(2, slow);
	rig_connect(&rig, 0, 1);
	for (unsigned i = 0; i < N; i++)
		r[i] = rig_begin(&rig, 0, 1, data, 50000 + i);
	rig_run(&rig, 1);
	ripc__sim_break(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1));
	rig_run(&rig, 1);
	for (unsigned i = 0; i < N; i++)
		OK(ripc_request_wait(&r[i], 5000));
	for (unsigned i = 0; i < N; i++)
		rig_expect(&rig, 1, 50000 + i, 1);
	rig_expect_none(&rig, 1);
	ck_assert_uint_eq(rig_stats(&rig, 0).lanes_lost, 1);
}
END_TEST

/* The lane breaks at every operation in turn: every message arrives, once, in order. */
START_TEST(lane_gone__at_every_operation)
{
	for (uint64_t nth = 1; nth <= 60; nth++) {
		struct ripc_request *r[6];

		again(2, _i ? slow_without_read : slow);
		rig_connect(&rig, 0, 1);
		ripc__sim_break_at(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1), nth);
		for (unsigned i = 0; i < 6; i++)
			r[i] = rig_begin(&rig, 0, 1, data, i & 1 ? 100 + i : 30000 + i);
		for (unsigned i = 0; i < 6; i++)
			OK(ripc_request_wait(&r[i], 5000));
		for (unsigned i = 0; i < 6; i++)
			rig_expect(&rig, 1, i & 1 ? 100 + i : 30000 + i, 1);
		rig_expect_none(&rig, 1);
	}
}
END_TEST

START_TEST(lane_gone__answered_before)
{
	struct ripc_request *r;

	rig_connect(&rig, 0, 1);
	r = rig_begin(&rig, 0, 1, data, 100000);
	ripc__sim_hold(rig.net, rig_instance(&rig, 0), true);
	rig_run(&rig, 5);
	/* The answer is lost with the lane: sent again, it is known, and not delivered twice. */
	ripc__sim_break(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1));
	ripc__sim_hold(rig.net, rig_instance(&rig, 0), false);
	OK(ripc_request_wait(&r, 5000));
	rig_expect(&rig, 1, 100000, 1);
	rig_expect_none(&rig, 1);
}
END_TEST

START_TEST(peer_gone__not_known_whether_delivered)
{
	struct ripc_request *r[2];

	again(2, slow);
	rig_connect(&rig, 0, 1);
	r[0] = rig_begin(&rig, 0, 1, data, LARGE);
	r[1] = rig_begin(&rig, 0, 2, data, LARGE);
	rig_run(&rig, 2);
	ripc__sim_kill_context(rig.net, rig.ctx[1], false);
	rig.ctx[1] = NULL;
	RC(-EPIPE, ripc_request_wait(&r[0], 2000));
	ck_assert(ripc_detail()[0]);
	/* That is not the other's business. */
	RC(-EINPROGRESS, ripc_request_test(&r[1]));
	RC(-ECANCELED, ripc_request_cancel(&r[1], 0));
}
END_TEST

START_TEST(peer_gone__silently)
{
	struct ripc_request *r;
	uint64_t before;

	again(2, slow);
	rig_connect(&rig, 0, 1);
	r = rig_begin(&rig, 0, 1, data, LARGE);
	rig_run(&rig, 2);
	ripc__sim_kill_context(rig.net, rig.ctx[1], true);
	rig.ctx[1] = NULL;
	before = ripc__sim_now(rig.net);
	RC(-EPIPE, ripc_request_wait(&r, 10000));
	/* peer_timeout_ms of silence, and as long to try to connect again. */
	ck_assert_uint_le(ripc__sim_now(rig.net) - before, 6000 * RIPC__MS);
}
END_TEST

/* ---- services that go ---- */

/* The service is not at its former holder any more: the messages follow it, in their order. */
START_TEST(requeue__keeps_the_order)
{
	enum { N = 8 };
	struct ripc_request *r[N];
	struct ripc_service *moved;
	struct ripc_message *m;

	again(3, NULL);
	rig_connect(&rig, 0, 1);
	/* The goodbye does not reach the sender: it learns from the answers to its messages. */
	ripc__sim_hold(rig.net, rig_instance(&rig, 0), true);
	OK(ripc_unregister(rig.s[1]));
	rig.s[1] = NULL;
	ripc__sim_hold(rig.net, rig_instance(&rig, 0), false);
	for (unsigned i = 0; i < N; i++) {
		r[i] = rig_begin(&rig, 0, 1, data, 1000 + i);
		ck_assert_int_eq(r[i]->state, RIPC__REQUEST_SENT);
	}
	rig_run(&rig, 2);
	for (unsigned i = 0; i < N; i++)
		ck_assert_int_eq(r[i]->state, RIPC__REQUEST_PENDING);
	OK(ripc_register(rig.ctx[_i ? 2 : 1], RIG_ID(1), 0, &moved));
	for (unsigned i = 0; i < N; i++)
		OK(ripc_request_wait(&r[i], 5000));
	for (unsigned i = 0; i < N; i++) {
		OK(ripc_receive(moved, &m, 1000));
		ck_assert_uint_eq(m->items[0].iov_len, 1000 + i);
		ripc_message_free(m);
	}
}
END_TEST

/* The service moves while a message for it waits for credit of the old lane. */
START_TEST(moved__while_waiting_for_credit)
{
	struct ripc_request *r[12];
	struct ripc_service *moved;
	unsigned k;

	again(3, slow_without_credits);
	rig_connect(&rig, 0, 1);
	ripc__sim_hold(rig.net, rig_instance(&rig, 1), true);
	for (k = 0; k < 10; k++) {
		r[k] = rig_begin(&rig, 0, 1, data, 1000);
		if (r[k]->state == RIPC__REQUEST_WRITING)
			break;
	}
	ck_assert_uint_lt(k, 10);
	/* The present holder is silent: somebody else gets the id. */
	OK(ripc_register(rig.ctx[2], RIG_ID(1), 0, &moved));
	ripc__dest_stale(rig.ctx[0], rig_dest(&rig, 0, 1), "moved, as the test wants it");
	rig_run(&rig, 100);
	r[k + 1] = rig_begin(&rig, 0, 1, data, 1000);
	rig_run(&rig, 100);
	ripc__sim_hold(rig.net, rig_instance(&rig, 1), false);
	/* To the one or the other, each to its end. */
	for (unsigned i = 0; i <= k + 1; i++)
		OK(ripc_request_wait(&r[i], 5000));
}
END_TEST

/* The service moves while its former holder has a message for it; then that holder dies. */
START_TEST(moved__while_sent_and_then_the_lane_is_gone)
{
	struct ripc_service *moved;
	struct ripc_request *r[2];

	again(3, NULL);
	rig_connect(&rig, 0, 1);
	rig_connect(&rig, 0, 2);
	ripc__sim_hold(rig.net, rig_instance(&rig, 1), true);
	r[0] = rig_begin(&rig, 0, 1, data, 1000);
	ck_assert_int_eq(r[0]->state, RIPC__REQUEST_SENT);
	OK(ripc_register(rig.ctx[2], RIG_ID(1), 0, &moved));
	ripc__dest_stale(rig.ctx[0], rig_dest(&rig, 0, 1), "moved, as the test wants it");
	rig_run(&rig, 100);
	r[1] = rig_begin(&rig, 0, 1, data, 2000);
	OK(ripc_request_wait(&r[1], 5000));
	ripc__sim_kill_context(rig.net, rig.ctx[1], false);
	rig.ctx[1] = NULL;
	/* It may have been delivered there: it is not sent again elsewhere. */
	RC(-EPIPE, ripc_request_wait(&r[0], 5000));
}
END_TEST

START_TEST(service_closed__its_requests_are_withdrawn)
{
	struct ripc_request *r[3];

	again(2, slow);
	rig_connect(&rig, 0, 1);
	r[0] = rig_begin(&rig, 0, 1, data, LARGE);
	r[1] = rig_begin(&rig, 0, 1, data, LARGE);
	r[2] = rig_begin(&rig, 0, 2, data, LARGE);
	rig_run(&rig, 2);
	OK(ripc_unregister(rig.s[0]));
	for (unsigned i = 0; i < 3; i++) {
		ck_assert_int_eq(r[i]->state, RIPC__REQUEST_DONE);
		RC(-ECANCELED, ripc_request_wait(&r[i], 0));
	}
	rig_expect_none(&rig, 1);
}
END_TEST

/* ---- the calls ---- */

START_TEST(start__refused)
{
	struct ripc_request *r = NULL;
	struct iovec item = {data, 10}, items[RIPC_ITEMS_MAX + 1];
	struct ripc_send_options options = {.flags = 1u << 30};

	RC(-EINVAL, ripc_start(rig.s[0], RIG_ID(1), &item, 1, NULL, NULL));
	RC(-EINVAL, ripc_start(NULL, RIG_ID(1), &item, 1, NULL, &r));
	RC(-EINVAL, ripc_start(rig.s[0], 0, &item, 1, NULL, &r));
	RC(-EINVAL, ripc_start(rig.s[0], RIPC_ANY_ID, &item, 1, NULL, &r));
	RC(-EINVAL, ripc_start(rig.s[0], RIG_ID(1), &item, 0, NULL, &r));
	RC(-EINVAL, ripc_start(rig.s[0], RIG_ID(1), NULL, 1, NULL, &r));
	for (unsigned i = 0; i <= RIPC_ITEMS_MAX; i++)
		items[i] = item;
	RC(-EINVAL, ripc_start(rig.s[0], RIG_ID(1), items, RIPC_ITEMS_MAX + 1, NULL, &r));
	RC(-EOPNOTSUPP, ripc_start(rig.s[0], RIG_ID(1), &item, 1, &options, &r));
	item = (struct iovec){NULL, 1};
	RC(-EINVAL, ripc_start(rig.s[0], RIG_ID(1), &item, 1, NULL, &r));
	item = (struct iovec){data, SIZE_MAX};
	RC(-EINVAL, ripc_start(rig.s[0], RIG_ID(1), &item, 1, NULL, &r));
	ck_assert_ptr_null(r);
	RC(-EAGAIN, rig_long(&rig, 0, 1, 10, 1, 0));
}
END_TEST

START_TEST(send_long__given_up_when_its_time_is_over)
{
	RC(-EHOSTUNREACH, rig_long(&rig, 0, 2, 10000, 1, 100));
	again(2, slow);
	rig_connect(&rig, 0, 1);
	RC(-ETIMEDOUT, rig_long(&rig, 0, 1, 4 * MIB, 1, 5));
	rig_expect_none(&rig, 1);
	rig_exchange(&rig, 0, 1);
}
END_TEST

START_TEST(request_wait__still_under_way)
{
	struct ripc_request *r;

	again(2, slow);
	rig_connect(&rig, 0, 1);
	r = rig_begin(&rig, 0, 1, data, LARGE);
	RC(-ETIMEDOUT, ripc_request_wait(&r, 0));
	RC(-ETIMEDOUT, ripc_request_wait(&r, 2));
	ck_assert_ptr_nonnull(r);
	OK(ripc_request_wait(&r, -1));
	ck_assert_ptr_null(r);
	rig_expect(&rig, 1, LARGE, 1);
}
END_TEST

static void setup(void)
{
	data = malloc(LARGE);
	rig_fill(data, LARGE, 1);
	rig_start(&rig, 2, NULL);
}

static void teardown(void)
{
	rig_end(&rig);
	free(data);
}

int main(void)
{
	Suite *suite = suite_create("core/request");
	TCase *tc = tcase_create("request");

	test_seed();
	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_set_timeout(tc, 120);
	tcase_add_test(tc, prepare__a_message_that_fits_travels_inline);
	tcase_add_test(tc, prepare__large_items_are_read_small_ones_inline);
	tcase_add_test(tc, prepare__granted_where_the_lane_cannot_read);
	tcase_add_test(tc, prepare__inline_as_far_as_there_is_room);
	tcase_add_test(tc, prepare__small_foreign_memory_is_copied_where_registering_is_dear);
	tcase_add_test(tc, prepare__memory_that_cannot_be_registered);
	tcase_add_test(tc, prepare__memory_is_pinned_until_the_end);
	tcase_add_test(tc, issue__in_the_order_they_were_started);
	tcase_add_test(tc, issue__the_window_of_requests);
	tcase_add_test(tc, issue__the_window_waits_for_its_oldest);
	tcase_add_test(tc, issue__credit_of_the_service);
	tcase_add_test(tc, issue__unused_credit_goes_back);
	tcase_add_test(tc, answer__of_an_unknown_request_is_ignored);
	tcase_add_test(tc, answer__errors_of_the_peer);
	tcase_add_test(tc, grant__not_asked_for);
	tcase_add_test(tc, grant__of_another_length);
	tcase_add_test(tc, withdraw__pending);
	tcase_add_test(tc, withdraw__writing_without_credit);
	tcase_add_test(tc, withdraw__sent_while_it_is_read);
	tcase_add_test(tc, withdraw__granted_while_it_is_written);
	tcase_add_test(tc, withdraw__after_it_was_delivered);
	tcase_add_test(tc, withdraw__a_peer_that_does_not_answer_loses_its_lane);
	tcase_add_test(tc, withdraw__done);
	tcase_add_test(tc, lane_gone__sent_again_in_order);
	tcase_add_loop_test(tc, lane_gone__at_every_operation, 0, 2);
	tcase_add_test(tc, lane_gone__answered_before);
	tcase_add_test(tc, peer_gone__not_known_whether_delivered);
	tcase_add_test(tc, peer_gone__silently);
	tcase_add_loop_test(tc, requeue__keeps_the_order, 0, 2);
	tcase_add_test(tc, moved__while_waiting_for_credit);
	tcase_add_test(tc, moved__while_sent_and_then_the_lane_is_gone);
	tcase_add_test(tc, service_closed__its_requests_are_withdrawn);
	tcase_add_test(tc, start__refused);
	tcase_add_test(tc, send_long__given_up_when_its_time_is_over);
	tcase_add_test(tc, request_wait__still_under_way);
	suite_add_tcase(suite, tc);
	return test_main("core/request", suite);
}
