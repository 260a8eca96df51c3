/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Has ten calls under way and takes the answers in the order in which they come.
 * A loop of poll(2) waits for them; it could wait for other descriptors as well.
 * The page ripc_reply(3) shows the service.
 */
#include <ripc.h>

#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define CALLS 10

static int answered(struct ripc_completion *done)
{
	struct ripc_message *reply;
	uint64_t square;
	int err = ripc_call_wait(&done->request, &reply, 0);

	if (err) {
		fprintf(stderr, "%s\n", ripc_error_detail());
	} else if (reply->items[0].iov_len == sizeof(square)) {
		memcpy(&square, reply->items[0].iov_base, sizeof(square));
		printf("%llu * %llu = %llu\n",
		       (unsigned long long)*(uint64_t *)done->data,
		       (unsigned long long)*(uint64_t *)done->data,
		       (unsigned long long)square);
	}
	ripc_message_free(reply);
	return err;
}

int main(void)
{
	struct pollfd readable = {ripc_completion_fd(NULL), POLLIN, 0};
	struct ripc_call_options options;
	struct ripc_completion done;
	struct ripc_request *call;
	struct ripc_service *me;
	uint64_t numbers[CALLS];
	int left = 0, failed = 0;

	memset(&options, 0, sizeof(options));
	options.size = sizeof(options);
	memset(&done, 0, sizeof(done));
	done.size = sizeof(done);
	if (readable.fd < 0 ||
	    ripc_service_register(NULL, RIPC_ANY_ID, 0, &me)) {
		fprintf(stderr, "%s\n", ripc_error_detail());
		return 1;
	}
	for (; left < CALLS; left++) {
		struct iovec item = {&numbers[left], sizeof(numbers[0])};

		numbers[left] = (uint64_t)left;
		options.data = &numbers[left];
		if (ripc_call_start(me, 44, &item, 1, &options, 2000,
				    &call)) {
			fprintf(stderr, "%s\n", ripc_error_detail());
			return 1;
		}
	}
	while (left && poll(&readable, 1, -1) >= 0)
		while (!ripc_completion_next(NULL, &done, 0))
			if (done.kind == RIPC_COMPLETION_REQUEST) {
				failed |= answered(&done) != 0;
				left--;
			}
	return ripc_close(NULL) || failed;
}
