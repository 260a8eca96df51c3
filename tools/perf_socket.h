/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Plain TCP and UDP sockets for the baseline, waited for by spinning or by blocking. */
#ifndef RIPC_TOOLS_PERF_SOCKET_H
#define RIPC_TOOLS_PERF_SOCKET_H

#include "perf.h"

#define PERF_UDP_MAX 65507 /* largest UDP datagram over IPv4 */

struct perf_socket {
	int fd; /* < 0: closed */
	enum perf_protocol protocol;
	enum perf_wait wait; /* PERF_POLL or PERF_BLOCK */
	int patience_ms;     /* how long a receive waits */
};

/*
 * The first IP address in the text of a transport's address that is not a loopback's, else the
 * first one, else 127.0.0.1: the loopback of another host is not there for us.
 */
void perf_socket_host(const char *address, char *host, size_t len);

/*
 * Opens a listening (TCP) or bound (UDP) descriptor at a free port, and returns the port. Return:
 * the descriptor, or a negative errno.
 */
int perf_socket_listen(enum perf_protocol protocol, const char *host, uint64_t *port);

/* Waits for a connection to a listening descriptor. Return: its descriptor, or a negative errno. */
int perf_socket_accept(int listener, int timeout_ms);

/* Fills in s->fd; the other members are set. Return: 0 or a negative errno. */
int perf_socket_connect(struct perf_socket *s, const char *host, uint64_t port);

/* Sets TCP_NODELAY, and what the wait mode and the patience need. Return: 0 or a negative errno. */
int perf_socket_prepare(const struct perf_socket *s);

void perf_socket_close(struct perf_socket *s);

/*
 * Sends everything. Return: 0, -ETIMEDOUT after PERF_STALL_MS without progress, or another negative
 * errno.
 */
int perf_socket_send(const struct perf_socket *s, const void *buf, size_t len);

/*
 * Receives once: at most @len bytes, or one datagram. Return: bytes (TCP: 0 at the end of the
 * stream),
 * -ETIMEDOUT, or another negative errno.
 */
ssize_t perf_socket_receive(const struct perf_socket *s, void *buf, size_t len);

/*
 * Receives exactly @len bytes of a TCP connection. Return: 0, -EPIPE at its end, or another
 * negative errno.
 */
int perf_socket_receive_all(const struct perf_socket *s, void *buf, size_t len);

#endif
