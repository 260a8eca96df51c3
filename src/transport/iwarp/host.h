/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The number in the addresses of the iWARP transports by which contexts that share a loopback
 * recognize each other.
 */
#ifndef RIPC_IWARP_HOST_H
#define RIPC_IWARP_HOST_H

#include <stdint.h>

/*
 * A hash of the boot id and the network namespace. Without /proc the host's name replaces the boot
 * id. Two hosts of one name may then have the same number: an attempt over a loopback address
 * fails, and the next address is tried.
 */
uint64_t ripc__iwarp_host_id(void);

#endif
