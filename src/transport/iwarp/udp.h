/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Short messages over UDP, one datagram each: sockets, sending, receiving. For both iWARP transports; nothing waits. */
#ifndef RIPC_IWARP_UDP_H
#define RIPC_IWARP_UDP_H

#include "transport/iwarp/address.h"

#include <sys/uio.h>

#define RIPC__UDP_FROM 40u /* bytes of an address to answer to at most */

struct ripc__udp_port {
	int fd;
	union ripc__sockaddr addr; /* bound to */
	bool loopback;
	unsigned burst; /* datagrams that are asked for at once, at least 1 */
};

#define RIPC__UDP_WAYS    16u /* a power of two */
#define RIPC__UDP_WAY_LEN 96u

/* An address that a datagram was sent to, and from which socket to where that was. */
struct ripc__udp_way {
	int fd;
	uint8_t len; /* 0: none */
	uint8_t addr[RIPC__UDP_WAY_LEN];
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
	uint32_t max;     /* bytes of a datagram at most */
	unsigned n;
	struct ripc__udp_port port[RIPC__PLACES_MAX];
	struct ripc__udp_way ways[RIPC__UDP_WAYS]; /* of the last addresses, where they are short enough */
	struct ripc__udp_way *last_way;            /* the one used last; NULL: none */
	struct ripc__udp_sender last;
};

void ripc__udp_init(struct ripc__udp *u, const char *name, uint64_t host);
/* Binds a socket to an IP address, on a port that the kernel chooses. @mtu: of its interface, 0: no limit. Return: its index in
 * u->port, or a negative errno. */
int ripc__udp_open(struct ripc__udp *u, const union ripc__sockaddr *ip, uint32_t mtu);
void ripc__udp_close(struct ripc__udp *u); /* all of them; async-signal-safe */

/* As post_datagram() of the vtable. */
int ripc__udp_send(struct ripc__udp *u, const uint8_t *addr, size_t addrlen,
		   const struct iovec *iov, unsigned niov);

/*
 * Takes a datagram from port i into space, u->max bytes. from: the address to answer to. Return: its bytes; -EAGAIN: there is
 * none; -EMSGSIZE: one longer than any that would be sent was dropped, who sent it.
 */
int ripc__udp_receive(struct ripc__udp *u, unsigned i, void *space, uint8_t from[RIPC__UDP_FROM],
		      uint32_t *fromlen, char who[64]);

/*
 * After port i was asked for its burst of datagrams, and had @got: a single one is not kept waiting for the system call that would
 * find no second, but more are asked for while more come.
 */
static inline void ripc__udp_asked(struct ripc__udp *u, unsigned i, unsigned got)
{
	unsigned *burst = &u->port[i].burst;

	*burst = got < *burst ? got + !got : *burst * 2;
}

/* The MTU of an interface, at least 1280. */
uint32_t ripc__udp_mtu(const char *interface);

#endif
