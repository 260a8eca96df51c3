/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Short messages over UDP, as events. */
#include "transport/iwarp/soft/soft.h"

#include <errno.h>

int ripc__soft_post_datagram(struct ripc__transport *tr, const uint8_t *addr, size_t addrlen,
			     const struct iovec *iov, unsigned niov)
{
	struct soft *t = (struct soft *)tr;

	return t->datagrams ? ripc__udp_send(&t->udp, addr, addrlen, iov, niov) : -EOPNOTSUPP;
}

unsigned ripc__soft_datagrams(struct soft *t, struct soft_port *port, struct ripc__event *events,
			      unsigned max)
{
	unsigned n = 0;

	if (max > t->udp.port[port->udp].burst)
		max = t->udp.port[port->udp].burst;
	while (n < max && t->ndatagrams < SOFT_DATAGRAMS_MAX) {
		uint8_t *space, *address = t->datagram_from[t->ndatagrams];
		uint32_t fromlen = 0;
		char who[64];
		int got;

		if (!ripc__slab_reserve(&t->pool, &t->slab, &t->slab_used, RIPC__UDP_MAX, &space))
			break;
		got = ripc__udp_receive(&t->udp, port->udp, space, address, &fromlen, who);
		if (got == -EMSGSIZE) {
			ripc__soft_bad_input(t, who, "datagram longer than any that would be sent");
			continue;
		}
		if (got < 0)
			break;
		t->udp_empty_polls = 0;
		t->last_rx_port = port;
		t->empty_takes = 0;
		t->ndatagrams++;
		events[n++] = (struct ripc__event){
			.kind = RIPC__EV_DATAGRAM,
			.data = space,
			.len = (uint32_t)got,
			.token = t->slab,
			.from = address,
			.fromlen = fromlen,
		};
		t->slab->refs++;
		ripc__soft_space_used(t, (size_t)got ? (size_t)got : 1);
	}
	ripc__udp_adapt_burst(&t->udp, port->udp, n);
	return n;
}
