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
#define _GNU_SOURCE
#include "transport/shm/shm.h"
#include "base/admission.h"
#include "wire/bytes.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#define MAGIC      UINT64_C(0x3165626863706972) /* "ripchbe1" */
#define PACKET_LEN 8
#define EVENTFD    "anon_inode:[eventfd]"

/*
 * Adds an eventfd to the epoll set. Not every kernel need wake for a write of 0: a set must report
 * one. Return: 0 or -1.
 */
static int watch(const struct shm_ep *ep, int fd)
{
	struct epoll_event ev = {.events = EPOLLIN | EPOLLET}, got;
	int trial = epoll_create1(EPOLL_CLOEXEC), rc = -1;

	if (trial >= 0 && !epoll_ctl(trial, EPOLL_CTL_ADD, fd, &ev) &&
	    epoll_wait(trial, &got, 1, 0) == 1 && epoll_wait(trial, &got, 1, 0) == 0) {
		eventfd_write(fd, 0);
		rc = epoll_wait(trial, &got, 1, 0) == 1 ? 0 : -1;
	}
	if (trial >= 0)
		close(trial);
	ev.data.u64 = (uint64_t)(uintptr_t)ep | SHM_DOORBELL_TAG;
	return rc ? rc : epoll_ctl(ep->ep.t->fd, EPOLL_CTL_ADD, fd, &ev);
}

void ripc__shm_doorbell_kicked(struct shm_ep *ep)
{
	struct shm *t = shm_of(&ep->ep);
	uint8_t packet[PACKET_LEN];
	struct iovec iov = {packet, sizeof(packet)};
	int fd;

	/* One attempt: without descriptors the socket does. */
	if (ep->kicks > SHM_DOORBELL_AFTER || ++ep->kicks <= SHM_DOORBELL_AFTER ||
	    t->doorbells >= SHM_DOORBELLS_MAX)
		return;
	fd = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);
	if (fd < 0)
		return;
	ripc__put_le64(packet, MAGIC);
	if (ripc__descriptors_low(fd) || watch(ep, fd) || ripc__shm_send(ep->fd, &iov, 1, fd)) {
		close(fd);
		return;
	}
	ep->doorbell = fd;
	t->doorbells++;
}

/* Whether writing to the descriptor can neither wait nor have another effect. */
static bool is_doorbell(int fd)
{
	char path[40], target[sizeof(EVENTFD)];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	n = readlink(path, target, sizeof(target));
	/* Paths of files begin with a slash. */
	return n == sizeof(EVENTFD) - 1 && !memcmp(target, EVENTFD, sizeof(EVENTFD) - 1) &&
	       fcntl(fd, F_GETFL) & O_NONBLOCK;
}

bool ripc__shm_doorbell_take(struct shm_ep *ep, const uint8_t *packet, size_t n, int fd)
{
	struct shm *t = shm_of(&ep->ep);

	if (fd < 0 || n != PACKET_LEN || ripc__get_le64(packet) != MAGIC ||
	    ep->peer_doorbell >= 0 || t->peer_doorbells >= SHM_DOORBELLS_MAX ||
	    ripc__descriptors_low(fd) || !is_doorbell(fd))
		return false;
	ep->peer_doorbell = fd;
	t->peer_doorbells++;
	return true;
}

void ripc__shm_doorbell_ring(void *arg)
{
	const struct shm_ep *ep = arg;

	/* A full socket holds kicks enough; progress() notices a closed one. */
	if (ep->peer_doorbell >= 0)
		eventfd_write(ep->peer_doorbell, 0);
	else
		(void)!send(ep->fd, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

void ripc__shm_doorbell_close(struct shm_ep *ep, bool forked)
{
	struct shm *t = shm_of(&ep->ep);

	if (ep->doorbell >= 0) {
		/* The peer has it open, too: closing it does not end the watch. */
		if (!forked)
			epoll_ctl(t->r.fd, EPOLL_CTL_DEL, ep->doorbell, NULL);
		close(ep->doorbell);
		t->doorbells--;
	}
	if (ep->peer_doorbell >= 0) {
		close(ep->peer_doorbell);
		t->peer_doorbells--;
	}
	ep->doorbell = ep->peer_doorbell = -1;
}
