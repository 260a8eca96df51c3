/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A client: it sends one message to a service and prints the answer. See server.c.
 *
 *     ./client 42 "hello, world"
 */
#include "service_arg.h"

#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
	const char *text = argc > 2 ? argv[2] : "hello, world";
	struct iovec item = {.iov_base = (void *)text, .iov_len = strlen(text)};
	uint64_t server = service_arg(argc > 1 ? argv[1] : "42");
	struct ripc_service *service;
	struct ripc_message *answer;
	int err;

	/*
	 * The answer comes to a service, too: any id will do, the message carries it to the server.
	 */
	err = ripc_service_register(NULL, RIPC_ANY_ID, 0, &service);
	/*
	 * Short if it fits into one packet, else long: ripc_send() picks. It waits for the service
	 * to be found and connected, here for at most two seconds.
	 */
	if (!err)
		err = ripc_send(service, server, &item, 1, NULL, 2000);
	if (!err)
		err = ripc_receive(service, &answer, 2000);
	if (err) {
		fprintf(stderr, "client: %s: %s\n", ripc_strerror(err), ripc_error_detail());
		return 1;
	}
	printf("service %llu answers: %.*s\n", (unsigned long long)answer->source,
	       (int)answer->items[0].iov_len, (char *)answer->items[0].iov_base);
	ripc_message_free(answer);
	/*
	 * Sends what is still queued, and notifies other processes at once that the id is free. A
	 * process that has its answer, as this one, may also end without it.
	 */
	ripc_close(NULL);
	if (fflush(stdout)) {
		perror("client: standard output");
		return 1;
	}
	return 0;
}
