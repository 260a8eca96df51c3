/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The reliable short messages from one service to another: how many are not acknowledged, and the
 * error of one that was lost, until a call has returned it. Lock held in every function.
 */
#ifndef RIPC_CORE_MESSAGE_PAIR_H
#define RIPC_CORE_MESSAGE_PAIR_H

#include "core/progress/context.h"
#include "core/reliable/reliable.h"
#include "core/service/service.h"

/* Idle pairs above this number are freed. */
#define RIPC__IDLE_PAIRS_MAX 1024

struct ripc__pair_key {
	uint64_t source; /* address of the service; unlike its id, it is never used again */
	uint64_t dest;   /* id */
};

/* The reliable messages from one service to another, in ctx->pairs. */
struct ripc__pair {
	struct ripc__reliable_owner owner;
	UT_hash_handle hh;
	struct ripc__pair_key key;
	uint64_t source_id;
	struct ripc *ctx;
	bool ended; /* its service has ended: no call can return its error */
	unsigned unacked;
	unsigned users;          /* threads that send or flush */
	int error;               /* of a message that was lost; 0: none, or it was reported */
	char *why;               /* the explanation, or NULL */
	struct ripc__waitq done; /* unacked is 0, or error is set */
};

static inline bool ripc__pair_is(const struct ripc__pair *pair, const struct ripc_service *s,
				 uint64_t dest)
{
	return pair && pair->key.source == (uintptr_t)s && pair->key.dest == dest;
}

/* NULL: there is none. */
struct ripc__pair *ripc__pair_find(struct ripc *ctx, const struct ripc_service *s, uint64_t dest);
/* Creates it if needed. NULL: out of memory. */
struct ripc__pair *ripc__pair_get(struct ripc *ctx, const struct ripc_service *s, uint64_t dest);
/*
 * Frees the pair if it is idle and its service has ended, or there are too many pairs. If its error
 * was not reported yet, the oldest idle pair goes in its place: no call may ever ask for that one.
 */
void ripc__pair_trim(struct ripc *ctx, struct ripc__pair *pair);
/* Reports the error of an earlier message once. Return: the error. */
int ripc__pair_error(struct ripc__pair *pair);
/* s is being closed: wakes the threads that flush for it. */
void ripc__pairs_service_stopped(struct ripc_service *s);
/* The pairs of s end with their messages. No thread sends or flushes for it any more. */
void ripc__pairs_service_ended(struct ripc_service *s);
void ripc__pairs_free(struct ripc *ctx);

#endif
