/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Interrupts between those who see the memory of one device: the registers and MSI-X vector of
 * QEMU's ivshmem-doorbell, by VFIO. One process of a host can have the device's interrupts; others
 * may still ring.
 */
#ifndef RIPC_PCIE_DOORBELL_H
#define RIPC_PCIE_DOORBELL_H

#include <stddef.h>
#include <stdint.h>

struct ripc__pcie_doorbell {
	int container, group; /* VFIO; -1: none */
	int device;           /* its file; -1: nobody can be rung over it */
	int event;          /* an eventfd that is written when somebody rings us; -1: nobody can */
	uint64_t registers; /* where in the device's file they begin */
	volatile uint32_t *mapped; /* without VFIO: the registers, only to ring; NULL: not mapped */
	uint16_t id;               /* with event: what others ring us by */
};

void ripc__pcie_doorbell_init(struct ripc__pcie_doorbell *d);

/*
 * Takes what can be had of the device whose memory that file of sysfs is. Return: 0: we can be
 * rung; or a negative errno with one sentence in why, and perhaps we can ring others all the same.
 */
int ripc__pcie_doorbell_open(struct ripc__pcie_doorbell *d, const char *memory, char *why,
			     size_t whylen);
void ripc__pcie_doorbell_close(struct ripc__pcie_doorbell *d);
/* In a forked child: closes descriptors. */
void ripc__pcie_doorbell_forked(struct ripc__pcie_doorbell *d);

/* What others are told of us: 0: we neither ring nor can be rung. */
uint64_t ripc__pcie_doorbell_word(const struct ripc__pcie_doorbell *d);
/* Rings somebody who has told that. Any word. */
void ripc__pcie_doorbell_ring(const struct ripc__pcie_doorbell *d, uint64_t word);
/* Forgets that we were rung. Return: whether we were. */
int ripc__pcie_doorbell_clear(const struct ripc__pcie_doorbell *d);

/* Bits of that word; the number to ring by above. */
#define RIPC__PCIE_DOORBELL_SEND UINT64_C(1) /* rings others */
#define RIPC__PCIE_DOORBELL_RECV UINT64_C(2) /* can be rung */

#endif
