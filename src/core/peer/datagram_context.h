/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Header contexts of datagrams: what the 12 bytes of header of an ELIDED_DATAGRAM stand for.
 * doc/protocol.md, section 1.1.2, has the messages, and the life of a context at both ends. Lock
 * held.
 */
#ifndef RIPC_CORE_PEER_DATAGRAM_CONTEXT_H
#define RIPC_CORE_PEER_DATAGRAM_CONTEXT_H

#include "core/peer/peer.h"
#include "wire/elided.h"

#define RIPC__DATAGRAM_CONTEXTS_MAX  256
#define RIPC__DATAGRAM_CONTEXT_AFTER 16 /* datagrams with the full header before a context */

struct ripc__datagram_context {
	union {
		struct ripc__node node; /* in ctx->datagram_contexts */
		uint64_t word;          /* the first 8 bytes of its datagrams */
	};
	struct ripc *ctx;
	struct ripc__peer *peer; /* the other side */
	struct ripc__dest *d;    /* this side sends: to this destination; NULL: the peer sends */
	struct ripc__list link;  /* the peer sends: in its datagrams->contexts, the oldest first */
	struct ripc__header_context services;
	uint64_t first; /* number; those of its datagrams are at most UINT32_MAX above */
	bool confirmed; /* this side sends: the peer knows it */
	bool used;      /* this side sends: since the last ripc__datagram_context_begin() */
};

struct ripc__datagram_context *ripc__datagram_context_lookup(struct ripc *ctx, uint64_t word);
/* The context whose datagrams begin with this word; or NULL. */
static inline struct ripc__datagram_context *ripc__datagram_context_find(struct ripc *ctx,
									 uint64_t word)
{
	struct ripc__datagram_context *c = ctx->last_datagram_context;

	return RIPC__LIKELY(c && c->word == word) ? c : ripc__datagram_context_lookup(ctx, word);
}

static inline uint64_t ripc__datagram_context_id(const struct ripc__datagram_context *c)
{
	return c->word >> 8;
}

/* The context to send the datagram with this number from a service; NULL: the full header. */
static inline struct ripc__datagram_context *ripc__datagram_context_of(const struct ripc__dest *d,
								       uint64_t source,
								       uint64_t number)
{
	struct ripc__datagram_context *c = d->datagram_context;

	return c && c->confirmed && c->services.source == source && number - c->first <= UINT32_MAX
		       ? c
		       : NULL;
}

/*
 * RIPC__DATAGRAM_CONTEXT_AFTER datagrams of one item went to d with the full header, the last one
 * from this service. Begins a context, unless one is in use or not confirmed yet.
 * Return: the context, which the caller states to the peer; or NULL.
 */
struct ripc__datagram_context *ripc__datagram_context_begin(struct ripc__dest *d, uint64_t source);
void ripc__datagram_context_free(struct ripc__datagram_context *c);
/* The lane of its peer ends, or d has another peer: frees the context that it sends with. */
static inline void ripc__datagram_context_end(struct ripc__dest *d)
{
	if (d->datagram_context)
		ripc__datagram_context_free(d->datagram_context);
}
/* The peer has no lane any more: frees those that it sends with. */
void ripc__datagram_contexts_free(struct ripc__peer *p);

/*
 * DATAGRAM_CONTEXT, with a valid id; lane->peer has datagrams. Return: whether the caller confirms
 * it; without that the peer goes on with full headers.
 */
bool ripc__datagram_context_received(struct ripc__lane *lane, uint64_t id,
				     const struct ripc__header_context *services, uint64_t first);
void ripc__datagram_context_acked(struct ripc__lane *lane, uint64_t id);
/* UNKNOWN_CONTEXT: @word is that of the datagram that it answers. */
void ripc__datagram_context_refused(struct ripc *ctx, uint64_t word);

#endif
