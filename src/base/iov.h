/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Arrays of struct iovec. */
#ifndef RIPC_BASE_IOV_H
#define RIPC_BASE_IOV_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/uio.h>

static inline size_t ripc__iov_len(const struct iovec *iov, unsigned niov)
{
	size_t len = 0;

	for (unsigned i = 0; i < niov; i++)
		len += iov[i].iov_len;
	return len;
}

/* Copies all bytes to @to, which has room for them. Return: their number. */
static inline size_t ripc__iov_gather(uint8_t *to, const struct iovec *iov, unsigned niov)
{
	uint8_t *p = to;

	for (unsigned i = 0; i < niov; i++) {
		if (iov[i].iov_len)
			memcpy(p, iov[i].iov_base, iov[i].iov_len);
		p += iov[i].iov_len;
	}
	return (size_t)(p - to);
}

#endif
