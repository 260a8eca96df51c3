/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "base/resolver_chain.h"
#include "base/text.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* The argument after the colon. */
enum needs { NOTHING, PATH, HOSTS };

static const struct {
	const char *name;
	enum needs needs;
} known[RIPC__CHAIN_MAX] = {
	{"local", NOTHING}, {"udp", NOTHING}, {"file", PATH}, {"zookeeper", HOSTS}};

/* HOST:PORT; the last one of an ensemble may have /ROOT appended. */
static bool is_host(const char *word, size_t len)
{
	const char *slash = memchr(word, '/', len);
	size_t host = slash ? (size_t)(slash - word) : len, colon = host;
	unsigned long port = 0;

	while (colon && word[colon - 1] != ':')
		colon--;
	if (colon < 2 || colon == host || host - colon > 5)
		return false;
	for (size_t i = colon; i < host; i++) {
		if (word[i] < '0' || word[i] > '9')
			return false;
		port = port * 10 + (unsigned long)(word[i] - '0');
	}
	return port >= 1 && port <= 65535;
}

/* The index in known[] of the back end that a word names, or -1. */
static int find(const char *word, size_t len)
{
	size_t n = 0;

	while (n < len && word[n] != ':')
		n++;
	for (int i = 0; i < RIPC__CHAIN_MAX; i++)
		if (strlen(known[i].name) == n && !strncmp(known[i].name, word, n))
			return i;
	return -1;
}

/*
 * Commas also separate the hosts of an ensemble: a word that has the form of a host and names no
 * back end belongs to it.
 */
static size_t ensemble_len(const char *word, size_t len)
{
	size_t all = len;

	while (word[all] == ',' && !memchr(word + all - len, '/', len)) {
		const char *next = word + all + 1;

		len = strcspn(next, ",");
		if (find(next, len) >= 0 || !is_host(next, len))
			break;
		all += 1 + len;
	}
	return all;
}

static bool hosts_valid(const char *hosts)
{
	const char *slash = strchr(hosts, '/');

	for (const char *at = hosts;; at++) {
		size_t len = strcspn(at, ",");

		if (!is_host(at, len))
			return false;
		at += len;
		if (!*at)
			break;
	}
	/* As in ZooKeeper: no empty or relative component. */
	return !slash || (slash[1] && slash[strlen(slash) - 1] != '/' && !strstr(slash, "//") &&
			  !strstr(slash, "/./") && !strstr(slash, "/../"));
}

int ripc__chain_next(const char **at, struct ripc__chain_link *link, char *why, size_t whylen)
{
	const char *word = *at, *arg;
	size_t len = strcspn(word, ",");
	int i;

	if (!*word)
		return 0;
	if (!len)
		return ripc__reason(-EINVAL, why, whylen,
				    "has an empty word; leave it out for the default");
	i = find(word, len);
	if (i < 0)
		return ripc__reason(-EINVAL, why, whylen, "there is no back end %.*s; there are %s",
				    (int)len, word, RIPC__CHAIN_LIST);
	if (known[i].needs == HOSTS)
		len = ensemble_len(word, len);
	arg = word + strlen(known[i].name);
	len -= strlen(known[i].name);
	*at = arg + len;
	if (**at == ',' && !*++*at)
		return ripc__reason(-EINVAL, why, whylen,
				    "has an empty word; leave it out for the default");
	if (len) {
		arg++;
		len--;
	}
	if (known[i].needs == NOTHING && arg[-1] == ':')
		return ripc__reason(-EINVAL, why, whylen, "%s takes nothing behind a colon",
				    known[i].name);
	if (len >= sizeof(link->arg))
		return ripc__reason(-EINVAL, why, whylen,
				    "what stands behind %s is longer than %zu bytes", known[i].name,
				    sizeof(link->arg) - 1);
	snprintf(link->name, sizeof(link->name), "%s", known[i].name);
	snprintf(link->arg, sizeof(link->arg), "%.*s", (int)len, arg);
	if (known[i].needs == PATH && link->arg[0] != '/')
		return ripc__reason(-EINVAL, why, whylen,
				    "file needs an absolute path: file:/PATH");
	if (known[i].needs == HOSTS && !hosts_valid(link->arg))
		return ripc__reason(-EINVAL, why, whylen,
				    "zookeeper needs the hosts of its ensemble, each with a port: "
				    "zookeeper:HOST:PORT[,HOST:PORT...][/ROOT]");
	return 1;
}

int ripc__chain_check(const char *chain, char *why, size_t whylen)
{
	struct ripc__chain_link link = {0};
	unsigned seen = 0;
	int rc;

	if (!*chain)
		return ripc__reason(-EINVAL, why, whylen,
				    "has an empty word; leave it out for the default");
	while ((rc = ripc__chain_next(&chain, &link, why, whylen)) == 1) {
		int i = find(link.name, strlen(link.name));

		if (seen & 1u << i)
			return ripc__reason(-EINVAL, why, whylen, "%s stands there twice",
					    link.name);
		seen |= 1u << i;
	}
	return rc;
}
