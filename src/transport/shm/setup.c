/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * From a Unix socket to mapped memory. Each side sends one packet with the descriptor of its
 * segment: the active side its request, the passive side its answer. Later packets are kicks, and
 * the end of file is the end of the peer.
 */
#define _GNU_SOURCE
#include "base/admission.h"
#include "base/clock.h"
#include "base/host.h"
#include "base/log.h"
#include "base/text.h"
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

#define PACKET_MAGIC    UINT64_C(0x326d687363706972) /* "ripcshm2" */
#define PACKET_REQUEST  1
#define PACKET_ACCEPT   2
#define PACKET_REJECT   3
#define PACKET_FIXED    48
#define LISTEN_PAUSE_NS (20 * RIPC__MS) /* the core closes idle lanes meanwhile */
#define ACCEPTS_MAX     64              /* in one pass, so that others cannot keep a thread here */

static const struct ripc__ring_layout layout = {9, 18};

/* ---- packets ---- */

/* A packet, sent or received. */
struct packet {
	uint8_t kind;
	/* a value in the sender's memory, and its address: to test direct reads */
	uint64_t probe, probe_at;
	const void *priv;
	size_t privlen;
	int fd; /* the sender's segment, or -1 */
};

/* With a request or an answer, the peer tests whether it can read our memory. */
static void packet_probe(const struct shm_ep *ep, struct packet *p)
{
	p->probe_at = (uintptr_t)&ep->probe;
	p->probe = ep->probe;
}

static int packet_send(const struct shm_ep *ep, const struct packet *p)
{
	uint8_t head[PACKET_FIXED] = {0};
	struct iovec iov[2] = {{head, sizeof(head)}, {(void *)(uintptr_t)p->priv, p->privlen}};

	ripc__put_le64(head, PACKET_MAGIC);
	head[8] = p->kind;
	head[9] = layout.slot_bits;
	head[10] = layout.bulk_bits;
	ripc__put_le16(head + 12, (uint16_t)p->privlen);
	ripc__put_le64(head + 16, p->probe_at);
	ripc__put_le64(head + 24, p->probe);
	return ripc__shm_send(ep->fd, iov, p->privlen ? 2 : 1, p->fd);
}

/*
 * Return: 0, -EAGAIN: none yet, or another error with *why. p->fd is the caller's, also after an
 * error.
 */
static int packet_receive(struct shm_ep *ep, struct packet *p, const char **why)
{
	uint8_t head[PACKET_FIXED];
	struct iovec iov[2] = {{head, sizeof(head)},
			       {ep->ep.setup->private, sizeof(ep->ep.setup->private)}};
	int flags;
	ssize_t n = ripc__shm_receive(ep->fd, iov, 2, &p->fd, &flags);

	*why = "the peer closed the socket";
	if (n <= 0)
		return n ? (int)n : -ECONNRESET;
	*why = "not a packet of this protocol";
	if (n < PACKET_FIXED || flags & MSG_TRUNC || ripc__get_le64(head) != PACKET_MAGIC ||
	    ripc__get_le16(head + 12) != n - PACKET_FIXED)
		return -EPROTO;
	*why = "its rings have other sizes";
	if (head[9] != layout.slot_bits || head[10] != layout.bulk_bits)
		return -EPROTO;
	p->kind = head[8];
	p->probe_at = ripc__get_le64(head + 16);
	p->probe = ripc__get_le64(head + 24);
	p->privlen = (size_t)n - PACKET_FIXED;
	ep->ep.setup->private_len = (uint32_t)p->privlen;
	*why = "no descriptor is left for its memory (ulimit -n)";
	if (flags & MSG_CTRUNC)
		return -EMFILE;
	return 0;
}

/* ---- endpoints ---- */

static struct shm_ep *ep_new(struct shm *t, int fd, enum ripc__ep_state state)
{
	struct shm_ep *ep = shm_ep(ripc__ring_ep_new(&t->r, state));
	struct epoll_event ev = {.events = EPOLLIN, .data.ptr = ep};

	if (!ep)
		return NULL;
	ep->fd = ep->doorbell = ep->peer_doorbell = -1;
	if (getrandom(&ep->probe, sizeof(ep->probe), 0) != sizeof(ep->probe) ||
	    (fd >= 0 && epoll_ctl(t->r.fd, EPOLL_CTL_ADD, fd, &ev))) {
		ripc__ring_ep_defer_free(&ep->ep);
		return NULL;
	}
	ep->fd = fd;
	return ep;
}

static void unmap(const uint8_t *base)
{
	struct ripc__segment s = {(uint8_t *)(uintptr_t)base, ripc__ring_segment_len(&layout)};

	ripc__segment_unmap(&s);
}

static void shm_release(struct ripc__ep *base)
{
	struct ripc__ring_backend *be = &base->ring.be;
	struct shm_ep *ep = shm_ep(base);

	unmap(be->inbox);
	unmap(be->map);
	be->inbox = be->map = NULL;
	if (ep->fd >= 0) {
		/* A child that is being forked may have it open, too. */
		epoll_ctl(base->t->fd, EPOLL_CTL_DEL, ep->fd, NULL);
		close(ep->fd);
	}
	ep->fd = -1;
	ripc__shm_doorbell_close(ep, false);
}

static void peer_name(const struct shm_ep *ep, char *text, size_t len)
{
	if (ep->pid)
		snprintf(text, len, "process %u", ep->pid);
	else
		snprintf(text, len, "a process of another PID namespace");
}

/* Checks the user of the process at the other end. Return: 0 or an error with its reason. */
static int check_peer(struct shm_ep *ep, char *why, size_t whylen)
{
	socklen_t len = sizeof(struct ucred);
	struct ucred cred;

	if (getsockopt(ep->fd, SOL_SOCKET, SO_PEERCRED, &cred, &len))
		return ripc__reason(-errno, why, whylen, "the peer's user is not known: %s",
				    ripc_strerror(errno));
	ep->pid = cred.pid;
	if (cred.uid == geteuid())
		return 0;
	return ripc__reason(-EACCES, why, whylen,
			    "the peer runs as user %u, and this process as user %u", cred.uid,
			    geteuid());
}

/* Makes our segment. Return: its descriptor or a negative errno. */
static int make_inbox(struct shm_ep *ep)
{
	struct ripc__segment s = {NULL, 0};
	int fd = ripc__segment_create(&s, ripc__ring_segment_len(&layout));

	ep->ep.ring.be.inbox = s.base;
	return fd;
}

/* Tests whether we can read the peer's memory. */
static void try_direct(struct shm_ep *ep, const struct packet *p)
{
	uint64_t seen = 0;

	ep->can_read_peer = ep->pid && p->probe_at &&
			    !ripc__shm_peer_read(ep, &seen, p->probe_at, sizeof(seen)) &&
			    seen == p->probe;
}

static void start_engine(struct shm_ep *ep)
{
	struct ripc__ring_backend be = ep->ep.ring.be;

	be.arg = ep;
	be.ops = ep->can_read_peer ? &ripc__shm_ops : &ripc__shm_unreadable_ops;
	ripc__ring_ep_open(&ep->ep, &be, &layout, 1);
}

/* ---- active ---- */

/* Whether the peer's abstract socket is known to be out of reach. */
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
 * The name of the abstract socket has 128 random bits, so only the peer on this host can have it.
 * So it is tried unless it is known to be in another namespace.
 */
static int connect_socket(struct shm *t, const struct ripc__shm_address *a)
{
	int fd = other_netns(t, a) ? -ECONNREFUSED : connect_to(a, true);

	/* If a namespace is not known, the socket in the directory may be the only one in reach. */
	if (fd == -ECONNREFUSED && a->path[0] && (!a->netns || a->netns != t->address.netns))
		fd = connect_to(a, false);
	return fd;
}

/* progress() reports an error. */
static void send_request(struct shm_ep *ep, const void *priv, size_t privlen)
{
	struct packet p = {.kind = PACKET_REQUEST, .priv = priv, .privlen = privlen};
	char why[128];
	int rc = check_peer(ep, why, sizeof(why));

	if (!rc && (p.fd = make_inbox(ep)) < 0)
		rc = ripc__reason(p.fd, why, sizeof(why), "cannot make shared memory: %s",
				  ripc_strerror(p.fd));
	if (rc) {
		ripc__ring_ep_fail(&ep->ep, rc, why);
		return;
	}
	packet_probe(ep, &p);
	rc = packet_send(ep, &p);
	close(p.fd);
	if (rc)
		ripc__ring_ep_fail(&ep->ep, rc, "the socket does not take the request");
}

static int shm_connect(struct ripc__transport *base, const uint8_t *addr, size_t addrlen,
		       const void *priv, size_t privlen, struct ripc__ep **out)
{
	struct shm *t = (struct shm *)base;
	struct ripc__shm_address a;
	struct shm_ep *ep;
	int fd;

	if (ripc__shm_address_decode(&a, addr, addrlen))
		return ripc__fail(-EINVAL, "shm: malformed address of %zu bytes", addrlen);
	if (ripc__host_differs(a.host, t->address.host))
		return ripc__fail(-EHOSTUNREACH, "shm: the peer is on another host");
	if (other_netns(t, &a) && !a.path[0])
		return ripc__fail(-EHOSTUNREACH,
				  "shm: the peer is in another network namespace of this host, and "
				  "has no socket in a shared "
				  "directory: set RIPC_SHM_DIR on both sides");
	fd = connect_socket(t, &a);
	ripc__report_descriptor(&t->reports, fd);
	if (fd == -ECONNREFUSED && !ripc__host_same(a.host, t->address.host))
		return ripc__fail(
			fd, "shm: the peer is on another host, or does not listen any more: one "
			    "of the two has no /proc, and does not know its host");
	if (fd == -ECONNREFUSED)
		return ripc__fail(fd, "shm: the peer does not listen any more");
	if (fd == -ENOENT || fd == -EACCES || fd == -EPERM)
		return ripc__fail(-EHOSTUNREACH, "shm: cannot connect to %s: %s",
				  other_netns(t, &a) ? a.path : "the peer's socket",
				  ripc_strerror(fd));
	ep = ep_new(t, fd >= 0 ? fd : -1, RIPC__EP_CONNECTING);
	if (!ep) {
		if (fd >= 0)
			close(fd);
		return ripc__fail(-ENOMEM, "shm: out of memory or descriptors");
	}
	if (fd == -EAGAIN)
		ripc__ring_ep_fail(&ep->ep, fd, "the peer's socket does not take a connection now");
	else if (fd < 0)
		ripc__ring_ep_fail(&ep->ep, fd, ripc_strerror(fd));
	else
		send_request(ep, priv, privlen);
	*out = &ep->ep;
	return 0;
}

/*
 * Receives a packet of this kind and maps the peer's segment. Return: 0, -EAGAIN: none yet, or
 * another error with *why.
 */
static int receive_segment(struct shm_ep *ep, uint8_t kind, const char **why)
{
	struct ripc__segment s = {NULL, 0};
	struct packet p = {0};
	int rc = packet_receive(ep, &p, why);

	if (!rc && p.kind == PACKET_REJECT && kind == PACKET_ACCEPT) {
		rc = -ECONNREFUSED;
		*why = "the peer refused";
	} else if (!rc && p.kind != kind) {
		rc = -EPROTO;
		*why = "a packet of unknown kind";
	} else if (!rc) {
		rc = ripc__segment_map(&s, p.fd, ripc__ring_segment_len(&layout));
		*why = rc == -ENOMEM ? "no memory to map its memory (ulimit -v)"
				     : "its memory cannot be mapped safely";
	}
	if (p.fd >= 0)
		close(p.fd);
	ep->ep.ring.be.map = s.base;
	if (!rc)
		try_direct(ep, &p);
	return rc;
}

static void handle_answer(struct shm_ep *ep)
{
	const char *why;
	int rc = receive_segment(ep, PACKET_ACCEPT, &why);

	if (!rc)
		start_engine(ep);
	else if (rc != -EAGAIN)
		ripc__ring_ep_fail(&ep->ep, rc, why);
}

/* ---- passive ---- */

/*
 * Drops an endpoint before its request was reported. @why: for the log. @rc: -ECONNRESET: nothing
 * is logged; -EMFILE, -ENOMEM: the peer is not at fault.
 */
static void drop_incoming(struct shm_ep *ep, int rc, const char *why)
{
	char who[64];

	peer_name(ep, who, sizeof(who));
	if (rc == -EMFILE || rc == -ENOMEM)
		ripc__log(RIPC_LOG_WARN, "shm: cannot connect to %s: %s", who, why);
	else if (rc != -ECONNRESET)
		ripc__report_bad_input(&shm_of(&ep->ep)->reports, who, why);
	ripc__ring_ep_defer_free(&ep->ep);
}

static unsigned handle_request(struct shm_ep *ep, struct ripc__event *ev)
{
	const char *why;
	int rc = receive_segment(ep, PACKET_REQUEST, &why);

	if (rc == -EAGAIN)
		return 0;
	if (rc) {
		/* A peer may only have tested whether somebody listens. */
		drop_incoming(ep, rc, why);
		return 0;
	}
	ripc__ring_ep_set_state(&ep->ep, RIPC__EP_REQUESTED);
	peer_name(ep, ep->ep.setup->text, sizeof(ep->ep.setup->text));
	*ev = ripc__ring_ep_request(&ep->ep, ep->pid);
	return 1;
}

unsigned ripc__shm_setup_step(struct ripc__ep *base, struct ripc__event *ev)
{
	struct shm_ep *ep = shm_ep(base);
	char byte;

	if (base->state == RIPC__EP_INCOMING)
		return handle_request(ep, ev);
	if (base->state == RIPC__EP_CONNECTING && !base->setup->failed)
		handle_answer(ep);
	/* The peer gave up. accept() reports it; until then its socket is not polled. */
	if (base->state == RIPC__EP_REQUESTED && recv(ep->fd, &byte, 1, MSG_DONTWAIT) == 0)
		epoll_ctl(base->t->fd, EPOLL_CTL_DEL, ep->fd, NULL);
	return 0;
}

static int shm_accept(struct ripc__ep *base, const void *priv, size_t privlen)
{
	struct shm_ep *ep = shm_ep(base);
	struct packet p = {.kind = PACKET_ACCEPT, .priv = priv, .privlen = privlen};
	int rc;

	p.fd = make_inbox(ep);
	if (p.fd < 0)
		return ripc__fail(p.fd, "shm: cannot make shared memory: %s", ripc_strerror(p.fd));
	packet_probe(ep, &p);
	/* Kicks before the answer would be lost, so the answer goes first. */
	rc = packet_send(ep, &p);
	close(p.fd);
	if (rc)
		return ripc__fail(-ECONNRESET,
				  "shm: the connection was lost before it was accepted");
	start_engine(ep);
	return 0;
}

static void shm_reject(struct ripc__ep *ep, const void *priv, size_t privlen)
{
	struct packet p = {.kind = PACKET_REJECT, .priv = priv, .privlen = privlen, .fd = -1};

	packet_send(shm_ep(ep), &p);
}

const struct ripc__ring_setup_ops ripc__shm_setup = {
	.ep_size = sizeof(struct shm_ep),
	.connect = shm_connect,
	.accept = shm_accept,
	.reject = shm_reject,
	.release = shm_release,
};

/*
 * The connection to close for a new one: one that has sent nothing, of the process that has most of
 * them. All are of our user; those of other users were closed at once. NULL: all have sent
 * something, which this pass or the next one reads.
 */
static struct shm_ep *most_silent(struct shm *t)
{
	struct ripc__entry entries[SHM_INCOMING_MAX];
	struct ripc__ep *ep;
	size_t n = 0;

	ripc__list_for_each_entry (ep, &t->r.eps, link)
		if (ep->state == RIPC__EP_INCOMING && n < SHM_INCOMING_MAX)
			entries[n++] =
				(struct ripc__entry){.source = (uint64_t)shm_ep(ep)->pid,
						     .since_ns = ep->setup->accepted_ns,
						     .rank = ripc__pending_rank(shm_ep(ep)->fd),
						     .object = ep};
	return ripc__admission_pick(entries, n, 1) ? entries[0].object : NULL;
}

void ripc__shm_accept_all(struct shm *t, int listener, uint64_t now_ns)
{
	unsigned most = ripc__pending_max(SHM_INCOMING_MAX);
	char why[128];

	/* The next pass accepts the rest. */
	for (unsigned i = 0; i < ACCEPTS_MAX; i++) {
		bool full = t->r.neps[RIPC__EP_INCOMING] >= most;
		struct shm_ep *ep, *victim = full ? most_silent(t) : NULL;
		int fd;

		if (full && !victim)
			return;
		fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (fd < 0) {
			if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED)
				return;
			ripc__report_descriptor(&t->reports, -errno);
			t->accept_resume_ns = now_ns + LISTEN_PAUSE_NS;
			return;
		}
		ripc__report_descriptor(&t->reports, fd);
		if (victim)
			drop_incoming(victim, -EBUSY, "too many connections without a request");
		ep = ep_new(t, fd, RIPC__EP_INCOMING);
		if (!ep) {
			close(fd);
			return;
		}
		ep->ep.setup->accepted_ns = now_ns;
		/* A process of another user fails by itself, and uses another transport. */
		if (check_peer(ep, why, sizeof(why)))
			drop_incoming(ep, -ECONNRESET, why);
	}
}
