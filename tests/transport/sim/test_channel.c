/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Sends, writes and reads of the simulated network, and the memory they touch. */
#include "sim_pair.h"
#include "transport/transfer.h"

static struct ripc__sim_config defaults(void)
{
	struct ripc__sim_config config;

	ripc__sim_defaults(&config);
	return config;
}

START_TEST(send__in_order_with_delays)
{
	struct ripc__sim_config config = defaults();

	config.delay_max_ns = 5 * RIPC__MS;
	config.bandwidth = 10000000;
	config.hold = 0.3;
	config.transient = 0.3;
	for (uint64_t seed = 1; seed <= 20; seed++) {
		struct sim_pair_test *sim_pair_test = pair_connected(seed, &config);

		for (uint8_t i = 0; i < 100; i++) {
			int rc = pair_send(&sim_pair_test->side[0], &i, 1, false);

			ck_assert(rc == 0 || rc == 1);
			if (i % 7 == 0)
				pair_run(sim_pair_test, 1000);
		}
		pair_run(sim_pair_test, 100 * RIPC__MS);
		ck_assert_uint_eq(pair_count(&sim_pair_test->side[1], RIPC__EV_RECV), 100);
		for (uint8_t i = 0; i < 100; i++)
			ck_assert_uint_eq(sim_pair_test->side[1].events[i].data[0], i);
		pair_close(sim_pair_test, 0);
	}
}
END_TEST

START_TEST(send__memory_is_free_on_return)
{
	struct sim_pair_test *sim_pair_test = pair_connected(1, NULL);
	char text[] = "first";

	ck_assert_int_eq(pair_send(&sim_pair_test->side[0], text, 5, true), 1);
	memset(text, 'x', 5);
	pair_progress(sim_pair_test, &sim_pair_test->side[0]);
	pair_run(sim_pair_test, RIPC__MS);
	ck_assert_mem_eq(pair_find(&sim_pair_test->side[1], RIPC__EV_RECV)->data, "first", 5);
	pair_close(sim_pair_test, 0);
}
END_TEST

START_TEST(send__held_back_until_pushed)
{
	struct sim_pair_test *sim_pair_test = pair_connected(1, NULL);

	ck_assert_int_eq(pair_send(&sim_pair_test->side[0], "x", 1, true), 1);
	while (ripc__sim_step(sim_pair_test->net, RIPC__NEVER))
		;
	pair_progress(sim_pair_test, &sim_pair_test->side[1]);
	ck_assert_uint_eq(sim_pair_test->side[1].nevents, 0);
	pair_run(sim_pair_test, RIPC__MS);
	ck_assert_uint_eq(sim_pair_test->side[1].nevents, 1);
	pair_close(sim_pair_test, 0);
}
END_TEST

START_TEST(send__held_back_until_armed)
{
	struct sim_pair_test *sim_pair_test = pair_connected(1, NULL);
	struct ripc__transport *t = sim_pair_test->side[0].t;

	ck_assert_int_eq(pair_send(&sim_pair_test->side[0], "x", 1, true), 1);
	ck_assert_int_eq(OPS->arm(t), 0);
	while (ripc__sim_step(sim_pair_test->net, RIPC__NEVER))
		;
	pair_progress(sim_pair_test, &sim_pair_test->side[1]);
	ck_assert_uint_eq(sim_pair_test->side[1].nevents, 1);
	pair_close(sim_pair_test, 0);
}
END_TEST

START_TEST(send__too_long)
{
	struct sim_pair_test *sim_pair_test = pair_connected(1, NULL);
	static char big[8193];

	ck_assert_int_eq(pair_send(&sim_pair_test->side[0], big, 8193, false), -EMSGSIZE);
	ck_assert_int_eq(pair_send(&sim_pair_test->side[0], big, 8192, false), 0);
	pair_close(sim_pair_test, 0);
}
END_TEST

START_TEST(send__without_credit_breaks_conn)
{
	struct ripc__sim_config config = defaults();
	struct ripc__sim_counters counters;
	struct sim_pair_test *sim_pair_test;

	config.recv_depth = 4;
	sim_pair_test = pair_connected(1, &config);
	sim_pair_test->side[1].keep = true;
	for (int i = 0; i < 4; i++)
		ck_assert_int_eq(pair_send(&sim_pair_test->side[0], "x", 1, false), 0);
	pair_run(sim_pair_test, RIPC__MS);
	ck_assert_uint_eq(pair_count(&sim_pair_test->side[1], RIPC__EV_CLOSED), 0);
	ck_assert_int_eq(pair_send(&sim_pair_test->side[0], "x", 1, false), 0);
	pair_run(sim_pair_test, RIPC__MS);
	ck_assert_uint_eq(pair_count(&sim_pair_test->side[1], RIPC__EV_RECV), 4);
	ck_assert_uint_eq(pair_count(&sim_pair_test->side[1], RIPC__EV_CLOSED), 1);
	ripc__sim_counters(sim_pair_test->net, &counters);
	ck_assert_uint_eq(counters.not_ready, 1);
	pair_close(sim_pair_test, 1);
}
END_TEST

START_TEST(send__queue_full_then_sendable)
{
	struct ripc__sim_config config = defaults();
	struct sim_pair_test *sim_pair_test;

	config.queue_depth = 2;
	sim_pair_test = pair_connected(1, &config);
	ck_assert_int_eq(pair_send(&sim_pair_test->side[0], "1", 1, false), 0);
	ck_assert_int_eq(pair_send(&sim_pair_test->side[0], "2", 1, false), 0);
	ck_assert_int_eq(pair_send(&sim_pair_test->side[0], "3", 1, false), -EAGAIN);
	ck_assert_uint_eq(sim_pair_test->side[0].nevents, 0);
	pair_run(sim_pair_test, RIPC__MS);
	ck_assert_uint_eq(pair_count(&sim_pair_test->side[0], RIPC__EV_SENDABLE), 1);
	ck_assert_int_eq(pair_send(&sim_pair_test->side[0], "3", 1, false), 0);
	pair_run(sim_pair_test, RIPC__MS);
	ck_assert_uint_eq(pair_count(&sim_pair_test->side[0], RIPC__EV_SENDABLE), 1);
	ck_assert_uint_eq(pair_count(&sim_pair_test->side[1], RIPC__EV_RECV), 3);
	pair_close(sim_pair_test, 0);
}
END_TEST

START_TEST(send__before_established)
{
	struct sim_pair_test *sim_pair_test = pair_open(1, NULL);

	pair_connect(sim_pair_test);
	ck_assert_int_eq(pair_send(&sim_pair_test->side[0], "x", 1, false), -ENOTCONN);
	pair_close(sim_pair_test, 1);
}
END_TEST

START_TEST(send__partition_holds_it_back)
{
	struct sim_pair_test *sim_pair_test = pair_connected(1, NULL);

	ripc__sim_partition(sim_pair_test->net, sim_pair_test->side[0].instance,
			    sim_pair_test->side[1].instance, true);
	for (uint8_t i = 0; i < 20; i++) {
		ck_assert_int_eq(pair_send(&sim_pair_test->side[0], &i, 1, false), 0);
		pair_run(sim_pair_test, RIPC__MS);
	}
	ck_assert_uint_eq(sim_pair_test->side[1].nevents, 0);
	ripc__sim_partition(sim_pair_test->net, sim_pair_test->side[0].instance,
			    sim_pair_test->side[1].instance, false);
	for (uint8_t i = 20; i < 40; i++)
		ck_assert_int_eq(pair_send(&sim_pair_test->side[0], &i, 1, false), 0);
	pair_run(sim_pair_test, 10 * RIPC__MS);
	ck_assert_uint_eq(sim_pair_test->side[1].nevents, 40);
	for (uint8_t i = 0; i < 40; i++)
		ck_assert_uint_eq(sim_pair_test->side[1].events[i].data[0], i);
	pair_close(sim_pair_test, 0);
}
END_TEST

START_TEST(hold__nothing_is_reported)
{
	struct sim_pair_test *sim_pair_test = pair_connected(1, NULL);

	ripc__sim_hold(sim_pair_test->net, sim_pair_test->side[1].instance, true);
	ck_assert_int_eq(pair_send(&sim_pair_test->side[0], "x", 1, false), 0);
	pair_run(sim_pair_test, RIPC__MS);
	ck_assert_uint_eq(sim_pair_test->side[1].nevents, 0);
	ripc__sim_hold(sim_pair_test->net, sim_pair_test->side[1].instance, false);
	pair_run(sim_pair_test, RIPC__MS);
	ck_assert_uint_eq(sim_pair_test->side[1].nevents, 1);
	pair_close(sim_pair_test, 0);
}
END_TEST

START_TEST(release__twice_is_a_violation)
{
	struct sim_pair_test *sim_pair_test = pair_connected(1, NULL);

	sim_pair_test->side[1].keep = true;
	ck_assert_int_eq(pair_send(&sim_pair_test->side[0], "x", 1, false), 0);
	pair_run(sim_pair_test, RIPC__MS);
	OPS->release(sim_pair_test->side[1].t, sim_pair_test->side[1].events[0].token);
	OPS->release(sim_pair_test->side[1].t, sim_pair_test->side[1].events[0].token);
	pair_close(sim_pair_test, 1);
}
END_TEST

/* ---- Memory ---- */

/* A connection with 4096 bytes registered on both sides. */
struct memory {
	struct sim_pair_test *sim_pair_test;
	uint8_t bytes[2][4096];
	struct ripc__mr mr[2];
};

static void memory_open(struct memory *m, uint64_t seed, const struct ripc__sim_config *config,
			unsigned access)
{
	int rc;

	memset(m, 0, sizeof(*m));
	m->sim_pair_test = pair_connected(seed, config);
	ck_assert_int_eq(OPS->reg(m->sim_pair_test->side[0].t, NULL, m->bytes[0], 4096,
				  RIPC__ACCESS_LOCAL_WRITE, &m->mr[0]),
			 0);
	rc = OPS->reg(m->sim_pair_test->side[1].t, NULL, m->bytes[1], 4096, access, &m->mr[1]);
	ck_assert_int_eq(rc, 0);
	for (int i = 0; i < 4096; i++) {
		m->bytes[0][i] = (uint8_t)(i * 7);
		m->bytes[1][i] = (uint8_t)(i * 11);
	}
}

static int memory_write(struct memory *m, size_t from, size_t len, size_t to)
{
	return test_write(OPS, m->sim_pair_test->side[0].ep, &m->mr[0], m->bytes[0] + from, len,
			  m->mr[1].addr + to, m->mr[1].key, 42);
}

static int memory_read(struct memory *m, size_t to, size_t len, size_t from)
{
	return test_read(OPS, m->sim_pair_test->side[0].ep, &m->mr[0], m->bytes[0] + to, len,
			 m->mr[1].addr + from, m->mr[1].key, 43);
}

START_TEST(write__visible_before_later_send)
{
	uint64_t n;

	for (int progress = 0; progress < 2; progress++)
		for (uint64_t seed = 1; seed <= 50; seed++) {
			struct ripc__sim_config config = defaults();
			struct memory m;

			config.target_progress = progress;
			memory_open(&m, seed, &config, RIPC__ACCESS_REMOTE_WRITE);
			ck_assert_int_eq(memory_write(&m, 100, 1000, 2000), 0);
			ck_assert_int_eq(pair_send(&m.sim_pair_test->side[0], "x", 1, false), 0);
			while (!pair_count(&m.sim_pair_test->side[1], RIPC__EV_RECV))
				pair_run(m.sim_pair_test, 1000);
			ck_assert_mem_eq(m.bytes[1] + 2000, m.bytes[0] + 100, 1000);
			n = pair_find(&m.sim_pair_test->side[0], RIPC__EV_WRITE_DONE)->wr_id;
			ck_assert_uint_eq(n, 42);
			pair_close(m.sim_pair_test, 0);
		}
}
END_TEST

/* A write with immediate data is a message: in order, behind its bytes, and not twice. */
START_TEST(write_imm__message_behind_its_bytes)
{
	for (uint64_t seed = 1; seed <= 50; seed++) {
		struct ripc__sim_config config = defaults();
		struct pair_event *ev;
		struct memory m;

		config.write_imm = true;
		memory_open(&m, seed, &config, RIPC__ACCESS_REMOTE_WRITE);
		ck_assert_int_eq(pair_send(&m.sim_pair_test->side[0], "x", 1, false), 0);
		ck_assert_int_eq(test_transfer(OPS, m.sim_pair_test->side[0].ep, RIPC__WRITE_IMM,
					       0x12345678, &m.mr[0], m.bytes[0] + 100, 1000,
					       m.mr[1].addr + 2000, m.mr[1].key, 42),
				 0);
		while (!pair_count(&m.sim_pair_test->side[1], RIPC__EV_WRITTEN))
			pair_run(m.sim_pair_test, 1000);
		ck_assert_mem_eq(m.bytes[1] + 2000, m.bytes[0] + 100, 1000);
		pair_run(m.sim_pair_test, RIPC__MS);
		ev = pair_find(&m.sim_pair_test->side[1], RIPC__EV_WRITTEN);
		ck_assert_uint_eq(ev->len, 1000);
		ck_assert_uint_eq(ev->imm, 0x12345678);
		/* Behind the send before it, and once. */
		ck_assert(ev > pair_find(&m.sim_pair_test->side[1], RIPC__EV_RECV));
		ck_assert_uint_eq(pair_count(&m.sim_pair_test->side[1], RIPC__EV_WRITTEN), 1);
		ck_assert_uint_eq(pair_find(&m.sim_pair_test->side[0], RIPC__EV_WRITE_DONE)->wr_id,
				  42);
		pair_close(m.sim_pair_test, 0);
	}
}
END_TEST

START_TEST(write__done_before_arrival)
{
	unsigned early = 0;

	for (uint64_t seed = 1; seed <= 50; seed++) {
		struct memory m;

		memory_open(&m, seed, NULL, RIPC__ACCESS_REMOTE_WRITE);
		ck_assert_int_eq(memory_write(&m, 0, 4096, 0), 0);
		while (!pair_count(&m.sim_pair_test->side[0], RIPC__EV_WRITE_DONE)) {
			ck_assert(ripc__sim_step(m.sim_pair_test->net, RIPC__NEVER));
			pair_progress(m.sim_pair_test, &m.sim_pair_test->side[0]);
		}
		early += memcmp(m.bytes[0], m.bytes[1], 4096) != 0;
		memset(m.bytes[0], 0xee, 4096);
		pair_run(m.sim_pair_test, RIPC__MS);
		for (int i = 0; i < 4096; i++)
			ck_assert_uint_eq(m.bytes[1][i], (uint8_t)(i * 7));
		pair_close(m.sim_pair_test, 0);
	}
	ck_assert_uint_gt(early, 0);
}
END_TEST

START_TEST(write__source_reused_too_early)
{
	struct memory m;

	memory_open(&m, 1, NULL, RIPC__ACCESS_REMOTE_WRITE);
	ck_assert_int_eq(memory_write(&m, 0, 4096, 0), 0);
	memset(m.bytes[0], 0xee, 4096);
	pair_run(m.sim_pair_test, RIPC__MS);
	ck_assert_uint_eq(m.bytes[1][17], 0xee);
	pair_close(m.sim_pair_test, 0);
}
END_TEST

START_TEST(write__bad_key_range_or_right)
{
	for (int fault = 0; fault < 4; fault++) {
		struct memory m;
		struct ripc__sim_counters counters;
		uint8_t before[4096];

		memory_open(&m, 1, NULL,
			    fault == 3 ? RIPC__ACCESS_REMOTE_READ : RIPC__ACCESS_REMOTE_WRITE);
		memcpy(before, m.bytes[1], 4096);
		if (fault == 0)
			m.mr[1].key++;
		if (fault == 1)
			OPS->dereg(m.sim_pair_test->side[1].t, &m.mr[1]), m.mr[1].key = 1;
		ck_assert_int_eq(memory_write(&m, 0, 100, fault == 2 ? 4000 : 0), 0);
		pair_run(m.sim_pair_test, RIPC__MS);
		ripc__sim_counters(m.sim_pair_test->net, &counters);
		ck_assert_uint_eq(counters.bad_remote, 1);
		ck_assert_mem_eq(before, m.bytes[1], 4096);
		pair_find(&m.sim_pair_test->side[0], RIPC__EV_CLOSED);
		pair_find(&m.sim_pair_test->side[1], RIPC__EV_CLOSED);
		pair_close(m.sim_pair_test, 1);
	}
}
END_TEST

START_TEST(write__hostile_refused)
{
	struct memory m;
	struct ripc__sim_counters counters;

	memory_open(&m, 1, NULL, RIPC__ACCESS_REMOTE_WRITE);
	ripc__sim_hostile(m.sim_pair_test->net, m.sim_pair_test->side[0].instance);
	m.mr[1].key += 2;
	ck_assert_int_eq(memory_write(&m, 0, 100, 0), 0);
	pair_run(m.sim_pair_test, RIPC__MS);
	ripc__sim_counters(m.sim_pair_test->net, &counters);
	ck_assert_uint_eq(counters.refused, 1);
	pair_find(&m.sim_pair_test->side[1], RIPC__EV_CLOSED);
	pair_close(m.sim_pair_test, 0);
}
END_TEST

START_TEST(write__nothing_after_ep_close)
{
	for (uint64_t seed = 1; seed <= 50; seed++) {
		struct memory m;
		uint8_t before[4096];

		memory_open(&m, seed, NULL, RIPC__ACCESS_REMOTE_WRITE);
		memcpy(before, m.bytes[1], 4096);
		ck_assert_int_eq(memory_write(&m, 0, 4096, 0), 0);
		OPS->ep_close(m.sim_pair_test->side[1].ep);
		OPS->dereg(m.sim_pair_test->side[1].t, &m.mr[1]);
		OPS->ep_close(m.sim_pair_test->side[0].ep);
		OPS->dereg(m.sim_pair_test->side[0].t, &m.mr[0]);
		pair_run(m.sim_pair_test, RIPC__MS);
		ck_assert_mem_eq(before, m.bytes[1], 4096);
		pair_close(m.sim_pair_test, 0);
	}
}
END_TEST

START_TEST(read__bytes_of_the_target)
{
	uint64_t n;

	for (int progress = 0; progress < 2; progress++)
		for (uint64_t seed = 1; seed <= 50; seed++) {
			struct ripc__sim_config config = defaults();
			struct memory m;

			config.target_progress = progress;
			memory_open(&m, seed, &config, RIPC__ACCESS_REMOTE_READ);
			ck_assert_int_eq(memory_read(&m, 0, 1000, 50), 0);
			/*
			 * The read response leaves as late as possible, so that it contains what
			 * was written meanwhile.
			 */
			m.bytes[1][50] ^= 0xff;
			pair_run(m.sim_pair_test, RIPC__MS);
			ck_assert_mem_eq(m.bytes[0], m.bytes[1] + 50, 1000);
			n = pair_find(&m.sim_pair_test->side[0], RIPC__EV_READ_DONE)->wr_id;
			ck_assert_uint_eq(n, 43);
			pair_close(m.sim_pair_test, 0);
		}
}
END_TEST

START_TEST(read__depth)
{
	struct ripc__sim_config config = defaults();
	struct memory m;

	config.read_depth = 2;
	memory_open(&m, 1, &config, RIPC__ACCESS_REMOTE_READ);
	ck_assert_int_eq(memory_read(&m, 0, 1, 0), 0);
	ck_assert_int_eq(memory_read(&m, 0, 1, 0), 0);
	ck_assert_int_eq(memory_read(&m, 0, 1, 0), -EAGAIN);
	pair_run(m.sim_pair_test, RIPC__MS);
	ck_assert_uint_eq(pair_count(&m.sim_pair_test->side[0], RIPC__EV_READ_DONE), 2);
	ck_assert_uint_eq(pair_count(&m.sim_pair_test->side[0], RIPC__EV_SENDABLE), 1);
	ck_assert_int_eq(memory_read(&m, 0, 1, 0), 0);
	pair_close(m.sim_pair_test, 0);
}
END_TEST

START_TEST(read__held_target_with_target_progress)
{
	struct ripc__sim_config config = defaults();
	struct memory m;

	config.target_progress = true;
	memory_open(&m, 1, &config, RIPC__ACCESS_REMOTE_READ);
	ripc__sim_hold(m.sim_pair_test->net, m.sim_pair_test->side[1].instance, true);
	ck_assert_int_eq(memory_read(&m, 0, 1, 0), 0);
	pair_run(m.sim_pair_test, RIPC__MS);
	ck_assert_uint_eq(m.sim_pair_test->side[0].nevents, 0);
	ripc__sim_hold(m.sim_pair_test->net, m.sim_pair_test->side[1].instance, false);
	pair_run(m.sim_pair_test, RIPC__MS);
	ck_assert_uint_eq(m.sim_pair_test->side[0].nevents, 1);
	pair_close(m.sim_pair_test, 0);
}
END_TEST

START_TEST(read__without_the_capability)
{
	struct ripc__sim_config config = defaults();
	struct ripc__transport_limits limits;
	struct memory m;

	config.caps_off = RIPC__CAP_READ;
	memory_open(&m, 1, &config, RIPC__ACCESS_REMOTE_READ);
	OPS->limits(m.sim_pair_test->side[0].t, &limits);
	ck_assert_uint_eq(limits.caps & RIPC__CAP_READ, 0);
	ck_assert_uint_eq(limits.read_depth, 0);
	ck_assert_int_eq(memory_read(&m, 0, 1, 0), -EOPNOTSUPP);
	pair_close(m.sim_pair_test, 1);
}
END_TEST

START_TEST(dereg__in_flight_is_a_violation)
{
	int rc;

	/* 0: source of a write, 1: target of a read, 2: source of a read */
	for (int fault = 0; fault < 3; fault++) {
		struct memory m;
		struct ripc__sim_counters counters;
		int side = fault == 2;

		memory_open(&m, 1, NULL, RIPC__ACCESS_REMOTE_READ | RIPC__ACCESS_REMOTE_WRITE);
		rc = fault ? memory_read(&m, 0, 100, 0) : memory_write(&m, 0, 100, 0);
		ck_assert_int_eq(rc, 0);
		OPS->dereg(m.sim_pair_test->side[side].t, &m.mr[side]);
		pair_run(m.sim_pair_test, RIPC__MS);
		ripc__sim_counters(m.sim_pair_test->net, &counters);
		ck_assert_uint_eq(counters.bad_local, fault != 2);
		ck_assert_uint_eq(counters.bad_remote, fault == 2);
		ck_assert_uint_eq(pair_count(&m.sim_pair_test->side[0], RIPC__EV_READ_DONE), 0);
		pair_find(&m.sim_pair_test->side[0], RIPC__EV_CLOSED);
		pair_close(m.sim_pair_test, 1);
	}
}
END_TEST

START_TEST(reg__fails_at_nth)
{
	struct sim_pair_test *sim_pair_test = pair_open(1, NULL);
	struct ripc__sim_config config = defaults();
	struct ripc__mr mr[3];
	char byte;

	ripc__sim_fail_reg_at(sim_pair_test->net, 2);
	ck_assert_int_eq(OPS->reg(sim_pair_test->side[0].t, NULL, &byte, 1, 0, &mr[0]), 0);
	ck_assert_uint_eq(mr[0].key, 0);
	ck_assert_int_eq(OPS->reg(sim_pair_test->side[0].t, NULL, &byte, 1, 0, &mr[1]), -ENOMEM);
	ck_assert_int_eq(OPS->reg(sim_pair_test->side[0].t, NULL, &byte, 1,
				  RIPC__ACCESS_REMOTE_READ, &mr[2]),
			 0);
	ck_assert_uint_ne(mr[2].key, 0);
	config.reg_failure = 1;
	ripc__sim_configure(sim_pair_test->net, &config);
	ck_assert_int_eq(OPS->reg(sim_pair_test->side[0].t, NULL, &byte, 1, 0, &mr[1]), -ENOMEM);
	pair_close(sim_pair_test, 0);
}
END_TEST

/* With an endpoint memory is pinned at once, without one when it is used first. */
START_TEST(reg__limited)
{
	struct ripc__sim_config config = defaults();
	struct ripc__transport *t;
	struct ripc__mr mr, other;
	struct ripc__ep *ep;
	struct memory m;
	char bytes[200];

	memory_open(&m, 1, &config, RIPC__ACCESS_REMOTE_WRITE);
	t = m.sim_pair_test->side[0].t;
	ep = m.sim_pair_test->side[0].ep;
	config.memlock = 250;
	ripc__sim_configure(m.sim_pair_test->net, &config);
	ck_assert_int_eq(OPS->reg(t, NULL, bytes, 200, RIPC__ACCESS_LOCAL_WRITE, &mr), 0);
	ck_assert_int_eq(OPS->reg(t, ep, bytes, 100, RIPC__ACCESS_REMOTE_READ, &other), 0);
	ck_assert_int_eq(test_write(OPS, ep, &mr, bytes, 1, m.mr[1].addr, m.mr[1].key, 1), -ENOMEM);
	ck_assert_int_eq(test_read(OPS, ep, &mr, bytes, 1, m.mr[1].addr, m.mr[1].key, 1), -ENOMEM);
	OPS->dereg(t, &other);
	ck_assert_int_eq(test_write(OPS, ep, &mr, bytes, 1, m.mr[1].addr, m.mr[1].key, 1), 0);
	ck_assert_int_eq(OPS->reg(t, ep, bytes, 100, RIPC__ACCESS_REMOTE_READ, &other), -ENOMEM);
	pair_run(m.sim_pair_test, RIPC__MS);
	pair_close(m.sim_pair_test, 0);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("transport/sim/channel");
	TCase *tc = tcase_create("send");

	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, send__in_order_with_delays);
	tcase_add_test(tc, send__memory_is_free_on_return);
	tcase_add_test(tc, send__held_back_until_pushed);
	tcase_add_test(tc, send__held_back_until_armed);
	tcase_add_test(tc, send__too_long);
	tcase_add_test(tc, send__without_credit_breaks_conn);
	tcase_add_test(tc, send__queue_full_then_sendable);
	tcase_add_test(tc, send__before_established);
	tcase_add_test(tc, send__partition_holds_it_back);
	tcase_add_test(tc, hold__nothing_is_reported);
	tcase_add_test(tc, release__twice_is_a_violation);
	suite_add_tcase(suite, tc);
	tc = tcase_create("memory");
	tcase_add_test(tc, write__visible_before_later_send);
	tcase_add_test(tc, write_imm__message_behind_its_bytes);
	tcase_add_test(tc, write__done_before_arrival);
	tcase_add_test(tc, write__source_reused_too_early);
	tcase_add_test(tc, write__bad_key_range_or_right);
	tcase_add_test(tc, write__hostile_refused);
	tcase_add_test(tc, write__nothing_after_ep_close);
	tcase_add_test(tc, read__bytes_of_the_target);
	tcase_add_test(tc, read__depth);
	tcase_add_test(tc, read__held_target_with_target_progress);
	tcase_add_test(tc, read__without_the_capability);
	tcase_add_test(tc, dereg__in_flight_is_a_violation);
	tcase_add_test(tc, reg__fails_at_nth);
	tcase_add_test(tc, reg__limited);
	suite_add_tcase(suite, tc);
	return test_main("transport/sim/channel", suite);
}
