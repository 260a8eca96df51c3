/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Three kinds of threads meet here: the context's, which leaves commands and takes reports; the keeper, which makes all
 * calls of ZooKeeper's library that begin something; and the library's own, which runs completions. They share two queues under
 * one mutex, held for a few instructions.
 */
#define _GNU_SOURCE
#define THREADED /* the multi-threaded library */
#include "resolver/ensemble.h"

#include "core/clock.h"
#include "core/log.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/queue.h>
#include <sys/random.h>
#include <unistd.h>
#include <zookeeper/zookeeper.h>

#define DEFAULT_ROOT "/ripc"
#define RETRY_MS     500 /* after which a handle that could not be made is tried for again */
#define HOSTS_MAX    32
#define CLAIM_TRIES \
	4 /* rounds of one claim: make parents, find the node gone again, take it away */

enum command { CLAIM, RELEASE, WATCH, ACCUSE };

/* A command, and later the call that carries it out. */
struct call {
	STAILQ_ENTRY(call) link;
	struct ripc__ensemble *e;
	zhandle_t *zh; /* the session it belongs to */
	enum command command;
	uint64_t service;
	bool force;
	unsigned tries;
	zoo_op_result_t results[2];
	zoo_op_t ops[2];
	char path[512];
	size_t len;
	size_t their_len; /* ACCUSE: bytes of the node as it is, behind those of ours */
	int32_t version;  /* of that node */
	char bytes[];     /* data for the node */
};

struct reported {
	STAILQ_ENTRY(reported) link;
	enum ripc__ensemble_kind kind;
	uint64_t service;
	bool ours;
	int32_t version;
	size_t len;
	uint8_t bytes[];
};

struct ripc__ensemble {
	pthread_mutex_t lock; /* of what follows, up to expired */
	pthread_cond_t cond;  /* the keeper waits here */
	STAILQ_HEAD(, call) calls;
	STAILQ_HEAD(, call)
	unsure; /* releases that were lost with the connection: made again in the same session */
	STAILQ_HEAD(, reported) reports;
	bool stop;
	bool expired; /* the session is over: a new handle is needed */
	bool starved; /* a report was lost for want of memory: as if the connection had been */
	int fd;
	pthread_t keeper;
	char hosts[512];
	char root[480];
	char auth[160];
	uint32_t session_ms;
	int64_t session; /* the one last connected; the library's thread only */
};

/* --- reports --- */

void ripc__ensemble_poke(struct ripc__ensemble *e)
{
	uint64_t one = 1;

	(void)!write(e->fd, &one, sizeof(one));
}

static void report_node(struct ripc__ensemble *e, enum ripc__ensemble_kind kind, uint64_t service,
			bool ours, int32_t version, const void *bytes, size_t len)
{
	struct reported *r = len > RIPC__NODE_MAX ? NULL : malloc(sizeof(*r) + len);

	pthread_mutex_lock(&e->lock);
	if (r) {
		r->kind = kind;
		r->service = service;
		r->ours = ours;
		r->version = version;
		r->len = len;
		if (len)
			memcpy(r->bytes, bytes, len);
		STAILQ_INSERT_TAIL(&e->reports, r, link);
	} else {
		e->starved = true;
	}
	pthread_mutex_unlock(&e->lock);
	ripc__ensemble_poke(e);
}

static void report(struct ripc__ensemble *e, enum ripc__ensemble_kind kind, uint64_t service,
		   bool ours, const void *bytes, size_t len)
{
	report_node(e, kind, service, ours, 0, bytes, len);
}

static void report_text(struct ripc__ensemble *e, enum ripc__ensemble_kind kind, uint64_t service,
			const char *text)
{
	report(e, kind, service, false, text, strlen(text) + 1);
}

bool ripc__ensemble_next(struct ripc__ensemble *e, struct ripc__ensemble_report *out)
{
	struct reported *r;
	bool starved = false;
	uint64_t n;

	for (unsigned look = 0; look < 2; look++) {
		pthread_mutex_lock(&e->lock);
		r = STAILQ_FIRST(&e->reports);
		if (r)
			STAILQ_REMOVE_HEAD(&e->reports, link);
		else
			starved = e->starved;
		if (starved)
			e->starved = false;
		pthread_mutex_unlock(&e->lock);
		if (r || starved)
			break;
		/* Cleared first and looked at once more: nothing that comes in between is overlooked. */
		if (!look)
			(void)!read(e->fd, &n, sizeof(n));
	}
	if (starved)
		*out = (struct ripc__ensemble_report){.kind = RIPC__ENS_UP};
	if (!r)
		return starved;
	out->kind = r->kind;
	out->service = r->service;
	out->ours = r->ours;
	out->version = r->version;
	out->len = r->len;
	memcpy(out->bytes, r->bytes, r->len);
	free(r);
	return true;
}

/* --- what the library calls --- */

/* Its lines begin with a date and its process: "2026-11-21 14:00:00,000:1(0x2):ZOO_WARN@function@77: text". */
static void on_log(const char *line)
{
	const char *at = strstr(line, ":ZOO_");
	enum ripc_log_level level = RIPC_LOG_DEBUG;

	if (!at)
		at = line;
	/* Servers that do not answer are told by the state of the connection, once, and not at every attempt. */
	else if (!strncmp(++at, "ZOO_ERROR", 9) || !strncmp(at, "ZOO_WARN", 8))
		level = RIPC_LOG_INFO;
	ripc__log(level, "zookeeper: %.400s", at);
}

static bool parse_path(const struct ripc__ensemble *e, const char *path, uint64_t *service)
{
	size_t len = strlen(e->root);
	char *end;

	if (!path || strncmp(path, e->root, len) || path[len] != '/' || strlen(path + len + 1) != 16)
		return false;
	*service = strtoull(path + len + 1, &end, 16);
	return !*end;
}

static void on_node(zhandle_t *zh, int type, int state, const char *path, void *ctx)
{
	struct ripc__ensemble *e = ctx;
	uint64_t service;

	if (type != ZOO_SESSION_EVENT && parse_path(e, path, &service))
		report(e, RIPC__ENS_CHANGED, service, false, NULL, 0);
}

/*
 * A new session has nothing to release: the nodes of the last one went with it. Should a service have been registered again
 * since, its node goes too, and is made anew: it is watched.
 */
static void release_again(struct ripc__ensemble *e, bool same_session)
{
	struct call *c;

	pthread_mutex_lock(&e->lock);
	while ((c = STAILQ_FIRST(&e->unsure))) {
		STAILQ_REMOVE_HEAD(&e->unsure, link);
		if (same_session)
			STAILQ_INSERT_TAIL(&e->calls, c, link);
		else
			free(c);
	}
	pthread_cond_signal(&e->cond);
	pthread_mutex_unlock(&e->lock);
}

static void on_session(zhandle_t *zh, int type, int state, const char *path, void *ctx)
{
	struct ripc__ensemble *e = (struct ripc__ensemble *)zoo_get_context(zh);

	if (type != ZOO_SESSION_EVENT)
		return;
	if (state == ZOO_CONNECTED_STATE) {
		int64_t id = zoo_client_id(zh)->client_id;

		release_again(e, id == e->session);
		report(e, RIPC__ENS_UP, (uint64_t)id, false, "", id != e->session);
		e->session = id;
	} else if (state == ZOO_EXPIRED_SESSION_STATE || state == ZOO_AUTH_FAILED_STATE) {
		report_text(e, RIPC__ENS_LOST, 0,
			    state == ZOO_AUTH_FAILED_STATE ? "authentication failed"
							   : "the session expired");
		pthread_mutex_lock(&e->lock);
		e->expired = true;
		pthread_cond_signal(&e->cond);
		pthread_mutex_unlock(&e->lock);
	} else {
		report_text(e, RIPC__ENS_LOST, 0, "");
	}
}

/* Whether a call came to nothing with its connection; it will be made again if it is still wanted. */
static bool is_loss(int rc)
{
	return rc == ZCONNECTIONLOSS || rc == ZOPERATIONTIMEOUT || rc == ZSESSIONEXPIRED ||
	       rc == ZCLOSING || rc == ZINVALIDSTATE || rc == ZSESSIONMOVED;
}

static void end_call(struct call *c, int rc)
{
	/* Nobody else would remove our node while this session lives. */
	if (c->command == RELEASE && is_loss(rc)) {
		pthread_mutex_lock(&c->e->lock);
		STAILQ_INSERT_TAIL(&c->e->unsure, c, link);
		pthread_mutex_unlock(&c->e->lock);
		return;
	}
	if (rc && !is_loss(rc))
		report_text(c->e, RIPC__ENS_REFUSED, c->service,
			    rc == ZMARSHALLINGERROR ? "out of memory" : zerror(rc));
	free(c);
}

/* --- telling a holder of another --- */

static const struct ACL_vector *acl(const struct ripc__ensemble *e)
{
	return *e->auth ? &ZOO_CREATOR_ALL_ACL : &ZOO_OPEN_ACL_UNSAFE;
}

/*
 * The record of the one who lost lies in a node beside the other's, which is written once more as it is: its holder watches
 * it, and a node that was just made has never been written.
 */
#define RIVAL_SUFFIX ".rival"

struct beside {
	char path[sizeof(((struct call *)0)->path) + sizeof(RIVAL_SUFFIX)];
};

static struct beside beside(const struct call *c)
{
	struct beside b;

	snprintf(b.path, sizeof(b.path), "%s" RIVAL_SUFFIX, c->path);
	return b;
}

static void accuse(struct call *c);

static void on_cleared(int rc, const void *data)
{
	struct call *c = (struct call *)data;

	if (rc && rc != ZNONODE)
		end_call(c, rc);
	else
		accuse(c);
}

static void on_accused(int rc, const void *data)
{
	struct call *c = (struct call *)data;
	struct beside b = beside(c);

	/* Left there by another, earlier, and never read. */
	if (rc == ZNODEEXISTS && c->tries++ < CLAIM_TRIES) {
		rc = zoo_adelete(c->zh, b.path, -1, on_cleared, c);
		if (!rc)
			return;
	}
	/* If the node is another one by now, there is nobody to be told. */
	end_call(c, rc == ZNODEEXISTS || rc == ZBADVERSION || rc == ZNONODE ? 0 : rc);
}

/* In one message to the ensemble: whoever has lost may end the session at once. So it does not end with that, either. */
static void accuse(struct call *c)
{
	struct beside b = beside(c);
	int rc;

	zoo_create_op_init(&c->ops[0], b.path, c->bytes, (int)c->len, acl(c->e), 0, NULL, 0);
	zoo_set_op_init(&c->ops[1], c->path, c->bytes + c->len, (int)c->their_len, c->version, NULL);
	rc = zoo_amulti(c->zh, 2, c->ops, c->results, on_accused, c);
	if (rc)
		end_call(c, rc);
}

static void on_told(int rc, const void *data)
{
}

static void on_rival(int rc, const char *value, int len, const struct Stat *stat, const void *data)
{
	struct call *c = (struct call *)data;
	struct beside b = beside(c);

	if (!rc && len > 0 && (size_t)len <= RIPC__NODE_MAX) {
		report(c->e, RIPC__ENS_RIVAL, c->service, false, value, (size_t)len);
		(void)zoo_adelete(c->zh, b.path, stat->version, on_told, NULL);
	}
	end_call(c, rc == ZNONODE ? 0 : rc);
}

/* --- looking at a node --- */

static void on_watched(int rc, const char *value, int len, const struct Stat *stat, const void *data);

static void on_absent(int rc, const struct Stat *stat, const void *data)
{
	struct call *c = (struct call *)data;

	/* It came between the two looks. */
	if (!rc && c->tries++ < CLAIM_TRIES) {
		rc = zoo_awget(c->zh, c->path, on_node, c->e, on_watched, c);
		if (!rc)
			return;
	}
	if (rc == ZNONODE) {
		report(c->e, RIPC__ENS_NONE, c->service, false, NULL, 0);
		rc = 0;
	}
	end_call(c, rc);
}

static void on_watched(int rc, const char *value, int len, const struct Stat *stat, const void *data)
{
	struct call *c = (struct call *)data;

	if (!rc && (len < 0 || (size_t)len > RIPC__NODE_MAX)) {
		report_text(c->e, RIPC__ENS_REFUSED, c->service, "no record in it");
	} else if (!rc) {
		bool ours = stat->ephemeralOwner == zoo_client_id(c->zh)->client_id;
		struct beside b = beside(c);

		report_node(c->e, RIPC__ENS_FOUND, c->service, ours, stat->version, value,
			    (size_t)len);
		/* Written by another: we make it anew. */
		if (ours && stat->version > 0 && !zoo_aget(c->zh, b.path, 0, on_rival, c))
			return;
	} else if (rc == ZNONODE) {
		/* Only this call leaves a watch on what does not exist. */
		rc = zoo_awexists(c->zh, c->path, on_node, c->e, on_absent, c);
		if (!rc)
			return;
	}
	end_call(c, rc);
}

/* --- making one --- */

static void on_made(int rc, const char *value, const void *data);
static void on_other(int rc, const char *value, int len, const struct Stat *stat, const void *data);

static int make(struct call *c)
{
	return zoo_acreate(c->zh, c->path, c->bytes, (int)c->len, acl(c->e), ZOO_EPHEMERAL, on_made,
			   c);
}

static void ignore(int rc, const char *value, const void *data)
{
}

/* The root and what is above it. The requests of a session are served in their order. */
static void make_parents(struct call *c)
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

static void claimed(struct call *c)
{
	report(c->e, RIPC__ENS_CLAIMED, c->service, true, NULL, 0);
	/* Whoever takes it away shall not go unnoticed. */
	c->command = WATCH;
	if (zoo_awget(c->zh, c->path, on_node, c->e, on_watched, c))
		free(c);
}

static void on_made(int rc, const char *value, const void *data)
{
	struct call *c = (struct call *)data;

	if (!rc) {
		claimed(c);
		return;
	}
	if (rc == ZNODEEXISTS)
		rc = zoo_aget(c->zh, c->path, 0, on_other, c);
	else if (rc == ZNONODE && c->tries++ < CLAIM_TRIES) {
		make_parents(c);
		rc = make(c);
	}
	if (rc)
		end_call(c, rc);
}

static void on_forced(int rc, const void *data)
{
	struct call *c = (struct call *)data;

	if (!rc) {
		claimed(c);
		return;
	}
	/* Changed in the meantime: look again. */
	if ((rc == ZBADVERSION || rc == ZNONODE || rc == ZNODEEXISTS) && c->tries++ < CLAIM_TRIES)
		rc = make(c);
	if (rc)
		end_call(c, rc);
}

static void on_other(int rc, const char *value, int len, const struct Stat *stat, const void *data)
{
	struct call *c = (struct call *)data;

	if (rc == ZNONODE && c->tries++ < CLAIM_TRIES) {
		rc = make(c);
	} else if (!rc && stat->ephemeralOwner == zoo_client_id(c->zh)->client_id &&
		   (size_t)len == c->len && !memcmp(value, c->bytes, c->len)) {
		/* An answer that was lost with the connection. */
		claimed(c);
		return;
	} else if (!rc && (c->force || stat->ephemeralOwner == zoo_client_id(c->zh)->client_id)) {
		/* In one step, so that nobody sees neither. A node cannot be handed to another session otherwise. */
		zoo_delete_op_init(&c->ops[0], c->path, stat->version);
		zoo_create_op_init(&c->ops[1], c->path, c->bytes, (int)c->len, acl(c->e),
				   ZOO_EPHEMERAL, NULL, 0);
		rc = zoo_amulti(c->zh, 2, c->ops, c->results, on_forced, c);
	} else if (!rc) {
		report_node(c->e, RIPC__ENS_TAKEN, c->service, false, stat->version, value,
			    len > 0 && (size_t)len <= RIPC__NODE_MAX ? (size_t)len : 0);
		free(c);
		return;
	}
	if (rc)
		end_call(c, rc);
}

/* --- and removing it --- */

static void on_removed(int rc, const void *data)
{
	struct call *c = (struct call *)data;

	end_call(c, rc == ZNONODE || rc == ZBADVERSION ? 0 : rc);
}

static void on_release(int rc, const char *value, int len, const struct Stat *stat, const void *data)
{
	struct call *c = (struct call *)data;

	if (!rc && stat->ephemeralOwner == zoo_client_id(c->zh)->client_id) {
		rc = zoo_adelete(c->zh, c->path, stat->version, on_removed, c);
		if (!rc)
			return;
	}
	end_call(c, rc == ZNONODE ? 0 : rc);
}

/* --- the keeper --- */

static void begin(zhandle_t *zh, struct call *c)
{
	int rc;

	c->zh = zh;
	switch (c->command) {
	case CLAIM:
		rc = make(c);
		break;
	case ACCUSE:
		accuse(c);
		return;
	case RELEASE:
		rc = zoo_aget(zh, c->path, 0, on_release, c);
		break;
	default:
		rc = zoo_awget(zh, c->path, on_node, c->e, on_watched, c);
		break;
	}
	if (rc)
		end_call(c, rc);
}

static zhandle_t *connect_handle(struct ripc__ensemble *e)
{
	zhandle_t *zh = zookeeper_init2(e->hosts, on_session, (int)e->session_ms, NULL, e,
					ZOO_NO_LOG_CLIENTENV, on_log);
	char text[128];

	if (!zh) {
		snprintf(text, sizeof(text), "no connection can be made: %s", strerror(errno));
		report_text(e, RIPC__ENS_LOST, 0, text);
		return NULL;
	}
	if (*e->auth)
		(void)zoo_add_auth(zh, "digest", e->auth, (int)strlen(e->auth), NULL, NULL);
	return zh;
}

/* Waits until there is something to do. Return: the next call, or NULL: another reason. Lock held. */
static struct call *await(struct ripc__ensemble *e, bool connected)
{
	struct call *c = NULL;
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	ts.tv_nsec += RETRY_MS * 1000000L;
	ts.tv_sec += ts.tv_nsec / 1000000000L;
	ts.tv_nsec %= 1000000000L;
	while (!e->stop && !(connected && (e->expired || !STAILQ_EMPTY(&e->calls)))) {
		if (connected)
			pthread_cond_wait(&e->cond, &e->lock);
		else if (pthread_cond_timedwait(&e->cond, &e->lock, &ts) == ETIMEDOUT)
			return NULL;
	}
	if (!e->stop && !e->expired)
		c = STAILQ_FIRST(&e->calls);
	if (c)
		STAILQ_REMOVE_HEAD(&e->calls, link);
	return c;
}

/* What others have to know, and would not see by the end of the session. */
static void last_words(struct ripc__ensemble *e, zhandle_t *zh)
{
	struct call *c;

	pthread_mutex_lock(&e->lock);
	while ((c = STAILQ_FIRST(&e->calls))) {
		STAILQ_REMOVE_HEAD(&e->calls, link);
		pthread_mutex_unlock(&e->lock);
		if (c->command == ACCUSE)
			begin(zh, c);
		else
			free(c);
		pthread_mutex_lock(&e->lock);
	}
	pthread_mutex_unlock(&e->lock);
}

static void *keep(void *arg)
{
	struct ripc__ensemble *e = arg;
	zhandle_t *zh = connect_handle(e);
	bool stop = false;

	while (!stop) {
		struct call *c;
		bool expired;

		pthread_mutex_lock(&e->lock);
		c = await(e, zh);
		stop = e->stop;
		expired = e->expired;
		e->expired = false;
		pthread_mutex_unlock(&e->lock);
		if (c)
			begin(zh, c);
		if (zh && expired) {
			zookeeper_close(zh);
			zh = NULL;
		}
		if (!zh && !stop)
			zh = connect_handle(e);
	}
	if (zh) {
		last_words(e, zh);
		zookeeper_close(zh);
	}
	return NULL;
}

static struct call *new_call(struct ripc__ensemble *e, enum command command, uint64_t service,
			     const uint8_t *bytes, size_t len)
{
	struct call *c = calloc(1, sizeof(*c) + len);

	if (!c)
		return NULL;
	c->e = e;
	c->command = command;
	c->service = service;
	c->len = len;
	if (bytes)
		memcpy(c->bytes, bytes, len);
	snprintf(c->path, sizeof(c->path), "%s/%016" PRIx64, e->root, service);
	return c;
}

static void submit(struct ripc__ensemble *e, struct call *c)
{
	pthread_mutex_lock(&e->lock);
	STAILQ_INSERT_TAIL(&e->calls, c, link);
	pthread_cond_signal(&e->cond);
	pthread_mutex_unlock(&e->lock);
}

int ripc__ensemble_claim(struct ripc__ensemble *e, uint64_t service, const uint8_t *bytes,
			 size_t len, bool force)
{
	struct call *c = new_call(e, CLAIM, service, bytes, len);

	if (!c)
		return -ENOMEM;
	c->force = force;
	submit(e, c);
	return 0;
}

void ripc__ensemble_release(struct ripc__ensemble *e, uint64_t service)
{
	struct call *c = new_call(e, RELEASE, service, NULL, 0);

	/* Without memory the node stays until the session ends; others find that we do not hold the service. */
	if (c)
		submit(e, c);
}

int ripc__ensemble_accuse(struct ripc__ensemble *e, const struct ripc__ensemble_report *found,
			  const uint8_t *bytes, size_t len)
{
	struct call *c = new_call(e, ACCUSE, found->service, NULL, len + found->len);

	if (!c)
		return -ENOMEM;
	memcpy(c->bytes, bytes, len);
	memcpy(c->bytes + len, found->bytes, found->len);
	c->len = len;
	c->their_len = found->len;
	c->version = found->version;
	submit(e, c);
	return 0;
}

int ripc__ensemble_watch(struct ripc__ensemble *e, uint64_t service)
{
	struct call *c = new_call(e, WATCH, service, NULL, 0);

	if (!c)
		return -ENOMEM;
	submit(e, c);
	return 0;
}

/* --- life --- */

/*
 * The servers in an order drawn here, so that clients spread over them. The library would do it with the application's
 * random numbers, which are not ours to seed.
 */
static void shuffle(char *hosts, size_t cap)
{
	char copy[512], *words[HOSTS_MAX], *save, *word;
	uint32_t draws[HOSTS_MAX] = {0};
	unsigned n = 0;
	size_t at = 0;

	snprintf(copy, sizeof(copy), "%s", hosts);
	for (word = strtok_r(copy, ",", &save); word && n < HOSTS_MAX;
	     word = strtok_r(NULL, ",", &save))
		words[n++] = word;
	if (getrandom(draws, sizeof(draws), 0) != sizeof(draws))
		return;
	for (unsigned i = n; i > 1; i--) {
		unsigned k = draws[i - 1] % i;

		word = words[i - 1];
		words[i - 1] = words[k];
		words[k] = word;
	}
	for (unsigned i = 0; i < n && at < cap; i++)
		at += (size_t)snprintf(hosts + at, cap - at, "%s%s", i ? "," : "", words[i]);
}

static int start_keeper(struct ripc__ensemble *e)
{
	sigset_t all, old;
	int rc;

	/* Signals are the application's: neither this thread nor those that it starts may take them. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	rc = pthread_create(&e->keeper, NULL, keep, e);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return -rc;
}

int ripc__ensemble_open(struct ripc__ensemble **out, const struct ripc__ensemble_env *env,
			char *why, size_t whylen)
{
	struct ripc__ensemble *e = calloc(1, sizeof(*e));
	pthread_condattr_t attr;
	char *slash;
	int rc = 0;

	if (!e) {
		snprintf(why, whylen, "out of memory");
		return -ENOMEM;
	}
	snprintf(e->hosts, sizeof(e->hosts), "%s", env->hosts);
	slash = strchr(e->hosts, '/');
	snprintf(e->root, sizeof(e->root), "%s", slash ? slash : DEFAULT_ROOT);
	if (slash)
		*slash = 0;
	snprintf(e->auth, sizeof(e->auth), "%s", env->auth);
	e->session_ms = env->session_ms;
	STAILQ_INIT(&e->calls);
	STAILQ_INIT(&e->unsure);
	STAILQ_INIT(&e->reports);
	shuffle(e->hosts, sizeof(e->hosts));
	zoo_deterministic_conn_order(1);
	pthread_mutex_init(&e->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&e->cond, &attr);
	pthread_condattr_destroy(&attr);
	e->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (e->fd < 0)
		rc = -errno;
	else
		rc = start_keeper(e);
	if (rc) {
		snprintf(why, whylen, "no thread for the ensemble: %s", strerror(-rc));
		if (e->fd >= 0)
			close(e->fd);
		free(e);
		return rc;
	}
	*out = e;
	return 0;
}

void ripc__ensemble_close(struct ripc__ensemble *e)
{
	struct call *c;
	struct reported *r;

	pthread_mutex_lock(&e->lock);
	e->stop = true;
	pthread_cond_signal(&e->cond);
	pthread_mutex_unlock(&e->lock);
	pthread_join(e->keeper, NULL);
	release_again(e, false);
	while ((c = STAILQ_FIRST(&e->calls))) {
		STAILQ_REMOVE_HEAD(&e->calls, link);
		free(c);
	}
	while ((r = STAILQ_FIRST(&e->reports))) {
		STAILQ_REMOVE_HEAD(&e->reports, link);
		free(r);
	}
	close(e->fd);
	pthread_cond_destroy(&e->cond);
	pthread_mutex_destroy(&e->lock);
	explicit_bzero(e->auth, sizeof(e->auth));
	free(e);
}

int ripc__ensemble_fd(const struct ripc__ensemble *e)
{
	return e->fd;
}

const char *ripc__ensemble_root(const struct ripc__ensemble *e)
{
	return e->root;
}

void ripc__ensemble_forked(struct ripc__ensemble *e)
{
	close(e->fd);
}
