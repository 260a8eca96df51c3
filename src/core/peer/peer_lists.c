/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/peer/peer.h"

#include <stdlib.h>

#define EMPTY(list)                                                                           \
	{                                                                                     \
		&((struct ripc__peer_lists *)(uintptr_t)&ripc__peer_lists_none)->list,        \
			&((struct ripc__peer_lists *)(uintptr_t)&ripc__peer_lists_none)->list \
	}

const struct ripc__peer_lists ripc__peer_lists_none = {
	.dests = EMPTY(dests),
	.requests = EMPTY(requests),
	.rndvs = EMPTY(rndvs),
	.served = EMPTY(served),
	.attempts = EMPTY(attempts),
	.orphan_returns = EMPTY(orphan_returns),
	.watches = EMPTY(watches),
	.withdrawn = EMPTY(withdrawn),
};

struct ripc__peer_lists *ripc__peer_lists(struct ripc__peer *p)
{
	struct ripc__peer_lists *l = p->lists;

	if (l != &ripc__peer_lists_none)
		return l;
	l = malloc(sizeof(*l));
	if (!l)
		return NULL;
	l->datagrams = NULL;
	l->replies = NULL;
	l->arriving_bytes = l->ready_bytes = 0;
	ripc__list_init(&l->dests);
	ripc__list_init(&l->requests);
	ripc__list_init(&l->rndvs);
	ripc__list_init(&l->served);
	ripc__list_init(&l->attempts);
	ripc__list_init(&l->orphan_returns);
	ripc__list_init(&l->watches);
	ripc__list_init(&l->withdrawn);
	p->lists = l;
	return l;
}

void ripc__peer_lists_init(struct ripc__peer *p)
{
	p->lists = (struct ripc__peer_lists *)(uintptr_t)&ripc__peer_lists_none;
}

void ripc__peer_lists_free(struct ripc__peer *p)
{
	if (p->lists != &ripc__peer_lists_none) {
		free(p->lists->replies);
		free(p->lists);
	}
	ripc__peer_lists_init(p);
}

struct ripc__peer_datagrams *ripc__peer_datagrams(struct ripc *ctx, struct ripc__peer *p)
{
	struct ripc__peer_lists *l = ripc__peer_lists(p);

	if (!l || l->datagrams)
		return l ? l->datagrams : NULL;
	l->datagrams = calloc(1, sizeof(*l->datagrams));
	if (l->datagrams) {
		l->datagrams->next_seq = ripc__seq_begin(ctx);
		ripc__list_init(&l->datagrams->contexts);
	}
	return l->datagrams;
}
