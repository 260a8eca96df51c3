/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* ripc-gateway: reads the configuration, and runs gateways until a signal ends the last. */
#define _GNU_SOURCE
#include "arguments.h"
#include "gateway.h"
#include "ripc.h"
#include "../tool.h"

#include <dirent.h>
#include <errno.h>
#include <getopt.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

struct run {
	const char *file, *metrics;
	char *text; /* the configuration from the command line; or NULL */
	struct gateway *gateway;
	/* the gateway that SIGHUP has made, to be started */
	struct gateway *next;
	struct ripc *ctx;
	struct tool_settings settings;
	bool check_only;
	bool unwritten; /* the last statistics are not in the file */
	cpu_set_t cpus; /* those that the process began with */
	/* what the configuration before has set */
	uint64_t affinity;
	int priority;
};

/* For a running gateway: they wait while there is no loop. */
static const int signal_numbers[] = {SIGHUP, SIGUSR1};
enum { SIGNALS = 2 };

static void mask_signals(int how)
{
	sigset_t set;

	sigemptyset(&set);
	for (unsigned i = 0; i < SIGNALS; i++)
		sigaddset(&set, signal_numbers[i]);
	sigprocmask(how, &set, NULL);
}

/* Of the running loop, or NULL. */
static uv_async_t *volatile stop_loop;

/* uv_async_send() may be called here. */
static void on_stop(int signal)
{
	tool_stopped = signal;
	if (stop_loop)
		uv_async_send(stop_loop);
}

/*
 * SIGTERM and SIGINT set tool_stopped at any time: also while a node searches for its service, and
 * while it waits for a sink that takes no more, which they interrupt.
 */
static void catch_signals(void)
{
	const struct sigaction action = {.sa_handler = on_stop};

	mask_signals(SIG_BLOCK);
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGINT, &action, NULL);
}

static void on_async(uv_async_t *async)
{
	uv_stop(async->loop);
}

static void usage(FILE *out)
{
	fputs("usage: ripc-gateway [-t] [-m FILE] [-o KEY=VALUE] CONFIGURATION\n"
	      "       ripc-gateway [-t] [-m FILE] [-o KEY=VALUE] FROM TO...\n"
	      "Moves samples between services, UDP, files and generators. FROM and TO are\n"
	      "signal:FORM, file:PATH, stdio, socket:HOST:PORT, ripc:SERVICE, group:ID,\n"
	      "zeromq:URL or nanomsg:URL, with further keys of the node:\n"
	      "signal:sine,rate=1000,frequency=2\n"
	      "  -t, --test            check the configuration and end\n"
	      "  -m, --metrics FILE    OpenMetrics text, written on SIGUSR1 and at the end\n"
	      "  -o, --option KEY=VALUE  a setting of libripc\n"
	      "  -V, --version         print the version\n"
	      "  -h, --help            print this\n"
	      "SIGHUP reads the configuration again, SIGUSR1 prints statistics, SIGTERM ends.\n",
	      out);
}

static struct gateway *load(const struct run *run)
{
	struct gateway *gateway = calloc(1, sizeof(*gateway));
	char error[PLAN_ERROR_MAX];

	if (!gateway) {
		tool_error("out of memory");
		return NULL;
	}
	if (run->text ? plan_parse(&gateway->plan, run->file, run->text, error)
		      : plan_load(&gateway->plan, run->file, error)) {
		tool_error("%s", error);
		free(gateway);
		return NULL;
	}
	if (*gateway->plan.warnings)
		fputs(gateway->plan.warnings, stderr);
	return gateway;
}

/* Its contents stay until there are statistics. */
static bool may_write(const char *path)
{
	FILE *out = fopen(path, "ae");

	if (!out) {
		tool_error("--metrics %s: %s", path, strerror(errno));
		return false;
	}
	fclose(out);
	return true;
}

static void print_all(struct run *run)
{
	FILE *out;

	gateway_print(run->gateway, stderr);
	if (!run->metrics)
		return;
	out = fopen(run->metrics, "we");
	if (out)
		gateway_metrics(run->gateway, out);
	run->unwritten = !out || fflush(out) || ferror(out);
	if (run->unwritten)
		tool_error("--metrics %s: cannot write it: %s", run->metrics, strerror(errno));
	if (out)
		fclose(out);
}

static bool is_sink(const struct plan *plan, unsigned node)
{
	for (unsigned i = 0; i < plan->npaths; i++) {
		for (unsigned k = 0; k < plan->path[i].nout; k++) {
			if (plan->path[i].out[k] == node)
				return true;
		}
	}
	return false;
}

/* Files and streams that are written now are continued by the next gateway. */
static void continue_files(const struct plan *now, struct plan *next)
{
	for (unsigned i = 0; i < now->nnodes; i++) {
		for (unsigned k = 0; k < next->nnodes && is_sink(now, i); k++)
			next->node[k].continued |= next->node[k].type == now->node[i].type &&
						   !strcmp(next->node[k].uri, now->node[i].uri);
	}
}

static void on_signal(uv_signal_t *handle, int number)
{
	struct run *run = handle->data;
	struct gateway *next;

	if (number == SIGUSR1) {
		print_all(run);
		return;
	}
	next = load(run);
	/* A faulty file does not stop the gateway that runs. */
	if (!next)
		return;
	continue_files(&run->gateway->plan, &next->plan);
	free(run->next);
	run->next = next;
	uv_stop(handle->loop);
}

/* A node that spins at a real-time priority uses all of its share of a processor. */
static void warn_of_throttling(void)
{
	FILE *in = fopen("/proc/sys/kernel/sched_rt_runtime_us", "re");
	long runtime_us;

	if (!in)
		return;
	if (fscanf(in, "%ld", &runtime_us) == 1 && runtime_us >= 0)
		tool_error("priority: the kernel stops a process that spins after %ld us of each "
			   "period; above 500 samples per second set "
			   "kernel.sched_rt_runtime_us to -1",
			   runtime_us);
	fclose(in);
}

/* Of all threads: that of the library is there already, and stays for the next gateway. */
static int set_affinity(const cpu_set_t *set)
{
	DIR *tasks = opendir("/proc/self/task");
	const struct dirent *task;
	int rc = tasks ? 0 : sched_setaffinity(0, sizeof(*set), set);

	while (!rc && (task = readdir(tasks))) {
		const int tid = atoi(task->d_name);

		if (tid > 0 && sched_setaffinity(tid, sizeof(*set), set) && errno != ESRCH)
			rc = -1;
	}
	if (tasks)
		closedir(tasks);
	return rc;
}

/* Prints what the limits of the process forbid. */
static void real_time(struct run *run, const struct plan *plan)
{
	struct sched_param priority = {.sched_priority = plan->priority};
	struct rlimit limit;
	cpu_set_t set;

	CPU_ZERO(&set);
	for (unsigned i = 0; i < 64; i++) {
		if (plan->affinity >> i & 1)
			CPU_SET(i, &set);
	}
	if ((plan->affinity || run->affinity) && set_affinity(plan->affinity ? &set : &run->cpus))
		tool_error("affinity %llu: %s", (unsigned long long)plan->affinity,
			   strerror(errno));
	run->affinity = plan->affinity;
	if (!plan->priority && run->priority)
		sched_setscheduler(0, SCHED_OTHER, &priority);
	run->priority = plan->priority;
	if (plan->priority && sched_setscheduler(0, SCHED_FIFO, &priority))
		tool_error("priority %d: %s", plan->priority, strerror(errno));
	else if (plan->priority)
		warn_of_throttling();
	/* With a limit, later allocations of the library would fail. */
	if (!getrlimit(RLIMIT_MEMLOCK, &limit) && limit.rlim_cur == RLIM_INFINITY)
		mlockall(MCL_CURRENT | MCL_FUTURE);
	else if (plan->priority)
		tool_error("memory is not locked: RLIMIT_MEMLOCK is not unlimited");
}

static int open_context(struct run *run)
{
	int rc = 0;

	for (unsigned i = 0; i < run->gateway->plan.nnodes && !run->ctx && !rc; i++) {
		if (run->gateway->plan.node[i].type == NODE_RIPC)
			rc = ripc_open(&run->ctx, run->settings.text);
	}
	if (rc)
		tool_fail(rc, "cannot open the library");
	run->gateway->ctx = run->ctx;
	return rc;
}

/* Runs one gateway to its end. Return: 0 or a negative errno. */
static int run_gateway(struct run *run)
{
	uv_signal_t signals[SIGNALS];
	uv_async_t async;
	int rc = open_context(run);

	if (rc)
		return rc;
	/* Before the first deadline: locking memory touches all of it. */
	real_time(run, &run->gateway->plan);
	rc = gateway_start(run->gateway);
	for (unsigned i = 0; !rc && i < SIGNALS; i++) {
		uv_signal_init(&run->gateway->loop, &signals[i]);
		signals[i].data = run;
		rc = uv_signal_start(&signals[i], on_signal, signal_numbers[i]);
	}
	if (!rc)
		rc = uv_async_init(&run->gateway->loop, &async, on_async);
	if (!rc)
		stop_loop = &async;
	if (!rc && !tool_stopped) {
		mask_signals(SIG_UNBLOCK);
		tool_error("running: %u nodes, %u paths", run->gateway->plan.nnodes,
			   run->gateway->plan.npaths);
		uv_run(&run->gateway->loop, UV_RUN_DEFAULT);
	}
	if (!rc) {
		gateway_flush(run->gateway);
		print_all(run);
	}
	/* The loop restores the default actions of its signals. */
	mask_signals(SIG_BLOCK);
	stop_loop = NULL;
	gateway_stop(run->gateway);
	return !rc && run->gateway->incomplete ? -EIO : rc;
}

static int run_all(struct run *run)
{
	int rc = 0;

	run->gateway = load(run);
	if (!run->gateway)
		return TOOL_ERROR;
	while (run->gateway) {
		if (!run->check_only)
			rc = run_gateway(run);
		free(run->gateway);
		run->gateway = rc || tool_stopped ? NULL : run->next;
		if (!run->gateway)
			free(run->next);
		run->next = NULL;
	}
	ripc_close(run->ctx);
	return rc || run->unwritten ? TOOL_ERROR : TOOL_OK;
}

static bool use_arguments(struct run *run, unsigned n, char *const *arguments)
{
	char error[PLAN_ERROR_MAX] = "out of memory";
	size_t len;
	FILE *out = open_memstream(&run->text, &len);
	bool ok = out && arguments_write(out, n, arguments, error);

	if (out && fclose(out))
		ok = false;
	run->file = "arguments";
	if (!ok)
		tool_error("%s", error);
	return ok;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{"test", no_argument, NULL, 't'},         {"metrics", required_argument, NULL, 'm'},
		{"option", required_argument, NULL, 'o'}, {"version", no_argument, NULL, 'V'},
		{"help", no_argument, NULL, 'h'},         {NULL, 0, NULL, 0},
	};
	struct run run = {0};
	int c;

	tool_begin("ripc-gateway");
	sched_getaffinity(0, sizeof(run.cpus), &run.cpus);
	while ((c = getopt_long(argc, argv, "tm:o:Vh", options, NULL)) != -1) {
		switch (c) {
		case 't':
			run.check_only = true;
			break;
		case 'm':
			run.metrics = optarg;
			break;
		case 'o':
			if (!tool_settings_add(&run.settings, optarg, NULL))
				return TOOL_ERROR;
			break;
		case 'V':
			printf("ripc-gateway %s\n", ripc_version());
			return tool_finish(TOOL_OK);
		case 'h':
			usage(stdout);
			return tool_finish(TOOL_OK);
		default:
			usage(stderr);
			return TOOL_ERROR;
		}
	}
	if (argc == optind) {
		tool_error("a configuration is missing, or FROM and TO");
		usage(stderr);
		return TOOL_ERROR;
	}
	if (argc - optind == 1 && strchr(argv[optind], ':') && access(argv[optind], F_OK)) {
		tool_error("%s: no such configuration; for a path without one, name FROM and TO",
			   argv[optind]);
		return TOOL_ERROR;
	}
	catch_signals();
	if (run.metrics && !may_write(run.metrics))
		return TOOL_ERROR;
	run.file = argv[optind];
	c = TOOL_ERROR;
	if (argc - optind == 1 || use_arguments(&run, (unsigned)(argc - optind), argv + optind))
		c = run_all(&run);
	free(run.text);
	return tool_finish(c);
}
