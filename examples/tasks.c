/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A boss distributes tasks to workers and gets each task done, even if workers are killed.
 *
 *     ./tasks boss 42 4000        has 4000 tasks, and ends when all are done
 *     ./tasks worker 42 1         in any number of terminals; each task takes it 1 ms
 *
 * A send that returns 0 does not mean that the work is done, so the boss relies on results alone.
 * It remembers which worker has which task, and gives a task without a result after TASK_MS to
 * another worker, because the first one may be dead or slow. So two workers may do the same task;
 * its result is counted once. The boss detects a dead worker by this timeout only.
 *
 * A worker asks for work and reports the result of its last task in the same message. A request or
 * a reply may be lost: the worker asks again after ASK_MS and gets the same task again. It drops
 * replies to earlier requests.
 *
 * There is only one boss: its results are lost if it is killed.
 */
#include <ripc.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TASK_MS   1000 /* longer than a task takes */
#define ASK_MS    200
#define LINGER_MS 1000 /* at the end: all workers that are alive have asked by then */
#define NO_TASK   UINT64_MAX
#define END       (UINT64_MAX - 1) /* instead of a task: there are no more */

/* The same both ways, on hosts of the same byte order. */
struct text {
	uint64_t number; /* of the request; a reply has that of its request */
	uint64_t task; /* request: the one that is done, or NO_TASK; reply: the one to do, or END */
	uint64_t result; /* request: of that task */
};

struct task {
	uint64_t worker; /* service id; 0: was given to nobody */
	int64_t given_ms;
	int done;
};

struct boss {
	struct task *tasks;
	uint64_t ntasks, ndone, ngiven_again, sum;
};

static int64_t clock_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static int fail(const char *who)
{
	fprintf(stderr, "%s: %s\n", who, ripc_error_detail());
	return 1;
}

static int text_get(struct text *text, const struct ripc_message *m)
{
	if (m->nitems != 1 || m->items[0].iov_len != sizeof(*text))
		return 0;
	memcpy(text, m->items[0].iov_base, sizeof(*text));
	return 1;
}

/* The task that the worker has; else one that nobody has; else one whose worker is overdue. */
static uint64_t choose(const struct boss *b, uint64_t worker, int64_t now_ms)
{
	uint64_t fresh = NO_TASK, overdue = NO_TASK;

	for (uint64_t i = 0; i < b->ntasks; i++) {
		const struct task *t = &b->tasks[i];

		if (t->done)
			continue;
		if (t->worker == worker)
			return i;
		if (!t->worker && fresh == NO_TASK)
			fresh = i;
		if (t->worker && now_ms - t->given_ms > TASK_MS && overdue == NO_TASK)
			overdue = i;
	}
	return fresh != NO_TASK ? fresh : overdue;
}

/* Counts the result that a request reports. Return: what to reply; NO_TASK: nothing for now. */
static uint64_t handle(struct boss *b, const struct text *request, uint64_t worker)
{
	uint64_t task = request->task;
	int64_t now_ms = clock_ms();

	if (task < b->ntasks && !b->tasks[task].done) {
		b->tasks[task].done = 1;
		b->ndone++;
		b->sum += request->result;
	}
	if (b->ndone == b->ntasks)
		return END;
	task = choose(b, worker, now_ms);
	if (task == NO_TASK)
		return NO_TASK;
	b->ngiven_again += b->tasks[task].worker && b->tasks[task].worker != worker;
	b->tasks[task].worker = worker;
	b->tasks[task].given_ms = now_ms;
	return task;
}

static int run_boss(uint64_t id, uint64_t ntasks)
{
	struct boss b = {(struct task *)calloc(ntasks, sizeof(struct task)), ntasks, 0, 0, 0};
	struct ripc_service *service;
	struct ripc_message *m;

	if (!b.tasks || ripc_service_register(NULL, id, 0, &service)) {
		free(b.tasks);
		return fail("boss");
	}
	printf("service %" PRIu64 " has %" PRIu64 " tasks\n", id, ntasks);
	fflush(stdout);
	while (!ripc_receive(service, &m, b.ndone < ntasks ? -1 : LINGER_MS)) {
		struct text text;
		struct iovec reply = {&text, sizeof(text)};
		uint64_t worker = m->source;
		int asked = text_get(&text, m);

		ripc_message_free(m);
		if (!asked)
			continue;
		text.task = handle(&b, &text, worker);
		/* A worker that is not reached asks again, or is dead. */
		if (text.task != NO_TASK && ripc_send_short(service, worker, &reply, 1, NULL, 0))
			fprintf(stderr, "boss: %s\n", ripc_error_detail());
	}
	free(b.tasks);
	if (b.ndone < ntasks)
		return fail("boss");
	printf("%" PRIu64 " tasks done, the sum is %" PRIu64 ", %" PRIu64 " given again\n", b.ndone,
	       b.sum, b.ngiven_again);
	return ripc_close(NULL) ? fail("boss") : 0;
}

/* Asks until there is a reply to this very request. Return: 0, or 1 if the boss is gone. */
static int ask(struct ripc_service *me, uint64_t boss, struct text *text)
{
	struct iovec request = {text, sizeof(*text)};
	struct ripc_message *m;
	struct text reply;

	while (!ripc_send_short(me, boss, &request, 1, NULL, 5000)) {
		while (!ripc_receive(me, &m, ASK_MS)) {
			int found = m->source == boss && text_get(&reply, m) &&
				    reply.number == text->number;

			ripc_message_free(m);
			if (found) {
				text->task = reply.task;
				return 0;
			}
		}
	}
	return 1;
}

static int run_worker(uint64_t boss, unsigned long ms)
{
	struct timespec takes = {(time_t)(ms / 1000), (long)(ms % 1000) * 1000000};
	struct text text = {0, NO_TASK, 0};
	struct ripc_service *me;

	if (ripc_service_register(NULL, RIPC_ANY_ID, 0, &me))
		return fail("worker");
	for (;;) {
		text.number++;
		if (ask(me, boss, &text))
			return fail("worker");
		if (text.task == END)
			break;
		printf("task %" PRIu64 "\n", text.task);
		fflush(stdout);
		nanosleep(&takes, NULL);
		text.result = text.task * text.task;
	}
	return ripc_close(NULL) ? fail("worker") : 0;
}

int main(int argc, char **argv)
{
	uint64_t id = argc == 4 ? strtoull(argv[2], NULL, 0) : 0;

	if (id && !strcmp(argv[1], "boss") && strtoull(argv[3], NULL, 0))
		return run_boss(id, strtoull(argv[3], NULL, 0));
	if (id && !strcmp(argv[1], "worker"))
		return run_worker(id, strtoul(argv[3], NULL, 0));
	fprintf(stderr, "usage: tasks boss ID TASKS\n"
			"       tasks worker ID MS\n");
	return 2;
}
