/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The process and user that have bound a name of this host, as the kernel reports them. */
#ifndef RIPC_RESOLVER_HOLDER_H
#define RIPC_RESOLVER_HOLDER_H

#include <stdbool.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

/* A process that holds a service. */
struct ripc__holder {
	pid_t pid; /* 0: not known */
	uid_t uid;
	bool uid_known;
};

/*
 * The user that has bound an abstract datagram socket of this network namespace, from the kernel's
 * table of sockets (sock_diag). SO_PEERCRED does not work for datagram sockets. Reads all Unix
 * sockets: use it for error messages only. Return: 0, -ENOENT, or another negative errno.
 */
int ripc__socket_owner(const struct sockaddr_un *sun, socklen_t len, uid_t *uid);

#endif
