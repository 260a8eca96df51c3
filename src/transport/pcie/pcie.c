/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The vtable of pcie: open and close, progress, sleeping. */
#include "transport/pcie/pcie.h"
#include "base/clock.h"
#include "base/log.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define NAME                "pcie"
#define TRANSPORT_ID_PCIE   7   /* in resolver records, doc/protocol.md section 4 */
#define PEER_TIMEOUT_FACTOR 4   /* times peer_timeout_ms without a beat until a peer is dead */
#define EVENTS_PER_EP       16u /* of one endpoint in one round */

/*
 * Where not everybody can wake us: how long we sleep between two looks. Longer when nothing has
 * come for long.
 */
#define SLEEP_MIN_NS      100000u
#define SLEEP_MAX_NS      (5 * RIPC__MS)
#define SLEEP_NO_PEERS_NS (10 * RIPC__MS) /* without connections */
#define SLEEP_SHIFT       6               /* a nap takes this part of the time that nothing came */

static int pcie_probe(const struct ripc__transport_env *env, char *why, size_t whylen)
{
	char memory[RIPC__PCIE_PATH_MAX];

	return ripc__pcie_find(env->opt->pcie_device, memory, why, whylen);
}

static void free_deferred(struct pcie *t)
{
	while (t->deferred_free) {
		struct ripc__ep *ep = t->deferred_free;

		t->deferred_free = ep->next;
		free(ep);
	}
}

static void pcie_close(struct ripc__transport *tr)
{
	struct pcie *t = (struct pcie *)tr;

	while (t->eps.next != &t->eps)
		ripc__pcie_ep_close(t->eps.next);
	free_deferred(t);
	while (t->regions) {
		struct ripc__ring_region *region = t->regions;

		t->regions = region->next;
		ripc__ring_region_remove(region);
	}
	if (t->memory.ref)
		ripc__pcie_entry_release(&t->memory);
	ripc__pcie_doorbell_close(&t->doorbell);
	ripc__pcie_unmap(&t->device);
	ripc__ring_delivery_fini(&t->delivery);
	free(t->last_msgs);
	free(t);
}

static int init(struct pcie *t, const struct ripc__transport_env *env)
{
	char memory[RIPC__PCIE_PATH_MAX], why[RIPC__DETAIL_MAX / 2];
	const char *what;
	int rc;

	if (ripc__ring_delivery_init(&t->delivery, PCIE_SLAB_MEMORY))
		return ripc__fail(-ENOMEM, NAME ": out of memory");
	rc = ripc__pcie_find(env->opt->pcie_device, memory, why, sizeof(why));
	if (!rc)
		rc = ripc__pcie_map(&t->device, memory, why, sizeof(why));
	if (rc)
		return ripc__fail(rc, NAME ": %s", why);
	/*
	 * The memory of a device may be for something else: nothing is written into it unless it is
	 * named, or ours already.
	 */
	rc = ripc__pcie_join(&t->memory, t->device.base, t->device.out, t->device.size,
			     env->opt->pcie_device[0], &what);
	if (rc)
		return ripc__fail(
			rc, NAME ": %s: %s%s", t->device.name, what,
			rc == -ENODATA ? "; name the device with RIPC_PCIE_DEVICE to do so" : "");
	t->last_msgs = calloc(t->memory.nblocks, sizeof(*t->last_msgs));
	if (!t->last_msgs)
		return ripc__fail(-ENOMEM, NAME ": out of memory");
	ripc__pcie_set_kernel(&t->memory);
	rc = ripc__pcie_entry_claim(&t->memory);
	if (rc)
		return ripc__fail(rc, NAME ": %s: all %u places are taken", t->device.name,
				  RIPC__PCIE_ENTRIES);
	if (ripc__pcie_doorbell_open(&t->doorbell, memory, why, sizeof(why)))
		ripc__log(RIPC_LOG_INFO,
			  NAME ": %s: no interrupts, %s: who waits looks again every 0.1 to 5 ms",
			  t->device.name, why);
	ripc__pcie_set_doorbell(&t->memory, ripc__pcie_doorbell_word(&t->doorbell));
	return 0;
}

static int pcie_open(struct ripc__transport **tr, const struct ripc__transport_env *env)
{
	struct pcie *t = calloc(1, sizeof(*t));
	int rc;

	if (!t)
		return ripc__fail(-ENOMEM, NAME ": out of memory");
	t->base.ops = &ripc__transport_pcie;
	t->eps.next = t->eps.prev = &t->eps;
	ripc__pcie_doorbell_init(&t->doorbell);
	/* The core misses who does not answer, and asks again: here only who is gone must be known. */
	t->peer_timeout_ns = PEER_TIMEOUT_FACTOR * env->opt->peer_timeout_ms * RIPC__MS;
	rc = init(t, env);
	if (rc) {
		pcie_close((struct ripc__transport *)t);
		return rc;
	}
	/* What was called before is not for us: no place is ever the same again. */
	t->notify_count = ripc__pcie_notify_count(&t->memory);
	*tr = (struct ripc__transport *)t;
	return 0;
}

static void pcie_limits(struct ripc__transport *tr, struct ripc__transport_limits *limits)
{
	*limits = (struct ripc__transport_limits){
		.caps = RIPC__CAP_CONNECTED | RIPC__CAP_READ | RIPC__CAP_WRITE |
			RIPC__CAP_CHEAP_REG | RIPC__CAP_TARGET_PROGRESS,
		.send_max = RIPC__RING_SEND_MAX,
		.recv_depth = 0,
		.read_depth = PCIE_READ_DEPTH,
		.rdma_max = 1u << 30,
	};
}

/* ---- progress ---- */

static void report_closed(struct ripc__ep *ep, struct ripc__event *ev, int status, const char *why)
{
	*ev = (struct ripc__event){
		.kind = RIPC__EV_CLOSED, .status = status, .user = ep->user, .ep = ep, .text = why};
	if (ep->state == PCIE_CONNECTING) {
		ep->t->nconnecting--;
		if (status == -ECONNREFUSED) {
			ev->reject = true;
			ev->data = ep->private;
			ev->len = ep->private_len;
		}
	}
	ep->state = PCIE_CLOSED;
}

static unsigned poll_ep(struct ripc__ep *ep, struct ripc__event *events, unsigned max, bool *more)
{
	unsigned n = 0;

	if (ep->established) {
		ep->established = false;
		events[n++] = (struct ripc__event){
			.kind = RIPC__EV_ESTABLISHED,
			.user = ep->user,
			.ep = ep,
			.data = ep->private,
			.len = ep->private_len,
		};
	}
	if (!ep->t->lost)
		n += ripc__ring_delivery_poll(&ep->t->delivery, &ep->ring, ep, ep->user, events + n,
					      max - n, more);
	if (n == max) {
		*more = true;
		return n;
	}
	if (ep->ring.status)
		report_closed(ep, &events[n++], ep->ring.status, ep->ring.why);
	else if (ep->lost_reason &&
		 (ep->t->lost || !ripc__ring_ready(&ep->ring) || !ep->ring.hello_seen))
		report_closed(ep, &events[n++], -ECONNRESET, ep->lost_reason);
	return n;
}

/* Anything that makes it worth to serve an endpoint. */
static inline bool has_work(const struct ripc__ep *ep)
{
	return ripc__ring_ready(&ep->ring) || ripc__ring_has_work(&ep->ring) || ep->established ||
	       ep->lost_reason || ep->ring.status;
}

/* Whether the other side is still there. */
static void check_peer(struct ripc__ep *ep)
{
	struct pcie *t = ep->t;

	if (t->lost)
		ep->lost_reason = "our place in the shared memory is lost";
	else if (!ripc__pcie_alive(&t->memory, ep->peer, t->peer_timeout_ns))
		ep->lost_reason = "the peer shows no sign of life any more";
	else if (ep->state == PCIE_OPEN && !ripc__pcie_is_owner(&t->memory, ep->out, ep->peer))
		ep->lost_reason = "the peer closed the connection";
	ep->can_wake_us = ripc__pcie_doorbell(&t->memory, ep->peer) & RIPC__PCIE_DOORBELL_SEND;
	if (ep->lost_reason && ep->state == PCIE_CONNECTING && !ep->failed) {
		ep->failed = -ECONNRESET;
		ep->why = ep->lost_reason;
	}
}

/* Shows that we live, and looks who else does. */
static void heartbeat(struct pcie *t, uint64_t now_ns)
{
	t->last_heartbeat_ns = now_ns;
	if (!t->lost && !ripc__pcie_heartbeat(&t->memory, now_ns)) {
		t->lost = true;
		for (struct ripc__ep *ep = t->eps.next; ep != &t->eps; ep = ep->next)
			if (ep->state == PCIE_OPEN)
				ripc__pcie_stop_writes(ep);
	}
	for (struct ripc__ep *ep = t->eps.next; ep != &t->eps; ep = ep->next)
		check_peer(ep);
}

/* Calls for us, and answers to ours. */
static unsigned poll_eps(struct pcie *t, struct ripc__event *events, bool *more)
{
	uint64_t notify_count = ripc__pcie_notify_count(&t->memory);
	unsigned n = 0;
	bool all = true;

	for (struct ripc__ep *ep = t->eps.next; t->nconnecting && ep != &t->eps; ep = ep->next)
		if (ep->state == PCIE_CONNECTING)
			ripc__pcie_poll_answer(ep);
	if (notify_count == t->notify_count)
		return 0;
	/* One at a time: the text of an event stands until the next round. */
	n = ripc__pcie_poll_requests(t, events, 1, &all);
	if (all)
		t->notify_count = notify_count;
	else
		*more = true;
	return n;
}

/* Those from here on had no turn: they are the first the next time. */
static void rotate(struct pcie *t, struct ripc__ep *ep)
{
	struct ripc__ep *head = &t->eps;

	if (ep == head)
		return;
	head->prev->next = head->next;
	head->next->prev = head->prev;
	head->prev = ep->prev;
	head->next = ep;
	ep->prev->next = head;
	ep->prev = head;
}

/* Whether all who may have something for us can wake us. */
static bool was_notified(const struct pcie *t)
{
	for (const struct ripc__ep *ep = t->eps.next; ep != &t->eps; ep = ep->next)
		if (!ep->can_wake_us)
			return false;
	return t->doorbell.event >= 0;
}

/* An interrupt does not say whose it is: all may have answered what they were asked. */
static void heard(struct pcie *t)
{
	t->armed = false;
	if (!ripc__pcie_doorbell_clear(&t->doorbell))
		return;
	for (struct ripc__ep *ep = t->eps.next; ep != &t->eps; ep = ep->next)
		if (ep->state == PCIE_OPEN)
			ripc__ring_disarm(&ep->ring);
}

static uint64_t sleep_ns(const struct pcie *t, uint64_t now_ns)
{
	uint64_t ns = now_ns > t->last_rx_ns ? (now_ns - t->last_rx_ns) >> SLEEP_SHIFT : 0;

	/* Strangers who cannot wake us are heard with the next beat. */
	if (was_notified(t))
		return RIPC__PCIE_HEARTBEAT_NS;
	if (t->eps.next == &t->eps)
		return SLEEP_NO_PEERS_NS;
	return ns < SLEEP_MIN_NS || t->nconnecting ? SLEEP_MIN_NS
	       : ns > SLEEP_MAX_NS                 ? SLEEP_MAX_NS
						   : ns;
}

static unsigned pcie_progress(struct ripc__transport *tr, struct ripc__event *events, unsigned max,
			      uint64_t now_ns, uint64_t *deadline_ns)
{
	struct pcie *t = (struct pcie *)tr;
	struct ripc__ep *ep;
	bool more = false;
	unsigned n = 0;
	uint64_t next;

	if (t->deferred_free)
		free_deferred(t);
	ripc__ring_delivery_begin(&t->delivery);
	if (t->armed || t->lost)
		heard(t);
	/* The time given may be a little older than the last. */
	if (now_ns >= t->last_heartbeat_ns + RIPC__PCIE_HEARTBEAT_NS)
		heartbeat(t, now_ns);
	if (!t->lost)
		n = poll_eps(t, events, &more);
	else if (!t->lost_reported) {
		t->lost_reported = true;
		events[n++] = (struct ripc__event){.kind = RIPC__EV_BAD_INPUT,
						   .text = "our place in the shared memory was "
							   "lost: we showed no sign of life, "
							   "or the device is gone"};
	}
	for (ep = t->eps.next; ep != &t->eps && n < max; ep = ep->next) {
		if (ep->state == PCIE_OPEN && has_work(ep))
			n += poll_ep(ep, events + n,
				     max - n < EVENTS_PER_EP ? max - n : EVENTS_PER_EP, &more);
		else if (ep->state == PCIE_CONNECTING && ep->failed)
			report_closed(ep, &events[n++], ep->failed, ep->why);
	}
	rotate(t, ep);
	if (n || more)
		t->last_rx_ns = now_ns;
	next = more || n == max ? now_ns : now_ns + sleep_ns(t, now_ns);
	if (next < *deadline_ns)
		*deadline_ns = next;
	return n;
}

/* ---- the rest ---- */

static void pcie_flush(struct ripc__transport *tr)
{
}

static void pcie_release(struct ripc__transport *tr, void *token)
{
	ripc__slab_put(token);
}

static int pcie_post_datagram(struct ripc__transport *tr, const uint8_t *addr, size_t addrlen,
			      const struct iovec *iov, unsigned niov)
{
	return -EOPNOTSUPP;
}

/* Without interrupts the time that progress() asked for bounds the sleep. */
static int pcie_arm(struct ripc__transport *tr)
{
	struct pcie *t = (struct pcie *)tr;

	if (t->doorbell.event >= 0 && !t->lost) {
		for (struct ripc__ep *ep = t->eps.next; ep != &t->eps; ep = ep->next)
			if (ep->state == PCIE_OPEN)
				ripc__ring_arm(&ep->ring);
		/* Said before looked: see ripc__ring_kick_if_armed(). */
		__atomic_thread_fence(__ATOMIC_SEQ_CST);
		t->armed = true;
		if (ripc__pcie_notify_count(&t->memory) != t->notify_count)
			return 1;
	}
	for (const struct ripc__ep *ep = t->eps.next; ep != &t->eps; ep = ep->next)
		if (ep->state == PCIE_OPEN ? ep->established || !ripc__ring_idle(&ep->ring)
					   : ep->state == PCIE_CONNECTING && ep->failed)
			return 1;
	return 0;
}

static int pcie_fd(struct ripc__transport *tr)
{
	return ((struct pcie *)tr)->doorbell.event;
}

/* The memory is not mapped in a child. */
static void pcie_forked(struct ripc__transport *tr)
{
	ripc__pcie_doorbell_forked(&((struct pcie *)tr)->doorbell);
}

const struct ripc__transport_ops ripc__transport_pcie = {
	.name = NAME,
	.id = TRANSPORT_ID_PCIE,
	.probe = pcie_probe,
	.open = pcie_open,
	.close = pcie_close,
	.limits = pcie_limits,
	.address = ripc__pcie_address,
	.describe = ripc__pcie_describe,
	.reg = ripc__pcie_reg,
	.dereg = ripc__pcie_dereg,
	.connect = ripc__pcie_connect,
	.accept = ripc__pcie_accept,
	.reject = ripc__pcie_reject,
	.ep_close = ripc__pcie_ep_close,
	.post = ripc__pcie_post,
	.post_write = ripc__pcie_post_write,
	.post_read = ripc__pcie_post_read,
	.post_datagram = pcie_post_datagram,
	.flush = pcie_flush,
	.progress = pcie_progress,
	.release = pcie_release,
	.arm = pcie_arm,
	.fd = pcie_fd,
	.forked = pcie_forked,
};
