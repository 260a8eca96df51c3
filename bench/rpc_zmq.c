/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * ZeroMQ: the client is a DEALER, the server a ROUTER. The first bytes of a request number it, so
 * that the client finds the call of an answer.
 */
#include "rpc.h"

#include <string.h>

#if __has_include(<zmq.h>)
#include <stdio.h>
#include <zmq.h>

#define BYTES_MAX (1 << 20)

static void *sock;
static unsigned depth;
static char buf[BYTES_MAX];

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
	return rpc_fail(what, zmq_strerror(zmq_errno()));
}

static int open_socket(int type)
{
	void *ctx = zmq_ctx_new();
	int unlimited = 0;

	sock = ctx ? zmq_socket(ctx, type) : NULL;
	if (!sock || zmq_setsockopt(sock, ZMQ_SNDHWM, &unlimited, sizeof(unlimited)) ||
	    zmq_setsockopt(sock, ZMQ_RCVHWM, &unlimited, sizeof(unlimited)))
		return fail("socket");
	return 0;
}

/* A request is two frames, the caller's identity and the bytes; so is its answer. */
static int serve(const char *url)
{
	zmq_msg_t frame;

	if (open_socket(ZMQ_ROUTER))
		return -1;
	if (zmq_bind(sock, url))
		return fail(url);
	zmq_msg_init(&frame);
	for (;;) {
		if (zmq_msg_recv(&frame, sock, 0) < 0)
			return fail("receive");
		if (zmq_msg_send(&frame, sock, zmq_msg_more(&frame) ? ZMQ_SNDMORE : 0) < 0)
			return fail("answer");
	}
}

static int connect_to(const char *url, unsigned outstanding)
{
	depth = outstanding;
	if (open_socket(ZMQ_DEALER))
		return -1;
	return zmq_connect(sock, url) ? fail(url) : 0;
}

static int request(const void *bytes, size_t len, uint64_t number)
{
	memcpy(buf, bytes, len);
	memcpy(buf, &number, len < sizeof(number) ? len : sizeof(number));
	return zmq_send(sock, buf, len, 0) < 0 ? fail("send") : 0;
}

/* Answers of one server come in the order of the requests. */
static int answer(size_t len, uint64_t number)
{
	int n = zmq_recv(sock, buf, sizeof(buf), 0);

	if (n < 0)
		return fail("receive");
	if ((size_t)n != len || memcmp(buf, &number, len < sizeof(number) ? len : sizeof(number)))
		return rpc_fail("receive", "not the answer to this call");
	return 0;
}

static int calls(const void *bytes, size_t len, uint64_t count)
{
	uint64_t begun = 0;

	for (uint64_t ended = 0; ended < count; ended++) {
		while (begun < count && begun - ended < depth)
			if (request(bytes, len, begun++))
				return -1;
		if (answer(len, ended))
			return -1;
	}
	return 0;
}

static int call(const void *bytes, size_t len)
{
	static uint64_t number;

	return request(bytes, len, ++number) || answer(len, number) ? -1 : 0;
}

const struct rpc rpc = {.name = "zmq",
			.version = version,
			.serve = serve,
			.connect = connect_to,
			.call = call,
			.calls = calls,
			.unix_url = "ipc://%s",
			.tcp_url = "tcp://127.0.0.1:%s"};
#endif
