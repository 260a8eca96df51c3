/* SPDX-License-Identifier: LGPL-2.1-or-later */
#define _GNU_SOURCE /* process_vm_readv */
#include "core/service/items.h"
#include "base/log.h"
#include "wire/header.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

/* A larger size is taken for uninitialised memory. */
#define OPTIONS_SIZE_MAX 65536
#define READ_PAGES       256u /* pages tried by one system call */

int ripc__check_options_size(const void *options, size_t size, size_t known, const char *name)
{
	const unsigned char *p = (const unsigned char *)options;

	if (size < known || size > OPTIONS_SIZE_MAX)
		return ripc__fail(-EINVAL, "member size of struct %s is %zu: set it to its sizeof",
				  name, size);
	for (size_t i = known; i < size; i++) {
		if (p[i])
			return ripc__fail(
				-EOPNOTSUPP,
				"byte %zu of struct %s is not zero: this version knows %zu bytes",
				i, name, known);
	}
	return 0;
}

static int item_fails(unsigned i, const struct iovec *item)
{
	return ripc__fail(-EINVAL, "item %u: %zu bytes at %p: %s", i, item->iov_len, item->iov_base,
			  !item->iov_base                   ? "there is no memory"
			  : item->iov_len >> RIPC__LEN_BITS ? "an item has less than 2^47 bytes"
							    : "they exceed the address space");
}

static int check(const struct iovec *items, unsigned nitems, const struct ripc_send_options *o,
		 unsigned flags, uint64_t *bytes)
{
	uint64_t sum = 0;

	if (!nitems || nitems > RIPC_ITEMS_MAX)
		return ripc__fail(-EINVAL, "message of %u items: must have 1 to %d", nitems,
				  RIPC_ITEMS_MAX);
	if (!items)
		return ripc__fail(-EINVAL, "message of %u items: there is no array of items",
				  nitems);
	for (unsigned i = 0; i < nitems; i++) {
		if ((!items[i].iov_base && items[i].iov_len) ||
		    items[i].iov_len >> RIPC__LEN_BITS ||
		    (uintptr_t)items[i].iov_base + items[i].iov_len < (uintptr_t)items[i].iov_base)
			return item_fails(i, &items[i]);
		sum += items[i].iov_len;
	}
	*bytes = sum;
	if (!o)
		return 0;
	if (o->size != sizeof(*o)) {
		int rc = ripc__check_options_size(o, o->size, sizeof(*o), "ripc_send_options");

		if (rc)
			return rc;
	}
	if (o->flags & ~flags)
		return ripc__fail(-EOPNOTSUPP, "send flags 0x%x are not known to this version",
				  o->flags);
	if (o->nreturn_buffers > RIPC_RETURN_BUFFERS_MAX)
		return ripc__fail(-EINVAL, "%u return buffers: at most %d", o->nreturn_buffers,
				  RIPC_RETURN_BUFFERS_MAX);
	if (o->nreturn_buffers && !o->return_buffers)
		return ripc__fail(-EINVAL, "%u return buffers: there is no array of them",
				  o->nreturn_buffers);
	return 0;
}

int ripc__check_items(const struct iovec *items, unsigned nitems, const struct ripc_send_options *o,
		      uint64_t *bytes)
{
	return check(items, nitems, o, RIPC_RELIABLE | RIPC_MORE, bytes);
}

int ripc__check_long_items(const struct iovec *items, unsigned nitems,
			   const struct ripc_send_options *o, uint64_t *bytes)
{
	return check(items, nitems, o, RIPC_RELIABLE | RIPC_MORE | RIPC_FREE_ITEMS, bytes);
}

/*
 * Whether all mappings in a range allow the access. The list of mappings is long, but reading it
 * never waits, as reading a page may.
 */
static bool permitted(const void *base, size_t len, bool write)
{
	uintptr_t begin = (uintptr_t)base, end = begin + len, from, to;
	FILE *maps = fopen("/proc/self/maps", "re");
	bool denied = false;
	char *line = NULL, mode[5];
	size_t size = 0;

	while (maps && !denied && getline(&line, &size, maps) > 0) {
		if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %4s", &from, &to, mode) != 3 ||
		    to <= begin)
			continue;
		if (from >= end)
			break;
		denied = mode[0] != 'r' || (write && mode[1] != 'w');
	}
	free(line);
	if (maps)
		fclose(maps);
	return !denied;
}

bool ripc__readable(const void *base, size_t len)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	const uint8_t *at = (const uint8_t *)base - ((uintptr_t)base & (page - 1));
	const uint8_t *end = (const uint8_t *)base + len;
	uint8_t present[READ_PAGES], bytes[READ_PAGES] = {0};
	struct iovec from[READ_PAGES];
	bool absent = false;

	while (len && at < end) {
		size_t n = ((size_t)(end - at) + page - 1) / page;
		struct iovec to = {bytes, 0};
		ssize_t got;

		n = n < READ_PAGES ? n : READ_PAGES;
		if (mincore((void *)at, n * page, present))
			return errno != ENOMEM;
		/* Reading another page may wait, for a userfaultfd handler or a file server. */
		for (size_t i = 0; i < n; i++)
			if (present[i] & 1)
				from[to.iov_len++] = (struct iovec){(void *)(at + i * page), 1};
		absent |= to.iov_len < n;
		at += n * page;
		got = to.iov_len ? process_vm_readv(getpid(), &to, 1, from, to.iov_len, 0) : 0;
		if (got < 0)
			return errno != EFAULT;
		if ((size_t)got < to.iov_len)
			return false;
	}
	return !absent || permitted(base, len, false);
}

bool ripc__writable(const void *base, size_t len)
{
	return ripc__readable(base, len) && (!len || permitted(base, len, true));
}
