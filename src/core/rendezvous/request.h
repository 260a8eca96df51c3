/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A long send: from ripc_send_async() to its end.
 *
 *   PENDING --lane, credit--> WRITING (items that go into return buffers) --> SENT --DONE--> DONE
 *                                                      SENT --GRANT--> WRITING_GRANTED --FIN--> SENT
 *   lane lost: back to PENDING, in order; the id stays, so that the receiver knows it again
 *   cancel:    PENDING: DONE at once; else CANCELLING until the peer's DONE, or the lane is gone
 */
#ifndef RIPC_CORE_RENDEZVOUS_REQUEST_H
#define RIPC_CORE_RENDEZVOUS_REQUEST_H

#include "core/context/context.h"

enum ripc__request_state {
	RIPC__REQUEST_PENDING,
	RIPC__REQUEST_WRITING,
	RIPC__REQUEST_SENT,
	RIPC__REQUEST_GRANTED, /* writing into memory the receiver granted */
	RIPC__REQUEST_DONE,
};

struct ripc__request_item {
	uint8_t *base; /* the caller's memory, or a copy */
	size_t len;
	struct ripc__region *region; /* counted in its sends; NULL: not registered memory */
	struct ripc__region *copy;   /* pool buffer that holds a copy, or NULL */
	struct ripc__mr mr;          /* exposure on the lane's transport */
	bool exposed;                /* mr is valid */
	struct ripc__cached_mr *cached_mr; /* HOW_WRITTEN, HOW_GRANT: its region's registration, which it is written from; or NULL */
	struct ripc__bounce *bounce; /* HOW_READ, HOW_WRITTEN, HOW_GRANT: for the copy that is read or written from, or NULL */
	bool filled;                               /* the copy is made */
	uint8_t how;                               /* enum ripc__how */
	struct ripc__remote_return *remote_return; /* HOW_WRITTEN: the return buffer */
	uint64_t raddr;                            /* where to write */
	uint32_t rkey;
	size_t posted; /* bytes of writes posted */
	struct ripc_request *owner;
	struct ripc__list ref_link; /* in region->loans while it is lent */
	bool mapped;                /* HOW_HANDED: the peer reads it in place */
};

struct ripc_request {
	struct ripc__list ctx_link;  /* in ctx->requests */
	struct ripc__list link;      /* in dest->pending while PENDING */
	struct ripc__list peer_link; /* in peer->requests from its first issue to its end, by id */
	struct ripc *ctx;            /* NULL: it has ended; read without the lock: handle.h */
	struct ripc_request *next_free;
	struct ripc_service *service; /* NULL once done */
	struct ripc__dest *dest;      /* pinned (users) until done */
	struct ripc__peer *peer;      /* whose requests list it is in, or NULL */
	struct ripc__lane *lane;      /* WRITING, SENT, GRANTED */
	uint64_t start_seq;           /* orders those of one destination */
	uint64_t source, dest_id;
	uint64_t id; /* at that peer; 0: none yet */
	enum ripc__request_state state;
	int status;      /* DONE: how it ended */
	bool was_sent;   /* a peer may have delivered it: if it dies, that is not known */
	bool resent;     /* over another lane before this one, with no answer */
	bool cancelling; /* to be withdrawn: CANCEL was sent, or writes are still out */
	bool acked;      /* the peer's DONE came, with this in answer; writes may still be out */
	int ack_status;
	int error; /* cancelling: by ourselves, with this errno and detail; 0: by the application */
	struct ripc__credit *credit; /* WRITING: what is reserved of, on its lane; the destination may have moved since */
	uint32_t units;           /* WRITING: credit of the service reserved for the message */
	char *detail;             /* why it failed, or NULL */
	unsigned writes;          /* posted writes that are not completed */
	unsigned mapped;          /* items that the peer reads in place */
	uint64_t ref_deadline_ns; /* answered: when we copy what is still lent */
	unsigned next;            /* item that is being written */
	uint64_t bytes;           /* payload in all */
	struct ripc__waitq waitq;
	unsigned nreturns;
	uint32_t returns[RIPC_RETURNS_MAX]; /* ids of the return buffers offered with it */
	unsigned nitems;
	struct ripc__request_item items[];
};

/*
 * Sends it over the lane of its destination's peer, which is up, as far as credit and room go. Return: 0 it left the
 * pending list; -EAGAIN it stays at its head, to be called again.
 */
int ripc__request_issue(struct ripc_request *r);
/*
 * There is room in its lane's queue: GRANTED goes on posting writes, WRITING leaves if its destination has moved meanwhile. Return: it
 * did, and what waits behind it at that destination is to be pumped.
 */
bool ripc__request_continue(struct ripc_request *r);
/* The peer has said good-bye: what it has not answered it has not delivered, and never will. */
void ripc__requests_bye(struct ripc__lane *lane);
void ripc__request_write_done(struct ripc_request *r, int status);
/* The peer's answers; found by id. Unknown ids are ignored: they are over. */
void ripc__request_acked(struct ripc__lane *lane, uint64_t id, int status, bool kept);
void ripc__request_release_item(struct ripc__lane *lane, uint64_t id, uint64_t item);
/* What peers have read in place for too long is copied, and the requests are done. */
void ripc__requests_timer(struct ripc__lane *lane);
int ripc__request_grant(struct ripc__lane *lane, const struct ripc__header *h, const char **why);
/*
 * The peer has forgotten which requests it delivered. Those that it may have had are not sent
 * again, because it would deliver them twice: they end with -EPIPE.
 */
void ripc__requests_dedup_lost(struct ripc__peer *p);
/* Its lane is gone. */
void ripc__request_lane_gone(struct ripc_request *r);
/* Ends it. detail may be NULL. */
void ripc__request_done(struct ripc_request *r, int status, const char *detail);
/* Withdraws it: DONE at once, or CANCEL is sent and the end will come. */
void ripc__request_abort(struct ripc_request *r);
void ripc__request_free(struct ripc_request *r);

/*
 * Memory for a request of so many items, not zeroed; NULL: out of memory. And back, if it was
 * never begun. Lock held.
 */
struct ripc_request *ripc__request_get(struct ripc *ctx, unsigned nitems);
void ripc__request_put(struct ripc *ctx, struct ripc_request *r, unsigned nitems);

/* Turns the return buffers of o into offers of our own; on error none is left. ids: room for RIPC_RETURNS_MAX. */
int ripc__local_returns_add(struct ripc_service *s, const struct ripc_send_options *o, uint32_t *ids);
/* Drops those that were never told to anybody. */
void ripc__local_returns_undo(struct ripc *ctx, const uint32_t *ids, unsigned n);
/* The message that carries them has left. */
void ripc__local_returns_advertised(struct ripc__lane *lane, const uint32_t *ids, unsigned n);
/* Before a message is made that offers them over lane: DONE does not wait for memory that takes long to expose. */
void ripc__local_returns_before_reg(struct ripc__lane *lane, const uint32_t *ids, unsigned n);
/*
 * Exposes them to the lane's peer if the lane can write, and puts a descriptor of each. Return:
 * where to go on; *n: how many.
 */
uint8_t *ripc__local_returns_encode(struct ripc__lane *lane, const uint32_t *ids, unsigned *n,
				    uint8_t *p);

#endif
