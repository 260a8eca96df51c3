/* SPDX-License-Identifier: LGPL-2.1-or-later */
#define _GNU_SOURCE
#include "worker.h"

#include "chance.h"
#include "memory.h"
#include "observe.h"
#include "receive.h"
#include "request.h"
#include "send.h"
#include "watchdog.h"

#include <dirent.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <signal.h>
#include <unistd.h>

#define FLUSH_ATTEMPTS 500          /* of 20 ms and more */
#define HEAP_SLACK     (512 * 1024) /* the allocator counts what a thread caches as used */

_Thread_local uint64_t chance_state;

static uint64_t process_seed;

/* One operation of a service. */
static void operate(struct service *s)
{
	switch (chance(20)) {
	case 0:
	case 1:
		send_short(s);
		break;
	case 2:
	case 3:
	case 4:
		send_reliable(s);
		break;
	case 5:
	case 6:
	case 7:
	case 8:
		send_long(s, one_in(2));
		break;
	case 9:
	case 10:
	case 11:
	case 12:
		call_service(s, one_in(2));
		break;
	case 13:
		receive_stored(s->context);
		break;
	case 14:
		window_add(s);
		break;
	case 15:
		window_remove(s->context);
		break;
	case 16:
		return_buffer_withdraw(s);
		break;
	case 17:
		if (one_in(3))
			group_change(s);
		else
			send_group(s);
		break;
	case 18:
		observe(s);
		break;
	default:
		if (setup->unregister && one_in(40))
			service_unregister(s, true);
		else if (setup->close && one_in(120))
			context_close(s->context);
	}
}

static void run(void)
{
	while (board_running()) {
		struct context *c = context_any();
		struct service *s = service_any(c);

		if (!c || one_in(400)) {
			context_open();
		} else if (!s || one_in(60)) {
			service_register(c);
		} else {
			if (one_in(6))
				request_any();
			if (one_in(2))
				receive_some(s);
			operate(s);
		}
	}
}

/* Receives a little, so that others come to an end. */
static void receive_idle(void)
{
	struct context *c = context_any();
	struct service *s = service_any(c);

	if (s)
		receive_some(s);
	if (c)
		receive_stored(c);
	if (!s)
		board_pause(1);
}

static _Thread_local unsigned unflushed;

static void count_unflushed(struct service *s)
{
	for (unsigned i = 1; i <= IDS; i++)
		unflushed += s->streams[KIND_RELIABLE][i].ntaken;
}

/* Ends what this thread has started, and the reliable messages of all. */
static void finish(bool first)
{
	request_end_all(receive_idle);
	for (unsigned i = 0; first; i++) {
		unflushed = 0;
		service_each(count_unflushed);
		if (!unflushed)
			break;
		if (i == FLUSH_ATTEMPTS) {
			board_fault("%u reliable messages do not end", unflushed);
			break;
		}
		service_each(flush_all);
		receive_idle();
	}
}

static void drain_service(struct service *s)
{
	receive_all(s);
}

/* All threads have ended what they had started: what was delivered is in the queues. */
static void drain(void)
{
	struct context *c;

	service_each(drain_service);
	for (unsigned i = 0; i < CONTEXTS_MAX * 4; i++)
		if ((c = context_any()))
			receive_all_stored(c);
}

static void *thread_main(void *arg)
{
	bool first = !arg;

	chance_state = process_seed + (uint64_t)(uintptr_t)arg;
	watchdog_join();
	run();
	/* The parent changes the phase when the time of the run is over. */
	while (board->phase == PHASE_RUN)
		receive_idle();
	finish(first);
	board->arrived[PHASE_FINISH]++;
	while (board->phase == PHASE_FINISH)
		receive_idle();
	if (first)
		drain();
	board->arrived[PHASE_DRAIN]++;
	while (board->phase == PHASE_DRAIN)
		board_pause(1);
	watchdog_leave();
	return NULL;
}

/* ---- what a process holds ---- */

struct holdings {
	unsigned descriptors, threads, mappings;
	size_t heap;
};

static unsigned entries(const char *path)
{
	DIR *dir = opendir(path);
	unsigned n = 0;

	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

/* Shared memory of the library. show: names them. */
static unsigned shared_mappings(bool show)
{
	FILE *f = fopen("/proc/self/maps", "r");
	char line[500];
	unsigned n = 0;

	if (!f)
		abort();
	while (fgets(line, sizeof(line), f))
		if (strstr(line, "ripc") && (strstr(line, "memfd:") || strstr(line, "/dev/shm/"))) {
			n++;
			if (show)
				board_fault("is still mapped: %s", line);
		}
	fclose(f);
	return n;
}

static struct holdings holdings_now(void)
{
	return (struct holdings){.descriptors = entries("/proc/self/fd"),
				 .threads = entries("/proc/self/task"),
				 .mappings = shared_mappings(false),
				 .heap = mallinfo2().uordblks};
}

static void check_holdings(const struct holdings *before)
{
	struct holdings now;
	uint64_t end = 0;

	/* A thread that was joined may be listed for a moment. */
	do
		now = holdings_now();
	while (now.threads > before->threads && test_pause(&end, TEST_PATIENCE_MS));
	if (now.descriptors > before->descriptors || now.threads > before->threads)
		board_fault("left behind: %d descriptors, %d threads",
			    (int)(now.descriptors - before->descriptors),
			    (int)(now.threads - before->threads));
	if (now.mappings > before->mappings)
		shared_mappings(true);
	if (now.heap > before->heap + HEAP_SLACK)
		board_fault("left behind: %zu bytes of the heap", now.heap - before->heap);
}

int worker_main(unsigned process, uint64_t seed)
{
	pthread_t threads[WORKER_THREADS];
	struct holdings before;
	struct ripc *first;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	board_process = process;
	process_seed = chance_state = seed;
	/* The libraries keep what they allocate first. */
	if (ripc_open(&first, setup->options[0]) || ripc_close(first)) {
		board_fault("ripc_open(%s): %s", setup->options[0], ripc_error_detail());
		return 1;
	}
	before = holdings_now();
	watchdog_start();
	for (uintptr_t i = 0; i < WORKER_THREADS; i++)
		if (pthread_create(&threads[i], NULL, thread_main, (void *)i))
			abort();
	for (unsigned i = 0; i < WORKER_THREADS; i++)
		pthread_join(threads[i], NULL);
	watchdog_join();
	context_close_all();
	watchdog_leave();
	watchdog_stop();
	objects_free();
	check_holdings(&before);
	return 0;
}
