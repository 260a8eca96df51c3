/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Calls between processes that are killed (kill -9), closed and restarted with the same service
 * ids, over a real transport. The history of all calls keeps the rules of call_history.h, no call
 * hangs, no byte of a request, an answer or a reply buffer is wrong, and a process that lives on
 * keeps nothing of those that have died.
 *
 * RIPC_TEST_SECONDS is the time of each test case (default 1). The seed repeats the choices of each
 * process, but not the order in which processes run.
 */
#define _GNU_SOURCE
#include "harness.h"
#include "mortal.h"
#include "ripc.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define ANSWERED_MIN 20

static const char *const transports[] = {"shm", "iwarp/soft", "shm,iwarp/soft"};

static char dir[64]; /* of the sockets of shm */
static uint64_t rng;
static pid_t pids[BOARD_PROCESSES];

static unsigned draw(unsigned n)
{
	return (unsigned)(test_random(&rng) % n);
}

/* The process with this index: a server or a client. */
static void start(unsigned i, const char *transport)
{
	uint64_t seed = test_random(&rng);
	pid_t parent = getpid();
	char options[200];

	fflush(NULL);
	board->leave[i] = false;
	pids[i] = fork();
	ck_assert_int_ge(pids[i], 0);
	if (pids[i])
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	snprintf(options, sizeof(options),
		 "transports=%s resolver=local peer_timeout_ms=1000 log=error shm_dir=%s%s",
		 transport, dir, test_random(&seed) % 4 ? "" : " wait=block");
	_exit(i < SERVERS ? mortal_server(i, options, seed) : mortal_client(i, options, seed));
}

/* Waits for the end of a process. */
static void reap(unsigned i)
{
	uint64_t end_ns = 0;
	int status;

	while (!waitpid(pids[i], &status, WNOHANG))
		ck_assert_msg(test_pause(&end_ns, TEST_PATIENCE_MS), "process %u hangs: %s", i,
			      board->why);
	pids[i] = 0;
	ck_assert_msg(WIFSIGNALED(status) ? WTERMSIG(status) == SIGKILL : !WEXITSTATUS(status),
		      "process %u ended with status %#x: %s", i, status, board->why);
	if (i >= SERVERS)
		board_process_ended(i);
}

/* A process is killed, or closes its context, and is replaced after a while. */
static void replace(const char *transport)
{
	/* The first client lives on. */
	unsigned i = draw(BOARD_PROCESSES - 1), pause_ms = draw(3) ? 0 : draw(80);
	uint64_t end_ns = 0;

	i += i >= SERVERS;
	if (draw(4))
		kill(pids[i], SIGKILL);
	else
		board->leave[i] = true;
	reap(i);
	while (test_pause(&end_ns, pause_ms))
		;
	start(i, transport);
}

/* Makes the sockets in the directory old. Return: how many there are. */
static unsigned age_sockets(void)
{
	static const struct timespec old[2];
	DIR *d = opendir(dir);
	struct dirent *e;
	unsigned n = 0;

	ck_assert_ptr_nonnull(d);
	while ((e = readdir(d))) {
		if (e->d_name[0] == '.')
			continue;
		ck_assert_int_eq(utimensat(dirfd(d), e->d_name, old, 0), 0);
		n++;
	}
	closedir(d);
	return n;
}

/* The next context that is opened removes the sockets of processes that were killed. */
static void expect_no_sockets(const char *transport)
{
	char options[200];
	struct ripc *ctx;

	age_sockets();
	snprintf(options, sizeof(options), "transports=%s resolver=local log=error shm_dir=%s",
		 transport, dir);
	ck_assert_int_eq(ripc_open(&ctx, options), 0);
	ck_assert_int_eq(ripc_close(ctx), 0);
	ck_assert_uint_eq(age_sockets(), 0);
	ck_assert_int_eq(rmdir(dir), 0);
}

START_TEST(history__keeps_rules)
{
	uint64_t end_ns = 0, run_ms = 1000 * test_number("RIPC_TEST_SECONDS", 1);
	struct board_counts counts;
	char why[2048];
	size_t bad;

	rng = test_seed() + (unsigned)_i;
	test_own_network();
	snprintf(dir, sizeof(dir), "/tmp/ripc-kills.%d", getpid());
	ck_assert_int_eq(mkdir(dir, 0700), 0);
	board_new();
	for (unsigned i = 0; i < BOARD_PROCESSES; i++)
		start(i, transports[_i]);
	while (test_pause(&end_ns, (unsigned)run_ms))
		for (uint64_t next_ns = 0; !draw(30); replace(transports[_i]))
			for (unsigned ms = draw(60); test_pause(&next_ns, ms);)
				;
	/* On a busy machine all processes may have been killed too early. */
	AWAIT(board->nanswered >= ANSWERED_MIN || *board->why);
	/* No further calls: all clients but the first end. */
	board->calm = true;
	for (unsigned i = SERVERS + 1; i < BOARD_PROCESSES; i++)
		reap(i);
	AWAIT(board->idle || *board->why);
	for (unsigned i = 0; i < SERVERS; i++) {
		kill(pids[i], SIGKILL);
		reap(i);
	}
	board->leave[SERVERS] = true;
	reap(SERVERS);
	expect_no_sockets(transports[_i]);
	ck_assert_msg(!*board->why, "%s", board->why);
	bad = board_check(&counts, why, sizeof(why));
	ck_assert_msg(!bad, "%zu violations; %s", bad, why);
	printf("%s: %u calls, %u executed, %u answered, %u killed, %u failed\n", transports[_i],
	       counts.started, counts.executed, counts.answered, counts.killed, counts.failed);
	board_free();
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("core/call/kills");
	TCase *tc = tcase_create("kills");

	test_seed();
	tcase_set_timeout(tc, 120 + (double)test_number("RIPC_TEST_SECONDS", 1));
	tcase_add_loop_test(tc, history__keeps_rules, 0,
			    (int)(sizeof(transports) / sizeof(transports[0])));
	suite_add_tcase(suite, tc);
	return test_main("core/call/kills", suite);
}
