/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The device whose memory several hosts see: QEMU's ivshmem (PCI 1af4:1110), found through sysfs,
 * or the file on the host that backs such a device.
 */
#ifndef RIPC_PCIE_DEVICE_H
#define RIPC_PCIE_DEVICE_H

#include <stddef.h>
#include <stdint.h>

#define RIPC__PCIE_PATH_MAX 256

struct ripc__pcie_device {
	char name[RIPC__PCIE_PATH_MAX]; /* of the mapped file */
	uint8_t *base;                  /* the memory; NULL: not mapped */
	uint8_t *out; /* the same memory, with write combining if the kernel offers it; else base */
	size_t size;  /* bytes */
};

/*
 * Maps the memory. @path: a file, or the directory of a PCI device in sysfs; "": the first device
 * of that kind. Return: 0, or a negative errno such as -ENODEV with one sentence in why.
 */
int ripc__pcie_map(struct ripc__pcie_device *d, const char *path, char *why, size_t whylen);
void ripc__pcie_unmap(struct ripc__pcie_device *d);

#endif
