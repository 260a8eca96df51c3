/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The processes and users that have bound names of this host, as the kernel reports them. */
#ifndef RIPC_RESOLVER_HOLDER_H
#define RIPC_RESOLVER_HOLDER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* A process that holds a service. */
struct ripc__holder {
	pid_t pid; /* 0: not known */
	uid_t uid;
	bool uid_known;
};

/*
 * A datagram socket with an abstract name. @name: behind its first 0 byte, not terminated. @uid:
 * the user that has bound it; NULL: unknown, on kernels before 5.3.
 */
typedef void ripc__socket_fn(void *arg, const char *name, size_t len, const uid_t *uid);

/*
 * Calls @fn for each such socket of this network namespace whose name begins with @prefix, from the
 * kernel's table of sockets (sock_diag), which it reads completely: a call takes long. Return: 0 or
 * a negative errno.
 */
int ripc__socket_each(const char *prefix, ripc__socket_fn *fn, void *arg);

#endif
