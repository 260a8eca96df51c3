/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Doubly linked, circular, intrusive lists. A node that is in no list points to itself. */
#ifndef RIPC_BASE_LIST_H
#define RIPC_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct ripc__list {
	struct ripc__list *next, *prev;
};

#define ripc__list_entry(node, type, member) ((type *)((char *)(node)-offsetof(type, member)))

#define ripc__list_for_each(pos, head) for (pos = (head)->next; pos != (head); pos = pos->next)

/* The current node may be removed. */
#define ripc__list_for_each_safe(pos, tmp, head) \
	for (pos = (head)->next, tmp = pos->next; pos != (head); pos = tmp, tmp = pos->next)

/* The node in a struct; also in the pseudo-struct around a list head, which has no alignment. */
#define ripc__list_node(pos, member) \
	((struct ripc__list *)(void *)((char *)(pos) + offsetof(__typeof__(*(pos)), member)))
#define ripc__list_next_entry(pos, member) \
	ripc__list_entry(ripc__list_node(pos, member)->next, __typeof__(*(pos)), member)

/*
 * The same over the structs of the nodes; pos points to one. After the last one there is no struct
 * at pos, and ripc__list_node(pos, member) == head.
 */
#define ripc__list_for_each_entry(pos, head, member)                           \
	for (pos = ripc__list_entry((head)->next, __typeof__(*(pos)), member); \
	     ripc__list_node(pos, member) != (head); pos = ripc__list_next_entry(pos, member))

/* The struct of the current node may be removed and freed. */
#define ripc__list_for_each_entry_safe(pos, tmp, head, member)                 \
	for (pos = ripc__list_entry((head)->next, __typeof__(*(pos)), member), \
	    tmp = ripc__list_next_entry(pos, member);                          \
	     ripc__list_node(pos, member) != (head);                           \
	     pos = tmp, tmp = ripc__list_next_entry(pos, member))

/* The struct of the first node; NULL: the list is empty. */
#define ripc__list_first_entry(head, type, member) \
	(ripc__list_empty(head) ? NULL : ripc__list_entry((head)->next, type, member))

static inline void ripc__list_init(struct ripc__list *n)
{
	n->next = n->prev = n;
}

static inline bool ripc__list_empty(const struct ripc__list *n)
{
	return n->next == n;
}

/* Inserts n before pos: with pos = head, at the end. */
static inline void ripc__list_add(struct ripc__list *pos, struct ripc__list *n)
{
	n->prev = pos->prev;
	n->next = pos;
	pos->prev->next = n;
	pos->prev = n;
}

/* Appends n to the list, unless it is in one. */
static inline void ripc__list_queue(struct ripc__list *head, struct ripc__list *n)
{
	if (ripc__list_empty(n))
		ripc__list_add(head, n);
}

/* Removes n from its list, if any. */
static inline void ripc__list_del(struct ripc__list *n)
{
	n->prev->next = n->next;
	n->next->prev = n->prev;
	ripc__list_init(n);
}

static inline struct ripc__list *ripc__list_first(struct ripc__list *head)
{
	return ripc__list_empty(head) ? NULL : head->next;
}

/* Removes the first node from the list. Return: it; NULL: the list is empty. */
static inline struct ripc__list *ripc__list_take(struct ripc__list *head)
{
	struct ripc__list *n = ripc__list_first(head);

	if (n)
		ripc__list_del(n);
	return n;
}

/* Removes and frees all structs in a list. */
#define ripc__list_free(head, type, member)                         \
	for (struct ripc__list * n_; (n_ = ripc__list_take(head));) \
	free(ripc__list_entry(n_, type, member))

#endif
