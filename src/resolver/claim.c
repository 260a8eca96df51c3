/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "resolver/state.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/name.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define STALE_NS (500 * RIPC__MS) /* how much later messages of the previous holder may arrive */
/* between attempts to acquire a name: of a holder that is losing it, and of one that is stopped */
#define NAME_NS      (2 * RIPC__MS)
#define NAME_LATE_NS (1000 * RIPC__MS)
/* between claims after a conflict: longer than between two broadcast answers to rivals */
#define HURRIED_NS (20 * RIPC__MS)

void ripc__claim_send(struct ripc__rcore *core, const struct ripc__backend_addr *to,
		      const struct ripc__claim *h, enum ripc__resolver_kind kind, uint8_t flags,
		      uint64_t nonce, uint64_t now_ns)
{
	struct ripc__resolver_msg msg = {
		.kind = kind, .flags = flags, .service = h->node.id, .nonce = nonce};

	ripc__rcore_own_record(core, h, now_ns, &msg.record);
	ripc__rcore_send(core, to, &msg);
}

struct ripc__claim *ripc__claim_next_to_send(struct ripc__rcore *core)
{
	struct ripc__claim *h;

	ripc__list_for_each_entry (h, &core->claims, link) {
		if (h->state != HELD)
			continue;
		ripc__list_del(&h->link);
		ripc__list_add(&core->claims, &h->link);
		return h;
	}
	return NULL;
}

/* Claims a service, to all if to is NULL: peers learn it, and another holder answers. */
static void claim_announce(struct ripc__rcore *core, const struct ripc__backend_addr *to,
			   const struct ripc__claim *h, uint64_t now_ns)
{
	ripc__claim_send(core, to, h, RIPC__RESOLVE_REQUEST, 0, ripc__rcore_nonce(core), now_ns);
}

static void claim_gone(struct ripc__rcore *core, const struct ripc__claim *h, uint64_t now_ns)
{
	if (h->state == HELD)
		ripc__claim_send(core, NULL, h, RIPC__RESOLVE_GONE, 0, 0, now_ns);
}

void ripc__claim_requested(struct ripc__rcore *core, struct ripc__claim *h, uint64_t now_ns)
{
	if (now_ns - h->asked_ns >= RIPC__ANNOUNCE_LIMIT * RIPC__MS) {
		h->asked_ns = now_ns;
		h->asked = 0;
	}
	/*
	 * Once per period, and not while an announcement is pending: one request must not cause
	 * many messages.
	 */
	if (++h->asked != RIPC__ANNOUNCE_LIMIT || h->announces)
		return;
	claim_announce(core, NULL, h, now_ns);
	h->announces = 1;
	ripc__timers_set(&core->timers, &h->timer, now_ns + RIPC__PROBE_INTERVAL_MS * RIPC__MS);
}

static void set_state(struct ripc__claim *h, enum ripc__claim_state to)
{
	assert(to > h->state);
	h->state = to;
}

struct ripc__claim *ripc__claim_find(struct ripc__rcore *core, uint64_t service)
{
	return (struct ripc__claim *)ripc__table_find(&core->held, service);
}

bool ripc__rcore_holds(struct ripc__rcore *core, uint64_t service)
{
	return ripc__claim_find(core, service);
}

/* Ends the attempts to acquire the name. */
static void end_naming(struct ripc__rcore *core, struct ripc__claim *h)
{
	if (h->how != RIPC__REGISTER_TAKE_NAME)
		return;
	h->how = RIPC__REGISTER_TAKE;
	h->nameless = false;
	ripc__timers_remove(&core->timers, &h->name_timer);
}

static void detach(struct ripc__rcore *core, struct ripc__claim *h)
{
	end_naming(core, h);
	ripc__timers_remove(&core->timers, &h->timer);
	ripc__table_remove(&core->held, &h->node);
}

void ripc__claim_free(struct ripc__rcore *core, struct ripc__claim *h)
{
	if (h->state != DROPPED)
		detach(core, h);
	ripc__list_del(&h->link);
	ripc__pending_clear(&h->pending);
	free(h->rival);
	free(h->name);
	free(h);
}

/* Whether it takes the service over from its holder, if any, by a higher generation. */
static bool takes_over(const struct ripc__claim *h)
{
	return h->how == RIPC__REGISTER_TAKE || h->how == RIPC__REGISTER_TAKE_NAME;
}

static void become_holder(struct ripc__rcore *core, struct ripc__claim *h, uint64_t now_ns)
{
	struct ripc__cached *c = ripc__cache_find(&core->cache, h->node.id);
	struct ripc__lookup *l = ripc__lookup_find(core, h->node.id);

	set_state(h, HELD);
	h->since_ns = now_ns;
	/* A silent holder whose record is not known is expected to have registered plainly. */
	if (takes_over(h) && !h->answered && h->generation == 1)
		h->generation = 2;
	/*
	 * Repeated because messages may be lost: the former holder and its clients must learn of
	 * the takeover.
	 */
	h->announces = takes_over(h) ? RIPC__PROBES - 1 : 0;
	ripc__timers_set(&core->timers, &h->timer,
			 h->announces ? now_ns + RIPC__PROBE_INTERVAL_MS * RIPC__MS : RIPC__NEVER);
	if (!h->nameless)
		ripc__pending_add(&core->pendings, &h->pending, RIPC__REGISTERED);
	if ((l && ripc__lookup_has_waiter(l)) || (c && c->pending.events & 1u << RIPC__RESOLVED))
		ripc__pending_add(&core->pendings, &h->pending, RIPC__RESOLVED);
	if (l)
		ripc__lookup_remove(core, l);
	if (c)
		ripc__cache_remove(&core->cache, c);
	if (core->repeat.at_ns == RIPC__NEVER)
		ripc__timers_set(&core->timers, &core->repeat,
				 now_ns + ripc__rcore_jitter_ns(core, RIPC__CLAIM_INTERVAL_MS));
	if (h->how != RIPC__REGISTER_RANDOM)
		claim_announce(core, NULL, h, now_ns);
	else if (core->env.registry)
		claim_announce(core, core->env.registry, h, now_ns);
}

static void store_rival(struct ripc__claim *h, const struct ripc__record *rival)
{
	if (!h->rival)
		h->rival = malloc(sizeof(*h->rival));
	if (h->rival)
		*h->rival = *rival;
}

void ripc__claim_conflict(struct ripc__rcore *core, struct ripc__claim *h,
			  const struct ripc__record *rival, bool final, uint64_t now_ns)
{
	/* Another generation: a context that took the service over, or the previous holder. */
	if (h->state != HELD || (h->rival && !memcmp(h->rival->instance, rival->instance, 16)) ||
	    (!final && (rival->generation != h->generation || now_ns < h->since_ns + STALE_NS)))
		return;
	store_rival(h, rival);
	ripc__pending_add(&core->pendings, &h->pending, RIPC__RIVAL);
	/* After a partition there are often more of them: claim all services soon. */
	if (!core->hurried) {
		core->hurried = core->held.count;
		ripc__timers_set(&core->timers, &core->repeat, now_ns + HURRIED_NS);
	}
}

/*
 * Whether the record of a service of ours is another's with a name of its own. A registration
 * without a name agrees with every name.
 */
static bool other_name(const struct ripc__claim *h, const struct ripc__record *rival)
{
	return h->name && rival->name_len && strcmp(h->name, rival->name) != 0;
}

/* Raises our generation above that of rival in a takeover. Return: whether that is possible. */
static bool raise_generation(struct ripc__claim *h, const struct ripc__record *rival,
			     uint64_t now_ns)
{
	if (!takes_over(h) || h->state != PROBING || rival->generation == UINT64_MAX ||
	    other_name(h, rival))
		return false;
	if (h->generation <= rival->generation) {
		h->generation = rival->generation + 1;
		/* The back ends that accept this generation must receive it, if there is time. */
		if (now_ns < h->end_ns)
			h->probes = RIPC__PROBES - 1;
	}
	return true;
}

void ripc__claim_lost(struct ripc__rcore *core, struct ripc__claim *h,
		      const struct ripc__record *rival, uint64_t now_ns)
{
	h->answered = true;
	if (raise_generation(h, rival, now_ns))
		return;
	/* Peers with the old record must look the service up again. */
	claim_gone(core, h, now_ns);
	h->moved = h->state == HELD && rival->generation > h->generation;
	set_state(h, LOST);
	store_rival(h, rival);
	end_naming(core, h);
	ripc__timers_set(&core->timers, &h->timer, RIPC__NEVER);
	ripc__pending_remove(&h->pending, RIPC__REGISTERED);
	ripc__pending_add(&core->pendings, &h->pending, RIPC__CONFLICT);
}

/* Whether an answer of the holder whose record is known would be a conflict. */
static bool known_holder_objects(struct ripc__rcore *core, const struct ripc__claim *h,
				 uint64_t now_ns)
{
	struct ripc__cached *c = ripc__cache_find(&core->cache, h->node.id);
	struct ripc__record record;

	if (!c || !takes_over(h))
		return c;
	ripc__cache_record(c, &record, now_ns);
	return other_name(h, &record);
}

static bool probing_is_over(struct ripc__rcore *core, const struct ripc__claim *h, uint64_t now_ns)
{
	if (h->probes < RIPC__PROBES)
		return false;
	if (now_ns >= h->end_ns)
		return true;
	if (h->probes < RIPC__PROBES_KNOWN && known_holder_objects(core, h, now_ns))
		return false;
	/* A holder on this host that has not answered a probe is alive but slow. */
	if (h->nameless && !h->answered)
		return false;
	return !core->env.settled || core->env.settled(core->env.arg, h->node.id);
}

static void name_due(struct ripc__rcore *core, struct ripc__timer *timer, uint64_t now_ns)
{
	struct ripc__claim *h = ripc__list_entry(timer, struct ripc__claim, name_timer);
	bool last = h->nameless && now_ns >= h->end_ns;
	bool acquired = core->env.acquire(core->env.arg, h->node.id, last);

	if (h->nameless && (acquired || last) && h->state == HELD)
		ripc__pending_add(&core->pendings, &h->pending, RIPC__REGISTERED);
	h->nameless = h->nameless && !last;
	if (acquired)
		end_naming(core, h);
	else
		ripc__timers_set(&core->timers, &h->name_timer,
				 now_ns + (h->nameless ? NAME_NS : NAME_LATE_NS));
}

static void claim_due(struct ripc__rcore *core, struct ripc__timer *timer, uint64_t now_ns)
{
	struct ripc__claim *h = ripc__list_entry(timer, struct ripc__claim, timer);

	if (h->state == HELD) {
		h->announces--;
		ripc__timers_set(&core->timers, &h->timer,
				 h->announces ? now_ns + RIPC__PROBE_INTERVAL_MS * RIPC__MS
					      : RIPC__NEVER);
		claim_announce(core, NULL, h, now_ns);
	} else if (probing_is_over(core, h, now_ns)) {
		become_holder(core, h, now_ns);
	} else {
		ripc__timers_set(&core->timers, &h->timer,
				 now_ns + RIPC__PROBE_INTERVAL_MS * RIPC__MS);
		if (h->probes++ < RIPC__PROBES)
			ripc__claim_send(core, NULL, h, RIPC__RESOLVE_PROBE, 0, h->nonce, now_ns);
	}
}

static void claim_event(struct ripc__rcore *core, struct ripc__pending *p,
			struct ripc__resolver_event *ev, uint64_t now_ns)
{
	struct ripc__claim *h = ripc__list_entry(p, struct ripc__claim, pending);

	ev->service = h->node.id;
	ev->moved = h->moved;
	if (ev->kind == RIPC__CONFLICT || ev->kind == RIPC__RIVAL) {
		ev->record = h->rival ? *h->rival : (struct ripc__record){0};
		if (h->name)
			strcpy(ev->name, h->name);
	} else {
		ripc__rcore_own_record(core, h, now_ns, &ev->record);
	}
	if (h->state >= LOST && !h->pending.events)
		ripc__claim_free(core, h);
}

int ripc__rcore_register(struct ripc__rcore *core, uint64_t service, const char *name,
			 enum ripc__register_how how, uint64_t now_ns)
{
	bool probe = how != RIPC__REGISTER_RANDOM && how != RIPC__REGISTER_LOCAL;
	struct ripc__claim *h = ripc__claim_find(core, service);
	struct ripc__cached *known = ripc__cache_find(&core->cache, service);
	struct ripc__record record;

	if (h)
		return -EADDRINUSE;
	if (name && RIPC__LISTED_FIXED + strlen(name) > ripc__rcore_room(core))
		return ripc__fail(-EMSGSIZE,
				  "%s: its name of %zu bytes and the addresses of this context do "
				  "not fit one message; use a shorter name",
				  ripc__id_text(service, name), strlen(name));
	h = calloc(1, sizeof(*h));
	if (h && name)
		h->name = strdup(name);
	if (!h || (name && !h->name) || ripc__timers_add(&core->timers, &h->timer, RIPC__NEVER)) {
		if (h)
			free(h->name);
		free(h);
		return ripc__fail(-ENOMEM, "%s: out of memory", ripc__id_text(service, name));
	}
	h->node.id = service;
	h->timer.due = claim_due;
	h->name_timer.due = name_due;
	h->how = how;
	/* Without memory only the other back ends find the service. */
	if (how == RIPC__REGISTER_TAKE_NAME &&
	    ripc__timers_add(&core->timers, &h->name_timer, now_ns + NAME_NS))
		h->how = RIPC__REGISTER_TAKE;
	h->nameless = h->how == RIPC__REGISTER_TAKE_NAME;
	h->pending.taken = claim_event;
	h->nonce = ripc__rcore_nonce(core);
	h->generation = 1;
	/* Former holders may still lose the service to a claim of ours that was given up. */
	if (takes_over(h) && core->given_up < UINT64_MAX)
		h->generation = core->given_up + 1;
	/* A holder that does not answer at present may be alive later. */
	if (known) {
		ripc__cache_record(known, &record, now_ns);
		(void)raise_generation(h, &record, now_ns);
	}
	h->probes = probe ? 0 : RIPC__PROBES;
	h->end_ns = probe ? now_ns + core->env.resolve_timeout_ms * RIPC__MS : now_ns;
	ripc__table_add(&core->held, &h->node);
	/* The next request of this context carries the first service of the list. */
	if (how == RIPC__REGISTER_RANDOM)
		ripc__list_add(core->claims.next, &h->link);
	else
		ripc__list_add(&core->claims, &h->link);
	claim_due(core, &h->timer, now_ns);
	return 0;
}

const char *ripc__rcore_name(struct ripc__rcore *core, uint64_t service)
{
	struct ripc__claim *h = ripc__claim_find(core, service);

	return h ? h->name : NULL;
}

void ripc__rcore_reannounce(struct ripc__rcore *core, uint64_t now_ns)
{
	struct ripc__claim *h;

	ripc__list_for_each_entry (h, &core->claims, link) {
		if (h->state != HELD)
			continue;
		h->generation++;
		claim_announce(core, core->env.registry, h, now_ns);
	}
}

void ripc__rcore_claim(struct ripc__rcore *core, uint64_t service, uint64_t now_ns)
{
	struct ripc__claim *h = ripc__claim_find(core, service);

	if (h && h->state == HELD)
		claim_announce(core, NULL, h, now_ns);
}

void ripc__rcore_unregister(struct ripc__rcore *core, uint64_t service, uint64_t now_ns)
{
	struct ripc__claim *h = ripc__claim_find(core, service);

	if (!h)
		return;
	if (h->generation > core->given_up)
		core->given_up = h->generation;
	claim_gone(core, h, now_ns);
	ripc__pending_remove(&h->pending, RIPC__REGISTERED);
	ripc__pending_remove(&h->pending, RIPC__CONFLICT);
	ripc__pending_remove(&h->pending, RIPC__RIVAL);
	detach(core, h);
	set_state(h, DROPPED);
	/* A look-up of an own service may be complete, and its event pending. */
	if (!h->pending.events)
		ripc__claim_free(core, h);
}

/* The mean time until the next periodic claim. */
static uint32_t claim_interval_ms(const struct ripc__rcore *core)
{
	size_t services = core->held.count;

	if (services <= RIPC__CLAIM_ROUND_MS / RIPC__CLAIM_INTERVAL_MS ||
	    core->rx_per_s >= RIPC__CLAIM_QUIET_PER_S)
		return RIPC__CLAIM_INTERVAL_MS;
	if (services >= RIPC__CLAIM_ROUND_MS / RIPC__CLAIM_MIN_MS)
		return RIPC__CLAIM_MIN_MS;
	return RIPC__CLAIM_ROUND_MS / (uint32_t)services;
}

void ripc__claim_repeat(struct ripc__rcore *core, struct ripc__timer *timer, uint64_t now_ns)
{
	struct ripc__claim *h = ripc__claim_next_to_send(core);
	uint64_t pause_ns =
		core->hurried ? HURRIED_NS : ripc__rcore_jitter_ns(core, claim_interval_ms(core));

	core->hurried -= core->hurried > 0;
	if (!h)
		core->hurried = 0;
	ripc__timers_set(&core->timers, timer, h ? now_ns + pause_ns : RIPC__NEVER);
	if (h)
		claim_announce(core, NULL, h, now_ns);
}

void ripc__rcore_send_gone(struct ripc__rcore *core, uint64_t now_ns)
{
	struct ripc__claim *h;

	ripc__list_for_each_entry (h, &core->claims, link)
		claim_gone(core, h, now_ns);
}

enum ripc__verdict ripc__claim_resolve_conflict(struct ripc__rcore *core, struct ripc__claim *h,
						const struct ripc__record *rival, bool decided,
						bool final, uint64_t now_ns)
{
	ripc__claim_conflict(core, h, rival, final, now_ns);
	if (final || h->state == PROBING || rival->generation > h->generation)
		return RIPC__VERDICT_LOSE;
	if (rival->generation < h->generation)
		return RIPC__VERDICT_KEEP;
	if (decided)
		return RIPC__VERDICT_LOSE;
	/*
	 * Messages take time, so the two sides compute different ages. Therefore only one side
	 * compares, and it keeps its verdict when later messages differ.
	 */
	if (memcmp(core->env.instance, rival->instance, 16) < 0)
		return RIPC__VERDICT_DEFER;
	if (rival->since_ms > ripc__ms_between(h->since_ns, now_ns) &&
	    memcmp(h->verdict_sent_to, rival->instance, 16))
		return RIPC__VERDICT_LOSE;
	memcpy(h->verdict_sent_to, rival->instance, 16);
	return RIPC__VERDICT_KEEP;
}
