/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The vtable of pcie: open and close, progress, sleeping. */
#include "transport/pcie/pcie.h"
#include "base/clock.h"
#include "base/log.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define NAME                "pcie"
#define TRANSPORT_ID_PCIE   7 /* in resolver records, doc/protocol.md section 4 */
#define PEER_TIMEOUT_FACTOR 4 /* times peer_timeout_ms without heartbeat until a peer is dead */

/*
 * Longest time between passes where a peer cannot kick: a part of the time since the last arrival,
 * within limits.
 */
#define SLEEP_MIN_NS      100000u
#define SLEEP_MAX_NS      (5 * RIPC__MS)
#define SLEEP_NO_PEERS_NS (10 * RIPC__MS) /* without connections */
#define SLEEP_SHIFT       6

/* ---- our entry, and the peers ---- */

/* Whether the peer is still there. */
static void check_peer(struct ripc__ep *ep)
{
	struct pcie *t = pcie_of(ep);
	uint64_t peer = pcie_ep(ep)->peer;

	if (pcie_lost(t))
		ripc__ring_ep_lost(ep, "our entry in the shared memory is lost");
	else if (!ripc__pcie_alive(&t->memory, peer, t->peer_timeout_ns))
		ripc__ring_ep_lost(ep, "the peer shows no sign of life any more");
	else if (ep->state == RIPC__EP_OPEN &&
		 !ripc__pcie_is_owner(&t->memory, pcie_ep(ep)->out, peer))
		ripc__ring_ep_lost(ep, "the peer closed the connection");
	pcie_ep(ep)->can_wake_us = ripc__pcie_doorbell(&t->memory, peer) & RIPC__PCIE_DOORBELL_SEND;
	if (ep->lost && ep->state == RIPC__EP_CONNECTING)
		ripc__ring_ep_fail(ep, -ECONNRESET, ep->ring.why);
	if (pcie_lost(t) && ep->state == RIPC__EP_OPEN)
		ripc__ring_fail(&ep->ring, -ECONNRESET, ep->ring.why);
}

static void check_peers(struct pcie *t)
{
	struct ripc__ep *ep;

	ripc__list_for_each_entry (ep, &t->r.eps, link)
		check_peer(ep);
}

static void lose_entry(struct pcie *t)
{
	t->lost = true;
	ripc__report_bad_input(&t->reports, "our entry in the shared memory",
			       "lost: we showed no sign of life, or the device is gone");
}

/* Shows that we live, and checks the peers. */
static void heartbeat(struct pcie *t, uint64_t now_ns)
{
	t->last_heartbeat_ns = now_ns;
	if (!t->lost && !ripc__pcie_heartbeat(&t->memory, now_ns))
		lose_entry(t);
	/* Endpoints of the old entry would write into memory that others use by now. */
	if (t->lost && ripc__list_empty(&t->r.eps) && ripc__pcie_entry_renew(&t->memory)) {
		ripc__pcie_set_doorbell(&t->memory, ripc__pcie_doorbell_word(&t->doorbell));
		t->notify_count = ripc__pcie_notify_count(&t->memory);
		t->lost = false;
		t->reports.address = true;
	}
	check_peers(t);
}

/* Call before others write into the memory: if our entry is lost, they will not. */
static void check_entry(struct pcie *t)
{
	if (t->lost || ripc__pcie_entry_held(&t->memory))
		return;
	lose_entry(t);
	check_peers(t);
}

/* ---- open and close ---- */

static void pcie_close(struct ripc__transport *tr)
{
	struct pcie *t = (struct pcie *)tr;

	if (t->memory.ref)
		check_entry(t);
	ripc__ring_transport_fini(&t->r);
	if (t->memory.ref)
		ripc__pcie_entry_release(&t->memory);
	ripc__pcie_doorbell_close(&t->doorbell);
	ripc__pcie_unmap(&t->device);
	free(t->last_msgs);
	free(t);
}

static int init(struct pcie *t, const struct ripc__transport_env *env)
{
	char why[RIPC__DETAIL_MAX / 2];
	const char *what;
	int rc;

	rc = ripc__pcie_map(&t->device, env->opt->pcie_device, why, sizeof(why));
	if (rc)
		return ripc__fail(rc, NAME ": %s", why);
	/* A device may serve something else: it is formatted only if the user names it. */
	rc = ripc__pcie_join(&t->memory, t->device.base, t->device.out, t->device.size,
			     env->opt->pcie_device[0], &what);
	if (rc == -ENODATA)
		return ripc__fail(rc, NAME ": %s: %s; to format it, name it in RIPC_PCIE_DEVICE",
				  t->device.name, what);
	if (rc)
		return ripc__fail(rc, NAME ": %s: %s", t->device.name, what);
	t->last_msgs = calloc(t->memory.nblocks, sizeof(*t->last_msgs));
	if (!t->last_msgs)
		return ripc__fail(-ENOMEM, NAME ": out of memory");
	ripc__pcie_set_kernel(&t->memory);
	rc = ripc__pcie_entry_claim(&t->memory);
	if (rc)
		return ripc__fail(rc, NAME ": %s: all %u entries are taken", t->device.name,
				  RIPC__PCIE_ENTRIES);
	if (ripc__pcie_doorbell_open(&t->doorbell, t->device.name, why, sizeof(why)))
		ripc__log(RIPC_LOG_INFO,
			  NAME ": %s: no interrupts: %s; waiting polls every 0.1 to 5 ms",
			  t->device.name, why);
	ripc__pcie_set_doorbell(&t->memory, ripc__pcie_doorbell_word(&t->doorbell));
	return 0;
}

static int pcie_open(struct ripc__transport **tr, const struct ripc__transport_env *env)
{
	struct pcie *t = ripc__ring_transport_new(sizeof(*t), &ripc__transport_pcie,
						  &ripc__pcie_setup, RIPC__CAP_WRITE);
	int rc;

	if (!t)
		return -ENOMEM;
	ripc__pcie_doorbell_init(&t->doorbell);
	/* The core's pings find slow peers; here only a dead one must be found. */
	t->peer_timeout_ns = PEER_TIMEOUT_FACTOR * env->opt->peer_timeout_ms * RIPC__MS;
	rc = init(t, env);
	if (rc) {
		pcie_close(&t->r);
		return rc;
	}
	t->r.fd = t->doorbell.event;
	/* Earlier notifications are not for us: no reference is used twice. */
	t->notify_count = ripc__pcie_notify_count(&t->memory);
	*tr = &t->r;
	return 0;
}

/* ---- progress ---- */

/* Handles requests of others, and answers to ours. Return: number of events, 0 or 1. */
static unsigned poll_setup(struct pcie *t, struct ripc__event *ev, bool *more)
{
	uint64_t notify_count;
	struct ripc__ep *ep;
	unsigned n;
	bool all;

	if (t->lost)
		return 0;
	notify_count = ripc__pcie_notify_count(&t->memory);
	if (t->r.neps[RIPC__EP_CONNECTING])
		ripc__list_for_each_entry (ep, &t->r.eps, link)
			if (ep->state == RIPC__EP_CONNECTING)
				ripc__pcie_poll_answer(ep);
	if (notify_count == t->notify_count)
		return 0;
	n = ripc__pcie_poll_request(t, ev, &all);
	if (all)
		t->notify_count = notify_count;
	else
		*more = true;
	return n;
}

/* Whether all peers can kick us. */
static bool all_can_kick(const struct pcie *t)
{
	const struct ripc__ep *ep;

	ripc__list_for_each_entry (ep, &t->r.eps, link)
		if (!pcie_ep(ep)->can_wake_us)
			return false;
	return t->doorbell.event >= 0;
}

/* An interrupt does not identify its sender: any peer may have answered its request for a kick. */
static void poll_doorbell(struct pcie *t)
{
	struct ripc__ep *ep;

	t->armed = false;
	if (!ripc__pcie_doorbell_clear(&t->doorbell))
		return;
	ripc__list_for_each_entry (ep, &t->r.eps, link)
		if (ep->state == RIPC__EP_OPEN)
			ripc__ring_disarm(&ep->ring);
}

static uint64_t sleep_ns(const struct pcie *t, uint64_t now_ns)
{
	uint64_t ns = now_ns > t->last_rx_ns ? (now_ns - t->last_rx_ns) >> SLEEP_SHIFT : 0;

	/* The next heartbeat finds requests of contexts that cannot kick. */
	if (all_can_kick(t))
		return RIPC__PCIE_HEARTBEAT_NS;
	if (ripc__list_empty(&t->r.eps))
		return SLEEP_NO_PEERS_NS;
	return ns < SLEEP_MIN_NS || t->r.neps[RIPC__EP_CONNECTING] ? SLEEP_MIN_NS
	       : ns > SLEEP_MAX_NS                                 ? SLEEP_MAX_NS
								   : ns;
}

static unsigned pcie_progress(struct ripc__transport *tr, struct ripc__event *events, unsigned max,
			      uint64_t now_ns, uint64_t *deadline_ns)
{
	struct pcie *t = (struct pcie *)tr;
	bool more = false;
	uint64_t next;
	unsigned n;

	ripc__ring_transport_begin(&t->r);
	check_entry(t);
	if (t->armed || pcie_lost(t))
		poll_doorbell(t);
	/* The time given may be a little older than the last. */
	if (now_ns >= t->last_heartbeat_ns + RIPC__PCIE_HEARTBEAT_NS)
		heartbeat(t, now_ns);
	n = poll_setup(t, events, &more);
	n += ripc__reports_take(&t->reports, events + n, max - n);
	n += ripc__ring_transport_poll(&t->r, events + n, max - n, &more);
	if (n || more)
		t->last_rx_ns = now_ns;
	more |= ripc__reports_pending(&t->reports);
	next = more || n == max ? now_ns : now_ns + sleep_ns(t, now_ns);
	*deadline_ns = MIN(*deadline_ns, next);
	return n;
}

/* ---- calls that write into the memory ---- */

static int pcie_post(struct ripc__ep *ep, const void *head, size_t head_len,
		     const struct iovec *iov, unsigned niov, bool more)
{
	check_entry(pcie_of(ep));
	return ripc__ring_post(ep, head, head_len, iov, niov, more);
}

static int pcie_transfer(struct ripc__ep *ep, const struct ripc__transfer *x)
{
	check_entry(pcie_of(ep));
	return ripc__ring_transfer(ep, x);
}

static void pcie_ep_close(struct ripc__ep *ep)
{
	check_entry(pcie_of(ep));
	ripc__ring_ep_close(ep);
}

/* ---- sleeping ---- */

/* Without a doorbell, the deadline of progress() bounds the sleep. */
static int pcie_arm(struct ripc__transport *tr)
{
	struct pcie *t = (struct pcie *)tr;
	bool kicks = t->doorbell.event >= 0 && !pcie_lost(t);

	check_entry(t);
	t->armed |= kicks;
	return ripc__ring_transport_arm(&t->r, kicks) || ripc__reports_pending(&t->reports) ||
	       (kicks && ripc__pcie_notify_count(&t->memory) != t->notify_count);
}

/* The memory is not mapped in a child. */
static void pcie_forked(struct ripc__transport *tr)
{
	ripc__pcie_doorbell_forked(&((struct pcie *)tr)->doorbell);
}

const struct ripc__transport_ops ripc__transport_pcie = {
	.limits = ripc__ring_limits,
	.connect = ripc__ring_connect,
	.accept = ripc__ring_accept,
	.reject = ripc__ring_reject,
	.reg = ripc__ring_mr_reg,
	.dereg = ripc__ring_mr_dereg,
	.ep_close = pcie_ep_close,
	.post = pcie_post,
	.transfer = pcie_transfer,
	.release = ripc__ring_release,
	.name = NAME,
	.id = TRANSPORT_ID_PCIE,
	.open = pcie_open,
	.close = pcie_close,
	.address = ripc__pcie_address,
	.describe = ripc__pcie_describe,
	.progress = pcie_progress,
	.arm = pcie_arm,
	.forked = pcie_forked,
};
