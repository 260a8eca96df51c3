/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A service that answers each call with a large picture and never waits for one caller: the answer
 * travels while the service receives the next request. There is one answer at a time here; a real
 * service has a list of them.
 */
#include <ripc.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define LEN ((size_t)1 << 20)

int main(void)
{
	void *picture = ripc_buf_alloc(NULL, LEN);
	struct iovec item = {picture, LEN};
	struct ripc_request *answer = NULL;
	struct ripc_service *service;
	struct ripc_message *request;
	int err = 0;

	if (!picture || ripc_service_register(NULL, 45, 0, &service)) {
		fprintf(stderr, "%s\n", ripc_error_detail());
		return 1;
	}
	memset(picture, 'x', LEN);
	printf("service 45 waits\n");
	fflush(stdout);
	while (!err || err == -ETIMEDOUT) {
		if (answer && ripc_request_test(&answer) == -EINPROGRESS)
			err = ripc_receive(service, &request, 1);
		else
			err = ripc_receive(service, &request, 1000);
		if (err)
			continue;
		if (request->call &&
		    (answer ? ripc_reply_error(request, EBUSY)
			    : ripc_reply_start(request, &item, 1, NULL,
					       &answer)))
			fprintf(stderr, "%s\n", ripc_error_detail());
		ripc_message_free(request);
	}
	fprintf(stderr, "%s\n", ripc_error_detail());
	return 1;
}
