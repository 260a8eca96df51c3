/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A context with settings of its own, and a service in it with an id that the library draws.
 * A program that needs no settings of its own opens no context: NULL is the default one.
 */
#include <ripc.h>

#include <stdio.h>

int main(void)
{
	struct ripc_service *service;
	struct ripc *ctx;
	int err;

	err = ripc_open(&ctx, "wait=block peer_timeout_ms=5000");
	if (err) {
		fprintf(stderr, "%s: %s\n", ripc_strerror(err),
			ripc_error_detail());
		return 1;
	}
	err = ripc_service_register(ctx, RIPC_ANY_ID, 0, &service);
	if (!err) {
		printf("service %llu\n",
		       (unsigned long long)ripc_service_id(service));
		err = ripc_service_unregister(service);
	}
	if (err)
		fprintf(stderr, "%s: %s\n", ripc_strerror(err),
			ripc_error_detail());
	return ripc_close(ctx) || err;
}
