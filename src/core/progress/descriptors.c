/* SPDX-License-Identifier: LGPL-2.1-or-later */
#define _GNU_SOURCE
#include "core/progress/descriptors.h"
#include "core/progress/context.h"

#include "base/text.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define EPOLL_EVENTS 4

/* The data of an event of epfd. */
enum { TRANSPORT, RESOLVER, WAKE };

static int epoll_add(int epfd, int fd, uint32_t what)
{
	struct epoll_event ev = {.events = EPOLLIN, .data = {.u32 = what}};

	if (epoll_ctl(epfd, EPOLL_CTL_ADD, fd, &ev))
		return ripc__fail(-errno, "cannot wait on a descriptor: %s",
				  ripc__epoll_error(errno));
	return 0;
}

int ripc__descriptors_open(struct ripc *ctx)
{
	struct ripc__progress *p = &ctx->progress;
	int rc;

	p->epfd = epoll_create1(EPOLL_CLOEXEC);
	p->thread_epfd = epoll_create1(EPOLL_CLOEXEC);
	p->wakefd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (p->epfd < 0 || p->thread_epfd < 0 || p->wakefd < 0)
		return ripc__fail(-errno, "cannot create a descriptor: %s", ripc_strerror(errno));
	rc = epoll_add(p->thread_epfd, p->epfd, 0);
	if (!rc)
		rc = epoll_add(p->epfd, p->wakefd, WAKE);
	for (unsigned i = 0; !rc && i < ctx->ntp; i++)
		if (ctx->tp[i].t && ctx->tp[i].limits.fd >= 0)
			rc = epoll_add(p->epfd, ctx->tp[i].limits.fd, TRANSPORT);
	if (!rc)
		rc = epoll_add(p->epfd, ripc__resolver_fd(ctx->resolver), RESOLVER);
	return rc;
}

void ripc__descriptors_close(struct ripc *ctx)
{
	if (ctx->progress.thread_epfd >= 0)
		close(ctx->progress.thread_epfd);
	if (ctx->progress.epfd >= 0)
		close(ctx->progress.epfd);
	if (ctx->progress.wakefd >= 0)
		close(ctx->progress.wakefd);
}

bool ripc__descriptors_mask(struct ripc *ctx, bool masked)
{
	struct epoll_event ev = {.events = masked ? 0 : EPOLLIN};

	if (ctx->progress.masked == masked)
		return true;
	if (epoll_ctl(ctx->progress.thread_epfd, EPOLL_CTL_MOD, ctx->progress.epfd, &ev))
		return false;
	ctx->progress.masked = masked;
	return true;
}

static int wait_for_event(int epfd, struct epoll_event *ev, int max, const struct timespec *timeout)
{
	int n = epoll_pwait2(epfd, ev, max, timeout, NULL);

	/* Kernels before 5.11, and sandboxes that do not know the call. */
	if (n < 0 && (errno == ENOSYS || errno == EPERM))
		n = epoll_wait(epfd, ev, max,
			       !timeout ? -1
			       : timeout->tv_sec > 1000
				       ? 1000000
				       : (int)(timeout->tv_sec * 1000 +
					       (timeout->tv_nsec + 999999) / 1000000));
	return n;
}

bool RIPC__NO_ANALYSIS ripc__descriptors_sleep(struct ripc *ctx, int epfd, uint64_t until_ns,
					       enum ripc__progress_event woke)
{
	struct ripc__progress_step step;
	struct epoll_event ev[EPOLL_EVENTS];
	struct timespec ts, *timeout = NULL;
	bool resolver = false, kicked = false;
	eventfd_t count;
	uint64_t now;
	int n;

	if (until_ns != RIPC__NEVER) {
		now = ripc__now(ctx);
		now = until_ns > now ? until_ns - now : 0;
		ts = (struct timespec){(time_t)(now / 1000000000u), (long)(now % 1000000000u)};
		timeout = &ts;
	}
	ripc__unlock(ctx);
	n = wait_for_event(epfd, ev, EPOLL_EVENTS, timeout);
	if (epfd != ctx->progress.epfd && n > 0)
		n = epoll_wait(ctx->progress.epfd, ev, EPOLL_EVENTS, 0);
	ripc__lock(ctx);
	ctx->now_ns = ripc__now(ctx);
	step = ripc__progress_step(ctx, woke, NULL);
	for (int i = 0; i < n; i++) {
		if (ev[i].data.u32 == WAKE) {
			kicked = true;
			eventfd_read(ctx->progress.wakefd, &count);
			ripc__progress_step(ctx, RIPC__PROGRESS_KICK_READ, NULL);
		} else if (ev[i].data.u32 == RESOLVER) {
			resolver = true;
		}
	}
	if (resolver)
		ripc__resolver_readable(ctx);
	else if (n >= 0 && n < EPOLL_EVENTS &&
		 (woke == RIPC__PROGRESS_WAKE || step.next.thread == RIPC__THREAD_LEADING))
		ctx->resolver_polled_ns = ctx->now_ns;
	return n > 0 && !resolver && !kicked;
}
