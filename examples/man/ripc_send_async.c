/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Sends two buffers to service 43 and computes while they travel.
 * A buffer is the library's until its request is done or cancelled.
 * ripc_request_test() never waits, ripc_request_wait() waits for a limited time, and
 * ripc_request_cancel() ends a request whose time is up: afterwards the memory is the program's
 * again in every case.
 * The page ripc_message_detach(3) shows the service.
 */
#include <ripc.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define LEN ((size_t)1 << 20)

static unsigned long compute(void)
{
	unsigned long sum = 0;

	for (unsigned long i = 0; i < 100000; i++)
		sum += i;
	return sum;
}

/* Waits for two seconds at most. Return: 0 if it was delivered. */
static int finish(struct ripc_request *request)
{
	int err = ripc_request_wait(&request, 2000);

	/* Still under way: withdraw it. It may be delivered by now. */
	if (request)
		err = ripc_request_cancel(&request, 100);
	if (err)
		fprintf(stderr, "%s: %s\n", ripc_strerror(err),
			ripc_error_detail());
	return err;
}

int main(void)
{
	char *buf = (char *)ripc_buf_alloc(NULL, 2 * LEN);
	struct ripc_request *requests[2] = {NULL, NULL};
	unsigned long sum = 0;
	struct ripc_service *me;
	int err, failed = 0;

	if (!buf || ripc_service_register(NULL, RIPC_ANY_ID, 0, &me)) {
		fprintf(stderr, "%s\n", ripc_error_detail());
		return 1;
	}
	memset(buf, 'x', 2 * LEN);
	for (int i = 0; i < 2; i++) {
		struct iovec item = {buf + (size_t)i * LEN, LEN};

		if (ripc_send_async(me, 43, &item, 1, NULL, &requests[i])) {
			fprintf(stderr, "%s\n", ripc_error_detail());
			failed = 1;
		}
	}
	for (int n = 0; n < 100 && requests[0]; n++) {
		sum += compute();
		err = ripc_request_test(&requests[0]);
		if (err && err != -EINPROGRESS)
			failed = 1;
	}
	for (int i = 0; i < 2; i++)
		if (requests[i] && finish(requests[i]))
			failed = 1;
	if (!failed)
		printf("both delivered, the sum is %lu\n", sum);
	ripc_buf_free(NULL, buf);
	return ripc_close(NULL) || failed;
}
