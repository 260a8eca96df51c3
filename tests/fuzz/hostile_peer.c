/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "hostile_peer.h"
#include "base/clock.h"
#include "core/sim/world.h"
#include "wire/bytes.h"
#include "wire/elided.h"
#include "wire/hello.h"
#include "transport/transfer.h"

#include <string.h>

#define OPS (&ripc__transport_sim)

static void hello_to(const struct hostile_peer *peer, uint8_t buf[RIPC__HELLO_LEN])
{
	struct ripc__hello h = {.send_max = 8192,
				.recv_depth = 0,
				.service_window = 4096,
				.caps = RIPC__CAP_READ | RIPC__CAP_WRITE |
					RIPC__CAP_DATAGRAM_CONTEXT | RIPC__CAP_FLOW_END};

	memcpy(h.instance, peer->instance, 16);
	memcpy(h.target, peer->victim->instance, 16);
	ripc__hello_encode(&h, buf);
}

static void peer_connect(struct hostile_peer *peer, struct ripc__ep **ep,
			 const uint8_t hello[RIPC__HELLO_LEN])
{
	uint8_t addr[RIPC__ADDRESS_MAX];
	int len = ripc__sim_address(peer->net, peer->victim->instance, addr);

	check(len > 0);
	if (OPS->connect(peer->t, addr, (size_t)len, hello, RIPC__HELLO_LEN, NULL, ep))
		*ep = NULL;
}

/* Stores announced memory: return buffers, grants, readable memory. */
static void peer_learn(struct hostile_peer *peer, const struct ripc__event *ev)
{
	struct ripc__header h;
	const char *why;

	if (ev->len >= RIPC__ELIDED_LEN + RIPC__CALL_EXT && ev->data[0] == RIPC__ELIDED_CALL)
		peer->call = ripc__get_le64(ev->data + RIPC__ELIDED_LEN);
	if (ripc__header_decode(&h, ev->data, ev->len, &why))
		return;
	if (h.flags & RIPC__F_CALL)
		peer->call = h.call;
	if (h.nreturns)
		ripc__desc_get(&peer->events, h.returns, 0);
	else if (h.kind == RIPC__LONG || h.kind == RIPC__GRANT)
		ripc__desc_get(&peer->events, h.items, 0);
}

static void peer_progress(void *arg)
{
	struct hostile_peer *peer = arg;
	struct ripc__event ev[8];
	uint64_t deadline = RIPC__NEVER;
	unsigned n;

	while ((n = OPS->progress(peer->t, ev, 8, ripc__sim_now(peer->net), &deadline)))
		for (unsigned i = 0; i < n; i++) {
			if (ev[i].kind == RIPC__EV_REQUEST)
				OPS->reject(peer->t, ev[i].request, NULL, 0);
			if (ev[i].kind == RIPC__EV_ESTABLISHED && ev[i].ep == peer->ep)
				peer->up = true;
			if (ev[i].kind == RIPC__EV_RECV)
				peer_learn(peer, &ev[i]);
			if (ev[i].token)
				OPS->release(peer->t, ev[i].token);
			if (ev[i].kind != RIPC__EV_CLOSED)
				continue;
			if (ev[i].ep == peer->ep) {
				peer->ep = NULL;
				peer->up = false;
			}
			if (ev[i].ep == peer->ep2)
				peer->ep2 = NULL;
			OPS->ep_close(ev[i].ep);
		}
}

void peer_up(struct hostile_peer *peer)
{
	uint8_t hello[RIPC__HELLO_LEN];

	if (!peer->ep) {
		hello_to(peer, hello);
		peer->seq = 0;
		peer_connect(peer, &peer->ep, hello);
	}
	for (int i = 0; i < 20 && peer->ep && !peer->up; i++)
		ripc__sim_run(peer->net, 100000);
}

static void peer_send(struct hostile_peer *peer, const uint8_t *p, size_t len)
{
	struct iovec iov = {(void *)p, len};

	peer_up(peer);
	if (peer->up && !OPS->post(peer->ep, NULL, 0, &iov, 1, false))
		peer->seq++;
}

/* Descriptors with the key 1 mean its own memory. */
static void put_keys(struct hostile_peer *peer, uint8_t *p, size_t len)
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
		d.key = peer->mr.key;
		d.addr = peer->mr.addr + d.addr % PEER_MEMORY;
		ripc__desc_put(at, &d);
	}
}

/* The call id 1 means the victim's last call. */
static void put_call(const struct hostile_peer *peer, uint8_t *p, size_t len)
{
	bool call = p[3] == RIPC__CALL_STATE || ripc__get_le16(p + 4) & RIPC__F_REPLY;
	/* Behind the lengths of a SHORT. */
	size_t at = RIPC__HEADER_LEN + (p[3] == RIPC__SHORT ? 4u * ripc__get_le16(p + 6) : 0);

	if (call && len >= at + 8 && ripc__get_le64(p + at) == 1)
		ripc__put_le64(p + at, peer->call);
}

void peer_message(struct hostile_peer *peer)
{
	uint8_t buf[RIPC__HEADER_LEN + 4 * 255] = {0}, kind = take(&peer->in);
	size_t len = RIPC__HEADER_LEN + 4u * take(&peer->in);
	uint16_t flags, nitems, nreturns;
	uint64_t dest, source;

	dest = take(&peer->in);
	dest = dest < 4 ? ID(dest) : dest == 255 ? 0 : dest;
	source = take(&peer->in);
	source = source & 1 ? PEER_ID : PEER_ID + source;
	flags = take(&peer->in);
	nitems = take(&peer->in);
	nreturns = take(&peer->in);
	ripc__header_put(buf, kind, flags, nitems, nreturns, dest, source);
	ripc__header_stamp(buf, peer->seq, take(&peer->in));
	take_bytes(&peer->in, buf + RIPC__HEADER_LEN, len - RIPC__HEADER_LEN);
	put_keys(peer, buf, len);
	put_call(peer, buf, len);
	peer_send(peer, buf, len);
}

void peer_raw(struct hostile_peer *peer)
{
	uint8_t buf[255];
	size_t len = take(&peer->in);

	take_bytes(&peer->in, buf, len);
	peer_send(peer, buf, len);
}

void peer_elided(struct hostile_peer *peer)
{
	uint8_t buf[RIPC__ELIDED_LEN + 255];
	static const uint16_t flags[] = {0, RIPC__F_RELIABLE, RIPC__F_RELIABLE | RIPC__F_CALL,
					 RIPC__F_RELIABLE | RIPC__F_REPLY};
	uint32_t skew = take(&peer->in), seq = peer->seq + (skew & 63), credits = take(&peer->in);
	size_t len = take(&peer->in);

	ripc__put_le32(buf, ripc__elided_word(flags[skew >> 6], seq, credits));
	take_bytes(&peer->in, buf + RIPC__ELIDED_LEN, len);
	if (skew >> 6 == 3 && len >= 8 && ripc__get_le64(buf + RIPC__ELIDED_LEN) == 1)
		ripc__put_le64(buf + RIPC__ELIDED_LEN, peer->call);
	peer_send(peer, buf, RIPC__ELIDED_LEN + len);
}

static size_t full_datagram(struct hostile_peer *peer, uint8_t *buf, unsigned other)
{
	uint8_t kind = take(&peer->in), dest = take(&peer->in), nitems = take(&peer->in),
		number = take(&peer->in);
	size_t len = take(&peer->in);
	uint8_t *p = ripc__header_put(buf, kind, RIPC__F_INSTANCE, nitems, 0,
				      dest < 4 ? ID(dest) : dest, PEER_ID);

	/* The upper bits make it jump far. */
	ripc__number_stamp(buf, 1000 + (uint64_t)number * (number & 0x80 ? 1u << 24 : 1));
	if (kind == RIPC__GROUP)
		ripc__header_stamp(buf, 0, 0);
	memset(p, other ? (int)other : 0x66, 16);
	take_bytes(&peer->in, p + 16, len);
	return (size_t)(p + 16 - buf) + len;
}

void peer_datagram(struct hostile_peer *peer)
{
	uint8_t buf[RIPC__HEADER_LEN + 16 + 255], addr[RIPC__ADDRESS_MAX], how = take(&peer->in);
	int addrlen = ripc__sim_address(peer->net, peer->victim->instance, addr);
	uint64_t id;
	size_t len;

	switch (how & 3) {
	case 0:
		len = full_datagram(peer, buf, how >> 2 & 1 ? 1 + (how >> 3) % PEER_OTHERS : 0);
		break;
	case 1:
	case 2:
		id = take(&peer->in);
		ripc__elided_datagram_put(buf, ripc__datagram_word(id), take(&peer->in));
		if (how & 2)
			buf[0] = RIPC__UNKNOWN_CONTEXT;
		len = how & 4 ? 0 : take(&peer->in);
		take_bytes(&peer->in, buf + RIPC__ELIDED_DATAGRAM_LEN, len);
		len += RIPC__ELIDED_DATAGRAM_LEN;
		break;
	default:
		len = take(&peer->in);
		take_bytes(&peer->in, buf, len);
		break;
	}
	OPS->post_datagram(peer->t, addr, (size_t)addrlen, &(struct iovec){buf, len}, 1);
}

void peer_request(struct hostile_peer *peer)
{
	uint8_t hello[RIPC__HELLO_LEN];

	if (peer->ep2)
		return;
	hello_to(peer, hello);
	/* The ids stay right. */
	take_bytes(&peer->in, hello, 8);
	take_bytes(&peer->in, hello + 40, 24);
	peer_connect(peer, &peer->ep2, hello);
	ripc__sim_run(peer->net, 100000);
	if (peer->ep2)
		OPS->ep_close(peer->ep2);
	peer->ep2 = NULL;
}

void peer_write(struct hostile_peer *peer)
{
	uint8_t which = take(&peer->in);

	if (peer->up)
		test_write(OPS, peer->ep, &peer->mr, peer->memory, 1u << (which & 15),
			   peer->events.addr + (which >> 6), peer->events.key, 1);
}

void peer_open(struct hostile_peer *peer, struct ripc__sim *net, struct ripc *victim)
{
	struct ripc__transport_env env = {.instance = peer->instance, .arg = net};

	peer->net = net;
	peer->victim = victim;
	memset(peer->instance, 0x66, 16);
	check(!ripc__sim_hostile(net, peer->instance));
	check(!OPS->open(&peer->t, &env));
	check(!ripc__sim_actor(net, peer_progress, peer));
	check(!OPS->reg(peer->t, NULL, peer->memory, PEER_MEMORY,
			RIPC__ACCESS_REMOTE_READ | RIPC__ACCESS_REMOTE_WRITE, &peer->mr));
}

void peer_close(struct hostile_peer *peer)
{
	ripc__sim_actor_remove(peer->net, peer_progress, peer);
	OPS->close(peer->t);
}

void peer_down(struct hostile_peer *peer)
{
	if (peer->ep)
		OPS->ep_close(peer->ep);
	peer->ep = NULL;
	peer->up = false;
}
