/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The descriptor of a service: it is readable exactly when its queue holds a message. */
#include "core/rig.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

static struct rig rig;
static struct ripc *ctx;

static bool readable(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return poll(&p, 1, 0) == 1;
}

/* Readable exactly when ripc_receive() would not block. */
START_TEST(fd__follows_the_queue)
{
	int fd = ripc_service_fd(rig.s[0]);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(ripc_service_fd(rig.s[0]), fd);
	ck_assert(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	ck_assert(!readable(fd));
	for (uint64_t i = 0; i < 3; i++)
		OK(rig_short(&rig, 1, 0, 10, i, 5000));
	OK(rig_long(&rig, 1, 0, 20000, 3, 5000));
	rig_run(&rig, 5);
	for (uint64_t i = 0; i < 4; i++) {
		ck_assert(readable(fd));
		/* Level-triggered: looking changes nothing. */
		ck_assert(readable(fd));
		rig_expect(&rig, 0, i < 3 ? 10 : 20000, i);
	}
	ck_assert(!readable(fd));
	OK(rig_short(&rig, 1, 0, 10, 9, 5000));
	rig_run(&rig, 5);
	ck_assert(readable(fd));
	rig_expect(&rig, 0, 10, 9);
	ck_assert(!readable(fd));
}
END_TEST

START_TEST(fd__created_while_readable)
{
	int fd;

	OK(rig_short(&rig, 1, 0, 10, 1, 5000));
	OK(rig_short(&rig, 1, 0, 10, 2, 5000));
	rig_run(&rig, 5);
	fd = ripc_service_fd(rig.s[0]);
	ck_assert(readable(fd));
	rig_expect(&rig, 0, 10, 1);
	ck_assert(readable(fd));
	rig_expect(&rig, 0, 10, 2);
	ck_assert(!readable(fd));
}
END_TEST

START_TEST(fd__each_service_has_its_own)
{
	struct ripc_service *other;
	int fd[2];

	OK(ripc_service_register(ctx, 77, 0, &other));
	fd[0] = ripc_service_fd(rig.s[0]);
	fd[1] = ripc_service_fd(other);
	ck_assert_int_ne(fd[0], fd[1]);
	OK(rig_short(&rig, 1, 0, 10, 1, 5000));
	rig_run(&rig, 5);
	ck_assert(readable(fd[0]) && !readable(fd[1]));
	/* It ends with its service. */
	OK(ripc_service_unregister(other));
	ck_assert_int_eq(fcntl(fd[1], F_GETFD), -1);
	rig_expect(&rig, 0, 10, 1);
	RC(-EINVAL, ripc_service_fd(NULL));
}
END_TEST

static void slow(struct ripc__sim_config *config)
{
	config->bandwidth = 100000000;
}

/*
 * After a takeover the descriptor is readable when nothing more comes. Until then what has begun to
 * arrive still does: _i = 0: a message; 1: the answer of a call, which ended with the takeover;
 * 2: nothing.
 */
START_TEST(fd__taken_over)
{
	static uint8_t data[4 * MIB];
	struct iovec item = {data, sizeof(data)};
	struct ripc_request *call, *sent = NULL;
	struct ripc_message *m;
	int fd;

	rig_restart(&rig, 2, slow);
	ctx = rig.ctx[0];
	fd = ripc_service_fd(rig.s[0]);
	rig_exchange(&rig, 0, 1);
	if (_i == 0)
		sent = rig_begin(&rig, 1, 0, data, sizeof(data));
	if (_i == 1) {
		OK(ripc_call_start(rig.s[0], RIG_ID(1), &(struct iovec){data, 1}, 1, NULL, -1,
				   &call));
		m = rig_take(&rig, 1);
		OK(ripc_reply_start(m, &item, 1, NULL, &sent));
		ripc_message_free(m);
	}
	while (_i < 2 && ripc__list_empty(&rig.s[0]->rndvs_in))
		rig_run(&rig, 1);
	ripc__service_conflict(ctx, RIG_ID(0), true, "by a test");
	if (_i < 2) {
		ck_assert(!ripc__list_empty(&rig.s[0]->rndvs_in));
		ck_assert(!readable(fd));
		rig_run(&rig, 1000);
		ck_assert(ripc__list_empty(&rig.s[0]->rndvs_in));
	}
	ck_assert(readable(fd));
	if (_i == 0)
		ripc_message_free(rig_take(&rig, 0));
	ck_assert(readable(fd));
	RC(-ESHUTDOWN, ripc_receive(rig.s[0], &m, 0));
	/* One that is asked for later is readable, too. */
	ripc__service_conflict(rig.ctx[1], RIG_ID(1), true, "by a test");
	ck_assert(readable(ripc_service_fd(rig.s[1])));
	if (sent)
		ripc_request_cancel(&sent, 0);
	if (_i == 1)
		ripc_request_cancel(&call, 0);
}
END_TEST

/* A process without standard input: 0 is a descriptor like others. */
START_TEST(fd__is_0)
{
	int saved = dup(0);

	close(0);
	ck_assert_int_eq(ripc_service_fd(rig.s[0]), 0);
	ck_assert_int_eq(ripc_service_fd(rig.s[0]), 0);
	OK(rig_short(&rig, 1, 0, 10, 1, 5000));
	rig_run(&rig, 5);
	ck_assert(readable(0));
	rig_expect(&rig, 0, 10, 1);
	ck_assert(!readable(0));
	OK(ripc_service_unregister(rig.s[0]));
	rig.s[0] = NULL;
	ck_assert_int_eq(fcntl(0, F_GETFD), -1);
	if (saved >= 0)
		dup2(saved, 0);
}
END_TEST

/*
 * Calls that found nothing are counted until the descriptor wakes the application: only while the
 * progress thread leads does a message show that it slept.
 */
START_TEST(fd__counts_empty_polls)
{
	static const unsigned leaders[] = {RIPC__LEADER_NONE, RIPC__LEADER_THREAD};
	struct ripc_service *s = rig.s[0];

	ck_assert_int_ge(ripc_service_fd(s), 0);
	for (unsigned i = 0; i < 2; i++) {
		union ripc__progress_word none = {.bits = atomic_load(&ctx->progress.word)},
					  w = none;

		w.state.leader = leaders[i];
		atomic_store(&ctx->progress.word, w.bits);
		s->ready.empty_polls = 5;
		ripc__ready_fd_signal(ctx, &s->ready, true);
		ck_assert_uint_eq(s->ready.empty_polls, i ? 0 : 5);
		s->ready.empty_polls = 5;
		ripc__ready_fd_signal(ctx, &s->ready, false);
		ck_assert_uint_eq(s->ready.empty_polls, 5);
		atomic_store(&ctx->progress.word, none.bits);
	}
}
END_TEST

static void setup(void)
{
	rig_start(&rig, 2, NULL);
	ctx = rig.ctx[0];
}

static void teardown(void)
{
	rig_end(&rig);
}

static int eventfd_error;

int __real_eventfd(unsigned count, int flags);
int __wrap_eventfd(unsigned count, int flags);

int __wrap_eventfd(unsigned count, int flags)
{
	if (!eventfd_error)
		return __real_eventfd(count, flags);
	errno = eventfd_error;
	return -1;
}

/* Each error of the kernel is reported, and a later call succeeds. */
START_TEST(fd__none_left)
{
	static const int errors[] = {EMFILE, ENFILE, ENOMEM};

	for (unsigned i = 0; i < 3; i++) {
		eventfd_error = errors[i];
		RC(-errors[i], ripc_service_fd(rig.s[0]));
		ck_assert_ptr_nonnull(strstr(ripc_error_detail(), "service 1000: "));
		ck_assert_ptr_nonnull(strstr(ripc_error_detail(), strerror(errors[i])));
		RC(-errors[i], ripc_completion_fd(ctx));
		ck_assert_ptr_nonnull(strstr(ripc_error_detail(), "completions: "));
		ck_assert_ptr_nonnull(strstr(ripc_error_detail(), strerror(errors[i])));
	}
	eventfd_error = 0;
	ck_assert_int_ge(ripc_service_fd(rig.s[0]), 0);
	ck_assert_int_ge(ripc_completion_fd(ctx), 0);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("core/service/service_fd");
	TCase *tc = tcase_create("fd");

	test_seed();
	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, fd__follows_the_queue);
	tcase_add_test(tc, fd__created_while_readable);
	tcase_add_test(tc, fd__each_service_has_its_own);
	tcase_add_loop_test(tc, fd__taken_over, 0, 3);
	tcase_add_test(tc, fd__is_0);
	tcase_add_test(tc, fd__counts_empty_polls);
	tcase_add_test(tc, fd__none_left);
	suite_add_tcase(suite, tc);
	return test_main("core/service/service_fd", suite);
}
