/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The memory that the cgroup of this process may use (cgroup v2). */
#ifndef RIPC_BASE_MEMORY_LIMIT_H
#define RIPC_BASE_MEMORY_LIMIT_H

#include <stdint.h>

#define RIPC__CGROUP_OF_PROCESS "/proc/self/cgroup"
#define RIPC__CGROUP_ROOT       "/sys/fs/cgroup"

/*
 * The smallest memory.max of a cgroup and of those above it, in bytes. UINT64_MAX: there is no
 * limit, or it cannot be read. @of_process: a file that names the cgroup, as
 * RIPC__CGROUP_OF_PROCESS; @root: where the cgroups are mounted.
 */
uint64_t ripc__memory_limit(const char *of_process, const char *root);

#endif
