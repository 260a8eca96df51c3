/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * pcie, inside: rings in one memory that several contexts see through a PCIe device. The rest is
 * shared: ring/endpoint.h.
 */
#ifndef RIPC_PCIE_H
#define RIPC_PCIE_H

#include "transport/pcie/device.h"
#include "transport/pcie/doorbell.h"
#include "transport/pcie/memory.h"
#include "transport/reports.h"
#include "transport/ring/endpoint.h"

#define PCIE_NO_BLOCK UINT32_MAX

struct pcie_ep {
	struct ripc__ep ep;
	uint64_t peer;    /* its reference */
	uint32_t in, out; /* our block, and the peer's that we use; or PCIE_NO_BLOCK */
	uint8_t epoch;    /* drawn by the active side */
	bool can_wake_us; /* the peer can write to our doorbell */
};

struct pcie {
	struct ripc__transport r;
	struct ripc__pcie_device device;
	struct ripc__pcie_memory memory;
	struct ripc__pcie_doorbell doorbell;
	bool armed; /* slept since the doorbell was last polled */
	/* of each block: the request that was handled last */
	struct ripc__pcie_setup_msg *last_msgs;
	uint64_t notify_count;      /* its value when all requests had been handled */
	uint64_t peer_timeout_ns;   /* silence after which a peer is dead */
	uint64_t last_heartbeat_ns; /* our own */
	uint64_t last_rx_ns;        /* when something arrived last */
	/* No device, or the entry has another owner: nothing may be written any more. */
	bool lost;
	struct ripc__reports reports;
};

/*
 * Whether nothing may be written any more. Read anew from the memory: others take the entry of a
 * process that is stopped, and its clock need not show that.
 */
static inline bool pcie_lost(const struct pcie *t)
{
	return t->lost || !ripc__pcie_entry_held(&t->memory);
}

static inline struct pcie_ep *pcie_ep(const struct ripc__ep *ep)
{
	return (struct pcie_ep *)(uintptr_t)ep;
}

static inline struct pcie *pcie_of(const struct ripc__ep *ep)
{
	return (struct pcie *)ep->t;
}

/* setup.c */
extern const struct ripc__ring_setup_ops ripc__pcie_setup;
/*
 * Handles the next request in the memory. *all is set when there is none left. Return: number of
 * events, 0 or 1.
 */
unsigned ripc__pcie_poll_request(struct pcie *t, struct ripc__event *ev, bool *all);
/* Handles the answer to a request, if there is one. */
void ripc__pcie_poll_answer(struct ripc__ep *ep);
int ripc__pcie_address(struct ripc__transport *tr, uint8_t *buf, size_t cap);
void ripc__pcie_describe(const uint8_t *addr, size_t len, char *text, size_t textlen);

#endif
