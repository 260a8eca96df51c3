/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Sends a hundred messages that must not be lost to service 42, and waits once, at the end, until
 * all are in the memory of the service.
 */
#include <ripc.h>

#include <stdio.h>
#include <string.h>

int main(void)
{
	struct ripc_send_options options;
	struct ripc_service *me;
	int err = 0;

	memset(&options, 0, sizeof(options));
	options.size = sizeof(options);
	options.flags = RIPC_RELIABLE;
	if (ripc_service_register(NULL, RIPC_ANY_ID, 0, &me)) {
		fprintf(stderr, "%s\n", ripc_error_detail());
		return 1;
	}
	for (int i = 0; i < 100 && !err; i++) {
		struct iovec item = {&i, sizeof(i)};

		err = ripc_send(me, 42, &item, 1, &options, 2000);
	}
	if (!err)
		err = ripc_flush(me, 42, 2000);
	if (err)
		fprintf(stderr, "%s: %s\n", ripc_strerror(err),
			ripc_error_detail());
	else
		printf("100 messages were delivered\n");
	return ripc_close(NULL) || err;
}
