/* SPDX-License-Identifier: LGPL-2.1-or-later */
#define _GNU_SOURCE
#include "transport/pcie/device.h"
#include "base/text.h"
#include "ripc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#define DEVICES  "/sys/bus/pci/devices"
#define VENDOR   "0x1af4"
#define DEVICE   "0x1110"
#define MEMORY   "resource2" /* BAR 2 */
#define COMBINED "resource2_wc"

/* Reads the first word of a file in a directory; "" if there is none. */
static void read_word(const char *dir, const char *name, char *word, size_t len)
{
	char path[RIPC__PCIE_PATH_MAX + 64];
	ssize_t n = -1;
	int fd;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		n = read(fd, word, len - 1);
		close(fd);
	}
	word[n < 0 ? 0 : n] = 0;
	word[strcspn(word, " \t\n")] = 0;
}

static bool is_ivshmem(const char *dir)
{
	char word[16];

	read_word(dir, "vendor", word, sizeof(word));
	if (strcmp(word, VENDOR))
		return false;
	read_word(dir, "device", word, sizeof(word));
	return !strcmp(word, DEVICE);
}

/* Finds the device with the lowest address. Return: whether there is one. */
static bool find_first(char dir[RIPC__PCIE_PATH_MAX])
{
	char path[RIPC__PCIE_PATH_MAX];
	DIR *d = opendir(DEVICES);
	struct dirent *e;

	*dir = 0;
	while (d && (e = readdir(d))) {
		snprintf(path, sizeof(path), DEVICES "/%.200s", e->d_name);
		if (e->d_name[0] != '.' && is_ivshmem(path) && (!*dir || strcmp(path, dir) < 0))
			strcpy(dir, path);
	}
	if (d)
		closedir(d);
	return *dir;
}

/* A device without a kernel module may be disabled. */
static int enable(const char *dir)
{
	char path[RIPC__PCIE_PATH_MAX + 64], word[16];
	int fd, rc;

	read_word(dir, "enable", word, sizeof(word));
	if (strcmp(word, "0"))
		return 0;
	snprintf(path, sizeof(path), "%s/enable", dir);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	/* -EBUSY: a kernel module has it. */
	rc = write(fd, "1", 1) < 0 ? -errno : 0;
	close(fd);
	return rc;
}

/* Finds the file of the memory. Return: as ripc__pcie_map(). */
static int find(const char *path, char memory[RIPC__PCIE_PATH_MAX], char *why, size_t whylen)
{
	char dir[RIPC__PCIE_PATH_MAX];
	struct stat st;
	int rc;

	snprintf(dir, sizeof(dir), "%s", path);
	if (!*path && !find_first(dir))
		return ripc__reason(-ENODEV, why, whylen,
				    "no device with shared memory (PCI 1af4:1110)");
	if (stat(dir, &st)) {
		rc = -errno;
		return ripc__reason(rc, why, whylen, "%.150s: %s", dir, ripc_strerror(rc));
	}
	if (!S_ISDIR(st.st_mode)) {
		snprintf(memory, RIPC__PCIE_PATH_MAX, "%s", dir);
		return 0;
	}
	rc = snprintf(memory, RIPC__PCIE_PATH_MAX, "%s/" MEMORY, dir);
	if (rc >= RIPC__PCIE_PATH_MAX || access(memory, F_OK))
		return ripc__reason(-ENODEV, why, whylen,
				    "%.150s: no PCI device with memory in BAR 2", dir);
	if (access(memory, R_OK | W_OK)) {
		rc = -errno;
		return ripc__reason(rc, why, whylen, "%.150s: %s", memory, ripc_strerror(rc));
	}
	rc = enable(dir);
	return rc ? ripc__reason(rc, why, whylen,
				 "%.150s is switched off, and cannot be switched on: %s", dir,
				 ripc_strerror(rc))
		  : 0;
}

/*
 * Allocates all of the file that backs a device: a write into a hole that cannot be filled would
 * raise SIGBUS. This does not protect against a process that shortens the file: it is the user's
 * own, and ripc(7) requires that it keeps its size. Return: 0, or a negative errno.
 */
static int fill(int fd, size_t size)
{
	struct statfs fs;

	/* The memory of a real device is always allocated. */
	if (!fstatfs(fd, &fs) && fs.f_type == SYSFS_MAGIC)
		return 0;
	while (fallocate(fd, 0, 0, (off_t)size))
		if (errno != EINTR)
			return errno == EOPNOTSUPP ? 0 : -errno;
	return 0;
}

static void *map(int fd, size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (p == MAP_FAILED)
		return NULL;
	/* A forked child must not touch it. */
	madvise(p, size, MADV_DONTFORK);
	return p;
}

/* Maps the memory with write combining, where the kernel offers it. */
static void map_combined(struct ripc__pcie_device *d)
{
	char path[RIPC__PCIE_PATH_MAX + 8];
	size_t len = strlen(d->name);
	void *p;
	int fd;

	d->out = d->base;
	if (len < sizeof(MEMORY) || strcmp(d->name + len - (sizeof(MEMORY) - 1), MEMORY))
		return;
	snprintf(path, sizeof(path), "%.*s" COMBINED, (int)(len - (sizeof(MEMORY) - 1)), d->name);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return;
	p = map(fd, d->size);
	close(fd);
	if (p)
		d->out = p;
}

int ripc__pcie_map(struct ripc__pcie_device *d, const char *path, char *why, size_t whylen)
{
	struct stat st;
	int fd, rc;

	memset(d, 0, sizeof(*d));
	rc = find(path, d->name, why, whylen);
	if (rc)
		return rc;
	fd = open(d->name, O_RDWR | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0) {
		rc = -errno;
		return ripc__reason(rc, why, whylen, "%.150s: %s", d->name, ripc_strerror(rc));
	}
	if (fstat(fd, &st) || !S_ISREG(st.st_mode)) {
		close(fd);
		return ripc__reason(
			-ENODEV, why, whylen,
			"%.150s: neither the directory of a PCI device nor a regular file",
			d->name);
	}
	d->size = (size_t)st.st_size & ~(size_t)4095;
	rc = d->size ? fill(fd, d->size) : -ENODEV;
	if (!rc) {
		d->base = map(fd, d->size);
		rc = d->base ? 0 : -errno;
	}
	close(fd);
	if (rc)
		return ripc__reason(rc, why, whylen, "%.150s: %s", d->name,
				    d->size ? ripc_strerror(rc) : "less than a page of memory");
	map_combined(d);
	return 0;
}

void ripc__pcie_unmap(struct ripc__pcie_device *d)
{
	if (d->out && d->out != d->base)
		munmap(d->out, d->size);
	if (d->base)
		munmap(d->base, d->size);
	d->base = d->out = NULL;
}
