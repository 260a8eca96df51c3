/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Buffers that are given to the peer: packets on the Unix socket of a connection, each with the
 * descriptor of a memory object. All other packets there are kicks.
 */
#define _GNU_SOURCE
#include "transport/shm/shm.h"
#include "wire/bytes.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define EXPORT_MAGIC UINT64_C(0x31646e6863706972) /* "ripchnd1" */
#define EXPORT_LEN   24
#define EXPORT_BYTES_MAX \
	(1u << 30) /* of one buffer: looking whether all of it is there takes time */

int ripc__shm_export(struct ripc__ep *ep, int fd, size_t len, uint32_t number)
{
	uint8_t packet[EXPORT_LEN] = {0};
	struct iovec iov = {packet, sizeof(packet)};
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = {.bytes = {0}};
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = control.bytes,
			     .msg_controllen = sizeof(control.bytes)};
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);

	if (ep->state != RIPC__EP_OPEN)
		return -ENOTCONN;
	if (len > EXPORT_BYTES_MAX)
		return -EMSGSIZE;
	ripc__put_le64(packet, EXPORT_MAGIC);
	ripc__put_le64(packet + 8, len);
	ripc__put_le32(packet + 16, number);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &fd, sizeof(int));
	return sendmsg(shm_ep(ep)->fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? -errno : 0;
}

int ripc__shm_import(struct ripc__ep *ep, struct ripc__event *ev)
{
	uint8_t packet[EXPORT_LEN];
	struct iovec iov = {packet, sizeof(packet)};
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control;
	/* Room for one descriptor, not for what fits the padding. */
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = control.bytes,
			     .msg_controllen = CMSG_LEN(sizeof(int))};
	ssize_t n = recvmsg(shm_ep(ep)->fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	struct ripc__segment s = {0};
	struct cmsghdr *c;
	uint64_t len = 0;
	int fd = -1;

	if (n < 0)
		return 0;
	for (c = CMSG_FIRSTHDR(&msg); c; c = CMSG_NXTHDR(&msg, c))
		if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS &&
		    c->cmsg_len == CMSG_LEN(sizeof(int)))
			memcpy(&fd, CMSG_DATA(c), sizeof(int));
	if (fd >= 0) {
		/* A peer that was not told that we take any has no business to send some. */
		if (n == EXPORT_LEN && ripc__get_le64(packet) == EXPORT_MAGIC && shm_of(ep)->zero_copy)
			len = ripc__get_le64(packet + 8);
		if (len && len <= EXPORT_BYTES_MAX)
			ripc__segment_map_readonly(&s, fd, len);
		close(fd);
	}
	if (!n)
		return -ECONNRESET;
	if (!s.base)
		return 0;
	*ev = (struct ripc__event){.kind = RIPC__EV_IMPORTED,
				   .user = ep->user,
				   .ep = ep,
				   .data = s.base,
				   .size = s.len,
				   .wr_id = ripc__get_le32(packet + 16)};
	return 1;
}
