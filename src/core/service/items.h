/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The items and options of a message to send, as the application passes them. */
#ifndef RIPC_CORE_SERVICE_ITEMS_H
#define RIPC_CORE_SERVICE_ITEMS_H

#include "ripc.h"

/*
 * Checks the arguments that all sends have. o may be NULL. *bytes: the sum of the items' lengths.
 * Return: 0; -EINVAL, -EOPNOTSUPP, explained. No lock.
 */
int ripc__check_items(const struct iovec *items, unsigned nitems, const struct ripc_send_options *o,
		      uint64_t *bytes);
/* Likewise those of a long message, which may have more flags. */
int ripc__check_long_items(const struct iovec *items, unsigned nitems,
			   const struct ripc_send_options *o, uint64_t *bytes);

#endif
