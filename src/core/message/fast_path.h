/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What core/message/fast_path.c knows of the way that the last plain message went, so that the next one need not ask for all of it again.
 *
 * It is true as long as nothing but plain messages is sent, received and freed. So whoever takes the lock by ripc__lock(), and
 * core/message/fast_path.c itself before it goes on by the general way, forgets it: there is no state whose change had to be told. What was
 * counted meanwhile is added up then, so that nobody who looks at a counter under the lock finds an old one.
 */
#ifndef RIPC_CORE_MESSAGE_FAST_PATH_H
#define RIPC_CORE_MESSAGE_FAST_PATH_H

#include "transport/transport.h"

struct ripc;
struct ripc_request;
struct ripc_service;

/* To one service of ours, over one lane. */
struct ripc__fast_rx {
	struct ripc_service *s; /* as above */
	struct ripc__lane *lane;
	struct ripc__flow *flow;
	struct ripc__transport *t;
	bool (*poll_one)(struct ripc__transport *t, void *units_limit, size_t cap,
			 struct ripc__event *ev);
	uint64_t bytes; /* of payload, received */
	unsigned tp;    /* index of the transport */
	uint32_t head;  /* bytes before the payload: RIPC__FAST_HEADER_LEN, or RIPC__ELIDED_LEN */
	uint32_t first, next_seq;         /* numbers of the first message and of the next */
	uint64_t units_left, units_limit; /* units until the flow has to be asked: now, and at first */
	struct {
		uint64_t source, dest;
		uint8_t instance[16];
	} pub; /* how each struct ripc_message begins */
};

struct ripc__fast_path {
	bool valid; /* one of them, perhaps */
	struct ripc__fast_rx in;
};

/* Lock held. */
void ripc__fast_path_flush(struct ripc *ctx);

/* Some looks, by a thread that does not drive, for the end of a request, as ripc_receive() has for a message. Lock held. */
void ripc__fast_path_poll_request(struct ripc *ctx, const struct ripc_request *r, int timeout_ms);

#endif
