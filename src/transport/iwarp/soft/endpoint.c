/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Endpoints as the core uses them: connect, accept, reject, post, close. */
#include "base/clock.h"
#include "base/iov.h"
#include "base/log.h"
#include "transport/iwarp/soft/soft.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define STREAK          4u     /* posts in a row after which their rate is measured */
#define STREAK_GAP_NS   5000u  /* average interval of posts below which they are held back */
#define PENDING_CONN_NS 20000u /* longest time a send is held back */
#define HELD_BYTES      49152u /* bytes held back at most */
/* sends up to this size are copied: cheaper than gathering in the kernel */
#define COPY_MAX 512u
/* bytes transmitted by one post: a held Write, and the send that announces it */
#define PUSH_BYTES (WRITE_HOLD_MAX + 8192)
/* Writes up to this size are transmitted together with the send that announces them. */
#define WRITE_HOLD_MAX (256u << 10)

int ripc__soft_connect(struct ripc__transport *t, const uint8_t *addr, size_t addrlen,
		       const void *priv, size_t privlen, void *user, struct ripc__ep **epp)
{
	struct ripc__iwarp_address address;
	struct ripc__ep *ep;

	if (ripc__iwarp_address_decode(&address, addr, addrlen))
		return ripc__fail(-EINVAL, "iwarp/soft: malformed address of the peer: %zu bytes",
				  addrlen);
	if (!ripc__iwarp_address_order(&address, t->udp.host, t->listen.scopes, t->listen.nscopes))
		return ripc__fail(-EHOSTUNREACH,
				  "iwarp/soft: the peer listens on the loopback of another host, "
				  "or at IPv6 link-local addresses, and no interface in use here "
				  "has one");
	ep = ripc__soft_ep_new(t, true);
	if (!ep)
		return ripc__fail(-ENOMEM, "iwarp/soft: out of memory");
	ep->user = user;
	ep->setup->address = address;
	if (privlen)
		memcpy(ep->setup->priv, priv, privlen);
	ep->setup->privlen = privlen;
	*epp = ep;
	ripc__soft_try_next_addr(ep);
	return 0;
}

int ripc__soft_admit(struct ripc__transport *t, void *request, const void *priv, size_t privlen,
		     void *user, struct ripc__ep **epp)
{
	struct ripc__ep *ep = request;
	struct soft_setup *s = ep->setup;
	struct ripc__mpa_terms terms;
	const char *why;
	int err;

	err = ripc__soft_ep_watch(ep, EPOLLIN);
	if (err) {
		ripc__soft_ep_defer_free(ep, false);
		return ripc__fail(err, "iwarp/soft: cannot watch the connection: %s",
				  strerror(-err));
	}
	ripc__mpa_answer(&s->request, s->reply.crc, RIPC__READS_MAX, &s->reply, &terms, &why);
	s->reply.priv = priv;
	s->reply.privlen = privlen;
	if (!ripc__soft_send_frame(ep, &s->reply)) {
		ripc__soft_ep_defer_free(ep, false);
		return ripc__fail(-ECONNRESET,
				  "iwarp/soft: the connection was lost before it was accepted");
	}
	ep->user = user;
	ripc__soft_open_engine(ep, &terms);
	*epp = ep;
	return 0;
}

void ripc__soft_reject(struct ripc__transport *t, void *request, const void *priv, size_t privlen)
{
	struct ripc__ep *ep = request;
	struct soft_setup *s = ep->setup;

	s->reply.reject = true;
	s->reply.priv = priv;
	s->reply.privlen = privlen;
	if (privlen)
		ripc__soft_send_frame(ep, &s->reply);
	ripc__soft_ep_defer_free(ep, privlen);
}

void ripc__soft_ep_close(struct ripc__ep *ep)
{
	bool running = soft_ep_running(ep);

	if (running && ep->engine)
		ripc__soft_transmit(ep, SIZE_MAX);
	ripc__soft_ep_defer_free(ep, running);
}

/* Whether posts are frequent enough to combine several in one call. */
static bool rapid(struct ripc__ep *ep)
{
	uint64_t now, last = ep->last_post_ns;

	if (ep->streak_poll != ep->t->polls) {
		ep->streak_poll = ep->t->polls;
		if (ep->streak <= STREAK)
			ep->streak = 0;
	}
	if (++ep->streak <= STREAK) {
		ep->last_post_ns = 0;
		return false;
	}
	now = ripc__clock_ns();
	ep->last_post_ns = now;
	if (!last)
		return false;
	if (now - last > STREAK_GAP_NS) {
		ep->streak = 0;
		return false;
	}
	return true;
}

/* The system call is no pause of the caller: the next interval starts after it. */
static void sent_at(struct ripc__ep *ep)
{
	if (ep->streak > STREAK)
		ep->last_post_ns = ripc__clock_ns();
}

/* Holds a send back. Return: 1, or 0 if all was transmitted. */
static int hold(struct ripc__ep *ep)
{
	uint64_t now = ep->last_post_ns;

	if (ripc__list_empty(&ep->held)) {
		ripc__list_queue(&ep->t->held, &ep->held);
		ep->held_since_ns = now;
	}
	if (ripc__engine_queued(ep->engine) < HELD_BYTES &&
	    (!now || now - ep->held_since_ns < PENDING_CONN_NS))
		return 1;
	ripc__soft_transmit(ep, PUSH_BYTES);
	sent_at(ep);
	return ripc__engine_pending(ep->engine);
}

/* Sends directly from the memory of the caller, unless the send is small; queues the rest. */
static int send_direct(struct ripc__ep *ep, const struct iovec *iov, unsigned niov, size_t len)
{
	uint8_t head[RIPC__SEND_HEADER + COPY_MAX + RIPC__TRAILER_MAX], tail[RIPC__TRAILER_MAX];
	uint8_t empty[RIPC__SEND_HEADER + RIPC__TRAILER_MAX];
	struct iovec all[1 + RIPC__POST_ITEMS_MAX + 3];
	struct msghdr msg = {.msg_iov = all, .msg_iovlen = niov + 2};
	uint32_t msn = ep->engine->conn.msn_send;
	size_t empty_len = ripc__engine_pad_send(ep->engine, iov, niov, len, empty);
	size_t tail_len = ripc__engine_frame(ep->engine, iov, niov, len, head, tail);
	ssize_t n;
	int err;

	if (len <= COPY_MAX) {
		ripc__iov_gather(head + RIPC__SEND_HEADER, iov, niov);
		memcpy(head + RIPC__SEND_HEADER + len, tail, tail_len);
		all[0] = (struct iovec){head, RIPC__SEND_HEADER + len + tail_len};
		msg.msg_iovlen = 1;
		n = send(ep->fd, head, all[0].iov_len, MSG_NOSIGNAL | MSG_DONTWAIT);
	} else {
		struct iovec *to = all;

		if (empty_len)
			*to++ = (struct iovec){empty, empty_len};
		to[0] = (struct iovec){head, RIPC__SEND_HEADER};
		memcpy(to + 1, iov, niov * sizeof(*iov));
		to[niov + 1] = (struct iovec){tail, tail_len};
		msg.msg_iovlen += empty_len != 0;
		n = sendmsg(ep->fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
	}
	if (n == (ssize_t)(empty_len + RIPC__SEND_HEADER + len + tail_len))
		return 0;
	if (n < 0 && errno == EFAULT) {
		/* The kernel took no byte: the sends were not framed. */
		ep->engine->conn.msn_send = msn;
		return -EFAULT;
	}
	if (n < 0 && errno != EAGAIN && errno != EINTR) {
		/* Input received before the loss is still delivered: progress() detects the end. */
		ep->error = -errno;
		ripc__list_queue(&ep->t->ready, &ep->ready);
		return -ENOTCONN;
	}
	err = ripc__engine_queue_sent(ep->engine, all, (unsigned)msg.msg_iovlen,
				      n < 0 ? 0 : (size_t)n);
	ripc__list_queue(err ? &ep->t->ready : &ep->t->blocked, err ? &ep->ready : &ep->blocked);
	return err ? err : 1;
}

static inline int check_open(struct ripc__ep *ep)
{
	if (ep->state != SOFT_OPEN || ep->error)
		return -ENOTCONN;
	if (!ripc__soft_may_run(ep))
		return -ENOMEM;
	return ep->engine->status ? -ENOTCONN : 0;
}

int ripc__soft_post(struct ripc__ep *ep, const void *head, size_t head_len,
		    const struct iovec *items, unsigned n, bool more)
{
	struct iovec iov[1 + RIPC__POST_ITEMS_MAX];
	struct ripc__engine *e;
	unsigned niov = 1 + n;
	size_t len;
	int err = check_open(ep);

	if (err)
		return err;
	e = ep->engine;
	len = ripc__post_gather(iov, head, head_len, items, n);
	if (len > RIPC__SEND_MAX)
		return -EMSGSIZE;
	if (ripc__engine_queued(e) >= SOFT_QUEUE_MAX) {
		ep->want_sendable = true;
		return -EAGAIN;
	}
	if (ep->polling == SOFT_IDLE)
		ripc__soft_ep_activate(ep);
	more |= rapid(ep);
	if (!more && ripc__engine_idle(e) && len <= e->conn.ulpdu_max - RIPC__DDP_UNTAGGED) {
		err = send_direct(ep, iov, niov, len);
		sent_at(ep);
		return err;
	}
	err = ripc__engine_send(e, iov, niov, len);
	if (err)
		return err;
	if (more && ripc__list_empty(&ep->blocked))
		return hold(ep);
	if (ripc__list_empty(&ep->blocked))
		ripc__soft_transmit(ep, PUSH_BYTES);
	return ripc__engine_pending(e);
}

int ripc__soft_transfer(struct ripc__ep *ep, const struct ripc__transfer *x)
{
	bool write = x->kind == RIPC__WRITE;
	int err = check_open(ep);

	if (!err && x->len > SOFT_RDMA_MAX)
		return -EMSGSIZE;
	if (!err)
		err = write ? ripc__engine_write(ep->engine, x) : ripc__engine_read(ep->engine, x);
	if (err == -EAGAIN)
		ep->want_sendable = true;
	if (err == -ENOMEM)
		ripc__fail_text(err, "iwarp/soft: out of memory");
	if (err)
		return err;
	ripc__soft_ep_activate(ep);
	/* The next post() or progress() transmits a held Write. */
	if ((!write || x->len > WRITE_HOLD_MAX) && ripc__list_empty(&ep->blocked))
		ripc__soft_transmit(ep, PUSH_BYTES);
	/* progress() transmits the rest and reports completion. */
	ripc__list_queue(&ep->t->ready, &ep->ready);
	return 0;
}
