/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The promises of ripc_call(), checked on the history of many hosts under faults.
 *
 * RIPC_TEST_HOSTS=10000 makes it large, RIPC_TEST_CALLS is the number of calls of each host;
 * CK_DEFAULT_TIMEOUT has to grow with them.
 */
#include "call_history.h"
#include "call_world.h"
#include "base/clock.h"
#include "harness.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

static struct history history;
static char why[2000];

/* ---- the checker, on forged histories ---- */

#define ADD(...) history_add(&history, &(struct history_event){__VA_ARGS__})

static void start(uint64_t call, bool idempotent)
{
	ADD(.kind = HISTORY_STARTED, .call = call, .at_ns = 1000, .deadline_ns = 2000,
	    .idempotent = idempotent);
}

static void execute(uint64_t call, uint64_t life)
{
	ADD(.kind = HISTORY_EXECUTED, .call = call, .at_ns = 1100 + life, .life = life);
}

static void end(uint64_t call, int result)
{
	ADD(.kind = HISTORY_ENDED, .call = call, .at_ns = 1900, .result = result);
}

static void end_reply(uint64_t call, int result, uint64_t answered, uint64_t life)
{
	ADD(.kind = HISTORY_ENDED, .call = call, .at_ns = 1900, .result = result, .has_reply = true,
	    .answered = answered, .life = life);
}

static void end_withdrawn(uint64_t call, int result)
{
	ADD(.kind = HISTORY_ENDED, .call = call, .at_ns = 1900, .result = result,
	    .withdrawn = true);
}

/* The history breaks this rule, and no other one. */
static void expect(const char *rule)
{
	size_t n = history_check(&history, why, sizeof(why));

	ck_assert_msg(n == 1, "%zu violations: %s", n, why);
	ck_assert_msg(!strncmp(why, rule, strlen(rule)) && why[strlen(rule)] == ':',
		      "not the rule \"%s\": %s", rule, why);
	history_free(&history);
}

static void expect_none(void)
{
	size_t n = history_check(&history, why, sizeof(why));

	ck_assert_msg(n == 0, "%zu violations: %s", n, why);
	ck_assert_str_eq(why, "");
	history_free(&history);
}

/* Every way in which calls may end. */
START_TEST(checker__right_history)
{
	static const int unexecuted[] = {-EHOSTUNREACH, -ETIMEDOUT};
	static const int unknown[] = {-EPIPE, -ETIME, -ESHUTDOWN};
	uint64_t n = 0;

	expect_none();
	/* The order of the events in the history does not matter. */
	end_reply(1, 0, 1, 7);
	execute(1, 7);
	start(1, false);
	for (n = 2; n < 4; n++) {
		start(n, false);
		end(n, unexecuted[n - 2]);
	}
	for (n = 10; n < 16; n++) {
		start(n, false);
		if (n & 1)
			execute(n, n);
		end(n, unknown[(n - 10) / 2]);
	}
	/* Refused, and freed without an answer. */
	for (n = 20; n < 22; n++) {
		start(n, false);
		execute(n, 3);
		end_reply(n, n & 1 ? -ECANCELED : -EACCES, 0, 0);
	}
	/* An idempotent call has the answer of any of its executions. */
	for (uint64_t life = 1; life < 4; life++) {
		start(30 + life, true);
		for (uint64_t k = 1; k < 4; k++)
			execute(30 + life, k);
		end_reply(30 + life, 0, 30 + life, life);
	}
	start(40, false);
	end_withdrawn(40, -ECANCELED);
	start(41, false);
	execute(41, 1);
	end_withdrawn(41, -ETIME);
	/* Killed callers, before and after the execution. */
	start(50, false);
	ADD(.kind = HISTORY_KILLED, .call = 50, .at_ns = 1500);
	start(51, false);
	execute(51, 1);
	ADD(.kind = HISTORY_KILLED, .call = 51, .at_ns = 1050);
	/* Late, because the caller was suspended, or without a deadline. */
	start(60, false);
	ADD(.kind = HISTORY_ENDED, .call = 60, .at_ns = 3000 + HISTORY_SLACK_NS, .paused = true,
	    .result = -EPIPE);
	ADD(.kind = HISTORY_STARTED, .call = 61, .at_ns = 1000, .deadline_ns = UINT64_MAX);
	ADD(.kind = HISTORY_ENDED, .call = 61, .at_ns = UINT64_MAX, .result = -EPIPE);
	expect_none();
}
END_TEST

START_TEST(checker__executed_twice)
{
	/* In two lives of servers, and in one. */
	for (uint64_t life = 1; life < 3; life++) {
		start(1, false);
		execute(1, 1);
		execute(1, life);
		end_reply(1, 0, 1, 1);
		expect("twice");
	}
	start(1, false);
	execute(1, 1);
	execute(1, 2);
	end(1, -EPIPE);
	expect("twice");
	/* Its caller is not there any more, but the promise holds. */
	start(1, false);
	execute(1, 1);
	ADD(.kind = HISTORY_KILLED, .call = 1, .at_ns = 1500);
	execute(1, 2);
	expect("twice");
}
END_TEST

START_TEST(checker__foreign_call)
{
	execute(1, 1);
	expect("unknown");
	end(1, -EPIPE);
	expect("unknown");
	ADD(.kind = HISTORY_STARTED, .call = 1, .at_ns = 5000, .deadline_ns = 6000);
	execute(1, 1);
	ADD(.kind = HISTORY_ENDED, .call = 1, .at_ns = 5500, .result = -EPIPE);
	expect("early");
}
END_TEST

START_TEST(checker__end)
{
	start(1, false);
	execute(1, 1);
	expect("never-ended");
	start(1, false);
	execute(1, 1);
	end_reply(1, 0, 1, 1);
	end_reply(1, 0, 1, 1);
	expect("ended-twice");
	start(1, false);
	ADD(.kind = HISTORY_ENDED, .call = 1, .at_ns = 2001 + HISTORY_SLACK_NS,
	    .result = -ETIMEDOUT);
	expect("late");
}
END_TEST

START_TEST(checker__wrong_answer)
{
	/* Not executed at all. */
	start(1, false);
	end_reply(1, 0, 1, 1);
	expect("answer");
	/* The answer to another call of the same server. */
	for (uint64_t call = 1; call < 3; call++) {
		start(call, false);
		execute(call, 1);
	}
	end_reply(1, 0, 2, 1);
	end_reply(2, 0, 2, 1);
	expect("answer");
	/* The answer of a server that did not execute it. */
	start(1, false);
	execute(1, 1);
	end_reply(1, 0, 1, 2);
	expect("answer");
	/* An error, which no server can have given. */
	start(1, false);
	end_reply(1, -EACCES, 0, 0);
	expect("refused");
	start(1, false);
	end_reply(1, -ECANCELED, 0, 0);
	expect("refused");
}
END_TEST

START_TEST(checker__executed_after_all)
{
	static const int results[] = {-EHOSTUNREACH, -ETIMEDOUT};

	for (unsigned idempotent = 0; idempotent < 2; idempotent++) {
		for (unsigned i = 0; i < 2; i++) {
			start(1, idempotent);
			execute(1, 1);
			end(1, results[i]);
			expect("executed");
			/* Executed after it has ended. */
			start(1, idempotent);
			end(1, results[i]);
			execute(1, 1000);
			expect("executed");
		}
	}
	start(1, false);
	execute(1, 1);
	end_withdrawn(1, -ECANCELED);
	expect("executed");
}
END_TEST

START_TEST(checker__strange_result)
{
	static const int results[] = {0, -EAGAIN, -EINVAL, -ECANCELED, 1};

	for (unsigned i = 0; i < 5; i++) {
		start(1, false);
		end(1, results[i]);
		expect("result");
	}
}
END_TEST

/* ---- the library ---- */

static struct call_world_options opt;
static struct call_world_counts counts;

static void print_counts(double seconds)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	printf("hosts %u, services %u, calls %llu, executions %llu, %.1f s of virtual time\n",
	       opt.hosts, opt.services, (unsigned long long)counts.started,
	       (unsigned long long)counts.executed, (double)counts.virtual_ns / 1e9);
	printf("results: answered %llu, refused %llu, unanswered %llu, EHOSTUNREACH %llu, "
	       "ETIMEDOUT %llu, ECANCELED %llu, ETIME %llu, EPIPE %llu, ESHUTDOWN %llu; callers "
	       "killed %llu\n",
	       (unsigned long long)counts.answered, (unsigned long long)counts.refused,
	       (unsigned long long)counts.unanswered, (unsigned long long)counts.unreachable,
	       (unsigned long long)counts.timed_out, (unsigned long long)counts.cancelled,
	       (unsigned long long)counts.etime, (unsigned long long)counts.epipe,
	       (unsigned long long)counts.shut_down, (unsigned long long)counts.killed);
	printf("faults: deaths %llu, closings %llu, restarts %llu, takeovers %llu, moves %llu, "
	       "pauses %llu, partitions %llu, broken connections %llu, datagrams lost %llu and "
	       "repeated %llu\n",
	       (unsigned long long)counts.deaths, (unsigned long long)counts.closings,
	       (unsigned long long)counts.restarts, (unsigned long long)counts.takeovers,
	       (unsigned long long)counts.moves, (unsigned long long)counts.pauses,
	       (unsigned long long)counts.partitions, (unsigned long long)counts.breaks,
	       (unsigned long long)counts.datagrams_lost,
	       (unsigned long long)counts.datagrams_duplicated);
	printf("resent %llu, duplicates dropped %llu, late answers %llu, requests expired %llu\n",
	       (unsigned long long)counts.resent, (unsigned long long)counts.duplicates,
	       (unsigned long long)counts.late_replies, (unsigned long long)counts.expired);
	printf("%.1f s, %ld MiB at most, %llu polls\n", seconds, usage.ru_maxrss / 1024,
	       (unsigned long long)counts.polls);
}

static void run(void)
{
	struct timespec from, to;
	size_t n;

	clock_gettime(CLOCK_MONOTONIC, &from);
	call_world_run(&opt, &history, &counts);
	clock_gettime(CLOCK_MONOTONIC, &to);
	print_counts((double)(to.tv_sec - from.tv_sec) + (double)(to.tv_nsec - from.tv_nsec) / 1e9);
	n = history_check(&history, why, sizeof(why));
	ck_assert_msg(n == 0, "%zu violations: %s", n, why);
	history_free(&history);
}

static void setup(void)
{
	opt = call_world_defaults();
	opt.seed = test_seed();
}

/* Without faults every call is executed, unless its time was too short or it was withdrawn. */
START_TEST(history__no_faults)
{
	opt.fault_ns = opt.split_ns = 0;
	opt.conn_break = opt.datagram_fault = 0;
	opt.hosts = 50;
	run();
	ck_assert_uint_eq(counts.epipe, 0);
	ck_assert_uint_eq(counts.started, (uint64_t)opt.hosts * opt.calls);
	ck_assert_uint_gt(counts.executed, counts.started * 9 / 10);
}
END_TEST

START_TEST(history__faults)
{
	opt.hosts = (unsigned)test_number("RIPC_TEST_HOSTS", opt.hosts);
	opt.calls = (unsigned)test_number("RIPC_TEST_CALLS", opt.calls);
	opt.services = opt.hosts / 10;
	/* A host that waits delays the applications of all others: not more often here. */
	opt.fault_ns = opt.fault_ns / 200 * opt.hosts;
	opt.withdrawn = 16 + opt.hosts / 16;
	run();
	/* Each fault and each result has occurred: the rules had something to check. */
	ck_assert_uint_gt(counts.answered, counts.started / 4);
	ck_assert_uint_gt(counts.refused, 0);
	ck_assert_uint_gt(counts.unanswered, 0);
	ck_assert_uint_gt(counts.unreachable, 0);
	ck_assert_uint_gt(counts.timed_out, 0);
	ck_assert_uint_gt(counts.cancelled, 0);
	ck_assert_uint_gt(counts.etime, 0);
	ck_assert_uint_gt(counts.epipe, 0);
	ck_assert_uint_gt(counts.killed, 0);
	ck_assert_uint_gt(counts.takeovers, 0);
	ck_assert_uint_gt(counts.partitions, 0);
	ck_assert_uint_gt(counts.breaks, 0);
	ck_assert_uint_gt(counts.datagrams_duplicated, 0);
	ck_assert_uint_gt(counts.resent, 0);
	ck_assert_uint_gt(counts.duplicates, 0);
}
END_TEST

/* More calls between two hosts than the window of unacknowledged messages has room for. */
START_TEST(history__more_than_a_window)
{
	opt.hosts = 3;
	opt.services = 1;
	opt.known = 1;
	opt.calls = 2500;
	opt.think_ns = 20 * RIPC__MS;
	opt.fault_ns = opt.split_ns = 0;
	opt.conn_break = 0.001;
	opt.endless = 2;
	run();
	ck_assert_uint_eq(counts.started, (uint64_t)opt.hosts * opt.calls);
}
END_TEST

/*
 * Many calls between few hosts, so that many are under way when a fault strikes, and many without a
 * deadline. Partitions last until the peers have given each other up, and have forgotten each
 * other.
 */
START_TEST(history__long_partitions)
{
	opt.hosts = 12;
	opt.services = 2;
	opt.known = 1;
	opt.calls = 4000;
	opt.think_ns = 10 * RIPC__MS;
	opt.fault_ns = 60000 * RIPC__MS;
	opt.split_ns = 4000 * RIPC__MS;
	opt.split_max_ns = 100000 * RIPC__MS;
	opt.endless = 2;
	run();
	ck_assert_uint_gt(counts.partitions, 0);
	ck_assert_uint_gt(counts.duplicates, 0);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("scale/call_history");
	TCase *checker = tcase_create("checker");
	TCase *library = tcase_create("library");

	test_seed();
	tcase_add_test(checker, checker__right_history);
	tcase_add_test(checker, checker__executed_twice);
	tcase_add_test(checker, checker__foreign_call);
	tcase_add_test(checker, checker__end);
	tcase_add_test(checker, checker__wrong_answer);
	tcase_add_test(checker, checker__executed_after_all);
	tcase_add_test(checker, checker__strange_result);
	suite_add_tcase(suite, checker);
	tcase_add_checked_fixture(library, setup, NULL);
	tcase_add_test(library, history__no_faults);
	tcase_add_test(library, history__faults);
	tcase_add_test(library, history__more_than_a_window);
	tcase_add_test(library, history__long_partitions);
	suite_add_tcase(suite, library);
	return test_main("scale/call_history", suite);
}
