/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Gets a file again and again: bulk_client NAME COPY [ROUNDS [WINDOW_BYTES]] */
#include "../src/ripc.h"
#include "common.h"
#include "config.h"

int main(int argc, char **argv)
{
	int rounds = number(argc, argv, 3, NUM_ROUNDS), window = number(argc, argv, 4, 16777216);
	uint16_t me = ripc_register_random_service_id(), from, num_short, num_long;
	void *items[1], **short_items, **long_items, *header_window, *payload_window;
	uint32_t lengths[1], *short_sizes, *long_sizes;
	unsigned long before;
	int recvd = 0, in_window = 0;
	char request[300];

	if (argc < 3)
		panic("what file?");
	snprintf(request, sizeof(request), "GET /%s HTTP/1.0\n\n", argv[1]);
	items[0] = request;
	lengths[0] = (uint32_t)strlen(request);
	header_window = ripc_buf_alloc(4096);
	payload_window = malloc((size_t)window);
	before = now_usec();
	for (int i = 0; i < rounds; i++) {
		/* The same ones in every round. */
		if (ripc_reg_recv_window_for_service(header_window, 4096, me) ||
		    ripc_reg_recv_window(payload_window, (size_t)window))
			panic("window failed");
		if (ripc_send_short(me, 8080, items, lengths, 1, NULL, NULL, 0))
			continue;
		if (ripc_receive(me, &from, &short_items, &short_sizes, &num_short, &long_items,
				 &long_sizes, &num_long))
			panic("receive failed");
		if (num_short || !num_long)
			panic("not a long message");
		if (strncmp(long_items[0], "HTTP/1.0 200 OK\n", 16) || num_long != 2)
			panic("%s", (char *)long_items[0]);
		recvd++;
		in_window += long_items[0] == header_window && long_items[1] == payload_window;
		if (i == 0) {
			FILE *copy = fopen(argv[2], "wb");

			if (!copy || fwrite(long_items[1], 1, long_sizes[1], copy) != long_sizes[1])
				panic("cannot write %s", argv[2]);
			fclose(copy);
		}
		for (int k = 0; k < num_long; k++)
			if (long_items[k] != header_window && long_items[k] != payload_window)
				ripc_buf_free(long_items[k]);
		free(long_items);
		free(long_sizes);
	}
	report(recvd, now_usec() - before);
	printf("%d of them in the windows\n", in_window);
	return EXIT_SUCCESS;
}
