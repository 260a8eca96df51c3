/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A path: joins the samples of its sources and passes them through hooks to its destinations. */
#ifndef RIPC_GATEWAY_PATH_H
#define RIPC_GATEWAY_PATH_H

#include "gateway.h"
#include "ticker.h"

struct path {
	const struct path_plan *plan;
	struct gateway *gateway;
	struct hooks hooks;
	/* Last sample of each source; bit i of fresh: it came after the last joined one. */
	struct sample last[PLAN_SOURCES_MAX];
	unsigned fresh;
	bool begun;
	uint64_t next_sequence;
	uint64_t forwarded;
	/* Samples before the hooks: all, and at the last tick. */
	uint64_t joined, joined_before;
	/* Values that did not fit into a joined sample. */
	uint64_t cut;
	struct ticker ticker;
};

/* Return: 0 or a negative errno. */
int path_start(struct path *path);
void path_stop(struct path *path);

/* Does nothing if node @number is no source of the path. */
void path_deliver(struct path *path, unsigned number, const struct sample *sample);

#endif
