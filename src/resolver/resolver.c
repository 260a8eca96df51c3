/* SPDX-License-Identifier: LGPL-2.1-or-later */
#define _GNU_SOURCE
#include "resolver/resolver.h"

#include "auth/key.h"
#include "base/hash.h"
#include "base/host.h"
#include "base/log.h"
#include "base/options.h"
#include "resolver/backend.h"
#include "resolver/backends.h"
#include "resolver/internal.h"
#include "resolver/listing.h"
#include "resolver/report.h"
#include "wire/bytes.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <unistd.h>

enum {
	EVENTS = 16,         /* descriptors processed per call */
	RECV_BATCH = 64,     /* datagrams received from one descriptor per call */
	NEGATIVE_MS = 100,   /* lifetime of a negative answer of the network */
	LOG_LINES_MAX = 256, /* log lines about malformed messages per context at most */
};

/* --- sending and receiving --- */

_Static_assert(RIPC__RESOLVER_UNSEALED_MAX + RIPC__SEAL_BYTES == RIPC__RESOLVER_MSG_MAX,
	       "a message that is not sealed leaves room for a seal");

static void send_datagram(void *arg, const struct ripc__backend_addr *to, uint64_t service,
			  const uint8_t *data, size_t len)
{
	struct ripc__resolver *r = arg;
	uint8_t sealed[RIPC__RESOLVER_MSG_MAX];
	bool list = !to && data[5] == RIPC__RESOLVE_LIST;
	int n = r->auth ? ripc__auth_seal(r->auth, data, len, sealed, sizeof(sealed)) : 0;

	if (n < 0)
		return;
	for (unsigned i = 0; i < r->nbackends; i++) {
		struct ripc__backend *b = r->backends[i];
		bool seal = r->auth && b != r->registry;

		if (to ? to->backend != i : r->local_only && b == r->local)
			continue;
		if (list && b->ops->list)
			b->ops->list(b, seal ? sealed : data, seal ? (size_t)n : len);
		else
			b->ops->send(b, to, service, seal ? sealed : data, seal ? (size_t)n : len);
	}
}

static bool registration_complete(void *arg, uint64_t service)
{
	struct ripc__resolver *r = arg;

	return !r->registry || r->registry->ops->settled(r->registry, service);
}

static bool acquire_name(void *arg, uint64_t service, bool last)
{
	struct ripc__resolver *r = arg;
	bool acquired = !r->local->ops->acquire(r->local, service);

	if (last && !acquired)
		ripc__log(RIPC_LOG_WARN,
			  "%s was taken over, but its former holder does not release its name in "
			  "%s: it is stopped, and processes of this host do not find the service",
			  ripc__resolver_id_text(r, service), r->local->ops->name);
	return acquired;
}

static void log_bad_message(struct ripc__resolver *r, const struct ripc__backend_addr *from,
			    const char *why)
{
	uint64_t hash = ripc__fnv1a(RIPC__FNV1A_INIT ^ from->backend, from->bytes, from->len);

	if (r->logged_sources[hash % RIPC__LOG_SOURCES_MAX] == hash || r->nlogged == LOG_LINES_MAX)
		return;
	r->logged_sources[hash % RIPC__LOG_SOURCES_MAX] = hash;
	r->nlogged++;
	ripc__log(RIPC_LOG_WARN,
		  "resolver back end %s: dropped a datagram: %s; further ones are only counted",
		  r->backends[from->backend]->ops->name, why);
}

/*
 * One context of a host receives a unicast request. It forwards the request to the context that
 * has the name of the service, also one of its own for the former holder.
 */
static void forward(struct ripc__resolver *r, const struct ripc__backend_addr *from,
		    const uint8_t *msg, const uint8_t *data, size_t len)
{
	uint64_t service = ripc__get_le64(msg + 8);

	if (msg[5] == RIPC__RESOLVE_LIST)
		r->local->ops->pass_on(r->local, from, 0, data, len);
	else if (msg[5] == RIPC__RESOLVE_REQUEST || msg[5] == RIPC__RESOLVE_PROBE)
		r->local->ops->pass_on(r->local, from, service, data, len);
}

/* Logs once that the load by broadcast is too high (doc/scaling.md). */
static void log_broadcast_load(struct ripc__resolver *r, const struct ripc__backend *b)
{
	unsigned per_s = ripc__rcore_rx_per_s(r->core);

	if (r->load_logged || per_s < RIPC__BROADCAST_WARN_PER_S || !b->ops->inet)
		return;
	r->load_logged = true;
	ripc__log(RIPC_LOG_WARN,
		  "resolver: broadcast load is too high: %u messages received per second, %u are "
		  "the limit; use an ensemble: resolver=local,zookeeper:HOST:PORT",
		  per_s, RIPC__BROADCAST_WARN_PER_S);
}

/* Receives datagrams from one descriptor. */
static void receive(struct ripc__resolver *r, unsigned backend, int fd)
{
	struct ripc__backend *b = r->backends[backend];
	uint8_t buf[RIPC__RESOLVER_MSG_MAX];

	for (unsigned i = 0; i < RECV_BATCH; i++) {
		struct ripc__backend_addr from = {0};
		const char *why = "invalid sender address or size";
		const uint8_t *msg;
		bool own;
		int len;
		int n = b->ops->recv(b, fd, &from, buf, sizeof(buf));

		if (n == -EAGAIN)
			break;
		if (n == -ESTALE)
			ripc__rcore_reannounce(r->core, r->now_ns);
		if (n == -ENOMSG || n == -ESTALE)
			continue;
		from.backend = (uint8_t)backend;
		if (n < 0)
			r->bad++;
		/*
		 * The back end for the original source, an IP address, answers a forwarded message.
		 */
		if (n >= 0 && from.forwarded) {
			if (r->inet < 0)
				continue;
			from.backend = (uint8_t)r->inet;
		}
		msg = buf;
		len = n;
		if (n >= 0 && r->auth && b != r->registry)
			len = ripc__auth_unseal(r->auth, buf, (size_t)n, &msg, &why);
		else if (n >= 4 && ripc__get_le32(buf) == RIPC__SEAL_MAGIC)
			r->sealed++;
		/* The keys may have been exchanged; the sender repeats its request. */
		if (len == -EKEYREJECTED)
			ripc__auth_reload(r->auth, r->now_ns);
		/* Networks may duplicate a broadcast. */
		if (len == -EALREADY)
			continue;
		/* An own broadcast, or what another process repeats; it may be for others here. */
		own = len >= 0 && msg != buf && ripc__auth_is_own(r->auth, buf);
		if (len < 0 ||
		    (!own && ripc__rcore_input(r->core, &from, msg, (size_t)len, r->now_ns, &why)))
			log_bad_message(r, &from, why);
		else if (from.direct && r->local)
			forward(r, &from, msg, buf, (size_t)n);
	}
	log_broadcast_load(r, b);
}

static void receive_all(struct ripc__resolver *r)
{
	struct epoll_event events[EVENTS];
	int n = epoll_wait(r->epoll_fd, events, EVENTS, 0);

	for (int i = 0; i < n; i++)
		receive(r, (unsigned)(events[i].data.u64 >> 32), (int)(uint32_t)events[i].data.u64);
}

static void refresh(struct ripc__resolver *r)
{
	if (r->auth)
		ripc__auth_reload(r->auth, r->now_ns);
	for (unsigned i = 0; i < r->nbackends; i++)
		if (r->backends[i]->ops->refresh)
			r->backends[i]->ops->refresh(r->backends[i], r->now_ns);
}

static void release_name(struct ripc__resolver *r, uint64_t service)
{
	for (unsigned i = 0; i < r->nbackends; i++)
		if (r->backends[i]->ops->drop)
			r->backends[i]->ops->drop(r->backends[i], service);
}

/* Later answers have the new addresses; records that a back end keeps are updated. */
void ripc__resolver_readdress(struct ripc__resolver *r, const struct ripc__record_addr *addrs,
			      unsigned naddrs)
{
	ripc__rcore_readdress(r->core, addrs, naddrs);
	if (r->registry)
		ripc__rcore_reannounce(r->core, r->now_ns);
}

unsigned ripc__resolver_progress(struct ripc__resolver *r, bool readable,
				 struct ripc__resolver_event *events, unsigned max, uint64_t now_ns,
				 uint64_t *deadline_ns)
{
	unsigned n = 0;
	uint64_t deadline;

	r->now_ns = now_ns;
	if (r->epoll_fd < 0)
		receive(r, 0, -1);
	else if (readable)
		receive_all(r);
	if (now_ns >= ripc__rcore_deadline(r->core)) {
		refresh(r);
		ripc__rcore_advance(r->core, now_ns);
	}
	while (n < max && ripc__rcore_event(r->core, &events[n], now_ns)) {
		struct ripc__resolver_event *ev = &events[n++];

		if (ev->kind == RIPC__UNRESOLVED)
			ripc__report_failure(r, ev);
		if (ev->kind == RIPC__CONFLICT || ev->kind == RIPC__RIVAL)
			ripc__report_holder(r, ev->service, *ev->name ? ev->name : NULL,
					    &ev->record, NULL, ev->text, sizeof(ev->text));
		if (ev->kind == RIPC__CONFLICT)
			release_name(r, ev->service);
	}
	deadline = ripc__rcore_deadline(r->core);
	*deadline_ns = MIN(*deadline_ns, deadline);
	return n;
}

/* --- registration and look-up --- */

/* Whether a holder may exist that the kernel of this host does not know. */
static bool must_probe(struct ripc__resolver *r)
{
	for (unsigned i = 0; i < r->nbackends; i++) {
		struct ripc__backend *b = r->backends[i];

		if (b != r->local && (!b->ops->remote || b->ops->remote(b)))
			return true;
	}
	return false;
}

static bool held_by_other_user(const struct ripc__holder *who)
{
	return who->uid_known && who->uid != geteuid();
}

/*
 * A process of this host holds the name. With keys, a name held by another user is not trusted,
 * because any user can bind a name. The other back ends, if any, then probe for the service; a
 * holder with the key answers the probe. Return: -EADDRINUSE, explained, or 0.
 */
static int fail_in_use(struct ripc__resolver *r, uint64_t id, const char *name)
{
	struct ripc__record record = {0};
	struct ripc__holder who;
	char text[1024];

	r->local->ops->owner(r->local, id, &who);
	ripc__report_holder(r, id, name, &record, &who, text, sizeof(text));
	if (!r->auth || !held_by_other_user(&who) || r->nbackends == 1)
		return ripc__fail(-EADDRINUSE, "%s", text);
	ripc__log(RIPC_LOG_WARN, "%s, another user: registered here without its name in %s", text,
		  r->local->ops->name);
	return 0;
}

int ripc__resolver_ask_holder(struct ripc__resolver *r, uint64_t service)
{
	return r->local ? r->local->ops->ask(r->local, service) : -ENOENT;
}

int ripc__resolver_holder_answer(struct ripc__resolver *r, int fd, uint64_t id, const char *name)
{
	static const uint8_t nobody[16];
	struct ripc__record record;
	struct ripc__holder who;
	char text[1024];

	r->local->ops->answer(r->local, fd, id, &record, &who);
	ripc__report_holder(r, id, name, &record, &who, text, sizeof(text));
	return ripc__fail(-EADDRINUSE, "%s%s", text,
			  r->auth && held_by_other_user(&who) &&
					  !memcmp(record.instance, nobody, 16)
				  ? ", which does not prove to have the key"
				  : "");
}

/*
 * The name of the service was free on this host. So a holder of this host whose record is known is
 * dead: do not wait for its answer.
 */
static void drop_dead_holder(struct ripc__resolver *r, uint64_t service)
{
	struct ripc__record record;

	if (ripc__rcore_peek(r->core, service, &record, r->now_ns) &&
	    ripc__host_same(record.host, r->host))
		ripc__rcore_invalidate(r->core, service, record.instance, r->now_ns);
}

int ripc__resolver_register(struct ripc__resolver *r, uint64_t service, const char *name,
			    enum ripc__register_how how, uint64_t now_ns)
{
	bool nameless;
	int rc;

	r->now_ns = now_ns;
	if (ripc__rcore_holds(r->core, service))
		return ripc__fail(-EADDRINUSE, "%s is held by this context already",
				  ripc__resolver_id_text(r, service));
	rc = r->local ? r->local->ops->acquire(r->local, service) : 0;
	nameless = rc == -EADDRINUSE;
	if (nameless && how == RIPC__REGISTER_TAKE) {
		how = RIPC__REGISTER_TAKE_NAME;
		rc = 0;
	} else if (nameless) {
		rc = fail_in_use(r, service, name);
	}
	if (rc)
		return rc;
	refresh(r);
	if (how == RIPC__REGISTER && r->local && !nameless) {
		drop_dead_holder(r, service);
		if (!must_probe(r))
			how = RIPC__REGISTER_LOCAL;
	}
	rc = ripc__rcore_register(r->core, service, name, how, now_ns);
	if (rc)
		release_name(r, service);
	return rc;
}

const char *ripc__resolver_own_name(struct ripc__resolver *r, uint64_t service)
{
	return ripc__rcore_name(r->core, service);
}

void ripc__resolver_claim(struct ripc__resolver *r, uint64_t service, uint64_t now_ns)
{
	ripc__rcore_claim(r->core, service, now_ns);
}

void ripc__resolver_unregister(struct ripc__resolver *r, uint64_t service, uint64_t now_ns)
{
	r->now_ns = now_ns;
	ripc__rcore_unregister(r->core, service, now_ns);
	release_name(r, service);
}

int ripc__resolver_lookup(struct ripc__resolver *r, uint64_t service, uint64_t now_ns)
{
	r->now_ns = now_ns;
	refresh(r);
	return ripc__rcore_lookup(r->core, service, now_ns);
}

void ripc__resolver_lookup_cancel(struct ripc__resolver *r, uint64_t service)
{
	ripc__rcore_lookup_cancel(r->core, service);
}

void ripc__resolver_forget(struct ripc__resolver *r, uint64_t service)
{
	ripc__rcore_forget(r->core, service);
}

const struct ripc__record *ripc__resolver_peek(struct ripc__resolver *r, uint64_t service)
{
	return ripc__rcore_peek(r->core, service, &r->found, r->now_ns) ? &r->found : NULL;
}

static void listed(void *arg, const struct ripc__record *record)
{
	struct ripc__resolver *r = arg;

	if (r->listing)
		ripc__listing_add(r->listing, record);
}

int ripc__resolver_list_begin(struct ripc__resolver *r, struct ripc__listing *found,
			      uint64_t now_ns)
{
	if (r->listing)
		return ripc__fail(-EBUSY, "another thread lists the services at present");
	ripc__listing_init(found, now_ns);
	r->listing = found;
	ripc__resolver_list_repeat(r, now_ns);
	return 0;
}

void ripc__resolver_list_repeat(struct ripc__resolver *r, uint64_t now_ns)
{
	r->now_ns = now_ns;
	refresh(r);
	ripc__rcore_list_begin(r->core, now_ns);
}

void ripc__resolver_list_end(struct ripc__resolver *r)
{
	if (ripc__rcore_list_end(r->core))
		r->listing->complete = false;
	r->listing = NULL;
}

void ripc__resolver_invalidate(struct ripc__resolver *r, uint64_t service, const uint8_t id[16])
{
	if (r->registry)
		r->registry->ops->suspect(r->registry, service, id);
	ripc__rcore_invalidate(r->core, service, id, r->now_ns);
}

int ripc__resolver_fd(struct ripc__resolver *r)
{
	return r->epoll_fd;
}

uint64_t ripc__resolver_bad_messages(const struct ripc__resolver *r)
{
	struct ripc__rcore_counts counts;

	ripc__rcore_counts(r->core, &counts);
	return r->bad + counts.bad;
}

uint64_t ripc__resolver_sealed(const struct ripc__resolver *r)
{
	return r->sealed;
}

/* --- opening and closing --- */

void ripc__resolver_kill(struct ripc__resolver *r)
{
	while (r->nbackends) {
		struct ripc__backend *b = r->backends[--r->nbackends];

		b->ops->close(b);
		free(b);
	}
	if (r->epoll_fd >= 0)
		close(r->epoll_fd);
	ripc__rcore_free(r->core);
	explicit_bzero(r->zookeeper_auth, sizeof(r->zookeeper_auth));
	free(r);
}

int ripc__resolver_open(struct ripc__resolver **out, const struct ripc__resolver_env *env)
{
	struct ripc__resolver *r = calloc(1, sizeof(*r));
	struct ripc__rcore_env cenv = {
		.addrs = env->addrs,
		.naddrs = env->naddrs,
		.resolve_timeout_ms = env->opt->resolve_timeout_ms,
		.send = send_datagram,
		.settled = registration_complete,
		.acquire = acquire_name,
		.listed = listed,
		.arg = r,
	};
	int rc;

	if (!r)
		return ripc__fail(-ENOMEM, "no memory for the resolver");
	r->inet = -1;
	r->describe = env->describe;
	r->describe_arg = env->describe_arg;
	r->auth = env->auth;
	r->timeout_ms = env->opt->resolve_timeout_ms;
	/* A simulation of many contexts has no descriptor to spare, and polls its only back end. */
	r->epoll_fd = env->backend ? -1 : epoll_create1(EPOLL_CLOEXEC);
	if (r->epoll_fd < 0 && !env->backend) {
		rc = ripc__fail(-errno, "resolver: no epoll descriptor: %s", strerror(errno));
		goto fail;
	}
	rc = ripc__backends_open(r, env);
	if (rc)
		goto fail;
	cenv.registry = r->registry ? &r->to_registry : NULL;
	memcpy(cenv.instance, env->instance, 16);
	memcpy(cenv.host, env->host, 16);
	memcpy(r->host, env->host, 16);
	/* Without a network a failed look-up costs nothing and may be repeated at once. */
	cenv.negative_ms = r->nbackends == 1 && r->local ? 0 : NEGATIVE_MS;
	/* In a simulation the instance id is the seed and the only source of random numbers. */
	if (!env->backend &&
	    getrandom(&cenv.secret, sizeof(cenv.secret), 0) != sizeof(cenv.secret)) {
		rc = ripc__fail(-EIO, "cannot read random numbers: getrandom: %s", strerror(errno));
		goto fail;
	}
	rc = ripc__rcore_new(&r->core, &cenv);
	if (rc) {
		ripc__fail(rc, "cannot start the resolver: %s", strerror(-rc));
		goto fail;
	}
	*out = r;
	return 0;
fail:
	ripc__resolver_kill(r);
	return rc;
}

void ripc__resolver_close(struct ripc__resolver *r)
{
	ripc__rcore_send_gone(r->core, r->now_ns);
	ripc__resolver_kill(r);
}

void ripc__resolver_atfork_child(struct ripc__resolver *r)
{
	for (unsigned i = 0; i < r->nbackends; i++)
		r->backends[i]->ops->forked(r->backends[i]);
	close(r->epoll_fd);
}
