/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ofi/wait.h"
#include "ofi/cntr.h"
#include "ofi/cq.h"
#include "ofi/endpoint.h"
#include "ofi/provider.h"

#include <poll.h>
#include <rdma/fi_eq.h>
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

int ofi_sources_init(struct ofi_sources *s, struct ofi_domain *d, enum fi_wait_obj wait_obj)
{
	*s = (struct ofi_sources){
		.domain = d,
		.may_wait = wait_obj != FI_WAIT_NONE,
		.epoll_fd = -1,
		.event_fd = -1,
	};
	switch (wait_obj) {
	case FI_WAIT_NONE:
	case FI_WAIT_YIELD:
		return 0;
	case FI_WAIT_UNSPEC:
	case FI_WAIT_FD:
	case FI_WAIT_POLLFD:
		break;
	default:
		return ofi_refused("a wait object other than FI_WAIT_UNSPEC, _FD, _POLLFD, _YIELD");
	}
	s->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	s->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (s->epoll_fd < 0 || s->event_fd < 0 || watch_fd(s, s->event_fd)) {
		int rc = -errno;

		ofi_sources_end(s);
		return rc;
	}
	return 0;
}

void ofi_sources_end(struct ofi_sources *s)
{
	if (s->epoll_fd >= 0)
		close(s->epoll_fd);
	if (s->event_fd >= 0)
		close(s->event_fd);
	free(s->eps);
}

int ofi_sources_close(struct ofi_sources *s)
{
	if (ofi_is_used(s->domain, &s->refs))
		return -FI_EBUSY;
	ofi_domain_put(s->domain);
	ofi_sources_end(s);
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
	s->refs--;
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

void ofi_sources_progress(struct ofi_sources *s)
{
	for (unsigned i = 0; i < s->neps; i++)
		ofi_ep_progress(s->eps[i]);
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

bool ofi_sources_active(const struct ofi_sources *s)
{
	for (unsigned i = 0; i < s->neps; i++)
		if (s->eps[i]->active || s->eps[i]->withdrawn)
			return true;
	return false;
}

bool ofi_sources_sleep(struct ofi_sources *s, int64_t deadline_ms)
{
	struct pollfd p = {.fd = s->epoll_fd, .events = POLLIN};
	int64_t left = deadline_ms == INT64_MAX ? SLEEP_MAX_MS : deadline_ms - now_ms();

	if (left <= 0)
		return false;
	if (left > SLEEP_MAX_MS)
		left = SLEEP_MAX_MS;
	if (ofi_sources_active(s))
		left = RETRY_MS;
	ofi_unlock(s->domain);
	if (s->epoll_fd >= 0)
		poll(&p, 1, (int)left);
	else
		sched_yield();
	ofi_lock(s->domain);
	return true;
}

int ofi_sources_getwait(const struct ofi_sources *s, void *arg)
{
	if (s->epoll_fd < 0)
		return -FI_ENODATA;
	*(int *)arg = s->epoll_fd;
	return 0;
}

int ofi_trywait(struct fid_fabric *fabric, struct fid **fids, int count)
{
	for (int i = 0; i < count; i++) {
		size_t class = fids[i]->fclass;
		int rc = class == FI_CLASS_CQ     ? ofi_cq_trywait(fids[i])
			 : class == FI_CLASS_CNTR ? ofi_cntr_trywait(fids[i])
			 : class == FI_CLASS_EQ   ? 0
						  : -FI_EINVAL;

		if (rc)
			return rc;
	}
	return 0;
}
