/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The socket that is connected to the one peer that is spoken with. Contract in udp.h. */
#include "transport/iwarp/udp.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define LINE_ALIKE \
	64u /* from the peer in a row, and it was empty once: what was just being put into it when it was connected came, too */
#define LINE_WARM \
	16u /* received without a sleep in between: it is asked in each round, and epoll is left out */
#define OTHER_COST \
	4u /* what one of another peer counts, in those of the line's: so they may be a fifth */
#define OTHERS_MAX 64u /* a line with so much of others is over */

void ripc__udp_lines(struct ripc__udp *u, int epoll_fd, uint64_t data)
{
	u->line.epoll_fd = epoll_fd;
	u->line.data = data;
}

int ripc__udp_line_watch(struct ripc__udp *u)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.u64 = u->line.data};

	if (!u->line.watched)
		u->line.watched =
			!epoll_ctl(u->line.epoll_fd, EPOLL_CTL_ADD, u->port[RIPC__UDP_LINE].fd, &ev);
	return !u->line.watched;
}

static void unwatch(struct ripc__udp *u)
{
	struct epoll_event none = {0};

	if (u->line.watched)
		epoll_ctl(u->line.epoll_fd, EPOLL_CTL_DEL, u->port[RIPC__UDP_LINE].fd, &none);
	u->line.watched = false;
}

/* The ways by the line go from its port again. */
static void reroute(struct ripc__udp *u)
{
	for (unsigned i = 0; i < RIPC__UDP_WAYS; i++)
		if (u->ways[i].fd == u->port[RIPC__UDP_LINE].fd)
			u->ways[i].fd = u->port[u->line.port].fd;
}

/* Whether two sockets are of the same network namespace: the thread that sends may be in another than the context. */
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
 * Two sockets at one address. Only for this moment both allow it: nobody else is to share them later. What others send from here on
 * may come to the new one, until it is connected.
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

static bool same_place(const union ripc__sockaddr *a, const union ripc__sockaddr *b)
{
	return ripc__sockaddr_same_ip(a, b) && ripc__sockaddr_port(a) == ripc__sockaddr_port(b);
}

void ripc__udp_line_join(const struct ripc__udp *u, struct ripc__udp_way *way)
{
	if (u->port[RIPC__UDP_LINE].fd >= 0 && !u->line.over &&
	    way->fd == u->port[u->line.port].fd && same_place(&way->to, &u->line.to))
		way->fd = u->port[RIPC__UDP_LINE].fd;
}

static bool nothing_in(int fd)
{
	char byte;

	return recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

void ripc__udp_line_open(struct ripc__udp *u, struct ripc__udp_way *way)
{
	struct ripc__udp_port *line = &u->port[RIPC__UDP_LINE];
	unsigned i = 0;
	int fd, one = 1;

	/* One that is over may not have been asked since. */
	if (line->fd >= 0 && u->line.over && nothing_in(line->fd))
		ripc__udp_line_close(u);
	if (u->line.epoll_fd < 0 || line->fd >= 0)
		return;
	while (i < u->n && u->port[i].fd != way->fd)
		i++;
	if (i == u->n)
		return;
	fd = socket(way->to.sa.sa_family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return;
	if (way->to.sa.sa_family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one));
	if (!same_network(fd, way->fd) || bind_beside(fd, way->fd, &u->port[i].addr)) {
		close(fd);
		return;
	}
	*line = u->port[i];
	line->fd = fd;
	line->burst = 1;
	u->line = (struct ripc__udp_line){
		.epoll_fd = u->line.epoll_fd,
		.data = u->line.data,
		.port = i,
		.older = true,
		.to = way->to,
	};
	/* It may have got something already: if it is of no use, it is closed as one that was. */
	if (connect(fd, &way->to.sa, ripc__sockaddr_len(&way->to)) || ripc__udp_line_watch(u))
		ripc__udp_line_end(u);
	for (i = 0; i < RIPC__UDP_WAYS; i++)
		if (u->ways[i].len)
			ripc__udp_line_join(u, &u->ways[i]);
}

void ripc__udp_line_end(struct ripc__udp *u)
{
	struct ripc__udp_port *line = &u->port[RIPC__UDP_LINE];

	if (line->fd < 0 || u->line.over)
		return;
	u->line.over = u->line.older = true;
	reroute(u);
	/* Connected to itself it gets nothing any more, and what the peer sends comes to the port. If it cannot be, as its address is gone, it is just closed. */
	(void)connect(line->fd, &line->addr.sa, ripc__sockaddr_len(&line->addr));
	ripc__udp_line_watch(u);
}

void ripc__udp_line_close(struct ripc__udp *u)
{
	struct ripc__udp_port *line = &u->port[RIPC__UDP_LINE];

	if (line->fd < 0)
		return;
	reroute(u);
	unwatch(u);
	close(line->fd);
	line->fd = -1;
}

void ripc__udp_line_other(struct ripc__udp *u)
{
	u->line.others += OTHER_COST;
	if (u->line.others >= OTHERS_MAX)
		ripc__udp_line_end(u);
}

/* From the line. Return: as ripc__udp_receive(). */
static int take(struct ripc__udp *u, void *space, uint8_t from[RIPC__UDP_FROM], uint32_t *fromlen,
		char who[64])
{
	struct ripc__udp_line *line = &u->line;
	union ripc__sockaddr sender;
	int got;

	if (!line->drained || line->alike < LINE_ALIKE) {
		got = ripc__udp_receive_from(u, RIPC__UDP_LINE, space, &sender, from, fromlen, who);
		line->drained |= got == -EAGAIN;
		if (got < 0)
			return got;
		line->alike = same_place(&sender, &line->to) ? line->alike + 1 : 0;
		line->fromlen = *fromlen;
		memcpy(line->from, from, RIPC__UDP_FROM);
		return got;
	}
	got = ripc__udp_receive_from(u, RIPC__UDP_LINE, space, NULL, NULL, NULL, NULL);
	if (got == -EMSGSIZE)
		ripc__sockaddr_text(&line->to, who, 64);
	if (got < 0)
		return got;
	*fromlen = line->fromlen;
	memcpy(from, line->from, RIPC__UDP_FROM);
	return got;
}

/* From the port whose address it has. What the peer sent there, before there was a line, counts for neither. */
static int take_port(struct ripc__udp *u, void *space, uint8_t from[RIPC__UDP_FROM],
		     uint32_t *fromlen, char who[64])
{
	union ripc__sockaddr sender;
	int got = ripc__udp_receive_from(u, u->line.port, space, &sender, from, fromlen, who);

	if (got != -EAGAIN && !u->line.over && !same_place(&sender, &u->line.to))
		ripc__udp_line_other(u);
	return got;
}

int ripc__udp_line_receive(struct ripc__udp *u, unsigned i, void *space,
			   uint8_t from[RIPC__UDP_FROM], uint32_t *fromlen, char who[64])
{
	struct ripc__udp_line *line = &u->line;
	int got;

	if (line->older) {
		got = line->over ? take(u, space, from, fromlen, who)
				 : take_port(u, space, from, fromlen, who);
		if (got != -EAGAIN)
			return got;
		line->older = false;
		if (line->over) {
			ripc__udp_line_close(u);
			i = line->port;
		}
	}
	if (i != RIPC__UDP_LINE)
		return take_port(u, space, from, fromlen, who);
	got = take(u, space, from, fromlen, who);
	if (got < 0)
		return got;
	line->others -= line->others > 0;
	if (line->watched && ++line->warmth >= LINE_WARM)
		unwatch(u);
	return got;
}
