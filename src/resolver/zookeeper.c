/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The back end for clusters: one ephemeral node of a ZooKeeper ensemble per service, with its
 * record, and a watch on every node that was looked up. The core sees a network on which the
 * ensemble answers for all holders:
 *
 *   PROBE    creates the node; if another context has it, the answer is the REPLY of that context
 *   REQUEST  for an own service: creates or updates the node; for others: a REPLY, once known
 *
 * The entry drop() removes the node. A change of a node arrives as the message that its holder
 * would have sent. While the ensemble is unreachable, known records still answer requests: at once,
 * marked stale, with a short lifetime.
 */
#define _GNU_SOURCE
#include "resolver/zookeeper.h"

#include "auth/key.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/name.h"
#include "base/options.h"
#include "base/text.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#define WATCHED_MAX \
	65536 /* most services looked up and watched; the least recently used one is dropped */
/* pause in which a record that failed is not used, unless its node changes */
#define SUSPECT_NS (3000 * RIPC__MS)
#define FAILURES_MAX \
	7u /* number of failures with a shorter pause, which doubles from 23 ms: a new holder may
	 * not be ready */
#define LOG_INTERVAL_NS (10000 * RIPC__MS) /* interval of log lines about one cause */

static struct ripc__zk_watched *watched_find(struct ripc__zk *z, uint64_t service)
{
	return (struct ripc__zk_watched *)ripc__table_find(&z->watched, service);
}

/* --- messages for the core --- */

void ripc__zk_queue_msg(struct ripc__zk *z, const struct ripc__resolver_msg *msg, bool final)
{
	uint8_t buf[RIPC__RESOLVER_MSG_MAX];
	int len = ripc__resolver_msg_encode(msg, buf, sizeof(buf));

	if (len > 0)
		ripc__ensemble_report_node(z->e, RIPC__ENS_MESSAGE, 0, final, 0, buf, (size_t)len);
}

/* Checks the data of a node. Return: NULL, or a constant phrase: the reason to reject it. */
static const char *verify(struct ripc__zk *z, uint64_t service, const uint8_t *bytes, size_t len,
			  struct ripc__record *record)
{
	const char *why;
	int n = z->auth ? ripc__auth_verify(z->auth, bytes, len) : (int)len;

	if (n < 0)
		return "it was not made with a key of this cluster";
	if (!ripc__record_decode(record, bytes, (size_t)n, &why))
		return record->service == service ? NULL : "it is of another service";
	if (!z->auth && len > RIPC__SIGNATURE_BYTES &&
	    !ripc__record_decode(record, bytes, len - RIPC__SIGNATURE_BYTES, &(const char *){NULL}))
		return "it was made with a key, and this context has none (key_file)";
	return why;
}

/* As ripc__id_text(), with the name in our record, or in the one that was read before. */
static const char *id_text(struct ripc__zk *z, uint64_t service)
{
	struct ripc__zk_held *h = ripc__zk_held_find(z, service);
	struct ripc__zk_watched *w = watched_find(z, service);
	const uint8_t *bytes = h ? h->bytes : w ? w->bytes : NULL;
	struct ripc__record record;
	bool named = bytes && !verify(z, service, bytes, h ? h->len : w->len, &record) &&
		     record.name_len;

	return ripc__id_text(service, named ? record.name : NULL);
}

const char *ripc__zk_decode(struct ripc__zk *z, uint64_t service, const uint8_t *bytes, size_t len,
			    struct ripc__record *record)
{
	const char *why = verify(z, service, bytes, len, record);

	if (!why)
		return NULL;
	if (ripc__clock_ns() - z->last_log_ns > LOG_INTERVAL_NS || !z->last_log_ns) {
		z->last_log_ns = ripc__clock_ns();
		ripc__log(RIPC_LOG_WARN, "resolver: zookeeper: the node of %s is rejected: %s",
			  id_text(z, service), why);
	}
	return why;
}

/* Queues the message that the holder would have sent. */
static void reply(struct ripc__zk *z, struct ripc__zk_watched *w, enum ripc__resolver_kind kind,
		  uint64_t nonce)
{
	struct ripc__resolver_msg msg = {.kind = kind, .service = w->node.id, .nonce = nonce};

	if (ripc__zk_decode(z, w->node.id, w->bytes, w->len, &msg.record))
		return;
	msg.record.since_ms = ripc__ms_between(w->since_ns, ripc__clock_ns());
	if (z->state != RIPC__ZK_CONNECTED && msg.record.ttl_ms > RIPC__ZK_STALE_TTL_MS)
		msg.record.ttl_ms = RIPC__ZK_STALE_TTL_MS;
	ripc__zk_queue_msg(z, &msg, false);
}

/* --- services of others --- */

static void watched_remove(struct ripc__zk *z, struct ripc__zk_watched *w)
{
	ripc__table_remove(&z->watched, &w->node);
	ripc__list_del(&w->link);
	free(w->bytes);
	free(w);
}

static void lookup_node(struct ripc__zk *z, uint64_t service, uint64_t nonce)
{
	struct ripc__zk_watched *w = watched_find(z, service);

	if (!w) {
		if (z->watched.count >= WATCHED_MAX)
			watched_remove(
				z, ripc__list_entry(z->lru.next, struct ripc__zk_watched, link));
		w = calloc(1, sizeof(*w));
		if (!w)
			return;
		w->node.id = service;
		ripc__table_add(&z->watched, &w->node);
	} else {
		ripc__list_del(&w->link);
	}
	ripc__list_add(&z->lru, &w->link);
	w->nonce = nonce;
	if (w->bytes && ripc__clock_ns() >= w->suspect_until_ns) {
		w->nonce = 0;
		reply(z, w, RIPC__RESOLVE_REPLY, nonce);
	}
	if (!w->watching)
		w->watching = ripc__zk_watch(z, service);
}

static void on_found(struct ripc__zk *z, uint64_t service, const uint8_t *bytes, size_t len)
{
	struct ripc__zk_watched *w = watched_find(z, service);
	struct ripc__record record;
	uint8_t *copy;
	bool changed, news;

	if (!w)
		return;
	w->refused = ripc__zk_decode(z, service, bytes, len, &record);
	if (w->refused)
		return;
	changed = !w->bytes || w->len != len || memcmp(w->bytes, bytes, len) != 0;
	news = w->bytes && changed;
	if (changed) {
		copy = malloc(len);
		if (!copy)
			return;
		memcpy(copy, bytes, len);
		/* The claim of the lower generation would be ignored. */
		if (news && ripc__encoded_generation(w->bytes) > record.generation)
			reply(z, w, RIPC__RESOLVE_GONE, 0);
		free(w->bytes);
		w->bytes = copy;
		w->len = len;
		w->suspect_until_ns = 0;
		w->failures = 0;
		w->since_ns = ripc__clock_ns();
	}
	if (w->nonce && ripc__clock_ns() >= w->suspect_until_ns) {
		reply(z, w, RIPC__RESOLVE_REPLY, w->nonce);
		w->nonce = 0;
	}
	/* Contexts that know the former holder are notified of the new one. */
	if (news)
		reply(z, w, RIPC__RESOLVE_REQUEST, 1);
}

static void on_absent(struct ripc__zk *z, uint64_t service)
{
	struct ripc__zk_watched *w = watched_find(z, service);

	if (!w)
		return;
	if (w->bytes)
		reply(z, w, RIPC__RESOLVE_GONE, 0);
	free(w->bytes);
	w->bytes = NULL;
	w->refused = NULL;
}

static void zk_suspect(struct ripc__backend *b, uint64_t service, const uint8_t instance[16])
{
	struct ripc__zk *z = (struct ripc__zk *)b;
	struct ripc__zk_watched *w = watched_find(z, service);
	uint64_t now;

	if (!w || !w->bytes || memcmp(ripc__encoded_instance(w->bytes), instance, 16))
		return;
	now = ripc__clock_ns();
	if (now >= w->suspect_until_ns + SUSPECT_NS)
		w->failures = 0;
	w->suspect_until_ns = now + (SUSPECT_NS >> (FAILURES_MAX - w->failures));
	if (w->failures < FAILURES_MAX)
		w->failures++;
	if (z->state == RIPC__ZK_CONNECTED)
		w->watching = ripc__zk_watch(z, service);
}

/* --- reports of the ensemble --- */

/* Return: whether the core must announce again what it holds. */
static bool on_up(struct ripc__zk *z, bool new_session)
{
	struct ripc__zk_held *h;
	struct ripc__zk_watched *w;

	if (z->state == RIPC__ZK_DISCONNECTED)
		ripc__log(RIPC_LOG_WARN, "resolver: zookeeper: the ensemble is %s%s",
			  z->session ? "back" : "connected",
			  new_session ? ", in a new session" : "");
	/*
	 * Requests on the lost connection have no answer, among them perhaps the watch on the own
	 * node. In a new session the core announces again what it holds, without force.
	 */
	ripc__list_for_each_entry (h, &z->held_list, link)
		if (new_session && !h->nonce)
			ripc__zk_held_set_state(h, RIPC__ZK_ENDED);
		else if (h->state == RIPC__ZK_CREATED)
			(void)ripc__zk_watch(z, h->node.id);
		else
			ripc__zk_claim(z, h);
	z->state = RIPC__ZK_CONNECTED;
	z->last_error[0] = 0;
	ripc__list_for_each_entry (w, &z->lru, link)
		w->watching = ripc__zk_watch(z, w->node.id);
	return new_session;
}

/* The first registration has waited for a connection as long as it may. */
static void stop_waiting(struct ripc__zk *z)
{
	z->state = RIPC__ZK_DISCONNECTED;
	ripc__log(RIPC_LOG_WARN,
		  "resolver: zookeeper: no connection to the ensemble %s yet%s%s; services are "
		  "registered without it until it answers",
		  z->hosts, z->last_error[0] ? ": " : "", z->last_error);
}

static void on_lost(struct ripc__zk *z, const char *text)
{
	struct ripc__zk_watched *w;
	size_t stale = 0;

	if (*text)
		snprintf(z->last_error, sizeof(z->last_error), "%.100s", text);
	if (z->state != RIPC__ZK_CONNECTED)
		return;
	z->state = RIPC__ZK_DISCONNECTED;
	z->lost_ns = ripc__clock_ns();
	ripc__list_for_each_entry (w, &z->lru, link) {
		w->watching = false;
		stale += w->bytes != NULL;
	}
	ripc__log(RIPC_LOG_WARN,
		  "resolver: zookeeper: the ensemble %s is lost%s%s; %zu records are stale and "
		  "stay in use",
		  z->hosts, *text ? ": " : "", text, stale);
}

static void on_changed(struct ripc__zk *z, uint64_t service)
{
	struct ripc__zk_watched *w = watched_find(z, service);

	if (w)
		w->watching = ripc__zk_watch(z, service);
	else if (ripc__zk_held_find(z, service))
		(void)ripc__zk_watch(z, service);
}

/* A node, as the page that its holder would have sent. */
static void on_listed(struct ripc__zk *z, const struct ripc__ensemble_report *r)
{
	struct ripc__resolver_msg msg = {
		.kind = RIPC__RESOLVE_LISTED, .service = 1, .nonce = z->list_nonce};
	uint8_t entry[RIPC__LISTED_BYTES_MAX];

	if (!z->list_nonce || ripc__zk_decode(z, r->service, r->bytes, r->len, &msg.record))
		return;
	msg.record.since_ms =
		(uint32_t)(r->version < INT32_MAX / 1000 ? r->version : INT32_MAX / 1000) * 1000u;
	msg.listed = entry;
	msg.listed_len = (size_t)ripc__listed_encode(&msg.record, entry, sizeof(entry));
	msg.record.service = 0;
	msg.record.name_len = 0;
	ripc__zk_queue_msg(z, &msg, false);
}

static void zk_list(struct ripc__backend *b, const uint8_t *data, size_t len)
{
	struct ripc__zk *z = (struct ripc__zk *)b;
	struct ripc__resolver_msg msg;
	const char *why;

	if (z->state != RIPC__ZK_CONNECTED || ripc__resolver_msg_decode(&msg, data, len, &why))
		return;
	z->list_nonce = msg.nonce;
	(void)ripc__ensemble_submit(z->e, RIPC__CALL_LIST, 0, NULL, 0, NULL);
}

/* Return: as on_up(). */
static bool take_report(struct ripc__zk *z, const struct ripc__ensemble_report *r)
{
	struct ripc__zk_held *h =
		r->kind != RIPC__ENS_UP ? ripc__zk_held_find(z, r->service) : NULL;
	const char *text;
	bool renewed;

	switch (r->kind) {
	case RIPC__ENS_UP:
		renewed = on_up(z, r->len && z->session);
		z->session = r->service;
		return renewed;
	case RIPC__ENS_LOST:
		on_lost(z, (const char *)r->bytes);
		break;
	case RIPC__ENS_CLAIMED:
		if (h)
			ripc__zk_held_set_state(h, RIPC__ZK_CREATED);
		else /* A claim and a release crossed. */
			ripc__zk_release(z, r->service);
		break;
	case RIPC__ENS_TAKEN:
		if (h)
			ripc__zk_taken(z, h, r);
		break;
	case RIPC__ENS_RIVAL:
		if (h)
			ripc__zk_rival(z, h, r->bytes, r->len);
		break;
	case RIPC__ENS_REFUSED:
		text = id_text(z, r->service);
		snprintf(z->last_error, sizeof(z->last_error), "%s: %.80s", text,
			 (const char *)r->bytes);
		ripc__log(RIPC_LOG_ERROR,
			  "resolver: zookeeper: the node %s/%016" PRIx64 " of %s: %s",
			  ripc__ensemble_root(z->e), r->service, text, (const char *)r->bytes);
		break;
	case RIPC__ENS_FOUND:
		if (h)
			ripc__zk_held_found(z, h, r);
		on_found(z, r->service, r->bytes, r->len);
		break;
	case RIPC__ENS_NONE:
		/* Another context removed the node, or a claim and a release crossed. */
		if (h && (h->state == RIPC__ZK_CREATED || h->state == RIPC__ZK_TAKEN))
			ripc__zk_claim(z, h);
		on_absent(z, r->service);
		break;
	case RIPC__ENS_CHANGED:
		on_changed(z, r->service);
		break;
	case RIPC__ENS_LISTED:
		on_listed(z, r);
		break;
	case RIPC__ENS_MESSAGE:
		break;
	}
	return false;
}

/* --- entries of the back end --- */

static void zk_send(struct ripc__backend *b, const struct ripc__backend_addr *to, uint64_t service,
		    const uint8_t *data, size_t len)
{
	struct ripc__zk *z = (struct ripc__zk *)b;
	struct ripc__resolver_msg msg;
	struct ripc__zk_held *h;
	const char *why;

	if (ripc__resolver_msg_decode(&msg, data, len, &why))
		return;
	switch (msg.kind) {
	case RIPC__RESOLVE_PROBE:
		h = to ? NULL : ripc__zk_held_update(z, &msg.record, true);
		if (!h)
			break;
		/* A probe of a node that exists already is answered by that. */
		h->nonce = h->state == RIPC__ZK_CREATED ? 0 : msg.nonce;
		/* A repeated probe: the previous holder may be gone. */
		if (h->state == RIPC__ZK_TAKEN)
			ripc__zk_claim(z, h);
		break;
	case RIPC__RESOLVE_REQUEST:
		if (msg.record.service != service) {
			if (!to)
				lookup_node(z, service, msg.nonce);
			break;
		}
		h = ripc__zk_held_update(z, &msg.record, !to);
		/*
		 * The time for an answer is over and the core takes the service as held: a node of
		 * another context is reported at once.
		 */
		if (h && h->nonce) {
			h->nonce = 0;
			if (h->state == RIPC__ZK_TAKEN)
				ripc__zk_claim(z, h);
			if (z->state == RIPC__ZK_CONNECTING)
				stop_waiting(z);
		}
		break;
	default: /* after a GONE the service is dropped */
		break;
	}
}

static int zk_recv(struct ripc__backend *b, int fd, struct ripc__backend_addr *from, uint8_t *buf,
		   size_t cap)
{
	struct ripc__zk *z = (struct ripc__zk *)b;
	struct ripc__ensemble_report *r;
	bool lost;
	int rc = 0;

	while (!rc) {
		r = ripc__ensemble_next(z->e, &lost);
		if (lost)
			(void)on_up(z, false);
		if (!r)
			return -EAGAIN;
		if (r->kind == RIPC__ENS_MESSAGE) {
			from->final = r->ours;
			rc = (int)MIN(r->len, cap);
			memcpy(buf, r->bytes, (size_t)rc);
		} else if (take_report(z, r)) {
			rc = -ESTALE;
		}
		free(r);
	}
	return rc;
}

static void zk_close(struct ripc__backend *b)
{
	struct ripc__zk *z = (struct ripc__zk *)b;

	ripc__ensemble_close(z->e);
	while (!ripc__list_empty(&z->held_list))
		ripc__zk_held_remove(
			z, ripc__list_entry(z->held_list.next, struct ripc__zk_held, link));
	while (!ripc__list_empty(&z->lru))
		watched_remove(z, ripc__list_entry(z->lru.next, struct ripc__zk_watched, link));
	ripc__table_fini(&z->held);
	ripc__table_fini(&z->watched);
}

static int zk_open(struct ripc__backend *b, const struct ripc__backend_env *env, char *why,
		   size_t whylen)
{
	struct ripc__ensemble_env eenv = {.hosts = env->arg,
					  .auth = env->secret,
					  .session_ms = env->opt->zookeeper_timeout_ms};
	struct ripc__zk *z = (struct ripc__zk *)b;
	struct epoll_event ev = {.events = EPOLLIN};
	int rc = ripc__ensemble_open(&z->e, &eenv, why, whylen);

	if (rc)
		return rc;
	z->auth = env->auth;
	z->kernel_enforced = env->local;
	memcpy(z->instance, env->instance, 16);
	memcpy(z->host, env->host, 16);
	snprintf(z->hosts, sizeof(z->hosts), "%.*s", (int)strcspn(env->arg, "/"), env->arg);
	ripc__table_init(&z->held, 0);
	ripc__table_init(&z->watched, 0);
	ripc__list_init(&z->held_list);
	ripc__list_init(&z->lru);
	ev.data.u64 = env->tag | (unsigned)ripc__ensemble_fd(z->e);
	if (epoll_ctl(env->epoll_fd, EPOLL_CTL_ADD, ripc__ensemble_fd(z->e), &ev)) {
		rc = -errno;
		snprintf(why, whylen, "cannot wait for the ensemble: %s", ripc__epoll_error(rc));
		zk_close(b);
	}
	return rc;
}

static bool zk_describe_attempt(struct ripc__backend *b, uint64_t service, unsigned requests,
				char *text, size_t len)
{
	const struct ripc__zk *z = (const struct ripc__zk *)b;
	struct ripc__zk_watched *w = watched_find((struct ripc__zk *)z, service);

	if (z->state == RIPC__ZK_CONNECTED && w && w->refused && !w->bytes) {
		snprintf(text, len, "zookeeper (its node is rejected: %s)", w->refused);
		return false;
	}
	snprintf(text, len, "zookeeper (%s)",
		 !z->session                         ? "no connection to the ensemble yet"
		 : z->state == RIPC__ZK_DISCONNECTED ? "the ensemble is lost"
		 : w && w->bytes                     ? "the holder in its node cannot be reached"
						     : "it has no node");
	return false;
}

static bool zk_describe(const struct ripc__backend *b, char *text, size_t len)
{
	const struct ripc__zk *z = (const struct ripc__zk *)b;
	struct ripc__zk_watched *w;
	struct ripc__zk_held *h;
	size_t known = 0, made = 0;
	char state[80];
	size_t at;

	ripc__list_for_each_entry (w, &z->lru, link)
		known += w->bytes != NULL;
	ripc__list_for_each_entry (h, &z->held_list, link)
		made += h->state == RIPC__ZK_CREATED;
	if (z->state == RIPC__ZK_CONNECTED)
		snprintf(state, sizeof(state), "connected, in session %" PRIx64, z->session);
	else if (z->session)
		snprintf(state, sizeof(state), "lost %" PRIu64 " s ago in session %" PRIx64,
			 (ripc__clock_ns() - z->lost_ns) / (1000 * RIPC__MS), z->session);
	else
		snprintf(state, sizeof(state), "not connected yet");
	at = ripc__append(text, len, 0,
			  "%s%s: %s, %zu of %u local services have a node, %zu records known",
			  z->hosts, ripc__ensemble_root(z->e), state, made, z->held.count, known);
	if (known && z->state != RIPC__ZK_CONNECTED)
		at = ripc__append(text, len, at, ", %zu of them stale", known);
	if (z->last_error[0])
		ripc__append(text, len, at, " (%s)", z->last_error);
	return z->state == RIPC__ZK_CONNECTED;
}

static void zk_forked(struct ripc__backend *b)
{
	ripc__ensemble_forked(((struct ripc__zk *)b)->e);
}

const struct ripc__backend_ops ripc__backend_zookeeper = {
	.name = "zookeeper",
	.size = sizeof(struct ripc__zk),
	.open = zk_open,
	.close = zk_close,
	.drop = ripc__zk_drop,
	.send = zk_send,
	.recv = zk_recv,
	.list = zk_list,
	.settled = ripc__zk_settled,
	.suspect = zk_suspect,
	.describe_attempt = zk_describe_attempt,
	.describe = zk_describe,
	.forked = zk_forked,
};
