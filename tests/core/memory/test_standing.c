/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Standing grants: who gets buffers, how many, when they are taken back, and peers that lie about
 * them. Over pool buffers, and over bounce buffers where registration is expensive.
 */
#include "core/memory/standing.h"
#include "core/rendezvous/request.h"
#include "core/rig.h"
#include "wire/bytes.h"
#include "transport/transfer.h"

static struct rig rig;
static uint8_t *data; /* MIB bytes */

static void pool(struct ripc__sim_config *config)
{
	config->written = true;
}

static void expensive(struct ripc__sim_config *config)
{
	config->caps_off = RIPC__CAP_CHEAP_REG;
}

static void (*const configs[])(struct ripc__sim_config *config) = {pool, expensive};

/* Sends n messages one after the other, each received at once. */
static void exchange(size_t len, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		OK(rig_long(&rig, 0, 1, len, i, 5000));
		rig_expect(&rig, 1, len, i);
	}
	rig_run(&rig, 1);
}

static uint64_t granted_bytes(void)
{
	return rig_lane(&rig, 1, 0)->memory->standing_bytes;
}

/* Pool buffers that context 0 knows. */
static unsigned known(void)
{
	return rig_dest(&rig, 0, 1)->nremote_returns;
}

START_TEST(grant__active_peer_only)
{
	rig_start(&rig, 2, configs[_i]);
	exchange(40000, 1);
	ck_assert_uint_eq(granted_bytes(), 0);
	exchange(MIB, 3);
	ck_assert_uint_eq(granted_bytes(), 0);
	exchange(40000, 1);
	ck_assert_uint_eq(granted_bytes(), 4 * 64 * KIB);
	ck_assert_uint_eq(known(), 4);
}
END_TEST

START_TEST(grant__next_items_are_written)
{
	struct ripc__remote_return *first;

	rig_start(&rig, 2, configs[_i]);
	exchange(40000, 2);
	first = ripc__list_entry(rig_dest(&rig, 0, 1)->remote_returns.next,
				 struct ripc__remote_return, link);
	ck_assert(first->pooled);
	exchange(65536, 1);
	/* A pool buffer is the message's now, a bounce buffer was copied. */
	ck_assert_uint_eq(known(), _i ? 4 : 3);
	/* The peer's application offered nothing. */
	ck_assert_uint_eq(rig_stats(&rig, 0).return_buffer_writes, 0);
	/* Pool buffers: half are used up, the peer gets new ones. */
	exchange(1500, 0);
	exchange(40000, 1);
	ck_assert_uint_eq(known(), 4);
	for (unsigned i = 0; i < 50; i++)
		exchange(10000 + 977 * i, 1);
	ck_assert_uint_le(granted_bytes(), RIPC__STANDING_LANE_MAX);
}
END_TEST

/* Bounce buffers stay granted: each message has an ACK, and nothing else. */
START_TEST(grant__bounce_buffers_reused)
{
	uint32_t sent;

	rig_start(&rig, 2, expensive);
	exchange(40000, 3);
	sent = rig_lane(&rig, 1, 0)->tx_seq;
	exchange(40000, 50);
	ck_assert_uint_eq(rig_lane(&rig, 1, 0)->tx_seq - sent, 50);
	ck_assert_uint_eq(known(), 4);
	ck_assert_uint_eq(granted_bytes(), 4 * 64 * KIB);
}
END_TEST

/* Messages under way use different ones, and a refused message gives its buffer back. */
START_TEST(grant__bounce_buffers_in_flight)
{
	struct ripc_request *r[6];

	rig_start(&rig, 2, expensive);
	exchange(40000, 3);
	for (unsigned round = 0; round < 20; round++) {
		for (unsigned i = 0; i < 6; i++) {
			rig_fill(data + i * 40000, 40000, round + i);
			r[i] = rig_begin(&rig, 0, 1, data + i * 40000, 40000);
		}
		for (unsigned i = 0; i < 6; i++)
			rig_expect(&rig, 1, 40000, round + i);
		for (unsigned i = 0; i < 6; i++)
			OK(ripc_request_wait(&r[i], 5000));
	}
	ck_assert_uint_eq(known(), 4);
	rig_check_memory(rig.ctx[1]);
}
END_TEST

START_TEST(grant__bounded)
{
	rig_start(&rig, 2, configs[_i]);
	for (size_t len = 1025; len <= 256 * KIB; len *= 2) {
		exchange(len, 10);
		ck_assert_uint_le(granted_bytes(), RIPC__STANDING_LANE_MAX);
		ck_assert_uint_eq(rig.ctx[1]->memory->standing_bytes, granted_bytes());
		rig_check_memory(rig.ctx[1]);
	}
}
END_TEST

START_TEST(grant__into_a_window)
{
	uint8_t *window;

	rig_start(&rig, 2, configs[_i]);
	exchange(40000, 2);
	window = ripc_buf_alloc(rig.ctx[1], 50000);
	OK(ripc_window_add(rig.ctx[1], NULL, window, 50000));
	OK(rig_long(&rig, 0, 1, 40000, 7, 5000));
	ck_assert_int_eq(rig_expect(&rig, 1, 40000, 7), RIPC_IN_WINDOW);
	rig_verify(window, 40000, 7);
}
END_TEST

START_TEST(idle__taken_back)
{
	rig_start(&rig, 2, configs[_i]);
	exchange(40000, 3);
	ck_assert_uint_gt(granted_bytes(), 0);
	/* A second, and not when another timer comes. */
	rig_run(&rig, 1010);
	ck_assert_uint_eq(granted_bytes(), 0);
	ck_assert_uint_eq(known(), 0);
	exchange(40000, 3);
	ck_assert_uint_gt(granted_bytes(), 0);
}
END_TEST

START_TEST(lane_gone__written_message_arrives_once)
{
	rig_start(&rig, 2, configs[_i]);
	exchange(40000, 3);
	for (unsigned i = 0; i < 20; i++) {
		struct ripc_request *r = rig_begin(&rig, 0, 1, data, 50000);

		rig_run(&rig, 0);
		ripc__sim_break(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1));
		OK(ripc_request_wait(&r, 5000));
		rig_expect(&rig, 1, 50000, 1);
		rig_expect_none(&rig, 1);
		exchange(40000, i % 4);
	}
}
END_TEST

/* A LONG from 0 to 1 of one item in the return buffer id. */
static size_t forge(uint8_t *buf, uint64_t id, size_t len, enum ripc__how how)
{
	uint64_t request = rig_peer(&rig, 0, 1)->next_request_id;
	struct ripc__desc d = {.addr = id, .len = len, .how = how};
	uint8_t *p = ripc__header_put(buf, RIPC__LONG, 0, 1, 0, RIG_ID(1), RIG_ID(0));

	ripc__put_le64(p, request);
	ripc__put_le64(p + 8, request);
	p = ripc__desc_put(p + 16, &d);
	if (how == RIPC__HOW_WRITTEN)
		return (size_t)(p - buf);
	memset(p, 0x33, len);
	return (size_t)(p - buf) + len;
}

/* Id of the oldest standing buffer that context 1 has granted to context 0. */
static uint32_t first_standing_id(void)
{
	return ripc__list_entry(rig_lane(&rig, 1, 0)->memory->standing.next,
				struct ripc__local_return, link)
		->id;
}

/* The one that the peer takes next. */
static uint32_t last_standing_id(void)
{
	return ripc__list_entry(rig_lane(&rig, 1, 0)->memory->standing.prev,
				struct ripc__local_return, link)
		->id;
}

/* The sender names a buffer that it has not written: no byte of others may be delivered. */
START_TEST(hostile__nothing_written)
{
	uint8_t buf[RIPC__HEADER_MAX];
	uint32_t id;

	rig_start(&rig, 2, pool);
	exchange(40000, 2);
	id = first_standing_id();
	rig_inject(&rig, 0, 1, buf, forge(buf, id, 100, RIPC__HOW_WRITTEN), 0);
	rig_run(&rig, 10);
	rig_expect_none(&rig, 1);
	ck_assert_uint_eq(rig_stats(&rig, 1).bad_messages, 1);
	exchange(40000, 5);
}
END_TEST

/* The item lies in the message, and names the buffer all the same. */
START_TEST(hostile__inline_item)
{
	uint8_t buf[RIPC__HEADER_MAX + 100];

	rig_start(&rig, 2, configs[_i]);
	exchange(40000, 2);
	rig_inject(&rig, 0, 1, buf, forge(buf, first_standing_id(), 100, RIPC__HOW_INLINE), 0);
	rig_run(&rig, 10);
	rig_expect_none(&rig, 1);
	ck_assert_uint_eq(rig_stats(&rig, 1).bad_messages, 1);
	exchange(40000, 5);
}
END_TEST

/* The buffer was granted for another service. */
START_TEST(hostile__of_another_service)
{
	struct ripc_service *other;
	uint8_t buf[RIPC__HEADER_MAX];
	size_t len;

	rig_start(&rig, 2, expensive);
	OK(ripc_service_register(rig.ctx[1], RIG_ID(5), 0, &other));
	exchange(40000, 2);
	len = forge(buf, first_standing_id(), 100, RIPC__HOW_WRITTEN);
	ripc__put_le64(buf + 8, RIG_ID(5));
	rig_inject(&rig, 0, 1, buf, len, 0);
	rig_run(&rig, 10);
	ck_assert_ptr_null(other->first);
	ck_assert_uint_eq(rig_stats(&rig, 1).bad_messages, 1);
	exchange(40000, 5);
}
END_TEST

/* The buffer was used by a message before, whose memory it is now. */
START_TEST(hostile__used_twice)
{
	uint8_t buf[RIPC__HEADER_MAX];
	uint32_t id;

	rig_start(&rig, 2, pool);
	exchange(40000, 2);
	id = last_standing_id();
	exchange(40000, 4);
	rig_inject(&rig, 0, 1, buf, forge(buf, id, 100, RIPC__HOW_WRITTEN), 0);
	rig_run(&rig, 10);
	rig_expect_none(&rig, 1);
	ck_assert_uint_eq(rig_stats(&rig, 1).bad_messages, 1);
}
END_TEST

/* The sender uses a bounce buffer again without having written it: it holds what the peer wrote. */
START_TEST(hostile__bounce_buffer_not_written_again)
{
	uint8_t buf[RIPC__HEADER_MAX];
	uint32_t id;

	rig_start(&rig, 2, expensive);
	exchange(40000, 2);
	id = last_standing_id();
	exchange(40000, 4);
	rig_inject(&rig, 0, 1, buf, forge(buf, id, 100, RIPC__HOW_WRITTEN), 0);
	rig_expect(&rig, 1, 100, 3);
	ck_assert_uint_eq(rig_stats(&rig, 1).bad_messages, 0);
}
END_TEST

/*
 * The sender writes a buffer that was taken back and serves another message by now: the write is
 * refused and ends the lane, and both go on over a new one.
 */
START_TEST(hostile__written_after_revocation)
{
	struct ripc_request write = {.writes = 1}; /* what its end refers to */
	const struct ripc__remote_return *o;
	struct ripc__desc d = {0};
	struct ripc__list *n;
	struct ripc__lane *lane;
	struct ripc__mr mr;
	struct ripc__tp *tp;
	uint64_t lost;

	rig_start(&rig, 2, configs[_i]);
	exchange(40000, 3);
	ripc__list_for_each (n, &rig_dest(&rig, 0, 1)->remote_returns) {
		o = ripc__list_entry(n, struct ripc__remote_return, link);
		if (o->pooled && o->desc.len >= 40000)
			d = o->desc;
	}
	ck_assert_uint_ne(d.len, 0);
	rig_run(&rig, 3000);
	ck_assert_uint_eq(granted_bytes(), 0);
	rig_connect(&rig, 0, 1);
	OK(rig_long(&rig, 0, 1, 40000, 9, 5000));
	write.lane = lane = rig_lane(&rig, 0, 1);
	lost = rig_stats(&rig, 1).lanes_lost;
	tp = &rig.ctx[0]->tp[lane->tp];
	OK(ripc__sim_hostile(rig.net, rig_instance(&rig, 0)));
	OK(tp->ops->reg(tp->t, lane->ep, data, 40000, 0, &mr));
	ck_assert_int_eq(
		test_write(tp->ops, lane->ep, &mr, data, 40000, d.addr, d.key, (uintptr_t)&write),
		0);
	rig_run(&rig, 10);
	tp->ops->dereg(tp->t, &mr);
	ck_assert_uint_eq(rig_stats(&rig, 1).lanes_lost, lost + 1);
	rig_expect(&rig, 1, 40000, 9);
	exchange(40000, 5);
}
END_TEST

/* The messages are not received: the sender gets no buffers beyond a bound. */
START_TEST(slow__sender_gets_no_buffers)
{
	rig_start(&rig, 2, configs[_i]);
	for (unsigned i = 0; i < 200; i++)
		OK(rig_long(&rig, 0, 1, 64 * KIB, i, 5000));
	rig_run(&rig, 1);
	ck_assert_uint_eq(granted_bytes(), 0);
	for (unsigned i = 0; i < 200; i++)
		rig_expect(&rig, 1, 64 * KIB, i);
	exchange(64 * KIB, 3);
	ck_assert_uint_gt(granted_bytes(), 0);
}
END_TEST

static void setup(void)
{
	data = malloc(MIB);
	rig_fill(data, MIB, 1);
}

static void teardown(void)
{
	rig_end(&rig);
	free(data);
}

int main(void)
{
	Suite *suite = suite_create("core/memory/standing");
	TCase *tc = tcase_create("standing");

	test_seed();
	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_set_timeout(tc, 60);
	tcase_add_loop_test(tc, grant__active_peer_only, 0, 2);
	tcase_add_loop_test(tc, grant__next_items_are_written, 0, 2);
	tcase_add_test(tc, grant__bounce_buffers_reused);
	tcase_add_test(tc, grant__bounce_buffers_in_flight);
	tcase_add_loop_test(tc, grant__bounded, 0, 2);
	tcase_add_loop_test(tc, grant__into_a_window, 0, 2);
	tcase_add_loop_test(tc, idle__taken_back, 0, 2);
	tcase_add_loop_test(tc, lane_gone__written_message_arrives_once, 0, 2);
	tcase_add_test(tc, hostile__nothing_written);
	tcase_add_loop_test(tc, hostile__inline_item, 0, 2);
	tcase_add_test(tc, hostile__of_another_service);
	tcase_add_test(tc, hostile__used_twice);
	tcase_add_test(tc, hostile__bounce_buffer_not_written_again);
	tcase_add_loop_test(tc, hostile__written_after_revocation, 0, 2);
	tcase_add_loop_test(tc, slow__sender_gets_no_buffers, 0, 2);
	suite_add_tcase(suite, tc);
	return test_main("core/memory/standing", suite);
}
