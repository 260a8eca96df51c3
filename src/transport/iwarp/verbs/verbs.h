/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * iwarp/verbs: the transport over iWARP adapters and SoftiWARP. What its files share.
 *
 *   verbs.c     the vtable; open and close, memory, progress
 *   nic.c       devices: addresses to listen at, queues, buffers, removal
 *   cm.c        what librdmacm reports: connections come, are established, end
 *   dial.c      rdma_connect(), which may wait for the peer's TCP, in a thread
 *   conn.c      one connection: its queue pair, from the first buffer to the last completion
 *   endpoint.c  endpoints as the core sees them: connecting, posting, closing
 *
 * iWARP ends a connection when a send finds no receive posted. So each connection has a receive queue of its own, as deep as
 * the credit that the core gives its peer: a queue shared by all would have to be as deep as all of them together, and then
 * only adds that the fault of one peer could take the buffers of another.
 */
#ifndef RIPC_IWARP_VERBS_H
#define RIPC_IWARP_VERBS_H

#include "transport/iwarp/address.h"
#include "base/slab.h"
#include "transport/iwarp/udp.h"
#include "transport/transport.h"
#include "transport/rdma/queue.h"
#include "transport/rdma/region.h"

#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define NIC_CQS_MAX     64u   /* completion queues of one device at most */
#define NIC_CQ_ENTRIES  8192u /* of each: not every driver can make one larger later */
#define CONN_SEND_MAX   8192u
#define CONN_RECV_DEPTH 32u /* sends the peer may have in flight */
/* And two of no bytes that no credit counts: the first of the active side, and the one by which the end is noticed. */
#define CONN_RECV_BUFS  (CONN_RECV_DEPTH + 2u)
#define CONN_TX_DEPTH   64u /* sends and writes posted and not retired */
#define CONN_HELD_MAX   16u /* sends held back at most */
#define CONN_READS_MAX  16u
#define CONN_RDMA_MAX   (UINT64_C(1) << 30)
#define CONN_INLINE_MAX 256u /* bytes of a send that are asked to go inline, if the device can */
#define SMALL_MAX       512u /* bytes of a copy that takes a small buffer */
#define CONNS_MAX       (1u << 20)
#define DATAGRAMS_MAX   64u  /* reported by one progress() at most */
#define WHY_MAX         192u /* bytes of a reason */

#define TAG_DELIVERED UINT32_C(0x80000000) /* in the tag of a receive buffer: the core holds it */
#define TAG_NONE      UINT32_C(0xffffffff) /* its connection is gone */

struct iwv;
struct iwv_device;
struct iwv_conn;

/* How far a connection is. */
enum iwv_state {
	IWV_RESOLVING,    /* active: the way to the peer's address is looked for */
	IWV_CONNECTING,   /* active: rdma_connect() runs in its thread */
	IWV_REQUEST_SENT, /* active: the request is on its way */
	IWV_REQUESTED,    /* passive: the core is to accept or reject */
	IWV_ACCEPTED,     /* passive: accepted; the peer has not spoken yet */
	IWV_UP,
	IWV_DESTROYED, /* nothing more goes out or is delivered; waits to be freed */
};

/* A thread in rdma_connect(). */
struct iwv_connect_thread {
	pthread_t thread;
	bool running; /* not joined */
	struct rdma_cm_id *id;
	struct rdma_conn_param param;
	uint8_t priv[RIPC__PRIVATE_MAX];
	int done_fd;      /* eventfd to signal */
	atomic_bool done; /* result is there */
	int result;       /* 0 or a negative errno */
};

/* One rdma_cm_id with its queue pair. Outlives its endpoint until nothing refers to it. */
struct iwv_conn {
	struct ripc__list link; /* in t->conns, then in t->dead */
	struct iwv *t;
	struct ripc__ep *ep;    /* NULL: nobody's any more */
	struct iwv_device *nic; /* NULL: the device is not known yet */
	enum iwv_state state;
	struct rdma_cm_id *id; /* NULL: destroyed */
	struct ibv_qp *qp;     /* NULL: none */
	struct ripc__verbs_cq *cq;
	uint32_t index; /* in t->table, and tag of its buffers */
	bool cm_event_due; /* the connection manager owes us an event: destroying the id would wait for it */
	bool established; /* it has said so */
	bool flushed; /* active: it ended before it was up; the connection manager will say how */
	bool lingers; /* closed, its last sends are on their way */
	uint64_t deadline_ns; /* without an endpoint: then it is destroyed in any case; 0: none */
	uint64_t qp_destroyed_round;     /* t->rounds when its queue pair was destroyed */
	uint32_t read_depth;             /* reads it may have outstanding */
	struct ripc__verbs_sendq tx, rd; /* sends and writes complete in their order, reads in theirs */
	struct ripc__verbs_buf *bufs[CONN_RECV_BUFS];
	unsigned nbufs;
	struct ripc__list held; /* in t->held: sends are held back */
	struct ibv_send_wr held_wr[CONN_HELD_MAX];
	struct ibv_sge held_sge[CONN_HELD_MAX];
	unsigned nheld;
	struct iwv_connect_thread connect_thread;
};

/* One end of a connection, as the core knows it. */
struct ripc__ep {
	struct ripc__list link; /* in t->eps, then in t->graves */
	struct iwv *t;
	void *user;
	struct iwv_conn *conn; /* NULL: none at present */
	bool active;
	bool asked;           /* passive: the core has not answered EV_REQUEST */
	bool up;              /* EV_ESTABLISHED was reported or is about to be */
	bool broken;          /* EV_CLOSED is to be reported */
	bool closed;          /* it was */
	bool rejected;        /* by the peer: reply has its private data */
	bool peer_may_exist;  /* active: at some place it was not said that nobody listens there */
	bool want_sendable;   /* a post returned -EAGAIN */
	int error;            /* in EV_CLOSED */
	uint64_t deadline_ns; /* of the attempt; 0: none */
	struct ripc__iwarp_address address; /* active: places to be tried, from place on */
	unsigned addr_index;
	uint8_t priv[RIPC__PRIVATE_MAX]; /* active: the core's private data; passive: the peer's */
	size_t privlen;
	uint8_t reply[RIPC__PRIVATE_MAX];
	size_t replylen;
	char peer[64];
	char why[WHY_MAX]; /* why places failed, or the reason in EV_CLOSED */
};

struct iwv_listener {
	struct rdma_cm_id *id; /* NULL: gone with its device */
	struct iwv_device *nic;
	union ripc__sockaddr addr; /* with its port */
	int udp;                   /* index in t->udp, < 0: none */
};

/* A device in use. */
struct iwv_device {
	struct iwv *t;
	struct ripc__verbs_device dev; /* ctx NULL: closed */
	struct ripc__verbs_pool big, small;
	struct ripc__verbs_cq cq[NIC_CQS_MAX];
	unsigned ncqs;
	unsigned nconns;     /* that are on it */
	uint32_t inline_max; /* bytes that a send may have inline */
	bool inline_known;
};

/* What an event of epoll belongs to: low byte of its data, the index above. */
enum iwv_source { IWV_CM, IWV_ASYNC, IWV_CQ, IWV_UDP, IWV_CONNECT_DONE };

/* The open transport. */
struct iwv {
	struct ripc__transport_base base;
	bool datagrams;
	uint32_t inline_bytes, signal_every; /* the settings */
	int epoll_fd, connect_fd;
	struct rdma_event_channel *channel;
	struct iwv_device *nic[RIPC__VERBS_DEVICES_MAX];
	unsigned nnics;
	struct iwv_listener listeners[RIPC__IWARP_ADDRS_MAX];
	unsigned nlisteners;
	uint32_t read_depth;
	uint64_t host; /* see struct ripc__iwarp_address */
	struct ripc__verbs_regions regions;
	struct ripc__list conns,
		destroyed; /* those with an identifier; those whose buffers may still be in a completion queue */
	struct ripc__list held;
	struct ripc__list eps, deferred_free; /* closed ones: an event may still point into them */
	struct iwv_conn **table;              /* by index; free ones are NULL */
	uint32_t table_size;
	unsigned ntimed;        /* endpoints and connections that have a deadline */
	uint64_t next_timer_ns; /* the earliest of these at most */
	unsigned nbroken;       /* endpoints with something to be reported */
	unsigned nstalled;      /* endpoints that want EV_SENDABLE */
	unsigned nconnects;     /* threads */
	struct ibv_context *stale; /* of a removed device, compared only: librdmacm is to close it; NULL: none */
	char stale_path[IBV_SYSFS_PATH_MAX]; /* of its file, which goes with the device */
	unsigned stale_tries;
	uint64_t stale_ns; /* when it is asked to again */
	bool full_pass;    /* at everything, in the next round */
	bool was_armed;    /* armed: the same, without hurry */
	uint64_t rounds, now_ns;
	struct ripc__verbs_cq *active; /* where the last completion came from; NULL: none */
	uint64_t last_wc_round;        /* when the last completion was found */
	struct ripc__udp udp;
	struct ripc__slab_pool slabs; /* that datagrams are received into */
	struct ripc__slab *slab;      /* the present one; NULL: none */
	uint32_t slab_used;
	uint8_t from[DATAGRAMS_MAX][RIPC__UDP_FROM]; /* where those of this round came from */
	unsigned ndatagrams;
	unsigned last_rx_port;   /* in udp: where the last one came to */
	uint64_t datagram_round; /* when that was */
	unsigned empty_takes;    /* times in a row that take() asked for one in vain */
	char who[WHY_MAX];       /* text of EV_GARBAGE */
};

/* verbs.c */
int ripc__iwv_watch(struct iwv *t, int fd, enum iwv_source source,
		    unsigned index); /* 0 or a negative errno */
void ripc__iwv_unwatch(struct iwv *t, int fd);

/* nic.c */
int ripc__iwv_listen(struct iwv *t, const struct ripc__options *opt);
/* The device of a context of librdmacm; NULL: not in use. */
struct iwv_device *ripc__iwv_device_find(struct iwv *t, const struct ibv_context *ctx);
bool ripc__iwv_is_ours(const struct iwv *t, const union ripc__sockaddr *ip);
/* A completion queue with room for n more, NULL: none, explained. */
struct ripc__verbs_cq *ripc__iwv_device_cq(struct iwv_device *nic, uint32_t n);
void ripc__iwv_device_async(struct iwv_device *nic);
void ripc__iwv_device_lost(struct iwv_device *nic, const char *why);
/* Lets go of a device that is gone once nothing is on it. */
void ripc__iwv_device_free(struct iwv_device *nic);
/* Has librdmacm let go of a removed device, as long as it has not. */
void ripc__iwv_stale_close(struct iwv *t);
void ripc__iwv_nics_close(struct iwv *t); /* all, and the listeners */

/* cm.c */
/* What the connection manager reports; requests become events. Return: events. */
unsigned ripc__iwv_cm(struct iwv *t, struct ripc__event *events, unsigned max);

/* dial.c */
int ripc__iwv_dial(struct iwv_conn *conn);
void ripc__iwv_connect_join(struct iwv_conn *conn); /* it is over, or cancelled: joins */
void ripc__iwv_connects_done(struct iwv *t);        /* looks which have ended */

/* conn.c */
struct iwv_conn *ripc__iwv_conn_new(struct iwv *t, struct ripc__ep *ep);
int ripc__iwv_conn_qp(struct iwv_conn *conn); /* makes the queue pair, posts receives; explained */
/* A send of no bytes: the first of the active side, or the last, which is reported when all before it are gone. */
int ripc__iwv_conn_mark(struct iwv_conn *conn, bool signaled);
/* Lets go of it: no memory of the core is touched any more. What is left of it is freed in time. */
void ripc__iwv_conn_drop(struct iwv_conn *conn);
void ripc__iwv_conn_linger(struct iwv_conn *conn);
/* Frees those that nothing refers to any more: all completion queues were found empty in this round. */
void ripc__iwv_conns_reap(struct iwv *t);
/* Destroys queue pair and identifier. Waits for the connection manager if that owes an answer. */
void ripc__iwv_conn_release(struct iwv_conn *conn);
void ripc__iwv_conn_deadline(struct iwv_conn *conn, uint64_t deadline_ns); /* 0: none */
void ripc__iwv_conn_repost(struct iwv_conn *conn, struct ripc__verbs_buf *buf);
/* A completion. Return: events, at most 2. */
unsigned ripc__iwv_completion(struct iwv *t, const struct ibv_wc *wc, struct ripc__event *ev);

/* endpoint.c */
struct ripc__ep *ripc__iwv_ep_new(struct iwv *t, bool active);
void ripc__iwv_ep_free(struct ripc__ep *ep);
void ripc__iwv_ep_break(struct ripc__ep *ep, int error, const char *why); /* EV_CLOSED will come */
void ripc__iwv_ep_try_next(struct ripc__ep *ep); /* active: the next place that can be tried */
/* Active: the place being tried is given up. -ECONNREFUSED: its host says that nobody listens there. */
void ripc__iwv_ep_failed(struct ripc__ep *ep, int error, const char *why);
void ripc__iwv_ep_deadline(struct ripc__ep *ep, uint64_t deadline_ns); /* 0: none */
unsigned ripc__iwv_ep_events(struct iwv *t, struct ripc__event *events, unsigned max);
int ripc__iwv_connect(struct ripc__transport *tr, const uint8_t *addr, size_t addrlen,
		      const void *priv, size_t privlen, void *user, struct ripc__ep **epp);
int ripc__iwv_accept(struct ripc__transport *tr, void *request, const void *priv, size_t privlen,
		     void *user, struct ripc__ep **epp);
void ripc__iwv_reject(struct ripc__transport *tr, void *request, const void *priv, size_t privlen);
void ripc__iwv_ep_close(struct ripc__ep *ep);
int ripc__iwv_post(struct ripc__ep *ep, const void *head, size_t head_len,
		   const struct iovec *items, unsigned n, bool more);
/* Posts what is held back, all at once. Return: 0, or -ENOTCONN: refused, and the connection is over. */
int ripc__iwv_flush_held(struct iwv_conn *conn);
int ripc__iwv_post_write(struct ripc__ep *ep, const struct ripc__mr *mr, const void *local,
			 size_t len, uint64_t raddr, uint32_t rkey, uint64_t wr_id);
int ripc__iwv_post_read(struct ripc__ep *ep, const struct ripc__mr *mr, void *local, size_t len,
			uint64_t raddr, uint32_t rkey, uint64_t wr_id);

#endif
