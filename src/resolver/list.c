/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The list of all services: our LIST with its answers, and our answers to LISTs of others. */
#include "resolver/state.h"

#include "base/clock.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SECOND_NS (1000 * RIPC__MS)

enum {
	ENTRIES_MAX = 62,  /* services in one page */
	PAGE_DELAY_MS = 1, /* until the answer to a LIST that only this context got */
	RETRY_MS = 20,     /* until a page is asked for again; doubled RETRY_DOUBLED times */
	RETRY_DOUBLED = 3
};

static void send_list(struct ripc__rcore *core, const struct ripc__backend_addr *to, uint64_t first,
		      uint64_t now_ns)
{
	struct ripc__resolver_msg msg = {
		.kind = RIPC__RESOLVE_LIST, .service = first, .nonce = core->list_nonce};

	ripc__rcore_own_record(core, NULL, now_ns, &msg.record);
	ripc__rcore_send(core, to, &msg);
}

void ripc__rcore_list_begin(struct ripc__rcore *core, uint64_t now_ns)
{
	struct ripc__record record;
	struct ripc__claim *h;

	if (!core->list_nonce) {
		core->list_nonce = ripc__rcore_nonce(core);
		core->list_asks = calloc(RIPC__LIST_ASKS, sizeof(*core->list_asks));
	}
	ripc__list_for_each_entry (h, &core->claims, link) {
		if (h->state != HELD)
			continue;
		ripc__rcore_own_record(core, h, now_ns, &record);
		if (core->env.listed)
			core->env.listed(core->env.arg, &record);
	}
	send_list(core, NULL, 1, now_ns);
}

unsigned ripc__rcore_list_end(struct ripc__rcore *core)
{
	unsigned missing = core->list_untracked;

	for (unsigned i = 0; i < core->nlist_asks; i++) {
		missing += core->list_asks[i].first != 0;
		ripc__timers_remove(&core->timers, &core->list_asks[i].timer);
	}
	free(core->list_asks);
	core->list_asks = NULL;
	core->nlist_asks = 0;
	core->list_untracked = false;
	core->list_nonce = 0;
	return missing;
}

/* --- answers of others --- */

static void ask(struct ripc__rcore *core, struct ripc__list_ask *a, uint64_t now_ns)
{
	unsigned doubled = MIN(a->requests, RETRY_DOUBLED);

	a->requests++;
	ripc__timers_set(&core->timers, &a->timer,
			 now_ns + ripc__rcore_jitter_ns(core, RETRY_MS << doubled));
	send_list(core, &a->to, a->first, now_ns);
}

static void ask_due(struct ripc__rcore *core, struct ripc__timer *timer, uint64_t now_ns)
{
	struct ripc__list_ask *a = ripc__list_entry(timer, struct ripc__list_ask, timer);

	if (a->requests < RIPC__LIST_REQUESTS)
		ask(core, a, now_ns);
	else
		ripc__timers_set(&core->timers, timer, RIPC__NEVER);
}

static struct ripc__list_ask *find_ask(struct ripc__rcore *core, const uint8_t instance[16])
{
	for (unsigned i = 0; i < core->nlist_asks; i++)
		if (!memcmp(core->list_asks[i].instance, instance, 16))
			return &core->list_asks[i];
	return NULL;
}

static struct ripc__list_ask *add_ask(struct ripc__rcore *core, const uint8_t instance[16],
				      uint64_t first)
{
	struct ripc__list_ask *a;

	if (!core->list_asks || core->nlist_asks == RIPC__LIST_ASKS)
		return NULL;
	a = &core->list_asks[core->nlist_asks];
	*a = (struct ripc__list_ask){.timer.due = ask_due, .first = first};
	memcpy(a->instance, instance, 16);
	if (ripc__timers_add(&core->timers, &a->timer, RIPC__NEVER))
		return NULL;
	core->nlist_asks++;
	return a;
}

/*
 * A page from @page on has arrived; @next: the smallest id of the page behind it, 0: it was the
 * last one. A page that arrives once more does not begin all of them again.
 */
static void page_arrived(struct ripc__rcore *core, const struct ripc__backend_addr *from,
			 const uint8_t instance[16], uint64_t page, uint64_t next, uint64_t now_ns)
{
	struct ripc__list_ask *a = find_ask(core, instance);

	if (!a && (!next || !from->reusable))
		return;
	if (!a) {
		a = add_ask(core, instance, next);
		if (!a) {
			core->list_untracked = true;
			send_list(core, from, next, now_ns);
			return;
		}
	} else if (a->first == page) {
		a->first = next;
		ripc__timers_set(&core->timers, &a->timer, RIPC__NEVER);
	}
	if (!a->first || a->timer.at_ns != RIPC__NEVER)
		return;
	if (from->reusable)
		a->to = *from;
	a->requests = 0;
	ask(core, a, now_ns);
}

static void input_listed(struct ripc__rcore *core, const struct ripc__backend_addr *from,
			 const struct ripc__resolver_msg *msg, uint64_t now_ns)
{
	struct ripc__record record = msg->record;
	const char *why;

	if (!core->list_nonce || msg->nonce != core->list_nonce) {
		core->ignored++;
		return;
	}
	for (size_t at = 0; at < msg->listed_len;) {
		int n = ripc__listed_decode(&record, msg->listed + at, msg->listed_len - at, &why);

		if (n < 0)
			return;
		at += (size_t)n;
		if (core->env.listed)
			core->env.listed(core->env.arg, &record);
	}
	/* Ids that do not rise would be asked for without end. */
	if (msg->flags & RIPC__RESOLVE_MORE && record.service < msg->service)
		return;
	page_arrived(core, from, msg->record.instance, msg->service,
		     msg->flags & RIPC__RESOLVE_MORE ? record.service + 1 : 0, now_ns);
}

/* --- our answers --- */

/* Limits the pages per second: a forged LIST must not be amplified. */
static bool may_send_page(struct ripc__rcore *core, uint64_t now_ns)
{
	if (now_ns - core->list_since_ns >= SECOND_NS) {
		core->list_since_ns = now_ns;
		core->list_pages = 0;
	}
	return core->list_pages < RIPC__LIST_PAGES_PER_S;
}

/* The services held with the smallest ids from @first on, in order. Return: how many. */
static unsigned smallest(struct ripc__rcore *core, uint64_t first,
			 const struct ripc__claim *found[ENTRIES_MAX + 1])
{
	unsigned n = 0;
	struct ripc__claim *h;

	ripc__list_for_each_entry (h, &core->claims, link) {
		unsigned at = n;

		if (h->state != HELD || h->node.id < first ||
		    (n == ENTRIES_MAX + 1 && h->node.id > found[n - 1]->node.id))
			continue;
		if (n == ENTRIES_MAX + 1)
			at--;
		else
			n++;
		for (; at && found[at - 1]->node.id > h->node.id; at--)
			found[at] = found[at - 1];
		found[at] = h;
	}
	return n;
}

static void answer_due(struct ripc__rcore *core, struct ripc__timer *timer, uint64_t now_ns)
{
	struct ripc__list_answer *answer = ripc__list_entry(timer, struct ripc__list_answer, timer);
	struct ripc__resolver_msg msg = {
		.kind = RIPC__RESOLVE_LISTED, .service = answer->first, .nonce = answer->nonce};
	const struct ripc__claim *found[ENTRIES_MAX + 1];
	uint8_t entries[RIPC__RESOLVER_UNSEALED_MAX];
	size_t room = ripc__rcore_room(core);
	struct ripc__record own;
	unsigned n, i;

	/* Later than the asker may repeat its LIST: it gets the page nevertheless. */
	if (!may_send_page(core, now_ns)) {
		ripc__timers_set(&core->timers, &answer->timer, core->list_since_ns + SECOND_NS);
		return;
	}
	ripc__timers_set(&core->timers, &answer->timer, RIPC__NEVER);
	n = smallest(core, answer->first, found);
	if (!n)
		return;
	core->list_pages++;
	msg.record = core->own;
	for (i = 0; i < n && i < ENTRIES_MAX; i++) {
		int len;

		ripc__rcore_own_record(core, found[i], now_ns, &own);
		len = ripc__listed_encode(&own, entries + msg.listed_len, room - msg.listed_len);
		if (len < 0)
			break;
		msg.listed_len += (size_t)len;
	}
	msg.listed = entries;
	msg.flags = i && i < n ? RIPC__RESOLVE_MORE : 0;
	ripc__rcore_send(core, &answer->to, &msg);
}

int ripc__list_answers_init(struct ripc__rcore *core)
{
	for (unsigned i = 0; i < RIPC__LIST_ANSWERS; i++) {
		core->list_answers[i].timer.due = answer_due;
		if (ripc__timers_add(&core->timers, &core->list_answers[i].timer, RIPC__NEVER))
			return -ENOMEM;
	}
	return 0;
}

static void input_list(struct ripc__rcore *core, const struct ripc__backend_addr *from,
		       const struct ripc__resolver_msg *msg, uint64_t now_ns)
{
	struct ripc__list_answer *free_slot = NULL;
	uint64_t delay_ns = PAGE_DELAY_MS * RIPC__MS;

	for (unsigned i = 0; i < RIPC__LIST_ANSWERS; i++) {
		struct ripc__list_answer *a = &core->list_answers[i];

		if (a->timer.at_ns == RIPC__NEVER)
			free_slot = a;
		/* The same LIST through another interface. */
		else if (a->nonce == msg->nonce && a->first == msg->service)
			return;
	}
	if (!free_slot)
		return;
	free_slot->to = *from;
	free_slot->nonce = msg->nonce;
	free_slot->first = msg->service;
	/* Many contexts answer the first LIST: not all at once. */
	if (msg->service == 1)
		delay_ns += ripc__rcore_random(core) % (RIPC__LIST_SPREAD_MS * RIPC__MS);
	ripc__timers_set(&core->timers, &free_slot->timer, now_ns + delay_ns);
}

void ripc__list_input(struct ripc__rcore *core, const struct ripc__backend_addr *from,
		      const struct ripc__resolver_msg *msg, uint64_t now_ns)
{
	if (msg->kind == RIPC__RESOLVE_LISTED)
		input_listed(core, from, msg, now_ns);
	else if (core->held.count)
		input_list(core, from, msg, now_ns);
}
