/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "resolver/listing.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct row {
	struct ripc__node node; /* id: the service */
	size_t len;
	uint8_t bytes[]; /* the record, encoded */
};

void ripc__listing_init(struct ripc__listing *listing, uint64_t secret)
{
	*listing = (struct ripc__listing){.complete = true};
	ripc__table_init(&listing->table, secret);
}

static void free_row(struct ripc__node *node, void *arg)
{
	free(node);
}

void ripc__listing_fini(struct ripc__listing *listing)
{
	ripc__table_each(&listing->table, free_row, NULL);
	ripc__table_fini(&listing->table);
}

static struct row *find(const struct ripc__listing *listing, const struct ripc__record *record)
{
	struct ripc__node *node = ripc__table_find(&listing->table, record->service);

	for (; node; node = ripc__table_next(node))
		if (!memcmp(ripc__encoded_instance(((struct row *)node)->bytes), record->instance,
			    16))
			return (struct row *)node;
	return NULL;
}

void ripc__listing_add(struct ripc__listing *listing, const struct ripc__record *record)
{
	struct row *old = find(listing, record), *row = NULL;
	uint8_t bytes[RIPC__RECORD_BYTES_MAX];
	int len = ripc__record_encode(record, bytes, sizeof(bytes));

	if (len < 0)
		return;
	if (listing->bytes + (size_t)len <= RIPC__LISTING_BYTES_MAX &&
	    (old || listing->table.count < RIPC__LISTING_MAX))
		row = malloc(sizeof(*row) + (size_t)len);
	if (!row) {
		listing->complete = false;
		return;
	}
	if (old) {
		ripc__table_remove(&listing->table, &old->node);
		listing->bytes -= old->len;
		free(old);
	}
	row->node.id = record->service;
	row->len = (size_t)len;
	memcpy(row->bytes, bytes, row->len);
	ripc__table_add(&listing->table, &row->node);
	listing->bytes += row->len;
}

struct rows {
	struct row **row;
	size_t n;
};

static void collect(struct ripc__node *node, void *arg)
{
	struct rows *rows = arg;

	rows->row[rows->n++] = (struct row *)node;
}

static int by_id(const void *a, const void *b)
{
	const struct row *x = *(struct row *const *)a, *y = *(struct row *const *)b;
	uint64_t gx = ripc__encoded_generation(x->bytes), gy = ripc__encoded_generation(y->bytes);

	if (x->node.id != y->node.id)
		return x->node.id < y->node.id ? -1 : 1;
	if (gx != gy)
		return gx > gy ? -1 : 1;
	return memcmp(ripc__encoded_instance(x->bytes), ripc__encoded_instance(y->bytes), 16);
}

int ripc__listing_each(const struct ripc__listing *listing,
		       void (*fn)(void *arg, const struct ripc__record *record), void *arg)
{
	struct rows rows = {.row = calloc(listing->table.count + 1, sizeof(*rows.row))};
	struct ripc__record record;
	const char *why;

	if (!rows.row)
		return -ENOMEM;
	ripc__table_each((struct ripc__table *)&listing->table, collect, &rows);
	qsort(rows.row, rows.n, sizeof(*rows.row), by_id);
	for (size_t i = 0; i < rows.n; i++)
		if (!ripc__record_decode(&record, rows.row[i]->bytes, rows.row[i]->len, &why))
			fn(arg, &record);
	free(rows.row);
	return 0;
}
