/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Which host this is: for addresses and records, by which contexts of one host know each other.
 *
 * The boot id can be read from /proc only. A process without /proc does not know it, and no number
 * that it could make up would be that of its neighbours. So "not known" is a value of its own,
 * which equals nothing. That a peer is on this host is then shown by its socket: an abstract Unix socket
 * can be connected to from the same network namespace only.
 */
#ifndef RIPC_BASE_HOST_H
#define RIPC_BASE_HOST_H

#include <stdbool.h>
#include <stdint.h>

struct ripc__host {
	uint8_t boot[16]; /* boot id of the running kernel; zeros: not known */
	bool known;       /* boot is */
	/*
	 * The network namespace, by its cookie. Kernels before 5.14 have none: there it is the inode in
	 * /proc. All processes of a host have the same kernel, and so the same kind of number.
	 * 0: not known.
	 */
	uint64_t netns;
};

/* Any thread; asks the kernel, does not wait. */
void ripc__host_get(struct ripc__host *host);

/* Whether two boot ids are known and the same. */
bool ripc__host_same(const uint8_t a[16], const uint8_t b[16]);
/* Whether two boot ids are known and differ: then the other is another host for sure. */
bool ripc__host_differs(const uint8_t a[16], const uint8_t b[16]);

/*
 * Whether the kernel counts what memory it has promised, and refuses more (vm.overcommit_memory=2).
 * Pages of a memfd are counted when they are touched: then a fault may be refused, and is SIGBUS.
 * Without /proc it is taken not to, as by default.
 */
bool ripc__host_no_overcommit(void);

#endif
