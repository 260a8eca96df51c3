/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "call_world.h"

#include "core/progress/context.h"
#include "core/sim/world.h"
#include "harness.h"
#include "transport/sim/net.h"
#include "wire/record.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SECOND (1000 * RIPC__MS)

#define OPEN_MAX   4  /* calls of one host at a time */
#define HELD_MAX   64 /* requests that one host has received and not answered */
#define LONG_BYTES 20000
#define WORDS      3       /* at the begin of each request and answer */
#define STILL_MAX  1000000 /* polls without progress of time */
/* Longer than the longest peer_timeout_ms: a host that died in silence is given up then. */
#define CALM_SECONDS 700

/* A call that has not ended. */
struct open_call {
	struct ripc_request *request; /* NULL: this place is free */
	uint64_t number;
	uint64_t cancel_ns; /* the caller withdraws it then */
	uint64_t *bytes;    /* of a long request, or NULL */
	bool paused;
};

/* A request that is received, and answered later. */
struct held_request {
	struct ripc_message *message;
	uint64_t number, due_ns;
	struct ripc_request *answer; /* a long answer that is being sent, */
	uint64_t *bytes;             /* and its memory */
};

struct host {
	unsigned index;
	struct ripc *ctx;            /* NULL: dead */
	struct ripc_service *caller; /* the service that calls */
	struct ripc_service *served; /* NULL: none */
	uint64_t service;            /* id of served; also that of a dead host's last one */
	uint64_t life;               /* of the context */
	uint64_t restart_ns;         /* when a dead host starts again */
	uint64_t resume_ns;          /* when a suspended host goes on; 0: it runs */
	uint64_t call_ns;            /* when it starts its next call */
	uint64_t receive_ns;         /* it does other work, and receives nothing until then */
	uint64_t poll_ns, app_ns;    /* earliest timer that is set, RIPC__NEVER: none */
	unsigned left;               /* calls to start */
	bool poll_queued, app_queued, busy;
	bool acted; /* its application has called the library, and not only asked */
	struct open_call calls[OPEN_MAX];
	struct held_request held[HELD_MAX];
	uint32_t node; /* of the network */
};

/* Hosts whose behaviour a broadcast about a service can change. */
struct audience {
	uint32_t *hosts, *nodes;
	unsigned n, cap;
};

struct queue {
	struct host **hosts;
	size_t n, cap;
};

static struct world {
	struct call_world_options opt;
	struct ripc__sim *net;
	struct ripc__sim_config config;
	struct history *history;
	struct call_world_counts *counts;
	struct host *hosts;
	struct host **by_node; /* of a node of the network */
	size_t nnodes;
	struct queue polls, apps;
	struct audience *audiences; /* by service */
	uint64_t rng, lives, calls;
	uint64_t fault_ns, split_ns, heal_ns; /* when the next one happens */
	unsigned depth;                       /* of applications that wait */
	struct host *busy[4];                 /* their hosts */
	unsigned nbusy;
	unsigned still;
	uint64_t still_ns;
	bool calm; /* no more calls and faults */
	bool over; /* the contexts are being closed */
} world;

/* ck_assert() writes to a pipe each time: too slow for each step. */
static void check(bool holds, const char *what)
{
	if (!holds)
		ck_abort_msg("%s at %llu ns", what, (unsigned long long)ripc__sim_now(world.net));
}

static uint64_t draw(uint64_t below)
{
	return below ? test_random(&world.rng) % below : 0;
}

static uint64_t now_ns(void)
{
	return ripc__sim_now(world.net);
}

/* ---- which contexts have work ---- */

static void push(struct queue *q, struct host *h)
{
	if (q->n == q->cap) {
		q->cap = q->cap ? 2 * q->cap : 256;
		q->hosts = realloc(q->hosts, q->cap * sizeof(struct host *));
		check(q->hosts, "no memory");
	}
	q->hosts[q->n++] = h;
}

static struct host *pop_any(struct queue *q)
{
	size_t i = draw(q->n);
	struct host *h = q->hosts[i];

	q->hosts[i] = q->hosts[--q->n];
	return h;
}

static void poll_soon(struct host *h)
{
	if (h->poll_queued || !h->ctx || h->resume_ns)
		return;
	h->poll_queued = true;
	push(&world.polls, h);
}

static void app_soon(struct host *h)
{
	if (h->app_queued)
		return;
	h->app_queued = true;
	push(&world.apps, h);
}

static void poll_due(struct ripc__sim *net, void *obj, uint64_t arg)
{
	struct host *h = obj;

	(void)net;
	if (h->poll_ns == arg)
		h->poll_ns = RIPC__NEVER;
	poll_soon(h);
}

static void app_due(struct ripc__sim *net, void *obj, uint64_t arg)
{
	struct host *h = obj;

	(void)net;
	if (h->app_ns == arg)
		h->app_ns = RIPC__NEVER;
	app_soon(h);
}

static void poll_at(struct host *h, uint64_t at_ns)
{
	if (at_ns >= h->poll_ns)
		return;
	h->poll_ns = at_ns;
	check(!ripc__sim_timer(world.net, at_ns, poll_due, h, at_ns), "no memory");
}

static void app_at(struct host *h, uint64_t at_ns)
{
	if (at_ns >= h->app_ns)
		return;
	h->app_ns = at_ns;
	check(!ripc__sim_timer(world.net, at_ns, app_due, h, at_ns), "no memory");
}

static struct host *host_of(uint32_t node)
{
	return node < world.nnodes ? world.by_node[node] : NULL;
}

static void arrived(void *arg, uint32_t node)
{
	struct host *h = host_of(node);

	(void)arg;
	if (h)
		poll_soon(h);
}

/* The host calls the service, or has it. */
static void join_audience(struct host *h, uint64_t service)
{
	struct audience *a = &world.audiences[service];

	for (unsigned i = 0; i < a->n; i++)
		if (a->hosts[i] == h->index)
			return;
	if (!a->hosts || a->n == a->cap) {
		a->cap = a->cap ? 2 * a->cap : 16;
		a->hosts = realloc(a->hosts, a->cap * sizeof(*a->hosts));
		a->nodes = realloc(a->nodes, a->cap * sizeof(*a->nodes));
		if (!a->hosts || !a->nodes)
			ck_abort_msg("no memory");
	}
	a->hosts[a->n++] = h->index;
}

/* Others would only note in passing who looks for which service. */
static size_t audience_of(void *arg, const void *data, size_t len, const uint32_t **nodes)
{
	struct ripc__resolver_msg msg;
	struct audience *a;
	uint64_t service;
	const char *why;
	size_t n = 0;

	(void)arg;
	check(!ripc__resolver_msg_decode(&msg, data, len, &why), "a malformed resolver message");
	service = msg.service ? msg.service : msg.record.service;
	if (service > world.opt.services)
		return 0;
	a = &world.audiences[service];
	for (unsigned i = 0; i < a->n; i++)
		if (world.hosts[a->hosts[i]].ctx)
			a->nodes[n++] = world.hosts[a->hosts[i]].node;
	*nodes = a->nodes;
	return n;
}

/* ---- time ---- */

static void still_check(void)
{
	if (now_ns() != world.still_ns) {
		world.still_ns = now_ns();
		world.still = 0;
	}
	check(++world.still < STILL_MAX, "the time stands still");
}

/* Polls one context that has work, or runs the next event of the network. */
static void step(uint64_t until_ns)
{
	still_check();
	while (world.polls.n) {
		struct host *h = pop_any(&world.polls);
		uint64_t next;

		h->poll_queued = false;
		if (!h->ctx || h->resume_ns)
			continue;
		world.counts->polls++;
		next = ripc__poll(h->ctx);
		app_soon(h);
		if (next <= now_ns())
			poll_soon(h);
		else if (next != RIPC__NEVER)
			poll_at(h, next);
		return;
	}
	ripc__sim_step(world.net, until_ns);
}

static void run_apps(void);

/* A public call of the library waits. */
static void idle(void *arg, uint64_t deadline_ns)
{
	(void)arg;
	/* Those that wait have to be polled, too: their deadlines may have changed. */
	for (unsigned i = 0; i < world.nbusy; i++)
		poll_soon(world.busy[i]);
	world.depth++;
	while (world.polls.n)
		step(deadline_ns);
	step(deadline_ns);
	if (world.depth == 1)
		run_apps();
	world.depth--;
}

/* ---- applications ---- */

/* The only thread of a host begins calls that may wait. */
static void enter(struct host *h)
{
	check(world.nbusy < 4, "too many applications wait");
	world.busy[world.nbusy++] = h;
	h->busy = true;
}

static void leave(struct host *h)
{
	check(world.busy[--world.nbusy] == h, "applications wait in turn");
	h->busy = false;
}

static void log_event(enum history_kind kind, uint64_t call, uint64_t life)
{
	struct history_event e = {.kind = kind, .call = call, .at_ns = now_ns(), .life = life};

	history_add(world.history, &e);
}

static void count_result(const struct history_event *e)
{
	struct call_world_counts *c = world.counts;

	c->withdrawn += e->withdrawn;
	if (e->has_reply && !e->result)
		c->answered++;
	else if (e->has_reply && e->result == -ECANCELED)
		c->unanswered++;
	else if (e->has_reply)
		c->refused++;
	c->unreachable += !e->has_reply && e->result == -EHOSTUNREACH;
	c->timed_out += !e->has_reply && e->result == -ETIMEDOUT;
	c->cancelled += !e->has_reply && e->result == -ECANCELED;
	c->etime += !e->has_reply && e->result == -ETIME;
	c->epipe += !e->has_reply && e->result == -EPIPE;
	c->shut_down += !e->has_reply && e->result == -ESHUTDOWN;
}

static void call_over(struct open_call *call)
{
	free(call->bytes);
	*call = (struct open_call){0};
}

/* One call, of 24 bytes or of LONG_BYTES, that takes 5 ms to 5 s. */
static void start_call(struct host *h, struct open_call *call)
{
	struct ripc_call_options o = {.size = sizeof(o)};
	struct history_event e = {.kind = HISTORY_STARTED, .at_ns = now_ns()};
	uint64_t words[WORDS] = {world.calls + 1, h->life, 0};
	struct iovec item = {words, sizeof(words)};
	uint64_t number = ++world.calls, service;
	int timeout_ms = (int)(5 << draw(11)), rc;

	/* A host calls its few services most of the time. */
	service =
		1 + (h->index * 2654435761u + draw(world.opt.known) * 40503u) % world.opt.services;
	join_audience(h, service);
	if (!draw(16)) {
		call->bytes = calloc(1, LONG_BYTES);
		ck_assert_ptr_nonnull(call->bytes);
		memcpy(call->bytes, words, sizeof(words));
		item = (struct iovec){call->bytes, LONG_BYTES};
	}
	if (!draw(world.opt.endless))
		timeout_ms = -1;
	if (!draw(8))
		o.flags = RIPC_IDEMPOTENT;
	call->cancel_ns = draw(world.opt.withdrawn) ? RIPC__NEVER : now_ns() + draw(SECOND);
	call->number = e.call = number;
	e.idempotent = o.flags & RIPC_IDEMPOTENT;
	e.deadline_ns = timeout_ms < 0 ? UINT64_MAX : now_ns() + (uint64_t)timeout_ms * RIPC__MS;
	history_add(world.history, &e);
	h->acted = true;
	world.counts->started++;
	world.counts->idempotent += e.idempotent;
	rc = ripc_call_start(h->caller, service, &item, 1, &o, timeout_ms, &call->request);
	ck_assert_msg(!rc, "ripc_call_start() returned %d: %s", rc, ripc_error_detail());
	if (call->cancel_ns != RIPC__NEVER)
		app_at(h, call->cancel_ns);
}

static void check_call(struct host *h, struct open_call *call)
{
	struct history_event e = {.kind = HISTORY_ENDED, .call = call->number};
	struct ripc_message *m = NULL;

	if (now_ns() >= call->cancel_ns) {
		e.withdrawn = true;
		e.result = ripc_request_cancel(&call->request, 10);
		/* It drops the answer. */
		if (!e.result)
			e.result = -ETIME;
	} else {
		e.result = ripc_call_wait(&call->request, &m, 0);
		if (e.result == -EINPROGRESS)
			return;
	}
	e.at_ns = now_ns();
	e.paused = call->paused;
	e.has_reply = m != NULL || (e.withdrawn && e.result == -EACCES);
	if (!e.result) {
		check(m && m->items[0].iov_len >= 16, "a strange answer");
		memcpy(&e.answered, m->items[0].iov_base, 8);
		memcpy(&e.life, (const uint8_t *)m->items[0].iov_base + 8, 8);
	}
	ripc_message_free(m);
	h->acted = true;
	history_add(world.history, &e);
	count_result(&e);
	call_over(call);
}

static void caller_run(struct host *h)
{
	for (unsigned i = 0; i < OPEN_MAX; i++)
		if (h->calls[i].request)
			check_call(h, &h->calls[i]);
	if (!h->left || world.calm || now_ns() < h->call_ns)
		return;
	for (unsigned i = 0; i < OPEN_MAX; i++) {
		if (h->calls[i].request)
			continue;
		start_call(h, &h->calls[i]);
		h->left--;
		break;
	}
	h->call_ns = now_ns() + draw(2 * world.opt.think_ns);
	if (h->left)
		app_at(h, h->call_ns);
}

static void held_over(struct held_request *r)
{
	ripc_message_free(r->message);
	free(r->bytes);
	*r = (struct held_request){0};
}

/* Answers, refuses or frees a request. */
static void answer(struct host *h, struct held_request *r)
{
	uint64_t words[WORDS] = {r->number, h->life, 0};
	struct iovec item = {words, sizeof(words)};
	int rc = 0;

	h->acted = true;
	switch (draw(16)) {
	case 0:
		break;
	case 1:
		rc = ripc_reply_error(r->message, EACCES);
		break;
	case 2:
		r->bytes = calloc(1, LONG_BYTES);
		ck_assert_ptr_nonnull(r->bytes);
		memcpy(r->bytes, words, sizeof(words));
		item = (struct iovec){r->bytes, LONG_BYTES};
		rc = ripc_reply_start(r->message, &item, 1, NULL, &r->answer);
		r->due_ns = RIPC__NEVER;
		if (!rc)
			return;
		break;
	default:
		rc = ripc_reply(r->message, &item, 1, 0);
		break;
	}
	ck_assert_msg(!rc || rc == -ECANCELED || rc == -EPIPE, "an answer returned %d: %s", rc,
		      ripc_error_detail());
	held_over(r);
}

/* Most are answered at once, some after the time of their callers. */
static uint64_t service_time(void)
{
	switch (draw(8)) {
	case 0:
		return draw(SECOND / 5);
	case 1:
		return draw(3 * SECOND);
	default:
		return 0;
	}
}

static void receive_all(struct host *h)
{
	struct ripc_message *m;
	uint64_t number;
	int rc;

	for (unsigned i = 0; i < HELD_MAX && h->served; i++) {
		struct held_request *r = &h->held[i];

		if (now_ns() < h->receive_ns) {
			app_at(h, h->receive_ns);
			return;
		}
		if (r->message)
			continue;
		rc = ripc_receive(h->served, &m, 0);
		if (rc) {
			if (rc == -ESHUTDOWN)
				h->served = NULL;
			else
				ck_assert_msg(rc == -EAGAIN, "ripc_receive() returned %d: %s", rc,
					      ripc_error_detail());
			return;
		}
		check(m->call && m->items[0].iov_len >= sizeof(number), "a strange request");
		memcpy(&number, m->items[0].iov_base, sizeof(number));
		log_event(HISTORY_EXECUTED, number, h->life);
		world.counts->executed++;
		h->acted = true;
		*r = (struct held_request){
			.message = m, .number = number, .due_ns = now_ns() + service_time()};
		if (!draw(32))
			h->receive_ns = now_ns() + draw(SECOND / 2);
	}
}

static void server_run(struct host *h)
{
	uint64_t next = RIPC__NEVER;

	receive_all(h);
	for (unsigned i = 0; i < HELD_MAX; i++) {
		struct held_request *r = &h->held[i];

		if (r->answer && ripc_request_test(&r->answer) != -EINPROGRESS) {
			held_over(r);
			h->acted = true;
		} else if (r->message && !r->answer && now_ns() >= r->due_ns) {
			answer(h, r);
		}
		if (r->message && r->due_ns < next)
			next = r->due_ns;
	}
	if (next != RIPC__NEVER)
		app_at(h, next);
}

/* One pass of each application that may have something to do. */
static void run_apps(void)
{
	size_t n = world.apps.n;

	/* An application that waits runs the others. */
	while (n-- && world.apps.n) {
		struct host *h = pop_any(&world.apps);

		h->app_queued = false;
		if (!h->ctx || h->resume_ns)
			continue;
		/* Its only thread waits in a call. */
		if (h->busy) {
			app_at(h, now_ns() + RIPC__MS);
			continue;
		}
		enter(h);
		h->acted = false;
		server_run(h);
		caller_run(h);
		leave(h);
		if (h->acted)
			poll_soon(h);
	}
}

/* ---- hosts ---- */

static uint64_t hook_now(void *arg)
{
	return ripc__sim_now(arg);
}

static uint64_t hook_random(void *arg)
{
	return ripc__sim_random(arg);
}

static void open_host(struct host *h)
{
	struct ripc__hooks hooks = {
		.now = hook_now, .idle = idle, .random = hook_random, .arg = world.net};
	/* Some give a lost peer up long after, or before, the peer gives them up. */
	const char *options =
		draw(2) ? "pool_bytes=1048576" : "pool_bytes=1048576 peer_timeout_ms=300000";
	int rc = ripc__open_hooked(&h->ctx, options, &hooks);

	ck_assert_msg(!rc, "ripc_open() returned %d: %s", rc, ripc_error_detail());
	ck_assert_int_eq(ripc__sim_attach(world.net, h->ctx), 0);
	h->node = (uint32_t)ripc__sim_number(world.net, h->ctx->instance);
	if (h->node >= world.nnodes) {
		size_t n = 2 * ((size_t)h->node + world.opt.hosts);

		world.by_node = realloc(world.by_node, n * sizeof(struct host *));
		ck_assert_ptr_nonnull(world.by_node);
		memset(world.by_node + world.nnodes, 0, (n - world.nnodes) * sizeof(struct host *));
		world.nnodes = n;
	}
	world.by_node[h->node] = h;
	h->life = ++world.lives;
	rc = ripc_service_register(h->ctx, RIPC_ANY_ID, 0, &h->caller);
	ck_assert_msg(!rc, "ripc_service_register() returned %d: %s", rc, ripc_error_detail());
	poll_soon(h);
	app_at(h, now_ns() + draw(2 * world.opt.think_ns));
}

static void hold_service(struct host *h, uint64_t service, unsigned flags)
{
	int rc;

	join_audience(h, service);
	enter(h);
	rc = ripc_service_register(h->ctx, service, flags, &h->served);
	leave(h);
	if (rc) {
		ck_assert_msg(rc == -EADDRINUSE, "ripc_service_register() returned %d: %s", rc,
			      ripc_error_detail());
		h->served = NULL;
		return;
	}
	h->service = service;
	poll_soon(h);
}

/* Its context has ended: its calls, and the requests that it has not answered, are gone. */
static void forget_work(struct host *h)
{
	for (unsigned i = 0; i < OPEN_MAX; i++) {
		if (!h->calls[i].request)
			continue;
		/* At the end of the run each call should have ended by itself. */
		if (!world.over) {
			log_event(HISTORY_KILLED, h->calls[i].number, h->life);
			world.counts->killed++;
		}
		call_over(&h->calls[i]);
	}
	for (unsigned i = 0; i < HELD_MAX; i++) {
		free(h->held[i].bytes);
		h->held[i] = (struct held_request){0};
	}
	world.by_node[h->node] = NULL;
	h->served = h->caller = NULL;
}

static void add_stats(const struct host *h)
{
	struct ripc_stats stats = {.size = sizeof(stats)};

	ck_assert_int_eq(ripc_context_stats(h->ctx, &stats), 0);
	world.counts->duplicates += stats.duplicates;
	world.counts->resent += stats.resent;
	world.counts->late_replies += stats.late_replies;
	world.counts->expired += stats.calls_expired;
}

static void kill_host(struct host *h, bool silently)
{
	struct ripc *ctx = h->ctx;

	add_stats(h);
	h->ctx = NULL;
	ripc__sim_kill_context(world.net, ctx, silently);
	forget_work(h);
}

/* As a program that ends: what it has received and not answered ends with -ECANCELED. */
static void close_host(struct host *h)
{
	struct ripc *ctx = h->ctx;

	add_stats(h);
	enter(h);
	check(!ripc_close(ctx), "ripc_close()");
	leave(h);
	h->ctx = NULL;
	ripc__sim_detach(world.net, ctx);
	forget_work(h);
}

static void restart_host(struct host *h)
{
	h->restart_ns = 0;
	world.counts->restarts++;
	open_host(h);
	if (h->service)
		hold_service(h, h->service, draw(2) ? RIPC_TAKEOVER : 0);
}

static void hold_host(struct host *h, uint64_t ns)
{
	h->resume_ns = now_ns() + ns;
	for (unsigned i = 0; i < OPEN_MAX; i++)
		h->calls[i].paused = true;
	ripc__sim_hold(world.net, h->ctx->instance, true);
	world.counts->pauses++;
}

static void resume_host(struct host *h)
{
	h->resume_ns = 0;
	ripc__sim_hold(world.net, h->ctx->instance, false);
	poll_soon(h);
	app_soon(h);
}

/* ---- faults ---- */

static void fault(void)
{
	struct host *h = &world.hosts[draw(world.opt.hosts)];

	if (!h->ctx || h->resume_ns)
		return;
	switch (draw(8)) {
	case 0:
	case 1:
	case 2:
		world.counts->deaths++;
		kill_host(h, draw(2));
		h->restart_ns = now_ns() + draw(3 * SECOND);
		break;
	case 3:
		world.counts->closings++;
		close_host(h);
		h->restart_ns = now_ns() + draw(SECOND);
		break;
	case 4:
	case 5:
		if (h->served)
			break;
		world.counts->takeovers++;
		hold_service(h, 1 + draw(world.opt.services), RIPC_TAKEOVER);
		break;
	case 6:
		if (!h->served)
			break;
		world.counts->moves++;
		enter(h);
		if (!ripc_service_unregister(h->served))
			h->served = NULL;
		leave(h);
		h = &world.hosts[draw(world.opt.hosts)];
		if (h->ctx && !h->resume_ns && !h->served)
			hold_service(h, 1 + draw(world.opt.services), 0);
		break;
	default:
		hold_host(h, draw(draw(4) ? SECOND : world.opt.hold_max_ns));
		break;
	}
}

static void partition(bool on)
{
	unsigned share = on ? 2 + (unsigned)draw(8) : 1;

	for (unsigned i = 0; i < world.opt.hosts; i++)
		if (world.hosts[i].ctx)
			ripc__sim_side(world.net, ripc__sim_instance(world.net, world.hosts[i].ctx),
				       on && !draw(share));
	world.counts->partitions += on;
}

static void run_faults(void)
{
	uint64_t now = now_ns();

	for (unsigned i = 0; i < world.opt.hosts; i++) {
		struct host *h = &world.hosts[i];

		if (h->restart_ns && now >= h->restart_ns)
			restart_host(h);
		if (h->resume_ns && now >= h->resume_ns)
			resume_host(h);
	}
	if (world.heal_ns && now >= world.heal_ns) {
		partition(false);
		world.heal_ns = 0;
	}
	if (world.calm)
		return;
	for (; world.opt.fault_ns && world.opt.hosts && world.fault_ns <= now;
	     world.fault_ns += 1 + draw(2 * world.opt.fault_ns / world.opt.hosts))
		fault();
	if (world.opt.split_ns && now >= world.split_ns) {
		partition(true);
		world.heal_ns = now + draw(world.opt.split_max_ns);
		world.split_ns = world.heal_ns + draw(2 * world.opt.split_ns);
	}
}

/* ---- the run ---- */

static bool calls_left(bool open_only)
{
	for (unsigned i = 0; i < world.opt.hosts; i++) {
		const struct host *h = &world.hosts[i];

		if (!open_only && h->left)
			return true;
		for (unsigned k = 0; k < OPEN_MAX; k++)
			if (h->calls[k].request)
				return true;
	}
	return false;
}

static void run_for(uint64_t ns)
{
	uint64_t until_ns = now_ns() + ns;

	while (now_ns() < until_ns) {
		step(until_ns);
		if (!world.polls.n)
			run_apps();
	}
}

static void on_stop(void *arg, const char *text)
{
	(void)arg;
	ck_abort_msg("%s", text);
}

static void world_open(const struct call_world_options *opt)
{
	ripc__sim_defaults(&world.config);
	world.config.delay_max_ns = RIPC__MS;
	world.config.give_up_ns = SECOND;
	world.net = ripc__sim_create(opt->seed, &world.config, on_stop, NULL);
	ck_assert_ptr_nonnull(world.net);
	ripc__sim_on_arrival(world.net, arrived, NULL);
	ripc__sim_audience(world.net, audience_of, NULL);
	world.hosts = calloc(opt->hosts, sizeof(*world.hosts));
	world.audiences = calloc(opt->services + 1, sizeof(*world.audiences));
	ck_assert(world.hosts && world.audiences);
	for (unsigned i = 0; i < opt->hosts; i++) {
		struct host *h = &world.hosts[i];

		h->index = i;
		h->left = opt->calls;
		h->poll_ns = h->app_ns = RIPC__NEVER;
	}
	/* The services are dealt out first, so that each is probed for in a small network. */
	for (unsigned i = 0; i < opt->services; i++) {
		open_host(&world.hosts[i]);
		hold_service(&world.hosts[i], i + 1, RIPC_TAKEOVER);
	}
	for (unsigned i = opt->services; i < opt->hosts; i++)
		open_host(&world.hosts[i]);
	world.config.datagram_loss = world.config.datagram_duplication =
		world.config.datagram_reordering = opt->datagram_fault;
	world.config.conn_break = opt->conn_break;
	world.config.connect_failure = opt->conn_break;
	world.config.hold = world.config.transient = opt->conn_break ? 0.1 : 0;
	ripc__sim_configure(world.net, &world.config);
	world.fault_ns = now_ns();
	world.split_ns = now_ns() + draw(2 * opt->split_ns + 1);
}

/* Each service that nobody holds gets a holder. */
static void ensure_holders(void)
{
	for (uint64_t service = 1; service <= world.opt.services; service++) {
		bool held = false;

		for (unsigned i = 0; i < world.opt.hosts && !held; i++)
			held = world.hosts[i].served && world.hosts[i].service == service;
		/* A host from which it was taken cannot have it again in the same life. */
		for (unsigned i = 0; i < world.opt.hosts && !held; i++) {
			if (world.hosts[i].served)
				continue;
			hold_service(&world.hosts[i], service, RIPC_TAKEOVER);
			held = world.hosts[i].served;
		}
	}
}

/* No fault any more, and a holder for each service: every call ends. */
static void world_calm(void)
{
	world.calm = true;
	world.config.datagram_loss = world.config.datagram_duplication =
		world.config.datagram_reordering = world.config.conn_break =
			world.config.connect_failure = 0;
	ripc__sim_configure(world.net, &world.config);
	partition(false);
	world.heal_ns = 0;
	for (unsigned i = 0; i < world.opt.hosts; i++) {
		struct host *h = &world.hosts[i];

		if (h->resume_ns)
			h->resume_ns = now_ns();
		if (!h->ctx)
			h->restart_ns = now_ns();
	}
	run_faults();
}

static void world_close(void)
{
	struct ripc__sim_counters counters;
	const char *text = NULL;

	world.over = true;
	for (unsigned i = 0; i < world.opt.hosts; i++)
		close_host(&world.hosts[i]);
	while (ripc__sim_step(world.net, RIPC__NEVER))
		;
	ripc__sim_counters(world.net, &counters);
	world.counts->breaks = counters.breaks;
	world.counts->datagrams_lost = counters.datagrams_lost;
	world.counts->datagrams_duplicated = counters.datagrams_duplicated;
	world.counts->virtual_ns = now_ns();
	ck_assert_uint_eq(counters.endpoints, 0);
	ck_assert_uint_eq(counters.regions, 0);
	ck_assert_uint_eq(counters.packets, 0);
	ck_assert_msg(!ripc__sim_violations(world.net, &text), "%s", text);
	ripc__sim_destroy(world.net);
	for (unsigned i = 0; i <= world.opt.services; i++) {
		free(world.audiences[i].hosts);
		free(world.audiences[i].nodes);
	}
	free(world.audiences);
	free(world.hosts);
	free(world.by_node);
	free(world.polls.hosts);
	free(world.apps.hosts);
}

struct call_world_options call_world_defaults(void)
{
	return (struct call_world_options){
		.hosts = 200,
		.services = 20,
		.calls = 50,
		.known = 4,
		.think_ns = SECOND / 5,
		.fault_ns = 10 * SECOND,
		.hold_max_ns = 40 * SECOND,
		.split_ns = 5 * SECOND,
		.split_max_ns = 4 * SECOND,
		.endless = 32,
		.withdrawn = 16,
		.conn_break = 0.01,
		.datagram_fault = 0.1,
	};
}

void call_world_run(const struct call_world_options *opt, struct history *history,
		    struct call_world_counts *counts)
{
	uint64_t end_ns;

	memset(&world, 0, sizeof(world));
	memset(counts, 0, sizeof(*counts));
	world.opt = *opt;
	world.rng = opt->seed;
	world.history = history;
	world.counts = counts;
	world_open(opt);
	/* A host without luck, always dead or suspended, does not make its calls. */
	end_ns = now_ns() + 4 * opt->calls * opt->think_ns + 100 * SECOND;
	while (calls_left(false) && now_ns() < end_ns) {
		run_faults();
		run_for(20 * RIPC__MS);
	}
	world_calm();
	for (unsigned i = 0; i < CALM_SECONDS && calls_left(true); i++) {
		/* A host may have lost a service, and not know it yet. */
		if (!(i % 50))
			ensure_holders();
		run_for(SECOND);
	}
	world_close();
}
