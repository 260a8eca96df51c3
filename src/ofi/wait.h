/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The endpoints behind a completion queue or a counter: progress, and sleeping until there is some.
 * A wait object is an epoll descriptor. It is readable when a completion was put, or when one of
 * the endpoints has work to do.
 */
#ifndef OFI_WAIT_H
#define OFI_WAIT_H

#include "ofi/fabric.h"

#include <rdma/fi_eq.h>

struct ofi_ep;
/* Receives messages and posts what waits. Lock of the domain held. */
void ofi_ep_progress(struct ofi_ep *ep);

/* First member of a queue or counter. */
struct ofi_sources {
	union {
		struct fid fid;
		struct fid_cq cq;
		struct fid_cntr cntr;
	};
	struct ofi_domain *domain;
	struct ofi_ep **eps; /* the endpoints that it is bound to */
	unsigned neps;
	bool may_wait; /* not FI_WAIT_NONE */
	int epoll_fd;  /* -1: no wait object: a wait yields */
	int event_fd;
	bool signaled; /* event_fd is readable */
};

/*
 * Also sets the class, the context and the operations of the fid. Return: 0 or a negative errno;
 * -FI_ENOSYS: not this wait object.
 */
int ofi_sources_init(struct ofi_sources *s, struct ofi_domain *d, enum fi_wait_obj wait_obj,
		     size_t fclass, void *context);

/* All others: lock of the domain held. An endpoint is added once. */
int ofi_sources_add(struct ofi_sources *s, struct ofi_ep *ep);
/* Ends the bindings of an endpoint, if there is one. */
void ofi_sources_unbind(struct ofi_sources *s, struct ofi_ep *ep);
static inline void ofi_sources_progress(struct ofi_sources *s)
{
	for (unsigned i = 0; i < s->neps; i++)
		ofi_ep_progress(s->eps[i]);
}
void ofi_sources_wake(struct ofi_sources *s);
static inline void ofi_sources_signal(struct ofi_sources *s)
{
	if (s->event_fd >= 0 && !s->signaled)
		ofi_sources_wake(s);
}
void ofi_sources_clear(struct ofi_sources *s);
/*
 * Releases the lock, sleeps or yields until there may be something to do or until the deadline of
 * ofi_deadline_ms(), and takes the lock. Return: 0; -FI_EAGAIN: the time is
 * up; -FI_EINTR: a signal came.
 */
int ofi_sources_sleep(struct ofi_sources *s, int64_t deadline_ms);
/* timeout_ms < 0: never. */
int64_t ofi_deadline_ms(int timeout_ms);

int ofi_trywait(struct fid_fabric *fabric, struct fid **fids, int count);

#endif
