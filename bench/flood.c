/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The effect of a flood from unauthenticated peers on a context and on its clients.
 *
 *     flood MESSAGES [KEY_FILE OTHER_KEY_FILE]
 *
 * A victim holds a service, a client exchanges messages with it, and a flooder that is no part of
 * the cluster sends MESSAGES datagrams to the resolver's port, or, with keys, opens connections, a
 * hundredth as many. Each kind comes twice: first until all tables of the victim are full, then
 * measured. Prints a line of JSON for each kind.
 */
#define _GNU_SOURCE
#include "auth/key.h"
#include "auth/handshake.h"
#include "transport/iwarp/soft/mpa.h"
#include "wire/hello.h"
#include "wire/record.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ripc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define TIMEOUT_MS     10000
#define SERVICE        42
#define PER_CONNECTION 100     /* datagrams that count as much as one connection */
#define FIRST_MESSAGES 400000u /* enough to fill the cache of records */

enum kind { NOISE, REQUEST, FORGED, CONNECT, KINDS };

static const char *const names[KINDS] = {"noise", "request", "forged", "connect"};

/* The victim's state, as a message. */
struct state {
	double cpu_us;
	long rss_kib;
	struct ripc_stats stats;
};

struct order {
	enum kind kind;
	unsigned count;
};

static uint16_t resolver_port, lane_port;
static uint64_t random_state;

static double now_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e6 + (double)ts.tv_nsec / 1e3;
}

static int fail(int err, const char *what)
{
	fprintf(stderr, "flood: %s: %s: %s\n", what, ripc_strerror(err), ripc_error_detail());
	return 1;
}

static void options_text(char *text, size_t len, const char *resolver, const char *key)
{
	snprintf(text, len, "interfaces=lo transports=iwarp/soft resolver=%s port=%u%s%s", resolver,
		 resolver_port, key ? " key_file=" : "", key ? key : "");
}

/* ---- the victim ---- */

static struct state read_stats(struct ripc *ctx)
{
	struct state state = {0};
	struct rusage usage;
	long pages = 0;
	FILE *file = fopen("/proc/self/statm", "re");

	if (file && fscanf(file, "%*d %ld", &pages) == 1)
		state.rss_kib = pages * (sysconf(_SC_PAGESIZE) / 1024);
	if (file)
		fclose(file);
	getrusage(RUSAGE_SELF, &usage);
	state.cpu_us = (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e6 +
		       (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
	state.stats.size = sizeof(state.stats);
	ripc_context_stats(ctx, &state.stats);
	return state;
}

/* Answers until it is killed: an empty message with what it is like, others with themselves. */
static int run_victim(int ready, const char *key)
{
	struct ripc_service *service;
	struct ripc_message *m;
	const char *name;
	struct ripc *ctx;
	char text[512];
	int err;

	options_text(text, sizeof(text), "local,udp", key);
	err = ripc_open(&ctx, text);
	if (!err)
		err = ripc_service_register(ctx, SERVICE, 0, &service);
	if (err)
		return fail(err, "victim");
	for (unsigned i = 0; ripc_transport_info(ctx, i, &name, text, sizeof(text)) >= 0; i++)
		if (!strcmp(name, "iwarp/soft") && strchr(text, ':'))
			lane_port = (uint16_t)atoi(strchr(text, ':') + 1);
	if (write(ready, &lane_port, sizeof(lane_port)) != (ssize_t)sizeof(lane_port))
		return 1;
	while (!(err = ripc_receive(service, &m, -1))) {
		struct state state = read_stats(ctx);
		struct iovec item = {&state, sizeof(state)};

		if (m->nitems && m->items[0].iov_len)
			item = m->items[0];
		err = ripc_send_short(service, m->source, &item, 1, NULL, TIMEOUT_MS);
		ripc_message_free(m);
		if (err)
			fail(err, "answer");
	}
	return fail(err, "receive");
}

/* ---- the flooder ---- */

/* A generator of its own: nothing here is a secret (xorshift64). */
static void fill(uint8_t *bytes, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		random_state ^= random_state << 13;
		random_state ^= random_state >> 7;
		random_state ^= random_state << 17;
		bytes[i] = (uint8_t)random_state;
	}
}

/* A request of an unknown context for an unregistered service; it claims to hold one itself. */
static size_t request(uint8_t *bytes, size_t cap)
{
	struct ripc__resolver_msg msg = {.kind = RIPC__RESOLVE_REQUEST};
	struct ripc__record_addr *a = &msg.record.addrs[0];
	int len;

	fill((uint8_t *)&msg.service, 7);
	fill((uint8_t *)&msg.record.service, 7);
	fill(msg.record.instance, 16);
	msg.service |= 1;
	msg.record.service |= 1;
	msg.nonce = 1;
	msg.record.generation = 1;
	msg.record.ttl_ms = 60000;
	msg.record.naddrs = 1;
	a->transport = 200;
	a->len = 20;
	len = ripc__resolver_msg_encode(&msg, bytes, cap);
	return len > 0 ? (size_t)len : 0;
}

static size_t build_message(enum kind kind, struct ripc__auth *auth, uint8_t *bytes, size_t cap)
{
	uint8_t unsealed[RIPC__RESOLVER_MSG_MAX];
	size_t len;
	int sealed;

	switch (kind) {
	case NOISE:
		fill(bytes, 64);
		return 64;
	case REQUEST:
		return request(bytes, cap);
	default:
		len = request(unsealed, sizeof(unsealed));
		sealed = ripc__auth_seal(auth, unsealed, len, bytes, cap);
		return sealed > 0 ? (size_t)sealed : 0;
	}
}

/*
 * Connects, asks for a lane without a proof that is worth anything, and waits for the end. Return:
 * whether there was one.
 */
static bool connect_one(void)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(lane_port)};
	struct timeval patience = {.tv_sec = 10};
	uint8_t priv[RIPC__HANDSHAKE_LEN], frame[1024];
	struct ripc__mpa mpa = {.revision = 2,
				.enhanced = true,
				.ird = 4,
				.ord = 4,
				.soft = true,
				.priv = priv,
				.privlen = sizeof(priv)};
	struct ripc__hello hello = {.send_max = 16384, .recv_depth = 64};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bool ended = false;
	size_t len;

	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	fill(priv, sizeof(priv));
	fill(hello.instance, 16);
	ripc__hello_encode(&hello, priv);
	priv[RIPC__HELLO_AUTH] = 1;
	len = ripc__mpa_encode(&mpa, frame);
	if (fd >= 0 && !setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) &&
	    !connect(fd, (struct sockaddr *)&to, sizeof(to)) &&
	    send(fd, frame, len, MSG_NOSIGNAL) == (ssize_t)len) {
		ssize_t n;

		while ((n = recv(fd, frame, sizeof(frame), 0)) > 0)
			;
		ended = !n;
	}
	if (fd >= 0)
		close(fd);
	return ended;
}

/* Executes orders, and reports how many messages were sent. */
static int flood(int orders, int done, const char *other_key)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(resolver_port)};
	const uint8_t instance[16] = {1};
	struct ripc__auth *auth = NULL;
	uint8_t bytes[RIPC__RESOLVER_MSG_MAX];
	struct order order;
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof(to)) ||
	    getrandom(&random_state, sizeof(random_state), 0) < 0)
		return 1;
	random_state |= 1;
	if (other_key && ripc__auth_open(&auth, other_key, instance))
		return fail(-1, "the other key");
	while (read(orders, &order, sizeof(order)) == (ssize_t)sizeof(order)) {
		unsigned sent = 0;

		for (unsigned i = 0; i < order.count; i++) {
			if (order.kind == CONNECT) {
				sent += connect_one();
			} else {
				size_t len = build_message(order.kind, auth, bytes, sizeof(bytes));

				sent += send(fd, bytes, len, 0) > 0;
			}
		}
		if (write(done, &sent, sizeof(sent)) != (ssize_t)sizeof(sent))
			return 1;
	}
	return 0;
}

/* ---- the client ---- */

static int ask(struct ripc_service *service, void *data, size_t len, struct state *state)
{
	struct iovec item = {data, len};
	struct ripc_message *m;
	int err = ripc_send_short(service, SERVICE, &item, 1, NULL, TIMEOUT_MS);

	if (!err)
		err = ripc_receive(service, &m, TIMEOUT_MS);
	if (err)
		return err;
	if (state)
		memcpy(state, m->items[0].iov_base, sizeof(*state));
	ripc_message_free(m);
	return 0;
}

/* Exchanges messages until the flooder is done. Return: how many, or a negative errno. */
static long exchange(struct ripc_service *service, int done, unsigned *sent)
{
	long rounds = 0;

	for (;;) {
		fd_set set;
		struct timeval none = {0};
		int err = ask(service, &rounds, sizeof(rounds), NULL);

		if (err)
			return err;
		rounds++;
		FD_ZERO(&set);
		FD_SET(done, &set);
		if (select(done + 1, &set, NULL, NULL, &none) == 1)
			return read(done, sent, sizeof(*sent)) == (ssize_t)sizeof(*sent) ? rounds
											 : -EIO;
	}
}

static int measure(struct ripc_service *service, int orders, int done, enum kind kind,
		   unsigned messages, bool keyed)
{
	struct order order = {kind,
			      kind == CONNECT ? FIRST_MESSAGES / PER_CONNECTION : FIRST_MESSAGES};
	struct state before, after;
	double begin_us, took_us;
	unsigned sent = 0;
	long rounds;
	int err;

	if (write(orders, &order, sizeof(order)) != (ssize_t)sizeof(order))
		return 1;
	rounds = exchange(service, done, &sent);
	err = rounds < 0 ? (int)rounds : ask(service, NULL, 0, &before);
	if (err)
		return fail(err, "before");
	order.count = kind == CONNECT ? messages / PER_CONNECTION : messages;
	begin_us = now_us();
	if (write(orders, &order, sizeof(order)) != (ssize_t)sizeof(order))
		return 1;
	rounds = exchange(service, done, &sent);
	took_us = now_us() - begin_us;
	err = rounds < 0 ? (int)rounds : ask(service, NULL, 0, &after);
	if (err)
		return fail(err, "after");
	printf("{\"kind\": \"%s\", \"keyed\": %s, \"sent\": %u, \"per_s\": %.0f, \"counted_bad\": "
	       "%llu, \"counted_strangers\": %llu, \"counted_refused\": %llu, "
	       "\"victim_cpu_us_per_message\": %.2f, \"victim_rss_growth_kib\": %ld, "
	       "\"round_trips_meanwhile\": %ld, \"round_trips_lost\": 0}\n",
	       names[kind], keyed ? "true" : "false", sent, sent / took_us * 1e6,
	       (unsigned long long)(after.stats.bad_messages - before.stats.bad_messages),
	       (unsigned long long)(after.stats.unauthenticated - before.stats.unauthenticated),
	       (unsigned long long)(after.stats.bad_peers - before.stats.bad_peers),
	       (after.cpu_us - before.cpu_us) / (sent ? sent : 1), after.rss_kib - before.rss_kib,
	       rounds);
	fflush(stdout);
	return 0;
}

static int attack(const char *key, int orders, int done, unsigned messages)
{
	struct ripc_service *service;
	struct ripc *ctx;
	char text[512];
	int err;

	/* Not over the network: what is measured is the victim alone. */
	options_text(text, sizeof(text), "local", key);
	err = ripc_open(&ctx, text);
	if (!err)
		err = ripc_service_register(ctx, RIPC_ANY_ID, 0, &service);
	if (err)
		return fail(err, "client");
	for (enum kind kind = NOISE; kind < KINDS && !err; kind++)
		if (key || kind < FORGED)
			err = measure(service, orders, done, kind, messages, key);
	ripc_close(ctx);
	return err;
}

int main(int argc, char **argv)
{
	unsigned messages = argc > 1 ? (unsigned)atoi(argv[1]) : 0;
	const char *key = argc == 4 ? argv[2] : NULL;
	int ready[2], orders[2], done[2], err = 1;
	pid_t victim = 0, flooder = 0;

	if (messages < PER_CONNECTION || (argc != 2 && argc != 4)) {
		fprintf(stderr, "usage: flood MESSAGES [KEY_FILE OTHER_KEY_FILE]\n");
		return 2;
	}
	resolver_port = (uint16_t)(20000 + getpid() % 12000);
	/* Before the library is used: a context does not survive fork(). */
	if (pipe(ready) || pipe(orders) || pipe(done) || (victim = fork()) < 0) {
		perror("flood");
		return 1;
	}
	if (!victim)
		_exit(run_victim(ready[1], key));
	close(ready[1]);
	if (read(ready[0], &lane_port, sizeof(lane_port)) == (ssize_t)sizeof(lane_port) &&
	    (flooder = fork()) >= 0) {
		if (!flooder) {
			close(orders[1]);
			_exit(flood(orders[0], done[1], key ? argv[3] : NULL));
		}
		close(done[1]);
		err = attack(key, orders[1], done[0], messages);
	}
	close(orders[1]);
	if (flooder > 0)
		kill(flooder, SIGKILL);
	kill(victim, SIGKILL);
	while (wait(NULL) > 0)
		;
	return err;
}
