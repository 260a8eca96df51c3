/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Returns messages, with lengths of type size_t, as one release of 2012 took them: wide_server
 * [SERVICE]
 */
#include "../src/ripc.h"
#include "common.h"
#include "config.h"

int main(int argc, char **argv)
{
	int service = number(argc, argv, 1, 1);
	void **short_items, **long_items;
	uint32_t *short_sizes, *long_sizes;
	uint16_t from, num_short, num_long;

	/* As then: nobody looks whether it is ours. */
	ripc_register_service_id(service);
	printf("Starting loop\n");
	fflush(stdout);
	while (true) {
		ripc_receive((uint16_t)service, &from, &short_items, &short_sizes, &num_short,
			     &long_items, &long_sizes, &num_long);
		if (num_short)
			ripc_send_short((uint16_t)service, from, short_items, (size_t *)short_sizes,
					num_short, NULL, NULL, 0);
		else
			ripc_send_long((uint16_t)service, from, long_items, (size_t *)long_sizes,
				       num_long, NULL, NULL, 0);
		if (num_short)
			ripc_buf_free(short_items[0]);
		for (int i = 0; i < num_long; i++)
			ripc_buf_free(long_items[i]);
		free(short_items);
		free(short_sizes);
		free(long_items);
		free(long_sizes);
	}
}
