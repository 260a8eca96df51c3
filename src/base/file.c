/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int fail(int err, const char *path, const char *text, char *why, size_t whylen)
{
	snprintf(why, whylen, "%.200s: %s", path, text);
	return err;
}

int ripc__file_read(const char *path, bool secret, char *text, size_t cap, struct stat *st,
		    char *why, size_t whylen)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), rc = 0;
	struct stat found;
	size_t len = 0;
	ssize_t n = 0;

	if (fd < 0)
		return fail(errno == ENOTDIR ? -ENOENT : -errno, path, strerror(errno), why,
			    whylen);
	if (fstat(fd, &found))
		rc = fail(-errno, path, strerror(errno), why, whylen);
	else if (!S_ISREG(found.st_mode))
		rc = fail(-EINVAL, path, "is not a regular file", why, whylen);
	else if (secret && found.st_uid != geteuid() && found.st_uid)
		rc = fail(-EACCES, path, "belongs to another user", why, whylen);
	else if (secret && found.st_mode & (S_IRWXG | S_IRWXO))
		rc = fail(-EACCES, path, "others have access to it: chmod 600 is needed", why,
			  whylen);
	while (!rc && len < cap && (n = read(fd, text + len, cap - len)) > 0)
		len += (size_t)n;
	if (!rc && n < 0)
		rc = fail(-errno, path, strerror(errno), why, whylen);
	else if (!rc && len == cap)
		rc = fail(-EFBIG, path, "is too long", why, whylen);
	close(fd);
	if (rc)
		return rc;
	text[len] = 0;
	if (st)
		*st = found;
	return (int)len;
}

bool ripc__file_differs(const struct stat *a, const struct stat *b)
{
	return a->st_ino != b->st_ino || a->st_dev != b->st_dev || a->st_size != b->st_size ||
	       a->st_mode != b->st_mode || a->st_mtim.tv_sec != b->st_mtim.tv_sec ||
	       a->st_mtim.tv_nsec != b->st_mtim.tv_nsec;
}
