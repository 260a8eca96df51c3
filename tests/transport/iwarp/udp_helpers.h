/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Datagram sockets on the loopback, for tests of ports and of connected sockets. */
#ifndef RIPC_TESTS_TRANSPORT_IWARP_UDP_HELPERS_H
#define RIPC_TESTS_TRANSPORT_IWARP_UDP_HELPERS_H

#include "harness.h"
#include "transport/iwarp/udp.h"
#include "transport/transport.h"

#define HOST       77
#define TIMEOUT_MS 60000 /* milliseconds */

extern char space[65536]; /* the received byte */

/* One socket on the loopback. */
void open_one(struct ripc__udp *u, const char *ip);

/* Its address as in resolver records. Return: bytes. */
size_t address_of(const struct ripc__udp *u, uint8_t addr[RIPC__ADDRESS_MAX]);

/* Sends one byte to such an address. */
void send_to(struct ripc__udp *u, const uint8_t *addr, size_t len, char what);

/* Waits for one byte at the first socket. Return: the byte; from: the address to answer to. */
char receive(struct ripc__udp *u, uint8_t from[RIPC__UDP_FROM], uint32_t *fromlen);

#endif
