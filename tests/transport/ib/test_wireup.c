/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Both sides of a connection set-up in virtual time, over a network that loses, repeats, delays and
 * reorders.
 */
#include "transport/ib/wireup.h"
#include "base/clock.h"
#include "harness.h"
#include "transitions.h"

#include <errno.h>
#include <string.h>

static const struct ripc__wireup_params params = {
	.rc_qpn = 0x1234,
	.rc_psn = 0xabcdef,
	.mtu = 5,
	.responder_resources = 16,
	.initiator_depth = 8,
	.flags = RIPC__WIREUP_SEND_IMM,
};

/* ---- messages ---- */

static size_t make(uint8_t kind, size_t privlen, uint8_t buf[RIPC__WIREUP_MAX])
{
	static const uint8_t priv[RIPC__PRIVATE_MAX] = {1, 2, 3};
	struct ripc__wireup_message m = {
		.kind = kind,
		.from = 7,
		.to = kind == RIPC__WIREUP_REQ ? 0 : 9,
		.qkey = 0x7fffffff,
		.params = params,
		.priv = priv,
		.privlen = (uint8_t)privlen,
	};

	return ripc__wireup_encode(&m, buf);
}

START_TEST(encode__round_trip)
{
	uint8_t buf[RIPC__WIREUP_MAX];
	struct ripc__wireup_message m;
	const char *why;

	for (unsigned kind = RIPC__WIREUP_REQ; kind <= RIPC__WIREUP_PROBED; kind++)
		for (size_t privlen = 0; privlen <= RIPC__PRIVATE_MAX; privlen += 96) {
			bool full = kind == RIPC__WIREUP_REQ || kind == RIPC__WIREUP_REP;
			size_t len = make((uint8_t)kind, privlen, buf);
			int want = !privlen || full || kind == RIPC__WIREUP_REJ ? 0 : -EPROTO;

			ck_assert_uint_eq(len, 20u + (full ? 20u : 0u) + privlen);
			ck_assert_int_eq(ripc__wireup_decode(&m, buf, len, &why), want);
			if (want)
				continue;
			ck_assert_uint_eq(m.kind, kind);
			ck_assert_uint_eq(m.from, 7);
			ck_assert_uint_eq(m.qkey, 0x7fffffff);
			ck_assert_uint_eq(m.privlen, privlen);
			if (privlen)
				ck_assert_uint_eq(m.priv[1], 2);
			if (full)
				ck_assert_mem_eq(&m.params, &params, sizeof(params));
			ck_assert_int_eq(ripc__wireup_decode(&m, buf, len + 1, &why), -EPROTO);
			ck_assert_int_eq(ripc__wireup_decode(&m, buf, len - 1, &why), -EPROTO);
		}
}
END_TEST

START_TEST(decode__malformed)
{
	static const struct {
		uint8_t kind, at, value;
	} cases[] = {
		{RIPC__WIREUP_REQ, 0, 0},     {RIPC__WIREUP_REQ, 4, 2},
		{RIPC__WIREUP_REQ, 5, 0},     {RIPC__WIREUP_REQ, 5, 9},
		{RIPC__WIREUP_REQ, 6, 200},   {RIPC__WIREUP_REQ, 8, 0},
		{RIPC__WIREUP_REQ, 19, 0x80}, {RIPC__WIREUP_REQ, 23, 1},
		{RIPC__WIREUP_REQ, 27, 1},    {RIPC__WIREUP_REQ, 31, 1},
		{RIPC__WIREUP_REQ, 35, 1},    {RIPC__WIREUP_REQ, 36, 0},
		{RIPC__WIREUP_REQ, 36, 6},    {RIPC__WIREUP_REQ, 37, 0},
		{RIPC__WIREUP_REQ, 38, 0},    {RIPC__WIREUP_REP, 12, 0},
		{RIPC__WIREUP_RTU, 8, 0},     {RIPC__WIREUP_RTU, 12, 0},
		{RIPC__WIREUP_DISC, 12, 0},   {RIPC__WIREUP_PROBE, 19, 255},
	};
	uint8_t buf[RIPC__WIREUP_MAX];
	struct ripc__wireup_message m;
	const char *why;

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		size_t len = make(cases[i].kind, 0, buf);

		ck_assert_int_eq(ripc__wireup_decode(&m, buf, len, &why), 0);
		buf[cases[i].at] = cases[i].value;
		ck_assert_msg(ripc__wireup_decode(&m, buf, len, &why) == -EPROTO && *why, "case %u",
			      i);
	}
}
END_TEST

START_TEST(decode__random)
{
	uint8_t buf[RIPC__WIREUP_MAX + 8];
	struct ripc__wireup_message m;
	uint64_t rng = test_seed();
	const char *why;

	for (int i = 0; i < 200000; i++) {
		size_t len = make((uint8_t)(1 + i % 8), 0, buf);

		for (int k = 0; k < 4; k++)
			buf[test_random(&rng) % sizeof(buf)] = (uint8_t)test_random(&rng);
		len += test_random(&rng) % 3;
		if (!ripc__wireup_decode(&m, buf, len, &why))
			ck_assert(m.priv + m.privlen <= buf + len);
	}
}
END_TEST

/* ---- two sides ---- */

#define WIRE_MAX 256

struct side {
	struct ripc__wireup w;
	bool exists, open, rejected, closed, silent, readying;
	uint64_t ready_ns; /* when its queue pair is ready */
	unsigned opened;
};

struct packet {
	uint64_t at_ns;
	int to; /* side; -1: empty */
	uint8_t bytes[RIPC__WIREUP_MAX];
	size_t len;
};

static struct {
	struct side side[2]; /* 0 is active */
	struct packet wire[WIRE_MAX];
	int wire_end; /* no packet is here or later */
	int in_flight;
	uint64_t now_ns, rng;
	unsigned loss, repeat; /* percent */
	bool reject, deaf;     /* passive side: rejects; receives nothing */
	unsigned requests;     /* requests reported to the core */
	unsigned sent;
} net;

static void net_init(uint64_t seed, unsigned loss, unsigned repeat)
{
	memset(&net, 0, sizeof(net));
	net.rng = seed;
	net.loss = loss;
	net.repeat = repeat;
	net.now_ns = 1;
	for (int i = 0; i < WIRE_MAX; i++)
		net.wire[i].to = -1;
}

static void put(int to, const struct ripc__wireup_message *m)
{
	struct packet *l = NULL;

	net.sent++;
	if (test_random(&net.rng) % 100 < net.loss || (to == 1 && net.deaf))
		return;
	for (int i = 0; i < WIRE_MAX && !l; i++)
		if (net.wire[i].to < 0) {
			l = &net.wire[i];
			if (i >= net.wire_end)
				net.wire_end = i + 1;
		}
	if (!l)
		return;
	net.in_flight++;
	l->to = to;
	l->len = ripc__wireup_encode(m, l->bytes);
	l->at_ns = net.now_ns + test_random(&net.rng) % (30 * RIPC__MS);
	if (test_random(&net.rng) % 100 < net.repeat)
		put(to, m);
}

static void follow(int i, enum ripc__wireup_action action)
{
	struct side *s = &net.side[i];

	switch (action) {
	case RIPC__WIREUP_READY:
		s->readying = true;
		s->ready_ns = net.now_ns + test_random(&net.rng) % (100 * RIPC__MS);
		break;
	case RIPC__WIREUP_OPEN:
		s->open = true;
		s->opened++;
		break;
	case RIPC__WIREUP_REJECTED:
		s->rejected = true;
		break;
	case RIPC__WIREUP_CLOSED:
		s->closed = true;
		break;
	case RIPC__WIREUP_TIMEOUT:
		s->silent = true;
		ripc__wireup_end(&s->w);
		break;
	case RIPC__WIREUP_NOTHING:
		break;
	}
}

static void arrive(const struct packet *l)
{
	struct side *s = &net.side[l->to];
	struct ripc__wireup_message m, answer;
	bool unknown;
	const char *why;

	ck_assert_int_eq(ripc__wireup_decode(&m, l->bytes, l->len, &why), 0);
	if (m.kind == RIPC__WIREUP_REQ) {
		ck_assert_int_eq(l->to, 1);
		if (s->exists && s->w.number == m.from && s->w.state != RIPC__WIREUP_DONE) {
			follow(1, ripc__wireup_input(&s->w, &m, net.now_ns));
			return;
		}
		s->exists = true;
		net.requests++;
		ripc__wireup_request(&s->w, 200 + net.requests, &m);
		ck_assert_uint_eq(s->w.privlen, 5);
		ck_assert_mem_eq(s->w.priv, "hello", 5);
		if (net.reject) {
			ripc__wireup_reject(&s->w, "no", 2, net.now_ns);
		} else {
			ripc__wireup_accept(&s->w, &params, "welcome", 7);
			follow(1, RIPC__WIREUP_READY);
		}
		return;
	}
	unknown = !s->exists || m.to != s->w.mine || s->w.state == RIPC__WIREUP_DONE;
	if ((unknown || m.kind == RIPC__WIREUP_DISC) && ripc__wireup_unknown(&m, &answer))
		put(!l->to, &answer);
	if (!unknown)
		follow(l->to, ripc__wireup_input(&s->w, &m, net.now_ns));
}

/* Advances the time in */
static void run(unsigned ms)
{
	while (ms--) {
		net.now_ns += RIPC__MS;
		if (!net.in_flight)
			net.wire_end = 0;
		for (int i = 0; i < net.wire_end; i++)
			if (net.wire[i].to >= 0 && net.wire[i].at_ns <= net.now_ns) {
				struct packet l = net.wire[i];

				net.wire[i].to = -1;
				net.in_flight--;
				arrive(&l);
			}
		for (int i = 0; i < 2; i++) {
			struct side *s = &net.side[i];
			struct ripc__wireup_message m;
			enum ripc__wireup_action action;

			if (!s->exists)
				continue;
			if (s->readying && s->ready_ns <= net.now_ns) {
				s->readying = false;
				follow(i, ripc__wireup_ready(&s->w, net.now_ns));
			}
			while (ripc__wireup_output(&s->w, &m, net.now_ns, &action))
				put(!i, &m);
			follow(i, action);
		}
	}
}

static void ask(void)
{
	net.side[0].exists = true;
	ripc__wireup_connect(&net.side[0].w, 100, &params, "hello", 5, net.now_ns);
}

START_TEST(wireup__open)
{
	for (unsigned i = 0; i < 300; i++) {
		net_init(test_seed() + i, i % 3 * 8, i % 2 * 50);
		ask();
		run(5000);
		ck_assert_msg(net.side[0].open && net.side[1].open, "seed 0x%llx + %u",
			      (unsigned long long)test_seed(), i);
		ck_assert_uint_eq(net.side[0].opened, 1);
		ck_assert_uint_eq(net.side[1].opened, 1);
		ck_assert_uint_eq(net.requests, 1);
		ck_assert_uint_eq(net.side[0].w.privlen, 7);
		ck_assert_mem_eq(net.side[0].w.priv, "welcome", 7);
		ck_assert_uint_eq(net.side[0].w.theirs.rc_qpn, params.rc_qpn);
		ck_assert_uint_eq(net.side[1].w.theirs.rc_psn, params.rc_psn);
		/* Afterwards nothing is sent. */
		net.sent = 0;
		run(5000);
		ck_assert_uint_eq(net.sent, 0);
		ck_assert(net.side[0].w.state == RIPC__WIREUP_ESTABLISHED);
		ck_assert(net.side[1].w.state == RIPC__WIREUP_ESTABLISHED);
	}
}
END_TEST

START_TEST(wireup__rejected)
{
	for (unsigned i = 0; i < 100; i++) {
		net_init(test_seed() + i, i % 3 * 8, 30);
		net.reject = true;
		ask();
		run(5000);
		ck_assert(net.side[0].rejected && !net.side[0].open);
		ck_assert_uint_eq(net.side[0].w.privlen, 2);
		ck_assert_mem_eq(net.side[0].w.priv, "no", 2);
		ck_assert_uint_eq(net.requests, 1);
		run(3000);
		ck_assert(net.side[0].w.state == RIPC__WIREUP_DONE);
		ck_assert(net.side[1].w.state == RIPC__WIREUP_DONE);
	}
}
END_TEST

START_TEST(wireup__no_peer)
{
	net_init(test_seed(), 0, 0);
	net.deaf = true;
	ask();
	run(2400);
	ck_assert(!net.side[0].silent);
	/* No flood of messages. */
	ck_assert_uint_ge(net.sent, 5);
	ck_assert_uint_le(net.sent, 15);
	run(200);
	ck_assert(net.side[0].silent);
	net.sent = 0;
	run(3000);
	ck_assert_uint_eq(net.sent, 0);
}
END_TEST

/* The passive side receives only the request: its acceptance must time out. */
START_TEST(wireup__half_open)
{
	net_init(test_seed(), 0, 0);
	ask();
	while (!net.requests)
		run(1);
	net.deaf = true;
	run(6000);
	ck_assert(net.side[0].open);
	ck_assert(!net.side[1].open && net.side[1].silent);
	ck_assert(net.side[1].w.state == RIPC__WIREUP_DONE);
}
END_TEST

/* The RTU is lost, but data arrives. */
START_TEST(data_received__opens)
{
	net_init(test_seed(), 0, 0);
	ask();
	while (net.side[1].w.state != RIPC__WIREUP_REP_SENT)
		run(1);
	net.deaf = true;
	ck_assert(ripc__wireup_data_received(&net.side[1].w) == RIPC__WIREUP_OPEN);
	ck_assert(ripc__wireup_data_received(&net.side[1].w) == RIPC__WIREUP_NOTHING);
	net.side[1].open = true;
	run(5000);
	ck_assert(net.side[1].w.state == RIPC__WIREUP_ESTABLISHED);
}
END_TEST

/* Closed at any moment, by either side: both finish, and nothing is sent afterwards. */
START_TEST(close__any_time)
{
	for (unsigned i = 0; i < 400; i++) {
		int who = i % 2;

		net_init(test_seed() + i, i % 3 * 10, 20);
		ask();
		run((unsigned)(test_random(&net.rng) % 400));
		if (!net.side[who].exists)
			continue;
		ripc__wireup_close(&net.side[who].w, net.now_ns);
		net.side[who].readying = false;
		run(8000);
		net.sent = 0;
		run(2000);
		ck_assert_uint_eq(net.sent, 0);
		ck_assert_msg(net.side[who].w.state == RIPC__WIREUP_DONE, "seed + %u", i);
		/* The peer was notified, or never up, unless every DISC was lost. */
		if (!(i % 3))
			ck_assert_msg(!net.side[!who].exists ||
					      net.side[!who].w.state == RIPC__WIREUP_DONE,
				      "seed + %u: %d", i, net.side[!who].w.state);
	}
}
END_TEST

/* A restarted peer does not know the connection. */
START_TEST(unknown__answered)
{
	struct ripc__wireup_message m = {.from = 5, .to = 6}, a;

	m.kind = RIPC__WIREUP_REP;
	ck_assert(ripc__wireup_unknown(&m, &a));
	ck_assert_uint_eq(a.kind, RIPC__WIREUP_DISC);
	ck_assert_uint_eq(a.to, 5);
	ck_assert_uint_eq(a.from, 6);
	m.kind = RIPC__WIREUP_DISC;
	ck_assert(ripc__wireup_unknown(&m, &a));
	ck_assert_uint_eq(a.kind, RIPC__WIREUP_DISCED);
	/* An answer to an answer would repeat for ever. */
	m.kind = RIPC__WIREUP_DISCED;
	ck_assert(!ripc__wireup_unknown(&m, &a));
	m.kind = RIPC__WIREUP_REJ;
	ck_assert(!ripc__wireup_unknown(&m, &a));
	m.kind = RIPC__WIREUP_DISC;
	m.from = 0;
	ck_assert(!ripc__wireup_unknown(&m, &a));
}
END_TEST

/* Numbers of another connection, old or forged. */
START_TEST(input__other_number)
{
	struct ripc__wireup_message m = {.kind = RIPC__WIREUP_RTU, .from = 77, .to = 100};

	net_init(test_seed(), 0, 0);
	ask();
	while (net.side[1].w.state != RIPC__WIREUP_REP_SENT)
		run(1);
	ck_assert(ripc__wireup_input(&net.side[1].w, &m, net.now_ns) == RIPC__WIREUP_NOTHING);
	m.kind = RIPC__WIREUP_DISC;
	ck_assert(ripc__wireup_input(&net.side[1].w, &m, net.now_ns) == RIPC__WIREUP_NOTHING);
	run(1000);
	ck_assert(net.side[0].open && net.side[1].open);
	m.kind = RIPC__WIREUP_REP;
	m.params = params;
	ck_assert(ripc__wireup_input(&net.side[0].w, &m, net.now_ns) == RIPC__WIREUP_NOTHING);
	m.kind = RIPC__WIREUP_REJ;
	ck_assert(ripc__wireup_input(&net.side[0].w, &m, net.now_ns) == RIPC__WIREUP_NOTHING);
	ck_assert(net.side[0].w.state == RIPC__WIREUP_ESTABLISHED);
}
END_TEST

/* ---- states ---- */

#define TO(state) (1u << RIPC__WIREUP_##state)

DEFINE_SET_STATE(struct ripc__wireup, ripc__wireup_set_state)

START_TEST(set_state__transitions)
{
	static const unsigned allowed[RIPC__WIREUP_STATES] = {
		[RIPC__WIREUP_IDLE] = TO(REQ_SENT) | TO(DONE),
		[RIPC__WIREUP_REQ_SENT] = TO(QP_SETUP) | TO(DONE),
		[RIPC__WIREUP_REQ_RECEIVED] = TO(QP_SETUP) | TO(REJ_SENT) | TO(CLOSING) | TO(DONE),
		[RIPC__WIREUP_QP_SETUP] = TO(REP_SENT) | TO(ESTABLISHED) | TO(CLOSING) | TO(DONE),
		[RIPC__WIREUP_REP_SENT] = TO(ESTABLISHED) | TO(CLOSING) | TO(DONE),
		[RIPC__WIREUP_ESTABLISHED] = TO(CLOSING) | TO(DONE),
		[RIPC__WIREUP_REJ_SENT] = TO(DONE),
		[RIPC__WIREUP_CLOSING] = TO(DONE),
	};

	check_transitions(set_state, allowed);
}
END_TEST

/* The active side tries again, with another queue pair, or gives up. */
START_TEST(timeout__connect_again)
{
	enum ripc__wireup_action action;
	struct ripc__wireup_message m;
	struct ripc__wireup w = {0};
	uint64_t now_ns = 1;

	for (unsigned tries = 0; tries < 3; tries++) {
		ripc__wireup_connect(&w, 7, &params, "hello", 5, now_ns);
		for (action = RIPC__WIREUP_NOTHING; action != RIPC__WIREUP_TIMEOUT;) {
			now_ns = w.due ? now_ns : w.next_ns;
			ck_assert(w.timer_armed);
			while (ripc__wireup_output(&w, &m, now_ns, &action))
				ck_assert_int_eq(m.kind, RIPC__WIREUP_REQ);
		}
		ck_assert_int_eq(w.state, RIPC__WIREUP_REQ_SENT);
		ck_assert(!w.due && !w.timer_armed);
	}
	ripc__wireup_end(&w);
	ripc__wireup_end(&w);
	ck_assert_int_eq(w.state, RIPC__WIREUP_DONE);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("transport/ib/wireup");
	TCase *c = tcase_create("wireup");

	tcase_add_test(c, set_state__transitions);
	tcase_add_test(c, timeout__connect_again);
	tcase_add_test(c, encode__round_trip);
	tcase_add_test(c, decode__malformed);
	tcase_add_test(c, decode__random);
	tcase_add_test(c, wireup__open);
	tcase_add_test(c, wireup__rejected);
	tcase_add_test(c, wireup__no_peer);
	tcase_add_test(c, wireup__half_open);
	tcase_add_test(c, data_received__opens);
	tcase_add_test(c, close__any_time);
	tcase_add_test(c, unknown__answered);
	tcase_add_test(c, input__other_number);
	tcase_set_timeout(c, 60);
	suite_add_tcase(s, c);
	return test_main("transport/ib/wireup", s);
}
