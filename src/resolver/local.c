/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The back end for one host. Each context has an abstract Unix datagram socket,
 * "\0ripc/ctx/<instance>", and one per held service, "\0ripc/svc/<id>". The kernel therefore
 * enforces one holder per id, removes the names of a dead process, and fails a request for an
 * absent service at once.
 *
 * If a context receives a unicast request of another host for a service that it does not hold, it
 * forwards the request from "\0ripc/fwd/<socket address of the requester>.<number>". The holder
 * answers the requester directly.
 */
#define _GNU_SOURCE
#include "resolver/backend.h"

#include "auth/key.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/name.h"
#include "base/table.h"
#include "base/text.h"
#include "resolver/holder.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static const char ctx_prefix[] = "ripc/ctx/", svc_prefix[] = "ripc/svc/",
		  fwd_prefix[] = "ripc/fwd/";

/* between two forwarded LISTs: each reads the kernel's table of sockets */
#define FORWARD_LIST_NS (20 * RIPC__MS)

struct local_held {
	struct ripc__node node; /* id: the service */
	int fd;
};

struct local {
	struct ripc__backend base;
	int epoll_fd;
	uint64_t tag;
	int fd;                   /* socket of the context: sends everything, receives replies */
	struct ripc__auth *auth;  /* the cluster's keys, or NULL */
	struct ripc__table held;  /* of struct local_held */
	uint64_t forward_list_ns; /* earliest time of the next LIST that is forwarded */
};

static socklen_t address(struct sockaddr_un *sun, const char *prefix, const char *name)
{
	int len = snprintf(sun->sun_path + 1, sizeof(sun->sun_path) - 1, "%s%s", prefix, name);

	sun->sun_family = AF_UNIX;
	sun->sun_path[0] = 0;
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)len);
}

static socklen_t service_address(struct sockaddr_un *sun, uint64_t service)
{
	char name[17];

	snprintf(name, sizeof(name), "%016" PRIx64, service);
	return address(sun, svc_prefix, name);
}

static void hex(const uint8_t *bytes, size_t len, char *text)
{
	for (size_t i = 0; i < len; i++)
		snprintf(text + 2 * i, 3, "%02x", bytes[i]);
}

static socklen_t context_address(struct sockaddr_un *sun, const uint8_t instance[16])
{
	char name[33];

	hex(instance, 16, name);
	return address(sun, ctx_prefix, name);
}

/* A bound socket that wakes the context, or a negative errno. */
static int open_bound(struct local *l, const struct sockaddr_un *sun, socklen_t len)
{
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	return ripc__backend_watch(l->epoll_fd, l->tag, fd,
				   !bind(fd, (const struct sockaddr *)sun, len));
}

static int local_open(struct ripc__backend *b, const struct ripc__backend_env *env, char *why,
		      size_t whylen)
{
	struct local *l = (struct local *)b;
	struct sockaddr_un sun;
	socklen_t len;

	l->epoll_fd = env->epoll_fd;
	l->tag = env->tag;
	l->auth = env->auth;
	ripc__table_init(&l->held, 0);
	len = context_address(&sun, env->instance);
	l->fd = open_bound(l, &sun, len);
	return l->fd < 0 ? ripc__reason(l->fd, why, whylen, "no Unix datagram socket: %s",
					ripc__epoll_error(l->fd))
			 : 0;
}

static void close_held(struct ripc__node *node, void *arg)
{
	close(((struct local_held *)node)->fd);
	free(node);
}

static void local_close(struct ripc__backend *b)
{
	struct local *l = (struct local *)b;

	ripc__table_each(&l->held, close_held, NULL);
	ripc__table_fini(&l->held);
	close(l->fd);
}

/* Decodes @n bytes from 2 * @n hexadecimal digits. Return: whether they are valid. */
static bool unhex(const char *text, size_t n, uint8_t *bytes)
{
	for (size_t i = 0; i < 2 * n; i++) {
		int digit = ripc__hex_digit(text[i]);

		if (digit < 0)
			return false;
		bytes[i / 2] = (uint8_t)(i & 1 ? bytes[i / 2] << 4 | digit : digit);
	}
	return true;
}

/* The text after a prefix in an abstract address, and its length; NULL: another prefix. */
static const char *skip_prefix(const struct sockaddr_un *sun, socklen_t len, const char *prefix,
			       size_t *n)
{
	const size_t head = offsetof(struct sockaddr_un, sun_path) + 1, skip = strlen(prefix);

	if (len < head + skip || sun->sun_family != AF_UNIX || sun->sun_path[0] ||
	    memcmp(sun->sun_path + 1, prefix, skip))
		return NULL;
	*n = len - head - skip;
	return sun->sun_path + 1 + skip;
}

/* The instance id in a context's address. Return: false if it is another address. */
static bool parse_context(const struct sockaddr_un *sun, socklen_t len,
			  struct ripc__backend_addr *from)
{
	size_t n;
	const char *name = skip_prefix(sun, len, ctx_prefix, &n);

	from->len = 16;
	return name && n == 32 && unhex(name, 16, from->bytes);
}

/* The source of a forwarded datagram. Return: false if it was not forwarded. */
static bool parse_forwarded(const struct sockaddr_un *sun, socklen_t len,
			    struct ripc__backend_addr *from)
{
	size_t n, digits;
	const char *name = skip_prefix(sun, len, fwd_prefix, &n);
	const char *dot = name ? memchr(name, '.', n) : NULL;
	sa_family_t family;

	if (!dot)
		return false;
	digits = (size_t)(dot - name);
	if ((digits != 2 * sizeof(struct sockaddr_in) &&
	     digits != 2 * sizeof(struct sockaddr_in6)) ||
	    !unhex(name, digits / 2, from->bytes))
		return false;
	from->len = (uint8_t)(digits / 2);
	from->forwarded = true;
	memcpy(&family, from->bytes, sizeof(family));
	return family == (from->len == sizeof(struct sockaddr_in) ? AF_INET : AF_INET6);
}

/* Binds a socket to the name of a datagram that is forwarded from @from. Return: success. */
static bool bind_forwarded(int fd, const struct ripc__backend_addr *from)
{
	static atomic_uint number;
	char name[2 * sizeof(from->bytes) + 24];
	struct sockaddr_un me;
	socklen_t melen;
	unsigned n;

	if (from->len != sizeof(struct sockaddr_in) && from->len != sizeof(struct sockaddr_in6))
		return false;
	hex(from->bytes, from->len, name);
	n = atomic_fetch_add(&number, 1);
	snprintf(name + 2 * from->len, 24, ".%x.%x", (unsigned)getpid(), n);
	melen = address(&me, fwd_prefix, name);
	return !bind(fd, (struct sockaddr *)&me, melen);
}

/* A datagram for every context of this host. */
struct to_all {
	int fd;
	const uint8_t *data;
	size_t len;
};

static void send_to_context(void *arg, const char *name, size_t len, const uid_t *uid)
{
	const struct to_all *all = arg;
	struct sockaddr_un sun = {.sun_family = AF_UNIX};
	socklen_t sunlen = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + len);

	if (len >= sizeof(sun.sun_path))
		return;
	memcpy(sun.sun_path + 1, name, len);
	(void)!sendto(all->fd, all->data, all->len, MSG_NOSIGNAL, (struct sockaddr *)&sun, sunlen);
}

/* This context drops its own LIST, and a second copy of another one. */
static void send_to_all(int fd, const uint8_t *data, size_t len)
{
	struct to_all all = {.fd = fd, .data = data, .len = len};

	(void)ripc__socket_each(ctx_prefix, send_to_context, &all);
}

static void local_list(struct ripc__backend *b, const uint8_t *data, size_t len)
{
	send_to_all(((struct local *)b)->fd, data, len);
}

static void local_forward(struct ripc__backend *b, const struct ripc__backend_addr *from,
			  uint64_t service, const uint8_t *data, size_t len)
{
	struct local *l = (struct local *)b;
	struct sockaddr_un sun;
	socklen_t sunlen = service_address(&sun, service);
	int fd;

	if (service ? ripc__table_find(&l->held, service) != NULL
		    : ripc__clock_ns() < l->forward_list_ns)
		return;
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return;
	if (!service) {
		l->forward_list_ns = ripc__clock_ns() + FORWARD_LIST_NS;
		if (bind_forwarded(fd, from))
			send_to_all(fd, data, len);
		/* connect() finds out at low cost that no such service is here. */
	} else if (!connect(fd, (struct sockaddr *)&sun, sunlen) && bind_forwarded(fd, from)) {
		(void)!send(fd, data, len, MSG_NOSIGNAL);
	}
	close(fd);
}

/* Others may have bound longer names. */
static void note_owner(void *arg, const char *name, size_t len, const uid_t *uid)
{
	struct ripc__holder *who = arg;

	if (!uid || len != strlen(svc_prefix) + 16)
		return;
	who->uid_known = true;
	who->uid = *uid;
}

/* SO_PEERCRED does not work for datagram sockets. */
static void local_owner(struct ripc__backend *b, uint64_t service, struct ripc__holder *who)
{
	struct sockaddr_un sun = {0};

	*who = (struct ripc__holder){0};
	service_address(&sun, service);
	(void)ripc__socket_each(sun.sun_path + 1, note_owner, who);
}

static int local_ask(struct ripc__backend *b, uint64_t service)
{
	struct ripc__resolver_msg msg = {.kind = RIPC__RESOLVE_REQUEST, .service = service};
	struct ripc__auth *auth = ((struct local *)b)->auth;
	uint8_t buf[RIPC__RESOLVER_MSG_MAX], unsealed[RIPC__RESOLVER_MSG_MAX];
	struct sockaddr_un sun, me;
	socklen_t len = service_address(&sun, service), melen;
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), one = 1, n;

	if (fd < 0)
		return -errno;
	/* A fresh instance id, so that the holder sees a well-formed but unknown address. */
	msg.nonce = ripc__clock_ns() | 1;
	memcpy(msg.record.instance, &msg.nonce, 8);
	memcpy(msg.record.instance + 8, &service, 8);
	msg.record.instance[15] ^= (uint8_t)getpid();
	melen = context_address(&me, msg.record.instance);
	n = ripc__resolver_msg_encode(&msg, auth ? unsealed : buf, sizeof(buf));
	if (auth && n > 0)
		n = ripc__auth_seal(auth, unsealed, (size_t)n, buf, sizeof(buf));
	if (n > 0 && !bind(fd, (struct sockaddr *)&me, melen) &&
	    !setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &one, sizeof(one)) &&
	    sendto(fd, buf, (size_t)n, 0, (struct sockaddr *)&sun, len) == n)
		return fd;
	close(fd);
	return -ECONNREFUSED;
}

/* The kernel adds the credentials. */
static void local_answer(struct ripc__backend *b, int fd, uint64_t service,
			 struct ripc__record *record, struct ripc__holder *who)
{
	union {
		char bytes[CMSG_SPACE(sizeof(struct ucred))];
		struct cmsghdr align;
	} control;
	struct ripc__auth *auth = ((struct local *)b)->auth;
	uint8_t buf[RIPC__RESOLVER_MSG_MAX];
	const uint8_t *data = buf;
	struct iovec iov = {buf, sizeof(buf)};
	struct msghdr hdr = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = control.bytes,
			     .msg_controllen = sizeof(control.bytes)};
	struct ripc__resolver_msg msg;
	const char *why;
	int n = (int)recvmsg(fd, &hdr, 0);

	memset(record, 0, sizeof(*record));
	local_owner(b, service, who);
	close(fd);
	if (auth && n > 0)
		n = ripc__auth_unseal(auth, buf, (size_t)n, &data, &why);
	if (n <= 0 || ripc__resolver_msg_decode(&msg, data, (size_t)n, &why) ||
	    msg.kind != RIPC__RESOLVE_REPLY || msg.service != service)
		return;
	*record = msg.record;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&hdr); c; c = CMSG_NXTHDR(&hdr, c)) {
		struct ucred cred;

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_CREDENTIALS)
			continue;
		memcpy(&cred, CMSG_DATA(c), sizeof(cred));
		who->pid = cred.pid;
		who->uid = cred.uid;
		who->uid_known = true;
	}
}

static int local_hold(struct ripc__backend *b, uint64_t service)
{
	struct local *l = (struct local *)b;
	struct local_held *h;
	struct sockaddr_un sun;
	socklen_t len = service_address(&sun, service);

	h = calloc(1, sizeof(*h));
	if (!h)
		return ripc__fail(-ENOMEM, "%s: out of memory", ripc__id_text(service, NULL));
	h->node.id = service;
	h->fd = open_bound(l, &sun, len);
	if (h->fd < 0) {
		int rc = h->fd;

		free(h);
		return rc == -EADDRINUSE
			       ? rc
			       : ripc__fail(rc, "%s: no Unix datagram socket for it: %s",
					    ripc__id_text(service, NULL), ripc__epoll_error(rc));
	}
	ripc__table_add(&l->held, &h->node);
	return 0;
}

static void local_drop(struct ripc__backend *b, uint64_t service)
{
	struct local *l = (struct local *)b;
	struct local_held *h = (struct local_held *)ripc__table_find(&l->held, service);

	if (!h)
		return;
	ripc__table_remove(&l->held, &h->node);
	close_held(&h->node, NULL);
}

static void local_send(struct ripc__backend *b, const struct ripc__backend_addr *to,
		       uint64_t service, const uint8_t *data, size_t len)
{
	struct local *l = (struct local *)b;
	struct sockaddr_un sun;
	socklen_t sunlen;

	if (to)
		sunlen = context_address(&sun, to->bytes);
	else if (ripc__table_find(&l->held, service))
		return; /* other back ends carry the announcements of this context */
	else
		sunlen = service_address(&sun, service);
	/* Refused: the service is not held here. Full: the core repeats the request. */
	(void)!sendto(l->fd, data, len, MSG_NOSIGNAL, (struct sockaddr *)&sun, sunlen);
}

static int local_recv(struct ripc__backend *b, int fd, struct ripc__backend_addr *from,
		      uint8_t *buf, size_t cap)
{
	struct sockaddr_un sun = {0};
	socklen_t len = sizeof(sun);
	ssize_t n = recvfrom(fd, buf, cap, MSG_TRUNC, (struct sockaddr *)&sun, &len);

	if (n < 0)
		return -EAGAIN;
	if ((size_t)n > cap ||
	    (!parse_context(&sun, len, from) && !parse_forwarded(&sun, len, from)))
		return -EBADMSG;
	from->reusable = !from->forwarded;
	return (int)n;
}

static bool local_describe_attempt(struct ripc__backend *b, uint64_t service, unsigned requests,
				   char *text, size_t len)
{
	struct sockaddr_un sun;
	socklen_t sunlen = service_address(&sun, service);
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bool there = fd >= 0 && !connect(fd, (struct sockaddr *)&sun, sunlen);

	if (fd >= 0)
		close(fd);
	snprintf(text, len, "local (%s)",
		 there ? "its holder on this host does not answer" : "no holder on this host");
	return there;
}

static bool local_describe(const struct ripc__backend *b, char *text, size_t len)
{
	snprintf(text, len, "abstract Unix datagram sockets, %u for services",
		 ((const struct local *)b)->held.count);
	return true;
}

static void forked_held(struct ripc__node *node, void *arg)
{
	close(((struct local_held *)node)->fd);
}

static void local_forked(struct ripc__backend *b)
{
	struct local *l = (struct local *)b;

	ripc__table_each(&l->held, forked_held, NULL);
	close(l->fd);
}

const struct ripc__backend_ops ripc__backend_local = {
	.name = "local",
	.size = sizeof(struct local),
	.open = local_open,
	.close = local_close,
	.acquire = local_hold,
	.drop = local_drop,
	.owner = local_owner,
	.ask = local_ask,
	.answer = local_answer,
	.send = local_send,
	.recv = local_recv,
	.pass_on = local_forward,
	.list = local_list,
	.describe_attempt = local_describe_attempt,
	.describe = local_describe,
	.forked = local_forked,
};
