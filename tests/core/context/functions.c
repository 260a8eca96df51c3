/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/context/functions.h"

#define WINDOW 1000
#define FREE   2000

struct rig rig;
struct arguments a;

static struct ripc_request *asked;
static struct ripc_service *quiet; /* of context 1: nobody receives its messages */
static uint8_t *buf;

/* ---- the functions ---- */

static int pointer(const void *p)
{
	return p ? 0 : -errno;
}

/* A descriptor, or a number of services. */
static int number(int rc)
{
	return rc > 0 ? 0 : rc;
}

/* The message that a call may have stored is freed. */
static int message(int rc)
{
	if (a.out && a.result.message)
		ripc_message_free(a.result.message);
	a.result.message = NULL;
	return rc;
}

static void ignore(void *arg, const struct ripc_service_info *info)
{
	(void)arg;
	(void)info;
}

#define CALL(name, expression)       \
	static int call_##name(void) \
	{                            \
		return expression;   \
	}
#define SEND(name) CALL(name, ripc_##name(a.s, a.dest, a.items, a.nitems, a.options, a.timeout_ms))

CALL(service_register, ripc_service_register(a.ctx, a.id, a.flags, a.out))
CALL(register_name, ripc_register_name(a.ctx, a.name, a.flags, a.out))
CALL(service_list, number(ripc_service_list(a.ctx, a.fn, NULL, a.timeout_ms)))
CALL(completion_fd, number(ripc_completion_fd(a.ctx)))
CALL(completion_next, ripc_completion_next(a.ctx, a.out, a.timeout_ms))
CALL(buf_alloc, pointer(ripc_buf_alloc(a.ctx, a.len)))
CALL(buf_alloc_for, pointer(ripc_buf_alloc_for(a.ctx, a.len, a.dest)))
CALL(buf_realloc, pointer(buf = ripc_buf_realloc(a.ctx, buf, a.len)))
CALL(buf_free, ripc_buf_free(a.ctx, buf))
CALL(buf_register, ripc_buf_register(a.ctx, a.memory ? a.memory + FREE : NULL, a.len))
CALL(buf_unregister, ripc_buf_unregister(a.ctx, a.memory))
CALL(window_add, ripc_window_add(a.ctx, NULL, a.memory, a.len))
CALL(window_add_service, ripc_window_add(NULL, a.s, a.memory, a.len))
CALL(window_remove, ripc_window_remove(a.ctx, a.memory ? a.memory + WINDOW : NULL))
CALL(group_stats, ripc_group_stats(a.ctx, a.group, NULL, a.out))
CALL(route_lookup, ripc_route_lookup(a.ctx, a.dest, a.out, a.timeout_ms))
CALL(route_get, ripc_route_get(a.ctx, a.dest, a.out))
CALL(route_limits, ripc_route_limits(a.ctx, a.dest, a.out))
CALL(context_stats, ripc_context_stats(a.ctx, a.out))
CALL(peer_stats, ripc_peer_stats(a.ctx, a.dest, a.out))
SEND(send_short)
SEND(send_long)
SEND(send)
CALL(send_async, ripc_send_async(a.s, a.dest, a.items, a.nitems, a.options, a.out))
CALL(flush, ripc_flush(a.s, a.dest, a.timeout_ms))
CALL(call, message(ripc_call(a.s, a.dest, a.items, a.nitems, a.options, a.out, a.timeout_ms)))
CALL(call_start, ripc_call_start(a.s, a.dest, a.items, a.nitems, a.options, a.timeout_ms, a.out))
CALL(receive, message(ripc_receive(a.s, a.out, a.timeout_ms)))
CALL(watch, ripc_watch(a.s, a.dest))
CALL(unwatch, ripc_unwatch(a.s, a.dest))
CALL(group_join, ripc_group_join(a.s, a.group == GROUP ? GROUP + 1 : a.group, a.timeout_ms))
CALL(group_leave, ripc_group_leave(a.s, a.group))
CALL(group_send, ripc_group_send(a.s, a.group, a.items, a.nitems, a.options, a.timeout_ms))
CALL(service_fd, number(ripc_service_fd(a.s)))
CALL(service_stats, ripc_service_stats(a.s, a.out))
CALL(service_unregister, ripc_service_unregister(a.s))
CALL(reply, ripc_reply(a.question, a.items, a.nitems, a.timeout_ms))
CALL(reply_start, ripc_reply_start(a.question, a.items, a.nitems, a.options, a.out))
CALL(reply_error, ripc_reply_error(a.question, EACCES))
CALL(message_cancelled, ripc_message_cancelled(a.question))
CALL(message_detach, pointer(ripc_message_detach(a.message, 0)))
CALL(request_test, ripc_request_test(a.request))
CALL(request_wait, ripc_request_wait(a.request, a.timeout_ms))
CALL(request_cancel, ripc_request_cancel(a.request, a.timeout_ms))
CALL(call_wait, ripc_call_wait(a.call, NULL, a.timeout_ms))

const struct function functions[FUNCTIONS] = {
#define F(name, ...)                            \
	{                                       \
#name, call_##name, __VA_ARGS__ \
	}
	F(service_register, CONTEXT, OUT, 0, 0, RIPC_TAKEOVER),
	F(register_name, CONTEXT, OUT, 0, 0, RIPC_TAKEOVER),
	F(service_list, CONTEXT, 0, 0, -EINVAL, 0),
	F(completion_fd, CONTEXT, 0, 0, 0, 0),
	F(completion_next, CONTEXT, OUT | STRUCT | TIMEOUT | ENDLESS, -ETIMEDOUT, -EAGAIN, 0),
	F(buf_alloc, CONTEXT, 0, 0, 0, 0),
	F(buf_alloc_for, CONTEXT, 0, 0, 0, 0),
	F(buf_realloc, CONTEXT, 0, 0, 0, 0),
	F(buf_free, CONTEXT, 0, 0, 0, 0),
	F(buf_register, CONTEXT, MEMORY, 0, 0, 0),
	F(buf_unregister, CONTEXT, MEMORY, 0, 0, 0),
	F(window_add, CONTEXT, MEMORY, 0, 0, 0),
	F(window_add_service, SERVICE, MEMORY, 0, 0, 0),
	F(window_remove, CONTEXT, MEMORY, 0, 0, 0),
	F(group_stats, CONTEXT, OUT | STRUCT, 0, 0, 0),
	F(route_lookup, CONTEXT, STRUCT | DEST | TIMEOUT, 0, 0, 0),
	F(route_get, CONTEXT, OUT | STRUCT, 0, 0, 0),
	F(route_limits, CONTEXT, OUT | STRUCT, 0, 0, 0),
	F(context_stats, CONTEXT, OUT | STRUCT, 0, 0, 0),
	F(peer_stats, CONTEXT, OUT | STRUCT, 0, 0, 0),
	F(send_short, SERVICE, SENDS, 0, 0, RIPC_RELIABLE | RIPC_MORE),
	F(send_long, SERVICE, SENDS, 0, -EAGAIN, RIPC_RELIABLE | RIPC_MORE | RIPC_FREE_ITEMS),
	F(send, SERVICE, SENDS, 0, 0, RIPC_RELIABLE | RIPC_MORE),
	F(send_async, SERVICE, OUT | ITEMS | SEND_OPTIONS | DEST, 0, 0,
	  RIPC_RELIABLE | RIPC_MORE | RIPC_FREE_ITEMS),
	F(flush, SERVICE, DEST | TIMEOUT, 0, 0, 0),
	F(call, SERVICE, OUT | ITEMS | CALL_OPTIONS | DEST | TIMEOUT, 0, -ETIMEDOUT,
	  RIPC_IDEMPOTENT),
	F(call_start, SERVICE, OUT | ITEMS | CALL_OPTIONS | DEST, 0, 0, RIPC_IDEMPOTENT),
	F(receive, SERVICE, OUT | TIMEOUT, 0, -EAGAIN, 0),
	F(watch, SERVICE, DEST, 0, 0, 0),
	F(unwatch, SERVICE, DEST, 0, 0, 0),
	F(group_join, SERVICE, TIMEOUT, 0, -EAGAIN, 0),
	F(group_leave, SERVICE, 0, 0, 0, 0),
	F(group_send, SERVICE, ITEMS | SEND_OPTIONS | TIMEOUT, 0, 0, RIPC_MORE),
	F(service_fd, SERVICE, 0, 0, 0, 0),
	F(service_stats, SERVICE, OUT | STRUCT, 0, 0, 0),
	F(service_unregister, SERVICE, 0, 0, 0, 0),
	F(reply, MESSAGE, ITEMS | TIMEOUT, 0, 0, 0),
	F(reply_start, MESSAGE, OUT | ITEMS | SEND_OPTIONS, 0, 0, 0),
	F(reply_error, MESSAGE, 0, 0, 0, 0),
	F(message_cancelled, MESSAGE, 0, 0, 0, 0),
	F(message_detach, MESSAGE, 0, 0, 0, 0),
	F(request_test, REQUEST, 0, -EINPROGRESS, -EINPROGRESS, 0),
	F(request_wait, REQUEST, TIMEOUT | ENDLESS, -ETIMEDOUT, -ETIMEDOUT, 0),
	F(request_cancel, REQUEST, TIMEOUT, -ECANCELED, -ECANCELED, 0),
	F(call_wait, REQUEST, TIMEOUT | ENDLESS, -EINPROGRESS, -EINPROGRESS, 0),
};

/* ---- the world ---- */

/* Service 1 answers requests and drops other messages. */
static void serve(void *arg)
{
	struct ripc_message *m;

	(void)arg;
	while (!ripc_receive(rig.s[1], &m, 0)) {
		if (m->call)
			ripc_reply(m, m->items, 1, 0);
		ripc_message_free(m);
	}
}

/* Valid arguments for a function. */
void arguments(const struct function *f)
{
	for (unsigned i = 0; i <= RIPC_ITEMS_MAX; i++)
		a.item[i] = (struct iovec){"x", 1};
	memset(&a.result, 0, sizeof(a.result));
	memset(&a.option, 0, sizeof(a.option));
	a.result.size = f->has & STRUCT ? sizeof(struct ripc_route) : 0;
	a.option.size = f->has & CALL_OPTIONS ? sizeof(a.option.call) : sizeof(a.option.send);
	a.ctx = rig.ctx[0];
	a.s = rig.s[0];
	a.id = 1;
	a.dest = RIG_ID(1);
	a.group = GROUP;
	a.items = a.item;
	a.nitems = 1;
	a.flags = 0;
	a.options = &a.option;
	a.out = &a.result;
	a.memory = a.bytes;
	a.len = 100;
	a.request = &a.pending;
	a.call = &a.pending_call;
	a.name = "name";
	a.fn = ignore;
	a.timeout_ms = 1000;
}

void open_world(const struct function *f)
{
	struct iovec one = {"x", 1};

	rig_start(&rig, 2, NULL);
	OK(ripc_service_register(rig.ctx[1], 2000, 0, &quiet));
	OK(ripc__sim_actor(rig.net, serve, NULL));
	rig_connect(&rig, 0, 1);
	buf = ripc_buf_alloc(rig.ctx[0], 100);
	OK(ripc_buf_register(rig.ctx[0], a.bytes, 100));
	OK(ripc_buf_register(rig.ctx[0], a.bytes + WINDOW, 100));
	OK(rig_long(&rig, 1, 0, 300, 1, 5000));
	a.message = rig_take(&rig, 0);
	ck_assert_uint_eq(a.message->placement[0], RIPC_IN_POOL);
	OK(ripc_window_add(rig.ctx[0], NULL, a.bytes + WINDOW, 100));
	OK(ripc_call_start(quiet, RIG_ID(0), &one, 1, NULL, -1, &asked));
	a.question = rig_take(&rig, 0);
	OK(ripc_group_join(rig.s[0], GROUP, 5000));
	OK(ripc_send_async(rig.s[0], 4711, &one, 1, NULL, &a.pending));
	OK(ripc_call_start(rig.s[0], 2000, &one, 1, NULL, -1, &a.pending_call));
	if (f->call == call_receive)
		OK(rig_short(&rig, 1, 0, 1, 1, 0));
	arguments(f);
}

void stop_serving(void)
{
	ripc__sim_actor_remove(rig.net, serve, NULL);
}

void close_world(void)
{
	stop_serving();
	if (rig.ctx[0]) {
		ripc_message_free(a.message);
		ripc_message_free(a.question);
	}
	rig_end(&rig);
}

static size_t length(const struct ripc__list *l)
{
	const struct ripc__list *n;
	size_t count = 0;

	ripc__list_for_each (n, l)
		count++;
	return count;
}

struct state state_of_caller(void)
{
	const struct ripc *ctx = rig.ctx[0];
	struct state now = {
		.services = HASH_COUNT(ctx->services),
		.requests = length(&ctx->requests),
		.messages = length(&ctx->messages),
		.completions = length(&ctx->completions),
		.regions = ctx->memory->nregions,
		.windows = ctx->memory->nrecv_windows,
		.returns = ctx->memory->return_ids.count,
		.calls = ctx->call_slots,
		.dests = HASH_COUNT(ctx->dests),
		.groups = HASH_COUNT(ctx->groups),
	};

	now.stats = ctx->stats;
	for (const struct ripc_service *s = ctx->services; s; s = s->hh.next)
		ripc__service_add_stats(s, &now.stats);
	return now;
}
