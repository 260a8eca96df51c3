/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "lock_gate.h"

#include <check.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static struct {
	uint8_t *page;
	bool (*meanwhile)(void *arg);
	void *arg;
	int begin[2], end[2];
	pthread_t thread;
	volatile sig_atomic_t stopped, got_through;
} gate;

static void gate_handler(int sig, siginfo_t *info, void *context)
{
	struct pollfd fd = {.fd = gate.end[0], .events = POLLIN};

	if ((uint8_t *)info->si_addr < gate.page ||
	    (uint8_t *)info->si_addr >= gate.page + GATE_BYTES) {
		signal(SIGSEGV, SIG_DFL);
		return;
	}
	gate.stopped = 1;
	/* If it does not come it waits for what we hold: then it is to be seen that it did not. */
	if (write(gate.begin[1], "", 1) == 1 && poll(&fd, 1, 20000) == 1)
		gate.got_through = 1;
	mprotect(gate.page, GATE_BYTES, PROT_READ | PROT_WRITE);
}

static void *gate_thread(void *arg)
{
	char byte;

	/* No byte: nobody has come. */
	if (read(gate.begin[0], &byte, 1) == 1 && gate.meanwhile(gate.arg))
		ck_assert_int_eq((int)write(gate.end[1], "", 1), 1);
	return NULL;
}

void gate_shut(uint8_t *page, bool (*meanwhile)(void *arg), void *arg)
{
	struct sigaction action = {.sa_sigaction = gate_handler, .sa_flags = SA_SIGINFO};

	memset(&gate, 0, sizeof(gate));
	gate.page = page;
	gate.meanwhile = meanwhile;
	gate.arg = arg;
	ck_assert_int_eq(pipe(gate.begin), 0);
	ck_assert_int_eq(pipe(gate.end), 0);
	ck_assert_int_eq(pthread_create(&gate.thread, NULL, gate_thread, NULL), 0);
	ck_assert_int_eq(sigaction(SIGSEGV, &action, NULL), 0);
	ck_assert_int_eq(mprotect(page, GATE_BYTES, PROT_NONE), 0);
}

bool gate_stopped(void)
{
	return gate.stopped;
}

bool gate_open(void)
{
	signal(SIGSEGV, SIG_DFL);
	ck_assert_int_eq(mprotect(gate.page, GATE_BYTES, PROT_READ | PROT_WRITE), 0);
	close(gate.begin[1]);
	ck_assert_int_eq(pthread_join(gate.thread, NULL), 0);
	close(gate.begin[0]);
	close(gate.end[0]);
	close(gate.end[1]);
	ck_assert_int_eq(gate.got_through, gate.stopped);
	return gate.stopped;
}
