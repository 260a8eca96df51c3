/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Prints numbers and texts, and answers: pair_server */
#include "../src/ripc.h"
#include "common.h"
#include "config.h"

int main(void)
{
	void **short_items, **long_items;
	uint32_t *short_sizes, *long_sizes;
	uint16_t from, num_short, num_long;

	ripc_register_service_id(4);
	printf("Waiting for message\n");
	fflush(stdout);
	while (true) {
		if (ripc_receive(4, &from, &short_items, &short_sizes, &num_short, &long_items,
				 &long_sizes, &num_long) ||
		    num_short != 2)
			panic("no message of two items");
		/* The text comes without its end. */
		printf("Message %d: %s\n", *(int *)short_items[0], (char *)short_items[1]);
		fflush(stdout);
		(*(int *)short_items[0])++;
		ripc_send_short(4, from, short_items, short_sizes, num_short, NULL, NULL, 0);
		ripc_buf_free(short_items[1]);
		free(short_items);
		free(short_sizes);
	}
}
