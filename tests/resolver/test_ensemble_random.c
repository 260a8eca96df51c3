/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Random calls of contexts whose only back end is zookeeper, while the ensemble loses connections
 * and ends sessions. When it is well again, one holder of each service is left, its node has its
 * record, and all contexts find it.
 */
#include "base/options.h"
#include "ensemble_model.h"
#include "resolver/zookeeper.h"
#include "use.h"

#include <sys/epoll.h>

#define NODES 6

static struct context {
	struct ripc__rcore *core;
	struct ripc__backend *b;
	struct ripc__ensemble *e;
	uint8_t instance[16];
	struct use uses[SERVICES + 1];
	int found[SERVICES + 1]; /* last event: 1 resolved, -1 unresolved or gone */
	uint8_t holder[SERVICES + 1][16];
} contexts[NODES];

static int epoll_fd;

static void send_datagram(void *arg, const struct ripc__backend_addr *to, uint64_t service,
			  const uint8_t *data, size_t len)
{
	struct context *c = arg;

	c->b->ops->send(c->b, to, service, data, len);
}

static bool settled(void *arg, uint64_t service)
{
	struct context *c = arg;

	return c->b->ops->settled(c->b, service);
}

static void start(struct context *c)
{
	static const struct ripc__options options;
	static const struct ripc__backend_addr registry;
	struct ripc__record_addr addr = {.transport = 9, .len = 16};
	struct ripc__rcore_env env = {.resolve_timeout_ms = 1000,
				      .negative_ms = 100,
				      .send = send_datagram,
				      .settled = settled,
				      .registry = &registry,
				      .addrs = &addr,
				      .naddrs = 1,
				      .arg = c};
	struct ripc__backend_env benv = {.opt = &options, .arg = "", .secret = ""};
	char why[200];

	memset(c, 0, sizeof(*c));
	for (unsigned i = 0; i < 16; i++)
		c->instance[i] = (uint8_t)(1 + draw(255));
	memcpy(addr.addr, c->instance, 16);
	memcpy(env.instance, c->instance, 16);
	env.secret = test_random(&rng);
	benv.instance = benv.host = c->instance;
	benv.epoll_fd = epoll_fd;
	c->b = calloc(1, ripc__backend_zookeeper.size);
	c->b->ops = &ripc__backend_zookeeper;
	ck_assert_int_eq(c->b->ops->open(c->b, &benv, why, sizeof(why)), 0);
	c->e = opened;
	ck_assert_int_eq(ripc__rcore_new(&c->core, &env), 0);
}

static void stop(struct context *c)
{
	c->b->ops->close(c->b);
	free(c->b);
	ripc__rcore_free(c->core);
}

static void take_events(struct context *c)
{
	struct ripc__resolver_event ev;

	while (ripc__rcore_event(c->core, &ev, now_ns)) {
		struct use *u = &c->uses[ev.service];

		if (ev.kind == RIPC__REGISTERED)
			ck_assert_uint_le(now_ns - u->since_ns, 1042 * RIPC__MS);
		if (ev.kind == RIPC__RIVAL)
			ck_assert_int_eq(u->held, HELD);
		if (ev.kind == RIPC__CONFLICT)
			c->b->ops->drop(c->b, ev.service);
		if (ev.kind == RIPC__RESOLVED)
			memcpy(c->holder[ev.service], ev.record.instance, 16);
		if (ev.kind == RIPC__RESOLVED || ev.kind == RIPC__UNRESOLVED ||
		    ev.kind == RIPC__GONE)
			c->found[ev.service] = ev.kind == RIPC__RESOLVED ? 1 : -1;
		use_event(u, ev.kind, (unsigned)(c - contexts), ev.service, now_ns);
	}
}

static void progress(struct context *c)
{
	struct ripc__backend_addr from = {0};
	uint8_t buf[RIPC__RESOLVER_MSG_MAX];
	const char *why;
	int n;

	while ((n = c->b->ops->recv(c->b, -1, &from, buf, sizeof(buf))) != -EAGAIN) {
		if (n == -ESTALE) {
			ripc__rcore_reannounce(c->core, now_ns);
			continue;
		}
		ck_assert_int_eq(ripc__rcore_input(c->core, &from, buf, (size_t)n, now_ns, &why),
				 0);
		from = (struct ripc__backend_addr){0};
	}
	if (now_ns >= ripc__rcore_deadline(c->core))
		ripc__rcore_advance(c->core, now_ns);
	take_events(c);
}

static void run(uint64_t ms)
{
	while (ms--) {
		now_ns += RIPC__MS;
		if (now_ns >= orphan.at_ns) {
			end_session(orphan.session);
			orphan.session = 0;
		}
		for (struct ripc__ensemble *e = ensembles; e; e = e->next)
			ensemble_run(e);
		for (unsigned i = 0; i < NODES; i++)
			progress(&contexts[i]);
	}
}

static void call(void)
{
	struct context *c = &contexts[draw(NODES)];
	uint64_t s = 1 + draw(SERVICES);
	struct use *u = &c->uses[s];
	static const enum ripc__register_how hows[] = {RIPC__REGISTER, RIPC__REGISTER,
						       RIPC__REGISTER_TAKE, RIPC__REGISTER_RANDOM};

	switch (draw(10)) {
	case 0:
	case 1:
		if (u->held != NOTHING)
			break;
		use_register(u, now_ns);
		ck_assert_int_eq(ripc__rcore_register(c->core, s, NULL, hows[draw(4)], now_ns), 0);
		take_events(c);
		break;
	case 2:
		if (u->held == NOTHING)
			break;
		ripc__rcore_unregister(c->core, s, now_ns);
		c->b->ops->drop(c->b, s);
		u->held = NOTHING;
		break;
	case 3:
		ripc__rcore_lookup_cancel(c->core, s);
		use_cancel(u);
		break;
	case 4:
		if (!draw(3)) {
			stop(c);
			start(c);
		}
		break;
	case 5:
	case 6:
		if (c->e->up)
			disconnect(c->e);
		else
			connect_up(c->e);
		break;
	default:
		if (u->asked_ns)
			break;
		use_lookup(u, false, now_ns);
		ck_assert_int_eq(ripc__rcore_lookup(c->core, s, now_ns), 0);
		take_events(c);
		break;
	}
}

static void check_random(void)
{
	bool held[SERVICES + 1] = {false};

	now_ns = 1000 * RIPC__MS;
	epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	memset(tree, 0, sizeof(tree));
	for (unsigned i = 0; i < NODES; i++)
		start(&contexts[i]);
	for (unsigned i = 0; i < 1000; i++) {
		call();
		run(draw(8) ? draw(30) : draw(1500));
	}
	for (unsigned i = 0; i < NODES; i++)
		if (!contexts[i].e->up)
			connect_up(contexts[i].e);
	run(1100);
	for (unsigned i = 0; i < NODES; i++)
		for (uint64_t s = 1; s <= SERVICES; s++)
			held[s] |= contexts[i].uses[s].held == HELD;
	run(60000);
	for (uint64_t s = 1; s <= SERVICES; s++) {
		struct context *holder = NULL;

		for (unsigned i = 0; i < NODES; i++) {
			ck_assert_int_ne(contexts[i].uses[s].held, PENDING);
			if (contexts[i].uses[s].held == NOTHING)
				continue;
			ck_assert_msg(!holder, "service %u has two holders", (unsigned)s);
			holder = &contexts[i];
		}
		ck_assert_msg(!held[s] || holder, "service %u has lost all holders", (unsigned)s);
		ck_assert_msg(tree[s].owner == (holder ? holder->e->session : 0),
			      "service %u: the node is of session %u, not %u", (unsigned)s,
			      (unsigned)tree[s].owner, holder ? (unsigned)holder->e->session : 0);
		for (unsigned i = 0; i < NODES; i++) {
			struct context *c = &contexts[i];

			ripc__rcore_lookup_cancel(c->core, s);
			use_cancel(&c->uses[s]);
			c->found[s] = 0;
			use_lookup(&c->uses[s], false, now_ns);
			ck_assert_int_eq(ripc__rcore_lookup(c->core, s, now_ns), 0);
			take_events(c);
		}
		run(1100);
		for (unsigned i = 0; i < NODES; i++) {
			struct context *c = &contexts[i];

			ck_assert_int_eq(c->found[s], holder ? 1 : -1);
			if (holder)
				ck_assert_mem_eq(c->holder[s], holder->instance, 16);
		}
	}
	for (unsigned i = 0; i < NODES; i++)
		stop(&contexts[i]);
	close(epoll_fd);
	now_ns = 0;
}

START_TEST(random__calls)
{
	rng = test_seed() + (uint64_t)_i;
	check_random();
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("resolver/ensemble_random");
	TCase *tc = tcase_create("random");

	test_seed();
	tcase_add_loop_test(tc, random__calls, 0, 3);
	tcase_set_timeout(tc, 120);
	suite_add_tcase(suite, tc);
	return test_main("resolver/ensemble_random", suite);
}
