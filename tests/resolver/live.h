/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Resolvers with real back ends for tests: in a network namespace of its own if that is permitted,
 * otherwise on the loopback with a port and services drawn at random.
 */
#ifndef RIPC_TESTS_RESOLVER_LIVE_H
#define RIPC_TESTS_RESOLVER_LIVE_H

#include "describe.h"
#include "harness.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/options.h"
#include "resolver/resolver.h"

#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define EVENTS_MAX 64

/* A resolver and its events. */
struct ctx {
	struct ripc__resolver *r;
	struct ripc__options opt;
	uint8_t instance[16], host[16];
	struct ripc__resolver_event events[EVENTS_MAX];
	unsigned nevents;
	uint64_t deadline_ns;
};

static uint64_t rng;
static uint64_t service; /* one that nobody else uses */
static uint16_t port;
static uint64_t ahead_ns; /* how far the time of the resolvers is ahead of the clock */

static inline void setup(void)
{
	rng = test_seed() + (uint64_t)getpid();
	test_own_network();
	service = test_random(&rng) >> 1 | 1;
	port = (uint16_t)(20000 + test_random(&rng) % 12000);
}

static inline uint64_t resolver_now(void)
{
	return ripc__clock_ns() + ahead_ns;
}

static inline void describe(const void *arg, uint8_t transport, const uint8_t *addr, size_t len,
			    char *text, size_t textlen)
{
	snprintf(text, textlen, "test%u %.*s", transport, (int)len, (const char *)addr);
}

static inline void load(struct ctx *c, const char *options)
{
	char text[640], why[256] = "";

	memset(c, 0, sizeof(*c));
	snprintf(text, sizeof(text), "interfaces=lo port=%u %s", port, options);
	ck_assert_msg(!ripc__options_load(&c->opt, text, why, sizeof(why)), "%s", why);
	for (unsigned i = 0; i < 16; i++)
		c->instance[i] = (uint8_t)(test_random(&rng) | 1);
}

static inline int open_loaded(struct ctx *c)
{
	struct ripc__record_addr addr = {.transport = 5, .len = 9, .addr = "somewhere"};
	struct ripc__resolver_env env = {.opt = &c->opt,
					 .instance = c->instance,
					 .host = c->host,
					 .addrs = &addr,
					 .naddrs = 1,
					 .describe = describe};

	return ripc__resolver_open(&c->r, &env);
}

static inline int try_open(struct ctx *c, const char *options)
{
	load(c, options);
	return open_loaded(c);
}

static inline void open_ctx(struct ctx *c, const char *options)
{
	int rc = try_open(c, options);

	ck_assert_msg(rc == 0, "%d: %s", rc, ripc_error_detail());
}

static inline void progress(struct ctx *c)
{
	c->deadline_ns = RIPC__NEVER;
	ck_assert_uint_lt(c->nevents, EVENTS_MAX);
	c->nevents +=
		ripc__resolver_progress(c->r, true, c->events + c->nevents, EVENTS_MAX - c->nevents,
					resolver_now(), &c->deadline_ns);
}

static inline const struct ripc__resolver_event *find_event(const struct ctx *c,
							    enum ripc__resolver_ev_kind kind,
							    uint64_t id)
{
	for (unsigned i = 0; i < c->nevents; i++)
		if (c->events[i].kind == kind && c->events[i].service == id)
			return &c->events[i];
	return NULL;
}

/* Sleeps until a context has work, and 1 ms at most. */
static inline void pause_all(const struct ctx *all, unsigned n)
{
	struct pollfd fds[64];

	ck_assert_uint_le(n, sizeof(fds) / sizeof(fds[0]));
	for (unsigned i = 0; i < n; i++)
		fds[i] = (struct pollfd){ripc__resolver_fd(all[i].r), POLLIN, 0};
	poll(fds, n, 1);
}

/* Makes progress on all contexts until one of them has this event; fails after 40 s. */
static inline const struct ripc__resolver_event *await_at(struct ctx *all, unsigned n,
							  const struct ctx *one,
							  enum ripc__resolver_ev_kind ev,
							  uint64_t id)
{
	uint64_t end = ripc__clock_ns() + 40000 * RIPC__MS;

	while (ripc__clock_ns() < end) {
		const struct ripc__resolver_event *event;

		for (unsigned i = 0; i < n; i++)
			progress(&all[i]);
		event = find_event(one, ev, id);
		if (event)
			return event;
		pause_all(all, n);
	}
	ck_abort_msg("event %d did not come", ev);
	return NULL;
}

static inline const struct ripc__resolver_event *await(struct ctx *all, unsigned n,
						       enum ripc__resolver_ev_kind ev, uint64_t id)
{
	return await_at(all, n, &all[0], ev, id);
}

static inline void register_service(struct ctx *c, uint64_t id)
{
	int rc = ripc__resolver_register(c->r, id, NULL, RIPC__REGISTER, resolver_now());

	ck_assert_msg(rc == 0, "%d: %s", rc, ripc_error_detail());
	await(c, 1, RIPC__REGISTERED, id);
}

static inline void lookup(struct ctx *c, uint64_t id)
{
	ck_assert_int_eq(ripc__resolver_lookup(c->r, id, resolver_now()), 0);
}

/* So that a test that fails shows the text. */
static inline void check_contains(const char *text, const char *part)
{
	ck_assert_msg(strstr(text, part) != NULL, "\"%s\" does not contain \"%s\"", text, part);
}

#endif
