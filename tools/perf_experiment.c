/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The experiments of the work on real-time gateways over InfiniBand that this library grew from, by
 * their names: each is a few runs of a server and a test, two processes of this program on one
 * host, so that both read the same clock.
 */
#define _GNU_SOURCE
#include "perf.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define WORDS_MAX 48
#define START_MS  10000

/* Words are separated by blanks. */
struct run {
	const char *what;
	const char *transport; /* as a rule; --transport names another one */
	const char *both;      /* for server and test */
	const char *test;      /* NULL: cannot be made, @cannot has the reason */
	const char *cannot;
};

struct experiment {
	const char *name, *title;
	const struct run *runs;
};

#define NO_RUN(what, why)                 \
	{                                 \
		what, "ib", "", NULL, why \
	}
#define END                                  \
	{                                    \
		NULL, NULL, NULL, NULL, NULL \
	}

#define UC_WRITE \
	"each write over UC has a completion of its own: the library counts which have left"

/*
 * Queue pairs alone: what the library does not use, and the device by itself beside what the
 * library makes of it.
 */
#define VERBS(what, wait, argv_buf)                                                            \
	{                                                                                      \
		what ", queue pairs alone", "verbs", "-w " wait, "verbs -s 32 " argv_buf, NULL \
	}
#define ALL_OUT "--rate 0 -c 160000"

#define RATE(hz, count, transport, size)                                                          \
	{                                                                                         \
		hz " Hz", transport, "-w poll", "paced -s " size " --rate " hz " -c " count, NULL \
	}
#define RATES(transport, size)                                                                    \
	RATE("100", "1000", transport, size), RATE("2500", "25000", transport, size),             \
		RATE("5000", "50000", transport, size), RATE("10000", "100000", transport, size), \
		RATE("25000", "250000", transport, size),                                         \
		RATE("50000", "250000", transport, size),                                         \
		RATE("100000", "250000", transport, size)

static const struct run e1[] = {
	{"RC", "ib", "-w block -o short=rdma", "paced -s 32 --rate 0 -c 160000", NULL},
	{"UD", "ib", "-w block -o short=udp", "paced -s 32 --rate 0 -c 160000", NULL},
	VERBS("RC", "block", ALL_OUT),
	VERBS("UC", "block", "--qp uc " ALL_OUT),
	VERBS("UD", "block", "--qp ud " ALL_OUT),
	END};
static const struct run e2[] = {
	{"RC", "ib", "-w block -o short=rdma", "paced -s 32 --rate 1 -c 10", NULL},
	{"UD", "ib", "-w block -o short=udp", "paced -s 32 --rate 1 -c 10", NULL},
	VERBS("UC", "block", "--qp uc --rate 1 -c 10"),
	END};
static const struct run e3[] = {
	{"RC", "ib", "-w poll -o short=rdma", "paced -s 32 --rate 0 -c 160000", NULL},
	{"UD", "ib", "-w poll -o short=udp", "paced -s 32 --rate 0 -c 160000", NULL},
	VERBS("RC", "poll", ALL_OUT),
	VERBS("UC", "poll", "--qp uc " ALL_OUT),
	VERBS("UD", "poll", "--qp ud " ALL_OUT),
	END};
static const struct run e4[] = {
	{"RC", "ib", "-w poll -o short=rdma", "paced -s 32 --rate 1 -c 10", NULL},
	{"UD", "ib", "-w poll -o short=udp", "paced -s 32 --rate 1 -c 10", NULL},
	VERBS("UC", "poll", "--qp uc --rate 1 -c 10"),
	END};
static const struct run e5[] = {
	{"stamp at submission", "ib", "-w poll -o short=rdma", "paced -s 32 --rate 1000 -c 8000",
	 NULL},
	VERBS("stamp at submission, UC", "poll", "--qp uc --rate 1000 -c 8000"),
	NO_RUN("stamp at the DMA fetch", "verbs do not show when an adapter fetches the data"),
	END};
#define PACED "paced -s 32 --rate 0 -c 160000"
static const struct run e6[] = {
	{"RC, not inline", "ib", "-w poll -o short=rdma -o inline=0", PACED, NULL},
	{"RC, inline", "ib", "-w poll -o short=rdma", PACED, NULL},
	{"UD, not inline", "ib", "-w poll -o short=udp -o inline=0", PACED, NULL},
	{"UD, inline", "ib", "-w poll -o short=udp", PACED, NULL},
	VERBS("UC, not inline", "poll", "--qp uc " ALL_OUT),
	VERBS("UC, inline", "poll", "--qp uc --inline 32 " ALL_OUT),
	END};
static const struct run e7[] = {
	{"send, RC", "ib", "-w poll -o short=rdma", "latency -s 32", NULL},
	{"write, then a message as notification, RC", "ib", "-w poll -o ib_qp=rc",
	 "latency -s 32 -k long --returns", NULL},
	{"write with immediate, then the message, UC", "ib", "-w poll -o ib_qp=uc",
	 "latency -s 32 -k long --returns", NULL},
	VERBS("send, RC", "poll", "--inline 32 " ALL_OUT),
	VERBS("write with immediate, RC", "poll", "--op write-imm --inline 32 " ALL_OUT),
	VERBS("send, UC", "poll", "--qp uc --inline 32 " ALL_OUT),
	VERBS("write with immediate, UC", "poll", "--qp uc --op write-imm --inline 32 " ALL_OUT),
	END};
static const struct run e8[] = {
	{"RC, each send signaled", "ib", "-w poll -o short=rdma -o signal_every=1", PACED, NULL},
	{"RC, one of 32", "ib", "-w poll -o short=rdma -o signal_every=32", PACED, NULL},
	{"UD, each send signaled", "ib", "-w poll -o short=udp -o signal_every=1", PACED, NULL},
	{"UD, one of 32", "ib", "-w poll -o short=udp -o signal_every=32", PACED, NULL},
	VERBS("UC, each send signaled", "poll", "--qp uc --inline 32 " ALL_OUT),
	VERBS("UC, one of 256", "poll", "--qp uc --inline 32 --signal 256 " ALL_OUT),
	END};
static const struct run e9[] = {
	{"writes over UC, their messages signaled", "ib", "-w poll -o ib_qp=uc -o signal_every=1",
	 "latency -s 32 -k long --returns", NULL},
	{"writes over UC, one of 32 messages", "ib", "-w poll -o ib_qp=uc -o signal_every=32",
	 "latency -s 32 -k long --returns", NULL},
	NO_RUN("unsignaled writes by the library", UC_WRITE),
	VERBS("writes over UC, each signaled", "poll", "--qp uc --op write --inline 32 " ALL_OUT),
	VERBS("writes over UC, one of 256", "poll",
	      "--qp uc --op write --inline 32 --signal 256 " ALL_OUT),
	END};

#define SWEEP "-s 8,16,32,64,128,256,512,1K,2K,4K,8K,16K,32K"
#define SIZES "-s 8,32,128,512"
static const struct run e10[] = {
	{"RC", "ib", "-w poll -o short=rdma", "latency " SWEEP, NULL},
	{"RC, nothing inline", "ib", "-w poll -o short=rdma -o inline=0", "latency -s 8,32,128",
	 NULL},
	{"UC, the long ones", "ib", "-w poll -o ib_qp=uc", "latency -k long " SWEEP, NULL},
	{"UD, what fits a datagram", "ib", "-w poll -o short=udp",
	 "latency -s 8,16,32,64,128,256,512", NULL},
	{"UC, queue pairs alone", "verbs", "-w poll",
	 "verbs --qp uc --rate 0 --depth 1 -c 8000 " SWEEP, NULL},
	{"UC, queue pairs alone, inline", "verbs", "-w poll",
	 "verbs --qp uc --rate 0 --depth 1 -c 8000 --inline 128 " SIZES, NULL},
	END};
static const struct run e11[] = {{"RC, back to back", "ib", "-w poll -o short=rdma",
				  "paced " SIZES " --rate 0 -c 80000", NULL},
				 {"RC, nothing inline", "ib", "-w poll -o short=rdma -o inline=0",
				  "paced " SIZES " --rate 0 -c 80000", NULL},
				 {"UD, back to back", "ib", "-w poll -o short=udp",
				  "paced " SIZES " --rate 0 -c 80000", NULL},
				 {"UC, queue pairs alone", "verbs", "-w poll",
				  "verbs --qp uc --rate 0 -c 80000 " SIZES, NULL},
				 END};
static const struct run e12[] = {{"RC, a pause of 5500 ns", "ib", "-w poll -o short=rdma",
				  "paced " SIZES " --rate 0 --pause 5500 -c 80000", NULL},
				 {"RC, nothing inline", "ib", "-w poll -o short=rdma -o inline=0",
				  "paced " SIZES " --rate 0 --pause 5500 -c 80000", NULL},
				 {"UD, a pause of 5500 ns", "ib", "-w poll -o short=udp",
				  "paced " SIZES " --rate 0 --pause 5500 -c 80000", NULL},
				 {"UC, queue pairs alone", "verbs", "-w poll",
				  "verbs --qp uc --rate 0 --pause 5500 -c 80000 " SIZES, NULL},
				 END};

static const struct run e13[] = {{"ping-pong; ib_send_lat beside it: scripts/bench --lab", "ib",
				  "-w poll -o short=rdma", "latency " SWEEP, NULL},
				 END};
#define MTU(bytes)                                                            \
	{                                                                     \
		bytes " B", "ib", "-w poll -o short=rdma -o path_mtu=" bytes, \
			"latency -s 32,1K,4K,32K", NULL                       \
	}
static const struct run e14[] = {MTU("256"),  MTU("512"),  MTU("1024"),
				 MTU("2048"), MTU("4096"), END};
static const struct run e15[] = {
	{"queue pairs made by hand", "ib", "-w poll -o short=rdma", "latency -s 32", NULL},
	{"made by the connection manager", "iwarp/verbs", "-w poll -o short=rdma", "latency -s 32",
	 NULL},
	END};
static const struct run e16[] = {
	{"a timer that sleeps", "ib", "-w block", "paced -s 32 --rate 1000 -c 10000", NULL},
	{"a clock that is watched", "ib", "-w poll", "paced -s 32 --rate 1000 -c 10000", NULL},
	END};
#define AT_10_KHZ "paced -s 32 --rate 10000 -c 100000"
/* That of the library follows from the credit that peers have. */
#define DEPTH(n) \
	VERBS("a receive queue of " n, "poll", "--inline 32 --signal 64 --depth " n " " ALL_OUT)
static const struct run e17[] = {
	{"bursts of 1", "ib", "-w poll", AT_10_KHZ, NULL},
	{"bursts of 64", "ib", "-w poll", AT_10_KHZ " --burst 64", NULL},
	{"bursts of 64, each send signaled", "ib", "-w poll -o signal_every=1",
	 AT_10_KHZ " --burst 64", NULL},
	{"one of 8", "ib", "-w poll -o signal_every=8", AT_10_KHZ " --burst 64", NULL},
	{"one of 32", "ib", "-w poll -o signal_every=32", AT_10_KHZ " --burst 64", NULL},
	DEPTH("1"),
	DEPTH("16"),
	DEPTH("128"),
	DEPTH("512"),
	DEPTH("8192"),
	END};
static const struct run e18[] = {RATES("ib", "16"), END};
static const struct run e19[] = {RATES("ib", "64"), END};
static const struct run e20[] = {RATES("ib", "512"), END};
static const struct run e21[] = {RATES("shm", "64"), END};
static const struct run e22[] = {RATES("iwarp/soft", "64"), END};

static const struct experiment experiments[] = {
	{"E1", "event-driven, 32 B, in bursts; RC, UC, UD", e1},
	{"E2", "the same, 1 s between messages", e2},
	{"E3", "busy polling, 32 B, in bursts; RC, UC, UD", e3},
	{"E4", "the same, 1 s between messages", e4},
	{"E5", "where the stamp is taken: at submission, at the DMA fetch", e5},
	{"E6", "inline on and off", e6},
	{"E7", "send and write with immediate, RC and UC", e7},
	{"E8", "signaled and unsignaled sends", e8},
	{"E9", "signaled and unsignaled writes", e9},
	{"E10", "sizes from 8 B to 32 KiB, round trips", e10},
	{"E11", "sizes one way, without a pause", e11},
	{"E12", "sizes one way, with a pause of 5500 ns", e12},
	{"E13", "ping-pong against perftest", e13},
	{"E14", "path MTU", e14},
	{"E15", "queue pairs made by the connection manager, and plain ones", e15},
	{"E16", "kinds of timers", e16},
	{"E17", "queue depths and signaling interval", e17},
	{"E18", "rates from 100 Hz to 100 kHz, 2 doubles a sample", e18},
	{"E19", "the same, 8 doubles", e19},
	{"E20", "the same, 64 doubles", e20},
	{"E21", "the same over shared memory, 8 doubles", e21},
	{"E22", "the same over TCP, 8 doubles; ZeroMQ and NNG: scripts/bench", e22},
};

static int list(void)
{
	for (size_t i = 0; i < sizeof(experiments) / sizeof(*experiments); i++)
		printf("%-4s %s\n", experiments[i].name, experiments[i].title);
	return TOOL_OK;
}

struct argv_buf {
	char text[4096];
	char *word[WORDS_MAX + 1];
	unsigned n;
	size_t used;
	bool full;
};

static void add(struct argv_buf *w, const char *word, size_t len)
{
	if (w->n == WORDS_MAX || w->used + len + 1 > sizeof(w->text)) {
		w->full = true;
		return;
	}
	w->word[w->n++] = memcpy(w->text + w->used, word, len);
	w->text[w->used + len] = 0;
	w->used += len + 1;
	w->word[w->n] = NULL;
}

static void add_all(struct argv_buf *w, const char *text)
{
	while (*text) {
		size_t len = strcspn(text, " ");

		if (len)
			add(w, text, len);
		text += len + (text[len] == ' ');
	}
}

static bool is_verbs(const struct run *run)
{
	return !strcmp(run->transport, "verbs");
}

/* Options that the caller gave for all of it, and the transport: theirs, or the run's own. */
static void add_settings(struct argv_buf *w, const struct perf_args *args, const struct run *run,
			 uint64_t service, int cpu)
{
	const char *at = args->settings.text;
	bool named = false;
	char text[96];

	while (*at) {
		size_t len = strcspn(at, " ");

		/* How it waits is the run's. */
		if (len && strncmp(at, "wait=", 5)) {
			add(w, "-o", 2);
			add(w, at, len);
			named |= !strncmp(at, "transports=", 11);
		}
		at += len + (at[len] == ' ');
	}
	snprintf(text, sizeof(text), "-S %llu", (unsigned long long)service);
	add_all(w, text);
	if (!named) {
		add(w, "-t", 2);
		add(w, run->transport, strlen(run->transport));
	}
	/* One of the processors that there are for each; with a single one, neither is bound. */
	if (sysconf(_SC_NPROCESSORS_ONLN) > 1) {
		snprintf(text, sizeof(text), "-p %d", cpu);
		add_all(w, text);
	}
	add_all(w, run->both);
}

/* One process that needs no server. */
static void add_verbs(struct argv_buf *w, const struct run *run)
{
	add_all(w, run->both);
	if (sysconf(_SC_NPROCESSORS_ONLN) > 1)
		add_all(w, "-p 0");
}

/*
 * Starts this program. @out: its standard output, or -1. Return: its process, or -1 with an error
 * message.
 */
static pid_t start(const struct argv_buf *w, int out)
{
	pid_t pid;

	fflush(NULL);
	pid = w->full ? -1 : fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGTERM);
		if (out >= 0)
			dup2(out, STDOUT_FILENO);
		execv("/proc/self/exe", w->word);
		_exit(127);
	}
	if (pid < 0)
		tool_error("cannot start a process: %s",
			   w->full ? "too many settings" : strerror(errno));
	return pid;
}

/* Waits until the server reports that it serves, or ends. */
static bool is_serving(int from)
{
	char text[256];
	size_t len = 0;
	ssize_t n;

	while (len + 1 < sizeof(text) && (n = read(from, text + len, sizeof(text) - 1 - len)) > 0) {
		len += (size_t)n;
		text[len] = 0;
		if (strstr(text, "serving at"))
			return true;
	}
	return false;
}

static pid_t start_server(const struct perf_args *args, const struct run *run, uint64_t service)
{
	struct argv_buf w = {.n = 0};
	int fds[2];
	pid_t pid;

	add_all(&w, "ripc-perf server");
	add_settings(&w, args, run, service, 1);
	if (pipe(fds)) {
		tool_error("pipe: %s", strerror(errno));
		return -1;
	}
	pid = start(&w, fds[1]);
	close(fds[1]);
	if (pid > 0 && !is_serving(fds[0])) {
		kill(pid, SIGTERM);
		waitpid(pid, NULL, 0);
		pid = -1;
	}
	close(fds[0]);
	return pid;
}

/*
 * Reports of run @number go to files of the directory: NAME-NUMBER.json and, of a paced one of one
 * size, .csv.
 */
static void add_reports(struct argv_buf *w, const struct perf_args *args, const char *name,
			const struct run *run, unsigned number)
{
	char text[512];

	if (!args->out)
		return;
	if (perf_has_json()) {
		snprintf(text, sizeof(text), "%s/%s-%u.json", args->out, name, number);
		add(w, "-j", 2);
		add(w, text, strlen(text));
	}
	if ((!strncmp(run->test, "paced", 5) || is_verbs(run)) && !strchr(run->test, ',')) {
		snprintf(text, sizeof(text), "%s/%s-%u.csv", args->out, name, number);
		add(w, "--csv", 5);
		add(w, text, strlen(text));
	}
}

static int run_test(const struct perf_args *args, const char *name, const struct run *run,
		    unsigned number, uint64_t service)
{
	struct argv_buf w = {.n = 0};
	char text[64];
	int status = 0;
	pid_t pid;

	add_all(&w, "ripc-perf");
	add_all(&w, run->test);
	if (is_verbs(run))
		add_verbs(&w, run);
	else
		add_settings(&w, args, run, service, 0);
	if (args->count) {
		snprintf(text, sizeof(text), "-c %llu", (unsigned long long)args->count);
		add_all(&w, text);
	}
	add_reports(&w, args, name, run, number);
	if (!is_verbs(run))
		add_all(&w, "--stop");
	printf("  ");
	for (unsigned i = 0; i < w.n; i++)
		printf("%s%s", i ? " " : "", w.word[i]);
	putchar('\n');
	pid = start(&w, -1);
	if (pid < 0 || waitpid(pid, &status, 0) < 0 || !WIFEXITED(status))
		return TOOL_ERROR;
	return WEXITSTATUS(status);
}

/* Return: whether it was made. */
static bool make_run(const struct perf_args *args, const char *name, const struct run *run,
		     unsigned number)
{
	/* Of this process alone, and below the ids that are drawn. */
	uint64_t service = (UINT64_C(1) << 48) + ((uint64_t)getpid() << 8) + number;
	pid_t server = -1;
	int rc;

	printf("%s, %u: %s\n", name, number, run->what);
	if (!run->test) {
		printf("  cannot be made: %s\n", run->cannot);
		return false;
	}
	if (!is_verbs(run))
		server = start_server(args, run, service);
	if (!is_verbs(run) && server < 0) {
		printf("  cannot be made: no server over %s, see above\n", run->transport);
		return false;
	}
	rc = run_test(args, name, run, number, service);
	/* After a failure nobody has stopped it. */
	if (rc && server > 0)
		kill(server, SIGTERM);
	if (server > 0)
		waitpid(server, NULL, 0);
	if (rc == TOOL_ERROR && is_verbs(run))
		printf("  cannot be made: no queue pairs, see above\n");
	else if (rc)
		printf("  failed, see above\n");
	return !rc;
}

int perf_experiment(const struct perf_args *args)
{
	const struct experiment *e = NULL;
	unsigned made = 0, number = 0;

	if (!strcmp(args->experiment, "list"))
		return list();
	for (size_t i = 0; i < sizeof(experiments) / sizeof(*experiments); i++)
		if (!strcasecmp(args->experiment, experiments[i].name))
			e = &experiments[i];
	if (!e) {
		tool_error("--experiment %s: not known; --experiment list names them",
			   args->experiment);
		return TOOL_ERROR;
	}
	printf("%s: %s\n", e->name, e->title);
	for (const struct run *run = e->runs; run->what && !tool_stopped; run++)
		made += make_run(args, e->name, run, ++number);
	printf("%s: %u of %u runs made\n", e->name, made, number);
	return made ? TOOL_OK : TOOL_NO_ANSWER;
}
