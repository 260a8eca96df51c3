/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Short messages over UDP, one datagram each, for both iWARP transports. No call blocks. */
#ifndef RIPC_IWARP_UDP_H
#define RIPC_IWARP_UDP_H

#include "base/slab.h"
#include "transport/iwarp/address.h"

#include <sys/uio.h>

#define RIPC__UDP_FROM    40u    /* longest address to answer to, bytes */
#define RIPC__UDP_MAX     16384u /* longest datagram of any sender, bytes */
#define RIPC__UDP_MTU_MIN 1280u  /* smallest MTU, bytes */
#define RIPC__UDP_PORTS   RIPC__IWARP_ADDRS_MAX

struct ripc__event;

struct ripc__udp_port {
	int fd;                    /* < 0: none */
	union ripc__sockaddr addr; /* bound to */
	bool gone;                 /* no interface has the address: it cannot be sent from */
	unsigned burst;            /* datagrams received per call, at least 1 */
};

#define RIPC__UDP_CONN RIPC__UDP_PORTS /* index of the connected socket in port[] */

/*
 *   NONE --opened--> PORT_FIRST --port empty--> SHARED --socket empty--> EXCLUSIVE
 *   PORT_FIRST, SHARED, EXCLUSIVE --end--> CLOSING --socket empty--> NONE
 *   any state --closed at once--> NONE
 *
 * ripc__udp_conn_set_state() asserts that a transition is in the table of udp_socket.c.
 */
enum ripc__udp_conn_state {
	RIPC__UDP_CONN_NONE,
	RIPC__UDP_CONN_PORT_FIRST, /* older datagrams of the peer may be in the port */
	RIPC__UDP_CONN_SHARED,     /* it may have datagrams of other peers */
	RIPC__UDP_CONN_EXCLUSIVE,
	RIPC__UDP_CONN_CLOSING, /* its datagrams are received, and nothing is sent on it */
	RIPC__UDP_CONN_STATES,
};

/*
 * The connected UDP socket. It is connected to the peer of most datagrams, and bound to the address
 * of the port they were sent from, so that the peer sees no difference. The kernel needs no route
 * look-up for it, and datagrams of the peer arrive there. There is at most one, and none while
 * several peers alternate, because every socket has to be polled.
 */
struct ripc__udp_conn {
	bool watched;                    /* by epoll */
	enum ripc__udp_conn_state state; /* ripc__udp_conn_set_state() */
	unsigned port;                   /* port whose address it has; also when it is closed */
	unsigned run;                    /* datagrams sent in a row to one address */
	/* plus OTHER_COST for each datagram of other peers, minus 1 for its own */
	unsigned other_peers;
	unsigned same_peer_run; /* received from the peer in a row */
	unsigned recent_rx;     /* received since ripc__udp_arm() */
	union ripc__sockaddr to;
};

#define RIPC__UDP_ROUTES    16u /* a power of two */
#define RIPC__UDP_ROUTE_LEN 96u

/* A cached route: socket and destination of an address. */
struct ripc__udp_route {
	int fd;
	uint8_t len; /* 0: none */
	uint8_t addr[RIPC__UDP_ROUTE_LEN];
	union ripc__sockaddr to;
};

/* The sender of the last datagram, and the address to answer to. */
struct ripc__udp_sender {
	union ripc__sockaddr ip;
	uint32_t fromlen;
	uint8_t from[RIPC__UDP_FROM];
};

#define RIPC__UDP_EVENTS_MAX 64u /* datagrams reported by one progress() at most */

/* Where received datagrams lie. */
struct ripc__udp_rx {
	struct ripc__slab_pool *slabs;
	uintptr_t tag; /* bits of the tokens beside the slab */
	unsigned n;    /* datagrams that were reported; 0 once the core has used their sources */
	uint8_t from[RIPC__UDP_EVENTS_MAX][RIPC__UDP_FROM]; /* sources */
	char bad[96];                                       /* text of EV_BAD_INPUT */
};

/* The sockets of a transport. */
struct ripc__udp {
	const char *name;    /* of the transport, for messages */
	uint64_t host;       /* see struct ripc__iwarp_address */
	uint32_t max;        /* longest datagram that is sent, bytes */
	int epoll_fd;        /* watches the sockets; < 0: none, and no connected socket is used */
	uint64_t data, step; /* epoll data of port i: data + i * step */
	unsigned n;          /* of port[] that are or were open */
	struct ripc__udp_port port[RIPC__UDP_PORTS + 1]; /* and the connected socket */
	struct ripc__udp_conn udp_conn;
	struct ripc__udp_route routes[RIPC__UDP_ROUTES]; /* of recent addresses */
	struct ripc__udp_route *last_route;              /* the one used last; NULL: none */
	struct ripc__udp_sender last;
	struct ripc__udp_rx rx;
	unsigned last_rx_port; /* port of the last datagram */
	unsigned empty_polls;  /* since then: passes, */
	unsigned empty_takes;  /* calls of ripc__udp_poll_one() */
};

/*
 * @slabs: memory for received datagrams. @tag: of struct ripc__udp_rx. The sockets are added to
 * @epoll_fd, port i with data + i * step.
 */
void ripc__udp_init(struct ripc__udp *u, const char *name, struct ripc__slab_pool *slabs,
		    uintptr_t tag, int epoll_fd, uint64_t data, uint64_t step);
/*
 * Binds a socket to an IP address and a port chosen by the kernel. @mtu: of its interface, 0: no
 * limit. Return: its index in u->port, or a negative errno.
 */
int ripc__udp_open(struct ripc__udp *u, const union ripc__sockaddr *ip, uint32_t mtu);
/* Closes one; its index may be used again. */
void ripc__udp_port_close(struct ripc__udp *u, unsigned i);
void ripc__udp_close(struct ripc__udp *u); /* closes all; async-signal-safe */
/*
 * Sets whether the address of a port is gone: nothing is sent from it then, but it still receives.
 */
void ripc__udp_set_addr_gone(struct ripc__udp *u, unsigned i, bool gone);
/* Limits the datagrams sent to the MTU of an interface, so that they are not fragmented. */
void ripc__udp_limit_mtu(struct ripc__udp *u, uint32_t mtu);

/* As post_datagram() of the vtable. */
int ripc__udp_send(struct ripc__udp *u, const uint8_t *addr, size_t addrlen,
		   const struct iovec *iov, unsigned niov);

/*
 * Receives a datagram from port i into space, of RIPC__UDP_MAX bytes because peers may have a
 * larger MTU. from: the address to answer to. Return: its length; -EAGAIN: there is none;
 * -EMSGSIZE: it was too long and dropped, who: its sender.
 */
int ripc__udp_receive(struct ripc__udp *u, unsigned i, void *space, uint8_t from[RIPC__UDP_FROM],
		      uint32_t *fromlen, char who[64]);

/*
 * The same for a burst, as EV_DATAGRAM, whose token holds a reference to a slab, and EV_BAD_INPUT.
 * Return: events.
 */
unsigned ripc__udp_receive_events(struct ripc__udp *u, unsigned i, struct ripc__event *events,
				  unsigned max);
/*
 * Polls the sockets without epoll, in each pass for some time after the last datagram. Return:
 * events.
 */
unsigned ripc__udp_poll(struct ripc__udp *u, struct ripc__event *events, unsigned max);
/* As poll_one() of the vtable: polls the socket of the last datagram. */
bool ripc__udp_poll_one(struct ripc__udp *u, struct ripc__event *ev);

/* Makes epoll report port i. Return: 0, or -1 with errno. */
int ripc__udp_port_watch(const struct ripc__udp *u, unsigned i);
/* Adds the connected socket to epoll. Return: 0; 1: failed. */
int ripc__udp_conn_watch(struct ripc__udp *u);

/*
 * Makes epoll report the connected socket: before a sleep, and when progress() stops polling it.
 * Return: 0; 1: failed, poll the socket.
 */
static inline int ripc__udp_arm(struct ripc__udp *u)
{
	u->udp_conn.recent_rx = 0;
	return u->port[RIPC__UDP_CONN].fd >= 0 && !u->udp_conn.watched && ripc__udp_conn_watch(u);
}

/* The connected socket, in udp_socket.c. */
void ripc__udp_conn_set_state(struct ripc__udp_conn *conn, enum ripc__udp_conn_state to);

/* Whether datagrams to its peer are sent on it. */
static inline bool ripc__udp_conn_sends(const struct ripc__udp *u)
{
	return u->udp_conn.state != RIPC__UDP_CONN_NONE &&
	       u->udp_conn.state != RIPC__UDP_CONN_CLOSING;
}

/* Opens it to the destination of this route, which uses it from then on, if it can be opened. */
void ripc__udp_conn_open(struct ripc__udp *u, struct ripc__udp_route *route);
/* Lets a route that was resolved again use the connected socket, if it leads to its peer. */
void ripc__udp_conn_join(const struct ripc__udp *u, struct ripc__udp_route *route);
/* Stops sending on it. Datagrams that have arrived are still received. */
void ripc__udp_conn_end(struct ripc__udp *u);
void ripc__udp_conn_close(struct ripc__udp *u); /* closes it at once */
/* Counts a datagram to or from another peer. */
void ripc__udp_conn_other(struct ripc__udp *u);
/* ripc__udp_receive() of the connected socket, or of the port whose address it has. */
int ripc__udp_conn_receive(struct ripc__udp *u, unsigned i, void *space,
			   union ripc__sockaddr *sender);

/* ripc__udp_receive() of this socket only. sender: receives the source; NULL: not wanted. */
int ripc__udp_receive_from(struct ripc__udp *u, unsigned i, void *space,
			   union ripc__sockaddr *sender);

/* The MTU of an interface, at least 1280. */
uint32_t ripc__udp_mtu(const char *interface);

#endif
