/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The context: everything one instance of the library owns, under one lock.
 *
 * Order of locks: ctx->lock, then that of devices which contexts share (adopted_lock in transport/rdma/device.c) or none, then the
 * log's own (core/log.c). The list of all contexts has a lock of its
 * own (contexts_lock in context.c), taken before any ctx->lock and never while one is held.
 */
#ifndef RIPC_CORE_CONTEXT_CONTEXT_H
#define RIPC_CORE_CONTEXT_CONTEXT_H

#include "auth/key.h"
#include "core/memory/buffer.h"
#include "base/clock.h"
#include "core/rendezvous/delayed_ack.h"
#include "core/progress/handle.h"
#include "core/progress/hooks.h"
#include "base/list.h"
#include "core/progress/lock.h"
#include "base/log.h"
#include "base/options.h"
#include "core/message/fast_path.h"
#include "core/progress/wait.h"
#include "resolver/resolver.h"
#include "transport/transport.h"
#include "wire/header.h"

#include <errno.h>
#include <semaphore.h>
#include <stdatomic.h>

/* What the context's epoll set watches (epoll data). */
enum { RIPC__EPOLL_TRANSPORT, RIPC__EPOLL_RESOLVER, RIPC__EPOLL_WAKE };

#define RIPC__REQUEST_SIZES 7  /* requests have room for 1, 2, 4 .. RIPC_ITEMS_MAX items */
#define RIPC__CREDIT_UNIT   64 /* bytes that one unit of a service's window stands for */

/* One transport of the context, open or not. */
struct ripc__tp {
	const struct ripc__transport_ops *ops;
	struct ripc__transport *t; /* NULL: not open, see why */
	struct ripc__transport_limits limits;
	unsigned nlanes; /* lanes over it that have an endpoint */
	char why[256];   /* the reason, if it is not open */
};

struct ripc {
	/* These two are all that is read before the lock is held: handle.h. */
	struct ripc__lock lock;
	unsigned owner; /* ripc__fork_generation that opened it, else we are a child; 0: it has ended */
	struct ripc__options opt;
	struct ripc__hooks hooks; /* hooks.now == NULL: real time and an agent */
	uint8_t instance[16];
	uint8_t host[16];
	uint64_t host_bytes; /* memory this host has in all */
	bool closing;
	bool is_default;   /* the process's default context */
	struct ripc *next; /* in the list of all contexts */

	struct ripc__tp tp[RIPC__TP_MAX];
	unsigned ntp;
	bool datagrams;      /* an open transport carries short messages by datagram */
	unsigned active_tps; /* bit i: tp[i] has lanes, or carries datagrams */
	struct ripc__resolver *resolver;
	struct ripc__auth *auth; /* the cluster's keys, or NULL */

	struct ripc_service *services; /* uthash by id */
	struct ripc__peer *peers;      /* uthash by instance */
	struct ripc__peer *last_peer;  /* the last that was looked for; NULL: none */
	struct ripc__dest *dests;      /* uthash by service id */
	struct ripc__group *groups;    /* uthash by id: those we are in or send to */
	struct ripc__dest *last_dest;  /* the one looked up last, or NULL */
	struct ripc__list lanes;       /* all lanes, in any state */
	struct ripc__list dead_lanes;  /* closed, to be freed when the round of progress is over */
	struct ripc__list messages;    /* received messages the application holds */
	struct ripc__list requests;    /* all requests the application holds */
	struct ripc__handle_blocks request_blocks;              /* their memory, */
	struct ripc_request *request_free[RIPC__REQUEST_SIZES]; /* and what is free of it */
	struct ripc__message *message_cache; /* free message structs, singly linked */
	unsigned message_cached;
	struct ripc__fast_path fast_path;     /* the ways of the last plain messages */
	struct ripc__delayed_ack delayed_ack; /* the ACK that is due */
	struct ripc__memory memory;           /* buffers, windows, return buffers */

	uint64_t next_number;      /* no number was given out from here on: ripc__seq_begin() */
	uint64_t requests_started; /* numbers them */
	atomic_uint long_inflight; /* long messages under way, in and out; the agent looks without the lock */
	uint64_t now_ns;           /* time of the present or last round of progress */
	bool now_fresh;            /* it was read just now, and no lock was released since */
	bool polled;    /* a whole round was made since the lock was taken, and brought nothing */
	bool now_stale; /* it may be long ago: the present part of a round looked at no clock */
	unsigned poll_count; /* parts of rounds by threads that did not drive: see core/message/fast_path.c */
	unsigned poll_budget; /* looks at the endpoint that spoke last before all are looked at: core/message/fast_path.c */
	uint64_t timers_ns; /* when the core's own timers have something to do */
	uint64_t next_timer_ns; /* the earliest of these and of what transports and resolver asked for */
	uint64_t next_sweep_ns; /* when idle entries are looked for, RIPC__NEVER: tables are empty */
	/*
	 * why a connection was not made, if idle lanes are to give way to the next: -EMFILE ...; or
	 * 0
	 */
	int evict_cause;
	bool resolver_pending; /* look-ups or registrations under way: ask the resolver in every round */
	uint64_t resolver_timer_ns; /* when the resolver wants progress */
	uint64_t resolver_polled_ns; /* when it was last asked without its descriptor known to be readable */
	bool resolver_readable; /* its descriptor was seen readable */
	bool in_progress;       /* guards against a nested round */
	bool progress_needed;   /* ripc__progress_request() was called in the present round */

	/* Waiting: see wait.h. */
	int epfd, wakefd;  /* descriptors the driver sleeps on; -1 with hooks */
	int progress_epfd; /* holds epfd: where the agent sleeps, so that it can be left out of it */
	bool wake_pending;                     /* wakefd is readable, nobody has seen it yet */
	_Atomic(struct ripc__waiter *) leader; /* the thread that drives, or NULL; the agent looks without the lock */
	atomic_bool leader_asleep;   /* it sleeps on the descriptors; likewise */
	atomic_uint leader_sleeps;   /* so many of them there were, of whatever driver */
	unsigned leader_sleeps_seen; /* by the agent, at its last tick */
	uint64_t resumed_ns; /* when a driver that had slept last found the agent asleep as it left */
	struct ripc__list waiters; /* threads that wait and do not drive */
	unsigned waiting; /* threads in ripc__wait() or ripc__lock_suspend(): ripc_close() waits for them */
	atomic_bool app_active;     /* an application thread drove since the agent last looked */
	atomic_bool poll_requested; /* somebody must look soon: the agent's ticks are short */
	atomic_bool long_tick; /* the agent is in a longer tick, or about to be: see look_soon() */
	uint64_t spin_ns;      /* how long adaptive waiting spins before it sleeps */
	pthread_t progress_thread;
	bool progress_started;
	atomic_bool progress_stop;
	sem_t progress_sem; /* where the agent ticks while others drive */
	bool progress_disarmed; /* what happens to epfd does not wake the agent: whoever stops driving must see to it */
	atomic_bool app_spun; /* a thread that drove left without having slept since the agent last looked */
	_Atomic(struct ripc__waiter *) progress_waiter; /* the agent as a driver */

	struct ripc_stats stats;
};

extern unsigned ripc__fork_generation; /* 1, and one more in each forked child */

static inline void ripc__lock_fast_path(struct ripc *ctx) RIPC__ACQUIRE(ctx->lock);
static inline void ripc__lock(struct ripc *ctx) RIPC__ACQUIRE(ctx->lock);
static inline void ripc__unlock(struct ripc *ctx) RIPC__RELEASE(ctx->lock);

/* For plain messages only, which change nothing that others rely on: see core/message/fast_path.h. */
static inline void RIPC__NO_ANALYSIS ripc__lock_fast_path(struct ripc *ctx)
{
	ripc__lock_take(&ctx->lock);
}

static inline void RIPC__NO_ANALYSIS ripc__lock(struct ripc *ctx)
{
	ripc__lock_take(&ctx->lock);
	if (ctx->fast_path.valid)
		ripc__fast_path_flush(ctx);
}

/* Whether somebody waits for it: then whoever holds it for long should let go for a moment. */
static inline bool ripc__lock_contended(struct ripc *ctx)
{
	return atomic_load_explicit(&ctx->lock.wanted, memory_order_relaxed);
}

static inline void RIPC__NO_ANALYSIS ripc__unlock(struct ripc *ctx)
{
	ctx->now_fresh = false;
	ripc__lock_release(&ctx->lock);
}

/*
 * How a call enters a context. Another thread may close it, or unregister the service, at any
 * moment:
 *
 * 1. ripc__context(), ripc__service_context() (service.h) or that of a request tell the context.
 * They read nothing but the memory of
 *      handles (handle.h), which is there for ever.
 *   2. ripc__lock(), which works on an ended context, too.
 * 3. ripc__check_open(), or ripc__service_enter(): from here on until the lock is released
 * nothing ends. A call that has waited in between (ripc__wait(), ripc__lock_suspend()) was counted in
 * ctx->waiting, and finds all that it has pinned.
 *
 * The last word of a call is ripc__unlock(): behind it nothing of the context is read.
 */

/*
 * The context meant by ctx, NULL standing for the default one, which is opened. Return: 0,
 * -ESHUTDOWN if it has ended, -EOWNERDEAD in a forked child, or what ripc_open() says.
 */
int ripc__context(struct ripc **ctx);

/*
 * Structs that a public function fills. Their first member is the size that the caller states, in
 * bytes. ripc__check_output() returns -EINVAL for NULL and for a size that was not set.
 * ripc__store_output() copies what fits of the  bytes at  and clears the rest.
 */
int ripc__check_output(const void *to, const char *type);
void ripc__store_output(void *to, const void *from, size_t known);

/* The error of ripc__check_owner(). Return: -EOWNERDEAD or -ESHUTDOWN, explained. */
int ripc__not_owner(const struct ripc *ctx);

static inline bool ripc__is_owner(const struct ripc *ctx)
{
	return __atomic_load_n(&ctx->owner, __ATOMIC_RELAXED) == ripc__fork_generation;
}

/*
 * 0; -EOWNERDEAD if this process is a forked child of the one that opened ctx, -ESHUTDOWN if it
 * has ended, both explained.
 */
static inline int ripc__check_owner(const struct ripc *ctx)
{
	return RIPC__LIKELY(ripc__is_owner(ctx)) ? 0 : ripc__not_owner(ctx);
}

/* The error of ripc__check_open(). */
int ripc__shut_down(void);

/*
 * Whether a call may go on. Lock held. Return: 0, or -ESHUTDOWN, explained: it is being closed,
 * or has ended.
 */
static inline int ripc__check_open(const struct ripc *ctx)
{
	return RIPC__LIKELY(ctx->owner && !ctx->closing) ? 0 : ripc__shut_down();
}

/* The present time. Lock held. */
uint64_t ripc__now(struct ripc *ctx);

/* One round of progress: transports, resolver, timers. Lock held. */
void ripc__progress(struct ripc *ctx);

/* The same without a look at the clock: ctx->now_ns is recent enough. */
void ripc__full_pass(struct ripc *ctx);

/*
 * A part of a round: only of transports over which messages come, no timers, no resolver. For between two whole rounds,
 * not instead of them. Lock held.
 */
void ripc__partial_pass(struct ripc *ctx);

/* An event that a transport's take() has brought, between two rounds. Lock held. */
void ripc__dispatch_event(struct ripc *ctx, unsigned tp, const struct ripc__event *ev);

/* ctx->now_ns + ns is the latest time of the next round: lowers the timer. */
void ripc__timer_at(struct ripc *ctx, uint64_t when_ns);

/* The text of an instance id: 8 hex digits, enough for people. Static per thread, two texts in turn. */
const char *ripc__instance_text(const uint8_t instance[16]);

#endif
