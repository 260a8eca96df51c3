/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * NNG, which has the protocols of nanomsg: a publisher and a subscriber; samples have the form of
 * nodes of type ripc.
 */
#include "receiver.h"
#include "wire.h"
#include "../tool.h"

#include <errno.h>
#include <nng/nng.h>
#include <nng/protocol/pubsub0/pub.h>
#include <nng/protocol/pubsub0/sub.h>
#include <nng/supplemental/util/platform.h>
#include <stdatomic.h>
#include <stdlib.h>

/* A publisher drops what it sends before a subscriber is there. */
#define SUBSCRIBER_TIMEOUT_MS 2000
#define RECONNECT_MS          10
#define QUEUE_LEN             8192 /* the most that NNG allows */

struct nanomsg_state {
	nng_socket in, out;
	bool have_in, have_out;
	atomic_bool subscribed;
	struct receiver receiver;
};

static int fail(const struct node *node, const char *what, int rc)
{
	tool_error("node %s: %s: %s", node->plan->name, what, nng_strerror(rc));
	return -EIO;
}

static unsigned receive(struct node *node)
{
	const struct nanomsg_state *s = node->state;
	unsigned n = 0;
	nng_msg *m;

	for (; n < RECEIVER_BATCH && !nng_recvmsg(s->in, &m, NNG_FLAG_NONBLOCK); n++) {
		if (!receiver_deliver(node, nng_msg_body(m), nng_msg_len(m)))
			receiver_malformed(node, nng_msg_len(m), node->plan->in.url);
		nng_msg_free(m);
	}
	return n;
}

static int start_in(struct node *node, struct nanomsg_state *s)
{
	int fd = -1, rc = nng_sub0_open(&s->in);

	s->have_in = !rc;
	if (!rc)
		rc = nng_socket_set_int(s->in, NNG_OPT_RECVBUF, QUEUE_LEN);
	if (!rc)
		rc = nng_socket_set_ms(s->in, NNG_OPT_RECONNMINT, RECONNECT_MS);
	if (!rc)
		rc = nng_socket_set_ms(s->in, NNG_OPT_RECONNMAXT, RECONNECT_MS);
	if (!rc)
		rc = nng_socket_set(s->in, NNG_OPT_SUB_SUBSCRIBE, "", 0);
	if (!rc)
		rc = nng_dial(s->in, node->plan->in.url, NULL, NNG_FLAG_NONBLOCK);
	if (!rc)
		rc = nng_socket_get_int(s->in, NNG_OPT_RECVFD, &fd);
	return rc ? fail(node, node->plan->in.url, rc)
		  : receiver_start(&s->receiver, node, fd, receive);
}

static void on_subscriber(nng_pipe pipe, nng_pipe_ev event, void *arg)
{
	struct nanomsg_state *s = arg;

	(void)pipe;
	(void)event;
	atomic_store(&s->subscribed, true);
}

static int start_out(struct node *node, struct nanomsg_state *s)
{
	int rc = nng_pub0_open(&s->out);

	s->have_out = !rc;
	if (!rc)
		rc = nng_socket_set_int(s->out, NNG_OPT_SENDBUF, QUEUE_LEN);
	if (!rc)
		rc = nng_pipe_notify(s->out, NNG_PIPE_EV_ADD_POST, on_subscriber, s);
	if (!rc)
		rc = nng_listen(s->out, node->plan->out.url, NULL, 0);
	if (rc)
		return fail(node, node->plan->out.url, rc);
	for (int ms = 0; ms < SUBSCRIBER_TIMEOUT_MS && !atomic_load(&s->subscribed); ms++)
		nng_msleep(1);
	if (!atomic_load(&s->subscribed))
		tool_error("node %s: nobody has subscribed to %s yet: samples are dropped until "
			   "then",
			   node->plan->name, node->plan->out.url);
	return 0;
}

static int start(struct node *node, bool source, bool sink)
{
	struct nanomsg_state *s = calloc(1, sizeof(*s));
	int rc = 0;

	node->state = s;
	if (!s)
		return -ENOMEM;
	if (source)
		rc = start_in(node, s);
	return !rc && sink ? start_out(node, s) : rc;
}

static int write_message(struct node *node, const struct sample *sample)
{
	const struct nanomsg_state *s = node->state;
	uint8_t bytes[WIRE_MAX];
	const size_t len = wire_encode(sample, bytes);

	return nng_send(s->out, bytes, len, NNG_FLAG_NONBLOCK) ? -EAGAIN : 0;
}

static void stop(struct node *node)
{
	struct nanomsg_state *s = node->state;

	if (s && s->have_in)
		nng_close(s->in);
	if (s && s->have_out) {
		/* Closing drops what is queued. */
		nng_msleep(100);
		nng_close(s->out);
	}
	free(s);
}

const struct node_ops node_nanomsg = {.start = start, .write = write_message, .stop = stop};
