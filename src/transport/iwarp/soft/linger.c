/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Sockets whose endpoint is freed. Closing a socket with unread input resets the connection, and
 * the peer may lose the data sent last. So these sockets are read until end of file, for a limited
 * time.
 */
#include "base/clock.h"
#include "transport/iwarp/soft/soft.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define LINGER_MS   500
#define DRAIN_ROUND (256u << 10) /* bytes discarded by one progress() at most */

static void end(struct ripc__transport *t, struct soft_linger *l)
{
	ripc__soft_unwatch(t, l->fd);
	close(l->fd);
	ripc__list_del(&l->link);
	t->nlingers--;
	free(l);
}

void ripc__soft_linger(struct ripc__ep *ep)
{
	struct ripc__transport *t = ep->t;
	struct soft_linger *l;
	int fd = ep->fd;

	if (fd < 0)
		return;
	ripc__soft_unwatch(t, fd);
	ep->fd = -1;
	shutdown(fd, SHUT_WR);
	l = t->nlingers < SOFT_LINGER_MAX ? malloc(sizeof(*l)) : NULL;
	if (!l) {
		close(fd);
		return;
	}
	*l = (struct soft_linger){.source = SOFT_LINGER,
				  .fd = fd,
				  .deadline_ns = ripc__clock_ns() + LINGER_MS * RIPC__MS};
	ripc__list_init(&l->link);
	if (ripc__soft_watch(t, fd, EPOLLIN, l)) {
		close(fd);
		free(l);
		return;
	}
	ripc__list_queue(&t->lingers, &l->link);
	t->next_timer_ns = 0;
	t->nlingers++;
}

void ripc__soft_drain(struct ripc__transport *t, struct soft_linger *l)
{
	for (size_t done = 0; done < DRAIN_ROUND;) {
		uint8_t *space;
		size_t len;
		ssize_t n;

		if (!ripc__soft_space(t, &space, &len)) {
			end(t, l);
			return;
		}
		n = recv(l->fd, space, len, MSG_DONTWAIT);
		if (n > 0) {
			done += (size_t)n;
			continue;
		}
		if (n == 0 || (errno != EAGAIN && errno != EINTR))
			end(t, l);
		return;
	}
}

uint64_t ripc__soft_linger_timers(struct ripc__transport *t, uint64_t now_ns)
{
	while (t->lingers.next != &t->lingers) {
		struct soft_linger *l = ripc__list_entry(t->lingers.next, struct soft_linger, link);

		if (l->deadline_ns > now_ns)
			return l->deadline_ns;
		end(t, l);
	}
	return RIPC__NEVER;
}

void ripc__soft_linger_end(struct ripc__transport *t)
{
	while (t->lingers.next != &t->lingers)
		end(t, ripc__list_entry(t->lingers.next, struct soft_linger, link));
}
