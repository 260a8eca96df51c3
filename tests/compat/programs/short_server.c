/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Returns short messages: short_server [SERVICE] */
#include "../src/ripc.h"
#include "common.h"
#include "config.h"

int main(int argc, char **argv)
{
	int service = number(argc, argv, 1, 1);
	void **short_items, **long_items;
	uint32_t *short_sizes, *long_sizes;
	uint16_t from, num_short, num_long;

	if (!ripc_register_service_id(service))
		panic("service %d is taken", service);
	printf("Starting loop\n");
	fflush(stdout);
	while (true) {
		if (ripc_receive((uint16_t)service, &from, &short_items, &short_sizes, &num_short,
				 &long_items, &long_sizes, &num_long))
			panic("receive failed");
		if (num_short)
			ripc_send_short((uint16_t)service, from, short_items, short_sizes,
					num_short, NULL, NULL, 0);
		/* One receive buffer holds all of them. */
		if (short_items)
			ripc_buf_free(short_items[num_short - 1]);
		free(short_items);
		free(short_sizes);
	}
}
