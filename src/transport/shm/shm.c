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

#define TRANSPORT_ID_SHM 6 /* in resolver records, doc/protocol.md section 4 */
#define TRANSPORT_ID_SIM 254
#define LOOK_NS          50000u   /* how often a spinning driver looks at the sockets */
#define LOST_NS          RIPC__MS /* the longest sleep where a kick may be lost */
#define EVENTS_EACH      16u      /* of one endpoint in one round */
#define SILENT_MIN       8u    /* rounds without anything, after which an endpoint may turn cold */
#define SILENT_MAX       1024u /* and after which one does where nobody sleeps */
#define EPOLL_EVENTS     32
#define TAKE_OTHERS      8u /* endpoints that a look at the one that spoke last, in vain, goes on to */

static int shm_probe(const struct ripc__transport_env *env, char *why, size_t whylen)
{
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), err = fd < 0 ? -errno : 0;

	if (fd >= 0)
		close(fd);
	else
		snprintf(why, whylen, "no Unix sockets: %s", ripc_strerror(err));
	return err;
}

static void clean_up(struct shm *t)
{
	while (t->graves) {
		struct ripc__ep *ep = t->graves;

		t->graves = ep->next;
		free(ep);
	}
}

static void shm_close(struct ripc__transport *tr)
{
	struct shm *t = (struct shm *)tr;

	while (t->eps.next != &t->eps)
		ripc__shm_ep_close(t->eps.next);
	while (t->cold.next != &t->cold)
		ripc__shm_ep_close(t->cold.next);
	clean_up(t);
	while (t->regions) {
		struct ripc__win_region *region = t->regions;

		t->regions = region->next;
		ripc__win_region_remove(region);
	}
	ripc__shm_unlisten(t);
	if (t->epoll_fd >= 0)
		close(t->epoll_fd);
	ripc__intake_fini(&t->intake);
	free(t);
}

static int shm_start(struct shm *t, const struct ripc__transport_env *env)
{
	const char *name = t->base.ops->name;
	struct ripc__host host;

	if (ripc__intake_init(&t->intake, SHM_SLAB_MEMORY))
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

static int open_as(struct ripc__transport **tr, const struct ripc__transport_env *env,
		   const struct ripc__transport_ops *ops)
{
	struct shm *t = calloc(1, sizeof(*t));
	const char *seed = getenv("RIPC_TEST_LINK_SEED");
	int rc;

	if (!t)
		return ripc__fail(-ENOMEM, "%s: out of memory", ops->name);
	t->base.ops = ops;
	t->linked = ops == &ripc__transport_winsim;
	t->takes = !t->linked && env->opt->handover == RIPC__MAPPED_ON;
	t->eps.next = t->eps.prev = &t->eps;
	t->cold.next = t->cold.prev = &t->cold;
	t->cold_turn = &t->cold;
	t->epoll_fd = t->listeners[0] = t->listeners[1] = -1;
	if (t->linked)
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
	return open_as(tr, env, &ripc__transport_shm);
}

static int sim_open(struct ripc__transport **tr, const struct ripc__transport_env *env)
{
	return open_as(tr, env, &ripc__transport_winsim);
}

static void shm_limits(struct ripc__transport *tr, struct ripc__transport_limits *limits)
{
	const struct shm *t = (struct shm *)tr;

	/* Where it can be had, one copy by the reader beats two by way of the ring: no writes. */
	*limits = (struct ripc__transport_limits){
		.caps = RIPC__CAP_CONNECTED | RIPC__CAP_READ | RIPC__CAP_CHEAP_REG |
			RIPC__CAP_TARGET_PROGRESS | RIPC__CAP_SAME_HOST |
			(t->linked ? RIPC__CAP_WRITE : 0) | (t->takes ? RIPC__CAP_HANDOVER : 0),
		.send_max = RIPC__WIN_SEND_MAX,
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
look(struct shm *t, struct ripc__event *events, unsigned max, uint64_t now_ns)
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
			n += ripc__shm_setup(ep, events + n);
			continue;
		}
		/* Nothing else before it is told that the connection is up. */
		if (ep->established)
			continue;
		ripc__win_kicked(&ep->win);
		ripc__shm_warm(ep);
		got = ripc__shm_packet(ep, events + n);
		n += got > 0;
		if (got < 0 || (!got && ready[i].events & EPOLLHUP)) {
			ep->gone = true;
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
	if (ep->t->last == ep)
		ep->t->last = NULL;
}

static unsigned serve(struct ripc__ep *ep, struct ripc__event *events, unsigned max, bool *more)
{
	unsigned n = 0;

	ep->silent = 0;
	/* The simulated link moves in every round. */
	ep->t->last = ep->t->linked ? NULL : ep;
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
	n += ripc__intake_serve(&ep->t->intake, &ep->win, ep, ep->user, events + n, max - n, more);
	if (n == max) {
		*more = true;
		return n;
	}
	if (ep->win.status)
		report_closed(ep, &events[n++], ep->win.status, ep->win.why);
	else if (ep->gone && (!ripc__win_ready(&ep->win) || !ep->win.heard))
		report_closed(ep, &events[n++], -ECONNRESET, "the peer's process has ended");
	return n;
}

/* Anything that makes it worth to serve an endpoint. */
static inline bool wakes(const struct ripc__ep *ep)
{
	return ripc__win_ready(&ep->win) || ripc__win_busy(&ep->win) || ep->established ||
	       ep->gone || ep->win.status;
}

/* A look at one of those that are not looked at: a peer that finds itself heard need not ring. */
static inline void look_cold(struct shm *t)
{
	struct ripc__ep *ep = t->cold_turn == &t->cold ? t->cold.next : t->cold_turn;

	if (ep == &t->cold)
		return;
	if (ripc__win_ready(&ep->win)) {
		ripc__shm_warm(ep);
		return;
	}
	/* The ring itself stays as it is: a forked child reads it. */
	t->cold_turn = ep->next;
}

/* Requests that never say what they want. */
static void expire(struct shm *t, uint64_t now_ns)
{
	for (struct ripc__ep *ep = t->eps.next, *next; ep != &t->eps; ep = next) {
		next = ep->next;
		if (ep->state == SHM_INCOMING && now_ns - ep->since_ns >= SHM_SETUP_NS)
			ripc__shm_bury(ep);
	}
}

/* Some of what is under way arrives at the peer. Return: when to call again. */
static uint64_t step_link(struct ripc__ep *ep, uint64_t now_ns, uint64_t next)
{
	if (ripc__link_some(&ep->link))
		return now_ns;
	return now_ns + LOST_NS < next ? now_ns + LOST_NS : next;
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
static void chill(struct ripc__ep *ep)
{
	ep->cold = true;
	if (ep->t->last == ep)
		ep->t->last = NULL;
	ripc__shm_unlink(ep);
	ripc__shm_link(&ep->t->cold, ep);
}

/* Nobody sleeps, and it has been silent for long. */
static void __attribute__((noinline)) try_chill(struct ripc__ep *ep)
{
	ep->silent = 0;
	if (ep->t->linked || ripc__win_busy(&ep->win))
		return;
	ripc__win_arm(&ep->win);
	/* Said before looked: see ripc__win_notify(). */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (ripc__win_quiet(&ep->win))
		chill(ep);
}

static unsigned shm_progress(struct ripc__transport *tr, struct ripc__event *events, unsigned max,
			     uint64_t now_ns, uint64_t *deadline_ns)
{
	struct shm *t = (struct shm *)tr;
	uint64_t next = RIPC__NEVER;
	struct ripc__ep *ep, *after;
	bool more = false;
	unsigned n = 0;

	if (t->graves)
		clean_up(t);
	ripc__intake_round(&t->intake);
	if (t->armed || t->nsetups || now_ns - t->scanned_ns >= LOOK_NS) {
		n = look(t, events, max, now_ns);
		if (t->nincoming) {
			expire(t, now_ns);
			next = now_ns + SHM_SETUP_NS;
		}
		if (t->garbage[0] && n < max) {
			memcpy(t->garbage_told, t->garbage, sizeof(t->garbage));
			t->garbage[0] = 0;
			events[n++] = (struct ripc__event){.kind = RIPC__EV_GARBAGE,
							   .text = t->garbage_told};
		}
	}
	look_cold(t);
	for (ep = t->eps.next; ep != &t->eps && n < max; ep = after) {
		after = ep->next;
		if (ep->state == SHM_OPEN) {
			if (t->linked)
				next = step_link(ep, now_ns, next);
			if (wakes(ep))
				n += serve(ep, events + n,
					   max - n < EVENTS_EACH ? max - n : EVENTS_EACH, &more);
			else if (++ep->silent >= SILENT_MAX)
				try_chill(ep);
		} else if (ep->failed && ep->state == SHM_CALLING) {
			report_closed(ep, &events[n++], ep->failed, ep->why);
		}
	}
	if (ep != &t->eps)
		rotate(t, ep);
	if (t->low && n < max) {
		events[n++] = (struct ripc__event){.kind = RIPC__EV_LOW, .status = t->low_status};
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

static inline void taken(struct ripc__ep *ep, uint8_t *room, struct ripc__event *ev)
{
	ep->silent = 0;
	ev->kind = RIPC__EV_RECV;
	ev->user = ep->user;
	ev->ep = ep;
	ev->data = room;
	ev->token = NULL;
}

/* What t->last has brought is more than two slots, or else. */
static bool __attribute__((noinline))
take_more(struct shm *t, uint8_t *room, size_t cap, struct ripc__event *ev)
{
	struct ripc__ep *ep = t->last;
	uint8_t *buf;
	bool more;

	if (ripc__win_take(&ep->win, room, cap, &ev->len)) {
		taken(ep, room, ev);
		return true;
	}
	if (!ripc__win_ready(&ep->win) || ripc__win_busy(&ep->win))
		return false;
	buf = ripc__intake_room(&t->intake);
	if (buf && ripc__win_take(&ep->win, buf, RIPC__WIN_BUF, &ev->len)) {
		taken(ep, buf, ev);
		ripc__intake_received(&t->intake, buf, ev->len, ev);
		return true;
	}
	/* A long one, or none of a kind that can be taken so. */
	ep->silent = 0;
	return ripc__intake_serve(&t->intake, &ep->win, ep, ep->user, ev, 1, &more);
}

/* The one that brought something last has brought nothing, but peers may speak in turns. Return: one that has, and is looked at now. */
static struct ripc__ep *__attribute__((noinline)) other(struct shm *t)
{
	struct ripc__ep *ep = t->last;

	for (unsigned i = 0; i < TAKE_OTHERS; i++) {
		ep = ep->next == &t->eps ? t->eps.next : ep->next;
		if (ep == t->last)
			break;
		if (ep->state == SHM_OPEN && !ep->established && ripc__win_ready(&ep->win)) {
			t->last = ep;
			return ep;
		}
	}
	return NULL;
}

/* Most looks find nothing, and most others a message of two slots. */
static bool shm_take(struct ripc__transport *tr, void *room, size_t cap, struct ripc__event *ev)
{
	struct shm *t = (struct shm *)tr;
	struct ripc__ep *ep = t->last;
	int got;

	if (!ep)
		return false;
	if (cap < 2 * RIPC__WIN_BODY)
		return take_more(t, room, cap, ev);
	got = ripc__win_take_two(&ep->win, room, &ev->len);
	if (!got) {
		ep = other(t);
		/* What it was seen to have brought lies in memory that is its as well. */
		got = ep ? ripc__win_take_two(&ep->win, room, &ev->len) : 0;
		if (!got)
			return false;
	}
	if (got < 0)
		return take_more(t, room, cap, ev);
	taken(ep, room, ev);
	return true;
}

/* ---- the rest ---- */

static void shm_flush(struct ripc__transport *tr)
{
	struct shm *t = (struct shm *)tr;

	for (struct ripc__ep *ep = t->eps.next; ep != &t->eps; ep = ep->next)
		if (ep->state == SHM_OPEN)
			ripc__win_flush(&ep->win);
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

static bool idle(const struct ripc__ep *ep)
{
	if (ep->state != SHM_OPEN)
		return !ep->failed || ep->state != SHM_CALLING;
	return !ep->established && !ep->gone && ripc__win_quiet(&ep->win) &&
	       (!ep->t->linked || !ep->link.count);
}

/*
 * Only who is looked at: the others are armed. Who is found idle when the whole transport is, and was for some rounds, needs no further look
 * until its peer rings.
 */
static int shm_arm(struct ripc__transport *tr)
{
	struct shm *t = (struct shm *)tr;
	struct ripc__ep *ep, *next;

	for (ep = t->eps.next; ep != &t->eps; ep = ep->next)
		if (ep->state == SHM_OPEN) {
			ripc__win_flush(&ep->win);
			ripc__win_arm(&ep->win);
		}
	/* Said before looked: see ripc__win_notify(). */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	t->armed = true;
	t->last = NULL;
	for (ep = t->eps.next; ep != &t->eps; ep = ep->next)
		if (!idle(ep))
			return 1;
	for (ep = t->eps.next; ep != &t->eps; ep = next) {
		next = ep->next;
		if (ep->state == SHM_OPEN && ep->silent >= SILENT_MIN && !t->linked &&
		    !ripc__win_busy(&ep->win))
			chill(ep);
	}
	return t->garbage[0] != 0;
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
	for (struct ripc__ep *ep = t->cold.next; ep != &t->cold; ep = ep->next)
		close(ep->fd);
	for (unsigned i = 0; i < 2; i++)
		if (t->listeners[i] >= 0)
			close(t->listeners[i]);
	close(t->epoll_fd);
}

#define COMMON                                                                                    \
	.probe = shm_probe, .close = shm_close, .limits = shm_limits, .address = shm_address,     \
	.describe = shm_describe, .reg = ripc__shm_reg, .dereg = ripc__shm_dereg,                 \
	.connect = ripc__shm_connect, .accept = ripc__shm_accept, .reject = ripc__shm_reject,     \
	.ep_close = ripc__shm_ep_close, .post_send = ripc__shm_post_send,                         \
	.post_plain = ripc__shm_post_plain, .take = shm_take, .post_write = ripc__shm_post_write, \
	.post_read = ripc__shm_post_read, .post_datagram = shm_post_datagram, .flush = shm_flush, \
	.progress = shm_progress, .hand = ripc__shm_hand, .release = shm_release, .arm = shm_arm, \
	.fd = shm_fd, .forked = shm_forked

const struct ripc__transport_ops ripc__transport_shm = {
	.name = "shm", .id = TRANSPORT_ID_SHM, .open = shm_open_, COMMON};

const struct ripc__transport_ops ripc__transport_winsim = {
	.name = "ring/sim", .id = TRANSPORT_ID_SIM, .open = sim_open, COMMON};
