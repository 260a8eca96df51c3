/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Items of memory that is no large buffer of the library: the sender copies them into buffers that
 * the receiver has mapped.
 */
#include "zero_copy_pair.h"

#include <stdlib.h>

/* As many messages of one service as it takes until its items are mapped, and a few more. */
#define FIRST 8
/* Messages of LEN bytes that do not fit into what one peer may read in place. */
#define KEPT 600

static uint8_t *own_memory(size_t len)
{
	uint8_t *p = malloc(len);

	ck_assert_ptr_nonnull(p);
	return p;
}

static bool mapped(const struct ripc_message *m)
{
	return m->placement[0] == RIPC_IN_SENDER_MEMORY;
}

/* Sends n messages one after another. Return: how many were read in the sender's memory. */
static unsigned sent_mapped(struct two *w, uint8_t *p, size_t len, unsigned n)
{
	unsigned in_place = 0;

	for (unsigned i = 0; i < n; i++) {
		struct ripc_request *r;
		struct ripc_message *m;

		fill(p, len, i);
		r = start(w, p, len);
		m = receive(w->to);
		ck_assert_uint_eq(m->items[0].iov_len, len);
		ck_assert(holds(m->items[0].iov_base, len, i));
		in_place += mapped(m);
		/* The sender does not wait, and what the receiver reads does not change. */
		finish(r);
		memset(p, 0, len);
		ck_assert(holds(m->items[0].iov_base, len, i));
		ripc_message_free(m);
	}
	return in_place;
}

START_TEST(mapped_copy__read_in_place)
{
	uint8_t *p = own_memory(LEN);
	struct two w;

	open_two(&w, "", "");
	/* Memory that is sent once or twice is not worth a mapping. */
	ck_assert_uint_eq(sent_mapped(&w, p, LEN, 2), 0);
	sent_mapped(&w, p, LEN, FIRST);
	/* Another buffer is used when RELEASE is late. */
	ck_assert_uint_ge(sent_mapped(&w, p, LEN, 20), 15);
	free(p);
	close_two(&w);
}
END_TEST

START_TEST(mapped_copy__size)
{
	static const struct {
		size_t len;
		bool copied;
	} cases[] = {
		{16 * KIB, false},
		{16 * KIB + 1, true},
		{16 * KIB * KIB, true},
		{16 * KIB * KIB + 1, false},
	};
	uint8_t *p = own_memory(16 * KIB * KIB + 1);
	struct two w;

	open_two(&w, "", "");
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (cases[i].copied) {
			AWAIT(sent_mapped(&w, p, cases[i].len, 1) == 1);
		} else {
			ck_assert_uint_eq(sent_mapped(&w, p, cases[i].len, FIRST), 0);
		}
	}
	free(p);
	close_two(&w);
}
END_TEST

/* Each message in flight has a buffer of its own, when the peer has mapped as many. */
START_TEST(mapped_copy__messages_in_flight)
{
	enum { IN_FLIGHT = 16, ROUNDS = 50 };
	unsigned in_place = 0;
	uint8_t *p[IN_FLIGHT];
	struct two w;

	open_two(&w, "", "");
	for (unsigned i = 0; i < IN_FLIGHT; i++)
		p[i] = own_memory(LEN);
	for (unsigned round = 0; round < ROUNDS && in_place < IN_FLIGHT; round++) {
		struct ripc_request *r[IN_FLIGHT];

		for (unsigned i = 0; i < IN_FLIGHT; i++) {
			fill(p[i], LEN, round + i);
			r[i] = start(&w, p[i], LEN);
		}
		in_place = 0;
		for (unsigned i = 0; i < IN_FLIGHT; i++) {
			struct ripc_message *m = receive(w.to);

			ck_assert(holds(m->items[0].iov_base, LEN, round + i));
			in_place += mapped(m);
			ripc_message_free(m);
			finish(r[i]);
		}
	}
	ck_assert_uint_eq(in_place, IN_FLIGHT);
	for (unsigned i = 0; i < IN_FLIGHT; i++)
		free(p[i]);
	close_two(&w);
}
END_TEST

/* A receiver that keeps its messages gets copies of its own when they become many. */
START_TEST(mapped_copy__kept_messages)
{
	struct ripc_message *kept[KEPT];
	uint8_t *p = own_memory(LEN);
	struct two w;

	open_two(&w, "", "");
	sent_mapped(&w, p, LEN, FIRST);
	for (unsigned round = 0; round < 2; round++) {
		size_t in_place = 0;

		for (unsigned i = 0; i < KEPT; i++) {
			struct ripc_request *r;

			fill(p, LEN, i);
			r = start(&w, p, LEN);
			kept[i] = receive(w.to);
			finish(r);
			in_place += mapped(kept[i]) ? LEN : 0;
		}
		ck_assert(!mapped(kept[KEPT - 1]));
		ck_assert_uint_le(in_place, 128 * KIB * KIB);
		memset(p, 0, LEN);
		for (unsigned i = 0; i < KEPT; i++) {
			ck_assert(holds(kept[i]->items[0].iov_base, LEN, i));
			ripc_message_free(kept[i]);
		}
		AWAIT(sent_mapped(&w, p, LEN, 1) == 1);
	}
	free(p);
	close_two(&w);
}
END_TEST

/* The copy of a message that was withdrawn serves the next one. */
START_TEST(mapped_copy__cancelled)
{
	uint8_t *p = own_memory(LEN);
	struct two w;
	unsigned before;

	open_two(&w, "", "");
	sent_mapped(&w, p, LEN, FIRST);
	before = mappings();
	for (unsigned i = 0; i < 20; i++) {
		struct ripc_message *m = NULL;
		struct ripc_request *r = start(&w, p, LEN);
		int rc = ripc_request_cancel(&r, PATIENCE_MS);

		/* It may have been delivered before. */
		ck_assert_msg(!rc || rc == -ECANCELED, "%s", ripc_strerror(rc));
		if (!ripc_receive(w.to, &m, 0))
			ripc_message_free(m);
	}
	/* One is in both contexts, and another one is used when RELEASE is late. */
	ck_assert_uint_le(mappings(), before + 6);
	AWAIT(sent_mapped(&w, p, LEN, 1) == 1);
	free(p);
	close_two(&w);
}
END_TEST

/* The receiver reads on after the sender is gone. */
START_TEST(mapped_copy__sender_closed)
{
	uint8_t *p = own_memory(LEN);
	struct ripc_request *r;
	struct ripc_message *m;
	struct two w;

	open_two(&w, "", "");
	sent_mapped(&w, p, LEN, FIRST);
	AWAIT(sent_mapped(&w, p, LEN, 1) == 1);
	fill(p, LEN, 1);
	m = in_place(&w, p, LEN, &r);
	finish(r);
	free(p);
	ck_assert_int_eq(ripc_close(w.a), 0);
	ck_assert(holds(m->items[0].iov_base, LEN, 1));
	ripc_message_free(m);
	ck_assert_int_eq(ripc_close(w.b), 0);
}
END_TEST

static const char *const without[][2] = {
	{"handover=off", ""}, {"", "handover=off"}, {"handover=strict", ""}};

START_TEST(mapped_copy__not_if_disabled)
{
	uint8_t *p = own_memory(LEN);
	struct two w;

	open_two(&w, without[_i][0], without[_i][1]);
	ck_assert_uint_eq(sent_mapped(&w, p, LEN, 20), 0);
	free(p);
	close_two(&w);
}
END_TEST

START_TEST(mapped_copy__registered_memory)
{
	uint8_t *p = own_memory(LEN);
	struct two w;

	open_two(&w, "", "");
	ck_assert_int_eq(ripc_buf_register(w.a, p, LEN), 0);
	sent_mapped(&w, p, LEN, FIRST);
	ck_assert_uint_ge(sent_mapped(&w, p, LEN, 20), 15);
	ck_assert_int_eq(ripc_buf_unregister(w.a, p), 0);
	free(p);
	close_two(&w);
}
END_TEST

/* An item that this context had to copy, as from another host, is sent on. */
START_TEST(mapped_copy__received_copy)
{
	uint64_t source = test_ids() + 2;
	struct ripc_message *copy, *m;
	struct iovec item = {own_memory(LEN), LEN};
	unsigned in_place = 0;
	struct ripc_service *s;
	struct ripc *other;
	struct two w;

	open_two(&w, "", "");
	other = open_one("handover=off");
	s = serve(other, source);
	for (unsigned i = 0; i < 20; i++) {
		struct ripc_request *r;

		fill(item.iov_base, LEN, i);
		ck_assert_int_eq(ripc_send_long(s, test_ids(), &item, 1, NULL, PATIENCE_MS), 0);
		copy = receive(w.from);
		ck_assert_uint_eq(copy->placement[0], RIPC_IN_POOL);
		r = start(&w, copy->items[0].iov_base, LEN);
		m = receive(w.to);
		finish(r);
		ripc_message_free(copy);
		ck_assert(holds(m->items[0].iov_base, LEN, i));
		in_place += mapped(m);
		ripc_message_free(m);
	}
	ck_assert_uint_ge(in_place, 10);
	free(item.iov_base);
	ck_assert_int_eq(ripc_close(other), 0);
	close_two(&w);
}
END_TEST

/* A buffer of up to 32 KiB has no memory object. */
START_TEST(mapped_copy__small_buffer)
{
	struct two w;
	uint8_t *p;

	open_two(&w, "", "");
	p = ripc_buf_alloc(w.a, 32 * KIB);
	ck_assert_ptr_nonnull(p);
	sent_mapped(&w, p, 32 * KIB, FIRST);
	ck_assert_uint_ge(sent_mapped(&w, p, 32 * KIB, 20), 15);
	ck_assert_int_eq(ripc_buf_free(w.a, p), 0);
	close_two(&w);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("transport/shm/mapped_copy");
	TCase *tc = tcase_create("copies in mapped buffers");

	tcase_add_test(tc, mapped_copy__read_in_place);
	tcase_add_test(tc, mapped_copy__size);
	tcase_add_test(tc, mapped_copy__messages_in_flight);
	tcase_add_test(tc, mapped_copy__kept_messages);
	tcase_add_test(tc, mapped_copy__cancelled);
	tcase_add_test(tc, mapped_copy__sender_closed);
	tcase_add_loop_test(tc, mapped_copy__not_if_disabled, 0,
			    sizeof(without) / sizeof(without[0]));
	tcase_add_test(tc, mapped_copy__registered_memory);
	tcase_add_test(tc, mapped_copy__received_copy);
	tcase_add_test(tc, mapped_copy__small_buffer);
	suite_add_tcase(s, tc);
	return test_main("transport/shm/mapped_copy", s);
}
