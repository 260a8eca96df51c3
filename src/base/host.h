/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The identity of this host, by which contexts of one host recognize each other.
 *
 * The boot id can be read from /proc only. Without /proc it is unknown, which equals no other id.
 * Then a socket proves that a peer is on this host: an abstract Unix socket can be connected to
 * only from the same network namespace.
 */
#ifndef RIPC_BASE_HOST_H
#define RIPC_BASE_HOST_H

#include <stdbool.h>
#include <stdint.h>

struct ripc__host {
	uint8_t boot[16]; /* boot id of the running kernel; zeros: not known */
	bool known;       /* whether boot is known */
	/*
	 * The network namespace, by its cookie. Kernels before 5.14 have none: there it is the
	 * inode in /proc. All processes of a host have the same kernel, and so the same kind of
	 * number. 0: not known.
	 */
	uint64_t netns;
};

/*
 * A datagram socket to ask the kernel by, of any family that this process may use. Return: its
 * descriptor or a negative errno.
 */
int ripc__host_socket(void);

/* Any thread. Does not block. */
void ripc__host_get(struct ripc__host *host);

/* Whether two boot ids are known and the same. */
bool ripc__host_same(const uint8_t a[16], const uint8_t b[16]);
/* Whether two boot ids are known and differ: a different host. */
bool ripc__host_differs(const uint8_t a[16], const uint8_t b[16]);

/*
 * Whether the kernel limits committed memory (vm.overcommit_memory=2). Then touching a page of a
 * memfd may fail with SIGBUS. Without /proc: false, the default.
 */
bool ripc__host_no_overcommit(void);

#endif
