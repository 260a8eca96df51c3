/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Long messages and calls with the memory that they use until they end. Requests that are under way
 * belong to the thread that started them.
 */
#ifndef RIPC_TESTS_STRESS_REQUEST_H
#define RIPC_TESTS_STRESS_REQUEST_H

#include "memory.h"
#include "ripc.h"

struct request {
	struct ripc_request *handle;
	bool call;
	struct service *service;
	uint64_t number;
	struct memory memory;
	struct iovec items[RIPC_ITEMS_MAX];
	unsigned nitems;
	struct iovec buffers[RIPC_RETURN_BUFFERS_MAX]; /* of a call: for the answer */
	unsigned nbuffers;
	bool freed_by_send; /* RIPC_FREE_ITEMS */
	uint64_t started_ms;
	int timeout_ms; /* of a call */
};

/* A message in new memory. one_item: not divided. Return: NULL: no memory. */
struct request *request_new(struct service *s, uint64_t dest, uint64_t len, bool one_item);
/*
 * The library does not use its memory any more: checks it, overwrites and frees it. sent: the
 * message was sent.
 */
void request_free(struct request *r, bool sent);
/* Adds one that is under way to those of this thread. */
void request_add(struct request *r);

/* The operations. */
void call_service(struct service *s, bool start);
/* Waits for, tests, or cancels one. */
void request_any(void);
/* Ends all, for the end of a run. Calls idle() between the attempts. */
void request_end_all(void (*idle)(void));

#endif
