/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Functions for long messages that other calls use. */
#ifndef RIPC_CORE_MESSAGE_REQUEST_H
#define RIPC_CORE_MESSAGE_REQUEST_H

#include "core/progress/context.h"

/* ripc_send_long() with the lock held, which may be released meanwhile. The service is entered. */
int ripc__send_long(struct ripc_service *s, uint64_t dest, const struct iovec *items,
		    unsigned nitems, uint64_t bytes, const struct ripc_send_options *o,
		    int timeout_ms);

/*
 * Waits until a request is done, at most until a deadline, which timeout_ms gave, and frees it.
 * Lock held. Return: its result, explained.
 */
int ripc__request_finish_until(struct ripc_request **request, uint64_t deadline, int timeout_ms);

/*
 * ripc_call_wait() with the lock held, until the call ends. On return *request is NULL, and the
 * memory of the call belongs to the caller, also if the context is being closed.
 */
int ripc__call_finish(struct ripc_request **request, struct ripc_message **reply);

#endif
