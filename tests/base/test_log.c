/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The log hook and its levels; the detail string, which is each thread's own; the texts of errors.
 */
#include "base/log.h"
#include "harness.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static struct {
	unsigned lines;
	enum ripc_log_level level;
	char line[RIPC__DETAIL_MAX + 1];
	void *arg;
} last;

static void hook(void *arg, enum ripc_log_level level, const char *line)
{
	last.lines++;
	last.level = level;
	last.arg = arg;
	snprintf(last.line, sizeof(last.line), "%s", line);
}

/* The output of a function to the standard error stream. */
static void stderr_of(void (*fn)(void), char *text, size_t len)
{
	int pipes[2], saved = dup(STDERR_FILENO);
	ssize_t n;

	ck_assert_int_eq(pipe(pipes), 0);
	dup2(pipes[1], STDERR_FILENO);
	close(pipes[1]);
	fn();
	fflush(stderr);
	dup2(saved, STDERR_FILENO);
	close(saved);
	n = read(pipes[0], text, len - 1);
	close(pipes[0]);
	text[n > 0 ? n : 0] = 0;
}

START_TEST(set_log__line_and_level)
{
	int arg;

	ripc_log_set(hook, &arg, RIPC_LOG_INFO);
	ripc__log(RIPC_LOG_WARN, "%s %d", "number", 7);
	ck_assert_uint_eq(last.lines, 1);
	ck_assert_str_eq(last.line, "number 7");
	ck_assert_int_eq(last.level, RIPC_LOG_WARN);
	ck_assert_ptr_eq(last.arg, &arg);
}
END_TEST

START_TEST(set_log__only_up_to_its_level)
{
	for (int level = RIPC_LOG_ERROR; level <= RIPC_LOG_DEBUG; level++) {
		last.lines = 0;
		ripc_log_set(hook, NULL, (enum ripc_log_level)level);
		for (int l = RIPC_LOG_ERROR; l <= RIPC_LOG_DEBUG; l++) {
			ck_assert_int_eq(ripc__log_enabled((enum ripc_log_level)l), l <= level);
			ripc__log((enum ripc_log_level)l, "x");
		}
		ck_assert_uint_eq(last.lines, (unsigned)level + 1);
	}
}
END_TEST

START_TEST(set_log__null_is_silence)
{
	ripc_log_set(hook, NULL, RIPC_LOG_DEBUG);
	ripc_log_set(NULL, NULL, RIPC_LOG_DEBUG);
	ck_assert(!ripc__log_enabled(RIPC_LOG_ERROR));
	ripc__log(RIPC_LOG_ERROR, "x");
	ck_assert_uint_eq(last.lines, 0);
}
END_TEST

static void log_a_line(void)
{
	ripc__log(RIPC_LOG_ERROR, "a line");
}

START_TEST(log__silent_unless_asked_for)
{
	char text[200];

	stderr_of(log_a_line, text, sizeof(text));
	ck_assert_str_eq(text, "");
}
END_TEST

START_TEST(log_to_stderr__names_the_level)
{
	char text[200];

	ripc__log_to_stderr(RIPC_LOG_WARN);
	stderr_of(log_a_line, text, sizeof(text));
	ck_assert_str_eq(text, "libripc error: a line\n");
	ck_assert(ripc__log_enabled(RIPC_LOG_WARN) && !ripc__log_enabled(RIPC_LOG_INFO));
}
END_TEST

START_TEST(log_to_stderr__hook_has_precedence)
{
	char text[200];

	ripc_log_set(hook, NULL, RIPC_LOG_ERROR);
	ripc__log_to_stderr(RIPC_LOG_DEBUG);
	stderr_of(log_a_line, text, sizeof(text));
	ck_assert_str_eq(text, "");
	ck_assert_uint_eq(last.lines, 1);
	ck_assert(!ripc__log_enabled(RIPC_LOG_DEBUG));
	/* Its silence, too. */
	ripc_log_set(NULL, NULL, RIPC_LOG_DEBUG);
	ripc__log_to_stderr(RIPC_LOG_DEBUG);
	stderr_of(log_a_line, text, sizeof(text));
	ck_assert_str_eq(text, "");
}
END_TEST

START_TEST(log__truncates_long_lines)
{
	char text[3 * RIPC__DETAIL_MAX];

	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = 0;
	ripc_log_set(hook, NULL, RIPC_LOG_INFO);
	ripc__log(RIPC_LOG_INFO, "%s", text);
	ck_assert_uint_eq(strlen(last.line), RIPC__DETAIL_MAX - 1);
}
END_TEST

START_TEST(fail__returns_and_explains)
{
	ck_assert_str_eq(ripc_error_detail(), "");
	ck_assert_int_eq(ripc__fail(-EINVAL, "%s is %d", "it", 3), -EINVAL);
	ck_assert_str_eq(ripc_error_detail(), "it is 3");
	/* Nothing is logged by that. */
	ck_assert_uint_eq(last.lines, 0);
}
END_TEST

START_TEST(fail__detail_as_argument)
{
	ripc__fail(-1, "first");
	ripc__fail(-1, "second after %s", ripc_error_detail());
	ck_assert_str_eq(ripc_error_detail(), "second after first");
}
END_TEST

START_TEST(fail__truncates_long_text)
{
	char text[3 * RIPC__DETAIL_MAX];

	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = 0;
	ripc__fail(-1, "%s", text);
	ck_assert_uint_eq(strlen(ripc_error_detail()), RIPC__DETAIL_MAX - 1);
}
END_TEST

static void *other_thread(void *arg)
{
	bool *ok = arg;

	*ok = !*ripc_error_detail();
	ripc__fail(-1, "theirs");
	*ok &= !strcmp(ripc_error_detail(), "theirs");
	return NULL;
}

START_TEST(detail__is_each_threads_own)
{
	pthread_t thread;
	bool ok;

	ripc__fail(-1, "ours");
	ck_assert_int_eq(pthread_create(&thread, NULL, other_thread, &ok), 0);
	pthread_join(thread, NULL);
	ck_assert(ok);
	ck_assert_str_eq(ripc_error_detail(), "ours");
}
END_TEST

START_TEST(strerror__both_signs)
{
	for (int e = 0; e < 140; e++)
		ck_assert_str_eq(ripc_strerror(e), ripc_strerror(-e));
	ck_assert_str_eq(ripc_strerror(0), "success");
	ck_assert_str_eq(ripc_strerror(-ENOMEM), "Cannot allocate memory");
}
END_TEST

START_TEST(strerror__library_codes)
{
	ck_assert_str_eq(ripc_strerror(-EHOSTUNREACH), "service not found or not reachable");
	ck_assert_str_eq(ripc_strerror(-EADDRINUSE), "service id is held by another");
	ck_assert_str_eq(ripc_strerror(-ESHUTDOWN), "service or context is being closed");
	ck_assert_str_eq(ripc_strerror(-EPIPE), "peer lost, delivery not known");
	ck_assert_str_eq(ripc_strerror(-EOWNERDEAD), "context belongs to the parent process");
	ck_assert_str_eq(ripc_strerror(-ENODEV), "no usable transport");
	ck_assert_str_eq(ripc_strerror(-EMFILE), "Too many open files (ulimit -n)");
	ck_assert_str_eq(ripc_strerror(-ENFILE),
			 "Too many open files in system (sysctl fs.file-max)");
}
END_TEST

START_TEST(strerror__no_such_error)
{
	ck_assert_str_eq(ripc_strerror(100000), "unknown error");
	ck_assert_str_eq(ripc_strerror(-100000), "unknown error");
	ck_assert_str_eq(ripc_strerror(INT_MAX), "unknown error");
	ck_assert_str_eq(ripc_strerror(INT_MIN + 1), "unknown error");
	ck_assert_str_eq(ripc_strerror(INT_MIN), "unknown error");
}
END_TEST

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static sem_t inside;

/* Stays in the hook, and so in the log's lock, until the gate opens. */
static void slow_hook(void *arg, enum ripc_log_level level, const char *line)
{
	sem_post(&inside);
	pthread_mutex_lock(&gate);
	pthread_mutex_unlock(&gate);
}

static void *slow_logger(void *arg)
{
	ripc__log(RIPC_LOG_ERROR, "slowly");
	return NULL;
}

START_TEST(log_forked__the_lock_is_free_in_the_child)
{
	pthread_t thread;
	int status = -1;
	pid_t pid;

	ck_assert_int_eq(sem_init(&inside, 0, 0), 0);
	ripc_log_set(slow_hook, NULL, RIPC_LOG_DEBUG);
	pthread_mutex_lock(&gate);
	ck_assert_int_eq(pthread_create(&thread, NULL, slow_logger, NULL), 0);
	while (sem_wait(&inside))
		ck_assert_int_eq(errno, EINTR);
	pid = fork();
	if (!pid) {
		alarm(60);
		ripc__log_atfork_child();
		ripc_log_set(hook, NULL, RIPC_LOG_DEBUG);
		ripc__log(RIPC_LOG_ERROR, "in the child");
		_exit(last.lines == 1 ? 0 : 1);
	}
	waitpid(pid, &status, 0);
	pthread_mutex_unlock(&gate);
	pthread_join(thread, NULL);
	ck_assert_int_eq(status, 0);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("base/log");
	TCase *tc = tcase_create("log");

	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, set_log__line_and_level);
	tcase_add_test(tc, set_log__only_up_to_its_level);
	tcase_add_test(tc, set_log__null_is_silence);
	tcase_add_test(tc, log__silent_unless_asked_for);
	tcase_add_test(tc, log_to_stderr__names_the_level);
	tcase_add_test(tc, log_to_stderr__hook_has_precedence);
	tcase_add_test(tc, log__truncates_long_lines);
	tcase_add_test(tc, fail__returns_and_explains);
	tcase_add_test(tc, fail__detail_as_argument);
	tcase_add_test(tc, fail__truncates_long_text);
	tcase_add_test(tc, detail__is_each_threads_own);
	tcase_add_test(tc, strerror__both_signs);
	tcase_add_test(tc, strerror__library_codes);
	tcase_add_test(tc, strerror__no_such_error);
	tcase_add_test(tc, log_forked__the_lock_is_free_in_the_child);
	suite_add_tcase(suite, tc);
	return test_main("base/log", suite);
}
