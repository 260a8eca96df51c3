/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Arguments as a user writes them. A service: a number is its id, anything else its name. */
#ifndef SERVICE_ARG_H
#define SERVICE_ARG_H

#include <ripc.h>

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Reads the digits of an id, decimal or behind 0x. *end: behind them. 0: there are none. */
static inline uint64_t service_arg_id(const char *text, char **end)
{
	uint64_t id = 0;

	*end = (char *)text;
	errno = 0;
	/* strtoull() would also read blanks and a sign, and makes UINT64_MAX of a large number. */
	if (*text >= '0' && *text <= '9')
		id = strtoull(text, end, strncmp(text, "0x", 2) ? 10 : 16);
	return errno ? 0 : id;
}

/* The id of a service; 0: there is none of that id or name. */
static inline uint64_t service_arg(const char *text)
{
	char *end;
	uint64_t id = service_arg_id(text, &end);

	return *end ? ripc_id(text) : id;
}

/* Reads a decimal number. Return: whether it is one, and at most max. */
static inline bool number_arg(const char *text, unsigned long long max, unsigned long long *number)
{
	char *end;

	errno = 0;
	*number = strtoull(text, &end, 10);
	return *text >= '0' && *text <= '9' && !*end && !errno && *number <= max;
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
