/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Asks service 44 for a square and waits for the answer. The library matches the answer, resends
 * after the loss of a connection, and keeps late answers away from other calls. So the program only
 * has to decide by the result whether it may repeat the request.
 * The page ripc_reply(3) shows the service.
 */
#include <ripc.h>

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

int main(void)
{
	uint64_t number = 12;
	struct iovec item = {&number, sizeof(number)};
	struct ripc_message *reply;
	struct ripc_service *me;
	int err;

	if (ripc_service_register(NULL, RIPC_ANY_ID, 0, &me)) {
		fprintf(stderr, "%s\n", ripc_error_detail());
		return 1;
	}
	err = ripc_call(me, 44, &item, 1, NULL, &reply, 2000);
	if (err) {
		int unknown = err == -EPIPE || err == -ETIME;

		fprintf(stderr, "%s: %s\n", ripc_strerror(err),
			ripc_error_detail());
		fprintf(stderr, "the request %s\n",
			unknown ? "may have been executed"
				: "was refused or not executed");
	} else if (reply->items[0].iov_len == sizeof(number)) {
		memcpy(&number, reply->items[0].iov_base, sizeof(number));
		printf("12 * 12 = %llu\n", (unsigned long long)number);
	}
	ripc_message_free(reply);
	return ripc_close(NULL) || err;
}
