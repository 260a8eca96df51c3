/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * pcie, inside: the window engine between contexts that see one memory through a PCIe device. One
 * end's file: pcie.c the vtable and progress, pcie_setup.c from a call in the memory to a
 * connection, pcie_endpoint.c what is posted.
 */
#ifndef RIPC_PCIE_H
#define RIPC_PCIE_H

#include "transport/ring/delivery.h"
#include "transport/pcie/device.h"
#include "transport/pcie/doorbell.h"
#include "transport/pcie/memory.h"

#define PCIE_SLAB_MEMORY (64u << 20) /* bytes of received messages held at most */
#define PCIE_READ_DEPTH  8u
#define PCIE_NO_BLOCK    UINT32_MAX /* no block */

enum pcie_state {
	PCIE_REQUESTED,  /* passive: reported, waits for the core's answer */
	PCIE_CONNECTING, /* active: the answer has not come */
	PCIE_OPEN,
	PCIE_CLOSED, /* reported; only to be freed */
};

struct ripc__ep {
	struct ripc__ep *next, *prev; /* in pcie.eps, a ring with the transport's head */
	struct pcie *t;
	void *user;
	enum pcie_state state;
	uint64_t peer;    /* its reference */
	uint32_t in, out; /* our block, and the peer's that we are the user of; or PCIE_NO_BLOCK */
	uint8_t epoch;    /* drawn by the active side */
	bool established; /* to be reported as such */
	bool can_wake_us; /* the peer can wake us */
	const char *lost_reason; /* why the peer is not there any more; NULL: it is */
	int failed;              /* CALLING, < 0: to be reported as closed with this status */
	const char *why;         /* with failed */
	struct ripc__ring ring;
	uint8_t private[RIPC__PRIVATE_MAX]; /* to be reported */
	uint32_t private_len;
};

struct pcie {
	struct ripc__transport_base base;
	struct ripc__pcie_device device;
	struct ripc__pcie_memory memory;
	struct ripc__pcie_doorbell doorbell;
	bool armed;          /* slept since it was last looked whether somebody rang */
	struct ripc__ep eps; /* head of the ring */
	/* all that are registered: they may outlive their connection */
	struct ripc__ring_region *regions;
	/* closed since the last progress(): events may still point into them; by next */
	struct ripc__ep *deferred_free;
	unsigned nconnecting;
	/* of each block: the call that was looked at last */
	struct ripc__pcie_setup_msg *last_msgs;
	uint64_t notify_count;      /* as it was when all calls had been looked at */
	uint64_t peer_timeout_ns;   /* after which a peer is dead */
	uint64_t last_heartbeat_ns; /* when we showed last that we live */
	uint64_t last_rx_ns;        /* when something came last */
	bool lost; /* the memory or our place in it: nothing may be written any more */
	bool lost_reported;
	char who[RIPC__PCIE_PATH_MAX + 32]; /* of a request that is reported */
	struct ripc__ring_delivery delivery;
};

/* pcie_setup.c */
/* Wakes a context, if it can be: after ripc__pcie_notify(). */
void ripc__pcie_wake(struct pcie *t, uint64_t ref);
/*
 * Looks at all calls in the memory. Return: number of requests, at most max; *all is set if there
 * may be more.
 */
unsigned ripc__pcie_poll_requests(struct pcie *t, struct ripc__event *events, unsigned max, bool *all);
/* Looks for the answer to a call. */
void ripc__pcie_poll_answer(struct ripc__ep *ep);
int ripc__pcie_connect(struct ripc__transport *tr, const uint8_t *addr, size_t addrlen,
		       const void *priv, size_t privlen, void *user, struct ripc__ep **out);
int ripc__pcie_accept(struct ripc__transport *tr, void *request, const void *priv, size_t privlen,
		      void *user, struct ripc__ep **out);
void ripc__pcie_reject(struct ripc__transport *tr, void *request, const void *priv, size_t privlen);
/* Takes an endpoint out of everything; it is freed by the next progress(). */
void ripc__pcie_defer_free(struct ripc__ep *ep);
int ripc__pcie_address(struct ripc__transport *tr, uint8_t *buf, size_t cap);
void ripc__pcie_describe(const uint8_t *addr, size_t len, char *text, size_t textlen);

/* pcie_endpoint.c */
extern const struct ripc__ring_backend_ops ripc__pcie_ops; /* arg: struct ripc__ep */
/* From now on nothing is written into the memory. */
void ripc__pcie_stop_writes(struct ripc__ep *ep);
int ripc__pcie_reg(struct ripc__transport *tr, struct ripc__ep *ep, void *base, size_t len,
		   unsigned access, struct ripc__mr *mr);
void ripc__pcie_dereg(struct ripc__transport *tr, struct ripc__mr *mr);
void ripc__pcie_ep_close(struct ripc__ep *ep);
int ripc__pcie_post(struct ripc__ep *ep, const void *head, size_t head_len,
		    const struct iovec *items, unsigned n, bool more);
int ripc__pcie_post_write(struct ripc__ep *ep, const struct ripc__mr *mr, const void *local,
			  size_t len, uint64_t raddr, uint32_t rkey, uint64_t wr_id);
int ripc__pcie_post_read(struct ripc__ep *ep, const struct ripc__mr *mr, void *local, size_t len,
			 uint64_t raddr, uint32_t rkey, uint64_t wr_id);

#endif
