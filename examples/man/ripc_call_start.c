/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Has ten calls under way at once. A square may be computed twice without harm, so the calls are
 * idempotent: when the service is restarted in the middle, the library asks the new one.
 * The page ripc_reply(3) shows the service.
 */
#include <ripc.h>

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define CALLS 10

int main(void)
{
	struct ripc_call_options options;
	struct ripc_request *calls[CALLS];
	struct ripc_message *reply;
	struct ripc_service *me;
	uint64_t number, sum = 0;
	int failed = 0;

	memset(&options, 0, sizeof(options));
	options.size = sizeof(options);
	options.flags = RIPC_IDEMPOTENT;
	if (ripc_service_register(NULL, RIPC_ANY_ID, 0, &me)) {
		fprintf(stderr, "%s\n", ripc_error_detail());
		return 1;
	}
	for (number = 0; number < CALLS; number++) {
		struct iovec item = {&number, sizeof(number)};

		if (ripc_call_start(me, 44, &item, 1, &options, 2000,
				    &calls[number])) {
			fprintf(stderr, "%s\n", ripc_error_detail());
			return 1;
		}
	}
	for (int i = 0; i < CALLS; i++) {
		/* Each call ends within its own 2000 ms. */
		if (ripc_call_wait(&calls[i], &reply, -1)) {
			fprintf(stderr, "%s\n", ripc_error_detail());
			failed = 1;
		} else if (reply->items[0].iov_len == sizeof(number)) {
			memcpy(&number, reply->items[0].iov_base,
			       sizeof(number));
			sum += number;
		}
		ripc_message_free(reply);
	}
	printf("the sum of the squares is %llu\n", (unsigned long long)sum);
	return ripc_close(NULL) || failed;
}
