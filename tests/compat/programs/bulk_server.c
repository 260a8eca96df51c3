/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Serves files: bulk_server DIRECTORY */
#include "../src/ripc.h"
#include "common.h"
#include "config.h"

/* The file in one buffer, and its size; NULL if it cannot be read. */
static void *read_file(const char *name, size_t *size)
{
	FILE *file = fopen(name, "rb");
	void *data = NULL;

	if (!file)
		return NULL;
	fseek(file, 0, SEEK_END);
	*size = (size_t)ftell(file);
	rewind(file);
	data = ripc_buf_alloc(*size ? *size : 1);
	if (data && fread(data, 1, *size, file) != *size) {
		ripc_buf_free(data);
		data = NULL;
	}
	fclose(file);
	return data;
}

int main(int argc, char **argv)
{
	char url[200], name[400];
	void **short_items, **long_items, *items[2];
	uint32_t *short_sizes, *long_sizes, lengths[2];
	uint16_t from, num_short, num_long;
	size_t size = 0;

	if (argc < 2 || !ripc_register_service_id(8080))
		panic("no directory, or the service is taken");
	items[0] = ripc_buf_alloc(100);
	printf("Serving\n");
	fflush(stdout);
	while (true) {
		if (ripc_receive(8080, &from, &short_items, &short_sizes, &num_short, &long_items,
				 &long_sizes, &num_long))
			panic("receive failed");
		if (num_short != 1 || sscanf(short_items[0], "GET /%199s HTTP/1.0", url) != 1)
			panic("not a request");
		ripc_buf_free(short_items[0]);
		free(short_items);
		free(short_sizes);
		snprintf(name, sizeof(name), "%s/%s", argv[1], url);
		items[1] = read_file(name, &size);
		sprintf(items[0], "HTTP/1.0 %s\nContent-Length: %zu\n\n",
			items[1] ? "200 OK" : "404 Not Found", items[1] ? size : 0);
		lengths[0] = (uint32_t)strlen(items[0]) + 1;
		lengths[1] = (uint32_t)size;
		ripc_send_long(8080, from, items, lengths, items[1] ? 2 : 1, NULL, NULL, 0);
		ripc_buf_free(items[1]);
	}
}
