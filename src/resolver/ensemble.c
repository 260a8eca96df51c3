/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Three kinds of threads share two queues under one mutex, which they hold for a few instructions
 * only. The thread of the context adds commands and takes reports. The session thread makes all
 * calls of ZooKeeper's library that start an operation. The threads of the library run completions.
 */
#define _GNU_SOURCE
#include "resolver/ensemble_call.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "base/thread.h"
#include "resolver/ensemble_hosts.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>

#define DEFAULT_ROOT "/ripc"
#define RETRY_MS     500  /* between attempts to create a handle */
#define REFRESH_MS   5000 /* between resolutions of the names of lost servers */
#define HOSTS_MAX    32

/* --- reports --- */

void ripc__ensemble_report_node(struct ripc__ensemble *e, enum ripc__ensemble_kind kind,
				uint64_t service, bool ours, int32_t version, const void *bytes,
				size_t len)
{
	struct ripc__ensemble_report *r = len > RIPC__NODE_MAX ? NULL : malloc(sizeof(*r) + len);

	pthread_mutex_lock(&e->lock);
	if (r) {
		r->kind = kind;
		r->service = service;
		r->ours = ours;
		r->version = version;
		r->len = len;
		if (len)
			memcpy(r->bytes, bytes, len);
		ripc__list_add(&e->reports, &r->link);
	} else {
		e->report_lost = true;
	}
	pthread_mutex_unlock(&e->lock);
	eventfd_write(e->fd, 1);
}

void ripc__ensemble_report(struct ripc__ensemble *e, enum ripc__ensemble_kind kind,
			   uint64_t service, const void *bytes, size_t len)
{
	ripc__ensemble_report_node(e, kind, service, false, 0, bytes, len);
}

void ripc__ensemble_report_text(struct ripc__ensemble *e, enum ripc__ensemble_kind kind,
				uint64_t service, const char *text)
{
	ripc__ensemble_report(e, kind, service, text, strlen(text) + 1);
}

struct ripc__ensemble_report *ripc__ensemble_next(struct ripc__ensemble *e, bool *lost)
{
	struct ripc__list *n = NULL;
	eventfd_t count;

	*lost = false;
	/* Clear the eventfd, then check again, so that no report is missed. */
	for (unsigned pass = 0; pass < 2 && !n && !*lost; pass++) {
		if (pass)
			eventfd_read(e->fd, &count);
		pthread_mutex_lock(&e->lock);
		n = ripc__list_take(&e->reports);
		*lost = !n && e->report_lost;
		e->report_lost = e->report_lost && !*lost;
		pthread_mutex_unlock(&e->lock);
	}
	return n ? ripc__list_entry(n, struct ripc__ensemble_report, link) : NULL;
}

/* --- callbacks of the library --- */

/*
 * A line of the library begins with a date and its process: "2026-11-21
 * 14:00:00,000:1(0x2):ZOO_WARN@function@77: text".
 */
static void on_log(const char *line)
{
	const char *at = strstr(line, ":ZOO_");
	enum ripc_log_level level = RIPC_LOG_DEBUG;

	if (!at)
		at = line;
	/* The state of the connection reports servers without an answer, once. */
	else if (!strncmp(++at, "ZOO_ERROR", 9) || !strncmp(at, "ZOO_WARN", 8))
		level = RIPC_LOG_INFO;
	ripc__log(level, "zookeeper: %.400s", at);
}

static void on_session(zhandle_t *zh, int type, int state, const char *path, void *ctx)
{
	struct ripc__ensemble *e = (struct ripc__ensemble *)zoo_get_context(zh);
	bool connected = state == ZOO_CONNECTED_STATE, failed = state == ZOO_AUTH_FAILED_STATE;
	bool expired = failed || state == ZOO_EXPIRED_SESSION_STATE;

	if (type != ZOO_SESSION_EVENT)
		return;
	if (connected) {
		int64_t id = zoo_client_id(zh)->client_id;

		ripc__ensemble_report(e, RIPC__ENS_UP, (uint64_t)id, "", id != e->session);
		e->session = id;
	} else {
		ripc__ensemble_report_text(e, RIPC__ENS_LOST, 0,
					   failed    ? "authentication failed"
					   : expired ? "the session expired"
						     : "");
	}
	pthread_mutex_lock(&e->lock);
	e->expired = e->expired || expired;
	e->lost = !connected;
	pthread_cond_signal(&e->cond);
	pthread_mutex_unlock(&e->lock);
}

/* --- the session thread --- */

static zhandle_t *connect_handle(struct ripc__ensemble *e)
{
	zhandle_t *zh;
	char text[320];

	if (!ripc__hosts_resolve(e->hosts, &e->stop, e->addresses, text, sizeof(text))) {
		ripc__ensemble_report_text(e, RIPC__ENS_LOST, 0, text);
		return NULL;
	}
	zh = zookeeper_init2(e->addresses, on_session, (int)e->session_ms, NULL, e,
			     ZOO_NO_LOG_CLIENTENV, on_log);
	if (!zh) {
		snprintf(text, sizeof(text), "cannot create a connection: %s", strerror(errno));
		ripc__ensemble_report_text(e, RIPC__ENS_LOST, 0, text);
		return NULL;
	}
	if (*e->auth)
		(void)zoo_add_auth(zh, "digest", e->auth, (int)strlen(e->auth), NULL, NULL);
	return zh;
}

/* A server may return with another address. */
static void refresh_addresses(struct ripc__ensemble *e, zhandle_t *zh)
{
	char addresses[RIPC__HOSTS_BYTES], why[320];

	if (!ripc__hosts_resolve(e->hosts, &e->stop, addresses, why, sizeof(why)) ||
	    !strcmp(addresses, e->addresses))
		return;
	strcpy(e->addresses, addresses);
	(void)zoo_set_servers(zh, addresses);
}

/*
 * Waits for work: a call, an expired session, the end, or a retry when @have_handle is false or no
 * server is connected. Return: the next call, or NULL for another reason. The lock is held.
 */
static struct ripc__ensemble_call *wait_for_call(struct ripc__ensemble *e, bool have_handle)
{
	struct ripc__ensemble_call *c = NULL;
	uint64_t end_ns = ripc__clock_ns() + (have_handle ? REFRESH_MS : RETRY_MS) * RIPC__MS;
	struct timespec ts = {(time_t)(end_ns / (1000 * RIPC__MS)),
			      (long)(end_ns % (1000 * RIPC__MS))};

	while (!e->stop && !(have_handle && e->expired) &&
	       (e->lost || ripc__list_empty(&e->calls))) {
		if (!e->lost)
			pthread_cond_wait(&e->cond, &e->lock);
		else if (pthread_cond_timedwait(&e->cond, &e->lock, &ts) == ETIMEDOUT)
			return NULL;
	}
	if (!e->stop && !e->expired)
		c = ripc__list_first_entry(&e->calls, struct ripc__ensemble_call, link);
	if (c)
		ripc__list_del(&c->link);
	return c;
}

/* Executes what the end of the session does not do: reports to holders. */
static void close_session(struct ripc__ensemble *e, zhandle_t *zh)
{
	struct ripc__ensemble_call *c;

	pthread_mutex_lock(&e->lock);
	while ((c = ripc__list_first_entry(&e->calls, struct ripc__ensemble_call, link))) {
		ripc__list_del(&c->link);
		pthread_mutex_unlock(&e->lock);
		if (c->command == RIPC__CALL_REPORT_RIVAL)
			ripc__ensemble_execute(zh, c);
		else
			free(c);
		pthread_mutex_lock(&e->lock);
	}
	pthread_mutex_unlock(&e->lock);
}

static void *thread_main(void *arg)
{
	struct ripc__ensemble *e = arg;
	zhandle_t *zh = connect_handle(e);
	bool stop = false;

	while (!stop) {
		struct ripc__ensemble_call *c;
		bool expired, lost;

		pthread_mutex_lock(&e->lock);
		c = wait_for_call(e, zh);
		stop = e->stop;
		expired = e->expired;
		lost = e->lost;
		e->expired = false;
		pthread_mutex_unlock(&e->lock);
		if (c)
			ripc__ensemble_execute(zh, c);
		else if (zh && lost && !expired && !stop)
			refresh_addresses(e, zh);
		if (zh && expired) {
			zookeeper_close(zh);
			zh = NULL;
		}
		if (!zh && !stop)
			zh = connect_handle(e);
	}
	if (zh) {
		close_session(e, zh);
		zookeeper_close(zh);
	}
	return NULL;
}

int ripc__ensemble_submit(struct ripc__ensemble *e, enum ripc__ensemble_command command,
			  uint64_t service, const uint8_t *bytes, size_t len,
			  const struct ripc__ensemble_report *found)
{
	size_t their_len = found ? found->len : 0;
	struct ripc__ensemble_call *c = calloc(1, sizeof(*c) + len + their_len);

	if (!c)
		return -ENOMEM;
	c->e = e;
	c->command = command;
	c->service = service;
	c->len = len;
	if (bytes)
		memcpy(c->bytes, bytes, len);
	if (found) {
		memcpy(c->bytes + len, found->bytes, their_len);
		c->their_len = their_len;
		c->version = found->version;
	}
	snprintf(c->path, sizeof(c->path), "%s/%016" PRIx64, e->root, service);
	pthread_mutex_lock(&e->lock);
	ripc__list_add(&e->calls, &c->link);
	pthread_cond_signal(&e->cond);
	pthread_mutex_unlock(&e->lock);
	return 0;
}

/* --- opening and closing --- */

/*
 * Shuffles the servers, so that clients spread over them. The library would use the random numbers
 * of the application, whose state must not change.
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
	for (unsigned i = 0; i < n; i++)
		at = ripc__append(hosts, cap, at, "%s%s", i ? "," : "", words[i]);
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
	e->lost = true;
	ripc__list_init(&e->calls);
	ripc__list_init(&e->reports);
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
		rc = ripc__thread_start(&e->thread, NULL, thread_main, e);
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
	pthread_mutex_lock(&e->lock);
	e->stop = true;
	pthread_cond_signal(&e->cond);
	pthread_mutex_unlock(&e->lock);
	pthread_join(e->thread, NULL);
	ripc__list_free(&e->calls, struct ripc__ensemble_call, link);
	ripc__list_free(&e->reports, struct ripc__ensemble_report, link);
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
