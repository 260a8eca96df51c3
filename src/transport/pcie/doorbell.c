/* SPDX-License-Identifier: LGPL-2.1-or-later */
#define _GNU_SOURCE
#include "base/text.h"
#include "transport/pcie/doorbell.h"
#include "ripc.h"
#include "wire/bytes.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/pci_regs.h>
#include <linux/vfio.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define MEMORY        "/resource2"
#define REGISTERS     "/resource0"
#define ID_OFF        8u  /* of the registers: IVPosition */
#define DOORBELL_OFF  12u /* Doorbell: the receiver's number above, its vector below */
#define REGISTERS_LEN 16u
#define NUMBER_BITS   16
#define VECTOR        0u
#define NAME_BYTES    256

void ripc__pcie_doorbell_init(struct ripc__pcie_doorbell *d)
{
	*d = (struct ripc__pcie_doorbell){.container = -1, .group = -1, .device = -1, .event = -1};
}

/* The last component of the path that a name in a directory leads to. */
static bool target_name(const char *dir, const char *name, char out[NAME_BYTES])
{
	char path[2 * NAME_BYTES], to[PATH_MAX];

	snprintf(path, sizeof(path), "%s%s", dir, name);
	if (!realpath(path, to))
		return false;
	snprintf(out, NAME_BYTES, "%s", strrchr(to, '/') + 1);
	return true;
}

/* ---- VFIO ---- */

/* Without an IOMMU the administrator must have enabled unsafe access. */
static int open_group(const char *number, unsigned long *iommu)
{
	char path[NAME_BYTES + 32];
	int fd;

	*iommu = VFIO_TYPE1v2_IOMMU;
	snprintf(path, sizeof(path), "/dev/vfio/%s", number);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd >= 0 || errno != ENOENT)
		return fd;
	*iommu = VFIO_NOIOMMU_IOMMU;
	snprintf(path, sizeof(path), "/dev/vfio/noiommu-%s", number);
	return open(path, O_RDWR | O_CLOEXEC);
}

static int open_device(struct ripc__pcie_doorbell *d, const char *dir, char *why, size_t whylen)
{
	char module[NAME_BYTES], number[NAME_BYTES], address[NAME_BYTES];
	unsigned long iommu;

	/* Its directory has its address as name. */
	if (!target_name(dir, "/driver", module) || strcmp(module, "vfio-pci") ||
	    !target_name(dir, "/iommu_group", number) || !target_name(dir, "", address))
		return ripc__reason(-ENODEV, why, whylen, "it is not bound to vfio-pci");
	d->group = open_group(number, &iommu);
	if (d->group < 0)
		return ripc__reason(-errno, why, whylen,
				    errno == EBUSY ? "another context has them"
						   : "its VFIO group cannot be opened: %s",
				    ripc_strerror(-errno));
	d->container = open("/dev/vfio/vfio", O_RDWR | O_CLOEXEC);
	if (d->container < 0 || ioctl(d->container, VFIO_GET_API_VERSION) != VFIO_API_VERSION ||
	    ioctl(d->group, VFIO_GROUP_SET_CONTAINER, &d->container) ||
	    ioctl(d->container, VFIO_SET_IOMMU, iommu))
		return ripc__reason(-ENODEV, why, whylen, "no VFIO: %s", ripc_strerror(-errno));
	d->device = ioctl(d->group, VFIO_GROUP_GET_DEVICE_FD, address);
	if (d->device < 0)
		return ripc__reason(-errno, why, whylen, "VFIO does not open the device: %s",
				    ripc_strerror(-errno));
	return 0;
}

/* The device writes interrupts, so it must be allowed to. */
static int enable_bus_master(const struct ripc__pcie_doorbell *d)
{
	struct vfio_region_info config = {.argsz = sizeof(config),
					  .index = VFIO_PCI_CONFIG_REGION_INDEX};
	uint8_t command[2];
	off_t at;

	if (ioctl(d->device, VFIO_DEVICE_GET_REGION_INFO, &config))
		return -1;
	at = (off_t)config.offset + PCI_COMMAND;
	if (pread(d->device, command, sizeof(command), at) != sizeof(command))
		return -1;
	ripc__put_le16(command, ripc__get_le16(command) | PCI_COMMAND_MASTER | PCI_COMMAND_MEMORY);
	return pwrite(d->device, command, sizeof(command), at) == sizeof(command) ? 0 : -1;
}

static int setup_interrupt(struct ripc__pcie_doorbell *d, char *why, size_t whylen)
{
	struct vfio_irq_info info = {.argsz = sizeof(info), .index = VFIO_PCI_MSIX_IRQ_INDEX};
	struct vfio_region_info bar = {.argsz = sizeof(bar), .index = VFIO_PCI_BAR0_REGION_INDEX};
	union {
		struct vfio_irq_set set;
		uint8_t bytes[sizeof(struct vfio_irq_set) + sizeof(int32_t)];
	} irq = {.set = {.argsz = sizeof(irq),
			 .flags = VFIO_IRQ_SET_DATA_EVENTFD | VFIO_IRQ_SET_ACTION_TRIGGER,
			 .index = VFIO_PCI_MSIX_IRQ_INDEX,
			 .start = VECTOR,
			 .count = 1}};
	uint8_t id[4];

	if (ioctl(d->device, VFIO_DEVICE_GET_IRQ_INFO, &info) || !info.count)
		return ripc__reason(-ENODEV, why, whylen, "it has none");
	if (ioctl(d->device, VFIO_DEVICE_GET_REGION_INFO, &bar) || bar.size < REGISTERS_LEN ||
	    pread(d->device, id, sizeof(id), (off_t)(bar.offset + ID_OFF)) != sizeof(id))
		return ripc__reason(-ENODEV, why, whylen, "its registers cannot be read");
	d->registers = bar.offset;
	d->id = (uint16_t)ripc__get_le32(id);
	d->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (d->event < 0)
		return ripc__reason(-errno, why, whylen, "no eventfd: %s", ripc_strerror(-errno));
	memcpy(irq.set.data, &d->event, sizeof(int32_t));
	if (!enable_bus_master(d) && !ioctl(d->device, VFIO_DEVICE_SET_IRQS, &irq))
		return 0;
	ripc__reason(-errno, why, whylen, "VFIO does not give them: %s", ripc_strerror(-errno));
	close(d->event);
	d->event = -1;
	return -EIO;
}

/* ---- sending without VFIO ---- */

static void map_registers(struct ripc__pcie_doorbell *d, const char *dir)
{
	char path[2 * NAME_BYTES];
	struct stat st;
	void *p = MAP_FAILED;
	int fd;

	snprintf(path, sizeof(path), "%s" REGISTERS, dir);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return;
	if (!fstat(fd, &st) && st.st_size >= REGISTERS_LEN)
		p = mmap(NULL, REGISTERS_LEN, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (p == MAP_FAILED)
		return;
	madvise(p, REGISTERS_LEN, MADV_DONTFORK);
	d->mapped = p;
}

/* ---- open and close ---- */

static void close_one(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

int ripc__pcie_doorbell_open(struct ripc__pcie_doorbell *d, const char *memory, char *why,
			     size_t whylen)
{
	size_t len = strlen(memory);
	char dir[NAME_BYTES];
	int rc;

	if (len <= strlen(MEMORY) || len >= sizeof(dir) ||
	    strcmp(memory + len - strlen(MEMORY), MEMORY))
		return ripc__reason(-ENODEV, why, whylen, "a file has none");
	snprintf(dir, sizeof(dir), "%.*s", (int)(len - strlen(MEMORY)), memory);
	rc = open_device(d, dir, why, whylen);
	if (!rc)
		rc = setup_interrupt(d, why, whylen);
	if (!rc)
		return 0;
	ripc__pcie_doorbell_forked(d);
	map_registers(d, dir);
	return rc;
}

void ripc__pcie_doorbell_forked(struct ripc__pcie_doorbell *d)
{
	close_one(&d->event);
	close_one(&d->device);
	close_one(&d->group);
	close_one(&d->container);
}

void ripc__pcie_doorbell_close(struct ripc__pcie_doorbell *d)
{
	ripc__pcie_doorbell_forked(d);
	if (d->mapped)
		munmap((void *)(uintptr_t)d->mapped, REGISTERS_LEN);
	d->mapped = NULL;
}

uint64_t ripc__pcie_doorbell_word(const struct ripc__pcie_doorbell *d)
{
	return (d->device >= 0 || d->mapped ? RIPC__PCIE_DOORBELL_SEND : 0) |
	       (d->event >= 0 ? RIPC__PCIE_DOORBELL_RECV | (uint64_t)d->id << NUMBER_BITS : 0);
}

void ripc__pcie_doorbell_ring(const struct ripc__pcie_doorbell *d, uint64_t word)
{
	uint32_t number = (uint32_t)(word >> NUMBER_BITS & UINT16_MAX) << 16 | VECTOR;
	uint8_t bytes[4];

	if (!(word & RIPC__PCIE_DOORBELL_RECV))
		return;
	if (d->mapped) {
		d->mapped[DOORBELL_OFF / 4] = htole32(number);
	} else if (d->device >= 0) {
		ripc__put_le32(bytes, number);
		/* A context without interrupt polls later by itself. */
		(void)!pwrite(d->device, bytes, sizeof(bytes),
			      (off_t)(d->registers + DOORBELL_OFF));
	}
}

int ripc__pcie_doorbell_clear(const struct ripc__pcie_doorbell *d)
{
	eventfd_t count;

	return d->event >= 0 && !eventfd_read(d->event, &count);
}
