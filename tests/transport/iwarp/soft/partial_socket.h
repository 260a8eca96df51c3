/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Calls of sockets that take or give a random part of the bytes, or none: send(), sendmsg(),
 * recv() and recvmsg() of the program that links this.
 */
#ifndef RIPC_TESTS_TRANSPORT_IWARP_SOFT_PARTIAL_SOCKET_H
#define RIPC_TESTS_TRANSPORT_IWARP_SOFT_PARTIAL_SOCKET_H

#include <stddef.h>
#include <stdint.h>

extern size_t partial_socket_max; /* bytes of one call at most; 0: no limit */
extern uint64_t partial_socket_rng;

#endif
