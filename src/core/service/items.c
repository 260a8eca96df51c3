/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/service/items.h"
#include "base/log.h"
#include "wire/header.h"

#include <errno.h>

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

static int check(const struct iovec *items, unsigned nitems, const struct ripc_send_options *o,
		 unsigned flags, uint64_t *bytes)
{
	uint64_t sum = 0;

	if (!items || !nitems || nitems > RIPC_ITEMS_MAX)
		return ripc__fail(-EINVAL, "message of %u items: must have 1 to %d", nitems,
				  RIPC_ITEMS_MAX);
	for (unsigned i = 0; i < nitems; i++) {
		if ((!items[i].iov_base && items[i].iov_len) ||
		    items[i].iov_len >> RIPC__LEN_BITS ||
		    (uintptr_t)items[i].iov_base + items[i].iov_len < (uintptr_t)items[i].iov_base)
			return ripc__fail(-EINVAL, "item %u: %zu bytes at %p", i, items[i].iov_len,
					  items[i].iov_base);
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
	if (o->nreturn_buffers > RIPC_RETURN_BUFFERS_MAX ||
	    (o->nreturn_buffers && !o->return_buffers))
		return ripc__fail(-EINVAL, "%u return buffers: at most %d", o->nreturn_buffers,
				  RIPC_RETURN_BUFFERS_MAX);
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
