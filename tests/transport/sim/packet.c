/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Packets: events of a transport, from their arrival until the reader releases them. */
#include "transport/sim/net.h"

#include <stdlib.h>
#include <string.h>

#define POISON 0xa5 /* contents of a packet's memory after its release */

struct sim_packet *ripc__sim_packet(struct ripc__transport *t, enum ripc__ev_kind kind,
				    const void *data, size_t len)
{
	struct sim_packet *p = calloc(1, sizeof(*p) + len);

	if (!p)
		return NULL;
	p->ev.kind = kind;
	p->ev.data = p->data;
	p->ev.len = (uint32_t)len;
	p->data_len = len;
	if (len)
		memcpy(p->data, data, len);
	DL_APPEND(t->inbox, p);
	t->net->counters.packets++;
	t->net->activity++;
	if (t->net->arrival)
		t->net->arrival(t->net->arrival_arg, t->node->index);
	return p;
}

void ripc__sim_packet_free(struct ripc__transport *t, struct sim_packet *p)
{
	if (p->receive && p->ep)
		p->ep->unreleased--;
	if (p->ev.kind == RIPC__EV_DATAGRAM)
		t->datagrams--;
	if (p->op)
		ripc__sim_op_free(p->op);
	t->net->counters.packets--;
	memset(p, POISON, sizeof(*p) + p->data_len);
	/* The compiler would leave out what is written before free(). */
	__asm__ volatile("" : : "r"(p) : "memory");
	free(p);
}
