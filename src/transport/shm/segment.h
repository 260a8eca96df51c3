/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Shared memory without a name: it is passed on as a descriptor, and mapped only if an access to it
 * cannot fail. A page fault that the kernel cannot serve raises SIGBUS, which ends the process. All
 * memory from a peer is checked here against each cause:
 *
 *   access beyond its end    it is long enough, and F_SEAL_SHRINK keeps it so
 *   a hole, hugetlbfs        refused, as all file systems but tmpfs are: there may be no huge page
 *                            for the hole. Others do I/O in a fault, which may fail or block
 *   a hole, tmpfs            reads as zeros: the kernel finds a page as for any other memory. It
 *                            may refuse only with vm.overcommit_memory=2: then all pages are
 *                            allocated when the memory is mapped, and an error is returned.
 *                            F_SEAL_WRITE and F_SEAL_FUTURE_WRITE prevent later holes;
 *                            F_SEAL_SHRINK does not
 *   a full tmpfs             the tmpfs of memfds has no limit; files on others cannot be sealed
 *
 * Two cases are not covered: a page that cannot be read back from swap; and a peer that makes holes
 * in a segment before its owner maps it, with vm.overcommit_memory=2 and no memory left. Linux
 * before 5.1 has no F_SEAL_FUTURE_WRITE; there a peer may make holes in its segment as well.
 */
#ifndef RIPC_SHM_SEGMENT_H
#define RIPC_SHM_SEGMENT_H

#include <stddef.h>
#include <stdint.h>

struct ripc__segment {
	uint8_t *base; /* NULL: not mapped */
	size_t len;    /* bytes */
};

/*
 * Makes a segment of zeros, mapped for reading, sealed against changes of its size. Its peer adds a
 * further seal. Return: its descriptor, or a negative errno.
 */
int ripc__segment_create(struct ripc__segment *s, size_t len);
/*
 * Maps a peer's segment for writing, and seals it against future writing, which includes holes. The
 * descriptor stays the caller's. Return: 0; -EPERM: another file system, not sealed, or not
 * sealable; -EINVAL: no memory object, or too small; -ENOSPC: missing pages cannot be allocated; or
 * the errno of mmap().
 */
int ripc__segment_map(struct ripc__segment *s, int fd, size_t len);
/*
 * Maps a peer's memory object for reading: sealed against writing or future writing, and without
 * holes. A forked child may read it. Otherwise as ripc__segment_map(); -EPERM: it has a hole.
 */
int ripc__segment_map_readonly(struct ripc__segment *s, int fd, size_t len);
void ripc__segment_unmap(struct ripc__segment *s);

#endif
