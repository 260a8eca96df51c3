/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * From a Unix socket to mapped memory. Each side sends one packet, with the descriptor of its
 * segment: the active one its request, the passive one its answer. After that packets are kicks,
 * and end of file is the peer's death.
 */
#define _GNU_SOURCE
#include "base/admission.h"
#include "base/clock.h"
#include "base/host.h"
#include "base/log.h"
#include "transport/shm/shm.h"
#include "wire/bytes.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define PACKET_MAGIC    UINT64_C(0x316d687363706972) /* "ripcshm1" */
#define PACKET_REQUEST  1
#define PACKET_ACCEPT   2
#define PACKET_REJECT   3
#define PACKET_FIXED    48
#define LISTEN_PAUSE_NS (20 * RIPC__MS) /* idle lanes give way meanwhile */
#define ACCEPTS_MAX     64 /* so that connections of others cannot keep a thread here */

static const struct ripc__ring_layout layout = {9, 18};

/* ---- packets ---- */

/* The packet that is sent or came. */
struct packet {
	uint8_t kind;
	uint64_t probe_at,
		/*
		 * where in the sender's memory which value is: who can read it there may read
		 * directly
		 */
		probe;
	const void *priv;
	size_t privlen;
	int fd; /* the sender's segment, or -1 */
};

static int packet_send(const struct ripc__ep *ep, const struct packet *p)
{
	uint8_t head[PACKET_FIXED] = {0};
	struct iovec iov[2] = {{head, sizeof(head)}, {(void *)(uintptr_t)p->priv, p->privlen}};
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = {.bytes = {0}};
	struct msghdr msg = {.msg_iov = iov, .msg_iovlen = p->privlen ? 2 : 1};
	struct cmsghdr *c;

	ripc__put_le64(head, PACKET_MAGIC);
	head[8] = p->kind;
	head[9] = layout.slot_bits;
	head[10] = layout.bulk_bits;
	ripc__put_le16(head + 12, (uint16_t)p->privlen);
	ripc__put_le64(head + 16, p->probe_at);
	ripc__put_le64(head + 24, p->probe);
	if (p->fd >= 0) {
		msg.msg_control = control.bytes;
		msg.msg_controllen = sizeof(control.bytes);
		c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(c), &p->fd, sizeof(int));
	}
	return sendmsg(ep->fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? -errno : 0;
}

/* Return: 0, -EAGAIN: nothing yet, or why it is none. p->fd is the caller's, also after an error. */
static int packet_receive(struct ripc__ep *ep, struct packet *p, const char **why)
{
	uint8_t head[PACKET_FIXED];
	struct iovec iov[2] = {{head, sizeof(head)}, {ep->private, sizeof(ep->private)}};
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control;
	/* Room for one descriptor, not for what fits the padding. */
	struct msghdr msg = {.msg_iov = iov,
			     .msg_iovlen = 2,
			     .msg_control = control.bytes,
			     .msg_controllen = CMSG_LEN(sizeof(int))};
	struct cmsghdr *c;
	ssize_t n = recvmsg(ep->fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

	p->fd = -1;
	*why = "the peer closed the socket";
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? -EAGAIN : -errno;
	for (c = CMSG_FIRSTHDR(&msg); c; c = CMSG_NXTHDR(&msg, c))
		if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS &&
		    c->cmsg_len == CMSG_LEN(sizeof(int)))
			memcpy(&p->fd, CMSG_DATA(c), sizeof(int));
	if (!n)
		return -ECONNRESET;
	*why = "a packet that is not of this protocol";
	if (n < PACKET_FIXED || msg.msg_flags & MSG_TRUNC || ripc__get_le64(head) != PACKET_MAGIC ||
	    ripc__get_le16(head + 12) != n - PACKET_FIXED)
		return -EPROTO;
	*why = "its rings have another shape";
	if (head[9] != layout.slot_bits || head[10] != layout.bulk_bits)
		return -EPROTO;
	p->kind = head[8];
	p->probe_at = ripc__get_le64(head + 16);
	p->probe = ripc__get_le64(head + 24);
	p->privlen = (size_t)n - PACKET_FIXED;
	ep->private_len = (uint32_t)p->privlen;
	*why = "no descriptor is left for its memory";
	if (msg.msg_flags & MSG_CTRUNC)
		return -EMFILE;
	return 0;
}

/* ---- endpoints ---- */

/* A descriptor was opened, or could not be (-errno): the core may have to close idle lanes. */
static void watch_descriptors(struct shm *t, int fd)
{
	bool none = fd == -EMFILE || fd == -ENFILE;

	if (fd < 0 ? !none : !ripc__descriptors_low(fd))
		return;
	t->low = true;
	if (none)
		t->low_status = fd;
}

static struct ripc__ep *ep_new(struct shm *t, int fd, enum shm_state state)
{
	struct ripc__ep *ep = calloc(1, sizeof(*ep));
	struct epoll_event ev = {.events = EPOLLIN, .data.ptr = ep};

	if (!ep)
		return NULL;
	ep->t = t;
	ep->fd = fd;
	ep->state = state;
	if (getrandom(&ep->probe, sizeof(ep->probe), 0) != sizeof(ep->probe) ||
	    (fd >= 0 && epoll_ctl(t->epoll_fd, EPOLL_CTL_ADD, fd, &ev))) {
		free(ep);
		return NULL;
	}
	ripc__shm_list_add(&t->eps, ep);
	t->neps++;
	t->nsetups++;
	t->nincoming += state == SHM_INCOMING;
	return ep;
}

static void leave_setup(struct ripc__ep *ep, enum shm_state state)
{
	ep->t->nincoming -= ep->state == SHM_INCOMING;
	ep->t->nsetups--;
	ep->state = state;
}

void ripc__shm_defer_free(struct ripc__ep *ep)
{
	struct shm *t = ep->t;

	if (ep->state < SHM_OPEN)
		leave_setup(ep, SHM_CLOSED);
	if (ep->ring.be.ops) {
		ripc__ring_fini(&ep->ring);
		ripc__sim_ntb_fini(&ep->link);
	}
	ripc__segment_unmap(&ep->inbox);
	ripc__segment_unmap(&ep->outbox);
	if (ep->fd >= 0)
		close(ep->fd);
	ep->fd = -1;
	ripc__shm_list_del(ep);
	if (t->last_rx == ep)
		t->last_rx = NULL;
	t->neps--;
	ep->next = t->deferred_free;
	t->deferred_free = ep;
}

void ripc__shm_peer_name(const struct ripc__ep *ep, char *text, size_t len)
{
	if (ep->pid)
		snprintf(text, len, "process %d", ep->pid);
	else
		snprintf(text, len, "a process of another PID namespace");
}

static void bad_input(struct shm *t, const struct ripc__ep *ep, const char *why)
{
	char who[64];

	ripc__shm_peer_name(ep, who, sizeof(who));
	if (!t->bad_input[0])
		snprintf(t->bad_input, sizeof(t->bad_input), "%s: %s", who, why);
}

/* Whose socket the other end is. Return: 0 or -EACCES. */
static int check_peer(struct ripc__ep *ep)
{
	socklen_t len = sizeof(struct ucred);
	struct ucred cred;

	if (getsockopt(ep->fd, SOL_SOCKET, SO_PEERCRED, &cred, &len))
		return -errno;
	ep->pid = cred.pid;
	return cred.uid == geteuid() ? 0 : -EACCES;
}

/* Our segment. Return: its descriptor or a negative errno. */
static int make_inbox(struct ripc__ep *ep)
{
	return ripc__segment_create(&ep->inbox, ripc__ring_segment_len(&layout));
}

/* Finds out whether we can read the peer's memory. */
static void try_direct(struct ripc__ep *ep, const struct packet *p)
{
	uint64_t seen = 0;

	ep->can_read_peer = !ep->t->simulated && ep->pid && p->probe_at &&
			    !ripc__shm_peer_read(ep, &seen, p->probe_at, sizeof(seen)) &&
			    seen == p->probe;
}

/* Both segments are there. */
static void start_engine(struct ripc__ep *ep)
{
	struct ripc__ring_backend be = {.arg = ep, .ops = &ripc__shm_ops, .inbox = ep->inbox.base};

	if (ep->t->simulated) {
		ripc__sim_ntb_init(&ep->link, ep->outbox.base, ep->outbox.len, ep->t->seed++);
		ep->link.kick = ripc__shm_kick;
		ep->link.kick_arg = ep;
		be.ops = &ripc__sim_ntb_ops;
		be.arg = &ep->link;
	} else {
		be.map = ep->outbox.base;
		be.caps = RIPC__RING_CAP_ORDERED | (ep->can_read_peer ? RIPC__RING_CAP_READ : 0);
	}
	ripc__ring_init(&ep->ring, &be, &layout, 1);
	leave_setup(ep, SHM_OPEN);
	ep->established = true;
}

/* ---- active ---- */

/* What went wrong is reported by progress(). */
static void fail_later(struct ripc__ep *ep, int status, const char *why)
{
	ep->failed = status;
	snprintf(ep->why, sizeof(ep->why), "%s", why);
}

/* Whether the peer's abstract socket is out of reach for sure. */
static bool other_netns(const struct shm *t, const struct ripc__shm_address *a)
{
	return a->netns && t->address.netns && a->netns != t->address.netns;
}

static int connect_to(const struct ripc__shm_address *a, bool abstract)
{
	struct sockaddr_un un = {.sun_family = AF_UNIX};
	socklen_t len = sizeof(un);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), rc;

	if (fd < 0)
		return -errno;
	if (abstract) {
		ripc__shm_address_name(a, un.sun_path + 1);
		len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
				  strlen(un.sun_path + 1));
	} else {
		strcpy(un.sun_path, a->path);
	}
	if (!connect(fd, (struct sockaddr *)&un, len))
		return fd;
	rc = -errno;
	close(fd);
	return rc;
}

/*
 * The name of the abstract socket has 128 drawn bits: whoever is reached there is the peer, and on
 * this host. So it is tried unless it is known to lie in another namespace.
 */
static int connect_socket(struct shm *t, const struct ripc__shm_address *a)
{
	int fd = other_netns(t, a) ? -ECONNREFUSED : connect_to(a, true);

	/* Where one of the namespaces is not known the directory may be the only way. */
	if (fd == -ECONNREFUSED && a->path[0] && (!a->netns || a->netns != t->address.netns))
		fd = connect_to(a, false);
	return fd;
}

static int send_request(struct ripc__ep *ep, const void *priv, size_t privlen)
{
	struct packet p = {.kind = PACKET_REQUEST,
			   .probe_at = (uintptr_t)&ep->probe,
			   .probe = ep->probe,
			   .priv = priv,
			   .privlen = privlen};
	int rc = check_peer(ep);

	if (rc) {
		fail_later(ep, rc, "the peer's socket belongs to another user");
		return rc;
	}
	p.fd = make_inbox(ep);
	if (p.fd < 0) {
		char why[64];

		snprintf(why, sizeof(why), "no shared memory: %s", ripc_strerror(p.fd));
		fail_later(ep, p.fd, why);
		return p.fd;
	}
	rc = packet_send(ep, &p);
	close(p.fd);
	if (rc)
		fail_later(ep, rc, "the socket does not take the request");
	return rc;
}

int ripc__shm_connect(struct ripc__transport *tr, const uint8_t *addr, size_t addrlen,
		      const void *priv, size_t privlen, void *user, struct ripc__ep **out)
{
	struct shm *t = (struct shm *)tr;
	const char *name = t->base.ops->name;
	struct ripc__shm_address a;
	struct ripc__ep *ep;
	int fd;

	if (privlen > RIPC__PRIVATE_MAX)
		return ripc__fail(-EINVAL, "%s: %zu bytes of private data, at most %d", name,
				  privlen, RIPC__PRIVATE_MAX);
	if (ripc__shm_address_decode(&a, addr, addrlen))
		return ripc__fail(-EINVAL, "%s: the peer's address makes no sense", name);
	if (ripc__host_differs(a.host, t->address.host))
		return ripc__fail(-EHOSTUNREACH, "%s: the peer is on another host", name);
	if (other_netns(t, &a) && !a.path[0])
		return ripc__fail(-EHOSTUNREACH,
				  "%s: the peer is in another network namespace of this host, and "
				  "has no socket in a shared "
				  "directory: set RIPC_SHM_DIR on both sides",
				  name);
	fd = connect_socket(t, &a);
	watch_descriptors(t, fd);
	if (fd == -ECONNREFUSED && !ripc__host_same(a.host, t->address.host))
		return ripc__fail(
			fd,
			"%s: the peer is on another host, or does not listen any more: one "
			"of the two has no /proc, and does not know its host",
			name);
	if (fd == -ECONNREFUSED)
		return ripc__fail(fd, "%s: the peer does not listen any more", name);
	if (fd == -ENOENT || fd == -EACCES || fd == -EPERM)
		return ripc__fail(-EHOSTUNREACH, "%s: cannot connect to %s: %s", name,
				  other_netns(t, &a) ? a.path : "the peer's socket",
				  ripc_strerror(fd));
	ep = ep_new(t, fd >= 0 ? fd : -1, SHM_CONNECTING);
	if (!ep) {
		if (fd >= 0)
			close(fd);
		return ripc__fail(-ENOMEM, "%s: out of memory or descriptors", name);
	}
	ep->user = user;
	if (fd < 0)
		fail_later(ep, fd, "the peer's socket does not take a connection now");
	else
		send_request(ep, priv, privlen);
	*out = ep;
	return 0;
}

/* The answer to our request. */
static unsigned handle_answer(struct ripc__ep *ep, struct ripc__event *ev)
{
	struct packet p = {0};
	const char *why = NULL;
	int rc = packet_receive(ep, &p, &why);

	if (rc == -EAGAIN)
		return 0;
	if (!rc && p.kind == PACKET_REJECT) {
		*ev = (struct ripc__event){.kind = RIPC__EV_CLOSED,
					   .status = -ECONNREFUSED,
					   .reject = true,
					   .user = ep->user,
					   .ep = ep,
					   .data = ep->private,
					   .len = ep->private_len,
					   .text = "the peer refused"};
		leave_setup(ep, SHM_CLOSED);
		if (p.fd >= 0)
			close(p.fd);
		return 1;
	}
	if (!rc && p.kind != PACKET_ACCEPT) {
		rc = -EPROTO;
		why = "an answer of unknown kind";
	}
	if (!rc) {
		rc = ripc__segment_map(&ep->outbox, p.fd, ripc__ring_segment_len(&layout));
		why = "its memory cannot be mapped safely";
	}
	if (p.fd >= 0)
		close(p.fd);
	if (rc) {
		fail_later(ep, rc, why);
		return 0;
	}
	try_direct(ep, &p);
	start_engine(ep);
	return 0;
}

/* ---- passive ---- */

/* Drops one that nobody has been told of. */
static unsigned drop_incoming(struct ripc__ep *ep, const char *why)
{
	if (why)
		bad_input(ep->t, ep, why);
	ripc__shm_defer_free(ep);
	return 0;
}

static unsigned handle_request(struct ripc__ep *ep, struct ripc__event *ev)
{
	struct packet p = {0};
	const char *why = NULL;
	int rc = packet_receive(ep, &p, &why);

	if (rc == -EAGAIN)
		return 0;
	if (!rc && p.kind != PACKET_REQUEST) {
		rc = -EPROTO;
		why = "a request of unknown kind";
	}
	if (!rc) {
		rc = ripc__segment_map(&ep->outbox, p.fd, ripc__ring_segment_len(&layout));
		why = "its memory cannot be mapped safely";
	}
	if (p.fd >= 0)
		close(p.fd);
	/* Who only looked whether somebody listens has done no wrong. */
	if (rc)
		return drop_incoming(ep, rc == -ECONNRESET ? NULL : why);
	/* The engine begins when the core has accepted; until then there is nothing to end. */
	try_direct(ep, &p);
	ep->t->nincoming--;
	ep->state = SHM_REQUESTED;
	ripc__shm_peer_name(ep, ep->why, sizeof(ep->why));
	*ev = (struct ripc__event){.kind = RIPC__EV_REQUEST,
				   .request = ep,
				   .data = ep->private,
				   .len = ep->private_len,
				   .source = (uint64_t)ep->pid,
				   .text = ep->why};
	return 1;
}

unsigned ripc__shm_setup_step(struct ripc__ep *ep, struct ripc__event *ev)
{
	char byte;

	switch (ep->state) {
	case SHM_INCOMING:
		return handle_request(ep, ev);
	case SHM_CONNECTING:
		return ep->failed ? 0 : handle_answer(ep, ev);
	case SHM_REQUESTED:
		/* It gave up: accept() finds out. Until then it is not watched. */
		if (recv(ep->fd, &byte, 1, MSG_DONTWAIT) == 0)
			epoll_ctl(ep->t->epoll_fd, EPOLL_CTL_DEL, ep->fd, NULL);
		return 0;
	default:
		return 0;
	}
}

int ripc__shm_accept(struct ripc__transport *tr, void *request, const void *priv, size_t privlen,
		     void *user, struct ripc__ep **out)
{
	struct ripc__ep *ep = request;
	struct packet p = {.kind = PACKET_ACCEPT,
			   .probe_at = (uintptr_t)&ep->probe,
			   .probe = ep->probe,
			   .priv = priv,
			   .privlen = privlen};
	const char *name = ep->t->base.ops->name;
	int rc;

	if (privlen > RIPC__PRIVATE_MAX) {
		ripc__shm_defer_free(ep);
		return ripc__fail(-EINVAL, "%s: %zu bytes of private data, at most %d", name,
				  privlen, RIPC__PRIVATE_MAX);
	}
	p.fd = make_inbox(ep);
	if (p.fd < 0) {
		rc = p.fd;
		ripc__shm_defer_free(ep);
		return ripc__fail(rc, "%s: no shared memory: %s", name, ripc_strerror(rc));
	}
	/*
	 * What it wrote before the answer would be lost in what the peer reads as a kick: so the
	 * answer goes first.
	 */
	rc = packet_send(ep, &p);
	close(p.fd);
	if (rc) {
		ripc__shm_defer_free(ep);
		return ripc__fail(-ECONNRESET, "%s: the connection was lost before it was accepted",
				  name);
	}
	ep->user = user;
	start_engine(ep);
	*out = ep;
	return 0;
}

void ripc__shm_reject(struct ripc__transport *tr, void *request, const void *priv, size_t privlen)
{
	struct ripc__ep *ep = request;
	struct packet p = {.kind = PACKET_REJECT, .priv = priv, .fd = -1};

	p.privlen = privlen < RIPC__PRIVATE_MAX ? privlen : RIPC__PRIVATE_MAX;
	packet_send(ep, &p);
	ripc__shm_defer_free(ep);
}

/*
 * One connection without a request makes room for a new one: of the process that has most of them.
 * All are of our user; those of others were closed at once.
 */
static void evict_incoming(struct shm *t)
{
	struct ripc__entry entries[SHM_INCOMING_MAX];
	size_t n = 0;

	for (struct ripc__ep *ep = t->eps.next; ep != &t->eps && n < SHM_INCOMING_MAX; ep = ep->next)
		if (ep->state == SHM_INCOMING)
			entries[n++] = (struct ripc__entry){.source = (uint64_t)ep->pid,
							    .since_ns = ep->accepted_ns,
							    .object = ep};
	if (ripc__admission_pick(entries, n, 1))
		drop_incoming(entries[0].object, "too many connections without a request");
}

void ripc__shm_accept_all(struct shm *t, int listener, uint64_t now_ns)
{
	unsigned most = ripc__pending_max(SHM_INCOMING_MAX);

	/* Those that are left have their turn in the next round. */
	for (unsigned i = 0; i < ACCEPTS_MAX; i++) {
		int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
		struct ripc__ep *ep;

		if (fd < 0) {
			if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED)
				return;
			watch_descriptors(t, -errno);
			t->accept_resume_ns = now_ns + LISTEN_PAUSE_NS;
			return;
		}
		watch_descriptors(t, fd);
		if (t->nincoming >= most)
			evict_incoming(t);
		ep = ep_new(t, fd, SHM_INCOMING);
		if (!ep) {
			close(fd);
			return;
		}
		ep->accepted_ns = now_ns;
		/* A process of another user: it finds out by itself, and takes another way. */
		if (check_peer(ep))
			drop_incoming(ep, NULL);
	}
}
