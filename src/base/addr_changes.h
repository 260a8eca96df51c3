/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Reports of the kernel (netlink) that addresses or interfaces of the host have changed. They carry
 * no detail: the owner reads the whole list of addresses again.
 */
#ifndef RIPC_BASE_ADDR_CHANGES_H
#define RIPC_BASE_ADDR_CHANGES_H

#include <stdint.h>

/* Return: a non-blocking descriptor, readable after a change; or a negative errno. */
int ripc__addr_changes_open(void);

/*
 * Takes all reports. @scanned_ns: time of the last read of the list, 0: never. Return: time at
 * which to read it again, now_ns or later, because the list may be long.
 */
uint64_t ripc__addr_changes_read(int fd, uint64_t scanned_ns, uint64_t now_ns);

#endif
