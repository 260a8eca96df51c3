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
#include "base/options.h"
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

enum { RECV4, SEND4, RECV6, SEND6, NSOCKS };

struct file {
	struct ripc__backend base;
	struct ripc__host_list list;
	int socks[NSOCKS]; /* < 0: not open */
	/* names allowed; empty: all */
	char interfaces[sizeof(((struct ripc__options *)0)->interfaces)];
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
	struct file *f = (struct file *)b;

	for (unsigned i = 0; i < NSOCKS; i++)
		if (f->socks[i] >= 0)
			close(f->socks[i]);
}

static void file_close(struct ripc__backend *b)
{
	struct file *f = (struct file *)b;

	file_forked(b);
	ripc__host_list_free(&f->list);
	free(f);
}

static int open_sockets(struct file *f, const struct ripc__backend_env *env, char *why, size_t len)
{
	static const int families[] = {AF_INET, AF_INET6};
	int rc = 0, err = 0;

	for (unsigned i = 0; i < 2; i++) {
		int *receiver = &f->socks[i ? RECV6 : RECV4],
		    *sender = &f->socks[i ? SEND6 : SEND4];

		*sender = ripc__udp_socket(env, families[i], 0);
		*receiver = *sender >= 0 && env->only_udp
				    ? ripc__udp_socket(env, families[i], f->list.port)
				    : -1;
		rc = *sender < 0 ? *sender : env->only_udp && *receiver < 0 ? *receiver : 0;
		if (rc == -EMFILE || rc == -ENFILE || rc == -ENOMEM || rc == -ENOBUFS)
			return ripc__reason(rc, why, len, "no UDP socket: %s", strerror(-rc));
		err = rc ? rc : err;
	}
	if (f->socks[SEND4] >= 0 || f->socks[SEND6] >= 0)
		return 0;
	snprintf(why, len, "no UDP socket on port %u: %s", f->list.port, strerror(-err));
	/* -EACCES is reserved for the list itself. */
	return err == -EACCES ? -EPERM : err;
}

static int file_open(struct ripc__backend **b, const struct ripc__backend_env *env, char *why,
		     size_t whylen)
{
	struct file *f = calloc(1, sizeof(*f));
	int rc;

	if (!f)
		return ripc__reason(-ENOMEM, why, whylen, "out of memory");
	f->base.ops = &ripc__backend_file;
	f->list.port = env->opt->port;
	memcpy(f->interfaces, env->opt->interfaces, sizeof(f->interfaces));
	snprintf(f->list.path, sizeof(f->list.path), "%s", env->arg);
	for (unsigned i = 0; i < NSOCKS; i++)
		f->socks[i] = -1;
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
		case -ENOTDIR:
			rc = -ENOENT;
			break;
		default:
			rc = -EINVAL;
		}
	} else {
		rc = open_sockets(f, env, why, whylen);
	}
	if (rc) {
		file_close(&f->base);
		return rc;
	}
	f->reload_ns = env->now_ns + RELOAD_NS;
	*b = &f->base;
	return 0;
}

/* --- datagrams --- */

/* Sends to one host, through the first allowed interface with a route if interfaces are named. */
static void send_datagram(struct file *f, const struct sockaddr *to, const uint8_t *data,
			  size_t len)
{
	int fd = f->socks[to->sa_family == AF_INET ? SEND4 : SEND6];
	const char *name = f->interfaces;

	if (fd < 0)
		return;
	if (!*name)
		(void)ripc__udp_send_on(fd, to, 0, data, len);
	while (*name) {
		size_t n = strcspn(name, ",");
		char one[IF_NAMESIZE];
		unsigned index;

		snprintf(one, sizeof(one), "%.*s", (int)n, name);
		name += n + (name[n] == ',');
		index = if_nametoindex(one);
		if (index && !ripc__udp_send_on(fd, to, index, data, len))
			return;
	}
}

/* Return: the number of hosts. */
static unsigned send_to_hosts(struct file *f, uint64_t service, const uint8_t *data, size_t len)
{
	const struct ripc__host_entry *first;
	unsigned n = ripc__host_list_find(&f->list, service, &first);

	for (unsigned i = 0; i < n; i++)
		send_datagram(f, &first[i].host.any, data, len);
	return n;
}

static void file_send(struct ripc__backend *b, const struct ripc__mcast_sender *to,
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
		send_datagram(f, &hosts[i]->host.any, data, len);
	free(hosts);
}

static bool index_allowed(const struct file *f, unsigned index)
{
	char name[IF_NAMESIZE];

	/* A datagram from this host to any of its addresses arrives on the loopback. */
	return !*f->interfaces ||
	       (if_indextoname(index, name) &&
		(!strcmp(name, "lo") || ripc__list_index(f->interfaces, name) >= 0));
}

static int file_recv(struct ripc__backend *b, int fd, struct ripc__mcast_sender *from, uint8_t *buf,
		     size_t cap)
{
	struct file *f = (struct file *)b;
	unsigned ifindex = 0;
	int n = ripc__udp_recv(fd, from, buf, cap, &ifindex);

	if (n == -EAGAIN)
		return n;
	if (!index_allowed(f, ifindex))
		return -ENOMSG;
	from->direct = from->direct && (fd == f->socks[RECV4] || fd == f->socks[RECV6]);
	return n;
}

static bool file_remote(const struct ripc__backend *b)
{
	return true;
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
	.inet = true,
	.open = file_open,
	.close = file_close,
	.send = file_send,
	.list = file_list,
	.recv = file_recv,
	.refresh = file_refresh,
	.remote = file_remote,
	.describe_attempt = file_describe_attempt,
	.describe = file_describe,
	.forked = file_forked,
};
