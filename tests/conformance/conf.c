/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The environment of the conformance cases. */
#define _GNU_SOURCE
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define CONF_TSAN 1
#endif
#endif
#ifdef __SANITIZE_THREAD__
#define CONF_TSAN 1
#endif
#ifndef CONF_TSAN
#define CONF_TSAN 0
#endif

#include "conf.h"

#include "core/sim/world.h"
#include "transport/sim/sim.h"

#include <dirent.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <time.h>
#include <unistd.h>

char conf_label[256];

const struct conf_case *const conf_all[] = {
	conf_message, conf_fields,  conf_buffer, conf_target, conf_flow,  conf_request,
	conf_life,    conf_api,     conf_peer,   conf_fault,  conf_death, conf_hostile,
	conf_thread,  conf_process, conf_group,  conf_call,   NULL};

/* The same, as names: CK_INCLUDE_TAGS chooses by these, too. */
static const char *const tags[] = {"message", "fields",  "buffer", "target", "flow",  "request",
				   "life",    "api",     "peer",   "fault",  "death", "hostile",
				   "thread",  "process", "group",  "call"};

_Static_assert(sizeof(tags) / sizeof(tags[0]) + 1 == sizeof(conf_all) / sizeof(conf_all[0]),
	       "a tag for each list of cases");

void conf_set_label(const struct conf *c, const char *name)
{
	snprintf(conf_label, sizeof(conf_label),
		 "RIPC_TEST_CASE=%s%s%s RIPC_TEST_SEED=0x%llx RIPC_TEST_SEEDS=1", name,
		 c->config[0] ? " RIPC_TEST_CONFIG=" : "", c->config, (unsigned long long)c->seed);
}

void conf_fail(const char *file, int line, const char *fmt, ...)
{
	char text[1600];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	ck_abort_msg("%s: %s:%d: %s", conf_label, file, line, text);
	abort(); /* not reached: for the compiler */
}

/* ---- The world ---- */

struct ripc *conf_open_with(struct conf *c, const char *more_options)
{
	struct ripc *ctx = NULL;
	char options[512];

	CHECK(c->nctx < CONF_CONTEXTS_MAX, "too many contexts");
	snprintf(options, sizeof(options), "%s %s %s", c->options,
		 c->extra_options[c->nopened % 2] ? c->extra_options[c->nopened % 2] : "",
		 more_options);
	c->nopened++;
	if (c->net) {
		struct ripc__hooks hooks;

		ripc__sim_hooks(c->net, &hooks);
		EXPECT_OK(ripc__open_hooked(&ctx, options, &hooks));
		EXPECT_OK(ripc__sim_attach(c->net, ctx));
	} else {
		EXPECT_OK(ripc_open(&ctx, options));
	}
	CHECK(ctx, "no context");
	c->ctx[c->nctx++] = ctx;
	return ctx;
}

struct ripc *conf_open(struct conf *c)
{
	return conf_open_with(c, "");
}

void conf_remove(struct conf *c, struct ripc *ctx)
{
	for (unsigned i = 0; i < c->nctx; i++)
		if (c->ctx[i] == ctx) {
			c->ctx[i] = c->ctx[--c->nctx];
			return;
		}
	FAIL("not a context of this case");
}

void conf_close(struct conf *c, struct ripc *ctx)
{
	conf_remove(c, ctx);
	EXPECT_OK(ripc_close(ctx));
	if (c->net)
		ripc__sim_detach(c->net, ctx);
}

void conf_close_all(struct conf *c)
{
	while (c->nctx)
		conf_close(c, c->ctx[conf_random(c, c->nctx)]);
}

void conf_run(struct conf *c, unsigned ms)
{
	struct timespec ts = {ms / 1000, (long)(ms % 1000) * 1000000};

	if (c->net)
		ripc__sim_run(c->net, ms * UINT64_C(1000000));
	else
		nanosleep(&ts, NULL);
}

uint64_t conf_random(struct conf *c, uint64_t below)
{
	uint64_t v = test_random(&c->rng);

	return below ? v % below : v;
}

uint64_t conf_id(struct conf *c)
{
	return 1 + test_random(&c->rng) % (RIPC_ID_LIMIT - 1);
}

struct ripc_service *conf_register(struct conf *c, struct ripc *ctx, uint64_t id)
{
	struct ripc_service *service = NULL;

	EXPECT_OK(ripc_service_register(ctx, id, 0, &service));
	CHECK(service, "no service");
	return service;
}

void conf_pair(struct conf *c, struct conf_pair *p)
{
	p->a = conf_open(c);
	p->b = c->same ? p->a : conf_open(c);
	p->ida = conf_id(c);
	p->idb = conf_id(c);
	p->sa = conf_register(c, p->a, p->ida);
	p->sb = conf_register(c, p->b, p->idb);
}

struct conf_pair conf_pair_other(struct conf *c, const struct conf_pair *p)
{
	struct conf_pair q = *p;

	q.b = conf_open(c);
	q.idb = conf_id(c);
	q.sb = conf_register(c, q.b, q.idb);
	return q;
}

/* ---- Contents ---- */

void *conf_mem_alloc(struct conf *c, struct ripc *ctx, enum conf_memory kind, size_t len)
{
	void *p;

	len += !len;
	if (kind == CONF_ALLOCATED) {
		p = ripc_buf_alloc(ctx, len);
		CHECK(p, "%zu bytes: %s", len, ripc_error_detail());
		return p;
	}
	p = malloc(len);
	CHECK(p, "out of memory");
	if (kind == CONF_REGISTERED)
		EXPECT_OK(ripc_buf_register(ctx, p, len));
	return p;
}

void conf_mem_free(struct conf *c, struct ripc *ctx, enum conf_memory kind, void *p)
{
	if (kind == CONF_ALLOCATED) {
		EXPECT_OK(ripc_buf_free(ctx, p));
		return;
	}
	if (kind == CONF_REGISTERED)
		EXPECT_OK(ripc_buf_unregister(ctx, p));
	free(p);
}

static uint64_t word(uint64_t tag, size_t i)
{
	uint64_t z = (tag + 1) * UINT64_C(0x9e3779b97f4a7c15) + i * UINT64_C(0xbf58476d1ce4e5b9);

	return z ^ (z >> 29);
}

/* Whole words without a call of memcpy() or memcmp(): many tests spend most of their time here. */
void conf_fill(void *buf, size_t len, uint64_t tag)
{
	uint8_t *p = buf;
	size_t i;
	uint64_t w;

	for (i = 0; i < len / 8; i++) {
		w = word(tag, i);
		memcpy(p + i * 8, &w, sizeof(w));
	}
	w = word(tag, i);
	if (len % 8)
		memcpy(p + i * 8, &w, len % 8);
}

void conf_verify(const void *buf, size_t len, uint64_t tag, const char *what)
{
	const uint8_t *p = buf;
	uint64_t w, found;
	bool same = true;
	size_t i;

	for (i = 0; i < len / 8; i++) {
		memcpy(&found, p + i * 8, sizeof(found));
		same = found == word(tag, i);
		if (!same)
			break;
	}
	if (same && len % 8) {
		w = word(tag, i);
		same = !memcmp(p + i * 8, &w, len % 8);
	}
	if (!same)
		FAIL("%s: wrong contents from byte %zu of %zu (tag %llu)", what, i * 8, len,
		     (unsigned long long)tag);
}

struct conf_plan conf_plan_one(size_t len, uint64_t tag)
{
	return (struct conf_plan){.nitems = 1, .len = {len}, .tag = tag};
}

void conf_plan_random(struct conf *c, struct conf_plan *plan, unsigned nitems, size_t total)
{
	plan->nitems = nitems;
	plan->tag = conf_random(c, 1u << 30);
	for (unsigned i = 0; i < nitems; i++) {
		size_t most = total / (nitems - i);

		plan->len[i] = conf_random(c, 3) ? (size_t)conf_random(c, most + 1) : 0;
		total -= plan->len[i];
	}
}

size_t conf_plan_total(const struct conf_plan *plan)
{
	size_t total = 0;

	for (unsigned i = 0; i < plan->nitems; i++)
		total += plan->len[i];
	return total;
}

void *conf_build(struct conf *c, struct ripc *ctx, enum conf_memory kind,
		 const struct conf_plan *plan, struct iovec *items)
{
	uint8_t *base = conf_mem_alloc(c, ctx, kind, conf_plan_total(plan)), *p = base;

	for (unsigned i = 0; i < plan->nitems; i++) {
		conf_fill(p, plan->len[i], plan->tag + i);
		/* The base of an empty item means nothing: it may be anything. */
		items[i].iov_base = plan->len[i] ? p : NULL;
		items[i].iov_len = plan->len[i];
		p += plan->len[i];
	}
	return base;
}

struct ripc_message *conf_receive(struct conf *c, struct ripc_service *service)
{
	struct ripc_message *m = NULL;

	EXPECT_OK(ripc_receive(service, &m, c->patience_ms));
	CHECK(m, "no message");
	return m;
}

void conf_check_message(const struct ripc_message *m, const struct conf_plan *plan, uint64_t source,
			uint64_t dest, bool is_long)
{
	EXPECT_EQ(source, m->source);
	EXPECT_EQ(dest, m->dest);
	EXPECT_EQ(is_long, m->is_long);
	EXPECT_EQ(plan->nitems, m->nitems);
	for (unsigned i = 0; i < plan->nitems; i++) {
		EXPECT_EQ(plan->len[i], m->items[i].iov_len);
		conf_verify(m->items[i].iov_base, plan->len[i], plan->tag + i, "item");
		if (!is_long)
			EXPECT_EQ(RIPC_IN_RECEIVE_BUFFER, m->placement[i]);
		else if (plan->len[i])
			CHECK(m->placement[i] >= RIPC_IN_RECEIVE_BUFFER &&
				      m->placement[i] <= RIPC_IN_SENDER_MEMORY,
			      "%u", m->placement[i]);
		if (plan->len[i] && m->placement[i] == RIPC_IN_POOL)
			EXPECT_EQ(0, (uintptr_t)m->items[i].iov_base % 64);
	}
}

void conf_expect(struct conf *c, struct ripc_service *service, const struct conf_plan *plan,
		 uint64_t source, bool is_long)
{
	struct ripc_message *m = conf_receive(c, service);

	conf_check_message(m, plan, source, ripc_service_id(service), is_long);
	ripc_message_free(m);
}

void conf_expect_none(struct conf *c, struct ripc_service *service)
{
	struct ripc_message *m = NULL;

	EXPECT_RC(-EAGAIN, ripc_receive(service, &m, 0));
	EXPECT_RC(-ETIMEDOUT, ripc_receive(service, &m, 20));
}

static int send_one(struct conf *c, bool is_long, struct ripc_service *from, uint64_t dest,
		    size_t len, uint64_t tag, int timeout_ms)
{
	struct iovec iov = {malloc(len + !len), len};
	int rc;

	CHECK(iov.iov_base, "out of memory");
	conf_fill(iov.iov_base, len, tag);
	rc = is_long ? ripc_send_long(from, dest, &iov, 1, NULL, timeout_ms)
		     : ripc_send_short(from, dest, &iov, 1, NULL, timeout_ms);
	/* Ours again in every case. */
	memset(iov.iov_base, 0x5a, len);
	free(iov.iov_base);
	return rc;
}

int conf_send_short(struct conf *c, struct ripc_service *from, uint64_t dest, size_t len,
		    uint64_t tag, int timeout_ms)
{
	return send_one(c, false, from, dest, len, tag, timeout_ms);
}

int conf_send_long(struct conf *c, struct ripc_service *from, uint64_t dest, size_t len,
		   uint64_t tag, int timeout_ms)
{
	return send_one(c, true, from, dest, len, tag, timeout_ms);
}

void conf_expect_gone(struct conf *c, struct ripc_service *from, uint64_t dest)
{
	int rc = -ETIMEDOUT;

	/* Else it was sent to the one that is gone, before that was known. */
	for (int waited = 0; (rc == -ETIMEDOUT || rc == -EPIPE) && waited < c->patience_ms;
	     waited += CONF_NO_ANSWER_MS)
		rc = conf_send_long(c, from, dest, 10, 1, CONF_NO_ANSWER_MS);
	EXPECT_ERROR(-EHOSTUNREACH, rc);
}

static void exchange_short(struct conf *c, struct ripc_service *from, struct ripc_service *to)
{
	uint64_t tag = conf_random(c, 1000);
	struct ripc_message *m = NULL;
	struct conf_plan plan = conf_plan_one(40, tag);

	/* Lost ones are sent again. */
	for (int i = 0; i < 100 && !m; i++) {
		EXPECT_OK(conf_send_short(c, from, ripc_service_id(to), 40, tag, c->patience_ms));
		if (c->reliable)
			EXPECT_OK(ripc_receive(to, &m, c->patience_ms));
		else
			ripc_receive(to, &m, 50);
	}
	CHECK(m, "100 short messages were lost");
	conf_check_message(m, &plan, ripc_service_id(from), ripc_service_id(to), false);
	ripc_message_free(m);
	/* A late one of those sent again. */
	while (!c->reliable && !ripc_receive(to, &m, 50))
		ripc_message_free(m);
}

void conf_exchange(struct conf *c, struct conf_pair *p)
{
	struct conf_plan plan;

	exchange_short(c, p->sa, p->sb);
	exchange_short(c, p->sb, p->sa);
	plan = conf_plan_one(10000, conf_random(c, 1000));
	EXPECT_OK(conf_send_long(c, p->sa, p->idb, 10000, plan.tag, c->patience_ms));
	conf_expect(c, p->sb, &plan, p->ida, true);
	EXPECT_OK(conf_send_long(c, p->sb, p->ida, 10000, plan.tag, c->patience_ms));
	conf_expect(c, p->sa, &plan, p->idb, true);
}

void conf_await_stat(struct conf *c, struct ripc *ctx, size_t offset, uint64_t n, const char *name)
{
	struct ripc_stats stats = {.size = sizeof(stats)};
	uint64_t have = 0;

	for (int waited = 0; waited <= c->patience_ms; waited += 5) {
		EXPECT_OK(ripc_context_stats(ctx, &stats));
		memcpy(&have, (const char *)&stats + offset, sizeof(have));
		if (have == n)
			return;
		conf_run(c, 5);
	}
	FAIL("%s stays %llu, not %llu", name, (unsigned long long)have, (unsigned long long)n);
}

/* ---- Programs ---- */

bool conf_can_run(const struct conf *c, const struct conf_case *k)
{
	return !((k->needs & CONF_TWO_CONTEXTS && c->same) ||
		 (k->needs & CONF_RELIABLE && !c->reliable) || (k->needs & CONF_SIM && !c->net) ||
		 (k->needs & CONF_REAL && c->net) || (k->needs & CONF_CREDITS && c->datagram) ||
		 (!(k->needs & CONF_NO_MEMORY) && c->no_memory));
}

unsigned conf_count_dir(const char *dir)
{
	DIR *d = opendir(dir);
	unsigned n = 0;

	CHECK(d, "%s", dir);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

void conf_await_threads(unsigned n)
{
	uint64_t end = 0;

	while (conf_count_dir("/proc/self/task") != n && test_pause(&end, 1000))
		;
}

void conf_run_case(struct conf *c, const struct conf_case *k)
{
	unsigned fds = conf_count_dir("/proc/self/fd"), threads = conf_count_dir("/proc/self/task");

	struct timespec start, end;

	c->rng = c->seed;
	c->nctx = 0;
	clock_gettime(CLOCK_MONOTONIC, &start);
	k->run(c);
	conf_close_all(c);
	clock_gettime(CLOCK_MONOTONIC, &end);
	if (getenv("RIPC_TEST_VERBOSE"))
		printf("%s %s: %.3f s\n", k->name, c->config,
		       (double)(end.tv_sec - start.tv_sec) +
			       (double)(end.tv_nsec - start.tv_nsec) / 1e9);
	EXPECT_EQ(fds, conf_count_dir("/proc/self/fd"));
	if (!CONF_TSAN)
		conf_await_threads(threads);
	/* The thread sanitizer has a thread of its own, which comes when it likes. */
	if (!CONF_TSAN)
		EXPECT_EQ(threads, conf_count_dir("/proc/self/task"));
}

static const struct conf_case *chosen[512];
static int nchosen;

const struct conf_case *conf_find(int index)
{
	return chosen[index];
}

/* A crash is repeated with the label too. */
static void crashed(int signo)
{
	ssize_t n = write(2, conf_label, strlen(conf_label));

	n += write(2, ": crashed\n", 10);
	(void)n;
	signal(signo, SIG_DFL);
	raise(signo);
}

static void child_died(void)
{
	ssize_t n = write(2, conf_label, strlen(conf_label));

	n += write(2, ": stopped by a sanitizer\n", 25);
	(void)n;
}

void __sanitizer_set_death_callback(void (*callback)(void)) __attribute__((weak));

Suite *conf_suite(const char *name, const TTest *run, bool (*wanted)(const struct conf_case *k),
		  double timeout_s)
{
	Suite *suite = suite_create(name);

	if (__sanitizer_set_death_callback) {
		__sanitizer_set_death_callback(child_died);
	} else {
		signal(SIGSEGV, crashed);
		signal(SIGBUS, crashed);
		signal(SIGABRT, crashed);
	}
	for (int i = 0; conf_all[i]; i++)
		for (const struct conf_case *k = conf_all[i]; k->name; k++) {
			TCase *tc;

			if (!wanted(k) || nchosen == 512)
				continue;
			tc = tcase_create(k->name);
			tcase_set_timeout(tc, timeout_s);
			tcase_set_tags(tc, tags[i]);
			tcase_add_loop_test(tc, run, nchosen, nchosen + 1);
			suite_add_tcase(suite, tc);
			chosen[nchosen++] = k;
		}
	return suite;
}
