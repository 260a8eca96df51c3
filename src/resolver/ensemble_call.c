/* SPDX-License-Identifier: LGPL-2.1-or-later */
#define _GNU_SOURCE
#include "resolver/ensemble_call.h"

#include "resolver/listing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CLAIM_TRIES 4 /* rounds of one claim: create parents, node vanished, replace it */

/* The service of a node. Return: false: other nodes are messages to holders. */
static bool parse_name(const char *name, uint64_t *service)
{
	char *end;

	*service = strtoull(name, &end, 16);
	return !*end && end - name == 16 && *service;
}

static void on_node(zhandle_t *zh, int type, int state, const char *path, void *ctx)
{
	struct ripc__ensemble *e = ctx;
	uint64_t service;

	if (type != ZOO_SESSION_EVENT && parse_name(path + strlen(e->root) + 1, &service))
		ripc__ensemble_report(e, RIPC__ENS_CHANGED, service, NULL, 0);
}

/*
 * Whether the connection was lost during a call; the user repeats the call if it is still needed.
 */
static bool is_loss(int rc)
{
	return rc == ZCONNECTIONLOSS || rc == ZOPERATIONTIMEOUT || rc == ZSESSIONEXPIRED ||
	       rc == ZCLOSING || rc == ZINVALIDSTATE || rc == ZSESSIONMOVED;
}

static void end_call(struct ripc__ensemble_call *c, int rc)
{
	/*
	 * No other session removes the own node while this session lives: repeat the release before
	 * a later claim. A new session has nothing to release.
	 */
	if (c->command == RIPC__CALL_RELEASE && is_loss(rc)) {
		pthread_mutex_lock(&c->e->lock);
		ripc__list_add(c->e->calls.next, &c->link);
		pthread_mutex_unlock(&c->e->lock);
		return;
	}
	if (rc && !is_loss(rc))
		ripc__ensemble_report_text(c->e, RIPC__ENS_REFUSED, c->service,
					   rc == ZMARSHALLINGERROR ? "out of memory" : zerror(rc));
	free(c);
}

/* --- notifying a holder of a rival --- */

static const struct ACL_vector *acl(const struct ripc__ensemble *e)
{
	return *e->auth ? &ZOO_CREATOR_ALL_ACL : &ZOO_OPEN_ACL_UNSAFE;
}

/*
 * The loser stores its record in a node beside the winner's and rewrites the winner's node
 * unchanged. The holder watches its node. Only this write raises the version of the node above 0.
 */
#define RIVAL_SUFFIX ".rival"

struct sibling {
	char path[sizeof(((struct ripc__ensemble_call *)0)->path) + sizeof(RIVAL_SUFFIX)];
};

static struct sibling sibling(const struct ripc__ensemble_call *c)
{
	struct sibling b;

	snprintf(b.path, sizeof(b.path), "%s" RIVAL_SUFFIX, c->path);
	return b;
}

static void report_rival(struct ripc__ensemble_call *c);

static void on_cleared(int rc, const void *data)
{
	struct ripc__ensemble_call *c = (struct ripc__ensemble_call *)data;

	if (rc && rc != ZNONODE)
		end_call(c, rc);
	else
		report_rival(c);
}

static void on_rival_reported(int rc, const void *data)
{
	struct ripc__ensemble_call *c = (struct ripc__ensemble_call *)data;
	struct sibling b = sibling(c);

	/* An earlier report was never read. */
	if (rc == ZNODEEXISTS && c->tries++ < CLAIM_TRIES) {
		rc = zoo_adelete(c->zh, b.path, -1, on_cleared, c);
		if (!rc)
			return;
	}
	/* If the node was replaced meanwhile, there is no holder to notify. */
	end_call(c, rc == ZNODEEXISTS || rc == ZBADVERSION || rc == ZNONODE ? 0 : rc);
}

/* One transaction: the loser may end its session at once, and the report must survive that. */
static void report_rival(struct ripc__ensemble_call *c)
{
	struct sibling b = sibling(c);
	int rc;

	zoo_create_op_init(&c->ops[0], b.path, c->bytes, (int)c->len, acl(c->e), 0, NULL, 0);
	zoo_set_op_init(&c->ops[1], c->path, c->bytes + c->len, (int)c->their_len, c->version,
			NULL);
	rc = zoo_amulti(c->zh, 2, c->ops, c->results, on_rival_reported, c);
	if (rc)
		end_call(c, rc);
}

static void on_notified(int rc, const void *data)
{
}

static void on_rival(int rc, const char *value, int len, const struct Stat *stat, const void *data)
{
	struct ripc__ensemble_call *c = (struct ripc__ensemble_call *)data;
	struct sibling b = sibling(c);

	if (!rc && len > 0 && (size_t)len <= RIPC__NODE_MAX) {
		ripc__ensemble_report(c->e, RIPC__ENS_RIVAL, c->service, value, (size_t)len);
		(void)zoo_adelete(c->zh, b.path, stat->version, on_notified, NULL);
	}
	end_call(c, rc == ZNONODE ? 0 : rc);
}

/* --- reading a node --- */

static void on_watched(int rc, const char *v, int len, const struct Stat *stat, const void *data);

static void on_absent(int rc, const struct Stat *stat, const void *data)
{
	struct ripc__ensemble_call *c = (struct ripc__ensemble_call *)data;

	/* The node was created between the two calls. */
	if (!rc && c->tries++ < CLAIM_TRIES) {
		rc = zoo_awget(c->zh, c->path, on_node, c->e, on_watched, c);
		if (!rc)
			return;
	}
	if (rc == ZNONODE) {
		ripc__ensemble_report(c->e, RIPC__ENS_NONE, c->service, NULL, 0);
		rc = 0;
	}
	end_call(c, rc);
}

static void on_watched(int rc, const char *v, int len, const struct Stat *stat, const void *data)
{
	struct ripc__ensemble_call *c = (struct ripc__ensemble_call *)data;

	if (!rc && (len < 0 || (size_t)len > RIPC__NODE_MAX)) {
		ripc__ensemble_report_text(c->e, RIPC__ENS_REFUSED, c->service, "no record in it");
	} else if (!rc) {
		bool ours = stat->ephemeralOwner == zoo_client_id(c->zh)->client_id;
		struct sibling b = sibling(c);

		ripc__ensemble_report_node(c->e, RIPC__ENS_FOUND, c->service, ours, stat->version,
					   v, (size_t)len);
		/* Written by another context: create it anew. */
		if (ours && stat->version > 0 && !zoo_aget(c->zh, b.path, 0, on_rival, c))
			return;
	} else if (rc == ZNONODE) {
		/* Only this call sets a watch on a node that does not exist. */
		rc = zoo_awexists(c->zh, c->path, on_node, c->e, on_absent, c);
		if (!rc)
			return;
	}
	end_call(c, rc);
}

/* --- creating a node --- */

static void on_created(int rc, const char *value, const void *data);
static void on_other(int rc, const char *value, int len, const struct Stat *stat, const void *data);

static int create_node(struct ripc__ensemble_call *c)
{
	return zoo_acreate(c->zh, c->path, c->bytes, (int)c->len, acl(c->e), ZOO_EPHEMERAL,
			   on_created, c);
}

static void ignore(int rc, const char *value, const void *data)
{
}

/* Creates the root and its parents. The requests of a session are served in order. */
static void create_parents(struct ripc__ensemble_call *c)
{
	char path[sizeof(c->e->root)];

	for (const char *at = c->e->root; *at; at++) {
		size_t len = (size_t)(at + 1 - c->e->root);

		if (at[1] && at[1] != '/')
			continue;
		memcpy(path, c->e->root, len);
		path[len] = 0;
		(void)zoo_acreate(c->zh, path, "", 0, acl(c->e), 0, ignore, NULL);
	}
}

static void claimed(struct ripc__ensemble_call *c)
{
	ripc__ensemble_report(c->e, RIPC__ENS_CLAIMED, c->service, NULL, 0);
	/* Watch it, to notice a removal by another context. */
	c->command = RIPC__CALL_WATCH;
	if (zoo_awget(c->zh, c->path, on_node, c->e, on_watched, c))
		free(c);
}

static void on_created(int rc, const char *value, const void *data)
{
	struct ripc__ensemble_call *c = (struct ripc__ensemble_call *)data;

	if (!rc) {
		claimed(c);
		return;
	}
	if (rc == ZNODEEXISTS)
		rc = zoo_aget(c->zh, c->path, 0, on_other, c);
	else if (rc == ZNONODE && c->tries++ < CLAIM_TRIES) {
		create_parents(c);
		rc = create_node(c);
	}
	if (rc)
		end_call(c, rc);
}

static void on_forced(int rc, const void *data)
{
	struct ripc__ensemble_call *c = (struct ripc__ensemble_call *)data;

	if (!rc) {
		claimed(c);
		return;
	}
	/* Changed meanwhile: read it again. */
	if ((rc == ZBADVERSION || rc == ZNONODE || rc == ZNODEEXISTS) && c->tries++ < CLAIM_TRIES)
		rc = create_node(c);
	if (rc)
		end_call(c, rc);
}

static void on_other(int rc, const char *value, int len, const struct Stat *stat, const void *data)
{
	struct ripc__ensemble_call *c = (struct ripc__ensemble_call *)data;

	if (rc == ZNONODE && c->tries++ < CLAIM_TRIES) {
		rc = create_node(c);
	} else if (!rc && stat->ephemeralOwner == zoo_client_id(c->zh)->client_id &&
		   (size_t)len == c->len && !memcmp(value, c->bytes, c->len)) {
		/* The connection was lost with the answer. */
		claimed(c);
		return;
	} else if (!rc && (c->command == RIPC__CALL_CLAIM_FORCE ||
			   stat->ephemeralOwner == zoo_client_id(c->zh)->client_id)) {
		/*
		 * One transaction, so that the service always has a node. The session of a node
		 * cannot be changed.
		 */
		zoo_delete_op_init(&c->ops[0], c->path, stat->version);
		zoo_create_op_init(&c->ops[1], c->path, c->bytes, (int)c->len, acl(c->e),
				   ZOO_EPHEMERAL, NULL, 0);
		rc = zoo_amulti(c->zh, 2, c->ops, c->results, on_forced, c);
	} else if (!rc) {
		ripc__ensemble_report_node(
			c->e, RIPC__ENS_TAKEN, c->service, false, stat->version, value,
			len > 0 && (size_t)len <= RIPC__NODE_MAX ? (size_t)len : 0);
		free(c);
		return;
	}
	if (rc)
		end_call(c, rc);
}

/* --- removing a node --- */

static void on_removed(int rc, const void *data)
{
	struct ripc__ensemble_call *c = (struct ripc__ensemble_call *)data;

	end_call(c, rc == ZNONODE || rc == ZBADVERSION ? 0 : rc);
}

static void on_release(int rc, const char *v, int len, const struct Stat *stat, const void *data)
{
	struct ripc__ensemble_call *c = (struct ripc__ensemble_call *)data;

	if (!rc && stat->ephemeralOwner == zoo_client_id(c->zh)->client_id) {
		rc = zoo_adelete(c->zh, c->path, stat->version, on_removed, c);
		if (!rc)
			return;
	}
	end_call(c, rc == ZNONODE ? 0 : rc);
}

/* --- listing all --- */

static void on_listed(int rc, const char *value, int len, const struct Stat *stat, const void *data)
{
	struct ripc__ensemble_call *c = (struct ripc__ensemble_call *)data;
	int64_t age_s = 0;

	if (!rc && len > 0 && (size_t)len <= RIPC__NODE_MAX) {
		/* By the clocks of two hosts: for people. */
		age_s = (int64_t)time(NULL) - stat->ctime / 1000;
		age_s = age_s < 0 ? 0 : age_s > INT32_MAX ? INT32_MAX : age_s;
		ripc__ensemble_report_node(c->e, RIPC__ENS_LISTED, c->service, false,
					   (int32_t)age_s, value, (size_t)len);
	}
	end_call(c, rc == ZNONODE ? 0 : rc);
}

static void on_children(int rc, const struct String_vector *names, const void *data)
{
	struct ripc__ensemble_call *c = (struct ripc__ensemble_call *)data;
	uint64_t service;

	for (int i = 0; !rc && i < names->count && i < RIPC__LISTING_MAX; i++)
		if (parse_name(names->data[i], &service))
			(void)ripc__ensemble_submit(c->e, RIPC__CALL_LIST, service, NULL, 0, NULL);
	/* Without a root no service was ever registered. */
	end_call(c, rc == ZNONODE ? 0 : rc);
}

/* --- execution --- */

void ripc__ensemble_execute(zhandle_t *zh, struct ripc__ensemble_call *c)
{
	int rc;

	c->zh = zh;
	switch (c->command) {
	case RIPC__CALL_CLAIM:
	case RIPC__CALL_CLAIM_FORCE:
		rc = create_node(c);
		break;
	case RIPC__CALL_REPORT_RIVAL:
		report_rival(c);
		return;
	case RIPC__CALL_LIST:
		rc = c->service ? zoo_aget(zh, c->path, 0, on_listed, c)
				: zoo_aget_children(zh, c->e->root, 0, on_children, c);
		break;
	case RIPC__CALL_RELEASE:
		rc = zoo_aget(zh, c->path, 0, on_release, c);
		break;
	default:
		rc = zoo_awget(zh, c->path, on_node, c->e, on_watched, c);
		break;
	}
	if (rc)
		end_call(c, rc);
}
