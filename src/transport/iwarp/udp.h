/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Short messages over UDP, one datagram each: sockets, sending, receiving. For both iWARP transports; nothing waits. */
#ifndef RIPC_IWARP_UDP_H
#define RIPC_IWARP_UDP_H

#include "transport/iwarp/address.h"

#include <sys/uio.h>

#define RIPC__UDP_FROM    40u    /* bytes of an address to answer to at most */
#define RIPC__UDP_MAX     16384u /* bytes of a datagram that anybody sends at most */
#define RIPC__UDP_MTU_MIN 1280u  /* what an interface carries at least */
#define RIPC__UDP_PORTS \
	(RIPC__IWARP_ADDRS_MAX + 1) /* so that one can be opened before the one it replaces is closed */

struct ripc__udp_port {
	int fd;                    /* < 0: none */
	union ripc__sockaddr addr; /* bound to */
	bool loopback;
	bool gone;      /* no interface has the address at present: nothing can be sent from here */
	unsigned burst; /* datagrams that are asked for at once, at least 1 */
};

#define RIPC__UDP_CONN RIPC__UDP_PORTS /* the line's index in port[] */

/*
 * The line: a socket connected to the peer that datagrams go to all the time, and bound to the address of the port that they went from,
 * so that to the peer it is the same. For what goes by it the kernel looks up no route; what comes from there comes to it. There is one
 * at most, and none while several peers take turns: then there would be two sockets to ask instead of one.
 */
struct ripc__udp_conn {
	int epoll_fd;  /* where it is watched; < 0: there are to be no lines */
	uint64_t data; /* by which it is known there */
	bool watched;
	bool closing; /* nothing goes by it any more: it is closed when it is found empty */
	bool older; /* what lies in the port, or in a line that is over, came before what lies in the other one */
	unsigned port; /* whose address it has; also when it is closed */
	unsigned run;  /* datagrams sent to one address with none to another in between */
	unsigned other_peers; /* grows with each datagram to or from other peers, shrinks with each to or from its own */
	unsigned same_peer_run; /* received from the peer in a row */
	bool drained; /* found empty since it was connected: nothing of others is in it any more */
	unsigned recent_rx; /* received since ripc__udp_arm() */
	union ripc__sockaddr to;
	uint32_t fromlen; /* the address to answer to */
	uint8_t from[RIPC__UDP_FROM];
};

#define RIPC__UDP_ROUTES    16u /* a power of two */
#define RIPC__UDP_ROUTE_LEN 96u

/* An address that a datagram was sent to, and from which socket to where that was. */
struct ripc__udp_route {
	int fd;
	uint8_t len; /* 0: none */
	uint8_t addr[RIPC__UDP_ROUTE_LEN];
	union ripc__sockaddr to;
};

/* Who sent the last datagram, and the address to answer to. */
struct ripc__udp_sender {
	union ripc__sockaddr ip;
	socklen_t iplen; /* 0: nobody did */
	uint32_t fromlen;
	uint8_t from[RIPC__UDP_FROM];
};

/* The sockets of a transport. */
struct ripc__udp {
	const char *name; /* of the transport, for messages */
	uint64_t host;    /* see struct ripc__iwarp_address */
	uint32_t max;     /* bytes of a datagram that is sent at most */
	unsigned n;       /* of port[] that are or were open */
	struct ripc__udp_port port[RIPC__UDP_PORTS + 1]; /* and the line */
	struct ripc__udp_conn udp_conn;
	struct ripc__udp_route routes[RIPC__UDP_ROUTES]; /* of the last addresses, where they are short enough */
	struct ripc__udp_route *last_route;              /* the one used last; NULL: none */
	struct ripc__udp_sender last;
};

void ripc__udp_init(struct ripc__udp *u, const char *name, uint64_t host);
/* There may be a line from now on: it is watched at epoll_fd, with these data. */
void ripc__udp_conn_enable(struct ripc__udp *u, int epoll_fd, uint64_t data);
/* Binds a socket to an IP address, on a port that the kernel chooses. @mtu: of its interface, 0: no limit. Return: its index in
 * u->port, or a negative errno. */
int ripc__udp_open(struct ripc__udp *u, const union ripc__sockaddr *ip, uint32_t mtu);
/* Closes one; its index may come again. */
void ripc__udp_port_close(struct ripc__udp *u, unsigned i);
void ripc__udp_close(struct ripc__udp *u); /* all of them; async-signal-safe */
/* Whether the address of a port is gone at present. Nothing is sent from it then; what comes in is taken all the same. */
void ripc__udp_set_addr_gone(struct ripc__udp *u, unsigned i, bool gone);
/* No datagram that is sent will be longer than an interface of this MTU carries in one piece. */
void ripc__udp_limit_mtu(struct ripc__udp *u, uint32_t mtu);

/* As post_datagram() of the vtable. */
int ripc__udp_send(struct ripc__udp *u, const uint8_t *addr, size_t addrlen,
		   const struct iovec *iov, unsigned niov);

/*
 * Takes a datagram from port i into space, RIPC__UDP_MAX bytes: the MTU of others is not ours. from: the address to answer to.
 * Return: its bytes; -EAGAIN: there is none; -EMSGSIZE: one longer than any that would be sent was dropped, who sent it.
 */
int ripc__udp_receive(struct ripc__udp *u, unsigned i, void *space, uint8_t from[RIPC__UDP_FROM],
		      uint32_t *fromlen, char who[64]);

/* Has the line watched. Return: 0; 1: it could not be. */
int ripc__udp_conn_watch(struct ripc__udp *u);

/*
 * Before a sleep, and when the line is asked no more in each round: what comes to it is seen at epoll_fd. Return: 0; 1: it is not, and
 * must be asked.
 */
static inline int ripc__udp_arm(struct ripc__udp *u)
{
	u->udp_conn.recent_rx = 0;
	return u->port[RIPC__UDP_CONN].fd >= 0 && !u->udp_conn.watched && ripc__udp_conn_watch(u);
}

/* Another port to be asked for datagrams whenever port i is; < 0: none. */
static inline int ripc__udp_paired_port(const struct ripc__udp *u, unsigned i)
{
	if (u->port[RIPC__UDP_CONN].fd < 0)
		return -1;
	return i == RIPC__UDP_CONN     ? (int)u->udp_conn.port
	       : i == u->udp_conn.port ? (int)RIPC__UDP_CONN
				       : -1;
}

/*
 * After port i was asked for its burst of datagrams, and had @got: a single one is not kept waiting for the system call that would
 * find no second, but more are asked for while more come.
 */
static inline void ripc__udp_adapt_burst(struct ripc__udp *u, unsigned i, unsigned got)
{
	unsigned *burst = &u->port[i].burst;

	*burst = got < *burst ? got + !got : *burst * 2;
}

/* Of the line, in line.c. Opens it to where this way leads, which goes by it then, if it can be had. */
void ripc__udp_conn_open(struct ripc__udp *u, struct ripc__udp_route *route);
/* A way that was found again goes by the line there is, if it leads there. */
void ripc__udp_conn_join(const struct ripc__udp *u, struct ripc__udp_route *route);
/* Nothing goes by it any more; what came to it is still received. */
void ripc__udp_conn_end(struct ripc__udp *u);
void ripc__udp_conn_close(struct ripc__udp *u); /* at once */
/* One datagram went to another peer, or came from one. */
void ripc__udp_conn_other(struct ripc__udp *u);
/* ripc__udp_receive() of the line, or of the port whose address it has, while there is a line. */
int ripc__udp_conn_receive(struct ripc__udp *u, unsigned i, void *space,
			   uint8_t from[RIPC__UDP_FROM], uint32_t *fromlen, char who[64]);

/* ripc__udp_receive() of just this socket. sender: from where, or NULL where that is of no interest, and from, fromlen and who are not set. */
int ripc__udp_receive_from(struct ripc__udp *u, unsigned i, void *space, union ripc__sockaddr *sender,
			   uint8_t from[RIPC__UDP_FROM], uint32_t *fromlen, char who[64]);

/* The MTU of an interface, at least 1280. */
uint32_t ripc__udp_mtu(const char *interface);

#endif
