/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* ib: the transport over InfiniBand and RoCE adapters. Internal to its files. */
#ifndef RIPC_IB_IB_H
#define RIPC_IB_IB_H

#include "base/list.h"
#include "transport/ib/address.h"
#include "transport/ib/uc_retransmit.h"
#include "transport/ib/wireup.h"
#include "transport/reports.h"
#include "transport/rdma/device.h"
#include "transport/rdma/jobs.h"
#include "transport/rdma/queue.h"
#include "transport/rdma/region.h"

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#define IB_GROUP_QKEY     0x01234567u /* of all groups, as of librdmacm */
#define IB_GRH            40u         /* bytes before the payload of a received datagram */
#define IB_SEND_MAX       4608u /* longest send on a connection: a payload of 4 KiB and a header */
#define IB_RECV_HEAD      64u   /* bytes before a receive, for 4 bytes of immediate data */
#define IB_RECV_SPARE     6u    /* additional receives, for control messages */
#define IB_RECV_DEPTH     32u   /* sends in flight from a peer to an endpoint */
#define IB_SEND_DEPTH     64u   /* entries of the send queue of a connection */
#define IB_DATAGRAM_RECV  256u  /* receives posted for datagrams, per port */
#define IB_DATAGRAM_SEND  256u  /* entries of its send queue */
#define IB_SRQ_SIZE       1024u /* most receives of a shared receive queue */
#define IB_SRQS_MAX       256u
#define IB_REPOST         8u     /* receive buffers reposted by one call */
#define IB_CQ_ENTRIES     16384u /* initial size: some drivers cannot resize */
#define IB_READ_DEPTH_MAX 16
#define IB_RDMA_MAX       (UINT64_C(1) << 30)
#define IB_UC_WRITE_MAX   (64u << 10) /* longest write over UC, bytes */
#define IB_INLINE_BYTES   128u
#define IB_AH_CACHE_MAX   4096u
#define IB_ROUTES         64u  /* cached routes, a power of two */
#define IB_ROUTE_ADDRESS  96u  /* longest address that is cached, bytes */
#define IB_HALF_OPEN_MAX  256u /* requests that the core has not answered */
#define IB_ENDPOINTS_MAX  65536u
#define IB_JOBS_MAX       4u /* threads for calls that block */
#define IB_WHY_MAX        192u

struct ripc__transport;

/* A shared receive queue, the owner of its buffers. */
struct ib_srq {
	struct ibv_srq *srq;
	uint32_t size;     /* capacity in work requests */
	uint32_t bufs;     /* buffers allocated for it */
	uint32_t reserved; /* receives reserved by connections */
	uint32_t lost; /* most receives that queue pairs took and lost when they were destroyed */
	struct ripc__verbs_buf *repost; /* list: to be posted again */
	uint32_t nrepost;
};

/* A device with the resources its ports share. */
struct ib_device {
	struct ripc__verbs_device v; /* ctx NULL: closed, after it was lost */
	struct ripc__verbs_cq cq;
	struct ib_srq srqs[IB_SRQS_MAX]; /* for all connections */
	unsigned nsrqs;
	struct ripc__verbs_pool recv;   /* buffers of the shared receive queue */
	struct ripc__verbs_pool dgram;  /* buffers for datagrams: IB_GRH + MTU */
	struct ripc__verbs_pool bounce; /* bounce buffers of sends */
	struct ripc__transport *t;
};

/* A UD queue pair of a port with its receives, buffers of the pool dgram, whose owner it is. */
struct ib_ud {
	struct ib_port *port;
	struct ibv_qp *qp; /* NULL: not created, or destroyed */
	uint32_t max_inline;
	struct ripc__verbs_buf *repost; /* list: to be posted again */
	/* list: the core reads them until the next progress() */
	struct ripc__verbs_buf *delivered;
	uint32_t nrepost;
	uint32_t posted;   /* receives posted to the queue pair */
	bool stopped;      /* in error: reset after all receives were flushed */
	uint64_t retry_ns; /* stopped: earliest time of the reset */
	unsigned tries;    /* failed resets in a row */
};

/* A port in use. */
struct ib_port {
	struct ripc__transport *t;
	struct ib_device *d;
	uint8_t num;    /* port number of the device */
	bool down;      /* a port event reported it, it is unusable, or the device is lost */
	bool readdress; /* down; takes other addresses when qp is reset */
	uint8_t gid_index;
	char netdev[16];                     /* RoCE: network interface of the GID */
	uint64_t rate;                       /* Mbit/s; ports are sorted by it */
	uint32_t max_msg;                    /* largest message, bytes */
	struct ripc__ib_port_addr port_addr; /* as in resolver records; link 0: none */
	struct ib_ud ud;                     /* sends datagrams, and receives those to this port */
	struct ib_ud mcast;             /* receives datagrams to groups, from the first one on */
	struct ripc__verbs_sendq sendq; /* of ud */
	uint32_t ndelivered;            /* datagrams of ud that the core holds */
};

/* The UD queue pair of a peer port, as reached from a local port. */
struct ib_ah_key {
	uint32_t port; /* index of the local port */
	uint32_t qpn;
	uint16_t lid;
	uint16_t link;
	uint8_t gid[16]; /* InfiniBand within a subnet: 0 */
};

/*
 *   NEW, FAILED --a job starts--> RESOLVING --> READY or FAILED      READY --device gone--> FAILED
 *
 * ripc__ib_ah_set_state() asserts that a transition is in the table of ah_cache.c.
 */
enum ib_ah_state { IB_AH_NEW, IB_AH_RESOLVING, IB_AH_READY, IB_AH_FAILED, IB_AH_STATES };

struct ib_ah_entry {
	struct ripc__verbs_job job; /* RESOLVING: creates the address handle */
	struct ib_ah_key key;
	UT_hash_handle hh;
	struct ib_port *port;
	struct ripc__ib_port_addr port_addr;
	struct ibv_ah *ah;
	enum ib_ah_state state; /* ripc__ib_ah_set_state() */
	int error;              /* FAILED */
	bool confirmed;         /* a wire-up message arrived from there */
	bool used;              /* used since the last eviction */
	unsigned eps;           /* connections that use it */
	bool sent;              /* a datagram was sent with it */
	uint32_t sent_upto;     /* tail of the port's send queue after the last one */
	uint64_t probe_ns;      /* earliest time of the next PROBE */
	uint64_t probe_gap_ns;
	uint64_t failed_ns; /* FAILED: time of the failure; resolved again after a second */
};

/* A cached route: what an address resolved to. */
struct ib_route {
	uint64_t route_gen; /* t->route_gen when it was resolved */
	struct ib_ah_entry *ah_entry;
	uint32_t qkey, most; /* Q_Key of the peer port; largest datagram */
	uint8_t len;         /* 0: unused */
	uint8_t addr[IB_ROUTE_ADDRESS];
};

/* Kinds of send queue slots. IB_SLOT_SEND, 0, is that of an empty request, too. */
enum ib_slot { IB_SLOT_SEND, IB_SLOT_WRITE, IB_SLOT_READ, IB_SLOT_DATAGRAM, IB_SLOT_UC };

#define IB_KEEPALIVE_NS UINT64_C(5000000000) /* idle time after which a keepalive is sent */

/* The UC queue pair of a connection, for writes. */
struct ib_uc {
	struct ibv_qp *qp;              /* NULL: destroyed, or the peer has none */
	struct ripc__verbs_sendq sendq; /* slot wr_id: number of the write */
	struct ripc__uc_tx tx;
	struct ripc__uc_rx rx;
	struct ib_write {
		uint64_t wr_id, raddr;
		struct ibv_sge sge;
		uint32_t rkey;
	} writes[RIPC__UC_RETRANSMIT_WINDOW]; /* by number, until reported */
	uint32_t reported;                    /* EV_WRITE_DONE was reported for all below */
	struct ripc__list late; /* in t->late: an ANSWER is delayed for missing writes */
	uint64_t late_ns;       /* latest time of the ANSWER */
};

/*
 * The states of an endpoint.
 *
 *   active    CONNECTING
 *   passive   REQUESTED -> PENDING -> accepted: CONNECTING
 *   both      CONNECTING -> ESTABLISHED -> OPEN
 *             CONNECTING, OPEN -> lost: BROKEN -> DRAINED -> REPORTED
 *             ESTABLISHED -> lost and EV_ESTABLISHED reported: BROKEN
 *             ESTABLISHED, OPEN -> closed by the core: LINGERING -> CLOSING
 *             any state -> CLOSING -> freed
 *
 * ripc__ib_ep_set_state() asserts that a transition is in the table of ep_state.c.
 */
enum ib_ep_state {
	IB_EP_CONNECTING, /* the wire-up runs; the core knows the endpoint */
	IB_EP_REQUESTED,  /* EV_REQUEST is to be reported */
	/* EV_REQUEST was reported: the core accepts, which fails if it was lost, or rejects. */
	IB_EP_PENDING,
	/*
	 * EV_ESTABLISHED is to be reported, before all that was received. Posting is possible,
	 * unless the connection was lost meanwhile.
	 */
	IB_EP_ESTABLISHED,
	IB_EP_OPEN,      /* posting is possible */
	IB_EP_BROKEN,    /* lost: earlier completions are still delivered */
	IB_EP_DRAINED,   /* the completion queue was found empty: EV_CLOSED is to be reported */
	IB_EP_REPORTED,  /* EV_CLOSED was reported: the core closes it */
	IB_EP_LINGERING, /* closed by the core: its last sends are in flight */
	IB_EP_CLOSING, /* closed by the core, or never reported to it: the peer is being notified */
	IB_EP_STATES
};

/* EV_SENDABLE: NONE -> a post returned -EAGAIN: WANTED -> there is room: DUE -> reported: NONE */
enum ib_sendable { IB_SENDABLE_NONE, IB_SENDABLE_WANTED, IB_SENDABLE_DUE };

/* One end of a connection. It may stay after ep_close(): see its states. */
struct ripc__ep {
	struct ripc__verbs_job job; /* readies the queue pair; the endpoint stays while it runs */
	struct ripc__transport *t;
	struct ib_device *d;
	struct ib_port *port;
	struct ib_ah_entry *ah_entry;
	void *user;
	struct ripc__list all;    /* in t->eps */
	struct ripc__list timed;  /* in t->timed: the wire-up has a message due or a timer */
	struct ripc__list events; /* in t->event_eps: events are to be reported */
	struct ripc__list dying;  /* in t->dying: closed by the core, not yet freed */
	UT_hash_handle by_number; /* key: wireup.mine */
	UT_hash_handle by_qpn;    /* key: qpn */
	struct ripc__wireup wireup;
	struct ibv_qp *qp; /* NULL: not created, or destroyed */
	struct ib_uc *uc;  /* NULL, or qp NULL: writes use RC */
	struct ib_srq *srq;
	uint32_t qpn;             /* ib_qp_key(); kept until no completion can come; 0: none */
	uint64_t destroyed_round; /* t->rounds when qp was destroyed */
	struct ripc__verbs_sendq sendq;
	uint32_t max_inline;
	/* bytes of a packet, if 4 bytes of a message may travel as immediate data; else 0 */
	uint32_t packet;
	uint32_t reads, read_depth;      /* reads outstanding; most reads outstanding */
	uint32_t rdmas;                  /* reads and writes outstanding */
	struct ripc__verbs_held held;    /* in t->held */
	struct ripc__ib_address address; /* active: ports of the peer */
	unsigned path_index;             /* active: index of the path that is tried */
	uint8_t priv[RIPC__PRIVATE_MAX]; /* active: the core's private data */
	uint8_t privlen;
	enum ib_ep_state state;
	enum ib_sendable sendable;
	bool fin;           /* the last send of the peer arrived */
	bool rejected;      /* by the peer: EV_CLOSED carries its private data */
	bool alive;         /* a message or acknowledgement arrived since the last keepalive pass */
	uint64_t linger_ns; /* LINGERING: latest end */
	int status;
	char why[IB_WHY_MAX];
};

/* The open transport. */
struct ripc__transport {
	struct ib_device devices[RIPC__VERBS_DEVICES_MAX];
	unsigned ndevices;
	struct ib_port ports[RIPC__IB_PORTS_MAX]; /* best first */
	unsigned nports;
	struct ripc__list regions; /* rdma/region.h */
	struct ripc__verbs_jobs jobs;
	struct ripc__transport_limits limits;
	bool uc; /* writes use UC, if the peer does too */
	const struct ripc__options *opt;
	struct ib_group *groups; /* by id; mcast.c */
	int member_fd[2];        /* sockets that join groups, IPv4 and IPv6; < 0: not open */
	int epoll_fd;
	bool was_armed; /* arm() was called since the last progress() */
	struct ib_ah_entry *ah_cache;
	struct ib_route routes[IB_ROUTES];
	struct ib_route *last_route; /* the one used last; NULL: none */
	uint64_t route_gen;          /* changes whenever cached routes become invalid */
	struct ripc__ep *by_number, *by_qpn;
	struct ripc__ep *last_rx_ep;    /* last found in by_qpn; NULL: none */
	struct ib_device *active;       /* device of the last completion; NULL: none */
	uint8_t from[IB_ROUTE_ADDRESS]; /* source of the last datagram of poll_one() */
	struct ripc__list eps, timed, event_eps, held, dying, late;
	unsigned nhalf_open, nresolving;
	uint64_t retry_ns;        /* then posts without a bounce buffer are retried; 0: none */
	uint64_t now_ns, rounds;  /* time of the last progress(); number of calls */
	int inotify_fd;           /* changes of device files; < 0: none */
	uint64_t device_check_ns; /* next check that devices exist */
	uint64_t reopen_ns;       /* then devices that are there again are opened; 0: none */
	uint64_t keepalive_ns;    /* next keepalive pass */
	uint64_t async_poll_ns;   /* next read of asynchronous events, while polling */
	uint64_t next_timer_ns;   /* earliest timer in timed */
	struct ripc__reports reports;
};

/* Puts a buffer into a list. */
static inline void ib_buf_push(struct ripc__verbs_buf **list, struct ripc__verbs_buf *buf)
{
	buf->next = *list;
	*list = buf;
}

/* Moves n buffers, which are reserved, from the pool into a list. */
static inline void ib_bufs_take(struct ripc__verbs_buf **list, struct ripc__verbs_pool *pool,
				uint32_t n, void *owner)
{
	while (n--) {
		struct ripc__verbs_buf *buf = ripc__verbs_pool_get(pool);

		buf->owner = owner;
		ib_buf_push(list, buf);
	}
}

/* QP numbers are unique per device only. */
static inline uint32_t ib_qp_key(const struct ib_device *d, uint32_t qpn)
{
	return d->v.index << 24 | qpn;
}

/* Whether work requests may be posted. */
static inline bool ib_ep_can_post(const struct ripc__ep *ep)
{
	return ep->state == IB_EP_OPEN || ep->state == IB_EP_LINGERING ||
	       (ep->state == IB_EP_ESTABLISHED && !ep->status);
}

/* Whether the core gets no more reports. */
static inline bool ib_ep_closed(const struct ripc__ep *ep)
{
	return ep->state >= IB_EP_LINGERING;
}

static inline struct ripc__event ib_event(struct ripc__ep *ep, enum ripc__ev_kind kind)
{
	return (struct ripc__event){.kind = kind, .user = ep->user, .ep = ep};
}

/* port.c */
int ripc__ib_ports_open(struct ripc__transport *t);
void ripc__ib_ports_close(struct ripc__transport *t);
void ripc__ib_port_close(struct ib_port *p);     /* destroys its UD queue pair */
void ripc__ib_device_close(struct ib_device *d); /* no queue pair and no registration is left */
/* Opens a closed device that is there again, with its ports. Else it is lost as before. */
void ripc__ib_device_reopen(struct ib_device *d, struct ibv_device *device);
int ripc__ib_watch(struct ripc__transport *t, int fd);
/* Reads the attributes of a port. Return: 0, or a negative errno with why: unusable. */
int ripc__ib_port_query(struct ib_port *p, char *why, size_t whylen);
/*
 * Posts up to IB_REPOST buffers of the list, @len bytes of each from @head on, to a queue pair or a
 * shared receive queue. Return: how many; refused ones are in the list again.
 */
unsigned ripc__ib_post_bufs(struct ibv_qp *qp, struct ibv_srq *srq, struct ripc__verbs_buf **list,
			    uint32_t head, uint32_t len);
/* Posts the buffers of the repost list. Refused ones stay in it. */
void ripc__ib_srq_repost(struct ib_device *d, struct ib_srq *srq);
/* Reserves the receives of a connection. Return: the queue; NULL: none, explained. */
struct ib_srq *ripc__ib_srq_reserve(struct ib_device *d);
/* @lost: the queue pair may have taken a receive, for a message that was not complete. */
void ripc__ib_srq_unreserve(struct ib_srq *srq, bool lost);
/* release() of the vtable. */
void ripc__ib_release(struct ripc__transport *t, void *token);
/*
 * The nth path, best first: a local and a peer port that reach each other. Return: whether there is
 * one.
 */
bool ripc__ib_select_path(struct ripc__transport *t, const struct ripc__ib_address *a, unsigned n,
			  struct ib_port **port, const struct ripc__ib_port_addr **port_addr);
int ripc__ib_no_path(void); /* explains that; return: -EHOSTUNREACH */
int ripc__ib_set_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask, const char *what);
/* Creates a queue pair, without inline data if the device refuses them. NULL: failed, explained. */
struct ibv_qp *ripc__ib_make_qp(struct ib_device *d, struct ibv_qp_init_attr *attr);

/* async_events.c */
/*
 * Reads and handles all events of devices; with @check or once a second also checks that they
 * exist. Closes removed devices that have no connections; opens those that are there again.
 */
void ripc__ib_async_events(struct ripc__transport *t, bool check);
void ripc__ib_device_lost(struct ib_device *d, const char *why);
/* After an event, or when its device was opened: reads whether it is up, and its addresses. */
void ripc__ib_port_changed(struct ib_port *p);
/*
 * After ripc__ib_port_changed(), in each pass: takes the other addresses when all work of the UD
 * queue pair was flushed and no job uses the old ones. Then the queue pair is reset.
 */
void ripc__ib_port_readdress(struct ib_port *p);

/* ah_cache.c */
void ripc__ib_ah_set_state(struct ib_ah_entry *r, enum ib_ah_state to);
struct ib_ah_entry *ripc__ib_ah_find(struct ripc__transport *t, const struct ib_port *port,
				     const struct ripc__ib_port_addr *port_addr);
/* Finds or creates the entry, which may still resolve. NULL: failed, explained. */
struct ib_ah_entry *ripc__ib_ah_get(struct ripc__transport *t, struct ib_port *port,
				    const struct ripc__ib_port_addr *port_addr);
void ripc__ib_ah_cache_close(struct ripc__transport *t);
/* Destroys the address handles of a port. Return: false: a thread is creating one. */
bool ripc__ib_ah_cache_invalidate(const struct ib_port *port);
/* The address vector from a local to a peer port. */
void ripc__ib_ah_attr(const struct ib_port *port, const struct ripc__ib_port_addr *port_addr,
		      struct ibv_ah_attr *attr);

/* datagram.c */
int ripc__ib_post_datagram(struct ripc__transport *t, const uint8_t *addr, size_t addrlen,
			   const struct iovec *iov, unsigned niov);
/* 0, -EAGAIN, ... */
int ripc__ib_post_wireup(struct ib_ah_entry *r, struct ripc__wireup_message *m);
/* A completed receive of a port. Return: events made, 0 or 1. */
unsigned ripc__ib_datagram_received(struct ib_port *p, const struct ibv_wc *wc,
				    struct ripc__event *ev);
/* The same, of at most IB_GRH bytes and those of room, to which the payload is copied. */
bool ripc__ib_datagram_take(struct ib_port *p, const struct ibv_wc *wc, void *room,
			    struct ripc__event *ev);

/*
 * Posts a datagram. @message: with our Q_Key, so that it can be answered. Return: 0, -EAGAIN,
 * -ENOTCONN.
 */
int ripc__ib_port_post(struct ib_port *p, struct ibv_ah *ah, uint32_t qpn, uint32_t qkey,
		       const struct iovec *iov, unsigned niov, size_t len, bool message);

/* ud_qp.c */
/*
 * Creates the queue pair with its Q_Key and receives. @sends: entries of its send queue. Return: 0
 * or a negative errno, explained.
 */
int ripc__ib_ud_open(struct ib_port *p, struct ib_ud *u, uint32_t sends);
/* Posts the buffers of the repost list. Refused ones stay in it. Resets a stopped queue pair. */
void ripc__ib_ud_repost(struct ib_ud *u);
void ripc__ib_ud_again(struct ib_ud *u, struct ripc__verbs_buf *buf); /* puts it into that list */
void ripc__ib_ud_reclaim(struct ib_ud *u); /* takes back buffers that the core has read */
/* The queue pair is in error: it is reset, and keeps its number and Q_Key. */
void ripc__ib_ud_stopped(struct ib_ud *u, const char *why);
/* A receive has completed. Return: whether it brought a datagram. */
bool ripc__ib_ud_received(struct ib_ud *u, const struct ibv_wc *wc);

/* mcast.c */
bool ripc__ib_mcast_supported(const struct ripc__transport *t); /* whether a port supports it */
int ripc__ib_group_join(struct ripc__transport *t, uint64_t id);
void ripc__ib_group_leave(struct ripc__transport *t, uint64_t id);
int ripc__ib_post_group(struct ripc__transport *t, uint64_t id, const struct iovec *iov,
			unsigned niov);
/* A completed receive of a port. Return: events made, 0 or 1. */
unsigned ripc__ib_mcast_received(struct ib_port *p, const struct ibv_wc *wc,
				 struct ripc__event *ev);
/*
 * Before the addresses of a port change: leaves its groups, and destroys their address handles. No
 * send of the UD queue pair is in flight.
 */
void ripc__ib_mcast_detach(struct ib_port *p);
void ripc__ib_mcast_attach(struct ib_port *p);        /* afterwards: joins them again */
void ripc__ib_mcast_port_close(struct ib_port *p);    /* detaches it, destroys its queue pair */
void ripc__ib_mcast_close(struct ripc__transport *t); /* all ports, and frees the groups */

/* ep_state.c */
void ripc__ib_ep_set_state(struct ripc__ep *ep, enum ib_ep_state to);

/* Reports events of the endpoint in this or the next progress(). */
void ripc__ib_ep_queue_event(struct ripc__ep *ep);

/*
 * The connection is lost: EV_CLOSED follows, if the core knows the endpoint. The first call counts.
 */
void ripc__ib_ep_break(struct ripc__ep *ep, int status, const char *why);

/* EV_ESTABLISHED is being reported: OPEN, or BROKEN if the connection was lost meanwhile. */
void ripc__ib_ep_established(struct ripc__ep *ep);

/* Stops all reports of the endpoint. @to: IB_EP_LINGERING or IB_EP_CLOSING. */
void ripc__ib_ep_leave(struct ripc__ep *ep, enum ib_ep_state to);

/* qp.c */
int ripc__ib_qp_new(struct ripc__ep *ep); /* 0 or a negative errno, explained */
/* Assigns a new queue pair to the port of the endpoint. @access: IBV_ACCESS_*. */
int ripc__ib_qp_init(const struct ripc__ep *ep, struct ibv_qp *qp, unsigned access,
		     const char *what);
/* The parameters for the peer. */
void ripc__ib_qp_params(const struct ripc__ep *ep, struct ripc__wireup_params *q);
int ripc__ib_qp_ready(struct ripc__verbs_job *job); /* in a thread of its own */
void ripc__ib_qp_destroy(struct ripc__ep *ep);      /* no memory is accessed afterwards */
void ripc__ib_qp_drained(struct ripc__ep *ep);      /* destroyed, and no completion can come */

/* setup.c */
int ripc__ib_connect(struct ripc__transport *t, const uint8_t *addr, size_t addrlen,
		     const void *priv, size_t privlen, void *user, struct ripc__ep **epp);
int ripc__ib_accept(struct ripc__transport *t, void *request, const void *priv, size_t privlen,
		    void *user, struct ripc__ep **epp);
void ripc__ib_reject(struct ripc__transport *t, void *request, const void *priv, size_t privlen);
void ripc__ib_ep_close(struct ripc__ep *ep);
void ripc__ib_wireup_received(struct ib_port *p, struct ib_ah_entry *r,
			      const struct ripc__wireup_message *m);
void ripc__ib_ep_received(struct ripc__ep *ep); /* data was received */
uint64_t ripc__ib_timers(struct ripc__transport *t,
			 uint64_t now_ns); /* return: when to call again */
void ripc__ib_cq_drained(struct ripc__transport *t,
			 const struct ib_device *d); /* its completion queue was found empty */
unsigned ripc__ib_ep_events(struct ripc__transport *t, struct ripc__event *events, unsigned max);
bool ripc__ib_eps_closed(
	const struct ripc__transport *t); /* whether all closed ones notified their peers */
void ripc__ib_eps_free(struct ripc__transport *t); /* no job runs */

/* uc.c */
int ripc__ib_uc_new(struct ripc__ep *ep);      /* 0 or a negative errno, explained */
void ripc__ib_uc_destroy(struct ripc__ep *ep); /* no memory is accessed afterwards */
void ripc__ib_uc_free(struct ripc__ep *ep);    /* no more completions are possible */
int ripc__ib_uc_write(struct ripc__ep *ep, const struct ibv_sge *sge,
		      const struct ripc__transfer *x);
void ripc__ib_uc_sent(struct ripc__ep *ep, const struct ripc__verbs_slot *slot,
		      const struct ibv_wc *wc);
void ripc__ib_uc_received(struct ripc__ep *ep, const struct ibv_wc *wc);
void ripc__ib_uc_control(struct ripc__ep *ep, const uint8_t *data, uint32_t len);
void ripc__ib_uc_step(struct ripc__ep *ep); /* sends a due MARK or ANSWER */
uint64_t ripc__ib_uc_timers(struct ripc__transport *t, uint64_t now_ns);
unsigned ripc__ib_uc_events(struct ripc__ep *ep, struct ripc__event *events, unsigned max);

/* Whether writes use UC. */
static inline bool ib_uc_used(const struct ripc__ep *ep)
{
	return ep->uc && ep->uc->qp;
}

/* Whether all UC writes are acknowledged: sends wait for that. */
static inline bool ib_uc_all_acked(const struct ripc__ep *ep)
{
	return !ep->uc || !ep->uc->qp || ep->uc->tx.base == ep->uc->tx.next;
}

/* endpoint.c */
/* 0, -EAGAIN, -ENOTCONN */
int ripc__ib_send_control(struct ripc__ep *ep, const void *data, size_t len);
void ripc__ib_ep_unblock(struct ripc__ep *ep); /* EV_SENDABLE, if one is due */
int ripc__ib_post(struct ripc__ep *ep, const void *head, size_t head_len, const struct iovec *items,
		  unsigned n, bool more);
int ripc__ib_transfer(struct ripc__ep *ep, const struct ripc__transfer *x);
void ripc__ib_flush_held(struct ripc__ep *ep);       /* posts the sends held back */
void ripc__ib_keep_alive(struct ripc__transport *t); /* sends keepalives on idle connections */
/*
 * Bounce buffers ran out: reports EV_SENDABLE. Sends that are not signaled return their buffers
 * with the completion of a later one only, so a keepalive is sent behind them.
 */
void ripc__ib_retry_starved(struct ripc__transport *t);

/* completion.c */
/* A completion of any queue pair. Return: events made, at most 2. */
unsigned ripc__ib_completion(struct ib_device *d, const struct ibv_wc *wc, struct ripc__event *ev);
bool ripc__ib_take(struct ripc__transport *t, void *room, size_t cap, struct ripc__event *ev);

#endif
