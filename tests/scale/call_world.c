/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "call_host.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Longer than the longest peer_timeout_ms: a host that died in silence is given up then. */
#define CALM_SECONDS 700

struct call_world world;

/* ---- hosts ---- */

static void open_host(struct host *h)
{
	struct ripc__hooks hooks;
	/* Some give a lost peer up long after, or before, the peer gives them up. */
	const char *options =
		draw(2) ? "pool_bytes=1048576" : "pool_bytes=1048576 peer_timeout_ms=300000";
	int rc;

	ripc__sim_hooks(world.net, &hooks);
	hooks.idle = call_idle;
	rc = ripc__open_hooked(&h->ctx, options, &hooks);
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
	call_poll_soon(h);
	call_app_at(h, now_ns() + draw(2 * world.opt.think_ns));
}

static void hold_service(struct host *h, uint64_t service, unsigned flags)
{
	int rc;

	call_join_audience(h, service);
	call_app_enter(h);
	rc = ripc_service_register(h->ctx, service, flags, &h->served);
	call_app_leave(h);
	if (rc) {
		ck_assert_msg(rc == -EADDRINUSE, "ripc_service_register() returned %d: %s", rc,
			      ripc_error_detail());
		h->served = NULL;
		return;
	}
	h->service = service;
	call_poll_soon(h);
}

/* Its context has ended: its calls, and the requests that it has not answered, are gone. */
static void forget_work(struct host *h)
{
	for (unsigned i = 0; i < OPEN_MAX; i++) {
		if (!h->calls[i].request)
			continue;
		/* At the end of the run each call should have ended by itself. */
		if (!world.over) {
			call_log_event(HISTORY_KILLED, h->calls[i].number, h->life);
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
	call_app_enter(h);
	check(!ripc_close(ctx), "ripc_close()");
	call_app_leave(h);
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
	call_poll_soon(h);
	call_app_soon(h);
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
		call_app_enter(h);
		if (!ripc_service_unregister(h->served))
			h->served = NULL;
		call_app_leave(h);
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
		call_step(until_ns);
		if (!world.polls.n)
			call_apps_run();
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
	ripc__sim_on_arrival(world.net, call_arrived, NULL);
	ripc__sim_audience(world.net, call_audience_of, NULL);
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
