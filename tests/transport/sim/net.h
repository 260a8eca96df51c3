/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Internals that the files of the simulated network share. */
#ifndef RIPC_TRANSPORT_SIM_NET_H
#define RIPC_TRANSPORT_SIM_NET_H

#include "base/clock.h"
#include "transport/sim/sim.h"
#include "transport/transport.h"

#define HASH_NONFATAL_OOM 1
#include <uthash.h>
#include <utlist.h>

#define SIM_TEXT_MAX    96
#define SIM_ADDRESS_LEN 8
#define SIM_GROUPS_MAX  8 /* groups that a transport can receive */

struct sim_conn;

/* A scheduled callback. Kept by value in a heap ordered by time, then by age. */
struct sim_timer {
	uint64_t at_ns, seq;
	void (*fire)(struct ripc__sim *net, void *obj, uint64_t arg);
	void *obj;
	uint64_t arg;
};

/*
 * Registered memory. It outlives its dereg() while an operation refers to it, to detect late use.
 */
struct sim_region {
	struct sim_region *prev, *next; /* list of its transport, while registered */
	uint8_t *base;
	size_t len;
	uint64_t addr; /* base as advertised to peers: deliberately not the local address */
	uint32_t key;
	unsigned access;
	unsigned refs; /* the registration and the operations that refer to it */
	bool pinned;
	bool alive;
	uint64_t written; /* bytes from base that the peer wrote without a gap */
};

enum sim_op_kind {
	OP_REQUEST, /* connection request */
	OP_ACCEPT,
	OP_REJECT,
	OP_READY, /* the active side has received the acceptance */
	OP_SEND,
	OP_WRITE,
	OP_READ, /* read request */
	OP_READ_REPLY,
	OP_FIN, /* the sender has closed its end */
};

/* One operation in one direction of a connection. */
struct sim_op {
	struct sim_op *prev, *next;
	enum sim_op_kind kind;
	uint64_t id; /* id of its departure, for the timer */
	uint64_t arrival_ns;
	uint64_t wr_id;
	uint64_t raddr;
	uint32_t rkey;
	bool departed; /* data holds the bytes of the source */
	bool message;  /* OP_WRITE: with immediate data */
	uint32_t imm;
	bool valid; /* OP_READ_REPLY: the target accepted the request */
	/* OP_WRITE, OP_READ: local memory; OP_READ_REPLY: memory of the target */
	struct sim_region *region;
	struct sim_region *dest; /* OP_READ_REPLY: destination region */
	uint8_t *source;         /* source of the bytes at departure */
	uint8_t *dest_addr;      /* OP_READ, OP_READ_REPLY: destination */
	size_t len;
	uint8_t *data;
};

enum sim_state { EP_NONE, EP_CONNECTING, EP_REQUESTED, EP_ACCEPTED, EP_ESTABLISHED };

/* One end of a connection. */
struct ripc__ep {
	struct sim_conn *conn;
	struct ripc__transport *t;    /* NULL: not accepted yet, or closed */
	struct ripc__ep *prev, *next; /* list of t */
	void *user;
	enum sim_state state;
	bool lost; /* EV_CLOSED is scheduled or reported */
	bool closed_reported;
	bool established_queued; /* EV_ESTABLISHED is pending or reported */
	bool want_sendable;
	unsigned outstanding; /* posts that use an entry of the queue */
	unsigned reads;       /* reads among them */
	unsigned unreleased;  /* receives used by the peer's sends */
	struct sim_op *held;  /* delayed sends */
};

/* One direction of a connection. Only its head has a timer, so that every delay keeps the order. */
struct sim_channel {
	struct sim_op *ops;
	uint64_t last_arrival_ns, last_departure_ns;
	uint64_t blocked_since_ns; /* time since which its head is blocked; 0: not blocked */
	bool timer_pending;        /* its head has a timer */
};

struct sim_conn {
	struct sim_conn *prev, *next;
	struct sim_node *node[2]; /* 0: active side */
	struct ripc__ep end[2];
	struct sim_channel channel[2]; /* channel[i]: from end i to the other */
	bool broken;                   /* broken by a fault: carries nothing more */
	bool fin;                      /* the active side closed before it received an answer */
	unsigned timers;               /* pending timers that refer to this connection */
};

/* An event that a transport will report; packets keep their order of arrival. */
struct sim_packet {
	struct sim_packet *prev, *next;
	struct ripc__event ev;
	struct ripc__ep *ep;   /* endpoint whose receive it uses; NULL: none, or closed */
	struct sim_conn *conn; /* with op: its connection */
	struct sim_op *op;     /* executed by progress() instead of reported */
	int side;              /* with op: the end from which it came */
	bool receive;          /* it uses a receive of ep */
	char text[SIM_TEXT_MAX];
	uint8_t from[8];
	size_t data_len; /* bytes of @data; those of a write are not here */
	uint8_t data[];
};

struct ripc__transport {
	struct ripc__sim *net;
	struct sim_node *node;
	struct ripc__transport_limits limits;
	uint32_t queue_depth;
	bool target_progress;
	struct ripc__ep *eps;
	struct sim_region *regions;
	uint64_t pinned;                 /* bytes of pinned regions */
	struct sim_packet *inbox;        /* pending */
	struct sim_packet *reported;     /* reported, until release() */
	struct sim_packet *transient;    /* valid until the next progress() */
	unsigned datagrams;              /* packets that hold a datagram */
	uint64_t groups[SIM_GROUPS_MAX]; /* whose multicast it receives; 0: a free entry */
};

struct sim_datagram {
	struct sim_datagram *prev, *next;
	uint8_t from[16];
	size_t len;
	uint8_t data[];
};

struct ripc__sim_port {
	struct ripc__sim *net;
	struct sim_node *node;
	struct sim_datagram *inbox;
	unsigned queued;
};

struct sim_node {
	UT_hash_handle hh; /* by instance */
	uint8_t instance[16];
	uint32_t index;
	bool dead, host_dead; /* dead: its process has ended; silent: its host as well */
	bool held, hostile;
	struct ripc__transport *t;
	struct ripc__sim_port *port;
	struct ripc *ctx;
	uint64_t tx_free_ns; /* time at which it has sent everything posted so far */
	unsigned side;       /* of a partition of the whole network */
};

/* An injected fault between two nodes. */
struct sim_pair {
	struct sim_node *a, *b;
	bool partitioned;
	uint64_t break_in; /* operations until the break; 0: none */
};

/* A datagram in flight. */
struct sim_in_flight {
	struct sim_in_flight *prev, *next;
	struct sim_node *from, *to;
	bool resolver; /* for the resolver port of to, not for its transport */
	size_t len;
	uint8_t data[];
};

struct sim_actor {
	void (*fn)(void *arg);
	void *arg;
};

struct ripc__sim {
	struct ripc__sim_config config;
	uint64_t rng, now_ns, seq;
	int fd;
	struct sim_timer *heap;
	size_t nheap, heapcap;
	struct sim_node **nodes;
	size_t nnodes;
	struct sim_node *by_instance; /* uthash */
	struct sim_pair *pairs;
	size_t npairs;
	struct sim_conn *conns;
	struct sim_in_flight *in_flight;
	struct ripc__sim_counters counters;
	char first_violation[256];  /* the first violation */
	uint64_t fail_write_in;     /* number of the write that fails, from now on; 0: none */
	uint64_t reads_tried;       /* reads since fail_reads was set */
	uint64_t fail_read_from;    /* number of the first read that fails */
	uint64_t fail_reads;        /* number of reads that fail from there on; 0: none */
	uint64_t regs, fail_reg_at; /* registrations so far; number of the one that fails */
	uint64_t connects, fail_connect_at;
	uint64_t event_at; /* see ripc__sim_at_event(); 0: none */
	void (*event_fn)(void *arg);
	void *event_arg;
	ripc__sim_audit_fn *audit;
	ripc__sim_tamper_fn *tamper;
	void *tamper_arg;
	ripc__sim_arrival_fn *arrival;
	void *arrival_arg;
	ripc__sim_audience_fn *audience;
	void *audience_arg;
	ripc__sim_fail_fn *fail;
	void *fail_arg;
	struct sim_actor *actors;
	size_t nactors;
	uint64_t activity;     /* grows with each event */
	unsigned still_rounds; /* rounds of the world without progress of time */
	bool idling;
};

/* net.c */
bool ripc__sim_random_bool(struct ripc__sim *net, double probability);
/* lo and hi included */
uint64_t ripc__sim_random_range(struct ripc__sim *net, uint64_t lo, uint64_t hi);
uint64_t ripc__sim_delay(struct ripc__sim *net);
int ripc__sim_timer(struct ripc__sim *net, uint64_t at_ns,
		    void (*fire)(struct ripc__sim *net, void *obj, uint64_t arg), void *obj,
		    uint64_t arg);
struct sim_node *ripc__sim_find(struct ripc__sim *net, const uint8_t instance[16]);
/* created if it does not exist */
struct sim_node *ripc__sim_node(struct ripc__sim *net, const uint8_t instance[16]);
struct sim_pair *ripc__sim_pair(struct ripc__sim *net, const struct sim_node *a,
				const struct sim_node *b);
bool ripc__sim_partitioned(struct ripc__sim *net, const struct sim_node *a,
			   const struct sim_node *b);
void ripc__sim_report_violation(struct ripc__sim *net, uint64_t *counter,
				const struct sim_node *who, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
/* Time at which len bytes posted now have left the node. */
uint64_t ripc__sim_tx_done_ns(struct ripc__sim *net, struct sim_node *node, size_t len);

int ripc__sim_encode_address(const struct sim_node *node, uint8_t *buf);
/* The number of the node in an address. Return: whether it is one. */
bool ripc__sim_address_node(const uint8_t *addr, size_t len, uint32_t *index);
struct sim_node *ripc__sim_decode_address(struct ripc__sim *net, const uint8_t *addr, size_t len);

/* memory.c */
int ripc__sim_reg(struct ripc__transport *t, struct ripc__ep *ep, void *base, size_t len,
		  unsigned access, struct ripc__mr *mr);
uint64_t ripc__sim_written(struct ripc__transport *t, const struct ripc__mr *mr);
void ripc__sim_dereg(struct ripc__transport *t, struct ripc__mr *mr);
/* Pins a region before the device uses it. Return: 0, or -ENOMEM with an error detail. */
int ripc__sim_pin(struct ripc__transport *t, const struct ripc__mr *mr);
void ripc__sim_region_put(struct sim_region *region);
/* The live region of t for this access by a peer, or NULL. */
struct sim_region *ripc__sim_region_remote(struct ripc__transport *t, uint64_t raddr, uint32_t rkey,
					   size_t len, unsigned access);
/* The live region of mr that contains local, with one more reference, or NULL. */
struct sim_region *ripc__sim_region_local(struct ripc__transport *t, const struct ripc__mr *mr,
					  const void *local, size_t len);

/* packet.c */
struct sim_packet *ripc__sim_packet(struct ripc__transport *t, enum ripc__ev_kind kind,
				    const void *data, size_t len);
void ripc__sim_packet_free(struct ripc__transport *t, struct sim_packet *p);

/* conn.c: set-up and end of connections */
int ripc__sim_connect(struct ripc__transport *t, const uint8_t *addr, size_t addrlen,
		      const void *priv, size_t privlen, void *user, struct ripc__ep **ep);
int ripc__sim_accept(struct ripc__transport *t, void *request, const void *priv, size_t privlen,
		     void *user, struct ripc__ep **ep);
void ripc__sim_reject(struct ripc__transport *t, void *request, const void *priv, size_t privlen);
void ripc__sim_ep_close(struct ripc__ep *ep);
/* Whether it connects these two. */
bool ripc__sim_conn_between(const struct sim_conn *conn, const struct sim_node *a,
			    const struct sim_node *b);
void ripc__sim_conn_break(struct ripc__sim *net, struct sim_conn *conn, int status);
/* Schedules EV_CLOSED for this end. */
void ripc__sim_conn_lost(struct ripc__sim *net, struct ripc__ep *end, int err, uint64_t delay_ns);
void ripc__sim_conn_put(struct ripc__sim *net,
			struct sim_conn *conn); /* frees it if nothing refers to it */
void ripc__sim_conn_free(struct ripc__sim *net, struct sim_conn *conn);
int ripc__sim_conn_timer(struct ripc__sim *net, struct sim_conn *conn, uint64_t at_ns,
			 void (*fire)(struct ripc__sim *net, void *obj, uint64_t arg),
			 uint64_t arg);
/* Every timer of a connection calls this last. */
void ripc__sim_conn_timer_done(struct ripc__sim *net, struct sim_conn *conn);
/* Handles an operation of set-up or close that has arrived at the other end. */
void ripc__sim_conn_op_arrived(struct ripc__sim *net, struct sim_conn *conn, int side,
			       struct sim_op *op);
/* Refuses all pending connection requests of a transport that closes. */
void ripc__sim_conn_refuse_all(struct ripc__transport *t);

/* op.c */
struct sim_op *ripc__sim_op(enum sim_op_kind kind, const void *data, size_t len);
void ripc__sim_op_free(struct sim_op *op);

/* channel.c: operations on connections */
/* Queues the operation. The connection owns it, also on error. */
int ripc__sim_op_post(struct ripc__sim *net, struct sim_conn *conn, int side, struct sim_op *op);
void ripc__sim_op_deliver(struct ripc__sim *net, struct sim_conn *conn, int side,
			  struct sim_op *op);
void ripc__sim_op_execute(struct ripc__sim *net, struct sim_conn *conn, int side,
			  struct sim_op *op);
void ripc__sim_flush_held(struct ripc__ep *ep);
int ripc__sim_post(struct ripc__ep *ep, const void *head, size_t head_len,
		   const struct iovec *items, unsigned n, bool more);
int ripc__sim_transfer(struct ripc__ep *ep, const struct ripc__transfer *x);

/* datagram.c */
int ripc__sim_post_datagram(struct ripc__transport *t, const uint8_t *addr, size_t addrlen,
			    const struct iovec *iov, unsigned niov);
int ripc__sim_group_join(struct ripc__transport *t, uint64_t group);
void ripc__sim_group_leave(struct ripc__transport *t, uint64_t group);
int ripc__sim_post_group(struct ripc__transport *t, uint64_t group, const struct iovec *iov,
			 unsigned niov);

#endif
