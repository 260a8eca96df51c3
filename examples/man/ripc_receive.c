/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A service that answers each request of two items: the first item of the reply is the first item
 * of the request, the second item is the text in capital letters. The reply is sent after the
 * request was processed, so it confirms to the client that the work is done. A reply that cannot be
 * sent is the client's loss only: the service goes on. The page ripc_send_short(3) shows a client.
 */
#include <ripc.h>

#include <ctype.h>
#include <stdio.h>

static int answer(struct ripc_service *service,
		  const struct ripc_message *request)
{
	char text[256];
	struct iovec reply[2] = {request->items[0], {text, 0}};
	const char *from = (const char *)request->items[1].iov_base;
	size_t len = request->items[1].iov_len;

	for (; reply[1].iov_len < len && reply[1].iov_len < sizeof(text);
	     reply[1].iov_len++)
		text[reply[1].iov_len] = (char)toupper(
			(unsigned char)from[reply[1].iov_len]);
	return ripc_send_short(service, request->source, reply, 2, NULL,
			       1000);
}

int main(void)
{
	struct ripc_service *service;
	struct ripc_message *request;

	if (ripc_service_register(NULL, 42, 0, &service)) {
		fprintf(stderr, "%s\n", ripc_error_detail());
		return 1;
	}
	printf("service 42 waits\n");
	fflush(stdout);
	while (!ripc_receive(service, &request, -1)) {
		/* Check what comes from the network before it is used. */
		if (request->nitems == 2 && answer(service, request))
			fprintf(stderr, "%s\n", ripc_error_detail());
		ripc_message_free(request);
	}
	fprintf(stderr, "%s\n", ripc_error_detail());
	return 1;
}
