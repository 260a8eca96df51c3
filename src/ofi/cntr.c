/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ofi/cntr.h"
#include "ofi/provider.h"

#include <stdlib.h>

static struct ofi_cntr *cntr_of(struct fid_cntr *fid)
{
	return container_of(fid, struct ofi_cntr, sources.cntr);
}

static uint64_t read_one(struct ofi_cntr *c, const uint64_t *counter)
{
	uint64_t value;

	ofi_lock(c->sources.domain);
	ofi_sources_progress(&c->sources);
	value = *counter;
	ofi_sources_clear(&c->sources);
	ofi_unlock(c->sources.domain);
	return value;
}

static uint64_t cntr_read(struct fid_cntr *fid)
{
	return read_one(cntr_of(fid), &cntr_of(fid)->value);
}

static uint64_t cntr_readerr(struct fid_cntr *fid)
{
	return read_one(cntr_of(fid), &cntr_of(fid)->errors);
}

/* Adds to a counter, or sets it. */
static int change(struct ofi_cntr *c, uint64_t *counter, bool set, uint64_t value)
{
	ofi_lock(c->sources.domain);
	*counter = (set ? 0 : *counter) + value;
	ofi_sources_signal(&c->sources);
	ofi_unlock(c->sources.domain);
	return 0;
}

static int cntr_add(struct fid_cntr *fid, uint64_t value)
{
	return change(cntr_of(fid), &cntr_of(fid)->value, false, value);
}

static int cntr_set(struct fid_cntr *fid, uint64_t value)
{
	return change(cntr_of(fid), &cntr_of(fid)->value, true, value);
}

static int cntr_adderr(struct fid_cntr *fid, uint64_t value)
{
	return change(cntr_of(fid), &cntr_of(fid)->errors, false, value);
}

static int cntr_seterr(struct fid_cntr *fid, uint64_t value)
{
	return change(cntr_of(fid), &cntr_of(fid)->errors, true, value);
}

static int cntr_wait(struct fid_cntr *fid, uint64_t threshold, int timeout_ms)
{
	struct ofi_cntr *c = cntr_of(fid);
	int64_t deadline_ms = ofi_deadline_ms(timeout_ms);
	uint64_t errors;
	int rc = 0;

	ofi_lock(c->sources.domain);
	errors = c->errors;
	for (;;) {
		ofi_sources_progress(&c->sources);
		ofi_sources_clear(&c->sources);
		if (c->errors != errors)
			rc = -FI_EAVAIL;
		if (rc || c->value >= threshold)
			break;
		rc = ofi_sources_sleep(&c->sources, deadline_ms);
		if (rc) {
			rc = rc == -FI_EAGAIN ? -FI_ETIMEDOUT : rc;
			break;
		}
	}
	ofi_unlock(c->sources.domain);
	return rc;
}

static struct fi_ops_cntr cntr_ops = {
	.size = sizeof(struct fi_ops_cntr),
	.read = cntr_read,
	.readerr = cntr_readerr,
	.add = cntr_add,
	.set = cntr_set,
	.wait = cntr_wait,
	.adderr = cntr_adderr,
	.seterr = cntr_seterr,
};

int ofi_cntr_open(struct fid_domain *domain, struct fi_cntr_attr *attr, struct fid_cntr **fid,
		  void *context)
{
	struct ofi_domain *d = container_of(domain, struct ofi_domain, fid);
	struct ofi_cntr *c;
	int rc;

	if (attr->events != FI_CNTR_EVENTS_COMP)
		return ofi_refused("fi_cntr_open with these events");
	c = calloc(1, sizeof(*c));
	if (!c)
		return -FI_ENOMEM;
	rc = ofi_sources_init(&c->sources, d, attr->wait_obj, FI_CLASS_CNTR, context);
	if (rc) {
		free(c);
		return rc;
	}
	c->sources.cntr.ops = &cntr_ops;
	*fid = &c->sources.cntr;
	return 0;
}
