/* SPDX-License-Identifier: LGPL-2.1-or-later */
#define _GNU_SOURCE
#include "transport/shm/segment.h"
#include "base/host.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#define SIZE_SEALS  (F_SEAL_SHRINK | F_SEAL_GROW)
#define WRITE_SEALS (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE)

static int map(struct ripc__segment *s, int fd, size_t len, int prot, int flags)
{
	void *base = mmap(NULL, len, prot, MAP_SHARED | flags, fd, 0);

	if (base == MAP_FAILED)
		return -errno;
	s->base = base;
	s->len = len;
	return 0;
}

/* Where the kernel may refuse a page to a fault, allocates all of them now. */
static int fill(int fd, size_t len)
{
	if (!ripc__host_no_overcommit() || !fallocate(fd, 0, 0, (off_t)len))
		return 0;
	return errno == EINTR ? -EAGAIN : -errno;
}

int ripc__segment_create(struct ripc__segment *s, size_t len)
{
	struct rlimit limit;
	int fd, rc;

	/* Beyond this limit ftruncate() would send a signal. */
	if (!getrlimit(RLIMIT_FSIZE, &limit) && limit.rlim_cur < len)
		return -EFBIG;
	fd = memfd_create("ripc-window", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return -errno;
	rc = ftruncate(fd, (off_t)len) || fcntl(fd, F_ADD_SEALS, SIZE_SEALS) ? -errno : 0;
	if (!rc)
		rc = fill(fd, len);
	if (!rc)
		rc = map(s, fd, len, PROT_READ, 0);
	if (rc) {
		close(fd);
		return rc;
	}
	/* A forked child must not touch it. */
	madvise(s->base, len, MADV_DONTFORK);
	return fd;
}

/* The checks for all memory of a peer. Return: its seals, or a negative errno. */
static int check(int fd, size_t len)
{
	int seals = fcntl(fd, F_GET_SEALS);
	struct statfs fs;
	struct stat st;

	if (seals < 0 || !len || fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_size < (off_t)len)
		return -EINVAL;
	if (fstatfs(fd, &fs) || fs.f_type != TMPFS_MAGIC || !(seals & F_SEAL_SHRINK))
		return -EPERM;
	return seals;
}

/* Return: 0, or -EPERM: others can still punch holes. Old kernels do not know that seal. */
static int seal(int fd)
{
	if (!fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE | F_SEAL_SEAL) || errno == EINVAL)
		return 0;
	return fcntl(fd, F_GET_SEALS) & F_SEAL_FUTURE_WRITE ? 0 : -EPERM;
}

int ripc__segment_map(struct ripc__segment *s, int fd, size_t len)
{
	int rc = check(fd, len);

	if (rc < 0)
		return rc;
	if ((rc & SIZE_SEALS) != SIZE_SEALS)
		return -EPERM;
	rc = map(s, fd, len, PROT_READ | PROT_WRITE, 0);
	if (rc)
		return rc;
	madvise(s->base, len, MADV_DONTFORK);
	rc = seal(fd);
	if (!rc)
		rc = fill(fd, len);
	if (rc)
		ripc__segment_unmap(s);
	return rc;
}

int ripc__segment_map_readonly(struct ripc__segment *s, int fd, size_t len)
{
	int seals = check(fd, len);

	if (seals < 0)
		return seals;
	if (!(seals & WRITE_SEALS) || lseek(fd, 0, SEEK_HOLE) < (off_t)len)
		return -EPERM;
	return map(s, fd, len, PROT_READ, MAP_NORESERVE);
}

void ripc__segment_unmap(struct ripc__segment *s)
{
	if (s->base)
		munmap(s->base, s->len);
	s->base = NULL;
}
