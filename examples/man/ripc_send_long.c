/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Reads the standard input into a buffer that grows, and sends it as one long message to service
 * 43.
 * Every return value but -EPIPE shows whether the message stands in the memory of the receiver.
 * After -EPIPE only an answer of the application is proof; without one, repeat the message if
 * processing it twice does no harm.
 * The page ripc_message_detach(3) shows the service.
 */
#include <ripc.h>

#include <errno.h>
#include <stdio.h>

#define FIRST_SIZE 65536

int main(void)
{
	size_t size = FIRST_SIZE, len = 0, n;
	char *buf = (char *)ripc_buf_alloc(NULL, size);
	struct ripc_service *me;
	struct iovec item;
	int err;

	while (buf && (n = fread(buf + len, 1, size - len, stdin)) > 0) {
		char *grown = buf;

		len += n;
		if (len == size)
			grown = (char *)ripc_buf_realloc(NULL, buf,
							 size *= 2);
		if (!grown)
			ripc_buf_free(NULL, buf);
		buf = grown;
	}
	if (!buf || ripc_service_register(NULL, RIPC_ANY_ID, 0, &me)) {
		fprintf(stderr, "%s\n", ripc_error_detail());
		return 1;
	}
	item.iov_base = buf;
	item.iov_len = len;
	err = ripc_send_long(me, 43, &item, 1, NULL, 10000);
	if (!err)
		printf("%zu bytes stand in the memory of service 43\n",
		       len);
	else if (err == -EPIPE)
		fprintf(stderr, "perhaps delivered: %s\n",
			ripc_error_detail());
	else
		fprintf(stderr, "not delivered: %s\n", ripc_error_detail());
	ripc_buf_free(NULL, buf);
	return ripc_close(NULL) || err;
}
