/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A file of services and the hosts that are asked for them:
 *
 *	# service  hosts
 *	42         192.0.2.7
 *	43         192.0.2.8 [2001:db8::8]:7475
 *	*          192.0.2.1
 *	"camera/left" 192.0.2.9
 *	44         fe80::1%eth0
 *
 * Invalid lines are logged and ignored. A list that cannot be read again, or is empty then, stays
 * as it was.
 */
#ifndef RIPC_RESOLVER_HOST_LIST_H
#define RIPC_RESOLVER_HOST_LIST_H

#include "base/resolver_chain.h"

#include <net/if.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

/* One host to ask for one service. */
struct ripc__host_entry {
	uint64_t service;            /* 0: every service */
	unsigned order;              /* line order */
	char interface[IF_NAMESIZE]; /* of a link-local address; the others: empty */
	union {
		struct sockaddr any;
		struct sockaddr_in in;
		struct sockaddr_in6 in6;
	} host;
};

struct ripc__host_list {
	char path[RIPC__CHAIN_ARG];       /* set by the caller */
	uint16_t port;                    /* of hosts without one; set by the caller */
	struct ripc__host_entry *entries; /* by service, then by order */
	size_t nentries, room;
	unsigned bad_lines;
	char first_bad[112];  /* line number and fault of the first invalid line */
	struct stat seen;     /* status of the file that was read */
	char last_error[160]; /* reason why the file cannot be read; the old list stays in use */
};

/* Reads the file. Return: 0, or a negative errno: the old list stays in use. */
int ripc__host_list_load(struct ripc__host_list *list);
/* The text of such an error. */
const char *ripc__host_list_error(int rc);
/* Reads the file if it has changed. Logs that it cannot be read, once. */
void ripc__host_list_refresh(struct ripc__host_list *list);
void ripc__host_list_free(struct ripc__host_list *list);

/* The entries of a service. Return: how many there are from *first on, 64 at the most. */
unsigned ripc__host_list_find(const struct ripc__host_list *list, uint64_t service,
			      const struct ripc__host_entry **first);
/* One entry of each host, to be freed by the caller. Return: the number; 0 also without memory. */
size_t ripc__host_list_hosts(const struct ripc__host_list *list,
			     const struct ripc__host_entry ***hosts);

/* For ripc-info. Return: whether the list has entries. */
bool ripc__host_list_describe(const struct ripc__host_list *list, char *text, size_t len);

#endif
