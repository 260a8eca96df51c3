/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The sending side of a long message, from ripc_send_async() to its end.
 *
 *   PENDING -- lane, credit --> WRITING (items into return buffers) --> SENT -- ACK --> DONE
 *                                              SENT -- GRANT --> GRANTED -- FIN --> SENT
 *   lane lost: back to PENDING, in order; the id stays, so that the receiver recognizes a
 *     repetition
 *   cancel:    PENDING -> DONE at once; other states wait for the peer's ACK or the end of the lane
 */
#ifndef RIPC_CORE_RENDEZVOUS_SENDER_H
#define RIPC_CORE_RENDEZVOUS_SENDER_H

#include "core/memory/buffer.h"
#include "core/memory/mapped.h"
#include "core/progress/context.h"

enum ripc__request_state {
	RIPC__REQUEST_PENDING,
	RIPC__REQUEST_WRITING,
	RIPC__REQUEST_SENT,
	RIPC__REQUEST_GRANTED, /* writing into memory that the receiver granted */
	RIPC__REQUEST_DONE,
};

struct ripc__request_item {
	uint8_t *base; /* the caller's memory, or a copy */
	size_t len;
	struct ripc__region *region; /* counted in region->sends; NULL: not registered memory */
	struct ripc__region *copy;   /* pool buffer with a copy, or NULL */
	struct ripc__mr mr;          /* registration on the lane's transport, exposed to the peer */
	bool exposed;                /* mr is valid */
	/* HOW_WRITTEN, HOW_GRANT: the region's registration, the source of the writes; or NULL */
	struct ripc__cached_mr *cached_mr;
	/* HOW_READ, HOW_WRITTEN, HOW_GRANT: bounce buffer that is the source; or NULL */
	struct ripc__bounce *bounce;
	bool filled;                               /* the bounce buffer holds the data */
	uint8_t how;                               /* enum ripc__how */
	struct ripc__remote_return *remote_return; /* HOW_WRITTEN: the return buffer */
	uint64_t raddr;                            /* target of the writes */
	uint32_t rkey;
	size_t posted;               /* bytes of posted writes */
	struct ripc__export_ref ref; /* HOW_MAPPED: the peer reads the item in place */
};

struct ripc_request {
	struct ripc__list ctx_link;  /* in ctx->requests */
	struct ripc__list link;      /* in dest->pending while PENDING */
	struct ripc__list peer_link; /* in peer->requests from the first issue to the end, by id */
	struct ripc *ctx;            /* NULL: ended; read without the lock (handle.h) */
	struct ripc_request *next_free;
	struct ripc_service *service; /* NULL when DONE */
	struct ripc__dest *dest;      /* pinned (users) until DONE */
	struct ripc__peer *peer;      /* peer whose requests list holds it, or NULL */
	struct ripc__lane *lane;      /* set in WRITING, SENT, GRANTED */
	uint64_t start_seq;           /* order of the requests to one destination */
	uint64_t source, dest_id;
	uint64_t id; /* id at this peer; 0: none yet */
	enum ripc__request_state state;
	int status;      /* DONE: the result */
	bool was_sent;   /* a peer may have delivered it: the result is unknown if the peer dies */
	bool resent;     /* sent over an earlier lane too, without an answer */
	bool cancelling; /* CANCEL was sent, or writes are posted */
	bool acked;      /* the peer's ACK arrived with this status; writes may be posted */
	int ack_status;
	int error; /* cancelled by the library for this errno, with detail; 0: by the application */
	/*
	 * WRITING: source of the reserved units; on its lane, because the destination may have
	 * moved
	 */
	struct ripc__credit *credit;
	uint32_t units;                /* WRITING: credit units reserved */
	char *detail;                  /* explanation of a failure, or NULL */
	unsigned writes;               /* posted and not completed */
	struct ripc__export_refs refs; /* items that the peer reads in place */
	unsigned next;                 /* item that is written next */
	uint64_t bytes;                /* payload of all items */
	struct ripc__waitq waitq;
	unsigned nreturns;
	uint32_t returns[RIPC_RETURN_BUFFERS_MAX]; /* ids of the return buffers offered with it */
	unsigned nitems;
	struct ripc__request_item items[];
};

/*
 * Allocates a request and issues it if possible. bytes: the sum of the items' lengths; o may be
 * NULL. Return: 0; -EINVAL, -ENOMEM, -ESHUTDOWN, explained. Lock held; it may be released
 * meanwhile. The service is entered.
 */
int ripc__request_start(struct ripc_service *s, uint64_t dest, const struct iovec *items,
			unsigned nitems, uint64_t bytes, const struct ripc_send_options *o,
			struct ripc_request **out);
/*
 * Sends the request over the lane of its destination's peer, which is up. Return: 0: it left
 * dest->pending; -EAGAIN: no credit or no room, it stays at the head; call again.
 */
int ripc__request_issue(struct ripc_request *r);
/*
 * The lane's queue has room: GRANTED posts more writes, WRITING continues if its destination has
 * moved. Return: true: the requests behind it at that destination can be flushed.
 */
bool ripc__request_continue(struct ripc_request *r);
/* The peer sent BYE: messages without an ACK are not delivered and never will be. */
void ripc__requests_bye(struct ripc__lane *lane);
void ripc__request_write_done(struct ripc_request *r, int status);
/* Handles the peer's ACK for a request id. Unknown ids have ended and are ignored. */
void ripc__request_acked(struct ripc__lane *lane, uint64_t id, int status, bool kept);
void ripc__request_release_item(struct ripc__lane *lane, uint64_t id, uint64_t item);
/*
 * Detaches items that peers have read in place for too long: copies them and ends their requests.
 */
void ripc__requests_timer(struct ripc__lane *lane);
int ripc__request_grant(struct ripc__lane *lane, const struct ripc__header *h, const char **why);
/*
 * The peer lost its dedup window. Requests that it may have delivered are not repeated, because it
 * could deliver them twice: they end with -EPIPE.
 */
void ripc__requests_dedup_lost(struct ripc__peer *p);
/*
 * The lane failed and was closed: its requests go back to their destinations, and to another peer
 * if the service has moved.
 */
void ripc__requests_lane_failed(struct ripc__lane *lane);
/*
 * ripc__request_continue() for the requests of the lane, until it is closed. Return: whether
 * messages of other destinations can be flushed.
 */
bool ripc__requests_continue(struct ripc__lane *lane);
/* No address of the peer answers: ends the requests that it may have received. */
void ripc__requests_peer_unreachable(struct ripc__peer *p, const char *text);
/* The service of a request under way that reads from [p, p+len); 0: there is none. */
uint64_t ripc__requests_sent_from(struct ripc *ctx, const void *p, size_t len);
/* Ends the request. detail may be NULL. */
void ripc__request_done(struct ripc_request *r, int status, const char *detail);
/* Cancels the request: DONE at once, or CANCEL is sent and the ACK ends it. */
void ripc__request_abort(struct ripc_request *r);
void ripc__request_free(struct ripc_request *r);

/*
 * Allocates a request for nitems items, not zeroed; NULL: out of memory. ripc__request_put() frees
 * one that never began. Lock held.
 */
struct ripc_request *ripc__request_get(struct ripc *ctx, unsigned nitems);
void ripc__request_put(struct ripc *ctx, struct ripc_request *r, unsigned nitems);

#endif
