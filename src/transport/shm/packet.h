/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Packets on the Unix socket of a connection, each with at most one descriptor. */
#ifndef RIPC_SHM_PACKET_H
#define RIPC_SHM_PACKET_H

#include <sys/uio.h>

/* Sends one packet, with the descriptor fd unless it is -1. Return: 0 or a negative errno. */
int ripc__shm_send(int sock, const struct iovec *iov, size_t niov, int fd);
/*
 * Receives one packet. *fd: its descriptor, the caller's, or -1; *flags: as of recvmsg(). Return:
 * bytes, 0 at the end, or a negative errno; -EAGAIN: none.
 */
ssize_t ripc__shm_receive(int sock, struct iovec *iov, size_t niov, int *fd, int *flags);

#endif
