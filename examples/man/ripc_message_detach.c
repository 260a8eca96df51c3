/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A service that keeps the last item it received.
 * An item in a buffer of the pool is kept without a copy; an item that is read in place is copied
 * by ripc_message_detach().
 * Other items, those of short messages among them, are copied by the program.
 */
#include <ripc.h>

#include <stdio.h>
#include <string.h>

static void *keep(struct ripc_message *m)
{
	size_t len = m->items[0].iov_len;
	void *copy;

	if (m->placement[0] == RIPC_IN_POOL ||
	    m->placement[0] == RIPC_IN_SENDER_MEMORY)
		return ripc_message_detach(m, 0);
	copy = ripc_buf_alloc(NULL, len ? len : 1);
	if (copy && len)
		memcpy(copy, m->items[0].iov_base, len);
	return copy;
}

int main(void)
{
	struct ripc_service *service;
	struct ripc_message *m;
	void *last = NULL;

	if (ripc_service_register(NULL, 43, 0, &service)) {
		fprintf(stderr, "%s\n", ripc_error_detail());
		return 1;
	}
	printf("service 43 waits\n");
	fflush(stdout);
	while (!ripc_receive(service, &m, -1)) {
		size_t len = m->items[0].iov_len;
		void *kept = keep(m);

		ripc_message_free(m);
		if (!kept)
			break;
		ripc_buf_free(NULL, last);
		last = kept;
		printf("%zu bytes are kept\n", len);
		fflush(stdout);
	}
	fprintf(stderr, "%s\n", ripc_error_detail());
	return 1;
}
