/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* iwarp/soft: the transport over TCP and UDP around the pure engine. Internal to its files. */
#ifndef RIPC_IWARP_SOFT_H
#define RIPC_IWARP_SOFT_H

#include "base/list.h"
#include "transport/iwarp/listener.h"
#include "transport/net/mcast.h"
#include "transport/iwarp/soft/engine.h"

#include <stdbool.h>
#include <stdint.h>

#define SOFT_HALF_OPEN_MAX  64u /* connections without an MPA request, see base/admission.h */
#define SOFT_LINGER_MAX     64u /* closed sockets that wait for end of file */
#define SOFT_ACTIVE_MAX     4u  /* endpoints polled without epoll */
#define SOFT_QUEUE_MAX      (1u << 20) /* bytes of sends queued on an endpoint at most */
#define SOFT_RDMA_MAX       (UINT64_C(1) << 30)
#define SOFT_HELD_SLABS_MAX 128 /* messages of one pass that the core must copy */
#define SOFT_SLAB_MEMORY \
	(UINT64_C(256) << 20) /* bytes of received sends that the core holds at most */
#define SOFT_WHY_MAX 192u     /* bytes of a reason */

/* The source of an epoll event: the low bits of its data. */
enum soft_source {
	SOFT_ENDPOINT,     /* the data is a pointer to it */
	SOFT_TCP_LISTENER, /* the other bits are an index: in t->listen.l, */
	SOFT_UDP,          /* in t->udp, */
	SOFT_MCAST,        /* of the family */
	SOFT_NETLINK
};

#define SOFT_SOURCE_BITS 3 /* which are 0 in a pointer */

/*
 * The states of an endpoint.
 *
 *   initiator   CONNECTING -> MPA_REQ_SENT -> ESTABLISHED
 *               CONNECTING, MPA_REQ_SENT -> next address: CONNECTING
 *   responder   MPA_REQ_WAIT -> REQUESTED -> ESTABLISHED
 *   both        ESTABLISHED -> OPEN
 *               lost: BROKEN -> CLOSED
 *               any state -> FREED
 *
 * Closing a socket with unread input resets the connection, and the peer may lose the data sent
 * last. So the socket of a BROKEN, CLOSED or FREED endpoint may linger: it is read until end of
 * file, for a limited time.
 *
 * ripc__soft_ep_set_state() asserts that a transition is in the table of ep_state.c.
 */
enum soft_ep_state {
	SOFT_CONNECTING,   /* the TCP connection is being opened */
	SOFT_MPA_REQ_SENT, /* the MPA reply is awaited */
	SOFT_MPA_REQ_WAIT, /* the MPA request is awaited; the core does not know the endpoint */
	SOFT_REQUESTED,    /* EV_REQUEST was reported: the core accepts or rejects */
	SOFT_ESTABLISHED,  /* the engine runs; EV_ESTABLISHED is to be reported */
	SOFT_OPEN,         /* the engine runs; posting is possible */
	SOFT_BROKEN,       /* lost: EV_CLOSED is to be reported */
	SOFT_CLOSED,       /* EV_CLOSED was reported */
	SOFT_FREED,        /* its memory is freed in the next progress() */
	SOFT_EP_STATES
};

/* How input of the socket is detected. */
enum soft_polling {
	SOFT_IDLE,     /* epoll */
	SOFT_ACTIVE,   /* in t->active_ep: each progress(); epoll as well */
	SOFT_SPINNING, /* as SOFT_ACTIVE, but not in epoll, which would slow down every segment */
};

enum soft_rx {
	SOFT_RX_OPEN,
	SOFT_RX_STARVED, /* no memory to receive into: input is not watched */
	SOFT_RX_EOF,     /* end of file */
};

/* State of an endpoint until it is set up. */
struct soft_setup {
	struct ripc__iwarp_address address; /* active: addresses to be tried, from addr_index on */
	unsigned addr_index;
	bool basic;                      /* active: use MPA revision 1 */
	uint8_t priv[RIPC__PRIVATE_MAX]; /* active: the core's private data */
	size_t privlen;
	struct ripc__mpa request, reply; /* as sent or received */
	uint8_t in[RIPC__MPA_FRAME_MAX];
	size_t in_len;
	char tried[SOFT_WHY_MAX]; /* why addresses failed */
	bool peer_may_exist;      /* an address did not refuse the connection */
	bool no_answer;           /* an address did not answer the SYN */
	char peer[64];
	uint64_t source; /* passive: source of EV_REQUEST */
};

/* One end of a connection. */
struct ripc__ep {
	enum soft_ep_state state;
	int fd; /* < 0: none; since SOFT_BROKEN: it lingers */
	struct ripc__transport *t;
	void *user;
	struct ripc__list all; /* in t->eps */
	/* in t->timed while it is set up or lingers; then FREED: in t->deferred_free */
	struct ripc__list timed;
	uint64_t deadline_ns;      /* in t->timed: end of the set-up or of lingering */
	struct ripc__list ready;   /* in t->ready: to be served without waiting for its socket */
	struct ripc__list held;    /* in t->held: sends are held back */
	struct ripc__list blocked; /* in t->blocked: the socket takes no more */
	struct ripc__list grants;  /* regions that the peer may write, the newest first */
	struct soft_setup *setup;  /* until trimmed */
	uint32_t watched;          /* events watched by epoll */
	uint32_t empty_polls;      /* empty polls in a row */
	uint32_t streak;           /* posts in a row without progress() in between */
	uint64_t streak_poll;      /* t->polls at the last post */
	uint64_t last_post_ns;     /* time of the last post; 0: unknown */
	uint64_t held_since_ns;    /* time of the first send held back */
	enum soft_polling polling;
	enum soft_rx rx;
	uint8_t recent_rx; /* receptions since the last arm(), up to SPIN_RX */
	bool initiator;
	bool want_sendable; /* a post returned -EAGAIN */
	bool rejected;      /* by the peer: setup->reply has its private data */
	int error;          /* of the socket, or 0; negative errno */
	char *why;          /* reason in EV_CLOSED; NULL: not closed, or no memory */
	/* runs from SOFT_ESTABLISHED on; NULL: trimmed, in saved */
	struct ripc__engine *engine;
	struct ripc__engine_conn saved;
};

/* Whether the engine runs, or is saved. */
static inline bool soft_ep_running(const struct ripc__ep *ep)
{
	return ep->state == SOFT_ESTABLISHED || ep->state == SOFT_OPEN;
}

/* The open transport. */
struct ripc__transport {
	enum ripc__crc_mode crc;
	struct ripc__udp udp;
	bool multicast;
	struct ripc__mcast mcast;
	int epoll_fd;
	struct ripc__iwarp_listeners listen;
	uint64_t accept_resume_ns; /* accept() is paused: out of descriptors; 0: it is not */
	uint64_t accept_logged_ns; /* time of its last log line */
	struct ripc__regions regions;
	unsigned peer_timeout_ms; /* TCP_USER_TIMEOUT */
	struct ripc__slab_pool pool;
	struct ripc__slab *held_slabs[SOFT_HELD_SLABS_MAX]; /* see hold_until_round() */
	unsigned nheld_slabs;
	uint64_t starved_retry_ns; /* some endpoint is starved, until then; 0: none */
	bool receiving; /* payload was received into its target since the last receiving() */
	struct ripc__list eps, timed, ready, held, blocked, deferred_free;
	unsigned nhalf_open, nlingers;
	struct ripc__ep *active_ep[SOFT_ACTIVE_MAX];
	unsigned nactive;
	struct ripc__ep *last_rx_ep; /* endpoint that received last; NULL: none */
	bool inactive_ready;         /* the last epoll call found idle endpoints with input */
	uint64_t next_timer_ns;      /* not later than the first deadline */
	uint64_t rounds;             /* calls of progress() */
	uint64_t polls;              /* calls of progress() and poll_one() */
	uint64_t now_ns;             /* time of the last of them */
	struct ripc__reports reports;
};

/* A deadline was set. */
static inline void soft_timer(struct ripc__transport *t, uint64_t when_ns)
{
	t->next_timer_ns = MIN(t->next_timer_ns, when_ns);
}

/* The epoll data of all sources but endpoints. */
static inline uint64_t soft_source(enum soft_source source, unsigned index)
{
	return source | (uint64_t)index << SOFT_SOURCE_BITS;
}

/* socket.c */
/* Makes epoll report input of a descriptor. @data: soft_source(). Return: 0 or a negative errno. */
int ripc__soft_watch(struct ripc__transport *t, int fd, uint64_t data);
int ripc__soft_ep_watch(struct ripc__ep *ep, uint32_t events); /* the same of an endpoint */
/* Sets the epoll events of an endpoint whose socket is watched. */
void ripc__soft_watch_for(struct ripc__ep *ep, uint32_t events);
/*
 * Removes a socket (or -1) from epoll before it is closed: a child of fork() may keep it open, and
 * epoll would go on reporting it.
 */
void ripc__soft_unwatch(struct ripc__transport *t, int fd);
void ripc__soft_drop_socket(struct ripc__ep *ep);              /* closes it */
void ripc__soft_tune(const struct ripc__transport *t, int fd); /* options of every connection */
uint64_t ripc__soft_tcp_progress(struct ripc__ep *ep); /* bytes_transferred() of the vtable */
void ripc__soft_ep_activate(struct ripc__ep *ep);      /* polls its socket in each progress() */
void ripc__soft_ep_deactivate(struct ripc__ep *ep);
void ripc__soft_ep_spin(struct ripc__ep *ep); /* active: takes its socket out of epoll */
/* adds its socket to epoll again, if it was taken out */
void ripc__soft_rewatch(struct ripc__ep *ep);
void ripc__soft_trim(struct ripc__ep *ep);
bool ripc__soft_restore(struct ripc__ep *ep);
/* Makes sure that a running endpoint has its engine. Return: false: no memory. */
static inline bool ripc__soft_may_run(struct ripc__ep *ep)
{
	return __builtin_expect(ep->engine != NULL, 1) || ripc__soft_restore(ep);
}

/* ep_state.c */
void ripc__soft_ep_set_state(struct ripc__ep *ep, enum soft_ep_state to);

/* The connection is lost: EV_CLOSED follows. The first call counts. */
void ripc__soft_ep_break(struct ripc__ep *ep, int error, const char *why);

/* Frees it in a later progress(). @linger: the peer must receive the data sent last. */
void ripc__soft_ep_defer_free(struct ripc__ep *ep, bool linger);

/* The socket of an endpoint that lingers is readable. */
void ripc__soft_ep_drain(struct ripc__ep *ep);
/* Closes it. */
void ripc__soft_ep_end_linger(struct ripc__ep *ep);

/* listener.c */
extern const struct ripc__iwarp_listen_ops ripc__soft_listen_ops;
void ripc__soft_accept(struct ripc__transport *t, const struct ripc__iwarp_listener *l);
/* Ends the pause of accept() after descriptors ran out. */
void ripc__soft_resume_accept(struct ripc__transport *t);

/* endpoint.c */
int ripc__soft_connect(struct ripc__transport *t, const uint8_t *addr, size_t addrlen,
		       const void *priv, size_t privlen, void *user, struct ripc__ep **epp);
int ripc__soft_admit(struct ripc__transport *t, void *request, const void *priv, size_t privlen,
		     void *user, struct ripc__ep **epp);
void ripc__soft_reject(struct ripc__transport *t, void *request, const void *priv, size_t privlen);
void ripc__soft_ep_close(struct ripc__ep *ep);
int ripc__soft_post(struct ripc__ep *ep, const void *head, size_t head_len,
		    const struct iovec *items, unsigned n, bool more);
int ripc__soft_transfer(struct ripc__ep *ep, const struct ripc__transfer *x);

/* setup.c */
struct ripc__ep *ripc__soft_ep_new(struct ripc__transport *t,
				   bool active); /* with setup; NULL: no memory */
void ripc__soft_ep_free(struct ripc__ep *ep);
void ripc__soft_try_next_addr(struct ripc__ep *ep); /* active: tries the next address */
unsigned ripc__soft_setup_step(struct ripc__ep *ep,
			       struct ripc__event *ev); /* socket is ready; events 0/1 */
void ripc__soft_ep_timers(struct ripc__transport *t);   /* deadlines of endpoints */
void ripc__soft_open_engine(struct ripc__ep *ep, const struct ripc__mpa_terms *terms);
/* Return: whether the frame was sent. It fits the empty socket buffer. */
bool ripc__soft_send_frame(struct ripc__ep *ep, const struct ripc__mpa *frame);

/* stream.c */
void ripc__soft_release_round(struct ripc__transport *t);     /* releases the slabs of held_slabs */
void ripc__soft_transmit(struct ripc__ep *ep, size_t budget); /* until the socket is full */
unsigned ripc__soft_serve(struct ripc__ep *ep, struct ripc__event *events, unsigned max);
void ripc__soft_resume_starved(
	struct ripc__transport *t); /* there may be memory to receive into again */

/* mcast.c */
int ripc__soft_group_join(struct ripc__transport *t, uint64_t group);
void ripc__soft_group_leave(struct ripc__transport *t, uint64_t group);
int ripc__soft_post_group(struct ripc__transport *t, uint64_t group, const struct iovec *iov,
			  unsigned niov);
unsigned ripc__soft_groups(struct ripc__transport *t, int fd, struct ripc__event *events,
			   unsigned max);

#endif
