/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "call_history.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void history_add(struct history *h, const struct history_event *event)
{
	if (h->n == h->cap) {
		h->cap = h->cap ? 2 * h->cap : 1024;
		h->events = realloc(h->events, h->cap * sizeof(*h->events));
		if (!h->events)
			abort();
	}
	h->events[h->n++] = *event;
}

void history_free(struct history *h)
{
	free(h->events);
	*h = (struct history){0};
}

/* The events of one call, and the place for the first violation. */
struct checker {
	const struct history_event *const *events;
	size_t n;
	size_t violations;
	char *why;
	size_t len;
};

static int by_call_and_time(const void *a, const void *b)
{
	const struct history_event *x = *(const struct history_event *const *)a;
	const struct history_event *y = *(const struct history_event *const *)b;

	if (x->call != y->call)
		return x->call < y->call ? -1 : 1;
	if (x->at_ns != y->at_ns)
		return x->at_ns < y->at_ns ? -1 : 1;
	return x->kind < y->kind ? -1 : x->kind > y->kind;
}

static const char *const kinds[] = {"started", "executed", "ended", "killed"};

static void violation(struct checker *c, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* Describes the first violation, with all events of the call. */
static void violation(struct checker *c, const char *fmt, ...)
{
	size_t at;
	va_list ap;

	if (c->violations++ || !c->len)
		return;
	va_start(ap, fmt);
	vsnprintf(c->why, c->len, fmt, ap);
	va_end(ap);
	at = strlen(c->why);
	for (size_t i = 0; i < c->n && at < c->len; i++) {
		const struct history_event *e = c->events[i];

		at += (size_t)snprintf(
			c->why + at, c->len - at, "; %s at %llu ns (life %llu, result %d%s%s%s%s)",
			kinds[e->kind], (unsigned long long)e->at_ns, (unsigned long long)e->life,
			e->result, e->withdrawn ? ", withdrawn" : "", e->has_reply ? ", reply" : "",
			e->paused ? ", paused" : "", e->idempotent ? ", idempotent" : "");
	}
}

/* Whether the call was executed in this life of a server. */
static bool executed_by(const struct checker *c, uint64_t life)
{
	for (size_t i = 0; i < c->n; i++)
		if (c->events[i]->kind == HISTORY_EXECUTED && c->events[i]->life == life)
			return true;
	return false;
}

static void check_result(struct checker *c, const struct history_event *end, unsigned executions)
{
	unsigned long long call = end->call;

	if (end->has_reply) {
		if (end->result && !executions)
			violation(c, "refused: call %llu has error %d of a service, unexecuted",
				  call, end->result);
		if (!end->result && (end->answered != end->call || !executed_by(c, end->life)))
			violation(c, "answer: call %llu has the answer to call %llu of life %llu",
				  call, (unsigned long long)end->answered,
				  (unsigned long long)end->life);
		return;
	}
	switch (end->result) {
	case -ECANCELED:
		if (!end->withdrawn) {
			violation(c, "result: call %llu is cancelled, but not by its caller", call);
			break;
		}
		/* fallthrough */
	case -EHOSTUNREACH:
	case -ETIMEDOUT:
		if (executions)
			violation(c, "executed: call %llu ends with %d, executed %u times", call,
				  end->result, executions);
		break;
	case -EPIPE:
	case -ETIME:
	case -ESHUTDOWN:
		break;
	default:
		violation(c, "result: call %llu ends with %d", call, end->result);
		break;
	}
}

/* Checks one call. */
static void check_call(struct checker *c)
{
	const struct history_event *start = NULL, *end = NULL;
	unsigned long long call = c->events[0]->call;
	unsigned executions = 0, ends = 0;
	bool killed = false;
	uint64_t first_ns = UINT64_MAX;

	for (size_t i = 0; i < c->n; i++) {
		const struct history_event *e = c->events[i];

		switch (e->kind) {
		case HISTORY_STARTED:
			start = e;
			break;
		case HISTORY_EXECUTED:
			executions++;
			first_ns = e->at_ns < first_ns ? e->at_ns : first_ns;
			break;
		case HISTORY_ENDED:
			end = e;
			ends++;
			break;
		case HISTORY_KILLED:
			killed = true;
			break;
		}
	}
	if (!start) {
		violation(c, "unknown: call %llu was never started", call);
		return;
	}
	if (executions > 1 && !start->idempotent)
		violation(c, "twice: call %llu was executed %u times", call, executions);
	if (first_ns < start->at_ns)
		violation(c, "early: call %llu was executed before it started", call);
	if (ends > 1)
		violation(c, "ended-twice: call %llu ended %u times", call, ends);
	if (!end) {
		if (!killed)
			violation(c, "never-ended: call %llu did not end", call);
		return;
	}
	if (start->deadline_ns != UINT64_MAX && !end->paused &&
	    end->at_ns > start->deadline_ns + HISTORY_SLACK_NS)
		violation(c, "late: call %llu ended %llu ns after its deadline", call,
			  (unsigned long long)(end->at_ns - start->deadline_ns));
	check_result(c, end, executions);
}

size_t history_check(const struct history *h, char *why, size_t len)
{
	const struct history_event **order = malloc((h->n ? h->n : 1) * sizeof(*order));
	struct checker c = {.why = why, .len = len};

	if (!order)
		abort();
	if (len)
		why[0] = '\0';
	for (size_t i = 0; i < h->n; i++)
		order[i] = &h->events[i];
	qsort(order, h->n, sizeof(struct history_event *), by_call_and_time);
	for (size_t i = 0; i < h->n; i += c.n) {
		c.events = order + i;
		c.n = 1;
		while (i + c.n < h->n && order[i + c.n]->call == order[i]->call)
			c.n++;
		check_call(&c);
	}
	free(order);
	return c.violations;
}
