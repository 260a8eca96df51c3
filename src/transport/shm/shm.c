/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The vtable of shm and ring/sim: open and close, progress, sleeping. */
#define _GNU_SOURCE
#include "transport/ring/fast_path.h"
#include "transport/shm/shm.h"
#include "base/clock.h"
#include "base/host.h"
#include "base/log.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#define TRANSPORT_ID_SHM  6 /* in resolver records, doc/protocol.md section 4 */
#define TRANSPORT_ID_SIM  254
#define EPOLL_INTERVAL_NS 50000u   /* how often a spinning driver looks at the sockets */
#define LOST_KICK_NS      RIPC__MS /* the longest sleep where a kick may be lost */
#define EVENTS_PER_EP     16u      /* of one endpoint in one round */
#define IDLE_POLLS_MIN    8u    /* rounds without anything, after which an endpoint may turn cold */
#define IDLE_POLLS_MAX    1024u /* and after which one does where nobody sleeps */
#define EPOLL_EVENTS      32
#define POLL_ONE_PEERS \
	8u /* endpoints that a look at the one that spoke last, in vain, goes on to */

static int shm_probe(const struct ripc__transport_env *env, char *why, size_t whylen)
{
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), err = fd < 0 ? -errno : 0;

	if (fd >= 0)
		close(fd);
	else
		snprintf(why, whylen, "no Unix sockets: %s", ripc_strerror(err));
	return err;
}

static void free_deferred(struct shm *t)
{
	while (t->deferred_free) {
		struct ripc__ep *ep = t->deferred_free;

		t->deferred_free = ep->next;
		free(ep);
	}
}

static void shm_close(struct ripc__transport *tr)
{
	struct shm *t = (struct shm *)tr;

	while (t->eps.next != &t->eps)
		ripc__shm_ep_close(t->eps.next);
	while (t->idle.next != &t->idle)
		ripc__shm_ep_close(t->idle.next);
	free_deferred(t);
	while (t->regions) {
		struct ripc__ring_region *region = t->regions;

		t->regions = region->next;
		ripc__ring_region_remove(region);
	}
	ripc__shm_unlisten(t);
	if (t->epoll_fd >= 0)
		close(t->epoll_fd);
	ripc__ring_delivery_fini(&t->delivery);
	free(t);
}

static int shm_start(struct shm *t, const struct ripc__transport_env *env)
{
	const char *name = t->base.ops->name;
	struct ripc__host host;

	if (ripc__ring_delivery_init(&t->delivery, SHM_SLAB_MEMORY))
		return ripc__fail(-ENOMEM, "%s: out of memory", name);
	t->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (t->epoll_fd < 0)
		return ripc__fail(-errno, "%s: cannot create an epoll descriptor: %s", name,
				  ripc_strerror(errno));
	ripc__host_get(&host);
	if (!host.known)
		ripc__log(RIPC_LOG_INFO,
			  "%s: no boot id in /proc: peers of this host are told by their sockets",
			  name);
	memcpy(t->address.host, host.boot, sizeof(host.boot));
	t->address.netns = host.netns;
	if (getrandom(t->address.name, sizeof(t->address.name), 0) != sizeof(t->address.name))
		return ripc__fail(-EIO, "%s: no random numbers", name);
	return ripc__shm_listen(t, env->opt);
}

static int open_kind(struct ripc__transport **tr, const struct ripc__transport_env *env,
		     const struct ripc__transport_ops *ops)
{
	struct shm *t = calloc(1, sizeof(*t));
	const char *seed = getenv("RIPC_TEST_LINK_SEED");
	int rc;

	if (!t)
		return ripc__fail(-ENOMEM, "%s: out of memory", ops->name);
	t->base.ops = ops;
	t->simulated = ops == &ripc__transport_ring_sim;
	t->zero_copy = !t->simulated && env->opt->mapped_mode == RIPC__MAPPED_ON;
	t->eps.next = t->eps.prev = &t->eps;
	t->idle.next = t->idle.prev = &t->idle;
	t->idle_next = &t->idle;
	t->epoll_fd = t->listeners[0] = t->listeners[1] = -1;
	if (t->simulated)
		t->seed = seed ? strtoull(seed, NULL, 0) : 1;
	rc = shm_start(t, env);
	if (rc) {
		shm_close((struct ripc__transport *)t);
		return rc;
	}
	*tr = (struct ripc__transport *)t;
	return 0;
}

static int shm_open_(struct ripc__transport **tr, const struct ripc__transport_env *env)
{
	return open_kind(tr, env, &ripc__transport_shm);
}

static int sim_open(struct ripc__transport **tr, const struct ripc__transport_env *env)
{
	return open_kind(tr, env, &ripc__transport_ring_sim);
}

static void shm_limits(struct ripc__transport *tr, struct ripc__transport_limits *limits)
{
	const struct shm *t = (struct shm *)tr;

	/* Where it can be had, one copy by the reader beats two by way of the ring: no writes. */
	*limits = (struct ripc__transport_limits){
		.caps = RIPC__CAP_CONNECTED | RIPC__CAP_READ | RIPC__CAP_CHEAP_REG |
			RIPC__CAP_TARGET_PROGRESS | RIPC__CAP_SAME_HOST |
			(t->simulated ? RIPC__CAP_WRITE : 0) | (t->zero_copy ? RIPC__CAP_EXPORT : 0),
		.send_max = RIPC__RING_SEND_MAX,
		.recv_depth = 0,
		.read_depth = SHM_READ_DEPTH,
		.rdma_max = 1u << 30,
	};
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
		snprintf(text, textlen, "address that makes no sense");
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

/* What a look at the sockets brings. */
static unsigned __attribute__((noinline))
poll_sockets(struct shm *t, struct ripc__event *events, unsigned max, uint64_t now_ns)
{
	struct epoll_event ready[EPOLL_EVENTS];
	int want = max < EPOLL_EVENTS ? (int)max : EPOLL_EVENTS, count;
	unsigned n = 0;

	t->scanned_ns = now_ns;
	t->armed = false;
	if (t->accept_resume_ns && now_ns >= t->accept_resume_ns) {
		t->accept_resume_ns = 0;
		for (unsigned i = 0; i < 2; i++) {
			struct epoll_event ev = {.events = EPOLLIN, .data.ptr = &t->listeners[i]};

			if (t->listeners[i] >= 0)
				epoll_ctl(t->epoll_fd, EPOLL_CTL_MOD, t->listeners[i], &ev);
		}
	}
	count = epoll_wait(t->epoll_fd, ready, want, 0);
	for (int i = 0; i < count; i++) {
		struct ripc__ep *ep = ready[i].data.ptr;
		int got;

		if (ready[i].data.ptr == &t->listeners[0] || ready[i].data.ptr == &t->listeners[1]) {
			struct epoll_event ev = {.data.ptr = ready[i].data.ptr};
			int fd = *(int *)ready[i].data.ptr;

			ripc__shm_accept_all(t, fd, now_ns);
			if (t->accept_resume_ns)
				epoll_ctl(t->epoll_fd, EPOLL_CTL_MOD, fd, &ev);
			continue;
		}
		/* It gave way to one that was accepted in this round. */
		if (ep->fd < 0)
			continue;
		if (ep->state < SHM_OPEN) {
			n += ripc__shm_setup_step(ep, events + n);
			continue;
		}
		/* Nothing else before it is told that the connection is up. */
		if (ep->established)
			continue;
		ripc__ring_disarm(&ep->ring);
		ripc__shm_activate(ep);
		got = ripc__shm_import(ep, events + n);
		n += got > 0;
		if (got < 0 || (!got && ready[i].events & EPOLLHUP)) {
			ep->hung_up = true;
			epoll_ctl(t->epoll_fd, EPOLL_CTL_DEL, ep->fd, NULL);
		}
	}
	return n;
}

static void __attribute__((noinline))
report_closed(struct ripc__ep *ep, struct ripc__event *ev, int status, const char *why)
{
	*ev = (struct ripc__event){
		.kind = RIPC__EV_CLOSED, .status = status, .user = ep->user, .ep = ep, .text = why};
	if (ep->state < SHM_OPEN) {
		ep->t->nsetups--;
		ep->t->nincoming -= ep->state == SHM_INCOMING;
	}
	ep->state = SHM_CLOSED;
	if (ep->t->last_rx == ep)
		ep->t->last_rx = NULL;
}

static unsigned poll_ep(struct ripc__ep *ep, struct ripc__event *events, unsigned max, bool *more)
{
	unsigned n = 0;

	ep->empty_polls = 0;
	/* The simulated link moves in every round. */
	ep->t->last_rx = ep->t->simulated ? NULL : ep;
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
	n += ripc__ring_delivery_poll(&ep->t->delivery, &ep->ring, ep, ep->user, events + n,
				      max - n, more);
	if (n == max) {
		*more = true;
		return n;
	}
	if (ep->ring.status)
		report_closed(ep, &events[n++], ep->ring.status, ep->ring.why);
	else if (ep->hung_up && (!ripc__ring_ready(&ep->ring) || !ep->ring.hello_seen))
		report_closed(ep, &events[n++], -ECONNRESET, "the peer's process has ended");
	return n;
}

/* Anything that makes it worth to serve an endpoint. */
static inline bool has_work(const struct ripc__ep *ep)
{
	return ripc__ring_ready(&ep->ring) || ripc__ring_has_work(&ep->ring) || ep->established ||
	       ep->hung_up || ep->ring.status;
}

/* A look at one of those that are not looked at: a peer that finds itself heard need not ring. */
static inline void poll_idle_one(struct shm *t)
{
	struct ripc__ep *ep = t->idle_next == &t->idle ? t->idle.next : t->idle_next;

	if (ep == &t->idle)
		return;
	if (ripc__ring_ready(&ep->ring)) {
		ripc__shm_activate(ep);
		return;
	}
	/* The ring itself stays as it is: a forked child reads it. */
	t->idle_next = ep->next;
}

/* Requests that never say what they want. */
static void expire(struct shm *t, uint64_t now_ns)
{
	for (struct ripc__ep *ep = t->eps.next, *next; ep != &t->eps; ep = next) {
		next = ep->next;
		if (ep->state == SHM_INCOMING && now_ns - ep->accepted_ns >= SHM_SETUP_NS)
			ripc__shm_defer_free(ep);
	}
}

/* Some of what is under way arrives at the peer. Return: when to call again. */
static uint64_t step_link(struct ripc__ep *ep, uint64_t now_ns, uint64_t next)
{
	if (ripc__sim_ntb_step_random(&ep->link))
		return now_ns;
	return now_ns + LOST_KICK_NS < next ? now_ns + LOST_KICK_NS : next;
}

/* Those from here on had no turn: they are the first the next time. */
static void __attribute__((noinline)) rotate(struct shm *t, struct ripc__ep *ep)
{
	struct ripc__ep *head = &t->eps;

	head->prev->next = head->next;
	head->next->prev = head->prev;
	head->prev = ep->prev;
	head->next = ep;
	ep->prev->next = head;
	ep->prev = head;
}

/* It is armed and idle. */
static void make_idle(struct ripc__ep *ep)
{
	ep->idle = true;
	if (ep->t->last_rx == ep)
		ep->t->last_rx = NULL;
	ripc__shm_list_del(ep);
	ripc__shm_list_add(&ep->t->idle, ep);
}

/* Nobody sleeps, and it has been silent for long. */
static void __attribute__((noinline)) try_make_idle(struct ripc__ep *ep)
{
	ep->empty_polls = 0;
	if (ep->t->simulated || ripc__ring_has_work(&ep->ring))
		return;
	ripc__ring_arm(&ep->ring);
	/* Said before looked: see ripc__ring_kick_if_armed(). */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (ripc__ring_idle(&ep->ring))
		make_idle(ep);
}

static unsigned shm_progress(struct ripc__transport *tr, struct ripc__event *events, unsigned max,
			     uint64_t now_ns, uint64_t *deadline_ns)
{
	struct shm *t = (struct shm *)tr;
	uint64_t next = RIPC__NEVER;
	struct ripc__ep *ep, *after;
	bool more = false;
	unsigned n = 0;

	if (t->deferred_free)
		free_deferred(t);
	ripc__ring_delivery_begin(&t->delivery);
	if (t->armed || t->nsetups || now_ns - t->scanned_ns >= EPOLL_INTERVAL_NS) {
		n = poll_sockets(t, events, max, now_ns);
		if (t->nincoming) {
			expire(t, now_ns);
			next = now_ns + SHM_SETUP_NS;
		}
		if (t->bad_input[0] && n < max) {
			memcpy(t->bad_input_reported, t->bad_input, sizeof(t->bad_input));
			t->bad_input[0] = 0;
			events[n++] = (struct ripc__event){.kind = RIPC__EV_BAD_INPUT,
							   .text = t->bad_input_reported};
		}
	}
	poll_idle_one(t);
	for (ep = t->eps.next; ep != &t->eps && n < max; ep = after) {
		after = ep->next;
		if (ep->state == SHM_OPEN) {
			if (t->simulated)
				next = step_link(ep, now_ns, next);
			if (has_work(ep))
				n += poll_ep(ep, events + n,
					     max - n < EVENTS_PER_EP ? max - n : EVENTS_PER_EP,
					     &more);
			else if (++ep->empty_polls >= IDLE_POLLS_MAX)
				try_make_idle(ep);
		} else if (ep->failed && ep->state == SHM_CONNECTING) {
			report_closed(ep, &events[n++], ep->failed, ep->why);
		}
	}
	if (ep != &t->eps)
		rotate(t, ep);
	if (t->low && n < max) {
		events[n++] = (struct ripc__event){.kind = RIPC__EV_FD_LOW, .status = t->low_status};
		t->low = false;
		t->low_status = 0;
	}
	if (more || n == max || t->low)
		next = now_ns;
	if (t->accept_resume_ns && t->accept_resume_ns < next)
		next = t->accept_resume_ns;
	if (next < *deadline_ns)
		*deadline_ns = next;
	return n;
}

static inline void fill_recv_event(struct ripc__ep *ep, uint8_t *room, struct ripc__event *ev)
{
	ep->empty_polls = 0;
	ev->kind = RIPC__EV_RECV;
	ev->user = ep->user;
	ev->ep = ep;
	ev->data = room;
	ev->token = NULL;
}

/* What t->last has brought is more than two slots, or else. */
static bool __attribute__((noinline))
poll_one_slow(struct shm *t, uint8_t *room, size_t cap, struct ripc__event *ev)
{
	struct ripc__ep *ep = t->last_rx;
	uint8_t *buf;
	bool more;

	if (ripc__ring_recv_slots(&ep->ring, room, cap, &ev->len)) {
		fill_recv_event(ep, room, ev);
		return true;
	}
	if (!ripc__ring_ready(&ep->ring) || ripc__ring_has_work(&ep->ring))
		return false;
	buf = ripc__ring_delivery_buf(&t->delivery);
	if (buf && ripc__ring_recv_slots(&ep->ring, buf, RIPC__RING_RECV_BUF_LEN, &ev->len)) {
		fill_recv_event(ep, buf, ev);
		ripc__ring_delivery_event(&t->delivery, buf, ev->len, ev);
		return true;
	}
	/* A long one, or none of a kind that can be taken so. */
	ep->empty_polls = 0;
	return ripc__ring_delivery_poll(&t->delivery, &ep->ring, ep, ep->user, ev, 1, &more);
}

/*
 * The one that brought something last has brought nothing, but peers may speak in turns. Return:
 * one that has, and is looked at now.
 */
static struct ripc__ep *__attribute__((noinline)) next_with_rx(struct shm *t)
{
	struct ripc__ep *ep = t->last_rx;

	for (unsigned i = 0; i < POLL_ONE_PEERS; i++) {
		ep = ep->next == &t->eps ? t->eps.next : ep->next;
		if (ep == t->last_rx)
			break;
		if (ep->state == SHM_OPEN && !ep->established && ripc__ring_ready(&ep->ring)) {
			t->last_rx = ep;
			return ep;
		}
	}
	return NULL;
}

/* Most looks find nothing, and most others a message of two slots. */
static bool shm_poll_one(struct ripc__transport *tr, void *room, size_t cap, struct ripc__event *ev)
{
	struct shm *t = (struct shm *)tr;
	struct ripc__ep *ep = t->last_rx;
	int got;

	if (!ep)
		return false;
	if (cap < 2 * RIPC__RING_SLOT_BODY)
		return poll_one_slow(t, room, cap, ev);
	got = ripc__ring_recv_fast(&ep->ring, room, &ev->len);
	if (!got) {
		ep = next_with_rx(t);
		/* What it was seen to have brought lies in memory that is its as well. */
		got = ep ? ripc__ring_recv_fast(&ep->ring, room, &ev->len) : 0;
		if (!got)
			return false;
	}
	if (got < 0)
		return poll_one_slow(t, room, cap, ev);
	fill_recv_event(ep, room, ev);
	return true;
}

/* ---- the rest ---- */

static void shm_flush(struct ripc__transport *tr)
{
	struct shm *t = (struct shm *)tr;

	for (struct ripc__ep *ep = t->eps.next; ep != &t->eps; ep = ep->next)
		if (ep->state == SHM_OPEN)
			ripc__ring_flush(&ep->ring);
}

static void shm_release(struct ripc__transport *tr, void *token)
{
	ripc__slab_put(token);
}

static int shm_post_datagram(struct ripc__transport *tr, const uint8_t *addr, size_t addrlen,
			     const struct iovec *iov, unsigned niov)
{
	return -EOPNOTSUPP;
}

static bool nothing_pending(const struct ripc__ep *ep)
{
	if (ep->state != SHM_OPEN)
		return !ep->failed || ep->state != SHM_CONNECTING;
	return !ep->established && !ep->hung_up && ripc__ring_idle(&ep->ring) &&
	       (!ep->t->simulated || !ep->link.count);
}

/*
 * Only who is looked at: the others are armed. Who is found idle when the whole transport is, and
 * was for some rounds, needs no further look until its peer rings.
 */
static int shm_arm(struct ripc__transport *tr)
{
	struct shm *t = (struct shm *)tr;
	struct ripc__ep *ep, *next;

	for (ep = t->eps.next; ep != &t->eps; ep = ep->next)
		if (ep->state == SHM_OPEN) {
			ripc__ring_flush(&ep->ring);
			ripc__ring_arm(&ep->ring);
		}
	/* Said before looked: see ripc__ring_kick_if_armed(). */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	t->armed = true;
	t->last_rx = NULL;
	for (ep = t->eps.next; ep != &t->eps; ep = ep->next)
		if (!nothing_pending(ep))
			return 1;
	for (ep = t->eps.next; ep != &t->eps; ep = next) {
		next = ep->next;
		if (ep->state == SHM_OPEN && ep->empty_polls >= IDLE_POLLS_MIN && !t->simulated &&
		    !ripc__ring_has_work(&ep->ring))
			make_idle(ep);
	}
	return t->bad_input[0] != 0;
}

static int shm_fd(struct ripc__transport *tr)
{
	return ((struct shm *)tr)->epoll_fd;
}

static void shm_forked(struct ripc__transport *tr)
{
	struct shm *t = (struct shm *)tr;

	for (struct ripc__ep *ep = t->eps.next; ep != &t->eps; ep = ep->next)
		if (ep->fd >= 0)
			close(ep->fd);
	for (struct ripc__ep *ep = t->idle.next; ep != &t->idle; ep = ep->next)
		close(ep->fd);
	for (unsigned i = 0; i < 2; i++)
		if (t->listeners[i] >= 0)
			close(t->listeners[i]);
	close(t->epoll_fd);
}

#define COMMON_OPS                                                                            \
	.probe = shm_probe, .close = shm_close, .limits = shm_limits, .address = shm_address, \
	.describe = shm_describe, .reg = ripc__shm_reg, .dereg = ripc__shm_dereg,             \
	.connect = ripc__shm_connect, .accept = ripc__shm_accept, .reject = ripc__shm_reject, \
	.ep_close = ripc__shm_ep_close, .post = ripc__shm_post, .poll_one = shm_poll_one,     \
	.post_write = ripc__shm_post_write, .post_read = ripc__shm_post_read,                 \
	.post_datagram = shm_post_datagram, .flush = shm_flush, .progress = shm_progress,     \
	.export_fd = ripc__shm_export, .release = shm_release, .arm = shm_arm, .fd = shm_fd,  \
	.forked = shm_forked

const struct ripc__transport_ops ripc__transport_shm = {
	.name = "shm", .id = TRANSPORT_ID_SHM, .open = shm_open_, COMMON_OPS};

const struct ripc__transport_ops ripc__transport_ring_sim = {
	.name = "ring/sim", .id = TRANSPORT_ID_SIM, .open = sim_open, COMMON_OPS};
