/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Short ping-pong: short_client [SERVICE [ROUNDS [ITEMS]]] */
#include "../src/ripc.h"
#include "common.h"
#include "config.h"

#define ITEMS_MAX 8

int main(int argc, char **argv)
{
	uint16_t server = (uint16_t)number(argc, argv, 1, 1);
	int rounds = number(argc, argv, 2, NUM_ROUNDS), items = number(argc, argv, 3, 1);
	uint16_t me = ripc_register_random_service_id(), from, num_short, num_long;
	void *msg_array[ITEMS_MAX], **short_items, **long_items;
	uint32_t length_array[ITEMS_MAX], *short_sizes, *long_sizes;
	unsigned long before;
	int recvd = 0;

	if (items < 1 || items > ITEMS_MAX)
		panic("1 to %d items", ITEMS_MAX);
	for (int i = 0; i < items; i++) {
		length_array[i] = (uint32_t)(PACKET_SIZE / items);
		msg_array[i] = ripc_buf_alloc(length_array[i]);
		memset(msg_array[i], i, length_array[i]);
	}
	before = now_usec();
	for (int i = 0; i < rounds; i++) {
		*(int *)msg_array[0] = i;
		if (ripc_send_short(me, server, msg_array, length_array, (uint16_t)items, NULL,
				    NULL, 0))
			continue;
		if (ripc_receive(me, &from, &short_items, &short_sizes, &num_short, &long_items,
				 &long_sizes, &num_long))
			panic("receive failed");
		if (from != server || num_short != items || *(int *)short_items[0] != i)
			panic("round %d: not what was sent", i);
		for (int k = 0; k < items; k++)
			if (short_sizes[k] != length_array[k] ||
			    memcmp(short_items[k], msg_array[k], length_array[k]))
				panic("round %d: item %d is not what was sent", i, k);
		recvd++;
		ripc_buf_free(short_items[0]);
		free(short_items);
		free(short_sizes);
	}
	report(recvd, now_usec() - before);
	return EXIT_SUCCESS;
}
