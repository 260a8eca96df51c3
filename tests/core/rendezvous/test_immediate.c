/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Long messages that are one write with immediate data: which ones, what they carry, and peers that
 * lie in it. Over pool buffers, and over bounce buffers where registration is expensive.
 */
#include "core/memory/standing.h"
#include "core/rendezvous/delayed_ack.h"
#include "core/rendezvous/request.h"
#include "core/rig.h"
#include "wire/immediate.h"
#include "transport/transfer.h"

#define LEN 40000u

static struct rig rig;
static uint8_t *data; /* MIB bytes */

static void pool(struct ripc__sim_config *config)
{
	config->written = config->write_imm = true;
}

static void expensive(struct ripc__sim_config *config)
{
	config->write_imm = true;
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

/* Context 0 has buffers of context 1, and has sent a LONG. */
static void begin(void (*change)(struct ripc__sim_config *config))
{
	rig_start(&rig, 2, change);
	exchange(LEN, 2);
}

static struct ripc__sim_counters counters(void)
{
	struct ripc__sim_counters c;

	ripc__sim_counters(rig.net, &c);
	return c;
}

/* The nth buffer of context 1 that context 0 knows, of len bytes. */
static const struct ripc__desc *known(unsigned nth, size_t len)
{
	struct ripc__list *n;

	ripc__list_for_each (n, &rig_dest(&rig, 0, 1)->remote_returns) {
		const struct ripc__remote_return *o =
			ripc__list_entry(n, struct ripc__remote_return, link);

		if (o->pooled && o->desc.len == len && !nth--)
			return &o->desc;
	}
	ck_abort_msg("no such buffer");
	return NULL;
}

/* ---- what is sent so ---- */

START_TEST(one_item__one_write_and_its_ack)
{
	struct ripc__sim_counters before, after;

	begin(expensive);
	before = counters();
	exchange(LEN, 50);
	after = counters();
	ck_assert_uint_eq(after.written_messages - before.written_messages, 50);
	ck_assert_uint_eq(after.writes - before.writes, 50);
	/* The ACKs. */
	ck_assert_uint_eq(after.sends - before.sends, 50);
	ck_assert_uint_eq(rig_stats(&rig, 1).bad_messages, 0);
}
END_TEST

/* Pool buffers become the messages', so that new ones are granted. */
START_TEST(one_item__of_any_length)
{
	begin(configs[_i]);
	for (unsigned i = 0; i < 60; i++)
		exchange(20000 + 701 * i, 1);
	ck_assert_uint_ge(counters().written_messages, 50);
	ck_assert_uint_eq(rig_stats(&rig, 1).bad_messages, 0);
	rig_check_memory(rig.ctx[1]);
}
END_TEST

START_TEST(in_flight__several)
{
	struct ripc_request *r[6];
	uint64_t before;

	begin(configs[_i]);
	before = counters().written_messages;
	for (unsigned round = 0; round < 20; round++) {
		for (unsigned i = 0; i < 6; i++) {
			rig_fill(data + i * LEN, LEN, round + i);
			r[i] = rig_begin(&rig, 0, 1, data + i * LEN, LEN);
		}
		for (unsigned i = 0; i < 6; i++)
			rig_expect(&rig, 1, LEN, round + i);
		for (unsigned i = 0; i < 6; i++)
			OK(ripc_request_wait(&r[i], 5000));
	}
	ck_assert_uint_ge(counters().written_messages - before, 20 * 2);
	rig_check_memory(rig.ctx[1]);
}
END_TEST

/* More earlier messages without an ACK than the word can count. */
START_TEST(in_flight__behind_many_without_ack)
{
	struct ripc_request *r[RIPC__IMM_OLDER_MAX + 2];
	const unsigned n = sizeof(r) / sizeof(r[0]);
	uint64_t before;

	begin(expensive);
	for (unsigned most = n - 1; most <= n; most++) {
		/* Context 1 does not run: all of them wait for their ACK. */
		OK(ripc__sim_hold(rig.net, rig_instance(&rig, 1), true));
		for (unsigned i = 0; i < most - 1; i++)
			r[i] = rig_begin(&rig, 0, 1, data, 100);
		before = counters().written_messages;
		r[most - 1] = rig_begin(&rig, 0, 1, data, LEN);
		ck_assert_uint_eq(counters().written_messages - before, most < n);
		OK(ripc__sim_hold(rig.net, rig_instance(&rig, 1), false));
		for (unsigned i = 0; i < most - 1; i++)
			rig_expect(&rig, 1, 100, 1);
		rig_expect(&rig, 1, LEN, 1);
		for (unsigned i = 0; i < most; i++)
			OK(ripc_request_wait(&r[i], 5000));
	}
	ck_assert_uint_eq(rig_stats(&rig, 1).bad_messages, 0);
}
END_TEST

START_TEST(peer_without__in_full)
{
	rig_init(&rig, configs[_i]);
	rig_open(&rig, NULL);
	rig.config.write_imm = false;
	ripc__sim_configure(rig.net, &rig.config);
	rig_open(&rig, NULL);
	exchange(LEN, 10);
	ck_assert_uint_eq(rig_dest(&rig, 0, 1)->nremote_returns > 0, 1);
	ck_assert_uint_gt(counters().writes, 0);
	ck_assert_uint_eq(counters().written_messages, 0);
}
END_TEST

START_TEST(other_message_between__in_full)
{
	struct iovec items[2] = {{data, LEN}, {data, 300}};
	struct ripc_message *m;
	uint64_t before;

	begin(expensive);
	/* Two items. */
	before = counters().written_messages;
	OK(ripc_send(rig.s[0], RIG_ID(1), items, 2, NULL, 5000));
	m = rig_take(&rig, 1);
	ck_assert_uint_eq(m->nitems, 2);
	rig_verify(m->items[0].iov_base, LEN, 1);
	rig_verify(m->items[1].iov_base, 300, 1);
	ripc_message_free(m);
	ck_assert_uint_eq(counters().written_messages, before);
	/* A LONG of other services. */
	exchange(LEN, 1);
	ck_assert_uint_eq(counters().written_messages, ++before);
	OK(ripc_send(rig.s[0], RIG_ID(1), items, 1, NULL, 5000));
	rig_expect(&rig, 1, LEN, 1);
	ck_assert_uint_eq(counters().written_messages, ++before);
}
END_TEST

/* A message that was withdrawn unsent has used up a number. */
START_TEST(gap_in_numbers__in_full)
{
	struct ripc_request *r;
	uint64_t before;

	begin(configs[_i]);
	rig.config.queue_full = 1;
	ripc__sim_configure(rig.net, &rig.config);
	r = rig_begin(&rig, 0, 1, data, LEN);
	ck_assert_int_eq(r->state, RIPC__REQUEST_WRITING);
	RC(-ECANCELED, ripc_request_cancel(&r, 5000));
	rig.config.queue_full = 0;
	ripc__sim_configure(rig.net, &rig.config);
	rig_run(&rig, 5);
	before = counters().written_messages;
	exchange(LEN, 1);
	ck_assert_uint_eq(counters().written_messages, before);
	exchange(LEN, 1);
	ck_assert_uint_eq(counters().written_messages, before + 1);
}
END_TEST

/* Messages to two services of a peer in turns: each refers to another LONG than the last. */
START_TEST(two_services__each_gets_its_own)
{
	struct ripc_service *second;
	struct ripc_message *m;
	struct iovec item = {data, LEN};

	begin(expensive);
	OK(ripc_service_register(rig.ctx[1], 77, 0, &second));
	for (unsigned i = 0; i < 20; i++) {
		bool to_second = i / 3 % 2;

		rig_fill(data, LEN, i);
		OK(ripc_send(rig.s[0], to_second ? 77 : RIG_ID(1), &item, 1, NULL, 5000));
		OK(ripc_receive(to_second ? second : rig.s[1], &m, 5000));
		ck_assert_uint_eq(m->dest, to_second ? 77 : RIG_ID(1));
		ck_assert_uint_eq(m->source, RIG_ID(0));
		rig_verify(m->items[0].iov_base, LEN, i);
		ripc_message_free(m);
		rig_run(&rig, 1);
	}
	ck_assert_uint_gt(counters().written_messages, 6);
	OK(ripc_service_unregister(second));
}
END_TEST

static void note_longest(void *arg, const uint8_t from[16], const uint8_t to[16], uint8_t *bytes,
			 size_t *len)
{
	size_t *longest = arg;

	if (*len > *longest)
		*longest = *len;
}

/* Four bytes that the transport may send as immediate data, so that the payload fills a packet. */
START_TEST(short_message__header_elided)
{
	size_t longest = 0;

	rig_start(&rig, 2, expensive);
	OK(rig_short(&rig, 0, 1, 4096, 1, 5000));
	rig_expect(&rig, 1, 4096, 1);
	ripc__sim_tamper(rig.net, note_longest, &longest);
	OK(rig_short(&rig, 0, 1, 4096, 2, 5000));
	rig_expect(&rig, 1, 4096, 2);
	ck_assert_uint_eq(longest, 4096 + RIPC__ELIDED_LEN);
	ripc__sim_tamper(rig.net, NULL, NULL);
}
END_TEST

/* ---- the piggybacked ACK ---- */

static void round_trip(void)
{
	struct ripc_request *r = rig_begin(&rig, 0, 1, data, LEN), *back;

	rig_expect(&rig, 1, LEN, 1);
	back = rig_begin(&rig, 1, 0, data, LEN);
	rig_expect(&rig, 0, LEN, 1);
	OK(ripc_request_wait(&r, 5000));
	if (back->state != RIPC__REQUEST_DONE && !rig.ctx[0]->delayed_ack.held)
		OK(ripc_request_wait(&back, 5000));
}

/* A round trip is two writes and nothing else. */
START_TEST(ack__in_the_word)
{
	struct ripc__sim_counters before, after;

	begin(expensive);
	for (int i = 0; i < 4 * RIPC__STREAK_MIN; i++)
		round_trip();
	before = counters();
	for (int i = 0; i < 5; i++)
		round_trip();
	after = counters();
	ck_assert_uint_eq(after.written_messages - before.written_messages, 10);
	ck_assert_uint_eq(after.sends - before.sends, 0);
	/* The buffers are free again. */
	ck_assert_uint_eq(rig_dest(&rig, 0, 1)->nremote_returns, 4);
	/* The CREDIT that follows some replies does not change that. */
	for (int i = 0; i < 300; i++)
		round_trip();
	ck_assert_uint_eq(rig_stats(&rig, 0).bad_messages + rig_stats(&rig, 1).bad_messages, 0);
}
END_TEST

/* A message that was not in a standing buffer has an ACK that the word cannot carry. */
START_TEST(ack__other_in_full)
{
	struct ripc_request *r, *back;
	uint64_t before;

	begin(expensive);
	for (int i = 0; i < 4 * RIPC__STREAK_MIN; i++)
		round_trip();
	rig_run(&rig, 5);
	r = rig_begin(&rig, 0, 1, data, 100);
	rig_expect(&rig, 1, 100, 1);
	ck_assert(rig.ctx[1]->delayed_ack.held);
	before = counters().written_messages;
	back = rig_begin(&rig, 1, 0, data, LEN);
	ck_assert_uint_eq(counters().written_messages, before);
	rig_expect(&rig, 0, LEN, 1);
	OK(ripc_request_test(&r));
	rig_run(&rig, 5);
	OK(ripc_request_wait(&back, 5000));
}
END_TEST

/* ---- loss ---- */

/* The lane ends at each of the operations of an exchange: every message arrives once. */
START_TEST(lane_lost__arrives_once)
{
	begin(configs[_i]);
	for (unsigned nth = 1; nth <= 6; nth++) {
		struct ripc_request *r;

		exchange(LEN, 3);
		r = rig_begin(&rig, 0, 1, data, LEN);
		OK(ripc__sim_break_at(rig.net, rig_instance(&rig, 0), rig_instance(&rig, 1), nth));
		OK(ripc_request_wait(&r, 5000));
		rig_expect(&rig, 1, LEN, 1);
		rig_run(&rig, 5);
		rig_expect_none(&rig, 1);
	}
	ck_assert_uint_eq(rig_stats(&rig, 1).bad_messages, 0);
}
END_TEST

/* The queue is full at times: the message is not sent twice. */
START_TEST(queue_full__sent_once)
{
	begin(configs[_i]);
	rig.config.queue_full = 0.5;
	ripc__sim_configure(rig.net, &rig.config);
	exchange(LEN, 100);
	rig_expect_none(&rig, 1);
	rig.config.queue_full = 0;
	ripc__sim_configure(rig.net, &rig.config);
}
END_TEST

/* The write cannot be posted: the message goes with a header. */
START_TEST(post_fails__in_full)
{
	uint64_t before;

	begin(expensive);
	before = counters().written_messages;
	ripc__sim_fail_write_at(rig.net, 1);
	exchange(LEN, 1);
	ck_assert_uint_eq(counters().written_messages, before);
	exchange(LEN, 1);
	ck_assert_uint_eq(counters().written_messages, before + 1);
}
END_TEST

/* ---- buffers ---- */

/* The lower bits of ids are distinct on a lane, whatever return buffers there were. */
START_TEST(buffers__distinct_in_lower_bits)
{
	bool seen[RIPC__IMM_BUFFER_MASK + 1] = {false};
	struct ripc__local_return *r = NULL;
	struct ripc__list *n;
	unsigned count = 0;

	begin(expensive);
	ripc__list_for_each (n, &rig_lane(&rig, 1, 0)->memory->standing)
		r = ripc__list_entry(n, struct ripc__local_return, link);
	ck_assert_ptr_nonnull(r);
	/* The next ids would have the lower bits of the present buffers. */
	rig.ctx[1]->memory->next_return_id = (uint32_t)r->id + RIPC__IMM_BUFFER_MASK + 1 - 4;
	rig_lane(&rig, 1, 0)->flow->standing_len = 32 * KIB;
	exchange(30000, 3);
	ripc__list_for_each (n, &rig_lane(&rig, 1, 0)->memory->standing) {
		r = ripc__list_entry(n, struct ripc__local_return, link);
		ck_assert(!seen[r->id & RIPC__IMM_BUFFER_MASK]);
		seen[r->id & RIPC__IMM_BUFFER_MASK] = true;
		count++;
	}
	ck_assert_uint_gt(count, 4);
}
END_TEST

/* ---- peers that lie ---- */

/* A hostile write of len bytes from context 0 into a buffer that it knows, with this word. */
static void write_word(const struct ripc__desc *into, size_t len, uint32_t word)
{
	static struct ripc_request write; /* what its end refers to */
	struct ripc__lane *lane = rig_lane(&rig, 0, 1);
	struct ripc__tp *tp = &rig.ctx[0]->tp[lane->tp];
	struct ripc__mr mr;

	write = (struct ripc_request){.writes = 2, .lane = lane};
	OK(ripc__sim_hostile(rig.net, rig_instance(&rig, 0)));
	OK(tp->ops->reg(tp->t, lane->ep, data, MIB, 0, &mr));
	OK(test_transfer(tp->ops, lane->ep, RIPC__WRITE_IMM, word, &mr, data, len, into->addr,
			 into->key, (uintptr_t)&write));
	rig_run(&rig, 10);
	tp->ops->dereg(tp->t, &mr);
}

/* The word that context 0 would send for a buffer. */
static uint32_t word_for(uint32_t buffer)
{
	struct ripc__immediate m = {.buffer = buffer};

	return ripc__immediate_stamp(ripc__immediate_put(&m), rig_lane(&rig, 0, 1)->tx_seq, 0);
}

/* The message was refused and its lane closed; both go on over the next one. */
static void refused(void)
{
	rig_expect_none(&rig, 1);
	ck_assert_uint_eq(rig_stats(&rig, 1).bad_messages, 1);
	exchange(LEN, 5);
	ck_assert_uint_eq(rig_stats(&rig, 1).bad_messages, 1);
	rig_check_memory(rig.ctx[1]);
}

/* Begins, and returns the first buffer. */
static const struct ripc__desc *begin_known(void (*change)(struct ripc__sim_config *config))
{
	begin(change);
	return known(0, 64 * KIB);
}

/* The word is right: what the following tests change is what is refused. */
START_TEST(hostile__none)
{
	const struct ripc__desc *d = begin_known(expensive);

	write_word(d, LEN, word_for(d->how));
	rig_expect(&rig, 1, LEN, 1);
	ck_assert_uint_eq(rig_stats(&rig, 1).bad_messages, 0);
}
END_TEST

START_TEST(hostile__unknown_buffer)
{
	const struct ripc__desc *d = begin_known(configs[_i]);

	write_word(d, LEN, word_for(d->how + 100));
	refused();
}
END_TEST

START_TEST(hostile__longer_than_the_buffer)
{
	begin(expensive);
	/* Buffers of a smaller length. */
	rig_lane(&rig, 1, 0)->flow->standing_len = 16 * KIB;
	exchange(10000, 1);
	write_word(known(0, 64 * KIB), LEN, word_for(known(0, 16 * KIB)->how));
	refused();
}
END_TEST

START_TEST(hostile__other_buffer_written)
{
	const struct ripc__desc *d = begin_known(pool);

	write_word(d, LEN, word_for(known(1, 64 * KIB)->how));
	refused();
}
END_TEST

START_TEST(hostile__nothing_written)
{
	const struct ripc__desc *d = begin_known(configs[_i]);

	write_word(d, 0, word_for(d->how));
	refused();
}
END_TEST

START_TEST(hostile__out_of_sequence)
{
	const struct ripc__desc *d = begin_known(configs[_i]);

	write_word(d, LEN, word_for(d->how) ^ 1);
	refused();
}
END_TEST

START_TEST(hostile__no_message_before)
{
	const struct ripc__desc *d = begin_known(configs[_i]);

	rig_lane(&rig, 1, 0)->memory->rx_long.request = 0;
	write_word(d, LEN, word_for(d->how));
	refused();
}
END_TEST

/* An ACK for what was not sent is ignored, as in F_ACK. */
START_TEST(hostile__ack_of_nothing)
{
	struct ripc__immediate m = {.acked = RIPC__ACK_REUSABLE | 77};
	const struct ripc__desc *d = begin_known(expensive);

	m.buffer = d->how;
	write_word(d, LEN,
		   ripc__immediate_stamp(ripc__immediate_put(&m), rig_lane(&rig, 0, 1)->tx_seq, 0));
	rig_expect(&rig, 1, LEN, 1);
	ck_assert_uint_eq(rig_stats(&rig, 1).bad_messages, 0);
}
END_TEST

/* The peer has not agreed to such writes. */
START_TEST(hostile__not_agreed)
{
	const struct ripc__desc *d = begin_known(expensive);

	rig_lane(&rig, 1, 0)->caps &= ~RIPC__CAP_WRITE_IMM;
	write_word(d, LEN, word_for(d->how));
	refused();
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
	Suite *suite = suite_create("core/rendezvous/immediate");
	TCase *tc = tcase_create("immediate");

	test_seed();
	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, one_item__one_write_and_its_ack);
	tcase_add_loop_test(tc, one_item__of_any_length, 0, 2);
	tcase_add_loop_test(tc, in_flight__several, 0, 2);
	tcase_add_test(tc, in_flight__behind_many_without_ack);
	tcase_add_loop_test(tc, peer_without__in_full, 0, 2);
	tcase_add_test(tc, other_message_between__in_full);
	tcase_add_loop_test(tc, gap_in_numbers__in_full, 0, 2);
	tcase_add_test(tc, two_services__each_gets_its_own);
	tcase_add_test(tc, short_message__header_elided);
	tcase_add_test(tc, ack__in_the_word);
	tcase_add_test(tc, ack__other_in_full);
	tcase_add_loop_test(tc, lane_lost__arrives_once, 0, 2);
	tcase_add_loop_test(tc, queue_full__sent_once, 0, 2);
	tcase_add_test(tc, post_fails__in_full);
	tcase_add_test(tc, buffers__distinct_in_lower_bits);
	tcase_add_test(tc, hostile__none);
	tcase_add_loop_test(tc, hostile__unknown_buffer, 0, 2);
	tcase_add_test(tc, hostile__longer_than_the_buffer);
	tcase_add_test(tc, hostile__other_buffer_written);
	tcase_add_loop_test(tc, hostile__nothing_written, 0, 2);
	tcase_add_loop_test(tc, hostile__out_of_sequence, 0, 2);
	tcase_add_loop_test(tc, hostile__no_message_before, 0, 2);
	tcase_add_test(tc, hostile__ack_of_nothing);
	tcase_add_test(tc, hostile__not_agreed);
	suite_add_tcase(suite, tc);
	return test_main("core/rendezvous/immediate", suite);
}
