/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The server's half of the baseline. It has nothing else to do meanwhile, as in the test it is
 * compared with.
 */
#include "perf_server.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define UDP_TIMEOUT_MS \
	(5 * PERF_DRAIN_MS) /* longer than the client waits for an echo that was lost */
#define RATE_BUFFER 65536   /* a stream is read in larger pieces than its messages */

static void refuse(struct perf_control *reply, const char *what, int err)
{
	reply->type = PERF_REFUSAL;
	snprintf(reply->text, sizeof(reply->text), "%.100s: %.100s", what, strerror(-err));
}

void perf_base_close(struct perf_server *s)
{
	if (s->listener >= 0)
		close(s->listener);
	s->listener = -1;
	perf_socket_close(&s->base);
	s->connected = false;
}

void perf_base_open(struct perf_server *s, const struct perf_control *request,
		    struct perf_control *reply)
{
	int fd, err;

	perf_base_close(s);
	if ((request->protocol != PERF_TCP && request->protocol != PERF_UDP) ||
	    (request->wait != PERF_POLL && request->wait != PERF_BLOCK)) {
		refuse(reply, "baseline", -EINVAL);
		return;
	}
	s->base.protocol = (enum perf_protocol)request->protocol;
	s->base.wait = (enum perf_wait)request->wait;
	s->base.patience_ms = s->base.protocol == PERF_UDP ? UDP_TIMEOUT_MS : PERF_STALL_MS;
	fd = perf_socket_listen(s->base.protocol, request->text, &reply->port);
	if (fd < 0) {
		refuse(reply, request->text, fd);
		return;
	}
	if (s->base.protocol == PERF_TCP) {
		s->listener = fd;
		return;
	}
	s->base.fd = fd;
	err = perf_socket_prepare(&s->base);
	if (err) {
		perf_base_close(s);
		refuse(reply, "socket", err);
	}
}

/* The first datagram identifies the partner. */
static int learn_client(struct perf_server *s)
{
	uint64_t deadline_ns = tool_now_ns() + (uint64_t)s->base.patience_ms * 1000000;
	struct sockaddr_storage from;
	struct sockaddr *addr = (struct sockaddr *)&from;
	char first;

	while (tool_now_ns() < deadline_ns && !tool_stopped) {
		socklen_t len = sizeof(from);

		/* Reads without removing it: it is part of the test. */
		if (recvfrom(s->base.fd, &first, 1, MSG_PEEK, addr, &len) >= 0) {
			if (connect(s->base.fd, addr, len))
				return -errno;
			s->connected = true;
			return 0;
		}
		if (errno != EAGAIN && errno != EINTR)
			return -errno;
	}
	return -ETIMEDOUT;
}

static int get_ready(struct perf_server *s)
{
	if (s->base.protocol == PERF_UDP)
		return s->connected ? 0 : learn_client(s);
	if (s->base.fd >= 0)
		return 0;
	if (s->listener < 0)
		return -ENOTCONN;
	s->base.fd = perf_socket_accept(s->listener, PERF_STALL_MS);
	if (s->base.fd < 0)
		return s->base.fd;
	return perf_socket_prepare(&s->base);
}

static int echo(struct perf_server *s, void *buf)
{
	size_t size = s->test.size;

	while (s->received < s->test.count && !tool_stopped) {
		ssize_t n;
		int rc;

		if (s->base.protocol == PERF_TCP) {
			rc = perf_socket_receive_all(&s->base, buf, size);
			if (rc)
				return rc;
			n = (ssize_t)size;
		} else {
			n = perf_socket_receive(&s->base, buf, size);
			if (n < 0)
				return (int)n;
		}
		s->received++;
		rc = perf_socket_send(&s->base, buf, (size_t)n);
		if (rc)
			return rc;
	}
	return 0;
}

/*
 * Fills the buffer from its beginning to its end, and again: with large messages that is one after
 * the other, each in memory that is touched in full.
 */
static int count_stream(struct perf_server *s, char *buf, size_t len)
{
	uint64_t left = s->test.size * s->test.count;
	size_t at = 0;
	int rc = 0;

	while (left && !tool_stopped) {
		size_t room = len - at;
		ssize_t n =
			perf_socket_receive(&s->base, buf + at, left < room ? (size_t)left : room);

		if (n <= 0) {
			rc = n ? (int)n : -EPIPE;
			break;
		}
		left -= (uint64_t)n;
		at += (size_t)n;
		if (at == len)
			at = 0;
	}
	s->received = s->test.count - (left + s->test.size - 1) / s->test.size;
	return rc ? rc : perf_socket_send(&s->base, "a", 1);
}

static int count_datagrams(struct perf_server *s, void *buf, size_t len)
{
	while (s->received < s->test.count && !tool_stopped) {
		uint64_t begin_ns = tool_now_ns();
		ssize_t n = perf_socket_receive(&s->base, buf, len);

		if (n == -ETIMEDOUT)
			s->waited_ns += tool_now_ns() - begin_ns;
		if (n < 0)
			return (int)n;
		s->received++;
	}
	return 0;
}

void perf_base_run(struct perf_server *s)
{
	size_t len = s->test.size < RATE_BUFFER && s->test.test != PERF_LATENCY ? RATE_BUFFER
										: s->test.size;
	char *buf = malloc(len ? len : 1);
	int rc;

	s->cpu_s = tool_cpu_s();
	if (!buf) {
		tool_error("no memory for a message of %llu bytes", (unsigned long long)len);
		/* The client sees the connection close. */
		perf_base_close(s);
		return;
	}
	memset(buf, 1, len ? len : 1);
	rc = get_ready(s);
	if (!rc && s->test.test == PERF_LATENCY)
		rc = echo(s, buf);
	else if (!rc && s->base.protocol == PERF_TCP)
		rc = count_stream(s, buf, len);
	else if (!rc)
		rc = count_datagrams(s, buf, len);
	s->cpu_ns = (uint64_t)((tool_cpu_s() - s->cpu_s) * 1e9);
	/* Spinning in vain is no part of the exchange. */
	if (s->base.wait == PERF_POLL)
		s->cpu_ns -= s->waited_ns < s->cpu_ns ? s->waited_ns : s->cpu_ns;
	free(buf);
	/* Lost datagrams are a result, not an error. */
	if (rc && s->base.protocol == PERF_TCP) {
		tool_error("baseline: %s", strerror(-rc));
		perf_base_close(s);
	}
}
