/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * ib: the transport over InfiniBand and RoCE adapters. What its files share.
 *
 *   ib.c            the vtable; open and close, progress
 *   async_events.c  asynchronous events of devices, and their removal
 *   completion.c    completions of all queue pairs
 *   setup.c         endpoints from connect or request until they are freed
 *   endpoint.c      posting on a connection
 *   uc.c            writes over UC, acknowledged over RC
 *   datagram.c      the UD queue pair: short messages and wire-up messages
 *   mcast.c         multicast groups
 *   qp.c            the queue pair of a connection
 *   ep_state.c      the states of an endpoint
 *   ah_cache.c      address handles of peer ports
 *   port.c          devices and ports: GIDs, queue pairs, receive buffers
 *   address.c, wireup.c, uc_retransmit.c, worker.c: see their headers
 */
#ifndef RIPC_IB_IB_H
#define RIPC_IB_IB_H

#include "base/list.h"
#include "transport/ib/address.h"
#include "transport/ib/ep_state.h"
#include "transport/ib/uc_retransmit.h"
#include "transport/ib/wireup.h"
#include "transport/ib/worker.h"
#include "transport/transport.h"
#include "transport/rdma/device.h"
#include "transport/rdma/queue.h"
#include "transport/rdma/region.h"

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#define IB_GRH            40u   /* bytes that a received datagram has before it */
#define IB_SEND_MAX       4096u /* bytes of a send on a connection */
#define IB_RECV_SPARE     6u    /* receives beyond that, for sends of the transport itself */
#define IB_RECV_DEPTH     32u   /* sends that a peer may have in flight to an endpoint */
#define IB_SEND_DEPTH     64u   /* of a connection's send queue */
#define IB_DATAGRAM_RECV  256u  /* receives posted for datagrams, per port */
#define IB_DATAGRAM_SEND  256u  /* of its send queue */
#define IB_SRQ_SIZE       1024u /* receives that one shared queue can hold */
#define IB_SRQS_MAX       256u
#define IB_REPOST         8u     /* buffers that are posted again together */
#define IB_CQ_ENTRIES     16384u /* at first: some drivers cannot make it larger */
#define IB_READ_DEPTH_MAX 16u
#define IB_RDMA_MAX       (UINT64_C(1) << 30)
#define IB_UC_WRITE_MAX   (64u << 10) /* bytes of a write over UC */
#define IB_INLINE_BYTES   128u
#define IB_HELD_MAX       16u /* sends of an endpoint that are posted together */
#define IB_AH_CACHE_MAX   4096u
#define IB_ROUTES         64u  /* addresses whose way is remembered, a power of two */
#define IB_ROUTE_ADDRESS  96u  /* bytes of the longest of these */
#define IB_HALF_OPEN_MAX  256u /* connections that others ask for, without an answer of the core */
#define IB_ENDPOINTS_MAX  65536u
#define IB_GARBAGE_MAX    16u
#define IB_WHY_MAX        192u

struct ib;

/* A shared receive queue. Buffers for it have its index as tag. */
struct ib_srq {
	struct ibv_srq *srq;
	uint32_t size;                  /* work requests it can hold */
	uint32_t bufs;                  /* buffers that are for it */
	uint32_t reserved;              /* receives that connections may expect there */
	struct ripc__verbs_buf *repost; /* list: to be posted again */
	uint32_t nrepost;
};

/* A device, and what all its ports share. */
struct ib_device {
	struct ripc__verbs_device v;
	struct ripc__verbs_cq cq;
	struct ib_srq srqs[IB_SRQS_MAX]; /* for all connections */
	unsigned nsrqs;
	bool lost, released; /* gone, and that was reported; nothing of it is open any more */
	struct ripc__verbs_pool recv;   /* buffers of the shared receive queue */
	struct ripc__verbs_pool dgram;  /* buffers for datagrams: IB_GRH + MTU */
	struct ripc__verbs_pool bounce; /* copies of sends */
	struct ib *t;
};

#define IB_TAG_MCAST 0x80000000u /* in the tag of a buffer for datagrams: for those to groups */

/* A port's part in multicast. */
struct ib_mcast {
	struct ibv_qp *qp;              /* hears; NULL: no group was joined, or it is destroyed */
	struct ripc__verbs_buf *repost; /* list: to be posted again */
	struct ripc__verbs_buf *delivered; /* list: the core looks at them until the next progress() */
	uint32_t posted;                   /* receives that the queue pair has */
	bool stopped;      /* it hears no more: it is replaced when all of these have come back */
	uint64_t retry_ns; /* not before then */
	unsigned tries;    /* in vain, since it stopped */
};

/* A port in use. */
struct ib_port {
	struct ib *t;
	struct ib_device *d;
	uint8_t num; /* its number at the device */
	bool down;   /* reported so, or the device is gone */
	uint8_t gid_index;
	char netdev[16];                     /* RoCE: network interface of the GID */
	uint64_t rate;                       /* Mbit/s: the fastest port is the best */
	uint32_t max_msg;                    /* bytes of a transfer */
	struct ripc__ib_port_addr port_addr; /* in records */
	struct ibv_qp *qp;                   /* for datagrams */
	struct ripc__verbs_sendq sendq;
	uint32_t max_inline;
	struct ripc__verbs_buf *repost;    /* list: to be posted again */
	struct ripc__verbs_buf *delivered; /* list: the core looks at them until the next progress() */
	uint32_t nrepost, ndelivered;      /* nlent: the core holds them */
	struct ib_mcast mcast;
};

/* Another context's queue pair for datagrams, as reached from a port of ours. */
struct ib_ah_key {
	uint32_t port; /* index of ours */
	uint32_t qpn;
	uint16_t lid;
	uint16_t link;
	uint8_t gid[16]; /* InfiniBand within a subnet: 0 */
};

enum ib_ah_state { IB_AH_RESOLVING, IB_AH_READY, IB_AH_FAILED };

struct ib_ah_entry {
	struct ripc__ib_job job; /* LOOKING: makes the address handle */
	struct ib_ah_key key;
	UT_hash_handle hh;
	struct ib_port *port;
	struct ripc__ib_port_addr port_addr;
	struct ibv_ah *ah;
	enum ib_ah_state state;
	int error;         /* FAILED */
	bool confirmed;    /* something of its protocol came from there */
	bool used;         /* since the last sweep for room */
	unsigned eps;      /* connections to it */
	uint64_t probe_ns; /* when a PROBE may be sent next */
	uint64_t probe_gap_ns;
	uint64_t failed_ns; /* FAILED: when; it is tried again a second later */
};

/* An address that datagrams are sent to, and what that comes to as long as nothing changes. */
struct ib_route {
	uint64_t route_gen; /* t->changes when it was found */
	struct ib_ah_entry *ah_entry;
	uint32_t qkey, most; /* of the place; bytes that it takes */
	uint8_t len;         /* 0: none */
	uint8_t addr[IB_ROUTE_ADDRESS];
};

/* Kinds of slots of send queues. */
enum ib_slot { IB_SLOT_SEND, IB_SLOT_WRITE, IB_SLOT_READ, IB_SLOT_DATAGRAM, IB_SLOT_UC };

#define IB_KEEPALIVE_NS UINT64_C(5000000000) /* a connection that was quiet so long is tried */

/* A connection's second queue pair, for writes that may be lost. */
struct ib_uc {
	struct ibv_qp *qp;              /* NULL: destroyed, or not used: the peer has none */
	struct ripc__verbs_sendq sendq; /* slots' wr_id is the number of the write */
	struct ripc__uc_tx tx;
	struct ripc__uc_rx rx;
	struct ib_write {
		uint64_t wr_id, raddr;
		struct ibv_sge sge;
		uint32_t rkey;
	} writes[RIPC__UC_RETRANSMIT_WINDOW]; /* by number: until they are acknowledged */
	uint32_t told;                        /* WRITE_DONE was reported of all below */
	struct ripc__list late; /* in t->late: an ANSWER is owed, but something is missing */
	uint64_t late_ns;       /* it goes then in any case */
};

/* One end of a connection. It may stay after ep_close(): see ep_state.h. */
struct ripc__ep {
	struct ripc__ib_job job; /* readies the queue pair; the endpoint stays while it runs */
	struct ib *t;
	struct ib_device *d;
	struct ib_port *port;
	struct ib_ah_entry *ah_entry;
	void *user;
	struct ripc__list all;    /* in t->eps */
	struct ripc__list timed;  /* in t->timed: the wire-up has something to do some time */
	struct ripc__list events; /* in t->eventful: want_* below is to be reported */
	struct ripc__list held;   /* in t->held: sends are held back */
	struct ripc__list dying;  /* in t->dying: closed by the core, and not yet at its end */
	UT_hash_handle by_number; /* wireup.mine */
	UT_hash_handle by_qpn;    /* qpn */
	struct ripc__wireup wireup;
	struct ibv_qp *qp; /* NULL: not made, or destroyed */
	struct ib_uc *uc;  /* NULL, or without a queue pair: writes go over qp */
	struct ib_srq *srq;
	uint32_t qpn; /* ib_qp_key(); stays until no completion of it can come any more; 0: none */
	uint64_t destroyed_round; /* of t->rounds: completions may be left until the queue is found empty later */
	struct ripc__verbs_sendq sendq;
	uint32_t max_inline;
	uint32_t reads, read_depth; /* outstanding, at most */
	uint32_t rdmas;             /* reads and writes outstanding */
	struct ibv_send_wr held_wr[IB_HELD_MAX];
	struct ibv_sge held_sge[IB_HELD_MAX];
	uint32_t nheld;
	struct ripc__ib_address address; /* active: ports of the peer */
	unsigned path_index;             /* active: number of the pair of ports that is tried */
	uint8_t priv[RIPC__PRIVATE_MAX]; /* active: the core's private data */
	uint8_t privlen;
	enum ib_ep_state state;
	bool job_running;
	bool want_open;     /* EV_ESTABLISHED is to be reported */
	bool want_sendable; /* a post returned -EAGAIN */
	bool sendable;      /* EV_SENDABLE is to be reported */
	bool rejected;      /* by the peer: EV_CLOSED carries its private data */
	bool alive;         /* a message or acknowledgement came since the last keepalive pass */
	uint64_t linger_ns; /* LINGERING: ends then at the latest */
	int status;
	char why[IB_WHY_MAX];
};

/* The open transport. */
struct ib {
	struct ripc__transport_base base;
	struct ib_device devices[RIPC__VERBS_DEVICES_MAX];
	unsigned ndevices;
	struct ib_port ports[RIPC__IB_PORTS_MAX]; /* best first */
	unsigned nports;
	struct ripc__verbs_regions regions;
	struct ripc__ib_worker worker;
	struct ripc__transport_limits limits;
	bool datagrams;                      /* short messages travel as such */
	bool uc;                             /* writes over UC, where the peer does that, too */
	uint32_t inline_bytes, signal_every; /* the settings */
	enum ripc__path_mtu path_mtu;
	struct ib_group *groups; /* of mcast.c, by id */
	int member_fd[2];        /* sockets that join groups, IPv4 and IPv6; < 0: none yet */
	int epoll_fd;
	bool was_armed; /* armed since the last progress() */
	struct ib_ah_entry *ah_cache;
	unsigned ah_cache_count;
	struct ib_route routes[IB_ROUTES];
	struct ib_route *last_route; /* the one used last; NULL: none */
	uint64_t route_gen; /* of ports and remotes: another value means that no way that was found counts any more */
	struct ripc__ep *by_number, *by_qpn;
	struct ripc__ep *last_rx_ep;    /* found last in by_qpn; NULL: none */
	struct ib_device *active;       /* where the last completion came from; NULL: none */
	uint8_t from[IB_ROUTE_ADDRESS]; /* where the datagram came from that was taken last */
	struct ripc__list eps, timed, event_eps, held, dying, late;
	unsigned neps, nhalf_open, nresolving;
	bool starved;             /* some post found no memory for its copy */
	uint64_t starved_ns;      /* tried again then */
	uint64_t now_ns, rounds;  /* at the last progress(); how many of it */
	int inotify_fd;           /* tells of device files that are removed; < 0: none */
	uint64_t device_check_ns; /* when to look next whether the devices still exist */
	uint64_t keepalive_ns;    /* when to look next for connections that were quiet */
	uint64_t async_poll_ns; /* when to look for what devices report next, while nobody sleeps */
	uint64_t next_timer_ns; /* when something in timed is due */
	char garbage[IB_GARBAGE_MAX][IB_WHY_MAX];
	unsigned garbage_head, garbage_tail;
};

/* Numbers of queue pairs are a device's own. */
static inline uint32_t ib_qp_key(const struct ib_device *d, uint32_t qpn)
{
	return d->v.index << 24 | qpn;
}

/* Whether work requests may be posted. */
static inline bool ib_ep_can_post(const struct ripc__ep *ep)
{
	return ep->state == IB_EP_OPEN || ep->state == IB_EP_LINGERING;
}

/* Whether nothing is reported any more. */
static inline bool ib_ep_closed(const struct ripc__ep *ep)
{
	return ep->state >= IB_EP_LINGERING;
}

/* Whether the peer's request awaits an answer of the core. */
static inline bool ib_ep_half_open(const struct ripc__ep *ep)
{
	return ep->state == IB_EP_REQUESTED || ep->state == IB_EP_OFFERED ||
	       ep->state == IB_EP_WITHDRAWN;
}

/* port.c */
int ripc__ib_ports_open(struct ib *t, const struct ripc__options *opt);
void ripc__ib_ports_close(struct ib *t);
void ripc__ib_device_close(struct ib_device *d); /* closes it; no queue pair is left, nothing is registered */
int ripc__ib_watch(struct ib *t, int fd);
/* Posts up to IB_REPOST buffers of the list, for so many bytes each. Return: how many; those that were refused are in the list again. */
unsigned ripc__ib_post_bufs(struct ibv_qp *qp, struct ripc__verbs_buf **list, uint32_t len);
/* Post what is to be posted again. A failure loses the port or the device. */
void ripc__ib_port_repost(struct ib_port *p);
void ripc__ib_srq_repost(struct ib_device *d, struct ib_srq *srq);
/* Receives for one more connection. Return: the queue; NULL: none, explained. And no longer. */
struct ib_srq *ripc__ib_srq_reserve(struct ib_device *d);
void ripc__ib_srq_unreserve(struct ib_srq *srq);
/* release() of the vtable. */
void ripc__ib_release(struct ripc__transport *tr, void *token);
struct ib_port *ripc__ib_port_by_qpn(struct ib *t, const struct ib_device *d, uint32_t qpn);
/* The nth pair of ports that can reach each other, best first. Return: false: there are not so many. */
bool ripc__ib_select_path(struct ib *t, const struct ripc__ib_address *a, unsigned n,
			  struct ib_port **port, const struct ripc__ib_port_addr **port_addr);
int ripc__ib_set_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask, const char *what);
/* A queue pair with what inline data it can have. NULL: none, explained. */
struct ibv_qp *ripc__ib_make_qp(struct ib_device *d, struct ibv_qp_init_attr *attr);

/* async_events.c */
int ripc__ib_watch_devices(struct ib *t);
void ripc__ib_async_events(struct ib_device *d); /* reads what it reports */
void ripc__ib_device_lost(struct ib_device *d, const char *why);
void ripc__ib_check_devices(struct ib *t);   /* looks whether they still do */
void ripc__ib_devices_release(struct ib *t); /* closes lost ones, as soon as that is possible */

/* ah_cache.c */
struct ib_ah_entry *ripc__ib_ah_find(struct ib *t, const struct ib_port *port,
				     const struct ripc__ib_port_addr *port_addr);
/* Finds or makes it; it may still be looking for its way. NULL: out of memory, explained. */
struct ib_ah_entry *ripc__ib_ah_get(struct ib *t, struct ib_port *port,
				    const struct ripc__ib_port_addr *port_addr);
void ripc__ib_ah_cache_close(struct ib *t);
/* No address handle of a device is left. Return: false: a thread is making one. */
bool ripc__ib_ah_cache_invalidate(struct ib *t, const struct ib_device *d);
/* How a port of ours reaches that one. */
void ripc__ib_ah_attr(const struct ib_port *port, const struct ripc__ib_port_addr *port_addr,
		      struct ibv_ah_attr *attr);

/* datagram.c */
int ripc__ib_post_datagram(struct ripc__transport *tr, const uint8_t *addr, size_t addrlen,
			   const struct iovec *iov, unsigned niov);
int ripc__ib_post_wireup(struct ib_ah_entry *r, struct ripc__wireup_message *m); /* 0, -EAGAIN, ... */
/* A completed receive of a port. Return: events made, 0 or 1. */
unsigned ripc__ib_datagram_received(struct ib_port *p, const struct ibv_wc *wc,
				    struct ripc__event *ev);

/* Posts a datagram; @message: with our queue key, so that it can be answered. Return: 0, -EAGAIN, -ENOTCONN. */
int ripc__ib_port_post(struct ib_port *p, struct ibv_ah *ah, uint32_t qpn, uint32_t qkey,
		       const struct iovec *iov, unsigned niov, size_t len, bool message);

/* mcast.c */
bool ripc__ib_mcast_supported(const struct ib *t); /* whether some port can do it */
int ripc__ib_group_join(struct ripc__transport *tr, uint64_t id);
void ripc__ib_group_leave(struct ripc__transport *tr, uint64_t id);
int ripc__ib_post_group(struct ripc__transport *tr, uint64_t id, const struct iovec *iov,
			unsigned niov);
/* A completed receive of a port. Return: events made, 0 or 1. */
unsigned ripc__ib_mcast_received(struct ib_port *p, const struct ibv_wc *wc, struct ripc__event *ev);
void ripc__ib_mcast_reclaim(struct ib_port *p);                  /* what the core was shown */
void ripc__ib_mcast_stopped(struct ib_port *p, const char *why); /* its queue pair did */
void ripc__ib_mcast_repost(struct ib_port *p); /* as the others; a queue pair that has stopped is replaced */
void ripc__ib_mcast_device_lost(struct ib *t,
				const struct ib_device *d); /* nothing of it is open any more */
void ripc__ib_mcast_close(struct ib *t);
void ripc__ib_mcast_forked(struct ib *t); /* closes descriptors; async-signal-safe */

/* qp.c */
int ripc__ib_qp_new(struct ripc__ep *ep); /* 0 or a negative errno, explained */
/* What the peer is to know of it. */
void ripc__ib_qp_params(const struct ripc__ep *ep, struct ripc__wireup_params *q);
int ripc__ib_qp_ready(struct ripc__ib_job *job); /* in a thread: of the endpoint that begins with the job */
void ripc__ib_qp_destroy(struct ripc__ep *ep); /* nothing touches memory any more */
void ripc__ib_qp_drained(struct ripc__ep *ep); /* it is destroyed, and no completion of it can come any more */

/* setup.c */
int ripc__ib_connect(struct ripc__transport *tr, const uint8_t *addr, size_t addrlen,
		     const void *priv, size_t privlen, void *user, struct ripc__ep **epp);
int ripc__ib_accept(struct ripc__transport *tr, void *request, const void *priv, size_t privlen,
		    void *user, struct ripc__ep **epp);
void ripc__ib_reject(struct ripc__transport *tr, void *request, const void *priv, size_t privlen);
void ripc__ib_ep_close(struct ripc__ep *ep);
void ripc__ib_wireup_received(struct ib_port *p, struct ib_ah_entry *r,
			      const struct ripc__wireup_message *m);
void ripc__ib_ep_received(struct ripc__ep *ep);          /* data came over it */
uint64_t ripc__ib_timers(struct ib *t, uint64_t now_ns); /* return: when it is to be called again */
void ripc__ib_cq_drained(struct ib *t,
			 const struct ib_device *d); /* its completion queue was found empty */
unsigned ripc__ib_ep_events(struct ib *t, struct ripc__event *events, unsigned max);
bool ripc__ib_eps_closed(const struct ib *t); /* whether all closed ones have told their peers */
void ripc__ib_eps_free(struct ib *t);         /* no thread works on one any more */

/* uc.c */
int ripc__ib_uc_new(struct ripc__ep *ep);      /* makes ep->uc; 0 or a negative errno, explained */
int ripc__ib_uc_ready(struct ripc__ep *ep);    /* in a thread: as for the other queue pair */
void ripc__ib_uc_destroy(struct ripc__ep *ep); /* nothing touches memory any more */
void ripc__ib_uc_free(struct ripc__ep *ep);    /* no completion of it can come any more */
int ripc__ib_uc_write(struct ripc__ep *ep, const struct ibv_sge *sge, uint64_t raddr, uint32_t rkey,
		      uint64_t wr_id);
void ripc__ib_uc_sent(struct ripc__ep *ep, const struct ripc__verbs_slot *slot,
		      const struct ibv_wc *wc);
void ripc__ib_uc_received(struct ripc__ep *ep, const struct ibv_wc *wc);
void ripc__ib_uc_control(struct ripc__ep *ep, const uint8_t *data, uint32_t len);
void ripc__ib_uc_step(struct ripc__ep *ep); /* sends what is to be sent over the reliable one */
uint64_t ripc__ib_uc_timers(struct ib *t, uint64_t now_ns);
unsigned ripc__ib_uc_events(struct ripc__ep *ep, struct ripc__event *events, unsigned max);

/* Whether writes go over UC. */
static inline bool ib_uc_used(const struct ripc__ep *ep)
{
	return ep->uc && ep->uc->qp;
}

/* Whether all of them were acknowledged: only then may sends be posted. */
static inline bool ib_uc_all_acked(const struct ripc__ep *ep)
{
	return !ep->uc || !ep->uc->qp || ep->uc->tx.base == ep->uc->tx.next;
}

/* Receives of writes; bit 1 tells them from those of buffers. */
static inline uint64_t ib_uc_recv_id(const struct ripc__ep *ep)
{
	return (uint64_t)(uintptr_t)ep | 2;
}

/* endpoint.c */
int ripc__ib_send_control(struct ripc__ep *ep, const void *data, size_t len); /* 0, -EAGAIN, -ENOTCONN */
void ripc__ib_ep_unblock(struct ripc__ep *ep); /* EV_SENDABLE, if somebody waits for it and there may be room */
int ripc__ib_post_send(struct ripc__ep *ep, const struct iovec *iov, unsigned niov, bool more);
int ripc__ib_post_message(struct ripc__ep *ep, const uint8_t *head, const void *payload, size_t len,
			  bool more);
int ripc__ib_post_short(struct ripc__ep *ep, const uint8_t *head, const void *payload, size_t len,
			bool more);
int ripc__ib_post_write(struct ripc__ep *ep, const struct ripc__mr *mr, const void *local,
			size_t len, uint64_t raddr, uint32_t rkey, uint64_t wr_id);
int ripc__ib_post_read(struct ripc__ep *ep, const struct ripc__mr *mr, void *local, size_t len,
		       uint64_t raddr, uint32_t rkey, uint64_t wr_id);
void ripc__ib_flush_held(struct ripc__ep *ep); /* posts what is held back */
void ripc__ib_keep_alive(struct ib *t);        /* tries the connections that were quiet */

/* completion.c */
/* A completion of any queue pair. Return: events made, at most 2. */
unsigned ripc__ib_completion(struct ib_device *d, const struct ibv_wc *wc, struct ripc__event *ev);
bool ripc__ib_take(struct ripc__transport *tr, void *room, size_t cap, struct ripc__event *ev);

#endif
