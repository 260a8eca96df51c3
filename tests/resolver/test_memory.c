/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The resolver when memory runs out: every allocation fails once, and nothing is lost or left
 * behind.
 */
#include "harness.h"
#include "base/options.h"

#include "base/clock.h"
#include "base/log.h"
#include "resolver/core.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static unsigned long fail_at; /* this allocation from now fails; 0: none */
static bool failed;
/* the library is being called: the rest of the program may allocate as it likes */
static bool in_library;
static long balance; /* allocations less frees */

#define LIB(call)                                  \
	({                                         \
		in_library = true;                 \
		__typeof__(call) result_ = (call); \
		in_library = false;                \
		result_;                           \
	})
#define LIB_VOID(call) (in_library = true, (call), in_library = false)

/* Replacements of the allocator, installed by the linker (--wrap). */
void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t size);
void __real_free(void *p);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t size);
void __wrap_free(void *p);

static bool fails(void)
{
	if (!in_library || !fail_at || --fail_at)
		return false;
	failed = true;
	return true;
}

static void *counted(void *p)
{
	balance += in_library && p;
	return p;
}

void *__wrap_malloc(size_t size)
{
	return fails() ? NULL : counted(__real_malloc(size));
}

void *__wrap_calloc(size_t n, size_t size)
{
	return fails() ? NULL : counted(__real_calloc(n, size));
}

void *__wrap_realloc(void *p, size_t size)
{
	void *q;

	if (fails())
		return NULL;
	q = __real_realloc(p, size);
	if (!p)
		counted(q);
	return q;
}

void __wrap_free(void *p)
{
	balance -= in_library && p;
	__real_free(p);
}

static unsigned nsent;
static uint64_t nonce;

static void sent(void *arg, const struct ripc__backend_addr *to, uint64_t service,
		 const uint8_t *data, size_t len)
{
	struct ripc__resolver_msg msg;
	const char *why;

	in_library = false;
	ck_assert_int_eq(ripc__resolver_msg_decode(&msg, data, len, &why), 0);
	in_library = true;
	nonce = msg.nonce;
	nsent++;
}

static void input(struct ripc__rcore *core, enum ripc__resolver_kind kind, uint64_t service,
		  uint64_t now_ns)
{
	struct ripc__resolver_msg msg = {.kind = kind, .service = service, .nonce = nonce};
	struct ripc__backend_addr from = {.len = 1};
	uint8_t buf[RIPC__RESOLVER_MSG_MAX];
	const char *why;
	int len;

	msg.record.service = service;
	msg.record.instance[0] = 9;
	msg.record.generation = 1;
	msg.record.ttl_ms = 1000;
	msg.record.naddrs = 1;
	msg.record.addrs[0].len = (uint16_t)(service % 100);
	len = ripc__resolver_msg_encode(&msg, buf, sizeof(buf));
	ck_assert_int_eq(LIB(ripc__rcore_input(core, &from, buf, (size_t)len, now_ns, &why)), 0);
}

static int ok(int rc)
{
	ck_assert_msg(rc == 0 || rc == -ENOMEM, "%d", rc);
	return rc;
}

/* Every call that allocates, a few times. Each look-up that was taken ends with an answer. */
static void live(void)
{
	struct ripc__rcore_env env = {
		.instance = {5}, .resolve_timeout_ms = 100, .negative_ms = 10, .send = sent};
	struct ripc__resolver_event ev = {0};
	uint64_t now = RIPC__MS;
	unsigned waiting = 0, notified = 0;
	struct ripc__rcore *core = NULL;

	if (ok(LIB(ripc__rcore_new(&core, &env))))
		return;
	for (uint64_t id = 1; id <= 20; id++) {
		ok(LIB(ripc__rcore_register(core, id, NULL,
					    id & 1 ? RIPC__REGISTER : RIPC__REGISTER_LOCAL, now)));
		waiting += !ok(LIB(ripc__rcore_lookup(core, 100 + id, now)));
		if (id & 1)
			input(core, RIPC__RESOLVE_REPLY, 100 + id, now);
		input(core, RIPC__RESOLVE_REQUEST, 200 + id, now);
	}
	input(core, RIPC__RESOLVE_REPLY, 19, now);
	input(core, RIPC__RESOLVE_PROBE, 2, now);
	input(core, RIPC__RESOLVE_GONE, 203, now);
	for (unsigned i = 0; i < 40; i++) {
		now += 50 * RIPC__MS;
		LIB_VOID(ripc__rcore_advance(core, now));
		while (LIB(ripc__rcore_event(core, &ev, now)))
			notified += (ev.kind == RIPC__RESOLVED || ev.kind == RIPC__UNRESOLVED) &&
				    ev.service > 100 && ev.service <= 120;
	}
	ck_assert_uint_eq(notified, waiting);
	for (uint64_t id = 1; id <= 10; id++)
		LIB_VOID(ripc__rcore_unregister(core, id, now));
	LIB_VOID(ripc__rcore_free(core));
}

/* The same through real sockets. */
static void live_resolver(void)
{
	uint8_t instance[16] = {1, 2, 3}, host[16] = {0};
	struct ripc__options opt;
	struct ripc__resolver_env env = {.opt = &opt, .instance = instance, .host = host};
	struct ripc__resolver_event ev[8];
	uint64_t deadline, seed = test_seed();
	struct ripc__resolver *r = NULL;
	char why[256];

	memcpy(instance + 4, &seed, sizeof(seed));
	ck_assert_int_eq(ripc__options_load(&opt, "interfaces=lo port=23475", why, sizeof(why)), 0);
	if (ok(LIB(ripc__resolver_open(&r, &env)))) {
		ck_assert(ripc_error_detail()[0]);
		return;
	}
	for (unsigned i = 0; i < 4; i++) {
		if (ok(LIB(ripc__resolver_register(r, seed / 2 + i, NULL, RIPC__REGISTER,
						   RIPC__MS))))
			ck_assert(ripc_error_detail()[0]);
		ok(LIB(ripc__resolver_lookup(r, seed / 2 + 100 + i, RIPC__MS)));
		LIB_VOID(ripc__resolver_progress(r, true, ev, 8, RIPC__MS, &deadline));
	}
	LIB_VOID(ripc__resolver_close(r));
}

static void sweep(void (*fn)(void))
{
	unsigned before = test_descriptors();
	unsigned long n = 0;

	do {
		fail_at = ++n;
		failed = false;
		fn();
		fail_at = 0;
		ck_assert_msg(!balance, "allocation %lu failed: %ld are left", n, balance);
		ck_assert_uint_eq(test_descriptors(), before);
	} while (failed);
	/* Otherwise nothing was tested. */
	ck_assert_uint_gt(n, 5);
}

START_TEST(core__every_allocation_fails_once)
{
	sweep(live);
	ck_assert_uint_gt(nsent, 0);
}
END_TEST

START_TEST(resolver__every_allocation_fails_once)
{
	sweep(live_resolver);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("resolver/memory");
	TCase *tc = tcase_create("memory");

	test_seed();
	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, core__every_allocation_fails_once);
	tcase_add_test(tc, resolver__every_allocation_fails_once);
	suite_add_tcase(suite, tc);
	return test_main("resolver/memory", suite);
}
