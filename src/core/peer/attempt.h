/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Attempts to connect to a peer: the cause of failure for each path tried. They explain why a peer
 * is unreachable, and why a lane that is up skipped other transports.
 *
 * An attempt replaces the cause of the last one on its path when it fails, not when it begins, so
 * an error names all paths that were ever tried. All are cleared when the peer's lane fails or its
 * addresses change. Owned by the peer; lock held.
 */
#ifndef RIPC_CORE_PEER_ATTEMPT_H
#define RIPC_CORE_PEER_ATTEMPT_H

#include "core/peer/peer.h"

struct ripc__attempt {
	/* in peer->lists->attempts: those that reach the peer's host first */
	struct ripc__list link;
	unsigned path_index; /* ripc__peer_path() */
	unsigned tp;         /* index of the transport */
	bool same_host;      /* the transport reaches the peer's host: the attempt left this host */
	char why[];
};

/* Records a failed attempt. Out of memory: it is not recorded. */
void ripc__attempt_add(struct ripc__peer *p, unsigned path_index, unsigned tp, bool same_host,
		       const char *why);

void ripc__attempts_clear(struct ripc__peer *p);

/* A lane over this transport is up: clears its failures. */
void ripc__attempts_clear_tp(struct ripc__peer *p, unsigned tp);

bool ripc__attempt_failed_over(const struct ripc__peer *p, unsigned tp);

/* The address of the attempt in progress, if known. */
void ripc__attempt_address(struct ripc *ctx, const struct ripc__peer *p, char *text, size_t len);

/*
 * Writes each transport tried, with its cause: "NAME: cause; NAME: cause". Those that reach the
 * peer's host come first, as the likely cause; the attempt in progress follows. Each entry gets its
 * share of len, so that none is cut off for another. Without any attempt: the reason for that.
 * Return: bytes written, without the terminating 0.
 */
size_t ripc__attempts_text(struct ripc *ctx, const struct ripc__peer *p, char *text, size_t len);

/*
 * Appends the addresses of the peer to a text that ends at @at (base/text.h), each with its
 * transport: "shm host ..., iwarp/soft ...".
 */
void ripc__peer_addrs_text(const struct ripc *ctx, const struct ripc__peer *p, char *text,
			   size_t len, size_t at);

#endif
