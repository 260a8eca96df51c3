/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The parser of the setting "resolver": a chain of back ends, separated by commas, each with its
 * argument after a colon:
 *
 *         local,udp,file:/etc/ripc/hosts,zookeeper:zoo1:2181,zoo2:2181,zoo3:2181/cluster
 *
 * The resolver asks all of them at once and takes the first answer.
 */
#ifndef RIPC_BASE_RESOLVER_CHAIN_H
#define RIPC_BASE_RESOLVER_CHAIN_H

#include <stddef.h>

#define RIPC__CHAIN_MAX  4   /* back ends in a chain at most: each once */
#define RIPC__CHAIN_ARG  448 /* bytes of one argument with its terminating 0 */
#define RIPC__CHAIN_LIST "local, udp, file:PATH and zookeeper:HOST:PORT[,HOST:PORT...][/ROOT]"

struct ripc__chain_link {
	char name[16];
	char arg[RIPC__CHAIN_ARG]; /* argument; empty if the back end takes none */
};

/*
 * Parses the next back end of the chain at *at and advances *at. Return: 1, 0 at the end, or
 * -EINVAL with a phrase in why.
 */
int ripc__chain_next(const char **at, struct ripc__chain_link *link, char *why, size_t whylen);

/* Checks the whole chain. Return: 0, or -EINVAL with a phrase in why. */
int ripc__chain_check(const char *chain, char *why, size_t whylen);

#endif
