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
#include <string.h>
#include <time.h>

#define START_TIMEOUT_MS 2000
#define SIGNAL_MS        200 /* a signal does not end a search: look for it now and then */

/*
 * Samples that wait for a receiver that is behind, because its processor does something else: 40 ms
 * of them at 100 kHz. A power of two.
 */
#define QUEUE_LEN      4096
#define QUEUE_RETRY_MS 1
#define FLUSH_MS       500

struct queued {
	uint16_t len;
	uint8_t bytes[WIRE_MAX];
};

struct ripc_state {
	struct ripc_service *service;
	struct receiver receiver;
	uint64_t dest;
	/* [first, last) modulo QUEUE_LEN, NULL if the node is no sink; retry runs if it has any */
	struct queued *queue;
	unsigned first, last;
	uv_timer_t retry;
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
	const uint64_t end_ns = tool_now_ns() + START_TIMEOUT_MS * UINT64_C(1000000);
	struct ripc_route route = {.size = sizeof(route)};
	int rc;

	do {
		rc = ripc_route_lookup(node->gateway->ctx, s->dest, &route, SIGNAL_MS);
	} while (rc == -EHOSTUNREACH && tool_now_ns() < end_ns && !tool_stopped);
	if (rc && !tool_stopped)
		tool_error("node %s: service %llu is not there yet: samples to it are dropped "
			   "until it is",
			   node->plan->name, (unsigned long long)s->dest);
}

static int send_message(const struct node *node, uint8_t *bytes, size_t len)
{
	const struct ripc_state *s = node->state;
	const struct iovec item = {bytes, len};

	if (node->plan->out.group)
		return ripc_group_send(s->service, node->plan->out.group, &item, 1, NULL, 0);
	return ripc_send_short(s->service, s->dest, &item, 1, NULL, 0);
}

/* Sends what waits, until the destination takes no more. Return: whether none waits. */
static bool send_queued(struct node *node, struct ripc_state *s)
{
	for (; s->first != s->last; s->first++) {
		struct queued *q = &s->queue[s->first % QUEUE_LEN];
		const int rc = send_message(node, q->bytes, q->len);

		if (rc == -EAGAIN)
			return false;
		if (!rc)
			continue;
		/* The sample was counted as sent when it was queued. */
		node->sent--;
		node->not_sent++;
	}
	return true;
}

static void on_retry(uv_timer_t *timer)
{
	struct node *node = timer->data;

	if (send_queued(node, node->state))
		uv_timer_stop(timer);
}

static int start_queue(struct node *node, struct ripc_state *s)
{
	/* Zeroed by a write, so that no page is missing later. */
	s->queue = malloc(QUEUE_LEN * sizeof(*s->queue));
	if (!s->queue)
		return -ENOMEM;
	memset(s->queue, 0, QUEUE_LEN * sizeof(*s->queue));
	s->retry.data = node;
	return uv_timer_init(&node->gateway->loop, &s->retry);
}

static int write_message(struct node *node, const struct sample *sample)
{
	struct ripc_state *s = node->state;
	struct queued *q = &s->queue[s->last % QUEUE_LEN];
	int rc;

	if (!send_queued(node, s) && s->last - s->first == QUEUE_LEN)
		return -EAGAIN;
	q->len = (uint16_t)wire_encode(sample, q->bytes);
	rc = s->first == s->last ? send_message(node, q->bytes, q->len) : -EAGAIN;
	if (rc != -EAGAIN)
		return rc;
	s->last++;
	if (!uv_is_active((uv_handle_t *)&s->retry))
		uv_timer_start(&s->retry, on_retry, QUEUE_RETRY_MS, QUEUE_RETRY_MS);
	return 0;
}

static void flush(struct node *node)
{
	const struct timespec pause = {0, 1000000};
	struct ripc_state *s = node->state;

	for (unsigned i = 0; i < FLUSH_MS && !send_queued(node, s); i++)
		nanosleep(&pause, NULL);
	node->sent -= s->last - s->first;
	node->not_sent += s->last - s->first;
	s->first = s->last;
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
	if (!rc && sink)
		rc = start_queue(node, s);
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

static void stop(struct node *node)
{
	struct ripc_state *s = node->state;

	if (s && s->service)
		ripc_service_unregister(s->service);
	if (s)
		free(s->queue);
	free(s);
}

const struct node_ops node_ripc = {start, write_message, stop, flush};
