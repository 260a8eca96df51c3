/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Out of memory: two contexts exchange short and long messages in a simulated network, and the nth
 * allocation fails, for every n. Each call succeeds or returns an error, nothing crashes, hangs or
 * leaks, and later calls work again. The linker inserts the functions below before those of the C
 * library (--wrap).
 *
 * Repeat one n with RIPC_TEST_SEED and RIPC_TEST_OOM=n.
 */
#include "core/context/functions.h"
#include "core/invariants.h"
#include "core/memory/buffer.h"
#include "core/memory/mapped.h"
#include "core/peer/lane.h"

void *__real_malloc(size_t len);
void *__real_calloc(size_t n, size_t len);
void *__real_realloc(void *p, size_t len);
char *__real_strdup(const char *s);
void *__real_aligned_alloc(size_t align, size_t len);
void *__wrap_malloc(size_t len);
void *__wrap_calloc(size_t n, size_t len);
void *__wrap_realloc(void *p, size_t len);
char *__wrap_strdup(const char *s);
void *__wrap_aligned_alloc(size_t align, size_t len);

static struct {
	bool armed;
	bool lasting;   /* all from the nth on fail, not that one alone */
	uint64_t count; /* allocations since it was armed */
	uint64_t nth;   /* which fails; 0: none */
	uint64_t failed;
} shim;

static bool fails(void)
{
	if (!shim.armed)
		return false;
	shim.count++;
	if (!shim.nth || (shim.lasting ? shim.count < shim.nth : shim.count != shim.nth))
		return false;
	shim.failed++;
	errno = ENOMEM;
	return true;
}

void *__wrap_malloc(size_t len)
{
	return fails() ? NULL : __real_malloc(len);
}

void *__wrap_calloc(size_t n, size_t len)
{
	return fails() ? NULL : __real_calloc(n, len);
}

void *__wrap_realloc(void *p, size_t len)
{
	return fails() ? NULL : __real_realloc(p, len);
}

char *__wrap_strdup(const char *s)
{
	return fails() ? NULL : __real_strdup(s);
}

void *__wrap_aligned_alloc(size_t align, size_t len)
{
	return fails() ? NULL : __real_aligned_alloc(align, len);
}

/* The framework's own checks allocate. */
#define CHECK(cond)                                                                      \
	do {                                                                             \
		if (!(cond)) {                                                           \
			shim.armed = false;                                              \
			ck_abort_msg("allocation %llu fails: " #cond ": %s",             \
				     (unsigned long long)shim.nth, ripc_error_detail()); \
		}                                                                        \
	} while (0)

static void without_read(struct ripc__sim_config *config)
{
	config->caps_off = RIPC__CAP_READ;
}

static void expensive_registration(struct ripc__sim_config *config)
{
	config->caps_off = RIPC__CAP_CHEAP_REG;
	config->transient = 0.5;
}

static void datagrams(struct ripc__sim_config *config)
{
	config->datagram = true;
	config->written = config->write_imm = true;
}

static const struct {
	void (*change)(struct ripc__sim_config *config);
	const char *options;
} configs[] = {{NULL, NULL},
	       {without_read, "pool_bytes=65536"},
	       {expensive_registration, NULL},
	       {datagrams, "short=udp"}};

#define CONFIGS (sizeof(configs) / sizeof(configs[0]))

struct run {
	struct ripc__sim *net;
	struct ripc *ctx[2];
	struct ripc_service *s[2];
	uint8_t *memory; /* 64 KiB, the test's own */
};

/* Takes all that is there. */
static void receive_all(struct run *run, unsigned i)
{
	struct ripc_message *m;

	while (run->s[i] && !ripc_receive(run->s[i], &m, 5)) {
		void *kept = NULL;

		for (unsigned k = 0; k < m->nitems; k++) {
			volatile uint8_t sum = 0;

			for (size_t at = 0; at < m->items[k].iov_len; at += 100)
				sum = (uint8_t)(sum + ((uint8_t *)m->items[k].iov_base)[at]);
			if (m->placement[k] == RIPC_IN_POOL && !kept)
				kept = ripc_message_detach(m, k);
		}
		ripc_message_free(m);
		ripc_buf_free(run->ctx[i], kept);
	}
}

/* A name for every service; the contexts may not have opened. */
static void exchange(struct run *run, unsigned i)
{
	uint64_t to = RIG_ID(!i);
	uint8_t *data = run->memory, *back, *window;
	struct iovec item = {data, 100}, items[6], ret;
	struct ripc_send_options options = {.size = sizeof(options)};
	struct ripc_request *r[3] = {NULL};
	struct ripc *ctx = run->ctx[i];
	struct ripc_service *s = run->s[i];
	struct ripc_route route = {.size = sizeof(route)};

	if (!s)
		return;
	ripc_route_lookup(ctx, to, &route, 100);
	ripc_send_short(s, to, &item, 1, NULL, 100);
	for (unsigned k = 0; k < 6; k++)
		items[k] = (struct iovec){data, 10};
	ripc_send_short(s, to, items, 6, NULL, 100);
	receive_all(run, !i);
	item.iov_len = 30000;
	for (unsigned k = 0; k < 3; k++)
		ripc_send_async(s, to, &item, 1, NULL, &r[k]);
	for (unsigned k = 0; k < 2; k++)
		if (r[k])
			ripc_request_wait(&r[k], 20);
	for (unsigned k = 0; k < 3; k++)
		if (r[k])
			ripc_request_cancel(&r[k], 20);
	receive_all(run, !i);
	/* Offered, written, windows. */
	back = ripc_buf_alloc(ctx, 40000);
	window = ripc_buf_alloc(ctx, 20000);
	if (window)
		ripc_window_add(ctx, s, window, 20000);
	ret = (struct iovec){back, 40000};
	options.return_buffers = &ret;
	options.nreturn_buffers = back ? 1 : 0;
	item.iov_len = 10;
	ripc_send(s, to, &item, 1, &options, 100);
	receive_all(run, !i);
	if (run->s[!i]) {
		item.iov_len = 35000;
		ripc_send_long(run->s[!i], RIG_ID(i), &item, 1, NULL, 50);
		items[0].iov_len = 15000;
		items[1].iov_len = 25000;
		ripc_send_long(run->s[!i], RIG_ID(i), items, 6, NULL, 50);
	}
	receive_all(run, i);
	ripc_service_fd(s);
	if (!ripc_buf_register(ctx, data, 64 * KIB)) {
		item.iov_len = 50000;
		ripc_send_long(s, to, &item, 1, NULL, 50);
		CHECK(!ripc_buf_unregister(ctx, data));
	}
	receive_all(run, !i);
	ripc_buf_free(ctx, window);
	window = ripc_buf_alloc(ctx, 1000);
	(void)ripc_buf_realloc(ctx, back, 100000);
	ripc_buf_free(ctx, window);
	item.iov_len = 100;
	options = (struct ripc_send_options){.size = sizeof(options), .flags = RIPC_RELIABLE};
	ripc_send_short(s, to, &item, 1, &options, 50);
	if (!ripc_call_start(s, to, &item, 1, NULL, 100, &r[0]))
		ripc_request_cancel(&r[0], 20);
	receive_all(run, !i);
	if (!ripc_group_join(s, 9, 500)) {
		item.iov_len = 100;
		ripc_group_send(s, 9, &item, 1, NULL, 50);
		receive_all(run, i);
		receive_all(run, !i);
		if (i)
			ripc_group_leave(s, 9);
	}
	/* One that nobody holds. */
	ripc_route_lookup(ctx, 4711, NULL, 30);
}

/* All is well again: this must work. Return: whether it did. */
static bool recovers(struct run *run)
{
	for (unsigned i = 0; i < 2; i++) {
		ripc_group_leave(run->s[i], 9);
		if (ripc_group_join(run->s[i], 9, 60000))
			return false;
	}
	for (int tries = 0; tries < 20; tries++) {
		struct iovec item = {run->memory, 30000};
		struct ripc_message *m;

		if (ripc_send_long(run->s[0], RIG_ID(1), &item, 1, NULL, 5000))
			continue;
		while (!ripc_receive(run->s[1], &m, 5000)) {
			bool mine = m->is_long && m->items[0].iov_len == 30000;

			ripc_message_free(m);
			if (mine)
				return true;
		}
	}
	return false;
}

static void on_deadlock(void *arg, const char *text)
{
	shim.armed = false;
	ck_abort_msg("allocation %llu fails: %s", (unsigned long long)shim.nth, text);
}

/* Return: whether the nth allocation was reached. */
static bool run_once(unsigned k, uint64_t nth, bool lasting)
{
	struct ripc__sim_counters counters;
	struct ripc__sim_config config;
	struct ripc__hooks hooks;
	struct run run = {.memory = calloc(1, 64 * KIB)};
	const char *text;
	unsigned open = 0;

	ripc__sim_defaults(&config);
	if (configs[k].change)
		configs[k].change(&config);
	run.net = ripc__sim_create(test_seed(), &config, on_deadlock, NULL);
	ripc__sim_audit(run.net, check_sent);
	ripc__sim_hooks(run.net, &hooks);
	shim.count = shim.failed = 0;
	shim.nth = nth;
	shim.lasting = lasting;
	shim.armed = true;
	for (unsigned i = 0; i < 2; i++) {
		if (ripc__open_hooked(&run.ctx[i], configs[k].options, &hooks)) {
			CHECK(ripc_error_detail()[0]);
			run.ctx[i] = NULL;
			continue;
		}
		CHECK(!ripc__sim_attach(run.net, run.ctx[i]));
		if (ripc_service_register(run.ctx[i], RIG_ID(i), 0, &run.s[i])) {
			CHECK(ripc_error_detail()[0]);
			run.s[i] = NULL;
			continue;
		}
		open++;
	}
	for (unsigned i = 0; i < 2; i++)
		exchange(&run, i);
	shim.armed = false;
	if (open == 2)
		ck_assert_msg(recovers(&run), "allocation %llu fails: nothing works afterwards: %s",
			      (unsigned long long)nth, ripc_error_detail());
	for (unsigned i = 0; i < 2; i++)
		if (run.ctx[i])
			check_counters(run.ctx[i]);
	/* The end without memory, too. */
	shim.armed = shim.failed == 0 || lasting;
	for (unsigned i = 0; i < 2; i++) {
		if (run.s[i] && i)
			CHECK(!ripc_service_unregister(run.s[i]));
		if (run.ctx[i]) {
			struct ripc *ctx = run.ctx[i];

			CHECK(!ripc_close(ctx));
			ripc__sim_detach(run.net, ctx);
		}
	}
	shim.armed = false;
	while (ripc__sim_step(run.net, RIPC__NEVER))
		;
	ripc__sim_counters(run.net, &counters);
	ck_assert_msg(!counters.endpoints && !counters.regions && !counters.packets,
		      "allocation %llu fails: %llu endpoints, %llu regions, %llu packets are left",
		      (unsigned long long)nth, (unsigned long long)counters.endpoints,
		      (unsigned long long)counters.regions, (unsigned long long)counters.packets);
	ck_assert_msg(!ripc__sim_violations(run.net, &text), "allocation %llu fails: %s",
		      (unsigned long long)nth, text);
	ripc__sim_destroy(run.net);
	free(run.memory);
	return shim.failed > 0;
}

static void sweep(unsigned k, bool lasting)
{
	const char *only = getenv("RIPC_TEST_OOM");
	uint64_t n = 1;

	if (only) {
		run_once(k, strtoull(only, NULL, 0), lasting);
		return;
	}
	/* The scenario without a failure has some hundred allocations. */
	run_once(k, 0, false);
	ck_assert_uint_gt(shim.count, 200);
	while (run_once(k, n, lasting))
		n++;
	printf("configuration %u: each of %llu allocations failed\n", k, (unsigned long long)n - 1);
}

START_TEST(oom__one_allocation)
{
	sweep((unsigned)_i, false);
}
END_TEST

START_TEST(oom__every_allocation_from_there_on)
{
	sweep((unsigned)_i, true);
}
END_TEST

/* Results without memory for what the call needs beside its own objects. */
static bool starved(const struct function *f, int rc)
{
	static const struct {
		const char *name;
		int rc;
		bool lasting;
	} cases[] = {
		{"send_long", -ENOBUFS, false},   /* at the receiver */
		{"receive", -ETIMEDOUT, false},   /* a short message was dropped */
		{"group_join", -ETIMEDOUT, true}, /* this context cannot coordinate it */
		{"send_short", -EHOSTUNREACH, true}, {"send", -EHOSTUNREACH, true},
		{"send_long", -EHOSTUNREACH, true},  {"send_long", -EPIPE, true},
		{"call", -EHOSTUNREACH, true},       {"call", -ETIME, true},
	};

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (!strcmp(f->name, cases[i].name) && rc == cases[i].rc &&
		    (shim.lasting || !cases[i].lasting))
			return true;
	return false;
}

/* A destination, a group and a length that the context does not know yet. */
static void change_arguments(bool changed)
{
	if (!changed)
		return;
	a.dest = 4712;
	a.group = GROUP + 2;
	a.len = 100000;
}

/* Return: whether the nth allocation was reached. *rc: the result. */
static bool call_function(const struct function *f, bool changed, uint64_t nth, int *rc)
{
	struct state before, after;
	char dest[24];

	open_world(f);
	change_arguments(changed);
	snprintf(dest, sizeof(dest), " %llu", (unsigned long long)a.dest);
	before = state_of_caller();
	shim.count = shim.failed = 0;
	shim.nth = nth;
	shim.armed = true;
	ripc__fail(0, "%s", "");
	*rc = f->call();
	shim.armed = false;
	CHECK(!*rc || *rc == -EINPROGRESS || ripc_error_detail()[0]);
	CHECK(!*rc || !(f->has & DEST) || strstr(ripc_error_detail(), dest));
	after = state_of_caller();
	if (*rc == -ENOMEM) {
		ck_assert_uint_eq(before.services, after.services);
		ck_assert_uint_eq(before.requests, after.requests);
		ck_assert_uint_eq(before.messages, after.messages);
		ck_assert_uint_eq(before.completions, after.completions);
		ck_assert_uint_eq(before.regions, after.regions);
		ck_assert_uint_eq(before.windows, after.windows);
		ck_assert_uint_eq(before.returns, after.returns);
		if (!changed)
			ck_assert_int_eq(f->call(), f->rc);
	}
	close_world();
	return shim.failed;
}

/*
 * Each public function, also with a destination or a group of which nothing is known: one
 * allocation fails, or all from there on. The call succeeds or returns -ENOMEM, with a
 * reason. Then nothing is left of it, and it succeeds when it is repeated.
 */
START_TEST(oom__each_function)
{
	static const char *const need[] = {
		"service_register", "register_name", "service_list", "buf_alloc",
		"buf_alloc_for",    "buf_realloc",   "buf_register", "window_add",
		"route_lookup",     "send_short",    "send_long",    "send",
		"send_async",       "call",          "call_start",   "watch",
		"group_join",       "group_send"};
	bool seen[FUNCTIONS] = {false};
	int want, rc;

	for (int k = 0; k < 4 * FUNCTIONS; k++) {
		const struct function *f = &functions[k / 4];

		shim.lasting = k & 2;
		call_function(f, k & 1, 0, &want);
		for (uint64_t n = 1; call_function(f, k & 1, n, &rc); n++) {
			ck_assert_msg(rc == want || rc == -ENOMEM || starved(f, rc),
				      "%s, allocation %llu fails: %d instead of %d: %s", f->name,
				      (unsigned long long)n, rc, want, ripc_error_detail());
			seen[k / 4] |= rc == -ENOMEM;
		}
	}
	for (unsigned i = 0; i < sizeof(need) / sizeof(need[0]); i++)
		for (int k = 0; k < FUNCTIONS; k++)
			if (!strcmp(need[i], functions[k].name))
				ck_assert_msg(seen[k], "%s never lacks memory", need[i]);
}
END_TEST

/* References to three items of a message; each allocation fails in turn, which leaks nothing. */
START_TEST(oom__export_refs)
{
	struct ripc__memory kept = {0};
	struct ripc ctx = {.memory = &kept};
	struct ripc__lane_memory memory = {0};
	struct ripc__lane lane = {.ctx = &ctx, .memory = &memory};
	struct ripc__export_ref *items[3] = {NULL};
	struct ripc__export_refs refs = {0};
	struct ripc__region region = {0};

	ripc__list_init(&region.refs);
	for (unsigned nth = 1; nth <= 4; nth++) {
		unsigned begun = 0;

		memset(&shim, 0, sizeof(shim));
		shim.nth = nth;
		shim.armed = true;
		/* The references are inline, and a compiler takes malloc() not to read shim. */
		atomic_signal_fence(memory_order_seq_cst);
		for (unsigned i = 0; i < 3; i++)
			begun += ripc__export_ref_begin(&items[i], &refs, &lane, &region, 1, i, 10);
		atomic_signal_fence(memory_order_seq_cst);
		shim.armed = false;
		ck_assert_uint_eq(begun, nth <= 3 ? 2 : 3);
		ck_assert_uint_eq(refs.count, begun);
		ck_assert_uint_eq(memory.ref_bytes, 10 * begun);
		for (unsigned i = 0; i < 3; i++)
			ripc__export_ref_end(items[i]);
		ck_assert_uint_eq(refs.count, 0);
		ck_assert_uint_eq(memory.ref_bytes, 0);
		ck_assert(ripc__list_empty(&region.refs));
		/* They are kept for reuse. */
		ck_assert_uint_eq(kept.nfree_refs, begun);
		while (kept.nfree_refs)
			free(ripc__ref_alloc(&kept));
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("core/context/oom");
	TCase *tc = tcase_create("oom");

	test_seed();
	tcase_set_timeout(tc, 600);
	tcase_add_loop_test(tc, oom__one_allocation, 0, CONFIGS);
	tcase_add_loop_test(tc, oom__every_allocation_from_there_on, 0, CONFIGS);
	suite_add_tcase(suite, tc);
	tc = tcase_create("functions");
	tcase_add_test(tc, oom__each_function);
	tcase_add_test(tc, oom__export_refs);
	suite_add_tcase(suite, tc);
	return test_main("core/context/oom", suite);
}
