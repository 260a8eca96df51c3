/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Listening sockets; accepting connections. */
#define _GNU_SOURCE /* accept4 */

#include "base/admission.h"
#include "base/clock.h"
#include "base/log.h"
#include "transport/iwarp/soft/soft.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define BACKLOG         1024 /* the peer repeats a dropped SYN after a second */
#define ACCEPTS_A_ROUND 16   /* connections accepted by one progress() at most */
/* pause of accept() after descriptors ran out, while the core retires idle lanes */
#define DEAF_MS     20
#define DEAF_LOG_MS 1000

static int open_tcp(struct ripc__transport *t, struct ripc__iwarp_listener *l)
{
	unsigned index = (unsigned)(l - t->listen.l);
	socklen_t len = sizeof(l->addr);
	int err, one = 1;

	l->tcp = socket(l->addr.sa.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (l->tcp < 0)
		return -errno;
	if (l->addr.sa.sa_family == AF_INET6)
		setsockopt(l->tcp, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one));
	if (bind(l->tcp, &l->addr.sa, ripc__sockaddr_len(&l->addr)) || listen(l->tcp, BACKLOG) ||
	    getsockname(l->tcp, &l->addr.sa, &len))
		err = -errno;
	else
		err = ripc__soft_watch(t, l->tcp, soft_source(SOFT_TCP_LISTENER, index));
	if (err)
		close(l->tcp);
	return err;
}

static void close_tcp(struct ripc__transport *t, struct ripc__iwarp_listener *l)
{
	ripc__soft_unwatch(t, l->tcp);
	close(l->tcp);
}

const struct ripc__iwarp_listen_ops ripc__soft_listen_ops = {
	.name = "iwarp/soft",
	.needs = "usable address",
	.sockets = true,
	.open = open_tcp,
	.close = close_tcp,
};

static void watch_listeners(struct ripc__transport *t, uint32_t events)
{
	for (unsigned i = 0; i < t->listen.n; i++)
		if (t->listen.l[i].open)
			epoll_ctl(t->epoll_fd, EPOLL_CTL_MOD, t->listen.l[i].tcp,
				  &(struct epoll_event){.events = events,
							.data.u64 =
								soft_source(SOFT_TCP_LISTENER, i)});
}

/* Stops watching the listening sockets, which would stay readable. */
static void pause_accept(struct ripc__transport *t)
{
	watch_listeners(t, 0);
	t->accept_resume_ns = t->now_ns + DEAF_MS * RIPC__MS;
	soft_timer(t, t->accept_resume_ns);
}

/* Logged rarely: the pause is short. */
static void log_accept_paused(struct ripc__transport *t, int err)
{
	if (t->accept_logged_ns && t->now_ns - t->accept_logged_ns < DEAF_LOG_MS * RIPC__MS)
		return;
	t->accept_logged_ns = t->now_ns;
	ripc__log(RIPC_LOG_WARN, "iwarp/soft: cannot accept a connection: %s", strerror(err));
}

void ripc__soft_resume_accept(struct ripc__transport *t)
{
	watch_listeners(t, EPOLLIN);
	t->accept_resume_ns = 0;
}

/* Closes a connection without an MPA request to make room. */
static void evict(struct ripc__transport *t)
{
	struct ripc__entry entries[SOFT_HALF_OPEN_MAX];
	struct ripc__ep *ep;
	size_t n = 0;

	/* All have the same time, so the oldest one has the first deadline. */
	ripc__list_for_each_entry (ep, &t->timed, timed)
		if (ep->state == SOFT_MPA_REQ_WAIT && n < SOFT_HALF_OPEN_MAX)
			entries[n++] = (struct ripc__entry){.source = ep->setup->source,
							    .since_ns = ep->deadline_ns,
							    .object = ep};
	if (!ripc__admission_pick(entries, n, 1))
		return;
	ep = entries[0].object;
	ripc__report_bad_input(&t->reports, ep->setup->peer,
			       "closed: too many connections without an MPA request");
	ripc__soft_ep_defer_free(ep, false);
}

void ripc__soft_accept(struct ripc__transport *t, const struct ripc__iwarp_listener *l)
{
	unsigned most = ripc__pending_max(SOFT_HALF_OPEN_MAX);

	for (unsigned i = 0; i < ACCEPTS_A_ROUND; i++) {
		union ripc__sockaddr peer;
		socklen_t len = sizeof(peer);
		int fd = accept4(l->tcp, &peer.sa, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
		struct ripc__ep *ep;

		if (fd < 0) {
			if (ripc__iwarp_shortage(-errno)) {
				ripc__report_descriptor(&t->reports, -errno);
				log_accept_paused(t, errno);
				pause_accept(t);
			}
			return;
		}
		ripc__report_descriptor(&t->reports, fd);
		if (t->nhalf_open >= most)
			evict(t);
		ep = ripc__soft_ep_new(t, false);
		if (!ep) {
			close(fd);
			pause_accept(t);
			return;
		}
		ripc__soft_tune(t, fd);
		ep->fd = fd;
		ripc__sockaddr_text(&peer, ep->setup->peer, sizeof(ep->setup->peer));
		ep->setup->source = ripc__sockaddr_source(&peer);
		if (ripc__soft_ep_watch(ep, EPOLLIN))
			ripc__soft_ep_defer_free(ep, false);
	}
}
