/* SPDX-License-Identifier: LGPL-2.1-or-later */
#define _GNU_SOURCE
#include "transport/window/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW)

static int map(struct ripc__segment *s, int fd, size_t len, int prot)
{
	void *base = mmap(NULL, len, prot, MAP_SHARED, fd, 0);

	if (base == MAP_FAILED)
		return -errno;
	/* A forked child has no business in it. */
	madvise(base, len, MADV_DONTFORK);
	s->base = base;
	s->len = len;
	return 0;
}

int ripc__segment_make(struct ripc__segment *s, size_t len)
{
	struct rlimit limit;
	int fd, rc;

	/* Beyond this limit ftruncate() would send a signal. */
	if (!getrlimit(RLIMIT_FSIZE, &limit) && limit.rlim_cur < len)
		return -EFBIG;
	fd = memfd_create("ripc-window", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return -errno;
	rc = ftruncate(fd, (off_t)len) || fcntl(fd, F_ADD_SEALS, SEALS | F_SEAL_SEAL) ? -errno : 0;
	if (!rc)
		rc = map(s, fd, len, PROT_READ);
	if (!rc)
		return fd;
	close(fd);
	return rc;
}

int ripc__segment_map(struct ripc__segment *s, int fd, size_t len)
{
	int seals = fcntl(fd, F_GET_SEALS);
	struct stat st;

	if (seals < 0 || fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_size < (off_t)len)
		return -EINVAL;
	/* Whoever could shrink it could kill us with a signal when we write. */
	if ((seals & SEALS) != SEALS)
		return -EPERM;
	return map(s, fd, len, PROT_READ | PROT_WRITE);
}

void ripc__segment_unmap(struct ripc__segment *s)
{
	if (s->base)
		munmap(s->base, s->len);
	s->base = NULL;
}
