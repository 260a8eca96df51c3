/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A resolver without a context, for test scripts:
 *
 *   resolver_tool register ID [OPTIONS]   holds ID until SIGTERM, then releases it; SIGUSR1:
 *                                         releases it and continues
 *   resolver_tool random ID [OPTIONS]     the same, but registers ID as a randomly drawn one
 *   resolver_tool lookup ID [OPTIONS]     looks ID up
 *   resolver_tool watch ID [OPTIONS]      looks ID up, then continues until SIGTERM; SIGUSR1: looks
 *                                         ID up again and prints the result
 *   resolver_tool list ID [OPTIONS]       lists all services until ID is among them
 *
 * Prints one line with the result; exit status 0 if ID was found or is held. A holder prints a
 * second line if it loses the service.
 */
#define _GNU_SOURCE
#include "describe.h"
#include "auth/key.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/options.h"
#include "resolver/listing.h"
#include "resolver/resolver.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

static volatile sig_atomic_t stopped;

static volatile sig_atomic_t asked;

static void ask(int signal_number)
{
	asked = 1;
}

static void stop(int signal_number)
{
	stopped = 1;
}

static void describe(const void *arg, uint8_t transport, const uint8_t *addr, size_t len,
		     char *text, size_t textlen)
{
	snprintf(text, textlen, "test %.*s", (int)len, (const char *)addr);
}

/* Return: whether it is worth going on, or the exit status is decided. */
static bool report(const struct ripc__resolver_event *ev, bool hold, int *status)
{
	switch (ev->kind) {
	case RIPC__RESOLVED:
		printf("resolved %" PRIu64 " at %.*s generation %" PRIu64 "\n", ev->service,
		       ev->record.naddrs ? ev->record.addrs[0].len : 0,
		       (const char *)ev->record.addrs[0].addr, ev->record.generation);
		*status = 0;
		return hold;
	case RIPC__UNRESOLVED:
		printf("unresolved %" PRIu64 ": %s\n", ev->service, ev->text);
		*status = 1;
		return false;
	case RIPC__REGISTERED:
		printf("registered %" PRIu64 "\n", ev->service);
		*status = 0;
		return true;
	case RIPC__CONFLICT:
		printf("conflict: %s\n", ev->text);
		*status = 2;
		return false;
	case RIPC__RIVAL:
		printf("rival: %s\n", ev->text);
		return true;
	case RIPC__GONE:
		printf("gone %" PRIu64 "\n", ev->service);
		return true;
	}
	return true;
}

static uint64_t wanted;

static void listed(void *arg, const struct ripc__record *record)
{
	if (record->service != wanted)
		return;
	printf("listed %" PRIu64 " generation %" PRIu64 " age %u s\n", record->service,
	       record->generation, record->since_ms / 1000);
	stopped = 1;
}

static void list(struct ripc__resolver *r)
{
	struct ripc__listing found;

	if (ripc__resolver_list_begin(r, &found, ripc__clock_ns()))
		return;
	while (!stopped) {
		struct ripc__resolver_event ev;
		uint64_t deadline = RIPC__NEVER;

		(void)ripc__resolver_progress(r, true, &ev, 1, ripc__clock_ns(), &deadline);
		(void)ripc__listing_each(&found, listed, NULL);
		poll(NULL, 0, 100);
		ripc__resolver_list_repeat(r, ripc__clock_ns());
	}
	ripc__resolver_list_end(r);
	ripc__listing_fini(&found);
}

int main(int argc, char **argv)
{
	struct ripc__options opt;
	struct ripc__record_addr addr = {.transport = 200};
	struct ripc__resolver_env env = {
		.opt = &opt, .addrs = &addr, .naddrs = 1, .describe = describe};
	struct ripc__resolver *r;
	uint8_t ids[32];
	char why[1200];
	uint64_t service;
	bool hold, random, watch, lists, running = true;
	int status = 3, rc;

	random = argc > 2 && !strcmp(argv[1], "random");
	hold = random || (argc > 2 && !strcmp(argv[1], "register"));
	watch = argc > 2 && !strcmp(argv[1], "watch");
	lists = argc > 2 && !strcmp(argv[1], "list");
	if (argc < 3 || (!hold && !watch && !lists && strcmp(argv[1], "lookup"))) {
		fprintf(stderr, "usage: %s register|random|lookup|watch|list ID [OPTIONS]\n",
			argv[0]);
		return 64;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	service = strtoull(argv[2], NULL, 0);
	if (ripc__options_load(&opt, argc > 3 ? argv[3] : NULL, why, sizeof(why))) {
		printf("error: %s\n", why);
		return 64;
	}
	if (opt.log_level >= 0)
		ripc__log_to_stderr((enum ripc_log_level)opt.log_level);
	if (getrandom(ids, sizeof(ids), 0) != sizeof(ids))
		return 65;
	env.instance = ids;
	env.host = ids + 16;
	rc = snprintf((char *)addr.addr, sizeof(addr.addr), "pid-%d", (int)getpid());
	addr.len = (uint16_t)rc;
	rc = *opt.key_file ? ripc__auth_open(&env.auth, opt.key_file, ids) : 0;
	if (!rc)
		rc = ripc__resolver_open(&r, &env);
	if (rc) {
		printf("error: %s\n", ripc_error_detail());
		return 66;
	}
	signal(SIGTERM, stop);
	signal(SIGUSR1, ask);
	if (lists) {
		wanted = service;
		list(r);
		status = 0;
	}
	rc = lists    ? 0
	     : random ? ripc__resolver_register(r, service, NULL, RIPC__REGISTER_RANDOM,
						ripc__clock_ns())
	     : hold   ? ripc__resolver_register(r, service, NULL, RIPC__REGISTER, ripc__clock_ns())
		      : ripc__resolver_lookup(r, service, ripc__clock_ns());
	if (rc) {
		printf("%s: %s\n", rc == -EADDRINUSE ? "conflict" : "error", ripc_error_detail());
		ripc__resolver_close(r);
		return rc == -EADDRINUSE ? 2 : 67;
	}
	while (running && !stopped) {
		struct pollfd pfd = {.fd = ripc__resolver_fd(r), .events = POLLIN};
		uint64_t deadline = RIPC__NEVER, now = ripc__clock_ns();
		struct ripc__resolver_event ev[4];
		unsigned n = ripc__resolver_progress(r, true, ev, 4, now, &deadline);

		if (asked && hold) {
			asked = 0;
			ripc__resolver_unregister(r, service, now);
			printf("unregistered %" PRIu64 "\n", service);
		}
		if (asked) {
			asked = 0;
			describe_entries(r, why, sizeof(why));
			printf("%s\n", why);
			(void)ripc__resolver_lookup(r, service, now);
		}
		for (unsigned i = 0; i < n && running; i++)
			running = report(&ev[i], hold || watch, &status);
		if (!running)
			break;
		if (deadline > now)
			poll(&pfd, 1,
			     deadline - now > 1000 * RIPC__MS
				     ? 1000
				     : (int)((deadline - now) / RIPC__MS) + 1);
	}
	describe_entries(r, why, sizeof(why));
	fprintf(stderr, "%s\n", why);
	ripc__resolver_close(r);
	if (env.auth)
		ripc__auth_close(env.auth);
	return status;
}
