/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * How long a first message to a service takes: resolver [FIRST [COUNT]], COUNT servers; with -s it
 * is one of them
 */
#include "../src/ripc.h"
#include "common.h"
#include "config.h"

static int serve(int id)
{
	void **short_items, **long_items;
	uint32_t *short_sizes, *long_sizes;
	uint16_t from, num_short, num_long;

	if (!ripc_register_service_id(id))
		panic("service %d is taken", id);
	printf("Starting loop\n");
	fflush(stdout);
	while (true) {
		if (ripc_receive((uint16_t)id, &from, &short_items, &short_sizes, &num_short,
				 &long_items, &long_sizes, &num_long))
			panic("receive failed");
		ripc_send_short((uint16_t)id, from, short_items, short_sizes, num_short, NULL, NULL,
				0);
		ripc_buf_free(short_items[0]);
		free(short_items);
		free(short_sizes);
	}
}

int main(int argc, char **argv)
{
	bool is_server = argc > 2 && !strcmp(argv[1], "-s");
	int first = number(argc, argv, 1, 100), count = number(argc, argv, 2, 1);
	void **short_items, **long_items, *item = "who are you";
	uint32_t *short_sizes, *long_sizes, length = 11;
	uint16_t me, from, num_short, num_long;
	unsigned long before, usec;

	if (is_server)
		return serve(atoi(argv[2]));
	ripc_init();
	if (init() != 1)
		panic("init() does not know that it was called");
	before = now_usec();
	me = ripc_register_random_service_id();
	printf("Registered in %lu usec\n", now_usec() - before);
	for (int i = 0; i < count; i++) {
		before = now_usec();
		if (ripc_send_short(me, (uint16_t)(first + i), &item, &length, 1, NULL, NULL, 0) ||
		    ripc_receive(me, &from, &short_items, &short_sizes, &num_short, &long_items,
				 &long_sizes, &num_long))
			panic("service %d: failed", first + i);
		usec = now_usec() - before;
		if (from != first + i)
			panic("service %d: answer of %d", first + i, from);
		printf("Service %d resolved and reached in %lu usec\n", from, usec);
		ripc_buf_free(short_items[0]);
		free(short_items);
		free(short_sizes);
	}
	return EXIT_SUCCESS;
}
