/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A leader in virtual time: when it polls, sleeps and leaves, and how it passes leadership.
 * test_deadline.c has the times, test_wait_threads.c threads that wait.
 */
#include "core/progress/context.h"
#include "core/progress/descriptors.h"
#include "harness.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

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
	unsigned kicks;                /* sleeps that a wake-up of the leader ended */
	unsigned missed;               /* so many sleeps would miss an event */
	bool requests;                 /* another thread ends a sleep as well */
	unsigned polls, own;           /* polls of the waiter; the one that finds its message */
	unsigned own_passes;           /* passes before the last poll */
	bool others;                   /* a poll of the waiter wakes the queue */
	unsigned receives;             /* payload of one message arrives until this pass */
};

static struct model *model;

uint64_t __wrap_ripc__now(struct ripc *ctx);
uint64_t __wrap_ripc__now(struct ripc *ctx)
{
	return model->now_ns;
}

static void model_pass(void)
{
	model->now_ns += PASS_NS;
	model->ctx.next_timer_ns = model->timer_ns ? model->now_ns + model->timer_ns : RIPC__NEVER;
	if (++model->passes == model->arrives)
		ripc__wake(&model->ctx, &model->q);
}

bool __wrap_ripc__full_pass(struct ripc *ctx);
bool __wrap_ripc__full_pass(struct ripc *ctx)
{
	model_pass();
	return false;
}

void __wrap_ripc__partial_pass(struct ripc *ctx);
void __wrap_ripc__partial_pass(struct ripc *ctx)
{
	model->partial++;
	model_pass();
}

bool __wrap_ripc__transports_arm(struct ripc *ctx);
bool __wrap_ripc__transports_arm(struct ripc *ctx)
{
	return model->missed && model->missed--;
}

bool __wrap_ripc__descriptors_sleep(struct ripc *ctx, int epfd, uint64_t until_ns,
				    enum ripc__progress_event woke);
bool __wrap_ripc__descriptors_sleep(struct ripc *ctx, int epfd, uint64_t until_ns,
				    enum ripc__progress_event woke)
{
	bool kicked;

	model->sleeps++;
	model->before_sleep = model->passes;
	model->until_ns = until_ns;
	if (model->wakes || model->message_wakes)
		model->now_ns += PASS_NS;
	else
		model->now_ns = until_ns;
	if (model->message_wakes)
		ripc__wake(ctx, &model->q);
	ctx->now_ns = model->now_ns;
	ripc__progress_step(ctx, woke, NULL);
	if (model->requests)
		ripc__progress_step(ctx, RIPC__PROGRESS_NOTIFY, NULL);
	kicked = ripc__progress_state(&ctx->progress).kicked || model->requests;
	if (kicked) {
		model->kicks++;
		ripc__progress_step(ctx, RIPC__PROGRESS_KICK_READ, NULL);
	}
	return model->wakes && !kicked;
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

static bool model_poll(struct ripc *ctx, void *arg)
{
	struct model *m = arg;

	ck_assert_ptr_eq(ctx, &m->ctx);
	m->own_passes = m->passes;
	m->polls++;
	if (m->others)
		ripc__wake(ctx, &m->q);
	return m->polls == m->own;
}

/* Waits for ns at most. */
static int model_wait(uint64_t ns)
{
	bool polls = model->own || model->others;
	int rc;

	model->passes = model->partial = model->sleeps = model->polls = 0;
	ripc__lock(&model->ctx);
	rc = ripc__wait_polling(&model->ctx, &model->q, model->now_ns + ns,
				polls ? model_poll : NULL, model);
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
		ck_assert_uint_eq(m.kicks, 1);
	}
	model_end();
}
END_TEST

/* A transport wakes the leader, which polls for its own message before a pass. */
START_TEST(lead__polls_awake)
{
	struct model m;

	model_begin(&m, RIPC__WAIT_BLOCK);
	m.wakes = true;
	m.own = 1;
	ck_assert_int_eq(model_wait(RIPC__MS), 0);
	ck_assert_uint_eq(m.sleeps, 1);
	ck_assert_uint_eq(m.passes, 1);
	ck_assert(!ripc__progress_state(&m.ctx.progress).app_spun);
	/* Nothing found, then a pass, and the next sleep. */
	m.own = 3;
	ck_assert_int_eq(model_wait(RIPC__MS), 0);
	ck_assert_uint_eq(m.polls, 3);
	ck_assert_uint_eq(m.sleeps, 3);
	ck_assert_uint_eq(m.passes, 3);
	/* The poll brought what its queue waits for. */
	m.own = 0;
	m.others = true;
	ck_assert_int_eq(model_wait(RIPC__MS), 0);
	ck_assert_uint_eq(m.polls, 1);
	ck_assert_uint_eq(m.passes, 1);
	model_end();
}
END_TEST

/* A timer, and a request of another thread, need a pass first. */
START_TEST(lead__no_poll_before_pass)
{
	struct model m;

	model_begin(&m, RIPC__WAIT_BLOCK);
	m.own = 1;
	ck_assert_int_eq(model_wait(RIPC__MS), -ETIMEDOUT);
	ck_assert_uint_eq(m.polls, 0);
	m.wakes = m.requests = true;
	m.arrives = 2;
	ck_assert_int_eq(model_wait(RIPC__MS), 0);
	ck_assert_uint_eq(m.polls, 0);
	ck_assert_uint_eq(m.sleeps, 1);
	model_end();
}
END_TEST

/* A progress thread that stands by may sleep on at once: a pass reads the kick first. */
START_TEST(lead__pass_before_standby)
{
	struct model m;
	union ripc__progress_word w = {.state = {.thread = RIPC__THREAD_STANDBY}};

	model_begin(&m, RIPC__WAIT_BLOCK);
	atomic_store(&m.ctx.progress.word, w.bits);
	m.wakes = true;
	m.own = 1;
	ck_assert_int_eq(model_wait(RIPC__MS), 0);
	ck_assert_uint_eq(m.own_passes, 1);
	ck_assert_uint_eq(m.passes, 2);
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

/* Events are left after a pass: the progress thread is woken, as it would not notice them. */
START_TEST(resume__event_is_left)
{
	struct model m;

	for (unsigned missed = 1; missed <= 2; missed++) {
		model_begin(&m, RIPC__WAIT_BLOCK);
		model_standby();
		m.arrives = 1;
		m.missed = missed;
		ck_assert_int_eq(model_wait(RIPC__MS), 0);
		ck_assert_uint_eq(m.sleeps, 0);
		ck_assert_uint_eq(m.passes, 2);
		ck_assert_int_eq(thread_state(),
				 missed == 1 ? RIPC__THREAD_BLOCKED : RIPC__THREAD_WAKING);
		model_end();
	}
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
	struct ripc__ready_fd ready = {.fd = 0};
	unsigned passed = 0;
	struct model m;

	model_begin(&m, RIPC__WAIT_BLOCK);
	for (unsigned i = 0; i < 10; i++) {
		model_standby();
		ripc__lock(&m.ctx);
		ripc__poll_pass_leadership(&m.ctx, &ready);
		ripc__unlock(&m.ctx);
		passed += thread_state() == RIPC__THREAD_WAKING;
		ck_assert_uint_eq(ready.empty_polls, passed);
		if (ripc__progress_state(&m.ctx.progress).kicked)
			ck_assert_int_eq(read(m.ctx.progress.wakefd, &(uint64_t){0}, 8), 8);
	}
	ck_assert_uint_gt(passed, 1);
	ck_assert_uint_lt(passed, 10);
	/* The descriptor became readable: it slept. */
	ready.empty_polls = 0;
	model_standby();
	ripc__lock(&m.ctx);
	ripc__poll_pass_leadership(&m.ctx, &ready);
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
	struct ripc__ready_fd ready = {.fd = 0};
	struct model m;

	model_begin(&m, RIPC__WAIT_BLOCK);
	ripc__lock(&m.ctx);
	/* Nobody leads: it polls. */
	ripc__poll_before_sleep(&m.ctx, &ready);
	ck_assert_uint_eq(m.passes, 1);
	atomic_store(&m.ctx.progress.word, leads.bits);
	ripc__poll_before_sleep(&m.ctx, &ready);
	ck_assert_uint_eq(m.passes, 1);
	m.ctx.nowait_ns = m.now_ns;
	/* It spins: after enough calls in a row that found nothing it polls in any case. */
	for (; ready.empty_polls < 100 && m.passes == 1; ready.empty_polls++)
		ripc__poll_before_sleep(&m.ctx, &ready);
	ck_assert_uint_eq(m.passes, 2);
	ck_assert_uint_gt(ready.empty_polls, 1);
	ripc__unlock(&m.ctx);
	model_end();
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
	tcase_add_test(tc, lead__polls_awake);
	tcase_add_test(tc, lead__no_poll_before_pass);
	tcase_add_test(tc, lead__pass_before_standby);
	tcase_add_test(tc, lead__poll_never_sleeps);
	tcase_add_loop_test(tc, lead__no_sleep_within_message, 0, 3);
	tcase_add_test(tc, lead__spin_adapts);
	tcase_add_test(tc, resume__polls_first);
	tcase_add_test(tc, resume__rate_limited);
	tcase_add_test(tc, resume__event_is_left);
	tcase_add_test(tc, resume__without_sleep);
	tcase_add_test(tc, pass_leadership__not_while_spinning);
	tcase_add_test(tc, poll_before_sleep__thread_leads);
	suite_add_tcase(suite, tc);
	return test_main("core/progress/wait", suite);
}
