/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Connects to service 42 ahead of the first message, and prints how it is reached, why other
 * transports are not used, and the sizes that its messages may have.
 * Later, ripc_route_get() gives the same at any moment, and never waits.
 */
#include <ripc.h>

#include <stdio.h>

int main(void)
{
	struct ripc_limits limits;
	struct ripc_route route;

	limits.size = sizeof(limits);
	route.size = sizeof(route);
	if (ripc_route_lookup(NULL, 42, &route, 2000)) {
		fprintf(stderr, "%s\n", ripc_error_detail());
		return 1;
	}
	printf("service 42: %s at %s\n%s\n", route.transport, route.address,
	       route.reason);
	if (ripc_route_limits(NULL, 42, &limits) ||
	    ripc_route_get(NULL, 42, &route)) {
		fprintf(stderr, "%s\n", ripc_error_detail());
		return 1;
	}
	printf("short messages: %llu bytes at most; connected: %s\n",
	       (unsigned long long)limits.short_max,
	       route.connected ? "yes" : "no");
	return ripc_close(NULL) != 0;
}
