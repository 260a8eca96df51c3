/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * ZeroMQ: a pair of sockets. Long messages are sent from our memory and received without a copy
 * into it.
 */
#include "peer.h"

#include <stdio.h>

#if __has_include(<zmq.h>)
#include <zmq.h>

#define COPY_BELOW 1024 /* bytes; a short message is copied, as zmq_send() does */

static void *ctx, *sock;

static const char *version(void)
{
	static char text[32];
	int major, minor, patch;

	zmq_version(&major, &minor, &patch);
	snprintf(text, sizeof(text), "%d.%d.%d", major, minor, patch);
	return text;
}

static int fail(const char *what)
{
	return peer_fail(what, zmq_strerror(zmq_errno()));
}

static int zmq_open_pair(const struct peer_setup *setup, int *argc, char ***argv)
{
	int window = (int)setup->window, linger_ms = 5000;
	char url[256];

	snprintf(url, sizeof(url), setup->tcp ? "tcp://127.0.0.1:%s" : "ipc://%s", setup->address);
	ctx = zmq_ctx_new();
	sock = ctx ? zmq_socket(ctx, ZMQ_PAIR) : NULL;
	if (!sock)
		return fail("socket");
	if (zmq_setsockopt(sock, ZMQ_SNDHWM, &window, sizeof(window)) ||
	    zmq_setsockopt(sock, ZMQ_RCVHWM, &window, sizeof(window)) ||
	    zmq_setsockopt(sock, ZMQ_LINGER, &linger_ms, sizeof(linger_ms)))
		return fail("option");
	if (setup->server ? zmq_bind(sock, url) : zmq_connect(sock, url))
		return fail(url);
	return 0;
}

static void hold_message(void *data, void *hint)
{
}

static int zmq_send_one(const void *buf, size_t len, bool more)
{
	zmq_msg_t m;

	if (len < COPY_BELOW)
		return zmq_send(sock, buf, len, 0) < 0 ? fail("send") : 0;
	if (zmq_msg_init_data(&m, (void *)buf, len, hold_message, NULL) ||
	    zmq_msg_send(&m, sock, 0) < 0)
		return fail("send");
	return 0;
}

static int drain(void)
{
	return 0;
}

static int zmq_receive(void)
{
	zmq_msg_t m;
	int rc;

	zmq_msg_init(&m);
	rc = zmq_msg_recv(&m, sock, 0) < 0 ? fail("receive") : 0;
	zmq_msg_close(&m);
	return rc;
}

static void zmq_close_pair(void)
{
	zmq_close(sock);
	zmq_ctx_term(ctx);
}

const struct peer peer = {.name = "zmq",
			  .version = version,
			  .open = zmq_open_pair,
			  .send = zmq_send_one,
			  .drain = drain,
			  .receive = zmq_receive,
			  .close = zmq_close_pair};
#endif
