/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The transports of a context: opening, closing, and their addresses. */
#ifndef RIPC_CORE_PROGRESS_TRANSPORTS_H
#define RIPC_CORE_PROGRESS_TRANSPORTS_H

#include "core/progress/context.h"

/*
 * Opens the allowed ones in the order of the setting, and always the one that reaches ourselves.
 * Return: 0 at least one other than that, unless it was asked for alone; or a negative errno, with
 * the reason of each: some may be open nevertheless.
 */
int ripc__transports_open(struct ripc *ctx);
/* Closes those that are open: which may wait. */
void ripc__transports_close(struct ripc *ctx);

/* An address of a record in words. simulated: hooks.transports of the context. No lock. */
void ripc__transport_describe(const void *simulated, uint8_t transport, const uint8_t *addr,
			      size_t len, char *text, size_t textlen);

/*
 * Our addresses for a record, at most RIPC__RECORD_ADDRS_MAX, of the transports that have one.
 * Return: how many, or if none has one a negative errno.
 */
int ripc__local_addrs(struct ripc *ctx, struct ripc__record_addr *addrs);

/* Tests: a transport that is opened only if the setting names it; or NULL. */
extern const struct ripc__transport_ops *ripc__test_transport;

/* A transport's text without its name and colon in front, for texts that name it already. */
const char *ripc__strip_prefix(const char *transport, const char *text);

/* The addresses of a transport changed: updates the records. */
void ripc__local_addrs_changed(struct ripc *ctx);

#endif
