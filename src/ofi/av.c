/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ofi/av.h"
#include "ofi/address.h"
#include "ofi/provider.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct ofi_av *av_of(struct fid_av *fid)
{
	return container_of(fid, struct ofi_av, fid);
}

fi_addr_t ofi_av_address(const struct ofi_av *av, uint64_t service)
{
	struct ofi_av_entry *e;

	HASH_FIND(hh, av->by_service, &service, sizeof(service), e);
	return e ? e->index : FI_ADDR_NOTAVAIL;
}

static void hash_add(struct ofi_av *av, struct ofi_av_entry *e)
{
	struct ofi_av_entry *first;

	HASH_FIND(hh, av->by_service, &e->service, sizeof(e->service), first);
	if (!first)
		HASH_ADD(hh, av->by_service, service, sizeof(e->service), e);
}

/* Return: the index, or a negative errno. */
static int64_t insert_one(struct ofi_av *av, const void *address)
{
	struct ofi_av_entry *e, **entries;
	uint64_t service;

	if (!ofi_address_get(address, &service) || !service) {
		FI_WARN(&ofi_provider, FI_LOG_AV, "fi_av_insert: not an address of ripc\n");
		return -FI_EINVAL;
	}
	while (av->lowest < av->count && av->entries[av->lowest])
		av->lowest++;
	if (av->lowest == av->size) {
		size_t size = av->size ? 2 * av->size : 64;

		entries = realloc(av->entries, size * sizeof(struct ofi_av_entry *));
		if (!entries)
			return -FI_ENOMEM;
		av->entries = entries;
		av->size = size;
	}
	e = calloc(1, sizeof(*e));
	if (!e)
		return -FI_ENOMEM;
	e->service = service;
	e->index = av->lowest;
	av->entries[e->index] = e;
	if (e->index == av->count)
		av->count++;
	hash_add(av, e);
	av->generation++;
	return (int64_t)e->index;
}

static int av_insert(struct fid_av *fid, const void *addresses, size_t count, fi_addr_t *addrs,
		     uint64_t flags, void *context)
{
	struct ofi_av *av = av_of(fid);
	int *errors = (flags & FI_SYNC_ERR) ? context : NULL;
	int inserted = 0;

	if (flags & ~(FI_MORE | FI_SYNC_ERR))
		return ofi_refused("fi_av_insert with flags other than FI_MORE and FI_SYNC_ERR");
	ofi_lock(av->domain);
	for (size_t i = 0; i < count; i++) {
		int64_t index = insert_one(av, (const char *)addresses + i * OFI_ADDRESS_LEN);

		if (addrs)
			addrs[i] = index < 0 ? FI_ADDR_NOTAVAIL : (fi_addr_t)index;
		if (errors)
			errors[i] = index < 0 ? (int)-index : 0;
		if (index >= 0)
			inserted++;
	}
	ofi_unlock(av->domain);
	return inserted;
}

OFI_REFUSED(int, av_insertsvc, "fi_av_insertsvc", struct fid_av *fid, const char *node,
	    const char *service, fi_addr_t *addr, uint64_t flags, void *context)
OFI_REFUSED(int, av_insertsym, "fi_av_insertsym", struct fid_av *fid, const char *node,
	    size_t nodecnt, const char *service, size_t svccnt, fi_addr_t *addr, uint64_t flags,
	    void *context)

static void remove_one(struct ofi_av *av, fi_addr_t addr)
{
	struct ofi_av_entry *e = av->entries[addr];

	av->entries[addr] = NULL;
	av->lowest = MIN(av->lowest, addr);
	av->generation++;
	if (e->hh.tbl) {
		HASH_DEL(av->by_service, e);
		for (size_t i = 0; i < av->count; i++)
			if (av->entries[i] && av->entries[i]->service == e->service)
				hash_add(av, av->entries[i]);
	}
	free(e);
}

static int av_remove(struct fid_av *fid, fi_addr_t *addrs, size_t count, uint64_t flags)
{
	struct ofi_av *av = av_of(fid);
	int rc = 0;

	if (flags)
		return -FI_EINVAL;
	ofi_lock(av->domain);
	for (size_t i = 0; i < count; i++) {
		if (ofi_av_service(av, addrs[i]))
			remove_one(av, addrs[i]);
		else
			rc = -FI_EINVAL;
	}
	ofi_unlock(av->domain);
	return rc;
}

static int av_lookup(struct fid_av *fid, fi_addr_t addr, void *address, size_t *len)
{
	struct ofi_av *av = av_of(fid);
	uint8_t bytes[OFI_ADDRESS_LEN];
	uint64_t service;

	ofi_lock(av->domain);
	service = ofi_av_service(av, addr);
	ofi_unlock(av->domain);
	if (!service)
		return -FI_EINVAL;
	ofi_address_put(bytes, service);
	memcpy(address, bytes, MIN(*len, OFI_ADDRESS_LEN));
	*len = OFI_ADDRESS_LEN;
	return 0;
}

static const char *av_straddr(struct fid_av *fid, const void *address, char *buf, size_t *len)
{
	uint64_t service = 0;
	int n;

	ofi_address_get(address, &service);
	n = snprintf(buf, *len, "fi_ripc://%" PRIu64, service);
	*len = (size_t)n + 1;
	return buf;
}

static int av_close(struct fid *fid)
{
	struct ofi_av *av = container_of(fid, struct ofi_av, fid.fid);
	struct ofi_domain *d = av->domain;

	if (ofi_is_used(d, &av->refs))
		return -FI_EBUSY;
	HASH_CLEAR(hh, av->by_service);
	for (size_t i = 0; i < av->count; i++)
		free(av->entries[i]);
	free(av->entries);
	free(av);
	ofi_domain_put(d);
	return 0;
}

static int av_bind(struct fid *fid, struct fid *bfid, uint64_t flags)
{
	if (bfid->fclass != FI_CLASS_EQ)
		return -FI_EINVAL;
	return ofi_refused("fi_av_bind: addresses are inserted at once");
}

static struct fi_ops av_fi_ops = {
	.size = sizeof(struct fi_ops),
	.close = av_close,
	.bind = av_bind,
	.control = ofi_no_control,
	.ops_open = ofi_no_ops_open,
};

static struct fi_ops_av av_ops = {
	.size = sizeof(struct fi_ops_av),
	.insert = av_insert,
	.insertsvc = av_insertsvc,
	.insertsym = av_insertsym,
	.remove = av_remove,
	.lookup = av_lookup,
	.straddr = av_straddr,
};

int ofi_av_open(struct fid_domain *domain, struct fi_av_attr *attr, struct fid_av **fid,
		void *context)
{
	struct ofi_domain *d = container_of(domain, struct ofi_domain, fid);
	struct ofi_av *av;

	if (attr->name)
		return ofi_refused("fi_av_open with a name");
	if (attr->flags & ~FI_SYMMETRIC)
		return ofi_refused("fi_av_open with FI_EVENT or FI_READ");
	if (attr->rx_ctx_bits)
		return ofi_refused("fi_av_open with rx_ctx_bits");
	av = calloc(1, sizeof(*av));
	if (!av)
		return -FI_ENOMEM;
	if (attr->type == FI_AV_UNSPEC)
		attr->type = FI_AV_TABLE;
	av->domain = d;
	av->fid.fid = (struct fid){.fclass = FI_CLASS_AV, .context = context, .ops = &av_fi_ops};
	av->fid.ops = &av_ops;
	ofi_domain_get(d);
	*fid = &av->fid;
	return 0;
}
