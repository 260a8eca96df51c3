/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A camera: sends ten pictures of 4 MiB to service 43, each in a buffer of its own, which the send
 * frees. On the same host the service reads them in place, also if it passes them on; buffers of
 * earlier pictures are used again.
 * The page ripc_message_detach(3) shows a service.
 */
#include <ripc.h>

#include <stdio.h>
#include <string.h>

#define PICTURE 4194304

int main(void)
{
	struct ripc_service *me;
	struct ripc_send_options options;
	struct iovec item;
	int err;

	memset(&options, 0, sizeof(options));
	options.size = sizeof(options);
	options.flags = RIPC_FREE_ITEMS;
	err = ripc_service_register(NULL, RIPC_ANY_ID, 0, &me);
	for (int i = 0; !err && i < 10; i++) {
		char *picture =
			(char *)ripc_buf_alloc_for(NULL, PICTURE, 43);

		if (!picture)
			break;
		memset(picture, i, PICTURE);
		item.iov_base = picture;
		item.iov_len = PICTURE;
		err = ripc_send_long(me, 43, &item, 1, &options, 10000);
	}
	if (err)
		fprintf(stderr, "%s\n", ripc_error_detail());
	return ripc_close(NULL) || err;
}
