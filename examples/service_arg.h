/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A service as a user writes it: a decimal or 0x number is its id, anything else its name. */
#ifndef SERVICE_ARG_H
#define SERVICE_ARG_H

#include <ripc.h>

#include <stdlib.h>
#include <string.h>

/* Reads the digits of an id. *end: behind them. */
static inline uint64_t service_arg_id(const char *text, char **end)
{
	return strtoull(text, end, strncmp(text, "0x", 2) ? 10 : 16);
}

/* The id of a service; 0: there is none of that id or name. */
static inline uint64_t service_arg(const char *text)
{
	char *end;
	uint64_t id = service_arg_id(text, &end);

	return *end ? ripc_id(text) : id;
}

/* Registers it, by its name if it has one. */
static inline int service_arg_register(const char *text, struct ripc_service **service)
{
	char *end;
	uint64_t id = service_arg_id(text, &end);

	return *end ? ripc_register_name(NULL, text, 0, service)
		    : ripc_service_register(NULL, id, 0, service);
}

#endif
