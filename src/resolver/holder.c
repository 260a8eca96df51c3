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
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Since Linux 5.3; older headers lack it. */
#define DIAG_SHOW_UID 0x40
#define DIAG_UID      7

/* A search for one name, or for all names with a prefix. */
struct search {
	const char *name; /* or the prefix */
	size_t len;
	/* of the socket with that name; NULL: fn is called for abstract ones with the prefix */
	uid_t *uid;
	void (*fn)(void *arg, const char *name, size_t len);
	void *arg;
};

/* Processes a message with a socket. Return: whether the search has ended. */
static bool matches(struct nlmsghdr *h, const struct search *s)
{
	struct unix_diag_msg *m = NLMSG_DATA(h);
	struct rtattr *a = (struct rtattr *)(m + 1);
	bool same = false, known = false;
	int len = (int)h->nlmsg_len - (int)NLMSG_LENGTH(sizeof(*m));

	if (m->udiag_type != SOCK_DGRAM)
		return false;
	for (; len > 0 && RTA_OK(a, len); a = RTA_NEXT(a, len)) {
		if (a->rta_type == UNIX_DIAG_NAME && s->uid)
			same = RTA_PAYLOAD(a) == s->len && !memcmp(RTA_DATA(a), s->name, s->len);
		else if (a->rta_type == UNIX_DIAG_NAME && RTA_PAYLOAD(a) >= s->len && s->fn &&
			 !memcmp(RTA_DATA(a), s->name, s->len))
			s->fn(s->arg, (const char *)RTA_DATA(a) + 1, RTA_PAYLOAD(a) - 1);
		if (s->uid && a->rta_type == DIAG_UID && RTA_PAYLOAD(a) == sizeof(*s->uid)) {
			memcpy(s->uid, RTA_DATA(a), sizeof(*s->uid));
			known = true;
		}
	}
	return same && known;
}

/* Reads the kernel's list, all of it or until the name is found. */
static int search(int fd, const struct search *s)
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
			if (h->nlmsg_type == SOCK_DIAG_BY_FAMILY && matches(h, s))
				return 0;
		}
	}
}

static int search_sockets(const struct search *s)
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
	if (send(fd, &ask, sizeof(ask), 0) < 0)
		rc = -errno;
	else
		rc = search(fd, s);
	close(fd);
	return rc;
}

int ripc__socket_owner(const struct sockaddr_un *sun, socklen_t len, uid_t *uid)
{
	struct search s = {.name = sun->sun_path,
			   .len = len - offsetof(struct sockaddr_un, sun_path),
			   .uid = uid};

	return search_sockets(&s);
}

int ripc__socket_each(const char *prefix, void (*fn)(void *arg, const char *name, size_t len),
		      void *arg)
{
	struct sockaddr_un sun = {0};
	struct search s = {.name = sun.sun_path, .fn = fn, .arg = arg};
	int rc;

	s.len = 1 + (size_t)snprintf(sun.sun_path + 1, sizeof(sun.sun_path) - 1, "%s", prefix);
	rc = search_sockets(&s);
	return rc == -ENOENT ? 0 : rc;
}
