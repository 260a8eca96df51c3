/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Long messages at the receiver: valid and invalid headers of a peer, and the reaction to them. */
#include "core/rig.h"

#include "wire/bytes.h"

#include <stdio.h>

static struct rig rig;

/* A LONG of one item, from service 0 to service 1. */
static size_t put_long(uint8_t *buf, uint64_t id, uint64_t below, const struct ripc__desc *d,
		       size_t inlined)
{
	uint8_t *p = ripc__header_put(buf, RIPC__LONG, 0, 1, 0, RIG_ID(1), RIG_ID(0));

	ripc__put_le64(p, id);
	ripc__put_le64(p + 8, below);
	p = ripc__desc_put(p + 16, d);
	memset(p, 0x33, inlined);
	return (size_t)(p - buf) + inlined;
}

START_TEST(receive__id_out_of_bounds)
{
	static const struct {
		uint64_t id, below;
		bool ok;
	} cases[] = {{1, 0, false},
		     {1, 2, false},
		     {RIPC__REQUESTS_MAX + 1, 1, false},
		     {UINT64_MAX, 1, false},
		     {RIPC__REQUESTS_MAX, 1, true},
		     {UINT64_MAX, UINT64_MAX - 5, true},
		     {1, 1, true}};
	struct ripc__desc d = {.len = 10};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint8_t buf[200];
		size_t len = put_long(buf, cases[i].id, cases[i].below, &d, 10);
		uint64_t bad;

		rig_restart(&rig, 2, NULL);
		rig_connect(&rig, 0, 1);
		bad = rig_stats(&rig, 1).bad_messages;
		rig_inject(&rig, 0, 1, buf, len, 0);
		if (cases[i].ok)
			ripc_message_free(rig_take(&rig, 1));
		else
			rig_expect_none(&rig, 1);
		ck_assert_uint_eq(rig_stats(&rig, 1).bad_messages - bad, !cases[i].ok);
	}
}
END_TEST

/*
 * The number of a message that is under way is used again; or, on the next lane, that of one which
 * the loss of the lane cut short, for another service. A repetition of the same message is none.
 */
START_TEST(receive__id_in_use)
{
	struct ripc__desc d = {.len = 10, .how = RIPC__HOW_GRANT};
	struct ripc_service *other;
	uint8_t buf[200];
	size_t len = put_long(buf, 5, 1, &d, 0);

	OK(ripc_service_register(rig.ctx[1], 77, 0, &other));
	rig_connect(&rig, 0, 1);
	rig_inject(&rig, 0, 1, buf, len, 0);
	rig_run(&rig, 1);
	ck_assert_uint_eq(rig_waiting(rig.s[1], RIPC__RNDV_TRANSFER), 1);
	if (_i) {
		rig_fail_lane(&rig, 0, 1);
		rig_connect(&rig, 0, 1);
		ck_assert_uint_eq(rig_waiting(rig.s[1], RIPC__RNDV_SUSPENDED), 1);
		if (_i == 2)
			ripc__put_le64(buf + 8, 77);
	}
	rig_inject(&rig, 0, 1, buf, len, 0);
	rig_run(&rig, 1);
	ck_assert_uint_eq(rig_stats(&rig, 1).bad_messages, _i != 1);
	ck_assert_uint_eq(rig_waiting(rig.s[1], RIPC__RNDV_TRANSFER), _i == 1);
	ck_assert(ripc__list_empty(&other->rndvs_in));
}
END_TEST

/*
 * Many items are announced whose bytes never come. Their memory is not touched: one announcement
 * must not use up the memory of the host. More than all of it is refused.
 */
START_TEST(receive__announced_memory_untouched)
{
	static uint8_t buf[RIPC__HEADER_LEN + 16 + RIPC_ITEMS_MAX * RIPC__DESC_LEN];
	uint8_t *p = ripc__header_put(buf, RIPC__LONG, 0, RIPC_ITEMS_MAX, 0, RIG_ID(1), RIG_ID(0));
	uint64_t len = _i ? rig.ctx[1]->host_bytes / 8 : 32 * MIB, touched = 0;
	const struct ripc__memory *m = rig.ctx[1]->memory;

	ripc__put_le64(p, 1);
	ripc__put_le64(p + 8, 1);
	p += 16;
	for (unsigned i = 0; i < RIPC_ITEMS_MAX; i++)
		p = ripc__desc_put(p, &(struct ripc__desc){.len = len, .how = RIPC__HOW_GRANT});
	rig_connect(&rig, 0, 1);
	rig_inject(&rig, 0, 1, buf, (size_t)(p - buf), 0);
	rig_run(&rig, 5);
	for (size_t i = 0; i < m->nregions; i++)
		if (m->regions[i]->state == RIPC__REGION_MESSAGE)
			touched += m->regions[i]->prefaulted;
	ck_assert_uint_le(touched, RIPC__UNREAD_MAX);
	ck_assert_uint_eq(rig_waiting(rig.s[1], RIPC__RNDV_TRANSFER), !_i);
	ck_assert_uint_eq(rig_stats(&rig, 1).dropped_no_memory, (uint64_t)_i);
}
END_TEST

START_TEST(receive__duplicate_acked)
{
	struct ripc__desc d = {.len = 10};
	uint8_t buf[200];
	size_t len = put_long(buf, 5, 1, &d, 10);

	rig_connect(&rig, 0, 1);
	for (int i = 0; i < 3; i++)
		rig_inject(&rig, 0, 1, buf, len, 0);
	ripc_message_free(rig_take(&rig, 1));
	rig_expect_none(&rig, 1);
	ck_assert_uint_eq(rig_stats(&rig, 1).duplicates, 2);
	/* Numbers below the bound were finished long ago. */
	len = put_long(buf, 9, 9, &d, 10);
	rig_inject(&rig, 0, 1, buf, len, 0);
	ripc_message_free(rig_take(&rig, 1));
	len = put_long(buf, 8, 1, &d, 10);
	rig_inject(&rig, 0, 1, buf, len, 0);
	rig_expect_none(&rig, 1);
	ck_assert_uint_eq(rig_stats(&rig, 1).duplicates, 3);
}
END_TEST

/* An answer that service 0 gives to a call of service 1: one item, written when it is granted. */
static void inject_answer(uint64_t id, uint64_t call)
{
	struct ripc__desc d = {.len = 1000, .how = RIPC__HOW_GRANT};
	uint8_t buf[200], *p;

	p = ripc__header_put(buf, RIPC__LONG, RIPC__F_REPLY, 1, 0, RIG_ID(1), RIG_ID(0));
	ripc__put_le64(p, call);
	ripc__put_le64(p + 8, 0);
	ripc__put_le64(p + 16, id);
	ripc__put_le64(p + 24, rig_peer(&rig, 1, 0)->next_request_id - 1);
	p = ripc__desc_put(p + 32, &d);
	rig_inject(&rig, 0, 1, buf, (size_t)(p - buf), 0);
	rig_run(&rig, 5);
}

/*
 * The answer that a call waits for passes messages that the service has no room for. A second one,
 * or one to no call, does not: a peer cannot fill the memory with answers.
 */
START_TEST(receive__answer_to_a_full_service)
{
	static uint8_t number[8];
	struct iovec item = {number, sizeof(number)};
	struct ripc_request *full[2], *r;
	struct ripc_message *m;
	uint64_t id;

	for (unsigned i = 0; i < 2; i++)
		full[i] = rig_begin(&rig, 0, 1, ripc_buf_alloc(rig.ctx[0], 40 * MIB), 40 * MIB);
	while (!rig.s[1]->first)
		rig_run(&rig, 1);
	OK(ripc_call_start(rig.s[1], RIG_ID(0), &item, 1, NULL, 5000, &r));
	m = rig_take(&rig, 0);
	id = rig_peer(&rig, 1, 0)->next_request_id;
	inject_answer(id, m->call + 1);
	ck_assert_uint_eq(rig_waiting(rig.s[1], RIPC__RNDV_TRANSFER), 0);
	inject_answer(id + 1, m->call);
	ck_assert_uint_eq(rig_waiting(rig.s[1], RIPC__RNDV_TRANSFER), 1);
	inject_answer(id + 2, m->call);
	ck_assert_uint_eq(rig_waiting(rig.s[1], RIPC__RNDV_TRANSFER), 1);
	ck_assert_uint_eq(rig_waiting(rig.s[1], RIPC__RNDV_WAITING), 3);
	ripc_message_free(m);
	RC(-ECANCELED, ripc_request_wait(&r, 5000));
	for (unsigned i = 0; i < 2; i++)
		ripc_request_cancel(&full[i], 100);
}
END_TEST

/* Each of these closes the lane, and nothing else. */
START_TEST(receive__return_not_announced)
{
	static const struct ripc__desc cases[] = {
		{.addr = 1, .len = 10, .how = RIPC__HOW_INLINE},
		{.addr = 77, .len = 10, .how = RIPC__HOW_WRITTEN},
		{.addr = 0, .len = 10, .how = RIPC__HOW_WRITTEN},
		{.addr = UINT64_MAX, .len = 10, .how = RIPC__HOW_WRITTEN},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint8_t buf[200];
		size_t len =
			put_long(buf, 1, 1, &cases[i], cases[i].how == RIPC__HOW_INLINE ? 10 : 0);

		rig_restart(&rig, 2, NULL);
		rig_connect(&rig, 0, 1);
		rig_inject(&rig, 0, 1, buf, len, 0);
		rig_expect_none(&rig, 1);
		ck_assert_uint_eq(rig_stats(&rig, 1).bad_messages, 1);
		ck_assert(ripc__list_empty(&rig.s[1]->rndvs_in));
		rig_exchange(&rig, 1, 0);
	}
}
END_TEST

/* A length that no item may have closes the lane. Want of memory would be answered instead. */
START_TEST(receive__item_length_out_of_bounds)
{
	static const uint32_t hows[] = {RIPC__HOW_READ, RIPC__HOW_WRITTEN, RIPC__HOW_GRANT,
					RIPC__HOW_MAPPED};

	for (size_t i = 0; i < sizeof(hows) / sizeof(hows[0]); i++) {
		struct ripc__desc d = {
			.addr = 4096, .len = _i ? UINT64_C(1) << 47 : 0, .key = 1, .how = hows[i]};
		uint8_t buf[200], *window;
		size_t len = put_long(buf, 1, 1, &d, 0);

		rig_restart(&rig, 2, NULL);
		window = ripc_buf_alloc(rig.ctx[1], 1000);
		OK(ripc_window_add(rig.ctx[1], rig.s[1], window, 1000));
		rig_connect(&rig, 0, 1);
		rig_inject(&rig, 0, 1, buf, len, 0);
		rig_expect_none(&rig, 1);
		ck_assert_uint_eq(rig_stats(&rig, 1).bad_messages, 1);
		ck_assert_uint_eq(rig_stats(&rig, 1).lanes_lost, 1);
		OK(ripc_window_remove(rig.ctx[1], window));
		rig_exchange(&rig, 1, 0);
		OK(ripc_buf_free(rig.ctx[1], window));
	}
}
END_TEST

/* One that was offered is used twice in one message, or is too short. */
START_TEST(receive__return_misused)
{
	for (int how = 0; how < 3; how++) {
		uint8_t buf[300], *back, *p;
		struct ripc__desc d = {.len = how == 1 ? 101 : 10, .how = RIPC__HOW_WRITTEN};

		rig_restart(&rig, 2, NULL);
		rig_connect(&rig, 0, 1);
		back = ripc_buf_alloc(rig.ctx[1], 100);
		rig_send_return_buffer(&rig, 1, 0, back, 100);
		d.addr = ripc__list_entry(rig.ctx[1]->memory->returns.next,
					  struct ripc__local_return, link)
				 ->id;
		p = ripc__header_put(buf, RIPC__LONG, 0, how == 2 ? 2 : 1, 0, RIG_ID(1), RIG_ID(0));
		ripc__put_le64(p, 1);
		ripc__put_le64(p + 8, 1);
		p = ripc__desc_put(p + 16, &d);
		if (how == 2)
			p = ripc__desc_put(p, &d);
		rig_inject(&rig, 0, 1, buf, (size_t)(p - buf), 0);
		if (how == 0)
			ripc_message_free(rig_take(&rig, 1));
		else
			rig_expect_none(&rig, 1);
		ck_assert_uint_eq(rig_stats(&rig, 1).bad_messages, how != 0);
		/* It is the application's, whatever the peer did. */
		OK(ripc_buf_free(rig.ctx[1], back));
		rig_run(&rig, 5);
		ck_assert_uint_eq(rig.ctx[1]->memory->return_ids.count, 0);
	}
}
END_TEST

/* Reads of memory that is not there break the lane: the others do not notice. */
START_TEST(receive__read_invalid_address)
{
	struct ripc__desc d = {.addr = 4096, .len = 100000, .key = 12345, .how = RIPC__HOW_READ};
	uint8_t buf[200];
	size_t len = put_long(buf, 1, 1, &d, 0);

	rig_restart(&rig, 3, NULL);
	rig_connect(&rig, 0, 1);
	rig_connect(&rig, 2, 1);
	rig_inject(&rig, 0, 1, buf, len, 0);
	rig_run(&rig, 50);
	ck_assert_uint_eq(rig_stats(&rig, 1).lanes_lost, 1);
	rig_exchange(&rig, 2, 1);
	rig_run(&rig, 5000);
	ck_assert(ripc__list_empty(&rig.s[1]->rndvs_in) ||
		  rig_waiting(rig.s[1], RIPC__RNDV_SUSPENDED) == 1);
}
END_TEST

/* No memory is taken for what is absurd: here for the longest that an item may be. */
START_TEST(receive__absurd_lengths)
{
	struct ripc__desc d = {
		.addr = 4096, .len = (UINT64_C(1) << 47) - 1, .key = 12345, .how = RIPC__HOW_READ};
	uint8_t buf[200];
	size_t len = put_long(buf, 1, 1, &d, 0);

	rig_connect(&rig, 0, 1);
	rig_inject(&rig, 0, 1, buf, len, 0);
	rig_run(&rig, 50);
	ck_assert_uint_eq(rig_stats(&rig, 1).dropped_no_memory, 1);
	ck_assert(ripc__list_empty(&rig.s[1]->rndvs_in));
	ck_assert_uint_eq(rig.ctx[1]->stats.pool_bytes, 0);
}
END_TEST

static char logged[400];

static void on_log(void *arg, enum ripc_log_level level, const char *line)
{
	snprintf(logged, sizeof(logged), "%s", line);
}

/* The same on a host whose memory is not known: the kernel refuses it, when the transfer begins. */
START_TEST(receive__memory_refused)
{
	struct ripc__desc d = {
		.addr = 4096, .len = (UINT64_C(1) << 47) - 1, .key = 12345, .how = RIPC__HOW_READ};
	uint8_t buf[200];
	size_t len = put_long(buf, 1, 1, &d, 0);

	rig.ctx[1]->host_bytes = SIZE_MAX;
	rig_connect(&rig, 0, 1);
	rig_inject(&rig, 0, 1, buf, len, 0);
	ripc_log_set(on_log, NULL, RIPC_LOG_WARN);
	ripc__fail(-EINVAL, "former failure");
	rig_run(&rig, 50);
	ripc_log_set(NULL, NULL, RIPC_LOG_ERROR);
	ck_assert_msg(strstr(logged, "no memory for a long item of 140737488355327 bytes"), "%s",
		      logged);
	ck_assert_msg(strstr(logged, "out of memory"), "%s", logged);
	ck_assert_uint_eq(rig_stats(&rig, 1).dropped_no_memory, 1);
	ck_assert(ripc__list_empty(&rig.s[1]->rndvs_in));
}
END_TEST

START_TEST(fin__unknown_request)
{
	static const uint8_t kinds[] = {RIPC__FIN, RIPC__CANCEL, RIPC__ACK, RIPC__REVOKE,
					RIPC__REVOKED};

	rig_connect(&rig, 0, 1);
	for (size_t i = 0; i < sizeof(kinds); i++) {
		uint8_t buf[RIPC__HEADER_LEN + 16] = {0}, *p;

		p = ripc__header_put(buf, kinds[i], 0, 0, 0, 0, 0);
		ripc__put_le64(p, 1234);
		rig_inject(&rig, 0, 1, buf, kinds[i] == RIPC__ACK ? 48 : 40, 0);
	}
	rig_run(&rig, 5);
	ck_assert_uint_eq(rig_stats(&rig, 1).bad_messages, 0);
	rig_exchange(&rig, 0, 1);
}
END_TEST

static void setup(void)
{
	rig_start(&rig, 2, NULL);
}

static void teardown(void)
{
	rig_end(&rig);
}

int main(void)
{
	Suite *suite = suite_create("core/rendezvous/receive");
	TCase *tc = tcase_create("arrived");

	test_seed();
	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_set_timeout(tc, 120);
	tcase_add_test(tc, receive__id_out_of_bounds);
	tcase_add_loop_test(tc, receive__id_in_use, 0, 3);
	tcase_add_loop_test(tc, receive__announced_memory_untouched, 0, 2);
	tcase_add_test(tc, receive__duplicate_acked);
	tcase_add_test(tc, receive__answer_to_a_full_service);
	tcase_add_test(tc, receive__return_not_announced);
	tcase_add_loop_test(tc, receive__item_length_out_of_bounds, 0, 2);
	tcase_add_test(tc, receive__return_misused);
	tcase_add_test(tc, receive__read_invalid_address);
	tcase_add_test(tc, receive__absurd_lengths);
	tcase_add_test(tc, receive__memory_refused);
	tcase_add_test(tc, fin__unknown_request);
	suite_add_tcase(suite, tc);
	return test_main("core/rendezvous/receive", suite);
}
