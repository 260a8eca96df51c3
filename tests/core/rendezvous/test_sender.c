/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Long sends, the sender's side: the ways their items travel, their order, and what the peer
 * answers.
 */
#include "core/rendezvous/ack.h"
#include "core/requests.h"

#include "core/memory/bounce.h"
#include "wire/bytes.h"

static void small(struct ripc__sim_config *config)
{
	config->send_max = 2048;
}

/* ---- how items travel ---- */

START_TEST(select__fitting_message_inline)
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

START_TEST(select__large_read_small_inline)
{
	struct iovec items[4] = {{data, 100000}, {data, 10}, {NULL, 0}, {data, 1024}};
	struct ripc_request *r;
	struct ripc_message *m;

	rig_connect(&rig, 0, 1);
	OK(ripc_send_async(rig.s[0], RIG_ID(1), items, 4, NULL, &r));
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

START_TEST(select__grant_without_read)
{
	struct iovec items[3] = {{data, 100000}, {data, 10}, {data, 50000}};
	struct ripc_request *r;
	struct ripc_message *m;

	restart(2, slow_no_read);
	rig_connect(&rig, 0, 1);
	OK(ripc_send_async(rig.s[0], RIG_ID(1), items, 3, NULL, &r));
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
START_TEST(select__inline_up_to_limit)
{
	struct iovec items[RIPC_ITEMS_MAX];
	struct ripc_request *r;
	struct ripc_message *m;
	unsigned inlined = 0;

	restart(2, small);
	rig_connect(&rig, 0, 1);
	for (unsigned i = 0; i < RIPC_ITEMS_MAX; i++)
		items[i] = (struct iovec){data, 40};
	OK(ripc_send_async(rig.s[0], RIG_ID(1), items, RIPC_ITEMS_MAX, NULL, &r));
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

static void expensive_registration(struct ripc__sim_config *config)
{
	config->caps_off = RIPC__CAP_CHEAP_REG;
}

/* There is no room for bounce buffers: all items are registered where they are. */
START_TEST(select__no_bounce_buffer)
{
	static const size_t lens[] = {20000, 65536, 65537, 20000, 20000};
	struct ripc_request *r[5];
	uint8_t *own, *registered;

	restart(2, expensive_registration);
	rig_connect(&rig, 0, 1);
	own = ripc_buf_alloc(rig.ctx[0], 20000);
	registered = malloc(20000);
	rig_fill(own, 20000, 1);
	rig_fill(registered, 20000, 1);
	OK(ripc_buf_register(rig.ctx[0], registered, 20000));
	rig.ctx[0]->memory->bounce_bytes = RIPC__BOUNCE_CTX_MAX;
	for (unsigned i = 0; i < 5; i++) {
		uint8_t *p = i == 3 ? own : i == 4 ? registered : data;

		r[i] = rig_begin(&rig, 0, 1, p, lens[i]);
		ck_assert(r[i]->items[0].exposed);
		ck_assert_ptr_eq(r[i]->items[0].mr.base, p);
	}
	rig.ctx[0]->memory->bounce_bytes = 0;
	for (unsigned i = 0; i < 5; i++) {
		OK(ripc_request_wait(&r[i], 5000));
		rig_expect(&rig, 1, lens[i], 1);
	}
	OK(ripc_buf_unregister(rig.ctx[0], registered));
	OK(ripc_buf_free(rig.ctx[0], own));
	free(registered);
}
END_TEST

START_TEST(select__registration_fails)
{
	struct ripc_request *r;

	rig_connect(&rig, 0, 1);
	ripc__sim_fail_reg_at(rig.net, 1);
	r = rig_begin(&rig, 0, 1, data, 100000);
	ck_assert_int_eq(r->state, RIPC__REQUEST_DONE);
	RC(-ENOMEM, ripc_request_wait(&r, 0));
	ck_assert(strstr(ripc_error_detail(), "cannot be registered") != NULL);
	rig_expect_none(&rig, 1);
	/* The next is not held up by it. */
	OK(rig_long(&rig, 0, 1, 100000, 2, 5000));
	rig_expect(&rig, 1, 100000, 2);
}
END_TEST

static struct ripc__transport_ops ops;
static unsigned lost_at; /* the registration, from now on, that finds the lane lost; 0: none */
static int lost_status;  /* of it, or of each write that is posted; 0: it is posted */

static int reg(struct ripc__transport *t, struct ripc__ep *ep, void *base, size_t len,
	       unsigned access, struct ripc__mr *mr)
{
	if (lost_at && !--lost_at)
		return lost_status;
	return ripc__transport_sim.reg(t, ep, base, len, access, mr);
}

/*
 * The registration of an item finds the lane lost, or its device removed, before the lane's end is
 * reported: the message goes over the next lane, and no earlier item stays registered.
 */
START_TEST(select__lane_lost)
{
	struct iovec items[3] = {{data, 100000}, {data, 50000}, {data, 100000}};
	struct ripc__sim_counters counters;
	struct ripc_request *r;
	struct ripc_message *m;
	struct ripc__tp *tp;

	restart(2, _i & 1 ? slow_no_read : slow);
	rig_connect(&rig, 0, 1);
	tp = &rig.ctx[0]->tp[rig_lane(&rig, 0, 1)->tp];
	ops = *tp->ops;
	ops.reg = reg;
	tp->ops = &ops;
	lost_at = 3;
	lost_status = _i & 2 ? -ENODEV : -ENOTCONN;
	OK(ripc_send_async(rig.s[0], RIG_ID(1), items, 3, NULL, &r));
	ck_assert_int_eq(r->state, RIPC__REQUEST_PENDING);
	ck_assert_ptr_null(r->lane);
	ripc__sim_counters(rig.net, &counters);
	ck_assert_uint_eq(counters.regions, 0);
	ck_assert_uint_eq(rig_dest(&rig, 0, 1)->credit->sent_units, 0);
	ripc__sim_break(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1));
	OK(ripc_request_wait(&r, 5000));
	m = rig_take(&rig, 1);
	for (unsigned i = 0; i < 3; i++) {
		ck_assert_uint_eq(m->items[i].iov_len, items[i].iov_len);
		rig_verify(m->items[i].iov_base, items[i].iov_len, 1);
	}
	ripc_message_free(m);
	ripc__sim_counters(rig.net, &counters);
	ck_assert_uint_eq(counters.regions, 0);
	ck_assert_uint_eq(rig_stats(&rig, 0).lanes_opened, 2);
}
END_TEST

/* Into a return buffer: the first write of it, and the second, when the first is out. */
START_TEST(write__post_fails)
{
	struct ripc_request *r;
	void *back;

	restart(2, slow);
	rig_connect(&rig, 0, 1);
	back = ripc_buf_alloc(rig.ctx[1], 100000);
	rig_send_return_buffer(&rig, 1, 0, back, 100000);
	ripc__sim_fail_write_at(rig.net, 1 + (uint64_t)_i);
	r = rig_begin(&rig, 0, 1, data, 100000);
	ck_assert_int_eq(r->items[0].how, RIPC__HOW_WRITTEN);
	ck_assert_int_eq(r->state, _i ? RIPC__REQUEST_WRITING : RIPC__REQUEST_DONE);
	RC(-ENOMEM, ripc_request_wait(&r, 5000));
	ck_assert(strstr(ripc_error_detail(), "cannot be written: sim: ") != NULL);
	rig_expect_none(&rig, 1);
	/* The next is not held up by it. */
	OK(rig_long(&rig, 0, 1, 100000, 2, 5000));
	rig_expect(&rig, 1, 100000, 2);
	ck_assert_uint_eq(rig_stats(&rig, 0).lanes_opened, 1);
}
END_TEST

/* The granted region is returned. */
START_TEST(write__granted_post_fails)
{
	struct ripc_request *r;

	restart(2, slow_no_read);
	rig_connect(&rig, 0, 1);
	ripc__sim_fail_write_at(rig.net, 1 + (uint64_t)_i);
	r = rig_begin(&rig, 0, 1, data, 100000);
	RC(-ENOMEM, ripc_request_wait(&r, 5000));
	ck_assert(strstr(ripc_error_detail(), "cannot be written: sim: ") != NULL);
	rig_expect_none(&rig, 1);
	OK(rig_long(&rig, 0, 1, 100000, 2, 5000));
	rig_expect(&rig, 1, 100000, 2);
	ck_assert_uint_eq(rig_stats(&rig, 0).lanes_opened, 1);
}
END_TEST

static int transfer(struct ripc__ep *ep, const struct ripc__transfer *x)
{
	return lost_status && x->kind == RIPC__WRITE ? lost_status
						     : ripc__transport_sim.transfer(ep, x);
}

/* A write finds the lane lost, before its end is reported: nothing is sent behind it. */
START_TEST(write__lane_lost)
{
	static const int statuses[] = {-ENOTCONN, -ENODEV};
	struct ripc_request *r;
	struct ripc__tp *tp;

	restart(2, slow_no_read);
	rig_connect(&rig, 0, 1);
	tp = &rig.ctx[0]->tp[rig_lane(&rig, 0, 1)->tp];
	ops = *tp->ops;
	ops.transfer = transfer;
	tp->ops = &ops;
	lost_status = statuses[_i];
	r = rig_begin(&rig, 0, 1, data, 100000);
	rig_run(&rig, 20);
	rig_expect_none(&rig, 1);
	lost_status = 0;
	ripc__sim_break(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1));
	OK(ripc_request_wait(&r, 5000));
	rig_expect(&rig, 1, 100000, 1);
	tp->ops = &ripc__transport_sim;
}
END_TEST

START_TEST(select__memory_pinned_until_end)
{
	uint8_t *p = ripc_buf_alloc(rig.ctx[0], 100000);
	struct ripc__region *region = ripc__memory_find(rig.ctx[0], p, 1);
	struct iovec items[3] = {{p, 1000}, {p + 500, 1000}, {NULL, 0}};
	struct ripc_request *r;

	memset(p, 0, 2000);
	OK(ripc_send_async(rig.s[0], RIG_ID(1), items, 3, NULL, &r));
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

START_TEST(issue__in_start_order)
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
START_TEST(issue__request_limit)
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

/*
 * The first is delayed at the receiver: the others proceed to the end of the window, and no
 * further.
 */
START_TEST(issue__limit_waits_for_oldest)
{
	enum { N = RIPC__REQUESTS_MAX + 10 };
	static struct ripc_request *r[N];
	struct iovec item = {data, 1}, first[10];
	struct ripc_service *other;
	struct ripc_message *m;

	restart(2, slow);
	rig_connect(&rig, 0, 1);
	OK(ripc_service_register(rig.ctx[1], 77, 0, &other));
	OK(ripc_route_lookup(rig.ctx[0], 77, NULL, 5000));
	for (unsigned i = 0; i < 10; i++)
		first[i] = (struct iovec){data, LARGE};
	OK(ripc_send_async(rig.s[0], RIG_ID(1), first, 10, NULL, &r[0]));
	for (unsigned i = 1; i < N; i++) {
		OK(ripc_send_async(rig.s[0], 77, &item, 1, NULL, &r[i]));
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

START_TEST(issue__service_credit)
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
START_TEST(issue__unused_credit_returned)
{
	rig_connect(&rig, 0, 1);
	for (unsigned i = 0; i < 10; i++) {
		OK(rig_long(&rig, 0, 1, 100000, i, 5000));
		rig_expect(&rig, 1, 100000, i);
	}
	/* 48 + 24 bytes each */
	ck_assert_uint_eq(rig_dest(&rig, 0, 1)->credit->sent_units, 10 * 2);
}
END_TEST

/* ---- the end ---- */

START_TEST(ack__unknown_request)
{
	struct ripc_request *r;

	rig_connect(&rig, 0, 1);
	ripc__request_acked(rig_lane(&rig, 0, 1), 1, 0, false);
	ripc__request_acked(rig_lane(&rig, 0, 1), UINT64_MAX, -EIO, false);
	r = rig_begin(&rig, 0, 1, data, 10);
	ripc__request_acked(rig_lane(&rig, 0, 1), r->id + 1, -EIO, false);
	ripc__request_acked(rig_lane(&rig, 0, 1), r->id - 1, -EIO, false);
	ck_assert_int_eq(r->state, RIPC__REQUEST_SENT);
	OK(ripc_request_wait(&r, 5000));
	rig_expect(&rig, 1, 10, 1);
}
END_TEST

START_TEST(ack__peer_errors)
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

		ripc__request_acked(rig_lane(&rig, 0, 1), r->id, cases[i].answer, false);
		RC(cases[i].rc, ripc_request_wait(&r, 0));
		ck_assert(strstr(ripc_error_detail(), "service 1001") != NULL);
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

/* Of another length, or of no memory. */
START_TEST(grant__wrong_descriptor)
{
	uint8_t buf[RIPC__HEADER_MAX], *p;
	struct ripc__desc d = {.addr = 1,
			       .len = _i ? 100000 : 99999,
			       .key = 1,
			       .how = _i ? RIPC__HOW_INLINE : RIPC__HOW_GRANT};
	struct ripc_request *r;
	const char *why = NULL;
	struct ripc__header h;

	restart(2, slow_no_read);
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

/* ---- the calls ---- */

START_TEST(start__refused)
{
	struct ripc_request *r = NULL;
	struct iovec item = {data, 10}, items[RIPC_ITEMS_MAX + 1];
	struct ripc_send_options options = {.size = sizeof(options), .flags = 1u << 30};

	RC(-EINVAL, ripc_send_async(rig.s[0], RIG_ID(1), &item, 1, NULL, NULL));
	RC(-EINVAL, ripc_send_async(NULL, RIG_ID(1), &item, 1, NULL, &r));
	RC(-EINVAL, ripc_send_async(rig.s[0], 0, &item, 1, NULL, &r));
	RC(-EINVAL, ripc_send_async(rig.s[0], RIPC_ANY_ID, &item, 1, NULL, &r));
	RC(-EINVAL, ripc_send_async(rig.s[0], RIG_ID(1), &item, 0, NULL, &r));
	RC(-EINVAL, ripc_send_async(rig.s[0], RIG_ID(1), NULL, 1, NULL, &r));
	for (unsigned i = 0; i <= RIPC_ITEMS_MAX; i++)
		items[i] = item;
	RC(-EINVAL, ripc_send_async(rig.s[0], RIG_ID(1), items, RIPC_ITEMS_MAX + 1, NULL, &r));
	RC(-EOPNOTSUPP, ripc_send_async(rig.s[0], RIG_ID(1), &item, 1, &options, &r));
	item = (struct iovec){NULL, 1};
	RC(-EINVAL, ripc_send_async(rig.s[0], RIG_ID(1), &item, 1, NULL, &r));
	item = (struct iovec){data, SIZE_MAX};
	RC(-EINVAL, ripc_send_async(rig.s[0], RIG_ID(1), &item, 1, NULL, &r));
	ck_assert_ptr_null(r);
	RC(-EAGAIN, rig_long(&rig, 0, 1, 10, 1, 0));
}
END_TEST

START_TEST(send_long__timeout)
{
	RC(-EHOSTUNREACH, rig_long(&rig, 0, 2, 10000, 1, 100));
	restart(2, slow);
	rig_connect(&rig, 0, 1);
	RC(-ETIMEDOUT, rig_long(&rig, 0, 1, 4 * MIB, 1, 5));
	rig_expect_none(&rig, 1);
	rig_exchange(&rig, 0, 1);
}
END_TEST

START_TEST(request_wait__timeout)
{
	struct ripc_request *r;

	restart(2, slow);
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

int main(void)
{
	Suite *suite = suite_create("core/rendezvous/sender");
	TCase *tc = tcase_create("request");

	test_seed();
	tcase_add_checked_fixture(tc, requests_setup, requests_teardown);
	tcase_set_timeout(tc, 120);
	tcase_add_test(tc, select__fitting_message_inline);
	tcase_add_test(tc, select__large_read_small_inline);
	tcase_add_test(tc, select__grant_without_read);
	tcase_add_test(tc, select__inline_up_to_limit);
	tcase_add_test(tc, select__no_bounce_buffer);
	tcase_add_test(tc, select__registration_fails);
	tcase_add_loop_test(tc, select__lane_lost, 0, 4);
	tcase_add_loop_test(tc, write__post_fails, 0, 2);
	tcase_add_loop_test(tc, write__granted_post_fails, 0, 2);
	tcase_add_loop_test(tc, write__lane_lost, 0, 2);
	tcase_add_test(tc, select__memory_pinned_until_end);
	tcase_add_test(tc, issue__in_start_order);
	tcase_add_test(tc, issue__request_limit);
	tcase_add_test(tc, issue__limit_waits_for_oldest);
	tcase_add_test(tc, issue__service_credit);
	tcase_add_test(tc, issue__unused_credit_returned);
	tcase_add_test(tc, ack__unknown_request);
	tcase_add_test(tc, ack__peer_errors);
	tcase_add_test(tc, grant__not_asked_for);
	tcase_add_loop_test(tc, grant__wrong_descriptor, 0, 2);
	tcase_add_test(tc, start__refused);
	tcase_add_test(tc, send_long__timeout);
	tcase_add_test(tc, request_wait__timeout);
	suite_add_tcase(suite, tc);
	return test_main("core/rendezvous/sender", suite);
}
