/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * iwarp/verbs: the transport over iWARP adapters and SoftiWARP. Internal to its files.
 *
 * iWARP ends a connection if a send finds no receive posted. So each connection has its own receive
 * queue, as deep as the credit of its peer. A shared queue would need the sum of all depths, and a
 * faulty peer could use up the receives of others.
 */
#ifndef RIPC_IWARP_VERBS_H
#define RIPC_IWARP_VERBS_H

#include "transport/iwarp/listener.h"
#include "base/log.h"
#include "base/slab.h"
#include "base/text.h"
#include "transport/transport.h"
#include "transport/rdma/jobs.h"
#include "transport/rdma/queue.h"
#include "transport/rdma/region.h"

#include <errno.h>
#include <net/if.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>

#define NIC_CQS_MAX     64u    /* completion queues of a device */
#define NIC_CQ_ENTRIES  8192u  /* entries of each: some drivers cannot resize */
#define CONN_SEND_MAX   16896u /* longest send: a payload of 16 KiB and a header */
#define CONN_RECV_DEPTH 16u    /* sends the peer may have in flight */
/*
 * Two more for empty sends, which use no credit: the first one of the active side, and the last
 * one.
 */
#define CONN_RECV_BUFS (CONN_RECV_DEPTH + 2u)
/*
 * Receives of a queue pair, of which CONN_RECV_BUFS are used. With a queue of 32 entries SoftiWARP
 * creates no queue pair in a process beside another one, and reports no errno.
 */
#define CONN_RECV_WRS   34u
#define CONN_TX_DEPTH   64u /* sends and writes not retired */
#define CONN_READS_MAX  16u
#define CONN_RDMA_MAX   (UINT64_C(1) << 30)
#define CONN_INLINE_MAX 256u /* inline bytes requested from a device */
#define SMALL_MAX       512u /* largest copy in a small buffer */
#define WHY_MAX         192u /* longest reason, bytes */

#define TOKEN_SLAB 1u /* bit of a token: a slab of datagrams, not a receive buffer */

struct ripc__transport;
struct iwv_device;
struct iwv_conn;

/*
 * The states of a connection (an rdma_cm_id with its queue pair) and of an endpoint (what the core
 * knows of it).
 *
 *   connection, active    RESOLVING -> CONNECTING -> REQUEST_SENT -> UP
 *               passive   REQUESTED -> ACCEPTED -> UP
 *               both      UP -> LINGERING
 *                         any state -> DROPPED -> DESTROYED, or at once -> DESTROYED
 *
 *   endpoint, active      CONNECTING -> UP
 *             passive     REQUESTED -> ACCEPTED -> UP;  REQUESTED -> lost: WITHDRAWN
 *             both        CONNECTING, ACCEPTED, UP -> lost: BROKEN -> CLOSED
 *                         any state -> FREED
 *
 * An endpoint can be BROKEN while its connection is UP or becomes UP: messages that arrived before
 * the loss are delivered first.
 * The two set functions assert that a transition is in the tables of state.c.
 */
enum iwv_conn_state {
	IWV_RESOLVING,    /* active: rdma_resolve_addr() or rdma_resolve_route() runs */
	IWV_CONNECTING,   /* active: rdma_connect() runs in its thread */
	IWV_REQUEST_SENT, /* active: the reply is awaited */
	IWV_REQUESTED,    /* passive: the core accepts or rejects */
	IWV_ACCEPTED,     /* passive: the first send of the peer is awaited */
	IWV_UP,
	IWV_LINGERING, /* without an endpoint: its last sends are in flight */
	IWV_DROPPED,   /* without an endpoint: an event of the connection manager is awaited */
	IWV_DESTROYED, /* without an identifier: completions may be left */
	IWV_CONN_STATES
};

enum iwv_ep_state {
	IWV_EP_CONNECTING, /* active: addresses are tried one after the other */
	IWV_EP_REQUESTED,  /* passive: EV_REQUEST was reported */
	IWV_EP_ACCEPTED,   /* passive: the first send of the peer is awaited */
	IWV_EP_UP,         /* EV_ESTABLISHED was reported: posting is possible */
	IWV_EP_WITHDRAWN,  /* lost while REQUESTED: accepting it fails */
	IWV_EP_BROKEN,     /* lost: EV_CLOSED is to be reported */
	IWV_EP_CLOSED,     /* EV_CLOSED was reported */
	IWV_EP_FREED,      /* its memory is freed in the next progress() */
	IWV_EP_STATES
};

/* An rdma_cm_id with its queue pair. It may outlive its endpoint. */
struct iwv_conn {
	struct ripc__list link; /* in t->conns, then in t->destroyed */
	struct ripc__transport *t;
	struct ripc__ep *ep;    /* NULL: detached */
	struct iwv_device *nic; /* NULL: unknown yet */
	enum iwv_conn_state state;
	struct rdma_cm_id *id; /* NULL: destroyed */
	struct ibv_qp *qp;     /* NULL: none */
	struct ripc__verbs_cq *cq;
	bool cm_event_due;    /* an event is awaited: destroying the id would block for it */
	bool established;     /* RDMA_CM_EVENT_ESTABLISHED arrived */
	bool flushed;         /* active: receives were flushed before it was up; an event follows */
	uint64_t deadline_ns; /* without an endpoint: destroyed then; 0: none */
	uint64_t qp_destroyed_round;     /* t->rounds when the queue pair was destroyed */
	uint32_t read_depth;             /* reads outstanding at most */
	struct ripc__verbs_sendq tx, rd; /* sends and writes; reads: each completes in order */
	struct ripc__verbs_buf *bufs[CONN_RECV_BUFS];
	unsigned nbufs;
	struct ripc__verbs_held held; /* in t->held */
	struct ripc__verbs_job job;   /* CONNECTING: rdma_connect() with param */
	struct rdma_conn_param param;
	uint8_t priv[RIPC__PRIVATE_MAX]; /* of param */
};

/* One end of a connection, as the core knows it. */
struct ripc__ep {
	struct ripc__list link; /* in t->eps, then in t->deferred_free */
	struct ripc__transport *t;
	void *user;
	struct iwv_conn *conn; /* NULL: none */
	enum iwv_ep_state state;
	bool initiator;
	bool rejected;                      /* by the peer: reply has its private data */
	bool peer_may_exist;                /* active: an address did not refuse the connection */
	bool want_sendable;                 /* a post returned -EAGAIN */
	int error;                          /* in EV_CLOSED */
	uint64_t deadline_ns;               /* of the current address; 0: none */
	struct ripc__iwarp_address address; /* active: addresses to be tried, from addr_index on */
	unsigned addr_index;
	uint8_t priv[RIPC__PRIVATE_MAX]; /* of the core (active) or of the peer (passive) */
	size_t privlen;
	uint8_t reply[RIPC__PRIVATE_MAX];
	size_t replylen;
	char peer[64];
	char why[WHY_MAX]; /* why addresses failed, or the reason in EV_CLOSED */
};

/* A device in use. */
struct iwv_device {
	struct ripc__transport *t;
	struct ripc__verbs_device dev; /* ctx NULL: closed, another one may take its place */
	struct ripc__verbs_pool big, small;
	struct ripc__verbs_cq cq[NIC_CQS_MAX];
	unsigned ncqs;
	unsigned nconns;     /* connections on it */
	uint32_t inline_max; /* inline limit of a send, bytes */
	bool inline_known;
};

/* The source of an epoll event: low byte of its data, the index above. */
enum iwv_source { IWV_CM, IWV_CQ, IWV_UDP, IWV_CONNECT_DONE, IWV_ADDR_CHANGES, IWV_DEVICES };

/* The open transport. */
struct ripc__transport {
	const struct ripc__options *opt;
	int epoll_fd;
	struct ripc__verbs_jobs jobs;
	struct rdma_event_channel *channel;
	struct iwv_device *nic[RIPC__VERBS_DEVICES_MAX];
	unsigned nnics;
	struct ripc__iwarp_listeners listen;
	struct ripc__reports reports;
	int devices_fd;     /* changes of device files; < 0: not watched */
	bool sink_writable; /* a device needs remote write access to the targets of reads */
	uint32_t read_depth;
	struct ripc__list regions;   /* rdma/region.h */
	struct ripc__list conns;     /* with an identifier */
	struct ripc__list destroyed; /* without one, but with buffers in a completion queue */
	struct ripc__list held;
	struct ripc__list eps, deferred_free; /* freed by the next progress() */
	uint64_t next_timer_ns;               /* not later than any deadline */
	unsigned nbroken;                     /* endpoints in IWV_EP_BROKEN */
	unsigned nstalled;                    /* endpoints that want EV_SENDABLE */
	struct ibv_context *stale;            /* librdmacm must close it; NULL: none */
	char stale_path[IBV_SYSFS_PATH_MAX];  /* device file, removed with the device */
	unsigned stale_tries;
	uint64_t stale_ns; /* time of the next attempt */
	bool full_pass;    /* the next pass polls all descriptors */
	bool was_armed;    /* arm() was called: the next pass polls all descriptors */
	uint64_t rounds, now_ns;
	struct ripc__verbs_cq *active; /* queue of the last completion; NULL: none */
	uint64_t last_wc_round;        /* round of the last completion */
	struct ripc__udp udp;
	struct ripc__slab_pool slabs; /* for received datagrams */
};

/* Makes epoll report input of a descriptor. Return: 0 or a negative errno, explained. */
static inline int iwv_watch(struct ripc__transport *t, int fd, enum iwv_source source,
			    unsigned index)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.u64 = source | (uint64_t)index << 8};

	if (!epoll_ctl(t->epoll_fd, EPOLL_CTL_ADD, fd, &ev))
		return 0;
	return ripc__fail(-errno, "iwarp/verbs: cannot wait on a descriptor: %s",
			  ripc__epoll_error(errno));
}

/* A deadline was set. */
static inline void iwv_timer(struct ripc__transport *t, uint64_t when_ns)
{
	t->next_timer_ns = MIN(t->next_timer_ns, when_ns);
}

/* Sets a deadline, which ends when it is set to 0. */
static inline void iwv_set_deadline(struct ripc__transport *t, uint64_t *deadline_ns,
				    uint64_t to_ns)
{
	*deadline_ns = to_ns;
	iwv_timer(t, to_ns);
}

/* Whether the connection of an endpoint is lost, reported or not. */
static inline bool iwv_ep_lost(const struct ripc__ep *ep)
{
	return ep->state >= IWV_EP_WITHDRAWN;
}

/* device.c */
extern const struct ripc__iwarp_listen_ops ripc__iwv_listen_ops;
/* The device of a context of librdmacm; NULL: not in use. */
struct iwv_device *ripc__iwv_device_find(struct ripc__transport *t, const struct ibv_context *ctx);
/* A completion queue with room for n more, NULL: none, explained. */
struct ripc__verbs_cq *ripc__iwv_device_cq(struct iwv_device *nic, uint32_t n);
void ripc__iwv_device_lost(struct iwv_device *nic, const char *why);
/* Closes a removed device without connections. */
void ripc__iwv_device_free(struct iwv_device *nic);
/* Makes librdmacm close the context of a removed device. */
void ripc__iwv_stale_close(struct ripc__transport *t);
void ripc__iwv_nics_close(struct ripc__transport *t); /* closes all devices and listeners */

/* state.c */
void ripc__iwv_conn_set_state(struct iwv_conn *conn, enum iwv_conn_state to);
void ripc__iwv_ep_set_state(struct ripc__ep *ep, enum iwv_ep_state to);

/* The connection is lost: EV_CLOSED follows, once it is accepted. The first call counts. */
void ripc__iwv_ep_break(struct ripc__ep *ep, int error, const char *why);

/* cm.c */
/* Handles events of the connection manager. Return: transport events. */
unsigned ripc__iwv_cm(struct ripc__transport *t, struct ripc__event *events, unsigned max);

/* connection.c */
struct iwv_conn *ripc__iwv_conn_new(struct ripc__transport *t, struct ripc__ep *ep,
				    enum iwv_conn_state state);
int ripc__iwv_conn_qp(struct iwv_conn *conn); /* with its receives; explained */
/* Detaches it: afterwards no memory of the core is accessed. It is freed later. */
void ripc__iwv_conn_drop(struct iwv_conn *conn);
void ripc__iwv_conn_linger(struct iwv_conn *conn);
/* Frees destroyed connections. All completion queues were found empty in this round. */
void ripc__iwv_conns_reap(struct ripc__transport *t);
/* Destroys queue pair and identifier; blocks while an event is awaited. */
void ripc__iwv_conn_release(struct iwv_conn *conn);
void ripc__iwv_release(struct ripc__transport *t, void *token); /* release() of the vtable */
/* A completion. Return: events, at most 2. */
unsigned ripc__iwv_completion(const struct ibv_wc *wc, struct ripc__event *ev);

/* endpoint.c */
struct ripc__ep *ripc__iwv_ep_new(struct ripc__transport *t, enum iwv_ep_state state);
void ripc__iwv_ep_free(struct ripc__ep *ep);
/* Active: the current address failed. -ECONNREFUSED: nobody listens there. */
void ripc__iwv_ep_failed(struct ripc__ep *ep, int error, const char *why);
unsigned ripc__iwv_ep_events(struct ripc__transport *t, struct ripc__event *events, unsigned max);
int ripc__iwv_connect(struct ripc__transport *t, const uint8_t *addr, size_t addrlen,
		      const void *priv, size_t privlen, void *user, struct ripc__ep **epp);
int ripc__iwv_accept(struct ripc__transport *t, void *request, const void *priv, size_t privlen,
		     void *user, struct ripc__ep **epp);
void ripc__iwv_reject(struct ripc__transport *t, void *request, const void *priv, size_t privlen);
void ripc__iwv_ep_close(struct ripc__ep *ep);
int ripc__iwv_post(struct ripc__ep *ep, const void *head, size_t head_len,
		   const struct iovec *items, unsigned n, bool more);
/* Posts the sends held back. Return: 0, or -ENOTCONN: refused, the connection is lost. */
int ripc__iwv_flush_held(struct iwv_conn *conn);
int ripc__iwv_transfer(struct ripc__ep *ep, const struct ripc__transfer *x);

#endif
