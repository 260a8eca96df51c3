/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Takes service 42 over from a running service, as a new version of a program does.
 * Clients follow to the new holder by themselves.
 * The former holder receives -ESHUTDOWN after its last message.
 */
#include <ripc.h>

#include <errno.h>
#include <stdio.h>

int main(void)
{
	struct ripc_service *service;
	int err = ripc_service_register(NULL, 42, 0, &service);

	if (err == -EADDRINUSE) {
		printf("%s\n", ripc_error_detail());
		err = ripc_service_register(NULL, 42, RIPC_TAKEOVER,
					    &service);
	}
	if (err) {
		fprintf(stderr, "%s\n", ripc_error_detail());
		return 1;
	}
	printf("service 42 is ours\n");
	return ripc_close(NULL) != 0;
}
