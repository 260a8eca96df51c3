/* SPDX-License-Identifier: LGPL-2.1-or-later */
#define _GNU_SOURCE
#include "core/memory/memory_object.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

static int *memfd_slot(struct ripc *ctx, int fd)
{
	for (unsigned i = 0; i < RIPC__MEMFDS_MAX; i++)
		if (ctx->memory->fds[i] == fd)
			return &ctx->memory->fds[i];
	return NULL;
}

bool ripc__memory_object_room(struct ripc *ctx)
{
	return memfd_slot(ctx, -1);
}

/*
 * Seals prevent a peer from shrinking the object, which would raise SIGBUS in processes that map
 * it, and from writing: ours is the last writable mapping. Kernels before 5.1 lack
 * F_SEAL_FUTURE_WRITE.
 */
uint8_t *ripc__memory_object_map(struct ripc *ctx, size_t cap, int *out)
{
	struct rlimit limit;
	int *slot = memfd_slot(ctx, -1), fd;
	void *base = MAP_FAILED;

	/* Above this limit ftruncate() raises SIGXFSZ. */
	if (!slot || (!getrlimit(RLIMIT_FSIZE, &limit) && limit.rlim_cur < cap))
		return NULL;
	fd = memfd_create("ripc-buffer", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return NULL;
	if (!ftruncate(fd, (off_t)cap))
		base = mmap(NULL, cap, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
	if (base != MAP_FAILED &&
	    fcntl(fd, F_ADD_SEALS,
		  F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL)) {
		munmap(base, cap);
		base = MAP_FAILED;
	}
	if (base == MAP_FAILED) {
		close(fd);
		return NULL;
	}
	*out = *slot = fd;
	return base;
}

void ripc__memory_object_close(struct ripc *ctx, struct ripc__region *r)
{
	int *slot = r->fd >= 0 ? memfd_slot(ctx, r->fd) : NULL;

	if (!slot)
		return;
	*slot = -1;
	close(r->fd);
	r->fd = -1;
}
