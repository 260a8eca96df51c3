/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/service/items.h"
#include "base/log.h"
#include "wire/header.h"

#include <errno.h>
#include <sys/uio.h>

/* A larger size is taken for uninitialised memory. */
#define OPTIONS_SIZE_MAX 65536

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
	if (sum >> RIPC__LEN_BITS)
		return ripc__fail(-EINVAL, "message of %llu bytes: must have less than 2^47",
				  (unsigned long long)sum);
	*bytes = sum;
	if (!o)
		return 0;
	if (o->size != sizeof(*o)) {
		int rc = ripc__check_options_size(o, o->size, sizeof(*o), "ripc_send_options");

		if (rc)
			return rc;
	}
	if (o->flags & ~flags)
		return ripc__fail(-EOPNOTSUPP,
				  "flags 0x%x: this kind of send takes no other than "
				  "RIPC_RELIABLE, RIPC_MORE%s (0x%x)",
				  o->flags, flags & RIPC_FREE_ITEMS ? ", RIPC_FREE_ITEMS" : "",
				  flags);
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
