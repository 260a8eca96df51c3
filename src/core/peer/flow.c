/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Credit per service: what this context may send to a service over a lane, and what a peer may send
 * to a local one.
 */
#include "core/peer/lane.h"
#include "core/peer/lane_control.h"
#include "core/service/service.h"

#include <stdlib.h>

struct ripc__credit *ripc__lane_credit(struct ripc__lane *lane, uint64_t id)
{
	struct ripc__credit *c;

	HASH_FIND(hh, lane->credits, &id, sizeof(id), c);
	if (c)
		return c;
	c = calloc(1, sizeof(*c));
	if (!c)
		return NULL;
	c->id = id;
	c->limit_units = lane->service_window;
	HASH_ADD(hh, lane->credits, id, sizeof(c->id), c);
	if (!c->hh.tbl) {
		free(c);
		return NULL;
	}
	return c;
}

struct ripc__flow *ripc__flow_lookup(struct ripc__lane *lane, uint64_t id)
{
	struct ripc__flow *f;

	HASH_FIND(hh, lane->flows, &id, sizeof(id), f);
	if (!f) {
		if (lane->nflows >= RIPC__FLOWS_MAX)
			return NULL;
		f = calloc(1, sizeof(*f));
		if (!f)
			return NULL;
		f->id = id;
		f->lane = lane;
		ripc__flow_advertised(f);
		HASH_ADD(hh, lane->flows, id, sizeof(f->id), f);
		if (!f->hh.tbl) {
			free(f);
			return NULL;
		}
		lane->nflows++;
	}
	lane->flow = f;
	return f;
}

void ripc__flow_advertised(struct ripc__flow *flow)
{
	uint64_t window = flow->lane->ctx->opt.service_window / RIPC__CREDIT_UNIT;

	flow->advertised_units = flow->consumed_units + window;
	flow->advertise_at_units = flow->consumed_units + window / 4;
}

void ripc__flow_advertise_now(struct ripc__flow *flow)
{
	ripc__flow_advertised(flow);
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

void ripc__flows_relearn(struct ripc__lane *lane, uint64_t source)
{
	struct ripc__flow *f, *tmp;

	HASH_ITER (hh, lane->flows, f, tmp)
		if (f->source == source)
			f->source = 0;
}

void ripc__flows_drop(struct ripc *ctx, struct ripc_service *s)
{
	struct ripc__list *n;

	ripc__list_for_each (n, &ctx->lanes) {
		struct ripc__lane *lane = ripc__list_entry(n, struct ripc__lane, link);
		struct ripc__flow *f;

		HASH_FIND(hh, lane->flows, &s->id, sizeof(s->id), f);
		if (f)
			f->service = NULL;
	}
}
