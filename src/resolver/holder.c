/* SPDX-License-Identifier: LGPL-2.1-or-later */
#define _GNU_SOURCE
#include "resolver/holder.h"

#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

/* Since Linux 5.3; older headers lack it. */
#define DIAG_SHOW_UID 0x40
#define DIAG_UID      7

/* Whether a message describes the socket of this name. */
static bool matches(struct nlmsghdr *h, const char *name, size_t namelen, uid_t *uid)
{
	struct unix_diag_msg *m = NLMSG_DATA(h);
	struct rtattr *a = (struct rtattr *)(m + 1);
	bool same = false, known = false;
	int len = (int)h->nlmsg_len - (int)NLMSG_LENGTH(sizeof(*m));

	if (m->udiag_type != SOCK_DGRAM)
		return false;
	for (; len > 0 && RTA_OK(a, len); a = RTA_NEXT(a, len)) {
		if (a->rta_type == UNIX_DIAG_NAME)
			same = RTA_PAYLOAD(a) == namelen && !memcmp(RTA_DATA(a), name, namelen);
		if (a->rta_type == DIAG_UID && RTA_PAYLOAD(a) == sizeof(*uid)) {
			memcpy(uid, RTA_DATA(a), sizeof(*uid));
			known = true;
		}
	}
	return same && known;
}

/* Reads the list of the kernel until the name is found or the list ends. */
static int search(int fd, const char *name, size_t namelen, uid_t *uid)
{
	union {
		struct nlmsghdr align;
		char bytes[32768];
	} buf;

	for (;;) {
		ssize_t n = recv(fd, buf.bytes, sizeof(buf.bytes), 0);
		int disabled = (int)n;

		if (n <= 0)
			return n ? -errno : -ENOENT;
		for (struct nlmsghdr *h = &buf.align; NLMSG_OK(h, (unsigned)disabled);
		     h = NLMSG_NEXT(h, disabled)) {
			if (h->nlmsg_type == NLMSG_DONE)
				return -ENOENT;
			if (h->nlmsg_type == NLMSG_ERROR)
				return -EOPNOTSUPP;
			if (h->nlmsg_type == SOCK_DIAG_BY_FAMILY && matches(h, name, namelen, uid))
				return 0;
		}
	}
}

int ripc__socket_owner(const struct sockaddr_un *sun, socklen_t len, uid_t *uid)
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
	size_t namelen = len - offsetof(struct sockaddr_un, sun_path);
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG), rc;

	if (fd < 0)
		return -errno;
	if (send(fd, &ask, sizeof(ask), 0) < 0)
		rc = -errno;
	else
		rc = search(fd, sun->sun_path, namelen, uid);
	close(fd);
	return rc;
}
