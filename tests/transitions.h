/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Tests of state machines: each event in each state. */
#ifndef RIPC_TESTS_TRANSITIONS_H
#define RIPC_TESTS_TRANSITIONS_H

#include "config.h"
#include "harness.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define REFUSED (-1)

/*
 * Makes an object in the state from, and lets an event happen, with an argument of its own. Return:
 * the state after it.
 */
typedef unsigned transition_fn(unsigned from, unsigned arg);

/* The same in a child, which a failed assertion ends. Return: the state, or REFUSED. */
static inline int state_after(transition_fn *event, unsigned from, unsigned arg)
{
	int status;
	pid_t pid = fork();

	ck_assert_int_ge(pid, 0);
	if (!pid) {
		struct rlimit none = {0, 0};

		setrlimit(RLIMIT_CORE, &none);
		dup2(open("/dev/null", O_WRONLY | O_CLOEXEC), STDERR_FILENO);
		signal(SIGABRT, SIG_DFL);
		_exit((int)event(from, arg));
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	if (WIFSIGNALED(status))
		ck_assert_int_eq(WTERMSIG(status), SIGABRT);
	return WIFSIGNALED(status) ? REFUSED : WEXITSTATUS(status);
}

/* Whether forbidden transitions are refused. */
static inline bool has_assertions(void)
{
#ifdef RIPC_DEBUG
	return true;
#else
	test_skip("built without assertions: with --enable-debug it has them");
	return false;
#endif
}

/*
 * The transition_fn set_state(): setter changes the member state of an object of a type. Further
 * arguments initialize the members that setter needs.
 */
#define DEFINE_SET_STATE(type, setter, ...)                   \
	static unsigned set_state(unsigned from, unsigned to) \
	{                                                     \
		type object = {.state = from, __VA_ARGS__};   \
                                                              \
		setter(&object, to);                          \
		return object.state;                          \
	}

/* set makes the transition to its argument; bit TO of allowed[FROM]: it may. */
static inline void check_transition_table(transition_fn *set, unsigned states,
					  const unsigned *allowed)
{
	if (!has_assertions())
		return;
	for (unsigned from = 0; from < states; from++)
		for (unsigned to = 0; to < states; to++) {
			int want = allowed[from] & 1u << to ? (int)to : REFUSED;
			int got = state_after(set, from, to);

			ck_assert_msg(got == want, "from %u to %u: %d, not %d", from, to, got,
				      want);
		}
}

/* The same for an array allowed[STATES]. */
#define check_transitions(set, allowed) \
	check_transition_table(set, sizeof(allowed) / sizeof((allowed)[0]), allowed)

/* An event that leads from state FROM to after[FROM]; REFUSED: it never happens there. */
static inline void check_event(transition_fn *event, unsigned arg, unsigned states,
			       const int *after)
{
	if (!has_assertions())
		return;
	for (unsigned from = 0; from < states; from++) {
		int got = state_after(event, from, arg);

		ck_assert_msg(got == after[from], "from %u: %d, not %d", from, got, after[from]);
	}
}

#endif
