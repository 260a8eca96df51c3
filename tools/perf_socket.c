/* SPDX-License-Identifier: LGPL-2.1-or-later */
#define _GNU_SOURCE
#include "perf_socket.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define SPINS_PER_CLOCK 1024 /* rounds of a spinning wait between two looks at the clock */

static bool is_address(const char *text)
{
	char copy[64], *scope;
	unsigned char buf[16];

	if (strlen(text) >= sizeof(copy))
		return false;
	strcpy(copy, text);
	scope = strchr(copy, '%');
	if (scope)
		*scope = 0;
	return inet_pton(AF_INET, copy, buf) == 1 || inet_pton(AF_INET6, copy, buf) == 1;
}

void perf_socket_host(const char *address, char *host, size_t len)
{
	static const char separators[] = " ,;\t[]()";
	bool found = false;

	snprintf(host, len, "127.0.0.1");
	while (*(address += strspn(address, separators))) {
		size_t n = strcspn(address, separators);
		bool loopback;
		char word[64];

		snprintf(word, sizeof(word), "%.*s", (int)(n < 63 ? n : 63), address);
		address += n;
		if (!is_address(word) && strchr(word, ':'))
			*strrchr(word, ':') = 0;
		if (!is_address(word))
			continue;
		loopback = !strncmp(word, "127.", 4) || !strcmp(word, "::1");
		if (!found || !loopback)
			snprintf(host, len, "%s", word);
		found = true;
		if (!loopback)
			return;
	}
}

static int resolve(enum perf_protocol protocol, const char *host, uint64_t port,
		   struct addrinfo **info)
{
	struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV,
				 .ai_socktype = protocol == PERF_TCP ? SOCK_STREAM : SOCK_DGRAM};
	char text[8];

	snprintf(text, sizeof(text), "%u", (unsigned)port & 0xffff);
	return getaddrinfo(host, text, &hints, info) ? -EINVAL : 0;
}

static struct timeval as_timeval(int ms)
{
	return (struct timeval){.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000};
}

int perf_socket_prepare(const struct perf_socket *s)
{
	struct timeval stall = as_timeval(PERF_STALL_MS), patience = as_timeval(s->patience_ms);
	int on = 1;

	if (s->protocol == PERF_TCP && setsockopt(s->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)))
		return -errno;
	if (s->wait == PERF_POLL)
		return fcntl(s->fd, F_SETFL, O_NONBLOCK) ? -errno : 0;
	/* A partner that dies must not hold us for ever. */
	if (setsockopt(s->fd, SOL_SOCKET, SO_SNDTIMEO, &stall, sizeof(stall)) ||
	    setsockopt(s->fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)))
		return -errno;
	return 0;
}

void perf_socket_close(struct perf_socket *s)
{
	if (s->fd >= 0)
		close(s->fd);
	s->fd = -1;
}

/* Return: the port that a descriptor is bound to, or 0 with errno set. */
static unsigned port_of(int fd)
{
	union {
		struct sockaddr any;
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
	} addr;
	socklen_t len = sizeof(addr);

	memset(&addr, 0, sizeof(addr));
	if (getsockname(fd, &addr.any, &len))
		return 0;
	return ntohs(addr.any.sa_family == AF_INET6 ? addr.v6.sin6_port : addr.v4.sin_port);
}

int perf_socket_listen(enum perf_protocol protocol, const char *host, uint64_t *port)
{
	struct addrinfo *info;
	int fd, err;

	err = resolve(protocol, host, 0, &info);
	if (err)
		return err;
	fd = socket(info->ai_family, info->ai_socktype | SOCK_CLOEXEC, 0);
	if (fd < 0 || bind(fd, info->ai_addr, info->ai_addrlen) ||
	    (protocol == PERF_TCP && listen(fd, 1)))
		err = -errno;
	freeaddrinfo(info);
	if (!err) {
		*port = port_of(fd);
		if (*port)
			return fd;
		err = -errno;
	}
	if (fd >= 0)
		close(fd);
	return err;
}

int perf_socket_connect(struct perf_socket *s, const char *host, uint64_t port)
{
	struct addrinfo *info;
	int err;

	s->fd = -1;
	err = resolve(s->protocol, host, port, &info);
	if (err)
		return err;
	s->fd = socket(info->ai_family, info->ai_socktype | SOCK_CLOEXEC, 0);
	if (s->fd < 0 || connect(s->fd, info->ai_addr, info->ai_addrlen))
		err = -errno;
	freeaddrinfo(info);
	if (!err)
		err = perf_socket_prepare(s);
	if (err)
		perf_socket_close(s);
	return err;
}

int perf_socket_accept(int listener, int timeout_ms)
{
	struct pollfd pfd = {.fd = listener, .events = POLLIN};
	int fd;

	if (poll(&pfd, 1, timeout_ms) != 1)
		return -ETIMEDOUT;
	fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

/* Counts the rounds of a spinning wait. Return: true when the time is up. */
static bool spin_expired(unsigned *spins, uint64_t *deadline_ns, int timeout_ms)
{
	uint64_t now_ns;

	if (++*spins % SPINS_PER_CLOCK)
		return tool_stopped;
	now_ns = tool_now_ns();
	if (!*deadline_ns)
		*deadline_ns = now_ns + (uint64_t)timeout_ms * 1000000;
	return now_ns >= *deadline_ns;
}

int perf_socket_send(const struct perf_socket *s, const void *buf, size_t len)
{
	const char *at = buf;
	uint64_t deadline_ns = 0;
	unsigned spins = 0;

	do {
		ssize_t n = send(s->fd, at, len, MSG_NOSIGNAL);

		if (n >= 0) {
			at += n;
			len -= (size_t)n;
			deadline_ns = 0;
			continue;
		}
		if (errno == EINTR && !tool_stopped)
			continue;
		if (errno != EAGAIN)
			return -errno;
		if (s->wait == PERF_BLOCK || spin_expired(&spins, &deadline_ns, PERF_STALL_MS))
			return -ETIMEDOUT;
	} while (len);
	return 0;
}

ssize_t perf_socket_receive(const struct perf_socket *s, void *buf, size_t len)
{
	uint64_t deadline_ns = 0;
	unsigned spins = 0;

	for (;;) {
		ssize_t n = recv(s->fd, buf, len, 0);

		if (n >= 0)
			return n;
		if (errno == EINTR && !tool_stopped)
			continue;
		if (errno != EAGAIN)
			return -errno;
		if (s->wait == PERF_BLOCK || spin_expired(&spins, &deadline_ns, s->patience_ms))
			return -ETIMEDOUT;
	}
}

int perf_socket_receive_all(const struct perf_socket *s, void *buf, size_t len)
{
	char *at = buf;

	while (len) {
		ssize_t n = perf_socket_receive(s, at, len);

		if (n <= 0)
			return n ? (int)n : -EPIPE;
		at += n;
		len -= (size_t)n;
	}
	return 0;
}
