/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Attempts to connect to a peer: for each way that was tried, why it failed. They explain a peer
 * that cannot be reached, and the transports passed over by a lane that is up.
 *
 * A new attempt on a way replaces the cause of the last one when it has failed, not when it begins,
 * so an error names all that was tried in any round. All are forgotten when the peer's lane breaks
 * and when its addresses change. Owned by the peer; the context's lock is held.
 */
#ifndef RIPC_CORE_PEER_ATTEMPT_H
#define RIPC_CORE_PEER_ATTEMPT_H

#include "core/peer/peer.h"

struct ripc__attempt {
	struct ripc__list link; /* in peer->attempts: those that lead to the peer's host first */
	unsigned path_index;    /* ripc__peer_path() */
	unsigned tp;            /* index of the transport */
	bool same_host; /* the transport leads to the peer's host: the attempt left this one */
	char why[];
};

/* An attempt failed. Without memory it is not remembered. */
void ripc__attempt_add(struct ripc__peer *p, unsigned path_index, unsigned tp, bool same_host,
		       const char *why);

/* Forgets all. */
void ripc__attempts_clear(struct ripc__peer *p);

/* A lane over this transport is up: forgets what failed on it before. */
void ripc__attempts_clear_tp(struct ripc__peer *p, unsigned tp);

/* Whether one over this transport has failed. */
bool ripc__attempt_failed_over(const struct ripc__peer *p, unsigned tp);

/* The address that the attempt under way connects to, as far as it is known. */
void ripc__attempt_address(struct ripc *ctx, const struct ripc__peer *p, char *text, size_t len);

/*
 * Every transport that was tried, with its cause: "NAME: cause; NAME: cause". Those that lead to
 * the peer's host come first, because theirs is the likely cause; the attempt under way follows.
 * Each gets its share of @len, so that none is cut off for another. If none was tried: why not.
 * Return: bytes written, without the terminating 0.
 */
size_t ripc__attempts_text(struct ripc *ctx, const struct ripc__peer *p, char *text, size_t len);

#endif
