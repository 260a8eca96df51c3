/* SPDX-License-Identifier: LGPL-2.1-or-later */
#define _GNU_SOURCE
#include "core/memory/memory_object.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* The slot of a descriptor, or (-1) a free slot, among those of one kind. NULL: there is none. */
static int *slot_of(struct ripc *ctx, bool import, int fd)
{
	int *fds = ctx->memory->object_fds + (import ? RIPC__MEMFDS_MAX : 0);
	unsigned n = import ? RIPC__IMPORT_FDS_MAX : RIPC__MEMFDS_MAX;

	for (unsigned i = 0; i < n; i++)
		if (fds[i] == fd + 1)
			return &fds[i];
	return NULL;
}

bool ripc__memory_object_room(struct ripc *ctx)
{
	return slot_of(ctx, false, -1);
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
	int *slot = slot_of(ctx, false, -1), fd;
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
	*slot = fd + 1;
	r->fd = fd;
	r->object = object_of(fd);
	return base;
}

void ripc__memory_object_move(struct ripc__region *from, struct ripc__region *to)
{
	to->fd = from->fd;
	to->object = from->object;
	from->fd = -1;
}

struct ripc__region *ripc__memory_object_own(struct ripc *ctx, const struct ripc__region *import)
{
	for (size_t i = 0; import->object && i < ctx->memory->nregions; i++) {
		struct ripc__region *r = ctx->memory->regions[i];

		if (r->fd >= 0 && r->state != RIPC__REGION_IMPORTED && r->object == import->object)
			return r;
	}
	return NULL;
}

bool ripc__memory_object_keep(struct ripc *ctx, struct ripc__region *import, int fd)
{
	int *slot = slot_of(ctx, true, -1);

	import->object = object_of(fd);
	/* Known once: most are objects of others. */
	if (!ripc__memory_object_own(ctx, import))
		import->object = 0;
	if (!slot)
		return false;
	*slot = fd + 1;
	import->fd = fd;
	return true;
}

void ripc__memory_object_close(struct ripc *ctx, struct ripc__region *r)
{
	if (r->fd < 0)
		return;
	*slot_of(ctx, r->state == RIPC__REGION_IMPORTED, r->fd) = 0;
	close(r->fd);
	r->fd = -1;
}

void ripc__memory_objects_forked(struct ripc *ctx)
{
	for (unsigned i = 0; i < RIPC__MEMFDS_MAX + RIPC__IMPORT_FDS_MAX; i++)
		if (ctx->memory->object_fds[i])
			close(ctx->memory->object_fds[i] - 1);
}
