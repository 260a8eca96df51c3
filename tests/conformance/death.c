/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Death: a peer ends at any moment, with or without a sign of it. */
#include "conf.h"

#include "core/sim/world.h"
#include "transport/sim/sim.h"

struct victim {
	struct conf *c;
	struct ripc *ctx;
	bool silently, dead;
};

static void kill_victim(void *arg)
{
	struct victim *v = arg;

	conf_remove(v->c, v->ctx);
	ripc__sim_kill_context(v->c->net, v->ctx, v->silently);
	v->dead = true;
}

/*
 * Sends to b as long as it lives, while talking to d. b dies at the kth network event. Return:
 * whether it died.
 */
static bool death_at(struct conf *c, uint64_t k, bool silently)
{
	struct ripc_request *request[4];
	struct ripc_message *m;
	struct iovec item[4];
	struct conf_pair p, q;
	struct victim v = {c, NULL, silently, false};
	uint64_t before;
	int rc;

	conf_pair(c, &p);
	q = conf_pair_other(c, &p);
	v.ctx = p.b;
	/* Not before it can be found. */
	ripc__sim_at_event(c->net, k, kill_victim, &v);
	for (unsigned i = 0; i < 4; i++) {
		struct conf_plan plan = conf_plan_one(1 + conf_random(c, 30000), i);

		conf_build(c, p.a, CONF_UNREGISTERED, &plan, &item[i]);
		EXPECT_OK(ripc_send_async(p.sa, p.idb, &item[i], 1, NULL, &request[i]));
	}
	conf_exchange(c, &q);
	/* Every request ends in time, with a reason. */
	before = ripc__sim_now(c->net);
	for (unsigned i = 0; i < 4; i++) {
		rc = ripc_request_wait(&request[i], 5000);
		if (rc == -ETIMEDOUT) {
			/* The service is gone: the request retries until it is cancelled. */
			CHECK(v.dead, "request %u is stuck", i);
			rc = ripc_request_cancel(&request[i], c->patience_ms);
			CHECK(rc == -ECANCELED || rc == -EPIPE || rc == -EHOSTUNREACH, "%d: %s", rc,
			      ripc_error_detail());
		} else {
			CHECK(rc == 0 || (v.dead && (rc == -EPIPE || rc == -EHOSTUNREACH)),
			      "%d: %s", rc, ripc_error_detail());
			CHECK(rc == 0 || ripc_error_detail()[0], "no detail");
		}
		CHECK(!request[i], "request not gone");
		memset(item[i].iov_base, 0x5a, item[i].iov_len);
		free(item[i].iov_base);
	}
	CHECK(ripc__sim_now(c->net) - before < UINT64_C(30000000000), "it took too long");
	ripc__sim_at_event(c->net, 0, NULL, NULL);
	conf_exchange(c, &q);
	if (v.dead) {
		conf_send_short(c, p.sa, p.idb, 10, 1, 20000);
		/* Sending a datagram succeeds without a receiver. */
		if (!silently && !c->datagram)
			EXPECT_ERROR(-EHOSTUNREACH, conf_send_short(c, p.sa, p.idb, 10, 1, 20000));
		/* Its successor is another peer, and is found. */
		p.b = conf_open(c);
		p.sb = conf_register(c, p.b, p.idb);
		for (int i = 0; i < 100; i++) {
			rc = conf_send_long(c, p.sa, p.idb, 10, 77, 3000);
			if (!rc)
				break;
		}
		EXPECT_OK(rc);
		struct conf_plan plan = conf_plan_one(10, 77);
		m = conf_receive(c, p.sb);
		/* One of those sent to its predecessor may have waited for it. */
		while (m->items[0].iov_len != 10 || !m->is_long) {
			ripc_message_free(m);
			m = conf_receive(c, p.sb);
		}
		conf_check_message(m, &plan, p.ida, p.idb, true);
		ripc_message_free(m);
		while (!ripc_receive(p.sb, &m, 50))
			ripc_message_free(m);
		conf_exchange(c, &p);
	}
	conf_close_all(c);
	return v.dead;
}

static void peer_dies(struct conf *c)
{
	/* The seeds spread over all moments of the scenario. */
	for (int i = 0; i < 3; i++)
		death_at(c, 1 + conf_random(c, 200), conf_random(c, 3) == 0);
}

/* Every single moment. */
static void peer_dies_at_every_event(struct conf *c)
{
	uint64_t seed = c->rng;

	for (uint64_t k = 1; k < 2000; k++) {
		c->rng = seed;
		if (!death_at(c, k, false)) {
			CHECK(k > 20, "%llu events only", (unsigned long long)k);
			return;
		}
	}
}

/* The sender dies in the middle of a long message: its receiver gets it whole or not at all. */
static void sender_dies(struct conf *c)
{
	for (int round = 0; round < 3; round++) {
		struct victim v = {c, NULL, conf_random(c, 2), false};
		struct ripc_request *request[6];
		struct ripc_message *m;
		struct iovec item[6];
		struct conf_pair p, q;

		conf_pair(c, &p);
		q = p;
		q.a = conf_open(c);
		q.sa = conf_register(c, q.a, conf_id(c));
		q.ida = ripc_service_id(q.sa);
		v.ctx = p.a;
		for (unsigned i = 0; i < 6; i++) {
			struct conf_plan plan = conf_plan_one(20000, i);

			conf_build(c, p.a, CONF_UNREGISTERED, &plan, &item[i]);
			EXPECT_OK(ripc_send_async(p.sa, p.idb, &item[i], 1, NULL, &request[i]));
		}
		ripc__sim_at_event(c->net, 1 + conf_random(c, 120), kill_victim, &v);
		for (uint64_t i = 0; !v.dead || !ripc_receive(p.sb, &m, 3000);) {
			struct conf_plan plan = conf_plan_one(20000, i);

			if (!v.dead && ripc_receive(p.sb, &m, 10))
				continue;
			conf_check_message(m, &plan, p.ida, p.idb, true);
			ripc_message_free(m);
			if (++i == 6)
				break;
		}
		/* If everything was over before, it dies now. */
		ripc__sim_at_event(c->net, 0, NULL, NULL);
		if (!v.dead)
			kill_victim(&v);
		for (int i = 0; i < 6; i++)
			free(item[i].iov_base);
		conf_exchange(c, &q);
		/* The silent one is forgotten too, at the latest when its silence is noticed. */
		conf_close_all(c);
	}
}

const struct conf_case conf_death[] = {
	{"peer_dies", peer_dies, CONF_SIM | CONF_TWO_CONTEXTS},
	{"peer_dies_at_every_event", peer_dies_at_every_event,
	 CONF_SIM | CONF_TWO_CONTEXTS | CONF_ONCE},
	{"sender_dies", sender_dies, CONF_SIM | CONF_TWO_CONTEXTS},
	{0},
};
