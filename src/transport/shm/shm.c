/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The vtable of shm: open and close, sockets, sleeping. */
#define _GNU_SOURCE
#include "transport/shm/shm.h"
#include "base/clock.h"
#include "base/host.h"
#include "base/log.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#define TRANSPORT_ID      6      /* in resolver records, doc/protocol.md section 4 */
#define EPOLL_INTERVAL_NS 50000u /* between polls of the sockets when nobody sleeps */
#define EPOLL_EVENTS      32

/* ---- the back end of the rings ---- */

int ripc__shm_peer_read(const struct shm_ep *ep, void *to, uint64_t addr, size_t len)
{
	while (len) {
		struct iovec local = {to, len}, remote = {(void *)(uintptr_t)addr, len};
		ssize_t n = process_vm_readv(ep->pid, &local, 1, &remote, 1, 0);

		if (n <= 0)
			return n ? -errno : -EFAULT;
		to = (uint8_t *)to + n;
		addr += (size_t)n;
		len -= (size_t)n;
	}
	return 0;
}

static int shm_read(void *arg, void *to, uint64_t addr, size_t len)
{
	struct shm_ep *ep = arg;
	struct pollfd end = {.fd = ep->fd};
	int rc = ripc__shm_peer_read(ep, to, addr, len);

	if (rc)
		return rc;
	/*
	 * While its socket is open the peer lives, and the process id is of the same program.
	 * Kicks that were not read hide the end of file from recv(), not from poll().
	 */
	return poll(&end, 1, 0) > 0 && end.revents & POLLHUP ? -ECONNRESET : 0;
}

const struct ripc__ring_backend_ops ripc__shm_ops = {.kick = ripc__shm_doorbell_ring,
						     .read = shm_read};
const struct ripc__ring_backend_ops ripc__shm_unreadable_ops = {.kick = ripc__shm_doorbell_ring};

/* ---- open and close ---- */

static void shm_close(struct ripc__transport *tr)
{
	struct shm *t = (struct shm *)tr;

	ripc__ring_transport_fini(&t->r);
	ripc__shm_unlisten(t);
	if (t->r.fd >= 0)
		close(t->r.fd);
	free(t);
}

static int shm_start(struct shm *t, const struct ripc__transport_env *env)
{
	struct ripc__host host;

	t->r.fd = epoll_create1(EPOLL_CLOEXEC);
	if (t->r.fd < 0)
		return ripc__fail(-errno, "shm: cannot create an epoll descriptor: %s",
				  ripc_strerror(errno));
	ripc__host_get(&host);
	if (!host.known)
		ripc__log(RIPC_LOG_INFO,
			  "shm: no boot id in /proc: only its sockets identify peers of this host");
	memcpy(t->address.host, host.boot, sizeof(host.boot));
	t->address.netns = host.netns;
	if (getrandom(t->address.name, sizeof(t->address.name), 0) != sizeof(t->address.name))
		return ripc__fail(-EIO, "shm: no random numbers");
	return ripc__shm_listen(t, env->opt);
}

/* A direct read is one copy, a write through the ring is two: so no RIPC__CAP_WRITE. */
static int shm_open_(struct ripc__transport **tr, const struct ripc__transport_env *env)
{
	bool zero_copy = env->opt->mapped_mode != RIPC__MAPPED_OFF;
	struct shm *t =
		ripc__ring_transport_new(sizeof(*t), &ripc__transport_shm, &ripc__shm_setup,
					 RIPC__CAP_SAME_HOST | (zero_copy ? RIPC__CAP_EXPORT : 0));
	int rc;

	if (!t)
		return -ENOMEM;
	t->r.may_idle = true;
	t->zero_copy = zero_copy;
	t->r.fd = t->listeners[0] = t->listeners[1] = -1;
	rc = shm_start(t, env);
	if (rc) {
		shm_close(&t->r);
		return rc;
	}
	*tr = &t->r;
	return 0;
}

static int shm_address(struct ripc__transport *tr, uint8_t *buf, size_t cap)
{
	return (int)ripc__shm_address_encode(&((struct shm *)tr)->address, buf, cap);
}

static void shm_describe(const uint8_t *addr, size_t len, char *text, size_t textlen)
{
	struct ripc__shm_address a;
	char name[64], host[16] = "not known";

	if (ripc__shm_address_decode(&a, addr, len)) {
		snprintf(text, textlen, "malformed address of %zu bytes", len);
		return;
	}
	ripc__shm_address_name(&a, name);
	if (ripc__host_same(a.host, a.host))
		snprintf(host, sizeof(host), "%02x%02x%02x%02x", a.host[0], a.host[1], a.host[2],
			 a.host[3]);
	snprintf(text, textlen, "host %s, socket %.13s%s%s", host, name, a.path[0] ? ", " : "",
		 a.path);
}

/* ---- progress ---- */

static void watch_listeners(struct shm *t)
{
	for (unsigned i = 0; i < 2; i++) {
		struct epoll_event ev = {.events = EPOLLIN, .data.ptr = &t->listeners[i]};

		if (t->listeners[i] >= 0)
			epoll_ctl(t->r.fd, EPOLL_CTL_MOD, t->listeners[i], &ev);
	}
}

/* The socket of an endpoint is readable, or closed. Return: number of events, 0 or 1. */
static unsigned poll_socket(struct ripc__ep *ep, bool closed, struct ripc__event *ev)
{
	int got;

	/* The connection gave way to one that was accepted in this pass. */
	if (shm_ep(ep)->fd < 0)
		return 0;
	if (ep->state < RIPC__EP_OPEN)
		return ripc__shm_setup_step(ep, ev);
	/* ESTABLISHED is the first event. */
	if (ep->established)
		return 0;
	ripc__ring_disarm(&ep->ring);
	ripc__ring_ep_activate(ep);
	got = ripc__shm_import(ep, ev);
	if (got < 0 || (!got && closed)) {
		ripc__ring_ep_lost(ep, "the peer's process has ended");
		epoll_ctl(ep->t->fd, EPOLL_CTL_DEL, shm_ep(ep)->fd, NULL);
	}
	return got > 0;
}

/* The peer has rung: the endpoint has a message, or room. */
static void doorbell_rang(struct ripc__ep *ep)
{
	if (shm_ep(ep)->fd < 0 || ep->state != RIPC__EP_OPEN)
		return;
	ripc__ring_disarm(&ep->ring);
	ripc__ring_ep_activate(ep);
}

static unsigned __attribute__((noinline))
poll_sockets(struct shm *t, struct ripc__event *events, unsigned max, uint64_t now_ns)
{
	struct epoll_event ready[EPOLL_EVENTS];
	int want = max < EPOLL_EVENTS ? (int)max : EPOLL_EVENTS, count;
	unsigned n = 0;

	t->scanned_ns = now_ns;
	t->armed = t->scan_deferred = false;
	if (t->accept_resume_ns && now_ns >= t->accept_resume_ns) {
		t->accept_resume_ns = 0;
		watch_listeners(t);
	}
	count = epoll_wait(t->r.fd, ready, want, 0);
	for (int i = 0; i < count; i++) {
		int *listener = ready[i].data.ptr;
		struct epoll_event none = {.data.ptr = listener};

		if (ready[i].data.u64 & SHM_DOORBELL_TAG) {
			doorbell_rang((struct ripc__ep *)(uintptr_t)(ready[i].data.u64 &
								     ~(uint64_t)SHM_DOORBELL_TAG));
			continue;
		}
		if (listener != &t->listeners[0] && listener != &t->listeners[1]) {
			n += poll_socket(ready[i].data.ptr, ready[i].events & EPOLLHUP, events + n);
			continue;
		}
		ripc__shm_accept_all(t, *listener, now_ns);
		if (t->accept_resume_ns)
			epoll_ctl(t->r.fd, EPOLL_CTL_MOD, *listener, &none);
	}
	return n;
}

/* Closes connections whose request does not arrive. */
static void expire(struct shm *t, uint64_t now_ns)
{
	struct ripc__ep *ep, *next;

	ripc__list_for_each_entry_safe (ep, next, &t->r.eps, link)
		if (ep->state == RIPC__EP_INCOMING &&
		    now_ns - ep->setup->accepted_ns >= SHM_SETUP_NS)
			ripc__ring_ep_defer_free(ep);
}

/*
 * Whether the rings are polled before the sockets: a message that woke the context goes to the
 * application before its kick is read. The next pass reads the kick.
 */
static bool messages_first(const struct shm *t)
{
	return t->armed && !t->scan_deferred && !ripc__ring_setups(&t->r);
}

static unsigned shm_progress(struct ripc__transport *tr, struct ripc__event *events, unsigned max,
			     uint64_t now_ns, uint64_t *deadline_ns)
{
	struct shm *t = (struct shm *)tr;
	uint64_t next = RIPC__NEVER;
	bool more = false, scan = t->armed || now_ns - t->scanned_ns >= EPOLL_INTERVAL_NS ||
				  ripc__ring_setups(&t->r);
	unsigned n = 0;

	ripc__ring_transport_begin(&t->r);
	if (messages_first(t)) {
		n = ripc__ring_transport_poll(&t->r, events, max, &more);
		t->scan_deferred = n > 0;
		scan = !n;
	}
	if (scan) {
		n = poll_sockets(t, events, max, now_ns);
		if (t->r.neps[RIPC__EP_INCOMING]) {
			expire(t, now_ns);
			next = now_ns + SHM_SETUP_NS;
		}
	}
	if (!t->scan_deferred)
		n += ripc__ring_transport_poll(&t->r, events + n, max - n, &more);
	if (ripc__reports_pending(&t->reports))
		n += ripc__reports_take(&t->reports, events + n, max - n);
	if (more || n == max)
		next = now_ns;
	if (t->accept_resume_ns && t->accept_resume_ns < next)
		next = t->accept_resume_ns;
	if (next < *deadline_ns)
		*deadline_ns = next;
	return n;
}

/* ---- sleeping ---- */

static int shm_arm(struct ripc__transport *tr)
{
	struct shm *t = (struct shm *)tr;

	t->armed = true;
	return t->scan_deferred || ripc__ring_transport_arm(&t->r, true) ||
	       ripc__reports_pending(&t->reports);
}

static void close_forked(struct shm_ep *ep)
{
	if (ep->fd >= 0)
		close(ep->fd);
	ripc__shm_doorbell_close(ep, true);
}

static void shm_forked(struct ripc__transport *tr)
{
	struct shm *t = (struct shm *)tr;
	struct ripc__ep *ep;

	ripc__list_for_each_entry (ep, &t->r.eps, link)
		close_forked(shm_ep(ep));
	ripc__list_for_each_entry (ep, &t->r.idle, link)
		close_forked(shm_ep(ep));
	for (unsigned i = 0; i < 2; i++)
		if (t->listeners[i] >= 0)
			close(t->listeners[i]);
	close(t->r.fd);
}

const struct ripc__transport_ops ripc__transport_shm = {
	.name = "shm",
	.id = TRANSPORT_ID,
	RIPC__RING_TRANSPORT_OPS,
	.open = shm_open_,
	.close = shm_close,
	.address = shm_address,
	.describe = shm_describe,
	.progress = shm_progress,
	.poll_one = ripc__ring_poll_one,
	.export_fd = ripc__shm_export,
	.arm = shm_arm,
	.forked = shm_forked,
};
