/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Bytes that nobody honest sends reach a context while it talks to others: these do not notice, and
 * it is counted.
 */
#include "conf.h"

#include "base/clock.h"
#include "core/sim/world.h"
#include "transport/sim/sim.h"
#include "transport/transport.h"

#define OPS (&ripc__transport_sim)

/* A peer that uses the transport, but violates the protocol. */
struct attacker {
	struct conf *c;
	struct ripc__transport *t;
	struct ripc__ep *ep[8];
	bool up[8];
	uint8_t instance[16];
};

static void random_bytes(struct conf *c, uint8_t *data, size_t len)
{
	for (size_t i = 0; i < len; i++)
		data[i] = (uint8_t)conf_random(c, 256);
}

static void attacker_open(struct attacker *at, struct conf *c)
{
	struct ripc__transport_env env = {.instance = at->instance, .arg = c->net};

	memset(at, 0, sizeof(*at));
	at->c = c;
	random_bytes(c, at->instance, 16);
	EXPECT_OK(ripc__sim_hostile(c->net, at->instance));
	EXPECT_OK(OPS->open(&at->t, &env));
}

static void attacker_progress(void *arg)
{
	struct attacker *at = arg;
	struct ripc__event ev[8];
	uint64_t deadline = RIPC__NEVER;
	unsigned n;

	while ((n = OPS->progress(at->t, ev, 8, ripc__sim_now(at->c->net), &deadline)))
		for (unsigned i = 0; i < n; i++) {
			unsigned k;

			for (k = 0; k < 8 && at->ep[k] != ev[i].ep; k++)
				;
			if (ev[i].kind == RIPC__EV_REQUEST)
				OPS->reject(at->t, ev[i].request, NULL, 0);
			if (k < 8 && ev[i].ep && ev[i].kind == RIPC__EV_ESTABLISHED)
				at->up[k] = true;
			if (ev[i].token)
				OPS->release(at->t, ev[i].token);
			if (k < 8 && ev[i].ep && ev[i].kind == RIPC__EV_CLOSED) {
				OPS->ep_close(at->ep[k]);
				at->ep[k] = NULL;
				at->up[k] = false;
			}
		}
}

static void attack(struct attacker *at, struct ripc *target)
{
	struct conf *c = at->c;
	uint8_t addr[RIPC__ADDRESS_MAX], data[1024];
	int addrlen = ripc__sim_address(c->net, ripc__sim_instance(c->net, target), addr);
	struct ripc__transport_limits limits;
	unsigned k = (unsigned)conf_random(c, 8);
	struct iovec iov = {data, (size_t)conf_random(c, sizeof(data) + 1)};

	random_bytes(c, data, sizeof(data));
	OPS->limits(at->t, &limits);
	if (limits.caps & RIPC__CAP_DATAGRAM)
		OPS->post_datagram(at->t, addr, (size_t)addrlen, &iov, 1);
	if (!at->ep[k])
		OPS->connect(at->t, addr, (size_t)addrlen, data,
			     (size_t)conf_random(c, RIPC__PRIVATE_MAX + 1), NULL, &at->ep[k]);
	else if (at->up[k])
		OPS->post(at->ep[k], NULL, 0, &iov, 1, false);
}

static void attacker_close(struct attacker *at)
{
	ripc__sim_actor_remove(at->c->net, attacker_progress, at);
	OPS->close(at->t);
}

/* How much of what came was refused. */
static uint64_t refused(struct ripc *ctx)
{
	struct ripc_stats stats = {.size = sizeof(stats)};

	EXPECT_OK(ripc_context_stats(ctx, &stats));
	return stats.bad_messages + stats.bad_peers + stats.dropped_no_service;
}

static void unauthenticated_peers(struct conf *c)
{
	struct attacker at;
	struct conf_pair p;

	conf_pair(c, &p);
	attacker_open(&at, c);
	EXPECT_OK(ripc__sim_actor(c->net, attacker_progress, &at));
	for (int i = 0; i < 30; i++) {
		for (int k = 0; k < 10; k++) {
			attack(&at, k & 1 ? p.a : p.b);
			ripc__sim_run(c->net, 20000);
		}
		if (i % 10 == 0)
			conf_exchange(c, &p);
	}
	CHECK(refused(p.a) > 0 && refused(p.b) > 0, "nothing was counted");
	attacker_close(&at);
	conf_exchange(c, &p);
}

/* ---- Valid messages of a peer, changed on their way ---- */

struct mutation {
	struct conf *c;
	const uint8_t *bad_peer;
	unsigned rate; /* one message in so many */
	unsigned changed;
};

static void mutate(void *u, const uint8_t from[16], const uint8_t to[16], uint8_t *bytes, size_t *n)
{
	struct mutation *mu = u;

	if (memcmp(from, mu->bad_peer, 16) || !*n || conf_random(mu->c, mu->rate))
		return;
	mu->changed++;
	switch (conf_random(mu->c, 4)) {
	case 0:
		*n = (size_t)conf_random(mu->c, *n + 1);
		break;
	case 1:
		for (uint64_t k = 1 + conf_random(mu->c, 8); k--;)
			bytes[conf_random(mu->c, *n)] = (uint8_t)conf_random(mu->c, 256);
		break;
	case 2: /* numbers at the border */
		bytes[conf_random(mu->c, *n < 96 ? *n : 96)] = conf_random(mu->c, 2) ? 0xff : 0;
		break;
	default:
		bytes[conf_random(mu->c, *n < 96 ? *n : 96)] ^=
			(uint8_t)(1u << conf_random(mu->c, 8));
		break;
	}
}

static void bad_peer(struct conf *c)
{
	struct mutation mu = {.c = c, .rate = 3};
	struct ripc_service *s[2];
	struct ripc *evil;
	struct conf_pair p;
	uint8_t instance[16];
	uint64_t id, dest[2];
	uint8_t data[3000] = {0}, *ret;

	conf_pair(c, &p);
	evil = conf_open(c);
	id = conf_id(c);
	s[0] = conf_register(c, evil, id);
	dest[0] = conf_id(c);
	dest[1] = conf_id(c);
	/*
	 * The attacker has services of its own as victims: it must not damage the traffic of
	 * others.
	 */
	struct ripc_service *victim[2] = {conf_register(c, p.a, dest[0]),
					  conf_register(c, p.b, dest[1])};

	memcpy(instance, ripc__sim_instance(c->net, evil), 16);
	mu.bad_peer = instance;
	EXPECT_OK(ripc__sim_hostile(c->net, instance));
	ret = ripc_buf_alloc(evil, 4096);
	CHECK(ret, "%s", ripc_error_detail());
	conf_exchange(c, &p);
	ripc__sim_tamper(c->net, mutate, &mu);
	for (int i = 0; i < 60; i++) {
		struct iovec item = {data, (size_t)conf_random(c, 500)}, back = {ret, 4096};
		struct ripc_send_options options = {
			.size = sizeof(options), .nreturn_buffers = i % 2, .return_buffers = &back};
		struct ripc_request *request;
		struct ripc_message *m;
		unsigned k = (unsigned)conf_random(c, 2);

		ripc_send_short(s[0], dest[k], &item, 1, NULL, 50);
		item.iov_len = (size_t)conf_random(c, sizeof(data));
		ripc_send_long(s[0], dest[k], &item, 1, &options, 50);
		/* Messages to the attacker may fail, but must end. */
		item.iov_len = (size_t)conf_random(c, sizeof(data));
		EXPECT_OK(ripc_send_async(p.sa, id, &item, 1, NULL, &request));
		while (!ripc_receive(victim[k], &m, 0) || !ripc_receive(s[0], &m, 0))
			ripc_message_free(m);
		if (ripc_request_wait(&request, 50) == -ETIMEDOUT)
			ripc_request_cancel(&request, 50);
		if (i % 10 == 0)
			conf_exchange(c, &p);
	}
	ripc__sim_tamper(c->net, NULL, NULL);
	CHECK(mu.changed > 10, "%u", mu.changed);
	CHECK(refused(p.a) + refused(p.b) > 0, "nothing was counted");
	conf_exchange(c, &p);
	/* The attacker's remains are gone with it. */
	conf_close(c, evil);
	conf_run(c, 3000);
	for (int k = 0; k < 2; k++) {
		struct ripc_message *m;

		while (!ripc_receive(victim[k], &m, 0))
			ripc_message_free(m);
	}
	conf_exchange(c, &p);
}

/* Bytes in the middle of a good connection. */
static void injected(struct conf *c)
{
	struct ripc_stats stats = {.size = sizeof(stats)};
	struct conf_pair p, q;

	conf_pair(c, &p);
	q = conf_pair_other(c, &p);
	for (int i = 0; i < 20; i++) {
		uint8_t data[600];
		size_t len = (size_t)conf_random(c, sizeof(data) + 1);

		conf_exchange(c, &q);
		if (ripc_route_lookup(p.a, p.idb, NULL, c->patience_ms))
			continue;
		random_bytes(c, data, sizeof(data));
		EXPECT_OK(ripc__sim_hostile(c->net, ripc__sim_instance(c->net, p.a)));
		ripc__sim_inject(c->net, ripc__sim_instance(c->net, p.a),
				 ripc__sim_instance(c->net, p.b), data, len);
		conf_run(c, 10);
	}
	EXPECT_OK(ripc_context_stats(p.b, &stats));
	CHECK(stats.bad_messages + stats.bad_peers > 0, "nothing was counted");
	conf_exchange(c, &q);
	conf_exchange(c, &p);
}

const struct conf_case conf_hostile[] = {
	{"unauthenticated_peers", unauthenticated_peers, CONF_SIM | CONF_TWO_CONTEXTS},
	{"liar", bad_peer, CONF_SIM | CONF_TWO_CONTEXTS},
	{"injected", injected, CONF_SIM | CONF_TWO_CONTEXTS},
	{0},
};
