/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Registers a service with a name, and lists what is registered on the network. Other processes
 * send to ripc_id("example/clock").
 */
#include <ripc.h>

#include <inttypes.h>
#include <stdio.h>

static void print(void *arg, const struct ripc_service_info *info)
{
	(void)arg;
	printf("%" PRIu64 " \"%s\" on %s host, by %s\n", info->service,
	       info->name, info->same_host ? "this" : "another",
	       info->addresses);
}

int main(void)
{
	struct ripc_service *service;
	int n;

	if (ripc_register_name(NULL, "example/clock", 0, &service)) {
		fprintf(stderr, "%s\n", ripc_error_detail());
		return 1;
	}
	if (ripc_service_id(service) != ripc_id("example/clock"))
		return 1;
	n = ripc_service_list(NULL, print, NULL, 500);
	if (n < 0) {
		fprintf(stderr, "%s\n", ripc_error_detail());
		return 1;
	}
	printf("%d services\n", n);
	return ripc_close(NULL) != 0;
}
