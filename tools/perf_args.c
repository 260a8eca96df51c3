/* SPDX-License-Identifier: LGPL-2.1-or-later */
#define _GNU_SOURCE
#include "perf.h"

#include <getopt.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

enum {
	OPT_BASELINE = 256,
	OPT_VERIFY,
	OPT_OWN_MEMORY,
	OPT_RETURNS,
	OPT_NO_MORE,
	OPT_STOP,
	OPT_PIN,
	OPT_ROUNDS,
	OPT_TIMEOUT,
	OPT_RATE,
	OPT_PAUSE,
	OPT_BURST,
	OPT_CSV,
	OPT_EXPERIMENT,
	OPT_QP,
	OPT_OP,
	OPT_DEVICE,
	OPT_DEPTH,
	OPT_SIGNAL,
	OPT_INLINE,
	OPT_OUT
};

static const char *const tests[] = {NULL, "latency", "rate", "bandwidth", "paced"};
static const char *const kinds[] = {NULL, "short", "long", "auto"};
static const char *const waits[] = {NULL, "adaptive", "poll", "block"};
static const char *const qps[] = {NULL, "rc", "uc", "ud"};
static const char *const ops[] = {NULL, "send", "write", "write-imm"};
static const char *const protocols[] = {NULL, "tcp", "udp"};

const char *perf_test_name(enum perf_test test)
{
	return tests[test];
}

const char *perf_kind_name(enum perf_kind kind)
{
	return kinds[kind];
}

const char *perf_wait_name(enum perf_wait wait)
{
	return waits[wait];
}

const char *perf_protocol_name(enum perf_protocol protocol)
{
	return protocols[protocol];
}

const char *perf_qp_name(enum perf_qp qp)
{
	return qps[qp];
}

const char *perf_op_name(enum perf_op op)
{
	return ops[op];
}

static void usage(FILE *to)
{
	fprintf(to,
		"usage: ripc-perf server [options]\n"
		"       ripc-perf latency|rate|bandwidth|paced [options]\n"
		"       ripc-perf verbs [options]\n"
		"       ripc-perf stop [options]\n"
		"       ripc-perf --experiment NAME|list [-t NAME] [-c N] [--out DIRECTORY]\n"
		"of both sides:\n"
		"  -S, --service SERVICE the server's service, an id or a name (%llu)\n"
		"  -t, --transport NAME  use this transport only\n"
		"  -w, --wait MODE       adaptive, poll or block (adaptive)\n"
		"  -p, --pin CPU         run on this processor only, 0 to 1023\n"
		"  -o, --option K=V      a setting for the library, see ripc(7)\n"
		"of the tests:\n"
		"  -s, --size LIST       bytes per message, 0 to 1024G, comma-separated, K, M and "
		"G "
		"allowed\n"
		"                        (64; bandwidth: 1M)\n"
		"  -c, --count N         messages per size, 1 to 1099511627776 (by size)\n"
		"  -k, --kind KIND       short, long or auto (auto; bandwidth: long)\n"
		"  -W, --window N        long messages in flight in the bandwidth test, 1 to 256 "
		"(8)\n"
		"  -j, --json FILE       write JSON to the file, - for standard output without the "
		"table\n"
		"      --baseline P      tcp or udp, with :poll or :block: the same over plain "
		"sockets\n"
		"      --rounds N        parts of a measurement, 1 to 1000, ours and the baseline "
		"in "
		"turn (5)\n"
		"      --returns         offer return buffers with long messages of the latency "
		"test\n"
		"      --no-more         send each message of the rate test by itself\n"
		"      --own-memory      send out of memory of malloc() in the bandwidth test\n"
		"      --verify          check every byte that arrives\n"
		"      --timeout MS      wait so long for the server, 1 to 3600000 (10000)\n"
		"      --stop            stop the server when done\n"
		"of the paced test, one way at a fixed rate, up to 16777216 messages of 8 bytes or "
		"more:\n"
		"      --rate HZ         messages per second, 0 to 10000000, 0: as fast as it goes "
		"(1000)\n"
		"      --burst N         messages that are due at once, 1 to 100000 (1)\n"
		"      --pause NS        wait after each message, 0 to 60000000000 (0)\n"
		"      --csv FILE        one row per message, - for standard output\n"
		"of verbs, the paced test over queue pairs of a device alone, by itself, up to "
		"262144 bytes:\n"
		"      --qp TYPE         rc, uc or ud (rc)\n"
		"      --op WHAT         send, write or write-imm (send)\n"
		"      --device NAME     (the first one that will do)\n"
		"      --depth N         of the receive queue, 1 to 16384 (512)\n"
		"      --signal N        one of so many sends has a completion, 1 to 256 (1)\n"
		"      --inline BYTES    messages up to this are sent inline, 0 to 65535 (0)\n"
		"of experiments, made of such tests:\n"
		"      --experiment NAME  run it; list prints the names\n"
		"      --out DIRECTORY   write its reports there\n"
		"  -V, --version         print the version\n"
		"  -h, --help            print this\n",
		(unsigned long long)PERF_SERVICE);
}

/* Index of @text in a list of 4 (or fewer) that begins at 1, or 0. */
static int choose(const char *option, const char *text, const char *const *list, int n)
{
	for (int i = 1; i < n; i++)
		if (!strcmp(text, list[i]))
			return i;
	fprintf(stderr, "%s: %s %s: must be", tool_name, option, text);
	for (int i = 1; i < n; i++)
		fprintf(stderr, "%s %s", i == 1 ? "" : i + 1 == n ? " or" : ",", list[i]);
	fputc('\n', stderr);
	return 0;
}

static bool parse_sizes(struct perf_args *args, const char *text)
{
	char word[32];

	args->nsizes = 0;
	for (;;) {
		size_t len = strcspn(text, ",");
		uint64_t *size = &args->sizes[args->nsizes];

		if (args->nsizes == PERF_SIZES_MAX) {
			tool_error("--size: more than %d sizes", PERF_SIZES_MAX);
			return false;
		}
		snprintf(word, sizeof(word), "%.*s", (int)(len < 31 ? len : 31), text);
		if (len > 31 || !tool_parse_size(word, PERF_SIZE_LIMIT, size)) {
			tool_error("--size %s: must be a number of bytes from 0 to 1024G", word);
			return false;
		}
		args->nsizes++;
		if (!text[len])
			return true;
		text += len + 1;
	}
}

static bool parse_baseline(struct perf_args *args, const char *text)
{
	char name[16];
	const char *colon = strchr(text, ':');
	size_t len = colon ? (size_t)(colon - text) : strlen(text);
	int mode;

	snprintf(name, sizeof(name), "%.*s", (int)(len < 15 ? len : 15), text);
	args->baseline = (enum perf_protocol)choose("--baseline", name, protocols, 3);
	if (!args->baseline)
		return false;
	if (!colon)
		return true;
	/* Plain sockets have no adaptive. */
	mode = choose("mode of --baseline", colon + 1, waits + PERF_ADAPTIVE, 3);
	args->baseline_wait = (enum perf_wait)(PERF_ADAPTIVE + mode);
	return mode;
}

static bool parse_option(struct perf_args *args, int c, const char *text)
{
	uint64_t n = 0;
	bool good;

	switch (c) {
	case 'S':
		return tool_parse_service(text, args->command == PERF_SERVER, &args->service,
					  &args->service_name);
	case 't':
		return tool_settings_add(&args->settings, "transports", text);
	case 'w':
		args->wait = (enum perf_wait)choose("--wait", text, waits, 4);
		return args->wait != PERF_DEFAULT_WAIT;
	case 'o':
		/* The wait mode is part of the report: it must not change behind its back. */
		if (!strncmp(text, "wait=", 5))
			return parse_option(args, 'w', text + 5);
		return tool_settings_add(&args->settings, text, NULL);
	case 's':
		return parse_sizes(args, text);
	case 'c':
		return tool_parse_range("--count", "a number", text, 1, UINT64_C(1) << 40,
					&args->count);
	case 'k':
		args->kind = (enum perf_kind)choose("--kind", text, kinds, 4);
		return args->kind != PERF_DEFAULT_KIND;
	case 'W':
		good = tool_parse_range("--window", "a number", text, 1, PERF_WINDOW_MAX, &n);
		args->window = (unsigned)n;
		return good;
	case 'j':
		args->json = text;
		if (!perf_has_json())
			tool_error("--json: this build has no JSON output: jansson was left out");
		return perf_has_json();
	case OPT_BASELINE:
		return parse_baseline(args, text);
	case OPT_ROUNDS:
		good = tool_parse_range("--rounds", "a number", text, 1, 1000, &n);
		args->rounds = (unsigned)n;
		return good;
	case OPT_PIN:
		good = tool_parse_range("--pin", "a processor", text, 0, CPU_SETSIZE - 1, &n);
		args->pin = (int)n;
		return good;
	case OPT_RATE:
		return tool_parse_range("--rate", "messages per second", text, 0, 10000000,
					&args->rate_hz);
	case OPT_PAUSE:
		return tool_parse_range("--pause", "nanoseconds", text, 0, UINT64_C(60000000000),
					&args->pause_ns);
	case OPT_BURST:
		good = tool_parse_range("--burst", "a number", text, 1, 100000, &n);
		args->burst = (unsigned)n;
		return good;
	case OPT_CSV:
		args->csv = text;
		return true;
	case OPT_QP:
		args->qp = (enum perf_qp)choose("--qp", text, qps, 4);
		return args->qp != 0;
	case OPT_OP:
		args->op = (enum perf_op)choose("--op", text, ops, 4);
		return args->op != 0;
	case OPT_DEVICE:
		args->device = text;
		return true;
	case OPT_DEPTH:
		good = tool_parse_range("--depth", "a number", text, 1, PERF_DEPTH_MAX, &n);
		args->depth = (unsigned)n;
		return good;
	case OPT_SIGNAL:
		good = tool_parse_range("--signal", "a number", text, 1, PERF_SIGNAL_MAX, &n);
		args->signal_every = (unsigned)n;
		return good;
	case OPT_INLINE:
		good = tool_parse_range("--inline", "bytes", text, 0, 65535, &n);
		args->inline_bytes = (unsigned)n;
		return good;
	case OPT_EXPERIMENT:
		args->experiment = text;
		args->command = PERF_EXPERIMENT;
		return true;
	case OPT_OUT:
		args->out = text;
		return true;
	case OPT_TIMEOUT:
		return tool_parse_range("--timeout", "milliseconds", text, 1, 3600000,
					&args->timeout_ms);
	case OPT_RETURNS:
		return args->returns = true;
	case OPT_NO_MORE:
		return args->no_more = true;
	case OPT_OWN_MEMORY:
		return args->own_memory = true;
	case OPT_VERIFY:
		return args->verify = true;
	case OPT_STOP:
		return args->stop = true;
	default:
		return false;
	}
}

static bool parse_command(struct perf_args *args, const char *word)
{
	if (!strcmp(word, "server")) {
		args->command = PERF_SERVER;
		return true;
	}
	if (!strcmp(word, "stop")) {
		args->command = PERF_STOP;
		return true;
	}
	if (!strcmp(word, "verbs")) {
		args->command = PERF_VERBS;
		args->test = PERF_PACED;
		return true;
	}
	args->command = PERF_TEST;
	for (int i = PERF_LATENCY; i <= PERF_PACED; i++) {
		if (!strcmp(word, tests[i])) {
			args->test = (enum perf_test)i;
			return true;
		}
	}
	tool_error("%s: no such command", word);
	return false;
}

/* Commands as bits: tests are 1 << enum perf_test. */
enum {
	LATENCY = 1 << PERF_LATENCY,
	RATE = 1 << PERF_RATE,
	BANDWIDTH = 1 << PERF_BANDWIDTH,
	PACED = 1 << PERF_PACED,
	TESTS = LATENCY | RATE | BANDWIDTH | PACED,
	VERBS = 32,
	STOP = 64,
	EXPERIMENT = 128,
	SERVER = 256
};

/* The options that not all commands have, and theirs. */
static const struct {
	int option;
	const char *name;
	unsigned commands;
} some[] = {
	{'s', "--size", TESTS | VERBS},
	{'c', "--count", TESTS | VERBS | EXPERIMENT},
	{'k', "--kind", TESTS},
	{'W', "--window", TESTS},
	{'j', "--json", TESTS | VERBS},
	{OPT_BASELINE, "--baseline", TESTS},
	{OPT_ROUNDS, "--rounds", TESTS},
	{OPT_RETURNS, "--returns", LATENCY},
	{OPT_NO_MORE, "--no-more", RATE},
	{OPT_OWN_MEMORY, "--own-memory", BANDWIDTH},
	{OPT_VERIFY, "--verify", TESTS},
	{OPT_TIMEOUT, "--timeout", TESTS | STOP},
	{OPT_STOP, "--stop", TESTS},
	{OPT_RATE, "--rate", PACED | VERBS},
	{OPT_BURST, "--burst", PACED | VERBS},
	{OPT_PAUSE, "--pause", PACED | VERBS},
	{OPT_CSV, "--csv", PACED | VERBS},
	{OPT_QP, "--qp", VERBS},
	{OPT_OP, "--op", VERBS},
	{OPT_DEVICE, "--device", VERBS},
	{OPT_DEPTH, "--depth", VERBS},
	{OPT_SIGNAL, "--signal", VERBS},
	{OPT_INLINE, "--inline", VERBS},
	{OPT_OUT, "--out", EXPERIMENT},
};
#define NSOME (sizeof(some) / sizeof(some[0]))

static unsigned command_bit(const struct perf_args *args)
{
	switch (args->command) {
	case PERF_SERVER:
		return SERVER;
	case PERF_STOP:
		return STOP;
	case PERF_EXPERIMENT:
		return EXPERIMENT;
	case PERF_VERBS:
		return VERBS;
	default:
		return 1U << args->test;
	}
}

/* An option without effect would make a measurement of something else. @given: bits of some[]. */
static bool fits_command(const struct perf_args *args, const char *word, unsigned given)
{
	for (unsigned i = 0; i < NSOME; i++) {
		if (given >> i & 1 && !(some[i].commands & command_bit(args))) {
			tool_error("%s: not an option of %s", some[i].name, word);
			return false;
		}
	}
	return true;
}

/* Each message carries its number, and the server keeps a moment for each. */
static bool fits_pace(struct perf_args *args)
{
	if (args->baseline)
		tool_error("--baseline: not of the paced test");
	else if (args->verify)
		tool_error("--verify: not of the paced test");
	else if (args->count > PERF_PACED_MAX)
		tool_error("--count: at most %llu in the paced test",
			   (unsigned long long)PERF_PACED_MAX);
	else {
		for (unsigned i = 0; i < args->nsizes; i++) {
			if (args->sizes[i] < 8) {
				tool_error("--size: at least 8 bytes in the paced test");
				return false;
			}
		}
		if (args->csv && args->nsizes > 1)
			tool_error("--csv: for one size at a time");
		else if (args->csv && args->json && !strcmp(args->csv, args->json))
			tool_error("--csv %s: --json has the same file", args->csv);
		else
			return true;
	}
	return false;
}

/* Limits of queue pairs and of their memory. */
static bool fits_verbs(const struct perf_args *args)
{
	for (unsigned i = 0; i < args->nsizes; i++) {
		if (args->sizes[i] > PERF_VERBS_SIZE_MAX) {
			tool_error("--size: at most %llu bytes over queue pairs alone",
				   (unsigned long long)PERF_VERBS_SIZE_MAX);
			return false;
		}
	}
	if (args->qp == PERF_UD && args->op != PERF_SEND)
		tool_error("--op %s: datagrams can only be sent", ops[args->op]);
	else if (args->op == PERF_WRITE && args->wait == PERF_BLOCK)
		tool_error("--op write: its target is not notified and can only poll; "
			   "write-imm does");
	else
		return true;
	return false;
}

/* Checks that involve more than one option. */
static int complete(struct perf_args *args)
{
	const char *wait = getenv("RIPC_WAIT");

	if (args->test == PERF_PACED && !fits_pace(args))
		return TOOL_ERROR;
	if (args->kind == PERF_DEFAULT_KIND)
		args->kind = args->test == PERF_BANDWIDTH ? PERF_LONG : PERF_AUTO;
	if (!args->nsizes) {
		args->sizes[0] = args->test == PERF_BANDWIDTH ? 1 << 20 : 64;
		args->nsizes = 1;
	}
	/* The library would take the mode from the environment: name the same one in the report. */
	if (args->wait == PERF_DEFAULT_WAIT && wait) {
		args->wait = (enum perf_wait)choose("RIPC_WAIT", wait, waits, 4);
		if (args->wait == PERF_DEFAULT_WAIT)
			return TOOL_ERROR;
	}
	if (args->wait == PERF_DEFAULT_WAIT)
		args->wait = PERF_ADAPTIVE;
	if (args->command == PERF_VERBS && args->wait == PERF_ADAPTIVE)
		args->wait = PERF_POLL;
	if (args->command == PERF_VERBS && !fits_verbs(args))
		return TOOL_ERROR;
	if (!tool_settings_add(&args->settings, "wait", waits[args->wait]))
		return TOOL_ERROR;
	if (args->baseline_wait == PERF_DEFAULT_WAIT)
		args->baseline_wait = args->wait == PERF_BLOCK ? PERF_BLOCK : PERF_POLL;
	return -1;
}

int perf_parse(struct perf_args *args, int argc, char **argv)
{
	static const struct option options[] = {
		{"service", required_argument, NULL, 'S'},
		{"transport", required_argument, NULL, 't'},
		{"wait", required_argument, NULL, 'w'},
		{"option", required_argument, NULL, 'o'},
		{"size", required_argument, NULL, 's'},
		{"count", required_argument, NULL, 'c'},
		{"kind", required_argument, NULL, 'k'},
		{"window", required_argument, NULL, 'W'},
		{"json", required_argument, NULL, 'j'},
		{"pin", required_argument, NULL, OPT_PIN},
		{"baseline", required_argument, NULL, OPT_BASELINE},
		{"rounds", required_argument, NULL, OPT_ROUNDS},
		{"returns", no_argument, NULL, OPT_RETURNS},
		{"no-more", no_argument, NULL, OPT_NO_MORE},
		{"own-memory", no_argument, NULL, OPT_OWN_MEMORY},
		{"verify", no_argument, NULL, OPT_VERIFY},
		{"timeout", required_argument, NULL, OPT_TIMEOUT},
		{"rate", required_argument, NULL, OPT_RATE},
		{"pause", required_argument, NULL, OPT_PAUSE},
		{"burst", required_argument, NULL, OPT_BURST},
		{"csv", required_argument, NULL, OPT_CSV},
		{"experiment", required_argument, NULL, OPT_EXPERIMENT},
		{"qp", required_argument, NULL, OPT_QP},
		{"op", required_argument, NULL, OPT_OP},
		{"device", required_argument, NULL, OPT_DEVICE},
		{"depth", required_argument, NULL, OPT_DEPTH},
		{"signal", required_argument, NULL, OPT_SIGNAL},
		{"inline", required_argument, NULL, OPT_INLINE},
		{"out", required_argument, NULL, OPT_OUT},
		{"stop", no_argument, NULL, OPT_STOP},
		{"version", no_argument, NULL, 'V'},
		{"help", no_argument, NULL, 'h'},
		{NULL, 0, NULL, 0},
	};
	const char *word = "--experiment";
	unsigned given = 0;
	int c;

	memset(args, 0, sizeof(*args));
	args->service = PERF_SERVICE;
	args->rounds = 5;
	args->rate_hz = 1000;
	args->burst = 1;
	args->window = 8;
	args->pin = -1;
	args->qp = PERF_RC;
	args->op = PERF_SEND;
	args->depth = 512;
	args->signal_every = 1;
	args->timeout_ms = 10000;
	if (argc > 1 && argv[1][0] != '-') {
		if (!parse_command(args, argv[1]))
			return TOOL_ERROR;
		word = argv[1];
		argv++;
		argc--;
	} else if (argc < 2) {
		tool_error("a command is missing");
		usage(stderr);
		return TOOL_ERROR;
	}
	/* Option errors of getopt name argv[0]. */
	argv[0] = (char *)tool_name;
	while ((c = getopt_long(argc, argv, "S:t:w:p:o:s:c:k:W:j:Vh", options, NULL)) != -1) {
		if (c == 'V') {
			printf("%s %s\n", tool_name, ripc_version());
			return TOOL_OK;
		}
		if (c == 'h') {
			usage(stdout);
			return TOOL_OK;
		}
		if (c == '?') {
			usage(stderr);
			return TOOL_ERROR;
		}
		if (!parse_option(args, c == 'p' ? OPT_PIN : c, optarg))
			return TOOL_ERROR;
		for (unsigned i = 0; i < NSOME; i++)
			given |= (unsigned)(c == some[i].option) << i;
	}
	if (optind != argc) {
		tool_error("%s: not expected", argv[optind]);
		return TOOL_ERROR;
	}
	if (!args->command) {
		tool_error("the command must come first: server, latency, rate, bandwidth, paced, "
			   "verbs or stop");
		return TOOL_ERROR;
	}
	return fits_command(args, word, given) ? complete(args) : TOOL_ERROR;
}
