/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The back ends of a resolver: opened as its chain names them. */
#ifndef RIPC_RESOLVER_BACKENDS_H
#define RIPC_RESOLVER_BACKENDS_H

#include <stdbool.h>

struct ripc__resolver;
struct ripc__resolver_env;
struct ripc__mcast_sender;

/*
 * Opens those that the chain names; those that do not work here are left out, and kept with the reason.
 * Return: 0, or a negative errno, explained: a mistake in a setting, no memory or descriptors, or none works. Those that are
 * open then stay so, for the caller to close.
 */
int ripc__backends_open(struct ripc__resolver *r, const struct ripc__resolver_env *env);

/* Sets from->backend to the one that can answer a sender on the network. Return: whether there is one. */
bool ripc__backends_inet(const struct ripc__resolver *r, struct ripc__mcast_sender *from);

#endif
