/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ofi/cq.h"
#include "ofi/provider.h"

#include <stdlib.h>
#include <string.h>

#define RING_MIN 256
/* Unread entries that a queue holds, if the application asked for fewer. */
#define USED_MIN 16384
/* A ring has at most twice as many, which is less than 2^32. */
#define USED_MAX (1U << 30)

static struct ofi_cq *cq_of(struct fid_cq *fid)
{
	return container_of(fid, struct ofi_cq, sources.cq);
}

/* ---- filling ---- */

static int grow(struct ofi_cq *cq)
{
	unsigned size = cq->size ? 2 * cq->size : RING_MIN;
	struct ofi_completion *ring = calloc(size, sizeof(*ring));

	if (!ring)
		return -FI_ENOMEM;
	for (unsigned i = 0; i < cq->used; i++)
		ring[i] = cq->ring[(cq->head + i) & (cq->size - 1)];
	free(cq->ring);
	cq->ring = ring;
	cq->size = size;
	cq->head = 0;
	return 0;
}

int ofi_cq_reserve_more(struct ofi_cq *cq)
{
	if (cq->used >= cq->used_max)
		return -FI_EAGAIN;
	if (cq->used + cq->reserved >= cq->size && grow(cq))
		return -FI_ENOMEM;
	cq->reserved++;
	return 0;
}

/* ---- reading ---- */

static size_t entry_size(enum fi_cq_format format)
{
	switch (format) {
	case FI_CQ_FORMAT_MSG:
		return sizeof(struct fi_cq_msg_entry);
	case FI_CQ_FORMAT_DATA:
		return sizeof(struct fi_cq_data_entry);
	case FI_CQ_FORMAT_TAGGED:
		return sizeof(struct fi_cq_tagged_entry);
	default:
		return sizeof(struct fi_cq_entry);
	}
}

static void clear_if_empty(struct ofi_cq *cq)
{
	if (!cq->used && !cq->woken)
		ofi_sources_clear(&cq->sources);
}

/* Entries not yet read. Return: their number; -FI_EAGAIN: none; -FI_EAVAIL: an error is next. */
static inline ssize_t take(struct ofi_cq *cq, void *buf, size_t count, fi_addr_t *sources)
{
	uint8_t *to = buf;
	size_t n = 0;

	for (; n < count && cq->used; n++, to += cq->entry_len) {
		const struct ofi_completion *c = &cq->ring[cq->head];

		if (c->err)
			return n ? (ssize_t)n : -FI_EAVAIL;
		if (cq->entry_len == sizeof(c->entry))
			memcpy(to, &c->entry, sizeof(c->entry));
		else
			memcpy(to, &c->entry, cq->entry_len);
		if (sources)
			sources[n] = c->source;
		cq->head = (cq->head + 1) & (cq->size - 1);
		cq->used--;
	}
	clear_if_empty(cq);
	return n ? (ssize_t)n : -FI_EAGAIN;
}

static inline ssize_t read_locked(struct ofi_cq *cq, void *buf, size_t count, fi_addr_t *sources)
{
	if (!count || cq->used < count)
		ofi_sources_progress(&cq->sources);
	if (!cq->used)
		return -FI_EAGAIN;
	return count ? take(cq, buf, count, sources) : 0;
}

static ssize_t cq_readfrom(struct fid_cq *fid, void *buf, size_t count, fi_addr_t *sources)
{
	struct ofi_cq *cq = cq_of(fid);
	ssize_t n;

	ofi_lock(cq->sources.domain);
	n = read_locked(cq, buf, count, sources);
	ofi_unlock(cq->sources.domain);
	return n;
}

static ssize_t cq_read(struct fid_cq *fid, void *buf, size_t count)
{
	return cq_readfrom(fid, buf, count, NULL);
}

static ssize_t cq_readerr(struct fid_cq *fid, struct fi_cq_err_entry *buf, uint64_t flags)
{
	struct ofi_cq *cq = cq_of(fid);
	const struct ofi_completion *c;
	ssize_t n = -FI_EAGAIN;

	ofi_lock(cq->sources.domain);
	c = cq->used ? &cq->ring[cq->head] : NULL;
	if (c && c->err) {
		memcpy(buf, &c->entry, sizeof(c->entry));
		buf->olen = c->olen;
		buf->err = c->err;
		buf->prov_errno = c->err;
		buf->err_data_size = 0;
		cq->head = (cq->head + 1) & (cq->size - 1);
		cq->used--;
		clear_if_empty(cq);
		n = 1;
	}
	ofi_unlock(cq->sources.domain);
	return n;
}

static ssize_t cq_sreadfrom(struct fid_cq *fid, void *buf, size_t count, fi_addr_t *sources,
			    const void *cond, int timeout_ms)
{
	struct ofi_cq *cq = cq_of(fid);
	int64_t deadline_ms = ofi_deadline_ms(timeout_ms);
	ssize_t n;

	if (!cq->sources.may_wait)
		return ofi_refused("fi_cq_sread of a queue without wait object");
	ofi_lock(cq->sources.domain);
	for (;;) {
		n = read_locked(cq, buf, count, sources);
		if (n != -FI_EAGAIN)
			break;
		if (cq->woken) {
			cq->woken = false;
			ofi_sources_clear(&cq->sources);
			break;
		}
		n = ofi_sources_sleep(&cq->sources, deadline_ms);
		if (n)
			break;
	}
	ofi_unlock(cq->sources.domain);
	return n;
}

static ssize_t cq_sread(struct fid_cq *fid, void *buf, size_t count, const void *cond,
			int timeout_ms)
{
	return cq_sreadfrom(fid, buf, count, NULL, cond, timeout_ms);
}

static int cq_signal(struct fid_cq *fid)
{
	struct ofi_cq *cq = cq_of(fid);

	if (!cq->sources.may_wait)
		return ofi_refused("fi_cq_signal of a queue without wait object");
	ofi_lock(cq->sources.domain);
	cq->woken = true;
	ofi_sources_signal(&cq->sources);
	ofi_unlock(cq->sources.domain);
	return 0;
}

static const char *cq_strerror(struct fid_cq *fid, int prov_errno, const void *err_data, char *buf,
			       size_t len)
{
	return ofi_strerror(prov_errno, buf, len);
}

/* ---- opening ---- */

static struct fi_ops_cq cq_ops = {
	.size = sizeof(struct fi_ops_cq),
	.read = cq_read,
	.readfrom = cq_readfrom,
	.readerr = cq_readerr,
	.sread = cq_sread,
	.sreadfrom = cq_sreadfrom,
	.signal = cq_signal,
	.strerror = cq_strerror,
};

int ofi_cq_open(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **fid,
		void *context)
{
	struct ofi_domain *d = container_of(domain, struct ofi_domain, fid);
	struct ofi_cq *cq;
	int rc;

	if (attr->format > FI_CQ_FORMAT_TAGGED)
		return ofi_refused("fi_cq_open with this format");
	if (attr->wait_cond != FI_CQ_COND_NONE && attr->wait_obj != FI_WAIT_NONE)
		FI_INFO(&ofi_provider, FI_LOG_CQ, "wait_cond: fi_cq_sread returns earlier\n");
	cq = calloc(1, sizeof(*cq));
	if (!cq)
		return -FI_ENOMEM;
	rc = grow(cq);
	if (!rc)
		rc = ofi_sources_init(&cq->sources, d, attr->wait_obj, FI_CLASS_CQ, context);
	if (rc) {
		free(cq->ring);
		free(cq);
		return rc;
	}
	if (attr->format == FI_CQ_FORMAT_UNSPEC)
		attr->format = FI_CQ_FORMAT_TAGGED;
	cq->entry_len = entry_size(attr->format);
	cq->used_max = USED_MIN;
	if (attr->size > USED_MIN)
		cq->used_max = attr->size < USED_MAX ? (unsigned)attr->size : USED_MAX;
	cq->sources.cq.ops = &cq_ops;
	*fid = &cq->sources.cq;
	return 0;
}
