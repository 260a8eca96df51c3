/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Long ping-pong: long_client [SERVICE [BYTES [ROUNDS]]] */
#include "../src/ripc.h"
#include "common.h"
#include "config.h"

int main(int argc, char **argv)
{
	uint16_t server = (uint16_t)number(argc, argv, 1, 4);
	int bytes = number(argc, argv, 2, 1000000), rounds = number(argc, argv, 3, NUM_ROUNDS);
	uint16_t me = ripc_register_random_service_id(), from, num_short, num_long;
	void *msg_array[1], *return_bufs[1], **short_items, **long_items;
	uint32_t length_array[1], return_lengths[1], *short_sizes, *long_sizes;
	unsigned long before;
	int recvd = 0, returned = 0;

	length_array[0] = return_lengths[0] = (uint32_t)bytes;
	msg_array[0] = ripc_buf_alloc((size_t)bytes);
	return_bufs[0] = ripc_buf_alloc((size_t)bytes);
	memset(msg_array[0], 7, (size_t)bytes);
	before = now_usec();
	for (int i = 0; i < rounds; i++) {
		*(int *)msg_array[0] = i;
		if (ripc_send_long(me, server, msg_array, length_array, 1, return_bufs,
				   return_lengths, 1))
			continue;
		if (ripc_receive(me, &from, &short_items, &short_sizes, &num_short, &long_items,
				 &long_sizes, &num_long))
			panic("receive failed");
		if (from != server || num_long != 1 || long_sizes[0] != (uint32_t)bytes ||
		    memcmp(long_items[0], msg_array[0], (size_t)bytes))
			panic("round %d: not what was sent", i);
		recvd++;
		if (long_items[0] == return_bufs[0])
			returned++;
		else
			ripc_buf_free(long_items[0]);
		free(long_items);
		free(long_sizes);
	}
	report(recvd, now_usec() - before);
	printf("%d of them in the return buffer\n", returned);
	return EXIT_SUCCESS;
}
