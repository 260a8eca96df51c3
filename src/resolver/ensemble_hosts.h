/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The host names of an ensemble. ZooKeeper's library resolves names in a thread that its close call
 * joins, for as long as resolv.conf(5) allows (10 s and more without an answer). Therefore the
 * session thread resolves the names, with a time limit, and passes numeric addresses to the
 * library.
 */
#ifndef RIPC_RESOLVER_ENSEMBLE_HOSTS_H
#define RIPC_RESOLVER_ENSEMBLE_HOSTS_H

#include <stdatomic.h>
#include <stddef.h>

#define RIPC__HOSTS_BYTES 2048 /* of a list of addresses, with its terminating 0 */

/*
 * Resolves @hosts, "HOST:PORT[,HOST:PORT...]", into @addresses, the same with numeric hosts; a host
 * with several addresses has one entry for each. May wait: one second for each name server that
 * does not answer. Stops when *stop is set. Uses and resets the resolver state of the calling
 * thread. The caller repeats failed attempts.
 *
 * Return: the number of entries; 0: none, and why holds a sentence on the last name that failed.
 */
unsigned ripc__hosts_resolve(const char *hosts, const atomic_bool *stop,
			     char addresses[static RIPC__HOSTS_BYTES], char *why, size_t whylen);

#endif
