/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Hooks: functions that change, count or drop the samples that pass. */
#ifndef RIPC_GATEWAY_HOOK_H
#define RIPC_GATEWAY_HOOK_H

#include "flow.h"
#include "plan.h"

struct hook {
	const struct hook_plan *plan;
	uint64_t seen, passed;
	int64_t last_ns; /* limit_rate: when a sample passed; jitter: latency of the last */
	int64_t first_ns;
	double jitter_ns;
	struct flow flow;
};

struct hooks {
	unsigned n;
	struct hook hook[PLAN_HOOKS_MAX];
	uint64_t dropped;
};

/* Return: false if out of memory. */
bool hooks_init(struct hooks *hooks, const struct hooks_plan *plan);
void hooks_free(struct hooks *hooks);

/* Runs all in order. Allocates nothing. @now_ns: since 1970. Return: false if one drops it. */
bool hooks_run(struct hooks *hooks, struct sample *sample, int64_t now_ns);

/* Prints what the hooks stats and jitter have found. */
void hooks_print(const struct hooks *hooks, const char *name, FILE *out);

#endif
