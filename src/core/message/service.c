/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/call/call.h"
#include "core/message/pair.h"
#include "core/message/service.h"
#include "core/watch/watch.h"
#include "core/rendezvous/delayed_ack.h"
#include "core/memory/buffer.h"
#include "core/group/group.h"
#include "core/peer/lane.h"
#include "core/memory/message.h"
#include "core/peer/peer.h"
#include "core/rendezvous/arriving.h"
#include "core/rendezvous/receiver.h"
#include "core/rendezvous/sender.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

#define RANDOM_TRIES      8
#define SPLITS_LOGGED_MAX 16 /* of one service */
/* wait for the answer of a holder on this host, which identifies it */
#define HOLDER_QUERY_MS 500
/* time that a closing service waits for peers to release its memory */
#define RELEASE_TIMEOUT_MS 100

void ripc__service_registered(struct ripc *ctx, uint64_t id)
{
	struct ripc_service *s = ripc__service_any(ctx, id);

	if (ripc__group_is_name(id)) {
		ripc__group_claimed(ctx, id);
		return;
	}
	if (!s || !s->registering)
		return;
	s->registering = false;
	if (s->state == RIPC__SERVICE_CLAIMING)
		ripc__service_set_state(s, RIPC__SERVICE_ACTIVE);
	ripc__wake(ctx, &s->receivers);
}

/*
 * Another context has the id now: it took it over, or has held it for longer. The service still
 * receives messages that are queued or have begun to arrive, and acknowledges them. It refuses
 * later ones, and their senders resolve the service again.
 */
static void service_taken_over(struct ripc_service *s, enum ripc_log_level level, const char *text)
{
	ripc__service_set_state(s, RIPC__SERVICE_TAKEN_OVER);
	ripc__delayed_ack_flush(s->ctx);
	s->stats.services_lost++;
	s->ctx->stats.services_lost++;
	free(s->conflict);
	s->conflict = strdup(text);
	ripc__flows_drop(s->ctx, s);
	ripc__rndv_refuse_waiting(s);
	/* Own messages do not wait for credit here. */
	ripc__dest_withdrawn(s->ctx, s->id, s->ctx->instance);
	ripc__watchers_notify(s->ctx, s->id);
	ripc__calls_service_ended(s);
	ripc__watches_service_ended(s);
	ripc__service_check_over(s);
	ripc__wake_all(s->ctx);
	ripc__log(level, "%s was taken over: %s", ripc__service_text(s->ctx, s->id), text);
}

void ripc__service_split(struct ripc *ctx, uint64_t id, const char *text)
{
	struct ripc_service *s = ripc__service_any(ctx, id);

	if (!s)
		return;
	ctx->stats.service_conflicts++;
	/* Without keys any host could fill the log otherwise. */
	if (s->stats.service_conflicts++ < SPLITS_LOGGED_MAX)
		ripc__log(RIPC_LOG_WARN,
			  "%s has, or had, another holder: the network was split: %s",
			  ripc__service_text(ctx, id), text);
}

void ripc__service_conflict(struct ripc *ctx, uint64_t id, bool taken_over, const char *text)
{
	struct ripc_service *s = ripc__service_any(ctx, id);

	if (ripc__group_is_name(id)) {
		ripc__group_conflict(ctx, id);
		return;
	}
	if (!s)
		return;
	s->registering = false;
	if (s->state == RIPC__SERVICE_CLAIMING) {
		free(s->conflict);
		s->conflict = strdup(text);
		ripc__service_set_state(s, RIPC__SERVICE_CONFLICT);
		ripc__wake(ctx, &s->receivers);
	} else if (s->state != RIPC__SERVICE_ACTIVE) {
		return;
	} else if (taken_over) {
		service_taken_over(s, RIPC_LOG_INFO, text);
	} else {
		char line[512];

		/* A split network or lost probes hid the other holder: the earlier one keeps it. */
		snprintf(line, sizeof(line),
			 "its other holder has held it for longer, and was hidden by a split "
			 "network or lost probes: %s",
			 text);
		service_taken_over(s, RIPC_LOG_ERROR, line);
	}
}

static uint64_t random_id(struct ripc *ctx)
{
	uint64_t id = 0;

	if (ctx->hooks.now)
		id = ctx->hooks.random(ctx->hooks.arg);
	else if (getrandom(&id, sizeof(id), 0) != sizeof(id))
		return 0;
	/* Above them are the names of groups, and RIPC_ANY_ID. */
	return (id | RIPC_ID_LIMIT) & ~RIPC_GROUP_LIMIT;
}

struct wanted {
	uint64_t id;
	const char *name; /* NULL: none */
	enum ripc__register_how how;
};

/* Explains that this context holds the id itself. */
static int fail_own(struct ripc *ctx, const struct wanted *w)
{
	const char *held = ripc__resolver_own_name(ctx->resolver, w->id);
	char theirs[RIPC__NAME_MAX + 1];

	if (!w->name || !held || !strcmp(w->name, held))
		return ripc__fail(-EADDRINUSE, "%s is held by this context itself",
				  ripc__service_text(ctx, w->id));
	ripc__name_text(held, theirs);
	return ripc__fail(-EADDRINUSE,
			  "%s is held under another name with the same id, \"%s\" by this context "
			  "itself",
			  ripc__id_text(w->id, w->name), theirs);
}

/*
 * Claims one id and waits for REGISTERED or CONFLICT, which the resolver reports within
 * resolve_timeout_ms. *local: set if a process of this host has the name. Lock held.
 */
static int claim(struct ripc *ctx, const struct wanted *w, bool *local, struct ripc_service **out)
{
	const uint64_t id = w->id;
	struct ripc_service *s;
	int rc;

	/* Read the replies that are here: they are about a former holder and answer no claim. */
	ripc__resolver_readable(ctx);
	ripc__progress(ctx);
	if (ripc__service_any(ctx, id))
		return fail_own(ctx, w);
	s = ripc__handle_alloc(sizeof(*s));
	if (!s)
		return ripc__fail(-ENOMEM, "no memory for %s", ripc__service_text(ctx, id));
	s->id = id;
	s->ctx = ctx;
	s->ready.fd = -1;
	ripc__service_set_state(s, RIPC__SERVICE_CLAIMING);
	s->registering = true;
	s->calls = 1;
	ctx->nawaited++;
	ripc__list_init(&s->rndvs_in);
	ripc__list_init(&s->waiting);
	ripc__list_init(&s->watches);
	ripc__list_init(&s->windows);
	ripc__waitq_init(&s->receivers);
	ripc__waitq_init(&s->drained);
	HASH_ADD(hh, ctx->services, id, sizeof(s->id), s);
	if (!s->hh.tbl) {
		ctx->nawaited--;
		ripc__service_free(s);
		return ripc__fail(-ENOMEM, "no memory for %s", ripc__service_text(ctx, id));
	}
	rc = ripc__resolver_register(ctx->resolver, w->id, w->name, w->how, ripc__now(ctx));
	*local = rc == -EADDRINUSE;
	/* The leader, even if it sleeps, runs the resolver from now on. */
	ripc__resolver_await(ctx);
	ripc__timer_at(ctx, 0);
	if (ripc__progress_state(&ctx->progress).leader != RIPC__LEADER_NONE)
		ripc__progress_request(ctx);
	/* An id that nobody else can hold is registered already. */
	if (!rc)
		ripc__progress(ctx);
	while (!rc && s->registering && !ctx->closing)
		ripc__wait(ctx, &s->receivers, RIPC__NEVER);
	if (!rc && s->state == RIPC__SERVICE_CLAIMING)
		rc = ripc__fail(-ESHUTDOWN, "the context is being closed");
	if (!rc && s->state == RIPC__SERVICE_CONFLICT)
		rc = ripc__fail(-EADDRINUSE, "%s",
				s->conflict ? s->conflict : "another service holds the id");
	else if (rc && rc != -EADDRINUSE)
		ripc__resolver_unregister(ctx->resolver, id, ripc__now(ctx));
	s->calls--;
	ctx->nawaited--;
	if (rc) {
		HASH_DEL(ctx->services, s);
		ripc__service_free(s);
		return rc;
	}
	*out = s;
	return 0;
}

/*
 * Asks the holder of an id, a process of this host, for its identity, for ripc_error_detail().
 * The lock is free meanwhile.
 */
static void query_holder(struct ripc *ctx, const struct wanted *w)
{
	int fd = ctx->hooks.now ? -1 : ripc__resolver_ask_holder(ctx->resolver, w->id);
	struct pollfd pfd = {.fd = fd, .events = POLLIN};

	if (fd < 0)
		return;
	ripc__lock_suspend(ctx);
	poll(&pfd, 1, HOLDER_QUERY_MS);
	ripc__lock_resume(ctx);
	ripc__resolver_holder_answer(ctx->resolver, fd, w->id, w->name);
}

int ripc__service_register(struct ripc *ctx, uint64_t id, const char *name, unsigned flags,
			   struct ripc_service **service)
{
	struct wanted w = {.id = id, .name = name};
	bool any = id == RIPC_ANY_ID;
	bool same_host = false;
	int rc;

	w.how = any                     ? RIPC__REGISTER_RANDOM
		: flags & RIPC_TAKEOVER ? RIPC__REGISTER_TAKE
					: RIPC__REGISTER;
	if (!service)
		return ripc__fail(-EINVAL, "nowhere to store the service");
	if (flags & ~(unsigned)RIPC_TAKEOVER)
		return ripc__fail(
			-EOPNOTSUPP,
			"flags 0x%x: a registration takes no other than RIPC_TAKEOVER (0x%x)",
			flags, RIPC_TAKEOVER);
	if (!any && (!id || id >= RIPC_ID_LIMIT))
		return ripc__fail(
			-EINVAL,
			"service id %" PRIu64 ": must be from 1 to 2^63 - 1, or RIPC_ANY_ID", id);
	ripc__lock(ctx);
	for (unsigned tries = 0;; tries++) {
		rc = ripc__check_open(ctx);
		if (!rc && any && !(w.id = random_id(ctx)))
			rc = ripc__fail(-EIO, "the kernel's random source failed");
		if (!rc)
			rc = claim(ctx, &w, &same_host, service);
		if (rc != -EADDRINUSE || !any || tries >= RANDOM_TRIES)
			break;
	}
	if (same_host)
		query_holder(ctx, &w);
	if (!rc)
		ripc__log(RIPC_LOG_DEBUG, "%s is registered", ripc__service_text(ctx, w.id));
	ripc__unlock(ctx);
	return rc;
}

uint64_t ripc_id(const char *name)
{
	size_t len = name ? strnlen(name, RIPC__NAME_MAX + 1) : 0;
	const char *fault = name ? ripc__name_fault(name, len) : "there is none";

	if (!fault) {
		uint64_t id = ripc__name_id(name, len);

		ripc__name_remember(id, name, len);
		return id;
	}
	ripc__fail(-EINVAL, "name of a service: %s; it must have 1 to %u bytes of UTF-8", fault,
		   RIPC__NAME_MAX);
	return 0;
}

/*
 * Ends what can be ended at once: waiting calls, queued messages, requests, arrivals, return
 * buffers.
 */
static void service_stop(struct ripc_service *s)
{
	struct ripc *ctx = s->ctx;
	struct ripc__message *m;
	struct ripc_request *request, *next_request;
	struct ripc__local_return *buffer, *next_buffer;

	ripc__delayed_ack_flush(ctx);
	ripc__service_set_state(s, RIPC__SERVICE_CLOSING);
	ripc__wake(ctx, &s->receivers);
	/* Senders wait elsewhere, on their destination. */
	for (struct ripc__dest *d = ctx->dests; d; d = d->hh.next)
		if (d->users)
			ripc__dest_wake(ctx, d);
	ripc__pairs_service_stopped(s);
	ripc__calls_service_ended(s);
	ripc__watches_service_ended(s);
	ripc__list_for_each_entry_safe (request, next_request, &ctx->requests, ctx_link)
		if (request->service == s && request->state != RIPC__REQUEST_DONE)
			ripc__request_abort(request);
	ripc__rndv_service_gone(s);
	ripc__groups_service_gone(s);
	while ((m = ripc__service_pop(s))) {
		ctx->stats.dropped_unread++;
		s->stats.dropped_unread++;
		ripc__message_release(m);
	}
	ripc__flows_drop(ctx, s);
	ripc__watchers_notify(ctx, s->id);
	ripc__list_for_each_entry_safe (buffer, next_buffer, &ctx->memory->returns, link)
		if (buffer->service == s)
			ripc__local_return_revoke(ctx, buffer);
}

static bool returns_left(const struct ripc_service *s)
{
	const struct ripc__local_return *r;

	ripc__list_for_each_entry (r, &s->ctx->memory->returns, link)
		if (r->service == s)
			return true;
	return false;
}

/* Closes the lanes over which a silent peer could still reach memory of the service. */
static void close_busy_lanes(struct ripc_service *s)
{
	struct ripc *ctx = s->ctx;
	struct ripc__lane *lane, *tmp;

	ripc__list_for_each_entry_safe (lane, tmp, &ctx->lanes, link) {
		const struct ripc__local_return *buffer;
		const struct ripc_request *request;
		const struct ripc__rndv *rndv;
		bool used = false;

		ripc__list_for_each_entry (buffer, &ctx->memory->returns, link)
			used |= buffer->service == s && buffer->lane == lane;
		ripc__list_for_each_entry (request, &ctx->requests, ctx_link)
			used |= request->service == s && request->lane == lane &&
				request->state != RIPC__REQUEST_DONE;
		ripc__list_for_each_entry (rndv, &s->rndvs_in, link)
			used |= rndv->lane == lane;
		if (used)
			ripc__lane_fail(lane, -ETIMEDOUT,
					"the peer did not release the memory of a closed service");
	}
}

int ripc_service_unregister(struct ripc_service *s)
{
	struct ripc *ctx;
	uint64_t deadline;
	bool forced = false;
	int rc;

	rc = ripc__service_context(s, &ctx);
	if (rc)
		return rc;
	ripc__lock(ctx);
	if (!ripc__service_open(s) || ctx->closing) {
		/* Another thread does that, or has done it. */
		rc = ctx->closing ? ripc__shut_down() : ripc__service_closed_error(s);
		ripc__unlock(ctx);
		return rc;
	}
	ripc__resolver_unregister(ctx->resolver, s->id, ripc__now(ctx));
	service_stop(s);
	deadline = ripc__deadline(ctx, RELEASE_TIMEOUT_MS);
	while (s->calls || s->nrequests || !ripc__list_empty(&s->rndvs_in) || returns_left(s)) {
		if (ripc__wait(ctx, &s->drained, forced ? RIPC__NEVER : deadline) == -ETIMEDOUT) {
			close_busy_lanes(s);
			forced = true;
		}
	}
	ripc__recv_windows_drop(s);
	ripc__pairs_service_ended(s);
	HASH_DEL(ctx->services, s);
	/* Its flows are not needed any more. */
	ripc__trim_plan(ctx);
	ripc__service_free(s);
	ripc__unlock(ctx);
	return 0;
}

uint64_t ripc_service_id(const struct ripc_service *service)
{
	return service ? __atomic_load_n(&service->id, __ATOMIC_RELAXED) : 0;
}

int RIPC__NO_ANALYSIS ripc_service_fd(struct ripc_service *s)
{
	struct ripc *ctx;
	int rc = ripc__service_context(s, &ctx);

	if (!rc)
		rc = ripc__service_lock(s, ctx);
	if (rc)
		return rc;
	rc = ripc__ready_fd_open(ctx, &s->ready, s->queued || ripc__service_over(s));
	if (rc < 0)
		ripc__fail(rc, "no descriptor for %s: %s", ripc__service_text(ctx, s->id),
			   ripc_strerror(rc));
	ripc__service_unlock(s, ctx);
	return rc;
}
