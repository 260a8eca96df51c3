/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/peer/attempt.h"
#include "core/peer/lane.h"
#include "core/context/transports.h"

#include <stdio.h>
#include <stdlib.h>

void ripc__attempts_clear(struct ripc__peer *p)
{
	struct ripc__list *n;

	while ((n = ripc__list_first(&p->attempts))) {
		ripc__list_del(n);
		free(ripc__list_entry(n, struct ripc__attempt, link));
	}
}

void ripc__attempts_over(struct ripc__peer *p, unsigned tp)
{
	struct ripc__list *n, *tmp;

	ripc__list_for_each_safe (n, tmp, &p->attempts) {
		struct ripc__attempt *a = ripc__list_entry(n, struct ripc__attempt, link);

		if (a->tp != tp)
			continue;
		ripc__list_del(n);
		free(a);
	}
}

void ripc__attempt_add(struct ripc__peer *p, unsigned way, unsigned tp, bool near, const char *why)
{
	struct ripc__attempt *a = malloc(sizeof(*a) + strlen(why) + 1);
	struct ripc__list *n, *tmp, *before = &p->attempts;

	ripc__list_for_each_safe (n, tmp, &p->attempts) {
		struct ripc__attempt *old = ripc__list_entry(n, struct ripc__attempt, link);

		if (old->way != way)
			continue;
		ripc__list_del(n);
		free(old);
	}
	if (!a)
		return;
	a->way = way;
	a->tp = tp;
	a->near = near;
	strcpy(a->why, why);
	ripc__list_for_each (n, &p->attempts) {
		const struct ripc__attempt *b = ripc__list_entry(n, struct ripc__attempt, link);

		if (near == b->near ? way < b->way : near) {
			before = n;
			break;
		}
	}
	ripc__list_add(before, &a->link);
}

bool ripc__attempted(const struct ripc__peer *p, unsigned tp)
{
	struct ripc__list *n;

	ripc__list_for_each (n, (struct ripc__list *)&p->attempts)
		if (ripc__list_entry(n, struct ripc__attempt, link)->tp == tp)
			return true;
	return false;
}

/* A text of entries that share its room. */
struct text {
	char *to;
	size_t len, at;
	unsigned left; /* entries to come */
};

static void entry(struct text *t, const char *name, const char *why)
{
	size_t share = (t->len - t->at) / (t->left ? t->left-- : 1);
	int n = snprintf(t->to + t->at, share, "%s%s: %s", t->at ? "; " : "", name,
			 ripc__strip_prefix(name, why));

	if (n > 0 && share)
		t->at += (size_t)n < share ? (size_t)n : share - 1;
}

void ripc__attempt_address(struct ripc *ctx, const struct ripc__peer *p, char *text, size_t len)
{
	const uint8_t *addr;
	size_t addrlen;
	unsigned tp;

	addr = ripc__peer_way(ctx, p, p->out_way, &tp, &addrlen);
	if (addr && tp == p->out->tp)
		ctx->tp[tp].ops->describe(addr, addrlen, text, len);
	else
		snprintf(text, len, "an address of before");
}

/* The attempt under way, unless its way has failed before: then that cause says more. */
static bool under_way(struct ripc *ctx, const struct ripc__peer *p, char *text, size_t len)
{
	struct ripc__list *n;
	char addr[96];

	if (!p->out)
		return false;
	ripc__list_for_each (n, (struct ripc__list *)&p->attempts)
		if (ripc__list_entry(n, struct ripc__attempt, link)->way == p->out_way)
			return false;
	ripc__attempt_address(ctx, p, addr, sizeof(addr));
	snprintf(text, len, "no answer from %s yet, after %llu ms", addr,
		 (unsigned long long)((ripc__now(ctx) - p->out->heard_ns) / RIPC__MS));
	return true;
}

static void nothing_tried(struct ripc *ctx, const struct ripc__peer *p, struct text *t)
{
	unsigned tp;
	size_t len;

	if (ripc__peer_way(ctx, p, 0, &tp, &len))
		entry(t, "not connected",
		      p->crossed ? "the peer connects by itself" : "no attempt was made yet");
	else if (p->addrs_len)
		entry(t, "no transport in common, here", ctx->opt.transports);
	else
		entry(t, "no address of it is known", "it had connected by itself");
}

size_t ripc__attempts_text(struct ripc *ctx, const struct ripc__peer *p, char *text, size_t len)
{
	char now[160];
	bool waits = under_way(ctx, p, now, sizeof(now));
	struct text t = {.to = text, .len = len, .left = waits};
	struct ripc__list *n;

	ripc__list_for_each (n, (struct ripc__list *)&p->attempts)
		t.left++;
	if (!t.left) {
		t.left = 1;
		nothing_tried(ctx, p, &t);
		return t.at;
	}
	ripc__list_for_each (n, (struct ripc__list *)&p->attempts) {
		const struct ripc__attempt *a = ripc__list_entry(n, struct ripc__attempt, link);

		if (waits && !a->near) {
			entry(&t, ctx->tp[p->out->tp].ops->name, now);
			waits = false;
		}
		entry(&t, ctx->tp[a->tp].ops->name, a->why);
	}
	if (waits)
		entry(&t, ctx->tp[p->out->tp].ops->name, now);
	return t.at;
}
