/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A hash table from 64-bit ids to nodes embedded in their owners. Grows and shrinks with its
 * contents.
 */
#ifndef RIPC_BASE_TABLE_H
#define RIPC_BASE_TABLE_H

#include <stdint.h>

/* First member of every entry. */
struct ripc__node {
	uint64_t id;
	struct ripc__node *next; /* in the same bucket */
};

struct ripc__table {
	union {
		struct ripc__node **buckets; /* nbuckets of them, if these are more than one */
		struct ripc__node *only;     /* the only bucket */
	};
	uint32_t nbuckets; /* power of two */
	uint32_t count;    /* nodes held */
	uint64_t secret;   /* seeds the hash, so that a peer cannot choose ids that collide */
};

void ripc__table_init(struct ripc__table *table, uint64_t secret);

/* Frees the table's own memory; the nodes are the caller's. */
void ripc__table_fini(struct ripc__table *table);

struct ripc__node *ripc__table_find(const struct ripc__table *table, uint64_t id);

/* Return: another node with the same id, or NULL. */
static inline struct ripc__node *ripc__table_next(const struct ripc__node *node)
{
	uint64_t id = node->id;
	struct ripc__node *next = node->next;

	while (next && next->id != id)
		next = next->next;
	return next;
}

/*
 * Other nodes may have the same id. Never fails: without memory to grow, look-ups become slower.
 */
void ripc__table_add(struct ripc__table *table, struct ripc__node *node);

/* node must be in the table. */
void ripc__table_remove(struct ripc__table *table, struct ripc__node *node);

/* Calls fn for every node; fn may free the node but not touch the table. */
void ripc__table_each(struct ripc__table *table, void (*fn)(struct ripc__node *node, void *arg),
		      void *arg);

#endif
