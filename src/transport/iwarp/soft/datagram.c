/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Short messages over UDP, one datagram each. */
#include "core/log.h"
#include "transport/iwarp/soft/soft.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#define DATAGRAM_IOV 64u

/* The socket to send from: of the same family, and loopback or not as the destination. */
static int socket_for(const struct soft *t, const union ripc__sockaddr *to)
{
	bool loopback = ripc__sockaddr_is_loopback(to);

	for (unsigned i = 0; i < t->nlisteners; i++) {
		const struct soft_listener *l = &t->listeners[i];

		if (l->udp.fd >= 0 && l->loopback == loopback &&
		    l->udp.addr.sa.sa_family == to->sa.sa_family)
			return l->udp.fd;
	}
	return -1;
}

int ripc__soft_post_datagram(struct ripc__transport *tr, const uint8_t *addr, size_t addrlen,
			     const struct iovec *iov, unsigned niov)
{
	struct soft *t = (struct soft *)tr;
	struct ripc__iwarp_address address;
	struct msghdr msg = {.msg_iov = (struct iovec *)iov, .msg_iovlen = niov};
	size_t len = 0;

	if (!t->datagrams)
		return -EOPNOTSUPP;
	for (unsigned i = 0; i < niov; i++)
		len += iov[i].iov_len;
	if (len > t->datagram_max)
		return -EMSGSIZE;
	if (ripc__iwarp_address_decode(&address, addr, addrlen))
		return ripc__fail(-EINVAL, "iwarp/soft: the peer's address makes no sense");
	ripc__iwarp_address_order(&address, t->host);
	for (unsigned i = 0; i < address.nplaces; i++) {
		union ripc__sockaddr to = address.places[i].ip;
		int fd = address.places[i].udp ? socket_for(t, &to) : -1;

		if (fd < 0)
			continue;
		ripc__sockaddr_set_port(&to, address.places[i].udp);
		msg.msg_name = &to;
		msg.msg_namelen = ripc__sockaddr_len(&to);
		if (sendmsg(fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0)
			return 0;
		/* A port that nobody listens at any more is reported with the next datagram: lost, not failed. */
		if (errno == EAGAIN || errno == ENOBUFS || errno == ECONNREFUSED)
			return -EAGAIN;
	}
	return ripc__fail(
		-EHOSTUNREACH,
		"iwarp/soft: the peer takes no datagrams at an address reachable from here");
}

/* An address of one place, for answers. */
static uint32_t answer_address(struct soft *t, const union ripc__sockaddr *from, uint8_t *buf)
{
	struct ripc__iwarp_address a = {.host = t->host, .nplaces = 1};
	uint8_t whole[RIPC__ADDRESS_MAX];
	size_t len;

	a.places[0].ip = *from;
	a.places[0].loopback = ripc__sockaddr_is_loopback(from);
	/* Its TCP port is not known, and not asked for; 0 would be no address. */
	a.places[0].tcp = a.places[0].udp = ripc__sockaddr_port(from);
	len = ripc__iwarp_address_encode(&a, whole, sizeof(whole));
	memcpy(buf, whole, len);
	return (uint32_t)len;
}

unsigned ripc__soft_datagrams(struct soft *t, struct soft_port *port, struct ripc__event *events,
			      unsigned max)
{
	unsigned n = 0;

	while (n < max && t->ndatagrams < SOFT_DATAGRAMS_MAX) {
		union ripc__sockaddr from;
		socklen_t fromlen = sizeof(from);
		uint8_t *space, *address = t->datagram_from[t->ndatagrams];
		size_t len;
		ssize_t got;

		if (!ripc__soft_space(t, &space, &len))
			break;
		if (len < t->datagram_max) {
			/* The rest of this slab is too small: take the next. */
			ripc__soft_space_used(t, len);
			continue;
		}
		got = recvfrom(port->fd, space, t->datagram_max, MSG_DONTWAIT | MSG_TRUNC, &from.sa,
			       &fromlen);
		if (got < 0 && (errno == ECONNREFUSED || errno == EINTR))
			continue;
		if (got < 0)
			break;
		if (got > (ssize_t)t->datagram_max) {
			char who[64];

			ripc__sockaddr_text(&from, who, sizeof(who));
			ripc__soft_garbage(t, who, "datagram longer than any that would be sent");
			continue;
		}
		t->udp_idle_polls = 0;
		t->ndatagrams++;
		events[n++] = (struct ripc__event){
			.kind = RIPC__EV_DATAGRAM,
			.data = space,
			.len = (uint32_t)got,
			.token = t->slab,
			.from = address,
			.fromlen = answer_address(t, &from, address),
		};
		t->slab->refs++;
		ripc__soft_space_used(t, (size_t)got ? (size_t)got : 1);
	}
	return n;
}
