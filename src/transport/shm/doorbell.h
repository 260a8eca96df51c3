/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The doorbell of a connection. A kick is one byte on its Unix socket. Once a side has been kicked
 * SHM_DOORBELL_AFTER times, it is a write to an eventfd that this side has passed to its peer. A
 * round trip of two sleepers then takes 0.8 of the time. A context has at most SHM_DOORBELLS_MAX
 * eventfds of its own and as many of its peers; connections beyond stay with the socket.
 *
 *   The eventfd is watched edge-triggered and never read: its count stays 1, and a kick adds 0. So
 *   no kick needs a read, and a write never waits: the count would have to be the maximum, which
 *   no write() reaches. The descriptor of a peer is used only if it is such an eventfd.
 */
#ifndef RIPC_SHM_DOORBELL_H
#define RIPC_SHM_DOORBELL_H

#include "transport/shm/shm.h"

#define SHM_DOORBELL_AFTER 8u
#define SHM_DOORBELLS_MAX  32u

/* A kick came over the socket. */
void ripc__shm_doorbell_kicked(struct shm_ep *ep);
/* A packet of n bytes with the descriptor fd, or -1. Return: whether fd, a doorbell, was taken. */
bool ripc__shm_doorbell_take(struct shm_ep *ep, const uint8_t *packet, size_t n, int fd);
/* Wakes the peer of a struct shm_ep: kick() of the back end. */
void ripc__shm_doorbell_ring(void *ep);
/* Closes both descriptors. forked: in a child, which shares the epoll set with its parent. */
void ripc__shm_doorbell_close(struct shm_ep *ep, bool forked);

/* Events of an eventfd have this bit in the address of their endpoint. */
#define SHM_DOORBELL_TAG 1u

#endif
