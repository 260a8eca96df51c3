/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "doctor.h"

#include "tool.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define LISTEN_MS  1000 /* who searches for a service asks once a second at least */
#define CONNECT_MS 1000 /* for the TCP connection to one address of a server */

/* ---- back ends ---- */

bool doctor_resolver_works(const struct doctor *d, const char *name)
{
	for (unsigned i = 0; i < d->info->nresolvers; i++)
		if (!strcmp(d->info->resolvers[i].name, name))
			return d->info->resolvers[i].works;
	return false;
}

/* Connects to one address. Return: 0, or an errno. */
static int try_connect(const struct addrinfo *to)
{
	int fd = socket(to->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), error = 0;
	struct pollfd pfd = {.fd = fd, .events = POLLOUT};
	socklen_t len = sizeof(error);

	if (fd < 0)
		return errno;
	if (connect(fd, to->ai_addr, to->ai_addrlen))
		error = errno;
	if (error == EINPROGRESS) {
		error = 0;
		if (poll(&pfd, 1, CONNECT_MS) < 1)
			error = ETIMEDOUT;
		else if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len))
			error = errno;
	}
	close(fd);
	return error;
}

/* Why no session comes about with HOST:PORT, of an ensemble. */
static void check_server(char *server, char *why, size_t len)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *all = NULL;
	char *colon = strrchr(server, ':'), *host = server;
	int rc, error = 0;

	*colon = 0;
	if (*host == '[' && colon[-1] == ']') {
		colon[-1] = 0;
		host++;
	}
	rc = getaddrinfo(host, colon + 1, &hints, &all);
	if (rc) {
		snprintf(why, len, "the name %.200s is not resolved: %s", host, gai_strerror(rc));
		return;
	}
	for (struct addrinfo *a = all; a; a = a->ai_next) {
		error = try_connect(a);
		if (!error)
			break;
	}
	freeaddrinfo(all);
	snprintf(why, len, "%.200s port %.5s: %s", host, colon + 1,
		 error ? strerror(error) : "it takes connections, but gives no session");
}

/* The ensemble of the setting resolver: each of its servers, and what is wrong with it. */
static void report_ensemble(const struct doctor *d, char *text, size_t len)
{
	const char *at = doctor_setting(d, "resolver");
	size_t used = 0;

	text[0] = 0;
	at = at ? strstr(at, "zookeeper:") : NULL;
	for (at = at ? at + strlen("zookeeper:") : NULL; at && used < len;) {
		size_t word = strcspn(at, ","), host = strcspn(at, ",/");
		const char *digits = memchr(at, ':', host);
		char server[280], why[320];

		/* The first word that is no HOST:PORT is the next back end of the chain. */
		while (digits && memchr(digits + 1, ':', (size_t)(at + host - digits - 1)))
			digits = memchr(digits + 1, ':', (size_t)(at + host - digits - 1));
		if (!digits || host >= sizeof(server) ||
		    strspn(digits + 1, "0123456789") != (size_t)(at + host - digits - 1) ||
		    digits + 1 == at + host)
			break;
		snprintf(server, sizeof(server), "%.*s", (int)host, at);
		check_server(server, why, sizeof(why));
		used += (size_t)snprintf(text + used, len - used, "%s%s", used ? ", " : "", why);
		at = at[word] ? at + word + 1 : NULL;
	}
}

/* Whether a session comes about in time: the context of info_gather() may have been too early. */
static bool ensemble_answers(const struct doctor *d)
{
	const char *name;
	bool works = false;
	struct ripc *ctx;
	char text[512];

	if (ripc_open(&ctx, d->settings))
		return false;
	for (unsigned ms = 0; !works && ms < DOCTOR_TIMEOUT_MS; ms += 50) {
		for (unsigned i = 0; ripc_resolver_info(ctx, i, &name, text, sizeof(text)) >= 0;
		     i++)
			if (!strcmp(name, "zookeeper"))
				works = ripc_resolver_info(ctx, i, &name, text, sizeof(text)) == 1;
		if (!works)
			usleep(50000);
	}
	ripc_close(ctx);
	return works;
}

static void check_ensemble(struct doctor *d, const struct info_resolver *r)
{
	char why[1024];

	if (ensemble_answers(d))
		return;
	report_ensemble(d, why, sizeof(why));
	doctor_report(
		d, DOCTOR_FAULT, "resolver",
		"zookeeper finds nothing: %s (%s): start the ensemble, or correct its hosts in the "
		"setting resolver",
		*why ? why : "it cannot be used", r->text);
}

void doctor_check_resolvers(struct doctor *d)
{
	static const char list[] = "each line of the list is a service id, or *, and the addresses "
				   "of its hosts: see ripc(7)";

	for (unsigned i = 0; i < d->info->nresolvers; i++) {
		const struct info_resolver *r = &d->info->resolvers[i];
		bool network = !strcmp(r->name, "udp") || !strcmp(r->name, "file");

		if (!r->works && !strcmp(r->name, "zookeeper"))
			check_ensemble(d, r);
		else if (!r->works && !strcmp(r->name, "file"))
			doctor_report(d, DOCTOR_FAULT, "resolver", "file finds nothing: %s: %s",
				      r->text, list);
		/* The cause was reported above. */
		else if (!r->works && !(network && (d->no_interface || d->port_is_taken)))
			doctor_report(
				d, DOCTOR_FAULT, "resolver",
				"%s finds nothing: %s: remove this cause, or leave %s out of the "
				"setting resolver",
				r->name, r->text, r->name);
		else if (r->works && !strcmp(r->name, "file") && strstr(r->text, " bad line"))
			doctor_report(d, DOCTOR_WARNING, "resolver",
				      "file ignores malformed lines: %s: %s", r->text, list);
	}
}

/* ---- others on the network ---- */

static const uint8_t nobody[16];

/* Peers that a context refused. */
struct refused {
	unsigned long long keys;  /* for their key, or want of one */
	unsigned long long clock; /* of these: sealed with ours, by a clock that is far off */
	unsigned long long other; /* for anything else */
};

/* The library counts them as unauthenticated, and separately in the state of its keys. */
static unsigned long long count_late(struct ripc *ctx)
{
	unsigned long long late = 0;
	const char *name, *at;
	char text[512];

	for (unsigned i = 0; ripc_resolver_info(ctx, i, &name, text, sizeof(text)) >= 0; i++) {
		at = strcmp(name, "keys") ? NULL : strstr(text, " unauthenticated, ");
		if (at)
			late = strtoull(at + strlen(" unauthenticated, "), NULL, 10);
	}
	return late;
}

static void add_refused(struct refused *r, struct ripc *ctx)
{
	struct ripc_stats stats = {.size = sizeof(stats)};
	unsigned long long all;

	if (!ctx || ripc_context_stats(ctx, &stats))
		return;
	all = stats.bad_messages + stats.bad_peers;
	r->keys += stats.unauthenticated;
	r->clock += count_late(ctx);
	/* Some of those are counted there, too. */
	r->other += all > stats.unauthenticated ? all - stats.unauthenticated : 0;
}

/* Listens to the network for a while, or until there is something to report. */
static struct refused listen_unauthenticated(struct ripc *one, struct ripc *two)
{
	struct refused r;
	unsigned waited_ms = 0;

	for (;;) {
		r = (struct refused){0};
		add_refused(&r, one);
		add_refused(&r, two);
		if (r.keys || r.other || waited_ms >= LISTEN_MS)
			return r;
		usleep(50000);
		waited_ms += 50;
	}
}

static const char *messages(unsigned long long n)
{
	return n == 1 ? "message" : "messages";
}

static void check_unauthenticated(struct doctor *d, struct ripc *one, struct ripc *two)
{
	struct refused r = listen_unauthenticated(one, two);
	unsigned long long keys = r.keys - r.clock;
	const char *others = r.other == 1 ? "datagram or connection" : "datagrams or connections";

	if (r.clock)
		doctor_report(
			d, DOCTOR_WARNING, "clock",
			"%llu %s sealed with the right key, by a host whose clock differs by more "
			"than 30 s, so neither host finds the other: set both clocks "
			"(\"date -u\"), and run chrony or another NTP client",
			r.clock, messages(r.clock));
	if (r.keys > r.clock && doctor_setting(d, "key_file"))
		doctor_report(
			d, DOCTOR_WARNING, "key",
			"%llu %s refused for the key within a second: another host has another "
			"key, or none, so neither host finds the other: give all hosts the same "
			"RIPC_KEY_FILE (\"sha256sum\")",
			keys, messages(keys));
	else if (r.keys > r.clock)
		doctor_report(
			d, DOCTOR_WARNING, "key",
			"%llu %s sealed with a key within a second, and this host has no key, so "
			"neither host finds the other: set RIPC_KEY_FILE to a copy of the sender's "
			"key file",
			r.keys, messages(r.keys));
	if (r.other)
		doctor_report(
			d, DOCTOR_WARNING, "protocol",
			"%llu %s refused within a second: another version of libripc or another "
			"program uses UDP port %u: compare ripc-info on all hosts, or set "
			"RIPC_PORT to another port on all of them",
			r.other, others, doctor_port(d));
}

/* Two contexts of this process that find each other by broadcast alone. */
void doctor_check_broadcast(struct doctor *d)
{
	struct ripc *one = NULL, *two = NULL;
	struct ripc_service *service;
	struct ripc_route route = {.size = sizeof(route)};
	const char *resolver = doctor_setting(d, "resolver");
	char text[2300];
	int rc;

	if (d->info->open_error || d->no_interface || d->port_is_taken ||
	    (resolver && !doctor_lists(resolver, "udp")))
		return;
	snprintf(text, sizeof(text), "%s resolver=udp", d->settings);
	rc = ripc_open(&one, text);
	if (!rc)
		rc = ripc_open(&two, text);
	if (!rc)
		rc = ripc_service_register(one, RIPC_ANY_ID, 0, &service);
	/*
	 * The answer to a host's own request comes over its loopback. A back end that finds nothing
	 * was reported before.
	 */
	if (!rc && !d->no_loopback && doctor_resolver_works(d, "udp"))
		rc = ripc_route_lookup(two, ripc_service_id(service), &route, DOCTOR_TIMEOUT_MS);
	if (rc == -EHOSTUNREACH && memcmp(route.instance, nobody, 16) && !d->no_transport)
		doctor_report(d, DOCTOR_FAULT, "transports",
			      "a service of this process is found, and cannot be reached: %s",
			      ripc_error_detail());
	else if (rc == -EHOSTUNREACH && !memcmp(route.instance, nobody, 16))
		doctor_report(
			d, DOCTOR_FAULT, "firewall",
			"requests for services sent to all do not even come back to this host: "
			"open UDP port %u, and the ports the answers go to, in the firewall "
			"(\"nft list ruleset\"), or list hosts with resolver=file:/path (%s)",
			doctor_port(d), ripc_error_detail());
	else if (rc && rc != -EHOSTUNREACH)
		doctor_report(d, DOCTOR_FAULT, "library",
			      "two contexts that find each other cannot be opened: %s",
			      ripc_error_detail());
	check_unauthenticated(d, one, two);
	if (one)
		ripc_close(one);
	if (two)
		ripc_close(two);
}

/* ---- one service ---- */

/* How long a look-up that finds nobody takes, and some. */
static int lookup_ms(const struct doctor *d)
{
	const char *value = doctor_setting(d, "resolve_timeout_ms");
	unsigned long ms = value ? strtoul(value, NULL, 10) : 0;

	return DOCTOR_TIMEOUT_MS + (ms < 60000 ? (int)ms : 60000);
}

/* Looks the service up as a sender does. To register it could take messages from its server. */
void doctor_check_service(struct doctor *d, uint64_t id, const char *name)
{
	bool key = doctor_setting(d, "key_file");
	struct ripc_route route = {.size = sizeof(route)};
	uint64_t start_ns;
	struct ripc *ctx;
	int rc;

	if (d->info->open_error || ripc_open(&ctx, d->settings))
		return;
	start_ns = tool_now_ns();
	rc = ripc_route_lookup(ctx, id, &route, lookup_ms(d));
	if (!rc)
		printf("service: %s was reached over %s at %s, found and connected in %llu us\n",
		       tool_service_text(id, *route.name ? route.name : name), route.transport,
		       route.address, (unsigned long long)(tool_now_ns() - start_ns) / 1000);
	else if (rc != -EHOSTUNREACH || memcmp(route.instance, nobody, 16))
		doctor_report(d, DOCTOR_FAULT, "service", "%s", ripc_error_detail());
	else
		doctor_report(
			d, DOCTOR_FAULT, "service",
			"no holder answers for %s: %s; check that its server runs, and run "
			"\"ripc-info --doctor\" on its host%s",
			tool_service_text(id, name), route.reason,
			key || strstr(route.reason, "key")
				? ""
				: "; a server with a key answers authenticated requests only: "
				  "set RIPC_KEY_FILE to a copy of its key file");
	ripc_close(ctx);
}
