/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Random calls of many resolvers with the back ends local, udp and file on the loopback. The test
 * advances the time. Services are registered, taken over, given up and looked up, while contexts
 * stop for a while, close and start again. The model: a service with a holder is found; at the end
 * each service has one holder at most, all contexts find it, and no descriptor remains.
 */
#include "live.h"
#include "use.h"

#include "resolver/core.h"

#include <errno.h>
#include <stdlib.h>

#define CONTEXTS 8
#define SERVICES 6

static struct ctx ctxs[CONTEXTS];
static uint64_t paused_until_ns[CONTEXTS];
static bool local[CONTEXTS]; /* it has the back end local */
static struct use uses[CONTEXTS][SERVICES];
static bool with_file;
static char path[64];

static unsigned draw(unsigned n)
{
	return (unsigned)(test_random(&rng) % n);
}

static uint64_t id_of(unsigned s)
{
	return service + s;
}

/* Every fourth context has no names on this host, or asks through a list of hosts. */
static void start(unsigned n)
{
	char options[160];

	local[n] = n % 4 != 3 || with_file;
	if (n % 4 != 3)
		snprintf(options, sizeof(options), "resolver=local,udp resolve_timeout_ms=1000");
	else if (with_file)
		snprintf(options, sizeof(options), "resolver=file:%s resolve_timeout_ms=1000",
			 path);
	else
		snprintf(options, sizeof(options), "resolver=udp resolve_timeout_ms=1000");
	open_ctx(&ctxs[n], options);
	memset(uses[n], 0, sizeof(uses[n]));
	paused_until_ns[n] = 0;
}

static void take_event(unsigned n, const struct ripc__resolver_event *ev)
{
	ck_assert_uint_lt(ev->service - service, SERVICES);
	if (ev->kind == RIPC__CONFLICT)
		check_contains(ev->text, "is held ");
	use_event(&uses[n][ev->service - service], ev->kind, n, ev->service - service,
		  resolver_now());
}

static bool paused(unsigned n)
{
	return paused_until_ns[n] > resolver_now();
}

/* Whether a holder answers a context. Any context of the host may have to forward a request. */
static bool holder_there(unsigned n, unsigned s)
{
	for (unsigned i = 0; i < CONTEXTS && with_file && n % 4 == 3; i++)
		if (paused(i))
			return false;
	for (unsigned i = 0; i < CONTEXTS; i++)
		if (uses[i][s].held == HELD && !paused(i) &&
		    resolver_now() - uses[i][s].since_ns > 200 * RIPC__MS)
			return true;
	return false;
}

static void step(void)
{
	for (unsigned n = 0; n < CONTEXTS; n++) {
		struct ctx *c = &ctxs[n];

		if (paused(n))
			continue;
		c->nevents = 0;
		progress(c);
		for (unsigned i = 0; i < c->nevents; i++)
			take_event(n, &c->events[i]);
	}
}

/* Lets @ms pass. */
static void run(uint64_t ms)
{
	uint64_t end = resolver_now() + ms * RIPC__MS;

	do {
		uint64_t next = end, now;

		/* A request and its answer need several passes. */
		for (unsigned i = 0; i < 4; i++)
			step();
		now = resolver_now();
		for (unsigned n = 0; n < CONTEXTS; n++) {
			uint64_t at = paused(n) ? paused_until_ns[n] : ctxs[n].deadline_ns;

			next = at < next ? at : next;
		}
		if (next > now)
			ahead_ns += next - now;
		for (unsigned n = 0; n < CONTEXTS; n++)
			for (unsigned s = 0; s < SERVICES; s++) {
				struct use *u = &uses[n][s];

				if (!u->asked_ns)
					continue;
				if (paused(n) || !holder_there(n, s))
					u->reachable = false;
			}
	} while (resolver_now() < end);
}

static void lookup_at(unsigned n, unsigned s)
{
	use_lookup(&uses[n][s], holder_there(n, s), resolver_now());
	lookup(&ctxs[n], id_of(s));
}

static const char *name_of(unsigned n, unsigned s)
{
	return s % 3 ? NULL : n % 4 == 0 ? "right" : "left";
}

static void register_at(unsigned n, unsigned s)
{
	static const enum ripc__register_how hows[] = {RIPC__REGISTER, RIPC__REGISTER,
						       RIPC__REGISTER_TAKE};
	struct use *u = &uses[n][s];
	bool other = false;
	int rc;

	if (u->held != NOTHING)
		return;
	rc = ripc__resolver_register(ctxs[n].r, id_of(s), name_of(n, s), hows[draw(3)],
				     resolver_now());
	for (unsigned i = 0; i < CONTEXTS; i++)
		other |= i != n && local[i] && uses[i][s].held != NOTHING;
	ck_assert_msg(!rc || (rc == -EADDRINUSE && other), "%d: %s", rc, ripc_error_detail());
	if (rc)
		return;
	use_register(u, resolver_now());
}

/* Drops the record of a context that holds the service no longer. */
static void invalidate_at(unsigned n, unsigned s)
{
	const struct ripc__record *r = ripc__resolver_peek(ctxs[n].r, id_of(s));
	uint8_t id[16];

	if (!r)
		return;
	memcpy(id, r->instance, 16);
	for (unsigned i = 0; i < CONTEXTS; i++)
		if (!memcmp(ctxs[i].instance, id, 16) && uses[i][s].held == HELD)
			return;
	ripc__resolver_invalidate(ctxs[n].r, id_of(s), id);
}

static void call(void)
{
	unsigned n = draw(CONTEXTS), s = draw(SERVICES);
	struct use *u = &uses[n][s];

	if (paused(n))
		return;
	switch (draw(12)) {
	case 0:
	case 1:
	case 2:
		register_at(n, s);
		break;
	case 3:
		if (u->held == NOTHING)
			break;
		ripc__resolver_unregister(ctxs[n].r, id_of(s), resolver_now());
		u->held = NOTHING;
		break;
	case 4:
		ripc__resolver_lookup_cancel(ctxs[n].r, id_of(s));
		use_cancel(u);
		break;
	case 5:
		if (draw(4))
			break;
		if (draw(2))
			ripc__resolver_close(ctxs[n].r);
		else
			ripc__resolver_kill(ctxs[n].r);
		start(n);
		break;
	case 6:
		paused_until_ns[n] = resolver_now() + draw(3000) * RIPC__MS;
		break;
	case 7:
		invalidate_at(n, s);
		break;
	default:
		lookup_at(n, s);
		break;
	}
}

START_TEST(random__calls)
{
	unsigned before = test_descriptors();

	FILE *file;

	rng += (uint64_t)_i;
	with_file = _i % 2;
	snprintf(path, sizeof(path), "/tmp/ripc-live-random.%d", (int)getpid());
	file = fopen(path, "w");
	fprintf(file, "* 127.0.0.1\n");
	fclose(file);
	for (unsigned n = 0; n < CONTEXTS; n++)
		start(n);
	for (unsigned i = 0; i < 1500; i++) {
		call();
		run(draw(8) ? draw(20) : draw(1000));
	}
	run(3000);
	run(SERVICES * RIPC__CLAIM_INTERVAL_MS * 5 / 4);
	for (unsigned s = 0; s < SERVICES; s++) {
		int holder = -1;

		for (unsigned n = 0; n < CONTEXTS; n++)
			if (uses[n][s].held == HELD) {
				ck_assert_msg(holder < 0, "service %u is held by %d and %u", s,
					      holder, n);
				holder = (int)n;
			}
		for (unsigned n = 0; n < CONTEXTS; n++)
			lookup_at(n, s);
		run(1100);
		for (unsigned n = 0; n < CONTEXTS; n++) {
			const struct ripc__record *r = ripc__resolver_peek(ctxs[n].r, id_of(s));

			ck_assert_msg(!r == (holder < 0), "service %u, holder %d, context %u", s,
				      holder, n);
			if (r)
				ck_assert_mem_eq(r->instance, ctxs[holder].instance, 16);
		}
	}
	for (unsigned n = 0; n < CONTEXTS; n++)
		ripc__resolver_close(ctxs[n].r);
	ck_assert_uint_eq(test_descriptors(), before);
	unlink(path);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("resolver/live_random");
	TCase *tc = tcase_create("random");

	test_seed();
	tcase_add_checked_fixture(tc, setup, NULL);
	tcase_add_loop_test(tc, random__calls, 0, 4);
	tcase_set_timeout(tc, 200);
	suite_add_tcase(suite, tc);
	return test_main("resolver/live_random", suite);
}
