/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Endpoints (FI_EP_RDM) and their operations. wire.h has the messages between two of them. Lock of
 * the domain held, except in functions of libfabric's tables.
 */
#ifndef OFI_ENDPOINT_H
#define OFI_ENDPOINT_H

#include "ofi/av.h"
#include "ofi/cntr.h"
#include "ofi/cq.h"
#include "ofi/info.h"
#include "ofi/matching.h"
#include "ofi/wire.h"

struct ofi_peer;

struct ofi_ep {
	struct fid_ep fid;
	struct ofi_domain *domain;
	struct ofi_av *av;
	struct ofi_cq *tx_cq, *rx_cq;
	struct ofi_cntr *tx_cntr, *rx_cntr;
	uint64_t tx_op_flags, rx_op_flags;
	uint64_t caps; /* FI_DIRECTED_RECV: the source of a receive counts */
	/* FI_SEND, FI_RECV: what it may do, 0 until it is enabled; what needs FI_COMPLETION */
	uint64_t enabled, selective;
	bool closing;
	bool arriving;     /* the last call for progress received messages */
	unsigned requests; /* long sends under way */
	struct ripc_service *main, *data;
	uint64_t main_id;
	struct ofi_matching tagged, msg;
	struct ofi_peer *peers;  /* by service */
	struct ofi_peer *recent; /* of the last send or message, or NULL */
	struct ofi_peer *active; /* those with something to post */
	struct ofi_send *sends;  /* by id: RTS posted, no CTS yet */
	uint64_t next_id;
	unsigned granted;             /* receives that wait for their contents */
	struct ofi_recv *withdrawn;   /* to be completed when no peer can write their memory */
	struct ofi_recv *spare_recvs; /* memory for the next receives, linked by next */
	unsigned nspare_recvs;
};

/*
 * A send that is not complete.
 *
 *   QUEUED -- EAGER posted, and PART until nothing is left --> complete
 *   QUEUED -- RTS posted --> WAITING -- CTS --> SENDING -- delivered --> complete
 *
 * A QUEUED one is in peer->queue, a WAITING one in ep->sends, a SENDING one in peer->sending.
 */
struct ofi_send {
	struct ofi_request request; /* first member */
	struct ofi_send *prev, *next;
	UT_hash_handle hh;
	struct ofi_ep *ep;
	struct ofi_peer *peer;
	void *context;
	uint64_t cq_flags; /* FI_SEND | FI_TAGGED or FI_MSG */
	bool notify;       /* write a completion */
	bool matched;      /* complete only when it is matched */
	bool more;         /* FI_MORE */
	uint8_t wire_flags;
	uint64_t tag, data;
	uint64_t id;
	size_t len;
	unsigned life;         /* SENDING: of the peer */
	uint64_t data_service; /* SENDING: where the contents go */
	size_t posted;         /* QUEUED: bytes of the contents that EAGER and PART took */
	struct iovec iov[OFI_IOV_MAX];
	unsigned niov;
	void *copy; /* of the contents (inject), or NULL */
};

/* The CTS of a receive, a long message unless it asks for no contents. */
enum ofi_cts {
	OFI_CTS_NONE,      /* not posted, or done */
	OFI_CTS_PENDING,   /* under way, and its bytes are in cts */
	OFI_CTS_ABANDONED, /* the same, and the receive has ended */
};

/*
 * A receive that is not complete.
 *
 *   POSTED -- EAGER --> complete, or in peer->parts -- PART --> complete
 *   POSTED -- RTS --> in peer->to_grant -- CTS posted --> in peer->granted -- contents --> complete
 */
struct ofi_recv {
	struct ofi_posted posted; /* first member */
	struct ofi_request request;
	struct ofi_recv *prev, *next; /* in to_grant, granted, ep->withdrawn or spare_recvs */
	struct ofi_ep *ep;
	struct ofi_peer *peer;
	uint64_t cq_flags; /* FI_RECV | FI_TAGGED or FI_MSG */
	bool notify;
	bool discard; /* FI_DISCARD: no completion of the receive */
	bool ended;
	bool direct; /* iov[0] is registered, and the peer writes into it */
	enum ofi_cts long_cts;
	uint64_t tag, data, send_id;
	uint8_t wire_flags;
	uint8_t mark;   /* in peer->granted: of its CTS */
	size_t len;     /* of the message */
	size_t granted; /* bytes asked for */
	int error;      /* in ep->withdrawn: its result */
	struct iovec iov[OFI_IOV_MAX];
	unsigned niov;
	size_t room;
	uint8_t cts[OFI_ENVELOPE_MAX];
};

int ofi_endpoint_open(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep,
		      void *context);

/* msg.c */
extern struct fi_ops_msg ofi_msg_ops;
extern struct fi_ops_tagged ofi_tagged_ops;

/* send.c */
/* The pieces of len bytes of iov from at on, less if iov ends before. Return: their number. */
unsigned ofi_slice(const struct iovec *iov, unsigned niov, size_t at, size_t len,
		   struct iovec to[OFI_IOV_MAX]);
/* Writes the completion of a send that was reserved. */
static inline void ofi_send_completed(struct ofi_ep *ep, void *context, uint64_t cq_flags,
				      uint64_t tag, int error)
{
	*ofi_cq_put(ep->tx_cq) = (struct ofi_completion){
		.entry.op_context = context,
		.entry.flags = cq_flags,
		.entry.tag = error ? tag : 0,
		.source = FI_ADDR_NOTAVAIL,
		.err = error,
	};
}
/* The arguments of a call of fi_msg(3) or fi_tagged(3), without its buffers. */
struct ofi_call {
	fi_addr_t dest;
	uint64_t tag, data;
	void *context;
	uint64_t kind;  /* FI_MSG or FI_TAGGED */
	uint64_t flags; /* FI_REMOTE_CQ_DATA: data is valid */
	bool notify;    /* write a completion; a failed send writes one always */
};
static inline uint8_t ofi_call_wire_flags(const struct ofi_call *c)
{
	return (c->kind == FI_TAGGED ? OFI_F_TAGGED : 0) |
	       ((c->flags & FI_REMOTE_CQ_DATA) ? OFI_F_DATA : 0);
}
/* Puts a send into the queue of its peer, and posts it unless it has to wait. */
ssize_t ofi_send_start(struct ofi_ep *ep, const struct iovec *iov, size_t niov,
		       const struct ofi_call *c);
/* Posts a queued send. Return: 0: it left the queue; -EAGAIN; other: the peer is lost. */
int ofi_send_post(struct ofi_send *s);
/* A peer asks for the contents of an RTS. It may have come from the process before, or ended. */
void ofi_send_cts(struct ofi_peer *p, uint64_t data_service, const struct ofi_envelope *e);
/*
 * Refuses contents: those of a send, towards the data service of its receiver; those of an RTS,
 * towards the main service of its sender.
 */
void ofi_abort_post(struct ofi_peer *p, uint64_t service, uint64_t id);
/* Ends the refusals that are under way to a peer: nobody waits for them. */
void ofi_aborts_cancel(struct ofi_peer *p);
/* The peer has refused the contents of an RTS. */
void ofi_send_refused(struct ofi_peer *p, uint64_t id);
/* Ends a send and frees it; it is in no list. error: 0 or positive. */
void ofi_send_end(struct ofi_send *s, int error);
/* Return: whether a queued send with this context was cancelled. */
bool ofi_send_cancel(struct ofi_ep *ep, const void *context);

/* receive.c */
static inline struct ofi_matching *ofi_recv_space(struct ofi_ep *ep, uint64_t cq_flags)
{
	return cq_flags & FI_TAGGED ? &ep->tagged : &ep->msg;
}
/* The receive takes a message that was kept, which is in no list. */
void ofi_recv_take(struct ofi_recv *r, struct ofi_arrived *a);
/* FI_PEEK: reports a message that the receive would take, and frees the receive. */
void ofi_recv_peek(struct ofi_recv *r, uint64_t flags);
/* FI_CLAIM: takes a message that its context has claimed. Return: 0 or -FI_EINVAL. */
int ofi_recv_claimed(struct ofi_recv *r, uint64_t flags);
/* A message for main. */
void ofi_receive_main(struct ofi_ep *ep, const struct ripc_message *m);
/* A message for data. Return: the receive to end when the message is freed, or NULL. */
struct ofi_recv *ofi_receive_data(struct ofi_ep *ep, const struct ripc_message *m);
/* The rest of the message in peer->parts will not arrive. */
void ofi_recv_parts_lost(struct ofi_peer *p);
/*
 * Ends a receive; it is in no list. error: 0 or positive. Its completion waits until no peer can
 * write into its memory.
 */
void ofi_recv_end(struct ofi_recv *r, int error);
/* Completes receives in ep->withdrawn whose memory no peer can write any more. */
void ofi_recv_complete_withdrawn(struct ofi_ep *ep);
/* The same without a completion. */
void ofi_recv_drop(struct ofi_recv *r);
/* Return: whether a receive with this context was cancelled. */
bool ofi_recv_cancel(struct ofi_ep *ep, const void *context);
/* Frees all receives and messages without completions: the endpoint is being closed. */
void ofi_recv_free_all(struct ofi_ep *ep);

/* grant.c */
/* Posts the CTS of a receive in to_grant. Return: 0, -EAGAIN, or another error. */
int ofi_recv_grant(struct ofi_recv *r);
/* Takes a receive out of peer->granted. */
void ofi_recv_ungrant(struct ofi_recv *r);
/* Withdraws the CTS of a receive that is to end with an error, or refuses the contents. */
void ofi_recv_refuse(struct ofi_recv *r);
/* Withdraws the return buffer, if there is one. Return: false: a peer can still write into it. */
bool ofi_recv_withdraw(struct ofi_recv *r);

#endif
