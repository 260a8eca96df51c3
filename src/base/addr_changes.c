/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "base/addr_changes.h"

#include "base/clock.h"

#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>
#include <unistd.h>

#define RESCAN_MS 1000 /* least interval of reads of the list */

int ripc__addr_changes_open(void)
{
	struct sockaddr_nl nl = {.nl_family = AF_NETLINK,
				 .nl_groups =
					 RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR};
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, NETLINK_ROUTE), err;

	if (fd < 0)
		return -errno;
	if (!bind(fd, (struct sockaddr *)&nl, sizeof(nl)))
		return fd;
	err = -errno;
	close(fd);
	return err;
}

uint64_t ripc__addr_changes_read(int fd, uint64_t scanned_ns, uint64_t now_ns)
{
	uint64_t next_ns = scanned_ns + RESCAN_MS * RIPC__MS;
	uint8_t buf[64];

	/* Lost messages appear as ENOBUFS, with the same effect. */
	for (unsigned i = 0; i < 1024; i++)
		if (recv(fd, buf, sizeof(buf), MSG_TRUNC) < 0 && errno != ENOBUFS)
			break;
	return scanned_ns && next_ns > now_ns ? next_ns : now_ns;
}
