/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Processes that do random things with the public interface, checked against a model: services are
 * registered, taken over and closed; messages of all kinds are sent, kept, forwarded and answered;
 * and processes are stopped, killed and replaced meanwhile. It runs by name: scripts/test stress.
 *
 * The model is a record of each message in shared memory (board.h). The sender stores the result
 * that the library returns: delivered, failed, or unknown. The receiver counts. These rules hold at
 * every moment, and at the end of the run when nothing is under way:
 *
 * - A message is received once at most, by the service to which it was sent, with its items, their
 *   lengths and every byte. Exception: a call with RIPC_IDEMPOTENT may be received again.
 * - A message that has failed (-ETIMEDOUT, -EHOSTUNREACH, -ECANCELED ...) is not received.
 * - A long message with result 0, and a reliable one before an ripc_flush() with result 0, is
 *   received. Exception: after it was sent, a service with this id was unregistered, its context
 *   closed, or its process killed: messages in the queue are lost then. A service that was taken
 *   over loses none.
 * - Messages of one kind from one service to another keep their order.
 * - An error of a reliable message is returned only to a service that has sent one. Further errors
 *   may follow until an ripc_flush() returns 0, because messages that wait for the next holder may
 *   fail later than those at the former.
 * - A call gets the answer to its own request: the content names it, and an error was given to it.
 *   It gets none if its result is that of the library. An answered request was received. A second
 *   answer is refused.
 * - Memory belongs to its owner: what is sent does not change until the call ends, and may be
 *   overwritten then; a received message, also one that is kept for long, does not change until it
 *   is freed; items in windows, return buffers and buffers for answers lie in one that was provided
 *   for them; a detached item may be overwritten. Each buffer can be freed.
 * - Results of calls are those that ripc.h names. No call takes much longer than its timeout, and
 *   no call crashes. Counters of violations of the protocol and of registered memory are 0.
 * - A process that has closed its contexts has the descriptors, threads, shared memory and heap
 *   that it had before. In the tree of the address sanitizer nothing leaks.
 *
 * Tolerated, because the interface promises no more:
 *
 * - Short messages and messages to groups may be lost, with a connection or as datagrams. With
 *   short=udp they may arrive in any order.
 * - The state of a message is unknown after -EPIPE, -ETIME, and -ESHUTDOWN of a long one.
 * - A request need not be counted as received if its context was closed before its receiver could:
 *   the call ends with -ECANCELED.
 * - Messages to a random id (RIPC_ANY_ID) are not expected to arrive, because the board does not
 *   follow who holds it.
 * - Calls on a context or service that ends at the same time return -ESHUTDOWN.
 *
 * Each configuration is a test case of its own (RIPC_TEST_CASE=shm) in a network namespace of its
 * own. RIPC_TEST_SECONDS is the time of each (default 15). A seed repeats the choices of each
 * thread, but not the order in which threads and processes run.
 */
#define _GNU_SOURCE
#include "board.h"
#include "chance.h"
#include "harness.h"
#include "objects.h"
#include "worker.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SECONDS      15
#define SECONDS_LEFT 600 /* to end a run, on a busy machine */
#define MIX                                                                     \
	"peer_timeout_ms=500", "transports=shm,iwarp/soft peer_timeout_ms=500", \
		"transports=iwarp/soft peer_timeout_ms=500", "wait=block"

static char keyed[200]; /* options with the key file of this run */

static const struct setup setups[] = {
	{
		.name = "shm",
		.options = {"transports=shm peer_timeout_ms=1000 resolver=local"},
		.processes = 4,
		.takeover = true,
		.unregister = true,
		.close = true,
		.kills = true,
		.stops = true,
	},
	{
		.name = "soft",
		.options = {"transports=iwarp/soft peer_timeout_ms=1000 resolver=local"},
		.processes = 4,
		.takeover = true,
		.unregister = true,
		.close = true,
		.kills = true,
		.stops = true,
	},
	{
		.name = "udp",
		.options = {"transports=iwarp/soft short=udp peer_timeout_ms=1000"},
		.processes = 4,
		.takeover = true,
		.unregister = true,
		.close = true,
		.kills = true,
		.stops = true,
	},
	/* Most messages stay in one process. */
	{
		.name = "self",
		.options = {"resolver=local"},
		.processes = 1,
		.takeover = true,
		.unregister = true,
		.close = true,
	},
	/* Nothing is lost here, but peers are taken for dead and come back. */
	{
		.name = "stops",
		.options = {MIX},
		.processes = 4,
		.takeover = true,
		.stops = true,
	},
	{
		.name = "mixed",
		.options = {MIX},
		.processes = 4,
		.takeover = true,
		.unregister = true,
		.close = true,
		.kills = true,
		.stops = true,
	},
	{
		.name = "keys",
		.options = {keyed},
		.processes = 3,
		.takeover = true,
		.unregister = true,
		.close = true,
		.kills = true,
	},
};
#define SETUPS ((int)(sizeof(setups) / sizeof(setups[0])))

static struct process {
	pid_t pid;
	uint64_t resume_ms; /* 0: it is not stopped */
} processes[PROCESSES_MAX];

static unsigned incarnations; /* processes that were started */

static uint64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static void start(unsigned i)
{
	uint64_t seed = test_random(&chance_state);

	fflush(NULL);
	incarnations++;
	processes[i] = (struct process){.pid = fork()};
	ck_assert_int_ge(processes[i].pid, 0);
	if (!processes[i].pid)
		exit(worker_main(i, seed));
}

static void end(unsigned i)
{
	kill(processes[i].pid, SIGKILL);
	waitpid(processes[i].pid, NULL, 0);
	processes[i].pid = 0;
}

/* Return: whether all processes live. Those that do not are faults. */
static bool all_live(void)
{
	bool ok = true;
	int status;

	for (unsigned i = 0; i < setup->processes; i++) {
		if (waitpid(processes[i].pid, &status, WNOHANG) != processes[i].pid)
			continue;
		processes[i].pid = 0;
		ok = false;
		board_fault("process %u has ended: %s %d", i,
			    WIFSIGNALED(status) ? "signal" : "exit code",
			    WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
	}
	return ok;
}

static void stop(unsigned i)
{
	uint64_t ms = 1 + (one_in(3) ? chance(3000) : chance(200));

	board_note("stops process %u for %llu ms", i, (unsigned long long)ms);
	kill(processes[i].pid, SIGSTOP);
	processes[i].resume_ms = now_ms() + ms;
}

/* resume: all of them. */
static void resume(bool all)
{
	for (unsigned i = 0; i < setup->processes; i++)
		if (processes[i].resume_ms && (all || now_ms() > processes[i].resume_ms)) {
			kill(processes[i].pid, SIGCONT);
			processes[i].resume_ms = 0;
		}
}

/* While it is stopped nothing is delivered to it that the board does not know to be lost. */
static void replace(unsigned i)
{
	int status;

	board_note("kills process %u (%d)", i, (int)processes[i].pid);
	kill(processes[i].pid, SIGSTOP);
	ck_assert_int_eq(waitpid(processes[i].pid, &status, WUNTRACED), processes[i].pid);
	board_killed(i, false);
	if (WIFSTOPPED(status))
		end(i);
	else
		board_fault("process %u had ended with status %#x", i, (unsigned)status);
	board_killed(i, true);
	start(i);
}

/* Stops, resumes and kills processes until the time is over. */
static void disturb(uint64_t ms)
{
	uint64_t end_ms = now_ms() + ms, next_ms = now_ms() + 1500;
	unsigned kills = 0, stops = 0;

	while (now_ms() < end_ms && board_running() && all_live()) {
		unsigned i = (unsigned)chance(setup->processes);

		board_pause(2);
		resume(false);
		if (now_ms() < next_ms || processes[i].resume_ms)
			continue;
		next_ms = now_ms() + 100 + chance(1500);
		if (setup->stops && one_in(2)) {
			stop(i);
			stops++;
		} else if (setup->kills && one_in(2)) {
			replace(i);
			kills++;
		}
	}
	resume(true);
	printf("%u killed, %u stopped\n", kills, stops);
}

/* Changes the phase, and waits until all threads have done what there is to do in it. */
static bool pass_phase(enum phase phase)
{
	board->phase = (int)phase;
	while (board->arrived[phase] < setup->processes * WORKER_THREADS) {
		board_pause(2);
		if (!all_live())
			return false;
	}
	return true;
}

static void end_processes(void)
{
	board->phase = PHASE_CLOSE;
	for (unsigned i = 0; i < setup->processes; i++) {
		int status;

		waitpid(processes[i].pid, &status, 0);
		processes[i].pid = 0;
		if (status)
			board_fault("process %u ended with status %#x", i, (unsigned)status);
	}
}

static bool write_key(char *path)
{
	static const char digits[] = "0123456789abcdef";
	int fd = mkstemp(path);
	char key[64];
	bool ok;

	for (unsigned i = 0; i < sizeof(key); i++)
		key[i] = digits[chance(16)];
	ok = write(fd, key, sizeof(key)) == sizeof(key);
	close(fd);
	return ok;
}

START_TEST(stress__random_operations)
{
	char key[] = "/tmp/stress-key-XXXXXX";
	bool ended;

	setup = &setups[_i];
	chance_state = test_seed() + (uint64_t)_i;
	if (!test_own_network()) {
		test_skip("%s: no network namespace", setup->name);
		return;
	}
	if (setup->options[0] == keyed) {
		ck_assert(write_key(key));
		snprintf(keyed, sizeof(keyed), "key_file=%s peer_timeout_ms=1000", key);
	}
	board_create();
	for (unsigned i = 0; i < setup->processes; i++)
		start(i);
	disturb(test_number("RIPC_TEST_SECONDS", SECONDS) * 1000);
	ended = pass_phase(PHASE_FINISH) && pass_phase(PHASE_DRAIN);
	if (ended) {
		/* First: a context that is closed counts as a loss. */
		board_check();
		end_processes();
	}
	for (unsigned i = 0; i < setup->processes; i++)
		if (processes[i].pid)
			end(i);
	if (setup->options[0] == keyed)
		unlink(key);
	printf("%s: %llu messages, %u processes, %u faults\n", setup->name,
	       (unsigned long long)board->messages - 1, incarnations, board->faults);
	board_print();
	ck_assert_uint_eq(board->faults, 0);
	board_destroy();
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("stress");

	setvbuf(stdout, NULL, _IOLBF, 0);
	test_seed();
	for (int i = 0; i < SETUPS; i++) {
		TCase *tc = tcase_create(setups[i].name);

		tcase_set_timeout(tc,
				  (double)test_number("RIPC_TEST_SECONDS", SECONDS) + SECONDS_LEFT);
		tcase_add_loop_test(tc, stress__random_operations, i, i + 1);
		suite_add_tcase(suite, tc);
	}
	return test_main("stress", suite);
}
