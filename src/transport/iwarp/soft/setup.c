/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* From a socket to an open endpoint: TCP connection, MPA request and reply. */
#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "transport/iwarp/soft/soft.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#define CONNECT_MS 1000 /* time for the TCP connection to one address */
#define SETUP_MS   5000 /* time for the MPA frames */

static void set_deadline(struct ripc__ep *ep, unsigned ms)
{
	ep->deadline_ns = ripc__clock_ns() + ms * RIPC__MS;
	soft_timer(ep->t, ep->deadline_ns);
}

struct ripc__ep *ripc__soft_ep_new(struct ripc__transport *t, bool initiator)
{
	struct ripc__ep *ep = calloc(1, sizeof(*ep));

	if (!ep)
		return NULL;
	ep->state = initiator ? SOFT_CONNECTING : SOFT_MPA_REQ_WAIT;
	ep->initiator = initiator;
	ep->fd = -1;
	ep->t = t;
	ripc__list_init(&ep->all);
	ripc__list_init(&ep->timed);
	ripc__list_init(&ep->ready);
	ripc__list_init(&ep->held);
	ripc__list_init(&ep->blocked);
	ripc__list_init(&ep->grants);
	ep->setup = calloc(1, sizeof(*ep->setup));
	ep->engine = calloc(1, sizeof(*ep->engine));
	if (!ep->setup || !ep->engine) {
		ripc__soft_ep_free(ep);
		return NULL;
	}
	ripc__list_queue(&t->eps, &ep->all);
	ripc__list_queue(&t->timed, &ep->timed);
	set_deadline(ep, SETUP_MS);
	if (!initiator)
		t->nhalf_open++;
	return ep;
}

void ripc__soft_ep_free(struct ripc__ep *ep)
{
	ripc__list_del(&ep->all);
	ripc__list_del(&ep->timed);
	free(ep->setup);
	free(ep->engine);
	free(ep->why);
	free(ep);
}

static bool is_loopback(int fd)
{
	union ripc__sockaddr us, them;
	socklen_t a = sizeof(us), b = sizeof(them);

	if (getsockname(fd, &us.sa, &a) || getpeername(fd, &them.sa, &b))
		return false;
	return ripc__sockaddr_is_loopback(&us) && ripc__sockaddr_is_loopback(&them);
}

static bool want_crc(const struct ripc__ep *ep)
{
	if (ep->t->crc == RIPC__CRC_AUTO)
		return !is_loopback(ep->fd);
	return ep->t->crc == RIPC__CRC_ON;
}

/* Records why the current address failed. @err: a negative errno. */
static void note(struct soft_setup *s, int err, const char *why)
{
	size_t len = strlen(s->tried);

	s->peer_may_exist = s->peer_may_exist || err != -ECONNREFUSED;
	snprintf(s->tried + len, sizeof(s->tried) - len, "%s%s: %s", len ? "; " : "", s->peer, why);
}

/* Starts to connect to the current address. Return: 0, or a negative errno. */
static int start(struct ripc__ep *ep)
{
	struct soft_setup *s = ep->setup;
	struct ripc__iwarp_listen_addr *addr_index = &s->address.addrs[s->addr_index];
	union ripc__sockaddr to = addr_index->ip;
	int err;

	ripc__sockaddr_set_port(&to, addr_index->tcp);
	ripc__sockaddr_text(&to, s->peer, sizeof(s->peer));
	ep->fd = socket(to.sa.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (ep->fd < 0) {
		err = -errno;
		ripc__report_descriptor(&ep->t->reports, err);
		return err;
	}
	ripc__report_descriptor(&ep->t->reports, ep->fd);
	ripc__soft_tune(ep->t, ep->fd);
	if (connect(ep->fd, &to.sa, ripc__sockaddr_len(&to)) && errno != EINPROGRESS)
		return -errno;
	ripc__soft_ep_set_state(ep, SOFT_CONNECTING);
	err = ripc__soft_ep_watch(ep, EPOLLOUT);
	s->in_len = 0;
	set_deadline(ep, CONNECT_MS);
	return err;
}

void ripc__soft_try_next_addr(struct ripc__ep *ep)
{
	struct soft_setup *s = ep->setup;
	char why[SOFT_WHY_MAX + 32];
	int err = -EHOSTUNREACH;

	for (; s->addr_index < s->address.naddrs; s->addr_index++) {
		err = start(ep);
		if (!err)
			return;
		note(s, err, ripc__epoll_error(err));
		ripc__soft_drop_socket(ep);
	}
	/* The peer counts as dead only if every address refused the connection. */
	if (s->tried[0] && !s->peer_may_exist)
		err = -ECONNREFUSED;
	else if (!err || err == -ECONNREFUSED)
		err = -EHOSTUNREACH;
	snprintf(why, sizeof(why), "%s%s",
		 s->tried[0] ? s->tried : "no address can be reached from here",
		 s->no_answer ? ", a firewall may drop TCP" : "");
	ripc__soft_ep_break(ep, err, why);
}

/* The current address failed: tries the next one. */
static void addr_failed(struct ripc__ep *ep, int err, const char *why)
{
	note(ep->setup, err, why);
	ripc__soft_drop_socket(ep);
	ep->setup->addr_index++;
	ep->setup->basic = false;
	ripc__soft_try_next_addr(ep);
}

bool ripc__soft_send_frame(struct ripc__ep *ep, const struct ripc__mpa *frame)
{
	uint8_t out[RIPC__MPA_FRAME_MAX];
	size_t len = ripc__mpa_encode(frame, out);

	return send(ep->fd, out, len, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)len;
}

static void send_request(struct ripc__ep *ep)
{
	struct soft_setup *s = ep->setup;

	/*
	 * Peer-to-peer mode is not requested: SoftiWARP replies before it can take the first FPDU,
	 * and its connection manager crashes the kernel if the connection ends before. Also, users
	 * of verbs cannot see a Write.
	 */
	s->request = (struct ripc__mpa){
		.revision = s->basic ? 1 : 2,
		.crc = want_crc(ep),
		.enhanced = !s->basic,
		.ird = RIPC__READS_MAX,
		.ord = RIPC__READS_MAX,
		.soft = true,
		.priv = s->priv,
		.privlen = s->privlen,
	};
	ripc__soft_send_frame(ep, &s->request);
	ripc__soft_ep_set_state(ep, SOFT_MPA_REQ_SENT);
	ripc__soft_watch_for(ep, EPOLLIN);
	set_deadline(ep, SETUP_MS);
}

/*
 * Reads the frame and no byte behind it. Return: its length; 0: incomplete; negative errno with
 * *why.
 */
static int read_frame(struct ripc__ep *ep, struct ripc__mpa *frame, bool reply, const char **why)
{
	struct soft_setup *s = ep->setup;

	for (;;) {
		size_t whole = RIPC__MPA_HEADER;
		int len = ripc__mpa_decode(frame, reply, s->in, s->in_len, why);
		ssize_t n;

		if (len)
			return len;
		if (s->in_len >= RIPC__MPA_HEADER)
			whole += (size_t)s->in[18] << 8 | s->in[19];
		n = recv(ep->fd, s->in + s->in_len, whole - s->in_len, MSG_DONTWAIT);
		if (n > 0) {
			s->in_len += (size_t)n;
			continue;
		}
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return 0;
		*why = n ? strerror(errno) : "the peer closed the connection";
		return n ? -errno : -ECONNRESET;
	}
}

void ripc__soft_open_engine(struct ripc__ep *ep, const struct ripc__mpa_terms *terms)
{
	int segment = 536;
	socklen_t len = sizeof(segment);

	getsockopt(ep->fd, IPPROTO_TCP, TCP_MAXSEG, &segment, &len);
	ripc__engine_init(ep->engine, &ep->t->regions, &ep->t->pool, terms, ep->initiator,
			  (uint32_t)segment);
	ripc__soft_ep_set_state(ep, SOFT_ESTABLISHED);
	ripc__list_del(&ep->timed);
	ripc__list_queue(&ep->t->ready, &ep->ready);
}

static void step_active(struct ripc__ep *ep)
{
	struct soft_setup *s = ep->setup;
	struct ripc__mpa_terms terms;
	const char *why = "";
	int n = read_frame(ep, &s->reply, true, &why);

	if (!n)
		return;
	if (n > 0)
		n = ripc__mpa_conclude(&s->request, &s->reply, &terms, &why);
	/* A revision 1 peer may close the connection, or answer with its own revision. */
	if (!s->basic && (n == -EAGAIN || (n == -ECONNRESET && !s->in_len))) {
		s->basic = true;
		ripc__soft_drop_socket(ep);
		ripc__soft_try_next_addr(ep);
	} else if (n < 0) {
		addr_failed(ep, n, why);
	} else if (s->reply.reject) {
		ep->rejected = true;
		note(s, -ECONNREFUSED, "the peer rejected the connection");
		ripc__soft_ep_break(ep, -ECONNREFUSED, s->tried);
	} else {
		ripc__soft_open_engine(ep, &terms);
		ripc__soft_transmit(ep, SIZE_MAX);
	}
}

static unsigned step_passive(struct ripc__ep *ep, struct ripc__event *ev)
{
	struct soft_setup *s = ep->setup;
	struct ripc__mpa_terms terms;
	const char *why = "";
	bool refused = false;
	int n = read_frame(ep, &s->request, false, &why);

	if (!n)
		return 0;
	/* A port scan or an aborted connection is not reported as bad input. */
	if (n == -ECONNRESET && !s->in_len) {
		ripc__soft_ep_defer_free(ep, false);
		return 0;
	}
	if (n > 0) {
		n = ripc__mpa_answer(&s->request, want_crc(ep), RIPC__READS_MAX, &s->reply, &terms,
				     &why);
		refused = n;
		if (refused)
			ripc__soft_send_frame(ep, &s->reply);
	}
	if (n < 0) {
		ripc__report_bad_input(&ep->t->reports, s->peer, why);
		ripc__soft_ep_defer_free(ep, refused);
		return 0;
	}
	ripc__soft_ep_set_state(ep, SOFT_REQUESTED);
	ripc__list_del(&ep->timed);
	/* The core may answer later. epoll would report a reset all the time. */
	ripc__soft_unwatch(ep->t, ep->fd);
	ep->watched = 0;
	*ev = (struct ripc__event){
		.kind = RIPC__EV_REQUEST,
		.request = ep,
		.data = s->request.priv,
		.len = (uint32_t)s->request.privlen,
		.source = s->source,
		.text = s->peer,
	};
	return 1;
}

unsigned ripc__soft_setup_step(struct ripc__ep *ep, struct ripc__event *ev)
{
	socklen_t len = sizeof(int);
	int err = 0;

	switch (ep->state) {
	case SOFT_CONNECTING:
		if (getsockopt(ep->fd, SOL_SOCKET, SO_ERROR, &err, &len))
			err = errno;
		if (err) {
			addr_failed(ep, -err, strerror(err));
			return 0;
		}
		ripc__iwarp_scope_reached(&ep->t->listen,
					  &ep->setup->address.addrs[ep->setup->addr_index].ip);
		send_request(ep);
		return 0;
	case SOFT_MPA_REQ_SENT:
		step_active(ep);
		return 0;
	case SOFT_MPA_REQ_WAIT:
		return step_passive(ep, ev);
	default:
		return 0;
	}
}

void ripc__soft_ep_timers(struct ripc__transport *t)
{
	struct ripc__ep *ep, *after;

	ripc__list_for_each_entry_safe (ep, after, &t->timed, timed) {
		if (ep->deadline_ns > t->now_ns) {
			soft_timer(t, ep->deadline_ns);
		} else if (ep->state >= SOFT_BROKEN) {
			ripc__soft_ep_end_linger(ep);
		} else if (ep->initiator) {
			char why[48];

			ep->setup->no_answer |= ep->state == SOFT_CONNECTING;
			snprintf(why, sizeof(why), "no answer%s in %d ms",
				 ep->state == SOFT_MPA_REQ_SENT ? " to the MPA request" : "",
				 ep->state == SOFT_MPA_REQ_SENT ? SETUP_MS : CONNECT_MS);
			addr_failed(ep, -ETIMEDOUT, why);
		} else {
			ripc__report_bad_input(&t->reports, ep->setup->peer,
					       "no MPA request in time");
			ripc__soft_ep_defer_free(ep, false);
		}
	}
}
