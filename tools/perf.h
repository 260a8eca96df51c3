/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* ripc-perf: what its parts share. */
#ifndef RIPC_TOOLS_PERF_H
#define RIPC_TOOLS_PERF_H

#include "histogram.h"
#include "ripc.h"
#include "tool.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define PERF_SERVICE        UINT64_C(7475) /* the id when none is named */
#define PERF_SIZES_MAX      32
#define PERF_SIZE_LIMIT     (UINT64_C(1) << 40)
#define PERF_WINDOW_MAX     256
#define PERF_DRAIN_MS       200 /* silence after which what did not arrive counts as lost */
#define PERF_PACED_MAX      (UINT64_C(1) << 24) /* messages of one paced test */
#define PERF_STALL_MS       10000               /* silence after which a partner counts as gone */
#define PERF_DEPTH_MAX      16384               /* of a receive queue of verbs */
#define PERF_VERBS_SIZE_MAX (UINT64_C(1) << 18)
#define PERF_SIGNAL_MAX     256 /* half of a send queue of verbs */

enum perf_command {
	PERF_NO_COMMAND = 0,
	PERF_SERVER,
	PERF_TEST,
	PERF_STOP,
	PERF_EXPERIMENT,
	PERF_VERBS
};
enum perf_test { PERF_LATENCY = 1, PERF_RATE = 2, PERF_BANDWIDTH = 3, PERF_PACED = 4 };
enum perf_kind { PERF_DEFAULT_KIND = 0, PERF_SHORT = 1, PERF_LONG = 2, PERF_AUTO = 3 };
enum perf_wait { PERF_DEFAULT_WAIT = 0, PERF_ADAPTIVE = 1, PERF_POLL = 2, PERF_BLOCK = 3 };
enum perf_qp { PERF_RC = 1, PERF_UC = 2, PERF_UD = 3 };
enum perf_op { PERF_SEND = 1, PERF_WRITE = 2, PERF_WRITE_IMM = 3 };
enum perf_protocol { PERF_NO_BASELINE = 0, PERF_TCP = 1, PERF_UDP = 2 };

/* The command line. */
struct perf_args {
	enum perf_command command;
	enum perf_test test;
	uint64_t service;
	const char *service_name; /* NULL: it was given by its id */
	uint64_t sizes[PERF_SIZES_MAX];
	unsigned nsizes;
	uint64_t count;  /* messages per size; 0: chosen by size */
	unsigned rounds; /* parts a measurement is cut into, ours and the baseline in turn */
	unsigned window; /* long messages in flight in the bandwidth test */
	enum perf_kind kind;
	enum perf_wait wait; /* as set; never PERF_DEFAULT_WAIT after parsing */
	enum perf_protocol baseline;
	enum perf_wait baseline_wait; /* PERF_POLL or PERF_BLOCK */
	const char *json;             /* file, "-" for standard output, or NULL */
	FILE *json_file, *csv_file;   /* open before anything is measured; NULL: not wanted */
	int pin;                      /* processor, or -1 */
	uint64_t timeout_ms; /* how long to wait for the server to be there and to answer */
	uint64_t rate_hz;    /* of the paced test; 0: as fast as it goes */
	uint64_t pause_ns;   /* after each of its messages */
	unsigned burst;      /* of its messages that are due at once */
	const char *csv;     /* one row per message of the paced test, or NULL */
	const char *experiment, *out; /* a name, or "list"; a directory for reports, or NULL */
	/* Of queue pairs alone. */
	enum perf_qp qp;
	enum perf_op op;
	const char *device;    /* NULL: the first one that will do */
	unsigned depth;        /* of the receive queue */
	unsigned signal_every; /* one of so many sends has a completion */
	unsigned inline_bytes; /* messages up to this travel in the request */
	bool verify, returns, no_more, own_memory, stop;
	struct tool_settings settings;
};

/* One message of a paced test; a moment is 0 if it did not come. */
struct perf_sample {
	uint64_t due_ns, sent_ns, received_ns;
	bool refused; /* the transport could not take it */
};

/*
 * The results of one side of one comparison. All but @rtt are sums over the rounds. Paced: @rtt has
 * times of one way.
 */
struct perf_figures {
	struct histogram *rtt; /* latency and paced only, else NULL */
	uint64_t count;        /* messages sent, or round trips tried */
	uint64_t lost;         /* of these */
	uint64_t missed;       /* paced: the generator was a period late, and did not send */
	uint64_t refused;      /* paced: the transport had no room in time */
	uint64_t late;         /* paced: took longer than a period */
	uint64_t bytes;        /* payload that arrived */
	uint64_t elapsed_ns;
	double cpu_s; /* both processes */
};

struct perf_result {
	uint64_t size;
	enum perf_kind kind; /* PERF_SHORT or PERF_LONG: what was in fact sent */
	char transport[24], reason[512];
	bool same_clock; /* paced: one-way times are known */
	bool has_baseline;
	struct perf_figures ours, baseline;
};

const char *perf_test_name(enum perf_test test);
const char *perf_kind_name(enum perf_kind kind);
const char *perf_wait_name(enum perf_wait wait);
const char *perf_protocol_name(enum perf_protocol protocol);
const char *perf_qp_name(enum perf_qp qp);
const char *perf_op_name(enum perf_op op);

/* perf_args.c. Return: -1 to go on, else the exit code of the process. */
int perf_parse(struct perf_args *args, int argc, char **argv);

/* perf_server.c, perf_client.c. Return: the exit code of the process. */
int perf_serve(struct ripc *ctx, const struct perf_args *args);
int perf_run(struct ripc *ctx, const struct perf_args *args);

/* perf_experiment.c: starts servers and tests of its own. Return: the exit code of the process. */
int perf_experiment(const struct perf_args *args);

/* perf_verbs.c: the paced test over queue pairs alone. Return: the exit code of the process. */
int perf_verbs(const struct perf_args *args);

/*
 * perf_samples.c: evaluates the times of messages, and writes them as CSV. Return: 0, or -EIO with
 * an error message.
 */
void perf_wait_until(const struct perf_args *args, uint64_t ns);
void perf_evaluate(const struct perf_args *args, uint64_t size, const struct perf_sample *samples,
		   uint64_t count, bool same_clock, struct perf_figures *figures);
int perf_write_samples(const struct perf_args *args, const struct perf_sample *samples,
		       uint64_t count, bool same_clock);

/* perf_payload.c: message @number of a test holds a pattern of its own, whatever its size. */
void perf_fill(void *buf, size_t len, uint64_t number);
bool perf_check(const void *buf, size_t len, uint64_t number);

/* perf_report.c. The JSON goes to @args->json. Return: 0, or -1 with an error message. */
bool perf_has_table(const struct perf_args *args); /* no report goes to standard output */
void perf_print_head(const struct perf_args *args);
void perf_print(const struct perf_args *args, const struct perf_result *result);
int perf_write_json(const struct perf_args *args, const struct perf_result *results, unsigned n);
bool perf_has_json(void);

#endif
