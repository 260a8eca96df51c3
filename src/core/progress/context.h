/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The context: everything one instance of the library owns, under one lock.
 *
 * Order of locks: ctx->lock, then that of devices which contexts share (adopted_lock in
 * transport/rdma/device.c) or none, then the log's own (base/log.c). The locks of the process
 * (core/context/context.c) are taken before any ctx->lock and never while one is held. fork() takes
 * all of them: no thread is in the middle of a change of a context when the child begins.
 */
#ifndef RIPC_CORE_PROGRESS_CONTEXT_H
#define RIPC_CORE_PROGRESS_CONTEXT_H

#include "auth/key.h"
#include "base/clock.h"
#include "base/copy.h"
#include "base/list.h"
#include "base/log.h"
#include "base/options.h"
#include "base/table.h"
#include "core/progress/completion.h"
#include "core/progress/handle.h"
#include "core/progress/hooks.h"
#include "core/progress/lock.h"
#include "core/progress/pass.h"
#include "core/progress/progress.h"
#include "core/progress/wait.h"
#include "resolver/resolver.h"
#include "transport/transport.h"
#include "wire/header.h"

#include <errno.h>
#include <sched.h>
#include <stdatomic.h>

#define RIPC__TP_MAX 8 /* transports of one context */

#define RIPC__REQUEST_SIZES 7  /* requests have room for 1, 2, 4 .. RIPC_ITEMS_MAX items */
#define RIPC__CREDIT_UNIT   64 /* bytes that one unit of a service's window stands for */

/*
 * How current ctx->now_ns is.
 *
 *   RECENT --ripc__now_read()--> FRESH --the lock is released, or much time passes--> RECENT
 *   any --a partial pass begins without reading the clock--> STALE --it ends--> RECENT
 *   STALE --ripc__now_read()--> FRESH
 *
 * The values make each transition one instruction.
 */
enum ripc__now_age {
	RIPC__NOW_RECENT = 0, /* the time of the present or last full pass */
	RIPC__NOW_STALE = 1,  /* the present events may be much later */
	RIPC__NOW_FRESH = 2,  /* the present time */
};

/*
 * When full passes ask the resolver, besides its timer and a poll from time to time.
 *
 *   QUIET --its descriptor is readable--> READABLE --asked--> QUIET
 *   any --a registration or look-up begins--> AWAITED --none is left--> QUIET
 */
enum ripc__resolver_poll {
	RIPC__RESOLVER_QUIET,
	RIPC__RESOLVER_READABLE, /* in the next pass */
	RIPC__RESOLVER_AWAITED,  /* in every pass */
};

/* One transport of the context, open or not. */
struct ripc__tp {
	const struct ripc__transport_ops *ops;
	struct ripc__transport *t; /* NULL: not open, see why */
	struct ripc__transport_limits limits;
	unsigned nlanes;      /* lanes over it that have an endpoint */
	unsigned poll_budget; /* polls of the last active endpoint before a partial pass */
	char why[256];        /* the reason, if it is not open */
};

/* The ACK and the CREDIT that core/rendezvous/delayed_ack.c may send later. */
struct ripc__delayed_ack {
	/* lane of the message; NULL: nothing is tracked and the other fields are undefined */
	struct ripc__lane *lane;
	uint64_t word;                 /* the request: ripc__rndv_ack_word() */
	uint64_t delivered_ns;         /* time of delivery; 0: no ACK is tracked */
	bool held;                     /* the ACK was not sent yet; false without a lane */
	struct ripc__flow *credit_due; /* of this lane: its CREDIT follows the reply; or NULL */
};

/*
 * Calls from here to the layers above, set by ripc_open(). Lock held. The resolver's events and
 * the timers are reported in a full pass only.
 */
struct ripc__progress_ops {
	/* A transport has an event; the callee releases its token. */
	void (*transport_event)(struct ripc *ctx, unsigned tp, const struct ripc__event *ev);
	void (*resolver_event)(struct ripc *ctx, const struct ripc__resolver_event *ev);
	/* Whether a registration or a look-up waits for the resolver. */
	bool (*resolver_awaited)(struct ripc *ctx);
	/* ctx->timers_ns has passed. */
	void (*timers)(struct ripc *ctx);
	/* Too few descriptors or too little memory for a connection: ctx->evict_cause. */
	void (*evict)(struct ripc *ctx);
	/* ctx->dead_lanes is not empty and no event refers to a lane any more. */
	void (*free_dead_lanes)(struct ripc *ctx);
	/* End of a full pass. Return: the earlier of deadline and the time of the next pass. */
	uint64_t (*pass_end)(struct ripc *ctx, uint64_t deadline);
	/* len bytes are about to be copied or registered before a message is sent. */
	void (*before_copy)(struct ripc *ctx, size_t len);
	/* The calling thread finds nothing to receive and is about to wait. */
	void (*idle)(struct ripc *ctx);
};

/* Memory for copies of reliable messages, linked by owner: core/reliable/message.h. */
#define RIPC__RELIABLE_FREE_LISTS 3u
struct ripc__reliable_free {
	struct ripc__reliable_msg *first;
	unsigned count;
};

struct ripc {
	/* These two are all that is read before the lock is held: handle.h. */
	struct ripc__lock lock;
	/* ripc__fork_generation that opened it, else we are a child; 0: it has ended */
	unsigned owner;

	/* The fields of each short message, in few cache lines. */
	unsigned active_tps; /* bit i: tp[i] has lanes, or carries datagrams */
	bool closing;
	bool datagrams; /* an open transport carries short messages by datagram */
	enum ripc__pass_state pass : 8;
	enum ripc__now_age now_age : 8;
	bool polled; /* a full pass since the lock was taken found no event */
	/* partial passes by threads that do not lead: core/message/receive.c */
	unsigned poll_count;
	/* polls of the last active endpoint before a partial pass: core/message/receive.c */
	unsigned poll_budget;
	/* poll_count when a call with timeout 0 has made a pass; calls since that made none */
	unsigned nowait_poll_count, nowait_skips;
	uint64_t now_ns;                     /* its age is now_age */
	struct ripc__message *message_cache; /* free message structs, singly linked */
	unsigned message_cached;
	/* small messages, singly linked, the oldest first: core/memory/message.h */
	struct ripc__message *small_first, *small_last;
	struct ripc__dest *last_dest;                         /* the one looked up last, or NULL */
	struct ripc__datagram_context *last_datagram_context; /* likewise */
	struct ripc__peer *last_peer;         /* the last that was looked for; NULL: none */
	struct ripc__delayed_ack delayed_ack; /* the ACK that is due */
	struct ripc__copy_choice copy_choice; /* core/rendezvous/prepared.c */
	struct ripc__hooks hooks;       /* hooks.now == NULL: real time and a progress thread */
	struct ripc__progress progress; /* the leader, the progress thread, where they sleep */

	const struct ripc__progress_ops *ops;
	const struct ripc__peer_ops *peer_ops;     /* core/peer/ops.h */
	const struct ripc__memory_ops *memory_ops; /* core/memory/ops.h */
	struct ripc__options opt;
	uint8_t instance[16];
	uint8_t host[16];
	uint64_t secret;     /* seeds hash tables */
	uint64_t host_bytes; /* memory this host has in all */
	struct ripc *next;   /* in the list of all contexts */
	bool fork_locked;    /* fork() has taken the lock; for the holder of the list's */

	struct ripc__tp tp[RIPC__TP_MAX];
	unsigned ntp;
	struct ripc__resolver *resolver;
	struct ripc__auth *auth; /* the cluster's keys, or NULL */

	struct ripc_service *services;        /* uthash by id */
	struct ripc__list peers;              /* struct ripc__peer: all, */
	struct ripc__table peer_table;        /* and by a hash of their instances */
	struct ripc__table credits;           /* struct ripc__credit of all lanes, by service id */
	struct ripc__dest *dests;             /* uthash by service id */
	struct ripc__table datagram_contexts; /* core/peer/datagram_context.h */
	struct ripc__group *groups;           /* uthash by id: those we are in or send to */
	struct ripc__list lanes;              /* all lanes, in any state */
	struct ripc__list dead_lanes;         /* closed, to be freed at the end of the pass */
	struct ripc__list messages; /* received messages the application holds, but small ones */
	struct ripc__list requests; /* all long messages to send that the application holds */
	/* core/progress/completion.h */
	struct ripc__list completions;
	struct ripc__waitq completed;
	struct ripc__ready_fd completions_ready; /* of ripc_completion_fd() */
	bool completions_used;    /* the application asks for them: SENDABLE is reported */
	bool completion_reported; /* by the last call of ripc_completion_next() */
	/* core/group: senders of all groups from which only multicast has come */
	unsigned unverified_senders;
	/* core/reliable: peers that wait for an ACK, free structs, messages that wait */
	struct ripc__list reliable_acks;
	struct ripc__list reliable_settling;
	struct ripc__reliable_free reliable_free[RIPC__RELIABLE_FREE_LISTS];
	unsigned reliable_npending;
	struct ripc__pair *pairs, *last_pair; /* core/message/reliable_send.c */
	/* core/call/caller.h */
	struct ripc__list ended_requests; /* long requests of calls, to be freed */
	struct ripc__call **call_table;   /* by slot: those in use and the free ones */
	struct ripc__call *call_free;     /* singly linked */
	uint32_t call_slots;
	uint64_t call_number; /* of the next call; 0: there was none */
	/* no call of a group of slots has an earlier deadline; nor of any group: calls_next_ns */
	uint64_t *call_groups_ns;
	uint64_t calls_next_ns;
	struct ripc__handle_blocks request_blocks;              /* their memory, */
	struct ripc_request *request_free[RIPC__REQUEST_SIZES]; /* and what is free of it */
	bool rndvs_have_room;        /* core/rendezvous/arriving.c: ripc__rndvs_resume() is due, */
	bool rndvs_resuming;         /* or at work */
	uint64_t rndvs_slow_bytes;   /* payload of transfers that count as slow */
	struct ripc__memory *memory; /* core/memory/buffer.h; allocated with the context */

	uint64_t next_number;      /* no number was given out from here on: ripc__seq_begin() */
	uint64_t requests_started; /* numbers them */
	/* long messages under way, in and out; the progress thread reads it without the lock */
	atomic_uint long_inflight;
	uint64_t nowait_ns; /* the last poll with timeout 0 while the progress thread led */
	uint64_t timers_ns; /* when the core's own timers have something to do */
	/* the earliest of these and of what transports and resolver asked for */
	uint64_t next_timer_ns;
	/* when idle entries are looked for, RIPC__NEVER: tables are empty */
	uint64_t next_sweep_ns;
	uint64_t lane_timers_ns; /* the last run of ripc__lane_timers() */
	uint64_t next_trim_ns;   /* when idle peers are looked for; RIPC__NEVER: not planned */
	/*
	 * why a connection was not made, if idle lanes are to give way to the next: -EMFILE ...; or
	 * 0
	 */
	int evict_cause;
	enum ripc__resolver_poll resolver_poll;
	/* services that are being registered, and destinations that are being looked up */
	unsigned nawaited;
	uint64_t resolver_timer_ns; /* when the resolver wants progress */
	/* when it was last asked without its descriptor known to be readable */
	uint64_t resolver_polled_ns;

	/* threads in ripc__wait() or ripc__lock_suspend(): ripc_close() waits for them */
	unsigned waiting;

	struct ripc_stats stats;
};

extern unsigned ripc__fork_generation; /* 1, and one more in each forked child */

static inline void ripc__lock(struct ripc *ctx) RIPC__ACQUIRE(ctx->lock);
static inline void ripc__unlock(struct ripc *ctx) RIPC__RELEASE(ctx->lock);

static inline void RIPC__NO_ANALYSIS ripc__lock(struct ripc *ctx)
{
	ripc__lock_take(&ctx->lock);
}

/* Whether threads wait for it: a thread that holds it for long then releases it for a moment. */
static inline bool ripc__lock_contended(struct ripc *ctx)
{
	return atomic_load_explicit(&ctx->lock.wanted, memory_order_relaxed);
}

/* Time passes: ctx->now_ns is not the present time any more. */
static inline void ripc__now_passes(struct ripc *ctx)
{
	ctx->now_age &= RIPC__NOW_STALE;
}

/* Around events at a time that is not read. */
static inline void ripc__now_stale_begin(struct ripc *ctx)
{
	ctx->now_age = RIPC__NOW_STALE;
}

static inline void ripc__now_stale_end(struct ripc *ctx)
{
	ctx->now_age &= RIPC__NOW_FRESH;
}

/* Around the work for one event of a transport's poll_one(), between two passes. */
static inline void ripc__event_begin(struct ripc *ctx)
{
	assert(ctx->pass == RIPC__PASS_NONE);
	ctx->pass = RIPC__PASS_RUNNING;
	ripc__now_stale_begin(ctx);
}

static inline void ripc__event_end(struct ripc *ctx)
{
	ripc__now_stale_end(ctx);
	if (RIPC__UNLIKELY(!ripc__list_empty(&ctx->dead_lanes)))
		ctx->ops->free_dead_lanes(ctx);
	ctx->pass = RIPC__PASS_NONE;
}

static inline void RIPC__NO_ANALYSIS ripc__unlock(struct ripc *ctx)
{
	ripc__now_passes(ctx);
	ripc__lock_release(&ctx->lock);
}

/* Gives the lock to threads that wait for it. */
static inline void RIPC__NO_ANALYSIS ripc__lock_yield(struct ripc *ctx)
{
	if (RIPC__LIKELY(!ripc__lock_contended(ctx)))
		return;
	ripc__unlock(ctx);
	/* A thread that waits for it has to wake up first, perhaps on this very processor. */
	sched_yield();
	ripc__lock(ctx);
}

/*
 * A read or write was posted. An adapter moves it alone; where the library does, the rest of it is
 * moved by progress() only. Lock held.
 */
static inline void ripc__transfer_posted(struct ripc *ctx, unsigned tp)
{
	if (ctx->tp[tp].limits.caps & RIPC__CAP_TARGET_PROGRESS)
		ripc__progress_request(ctx);
}

/* An event of a transport is handled: gives its receive buffer back, if it has one. */
static inline void ripc__event_release(struct ripc *ctx, unsigned tp, const struct ripc__event *ev)
{
	if (ev->token)
		ctx->tp[tp].ops->release(ctx->tp[tp].t, ev->token);
}

/*
 * Releases the lock around a long operation in the middle of a call; ripc__lock_resume() takes it
 * again. Other threads continue meanwhile, and ripc_close() waits.
 */
void ripc__lock_suspend(struct ripc *ctx);
void ripc__lock_resume(struct ripc *ctx);

/*
 * How a call enters a context, which another thread may close, or whose service it may unregister,
 * at any moment:
 *
 *   1. ripc__context() (context/context.h), ripc__service_context() (service.h) or the call on a
 *      request finds the context. It reads only the memory of handles (handle.h), which is never
 *      unmapped.
 *   2. ripc__lock() works on an ended context, too.
 *   3. After ripc__check_open() or ripc__service_enter() nothing ends until the lock is released. A
 *      call that waits in between (ripc__wait(), ripc__lock_suspend()) is counted in ctx->waiting
 *      and finds all that it has pinned.
 *
 * ripc__unlock() is the last step of a call: nothing of the context is read after it.
 */

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
/* The same, also in ctx->now_ns: read at most once until the lock is released. */
uint64_t ripc__now_read(struct ripc *ctx);

/* Counts long messages under way: only the holder of the lock writes, so no locked addition. */
static inline void ripc__long_inflight_add(struct ripc *ctx, int n)
{
	unsigned count = atomic_load_explicit(&ctx->long_inflight, memory_order_relaxed);

	atomic_store_explicit(&ctx->long_inflight, count + (unsigned)n, memory_order_relaxed);
}

/* Fills in random bytes, a multiple of 8, from the kernel or the hooks. Return: 0 or -EIO. */
int ripc__random(struct ripc *ctx, uint8_t *bytes, size_t len);

/* The resolver has something to read. */
static inline void ripc__resolver_readable(struct ripc *ctx)
{
	if (ctx->resolver_poll == RIPC__RESOLVER_QUIET)
		ctx->resolver_poll = RIPC__RESOLVER_READABLE;
}

/* A registration or look-up began. The caller makes or requests a pass. */
static inline void ripc__resolver_await(struct ripc *ctx)
{
	ctx->resolver_poll = RIPC__RESOLVER_AWAITED;
	ctx->resolver_timer_ns = 0;
}

/* The next full pass is due at when_ns, if not earlier. Lock held. */
void ripc__timer_at(struct ripc *ctx, uint64_t when_ns);

/*
 * The text of an instance id: 8 hex digits, enough for people. Static per thread, two texts in
 * turn.
 */
const char *ripc__instance_text(const uint8_t instance[16]);
/*
 * "service 7", with its name behind it if the context or ripc_id() knows it: service 4950...
 * ("camera/left"). Static per thread, two texts in turn. Lock held.
 */
const char *ripc__service_text(const struct ripc *ctx, uint64_t id);

#endif
