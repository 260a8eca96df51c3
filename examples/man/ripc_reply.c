/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A service that answers calls: the square of a number. It refuses requests that are no number, and
 * does not compute for callers that have given up. A request that it frees without an answer, by
 * mistake or on its way out, fails at its caller at once.
 * The pages ripc_call(3) and ripc_call_start(3) show callers.
 */
#include <ripc.h>

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static int answer(struct ripc_message *request)
{
	uint64_t number;
	struct iovec item = {&number, sizeof(number)};

	if (request->items[0].iov_len != sizeof(number))
		return ripc_reply_error(request, EINVAL);
	memcpy(&number, request->items[0].iov_base, sizeof(number));
	if (ripc_message_cancelled(request) == 1 ||
	    ripc_message_deadline(request) == 0)
		return 0;
	number *= number;
	return ripc_reply(request, &item, 1, 1000);
}

int main(void)
{
	struct ripc_service *service;
	struct ripc_message *request;

	if (ripc_service_register(NULL, 44, 0, &service)) {
		fprintf(stderr, "%s\n", ripc_error_detail());
		return 1;
	}
	printf("service 44 waits\n");
	fflush(stdout);
	while (!ripc_receive(service, &request, -1)) {
		/* A message that is not the request of a call has call 0. */
		if (request->call && answer(request))
			fprintf(stderr, "%s\n", ripc_error_detail());
		ripc_message_free(request);
	}
	fprintf(stderr, "%s\n", ripc_error_detail());
	return 1;
}
