/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Sends a number and a text: pair_client [TEXT] */
#include "../src/ripc.h"
#include "common.h"
#include "config.h"

int main(int argc, char **argv)
{
	const char *text = argc > 1 ? argv[1] : "hello world";
	uint16_t me = ripc_register_random_service_id(), from, num_short, num_long;
	void *items[2], **short_items, **long_items;
	uint32_t lengths[2], *short_sizes, *long_sizes;
	int value = 41;

	/* Memory of the program's own. */
	items[0] = &value;
	items[1] = (void *)text;
	lengths[0] = sizeof(value);
	lengths[1] = (uint32_t)strlen(text);
	if (ripc_send_short(me, 4, items, lengths, 2, NULL, NULL, 0))
		panic("send failed");
	if (ripc_receive(me, &from, &short_items, &short_sizes, &num_short, &long_items,
			 &long_sizes, &num_long))
		panic("receive failed");
	printf("Answer %d: %s\n", *(int *)short_items[0], (char *)short_items[1]);
	ripc_buf_free(short_items[0]);
	free(short_items);
	free(short_sizes);
	return EXIT_SUCCESS;
}
