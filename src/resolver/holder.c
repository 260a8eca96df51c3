/* SPDX-License-Identifier: LGPL-2.1-or-later */
#define _GNU_SOURCE
#include "resolver/holder.h"

#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Since Linux 5.3; older headers lack it. */
#define DIAG_SHOW_UID 0x40
#define DIAG_UID      7

/* Calls @fn for the socket of a message if its name begins with the @len bytes at @prefix. */
static void report(struct nlmsghdr *h, const char *prefix, size_t len, ripc__socket_fn *fn,
		   void *arg)
{
	struct unix_diag_msg *m = NLMSG_DATA(h);
	struct rtattr *a = (struct rtattr *)(m + 1);
	const char *name = NULL;
	size_t namelen = 0;
	uid_t uid;
	bool known = false;
	int left = (int)h->nlmsg_len - (int)NLMSG_LENGTH(sizeof(*m));

	for (; left > 0 && RTA_OK(a, left); a = RTA_NEXT(a, left)) {
		if (a->rta_type == UNIX_DIAG_NAME) {
			name = RTA_DATA(a);
			namelen = RTA_PAYLOAD(a);
		} else if (a->rta_type == DIAG_UID && RTA_PAYLOAD(a) == sizeof(uid)) {
			memcpy(&uid, RTA_DATA(a), sizeof(uid));
			known = true;
		}
	}
	if (m->udiag_type == SOCK_DGRAM && namelen > len && !*name &&
	    !memcmp(name + 1, prefix, len))
		fn(arg, name + 1, namelen - 1, known ? &uid : NULL);
}

/* Reads the kernel's list. */
static int read_sockets(int fd, const char *prefix, ripc__socket_fn *fn, void *arg)
{
	union {
		struct nlmsghdr align;
		char bytes[32768];
	} buf;

	for (;;) {
		ssize_t n = recv(fd, buf.bytes, sizeof(buf.bytes), 0);
		int left = (int)n;

		if (n <= 0)
			return n ? -errno : 0;
		for (struct nlmsghdr *h = &buf.align; NLMSG_OK(h, (unsigned)left);
		     h = NLMSG_NEXT(h, left)) {
			if (h->nlmsg_type == NLMSG_DONE)
				return 0;
			if (h->nlmsg_type == NLMSG_ERROR)
				return -EOPNOTSUPP;
			if (h->nlmsg_type == SOCK_DIAG_BY_FAMILY)
				report(h, prefix, strlen(prefix), fn, arg);
		}
	}
}

int ripc__socket_each(const char *prefix, ripc__socket_fn *fn, void *arg)
{
	struct {
		struct nlmsghdr head;
		struct unix_diag_req req;
	} ask = {
		.head = {.nlmsg_len = sizeof(ask),
			 .nlmsg_type = SOCK_DIAG_BY_FAMILY,
			 .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP},
		.req = {.sdiag_family = AF_UNIX,
			.udiag_states = UINT32_MAX,
			.udiag_show = UDIAG_SHOW_NAME | DIAG_SHOW_UID},
	};
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG), rc;

	if (fd < 0)
		return -errno;
	rc = send(fd, &ask, sizeof(ask), 0) < 0 ? -errno : read_sockets(fd, prefix, fn, arg);
	close(fd);
	return rc;
}
