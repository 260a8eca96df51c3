/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A simulated network with virtual time: seeded, deterministic, single-threaded. For tests.
 * It carries the `sim` transport (transport/transport.h) and the datagrams of the resolver's `sim` back end.
 */
#ifndef RIPC_TRANSPORT_SIM_H
#define RIPC_TRANSPORT_SIM_H

#include <stddef.h>
#include <stdint.h>

struct ripc__sim;      /* the network */
struct ripc__sim_port; /* where the resolver of one context is attached to it */

/* Resolver datagrams: subject to the network's loss, delay, duplication, reordering and partitions. */
int ripc__sim_port_open(struct ripc__sim *net, const uint8_t instance[16], struct ripc__sim_port **port);
void ripc__sim_port_close(struct ripc__sim_port *port);
/* To one instance, or to all others if to is NULL. Return: 0 (it may still be lost). */
int ripc__sim_port_send(struct ripc__sim_port *port, const uint8_t *to, const void *data, size_t len);
/* Return: bytes of the next datagram that has arrived, its sender in from; -EAGAIN if there is none. */
int ripc__sim_port_recv(struct ripc__sim_port *port, uint8_t from[16], void *buf, size_t cap);

#endif
