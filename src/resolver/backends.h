/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Opens the back ends that the chain names. */
#ifndef RIPC_RESOLVER_BACKENDS_H
#define RIPC_RESOLVER_BACKENDS_H

struct ripc__resolver;
struct ripc__resolver_env;

/*
 * Opens the back ends of the chain. A back end that does not work here is left out, with its
 * reason. Return: 0, or a negative errno, explained: an invalid setting, no memory or descriptors,
 * or no back end works. The caller closes those that are open, also after an error.
 */
int ripc__backends_open(struct ripc__resolver *r, const struct ripc__resolver_env *env);

#endif
