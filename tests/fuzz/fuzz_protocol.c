/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A context in a simulated network receives arbitrary input from a peer that is properly connected
 * to it. It exchanges messages with two honest contexts at the same time: these must not be
 * disturbed, and its memory stays bounded.
 *
 * The input is a list of steps, a byte that selects the step and its arguments: see enum step.
 */
#include "base/clock.h"
#include "core/memory/buffer.h"
#include "core/progress/context.h"
#include "base/log.h"
#include "fuzz.h"
#include "core/sim/world.h"
#include "transport/sim/sim.h"
#include "wire/bytes.h"
#include "wire/elided.h"
#include "wire/hello.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define OPS       (&ripc__transport_sim)
#define ID(i)     (UINT64_C(1000) + (i))
#define PEER_ID   UINT64_C(666)
#define MEMORY    65536
#define STEPS_MAX 100
#define LEN_MAX   1000
#define CALLS     4
#define OTHERS    4 /* contexts that exist in datagrams only */
#define GROUP     UINT64_C(5)

enum step {
	/*
	 * u8 kind, u8 bytes behind the header / 4, then header fields and those bytes; magic and
	 * seq are put right
	 */
	MESSAGE,
	RAW,     /* u8 length, bytes: sent as they are */
	RUN,     /* u8: time passes, up to 25 ms */
	WAIT,    /* u8: the same, up to 2.5 s */
	RECEIVE, /* the victim takes its messages */
	/*
	 * u8: the victim sends a message to the peer, short or long, with or without a return
	 * buffer
	 */
	ANSWER,
	WITHDRAW, /* the victim frees its return buffer or cancels its request */
	CLOSE,    /* the lane is closed, and comes up again */
	REGISTER, /* the victim gives its second service up, or takes it again */
	WINDOW,   /* the victim sets a window aside */
	WRITE,    /* u8 which: the peer writes into announced memory, or elsewhere */
	HELLO,    /* 64 bytes: one more connection request */
	ELIDED,   /* u8 kind and skew, u8 credits, u8 length, bytes: in place of a header */
	CALL,     /* u8: the victim calls the peer, looks for the answer, or cancels the call */
	WATCH,    /* u8: the victim watches the peer's service, or does not any more */
	DATAGRAM, /* u8 how: see datagram() */
	MEMBER,   /* u8: the victim joins or leaves a group, or sends to it */
	STEPS,
};

struct run {
	const uint8_t *data;
	size_t size, at;
	struct ripc__sim *net;
	struct ripc *ctx[3]; /* 0 is the victim */
	struct ripc_service *s[3];
	struct ripc_service *second;  /* another one of the victim, or NULL */
	void *return_buf;             /* a return buffer of the victim */
	struct ripc_request *request; /* of the victim to the peer */
	struct ripc_request *calls[CALLS];
	unsigned nrequests; /* requests of calls that the victim received */
	uint8_t sent[30000];
	/* The peer that breaks the rules. */
	struct ripc__transport *t;
	struct ripc__ep *ep, *ep2;
	bool up;
	uint32_t seq;
	uint8_t instance[16];
	uint8_t memory[MEMORY];
	struct ripc__mr mr;
	struct ripc__desc events; /* the last memory announced by the victim */
	uint64_t call;            /* id of the victim's last call */
};

static void check(bool ok)
{
	if (!ok)
		abort();
}

static uint8_t take(struct run *r)
{
	return r->at < r->size ? r->data[r->at++] : 0;
}

static void take_bytes(struct run *r, uint8_t *p, size_t n)
{
	while (n--)
		*p++ = take(r);
}

static void is_idle(void *arg, const char *text)
{
	abort();
}

/* ---- the peer ---- */

static void hello_to(const struct run *r, uint8_t buf[RIPC__HELLO_LEN])
{
	struct ripc__hello h = {.send_max = 8192,
				.recv_depth = 0,
				.service_window = 4096,
				.caps = RIPC__CAP_READ | RIPC__CAP_WRITE |
					RIPC__CAP_DATAGRAM_CONTEXT | RIPC__CAP_FLOW_END};

	memcpy(h.instance, r->instance, 16);
	memcpy(h.target, r->ctx[0]->instance, 16);
	ripc__hello_encode(&h, buf);
}

static void peer_connect(struct run *r, struct ripc__ep **ep, const uint8_t hello[RIPC__HELLO_LEN])
{
	uint8_t addr[RIPC__ADDRESS_MAX];
	int len = ripc__sim_address(r->net, r->ctx[0]->instance, addr);

	check(len > 0);
	if (OPS->connect(r->t, addr, (size_t)len, hello, RIPC__HELLO_LEN, NULL, ep))
		*ep = NULL;
}

/* Stores announced memory: return buffers, grants, readable memory. */
static void peer_learn(struct run *r, const struct ripc__event *ev)
{
	struct ripc__header h;
	const char *why;

	if (ev->len >= RIPC__ELIDED_LEN + RIPC__CALL_EXT && ev->data[0] == RIPC__ELIDED_CALL)
		r->call = ripc__get_le64(ev->data + RIPC__ELIDED_LEN);
	if (ripc__header_decode(&h, ev->data, ev->len, &why))
		return;
	if (h.flags & RIPC__F_CALL)
		r->call = h.call;
	if (h.nreturns)
		ripc__desc_get(&r->events, h.returns, 0);
	else if (h.kind == RIPC__LONG || h.kind == RIPC__GRANT)
		ripc__desc_get(&r->events, h.items, 0);
}

static void peer_progress(void *arg)
{
	struct run *r = arg;
	struct ripc__event ev[8];
	uint64_t deadline = RIPC__NEVER;
	unsigned n;

	while ((n = OPS->progress(r->t, ev, 8, ripc__sim_now(r->net), &deadline)))
		for (unsigned i = 0; i < n; i++) {
			if (ev[i].kind == RIPC__EV_REQUEST)
				OPS->reject(r->t, ev[i].request, NULL, 0);
			if (ev[i].kind == RIPC__EV_ESTABLISHED && ev[i].ep == r->ep)
				r->up = true;
			if (ev[i].kind == RIPC__EV_RECV)
				peer_learn(r, &ev[i]);
			if (ev[i].token)
				OPS->release(r->t, ev[i].token);
			if (ev[i].kind != RIPC__EV_CLOSED)
				continue;
			if (ev[i].ep == r->ep) {
				r->ep = NULL;
				r->up = false;
			}
			if (ev[i].ep == r->ep2)
				r->ep2 = NULL;
			OPS->ep_close(ev[i].ep);
		}
}

static void peer_up(struct run *r)
{
	uint8_t hello[RIPC__HELLO_LEN];

	if (!r->ep) {
		hello_to(r, hello);
		r->seq = 0;
		peer_connect(r, &r->ep, hello);
	}
	for (int i = 0; i < 20 && r->ep && !r->up; i++)
		ripc__sim_run(r->net, 100000);
}

static void peer_send(struct run *r, const uint8_t *p, size_t len)
{
	struct iovec iov = {(void *)p, len};

	peer_up(r);
	if (r->up && !OPS->post(r->ep, NULL, 0, &iov, 1, false))
		r->seq++;
}

/* Descriptors with the key 1 mean its own memory. */
static void put_keys(struct run *r, uint8_t *p, size_t len)
{
	struct ripc__header h;
	const char *why;

	if (ripc__header_decode(&h, p, len, &why) || h.kind == RIPC__SHORT)
		return;
	for (unsigned i = 0; i < h.nitems; i++) {
		uint8_t *at = p + (h.items - p) + i * RIPC__DESC_LEN;
		struct ripc__desc d;

		ripc__desc_get(&d, h.items, i);
		if (d.key != 1)
			continue;
		d.key = r->mr.key;
		d.addr = r->mr.addr + d.addr % MEMORY;
		ripc__desc_put(at, &d);
	}
}

/* The call id 1 means the victim's last call. */
static void put_call(const struct run *r, uint8_t *p, size_t len)
{
	bool call = p[3] == RIPC__CALL_STATE || ripc__get_le16(p + 4) & RIPC__F_REPLY;
	/* Behind the lengths of a SHORT. */
	size_t at = RIPC__HEADER_LEN + (p[3] == RIPC__SHORT ? 4u * ripc__get_le16(p + 6) : 0);

	if (call && len >= at + 8 && ripc__get_le64(p + at) == 1)
		ripc__put_le64(p + at, r->call);
}

static void message(struct run *r)
{
	uint8_t buf[RIPC__HEADER_LEN + 4 * 255] = {0}, kind = take(r);
	size_t len = RIPC__HEADER_LEN + 4u * take(r);
	uint16_t flags, nitems, nreturns;
	uint64_t dest, source;

	dest = take(r);
	dest = dest < 4 ? ID(dest) : dest == 255 ? 0 : dest;
	source = take(r);
	source = source & 1 ? PEER_ID : PEER_ID + source;
	flags = take(r);
	nitems = take(r);
	nreturns = take(r);
	ripc__header_put(buf, kind, flags, nitems, nreturns, dest, source);
	ripc__header_stamp(buf, r->seq, take(r));
	take_bytes(r, buf + RIPC__HEADER_LEN, len - RIPC__HEADER_LEN);
	put_keys(r, buf, len);
	put_call(r, buf, len);
	peer_send(r, buf, len);
}

static void raw(struct run *r)
{
	uint8_t buf[255];
	size_t len = take(r);

	take_bytes(r, buf, len);
	peer_send(r, buf, len);
}

static void send_elided(struct run *r)
{
	uint8_t buf[RIPC__ELIDED_LEN + 255];
	static const uint16_t flags[] = {0, RIPC__F_RELIABLE, RIPC__F_RELIABLE | RIPC__F_CALL,
					 RIPC__F_RELIABLE | RIPC__F_REPLY};
	uint32_t skew = take(r), seq = r->seq + (skew & 63), credits = take(r);
	size_t len = take(r);

	ripc__put_le32(buf, ripc__elided_word(flags[skew >> 6], seq, credits));
	take_bytes(r, buf + RIPC__ELIDED_LEN, len);
	if (skew >> 6 == 3 && len >= 8 && ripc__get_le64(buf + RIPC__ELIDED_LEN) == 1)
		ripc__put_le64(buf + RIPC__ELIDED_LEN, r->call);
	peer_send(r, buf, RIPC__ELIDED_LEN + len);
}

static size_t full_datagram(struct run *r, uint8_t *buf, unsigned other)
{
	uint8_t kind = take(r), dest = take(r), nitems = take(r), number = take(r);
	size_t len = take(r);
	uint8_t *p = ripc__header_put(buf, kind, RIPC__F_INSTANCE, nitems, 0,
				      dest < 4 ? ID(dest) : dest, PEER_ID);

	/* The upper bits make it jump far. */
	ripc__number_stamp(buf, 1000 + (uint64_t)number * (number & 0x80 ? 1u << 24 : 1));
	if (kind == RIPC__GROUP)
		ripc__header_stamp(buf, 0, 0);
	memset(p, other ? (int)other : 0x66, 16);
	take_bytes(r, p + 16, len);
	return (size_t)(p + 16 - buf) + len;
}

/*
 * Sends the victim a datagram: with a full header, in the name of the peer or of another context;
 * with a short one, or the answer to such; or any bytes.
 */
static void datagram(struct run *r)
{
	uint8_t buf[RIPC__HEADER_LEN + 16 + 255], addr[RIPC__ADDRESS_MAX], how = take(r);
	int addrlen = ripc__sim_address(r->net, r->ctx[0]->instance, addr);
	uint64_t id;
	size_t len;

	switch (how & 3) {
	case 0:
		len = full_datagram(r, buf, how >> 2 & 1 ? 1 + (how >> 3) % OTHERS : 0);
		break;
	case 1:
	case 2:
		id = take(r);
		ripc__elided_datagram_put(buf, ripc__datagram_word(id), take(r));
		if (how & 2)
			buf[0] = RIPC__UNKNOWN_CONTEXT;
		len = how & 4 ? 0 : take(r);
		take_bytes(r, buf + RIPC__ELIDED_DATAGRAM_LEN, len);
		len += RIPC__ELIDED_DATAGRAM_LEN;
		break;
	default:
		len = take(r);
		take_bytes(r, buf, len);
		break;
	}
	OPS->post_datagram(r->t, addr, (size_t)addrlen, &(struct iovec){buf, len}, 1);
}

static void one_more_request(struct run *r)
{
	uint8_t hello[RIPC__HELLO_LEN];

	if (r->ep2)
		return;
	hello_to(r, hello);
	/* The ids stay right. */
	take_bytes(r, hello, 8);
	take_bytes(r, hello + 40, 24);
	peer_connect(r, &r->ep2, hello);
	ripc__sim_run(r->net, 100000);
	if (r->ep2)
		OPS->ep_close(r->ep2);
	r->ep2 = NULL;
}

static void write_somewhere(struct run *r)
{
	uint8_t which = take(r);

	if (r->up)
		OPS->post_write(r->ep, &r->mr, r->memory, 1u << (which & 15),
				r->events.addr + (which >> 6), r->events.key, 1);
}

/* ---- the victim ---- */

/* Answers, refuses or ignores the request of a call. */
static void reply(struct run *r, struct ripc_message *m)
{
	struct iovec item = {r->sent, 50};

	switch (r->nrequests++ % 4) {
	case 0:
		ripc_reply(m, &item, 1, 0);
		break;
	case 1:
		ripc_reply_error(m, EACCES);
		break;
	case 2:
		item.iov_len = 20000;
		ripc_reply(m, &item, 1, 5);
		break;
	default:
		ripc_message_cancelled(m);
		break;
	}
}

static void receive_all(struct run *r, struct ripc_service *s)
{
	struct ripc_message *m;

	while (s && !ripc_receive(s, &m, 0)) {
		volatile uint8_t sum = 0;

		/* A peer may send items of gigabytes: not every byte of them. */
		for (unsigned i = 0; i < m->nitems; i++)
			for (size_t k = 0; k < m->items[i].iov_len;
			     k += 1 + m->items[i].iov_len / 65536)
				sum = (uint8_t)(sum + ((const uint8_t *)m->items[i].iov_base)[k]);
		if (m->call)
			reply(r, m);
		ripc_message_free(m);
	}
}

static void call(struct run *r)
{
	uint8_t how = take(r);
	struct ripc_request **c = &r->calls[how % CALLS];
	struct ripc_call_options options = {.size = sizeof(options),
					    .flags = how & 16 ? RIPC_IDEMPOTENT : 0};
	struct iovec item = {r->sent, how & 8 ? 20000 : 50};
	struct ripc_completion done = {.size = sizeof(done)};
	struct ripc_message *m = NULL;

	if (!*c) {
		ripc_call_start(r->s[0], PEER_ID, &item, 1, &options, how & 32 ? 20 : 2000, c);
		return;
	}
	ripc_completion_next(r->ctx[0], &done, 0);
	if (how & 4)
		ripc_request_cancel(c, 10);
	else
		ripc_call_wait(c, &m, 0);
	if (m)
		ripc_message_free(m);
}

static void cancel(struct run *r)
{
	if (r->request)
		ripc_request_cancel(&r->request, 10);
	if (r->return_buf)
		check(!ripc_buf_free(r->ctx[0], r->return_buf));
	r->return_buf = NULL;
}

static void answer(struct run *r)
{
	uint8_t how = take(r);
	struct iovec item = {r->sent, how & 1 ? 20000 : 50}, back;
	struct ripc_send_options options = {.size = sizeof(options), .return_buffers = &back};

	if (how & 2 && !r->return_buf) {
		r->return_buf = ripc_buf_alloc(r->ctx[0], 5000);
		back = (struct iovec){r->return_buf, 5000};
		options.nreturn_buffers = r->return_buf ? 1 : 0;
	}
	if (!(how & 4))
		ripc_send_short(r->s[0], PEER_ID, &item, 1, &options, 5);
	else if (!r->request)
		ripc_send_async(r->s[0], PEER_ID, &item, 1, &options, &r->request);
}

static void window(struct run *r)
{
	void *p;

	if (r->ctx[0]->memory->nrecv_windows > 4)
		return;
	p = ripc_buf_alloc(r->ctx[0], 3000);
	if (p)
		ripc_window_add(r->ctx[0], NULL, p, 3000);
}

static void member(struct run *r)
{
	struct iovec item = {r->sent, 50};

	switch (take(r) % 3) {
	case 0:
		ripc_group_join(r->s[0], GROUP, 500);
		break;
	case 1:
		ripc_group_leave(r->s[0], GROUP);
		break;
	default:
		ripc_group_send(r->s[0], GROUP, &item, 1, NULL, 5);
		break;
	}
}

static void do_register(struct run *r)
{
	if (r->second)
		check(!ripc_service_unregister(r->second));
	else if (!ripc_service_register(r->ctx[0], ID(3), 0, &r->second))
		return;
	r->second = NULL;
}

/* ---- the honest ---- */

static void exchange(struct run *r, unsigned i, unsigned k)
{
	struct iovec item = {r->sent, 100};
	struct ripc_message *m;

	receive_all(r, r->s[k]);
	check(!ripc_send_short(r->s[i], ID(k), &item, 1, NULL, 5000));
	do
		check(!ripc_receive(r->s[k], &m, 5000));
	while (m->source != ID(i) && (ripc_message_free(m), true));
	check(m->nitems == 1 && m->items[0].iov_len == 100 &&
	      !memcmp(m->items[0].iov_base, r->sent, 100));
	ripc_message_free(m);
	item.iov_len = 20000;
	check(!ripc_send_long(r->s[i], ID(k), &item, 1, NULL, 5000));
	do
		check(!ripc_receive(r->s[k], &m, 5000));
	while (m->source != ID(i) && (ripc_message_free(m), true));
	check(m->nitems == 1 && m->items[0].iov_len == 20000 &&
	      !memcmp(m->items[0].iov_base, r->sent, 20000));
	ripc_message_free(m);
}

static void begin(struct run *r)
{
	struct ripc__transport_env env = {.instance = r->instance};
	struct ripc__sim_config config;
	struct ripc__hooks hooks;

	ripc__sim_defaults(&config);
	config.datagram = config.multicast = true;
	r->net = ripc__sim_create(1, &config, is_idle, NULL);
	check(r->net != NULL);
	ripc__sim_hooks(r->net, &hooks);
	for (size_t i = 0; i < sizeof(r->sent); i++)
		r->sent[i] = (uint8_t)(i * 7 + i / 256);
	for (unsigned i = 0; i < 3; i++) {
		check(!ripc__open_hooked(&r->ctx[i], "pool_bytes=1000000", &hooks));
		check(!ripc__sim_attach(r->net, r->ctx[i]));
		check(!ripc_service_register(r->ctx[i], ID(i), 0, &r->s[i]));
	}
	memset(r->instance, 0x66, 16);
	env.arg = r->net;
	check(!ripc__sim_hostile(r->net, r->instance));
	check(!OPS->open(&r->t, &env));
	check(!ripc__sim_actor(r->net, peer_progress, r));
	check(!OPS->reg(r->t, NULL, r->memory, MEMORY,
			RIPC__ACCESS_REMOTE_READ | RIPC__ACCESS_REMOTE_WRITE, &r->mr));
	exchange(r, 1, 2);
	exchange(r, 1, 0);
	peer_up(r);
}

static void end(struct run *r)
{
	struct ripc__sim_counters counters;

	/* Nothing of what was done to the victim is anybody else's business. */
	exchange(r, 2, 1);
	exchange(r, 1, 0);
	exchange(r, 0, 2);
	cancel(r);
	for (unsigned i = 0; i < CALLS; i++)
		if (r->calls[i])
			ripc_request_cancel(&r->calls[i], 10);
	ripc__sim_actor_remove(r->net, peer_progress, r);
	OPS->close(r->t);
	for (unsigned i = 0; i < 3; i++) {
		receive_all(r, r->s[i]);
		check(!ripc_close(r->ctx[i]));
		ripc__sim_detach(r->net, r->ctx[i]);
	}
	while (ripc__sim_step(r->net, RIPC__NEVER))
		;
	ripc__sim_counters(r->net, &counters);
	check(!counters.endpoints && !counters.regions && !counters.packets);
	ripc__sim_destroy(r->net);
}

static void step(struct run *r)
{
	switch (take(r) % STEPS) {
	case MESSAGE:
		message(r);
		break;
	case RAW:
		raw(r);
		break;
	case RUN:
		ripc__sim_run(r->net, take(r) * UINT64_C(100000) + 1);
		break;
	case WAIT:
		ripc__sim_run(r->net, take(r) * UINT64_C(10000000) + 1);
		break;
	case RECEIVE:
		receive_all(r, r->s[0]);
		receive_all(r, r->second);
		break;
	case ANSWER:
		answer(r);
		break;
	case WITHDRAW:
		cancel(r);
		break;
	case CLOSE:
		if (r->ep)
			OPS->ep_close(r->ep);
		r->ep = NULL;
		r->up = false;
		break;
	case REGISTER:
		do_register(r);
		break;
	case WINDOW:
		window(r);
		break;
	case WRITE:
		write_somewhere(r);
		break;
	case HELLO:
		one_more_request(r);
		break;
	case ELIDED:
		send_elided(r);
		break;
	case CALL:
		call(r);
		break;
	case WATCH:
		if (take(r) & 1)
			ripc_unwatch(r->s[0], PEER_ID);
		else
			ripc_watch(r->s[0], PEER_ID);
		break;
	case DATAGRAM:
		datagram(r);
		break;
	case MEMBER:
		member(r);
		break;
	default:
		break;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct run *r = calloc(1, sizeof(*r));

	if (!r)
		return 0;
	r->data = data;
	r->size = size < LEN_MAX ? size : LEN_MAX;
	begin(r);
	for (unsigned i = 0; i < STEPS_MAX && r->at < r->size; i++) {
		step(r);
		/* Its limit at the victim: a few messages. */
		check(r->ctx[0]->stats.lanes <= 4 && r->ctx[0]->stats.peers <= 4 + OTHERS);
		if (i % 32 == 31)
			exchange(r, 1, 2);
	}
	end(r);
	free(r);
	return 0;
}
