/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The UDP socket connected to one peer. Contract in udp.h. */
#include "transport/iwarp/udp.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

/* datagrams in a row from the peer after which the senders are not checked any more */
#define CONN_EXCLUSIVE_RUN 64u
#define CONN_ACTIVE_RX     16u /* received without a sleep after which it is polled without epoll */
#define OTHER_COST         4u  /* weight of a datagram of another peer: one in five is allowed */
#define OTHERS_MAX         64u /* count of other_peers at which it is closed */

#define TO(state) (1u << RIPC__UDP_CONN_##state)

/* The states that may follow each state. */
__attribute__((unused)) static const unsigned next_states[RIPC__UDP_CONN_STATES] = {
	[RIPC__UDP_CONN_NONE] = TO(PORT_FIRST),
	[RIPC__UDP_CONN_PORT_FIRST] = TO(SHARED) | TO(CLOSING) | TO(NONE),
	[RIPC__UDP_CONN_SHARED] = TO(EXCLUSIVE) | TO(CLOSING) | TO(NONE),
	[RIPC__UDP_CONN_EXCLUSIVE] = TO(CLOSING) | TO(NONE),
	[RIPC__UDP_CONN_CLOSING] = TO(NONE),
};

void ripc__udp_conn_set_state(struct ripc__udp_conn *conn, enum ripc__udp_conn_state to)
{
	assert(next_states[conn->state] & 1u << to);
	conn->state = to;
}

int ripc__udp_conn_watch(struct ripc__udp *u)
{
	if (!u->udp_conn.watched)
		u->udp_conn.watched = !ripc__udp_port_watch(u, RIPC__UDP_CONN);
	return !u->udp_conn.watched;
}

static void unwatch(struct ripc__udp *u)
{
	if (u->udp_conn.watched)
		epoll_ctl(u->epoll_fd, EPOLL_CTL_DEL, u->port[RIPC__UDP_CONN].fd, NULL);
	u->udp_conn.watched = false;
}

/* Makes routes over the connected socket use its port again. */
static void reroute(struct ripc__udp *u)
{
	for (unsigned i = 0; i < RIPC__UDP_ROUTES; i++)
		if (u->routes[i].fd == u->port[RIPC__UDP_CONN].fd)
			u->routes[i].fd = u->port[u->udp_conn.port].fd;
}

/*
 * Whether two sockets are in one network namespace: the sending thread may be in another one than
 * the context.
 */
static bool same_network(int a, int b)
{
#ifdef SO_NETNS_COOKIE
	uint64_t cookie[2];
	socklen_t len[2] = {sizeof(cookie[0]), sizeof(cookie[1])};

	return !getsockopt(a, SOL_SOCKET, SO_NETNS_COOKIE, &cookie[0], &len[0]) &&
	       !getsockopt(b, SOL_SOCKET, SO_NETNS_COOKIE, &cookie[1], &len[1]) &&
	       cookie[0] == cookie[1];
#else
	return false;
#endif
}

/*
 * Both sockets allow a shared address only while the new one is bound. Until it is connected,
 * datagrams of other peers may arrive at it.
 */
static int bind_beside(int fd, int port_fd, const union ripc__sockaddr *addr)
{
	int on = 1, off = 0, err = 0;

	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) ||
	    setsockopt(port_fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) ||
	    bind(fd, &addr->sa, ripc__sockaddr_len(addr)))
		err = -errno;
	setsockopt(port_fd, SOL_SOCKET, SO_REUSEADDR, &off, sizeof(off));
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &off, sizeof(off));
	return err;
}

static bool same_address(const union ripc__sockaddr *a, const union ripc__sockaddr *b)
{
	return ripc__sockaddr_same_ip(a, b) && ripc__sockaddr_port(a) == ripc__sockaddr_port(b);
}

void ripc__udp_conn_join(const struct ripc__udp *u, struct ripc__udp_route *route)
{
	if (ripc__udp_conn_sends(u) && route->fd == u->port[u->udp_conn.port].fd &&
	    same_address(&route->to, &u->udp_conn.to))
		route->fd = u->port[RIPC__UDP_CONN].fd;
}

static bool nothing_in(int fd)
{
	char byte;

	return recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

void ripc__udp_conn_open(struct ripc__udp *u, struct ripc__udp_route *route)
{
	struct ripc__udp_port *udp_conn = &u->port[RIPC__UDP_CONN];
	unsigned i = 0;
	int fd, one = 1;

	/* A closing socket may not have been polled recently. */
	if (u->udp_conn.state == RIPC__UDP_CONN_CLOSING && nothing_in(udp_conn->fd))
		ripc__udp_conn_close(u);
	if (u->epoll_fd < 0 || udp_conn->fd >= 0)
		return;
	while (i < u->n && u->port[i].fd != route->fd)
		i++;
	if (i == u->n)
		return;
	fd = socket(route->to.sa.sa_family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return;
	if (route->to.sa.sa_family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one));
	if (!same_network(fd, route->fd) || bind_beside(fd, route->fd, &u->port[i].addr)) {
		close(fd);
		return;
	}
	*udp_conn = u->port[i];
	udp_conn->fd = fd;
	udp_conn->burst = 1;
	u->udp_conn = (struct ripc__udp_conn){.port = i, .to = route->to};
	ripc__udp_conn_set_state(&u->udp_conn, RIPC__UDP_CONN_PORT_FIRST);
	/* The socket may have received datagrams already, so it is closed like one in use. */
	if (connect(fd, &route->to.sa, ripc__sockaddr_len(&route->to)) || ripc__udp_conn_watch(u))
		ripc__udp_conn_end(u);
	for (i = 0; i < RIPC__UDP_ROUTES; i++)
		if (u->routes[i].len)
			ripc__udp_conn_join(u, &u->routes[i]);
}

void ripc__udp_conn_end(struct ripc__udp *u)
{
	struct ripc__udp_port *udp_conn = &u->port[RIPC__UDP_CONN];

	if (!ripc__udp_conn_sends(u))
		return;
	ripc__udp_conn_set_state(&u->udp_conn, RIPC__UDP_CONN_CLOSING);
	reroute(u);
	/*
	 * A socket connected to itself receives nothing, and the peer's datagrams arrive at the
	 * port. If its address is gone, connect() fails, and the socket is closed.
	 */
	(void)connect(udp_conn->fd, &udp_conn->addr.sa, ripc__sockaddr_len(&udp_conn->addr));
	ripc__udp_conn_watch(u);
}

void ripc__udp_conn_close(struct ripc__udp *u)
{
	struct ripc__udp_port *udp_conn = &u->port[RIPC__UDP_CONN];

	if (udp_conn->fd < 0)
		return;
	reroute(u);
	unwatch(u);
	close(udp_conn->fd);
	udp_conn->fd = -1;
	ripc__udp_conn_set_state(&u->udp_conn, RIPC__UDP_CONN_NONE);
}

void ripc__udp_conn_other(struct ripc__udp *u)
{
	u->udp_conn.other_peers += OTHER_COST;
	if (u->udp_conn.other_peers >= OTHERS_MAX)
		ripc__udp_conn_end(u);
}

/* Receives from the connected socket. Return: as ripc__udp_receive(). */
static int take(struct ripc__udp *u, void *space, union ripc__sockaddr *sender)
{
	struct ripc__udp_conn *udp_conn = &u->udp_conn;
	bool known = udp_conn->state == RIPC__UDP_CONN_EXCLUSIVE &&
		     udp_conn->same_peer_run >= CONN_EXCLUSIVE_RUN;
	int got = ripc__udp_receive_from(u, RIPC__UDP_CONN, space, known ? NULL : sender);

	if (known)
		*sender = udp_conn->to;
	else if (got >= 0)
		udp_conn->same_peer_run =
			same_address(sender, &udp_conn->to) ? udp_conn->same_peer_run + 1 : 0;
	else if (got == -EAGAIN && udp_conn->state == RIPC__UDP_CONN_SHARED)
		ripc__udp_conn_set_state(udp_conn, RIPC__UDP_CONN_EXCLUSIVE);
	return got;
}

/*
 * Receives from the port whose address it has. Datagrams that the peer sent there before the socket
 * was connected count for neither side.
 */
static int take_port(struct ripc__udp *u, void *space, union ripc__sockaddr *sender)
{
	int got = ripc__udp_receive_from(u, u->udp_conn.port, space, sender);

	if (got != -EAGAIN && ripc__udp_conn_sends(u) && !same_address(sender, &u->udp_conn.to))
		ripc__udp_conn_other(u);
	return got;
}

int ripc__udp_conn_receive(struct ripc__udp *u, unsigned i, void *space,
			   union ripc__sockaddr *sender)
{
	struct ripc__udp_conn *udp_conn = &u->udp_conn;
	int got;

	if (udp_conn->state == RIPC__UDP_CONN_PORT_FIRST) {
		got = take_port(u, space, sender);
		if (got != -EAGAIN)
			return got;
		ripc__udp_conn_set_state(udp_conn, RIPC__UDP_CONN_SHARED);
	} else if (udp_conn->state == RIPC__UDP_CONN_CLOSING) {
		got = take(u, space, sender);
		if (got != -EAGAIN)
			return got;
		ripc__udp_conn_close(u);
		i = udp_conn->port;
	}
	if (i != RIPC__UDP_CONN)
		return take_port(u, space, sender);
	got = take(u, space, sender);
	if (got < 0)
		return got;
	udp_conn->other_peers -= udp_conn->other_peers > 0;
	if (udp_conn->watched && ++udp_conn->recent_rx >= CONN_ACTIVE_RX)
		unwatch(u);
	return got;
}
