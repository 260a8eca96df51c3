/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ofi/wait.h"
#include "ofi/cq.h"
#include "ofi/endpoint.h"
#include "ofi/provider.h"

#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

/* A peer without credit, or one that is searched for, is tried again after this time. */
#define RETRY_MS 1
/* The longest sleep: another thread may have received the message of this one. */
#define SLEEP_MAX_MS 100

static int watch_fd(const struct ofi_sources *s, int fd)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.fd = fd};

	if (fd < 0)
		return fd;
	/* The descriptor of the completions is the same for all endpoints. */
	return epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, fd, &ev) && errno != EEXIST ? -errno : 0;
}

static void close_fds(const struct ofi_sources *s)
{
	if (s->epoll_fd >= 0)
		close(s->epoll_fd);
	if (s->event_fd >= 0)
		close(s->event_fd);
}

static int sources_close(struct fid *fid)
{
	struct ofi_sources *s = container_of(fid, struct ofi_sources, fid);

	if (ofi_is_used(s->domain, &s->neps))
		return -FI_EBUSY;
	ofi_domain_put(s->domain);
	close_fds(s);
	free(s->eps);
	if (fid->fclass == FI_CLASS_CQ)
		free(((struct ofi_cq *)s)->ring);
	free(s);
	return 0;
}

static int sources_control(struct fid *fid, int command, void *arg)
{
	const struct ofi_sources *s = container_of(fid, struct ofi_sources, fid);

	if (command != FI_GETWAIT)
		return ofi_refused("fi_control of a queue or counter");
	if (s->epoll_fd < 0)
		return -FI_ENODATA;
	*(int *)arg = s->epoll_fd;
	return 0;
}

static struct fi_ops sources_fi_ops = {
	.size = sizeof(struct fi_ops),
	.close = sources_close,
	.bind = ofi_no_bind,
	.control = sources_control,
	.ops_open = ofi_no_ops_open,
};

int ofi_sources_init(struct ofi_sources *s, struct ofi_domain *d, enum fi_wait_obj wait_obj,
		     size_t fclass, void *context)
{
	*s = (struct ofi_sources){
		.fid = {.fclass = fclass, .context = context, .ops = &sources_fi_ops},
		.domain = d,
		.may_wait = wait_obj != FI_WAIT_NONE,
		.epoll_fd = -1,
		.event_fd = -1,
	};
	switch (wait_obj) {
	case FI_WAIT_NONE:
	case FI_WAIT_YIELD:
		break;
	case FI_WAIT_UNSPEC:
	case FI_WAIT_FD:
		s->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
		s->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
		if (s->epoll_fd < 0 || s->event_fd < 0 || watch_fd(s, s->event_fd)) {
			int rc = -errno;

			close_fds(s);
			return rc;
		}
		break;
	default:
		return ofi_refused("a wait object other than FI_WAIT_UNSPEC, _FD, _YIELD");
	}
	ofi_domain_get(d);
	return 0;
}

int ofi_sources_add(struct ofi_sources *s, struct ofi_ep *ep)
{
	struct ofi_ep **eps;
	int rc = 0;

	if (s->domain != ep->domain)
		return -FI_EDOMAIN;
	for (unsigned i = 0; i < s->neps; i++)
		if (s->eps[i] == ep)
			return 0;
	eps = realloc(s->eps, (s->neps + 1) * sizeof(*eps));
	if (!eps)
		return -FI_ENOMEM;
	s->eps = eps;
	if (s->epoll_fd >= 0) {
		s->domain->drain = true;
		rc = watch_fd(s, ripc_service_fd(ep->main));
		if (!rc)
			rc = watch_fd(s, ripc_service_fd(ep->data));
		if (!rc)
			rc = watch_fd(s, ripc_completion_fd(s->domain->ctx));
	}
	if (!rc)
		s->eps[s->neps++] = ep;
	return rc;
}

void ofi_sources_unbind(struct ofi_sources *s, struct ofi_ep *ep)
{
	for (unsigned i = 0; i < s->neps; i++) {
		if (s->eps[i] != ep)
			continue;
		s->eps[i] = s->eps[--s->neps];
		if (s->epoll_fd >= 0) {
			epoll_ctl(s->epoll_fd, EPOLL_CTL_DEL, ripc_service_fd(ep->main), NULL);
			epoll_ctl(s->epoll_fd, EPOLL_CTL_DEL, ripc_service_fd(ep->data), NULL);
			/* Only the progress of an endpoint takes completions. */
			if (!s->neps)
				epoll_ctl(s->epoll_fd, EPOLL_CTL_DEL,
					  ripc_completion_fd(s->domain->ctx), NULL);
		}
		return;
	}
}

void ofi_sources_wake(struct ofi_sources *s)
{
	s->signaled = !eventfd_write(s->event_fd, 1);
}

void ofi_sources_clear(struct ofi_sources *s)
{
	eventfd_t value;

	if (s->signaled && !eventfd_read(s->event_fd, &value))
		s->signaled = false;
}

static int64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

int64_t ofi_deadline_ms(int timeout_ms)
{
	return timeout_ms < 0 ? INT64_MAX : now_ms() + timeout_ms;
}

/* Whether something has to be tried again without a descriptor that becomes readable. */
static bool is_active(const struct ofi_sources *s)
{
	for (unsigned i = 0; i < s->neps; i++)
		if (s->eps[i]->active || s->eps[i]->withdrawn)
			return true;
	return false;
}

int ofi_sources_sleep(struct ofi_sources *s, int64_t deadline_ms)
{
	struct pollfd p = {.fd = s->epoll_fd, .events = POLLIN};
	int64_t left = deadline_ms == INT64_MAX ? SLEEP_MAX_MS : deadline_ms - now_ms();
	int rc = 0;

	if (left <= 0)
		return -FI_EAGAIN;
	left = MIN(left, SLEEP_MAX_MS);
	if (is_active(s))
		left = RETRY_MS;
	ofi_unlock(s->domain);
	if (s->epoll_fd < 0)
		sched_yield();
	else if (poll(&p, 1, (int)left) < 0)
		rc = -errno;
	ofi_lock(s->domain);
	return rc;
}

/* Of a queue or counter without wait object nothing becomes readable. */
static int trywait(struct fid *fid)
{
	struct ofi_sources *s = container_of(fid, struct ofi_sources, fid);
	int rc;

	ofi_lock(s->domain);
	ofi_sources_progress(s);
	rc = s->event_fd < 0 || s->signaled || is_active(s) ? -FI_EAGAIN : 0;
	ofi_unlock(s->domain);
	return rc;
}

int ofi_trywait(struct fid_fabric *fabric, struct fid **fids, int count)
{
	for (int i = 0; i < count; i++) {
		size_t class = fids[i]->fclass;
		int rc = class == FI_CLASS_CQ || class == FI_CLASS_CNTR ? trywait(fids[i])
			 : class == FI_CLASS_EQ                         ? 0
									: -FI_EINVAL;

		if (rc)
			return rc;
	}
	return 0;
}
