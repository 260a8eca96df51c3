/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Interrupts between the contexts that see the memory of one device: the registers and MSI-X vector
 * of QEMU's ivshmem-doorbell, by VFIO. One process of a host can receive the device's interrupts;
 * others may still send some.
 */
#ifndef RIPC_PCIE_DOORBELL_H
#define RIPC_PCIE_DOORBELL_H

#include <stddef.h>
#include <stdint.h>

struct ripc__pcie_doorbell {
	int container, group;      /* VFIO; -1: none */
	int device;                /* its file; -1: it cannot send */
	int event;                 /* an eventfd that an interrupt writes; -1: it cannot receive */
	uint64_t registers;        /* their offset in the device's file */
	volatile uint32_t *mapped; /* the registers without VFIO, only to send; NULL: not mapped */
	uint16_t id;               /* our number, with event */
};

void ripc__pcie_doorbell_init(struct ripc__pcie_doorbell *d);

/*
 * Opens as much as is available of the device whose memory is that file of sysfs. Return: 0: it can
 * receive; or a negative errno with one sentence in why: perhaps it can still send.
 */
int ripc__pcie_doorbell_open(struct ripc__pcie_doorbell *d, const char *memory, char *why,
			     size_t whylen);
void ripc__pcie_doorbell_close(struct ripc__pcie_doorbell *d);
/* In a forked child: closes descriptors. */
void ripc__pcie_doorbell_forked(struct ripc__pcie_doorbell *d);

/* The word that other contexts need; 0: it can neither send nor receive. */
uint64_t ripc__pcie_doorbell_word(const struct ripc__pcie_doorbell *d);
/* Sends an interrupt to the context with that word. Any word. */
void ripc__pcie_doorbell_ring(const struct ripc__pcie_doorbell *d, uint64_t word);
/* Clears a received interrupt. Return: whether there was one. */
int ripc__pcie_doorbell_clear(const struct ripc__pcie_doorbell *d);

/* Bits of that word; the number is above. */
#define RIPC__PCIE_DOORBELL_SEND UINT64_C(1) /* it can send */
#define RIPC__PCIE_DOORBELL_RECV UINT64_C(2) /* it can receive */

#endif
