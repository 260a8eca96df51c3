/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/peer/attempt.h"
#include "base/text.h"
#include "core/peer/lane.h"
#include "core/peer/path.h"
#include "core/progress/transports.h"

#include <stdio.h>
#include <stdlib.h>

void ripc__attempts_clear(struct ripc__peer *p)
{
	ripc__list_free(&p->lists->attempts, struct ripc__attempt, link);
}

static void attempt_free(struct ripc__attempt *a)
{
	ripc__list_del(&a->link);
	free(a);
}

void ripc__attempts_clear_tp(struct ripc__peer *p, unsigned tp)
{
	struct ripc__attempt *a, *tmp;

	ripc__list_for_each_entry_safe (a, tmp, &p->lists->attempts, link)
		if (a->tp == tp)
			attempt_free(a);
}

void ripc__attempt_add(struct ripc__peer *p, unsigned path_index, unsigned tp, bool same_host,
		       const char *why)
{
	struct ripc__peer_lists *lists = ripc__peer_lists(p);
	struct ripc__attempt *a = lists ? malloc(sizeof(*a) + strlen(why) + 1) : NULL;
	struct ripc__attempt *old, *tmp;

	ripc__list_for_each_entry_safe (old, tmp, &p->lists->attempts, link)
		if (old->path_index == path_index)
			attempt_free(old);
	if (!a)
		return;
	a->path_index = path_index;
	a->tp = tp;
	a->same_host = same_host;
	strcpy(a->why, why);
	ripc__list_for_each_entry (old, &p->lists->attempts, link)
		if (same_host == old->same_host ? path_index < old->path_index : same_host)
			break;
	ripc__list_add(&old->link, &a->link);
}

bool ripc__attempt_failed_over(const struct ripc__peer *p, unsigned tp)
{
	const struct ripc__attempt *a;

	ripc__list_for_each_entry (a, &p->lists->attempts, link)
		if (a->tp == tp)
			return true;
	return false;
}

/* A text buffer that several entries share. */
struct text {
	char *to;
	size_t len, at;
	unsigned left; /* entries that follow */
};

static void append_entry(struct text *t, const char *name, const char *why)
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

	addr = ripc__peer_path(ctx, p, p->out_path, &tp, &addrlen);
	if (addr && tp == p->out->tp)
		ctx->tp[tp].ops->describe(addr, addrlen, text, len);
	else
		snprintf(text, len, "a former address");
}

/* Writes the attempt in progress, unless this path failed before: that cause is more useful. */
static bool current_attempt(struct ripc *ctx, const struct ripc__peer *p, char *text, size_t len)
{
	const struct ripc__attempt *a;
	char addr[96];

	if (!p->out)
		return false;
	ripc__list_for_each_entry (a, &p->lists->attempts, link)
		if (a->path_index == p->out_path)
			return false;
	ripc__attempt_address(ctx, p, addr, sizeof(addr));
	snprintf(text, len, "no answer from %s yet, after %" PRIu64 " ms", addr,
		 (ripc__now(ctx) - p->out->last_rx_ns) / RIPC__MS);
	return true;
}

void ripc__peer_addrs_text(const struct ripc *ctx, const struct ripc__peer *p, char *text,
			   size_t len, size_t at)
{
	size_t n;

	for (size_t i = 0; i < p->addrs_len; i += 3 + n) {
		const uint8_t *addr = p->addrs + i;
		char one[96];

		n = ripc__get_le16(addr + 1);
		ripc__transport_describe(ctx->hooks.transports, addr[0], addr + 3, n, one,
					 sizeof(one));
		at = ripc__append(text, len, at, "%s%s", i ? ", " : "", one);
	}
}

static void no_common_transport(const struct ripc *ctx, const struct ripc__peer *p, struct text *t)
{
	char why[400] = "";
	size_t at = 0;

	for (unsigned i = 0; i < ctx->ntp; i++)
		if (ctx->tp[i].t && !(ctx->tp[i].limits.caps & RIPC__CAP_SELF))
			at = ripc__append(why, sizeof(why), at, "%s%s", at ? ", " : "here ",
					  ctx->tp[i].ops->name);
	at = ripc__append(why, sizeof(why), at, "%s; the peer has ", at ? "" : "here none");
	ripc__peer_addrs_text(ctx, p, why, sizeof(why), at);
	append_entry(t, "no transport in common", why);
}

static void no_attempt_text(struct ripc *ctx, const struct ripc__peer *p, struct text *t)
{
	unsigned tp;
	size_t len;

	if (ripc__peer_path(ctx, p, 0, &tp, &len))
		append_entry(t, "not connected",
			     p->round == RIPC__ROUND_CROSSED ? "the peer opens the connection"
							     : "no attempt was made yet");
	else if (p->addrs_len)
		no_common_transport(ctx, p, t);
	else
		append_entry(t, "no address is known", "the peer had opened the connection");
}

size_t ripc__attempts_text(struct ripc *ctx, const struct ripc__peer *p, char *text, size_t len)
{
	char now[160];
	bool has_current = current_attempt(ctx, p, now, sizeof(now));
	struct text t = {.to = text, .len = len, .left = has_current};
	const struct ripc__attempt *a;

	ripc__list_for_each_entry (a, &p->lists->attempts, link)
		t.left++;
	if (!t.left) {
		t.left = 1;
		no_attempt_text(ctx, p, &t);
		return t.at;
	}
	ripc__list_for_each_entry (a, &p->lists->attempts, link) {
		if (has_current && !a->same_host) {
			append_entry(&t, ctx->tp[p->out->tp].ops->name, now);
			has_current = false;
		}
		append_entry(&t, ctx->tp[a->tp].ops->name, a->why);
	}
	if (has_current)
		append_entry(&t, ctx->tp[p->out->tp].ops->name, now);
	return t.at;
}
