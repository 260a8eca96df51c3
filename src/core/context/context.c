/* SPDX-License-Identifier: LGPL-2.1-or-later */
#define _GNU_SOURCE
#include "core/context/context.h"
#include "core/call/call.h"
#include "core/message/pair.h"
#include "core/watch/watch.h"
#include "core/reliable/reliable.h"
#include "core/context/events.h"
#include "core/memory/buffer.h"
#include "core/rendezvous/delayed_ack.h"
#include "core/rendezvous/delivery.h"
#include "core/group/group.h"
#include "base/host.h"
#include "base/memory_limit.h"
#include "core/peer/lane.h"
#include "core/memory/memory_object.h"
#include "core/memory/message.h"
#include "core/progress/descriptors.h"
#include "core/progress/progress_thread.h"
#include "core/peer/peer.h"
#include "core/rendezvous/receiver.h"
#include "core/progress/transports.h"

#include <stdlib.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <unistd.h>

/* how long close waits for queued messages to leave while no message passes */
#define LINGER_NS         (200 * RIPC__MS)
#define DESCRIPTORS_TAKEN 20u /* by a context without peers or RDMA devices, about */

#define FORK_WAIT_S           1 /* how long fork() waits for other threads */
#define LIFE_LOCK_INITIALIZER PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP

static pthread_mutex_t contexts_lock = PTHREAD_MUTEX_INITIALIZER;
static struct ripc *contexts; /* all that have descriptors, but those being opened or freed */
static struct ripc *default_context;
static bool fork_handler;
/* the default context is being opened; before the other locks */
static pthread_mutex_t opening_lock = PTHREAD_MUTEX_INITIALIZER;
/*
 * Shared: a context that is not in the list has descriptors, which a forked child could not close;
 * exclusive: the process forks. Before contexts_lock and the locks of contexts.
 */
static pthread_rwlock_t life_lock = LIFE_LOCK_INITIALIZER;
static bool life_locked; /* by fork(), which has contexts_lock, too */

/* ---- fork ---- */

/*
 * In the child: the parent's connections must not live on in it. Only async-signal-safe calls. No
 * thread was changing a context, if fork_prepare() has got all locks in time.
 */
static void RIPC__NO_ANALYSIS fork_child(void)
{
	ripc__fork_generation++;
	for (struct ripc *ctx = contexts; ctx; ctx = ctx->next) {
		for (unsigned i = 0; i < ctx->ntp; i++)
			if (ctx->tp[i].t && ctx->tp[i].ops->forked)
				ctx->tp[i].ops->forked(ctx->tp[i].t);
		if (ctx->resolver)
			ripc__resolver_atfork_child(ctx->resolver);
		ripc__descriptors_close(ctx);
		if (ctx->completions_ready.fd >= 0)
			close(ctx->completions_ready.fd);
		for (struct ripc_service *s = ctx->services; s; s = s->hh.next)
			if (s->ready.fd >= 0)
				close(s->ready.fd);
		ripc__memory_objects_forked(ctx);
		if (ctx->fork_locked)
			ripc__unlock(ctx);
	}
	contexts = NULL;
	default_context = NULL;
	pthread_mutex_init(&contexts_lock, NULL);
	/* The thread that held it, if any, does not exist here. */
	pthread_mutex_init(&opening_lock, NULL);
	life_lock = (pthread_rwlock_t)LIFE_LOCK_INITIALIZER;
	ripc__handle_fork_child();
	ripc__log_atfork_child();
}

/*
 * A thread with one of these locks may wait in the log's function, for a lock of the application
 * that the forking thread has. Then fork() goes on: a deadlock would be worse than a descriptor of
 * an open call, which the child may keep.
 */
static void RIPC__NO_ANALYSIS fork_prepare(void)
{
	uint64_t until = ripc__clock_ns() + FORK_WAIT_S * 1000 * RIPC__MS;
	struct timespec ts;
	bool locked;

	/* Not the monotonic clock: the thread sanitizer does not know that call. */
	clock_gettime(CLOCK_REALTIME, &ts);
	ts.tv_sec += FORK_WAIT_S;
	locked = !pthread_rwlock_timedwrlock(&life_lock, &ts);
	pthread_mutex_lock(&contexts_lock);
	life_locked = locked;
	for (struct ripc *ctx = contexts; ctx; ctx = ctx->next)
		ctx->fork_locked = ripc__lock_take_until(&ctx->lock, until);
	ripc__handle_fork_lock();
}

static void RIPC__NO_ANALYSIS fork_parent(void)
{
	bool locked = life_locked;

	ripc__handle_fork_unlock();
	for (struct ripc *ctx = contexts; ctx; ctx = ctx->next)
		if (ctx->fork_locked)
			ripc__unlock(ctx);
	pthread_mutex_unlock(&contexts_lock);
	if (locked)
		pthread_rwlock_unlock(&life_lock);
}

/* ---- opening ---- */

/* For records: the running kernel and our network namespace in it; zeros if that is not known. */
static void host_id(uint8_t id[16])
{
	struct ripc__host host;

	ripc__host_get(&host);
	memcpy(id, host.boot, 16);
	for (unsigned i = 0; host.known && i < 8; i++)
		id[8 + i] ^= (uint8_t)(host.netns >> 8 * i);
}

static int open_resolver(struct ripc *ctx)
{
	struct ripc__record_addr addrs[RIPC__RECORD_ADDRS_MAX];
	struct ripc__resolver_env env = {
		.opt = &ctx->opt,
		.instance = ctx->instance,
		.host = ctx->host,
		.addrs = addrs,
		.backend = ctx->hooks.backend,
		.sim = ctx->hooks.arg,
		.describe = ripc__transport_describe,
		.describe_arg = ctx->hooks.transports,
		.auth = ctx->auth,
	};

	int n = ripc__local_addrs(ctx, addrs);

	if (n < 0)
		return n;
	env.naddrs = (unsigned)n;
	return ripc__resolver_open(&ctx->resolver, &env);
}

/* The memory state lies behind the context, and both end together. */
struct whole_context {
	struct ripc ctx;
	struct ripc__memory memory;
};

/*
 * Threads may wait for the lock, and more may come: the next owner finds zeros, see handle.h. The
 * lock becomes zeros as well, which releases it. All threads that sleep for it are woken, because
 * the zeros do not show its next owner that there are any.
 */
static void RIPC__NO_ANALYSIS context_free(struct ripc *ctx)
{
	struct ripc__lock *lock = &ctx->lock;

	ripc__descriptors_close(ctx);
	ripc__ready_fd_close(ctx, &ctx->completions_ready);
	ripc__auth_close(ctx->auth);
	ripc__lock(ctx);
	ripc__handle_blocks_free(&ctx->request_blocks);
	ripc__lock_destroy(lock);
	ripc__handle_free(ctx, sizeof(struct whole_context));
	ripc__lock_destroyed(lock);
}

static void context_init(struct whole_context *whole, const struct ripc__hooks *hooks)
{
	struct ripc *ctx = &whole->ctx;

	ctx->ops = &ripc__progress_ops;
	ctx->peer_ops = &ripc__peer_ops;
	ctx->memory_ops = &ripc__memory_ops;
	ctx->memory = &whole->memory;
	if (hooks)
		ctx->hooks = *hooks;
	ctx->progress.epfd = ctx->progress.thread_epfd = ctx->progress.wakefd = -1;
	ctx->owner = ripc__fork_generation;
	ctx->timers_ns = ctx->next_timer_ns = ctx->next_sweep_ns = ctx->next_trim_ns =
		ctx->resolver_timer_ns = RIPC__NEVER;
	ctx->progress.spin_ns = 50 * 1000;
	ripc__list_init(&ctx->lanes);
	ripc__list_init(&ctx->peers);
	ripc__list_init(&ctx->dead_lanes);
	ripc__list_init(&ctx->messages);
	ripc__list_init(&ctx->reliable_acks);
	ripc__list_init(&ctx->reliable_settling);
	ripc__list_init(&ctx->ended_requests);
	ctx->calls_next_ns = RIPC__NEVER;
	ripc__list_init(&ctx->requests);
	ripc__list_init(&ctx->completions);
	ripc__waitq_init(&ctx->completed);
	ctx->completions_ready.fd = -1;
	ripc__list_init(&ctx->progress.followers);
}

/* Adds to the detail of -EMFILE the limit and the remedy. */
static void explain_descriptors(void)
{
	struct rlimit limit;

	if (!getrlimit(RLIMIT_NOFILE, &limit))
		ripc__fail(-EMFILE,
			   "%s: RLIMIT_NOFILE of this process is %llu, and a context takes about "
			   "%u descriptors, and one or more for each peer; raise it with ulimit -n",
			   ripc_error_detail(), (unsigned long long)limit.rlim_cur,
			   DESCRIPTORS_TAKEN);
}

/* Adds to the detail of -ENOMEM the limits of this process, if it has any, and the remedy. */
static void explain_memory(void)
{
	static const struct {
		int resource;
		const char *name, *option;
	} limits[] = {{RLIMIT_AS, "RLIMIT_AS", "-v"}, {RLIMIT_DATA, "RLIMIT_DATA", "-d"}};
	struct rlimit limit;

	for (unsigned i = 0; i < 2; i++)
		if (!getrlimit(limits[i].resource, &limit) && limit.rlim_cur != RLIM_INFINITY)
			ripc__fail(-ENOMEM,
				   "%s; %s of this process is %llu KiB: raise it with ulimit %s",
				   ripc_error_detail(), limits[i].name,
				   (unsigned long long)limit.rlim_cur >> 10, limits[i].option);
}

static int open_locked(struct ripc **out, const char *options, const struct ripc__hooks *hooks)
{
	char why[512];
	struct whole_context *whole = ripc__handle_alloc(sizeof(*whole));
	struct sysinfo system;
	struct ripc *ctx;
	int rc;

	if (!whole) {
		ripc__fail(-ENOMEM, "no memory for a context: %zu KiB of address space",
			   RIPC__HANDLE_RESERVE >> 10);
		explain_memory();
		return -ENOMEM;
	}
	ctx = &whole->ctx;
	context_init(whole, hooks);
	rc = ripc__options_load(&ctx->opt, options, why, sizeof(why));
	if (rc) {
		ripc__fail(rc, "%s", why);
		goto fail;
	}
	if (ctx->opt.log_level >= 0)
		ripc__log_to_stderr((enum ripc_log_level)ctx->opt.log_level);
	rc = ripc__random(ctx, ctx->instance, sizeof(ctx->instance));
	if (!rc)
		rc = ripc__random(ctx, (uint8_t *)&ctx->secret, sizeof(ctx->secret));
	if (rc) {
		ripc__fail(rc, "the kernel's random source failed");
		goto fail;
	}
	ripc__table_init(&ctx->credits, ctx->secret);
	ripc__table_init(&ctx->datagram_contexts, ctx->secret);
	ripc__table_init(&ctx->peer_table, ctx->secret);
	host_id(ctx->host);
	/* Not sysconf(), which returns any number where a sandbox refuses the call. */
	ctx->host_bytes = ripc__memory_limit(RIPC__CGROUP_OF_PROCESS, RIPC__CGROUP_ROOT);
	if (!sysinfo(&system) && ctx->host_bytes / system.mem_unit > system.totalram)
		ctx->host_bytes = (uint64_t)system.totalram * system.mem_unit;
	if (*ctx->opt.key_file)
		rc = ripc__auth_open(&ctx->auth, ctx->opt.key_file, ctx->instance);
	if (!rc)
		rc = ripc__transports_open(ctx);
	ripc__memory_init(ctx);
	if (!rc)
		rc = open_resolver(ctx);
	if (!rc && !hooks)
		rc = ripc__descriptors_open(ctx);
	if (!rc && !hooks)
		rc = ripc__progress_thread_start(ctx);
	if (rc)
		goto close;
	pthread_mutex_lock(&contexts_lock);
	ctx->next = contexts;
	contexts = ctx;
	pthread_mutex_unlock(&contexts_lock);
	ripc__log(RIPC_LOG_DEBUG, "context %s is open: the log of a peer names it by this id",
		  ripc__instance_text(ctx->instance));
	*out = ctx;
	return 0;
close:
	if (ctx->resolver)
		ripc__resolver_kill(ctx->resolver);
	ripc__transports_close(ctx);
fail:
	if (rc == -EMFILE)
		explain_descriptors();
	if (rc == -ENOMEM)
		explain_memory();
	context_free(ctx);
	return rc;
}

int ripc__open_hooked(struct ripc **ctx, const char *options, const struct ripc__hooks *hooks)
{
	int rc;

	pthread_mutex_lock(&contexts_lock);
	if (!fork_handler)
		fork_handler = !pthread_atfork(fork_prepare, fork_parent, fork_child);
	pthread_mutex_unlock(&contexts_lock);
	pthread_rwlock_rdlock(&life_lock);
	rc = open_locked(ctx, options, hooks);
	pthread_rwlock_unlock(&life_lock);
	return rc;
}

int ripc_open(struct ripc **ctx, const char *options)
{
	if (!ctx)
		return ripc__fail(-EINVAL, "nowhere to store the context");
	return ripc__open_hooked(ctx, options, NULL);
}

int ripc__context(struct ripc **ctx)
{
	int rc = 0;

	if (*ctx)
		return ripc__check_owner(*ctx);
	pthread_mutex_lock(&opening_lock);
	pthread_mutex_lock(&contexts_lock);
	*ctx = default_context;
	pthread_mutex_unlock(&contexts_lock);
	if (!*ctx) {
		rc = ripc__open_hooked(ctx, NULL, NULL);
		if (!rc) {
			pthread_mutex_lock(&contexts_lock);
			default_context = *ctx;
			pthread_mutex_unlock(&contexts_lock);
		}
	}
	pthread_mutex_unlock(&opening_lock);
	return rc;
}

int RIPC__NO_ANALYSIS ripc__context_enter(struct ripc **ctx)
{
	int rc = RIPC__LIKELY(*ctx != NULL) ? ripc__check_owner(*ctx) : ripc__context(ctx);

	if (rc)
		return rc;
	ripc__lock(*ctx);
	rc = ripc__check_open(*ctx);
	if (rc)
		ripc__unlock(*ctx);
	return rc;
}

/* ---- closing ---- */

/* Threads that wait in a call see that the context is closing and leave. */
static void RIPC__NO_ANALYSIS wake_all_waiters(struct ripc *ctx)
{
	while (ctx->waiting) {
		ripc__wake_all(ctx);
		ripc__unlock(ctx);
		ripc__lock_step(RIPC__STEP_PAUSE);
		usleep(100);
		ripc__lock(ctx);
	}
}

/* Answers may wait for room, credit or the peer's acknowledgements. */
static bool lanes_unsent(struct ripc *ctx)
{
	struct ripc__lane *lane;

	ripc__list_for_each_entry (lane, &ctx->lanes, link)
		if (lane->sending == RIPC__SENDING_BLOCKED || !ripc__list_empty(&lane->control) ||
		    (lane->peer->lane == lane && lane->peer->answers))
			return true;
	return false;
}

/* Messages over all lanes, in both directions. */
static uint64_t lanes_messages(struct ripc *ctx)
{
	struct ripc__lane *lane;
	uint64_t n = 0;

	ripc__list_for_each_entry (lane, &ctx->lanes, link)
		n += lane->tx_seq + lane->rx_seq;
	return n;
}

/*
 * Queued messages get a bounded time to leave. On a busy machine that takes long, but not without a
 * message in between.
 */
static void RIPC__NO_ANALYSIS linger(struct ripc *ctx)
{
	uint64_t end, until, messages = 0;

	ripc__progress(ctx);
	if (ctx->hooks.now)
		return;
	until = ctx->now_ns + LINGER_NS;
	end = until + ctx->opt.peer_timeout_ms * RIPC__MS;
	while (lanes_unsent(ctx) && ctx->now_ns < until && ctx->now_ns < end) {
		if (messages != lanes_messages(ctx)) {
			messages = lanes_messages(ctx);
			until = ctx->now_ns + LINGER_NS;
		}
		ripc__unlock(ctx);
		usleep(200);
		ripc__lock(ctx);
		ripc__progress(ctx);
	}
}

/*
 * Answers the requests that were received, and sends the ACKs that wait for RELEASE: those of
 * messages that the application holds.
 */
static void send_answers(struct ripc *ctx)
{
	struct ripc__lane *lane;

	ripc__served_close(ctx);
	ripc__list_for_each_entry (lane, &ctx->lanes, link)
		if (lane->state == RIPC__LANE_UP)
			ripc__rndv_acks_send(lane);
}

static void send_byes(struct ripc *ctx)
{
	struct ripc__lane *lane;

	ripc__list_for_each_entry (lane, &ctx->lanes, link) {
		if (lane->state == RIPC__LANE_UP && lane->peer->lane == lane)
			ripc__reliable_send_ack(lane->peer, true);
		/*
		 * BYE promises that every message has its answer. A call whose answer has found no
		 * room in time ends with -EPIPE, when its caller finds the peer closed.
		 */
		if (lane->state == RIPC__LANE_UP && ripc__list_empty(&lane->control))
			ripc__lane_notify(lane, RIPC__BYE, 0, 0, 0, 0);
	}
}

/* No other thread is in the context any more. */
static void context_end(struct ripc *ctx, bool graceful)
{
	struct ripc_service *s, *stmp;
	struct ripc__list *n;

	if (graceful) {
		ripc__delayed_ack_flush(ctx);
		ripc__groups_leave(ctx);
		ripc__calls_close(ctx);
		send_answers(ctx);
		/* Waits for room, and may receive further messages. */
		linger(ctx);
		send_answers(ctx);
		send_byes(ctx);
	}
	while ((n = ripc__list_first(&ctx->lanes)))
		ripc__lane_close(ripc__list_entry(n, struct ripc__lane, link));
	ripc__calls_end_all(ctx);
	HASH_ITER (hh, ctx->services, s, stmp) {
		ripc__watches_service_ended(s);
		while (s->first) {
			struct ripc__message *m = s->first;

			s->first = m->next;
			ripc__message_release(m);
		}
		while ((n = ripc__list_first(&s->rndvs_in)))
			ripc__rndv_free(ripc__list_entry(n, struct ripc__rndv, link));
		HASH_DEL(ctx->services, s);
		ripc__service_free(s);
	}
	while ((n = ripc__list_first(&ctx->messages)))
		ripc__message_release(ripc__list_entry(n, struct ripc__message, held));
	while ((n = ripc__list_first(&ctx->requests)))
		ripc__request_free(ripc__list_entry(n, struct ripc_request, ctx_link));
	ripc__dead_lanes_free(ctx);
	ripc__groups_free(ctx);
	ripc__reliable_close(ctx);
	ripc__pairs_free(ctx);
	ripc__calls_free(ctx);
	ripc__peers_free(ctx);
}

static void free_messages(struct ripc__message *m)
{
	while (m) {
		struct ripc__message *next = m->next;

		free(m);
		m = next;
	}
}

/*
 * The part of closing that may wait, for an ensemble or a device. This function needs no lock,
 * because no other thread is in the context.
 */
static void RIPC__NO_ANALYSIS context_release(struct ripc *ctx, bool graceful)
{
	if (graceful)
		ripc__resolver_close(ctx->resolver);
	else
		ripc__resolver_kill(ctx->resolver);
	ripc__transports_close(ctx);
	free_messages(ctx->message_cache);
	free_messages(ctx->small_first);
	ripc__memory_fini(ctx);
}

/* Return: 0, or -EINVAL: another thread has closed it, or does. */
static int context_close(struct ripc *ctx, bool graceful)
{
	struct ripc **at;

	ripc__lock(ctx);
	if (ripc__check_open(ctx)) {
		ripc__unlock(ctx);
		return ripc__fail(-EINVAL, "the context is closed, or being closed");
	}
	ctx->closing = true;
	ripc__unlock(ctx);
	pthread_mutex_lock(&contexts_lock);
	if (default_context == ctx)
		default_context = NULL;
	pthread_mutex_unlock(&contexts_lock);

	ripc__lock(ctx);
	wake_all_waiters(ctx);
	ripc__unlock(ctx);
	ripc__progress_thread_stop(ctx);
	ripc__lock(ctx);
	context_end(ctx, graceful);
	ripc__unlock(ctx);
	pthread_rwlock_rdlock(&life_lock);
	pthread_mutex_lock(&contexts_lock);
	for (at = &contexts; *at != ctx; at = &(*at)->next)
		;
	*at = ctx->next;
	pthread_mutex_unlock(&contexts_lock);
	context_release(ctx, graceful);
	context_free(ctx);
	pthread_rwlock_unlock(&life_lock);
	return 0;
}

int ripc_close(struct ripc *ctx)
{
	if (!ctx) {
		pthread_mutex_lock(&contexts_lock);
		ctx = default_context;
		default_context = NULL;
		pthread_mutex_unlock(&contexts_lock);
		if (!ctx)
			return ripc__fail(-EINVAL, "there is no default context to close");
	}
	/*
	 * In a forked child its descriptors are closed already; its memory is the parent's
	 * business.
	 */
	if (ctx->owner && !ripc__is_owner(ctx))
		return 0;
	return context_close(ctx, true);
}

void ripc__kill(struct ripc *ctx)
{
	context_close(ctx, false);
}
