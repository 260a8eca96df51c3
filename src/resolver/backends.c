/* SPDX-License-Identifier: LGPL-2.1-or-later */
#define _GNU_SOURCE
#include "config.h"

#include "resolver/backends.h"

#include "base/file.h"
#include "base/log.h"
#include "base/options.h"
#include "base/resolver_chain.h"
#include "base/text.h"
#include "resolver/backend.h"
#include "resolver/internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * The back ends that a chain may name, in the order in which they are opened: file does not bind
 * the resolver's port if udp receives there.
 */
enum { LOCAL, UDP, FILES, ZOOKEEPER };
static const struct ripc__backend_ops *const known[RIPC__CHAIN_MAX] = {
	[LOCAL] = &ripc__backend_local,
	[UDP] = &ripc__backend_udp,
	[FILES] = &ripc__backend_file,
#ifdef HAVE_ZOOKEEPER
	[ZOOKEEPER] = &ripc__backend_zookeeper,
#endif
};

static void disable(struct ripc__resolver *r, const char *name, const char *why)
{
	struct ripc__disabled_backend *l = &r->disabled[r->ndisabled++];

	l->name = name;
	snprintf(l->why, sizeof(l->why), "%s", why);
}

static int open_backend(struct ripc__resolver *r, const struct ripc__backend_ops *ops,
			const struct ripc__resolver_env *env, const char *arg)
{
	struct ripc__backend_env benv = {
		.opt = env->opt,
		.instance = env->instance,
		.host = env->host,
		.auth = env->auth,
		.arg = arg,
		.secret = r->zookeeper_auth,
		.local = r->local != NULL,
		.only_udp = r->inet < 0,
		.epoll_fd = r->epoll_fd,
		.tag = (uint64_t)r->nbackends << 32,
		.sim = env->sim,
	};
	char why[256] = "";
	struct ripc__backend *b = calloc(1, ops->size);
	int rc = b ? 0 : ripc__reason(-ENOMEM, why, sizeof(why), "out of memory");

	if (b) {
		b->ops = ops;
		rc = ops->open(b, &benv, why, sizeof(why));
	}
	if (rc) {
		free(b);
		disable(r, ops->name, why);
		return rc;
	}
	if (ops->acquire)
		r->local = b;
	if (ops->inet && r->inet < 0)
		r->inet = (int)r->nbackends;
	if (ops->settled) {
		r->registry = b;
		r->to_registry.backend = (uint8_t)r->nbackends;
	}
	r->backends[r->nbackends++] = b;
	return 0;
}

/* user:password for ZooKeeper, from the first line of its file. */
static int load_zookeeper_auth(struct ripc__resolver *r, const char *path)
{
	char why[300];
	int rc = ripc__file_read(path, true, r->zookeeper_auth, sizeof(r->zookeeper_auth), NULL,
				 why, sizeof(why));

	if (rc < 0)
		return ripc__fail(rc, "zookeeper_auth_file (RIPC_ZOOKEEPER_AUTH_FILE) %s", why);
	r->zookeeper_auth[strcspn(r->zookeeper_auth, "\r\n")] = 0;
	if (!strchr(r->zookeeper_auth, ':'))
		return ripc__fail(
			-EINVAL,
			"zookeeper_auth_file (RIPC_ZOOKEEPER_AUTH_FILE) %s: no user:password in "
			"the first line",
			path);
	return 0;
}

/* The back ends of the chain, by their index in known; the others have no name. */
static void parse_chain(struct ripc__resolver *r, const char *chain,
			struct ripc__chain_link links[RIPC__CHAIN_MAX])
{
	struct ripc__chain_link link;
	char why[1];

	while (ripc__chain_next(&chain, &link, why, sizeof(why)) == 1) {
		unsigned k = 0;

		while (k < ZOOKEEPER && strcmp(link.name, known[k]->name))
			k++;
		links[k] = link;
	}
	/*
	 * The contexts of a host share the resolver's port; the kernel gives each unicast datagram
	 * to one of them, which forwards it.
	 */
	if (!*links[FILES].name || *links[LOCAL].name)
		return;
	strcpy(links[LOCAL].name, known[LOCAL]->name);
	r->local_only = true;
}

static int fail_none_usable(struct ripc__resolver *r, int rc)
{
	char all[1024];
	size_t at = 0;

	for (unsigned i = 0; i < r->ndisabled; i++)
		at = ripc__append(all, sizeof(all), at, "%s%s: %s", i ? "; " : "",
				  r->disabled[i].name, r->disabled[i].why);
	return ripc__fail(rc, "no resolver back end works: %s", all);
}

int ripc__backends_open(struct ripc__resolver *r, const struct ripc__resolver_env *env)
{
	struct ripc__chain_link links[RIPC__CHAIN_MAX] = {0};
	int rc = 0, first = 0;

	if (env->backend) {
		rc = open_backend(r, env->backend, env, "");
		return rc ? ripc__fail(rc, "%s: %s", env->backend->name, r->disabled[0].why) : 0;
	}
	parse_chain(r, env->opt->resolver, links);
	if (*env->opt->zookeeper_auth_file)
		rc = load_zookeeper_auth(r, env->opt->zookeeper_auth_file);
	if (rc)
		return rc;
	for (unsigned k = 0; k < RIPC__CHAIN_MAX; k++) {
		const char *name = links[k].name, *arg = links[k].arg;

		if (!*name)
			continue;
		if (!known[k]) {
			disable(r, "zookeeper", "this build has no ZooKeeper client");
			continue;
		}
		rc = open_backend(r, known[k], env, arg);
		if (*arg == '/' && (rc == -ENOENT || rc == -EACCES))
			return ripc__fail(rc, "resolver (RIPC_RESOLVER): %s:%s", name,
					  r->disabled[r->ndisabled - 1].why);
		/* An invalid setting, or a lack of a resource that will be needed again: fail. */
		if (rc == -EINVAL || rc == -EMFILE || rc == -ENFILE || rc == -ENOMEM ||
		    rc == -ENOSPC)
			return ripc__fail(rc, "%s: %s", name, r->disabled[r->ndisabled - 1].why);
		first = first ? first : rc;
	}
	if (!r->nbackends)
		return fail_none_usable(r, first ? first : -EINVAL);
	for (unsigned i = 0; i < r->ndisabled; i++)
		ripc__log(RIPC_LOG_WARN, "resolver works without %s: %s", r->disabled[i].name,
			  r->disabled[i].why);
	return 0;
}
