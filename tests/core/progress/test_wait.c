/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Waiting and leading. First a leader in virtual time: when it polls, sleeps and leaves. Then real
 * threads on the loopback: no thread sleeps for ever, and one always leads.
 */
#include "core/numbers.h"
#include "core/progress/context.h"
#include "core/progress/descriptors.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* A sanitizer makes every pass slower by as much. */
#define SLOWER 1
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#undef SLOWER
#define SLOWER 10
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
#undef SLOWER
#define SLOWER 10
#endif
#endif

static const char *const modes[] = {"wait=adaptive", "wait=poll", "wait=block"};

/* ---- one leader in virtual time ---- */

#define PASS_NS UINT64_C(1000)

/* A context without transports, whose passes and sleeps are counted and advance the time. */
struct model {
	struct ripc ctx;
	struct ripc__waitq q;
	uint64_t now_ns;
	uint64_t timer_ns;             /* each pass finds a timer so much later; 0: none */
	unsigned passes, partial;      /* in all; those that were partial */
	unsigned sleeps, before_sleep; /* sleeps; passes before the last one */
	uint64_t until_ns;             /* the limit of the last sleep */
	unsigned arrives;              /* the pass that finds a message; 0: none */
	bool wakes, message_wakes;     /* a descriptor, or the message, ends a sleep */
	unsigned missed;               /* so many sleeps would miss an event */
	unsigned receives;             /* payload of one message arrives until this pass */
};

static struct model *model; /* NULL: the functions below are the real ones */

uint64_t __real_ripc__now(struct ripc *ctx);
uint64_t __wrap_ripc__now(struct ripc *ctx);
uint64_t __wrap_ripc__now(struct ripc *ctx)
{
	return model ? model->now_ns : __real_ripc__now(ctx);
}

static void model_pass(void)
{
	model->now_ns += PASS_NS;
	model->ctx.next_timer_ns = model->timer_ns ? model->now_ns + model->timer_ns : RIPC__NEVER;
	if (++model->passes == model->arrives)
		ripc__wake(&model->ctx, &model->q);
}

bool __real_ripc__full_pass(struct ripc *ctx);
bool __wrap_ripc__full_pass(struct ripc *ctx);
bool __wrap_ripc__full_pass(struct ripc *ctx)
{
	if (!model)
		return __real_ripc__full_pass(ctx);
	model_pass();
	return false;
}

void __real_ripc__partial_pass(struct ripc *ctx);
void __wrap_ripc__partial_pass(struct ripc *ctx);
void __wrap_ripc__partial_pass(struct ripc *ctx)
{
	if (!model) {
		__real_ripc__partial_pass(ctx);
		return;
	}
	model->partial++;
	model_pass();
}

bool __real_ripc__transports_arm(struct ripc *ctx);
bool __wrap_ripc__transports_arm(struct ripc *ctx);
bool __wrap_ripc__transports_arm(struct ripc *ctx)
{
	if (!model)
		return __real_ripc__transports_arm(ctx);
	return model->missed && model->missed--;
}

void __real_ripc__descriptors_sleep(struct ripc *ctx, int epfd, uint64_t until_ns,
				    enum ripc__progress_event woke);
void __wrap_ripc__descriptors_sleep(struct ripc *ctx, int epfd, uint64_t until_ns,
				    enum ripc__progress_event woke);
void __wrap_ripc__descriptors_sleep(struct ripc *ctx, int epfd, uint64_t until_ns,
				    enum ripc__progress_event woke)
{
	if (!model) {
		__real_ripc__descriptors_sleep(ctx, epfd, until_ns, woke);
		return;
	}
	model->sleeps++;
	model->before_sleep = model->passes;
	model->until_ns = until_ns;
	if (model->wakes || model->message_wakes)
		model->now_ns += PASS_NS;
	else
		model->now_ns = until_ns;
	if (model->message_wakes)
		ripc__wake(ctx, &model->q);
	ripc__progress_step(ctx, woke, NULL);
	if (ripc__progress_state(&ctx->progress).kicked)
		ripc__progress_step(ctx, RIPC__PROGRESS_KICK_READ, NULL);
}

static void nothing(struct ripc *ctx)
{
	(void)ctx;
}

static void model_begin(struct model *m, enum ripc__wait_mode wait)
{
	static const struct ripc__progress_ops ops = {.idle = nothing};
	struct ripc__progress *p = &m->ctx.progress;

	memset(m, 0, sizeof(*m));
	m->now_ns = 1000 * RIPC__MS;
	m->ctx.ops = &ops;
	m->ctx.opt.wait = wait;
	m->ctx.next_timer_ns = RIPC__NEVER;
	p->spin_ns = 64 * PASS_NS;
	ripc__list_init(&p->followers);
	ripc__waitq_init(&m->q);
	p->epfd = epoll_create1(EPOLL_CLOEXEC);
	p->thread_epfd = epoll_create1(EPOLL_CLOEXEC);
	p->wakefd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	ck_assert(p->epfd >= 0 && p->thread_epfd >= 0 && p->wakefd >= 0);
	ck_assert_int_eq(epoll_ctl(p->thread_epfd, EPOLL_CTL_ADD, p->epfd,
				   &(struct epoll_event){.events = 0}),
			 0);
	model = m;
}

static void model_end(void)
{
	ripc__descriptors_close(&model->ctx);
	model = NULL;
}

/* Waits for ns at most. */
static int model_wait(uint64_t ns)
{
	int rc;

	model->passes = model->partial = model->sleeps = 0;
	ripc__lock(&model->ctx);
	rc = ripc__wait(&model->ctx, &model->q, model->now_ns + ns);
	ripc__unlock(&model->ctx);
	ck_assert_ptr_null(model->ctx.progress.leader);
	return rc;
}

START_TEST(lead__one_pass_before_sleep)
{
	struct model m;
	uint64_t end;

	model_begin(&m, RIPC__WAIT_BLOCK);
	end = m.now_ns + 10 * RIPC__MS;
	ck_assert_int_eq(model_wait(10 * RIPC__MS), -ETIMEDOUT);
	ck_assert_uint_eq(m.sleeps, 1);
	ck_assert_uint_eq(m.before_sleep, 1);
	ck_assert_uint_eq(m.until_ns, end);
	/* And one after it, before the time-out is reported. */
	ck_assert_uint_eq(m.passes, 2);
	ck_assert_uint_eq(m.partial, 0);
	model_end();
}
END_TEST

/* The caller has just made a full pass, and nothing has happened since. */
START_TEST(lead__no_second_pass_before_sleep)
{
	struct model m;

	model_begin(&m, RIPC__WAIT_BLOCK);
	m.ctx.polled = true;
	ck_assert_int_eq(model_wait(RIPC__MS), -ETIMEDOUT);
	ck_assert_uint_eq(m.sleeps, 1);
	ck_assert_uint_eq(m.before_sleep, 0);
	/* It holds for one wait only. */
	ck_assert_int_eq(model_wait(RIPC__MS), -ETIMEDOUT);
	ck_assert_uint_eq(m.before_sleep, 1);
	model_end();
}
END_TEST

/* A descriptor or a timer ends a sleep: one full pass, and the next sleep. */
START_TEST(lead__one_pass_between_sleeps)
{
	struct model m;

	model_begin(&m, RIPC__WAIT_BLOCK);
	m.timer_ns = RIPC__MS;
	ck_assert_int_eq(model_wait(100 * RIPC__MS), -ETIMEDOUT);
	ck_assert_uint_ge(m.sleeps, 90);
	ck_assert_uint_eq(m.passes, m.sleeps + 1);
	ck_assert_uint_eq(m.partial, 0);
	m.wakes = true;
	m.arrives = 500;
	ck_assert_int_eq(model_wait(100 * RIPC__MS), 0);
	ck_assert_uint_eq(m.passes, 500);
	ck_assert_uint_eq(m.sleeps, 499);
	model_end();
}
END_TEST

/* An event that a sleep would miss needs another pass. */
START_TEST(lead__pass_for_missed_event)
{
	struct model m;

	model_begin(&m, RIPC__WAIT_BLOCK);
	m.missed = 3;
	ck_assert_int_eq(model_wait(RIPC__MS), -ETIMEDOUT);
	ck_assert_uint_eq(m.sleeps, 1);
	ck_assert_uint_eq(m.before_sleep, 4);
	model_end();
}
END_TEST

START_TEST(lead__message_ends_wait)
{
	struct model m;

	model_begin(&m, (enum ripc__wait_mode)_i);
	m.arrives = 1;
	ck_assert_int_eq(model_wait(RIPC__MS), 0);
	ck_assert_uint_eq(m.passes, 1);
	ck_assert_uint_eq(m.sleeps, 0);
	/* A message that another thread received. */
	m.arrives = 0;
	m.message_wakes = true;
	if (_i != RIPC__WAIT_POLL) {
		ck_assert_int_eq(model_wait(RIPC__MS), 0);
		ck_assert_uint_eq(m.sleeps, 1);
		ck_assert_uint_eq(m.before_sleep, m.passes);
	}
	model_end();
}
END_TEST

START_TEST(lead__poll_never_sleeps)
{
	struct model m;

	model_begin(&m, RIPC__WAIT_POLL);
	ck_assert_int_eq(model_wait(1600 * PASS_NS), -ETIMEDOUT);
	ck_assert_uint_eq(m.sleeps, 0);
	/* One pass of 16 is a full one, and reads the clock. */
	ck_assert_uint_eq(m.passes, 1601);
	ck_assert_uint_eq(m.partial, 1500);
	model_end();
}
END_TEST

static bool model_receiving(struct ripc__transport *t)
{
	(void)t;
	return model->passes < model->receives;
}

/* A leader spins on while the payload of a message arrives. */
START_TEST(lead__no_sleep_within_message)
{
	static const struct ripc__transport_ops ops = {.receiving = model_receiving};
	struct model m;

	model_begin(&m, (enum ripc__wait_mode)_i);
	m.ctx.ntp = 1;
	m.ctx.tp[0].ops = &ops;
	m.ctx.tp[0].t = (struct ripc__transport *)&m;
	m.receives = 1000;
	ck_assert_int_eq(model_wait(10 * RIPC__MS), -ETIMEDOUT);
	ck_assert_uint_eq(m.sleeps, _i != RIPC__WAIT_POLL);
	if (_i == RIPC__WAIT_ADAPTIVE)
		ck_assert(m.before_sleep >= 1000 && m.before_sleep < 1100);
	if (_i == RIPC__WAIT_BLOCK)
		ck_assert_uint_eq(m.before_sleep, 1);
	model_end();
}
END_TEST

/* A leader that slept in vain spins half as long the next time, with a lower limit. */
START_TEST(lead__spin_adapts)
{
	struct model m;
	uint64_t longest;

	model_begin(&m, RIPC__WAIT_ADAPTIVE);
	m.arrives = 2;
	ck_assert_int_eq(model_wait(RIPC__MS), 0);
	longest = m.ctx.progress.spin_ns;
	m.arrives = 0;
	for (uint64_t spin = longest; spin > longest / 8; spin /= 2) {
		ck_assert_uint_eq(m.ctx.progress.spin_ns, spin);
		ck_assert_int_eq(model_wait(10 * RIPC__MS), -ETIMEDOUT);
		/* The clock is read in one pass of 16. */
		ck_assert_uint_ge(m.before_sleep, spin / PASS_NS);
		ck_assert_uint_le(m.before_sleep, spin / PASS_NS + 16);
	}
	for (unsigned i = 0; i < 20; i++)
		ck_assert_int_eq(model_wait(10 * RIPC__MS), -ETIMEDOUT);
	ck_assert_uint_gt(m.ctx.progress.spin_ns, 0);
	/* A message that comes soon makes it spin long again. */
	m.message_wakes = true;
	ck_assert_int_eq(model_wait(10 * RIPC__MS), 0);
	ck_assert_uint_eq(m.sleeps, 1);
	ck_assert_uint_eq(m.ctx.progress.spin_ns, longest);
	model_end();
}
END_TEST

/* The progress thread is in STANDBY, its descriptors are masked. */
static void model_standby(void)
{
	union ripc__progress_word w = {.state = {.thread = RIPC__THREAD_STANDBY}};

	atomic_store(&model->ctx.progress.word, w.bits);
	model->ctx.progress.masked = true;
}

static enum ripc__thread_state thread_state(void)
{
	return (enum ripc__thread_state)ripc__progress_state(&model->ctx.progress).thread;
}

/*
 * A sleeping leader is kicked for a pass, but leaves without one, as its own message has arrived.
 * Then the progress thread must not lead by RESUME: it has to make the pass.
 */
START_TEST(resume__polls_first)
{
	struct model m;

	model_begin(&m, RIPC__WAIT_BLOCK);
	model_standby();
	m.wakes = true;
	m.arrives = 2;
	ck_assert_int_eq(model_wait(RIPC__MS), 0);
	ck_assert_uint_eq(m.sleeps, 1);
	/* It has made a pass since: the thread leads without being woken. */
	ck_assert_int_eq(thread_state(), RIPC__THREAD_BLOCKED);
	ck_assert(!m.ctx.progress.masked);
	ck_assert(!ripc__progress_state(&m.ctx.progress).kicked);
	m.now_ns += 2 * RIPC__RESUME_PERIOD_NS;
	model_standby();
	m.message_wakes = true;
	m.arrives = 0;
	ck_assert_int_eq(model_wait(RIPC__MS), 0);
	ck_assert_uint_eq(m.sleeps, 1);
	ck_assert_uint_eq(m.passes, 1);
	ck_assert_int_eq(thread_state(), RIPC__THREAD_WAKING);
	ck_assert(!m.ctx.progress.masked);
	ck_assert(ripc__progress_state(&m.ctx.progress).kicked);
	model_end();
}
END_TEST

/* A thread that leaves often lets the progress thread tick: no masking for each message. */
START_TEST(resume__rate_limited)
{
	struct model m;
	unsigned resumed = 0;

	model_begin(&m, RIPC__WAIT_BLOCK);
	m.wakes = true;
	m.arrives = 2;
	for (unsigned i = 0; i < 300; i++) {
		m.now_ns += RIPC__RESUME_PERIOD_NS / 10;
		model_standby();
		ck_assert_int_eq(model_wait(RIPC__MS), 0);
		resumed += thread_state() == RIPC__THREAD_BLOCKED;
	}
	ck_assert_uint_le(resumed, 1);
	m.now_ns += RIPC__RESUME_PERIOD_NS;
	model_standby();
	ck_assert_int_eq(model_wait(RIPC__MS), 0);
	ck_assert_int_eq(thread_state(), RIPC__THREAD_BLOCKED);
	model_end();
}
END_TEST

/* A leader that found its message without sleeping does not wake the progress thread either. */
START_TEST(resume__without_sleep)
{
	struct model m;

	model_begin(&m, RIPC__WAIT_BLOCK);
	model_standby();
	m.arrives = 1;
	ck_assert_int_eq(model_wait(RIPC__MS), 0);
	ck_assert_uint_eq(m.sleeps, 0);
	ck_assert_int_eq(thread_state(), RIPC__THREAD_BLOCKED);
	ck_assert(!ripc__progress_state(&m.ctx.progress).kicked);
	model_end();
}
END_TEST

/*
 * A call with timeout 0 found nothing, and the application is about to sleep on a descriptor: the
 * progress thread gets the lead. After some such calls in a row the application spins, and keeps
 * it.
 */
START_TEST(pass_leadership__not_while_spinning)
{
	unsigned empty = 0, passed = 0;
	struct model m;

	model_begin(&m, RIPC__WAIT_BLOCK);
	for (unsigned i = 0; i < 10; i++) {
		model_standby();
		ripc__lock(&m.ctx);
		ripc__poll_pass_leadership(&m.ctx, &empty);
		ripc__unlock(&m.ctx);
		passed += thread_state() == RIPC__THREAD_WAKING;
		ck_assert_uint_eq(empty, passed);
		if (ripc__progress_state(&m.ctx.progress).kicked)
			ck_assert_int_eq(read(m.ctx.progress.wakefd, &(uint64_t){0}, 8), 8);
	}
	ck_assert_uint_gt(passed, 1);
	ck_assert_uint_lt(passed, 10);
	/* The descriptor became readable: it slept. */
	empty = 0;
	model_standby();
	ripc__lock(&m.ctx);
	ripc__poll_pass_leadership(&m.ctx, &empty);
	ripc__unlock(&m.ctx);
	ck_assert_int_eq(thread_state(), RIPC__THREAD_WAKING);
	model_end();
}
END_TEST

/* While the progress thread leads, an application that sleeps on a descriptor does not poll. */
START_TEST(poll_before_sleep__thread_leads)
{
	union ripc__progress_word leads = {
		.state = {.leader = RIPC__LEADER_THREAD, .thread = RIPC__THREAD_BLOCKED}};
	unsigned empty = 0;
	struct model m;

	model_begin(&m, RIPC__WAIT_BLOCK);
	ripc__lock(&m.ctx);
	/* Nobody leads: it polls. */
	ripc__poll_before_sleep(&m.ctx, &empty);
	ck_assert_uint_eq(m.passes, 1);
	atomic_store(&m.ctx.progress.word, leads.bits);
	ripc__poll_before_sleep(&m.ctx, &empty);
	ck_assert_uint_eq(m.passes, 1);
	m.ctx.nowait_ns = m.now_ns;
	/* It spins: after enough calls in a row that found nothing it polls in any case. */
	for (empty = 0; empty < 100 && m.passes == 1; empty++)
		ripc__poll_before_sleep(&m.ctx, &empty);
	ck_assert_uint_eq(m.passes, 2);
	ck_assert_uint_gt(empty, 1);
	ripc__unlock(&m.ctx);
	model_end();
}
END_TEST

/* ---- tokens that go round ---- */

#define RING    6
#define RING_MS 15000 /* a machine that is busy otherwise passes fewer */
#define RING_STOP \
	(UINT64_C(1) << 63) /* ends the ring; the low bits count the threads it has yet to reach */

/* Threads in a ring, each waiting on a service of its own, pass a token on. */
struct ring {
	struct ripc *ctx[2];
	struct ripc_service *s[RING];
	uint64_t passes, until_ms; /* of one token, whichever comes first */
	int rc[RING];
};

struct member {
	struct ring *ring;
	unsigned index;
};

static void *member_main(void *arg)
{
	struct member *me = arg;
	struct ring *ring = me->ring;
	uint64_t number = 0;
	int rc;

	while (!(rc = receive_number(ring->s[me->index], &number, PATIENCE_MS))) {
		uint64_t next = number + 1;

		if (number & RING_STOP)
			next = number - 1;
		else if (number >= ring->passes || now_ms() >= ring->until_ms)
			next = RING_STOP | (RING - 2);
		/* The last thread passes nothing on. */
		if (number != RING_STOP)
			rc = send_number(ring->s[me->index], ID((me->index + 1) % RING), next);
		if (rc || next & RING_STOP || number == RING_STOP)
			break;
	}
	ring->rc[me->index] = rc;
	return NULL;
}

static void run_ring(const char *options, unsigned contexts, uint64_t passes)
{
	struct ring ring = {.passes = passes, .until_ms = now_ms() + RING_MS};
	struct member members[RING];
	pthread_t threads[RING];

	for (unsigned i = 0; i < contexts; i++)
		OK(ripc_open(&ring.ctx[i], options));
	for (unsigned i = 0; i < RING; i++) {
		OK(ripc_service_register(ring.ctx[i % contexts], ID(i), 0, &ring.s[i]));
		members[i] = (struct member){&ring, i};
	}
	for (unsigned i = 0; i < RING; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, member_main, &members[i]), 0);
	OK(send_number(ring.s[0], ID(1), 1));
	for (unsigned i = 0; i < RING; i++)
		pthread_join(threads[i], NULL);
	for (unsigned i = 0; i < RING; i++)
		ck_assert_msg(!ring.rc[i], "thread %u: %s", i, ripc_strerror(ring.rc[i]));
	for (unsigned i = 0; i < contexts; i++)
		OK(ripc_close(ring.ctx[i]));
}

/* With wait=poll no leader sleeps: fewer passes show that it yields the lock. */
static unsigned scaled_passes(int mode)
{
	return strcmp(modes[mode], "wait=poll") ? SLOWER : 10 * SLOWER;
}

/* A wake-up that is lost in one of 10^5 shows as a thread that waits for a minute. */
START_TEST(wait__no_wake_up_is_lost_in_one_context)
{
	run_ring(modes[_i], 1, 100000 / scaled_passes(_i));
}
END_TEST

START_TEST(wait__no_wake_up_is_lost_between_contexts)
{
	run_ring(modes[_i], 2, 20000 / scaled_passes(_i));
}
END_TEST

/* ---- leaders that leave ---- */

/* The first thread leads until its timeout; then the second one has to lead. */
START_TEST(pass_leadership__leader_timeout)
{
	struct ripc *a, *b;
	struct ripc_service *from, *s[2];

	OK(ripc_open(&a, modes[_i]));
	OK(ripc_open(&b, modes[_i]));
	OK(ripc_service_register(a, ID(0), 0, &from));
	OK(ripc_service_register(b, ID(1), 0, &s[0]));
	OK(ripc_service_register(b, ID(2), 0, &s[1]));
	for (int i = 0; i < 20; i++) {
		struct waiter w[2] = {{.s = s[0], .timeout_ms = 5 + i},
				      {.s = s[1], .timeout_ms = PATIENCE_MS}};
		pthread_t threads[2];

		pthread_create(&threads[0], NULL, waiter_main, &w[0]);
		AWAIT(ripc__progress_state(&b->progress).leader >= RIPC__LEADER_SPINNING ||
		      w[0].done);
		pthread_create(&threads[1], NULL, waiter_main, &w[1]);
		pthread_join(threads[0], NULL);
		ck_assert_int_eq(w[0].rc, -ETIMEDOUT);
		OK(send_number(from, ID(2), (uint64_t)i));
		pthread_join(threads[1], NULL);
		OK(w[1].rc);
		ck_assert_uint_eq(w[1].number, (uint64_t)i);
	}
	OK(ripc_close(a));
	OK(ripc_close(b));
}
END_TEST

START_TEST(wait__each_thread_own_timeout)
{
	enum { N = 8 };
	struct ripc *ctx;
	struct waiter w[N];
	pthread_t threads[N];

	OK(ripc_open(&ctx, modes[_i]));
	for (unsigned i = 0; i < N; i++) {
		w[i] = (struct waiter){.timeout_ms = (int)(20 + 30 * ((i * 5) % N))};
		OK(ripc_service_register(ctx, ID(i), 0, &w[i].s));
		pthread_create(&threads[i], NULL, waiter_main, &w[i]);
	}
	for (unsigned i = 0; i < N; i++) {
		pthread_join(threads[i], NULL);
		ck_assert_int_eq(w[i].rc, -ETIMEDOUT);
		/* Not before its time; when after it, depends on the machine. */
		ck_assert_uint_ge(w[i].took_ms + 1, (uint64_t)w[i].timeout_ms);
	}
	OK(ripc_close(ctx));
}
END_TEST

START_TEST(wait__several_on_one_service)
{
	enum { N = 6 };
	struct ripc *ctx;
	struct ripc_service *s, *from;
	struct waiter w[N];
	pthread_t threads[N];
	uint64_t seen = 0;

	OK(ripc_open(&ctx, modes[_i]));
	OK(ripc_service_register(ctx, ID(0), 0, &s));
	OK(ripc_service_register(ctx, ID(1), 0, &from));
	for (unsigned i = 0; i < N; i++) {
		w[i] = (struct waiter){.s = s, .timeout_ms = PATIENCE_MS};
		pthread_create(&threads[i], NULL, waiter_main, &w[i]);
	}
	for (uint64_t i = 0; i < N; i++)
		OK(send_number(from, ID(0), i));
	for (unsigned i = 0; i < N; i++) {
		pthread_join(threads[i], NULL);
		OK(w[i].rc);
		seen |= UINT64_C(1) << w[i].number;
	}
	ck_assert_uint_eq(seen, (1u << N) - 1);
	OK(ripc_close(ctx));
}
END_TEST

static unsigned waiting(struct ripc *ctx)
{
	unsigned n;

	ripc__lock(ctx);
	n = ctx->waiting;
	ripc__unlock(ctx);
	return n;
}

START_TEST(wake_all__close_ends_waits)
{
	enum { N = 6 };
	struct ripc *ctx;
	struct waiter w[N];
	pthread_t threads[N];

	OK(ripc_open(&ctx, modes[_i]));
	for (unsigned i = 0; i < N; i++) {
		w[i] = (struct waiter){.timeout_ms = -1};
		OK(ripc_service_register(ctx, ID(i), 0, &w[i].s));
		pthread_create(&threads[i], NULL, waiter_main, &w[i]);
	}
	AWAIT(waiting(ctx) == N);
	OK(ripc_close(ctx));
	for (unsigned i = 0; i < N; i++) {
		pthread_join(threads[i], NULL);
		ck_assert_int_eq(w[i].rc, -ESHUTDOWN);
	}
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("core/progress/wait");
	TCase *tc = tcase_create("lead");

	test_seed();
	tcase_add_test(tc, lead__one_pass_before_sleep);
	tcase_add_test(tc, lead__no_second_pass_before_sleep);
	tcase_add_test(tc, lead__one_pass_between_sleeps);
	tcase_add_test(tc, lead__pass_for_missed_event);
	tcase_add_loop_test(tc, lead__message_ends_wait, 0, 3);
	tcase_add_test(tc, lead__poll_never_sleeps);
	tcase_add_loop_test(tc, lead__no_sleep_within_message, 0, 3);
	tcase_add_test(tc, lead__spin_adapts);
	tcase_add_test(tc, resume__polls_first);
	tcase_add_test(tc, resume__rate_limited);
	tcase_add_test(tc, resume__without_sleep);
	tcase_add_test(tc, pass_leadership__not_while_spinning);
	tcase_add_test(tc, poll_before_sleep__thread_leads);
	suite_add_tcase(suite, tc);
	tc = tcase_create("wait");
	tcase_add_checked_fixture(tc, numbers_setup, NULL);
	tcase_set_timeout(tc, 600);
	tcase_add_loop_test(tc, wait__no_wake_up_is_lost_in_one_context, 0, 3);
	tcase_add_loop_test(tc, wait__no_wake_up_is_lost_between_contexts, 0, 3);
	tcase_add_loop_test(tc, pass_leadership__leader_timeout, 0, 3);
	tcase_add_loop_test(tc, wait__each_thread_own_timeout, 0, 3);
	tcase_add_loop_test(tc, wait__several_on_one_service, 0, 3);
	tcase_add_loop_test(tc, wake_all__close_ends_waits, 0, 3);
	suite_add_tcase(suite, tc);
	return test_main("core/progress/wait", suite);
}
