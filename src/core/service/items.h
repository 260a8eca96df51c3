/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The items and options of a message to send, as the application passes them. */
#ifndef RIPC_CORE_SERVICE_ITEMS_H
#define RIPC_CORE_SERVICE_ITEMS_H

#include "ripc.h"

#include <stdbool.h>

/*
 * Checks the arguments that all sends have. o may be NULL. *bytes: the sum of the items' lengths.
 * Return: 0; -EINVAL, -EOPNOTSUPP, explained. No lock.
 */
int ripc__check_items(const struct iovec *items, unsigned nitems, const struct ripc_send_options *o,
		      uint64_t *bytes);
/* The same without options, and inline for one small item, which most calls have. */
static inline int ripc__check_call_items(const struct iovec *items, unsigned nitems,
					 uint64_t *bytes)
{
	if (!items || nitems != 1 || !items->iov_base || items->iov_len > RIPC_SHORT_GUARANTEED)
		return ripc__check_items(items, nitems, NULL, bytes);
	*bytes = items->iov_len;
	return 0;
}
/* The same for a long message, which may have more flags. */
int ripc__check_long_items(const struct iovec *items, unsigned nitems,
			   const struct ripc_send_options *o, uint64_t *bytes);

/*
 * Checks the size of a struct of options, at least known bytes, of which this version knows the
 * members. A program of a later version may pass a larger one; members that this version does not
 * know must be zero. Return: 0; -EINVAL, -EOPNOTSUPP, explained.
 */
int ripc__check_options_size(const void *options, size_t size, size_t known, const char *name);

#endif
