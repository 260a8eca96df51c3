/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A host of the world of call_world.h, and what its parts share: call_schedule.c, call_app.c and
 * call_world.c (hosts, faults, the run).
 */
#ifndef RIPC_TESTS_SCALE_CALL_HOST_H
#define RIPC_TESTS_SCALE_CALL_HOST_H

#include "call_world.h"
#include "core/progress/context.h"
#include "core/sim/world.h"
#include "harness.h"
#include "transport/sim/net.h"

#define SECOND (1000 * RIPC__MS)

#define OPEN_MAX 4  /* calls of one host at a time */
#define HELD_MAX 64 /* requests that one host has received and not answered */

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

extern struct call_world {
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
static inline void check(bool holds, const char *what)
{
	if (!holds)
		ck_abort_msg("%s at %llu ns", what, (unsigned long long)ripc__sim_now(world.net));
}

static inline uint64_t draw(uint64_t below)
{
	return below ? test_random(&world.rng) % below : 0;
}

static inline uint64_t now_ns(void)
{
	return ripc__sim_now(world.net);
}

/* ---- call_schedule.c ---- */

/* Polls the context of a host in this step; runs its application after it, or at a time. */
void call_poll_soon(struct host *h);
void call_app_soon(struct host *h);
void call_app_at(struct host *h, uint64_t at_ns);
struct host *call_pop_any(struct queue *q);
/* The host calls the service, or has it. */
void call_join_audience(struct host *h, uint64_t service);
/* Polls one context that has work, or runs the next event of the network. */
void call_step(uint64_t until_ns);
/* Hooks of the network and of contexts. */
void call_arrived(void *arg, uint32_t node);
size_t call_audience_of(void *arg, const void *data, size_t len, const uint32_t **nodes);
void call_idle(void *arg, uint64_t deadline_ns);

/* ---- call_app.c ---- */

/* The only thread of a host begins calls that may wait. */
void call_app_enter(struct host *h);
void call_app_leave(struct host *h);
void call_log_event(enum history_kind kind, uint64_t call, uint64_t life);
/* Frees a call that has ended. */
void call_over(struct open_call *call);
/* One pass of each application that may have something to do. */
void call_apps_run(void);

#endif
