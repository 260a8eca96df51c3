/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "transport/rdma/region.h"
#include "base/log.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

/* mr->priv. */
struct region {
	struct ripc__list link;
	struct ibv_mr *mr[RIPC__VERBS_DEVICES_MAX]; /* by device; NULL: not registered */
};

/* Value in kB of a line of /proc/self/status; 0: unreadable. */
static unsigned long status_kb(const char *field)
{
	FILE *f = fopen("/proc/self/status", "re");
	size_t len = strlen(field);
	unsigned long kb = 0;
	char line[128];

	if (!f)
		return 0;
	while (fgets(line, sizeof(line), f))
		if (!strncmp(line, field, len) && line[len] == ':')
			kb = strtoul(line + len + 1, NULL, 10);
	fclose(f);
	return kb;
}

static int explain(const struct ripc__verbs_device *d, size_t len, int err)
{
	char limit[32] = "unlimited";
	struct rlimit rl;

	if ((err != ENOMEM && err != EPERM && err != EAGAIN) || getrlimit(RLIMIT_MEMLOCK, &rl))
		return ripc__fail(-err, "%s: cannot register %zu bytes: %s", d->name, len,
				  strerror(err));
	if (rl.rlim_cur != RLIM_INFINITY)
		snprintf(limit, sizeof(limit), "%llu KiB", (unsigned long long)rl.rlim_cur >> 10);
	return ripc__fail(-err,
			  "%s: cannot register %zu KiB: %s; RLIMIT_MEMLOCK is %s, pinned are %lu "
			  "KiB (VmPin), locked %lu KiB (VmLck); raise the limit with ulimit -l",
			  d->name, (len + 1023) >> 10, strerror(err), limit, status_kb("VmPin"),
			  status_kb("VmLck"));
}

int ripc__verbs_reg_mr(struct ripc__verbs_device *d, void *base, size_t len, int access,
		       struct ibv_mr **mr)
{
	*mr = NULL;
	if (d->gone)
		return ripc__fail(-ENODEV, "%s: the device is gone", d->name);
	errno = 0;
	*mr = ibv_reg_mr(d->pd, base, len, access);
	return *mr ? 0 : explain(d, len, errno ? errno : EIO);
}

static int verbs_access(const struct ripc__verbs_device *d, unsigned access)
{
	int a = 0;

	if (access & RIPC__ACCESS_LOCAL_WRITE)
		a |= IBV_ACCESS_LOCAL_WRITE |
		     (d->read_sink_remote_write ? IBV_ACCESS_REMOTE_WRITE : 0);
	if (access & RIPC__ACCESS_REMOTE_READ)
		a |= IBV_ACCESS_REMOTE_READ;
	/* Remote write requires local write. */
	if (access & RIPC__ACCESS_REMOTE_WRITE)
		a |= IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_LOCAL_WRITE;
	return a;
}

static void region_free(struct region *r)
{
	for (unsigned i = 0; i < RIPC__VERBS_DEVICES_MAX; i++)
		if (r->mr[i] && ibv_dereg_mr(r->mr[i]))
			ripc__log(RIPC_LOG_ERROR, "verbs: cannot deregister memory at %p: %s",
				  r->mr[i]->addr, strerror(errno));
	ripc__list_del(&r->link);
	free(r);
}

void ripc__verbs_regions_fini(struct ripc__list *regions)
{
	struct ripc__list *n;

	while ((n = ripc__list_first(regions)))
		region_free(ripc__list_entry(n, struct region, link));
}

void ripc__verbs_regions_invalidate(struct ripc__list *regions, struct ripc__verbs_device *d)
{
	struct region *r;

	ripc__list_for_each_entry (r, regions, link) {
		if (r->mr[d->index])
			ibv_dereg_mr(r->mr[d->index]);
		r->mr[d->index] = NULL;
	}
}

int ripc__verbs_reg(struct ripc__list *regions, struct ripc__verbs_device *d, void *base,
		    size_t len, unsigned access, struct ripc__mr *mr)
{
	bool remote = access & (RIPC__ACCESS_REMOTE_READ | RIPC__ACCESS_REMOTE_WRITE);
	struct region *r = calloc(1, sizeof(*r));
	int rc;

	if (!r)
		return ripc__fail(-ENOMEM, "verbs: out of memory");
	ripc__list_add(regions, &r->link);
	*mr = (struct ripc__mr){
		.base = base, .len = len, .addr = (uintptr_t)base, .access = access, .priv = r};
	/* Empty regions are not registered: adapters refuse that, and no key is needed. */
	if (!d || !len)
		return 0;
	rc = ripc__verbs_reg_mr(d, base, len, verbs_access(d, access), &r->mr[d->index]);
	if (rc)
		ripc__verbs_dereg(NULL, mr);
	else
		mr->key = remote ? r->mr[d->index]->rkey : 0;
	return rc;
}

void ripc__verbs_dereg(struct ripc__transport *t, struct ripc__mr *mr)
{
	if (mr->priv)
		region_free(mr->priv);
	mr->priv = NULL;
	mr->key = 0;
}

int ripc__verbs_lkey(struct ripc__verbs_device *d, const struct ripc__mr *mr, uint32_t *lkey)
{
	struct region *r = mr->priv;
	struct ibv_mr **at = &r->mr[d->index];
	int rc = 0;

	if (!*at && mr->len)
		rc = ripc__verbs_reg_mr(d, mr->base, mr->len, verbs_access(d, mr->access), at);
	*lkey = *at ? (*at)->lkey : 0;
	return rc;
}
