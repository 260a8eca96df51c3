/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Ping-pong with lengths of type size_t, as one release of 2012 took them: wide_client [SERVICE
 * [ROUNDS [ITEMS [LONG]]]]
 */
#include "../src/ripc.h"
#include "common.h"
#include "config.h"

/* As in that release: not the library's, and after its header. */
#define RECV_BUF_SIZE 1024

#define ITEMS_MAX 8

/* Whether the message came back as it was sent. */
static int compare(void **items, uint32_t *sizes, uint16_t n, void **sent, size_t *lengths,
		   int nsent)
{
	if (n != nsent)
		return 0;
	for (int i = 0; i < n; i++)
		if (sizes[i] != lengths[i] || memcmp(items[i], sent[i], lengths[i]))
			return 0;
	return 1;
}

int main(int argc, char **argv)
{
	uint16_t server = (uint16_t)number(argc, argv, 1, 1);
	int rounds = number(argc, argv, 2, NUM_ROUNDS), items = number(argc, argv, 3, 2);
	int is_long = number(argc, argv, 4, 0);
	uint16_t me = ripc_register_random_service_id(), from, num_short, num_long;
	void *msg_array[ITEMS_MAX], **short_items, **long_items, *return_buf_array[1];
	size_t length_array[ITEMS_MAX], return_buf_length_array[1];
	uint32_t *short_sizes, *long_sizes;
	unsigned long before;
	int recvd = 0;

	if (items < 1 || items > ITEMS_MAX)
		panic("1 to %d items", ITEMS_MAX);
	for (int i = 0; i < items; i++) {
		length_array[i] = (size_t)((PACKET_SIZE / items) - i);
		msg_array[i] = ripc_buf_alloc(length_array[i]);
		memset(msg_array[i], i, length_array[i]);
	}
	return_buf_length_array[0] = 1000;
	return_buf_array[0] = ripc_buf_alloc(return_buf_length_array[0]);
	before = now_usec();
	for (int i = 0; i < rounds; i++) {
		*(int *)msg_array[0] = i;
		if (is_long ? ripc_send_long(me, server, msg_array, length_array, (uint32_t)items,
					     return_buf_array, return_buf_length_array, 1)
			    : ripc_send_short(me, server, msg_array, length_array, (uint32_t)items,
					      return_buf_array, return_buf_length_array, 1))
			continue;
		if (ripc_receive(me, &from, &short_items, &short_sizes, &num_short, &long_items,
				 &long_sizes, &num_long))
			panic("receive failed");
		if (from != server ||
		    !compare(is_long ? long_items : short_items, is_long ? long_sizes : short_sizes,
			     is_long ? num_long : num_short, msg_array, length_array, items))
			panic("round %d: not what was sent", i);
		recvd++;
		if (!is_long)
			ripc_buf_free(short_items[0]);
		for (int k = 0; k < num_long; k++)
			if (long_items[k] != return_buf_array[0])
				ripc_buf_free(long_items[k]);
		free(short_items);
		free(short_sizes);
		free(long_items);
		free(long_sizes);
	}
	report(recvd, now_usec() - before);
	return EXIT_SUCCESS;
}
