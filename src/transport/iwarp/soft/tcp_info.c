/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * TCP statistics of the kernel for a connection, in a file of its own because linux/tcp.h and
 * netinet/tcp.h exclude each other.
 */
#include "transport/iwarp/soft/soft.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

uint64_t ripc__soft_tcp_progress(struct ripc__ep *ep)
{
	struct tcp_info info = {0};
	socklen_t len = sizeof(info);

	if (getsockopt(ep->fd, IPPROTO_TCP, TCP_INFO, &info, &len))
		return 0;
	return info.tcpi_bytes_received + info.tcpi_bytes_acked;
}
