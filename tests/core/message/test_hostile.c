/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Hostile peers in virtual time. They run the library, so that they reach each state of the
 * protocol, and besides send messages that were recorded anywhere in the network: repeated, in
 * another order, of other lanes and peers, with changed fields. They stall, break lanes, and start
 * again. Honest contexts exchange messages with their victim meanwhile: these must arrive once, in
 * order, unchanged and soon.
 */
#include "core/rig.h"
#include "wire/bytes.h"
#include "wire/elided.h"
#include "wire/header.h"
#include "wire/hello.h"

#define HONEST    3u /* contexts 0 (the victim of most), 1 and 2 */
#define CONTEXTS  5u
#define RECORDS   512u
#define LEN_MAX   2048u
#define STEPS     400u
#define KEPT_MAX  16u
#define ASYNC_MAX 8u
#define GROUP     UINT64_C(5)

static struct rig rig;
static uint64_t state;
static uint8_t *data;

static struct record {
	size_t len;
	uint8_t bytes[LEN_MAX];
} records[RECORDS];
static unsigned nrecords;

static struct ripc_message *kept[CONTEXTS][KEPT_MAX];
static unsigned nkept[CONTEXTS];
static struct ripc_request *async[CONTEXTS][ASYNC_MAX];
static struct ripc_request *calls[CONTEXTS][ASYNC_MAX];
/* number of the next message of one honest context to another: long and reliable ones */
static uint64_t sent[HONEST][HONEST][2], received[HONEST][HONEST][2];

static uint32_t rnd(uint32_t n)
{
	return (uint32_t)(test_random(&state) % n);
}

/* ---- what the hostile send ---- */

static void record_message(void *arg, const uint8_t from[16], const uint8_t to[16], uint8_t *bytes,
			   size_t *len)
{
	struct record *r = &records[nrecords % RECORDS];

	if (*len < RIPC__ELIDED_LEN || *len > LEN_MAX)
		return;
	if (!ripc__is_elided(bytes[0]) &&
	    (*len < RIPC__HEADER_LEN || ripc__get_le16(bytes) != RIPC__MSG_MAGIC))
		return;
	nrecords++;
	r->len = *len;
	memcpy(r->bytes, bytes, *len);
}

static uint64_t strange(uint64_t value)
{
	switch (rnd(8)) {
	case 0:
		return 0;
	case 1:
		return rnd(4);
	case 2:
		return UINT64_MAX - rnd(2);
	case 3:
		return value + 1;
	case 4:
		return value - 1;
	case 5:
		return value + (UINT64_C(1) << 32);
	case 6:
		return RIG_ID(rnd(CONTEXTS));
	default:
		return value ^ UINT64_C(1) << rnd(64);
	}
}

static void change(struct record *m)
{
	size_t at = RIPC__HEADER_LEN - 24 + 8 * (size_t)rnd((uint32_t)m->len / 8);
	const struct record *other = &records[rnd(nrecords < RECORDS ? nrecords : RECORDS)];

	switch (rnd(12)) {
	case 0:
		m->bytes[3] = (uint8_t)(1 + rnd(RIPC__KIND_END));
		break;
	case 1:
		m->bytes[4] ^= (uint8_t)(1u << rnd(6));
		break;
	case 2:
		m->len = m->len > RIPC__HEADER_LEN + 8 ? m->len - 8 : m->len;
		break;
	case 3:
		ripc__put_le16(m->bytes + 28, (uint16_t)strange(0));
		break;
	case 4:
		ripc__put_le16(m->bytes + (rnd(2) ? 6 : 30), (uint16_t)rnd(70));
		break;
	case 5:
	case 6:
	case 7:
		if (at + 8 <= m->len && at + 8 <= other->len)
			memcpy(m->bytes + at, other->bytes + at, 8);
		break;
	default:
		if (at + 8 <= m->len && at != 24)
			ripc__put_le64(m->bytes + at, strange(ripc__get_le64(m->bytes + at)));
		break;
	}
}

static void inject(unsigned from, unsigned to)
{
	struct ripc__lane *lane = rig_lane(&rig, from, to);
	struct record m;
	int skew = rnd(32) ? 0 : (int)rnd(5) - 2;

	if (!lane || lane->state != RIPC__LANE_UP || !nrecords)
		return;
	m = records[rnd(nrecords < RECORDS ? nrecords : RECORDS)];
	if (!ripc__is_elided(m.bytes[0])) {
		for (unsigned i = rnd(3); i; i--)
			change(&m);
		/* Without keys, the first message of an unknown service shows where it is. */
		if (m.bytes[3] <= RIPC__LONG && rnd(32))
			ripc__put_le64(m.bytes + 16, RIG_ID(from));
		else if (m.bytes[3] <= RIPC__LONG)
			ripc__put_le64(m.bytes + 16, rnd(2) ? 0 : UINT64_MAX - rnd(3));
		ripc__put_le32(m.bytes + 24, lane->tx_seq + (uint32_t)skew);
	} else {
		ripc__put_le16(m.bytes + 2, (uint16_t)(lane->tx_seq + (uint32_t)skew));
	}
	/* With forged credit the victim would send more than this peer can receive. */
	if (lane->uses_credits) {
		if (ripc__is_elided(m.bytes[0]))
			m.bytes[1] = 0;
		else
			ripc__put_le16(m.bytes + 28, 0);
	}
	if (ripc__sim_inject(rig.net, rig_instance(&rig, from), rig_instance(&rig, to), m.bytes,
			     m.len))
		return;
	/* The library sends behind it, with full headers. */
	lane->tx_last.dest = 0;
	if (lane->memory != &ripc__lane_memory_none)
		lane->memory->tx_long.request = 0;
	lane->tx_seq += !skew;
}

/* ---- what each context does ---- */

static size_t random_len(void)
{
	static const size_t lens[] = {0, 1, 100, 1000, 2000, 5000, 20000, 70000, 300000, 3000000};

	return lens[rnd(sizeof(lens) / sizeof(lens[0]))];
}

static void request_start(unsigned i, unsigned to)
{
	struct ripc_request **r = &async[i][rnd(ASYNC_MAX)];
	struct iovec items[3], back;
	struct ripc_send_options options = {.size = sizeof(options), .return_buffers = &back};
	size_t len = random_len();

	if (*r) {
		if (rnd(2))
			ripc_request_cancel(r, (int)rnd(3));
		else
			ripc_request_wait(r, (int)rnd(3));
		return;
	}
	for (unsigned k = 0; k < 3; k++)
		items[k] = (struct iovec){data, len};
	if (!rnd(4)) {
		back = (struct iovec){ripc_buf_alloc(rig.ctx[i], 100000), 100000};
		options.nreturn_buffers = back.iov_base != NULL;
	}
	if (ripc_send_async(rig.s[i], RIG_ID(to), items, 1 + rnd(3), &options, r))
		*r = NULL;
	/* A return buffer is withdrawn, now or when it is used. */
	if (options.nreturn_buffers)
		ripc_buf_free(rig.ctx[i], back.iov_base);
}

static void call_start(unsigned i, unsigned to)
{
	struct ripc_request **c = &calls[i][rnd(ASYNC_MAX)];
	struct ripc_call_options options = {.size = sizeof(options),
					    .flags = rnd(2) ? RIPC_IDEMPOTENT : 0};
	struct iovec item = {data, random_len()};
	struct ripc_message *m = NULL;

	if (!*c) {
		if (ripc_call_start(rig.s[i], RIG_ID(to), &item, 1, &options, (int)rnd(500), c))
			*c = NULL;
		return;
	}
	if (rnd(2))
		ripc_request_cancel(c, (int)rnd(10));
	else
		ripc_call_wait(c, &m, (int)rnd(10));
	if (m)
		ripc_message_free(m);
}

static void random_act(unsigned i, unsigned to)
{
	struct iovec item = {data, random_len()};
	struct ripc_send_options reliable = {.size = sizeof(reliable), .flags = RIPC_RELIABLE};

	switch (rnd(9)) {
	case 0:
	case 1:
		item.iov_len %= 1500;
		ripc_send_short(rig.s[i], RIG_ID(to), &item, 1, rnd(2) ? &reliable : NULL,
				(int)rnd(3));
		break;
	case 2:
	case 3:
	case 4:
		request_start(i, to);
		break;
	case 5:
	case 6:
		call_start(i, to);
		break;
	case 7:
		if (rnd(2))
			ripc_watch(rig.s[i], RIG_ID(to));
		else
			ripc_unwatch(rig.s[i], RIG_ID(to));
		break;
	default:
		item.iov_len = 50;
		if (rnd(2))
			ripc_group_send(rig.s[i], GROUP, &item, 1, NULL, (int)rnd(3));
		else if (rnd(2))
			ripc_group_join(rig.s[i], GROUP, 20);
		else
			ripc_group_leave(rig.s[i], GROUP);
		break;
	}
}

static void done_with(struct ripc_message *m)
{
	struct iovec item = {data, random_len()};

	if (m->call && rnd(3))
		ripc_reply(m, &item, 1, (int)rnd(3));
	ripc_message_free(m);
}

/* A message of an honest context: the next one. */
static void verify(unsigned i, unsigned from, const struct ripc_message *m)
{
	uint64_t *next = &received[from][i][m->is_long];

	ck_assert_uint_eq(m->nitems, 1);
	ck_assert_uint_ge(m->items[0].iov_len, 8);
	ck_assert_msg(ripc__get_le64(m->items[0].iov_base) == *next,
		      "%s message %llu, not %llu, of %u to %u: %zu bytes from service %llu",
		      m->is_long ? "long" : "reliable",
		      (unsigned long long)ripc__get_le64(m->items[0].iov_base),
		      (unsigned long long)*next, from, i, m->items[0].iov_len,
		      (unsigned long long)m->source);
	rig_verify((uint8_t *)m->items[0].iov_base + 8, m->items[0].iov_len - 8, *next);
	++*next;
}

static int honest_sender(const struct ripc_message *m)
{
	for (unsigned i = 0; i < HONEST; i++)
		if (!memcmp(m->instance, rig_instance(&rig, i), 16))
			return (int)i;
	return -1;
}

static void receive_all(unsigned i)
{
	struct ripc_message *m;

	while (!ripc_receive(rig.s[i], &m, 0)) {
		int from = m->event || m->group ? -1 : honest_sender(m);

		if (i < HONEST && from >= 0 && m->dest == RIG_ID(i)) {
			verify(i, (unsigned)from, m);
			ripc_message_free(m);
		} else if (nkept[i] < KEPT_MAX && !rnd(4)) {
			kept[i][nkept[i]++] = m;
		} else {
			done_with(m);
		}
	}
	while (nkept[i] && !rnd(4))
		done_with(kept[i][--nkept[i]]);
}

/* ---- the honest ---- */

static void honest_send(unsigned i, unsigned to)
{
	static uint8_t bytes[3000008];
	bool is_long = rnd(2);
	uint64_t *number = &sent[i][to][is_long], begin = ripc__sim_now(rig.net);
	struct ripc_send_options reliable = {.size = sizeof(reliable), .flags = RIPC_RELIABLE};
	size_t len = random_len();
	struct iovec item = {bytes, 0};

	item.iov_len = 8 + (is_long ? len : len % 1000);
	ripc__put_le64(bytes, *number);
	rig_fill(bytes + 8, item.iov_len - 8, *number);
	if (is_long)
		OK(ripc_send_long(rig.s[i], RIG_ID(to), &item, 1, NULL, 10000));
	else
		OK(ripc_send_short(rig.s[i], RIG_ID(to), &item, 1, &reliable, 10000));
	++*number;
	ck_assert_uint_le(ripc__sim_now(rig.net) - begin, 300 * RIPC__MS);
}

static void honest_exchange(void)
{
	for (unsigned i = 0; i < HONEST; i++)
		receive_all(i);
	for (unsigned i = 0; i < 4; i++) {
		unsigned from = rnd(HONEST), to = (from + 1 + rnd(HONEST - 1)) % HONEST;

		honest_send(from, to);
		rig_run(&rig, 2);
		receive_all(to);
		for (unsigned k = 0; k < 2; k++)
			ck_assert_msg(received[from][to][k] == sent[from][to][k],
				      "%s message %llu of %u to %u has not arrived",
				      k ? "long" : "reliable",
				      (unsigned long long)received[from][to][k], from, to);
	}
}

/* ---- the hostile ---- */

static void drop(unsigned i)
{
	while (nkept[i])
		ripc_message_free(kept[i][--nkept[i]]);
	for (unsigned k = 0; k < ASYNC_MAX; k++) {
		if (async[i][k])
			ripc_request_cancel(&async[i][k], 1);
		if (calls[i][k])
			ripc_request_cancel(&calls[i][k], 1);
		/* It goes on without its handle. */
		async[i][k] = calls[i][k] = NULL;
	}
}

static void restart(unsigned i)
{
	unsigned n = rig.n;

	drop(i);
	rig_close(&rig, i);
	rig.n = i;
	rig_open(&rig, NULL);
	rig.n = n;
	ripc__sim_hostile(rig.net, rig_instance(&rig, i));
}

static void hostile_step(void)
{
	unsigned i = HONEST + rnd(CONTEXTS - HONEST), to = rnd(4) ? 0 : rnd(HONEST);
	uint32_t what = rnd(64);

	if (what < 20)
		inject(i, to);
	else if (what < 40)
		random_act(i, to);
	else if (what < 48)
		receive_all(i);
	else if (what < 56)
		random_act(rnd(2) ? 0 : rnd(HONEST), i);
	else if (what < 59)
		rig_run(&rig, 1 + rnd(5));
	else if (what < 60)
		ripc__sim_hold(rig.net, rig_instance(&rig, i), true);
	else if (what < 62)
		ripc__sim_hold(rig.net, rig_instance(&rig, i), false);
	else if (what < 63)
		ripc__sim_break(rig.net, rig_instance(&rig, i), rig_instance(&rig, to));
	else if (!rnd(4))
		restart(i);
	else
		rig_run(&rig, 100 + rnd(400));
}

static void with_datagrams(struct ripc__sim_config *config)
{
	config->datagram = config->multicast = true;
}

static void with_grants(struct ripc__sim_config *config)
{
	config->caps_off = RIPC__CAP_READ;
	config->queue_depth = 16;
}

static void expensive(struct ripc__sim_config *config)
{
	config->caps_off = RIPC__CAP_CHEAP_REG;
	config->written = true;
}

static void with_immediate(struct ripc__sim_config *config)
{
	config->caps_off = RIPC__CAP_CHEAP_REG;
	config->write_imm = true;
	config->recv_depth = 16;
}

static void (*const configs[])(struct ripc__sim_config *config) = {
	NULL, with_datagrams, with_grants, expensive, with_immediate,
};

#define CONFIGS (sizeof(configs) / sizeof(configs[0]))

/* Memory that the victim uses for items. */
static uint64_t touched_bytes(void)
{
	const struct ripc__memory *m = rig.ctx[0]->memory;
	uint64_t bytes = 0;

	for (size_t i = 0; i < m->nregions; i++)
		bytes += m->regions[i]->prefaulted;
	return bytes;
}

START_TEST(hostile_peers__disturb_nobody)
{
	state = test_seed() + (uint64_t)_i;
	data = calloc(1, 3000000);
	rig_start(&rig, CONTEXTS, configs[_i % CONFIGS]);
	for (unsigned i = HONEST; i < CONTEXTS; i++)
		ripc__sim_hostile(rig.net, rig_instance(&rig, i));
	ripc__sim_tamper(rig.net, record_message, NULL);
	for (unsigned i = 0; i < STEPS; i++) {
		hostile_step();
		if (i % 16 == 15)
			honest_exchange();
		ck_assert_uint_le(touched_bytes(), 256 * MIB);
	}
	honest_exchange();
	for (unsigned i = HONEST; i < CONTEXTS; i++)
		ripc__sim_hold(rig.net, rig_instance(&rig, i), false);
	for (unsigned i = 0; i < CONTEXTS; i++)
		drop(i);
	rig_end(&rig);
	free(data);
}
END_TEST

#define OPS  (&ripc__transport_sim)
#define HELD 64u

/* Takes the events of a process that only connects. Return: lanes that came up. */
static unsigned connector_progress(struct ripc__transport *t, struct ripc__ep **held)
{
	uint64_t deadline = RIPC__NEVER;
	struct ripc__event ev[8];
	unsigned n, up = 0;

	while ((n = OPS->progress(t, ev, 8, ripc__sim_now(rig.net), &deadline)))
		for (unsigned i = 0; i < n; i++) {
			up += ev[i].kind == RIPC__EV_ESTABLISHED;
			if (ev[i].kind == RIPC__EV_REQUEST)
				OPS->reject(t, ev[i].request, NULL, 0);
			if (ev[i].token)
				OPS->release(t, ev[i].token);
			if (ev[i].kind != RIPC__EV_CLOSED)
				continue;
			for (unsigned k = 0; k < HELD; k++)
				held[k] = held[k] == ev[i].ep ? NULL : held[k];
			OPS->ep_close(ev[i].ep);
		}
	return up;
}

/*
 * A process connects again and again: in its own name, in new ones, in that of an honest context
 * with a lane, with any fields in its hello, and does not let go of the connections or closes them.
 */
START_TEST(hostile_connections__disturb_nobody)
{
	struct ripc__transport_env env = {.arg = NULL};
	uint8_t instance[16], addr[RIPC__ADDRESS_MAX];
	struct ripc__ep *held[HELD] = {NULL};
	struct ripc__transport *t;
	unsigned up = 0;
	int len;

	state = test_seed();
	data = calloc(1, 3000000);
	rig_start(&rig, HONEST, NULL);
	memset(instance, 0x66, 16);
	env.arg = rig.net;
	env.instance = instance;
	OK(OPS->open(&t, &env));
	OK(ripc__sim_hostile(rig.net, instance));
	/* Without keys, the first process that comes in a name gets its lane. */
	for (unsigned i = 1; i < HONEST; i++)
		rig_connect(&rig, 0, i);
	for (unsigned i = 0; i < 10000; i++) {
		struct ripc__hello h = {.send_max = 8192,
					.recv_depth = rnd(2) ? 0 : 16,
					.service_window = 4096,
					.caps = rnd(2) ? ~0u : RIPC__CAP_READ | RIPC__CAP_WRITE};
		uint8_t hello[RIPC__HELLO_LEN];
		struct ripc__ep **ep = &held[rnd(HELD)];

		if (*ep)
			OPS->ep_close(*ep);
		*ep = NULL;
		memcpy(h.target, rig_instance(&rig, 0), 16);
		memcpy(h.instance, rnd(3) ? instance : rig_instance(&rig, 1), 16);
		if (!rnd(3))
			ripc__put_le64(h.instance, test_random(&state));
		h.epoch = rnd(3);
		ripc__hello_encode(&h, hello);
		if (!rnd(8))
			hello[rnd(RIPC__HELLO_LEN)] ^= (uint8_t)(1u << rnd(8));
		len = ripc__sim_address(rig.net, rig_instance(&rig, 0), addr);
		if (OPS->connect(t, addr, (size_t)len, hello, sizeof(hello), NULL, ep))
			*ep = NULL;
		if (rnd(2))
			ripc__sim_run(rig.net, 100000 * rnd(10));
		up += connector_progress(t, held);
		if (i % 100 == 99)
			honest_exchange();
		ck_assert_uint_le(rig_stats(&rig, 0).lanes, HELD + HONEST);
	}
	ck_assert_uint_gt(up, 100);
	for (unsigned k = 0; k < HELD; k++)
		if (held[k])
			OPS->ep_close(held[k]);
	OPS->close(t);
	rig_end(&rig);
	free(data);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("core/message/hostile");
	TCase *tc = tcase_create("hostile");

	test_seed();
	tcase_set_timeout(tc, 60);
	tcase_add_loop_test(tc, hostile_peers__disturb_nobody, 0, 2 * CONFIGS);
	tcase_add_test(tc, hostile_connections__disturb_nobody);
	suite_add_tcase(suite, tc);
	return test_main("core/message/hostile", suite);
}
