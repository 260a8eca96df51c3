/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Credit per service: what this context may send to a service over a lane, and what a peer may send
 * to a local one.
 */
#include "core/peer/lane.h"
#include "core/peer/lane_control.h"
#include "core/peer/peer.h"
#include "core/service/service.h"

#include <assert.h>
#include <stdlib.h>

struct ripc__credit *ripc__credit_find(struct ripc__lane *lane, uint64_t id)
{
	struct ripc__node *n = ripc__table_find(&lane->ctx->credits, id);

	while (n && ((struct ripc__credit *)n)->lane != lane)
		n = ripc__table_next(n);
	return (struct ripc__credit *)n;
}

struct ripc__credit *ripc__credit_holder(struct ripc *ctx, uint64_t id)
{
	struct ripc__node *n = ripc__table_find(&ctx->credits, id);

	while (n && !((struct ripc__credit *)n)->holds)
		n = ripc__table_next(n);
	return (struct ripc__credit *)n;
}

struct ripc__credit *ripc__lane_credit(struct ripc__lane *lane, uint64_t id)
{
	struct ripc__credit *c = ripc__credit_find(lane, id);

	if (c)
		return c;
	assert(id);
	c = lane->credits.id ? calloc(1, sizeof(*c)) : &lane->credits;
	if (!c)
		return NULL;
	if (c != &lane->credits) {
		c->next = lane->credits.next;
		lane->credits.next = c;
	}
	c->id = id;
	c->limit_units = lane->service_window;
	c->lane = lane;
	ripc__table_add(&lane->ctx->credits, &c->node);
	return c;
}

static uint64_t window_units(const struct ripc__lane *lane)
{
	return lane->ctx->opt.service_window / RIPC__CREDIT_UNIT;
}

/* The peer knows the whole window: sets the limit, and when the next one is due. */
static void flow_advertised(struct ripc__flow *flow)
{
	uint64_t window = window_units(flow->lane);

	flow->advertised_units = flow->consumed_units + window;
	flow->advertise_at_units = flow->consumed_units + window / 4;
}

static void flow_free(struct ripc__node *n, void *arg)
{
	struct ripc__flow *f = (struct ripc__flow *)n;

	ripc__list_del(&f->wait_link);
	free(f);
}

/* A flow to which nothing has arrived; NULL: out of memory. */
static struct ripc__flow *flow_new(struct ripc__lane *lane, uint64_t id)
{
	struct ripc__flow *f = calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	f->id = id;
	f->lane = lane;
	ripc__list_init(&f->waiting);
	ripc__list_init(&f->wait_link);
	flow_advertised(f);
	return f;
}

void ripc__flow_park(struct ripc__lane *lane)
{
	struct ripc__flow *f;

	if (lane->flow_parked || lane->flows.count != 1 || lane->flows.nbuckets != 1)
		return;
	f = (struct ripc__flow *)lane->flows.only;
	/* Unconsumed messages, standing buffers and a CREDIT that is due refer to it. */
	if (f->arrived_units != f->consumed_units || f->watched || f->standing_len ||
	    ripc__flow_refuses(f) || !ripc__list_empty(&lane->memory->standing) ||
	    lane->ctx->delayed_ack.lane == lane)
		return;
	lane->flow = NULL;
	lane->flow_parked = true;
	lane->parked = (struct ripc__parked_flow){
		.id = f->id,
		.arrived_units = f->arrived_units,
		.advertised_units = f->advertised_units,
	};
	flow_free(&f->node, NULL);
}

/* Return: whether there is memory. */
static bool unpark(struct ripc__lane *lane)
{
	const struct ripc__parked_flow parked = lane->parked;
	struct ripc__flow *f = flow_new(lane, parked.id);
	uint64_t window = window_units(lane);

	if (!f)
		return false;
	f->arrived_units = f->consumed_units = parked.arrived_units;
	f->advertised_units = parked.advertised_units;
	f->advertise_at_units = parked.advertised_units - window + window / 4;
	lane->flow_parked = false;
	ripc__table_init(&lane->flows, lane->ctx->secret);
	ripc__table_add(&lane->flows, &f->node);
	return true;
}

struct ripc__flow *ripc__flow_find(struct ripc__lane *lane, uint64_t id)
{
	return lane->flow_parked ? NULL : (struct ripc__flow *)ripc__table_find(&lane->flows, id);
}

/*
 * Whether there may be another flow. A peer alone decides how many services that do not exist it
 * names; how many services exist, this context decides.
 */
static bool has_room(const struct ripc__lane *lane, uint64_t id)
{
	const struct ripc *ctx = lane->ctx;

	return lane->flows.count < RIPC__FLOWS_MAX ||
	       (lane->flows.count < RIPC__FLOWS_HELD_MAX + HASH_COUNT(ctx->services) &&
		ripc__service_any(ctx, id));
}

struct ripc__flow *ripc__flow_lookup(struct ripc__lane *lane, uint64_t id)
{
	struct ripc__flow *f;

	if (lane->flow_parked && !unpark(lane))
		return NULL;
	f = ripc__flow_find(lane, id);
	if (!f) {
		if (!has_room(lane, id))
			return NULL;
		f = flow_new(lane, id);
		if (!f)
			return NULL;
		ripc__table_add(&lane->flows, &f->node);
		ripc__trim_plan(lane->ctx);
	}
	lane->flow = f;
	return f;
}

void ripc__flows_free(struct ripc__lane *lane)
{
	struct ripc__credit *c;

	lane->flow = NULL;
	if (!lane->flow_parked) {
		ripc__table_each(&lane->flows, flow_free, NULL);
		ripc__table_fini(&lane->flows);
	}
	while ((c = lane->credits.next)) {
		lane->credits.next = c->next;
		ripc__table_remove(&lane->ctx->credits, &c->node);
		free(c);
	}
	if (lane->credits.id)
		ripc__table_remove(&lane->ctx->credits, &lane->credits.node);
	lane->credits.id = 0;
}

void ripc__flow_advertise_now(struct ripc__flow *flow)
{
	flow_advertised(flow);
	ripc__flow_send_credit(flow);
}

/*
 * The application probably replies to what it has just received. The reply does not wait for the
 * CREDIT then, nor does an ACK that the reply carries. Half of the window is left, enough for a
 * message of any length: the peer can send on even if the application never calls again.
 */
static bool postponed(struct ripc__flow *flow)
{
	struct ripc *ctx = flow->lane->ctx;
	struct ripc__delayed_ack *ack = &ctx->delayed_ack;
	uint64_t quarter = ctx->opt.service_window / RIPC__CREDIT_UNIT / 4;

	/* A flow goes with its lane. */
	if (flow->lane->state != RIPC__LANE_UP ||
	    ctx->tp[flow->lane->tp].limits.caps & RIPC__CAP_SAME_HOST ||
	    2 * quarter < ripc__units_of(flow->lane->send_max) ||
	    flow->consumed_units >= flow->advertise_at_units + quarter)
		return false;
	if (!ack->lane)
		*ack = (struct ripc__delayed_ack){.lane = flow->lane};
	if (ack->lane != flow->lane || (ack->credit_due && ack->credit_due != flow))
		return false;
	ack->credit_due = flow;
	return true;
}

void ripc__flow_advertise(struct ripc__flow *flow)
{
	struct ripc__delayed_ack *ack = &flow->lane->ctx->delayed_ack;

	if (postponed(flow))
		return;
	if (ack->lane && ack->credit_due == flow)
		ack->credit_due = NULL;
	ripc__flow_advertise_now(flow);
}

static void flow_relearn(struct ripc__node *n, void *source)
{
	struct ripc__flow *f = (struct ripc__flow *)n;

	if (f->source == *(const uint64_t *)source)
		f->source = 0;
}

void ripc__flows_relearn(struct ripc__lane *lane, uint64_t source)
{
	/* A parked flow has no source. */
	if (!lane->flow_parked)
		ripc__table_each(&lane->flows, flow_relearn, &source);
}

void ripc__flows_drop(struct ripc *ctx, struct ripc_service *s)
{
	struct ripc__lane *lane;

	ripc__list_for_each_entry (lane, &ctx->lanes, link) {
		struct ripc__flow *f = ripc__flow_find(lane, s->id);

		if (f)
			f->service = NULL;
	}
}

/* ---- services that have ended ---- */

#define QUEUED_MAX 1024 /* control messages in the queue of a lane that gets no FLOW_END then */

/* Whether nothing is left of a flow but its count. */
static bool flow_is_unused(const struct ripc__flow *f)
{
	return f->arrived_units == f->consumed_units && !f->watched && !f->standing_len &&
	       !f->nstanding && f->lane->ctx->delayed_ack.credit_due != f && !ripc__flow_refuses(f);
}

static void collect_ended(struct ripc__node *n, void *ended)
{
	struct ripc__flow *f = (struct ripc__flow *)n;

	if (!f->service && flow_is_unused(f) && !ripc__service_any(f->lane->ctx, f->id))
		ripc__list_queue(ended, &f->wait_link);
}

/* Return: whether there was room for all; the next pass goes on. */
static bool flows_end(struct ripc__lane *lane)
{
	struct ripc__list ended;
	struct ripc__flow *f;
	bool room = true;

	ripc__list_init(&ended);
	ripc__table_each(&lane->flows, collect_ended, &ended);
	while ((f = ripc__list_first_entry(&ended, struct ripc__flow, wait_link))) {
		ripc__list_del(&f->wait_link);
		/* Too many would break the lane. */
		room = room && (!f->arrived_units || lane->ncontrol < QUEUED_MAX);
		if (!room)
			continue;
		if (lane->flow == f)
			lane->flow = NULL;
		if (f->arrived_units)
			ripc__flow_send_end(lane, f->id, f->arrived_units);
		ripc__table_remove(&lane->flows, &f->node);
		flow_free(&f->node, NULL);
	}
	return room;
}

/*
 * Frees the credits that count nothing: of services that have ended and, if there are too many, of
 * folded destinations. No message reports the end of a service to which nothing was sent.
 */
static void credits_end(struct ripc__lane *lane)
{
	struct ripc__credit **at = &lane->credits.next, *c;
	struct ripc *ctx = lane->ctx;
	bool full = ctx->credits.count >= RIPC__FOLDED_MAX;
	struct ripc__dest *d;
	bool first = true;

	for (c = &lane->credits; c; c = *at, first = false) {
		c->ended = (c->ended || (full && c->holds)) && !c->sent_units;
		if (c->ended) {
			HASH_FIND(hh, ctx->dests, &c->id, sizeof(c->id), d);
			if (d && d->credit == c)
				d->credit = NULL;
			ripc__table_remove(&ctx->credits, &c->node);
		}
		if (first && c->ended) {
			*c = (struct ripc__credit){.next = c->next};
		} else if (c->ended) {
			*at = c->next;
			free(c);
		} else if (!first) {
			at = &c->next;
		}
	}
}

bool ripc__flows_trim(struct ripc__lane *lane)
{
	bool room = lane->flow_parked || !(lane->caps & RIPC__CAP_FLOW_END) || flows_end(lane);

	/* Unacknowledged requests refer to credits. */
	if (!lane->peer->nrequests)
		credits_end(lane);
	return room;
}

bool ripc__flow_ended(struct ripc__lane *lane, uint64_t id, uint64_t arrived_units)
{
	struct ripc__credit *c = ripc__credit_find(lane, id);

	if (!c || arrived_units > c->sent_units)
		return false;
	c->sent_units -= arrived_units;
	c->limit_units = lane->service_window;
	c->ended = !c->sent_units;
	ripc__trim_plan(lane->ctx);
	return true;
}
