/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * iwarp/soft: the transport over TCP (and UDP) around the pure engine. What its files share.
 *
 *   soft.c      the vtable; open and close, memory, progress
 *   listener.c  sockets that others reach us by; accepting
 *   setup.c     from a socket to an open endpoint
 *   endpoint.c  endpoints as the core sees them: connecting, posting, closing
 *   stream.c    moves bytes between an endpoint's socket and its engine
 *   linger.c    sockets whose endpoint is gone
 *   datagram.c  short messages over UDP
 *   groups.c    messages to groups by UDP multicast
 */
#ifndef RIPC_IWARP_SOFT_H
#define RIPC_IWARP_SOFT_H

#include "transport/iwarp/address.h"
#include "transport/iwarp/host.h"
#include "transport/net/mcast.h"
#include "transport/iwarp/soft/engine.h"
#include "transport/iwarp/udp.h"
#include "transport/transport.h"

#include <stdbool.h>
#include <stdint.h>

#define SOFT_HALF_OPEN_MAX \
	64u /* incoming connections without a request at most: base/admission.h says which goes */
#define SOFT_LINGER_MAX    64u /* closed sockets that wait for the peer's end of file at most */
#define SOFT_ACTIVE_MAX    4u  /* endpoints asked without epoll */
#define SOFT_GARBAGE_MAX   16u /* reports of garbage kept for progress() at most */
#define SOFT_DATAGRAMS_MAX 64u /* datagrams reported by one progress() at most */
#define SOFT_QUEUE_MAX     (1u << 20) /* bytes of sends queued on an endpoint at most */
#define SOFT_RDMA_MAX      (UINT64_C(1) << 30)
#define SOFT_READ_DEPTH    RIPC__READS_MAX
#define SOFT_LOANS_MAX     128 /* messages of one round that the core is asked to copy */
#define SOFT_SLAB_MEMORY \
	(UINT64_C(256) << 20) /* bytes of received sends that the core holds at most */
#define SOFT_WHY_MAX 192u     /* bytes of a reason */

/* A doubly linked ring; a link not in one points to itself. */
struct soft_link {
	struct soft_link *prev, *next;
};

#define soft_of(link, type, member) ((type *)((char *)(link)-offsetof(type, member)))

static inline void soft_link_init(struct soft_link *l)
{
	l->prev = l->next = l;
}

static inline bool soft_linked(const struct soft_link *l)
{
	return l->next != l;
}

static inline void soft_unlink(struct soft_link *l)
{
	l->prev->next = l->next;
	l->next->prev = l->prev;
	soft_link_init(l);
}

/* Puts it at the end of the list, unless it is in one already. */
static inline void soft_append(struct soft_link *list, struct soft_link *l)
{
	if (soft_linked(l))
		return;
	l->prev = list->prev;
	l->next = list;
	l->prev->next = l;
	list->prev = l;
}

/* What an event of epoll belongs to; first member of each. */
enum soft_source {
	SOFT_TCP_LISTENER,
	SOFT_UDP,
	SOFT_ENDPOINT,
	SOFT_LINGER,
	SOFT_MCAST,
	SOFT_NETLINK
};

/* A socket that others connect to or send datagrams to. */
struct soft_port {
	enum soft_source source;
	int fd;
	union ripc__sockaddr addr;
	unsigned udp; /* index in t->udp */
};

/* Sockets of one IP address. */
struct soft_listener {
	struct soft_port tcp;
	struct soft_port udp; /* fd < 0: none */
	bool loopback;
	bool gone; /* no interface has the address at present */
};

/* A closed connection: read until end of file, so that what was sent last arrives before a reset can. */
struct soft_linger {
	enum soft_source source;
	int fd;
	uint64_t deadline_ns;
	struct soft_link link; /* in t->lingers, oldest first */
};

enum soft_state {
	SOFT_CONNECTING,   /* active: TCP */
	SOFT_MPA_REQ_SENT, /* active: the request is on its way, the reply is awaited */
	SOFT_MPA_REQ_WAIT, /* passive: the request is awaited; unknown to the core */
	SOFT_REQUESTED,    /* passive: the core is to accept or reject */
	SOFT_OPEN,         /* the engine runs */
	SOFT_BROKEN,       /* EV_CLOSED is to be reported */
	SOFT_CLOSED,       /* EV_CLOSED was reported */
};

/* What an endpoint needs only until it is set up. */
struct soft_setup {
	struct ripc__iwarp_address address; /* active: places still to be tried, from place on */
	unsigned addr_index;
	bool basic;                      /* active: ask in revision 1 */
	uint8_t priv[RIPC__PRIVATE_MAX]; /* active: the core's private data */
	size_t privlen;
	struct ripc__mpa request, reply; /* as sent or received */
	uint8_t out[RIPC__MPA_FRAME_MAX];
	size_t out_len, out_sent;
	uint8_t in[RIPC__MPA_FRAME_MAX];
	size_t in_len;
	uint64_t deadline_ns;
	char tried[SOFT_WHY_MAX]; /* why places failed */
	bool peer_may_exist; /* one failed otherwise than by a refusal: the peer may live there */
	bool no_answer;      /* one did not answer the SYN at all */
	char peer[64];
	uint64_t source; /* passive: the peer's address, as EV_REQUEST tells it */
	uint64_t since_ns;
};

/* One end of a connection. */
struct ripc__ep {
	enum soft_source source;
	enum soft_state state;
	int fd; /* < 0: none */
	struct soft *t;
	void *user;
	struct soft_link all; /* in t->eps */
	struct soft_link timed; /* in t->setups while it has a deadline, then in t->settled until setup is freed */
	struct soft_link ready;     /* in t->ready: to be served without waiting for its socket */
	struct soft_link held;      /* in t->held: sends are held back */
	struct soft_link blocked;   /* in t->blocked: the socket takes no more */
	struct soft_link free_link; /* in t->graves: to be freed at the next progress() */
	struct soft_setup *setup;   /* until established */
	uint32_t watched;           /* events epoll watches for */
	uint32_t empty_polls;       /* times in a row that it was asked in vain */
	uint32_t streak;            /* posts that came back to back */
	uint64_t streak_poll;       /* t->looks at the last post */
	uint64_t last_post_ns;      /* time of it; 0: not known */
	uint64_t held_since_ns;     /* first send held back */
	bool active_ep;             /* in t->hot */
	bool out_of_epoll; /* hot, and out of epoll, whose wake-ups cost every arriving segment dear */
	uint8_t recent_rx; /* receptions since the last arm(), up to WARM */
	bool established;  /* EV_ESTABLISHED is to be reported */
	bool active;
	bool eof;                   /* nothing more can be received */
	bool starved;               /* no memory to receive into: not watched for input */
	bool want_sendable;         /* a post returned -EAGAIN */
	bool rejected;              /* by the peer: setup->reply has its private data */
	int error;                  /* of the socket, or 0; negative errno */
	char why[SOFT_WHY_MAX];     /* reason in EV_CLOSED, EV_REQUEST: who */
	struct ripc__engine engine; /* from SOFT_OPEN on */
};

/* The open transport. */
struct soft {
	struct ripc__transport_base base;
	enum ripc__crc_mode crc;
	bool datagrams;
	struct ripc__udp udp;
	struct soft_port udp_conn; /* its line */
	bool multicast;
	struct ripc__mcast mcast;
	struct soft_port mcast_ports[RIPC__MCAST_FAMILIES]; /* its sockets */
	uint64_t host;                                      /* see struct ripc__iwarp_address */
	int epoll_fd;
	struct soft_listener listeners[RIPC__IWARP_ADDRS_MAX];
	unsigned nlisteners;
	const char *interfaces;   /* allowed ones, "": all */
	struct soft_port changes; /* where the kernel tells of addresses; fd < 0: it does not */
	bool addrs_changed;       /* EV_ADDRESS is to be reported */
	uint64_t scanned_ns; /* when addresses were looked at last after the kernel told; 0: never */
	uint64_t rescan_ns; /* when they are to be looked at again; 0: not before the kernel tells */
	bool addr_overflow; /* an address found no place, and that was said */
	bool low;           /* EV_LOW is to be reported */
	int low_status;     /* its status */
	bool accept_paused; /* listeners are not watched: out of descriptors */
	uint64_t accept_resume_ns;
	uint64_t accept_logged_ns; /* when that was logged last */
	struct ripc__regions regions;
	unsigned peer_timeout_ms; /* unacknowledged for so long: the peer is gone */
	struct ripc__slab_pool pool;
	struct ripc__slab *slab;                       /* being received into, NULL: none */
	uint32_t slab_used;                            /* bytes of it */
	struct ripc__slab *held_slabs[SOFT_LOANS_MAX]; /* given back at the next round, see lend() in stream.c */
	unsigned nheld_slabs;
	bool starving; /* some endpoint is starved */
	struct soft_link eps, setups, settled, ready, held, blocked, deferred_free, lingers;
	unsigned nhalf_open, nlingers;
	struct ripc__ep *active_ep[SOFT_ACTIVE_MAX];
	unsigned nactive;
	struct ripc__ep *last_rx_ep;    /* of the hot ones: what it sent came last; NULL: none */
	struct soft_port *last_rx_port; /* the same of the sockets for datagrams */
	unsigned empty_takes;           /* times in a row that take() asked it in vain */
	bool inactive_ready;      /* the last look at all sockets found some that are not hot */
	unsigned udp_empty_polls; /* times in a row that the UDP sockets were asked in vain */
	uint64_t next_timer_ns; /* when a set-up or lingering socket may time out; 0: to be found out */
	uint64_t rounds;        /* calls of progress() */
	uint64_t polls;         /* these, and calls of take() */
	uint64_t now_ns;        /* at the last of them */
	char garbage[SOFT_GARBAGE_MAX][SOFT_WHY_MAX];
	unsigned garbage_head, garbage_tail;                       /* counters into it */
	uint8_t datagram_from[SOFT_DATAGRAMS_MAX][RIPC__UDP_FROM]; /* where the datagrams of this progress() came from */
	unsigned ndatagrams;
};

/* soft.c */
int ripc__soft_watch(struct soft *t, int fd, uint32_t events,
		     void *source); /* epoll; 0 or negative errno */
/* Before a socket (or -1) is closed: as long as a child of fork() has it open, epoll would go on to report it. */
void ripc__soft_unwatch(struct soft *t, int fd);
void ripc__soft_tune(const struct soft *t, int fd); /* options of every connection */
void ripc__soft_garbage(struct soft *t, const char *who, const char *why);
/* A descriptor was opened, or could not be (-errno): the core may have to close idle lanes. */
void ripc__soft_descriptor(struct soft *t, int fd);

/* listener.c */
int ripc__soft_listen(struct soft *t);
void ripc__soft_unlisten(struct soft *t);
void ripc__soft_accept(struct soft *t, struct soft_port *port);
void ripc__soft_resume_accept(struct soft *t);
void ripc__soft_addrs_changed(struct soft *t); /* the kernel told of addresses that changed */
void ripc__soft_rescan_addrs(struct soft *t);  /* it is time to look at them again */

/* moved.c */
uint64_t ripc__soft_tcp_progress(struct ripc__ep *ep);

/* endpoint.c */
int ripc__soft_connect(struct ripc__transport *tr, const uint8_t *addr, size_t addrlen,
		       const void *priv, size_t privlen, void *user, struct ripc__ep **epp);
int ripc__soft_admit(struct ripc__transport *tr, void *request, const void *priv, size_t privlen,
		     void *user, struct ripc__ep **epp);
void ripc__soft_reject(struct ripc__transport *tr, void *request, const void *priv, size_t privlen);
void ripc__soft_ep_close(struct ripc__ep *ep);
int ripc__soft_post_send(struct ripc__ep *ep, const struct iovec *iov, unsigned niov, bool more);
int ripc__soft_post_message(struct ripc__ep *ep, const uint8_t *head, const void *payload,
			    size_t len, bool more);
int ripc__soft_post_short(struct ripc__ep *ep, const uint8_t *head, const void *payload, size_t len,
			  bool more);
int ripc__soft_post_write(struct ripc__ep *ep, const struct ripc__mr *mr, const void *local,
			  size_t len, uint64_t raddr, uint32_t rkey, uint64_t wr_id);
int ripc__soft_post_read(struct ripc__ep *ep, const struct ripc__mr *mr, void *local, size_t len,
			 uint64_t raddr, uint32_t rkey, uint64_t wr_id);

/* setup.c */
struct ripc__ep *ripc__soft_ep_new(struct soft *t, bool active); /* with setup; NULL: no memory */
void ripc__soft_ep_defer_free(struct ripc__ep *ep); /* frees it at the next progress(); fd closed */
void ripc__soft_ep_free(struct ripc__ep *ep);
void ripc__soft_ep_break(struct ripc__ep *ep, int error, const char *why); /* EV_CLOSED will come */
void ripc__soft_try_next_addr(struct ripc__ep *ep); /* active: the next place */
unsigned ripc__soft_setup_step(struct ripc__ep *ep,
			       struct ripc__event *ev);            /* socket is ready; events 0/1 */
uint64_t ripc__soft_setup_timers(struct soft *t, uint64_t now_ns); /* return: when the next runs out */
void ripc__soft_open_engine(struct ripc__ep *ep, const struct ripc__mpa_terms *terms);

/* stream.c */
void ripc__soft_ep_activate(struct ripc__ep *ep); /* it is active: ask its socket often */
void ripc__soft_ep_deactivate(struct ripc__ep *ep);
void ripc__soft_rewatch(struct ripc__ep *ep);  /* into epoll again, if receiving took it out */
void ripc__soft_release_round(struct soft *t); /* gives back what was lent for one round */
void ripc__soft_transmit(struct ripc__ep *ep, size_t budget); /* transmits what the socket takes */
unsigned ripc__soft_serve(struct ripc__ep *ep, struct ripc__event *events, unsigned max);
bool ripc__soft_space(struct soft *t, uint8_t **space,
		      size_t *len);                   /* free bytes of t->slab; false: no memory */
void ripc__soft_space_used(struct soft *t, size_t n); /* the first n of them */

/* linger.c */
void ripc__soft_linger(struct soft *t, int fd); /* sends end of file, closes fd later */
void ripc__soft_drain(struct soft *t, struct soft_linger *l);       /* its socket is readable */
uint64_t ripc__soft_linger_timers(struct soft *t, uint64_t now_ns); /* return: when the next runs out */
void ripc__soft_linger_end(struct soft *t);                         /* closes all */

/* datagram.c */
int ripc__soft_post_datagram(struct ripc__transport *tr, const uint8_t *addr, size_t addrlen,
			     const struct iovec *iov, unsigned niov);
unsigned ripc__soft_datagrams(struct soft *t, struct soft_port *port, struct ripc__event *events,
			      unsigned max);

/* groups.c */
int ripc__soft_group_join(struct ripc__transport *tr, uint64_t group);
void ripc__soft_group_leave(struct ripc__transport *tr, uint64_t group);
int ripc__soft_post_group(struct ripc__transport *tr, uint64_t group, const struct iovec *iov,
			  unsigned niov);
unsigned ripc__soft_groups(struct soft *t, struct soft_port *port, struct ripc__event *events,
			   unsigned max);

#endif
