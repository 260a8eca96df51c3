/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "base/output.h"
#include "base/log.h"

#include <errno.h>
#include <string.h>

/* A larger size of a struct of the caller is taken for uninitialised memory. */
#define STRUCT_SIZE_MAX 65536

int ripc__check_output(const void *to, const char *type)
{
	size_t size;

	if (!to)
		return ripc__fail(-EINVAL, "no struct %s to store the result", type);
	memcpy(&size, to, sizeof(size));
	if (size < sizeof(size) || size > STRUCT_SIZE_MAX)
		return ripc__fail(-EINVAL, "member size of struct %s is %zu: set it to its sizeof",
				  type, size);
	return 0;
}

void ripc__store_output(void *to, const void *from, size_t known)
{
	size_t size, n;

	memcpy(&size, to, sizeof(size));
	n = size < known ? size : known;
	memcpy((char *)to + sizeof(size), (const char *)from + sizeof(size), n - sizeof(size));
	memset((char *)to + n, 0, size - n);
}
