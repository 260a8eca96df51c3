/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Random calls of contexts whose only back end is zookeeper, in virtual time, with a model of an
 * ensemble that loses connections and ends sessions. When the ensemble is well again, one holder of
 * each service is left, its node has its record, and all contexts find it.
 */
#include "base/clock.h"
#include "base/options.h"
#include "ensemble_wrap.h"
#include "harness.h"
#include "resolver/zookeeper.h"

#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#define NODES      6
#define SERVICES   5
#define SESSION_NS (2000 * RIPC__MS)

static uint64_t now_ns, rng;

static unsigned draw(unsigned n)
{
	return (unsigned)(test_random(&rng) % n);
}

int __real_clock_gettime(clockid_t id, struct timespec *ts);
int __wrap_clock_gettime(clockid_t id, struct timespec *ts);

int __wrap_clock_gettime(clockid_t id, struct timespec *ts)
{
	if (!now_ns)
		return __real_clock_gettime(id, ts);
	ts->tv_sec = (time_t)(now_ns / 1000000000);
	ts->tv_nsec = (long)(now_ns % 1000000000);
	return 0;
}

/* ---- ensemble ---- */

struct znode {
	uint64_t owner; /* its session; 0: there is none */
	int32_t version;
	size_t len, rival_len; /* rival_len 0: none */
	uint8_t bytes[RIPC__NODE_MAX], rival[RIPC__NODE_MAX];
};

static struct znode tree[SERVICES + 1];
static uint64_t next_session;

struct op {
	struct ripc__list link;
	uint64_t at_ns;
	enum ripc__ensemble_command command;
	uint64_t service;
	size_t len;
	int32_t version;
	uint8_t bytes[RIPC__NODE_MAX];
};

struct ripc__ensemble {
	struct ripc__ensemble *next;
	struct ripc__list ops, reports, releases;
	bool up, lost, watch[SERVICES + 1];
	uint64_t session, silent_ns; /* end of the session while it is not connected */
	int fd;
};

static struct ripc__ensemble *ensembles, *opened;
static struct {
	uint64_t session, at_ns;
} orphan;

static void report(struct ripc__ensemble *e, enum ripc__ensemble_kind kind, uint64_t service,
		   bool ours, int32_t version, const void *bytes, size_t len)
{
	struct ripc__ensemble_report *r = calloc(1, sizeof(*r) + len + 1);

	ck_assert_ptr_nonnull(r);
	/* No memory. */
	if (kind != RIPC__ENS_UP && kind != RIPC__ENS_LOST && !draw(50)) {
		free(r);
		e->lost = true;
		return;
	}
	r->kind = kind;
	r->service = service;
	r->ours = ours;
	r->version = version;
	r->len = len;
	if (len)
		memcpy(r->bytes, bytes, len);
	ripc__list_add(&e->reports, &r->link);
}

static void changed(uint64_t service)
{
	for (struct ripc__ensemble *e = ensembles; e; e = e->next) {
		if (!e->watch[service])
			continue;
		e->watch[service] = false;
		report(e, RIPC__ENS_CHANGED, service, false, 0, NULL, 0);
	}
}

static void watch(struct ripc__ensemble *e, uint64_t service)
{
	struct znode *n = &tree[service];
	bool ours = n->owner == e->session;

	e->watch[service] = true;
	if (!n->owner) {
		report(e, RIPC__ENS_NONE, service, false, 0, NULL, 0);
		return;
	}
	report(e, RIPC__ENS_FOUND, service, ours, n->version, n->bytes, n->len);
	if (ours && n->version > 0 && n->rival_len) {
		report(e, RIPC__ENS_RIVAL, service, false, 0, n->rival, n->rival_len);
		n->rival_len = 0;
	}
}

static void claim(struct ripc__ensemble *e, const struct op *op)
{
	struct znode *n = &tree[op->service];
	bool ours = n->owner == e->session;

	if (n->owner && !ours && op->command == RIPC__CALL_CLAIM) {
		report(e, RIPC__ENS_TAKEN, op->service, false, n->version, n->bytes, n->len);
		return;
	}
	if (!ours || n->len != op->len || memcmp(n->bytes, op->bytes, op->len)) {
		n->owner = e->session;
		n->version = 0;
		n->len = op->len;
		memcpy(n->bytes, op->bytes, op->len);
		changed(op->service);
	}
	report(e, RIPC__ENS_CLAIMED, op->service, false, 0, NULL, 0);
	watch(e, op->service);
}

static void execute(struct ripc__ensemble *e, const struct op *op)
{
	struct znode *n = &tree[op->service];

	switch (op->command) {
	case RIPC__CALL_CLAIM:
	case RIPC__CALL_CLAIM_FORCE:
		claim(e, op);
		break;
	case RIPC__CALL_RELEASE:
		if (n->owner != e->session)
			break;
		n->owner = 0;
		changed(op->service);
		break;
	case RIPC__CALL_WATCH:
		watch(e, op->service);
		break;
	case RIPC__CALL_REPORT_RIVAL:
		if (!n->owner || n->version != op->version)
			break;
		n->rival_len = op->len;
		memcpy(n->rival, op->bytes, op->len);
		n->version++;
		changed(op->service);
		break;
	case RIPC__CALL_LIST:
		break;
	}
}

static void end_session(uint64_t session)
{
	for (uint64_t s = 1; s <= SERVICES; s++) {
		if (!session || tree[s].owner != session)
			continue;
		tree[s].owner = 0;
		changed(s);
	}
}

static void connect_up(struct ripc__ensemble *e)
{
	bool fresh = !e->session;

	if (fresh) {
		e->session = ++next_session;
		ripc__list_free(&e->releases, struct op, link);
	}
	while (!ripc__list_empty(&e->releases)) {
		struct ripc__list *l = ripc__list_take(&e->releases);

		ripc__list_entry(l, struct op, link)->at_ns = now_ns + draw(20) * RIPC__MS;
		ripc__list_add(&e->ops, l);
	}
	e->up = true;
	report(e, RIPC__ENS_UP, e->session, false, 0, "", fresh);
}

static void disconnect(struct ripc__ensemble *e)
{
	struct ripc__list *l;

	/* Some were executed, but the answer is lost. */
	while ((l = ripc__list_take(&e->ops))) {
		struct op *op = ripc__list_entry(l, struct op, link);

		if (draw(2)) {
			struct ripc__list *last = e->reports.prev, *next;

			execute(e, op);
			for (struct ripc__list *r = last->next; r != &e->reports; r = next) {
				next = r->next;
				ripc__list_del(r);
				free(ripc__list_entry(r, struct ripc__ensemble_report, link));
			}
		}
		if (op->command == RIPC__CALL_RELEASE)
			ripc__list_add(&e->releases, l);
		else
			free(op);
	}
	memset(e->watch, 0, sizeof(e->watch));
	e->up = false;
	e->silent_ns = now_ns;
	report(e, RIPC__ENS_LOST, 0, false, 0, "", 1);
}

static void ensemble_run(struct ripc__ensemble *e)
{
	struct op *op;

	if (!e->up && e->session && now_ns - e->silent_ns > SESSION_NS)
		end_session(e->session), e->session = 0;
	while (e->up && (op = ripc__list_first_entry(&e->ops, struct op, link)) &&
	       op->at_ns <= now_ns) {
		ripc__list_del(&op->link);
		execute(e, op);
		free(op);
	}
}

int __wrap_ripc__ensemble_open(struct ripc__ensemble **e, const struct ripc__ensemble_env *env,
			       char *why, size_t whylen)
{
	(void)env, (void)why, (void)whylen;
	*e = opened = calloc(1, sizeof(**e));
	ck_assert_ptr_nonnull(*e);
	ripc__list_init(&opened->ops);
	ripc__list_init(&opened->reports);
	ripc__list_init(&opened->releases);
	opened->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	opened->next = ensembles;
	ensembles = opened;
	return 0;
}

void __wrap_ripc__ensemble_close(struct ripc__ensemble *e)
{
	struct ripc__ensemble **at = &ensembles;

	while (*at != e)
		at = &(*at)->next;
	*at = e->next;
	/* The session of a killed process ends later. */
	if (e->session && draw(2)) {
		end_session(orphan.session);
		orphan.session = e->session;
		orphan.at_ns = now_ns + SESSION_NS;
	} else {
		end_session(e->session);
	}
	ripc__list_free(&e->ops, struct op, link);
	ripc__list_free(&e->releases, struct op, link);
	ripc__list_free(&e->reports, struct ripc__ensemble_report, link);
	close(e->fd);
	free(e);
}

int __wrap_ripc__ensemble_fd(const struct ripc__ensemble *e)
{
	return e->fd;
}

void __wrap_ripc__ensemble_wake(struct ripc__ensemble *e)
{
	(void)e;
}

int __wrap_ripc__ensemble_submit(struct ripc__ensemble *e, enum ripc__ensemble_command command,
				 uint64_t service, const uint8_t *bytes, size_t len,
				 const struct ripc__ensemble_report *found)
{
	struct op *op = calloc(1, sizeof(*op));

	ck_assert_ptr_nonnull(op);
	op->at_ns = now_ns + draw(20) * RIPC__MS;
	op->command = command;
	op->service = service;
	op->len = len;
	if (len)
		memcpy(op->bytes, bytes, len);
	op->version = found ? found->version : 0;
	/* Without a connection releases are repeated, others by the user. */
	if (e->up)
		ripc__list_add(&e->ops, &op->link);
	else if (command == RIPC__CALL_RELEASE)
		ripc__list_add(&e->releases, &op->link);
	else
		free(op);
	return 0;
}

struct ripc__ensemble_report *__wrap_ripc__ensemble_next(struct ripc__ensemble *e, bool *lost)
{
	struct ripc__list *l = ripc__list_take(&e->reports);

	*lost = !l && e->lost;
	e->lost &= !*lost;
	return l ? ripc__list_entry(l, struct ripc__ensemble_report, link) : NULL;
}

/* ---- contexts ---- */

enum held { NOTHING, PENDING, HELD };

static struct context {
	struct ripc__rcore *core;
	struct ripc__backend *b;
	struct ripc__ensemble *e;
	uint8_t instance[16];
	enum held held[SERVICES + 1];
	uint64_t since_ns[SERVICES + 1], asked_ns[SERVICES + 1];
	int found[SERVICES + 1]; /* last event: 1 resolved, -1 unresolved or gone */
	uint8_t holder[SERVICES + 1][16];
} contexts[NODES];

static int epoll_fd;

static void send_datagram(void *arg, const struct ripc__mcast_sender *to, uint64_t service,
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
	static const struct ripc__mcast_sender registry;
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
		enum held *held = &c->held[ev.service];

		switch (ev.kind) {
		case RIPC__RESOLVED:
			c->found[ev.service] = 1;
			c->asked_ns[ev.service] = 0;
			memcpy(c->holder[ev.service], ev.record.instance, 16);
			break;
		case RIPC__UNRESOLVED:
			ck_assert(c->asked_ns[ev.service]);
			c->asked_ns[ev.service] = 0;
			c->found[ev.service] = -1;
			break;
		case RIPC__GONE:
			c->found[ev.service] = -1;
			break;
		case RIPC__REGISTERED:
			ck_assert_int_eq(*held, PENDING);
			ck_assert_uint_le(now_ns - c->since_ns[ev.service], 1042 * RIPC__MS);
			*held = HELD;
			break;
		case RIPC__CONFLICT:
			ck_assert_int_ne(*held, NOTHING);
			*held = NOTHING;
			c->b->ops->drop(c->b, ev.service);
			break;
		case RIPC__RIVAL:
			ck_assert_int_eq(*held, HELD);
			break;
		}
	}
}

static void progress(struct context *c)
{
	struct ripc__mcast_sender from = {0};
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
		from = (struct ripc__mcast_sender){0};
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
	static const enum ripc__register_how hows[] = {RIPC__REGISTER, RIPC__REGISTER,
						       RIPC__REGISTER_TAKE, RIPC__REGISTER_RANDOM};

	switch (draw(10)) {
	case 0:
	case 1:
		if (c->held[s] != NOTHING)
			break;
		c->held[s] = PENDING;
		c->since_ns[s] = now_ns;
		ck_assert_int_eq(ripc__rcore_register(c->core, s, NULL, hows[draw(4)], now_ns), 0);
		take_events(c);
		break;
	case 2:
		if (c->held[s] == NOTHING)
			break;
		ripc__rcore_unregister(c->core, s, now_ns);
		c->b->ops->drop(c->b, s);
		c->held[s] = NOTHING;
		break;
	case 3:
		ripc__rcore_lookup_cancel(c->core, s);
		c->asked_ns[s] = 0;
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
		if (c->asked_ns[s])
			break;
		c->asked_ns[s] = now_ns;
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
			held[s] |= contexts[i].held[s] == HELD;
	run(60000);
	for (uint64_t s = 1; s <= SERVICES; s++) {
		struct context *holder = NULL;

		for (unsigned i = 0; i < NODES; i++) {
			ck_assert_int_ne(contexts[i].held[s], PENDING);
			if (contexts[i].held[s] == NOTHING)
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
			c->found[s] = 0;
			c->asked_ns[s] = now_ns;
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
