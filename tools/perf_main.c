/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* ripc-perf: latency, rate and bandwidth between two services, next to plain sockets. */
#define _GNU_SOURCE
#include "perf.h"

#include <errno.h>
#include <sched.h>
#include <string.h>

/* Before the library is opened: its thread shall stay on the same processor. */
static bool pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET((size_t)cpu, &set);
	if (!sched_setaffinity(0, sizeof(set), &set))
		return true;
	tool_error("--pin %d: %s", cpu,
		   errno == EINVAL ? "there is no such processor, or this process may not use it"
				   : strerror(errno));
	return false;
}

static bool open_reports(struct perf_args *args)
{
	if (args->command != PERF_TEST && args->command != PERF_VERBS)
		return true;
	if (args->json)
		args->json_file = tool_output_open("--json", args->json);
	if (args->csv)
		args->csv_file = tool_output_open("--csv", args->csv);
	return (!args->json || args->json_file) && (!args->csv || args->csv_file);
}

int main(int argc, char **argv)
{
	struct perf_args args;
	struct ripc *ctx;
	int rc;

	tool_begin("ripc-perf");
	rc = perf_parse(&args, argc, argv);
	if (rc >= 0)
		return tool_finish(rc);
	tool_catch_signals();
	/* A server prints one line, and serves on when that was read. */
	if (args.command != PERF_SERVER)
		tool_watch_output();
	if (args.command == PERF_EXPERIMENT)
		return tool_finish(perf_experiment(&args));
	if ((args.pin >= 0 && !pin(args.pin)) || !open_reports(&args))
		return TOOL_ERROR;
	if (args.command == PERF_VERBS)
		return tool_finish(perf_verbs(&args));
	rc = ripc_open(&ctx, args.settings.text);
	if (rc) {
		tool_fail(rc, "cannot open the library");
		return TOOL_ERROR;
	}
	rc = args.command == PERF_SERVER ? perf_serve(ctx, &args) : perf_run(ctx, &args);
	ripc_close(ctx);
	return tool_finish(rc);
}
