/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Fabric and domain. A domain is one context of libripc. One lock per domain protects all objects
 * that are opened on it, so every level of threading of libfabric is served. With FI_THREAD_DOMAIN
 * the application takes care of that, and there is no lock.
 */
#ifndef OFI_FABRIC_H
#define OFI_FABRIC_H

#include "ripc.h"

#include <pthread.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <stdbool.h>
#include <sys/param.h> /* MIN, MAX */

struct ofi_fabric {
	struct fid_fabric fid;
	int refs; /* atomic: open domains and event queues */
};

struct ofi_domain {
	struct fid_domain fid;
	struct ofi_fabric *fabric;
	bool serial; /* FI_THREAD_DOMAIN: ofi_lock() and ofi_unlock() do nothing */
	pthread_mutex_t lock;
	struct ripc *ctx;
	unsigned refs;     /* open objects; lock held */
	unsigned requests; /* long sends under way; lock held */
	bool drain;        /* a wait object watches the completions of ctx */
};

/* A long send under way. Embedded in what it belongs to. */
struct ofi_request {
	unsigned *count; /* of those under way, of its endpoint */
	struct ripc_request *handle;
	/* The request is done: status as of ripc_send_long(). Lock held. */
	void (*done)(struct ofi_request *r, int status);
};

static inline void ofi_lock(struct ofi_domain *d)
{
	if (!d->serial)
		pthread_mutex_lock(&d->lock);
}

static inline void ofi_unlock(struct ofi_domain *d)
{
	if (!d->serial)
		pthread_mutex_unlock(&d->lock);
}

int ofi_fabric_open(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context);
/* An event queue. The provider reports no events; fi_eq_write() queues those of the application. */
int ofi_eq_open(struct fid_fabric *fabric, struct fi_eq_attr *attr, struct fid_eq **eq,
		void *context);

/* Starts a long send for r. Lock held. Return: as ripc_send_async(). */
int ofi_request_start(struct ofi_domain *d, struct ofi_request *r, struct ripc_service *from,
		      uint64_t dest, const struct iovec *items, unsigned nitems,
		      const struct iovec *return_buffer);
/*
 * Ends a request without a call of done(); waits up to 100 ms if a peer that does not answer may
 * read its memory. Lock held. Return: 0: it was delivered.
 */
int ofi_request_cancel(struct ofi_domain *d, struct ofi_request *r);
/* Calls done() of the requests that are done. Lock held. */
void ofi_requests_reap(struct ofi_domain *d);

/* Whether an object of the domain is used by others, which its refs count. */
bool ofi_is_used(struct ofi_domain *d, const unsigned *refs);
/* Counts the objects of a domain. */
void ofi_domain_get(struct ofi_domain *d);
void ofi_domain_put(struct ofi_domain *d);

#endif
