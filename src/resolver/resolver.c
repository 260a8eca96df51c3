/* SPDX-License-Identifier: LGPL-2.1-or-later */
#define _GNU_SOURCE
#include "config.h"

#include "resolver/resolver.h"

#include "auth/key.h"
#include "auth/secret.h"
#include "core/clock.h"
#include "core/log.h"
#include "resolver/backend.h"
#include "resolver/chain.h"
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
	BACKENDS_MAX = RIPC__CHAIN_MAX,
	EVENTS = 16,          /* descriptors looked at in one call */
	BURST = 64,           /* datagrams taken from one descriptor in one call */
	OWED_GAP_MS = 2,      /* between two attempts to take over a name of this host */
	OWED_MS = 1000,       /* after which the former holder is taken for stopped */
	NEGATIVE_MS = 100,    /* life of a negative answer of the network */
	COMPLAINTS = 64,      /* sources of garbage remembered, so that each is logged once */
	COMPLAINTS_MAX = 256, /* lines about garbage that one context logs at most */
};

/* Those that a chain may name. */
static const struct ripc__backend_ops *const known[] = {
	&ripc__backend_local,
	&ripc__backend_udp,
	&ripc__backend_file,
#ifdef HAVE_ZOOKEEPER
	&ripc__backend_zookeeper,
#endif
};
enum { KNOWN = sizeof(known) / sizeof(known[0]) };

/* A name that the former holder of a service still has. */
struct owed {
	struct owed *next;
	uint64_t service;
	uint64_t end_ns; /* when to give up */
	bool registered; /* ours, but not told before the name is ours as well: or nobody would find us there */
	bool done; /* the name is ours, or given up */
	unsigned backend;
};

/* A back end that could not be opened. */
struct left_out {
	char name[sizeof(((struct ripc__chain_link *)0)->name)];
	char why[256];
};

struct ripc__resolver {
	struct ripc__rcore *core;
	struct ripc__backend *backends[BACKENDS_MAX];
	unsigned nbackends;
	struct owed *owed;
	uint64_t owed_ns; /* when to try for these again */
	int epoll_fd;
	struct ripc__auth *auth; /* the cluster's keys, or NULL */
	bool polled;             /* a back end without descriptors: looked at in every call */
	bool local;              /* the kernel of this host sees to it that an id is held once */
	bool quiet; /* the first back end, local, is there to hear what is passed on, and not to ask */
	uint32_t timeout_ms;
	uint64_t now_ns; /* as last told */
	void (*describe)(uint8_t transport, const uint8_t *addr, size_t len, char *text,
			 size_t textlen);
	char zookeeper_auth[160];  /* user:password, or empty */
	struct ripc__record found; /* what find() returns */
	uint64_t bad;              /* datagrams dropped before the core saw them */
	uint64_t sealed;           /* without keys: those of somebody who has one */
	uint64_t complaints[COMPLAINTS];
	unsigned ncomplaints; /* lines logged */
	bool advised;         /* that so many speak here that broadcast is a burden */
	struct left_out left[BACKENDS_MAX];
	unsigned nleft;
};

/* --- texts --- */

static size_t append(char *text, size_t len, size_t at, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

static size_t append(char *text, size_t len, size_t at, const char *fmt, ...)
{
	va_list ap;
	int n;

	if (at >= len)
		return at;
	va_start(ap, fmt);
	n = vsnprintf(text + at, len - at, fmt, ap);
	va_end(ap);
	return at + (size_t)n;
}

/* "service 42 is held by instance 1a2b3c4d on iwarp/soft 127.0.0.1:4242, pid 77", as far as known. */
static void describe_holder(const struct ripc__resolver *r, uint64_t service,
			    const struct ripc__record *record, long pid, char *text, size_t len)
{
	static const uint8_t nobody[16];
	bool known_instance = memcmp(record->instance, nobody, 16);
	const uint8_t *id = record->instance;
	size_t at;

	at = append(text, len, 0, "service %" PRIu64 " is held by ", service);
	if (known_instance)
		at = append(text, len, at, "instance %02x%02x%02x%02x", id[0], id[1], id[2], id[3]);
	else
		at = append(text, len, at, "another process of this host");
	for (unsigned i = 0; r->describe && i < record->naddrs; i++) {
		const struct ripc__record_addr *a = &record->addrs[i];
		char addr[96] = "";

		r->describe(a->transport, a->addr, a->len, addr, sizeof(addr));
		if (*addr)
			at = append(text, len, at, "%s%s", i ? ", " : " on ", addr);
	}
	if (pid > 0)
		append(text, len, at, ", pid %ld", pid);
}

/* Those of another key give no answer, not even that. */
static void describe_keys(const struct ripc__resolver *r, char *text, size_t len, size_t at)
{
	struct ripc__auth_counts counts;
	const uint8_t *id;

	bool network = false;

	for (unsigned i = 0; i < r->nbackends; i++)
		network = network || r->backends[i]->ops->inet;
	if (!network)
		return;
	if (!r->auth) {
		append(text, len, at, "; asked without a key%s",
		       r->sealed ? ", and contexts with one are here, which do not answer those "
				   "without"
				 : "");
		return;
	}
	id = ripc__auth_id(r->auth);
	at = append(text, len, at, "; only those with key %02x%02x%02x%02x answer", id[0], id[1],
		    id[2], id[3]);
	ripc__auth_counts(r->auth, &counts);
	if (counts.strangers)
		at = append(text, len, at, ", %" PRIu64 " messages of strangers were refused",
			    counts.strangers);
	if (counts.late)
		append(text, len, at, ", %" PRIu64 " of clocks that differ", counts.late);
}

static void describe_failure(struct ripc__resolver *r, uint64_t service, unsigned requests,
			     char *text, size_t len)
{
	size_t at = append(text, len, 0, "asked ");

	for (unsigned i = r->quiet; i < r->nbackends; i++) {
		char tried[200];

		r->backends[i]->ops->tried(r->backends[i], service, requests, tried, sizeof(tried));
		at = append(text, len, at, "%s%s", i > r->quiet ? " and " : "", tried);
	}
	at = append(text, len, at, ": no answer in %" PRIu32 " ms", r->timeout_ms);
	describe_keys(r, text, len, at);
}

/* --- sending and receiving --- */

static void send_out(void *arg, const struct ripc__sender *to, uint64_t service,
		     const uint8_t *data, size_t len)
{
	struct ripc__resolver *r = arg;
	uint8_t sealed[RIPC__RESOLVER_MSG_MAX];
	int n = 0;

	for (unsigned i = 0; i < r->nbackends; i++) {
		const struct ripc__backend_ops *ops = r->backends[i]->ops;

		if (to ? to->backend != i : !i && r->quiet)
			continue;
		if (!r->auth || ops->trusted) {
			ops->send(r->backends[i], to, service, data, len);
			continue;
		}
		if (!n)
			n = ripc__auth_seal(r->auth, data, len, sealed, sizeof(sealed));
		if (n > 0)
			ops->send(r->backends[i], to, service, sealed, (size_t)n);
	}
}

static bool settled(void *arg, uint64_t service)
{
	struct ripc__resolver *r = arg;

	/* A process of this host has the name still: it is there, and only slow to answer. */
	for (struct owed *o = r->owed; o; o = o->next)
		if (o->service == service && !o->done && !ripc__rcore_outbids(r->core, service))
			return false;
	for (unsigned i = 0; i < r->nbackends; i++)
		if (r->backends[i]->ops->settled &&
		    !r->backends[i]->ops->settled(r->backends[i], service))
			return false;
	return true;
}

static void complain(struct ripc__resolver *r, const struct ripc__sender *from, const char *why)
{
	uint64_t hash = 0xcbf29ce484222325u ^ from->backend;

	for (unsigned i = 0; i < from->len; i++)
		hash = (hash ^ from->bytes[i]) * 0x100000001b3u;
	if (r->complaints[hash % COMPLAINTS] == hash || r->ncomplaints == COMPLAINTS_MAX)
		return;
	r->complaints[hash % COMPLAINTS] = hash;
	r->ncomplaints++;
	ripc__log(
		RIPC_LOG_WARN,
		"resolver back end %s: dropped a datagram: %s; more of this source is only counted",
		r->backends[from->backend]->ops->name, why);
}

/*
 * A request that came to this host alone was read by one context, which need not be the one that is meant: it goes on to
 * the one that is.
 */
static void pass_on(struct ripc__resolver *r, const struct ripc__sender *from, const uint8_t *msg,
		    const uint8_t *data, size_t len)
{
	uint64_t service = ripc__get_le64(msg + 8);

	if ((msg[5] != RIPC__RESOLVE_REQUEST && msg[5] != RIPC__RESOLVE_PROBE) ||
	    ripc__rcore_holds(r->core, service))
		return;
	for (unsigned i = 0; i < r->nbackends; i++)
		if (r->backends[i]->ops->pass_on)
			r->backends[i]->ops->pass_on(r->backends[i], from, service, data, len);
}

/* The back end that can answer a sender on the network. */
static bool find_inet(const struct ripc__resolver *r, struct ripc__sender *from)
{
	for (unsigned i = 0; i < r->nbackends; i++) {
		if (!r->backends[i]->ops->inet)
			continue;
		from->backend = (uint8_t)i;
		return true;
	}
	return false;
}

/* Says once that the network has grown too large for everybody to hear everything (doc/scaling.md). */
static void advise(struct ripc__resolver *r, const struct ripc__backend *b)
{
	unsigned per_s = ripc__rcore_heard_per_s(r->core);

	if (r->advised || per_s < RIPC__CROWD_PER_S || !b->ops->inet)
		return;
	r->advised = true;
	ripc__log(RIPC_LOG_WARN,
		  "resolver: %u messages of others are heard every second: there are too many "
		  "contexts here for "
		  "broadcast; resolver=local,zookeeper:HOST:PORT asks an ensemble instead",
		  per_s);
}

/* Takes what has come in at one descriptor. */
static void receive(struct ripc__resolver *r, unsigned backend, int fd)
{
	struct ripc__backend *b = r->backends[backend];
	uint8_t buf[RIPC__RESOLVER_MSG_MAX];

	for (unsigned i = 0; i < BURST; i++) {
		struct ripc__sender from = {0};
		const char *why = "its sender or its size cannot be";
		const uint8_t *msg;
		int len;
		int n = b->ops->recv(b, fd, &from, buf, sizeof(buf));

		if (n == -EAGAIN)
			break;
		if (n == -ENOMSG)
			continue;
		from.backend = (uint8_t)backend;
		if (n < 0)
			r->bad++;
		if (n >= 0 && from.passed_on && !find_inet(r, &from))
			continue;
		msg = buf;
		len = n;
		if (n >= 0 && r->auth && !b->ops->trusted)
			len = ripc__auth_unseal(r->auth, buf, (size_t)n, &msg, &why);
		else if (n >= 4 && ripc__get_le32(buf) == RIPC__SEAL_MAGIC)
			r->sealed++;
		/* Networks double what is said to all. */
		if (len == -EALREADY)
			continue;
		if (len < 0 || ripc__rcore_input(r->core, &from, msg, (size_t)len, r->now_ns, &why))
			complain(r, &from, why);
		else if (from.direct)
			pass_on(r, &from, msg, buf, (size_t)n);
	}
	advise(r, b);
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
		ripc__auth_look(r->auth, r->now_ns);
	for (unsigned i = 0; i < r->nbackends; i++)
		if (r->backends[i]->ops->refresh)
			r->backends[i]->ops->refresh(r->backends[i], r->now_ns);
}

static void forget_owed(struct ripc__resolver *r, uint64_t service);
static void collect_owed(struct ripc__resolver *r);
static bool hold_back(struct ripc__resolver *r, uint64_t service);
static bool told_late(struct ripc__resolver *r, struct ripc__resolver_event *ev);

static void drop(struct ripc__resolver *r, uint64_t service)
{
	forget_owed(r, service);
	for (unsigned i = 0; i < r->nbackends; i++)
		if (r->backends[i]->ops->drop)
			r->backends[i]->ops->drop(r->backends[i], service);
}

/* What has lost all that it knew of us is told again. */
static void renew(struct ripc__resolver *r)
{
	for (unsigned i = 0; i < r->nbackends; i++) {
		struct ripc__sender to = {.backend = (uint8_t)i};

		if (r->backends[i]->ops->renewed && r->backends[i]->ops->renewed(r->backends[i]))
			ripc__rcore_renew(r->core, &to, r->now_ns);
	}
}

unsigned ripc__resolver_progress(struct ripc__resolver *r, bool readable,
				 struct ripc__resolver_event *events, unsigned max, uint64_t now_ns,
				 uint64_t *deadline_ns)
{
	unsigned requests, n = 0;
	uint64_t deadline;

	r->now_ns = now_ns;
	if (r->polled)
		receive(r, 0, -1);
	else if (readable)
		receive_all(r);
	renew(r);
	if (now_ns >= ripc__rcore_deadline(r->core)) {
		if (ripc__rcore_busy(r->core))
			refresh(r);
		ripc__rcore_advance(r->core, now_ns);
	}
	while (n < max && ripc__rcore_event(r->core, &events[n], &requests, now_ns)) {
		struct ripc__resolver_event *ev = &events[n++];

		if (ev->kind == RIPC__REGISTERED && r->owed && hold_back(r, ev->service)) {
			n--;
			continue;
		}
		if (ev->kind == RIPC__UNRESOLVED)
			describe_failure(r, ev->service, requests, ev->text, sizeof(ev->text));
		if (ev->kind == RIPC__CONFLICT || ev->kind == RIPC__RIVAL)
			describe_holder(r, ev->service, &ev->record, 0, ev->text, sizeof(ev->text));
		if (ev->kind == RIPC__CONFLICT)
			drop(r, ev->service);
	}
	if (r->owed)
		collect_owed(r);
	while (n < max && r->owed && told_late(r, &events[n]))
		n++;
	deadline = ripc__rcore_deadline(r->core);
	if (r->owed && r->owed_ns < deadline)
		deadline = r->owed_ns;
	if (deadline < *deadline_ns)
		*deadline_ns = deadline;
	return n;
}

/* --- calls --- */

/* Whether there may be a holder that this host's kernel does not know of. */
static bool must_probe(struct ripc__resolver *r)
{
	for (unsigned i = 0; i < r->nbackends; i++)
		if (r->backends[i]->ops->remote(r->backends[i]))
			return true;
	return !r->local;
}

static int refuse(struct ripc__resolver *r, unsigned backend, uint64_t service)
{
	struct ripc__backend *b = r->backends[backend];
	struct ripc__record record = {0};
	char text[256];
	long pid = b->ops->holder ? b->ops->holder(b, service, &record) : 0;

	describe_holder(r, service, &record, pid, text, sizeof(text));
	return ripc__fail(-EADDRINUSE, "%s", text);
}

/* A service taken over, for which a back end (the kernel of this host) still has the former holder's name. */
static void owe(struct ripc__resolver *r, unsigned backend, uint64_t service)
{
	struct owed *o = calloc(1, sizeof(*o));

	/* Without memory for it the service is found by way of the other back ends only. */
	if (!o)
		return;
	o->service = service;
	o->backend = backend;
	o->end_ns = r->now_ns + OWED_MS * RIPC__MS;
	o->next = r->owed;
	r->owed = o;
}

static void forget_owed(struct ripc__resolver *r, uint64_t service)
{
	for (struct owed **at = &r->owed, *o; (o = *at);) {
		if (o->service != service) {
			at = &o->next;
			continue;
		}
		*at = o->next;
		free(o);
	}
}

/* Takes the names that former holders have let go of. */
static void collect_owed(struct ripc__resolver *r)
{
	if (r->now_ns < r->owed_ns)
		return;
	r->owed_ns = r->now_ns + OWED_GAP_MS * RIPC__MS;
	for (struct owed **at = &r->owed, *o; (o = *at);) {
		struct ripc__backend *b = r->backends[o->backend];

		if (o->done || (b->ops->hold(b, o->service) && r->now_ns < o->end_ns)) {
			at = &o->next;
			continue;
		}
		o->done = true;
		if (r->now_ns >= o->end_ns)
			ripc__log(RIPC_LOG_WARN,
				  "service %" PRIu64
				  " was taken over, but its former holder keeps its name in %s",
				  o->service, b->ops->name);
		at = &o->next;
	}
}

/* Whether the word that a service is ours has to wait for its name. */
static bool hold_back(struct ripc__resolver *r, uint64_t service)
{
	for (struct owed *o = r->owed; o; o = o->next) {
		if (o->service != service)
			continue;
		o->registered = true;
		return true;
	}
	return false;
}

/* The next word that was held back. */
static bool told_late(struct ripc__resolver *r, struct ripc__resolver_event *ev)
{
	for (struct owed *o = r->owed; o; o = o->next) {
		if (!o->registered || !o->done)
			continue;
		ev->kind = RIPC__REGISTERED;
		ev->service = o->service;
		ev->text[0] = 0;
		forget_owed(r, o->service);
		return true;
	}
	return false;
}

static int register_service(struct ripc__resolver *r, uint64_t service, bool takeover, uint64_t now_ns)
{
	int rc;

	r->now_ns = now_ns;
	if (ripc__rcore_holds(r->core, service))
		return ripc__fail(-EADDRINUSE,
				  "service %" PRIu64 " is held by this context already", service);
	for (unsigned i = 0; i < r->nbackends; i++) {
		if (!r->backends[i]->ops->hold)
			continue;
		rc = r->backends[i]->ops->hold(r->backends[i], service);
		if (rc == -EADDRINUSE && takeover) {
			owe(r, i, service);
		} else if (rc) {
			/* A back end that said no holds nothing of it: undo those before it. */
			for (unsigned k = 0; k < i; k++)
				if (r->backends[k]->ops->drop)
					r->backends[k]->ops->drop(r->backends[k], service);
			return rc == -EADDRINUSE ? refuse(r, i, service) : rc;
		}
	}
	refresh(r);
	rc = takeover ? ripc__rcore_takeover(r->core, service, now_ns)
		      : ripc__rcore_register(r->core, service, must_probe(r), now_ns);
	if (rc)
		drop(r, service);
	return rc;
}

int ripc__resolver_register(struct ripc__resolver *r, uint64_t service, uint64_t now_ns)
{
	return register_service(r, service, false, now_ns);
}

int ripc__resolver_takeover(struct ripc__resolver *r, uint64_t service, uint64_t now_ns)
{
	return register_service(r, service, true, now_ns);
}

void ripc__resolver_unregister(struct ripc__resolver *r, uint64_t service, uint64_t now_ns)
{
	r->now_ns = now_ns;
	ripc__rcore_unregister(r->core, service, now_ns);
	drop(r, service);
}

int ripc__resolver_lookup(struct ripc__resolver *r, uint64_t service, uint64_t now_ns)
{
	r->now_ns = now_ns;
	refresh(r);
	return ripc__rcore_lookup(r->core, service, now_ns);
}

void ripc__resolver_forget(struct ripc__resolver *r, uint64_t service)
{
	ripc__rcore_forget(r->core, service);
}

const struct ripc__record *ripc__resolver_find(struct ripc__resolver *r, uint64_t service)
{
	return ripc__rcore_find(r->core, service, &r->found, r->now_ns) ? &r->found : NULL;
}

void ripc__resolver_invalidate(struct ripc__resolver *r, uint64_t service, const uint8_t instance[16])
{
	for (unsigned i = 0; i < r->nbackends; i++)
		if (r->backends[i]->ops->doubt)
			r->backends[i]->ops->doubt(r->backends[i], service, instance);
	ripc__rcore_invalidate(r->core, service, instance, r->now_ns);
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

int ripc__resolver_entry(struct ripc__resolver *r, unsigned index, const char **name, char *text,
			 size_t len)
{
	struct ripc__rcore_counts counts;

	if (index < r->nbackends) {
		struct ripc__backend *b = r->backends[index];

		*name = b->ops->name;
		return b->ops->describe(b, text, len);
	}
	index -= r->nbackends;
	if (index < r->nleft) {
		*name = r->left[index].name;
		snprintf(text, len, "%s", r->left[index].why);
		return 0;
	}
	index -= r->nleft;
	if (!index) {
		ripc__rcore_counts(r->core, &counts);
		*name = "cache";
		snprintf(text, len,
			 "%zu records in %zu bytes, %zu look-ups under way or failed of late, %zu "
			 "services of ours; %" PRIu64 " messages not understood",
			 counts.cached, counts.cached_bytes, counts.lookups, counts.held,
			 r->bad + counts.bad);
		return 1;
	}
	if (index > 1 || !r->auth)
		return -ENOENT;
	*name = "keys";
	ripc__auth_describe(r->auth, text, len);
	return 1;
}

void ripc__resolver_describe(struct ripc__resolver *r, char *text, size_t len)
{
	const char *name;
	char one[512];
	size_t at = 0;

	for (unsigned i = 0; ripc__resolver_entry(r, i, &name, one, sizeof(one)) >= 0; i++)
		at = append(text, len, at, "%s%s: %s", at ? "; " : "", name, one);
}

/* --- life --- */

static void leave_out(struct ripc__resolver *r, const char *name, const char *why)
{
	struct left_out *l = &r->left[r->nleft++];

	snprintf(l->name, sizeof(l->name), "%.15s", name);
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
		.local = r->local,
		.alone = !find_inet(r, &(struct ripc__sender){0}),
		.epoll_fd = r->epoll_fd,
		.tag = (uint64_t)r->nbackends << 32,
		.sim = env->sim,
		.now_ns = env->sim ? 0 : ripc__clock_ns(),
	};
	char why[256] = "";
	int rc = ops->open(&r->backends[r->nbackends], &benv, why, sizeof(why));

	if (!rc)
		r->nbackends++;
	else
		leave_out(r, ops->name, why);
	return rc;
}

/* user:password for ZooKeeper, from the first line of its file. */
static int load_zookeeper_auth(struct ripc__resolver *r, const char *path)
{
	char why[300];
	int rc = ripc__secret_read(path, r->zookeeper_auth, sizeof(r->zookeeper_auth), NULL, why,
				   sizeof(why));

	if (rc < 0)
		return ripc__fail(rc, "zookeeper_auth_file (RIPC_ZOOKEEPER_AUTH_FILE) %s", why);
	r->zookeeper_auth[strcspn(r->zookeeper_auth, "\r\n")] = 0;
	if (!strchr(r->zookeeper_auth, ':'))
		return ripc__fail(
			-EINVAL, "zookeeper_auth_file (RIPC_ZOOKEEPER_AUTH_FILE) %s: must hold user:password",
			path);
	return 0;
}

/* The contexts of a host share the resolver's port, and what comes to this host alone is read by one of them. */
static void add_local(struct ripc__resolver *r, struct ripc__chain_link *links, unsigned *nlinks)
{
	bool file = false;

	for (unsigned i = 0; i < *nlinks; i++) {
		file = file || !strcmp(links[i].name, ripc__backend_file.name);
		if (!strcmp(links[i].name, ripc__backend_local.name))
			return;
	}
	if (!file)
		return;
	links[*nlinks] = (struct ripc__chain_link){0};
	snprintf(links[*nlinks].name, sizeof(links[*nlinks].name), "%s", ripc__backend_local.name);
	++*nlinks;
	r->quiet = true;
}

static int nothing_works(struct ripc__resolver *r, int rc)
{
	char all[1024];
	size_t at = 0;

	for (unsigned i = 0; i < r->nleft; i++)
		at = append(all, sizeof(all), at, "%s%s: %s", i ? "; " : "", r->left[i].name,
			    r->left[i].why);
	return ripc__fail(rc, "no resolver back end works: %s", all);
}

/* Opens those that the chain names. File comes last, as it leaves the resolver's port to one that hears it anyway. */
static int open_backends(struct ripc__resolver *r, const struct ripc__resolver_env *env)
{
	struct ripc__chain_link links[RIPC__CHAIN_MAX];
	const char *at = env->opt->resolver;
	unsigned nlinks = 0;
	char why[256];
	int rc = 0, first = 0;

	if (env->sim) {
		rc = open_backend(r, &ripc__backend_sim, env, "");
		r->polled = true;
		return rc ? ripc__fail(rc, "sim: %s", r->left[0].why) : 0;
	}
	if (ripc__chain_check(at, why, sizeof(why)))
		return ripc__fail(-EINVAL, "resolver=%s: %s", at, why);
	while (ripc__chain_next(&at, &links[nlinks], why, sizeof(why)) == 1)
		nlinks++;
	add_local(r, links, &nlinks);
	if (*env->opt->zookeeper_auth_file)
		rc = load_zookeeper_auth(r, env->opt->zookeeper_auth_file);
	if (rc)
		return rc;
	for (unsigned k = 0; k < KNOWN; k++) {
		unsigned i = 0;

		while (i < nlinks && strcmp(links[i].name, known[k]->name))
			i++;
		if (i == nlinks)
			continue;
		links[i].name[0] = 0;
		rc = open_backend(r, known[k], env, links[i].arg);
		/* A mistake, or a want of something that will be wanted again: not for working around. */
		if (rc == -EINVAL || rc == -EMFILE || rc == -ENFILE || rc == -ENOMEM)
			return ripc__fail(rc, "%s: %s", known[k]->name, r->left[r->nleft - 1].why);
		if (rc) {
			r->quiet = r->quiet && known[k] != &ripc__backend_local;
			first = first ? first : rc;
		} else if (known[k] == &ripc__backend_local) {
			r->local = true;
		}
	}
	for (unsigned i = 0; i < nlinks; i++)
		if (links[i].name[0])
			leave_out(r, links[i].name,
				  strcmp(links[i].name, ripc__backend_sim.name)
					  ? "this build has no ZooKeeper client"
					  : "it works in simulations only");
	if (!r->nbackends)
		return nothing_works(r, first ? first : -EINVAL);
	for (unsigned i = 0; i < r->nleft; i++)
		ripc__log(RIPC_LOG_WARN, "resolver works without %s: %s", r->left[i].name,
			  r->left[i].why);
	return 0;
}

static void close_all(struct ripc__resolver *r)
{
	while (r->nbackends) {
		struct ripc__backend *b = r->backends[--r->nbackends];

		b->ops->close(b);
	}
	if (r->epoll_fd >= 0)
		close(r->epoll_fd);
	ripc__rcore_free(r->core);
	while (r->owed)
		forget_owed(r, r->owed->service);
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
		.send = send_out,
		.settled = settled,
		.arg = r,
	};
	int rc;

	if (!r)
		return ripc__fail(-ENOMEM, "no memory for the resolver");
	r->describe = env->describe;
	r->auth = env->auth;
	r->timeout_ms = env->opt->resolve_timeout_ms;
	r->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (r->epoll_fd < 0) {
		rc = ripc__fail(-errno, "no epoll descriptor for the resolver: %s", strerror(errno));
		free(r);
		return rc;
	}
	rc = open_backends(r, env);
	if (rc)
		goto fail;
	memcpy(cenv.instance, env->instance, 16);
	memcpy(cenv.host, env->host, 16);
	/* Without a network a failed look-up has cost nothing, and may be repeated at once. */
	cenv.negative_ms = r->nbackends == 1 && r->local ? 0 : NEGATIVE_MS;
	/* In a simulation chance comes from the seed, by way of the instance id, alone. */
	if (!env->sim && getrandom(&cenv.secret, sizeof(cenv.secret), 0) != sizeof(cenv.secret)) {
		rc = ripc__fail(-EIO, "the kernel's random source gave nothing: %s", strerror(errno));
		goto fail;
	}
	rc = ripc__rcore_new(&r->core, &cenv);
	if (rc) {
		ripc__fail(rc, "the resolver could not start: %s", strerror(-rc));
		goto fail;
	}
	*out = r;
	return 0;
fail:
	close_all(r);
	return rc;
}

void ripc__resolver_close(struct ripc__resolver *r)
{
	ripc__rcore_farewell(r->core, r->now_ns);
	close_all(r);
}

void ripc__resolver_kill(struct ripc__resolver *r)
{
	close_all(r);
}

void ripc__resolver_forked(struct ripc__resolver *r)
{
	for (unsigned i = 0; i < r->nbackends; i++)
		r->backends[i]->ops->forked(r->backends[i]);
	close(r->epoll_fd);
}
