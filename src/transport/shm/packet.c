/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Packets on the Unix socket of a connection, each with at most one descriptor. An open connection
 * has memory objects for mapped zero copy, an eventfd for doorbell.c, and kicks.
 */
#define _GNU_SOURCE
#include "transport/shm/shm.h"
#include "wire/bytes.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define EXPORT_MAGIC     UINT64_C(0x31646e6863706972) /* "ripchnd1" */
#define EXPORT_LEN       24
#define EXPORT_BYTES_MAX (1u << 30) /* checking an object for holes takes time */

int ripc__shm_send(int sock, const struct iovec *iov, size_t niov, int fd)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = {.bytes = {0}};
	struct msghdr msg = {.msg_iov = (struct iovec *)(uintptr_t)iov, .msg_iovlen = niov};
	struct cmsghdr *c;

	if (fd >= 0) {
		msg.msg_control = control.bytes;
		msg.msg_controllen = sizeof(control.bytes);
		c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(c), &fd, sizeof(int));
	}
	return sendmsg(sock, &msg, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? -errno : 0;
}

ssize_t ripc__shm_receive(int sock, struct iovec *iov, size_t niov, int *fd, int *flags)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control;
	/* Room for one descriptor: the padding has room for a second one. */
	struct msghdr msg = {.msg_iov = iov,
			     .msg_iovlen = niov,
			     .msg_control = control.bytes,
			     .msg_controllen = CMSG_LEN(sizeof(int))};
	ssize_t n = recvmsg(sock, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

	*fd = -1;
	*flags = msg.msg_flags;
	if (n < 0)
		return errno == EINTR ? -EAGAIN : -errno;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&msg); c; c = CMSG_NXTHDR(&msg, c))
		if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS &&
		    c->cmsg_len == CMSG_LEN(sizeof(int)))
			memcpy(fd, CMSG_DATA(c), sizeof(int));
	return n;
}

int ripc__shm_export(struct ripc__ep *ep, int fd, size_t len, uint32_t number)
{
	uint8_t packet[EXPORT_LEN] = {0};
	struct iovec iov = {packet, sizeof(packet)};

	if (ep->state != RIPC__EP_OPEN)
		return -ENOTCONN;
	if (len > EXPORT_BYTES_MAX)
		return -EMSGSIZE;
	ripc__put_le64(packet, EXPORT_MAGIC);
	ripc__put_le64(packet + 8, len);
	ripc__put_le32(packet + 16, number);
	return ripc__shm_send(shm_ep(ep)->fd, &iov, 1, fd);
}

int ripc__shm_import(struct ripc__ep *ep, struct ripc__event *ev)
{
	uint8_t packet[EXPORT_LEN];
	struct iovec iov = {packet, sizeof(packet)};
	struct ripc__segment s = {0};
	uint64_t len = 0;
	int fd, flags;
	ssize_t n;

	/* A doorbell must not delay the object behind it. */
	do
		n = ripc__shm_receive(shm_ep(ep)->fd, &iov, 1, &fd, &flags);
	while (n > 0 && ripc__shm_doorbell_take(shm_ep(ep), packet, (size_t)n, fd));
	if (n == 1)
		ripc__shm_doorbell_kicked(shm_ep(ep));
	/* A peer must not export to us without zero copy on our side. */
	if (n == EXPORT_LEN && ripc__get_le64(packet) == EXPORT_MAGIC && shm_of(ep)->zero_copy)
		len = ripc__get_le64(packet + 8);
	if (fd >= 0 && len && len <= EXPORT_BYTES_MAX)
		ripc__segment_map_readonly(&s, fd, len);
	if (fd >= 0 && !s.base)
		close(fd);
	if (!s.base)
		return n ? 0 : -ECONNRESET;
	*ev = (struct ripc__event){.kind = RIPC__EV_IMPORTED,
				   .user = ep->user,
				   .ep = ep,
				   .data = s.base,
				   .size = s.len,
				   .status = fd,
				   .wr_id = ripc__get_le32(packet + 16)};
	return 1;
}
