/* SPDX-License-Identifier: LGPL-2.1-or-later */
#define _GNU_SOURCE
#include "core/memory/memory_object.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static int *slot_of(struct ripc *ctx, int fd)
{
	for (unsigned i = 0; i < RIPC__MEMFDS_MAX + RIPC__IMPORT_FDS_MAX; i++)
		if (ctx->memory->fds[i] == fd)
			return &ctx->memory->fds[i];
	return NULL;
}

static int *free_slot(struct ripc *ctx, unsigned first, unsigned n)
{
	for (unsigned i = first; i < first + n; i++)
		if (ctx->memory->fds[i] < 0)
			return &ctx->memory->fds[i];
	return NULL;
}

bool ripc__memory_object_room(struct ripc *ctx)
{
	return free_slot(ctx, 0, RIPC__MEMFDS_MAX);
}

static uint64_t object_of(int fd)
{
	struct stat st;

	return fstat(fd, &st) ? 0 : st.st_ino;
}

/*
 * Seals prevent a peer from shrinking the object, which would raise SIGBUS in processes that map
 * it, and from writing: ours is the last writable mapping. Kernels before 5.1 lack
 * F_SEAL_FUTURE_WRITE.
 */
uint8_t *ripc__memory_object_map(struct ripc *ctx, struct ripc__region *r)
{
	int *slot = free_slot(ctx, 0, RIPC__MEMFDS_MAX), fd;
	struct rlimit limit;
	void *base = MAP_FAILED;
	size_t cap = r->cap;

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
	r->fd = *slot = fd;
	r->object = object_of(fd);
	ctx->memory->objects[slot - ctx->memory->fds] = r;
	return base;
}

void ripc__memory_object_move(struct ripc *ctx, struct ripc__region *from, struct ripc__region *to)
{
	ctx->memory->objects[slot_of(ctx, from->fd) - ctx->memory->fds] = to;
	to->fd = from->fd;
	to->object = from->object;
	from->fd = -1;
}

bool ripc__memory_object_keep(struct ripc *ctx, struct ripc__region *import, int fd)
{
	int *slot = free_slot(ctx, RIPC__MEMFDS_MAX, RIPC__IMPORT_FDS_MAX);

	import->object = object_of(fd);
	if (slot)
		import->fd = *slot = fd;
	return slot;
}

struct ripc__region *ripc__memory_object_own(struct ripc *ctx, const struct ripc__region *import)
{
	const struct ripc__memory *m = ctx->memory;

	for (unsigned i = 0; import->object && i < RIPC__MEMFDS_MAX; i++)
		if (m->fds[i] >= 0 && m->objects[i]->object == import->object)
			return m->objects[i];
	return NULL;
}

void ripc__memory_object_close(struct ripc *ctx, struct ripc__region *r)
{
	if (r->fd < 0)
		return;
	*slot_of(ctx, r->fd) = -1;
	close(r->fd);
	r->fd = -1;
}
