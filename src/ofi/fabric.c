/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ofi/fabric.h"
#include "ofi/av.h"
#include "ofi/cntr.h"
#include "ofi/cq.h"
#include "ofi/endpoint.h"
#include "ofi/provider.h"
#include "ofi/wait.h"

#include <stdlib.h>

/*
 * A peer that runs answers in this time. Without its answer libripc closes the lane, which other
 * endpoints use as well.
 */
#define CANCEL_MS 100

/* ---- requests ---- */

int ofi_request_start(struct ofi_domain *d, struct ofi_request *r, struct ripc_service *from,
		      uint64_t dest, const struct iovec *items, unsigned nitems,
		      const struct iovec *return_buffer)
{
	struct ripc_send_options options = {
		.size = sizeof(options),
		.nreturn_buffers = return_buffer ? 1 : 0,
		.return_buffers = return_buffer,
		.data = r,
	};
	int rc = ripc_send_async(from, dest, items, nitems, &options, &r->handle);

	if (!rc) {
		d->requests++;
		++*r->count;
	}
	return rc;
}

static void request_ended(struct ofi_domain *d, struct ofi_request *r)
{
	d->requests--;
	--*r->count;
}

int ofi_request_cancel(struct ofi_domain *d, struct ofi_request *r)
{
	request_ended(d, r);
	return ripc_request_cancel(&r->handle, CANCEL_MS);
}

void ofi_requests_reap(struct ofi_domain *d)
{
	while (d->requests || d->drain) {
		struct ripc_completion c = {.size = sizeof(c)};
		struct ofi_request *r;

		if (ripc_completion_next(d->ctx, &c, 0))
			return;
		if (c.kind != RIPC_COMPLETION_REQUEST)
			continue;
		r = c.data;
		request_ended(d, r);
		r->done(r, ripc_request_wait(&c.request, 0));
	}
}

/* ---- the domain ---- */

void ofi_domain_get(struct ofi_domain *d)
{
	ofi_lock(d);
	d->refs++;
	ofi_unlock(d);
}

bool ofi_is_used(struct ofi_domain *d, const unsigned *refs)
{
	bool used;

	ofi_lock(d);
	used = *refs;
	ofi_unlock(d);
	return used;
}

void ofi_domain_put(struct ofi_domain *d)
{
	ofi_lock(d);
	d->refs--;
	ofi_unlock(d);
}

static int domain_close(struct fid *fid)
{
	struct ofi_domain *d = container_of(fid, struct ofi_domain, fid.fid);

	if (ofi_is_used(d, &d->refs))
		return -FI_EBUSY;
	ripc_close(d->ctx);
	pthread_mutex_destroy(&d->lock);
	__atomic_sub_fetch(&d->fabric->refs, 1, __ATOMIC_RELAXED);
	free(d);
	return 0;
}

static int domain_bind(struct fid *fid, struct fid *bfid, uint64_t flags)
{
	if (bfid->fclass != FI_CLASS_EQ)
		return -FI_EINVAL;
	return flags ? ofi_refused("fi_domain_bind with flags") : 0;
}

static struct fi_ops domain_fi_ops = {
	.size = sizeof(struct fi_ops),
	.close = domain_close,
	.bind = domain_bind,
	.control = ofi_no_control,
	.ops_open = ofi_no_ops_open,
};

OFI_REFUSED(int, no_scalable_ep, "fi_scalable_ep", struct fid_domain *domain, struct fi_info *info,
	    struct fid_ep **ep, void *context)
OFI_REFUSED(int, no_poll_open, "fi_poll_open", struct fid_domain *domain, struct fi_poll_attr *attr,
	    struct fid_poll **pollset)
OFI_REFUSED(int, no_stx, "fi_stx_context", struct fid_domain *domain, struct fi_tx_attr *attr,
	    struct fid_stx **stx, void *context)
OFI_REFUSED(int, no_srx, "fi_srx_context", struct fid_domain *domain, struct fi_rx_attr *attr,
	    struct fid_ep **rx_ep, void *context)

static struct fi_ops_domain domain_ops = {
	.size = sizeof(struct fi_ops_domain),
	.av_open = ofi_av_open,
	.cq_open = ofi_cq_open,
	.endpoint = ofi_endpoint_open,
	.scalable_ep = no_scalable_ep,
	.cntr_open = ofi_cntr_open,
	.poll_open = no_poll_open,
	.stx_ctx = no_stx,
	.srx_ctx = no_srx,
};

OFI_REFUSED(int, no_mr_reg, "fi_mr_reg", struct fid *fid, const void *buf, size_t len,
	    uint64_t access, uint64_t offset, uint64_t requested_key, uint64_t flags,
	    struct fid_mr **mr, void *context)
OFI_REFUSED(int, no_mr_regv, "fi_mr_regv", struct fid *fid, const struct iovec *iov, size_t count,
	    uint64_t access, uint64_t offset, uint64_t requested_key, uint64_t flags,
	    struct fid_mr **mr, void *context)
OFI_REFUSED(int, no_mr_regattr, "fi_mr_regattr", struct fid *fid, const struct fi_mr_attr *attr,
	    uint64_t flags, struct fid_mr **mr)

static struct fi_ops_mr mr_ops = {
	.size = sizeof(struct fi_ops_mr),
	.reg = no_mr_reg,
	.regv = no_mr_regv,
	.regattr = no_mr_regattr,
};

static int domain_open(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **domain,
		       void *context)
{
	struct ofi_domain *d = calloc(1, sizeof(*d));
	int rc;

	if (!d)
		return -FI_ENOMEM;
	rc = ripc_open(&d->ctx, NULL);
	if (rc) {
		FI_WARN(&ofi_provider, FI_LOG_DOMAIN, "cannot open a context: %s\n",
			ripc_error_detail());
		free(d);
		return rc;
	}
	pthread_mutex_init(&d->lock, NULL);
	d->serial = info->domain_attr && info->domain_attr->threading == FI_THREAD_DOMAIN;
	d->fabric = container_of(fabric, struct ofi_fabric, fid);
	d->fid.fid =
		(struct fid){.fclass = FI_CLASS_DOMAIN, .context = context, .ops = &domain_fi_ops};
	d->fid.ops = &domain_ops;
	d->fid.mr = &mr_ops;
	__atomic_add_fetch(&d->fabric->refs, 1, __ATOMIC_RELAXED);
	*domain = &d->fid;
	return 0;
}

/* ---- the fabric ---- */

static int fabric_close(struct fid *fid)
{
	struct ofi_fabric *f = container_of(fid, struct ofi_fabric, fid.fid);

	if (__atomic_load_n(&f->refs, __ATOMIC_RELAXED))
		return -FI_EBUSY;
	free(f);
	return 0;
}

static struct fi_ops fabric_fi_ops = {
	.size = sizeof(struct fi_ops),
	.close = fabric_close,
	.bind = ofi_no_bind,
	.control = ofi_no_control,
	.ops_open = ofi_no_ops_open,
};

OFI_REFUSED(int, no_passive_ep, "fi_passive_ep", struct fid_fabric *fabric, struct fi_info *info,
	    struct fid_pep **pep, void *context)
OFI_REFUSED(int, no_wait_open, "fi_wait_open", struct fid_fabric *fabric, struct fi_wait_attr *attr,
	    struct fid_wait **waitset)

static struct fi_ops_fabric fabric_ops = {
	.size = sizeof(struct fi_ops_fabric),
	.domain = domain_open,
	.passive_ep = no_passive_ep,
	.eq_open = ofi_eq_open,
	.wait_open = no_wait_open,
	.trywait = ofi_trywait,
};

int ofi_fabric_open(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context)
{
	struct ofi_fabric *f = calloc(1, sizeof(*f));

	if (!f)
		return -FI_ENOMEM;
	f->fid.fid =
		(struct fid){.fclass = FI_CLASS_FABRIC, .context = context, .ops = &fabric_fi_ops};
	f->fid.ops = &fabric_ops;
	f->fid.api_version = attr->api_version;
	*fabric = &f->fid;
	return 0;
}
