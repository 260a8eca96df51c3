/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "base/table.h"

#include "base/hash.h"

#include <stdlib.h>

void ripc__table_init(struct ripc__table *table, uint64_t secret)
{
	*table = (struct ripc__table){.nbuckets = 1, .secret = secret};
}

void ripc__table_fini(struct ripc__table *table)
{
	if (table->nbuckets > 1)
		free(table->buckets);
	ripc__table_init(table, table->secret);
}

/* All buckets, nbuckets of them. */
static struct ripc__node **buckets(const struct ripc__table *table)
{
	return table->nbuckets > 1 ? table->buckets : (struct ripc__node **)&table->only;
}

static struct ripc__node **bucket(const struct ripc__table *table, uint64_t id)
{
	return &buckets(table)[ripc__mix64(id ^ table->secret) & (table->nbuckets - 1)];
}

struct ripc__node *ripc__table_find(const struct ripc__table *table, uint64_t id)
{
	struct ripc__node *node = *bucket(table, id);

	while (node && node->id != id)
		node = node->next;
	return node;
}

static void resize(struct ripc__table *table, uint32_t nbuckets)
{
	struct ripc__table wider = *table;

	wider.nbuckets = nbuckets;
	wider.buckets = calloc(nbuckets, sizeof(*wider.buckets));
	if (!wider.buckets)
		return;
	for (uint32_t i = 0; i < table->nbuckets; i++) {
		for (struct ripc__node *node = buckets(table)[i], *next; node; node = next) {
			struct ripc__node **b = bucket(&wider, node->id);

			next = node->next;
			node->next = *b;
			*b = node;
		}
	}
	if (table->nbuckets > 1)
		free(table->buckets);
	*table = wider;
}

void ripc__table_add(struct ripc__table *table, struct ripc__node *node)
{
	struct ripc__node **b;

	if (++table->count > table->nbuckets)
		resize(table, table->nbuckets * 2 < 16 ? 16 : table->nbuckets * 2);
	b = bucket(table, node->id);
	node->next = *b;
	*b = node;
}

void ripc__table_remove(struct ripc__table *table, struct ripc__node *node)
{
	struct ripc__node **b = bucket(table, node->id);

	while (*b != node)
		b = &(*b)->next;
	*b = node->next;
	if (--table->count < table->nbuckets / 8 && table->nbuckets > 16)
		resize(table, table->nbuckets / 2);
}

void ripc__table_each(struct ripc__table *table, void (*fn)(struct ripc__node *node, void *arg),
		      void *arg)
{
	for (uint32_t i = 0; i < table->nbuckets; i++) {
		for (struct ripc__node *node = buckets(table)[i], *next; node; node = next) {
			next = node->next;
			fn(node, arg);
		}
	}
}
