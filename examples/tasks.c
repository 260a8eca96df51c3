/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A boss distributes tasks to workers and gets each task done, even if workers are killed.
 *
 *     ./tasks boss 42 4000        has 4000 tasks, and ends when all are done
 *     ./tasks worker 42 1         in any number of terminals; each task takes it 1 ms
 *
 * A worker calls the boss. The call reports the result of its last task and asks for the next; the
 * answer is the task. A call is executed at most once and gets its own answer, so nothing has to be
 * numbered or repeated. While no task is free, the boss keeps the call unanswered.
 *
 * The boss watches each worker. When a worker has died, its task is free again. So no task is lost,
 * and a slow worker keeps its task. A worker that the boss cannot reach for a while counts as dead;
 * its task may be worked on twice, and its result is counted once.
 *
 * Nobody replaces the boss: the results are lost if the boss is killed.
 */
#include "service_arg.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define NO_TASK         UINT64_MAX
#define BOSS_TIMEOUT_MS 5000

/* The same both ways, on hosts of the same byte order. */
struct text {
	uint64_t task;   /* request: the one that is done; reply: the one to do; NO_TASK: none */
	uint64_t result; /* request: of that task */
};

struct worker {
	uint64_t id;              /* service; 0: has ended */
	uint64_t task;            /* that it has, or NO_TASK */
	struct ripc_message *ask; /* its call, which waits for a task, or NULL */
};

struct boss {
	struct ripc_service *service;
	uint64_t ntasks, nbegun; /* tasks; of them, those that were given out once */
	uint64_t *returned;      /* tasks of workers that have died */
	uint64_t nreturned, ngiven_again;
	char *done; /* of each task */
	uint64_t ndone, sum;
	struct worker *workers;
	unsigned nworkers, nalive;
};

static int fail(const char *who)
{
	fprintf(stderr, "%s: %s\n", who, ripc_error_detail());
	return 1;
}

static struct worker *worker_get(struct boss *b, uint64_t id)
{
	struct worker *grown;

	for (unsigned i = 0; i < b->nworkers; i++)
		if (b->workers[i].id == id)
			return &b->workers[i];
	grown = realloc(b->workers, (b->nworkers + 1) * sizeof(*grown));
	if (!grown || ripc_watch(b->service, id)) {
		b->workers = grown ? grown : b->workers;
		return NULL;
	}
	b->workers = grown;
	b->nalive++;
	b->workers[b->nworkers] = (struct worker){id, NO_TASK, NULL};
	return &b->workers[b->nworkers++];
}

static void worker_end(struct boss *b, struct worker *w)
{
	if (w->task != NO_TASK)
		b->returned[b->nreturned++] = w->task;
	ripc_message_free(w->ask);
	*w = (struct worker){0, NO_TASK, NULL};
	b->nalive--;
}

/* Answers a call that waits, if there is a task, or if all are done. */
static void give(struct boss *b, struct worker *w)
{
	struct text text = {NO_TASK, 0};
	struct iovec reply = {&text, sizeof(text)};

	if (!w->ask || (b->ndone < b->ntasks && !b->nreturned && b->nbegun == b->ntasks))
		return;
	if (b->ndone < b->ntasks && b->nreturned) {
		text.task = b->returned[--b->nreturned];
		b->ngiven_again++;
	} else if (b->ndone < b->ntasks) {
		text.task = b->nbegun++;
	}
	w->task = text.task;
	/* A worker that is not reached has died: its event follows. */
	if (ripc_reply(w->ask, &reply, 1, 0))
		fprintf(stderr, "boss: %s\n", ripc_error_detail());
	ripc_message_free(w->ask);
	w->ask = NULL;
	if (b->ndone == b->ntasks) {
		ripc_unwatch(b->service, w->id);
		worker_end(b, w);
	}
}

/* A call of a worker. */
static void asked(struct boss *b, struct ripc_message *m)
{
	struct worker *w;
	struct text text;

	if (m->nitems != 1 || m->items[0].iov_len != sizeof(text)) {
		ripc_reply_error(m, EINVAL);
		ripc_message_free(m);
		return;
	}
	memcpy(&text, m->items[0].iov_base, sizeof(text));
	w = worker_get(b, m->source);
	if (!w) {
		ripc_reply_error(m, ENOMEM);
		ripc_message_free(m);
		return;
	}
	if (text.task < b->ntasks && !b->done[text.task]) {
		b->done[text.task] = 1;
		b->ndone++;
		b->sum += text.result;
	}
	w->task = NO_TASK;
	ripc_message_free(w->ask);
	w->ask = m;
}

static int run_boss(const char *name, uint64_t ntasks)
{
	struct boss b = {.ntasks = ntasks, .done = calloc(ntasks, 1)};
	struct ripc_message *m;
	int failed;

	b.returned = calloc(ntasks, sizeof(*b.returned));
	if (!b.done || !b.returned) {
		fprintf(stderr, "boss: no memory for %" PRIu64 " tasks\n", ntasks);
		free(b.done);
		free(b.returned);
		return 1;
	}
	failed = service_arg_register(name, &b.service);
	if (!failed) {
		printf("service %s has %" PRIu64 " tasks\n", name, ntasks);
		fflush(stdout);
	}
	/* At the end each worker that lives gets an answer without a task. */
	while (!failed && (b.ndone < ntasks || b.nalive)) {
		failed = ripc_receive(b.service, &m, -1);
		if (failed)
			break;
		if (m->call) {
			asked(&b, m);
		} else {
			for (unsigned i = 0; m->event && i < b.nworkers; i++)
				if (b.workers[i].id == m->source)
					worker_end(&b, &b.workers[i]);
			ripc_message_free(m);
		}
		for (unsigned i = 0; i < b.nworkers; i++)
			give(&b, &b.workers[i]);
	}
	if (failed)
		fail("boss");
	else
		printf("%" PRIu64 " tasks done, the sum is %" PRIu64 ", %" PRIu64 " given again\n",
		       b.ndone, b.sum, b.ngiven_again);
	free(b.done);
	free(b.returned);
	free(b.workers);
	return ripc_close(NULL) || failed;
}

static int run_worker(uint64_t boss, unsigned long long ms)
{
	struct timespec takes = {(time_t)(ms / 1000), (long)(ms % 1000) * 1000000};
	struct text text = {NO_TASK, 0};
	struct iovec request = {&text, sizeof(text)};
	struct ripc_service *me;
	struct ripc_message *m;

	if (ripc_service_register(NULL, RIPC_ANY_ID, 0, &me))
		return fail("worker");
	for (;;) {
		int err;

		/* The boss may take any time to answer, but it has to be there. */
		if (ripc_route_lookup(NULL, boss, NULL, BOSS_TIMEOUT_MS))
			return fail("worker");
		err = ripc_call(me, boss, &request, 1, NULL, &m, -1);
		if (!err && m->items[0].iov_len == sizeof(text))
			memcpy(&text, m->items[0].iov_base, sizeof(text));
		ripc_message_free(m);
		if (err)
			return fail("worker");
		if (text.task == NO_TASK)
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
	uint64_t id = argc == 4 ? service_arg(argv[2]) : 0;
	unsigned long long number;

	if (id && number_arg(argv[3], UINT32_MAX, &number)) {
		if (!strcmp(argv[1], "boss") && number)
			return run_boss(argv[2], number);
		if (!strcmp(argv[1], "worker"))
			return run_worker(id, number);
	}
	fprintf(stderr, "usage: tasks boss SERVICE TASKS\n"
			"       tasks worker SERVICE MS\n");
	return 2;
}
