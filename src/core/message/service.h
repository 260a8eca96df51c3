/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Registering, for other modules, and the events of the resolver. */
#ifndef RIPC_CORE_MESSAGE_SERVICE_H
#define RIPC_CORE_MESSAGE_SERVICE_H

#include "core/service/service.h"

/*
 * ripc_service_register() with a context, and a name that the record carries; NULL: none. The id is
 * not checked against the name: tests register two names with one id.
 */
int ripc__service_register(struct ripc *ctx, uint64_t id, const char *name, unsigned flags,
			   struct ripc_service **service);

/* Resolver events. */
void ripc__service_registered(struct ripc *ctx, uint64_t id);
/* Another context holds, or held, a service of ours as well: a network that was split. */
void ripc__service_split(struct ripc *ctx, uint64_t id, const char *text);
void ripc__service_conflict(struct ripc *ctx, uint64_t id, bool taken_over, const char *text);

#endif
