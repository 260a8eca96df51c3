/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Returns long messages, and offers buffers for the next: long_server [SERVICE [BYTES]] */
#include "../src/ripc.h"
#include "common.h"
#include "config.h"

int main(int argc, char **argv)
{
	int service = number(argc, argv, 1, 4), bytes = number(argc, argv, 2, 1000000);
	void **short_items, **long_items, *return_bufs[2];
	uint32_t *short_sizes, *long_sizes, return_lengths[2] = {(uint32_t)bytes, 0};
	uint16_t from, num_short, num_long;

	if (!ripc_register_service_id(service))
		panic("service %d is taken", service);
	/* One that is to be allocated, and one that is to be skipped. */
	return_bufs[0] = NULL;
	return_bufs[1] = NULL;
	printf("Starting loop\n");
	fflush(stdout);
	while (true) {
		if (ripc_receive((uint16_t)service, &from, &short_items, &short_sizes, &num_short,
				 &long_items, &long_sizes, &num_long))
			panic("receive failed");
		if (num_long)
			ripc_send_long((uint16_t)service, from, long_items, long_sizes, num_long,
				       return_bufs, return_lengths, 2);
		for (int i = 0; i < num_long; i++)
			ripc_buf_free(long_items[i]);
		if (num_short)
			ripc_buf_free(short_items[0]);
		free(short_items);
		free(short_sizes);
		free(long_items);
		free(long_sizes);
	}
}
