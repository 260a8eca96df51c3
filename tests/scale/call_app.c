/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The application of a host: it calls services, and answers the calls of its own. */
#include "call_host.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define LONG_BYTES 20000
#define WORDS      3 /* at the begin of each request and answer */

void call_app_enter(struct host *h)
{
	check(world.nbusy < 4, "too many applications wait");
	world.busy[world.nbusy++] = h;
	h->busy = true;
}

void call_app_leave(struct host *h)
{
	check(world.busy[--world.nbusy] == h, "applications wait in turn");
	h->busy = false;
}

void call_log_event(enum history_kind kind, uint64_t call, uint64_t life)
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

void call_over(struct open_call *call)
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
	call_join_audience(h, service);
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
		call_app_at(h, call->cancel_ns);
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
		call_app_at(h, h->call_ns);
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
	ck_assert_msg(!rc || rc == -ECANCELED || rc == -EPIPE || rc == -ESHUTDOWN,
		      "an answer returned %d: %s", rc, ripc_error_detail());
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
			call_app_at(h, h->receive_ns);
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
		call_log_event(HISTORY_EXECUTED, number, h->life);
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
		call_app_at(h, next);
}

void call_apps_run(void)
{
	size_t n = world.apps.n;

	/* An application that waits runs the others. */
	while (n-- && world.apps.n) {
		struct host *h = call_pop_any(&world.apps);

		h->app_queued = false;
		if (!h->ctx || h->resume_ns)
			continue;
		/* Its only thread waits in a call. */
		if (h->busy) {
			call_app_at(h, now_ns() + RIPC__MS);
			continue;
		}
		call_app_enter(h);
		h->acted = false;
		server_run(h);
		caller_run(h);
		call_app_leave(h);
		if (h->acted)
			call_poll_soon(h);
	}
}
