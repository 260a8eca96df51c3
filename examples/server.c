/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A server: it becomes the holder of a service id and answers every message.
 *
 *     ./server 42                   in one terminal
 *     ./client 42 "hello, world"    in another, on this host or another one of the network
 *
 * Neither names an address: the library finds the service by its id, and picks the fastest way to
 * it. Instead of 42 you may write a name, such as hello/world.
 */
#include "service_arg.h"

#include <stdio.h>

int main(int argc, char **argv)
{
	struct ripc_service *service;
	struct ripc_message *message;
	int err;

	/* NULL is the default context of the process. It is opened when first used. */
	err = service_arg_register(argc > 1 ? argv[1] : "42", &service);
	if (err) {
		/* Every error has a name, and a text with the cause. */
		fprintf(stderr, "server: %s: %s\n", ripc_strerror(err), ripc_error_detail());
		return 1;
	}
	printf("service %llu waits for messages\n", (unsigned long long)ripc_service_id(service));
	fflush(stdout);
	/* -1: wait for ever. Every call that can wait takes such a timeout in milliseconds. */
	while (!ripc_receive(service, &message, -1)) {
		/* A message has one or more items; ours have one. It names its source. */
		printf("service %llu sent: %.*s\n", (unsigned long long)message->source,
		       (int)message->items[0].iov_len, (char *)message->items[0].iov_base);
		fflush(stdout);
		/*
		 * The items can be sent on as they are: here, as the answer of a call, or as a
		 * message to where they came from.
		 */
		if (message->call)
			err = ripc_reply(message, message->items, message->nitems, 1000);
		else
			err = ripc_send(service, message->source, message->items, message->nitems,
					NULL, 1000);
		if (err)
			fprintf(stderr, "server: %s: %s\n", ripc_strerror(err),
				ripc_error_detail());
		/* Its memory is used again for the next messages. */
		ripc_message_free(message);
	}
	return 0;
}
