/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A client: it sends one message to a service and prints the answer. See server.c.
 *
 *     ./client 42 "hello, world"
 */
#include <ripc.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
	const char *text = argc > 2 ? argv[2] : "hello, world";
	struct iovec item = {.iov_base = (void *)text, .iov_len = strlen(text)};
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
		err = ripc_send(service, argc > 1 ? strtoull(argv[1], NULL, 0) : 42, &item, 1, NULL,
				2000);
	if (!err)
		err = ripc_receive(service, &answer, 2000);
	if (err) {
		fprintf(stderr, "client: %s: %s\n", ripc_strerror(err), ripc_error_detail());
		return 1;
	}
	printf("service %llu answers: %.*s\n", (unsigned long long)answer->source,
	       (int)answer->items[0].iov_len, (char *)answer->items[0].iov_base);
	ripc_message_free(answer);
	/* Optional at the end of a process: other processes learn at once that the id is free. */
	ripc_close(NULL);
	if (fflush(stdout)) {
		perror("client: standard output");
		return 1;
	}
	return 0;
}
