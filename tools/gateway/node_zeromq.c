/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* ZeroMQ: a publisher and a subscriber; samples have the form of nodes of type ripc. */
#include "receiver.h"
#include "wire.h"
#include "../tool.h"

#include <errno.h>
#include <stdlib.h>
#include <zmq.h>

/* A publisher drops what it sends before a subscriber is there. */
#define SUBSCRIBER_TIMEOUT_MS 2000
#define RECONNECT_MS          10
#define QUEUE_LEN             65536

struct zeromq_state {
	void *ctx, *in, *out;
	struct receiver receiver;
};

static int fail(const struct node *node, const char *what)
{
	tool_error("node %s: %s: %s", node->plan->name, what, zmq_strerror(zmq_errno()));
	return -EIO;
}

static bool set(void *socket, int option, int value)
{
	return !zmq_setsockopt(socket, option, &value, sizeof(value));
}

static unsigned receive(struct node *node)
{
	const struct zeromq_state *s = node->state;
	uint8_t bytes[WIRE_MAX + 1];
	unsigned n = 0;

	for (; n < RECEIVER_BATCH; n++) {
		/* The length is that of the message, also if it was cut. */
		const int len = zmq_recv(s->in, bytes, sizeof(bytes), ZMQ_DONTWAIT);

		if (len < 0)
			break;
		if (!receiver_deliver(node, bytes, (size_t)len))
			receiver_malformed(node, (size_t)len, node->plan->in.url);
	}
	return n;
}

static int start_in(struct node *node, struct zeromq_state *s)
{
	size_t len = sizeof(int);
	int fd;

	s->in = zmq_socket(s->ctx, ZMQ_SUB);
	if (!s->in || !set(s->in, ZMQ_RCVHWM, QUEUE_LEN) ||
	    !set(s->in, ZMQ_RECONNECT_IVL, RECONNECT_MS) ||
	    zmq_setsockopt(s->in, ZMQ_SUBSCRIBE, "", 0) || zmq_connect(s->in, node->plan->in.url) ||
	    zmq_getsockopt(s->in, ZMQ_FD, &fd, &len))
		return fail(node, node->plan->in.url);
	return receiver_start(&s->receiver, node, fd, receive);
}

static int start_out(struct node *node, struct zeromq_state *s)
{
	char subscription[8];

	s->out = zmq_socket(s->ctx, ZMQ_XPUB);
	if (!s->out || !set(s->out, ZMQ_SNDHWM, QUEUE_LEN) || !set(s->out, ZMQ_LINGER, 1000) ||
	    !set(s->out, ZMQ_RCVTIMEO, SUBSCRIBER_TIMEOUT_MS) ||
	    zmq_bind(s->out, node->plan->out.url))
		return fail(node, node->plan->out.url);
	if (zmq_recv(s->out, subscription, sizeof(subscription), 0) < 0)
		tool_error("node %s: nobody has subscribed to %s yet: samples are dropped until "
			   "then",
			   node->plan->name, node->plan->out.url);
	return 0;
}

static int start(struct node *node, bool source, bool sink)
{
	struct zeromq_state *s = calloc(1, sizeof(*s));
	int rc = 0;

	node->state = s;
	if (!s)
		return -ENOMEM;
	s->ctx = zmq_ctx_new();
	if (!s->ctx)
		return fail(node, "context");
	if (source)
		rc = start_in(node, s);
	return !rc && sink ? start_out(node, s) : rc;
}

static int write_message(struct node *node, const struct sample *sample)
{
	const struct zeromq_state *s = node->state;
	uint8_t bytes[WIRE_MAX];
	const size_t len = wire_encode(sample, bytes);

	return zmq_send(s->out, bytes, len, ZMQ_DONTWAIT) < 0 ? -EAGAIN : 0;
}

static void stop(struct node *node)
{
	struct zeromq_state *s = node->state;

	if (s && s->in)
		zmq_close(s->in);
	if (s && s->out)
		zmq_close(s->out);
	if (s && s->ctx)
		zmq_ctx_term(s->ctx);
	free(s);
}

const struct node_ops node_zeromq = {.start = start, .write = write_message, .stop = stop};
