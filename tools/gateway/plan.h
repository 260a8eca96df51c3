/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The configuration of a gateway: nodes, the paths between them, and their hooks, checked.
 *
 * The syntax is that of libconfig or JSON, as of VILLASnode, and the keys are a subset of
 * VILLASnode's. libconfig gives the line of every setting, so JSON is translated to its syntax.
 */
#ifndef RIPC_GATEWAY_PLAN_H
#define RIPC_GATEWAY_PLAN_H

#include "text.h"

#include <stdbool.h>
#include <stdint.h>

enum {
	PLAN_NAME_MAX = 63,
	PLAN_TEXT_MAX = 255,
	PLAN_NODES_MAX = 32,
	PLAN_PATHS_MAX = 32,
	PLAN_SOURCES_MAX = 8,
	PLAN_HOOKS_MAX = 8,
	PLAN_ERROR_MAX = 1024,
};

enum hook_type {
	HOOK_DECIMATE,
	HOOK_LIMIT_RATE,
	HOOK_SKIP_FIRST,
	HOOK_STATS,
	HOOK_TS,
	HOOK_JITTER,
};

enum rate_clock { RATE_LOCAL, RATE_ORIGIN, RATE_RECEIVED };

struct hook_plan {
	enum hook_type type;
	/* decimate */
	uint64_t ratio;
	bool renumber;
	/* limit_rate */
	double rate;
	enum rate_clock clock;
	/* skip_first: samples if it is not 0, else seconds */
	uint64_t samples;
	double seconds;
};

struct hooks_plan {
	unsigned n;
	struct hook_plan hook[PLAN_HOOKS_MAX];
};

enum node_type {
	NODE_SIGNAL,
	NODE_FILE,
	NODE_STDIO,
	NODE_SOCKET,
	NODE_RIPC,
	NODE_ZEROMQ,
	NODE_NANOMSG,
	NODE_TYPES
};
enum signal_form {
	SIGNAL_SINE,
	SIGNAL_SQUARE,
	SIGNAL_TRIANGLE,
	SIGNAL_RAMP,
	SIGNAL_COUNTER,
	SIGNAL_CONSTANT,
	SIGNAL_RANDOM,
	SIGNAL_MIXED,
};
enum file_eof { EOF_STOP, EOF_REWIND };

/* One side of a node with the groups in and out. */
struct end_plan {
	bool present;
	/* socket */
	char host[PLAN_TEXT_MAX + 1];
	char port[8];
	/* ripc: a name, or an id if the name is empty; or a group */
	char service[PLAN_TEXT_MAX + 1];
	uint64_t id;
	uint64_t group;
	/* ripc, zeromq, nanomsg: poll without waiting */
	bool spin;
	/* zeromq, nanomsg */
	char url[PLAN_TEXT_MAX + 1];
};

struct node_plan {
	char name[PLAN_NAME_MAX + 1];
	enum node_type type;
	unsigned line;
	/* signal; file: rate 0 is the recorded one */
	double rate, frequency, amplitude, stddev, offset, phase;
	enum signal_form form;
	unsigned values;
	uint64_t limit; /* 0: none */
	/* file, stdio */
	char uri[PLAN_TEXT_MAX + 1];
	bool continued; /* not of the configuration: it is written already, append to it */
	enum text_format format;
	enum file_eof eof;
	/* socket, ripc, zeromq, nanomsg */
	struct end_plan in, out;
	struct hooks_plan in_hooks, out_hooks;
};

struct path_plan {
	unsigned line;
	unsigned nin, nout;
	/* numbers of nodes */
	unsigned in[PLAN_SOURCES_MAX], out[PLAN_SOURCES_MAX];
	/* mode all: each source of the mask has a new sample; else any of them */
	bool all;
	/* bit i: source i triggers the path */
	unsigned mask;
	double rate; /* 0: none */
	struct hooks_plan hooks;
};

struct plan {
	unsigned nnodes, npaths;
	struct node_plan node[PLAN_NODES_MAX];
	struct path_plan path[PLAN_PATHS_MAX];
	uint64_t affinity; /* bit mask of processors, 0: any */
	int priority;      /* of SCHED_FIFO, 0: none */
	/* lines "FILE:LINE: text" about keys without effect */
	char warnings[PLAN_ERROR_MAX];
};

/*
 * Reads a configuration. @file is its name in messages. Does no I/O, unless the text has @include.
 * Return: 0, -EINVAL or -ENOMEM; @error, of PLAN_ERROR_MAX bytes, is a sentence then.
 */
int plan_parse(struct plan *plan, const char *file, const char *text, char *error);

/* Reads the file into memory and parses it. Return: as above, or the error of open() or read(). */
int plan_load(struct plan *plan, const char *file, char *error);

#endif
