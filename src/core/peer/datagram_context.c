/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/peer/datagram_context.h"
#include "core/peer/lane.h"

#include <stdlib.h>
#include <sys/random.h>

struct ripc__datagram_context *ripc__datagram_context_lookup(struct ripc *ctx, uint64_t word)
{
	struct ripc__node *n = ripc__table_find(&ctx->datagram_contexts, word);

	if (n)
		ctx->last_datagram_context = (struct ripc__datagram_context *)n;
	return (struct ripc__datagram_context *)n;
}

/* NULL: out of memory, or the id is in use. */
static struct ripc__datagram_context *context_add(struct ripc *ctx, struct ripc__peer *p,
						  uint64_t id,
						  const struct ripc__header_context *services,
						  uint64_t first)
{
	uint64_t word = ripc__datagram_word(id);
	struct ripc__datagram_context *c;

	if (ripc__datagram_context_find(ctx, word))
		return NULL;
	c = malloc(sizeof(*c));
	if (!c)
		return NULL;
	*c = (struct ripc__datagram_context){
		.word = word, .ctx = ctx, .peer = p, .services = *services, .first = first};
	ripc__list_init(&c->link);
	ripc__table_add(&ctx->datagram_contexts, &c->node);
	return c;
}

void ripc__datagram_context_free(struct ripc__datagram_context *c)
{
	if (c->ctx->last_datagram_context == c)
		c->ctx->last_datagram_context = NULL;
	if (c->d)
		c->d->datagram_context = NULL;
	else
		c->peer->lists->datagrams->ncontexts--;
	ripc__list_del(&c->link);
	ripc__table_remove(&c->ctx->datagram_contexts, &c->node);
	free(c);
}

/* ---- sending ---- */

struct ripc__datagram_context *ripc__datagram_context_begin(struct ripc__dest *d, uint64_t source)
{
	const struct ripc__header_context services = {d->id, source};
	struct ripc__datagram_context *c = d->datagram_context;
	struct ripc__lane *lane = d->peer->lane;
	uint64_t id;

	d->full_datagrams = 0;
	if (!lane || !(lane->caps & RIPC__CAP_DATAGRAM_CONTEXT))
		return NULL;
	if (c && (c->used || !c->confirmed)) {
		c->used = false;
		return NULL;
	}
	if (c)
		ripc__datagram_context_free(c);
	if (getrandom(&id, sizeof(id), GRND_NONBLOCK) != sizeof(id))
		return NULL;
	id >>= 8;
	c = id ? context_add(lane->ctx, d->peer, id, &services, d->peer->lists->datagrams->next_seq)
	       : NULL;
	if (!c)
		return NULL;
	c->d = d;
	d->datagram_context = c;
	return c;
}

void ripc__datagram_context_acked(struct ripc__lane *lane, uint64_t id)
{
	struct ripc__datagram_context *c =
		ripc__datagram_context_find(lane->ctx, ripc__datagram_word(id));

	if (c && c->d && c->peer == lane->peer)
		c->confirmed = true;
}

void ripc__datagram_context_refused(struct ripc *ctx, uint64_t word)
{
	struct ripc__datagram_context *c = ripc__datagram_context_find(ctx, word);

	if (c && c->d)
		ripc__datagram_context_free(c);
}

/* ---- receiving ---- */

bool ripc__datagram_context_received(struct ripc__lane *lane, uint64_t id,
				     const struct ripc__header_context *services, uint64_t first)
{
	struct ripc__peer_datagrams *datagrams = lane->peer->lists->datagrams;
	struct ripc__datagram_context *c = context_add(lane->ctx, lane->peer, id, services, first);

	if (!c)
		return false;
	if (datagrams->ncontexts == RIPC__DATAGRAM_CONTEXTS_MAX)
		ripc__datagram_context_free(ripc__list_entry(ripc__list_first(&datagrams->contexts),
							     struct ripc__datagram_context, link));
	ripc__list_add(&datagrams->contexts, &c->link);
	datagrams->ncontexts++;
	return true;
}

void ripc__datagram_contexts_free(struct ripc__peer *p)
{
	struct ripc__peer_datagrams *datagrams = p->lists->datagrams;
	struct ripc__datagram_context *c;

	while (datagrams && (c = ripc__list_first_entry(&datagrams->contexts,
							struct ripc__datagram_context, link)))
		ripc__datagram_context_free(c);
}
