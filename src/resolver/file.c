/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The back end for networks without broadcast: a list of hosts, in a file, that are asked one by
 * one (host_list.h).
 *
 * A service (or, with *, every service) is asked for at the hosts of its lines. Whichever context
 * of a host reads a request passes it on to the one that is meant (local.c). The file is looked at
 * again when services are looked up and it has changed.
 */
#define _GNU_SOURCE
#include "base/clock.h"
#include "base/text.h"
#include "resolver/host_list.h"
#include "resolver/udp.h"
#include "ripc.h"

#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define LIST_HOSTS_MAX 4096              /* hosts asked for all their services */
#define RELOAD_NS      (1000 * RIPC__MS) /* between two checks of the file */

struct file {
	struct ripc__backend base;
	struct ripc__host_list list;
	struct ripc__udp_socks socks;
	uint64_t reload_ns;  /* time of the next check */
	unsigned last_asked; /* hosts asked for the last service */
};

static void file_refresh(struct ripc__backend *b, uint64_t now_ns)
{
	struct file *f = (struct file *)b;

	if (now_ns < f->reload_ns)
		return;
	f->reload_ns = now_ns + RELOAD_NS;
	ripc__host_list_refresh(&f->list);
}

/* --- opening and closing --- */

static void file_forked(struct ripc__backend *b)
{
	ripc__udp_socks_close(&((struct file *)b)->socks);
}

static void file_close(struct ripc__backend *b)
{
	file_forked(b);
	ripc__host_list_free(&((struct file *)b)->list);
}

static int file_open(struct ripc__backend *b, const struct ripc__backend_env *env, char *why,
		     size_t whylen)
{
	struct file *f = (struct file *)b;
	int rc;

	f->list.port = env->opt->port;
	snprintf(f->list.path, sizeof(f->list.path), "%s", env->arg);
	rc = ripc__host_list_load(&f->list);
	if (rc) {
		snprintf(why, whylen, "%.150s cannot be read: %s", f->list.path,
			 ripc__host_list_error(rc));
		/* A file that exists but has the wrong format is an invalid value. */
		switch (rc) {
		case -ENOENT:
		case -EACCES:
		case -EMFILE:
		case -ENFILE:
		case -ENOMEM:
			break;
		default:
			rc = -EINVAL;
		}
	} else {
		rc = ripc__udp_socks_open(&f->socks, env, env->only_udp ? f->list.port : 0, false,
					  why, whylen);
		/* -EACCES is reserved for the list itself. */
		rc = rc == -EACCES ? -EPERM : rc;
	}
	if (rc)
		ripc__host_list_free(&f->list);
	return rc;
}

/* --- datagrams --- */

/* Sends through the first allowed interface with a route. */
static void send_datagram(struct file *f, const struct sockaddr *to, const uint8_t *data,
			  size_t len)
{
	const struct ripc__udp_socks *s = &f->socks;
	int fd = s->fd[to->sa_family == AF_INET ? RIPC__UDP_SEND4 : RIPC__UDP_SEND6];

	if (fd < 0)
		return;
	if (!s->nallowed)
		(void)ripc__udp_send_on(fd, to, 0, data, len);
	for (unsigned i = 0; i < s->nallowed; i++)
		if (s->allowed[i].index &&
		    !ripc__udp_send_on(fd, to, s->allowed[i].index, data, len))
			return;
}

static void send_to_host(struct file *f, const struct ripc__host_entry *e, const uint8_t *data,
			 size_t len)
{
	struct ripc__host_entry to = *e;

	/* The interface may have come back with another index. */
	if (*e->interface)
		to.host.in6.sin6_scope_id = if_nametoindex(e->interface);
	send_datagram(f, &to.host.any, data, len);
}

/* Return: the number of hosts. */
static unsigned send_to_hosts(struct file *f, uint64_t service, const uint8_t *data, size_t len)
{
	const struct ripc__host_entry *first;
	unsigned n = ripc__host_list_find(&f->list, service, &first);

	for (unsigned i = 0; i < n; i++)
		send_to_host(f, &first[i], data, len);
	return n;
}

static void file_send(struct ripc__backend *b, const struct ripc__backend_addr *to,
		      uint64_t service, const uint8_t *data, size_t len)
{
	struct file *f = (struct file *)b;
	struct sockaddr_storage ss = {0};

	if (to) {
		memcpy(&ss, to->bytes, to->len);
		send_datagram(f, (struct sockaddr *)&ss, data, len);
		return;
	}
	f->last_asked = send_to_hosts(f, service, data, len) + send_to_hosts(f, 0, data, len);
}

/* Asks every host of the file once. */
static void file_list(struct ripc__backend *b, const uint8_t *data, size_t len)
{
	struct file *f = (struct file *)b;
	const struct ripc__host_entry **hosts;
	size_t n = ripc__host_list_hosts(&f->list, &hosts);

	for (size_t i = 0; i < n && i < LIST_HOSTS_MAX; i++)
		send_to_host(f, hosts[i], data, len);
	free(hosts);
}

static int file_recv(struct ripc__backend *b, int fd, struct ripc__backend_addr *from, uint8_t *buf,
		     size_t cap)
{
	struct ripc__udp_socks *s = &((struct file *)b)->socks;

	/* A datagram from this host to any of its addresses arrives on the loopback. */
	return ripc__udp_changes(s, fd) ? -EAGAIN : ripc__udp_recv(s, fd, true, from, buf, cap);
}

static bool file_describe_attempt(struct ripc__backend *b, uint64_t service, unsigned requests,
				  char *text, size_t len)
{
	const struct file *f = (const struct file *)b;

	snprintf(text, len, "file (%u %s of %.100s)", f->last_asked,
		 f->last_asked == 1 ? "host" : "hosts", f->list.path);
	return false;
}

static bool file_describe(const struct ripc__backend *b, char *text, size_t len)
{
	return ripc__host_list_describe(&((const struct file *)b)->list, text, len);
}

const struct ripc__backend_ops ripc__backend_file = {
	.name = "file",
	.size = sizeof(struct file),
	.inet = true,
	.open = file_open,
	.close = file_close,
	.send = file_send,
	.list = file_list,
	.recv = file_recv,
	.refresh = file_refresh,
	.describe_attempt = file_describe_attempt,
	.describe = file_describe,
	.forked = file_forked,
};
