/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Shared memory without a name: made, passed on as a descriptor, and mapped only if an access to it
 * cannot fail. A fault that the kernel cannot serve is SIGBUS, and the end of the process. So all
 * memory that a peer passes to us comes through here, where each cause is ruled out:
 *
 *   beyond its end     it is long enough, and F_SEAL_SHRINK keeps it so
 *   a hole, hugetlbfs  refused: only tmpfs. A huge page for a hole may not be there, nor be had by
 *                      waiting. Other file systems do I/O in a fault, which fails or takes for ever
 *   a hole, tmpfs      reads as zeros: the kernel finds a page for it like for any other memory of
 *                      ours. It may refuse only where it counts what is promised
 *                      (vm.overcommit_memory=2): there all of it is allocated when it is mapped, by
 *                      a call that returns an error. Nobody makes a hole later: F_SEAL_SHRINK does
 *                      not forbid that, F_SEAL_WRITE and F_SEAL_FUTURE_WRITE do
 *   tmpfs is full      the tmpfs of memfds has no limit; files on others cannot be sealed so
 *
 * Not covered: a page that cannot be read back from swap, and a peer that makes holes in our own
 * segment before it has mapped it, under vm.overcommit_memory=2 and with nothing left to promise.
 * Linux before 5.1 has no F_SEAL_FUTURE_WRITE; a peer there may make holes in its segment as well.
 */
#ifndef RIPC_SHM_SEGMENT_H
#define RIPC_SHM_SEGMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ripc__segment {
	uint8_t *base; /* NULL: not mapped */
	size_t len;    /* bytes */
};

/*
 * Makes one of zeros, mapped for reading only, sealed against any change of its size: not against
 * further seals, as its peer adds one. Return: its descriptor, or a negative errno.
 */
int ripc__segment_create(struct ripc__segment *s, size_t len);
/*
 * Maps what a peer made for writing, and seals it against future writing, which is hole punching,
 * too. The descriptor stays the caller's. Return: 0, -EPERM: it is of another file system, not
 * sealed, or cannot be; -EINVAL: no memory, or too small; -ENOSPC: what is missing cannot be had;
 * or what mmap() says.
 */
int ripc__segment_map(struct ripc__segment *s, int fd, size_t len);
/*
 * Maps what a peer made for reading: sealed against writing, or against future writing, and without
 * a hole. A forked child may read it. The rest as ripc__segment_map(); -EPERM: it has a hole.
 */
int ripc__segment_map_readonly(struct ripc__segment *s, int fd, size_t len);
void ripc__segment_unmap(struct ripc__segment *s);

#endif
