/* SPDX-License-Identifier: LGPL-2.1-or-later */
#define _GNU_SOURCE
#include "resolver/ensemble_hosts.h"

#include <netdb.h>
#include <netinet/in.h>
#include <resolv.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define QUERY_S 1 /* wait for one name server */

/* Appends an entry. Return: whether there was room. */
static bool append(char *addresses, const char *host, const char *port)
{
	size_t at = strlen(addresses), room = RIPC__HOSTS_BYTES - at;
	int n = snprintf(addresses + at, room, "%s%s:%s", at ? "," : "", host, port);

	if (n > 0 && (size_t)n < room)
		return true;
	addresses[at] = 0;
	return false;
}

static unsigned resolve_one(const char *host, const char *port, char *addresses, char *why,
			    size_t whylen)
{
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
				       .ai_flags = AI_ADDRCONFIG | AI_NUMERICSERV};
	struct addrinfo numeric = hints, *all, *at;
	char text[INET6_ADDRSTRLEN + 32];
	unsigned n = 0;
	int rc;

	numeric.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
	rc = getaddrinfo(host, port, &numeric, &all);
	if (rc == EAI_NONAME)
		rc = getaddrinfo(host, port, &hints, &all);
	if (rc) {
		snprintf(why, whylen, "cannot resolve host name %s: %s", host, gai_strerror(rc));
		return 0;
	}
	for (at = all; at; at = at->ai_next)
		if (!getnameinfo(at->ai_addr, at->ai_addrlen, text, sizeof(text), NULL, 0,
				 NI_NUMERICHOST))
			n += append(addresses, text, port);
	freeaddrinfo(all);
	return n;
}

unsigned ripc__hosts_resolve(const char *hosts, const atomic_bool *stop,
			     char addresses[static RIPC__HOSTS_BYTES], char *why, size_t whylen)
{
	unsigned n = 0;

	addresses[0] = 0;
	snprintf(why, whylen, "the context is being closed");
	/*
	 * Read the file anew each time: it may have changed, and the values set here disable
	 * reloading.
	 */
	if (!res_ninit(&_res)) {
		_res.retrans = QUERY_S;
		_res.retry = 1;
	}
	while (*hosts && !*stop) {
		size_t len = strcspn(hosts, ","), colon = len;
		char host[256], port[8];

		while (colon && hosts[colon - 1] != ':')
			colon--;
		if (colon > 1 && colon - 1 < sizeof(host) && len - colon < sizeof(port)) {
			bool brackets = hosts[0] == '[' && hosts[colon - 2] == ']';

			snprintf(host, sizeof(host), "%.*s", (int)(colon - 1 - 2 * brackets),
				 hosts + brackets);
			snprintf(port, sizeof(port), "%.*s", (int)(len - colon), hosts + colon);
			n += resolve_one(host, port, addresses, why, whylen);
		}
		hosts += len + (hosts[len] == ',');
	}
	res_nclose(&_res);
	return n;
}
