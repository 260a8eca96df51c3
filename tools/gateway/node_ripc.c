/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A service or a group of libripc: one sample in each short message. */
#include "node.h"
#include "receiver.h"
#include "ripc.h"
#include "wire.h"
#include "../tool.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#define START_TIMEOUT_MS 2000

struct ripc_state {
	struct ripc_service *service;
	struct receiver receiver;
	uint64_t dest;
};

static unsigned receive(struct node *node)
{
	const struct ripc_state *s = node->state;
	struct ripc_message *message;
	unsigned n = 0;

	for (; n < RECEIVER_BATCH && !ripc_receive(s->service, &message, 0); n++) {
		/* Several items are no sample. */
		const size_t len = message->nitems == 1 ? message->items[0].iov_len : 0;

		if (!receiver_deliver(node, message->items[0].iov_base, len)) {
			char from[32];

			snprintf(from, sizeof(from), "service %" PRIu64, message->source);
			receiver_malformed(node, len, from);
		}
		ripc_message_free(message);
	}
	return n;
}

static int start_in(struct node *node, struct ripc_state *s)
{
	const struct end_plan *in = &node->plan->in;
	int rc = in->group ? ripc_group_join(s->service, in->group, START_TIMEOUT_MS) : 0;

	if (rc) {
		tool_fail(rc, "node %s: cannot join group %llu", node->plan->name,
			  (unsigned long long)in->group);
		return rc;
	}
	return receiver_start(&s->receiver, node, ripc_service_fd(s->service), receive);
}

/* Connects early, so that the first samples are not lost. */
static void find_dest(const struct node *node, const struct ripc_state *s)
{
	struct ripc_route route = {.size = sizeof(route)};

	if (ripc_route_lookup(node->gateway->ctx, s->dest, &route, START_TIMEOUT_MS))
		tool_error("node %s: service %llu is not there yet: samples to it are dropped "
			   "until it is",
			   node->plan->name, (unsigned long long)s->dest);
}

static int start(struct node *node, bool source, bool sink)
{
	struct ripc_state *s = calloc(1, sizeof(*s));
	const struct end_plan *in = &node->plan->in, *out = &node->plan->out;
	const bool named = source && *in->service;
	int rc;

	node->state = s;
	if (!s)
		return -ENOMEM;
	rc = tool_register(node->gateway->ctx, source && in->id ? in->id : RIPC_ANY_ID,
			   named ? in->service : NULL, &s->service);
	if (rc) {
		tool_fail(rc, "node %s", node->plan->name);
		return rc;
	}
	if (source)
		rc = start_in(node, s);
	if (rc || !sink || out->group)
		return rc;
	s->dest = *out->service ? ripc_id(out->service) : out->id;
	if (!s->dest) {
		tool_error("node %s: %s", node->plan->name, ripc_error_detail());
		return -EINVAL;
	}
	find_dest(node, s);
	return 0;
}

static int write_message(struct node *node, const struct sample *sample)
{
	const struct ripc_state *s = node->state;
	uint8_t bytes[WIRE_MAX];
	const struct iovec item = {bytes, wire_encode(sample, bytes)};

	if (node->plan->out.group)
		return ripc_group_send(s->service, node->plan->out.group, &item, 1, NULL, 0);
	return ripc_send_short(s->service, s->dest, &item, 1, NULL, 0);
}

static void stop(struct node *node)
{
	struct ripc_state *s = node->state;

	if (s && s->service)
		ripc_service_unregister(s->service);
	free(s);
}

const struct node_ops node_ripc = {start, write_message, stop};
