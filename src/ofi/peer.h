/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The other endpoints that an endpoint exchanges messages with: their credit, and what waits to be
 * posted to them. A peer that is lost stays lost until a message comes from a new process with its
 * address: its operations end with an error. They end
 * OFI_LOSS_DELAY_MS after the loss, because a killed process loses its connections before its
 * parent is notified: a launcher of the job shall name the killed process, not the first of its
 * peers that gives up. Lock of the domain held.
 */
#ifndef OFI_PEER_H
#define OFI_PEER_H

#include "ofi/endpoint.h"

#define OFI_LOSS_DELAY_MS 100
/* A message of so many bytes of contents is posted in one item, which is faster. */
#define OFI_ONE_ITEM_MAX 4096

#define OFI_INSTANCE_LEN 16

/* An EAGER message whose last parts have not arrived. Its contents are dropped if both are NULL. */
struct ofi_parts {
	struct ofi_recv *recv;       /* the receive that took it, or NULL */
	struct ofi_message *message; /* or it is kept */
	size_t at, len;              /* bytes that have arrived, of how many; at == len: none */
};

struct ofi_peer {
	UT_hash_handle hh;
	struct ofi_peer *prev, *next; /* in ep->active; prev is NULL: it is not there */
	struct ofi_ep *ep;
	uint64_t service;
	fi_addr_t address; /* as of generation of the address vector */
	uint64_t generation;
	bool reached; /* a message was posted */
	bool watched;
	int lost;              /* 0, or why it is lost, positive */
	int64_t end_ms;        /* when lost: its operations end */
	int64_t search_end_ms; /* end of the search; 0: the service was not missed */
	size_t eager_max;      /* of contents */
	size_t part_max;       /* of contents in one short message */
	/* Messages and EAGER contents sent, and those that the peer reported as matched. */
	uint32_t sent_messages, sent_bytes;
	uint32_t credit_messages, credit_bytes;
	/* Those of the peer, and those that were matched here, reported and not. */
	uint32_t got_messages, got_bytes;
	uint32_t matched_messages, matched_bytes;
	uint32_t reported_messages, reported_bytes;
	/* Ids of the context of its last message, and of the one before; zeros: none. */
	uint8_t instance[OFI_INSTANCE_LEN], previous[OFI_INSTANCE_LEN];
	unsigned life; /* number of contexts before */
	/* The first peer of the same context that has sent an RTS; NULL: this one has not. */
	struct ofi_peer *first;
	bool shared;               /* of the first one: there are others */
	unsigned marks;            /* bits: those in granted */
	struct ofi_send *queue;    /* to be posted, in order */
	struct ofi_send *sending;  /* their contents are under way */
	struct ofi_recv *to_grant; /* CTS to be posted, in order */
	struct ofi_recv *granted;  /* contents expected, in order */
	struct ofi_abort *aborts;  /* under way */
	struct ofi_parts parts;
};

/* ofi_peer_get() for another peer than the last one. */
struct ofi_peer *ofi_peer_get_other(struct ofi_ep *ep, uint64_t service);
/* The peer with this service; a new one if need be. NULL: out of memory. */
static inline struct ofi_peer *ofi_peer_get(struct ofi_ep *ep, uint64_t service)
{
	struct ofi_peer *p = ep->recent;

	return p && p->service == service ? p : ofi_peer_get_other(ep, service);
}
/* The same; NULL: there is none. */
struct ofi_peer *ofi_peer_find(struct ofi_ep *ep, uint64_t service);
/* ofi_peer_address() when the address vector has changed. */
fi_addr_t ofi_peer_address_again(struct ofi_peer *p);
static inline fi_addr_t ofi_peer_address(struct ofi_peer *p)
{
	return p->generation == p->ep->av->generation ? p->address : ofi_peer_address_again(p);
}
/*
 * Whether at least 1/parts of the window was matched and is not reported: a message of its own
 * reports a quarter, another message takes a sixteenth with it.
 */
static inline bool ofi_peer_credit_due(const struct ofi_peer *p, unsigned parts)
{
	return p->matched_messages - p->reported_messages >= OFI_WINDOW_MESSAGES / parts ||
	       p->matched_bytes - p->reported_bytes >= OFI_WINDOW_BYTES / parts;
}
/* Whether the contents of one more message may be asked for. */
static inline bool ofi_peer_may_grant(const struct ofi_peer *p)
{
	return p->marks != (1u << OFI_MARKS) - 1;
}
/* There is something to post. */
void ofi_peer_activate(struct ofi_peer *p);
/* Posts what waits, or ends it; the peer is active while something can be posted. */
void ofi_peer_push(struct ofi_peer *p);
/*
 * Posts an envelope, with contents, as a reliable short message. Return: 0; -EAGAIN: again later;
 * -EMSGSIZE; other: the peer is to be lost.
 */
int ofi_peer_post(struct ofi_peer *p, struct ofi_envelope *e, const struct iovec *iov,
		  unsigned niov, size_t len, bool more);
/*
 * The error of a post, for a peer that may not be found yet or was started again. Return: as
 * ofi_peer_post().
 */
int ofi_peer_post_failed(struct ofi_peer *p, int rc);
/* Posts a message that has its envelope. Return: as ofi_peer_post(). */
static inline int ofi_peer_post_items(struct ofi_peer *p, const struct iovec *items,
				      unsigned nitems, bool more)
{
	static const struct ripc_send_options options = {
		.size = sizeof(options),
		.flags = RIPC_RELIABLE,
	};
	static const struct ripc_send_options options_more = {
		.size = sizeof(options_more),
		.flags = RIPC_RELIABLE | RIPC_MORE,
	};
	int rc = ripc_send_short(p->ep->main, p->service, items, nitems,
				 more ? &options_more : &options, 0);

	if (rc)
		return ofi_peer_post_failed(p, rc);
	p->reached = true;
	p->search_end_ms = 0;
	return 0;
}
/*
 * A message of the peer came from another context than the last one. If there was one, the peer was
 * started again: operations with the process before end, and those with the new one begin.
 */
void ofi_peer_changed(struct ofi_peer *p, const uint8_t instance[OFI_INSTANCE_LEN]);
/* An RTS came from the peer. */
void ofi_peer_join(struct ofi_peer *p);
/* Whether there is credit for one more message, and for len bytes of EAGER contents. */
static inline bool ofi_peer_may_send(const struct ofi_peer *p)
{
	return p->sent_messages - p->credit_messages < OFI_WINDOW_MESSAGES;
}
static inline bool ofi_peer_may_send_eager(const struct ofi_peer *p, size_t len)
{
	return len <= p->eager_max &&
	       p->sent_bytes - p->credit_bytes + (uint32_t)len <= OFI_WINDOW_BYTES;
}
/* A part of len bytes is too long for the lane. Return: whether the limits are lower now. */
bool ofi_peer_lower_eager(struct ofi_peer *p, size_t len);
/* The credit in an envelope of the peer, which has it. */
void ofi_peer_credit(struct ofi_peer *p, const struct ofi_envelope *e);
/* A message of the peer was matched; bytes: of EAGER contents. */
static inline void ofi_peer_matched(struct ofi_peer *p, size_t bytes)
{
	p->matched_messages++;
	p->matched_bytes += (uint32_t)bytes;
	if (ofi_peer_credit_due(p, 4))
		ofi_peer_activate(p);
}
/*
 * Whether the peer was started again and its new process holds the service. The end of a former
 * process, and the loss of messages to it, may be reported later.
 */
bool ofi_peer_holds_service(const struct ofi_peer *p);
/* From now on the end of the peer is noticed. */
void ofi_peer_watch(struct ofi_peer *p);
/* Ends all operations with the peer, later. error: positive. */
void ofi_peer_lose(struct ofi_peer *p, int error, const char *why);
/* Ends them now. error: positive; 0: without completions, because the endpoint is being closed. */
void ofi_peer_end(struct ofi_peer *p, int error);
void ofi_peers_free(struct ofi_ep *ep);

#endif
