/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A request: one long message to send, from ripc_send_async() to its end. sender.h has its states.
 */
#ifndef RIPC_CORE_RENDEZVOUS_REQUEST_H
#define RIPC_CORE_RENDEZVOUS_REQUEST_H

#include "base/mappings.h"
#include "core/memory/buffer.h"
#include "core/memory/mapped.h"
#include "core/peer/peer.h"
#include "core/progress/context.h"
#include "core/rendezvous/prepared.h"

enum ripc__request_state {
	RIPC__REQUEST_PENDING,
	RIPC__REQUEST_WRITING,
	RIPC__REQUEST_SENT,
	RIPC__REQUEST_GRANTED, /* writing into memory that the receiver granted */
	RIPC__REQUEST_DONE,
	RIPC__REQUEST_STATES,
};

/*
 * Knowledge about the delivery of a request.
 *
 *   NONE --sent--> POSSIBLE --sent again--> EARLIER --sent again--> EARLIER
 *   POSSIBLE --the peer closed the lane and has not taken it--> NONE
 *   any --the service is not at this peer--> NONE
 */
enum ripc__delivery {
	RIPC__DELIVERY_NONE,     /* no peer has delivered it */
	RIPC__DELIVERY_POSSIBLE, /* unknown if the peer dies */
	RIPC__DELIVERY_EARLIER,  /* and it may have been delivered over an earlier lane */
};

struct ripc__request_item {
	uint8_t *base; /* the caller's memory, or a copy */
	size_t len;
	struct ripc__region *region; /* counted in region->sends; NULL: not registered memory */
	bool copied; /* region is a pool buffer with a copy, freed when the request is done */
	struct ripc__mr mr; /* registration on the lane's transport, exposed to the peer */
	bool exposed;       /* mr is valid */
	/* HOW_WRITTEN, HOW_GRANT: the region's registration, the source of the writes; or NULL */
	struct ripc__cached_mr *cached_mr;
	/* HOW_READ, HOW_WRITTEN, HOW_GRANT: bounce buffer that is the source; or NULL */
	struct ripc__bounce *bounce;
	bool filled;                               /* the bounce buffer holds the data */
	uint8_t how;                               /* enum ripc__how */
	struct ripc__remote_return *remote_return; /* HOW_WRITTEN: the return buffer */
	uint64_t raddr;                            /* target of the writes */
	uint32_t rkey;
	size_t posted;                /* bytes of posted writes */
	struct ripc__export_ref *ref; /* HOW_MAPPED: the peer reads the item in place; or NULL */
};

/* Extension of a long message that belongs to a call. */
struct ripc__request_ext {
	uint16_t flags;       /* RIPC__F_CALL or RIPC__F_REPLY; 0: it belongs to none */
	uint64_t call;        /* its id */
	uint64_t deadline_ns; /* RIPC__F_CALL */
	/*
	 * The request is done. p: the peer that had it, or NULL. The callee frees the request after
	 * the present event. NULL: the application waits for the request.
	 */
	void (*ended)(struct ripc_request *r, struct ripc__peer *p);
	void *owner;
	struct ripc__peer *only; /* the message goes to no other peer; NULL: to any */
};

struct ripc_request {
	/* The handle of a short call uses no other members than these, in two cache lines. */
	struct ripc *ctx;             /* NULL: ended; read without the lock (handle.h) */
	struct ripc_service *service; /* NULL when it is done */
	uint64_t source, dest_id;
	enum ripc__request_state state; /* ripc__request_set_state() */
	int status;                     /* the result when it is done */
	char *detail;                   /* explanation of a failure, or NULL */
	struct ripc__call *call;        /* handle of a call, not a message: core/call/call.h */
	struct ripc__waitq waitq;
	struct ripc__completion completion;
	void *data;     /* the application's */
	bool published; /* ripc_completion_next() reports its end */

	struct ripc__list ctx_link; /* in ctx->requests */
	struct ripc__list link;     /* in dest->pending while PENDING */
	struct ripc__list
		peer_link; /* in peer->lists->requests from the first issue to the end, by id */
	struct ripc_request *next_free;
	struct ripc__dest *dest; /* pinned (users) until it is done */
	struct ripc__peer *peer; /* peer whose requests list holds it, or NULL */
	struct ripc__lane *lane; /* set in WRITING, SENT, GRANTED */
	uint64_t start_seq;      /* order of the requests to one destination */
	uint64_t id;             /* id at this peer; 0: none yet */
	enum ripc__delivery delivery;
	bool cancelling; /* CANCEL was sent, or writes are posted */
	bool acked;      /* the peer's ACK arrived with this status; writes may be posted */
	bool tainted;    /* a peer whose lane was lost may read items that were not detached */
	int ack_status;
	int error; /* cancelled by the library for this errno, with detail; 0: by the application */
	/* WRITING: source of the reserved units, on lane: the destination may have moved */
	struct ripc__credit *credit;
	uint32_t units;                /* WRITING: credit units reserved */
	unsigned writes;               /* posted and not completed */
	struct ripc__export_refs refs; /* items that the peer reads in place */
	unsigned next;                 /* item that is written next */
	uint64_t bytes;                /* payload of all items */
	bool unacked;                  /* counted in dest->long_unacked */
	bool free_items;               /* RIPC_FREE_ITEMS */
	bool copied;                   /* an item is */
	/* bit i: an item has travelled by enum ripc__how i since the lane was selected */
	uint8_t hows;
	struct ripc__request_ext ext;
	unsigned nreturns;
	unsigned nitems;
	uint32_t returns[RIPC_RETURN_BUFFERS_MAX]; /* ids of the return buffers offered with it */
	struct ripc__request_item items[];
};

/*
 * Whether an item of the application cannot be read, after an attempt to send it has failed; then
 * text names it. maps: zeros, or of the same moment.
 */
bool ripc__request_unreadable(const struct ripc_request *r, struct ripc__mappings *maps, char *text,
			      size_t len);

/*
 * Allocates a request and issues it if possible. bytes: the sum of the items' lengths; o may be
 * NULL. Takes over the copies of the items. Return: 0 and *out, before it is sent; -EINVAL,
 * -ENOMEM, -ESHUTDOWN, explained.
 */
int ripc__request_start(struct ripc_service *s, uint64_t dest, const struct ripc__prepared *items,
			uint64_t bytes, const struct ripc_send_options *o,
			const struct ripc__request_ext *ext, struct ripc_request **out);
void ripc__request_set_state(struct ripc_request *r, enum ripc__request_state to);
/* Bytes of its header, without RIPC__ACK_WORD and inline items. */
static inline size_t ripc__request_header_len(const struct ripc_request *r)
{
	return RIPC__LONG_FIXED + (r->ext.flags ? RIPC__CALL_EXT : 0) +
	       (size_t)(r->nitems + r->nreturns) * RIPC__DESC_LEN;
}
/* Whether an item travels by how, or was to before it had to wait. */
static inline bool ripc__request_has(const struct ripc_request *r, enum ripc__how how)
{
	return r->hows & 1u << how;
}
/* The request of the peer by its id, or NULL. */
static inline struct ripc_request *ripc__request_find(struct ripc__peer *p, uint64_t id)
{
	struct ripc_request *r;

	ripc__list_for_each_entry (r, &p->lists->requests, peer_link)
		if (r->id >= id)
			return r->id == id ? r : NULL;
	return NULL;
}
static inline bool ripc__request_maybe_delivered(const struct ripc_request *r)
{
	return r->delivery != RIPC__DELIVERY_NONE;
}
/* The service of a request under way that reads from [p, p+len); 0: there is none. */
uint64_t ripc__requests_sent_from(struct ripc *ctx, const void *p, size_t len);
/* The application gets the request, with its data: ripc_completion_next() reports the end. */
static inline void ripc__request_publish(struct ripc_request *r, void *data)
{
	r->data = data;
	r->published = true;
	if (r->state == RIPC__REQUEST_DONE)
		ripc__completion_add(r->ctx, &r->completion);
}
/* No holder will refuse it any more: requests that wait for that go on. */
void ripc__request_settled(struct ripc_request *r);
/* Puts the request back into its destination's queue, in the order of start. */
void ripc__request_requeue(struct ripc_request *r);
/* Ends the request. detail may be NULL. */
void ripc__request_done(struct ripc_request *r, int status, const char *detail);
/* Frees it, done or not. No transport reads its memory any more. */
void ripc__request_free(struct ripc_request *r);

/*
 * The items that the peer reads in place: their release, and the time after which they are taken
 * back by a copy. memory/mapped.h has the references themselves.
 */

void ripc__request_refs_end(struct ripc_request *r);
/* The time for the receiver to release the items begins. */
void ripc__request_refs_timer(struct ripc_request *r);
/* The ACK arrived. kept: the peer goes on reading; else the references end. */
void ripc__request_refs_acked(struct ripc_request *r, bool kept);
/* RELEASE arrived. item: its index, and RIPC__RELEASE_LOST. */
void ripc__request_release_item(struct ripc__lane *lane, uint64_t id, uint64_t item);
/* Unexports the items that the peer still reads. Return: whether all could be unexported. */
bool ripc__request_unexport(struct ripc_request *r);
/*
 * Some items could not be unexported: the timer of the lane tries again and concludes the request.
 */
void ripc__request_unexport_later(struct ripc_request *r);
/*
 * Detaches items that peers have read in place for too long: copies them and ends their requests.
 */
void ripc__requests_timer(struct ripc__lane *lane);

#endif
